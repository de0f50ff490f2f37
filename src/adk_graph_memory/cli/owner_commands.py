"""The commands by which an owner sees why memory holds something and changes it: ``correct`` … ``split``, ``history``,
``undo``, ``review``, ``proposals``.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import adk_graph_memory
from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
    AppOption,
    Owner,
    UserArgument,
    YesOption,
    command,
)
from adk_graph_memory.cli.lazy_modules import erasing, histories
from adk_graph_memory.cli.memory_commands import parse_moment, set_timezone
from adk_graph_memory.cli.output import Output, add_details, announce, confirm, format_day, make_grid
from adk_graph_memory.language.text import format_count, join_lines

if TYPE_CHECKING:
    from adk_graph_memory.records.history import FactVersion, HeldFact, HistoryEntry, MemoryChange, Proposal


FactArgument = Annotated[str, typer.Argument(metavar="ID", help="A fact's id, as `facts` and `recall` print it.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="The reason, for the history.")]
_Method = Callable[..., Awaitable["MemoryChange"]]
"""A method of :class:`UserMemory`, or what calls one."""


def _parse_date(text: str) -> datetime | None:
    return None if text == "none" else parse_moment(text)


@command(MEMORY_PANEL)
async def correct(
    id: FactArgument,
    owner: Owner,
    text: Annotated[str | None, typer.Option(help="What is true.")] = None,
    valid_from: Annotated[
        str | None, typer.Option(metavar="DATE", help="Since when it is true; none if unknown.")
    ] = None,
    valid_to: Annotated[str | None, typer.Option(metavar="DATE", help="Until when it is true; none if open.")] = None,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> Output:
    """Replace a wrong fact with what you say; no extracted fact outranks it."""
    dates = {"valid_from": valid_from, "valid_to": valid_to}
    changes = {name: _parse_date(date) for name, date in dates.items() if date is not None}
    return await change_memory(owner, _correct_in_zone, id, text=text, **changes, reason=reason, yes=yes)


async def _correct_in_zone(user: adk_graph_memory.UserMemory, id: str, **options: Any) -> MemoryChange:
    """Correct a fact; dates without a zone are of the user's."""
    zone = await user.engine.speakers.find_zone(user.scope)
    for name, value in options.items():
        options[name] = set_timezone(value, zone) if isinstance(value, datetime) else value
    return await user.correct(id, **options)


@command(MEMORY_PANEL)
async def pin(id: FactArgument, owner: Owner, reason: ReasonOption = "", yes: YesOption = False) -> Output:
    """Pin a fact, so that nothing anybody says ends or rewords it until you say otherwise."""
    return await change_memory(owner, adk_graph_memory.UserMemory.pin, id, reason=reason, yes=yes)


@command(MEMORY_PANEL)
async def unpin(id: FactArgument, owner: Owner, reason: ReasonOption = "", yes: YesOption = False) -> Output:
    """Unpin a fact, so that what people say counts again, including what was said in the meantime."""
    return await change_memory(owner, adk_graph_memory.UserMemory.unpin, id, reason=reason, yes=yes)


@command(MEMORY_PANEL)
async def retract(id: FactArgument, owner: Owner, reason: ReasonOption = "", yes: YesOption = False) -> Output:
    """Retract a fact as never true; its words stay."""
    return await change_memory(owner, adk_graph_memory.UserMemory.retract, id, reason=reason, yes=yes)


@command(MEMORY_PANEL)
async def rollback(
    id: FactArgument,
    revision: Annotated[str, typer.Argument(help="A revision, as `history` prints it.")],
    owner: Owner,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> Output:
    """Return a fact to what it was before a change."""
    return await change_memory(owner, adk_graph_memory.UserMemory.rollback, id, revision, reason=reason, yes=yes)


@command(MEMORY_PANEL)
async def merge(
    name: Annotated[str, typer.Argument(help="The name that stays, an alias of it, or a key.")],
    other: Annotated[str, typer.Argument(help="The name that becomes an alias.")],
    owner: Owner,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> Output:
    """Merge two people or things that are the same."""
    return await change_memory(owner, adk_graph_memory.UserMemory.merge, name, other, reason=reason, yes=yes)


@command(MEMORY_PANEL)
async def split(
    words: Annotated[list[str], typer.Argument(metavar="ALIAS", help="An alias, as `entity` lists it.")],
    owner: Owner,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> Output:
    """Split off an alias that is somebody else's name."""
    return await change_memory(owner, adk_graph_memory.UserMemory.split, " ".join(words), reason=reason, yes=yes)


async def change_memory(owner: Owner, method: _Method, *names: str, yes: bool, **options: Any) -> Output:
    """Show what would change, ask, and change it."""
    async with owner.open_memory() as user:
        if not yes:
            preview = await method(user, *names, **options, preview=True)
            question = "Change this?" if preview.ingest_id else "Forget this for good?"
            confirm("\n".join([*list_change_lines(preview), question]), yes=yes)
        announce("Changing")
        change = await method(user, *names, **options)
    if not (change.facts or change.entities or change.turns):
        return Output(change, "Nothing changes.")
    if not change.ingest_id:
        return Output(change, _format_change(change))
    words = ["undo", change.ingest_id, "--app", owner.app_name, "--user", owner.user_id]
    hint = Text(f"adk-graph-memory {shlex.join(words)}", overflow="fold")
    return Output(change, Group(_format_change(change), "To take it back:", hint))


def _list_changes(change: MemoryChange) -> list[tuple[str, str]]:
    """List what was and what is in its place, and how many turns go."""
    rows = [(_describe_version(fact.before), _describe_version(fact.after)) for fact in change.facts]
    rows += [(", ".join(entity.before), ", ".join(entity.after)) for entity in change.entities]
    rows += [(format_count(change.turns, "turn"), "")] * bool(change.turns)
    return [(before or "(nothing)", after or "(nothing)") for before, after in rows]


def list_change_lines(change: MemoryChange) -> list[str]:
    """List what changes, a line for each fact and name, and for the turns that go."""
    return [join_lines(f"{before} → {after}") for before, after in _list_changes(change)] or ["Nothing changes."]


def _format_change(change: MemoryChange) -> RenderableType:
    rows = [(before, "→", after) for before, after in _list_changes(change)]
    return make_grid(rows) if rows else "Nothing changes."


def _describe_version(fact: FactVersion | None) -> str:
    if fact is None:
        return ""
    notes = [
        "" if fact.state == "current" else fact.state,
        "pinned" if fact.is_pinned else "",
        f"from {format_day(fact.valid_from)}" if fact.valid_from else "",
        f"until {format_day(fact.valid_to)}" if fact.valid_to else "",
    ]
    described = ", ".join(filter(None, notes))
    return f"{fact.text} ({described})" if described else fact.text


ProposalId = Annotated[str, typer.Argument(metavar="ID", help="The id of a proposal, as `proposals` prints it.")]


@command(MEMORY_PANEL)
async def proposals(owner: Owner) -> Output:
    """List the corrections and deletions that agents propose; nothing changes until you accept one."""
    async with owner.open_memory() as user:
        listed = await user.proposals()
    if not listed:
        await owner.check()
        return Output(listed, "Nothing is proposed.")
    rows = [(format_day(proposal.at), proposal.action, _describe_proposal(proposal)) for proposal in listed]
    return Output(
        listed, make_grid(rows), ["Accept one with `accept ID`; leave everything as it is with `decline ID`."]
    )


@command(MEMORY_PANEL)
async def accept(id: ProposalId, owner: Owner, yes: YesOption = False) -> Output:
    """Accept what an agent proposed: correct a fact, or forget a memory for good."""
    return await change_memory(owner, adk_graph_memory.UserMemory.accept_proposal, id, yes=yes)


@command(MEMORY_PANEL)
async def decline(id: ProposalId, owner: Owner) -> Output:
    """Decline what an agent proposed; memory stays as it is."""
    async with owner.open_memory() as user:
        proposal = await user.decline_proposal(id)
    return Output(proposal, join_lines(f"Declined; memory still says: {proposal.memory_text}"))


def _describe_proposal(proposal: Proposal) -> Text:
    wording = f"→ {proposal.text}" if proposal.action == "correct" else ""
    said = f"{proposal.by}: {proposal.reason}" if proposal.reason else proposal.by
    pinned = "You pinned it." if proposal.is_pinned else ""
    return add_details(proposal.memory_text, *filter(None, (wording, said, pinned)), proposal.id)


HeldId = Annotated[str, typer.Argument(metavar="ID", help="The id of a held fact, as `review` prints it.")]


@command(MEMORY_PANEL)
async def review(owner: Owner) -> Output:
    """List the facts that a guard holds back, each with the rule that applied and the words that it rests on."""
    async with owner.open_memory() as user:
        facts = await user.held_facts()
    if not facts:
        await owner.check()
        return Output(facts, "Nothing is held.")
    rows = [(format_day(fact.said_at), fact.rule, _describe_fact(fact)) for fact in facts]
    return Output(facts, make_grid(rows), ["Remember one with `release ID`; delete it for good with `reject ID`."])


@command(MEMORY_PANEL)
async def release(id: HeldId, owner: Owner) -> Output:
    """Remember a fact that a guard held back."""
    async with owner.open_memory("Releasing") as user:
        fact = await user.release(id)
    return Output(fact, join_lines(f"Remembered: {fact.text}"))


@command(MEMORY_PANEL)
async def reject(id: HeldId, owner: Owner, yes: YesOption = False) -> Output:
    """Delete a fact that a guard held back; the turn that it was read from stays."""
    confirm(f"Delete the held fact {id} for good?", yes=yes)
    async with owner.open_memory("Rejecting") as user:
        fact = await user.reject(id)
    return Output(fact, join_lines(f"Deleted: {fact.text}"))


def _describe_fact(fact: HeldFact) -> Text:
    quotes = (f"“{quote}”" for quote in fact.quotes)
    said = f"{fact.author} ({fact.origin}) in session {fact.session_id}"
    return add_details(fact.text, fact.reason, *quotes, said, fact.id)


@command(MEMORY_PANEL)
async def history(
    id: Annotated[str, typer.Argument(metavar="ID", help="A fact's id, as `facts` and `recall` print it.")],
    owner: Owner,
) -> Output:
    """Show why a fact is remembered: every quote that supports it, and every decision about it."""
    async with owner.open_graph() as graph:
        known = await histories.find_fact_history(graph, id)
    return Output(
        known, Group(join_lines(f"{known.fact.text} ({known.fact.state})"), "", _format_history(known.entries))
    )


@command(MEMORY_PANEL)
async def entity(
    words: Annotated[
        list[str], typer.Argument(metavar="NAME", help="A name, an alias, or a key as `entities --json` prints it.")
    ],
    owner: Owner,
) -> Output:
    """Show who or what an entity is, where its names come from, and the facts that hold."""
    async with owner.open_graph() as graph:
        known = await histories.find_entity_history(graph, " ".join(words))
    described = [known.entity.type, *([known.entity.about] if known.entity.about else [])]
    aliases = f"also {', '.join(known.entity.other_names)}" if known.entity.other_names else ""
    facts = [(format_day(fact.at), add_details(fact.text, fact.id)) for fact in known.facts]
    parts: list[RenderableType] = [add_details(f"{known.entity.display_name} ({', '.join(described)})", aliases), ""]
    parts += [make_grid(facts), ""] if facts else []
    return Output(known, Group(*parts, _format_history(known.entries)))


@command(MEMORY_PANEL)
async def undo(
    ingest_id: Annotated[str, typer.Argument(metavar="INGEST", help="An ingest's id, as `history` prints it.")],
    owner: Owner,
    yes: YesOption = False,
) -> Output:
    """Take back everything that one ingest wrote, even if later ones built on it; its turns may be read again."""
    confirm(f"Take back everything that ingest {ingest_id} wrote?", yes=yes)
    async with owner.open_memory("Taking back") as user:
        receipt = await user.undo(ingest_id)
    counts = format_count(receipt.events, "turn"), format_count(receipt.facts, "fact")
    return Output(receipt, f"Taken back: {' and '.join(counts)}.")


@command(MEMORY_PANEL, name="forget-user")
async def forget_user(
    user_id: UserArgument,
    app_name: AppOption,
    sessions: Annotated[bool, typer.Option("--sessions", help="Also delete sessions, events and state.")] = False,
    artifacts: Annotated[bool, typer.Option("--artifacts", help="Also delete artifacts.")] = False,
    yes: YesOption = False,
) -> Output:
    """Forget everything remembered about a user, and print a receipt of what was deleted and what stays."""
    owner = Owner(app_name, user_id)
    async with owner.open_memory() as user:
        counts = await erasing.count_user(user.graph)
        if not any(counts.values()):
            await owner.check()
        what = [format_count(counts["turns"], "turn"), format_count(counts["facts"], "fact")]
        what += [format_count(counts["sessions"], "session")] if sessions else []
        what += [format_count(counts["artifacts"], "artifact")] if artifacts else []
        confirm(f"Forget {', '.join(what)} of {user_id!r} for good?", yes=yes)
        announce("Forgetting")
        receipt = await user.forget_user(sessions=sessions, artifacts=artifacts)
    words = "event" if sessions else "turn"
    gone = {words: receipt.events, "fact": receipt.facts, "session": receipt.sessions, "artifact": receipt.artifacts}
    nouns = {kind: "entity" if kind == "entities" else kind.removesuffix("s") for kind in receipt.stays}
    stays = ", ".join(format_count(count, nouns[kind], kind) for kind, count in receipt.stays.items())
    text = ", ".join(format_count(count, noun) for noun, count in gone.items())
    return Output(receipt, f"Forgotten: {text}." + (f" What stays: {stays}." if stays else ""))


def _format_history(entries: tuple[HistoryEntry, ...]) -> RenderableType:
    if not entries:
        return Text("It was added directly, word for word.")
    return make_grid([_format_history_row(entry) for entry in entries])


def _format_history_row(entry: HistoryEntry) -> tuple[str, str, Text]:
    quote = f"“{entry.quote}”" if entry.quote else ""
    said = f"said on {format_day(entry.said_at)} in session {entry.session_id}" if entry.said_at else ""
    decided = ": ".join(filter(None, (f"by {entry.by}" if entry.by else "", entry.reason)))
    ingest = f"ingest {entry.ingest_id}" if entry.ingest_id else ""
    revision = f"revision {entry.revision}" if entry.revision else ""
    return format_day(entry.at), entry.kind, add_details(entry.text, quote, said, decided, ingest, revision)
