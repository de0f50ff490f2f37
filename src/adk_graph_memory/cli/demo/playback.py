"""Play a conversation into a memory, ask it questions, and show what its owner can do."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from google.adk.sessions.session import Session
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import track
from rich.table import Table

from adk_graph_memory.adk.importing.chats.conversation import Conversation, ConversationQuestion
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.adk.session_service import Neo4jSessionService
from adk_graph_memory.graph import listings, writing
from adk_graph_memory.language.dates import TIMEZONE_KEY
from adk_graph_memory.language.detection import detect_language
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.memory.user_memory import UserMemory
from adk_graph_memory.records.facts import AsOf
from adk_graph_memory.records.results import IngestReport, Receipt, Recollection, StoredFact
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import Turn

MAX_ENTRIES = 6
"""Lines of a fact's history that are printed."""
GUEST_WORDS = "The spare key lies under the fern."


async def show_owner_methods(user: UserMemory, console: Console) -> None:
    """Print one history, one look back, one correction and one receipt; what is changed is taken back at the end."""
    facts = [fact async for fact in user.facts(past=True)]
    if not facts:
        return
    console.print("\n[bold]What its owner can do[/]")
    fact = _choose_example(facts)
    history = await user.history(fact.id)
    rows = []
    for entry in history.entries[:MAX_ENTRIES]:
        by = f"by {entry.by.split('@')[0]}" if entry.by else ""
        quote = f"“{entry.quote}”" if entry.quote else ""
        rows.append((entry.kind, " · ".join(filter(None, (quote, entry.reason, by)))))
    _print_section(console, f"why: {fact.text} ({fact.state})", rows)
    await _look_back(user, fact, console)
    await _correct_fact(user, next(item for item in facts if item.holds), console)
    scope = user.scope
    await _forget_guest(UserMemory(user.engine, Scope(scope.app_name, f"{scope.user_id}-guest")), console)


def _choose_example(facts: list[StoredFact]) -> StoredFact:
    """Choose a fact that ended: one in English and in whose place a single fact stands now, if there are such."""
    current = Counter((fact.subject, fact.predicate) for fact in facts if fact.holds)

    def rate(fact: StoredFact) -> tuple[bool, ...]:
        is_ended = fact.state == "superseded" and fact.modality == "asserted"
        return is_ended, current[fact.subject, fact.predicate] == 1, detect_language(fact.text, "en") == "en"

    return max(facts, key=rate)


async def _look_back(user: UserMemory, fact: StoredFact, console: Console) -> None:
    rows, then = list[tuple[str, str]](), fact.at
    for name, moment in ((f"{then:%Y-%m-%d}", then), ("now", datetime.now(UTC))):
        listing = [item async for item in user.facts(about=fact.subject, as_of=AsOf(valid=moment))]
        texts = [item.text for item in listing if item.predicate == fact.predicate]
        rows.append((name, " / ".join(texts[:3]) or "nothing of the kind"))
    _print_section(console, "as of a time", rows)


async def _correct_fact(user: UserMemory, fact: StoredFact, console: Console) -> None:
    text = f"{fact.text.rstrip('.')}, as far as I know."
    change = await user.correct(fact.id, text=text, reason="put with more care")
    rows = [
        ("was", f"{item.before.text} ({item.before.state})") if item.before else ("is", text)
        for item in change.facts
        if item.before is None or (item.after and item.after.state == "retracted")
    ]
    await user.undo(change.ingest_id)
    _print_section(console, "corrected, and taken back again", sorted(rows, reverse=True))


async def _forget_guest(guest: UserMemory, console: Console) -> None:
    """Remember a guest, and forget them; the conversation stays for the next run."""
    turn = Turn(uuid4().hex, "guest", GUEST_WORDS, datetime.now(UTC))
    await guest.enqueue([turn], session_id="visit")
    receipt = await guest.forget_user(sessions=True)
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


DISPLAY_LIMIT, SEARCH_LIMIT = 3, 10
"""Memories that each question prints, and that it retrieves to rank the evidence."""
MAX_QUOTED_FACTS = 10_000
"""Facts whose quotes are loaded, so that one in the question's language can be shown."""


@dataclass(frozen=True)
class DemoResult:
    """The memory's owner, what the graph holds, the facts by operation, and how many questions found their evidence.

    ``hits_in_three`` counts the answerable questions with evidence among the first three memories.
    """

    app_name: str
    user_id: str
    memory_counts: dict[str, int]
    facts: dict[str, int]
    model_calls: int
    answerable_questions: int
    hits_in_three: int
    hits_in_ten: int


async def play_conversation(
    conversation: Conversation,
    *,
    sessions: Neo4jSessionService,
    memory: GraphMemory,
    console: Console,
    questions: int | None = None,
) -> DemoResult:
    """Store the conversation, remember it and ask its questions; what an earlier run stored is not stored again.

    Args:
        conversation: the sessions and questions.
        sessions: stores the sessions.
        memory: remembers them; on the same graph as ``sessions``.
        console: the screen.
        questions: the number of questions to ask, from the first; None for all.
    """
    app_name = f"{conversation.app_name}-{memory.engine.extractor.version.split('@')[0].split()[0]}"
    user = memory.user(app_name, conversation.user_id)
    turn_count = sum(len(session.turns) for session in conversation.sessions)
    console.print(f"[bold]{escape(conversation.title)}[/]: {len(conversation.sessions)} sessions, {turn_count} turns")
    if conversation.about:
        console.print(Padding(escape(conversation.about), (0, 2)), style="dim")
    stored_sessions, storage = await _store_sessions(conversation, user.scope, sessions, console)
    ingest, seconds = await _remember_sessions(stored_sessions, memory, console)
    counts = await writing.count_memories(user.graph)
    console.print(_render_totals(storage, ingest, seconds, counts, memory.engine.extractor.version))
    console.print(_render_changes(await writing.fetch_changed_facts(user.graph)))
    # All quotes of each fact; a search returns only one.
    facts = await listings.fetch_facts(user.graph, now=datetime.now(UTC), past=True, limit=MAX_QUOTED_FACTS)
    quotes = {fact.id: [source.quote for source in fact.sources] for fact in facts}
    ranks: list[int | None] = []
    console.print("\n[bold]What it remembers[/]  [dim]([green]●[/] rests on the words that hold the answer)[/]")
    for question in conversation.questions[:questions]:
        rank = await _ask_question(user, question, quotes, console)
        if question.evidence:
            ranks.append(rank)
    in_three = sum(rank < DISPLAY_LIMIT for rank in ranks if rank is not None)
    in_ten = sum(rank < SEARCH_LIMIT for rank in ranks if rank is not None)
    if ranks:
        console.print(
            f"\nOf {len(ranks)} questions that have an answer, [bold]{in_three}[/] show it among the first "
            f"{DISPLAY_LIMIT} memories, [bold]{in_ten}[/] have it among the first {SEARCH_LIMIT}."
        )
    await show_owner_methods(user, console)
    console.print(_format_hints(user.scope), soft_wrap=True)  # commands to paste must stay on one line
    return DemoResult(
        app_name,
        conversation.user_id,
        counts,
        dict(ingest.facts),
        ingest.usage.calls,
        len(ranks),
        in_three,
        in_ten,
    )


async def _store_sessions(
    conversation: Conversation, scope: Scope, sessions: Neo4jSessionService, console: Console
) -> tuple[list[Session], str]:
    """Store the sessions; return them, and how many events that took how long."""
    stored_sessions, event_count, start = list[Session](), 0, time.perf_counter()
    app, user, state = scope.app_name, scope.user_id, {TIMEZONE_KEY: conversation.timezone}
    for source in track(conversation.sessions, "Storing sessions", console=console, transient=True):
        session = await sessions.get_session(app_name=app, user_id=user, session_id=source.id)
        if session is None:
            session = await sessions.create_session(app_name=app, user_id=user, session_id=source.id, state=state)
        for event in source.make_events()[len(session.events) :]:
            await sessions.append_event(session, event)
            event_count += 1
        stored_sessions.append(session)
    return stored_sessions, f"{event_count} events in {time.perf_counter() - start:.1f} s"


async def _remember_sessions(
    sessions: Sequence[Session], memory: GraphMemory, console: Console
) -> tuple[IngestReport, float]:
    """Remember the sessions; return the sum of the reports, and the seconds it took."""
    with console.status("Loading the embedder"):
        await memory.prepare()
    service, total, start = Neo4jMemoryService(memory=memory), IngestReport(), time.perf_counter()
    for session in track(sessions, "Remembering", console=console, transient=True):
        total += await service.remember(session)
    return total, time.perf_counter() - start


def _render_totals(storage: str, ingest: IngestReport, seconds: float, counts: dict[str, int], version: str) -> Table:
    table = Table(title="What the graph holds", title_justify="left", title_style="bold", show_edge=False)
    for column in ("", "in all", "new in this run"):
        table.add_column(column, justify="right" if column == "in all" else "left")
    table.add_row("sessions", str(counts["sessions"]), storage)
    table.add_row("turns remembered", str(counts["turns"]), f"{ingest.turns} in {seconds:.1f} s")
    table.add_row("entities", str(counts["entities"]), "")
    table.add_row("facts", str(counts["facts"]), str(ingest.facts.get("ADD", 0)))
    table.add_row("model calls", "", f"{ingest.usage.calls} ({version.split()[0]})")
    if dropped_count := sum(ingest.dropped.values()):
        table.add_row("[dim]dropped from replies[/]", "", f"[dim]{dropped_count}, for they do not fit what was said[/]")
    return table


_CHANGE_TITLES = {
    "SUPERSEDE": "ended: the world changed",
    "RETRACT": "corrected: it was never true",
    "REFINE": "refined: said more exactly",
    "REINFORCE": "reinforced: heard again",
}


def _render_changes(facts: Sequence[dict[str, Any]]) -> Padding:
    """Show an example of each kind of change, with its quotes and its revision."""
    table = Table(title="How facts changed", title_justify="left", title_style="bold", show_header=False, box=None)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(ratio=1)
    for op, title in _CHANGE_TITLES.items():
        examples = [fact for fact in facts if _is_changed_by(fact, op)]
        if not examples:
            continue
        fact = max(examples, key=_rate_example)
        table.add_row(f"{title} ({len(examples)})", escape(fact["text"]))
        table.add_row("", "[dim]" + " / ".join(f"“{escape(quote)}”" for quote in fact["quotes"][:2]) + "[/]")
        if op in ("SUPERSEDE", "RETRACT"):
            day = fact["valid_to"].strftime(" %Y-%m-%d") if fact["valid_to"] else ""
            what = f"until{day}; since then:" if op == "SUPERSEDE" and day else f"corrected{day}:"
            table.add_row("", f"[dim]{what}[/] {escape(''.join(fact['ended_by']))}")
        if revision := next((revision for revision in fact["revisions"] if revision["op"] == op), None):
            before = f"before: {revision['text']}" if revision["text"] != fact["text"] else ""
            details = " · ".join(filter(None, (before, revision["reason"] or f"by {revision['by']}")))
            table.add_row("", f"[dim]revision:[/] {escape(details)}")
    return Padding(table, (1, 0, 0, 1))


def _rate_example(fact: Mapping[str, Any]) -> tuple[bool, int]:
    """Prefer a fact in the language of the page, and one whose changes have reasons."""
    return detect_language(fact["text"], "en") == "en", sum(bool(revision["reason"]) for revision in fact["revisions"])


def _is_changed_by(fact: dict[str, Any], op: str) -> bool:
    if op == "REINFORCE":
        return fact["state"] == "current" and len(fact["quotes"]) > 1
    if op == "REFINE":
        return any(revision["op"] == op for revision in fact["revisions"])
    return bool(fact["state"] == {"SUPERSEDE": "superseded", "RETRACT": "retracted"}[op])


async def _ask_question(
    user: UserMemory, question: ConversationQuestion, quotes: Mapping[str, Sequence[str]], console: Console
) -> int | None:
    """Print a question with its memories; return the rank (from 0) of the first memory from its evidence."""
    start = time.perf_counter()
    recollections = await user.recall(question.question, limit=SEARCH_LIMIT)
    milliseconds = 1_000 * (time.perf_counter() - start)
    evidence = set(question.evidence)
    console.print(f"\n[bold cyan]? {escape(question.question)}[/]  [dim]{milliseconds:.0f} ms[/]")
    if question.answer:
        console.print(f"  [dim]expected: {escape(question.answer)}[/]")
    table = Table.grid(padding=(0, 1))
    for ratio in (None, None, 1):
        table.add_column(ratio=ratio, no_wrap=ratio is None)
    is_evidence = [not evidence.isdisjoint(recollection.source_event_ids) for recollection in recollections]
    for recollection, is_marked in zip(recollections[:DISPLAY_LIMIT], is_evidence, strict=False):
        quote = _choose_quote(recollection, quotes.get(recollection.id, ()), question.question)
        table.add_row(*_format_memory(recollection, quote, is_evidence=is_marked))
    console.print(Padding(table, (0, 0, 0, 2)))
    rank = is_evidence.index(True) if True in is_evidence else None
    if note := _describe_outcome(rank, has_answer=bool(evidence), is_empty=not recollections):
        console.print(f"  {note}")
    return rank


def _describe_outcome(rank: int | None, *, has_answer: bool, is_empty: bool) -> str:
    """Say what a reader cannot see: that the answer is not among the memories shown, or that there is none."""
    if not has_answer:
        return "[dim]nobody said it" + ("[/]" if is_empty else "; these memories are the nearest[/]")
    if rank is None:
        return f"[yellow]✗ not found[/] [dim]among the first {SEARCH_LIMIT} memories[/]"
    if rank >= DISPLAY_LIMIT:
        return f"[yellow]✗ not found[/] [dim]among the first {DISPLAY_LIMIT} memories; it is number {rank + 1}[/]"
    return ""


def _choose_quote(memory: Recollection, quotes: Sequence[str], question: str) -> str | None:
    """The memory's quote: one in the question's language where people said it in several."""
    language = detect_language(question)
    if memory.quote is None or detect_language(memory.quote, language) == language:
        return memory.quote
    return next((quote for quote in quotes if detect_language(quote, language) == language), memory.quote)


def _format_memory(memory: Recollection, quote: str | None, *, is_evidence: bool) -> tuple[str, str, str]:
    mark = "[green]●[/]" if is_evidence else "[dim]·[/]"
    date = memory.at.strftime("%Y-%m-%d") if memory.at else ""
    text = escape(memory.prompt_text)
    if quote and quote != memory.text:
        text += f"\n[dim]“{escape(quote)}”[/]"
    return mark, f"[dim]{date} {memory.kind:<5}[/] {escape(memory.author or '')}:", text


def _format_hints(scope: Scope) -> str:
    options = f"--app {scope.app_name} --user {scope.user_id}"
    command = escape(_find_command())
    return (
        "\n[bold]Ask it yourself[/]\n"
        f'  {command} recall "Where does Franzi work?" {options} --explain\n'
        f"  {command} facts {options} --all\n"
        f"  {command} entities {options}\n"
        "\n[bold]Next: the same memory for an agent of yours[/]\n"
        "  from adk_graph_memory import GraphMemoryPlugin, Neo4jMemoryService\n"
        "  Runner(app=App(…, plugins=\\[GraphMemoryPlugin()]), memory_service=Neo4jMemoryService(), …)\n"
        "\n[bold]Look into it in a browser[/]\n"
        f"  {command} inspect {options}"
    )


def _find_command() -> str:
    """Return the command as a user can type it; ``make demo`` runs one that is not on the PATH."""
    command = Path(sys.argv[0])
    path = shutil.which(command.name)
    is_on_path = path is not None and os.path.realpath(path) == os.path.realpath(command)
    return command.name if is_on_path else os.path.relpath(command)
