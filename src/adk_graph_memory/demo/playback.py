"""A conversation and a memory go in; what was stored and what is recalled goes to the screen."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import track
from rich.table import Table

from adk_graph_memory import graph
from adk_graph_memory.adk import Neo4jSessionService, memory_codec
from adk_graph_memory.demo.conversation import Conversation, ConversationQuestion
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import IngestReport, Recollection, Scope, Usage

DISPLAY_LIMIT, SEARCH_LIMIT = 3, 10
"""Memories printed for each question, and looked at for the count at the end."""


@dataclass(frozen=True)
class DemoResult:
    """Whose memory the demo has filled, what it holds, what this run changed, and how its questions were answered."""

    app_name: str
    user_id: str
    held: dict[str, int]
    facts: dict[str, int]
    model_calls: int
    answerable: int
    among_three: int
    among_ten: int


async def play_conversation(
    conversation: Conversation,
    *,
    sessions: Neo4jSessionService,
    memory: GraphMemory,
    console: Console,
    questions: int | None = None,
) -> DemoResult:
    """Stores the conversation, remembers it and asks its questions; what an earlier run stored is not stored again.

    Args:
        conversation: what was said, and what to ask.
        sessions: where the sessions go.
        memory: what is to remember them; both on the same graph.
        console: the screen.
        questions: how many of the questions; None for all.

    Returns:
        What it came to.
    """
    app_name = f"{conversation.app_name}-{memory.extractor.version.split('@')[0].split()[0]}"
    scope = Scope(app_name, conversation.user_id)
    turns = sum(len(session.turns) for session in conversation.sessions)
    console.print(f"[bold]{escape(conversation.title)}[/]: {len(conversation.sessions)} sessions, {turns} turns")
    if conversation.about:
        console.print(Padding(escape(conversation.about), (0, 2)), style="dim")
    stored = await _store_sessions(conversation, scope, sessions, console)
    learned = await _remember_sessions(stored.sessions, scope, memory, console)
    held = await graph.memories.count_memories(await graph.prepare_connection(memory.connection), scope)
    console.print(_make_totals_table(stored, learned, held, memory))
    console.print(_make_changes_table(await graph.memories.fetch_changed_facts(memory.connection, scope)))
    asked = conversation.questions[:questions]
    found = [await _ask_question(question, scope, memory, console) for question in asked]
    places = [place for question, place in zip(asked, found, strict=True) if question.evidence]
    shown, ten = (sum(place < most for place in places if place is not None) for most in (DISPLAY_LIMIT, SEARCH_LIMIT))
    if places:
        console.print(
            f"\nOf {len(places)} answerable questions [bold]{shown}[/] show words they rest on ([green]●[/]); "
            f"[bold]{ten}[/] have them among the first {SEARCH_LIMIT} memories."
        )
    console.print(_format_hints(scope), soft_wrap=True)  # what is to be pasted keeps to one line
    return DemoResult(
        scope.app_name, scope.user_id, held, dict(learned.facts), learned.usage.calls, len(places), shown, ten
    )


@dataclass
class StorageTotals:
    """What storing the sessions came to."""

    sessions: list[Session] = field(default_factory=list)
    events: int = 0
    seconds: float = 0.0


async def _store_sessions(
    conversation: Conversation, scope: Scope, sessions: Neo4jSessionService, console: Console
) -> StorageTotals:
    stored, start = StorageTotals(), time.perf_counter()
    app, user, state = scope.app_name, scope.user_id, {memory_codec.TIMEZONE_KEY: conversation.timezone}
    for sitting in track(conversation.sessions, "Storing sessions", console=console, transient=True):
        session = await sessions.get_session(app_name=app, user_id=user, session_id=sitting.id)
        if session is None:
            session = await sessions.create_session(app_name=app, user_id=user, session_id=sitting.id, state=state)
        missing: list[Event] = sitting.make_events()[len(session.events) :]
        for event in missing:
            await sessions.append_event(session, event)
        stored.sessions.append(session)
        stored.events += len(missing)
    stored.seconds = time.perf_counter() - start
    return stored


@dataclass
class IngestTotals:
    """What remembering the sessions came to."""

    turns: int = 0
    facts: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0

    def add_report(self, report: IngestReport) -> None:
        self.turns += report.turns
        self.facts.update(report.facts)
        self.dropped.update(report.dropped)
        self.usage += report.usage


async def _remember_sessions(
    sessions: Sequence[Session], scope: Scope, memory: GraphMemory, console: Console
) -> IngestTotals:
    with console.status("Loading the embedder"):
        await memory.prepare()
    learned, start = IngestTotals(), time.perf_counter()
    for session in track(sessions, "Remembering", console=console, transient=True):
        turns = memory_codec.make_turns(session.events, zone=memory_codec.read_state_zone(session.state) or UTC)
        app, user = scope.app_name, scope.user_id
        learned.add_report(await memory.remember(turns, app_name=app, user_id=user, session_id=session.id))
    learned.seconds = time.perf_counter() - start
    return learned


def _make_totals_table(
    stored: StorageTotals, learned: IngestTotals, held: dict[str, int], memory: GraphMemory
) -> Table:
    table = Table(title="What the graph holds", title_justify="left", title_style="bold", show_edge=False)
    for column in ("", "held", "new in this run"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("sessions", str(held["sessions"]), f"{stored.events} events in {stored.seconds:.1f} s")
    table.add_row("turns remembered", str(held["turns"]), f"{learned.turns} in {learned.seconds:.1f} s")
    table.add_row("entities", str(held["entities"]), "")
    changes = ", ".join(f"{count} {op.lower()}" for op, count in sorted(learned.facts.items())) or "none"
    table.add_row("facts", str(held["facts"]), changes)
    table.add_row("model calls", "", f"{learned.usage.calls} ({memory.extractor.version})")
    for reason, count in learned.dropped.most_common():
        table.add_row(f"[dim]no fact: {escape(reason)}[/]", "", f"[dim]{count}[/]")
    return table


_CHANGE_TITLES = {
    "SUPERSEDE": "ended: the world changed",
    "RETRACT": "corrected: it was never true",
    "REFINE": "refined: said more exactly",
    "REINFORCE": "reinforced: heard again",
}


def _make_changes_table(facts: Sequence[dict[str, Any]]) -> Padding:
    """One fact for each way in which facts change, with the words it rests on and its revision."""
    table = Table(title="How facts changed", title_justify="left", title_style="bold", show_header=False, box=None)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(ratio=1)
    for op, way in _CHANGE_TITLES.items():
        found = [fact for fact in facts if _is_changed_by(fact, op)]
        if not found:
            continue
        fact = max(found, key=lambda fact: sum(bool(one["reason"]) for one in fact["revisions"]))
        table.add_row(f"{way} ({len(found)})", escape(fact["text"]))
        table.add_row("", "[dim]" + " / ".join(f"“{escape(quote)}”" for quote in fact["quotes"][:2]) + "[/]")
        if op in ("SUPERSEDE", "RETRACT"):
            until = fact["valid_to"].strftime(" on %Y-%m-%d") if fact["valid_to"] else ""
            table.add_row("", f"[dim]by[/] {escape(''.join(fact['ended_by']))}[dim]{until}[/]")
        for revision in [one for one in fact["revisions"] if one["op"] == op][:1]:
            before = f"before: {revision['text']}" if revision["text"] != fact["text"] else ""
            told = "; ".join(filter(None, (before, revision["reason"] or f"by {revision['by']}")))
            table.add_row("", f"[dim]revision:[/] {escape(told)}")
    return Padding(table, (1, 0, 0, 1))


def _is_changed_by(fact: dict[str, Any], op: str) -> bool:
    if op == "REINFORCE":
        return fact["state"] == "current" and len(fact["quotes"]) > 1
    if op == "REFINE":
        return any(one["op"] == op for one in fact["revisions"])
    return bool(fact["state"] == {"SUPERSEDE": "superseded", "RETRACT": "retracted"}[op])


async def _ask_question(
    question: ConversationQuestion, scope: Scope, memory: GraphMemory, console: Console
) -> int | None:
    """Prints a question with what is recalled; the place of the first memory of what it rests on, from 0."""
    start = time.perf_counter()
    found = await memory.recall(question.question, app_name=scope.app_name, user_id=scope.user_id, limit=SEARCH_LIMIT)
    milliseconds = 1_000 * (time.perf_counter() - start)
    wanted = set(question.evidence)
    told = f"  [dim]({escape(question.answer)})[/]" if question.answer else ""
    console.print(f"\n[bold cyan]? {escape(question.question)}[/]{told}  [dim]{milliseconds:.0f} ms[/]")
    table = Table.grid(padding=(0, 1))
    for ratio in (None, None, 1):
        table.add_column(ratio=ratio, no_wrap=ratio is None)
    for memory_ in found[:DISPLAY_LIMIT]:
        table.add_row(*_format_memory(memory_, is_evidence=bool(wanted.intersection(memory_.source_event_ids))))
    if not found:
        table.add_row("", "", "[dim]nothing is remembered about this[/]")
    console.print(Padding(table, (0, 0, 0, 2)))
    places = (place for place, memory_ in enumerate(found) if wanted.intersection(memory_.source_event_ids))
    return next(places, None)


def _format_memory(memory: Recollection, *, is_evidence: bool) -> tuple[str, str, str]:
    mark = "[green]●[/]" if is_evidence else "[dim]·[/]"
    when = memory.at.strftime("%Y-%m-%d") if memory.at else ""
    words = escape(memory.prompt_text)
    if memory.quote and memory.quote != memory.text:
        words += f"\n[dim]“{escape(memory.quote)}”[/]"
    return mark, f"[dim]{when} {memory.kind:<5}[/] {escape(memory.author or '')}:", words


def _format_hints(scope: Scope) -> str:
    """How to go on looking, as lines to paste."""
    who = f"--app {scope.app_name} --user {scope.user_id}"
    command = escape(_find_command())
    return (
        "\n[bold]Look further[/]\n"
        f'  {command} recall "Where does she work?" {who}\n'
        f"  {command} facts {who} --all\n"
        f"  {command} status   [dim]# the address and password for Neo4j Browser or cypher-shell[/]\n"
        f"  MATCH (f:Fact {{scope: '{scope.key}'}})-\\[s:SUPPORTED_BY]->(e:Event)\n"
        "  RETURN f.text, s.quote, e.author, e.session_id LIMIT 25\n"
        "  notebooks/01_remember_and_recall.ipynb in the repository: the same in Jupyter, with a picture"
    )


def _find_command() -> str:
    """The command line's name as it can be typed here; ``make demo`` runs one that is not on the PATH."""
    running = Path(sys.argv[0])
    found = shutil.which(running.name)
    is_found = found is not None and os.path.realpath(found) == os.path.realpath(running)
    return running.name if is_found else os.path.relpath(running)
