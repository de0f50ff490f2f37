"""Show what the owner of a memory can do: see why, look back, correct and forget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from adk_graph_memory.language.detection import detect_language
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import AsOf, Receipt, Scope, StoredFact, Turn
from adk_graph_memory.records.history import HistoryEntry

MAX_ENTRIES = 6
"""Lines of a fact's history that are printed."""
GUEST_WORDS = "The spare key lies under the fern."


async def show_owner_methods(scope: Scope, memory: GraphMemory, console: Console) -> None:
    """Print one history, one look back, one correction and one receipt; what is changed is taken back at the end."""
    owner: dict[str, Any] = {"app_name": scope.app_name, "user_id": scope.user_id}
    facts = [fact async for fact in memory.facts(**owner, past=True)]
    if not facts:
        return
    console.print("\n[bold]What its owner can do[/]")
    fact = _choose_example(facts)
    history = await memory.history(fact.id, **owner)
    _print_section(console, f"why: {fact.text} ({fact.state})", map(_format_entry, history.entries[:MAX_ENTRIES]))
    await _look_back(fact, owner, memory, console)
    await _correct_fact(next(item for item in facts if item.holds), owner, memory, console)
    await _forget_guest(Scope(scope.app_name, f"{scope.user_id}-guest"), memory, console)


def _choose_example(facts: list[StoredFact]) -> StoredFact:
    """Choose a fact that ended: one in English and in whose place a single fact stands now, if there are such."""
    current = Counter((fact.subject, fact.predicate) for fact in facts if fact.holds)

    def rate(fact: StoredFact) -> tuple[bool, ...]:
        is_ended = fact.state == "superseded" and fact.modality == "asserted"
        return is_ended, current[fact.subject, fact.predicate] == 1, detect_language(fact.text, "en") == "en"

    return max(facts, key=rate)


def _format_entry(entry: HistoryEntry) -> tuple[str, str]:
    by = f"by {entry.by.split('@')[0]}" if entry.by else ""
    quote = f"“{entry.quote}”" if entry.quote else ""
    return entry.kind, " · ".join(filter(None, (quote, entry.reason, by)))


async def _look_back(fact: StoredFact, owner: dict[str, Any], memory: GraphMemory, console: Console) -> None:
    rows, then = list[tuple[str, str]](), fact.at
    for name, moment in ((f"{then:%Y-%m-%d}", then), ("now", datetime.now(UTC))):
        listing = [item async for item in memory.facts(**owner, about=fact.subject, as_of=AsOf(valid=moment))]
        texts = [item.text for item in listing if item.predicate == fact.predicate]
        rows.append((name, " / ".join(texts[:3]) or "nothing of the kind"))
    _print_section(console, "as of a time", rows)


async def _correct_fact(fact: StoredFact, owner: dict[str, Any], memory: GraphMemory, console: Console) -> None:
    text = f"{fact.text.rstrip('.')}, as far as I know."
    change = await memory.correct(fact.id, text=text, reason="put with more care", **owner)
    rows = [
        ("was", f"{item.before.text} ({item.before.state})") if item.before else ("is", text)
        for item in change.facts
        if item.before is None or (item.after and item.after.state == "retracted")
    ]
    await memory.undo(change.ingest_id, **owner)
    _print_section(console, "corrected, and taken back again", sorted(rows, reverse=True))


async def _forget_guest(scope: Scope, memory: GraphMemory, console: Console) -> None:
    """Remember a guest, and forget them; the conversation stays for the next run."""
    guest: dict[str, Any] = {"app_name": scope.app_name, "user_id": scope.user_id}
    turn = Turn(uuid4().hex, "guest", GUEST_WORDS, datetime.now(UTC))
    await memory.enqueue([turn], session_id="visit", **guest)
    receipt = await memory.forget_user(**guest, sessions=True)
    _print_section(console, "a guest forgotten, with a receipt that holds no words", [("receipt", _describe(receipt))])


def _describe(receipt: Receipt) -> str:
    stays = ", ".join(f"{kind}: {count}" for kind, count in receipt.stays.items())
    counts = {"events": receipt.events, "facts": receipt.facts, "sessions": receipt.sessions}
    gone = ", ".join(f"{kind}: {count}" for kind, count in counts.items())
    return f"forgotten at {receipt.at:%Y-%m-%d %H:%M}: {gone}" + (f"; what stays: {stays}" if stays else "")


def _print_section(console: Console, title: str, rows: Iterable[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(ratio=1)
    for label, text in rows:
        table.add_row(escape(label), escape(text))
    console.print(Padding(f"[cyan]{escape(title)}[/]", (1, 0, 0, 2)))
    console.print(Padding(table, (0, 0, 0, 4)))
