"""Carry out what an owner decides: correct, pin, retract, merge; review held facts; accept or decline proposals.

Each change returns what it changes; with ``preview``, nothing is written. Later words are compared with what the owner
said: they can end a correction like any fact, but not a pinned one. A memory has at most one proposal, the latest,
which is forgotten with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import EllipsisType
from typing import Any
from uuid import uuid4

from adk_graph_memory import errors
from adk_graph_memory.consolidation.owner_words import (
    choose_object,
    find_read_wording,
    make_correction_reading,
    make_ruling_reading,
    refer_to_fact,
)
from adk_graph_memory.consolidation.restriction import withhold_facts
from adk_graph_memory.graph import reviews
from adk_graph_memory.language.spelling import choose_named
from adk_graph_memory.memory import forgetting
from adk_graph_memory.memory.changes import describe_change
from adk_graph_memory.memory.engine import UserContext
from adk_graph_memory.memory.rewriting import Erasure
from adk_graph_memory.records.extractions import Source
from adk_graph_memory.records.facts import Fact, Proposition
from adk_graph_memory.records.history import HeldFact, MemoryChange, Proposal, ProposalAction
from adk_graph_memory.records.memory import DerivedEntity, DerivedMemory, MemorySnapshot
from adk_graph_memory.records.readings import OWNER, OwnerRuling, OwnerWord, Reading, RulingOperation
from adk_graph_memory.records.scopes import check_flags, check_name, check_text
from adk_graph_memory.records.turns import OWNER_SESSION, Turn, check_timezone_aware, is_evidence
from adk_graph_memory.runtime import telemetry

_MakeWord = Callable[[MemorySnapshot, DerivedMemory], OwnerWord]
TICK = timedelta(milliseconds=1)
"""How much later than a word the owner's word about it is at least."""
Change = datetime | EllipsisType | None
"""A new date, None for none, or ``...`` for the date as it is."""


@dataclass(frozen=True, slots=True)
class Correction:
    """What an owner changes of a fact; None and ``...`` leave it as it is."""

    text: str | None = None
    valid_from: Change = ...
    valid_to: Change = ...
    reason: str = ""


@telemetry.trace_operation("update_memory")
async def correct_fact(
    user: UserContext,
    id: str,
    *,
    text: str | None = None,
    valid_from: Change = ...,
    valid_to: Change = ...,
    reason: str = "",
    preview: bool = False,
) -> MemoryChange:
    """Replace a wrong fact by the owner's version.

    Raises:
        errors.NotFound: this user has no such fact.
        errors.InvalidArgument: nothing would change, or a date has no time zone.
    """
    if text is not None:
        check_text("the text", text)
        text = (await user.engine.redactor.redact_text(text)).strip()
    for moment in (valid_from, valid_to):
        if not isinstance(moment, EllipsisType | None):
            check_timezone_aware(moment)
    correction = Correction(text or None, valid_from, valid_to, await _redact_reason(user, reason))
    return await _add_word(
        user, lambda snapshot, memory: _word_correction(snapshot, memory, id, correction), preview=preview
    )


@telemetry.trace_operation("update_memory")
async def rule_fact(
    user: UserContext, op: RulingOperation, id: str, *, reason: str = "", preview: bool = False
) -> MemoryChange:
    """Pin, unpin or retract a fact; the errors are those of :func:`correct_fact`."""
    why = await _redact_reason(user, reason)

    def make_word(snapshot: MemorySnapshot, memory: DerivedMemory) -> OwnerWord:
        fact = _find_fact(snapshot, memory, id)
        if op == "unpin" and not fact.ruling.is_pinned:
            raise errors.InvalidArgument(reason=f"{fact.proposition.text!r} is not pinned")
        claim, at = refer_to_fact(fact), _choose_moment(memory, fact)
        return _make_word(OwnerRuling(op, claim, reason=why, at=at))

    return await _add_word(user, make_word, preview=preview)


@telemetry.trace_operation("update_memory")
async def roll_back_fact(
    user: UserContext, id: str, revision: str, *, reason: str = "", preview: bool = False
) -> MemoryChange:
    """Return a fact to what it was before a revision.

    Raises:
        errors.NotFound: this user has no such fact, or the fact has no such revision.
    """
    check_text("the revision", revision)
    why = await _redact_reason(user, reason)

    def make_word(snapshot: MemorySnapshot, memory: DerivedMemory) -> OwnerWord:
        fact = _find_fact(snapshot, memory, id)
        wording = _find_wording(snapshot, fact, revision)
        claim, at = refer_to_fact(fact), _choose_moment(memory, fact)
        return _make_word(OwnerRuling("rollback", claim, wording, reason=why, at=at))

    return await _add_word(user, make_word, preview=preview)


@telemetry.trace_operation("update_memory")
async def merge_entities(
    user: UserContext, name: str, other: str, *, reason: str = "", preview: bool = False
) -> MemoryChange:
    """Merge two entities that are the same; the first keeps its name.

    Raises:
        errors.NotFound: this user's memory knows nobody and nothing of this name.
        errors.InvalidArgument: both names already mean the same entity.
    """
    why = await _redact_reason(user, reason)

    def make_word(snapshot: MemorySnapshot, memory: DerivedMemory) -> OwnerWord:
        kept, gone = _find_entity(memory, name), _find_entity(memory, other)
        if kept.key == gone.key:
            raise errors.InvalidArgument(reason=f"{name!r} and {other!r} mean {kept.name!r} already")
        names = (kept.key, gone.key, kept.name, *kept.aliases, gone.name, *gone.aliases)
        return _make_word(OwnerRuling("merge", names=names, reason=why))

    return await _add_word(user, make_word, preview=preview)


@telemetry.trace_operation("update_memory")
async def split_entity(user: UserContext, alias: str, *, reason: str = "", preview: bool = False) -> MemoryChange:
    """Split off an alias that is somebody else's name.

    Raises:
        errors.NotFound: this user's memory knows nobody and nothing of this name.
        errors.InvalidArgument: it is an entity's name and not an alias.
    """
    why = await _redact_reason(user, reason)

    def make_word(snapshot: MemorySnapshot, memory: DerivedMemory) -> OwnerWord:
        entity = _find_entity(memory, alias)
        aliases = [name for name in entity.aliases if name.casefold() == alias.casefold()]
        if not aliases:
            known = ", ".join(map(repr, entity.aliases)) or "it has none"
            raise errors.InvalidArgument(reason=f"{alias!r} is no alias of {entity.name!r}; its aliases: {known}")
        return _make_word(OwnerRuling("split", names=(entity.name, aliases[0]), reason=why))

    return await _add_word(user, make_word, preview=preview)


async def _redact_reason(user: UserContext, reason: str) -> str:
    check_text("the reason", reason)
    return await user.engine.redactor.redact_text(reason) if reason else ""


async def _add_word(user: UserContext, make_word: _MakeWord, *, preview: bool) -> MemoryChange:
    check_flags(preview=preview)
    rewrite = await user.rewriter.add_owner_word(make_word, is_preview=preview)
    return describe_change(rewrite.readings[-1].id, rewrite)


def _make_word(ruling: OwnerRuling) -> OwnerWord:
    now = datetime.now(UTC)
    return OwnerWord(make_ruling_reading(ruling, min(now, ruling.at or now)))


def _choose_moment(memory: DerivedMemory, fact: Fact) -> datetime:
    """From when the owner's word counts: now, or right after what was said of the fact, if another clock is ahead."""
    place = fact.proposition.subject, fact.proposition.predicate
    linked_ids = {id for pair in memory.links if fact.id in pair for id in pair}
    rivals = [
        other
        for other in memory.facts.values()
        if other.id in linked_ids or (other.proposition.subject, other.proposition.predicate) == place
    ]
    moments = [source.at for rival in rivals for source in rival.sources]
    rulings = (rival.ruling for rival in rivals)
    moments += [at for ruling in rulings for at in (ruling.retracted_at, ruling.upheld_until) if at]
    return max([datetime.now(UTC), *(moment + TICK for moment in moments)])


def _word_correction(snapshot: MemorySnapshot, memory: DerivedMemory, id: str, correction: Correction) -> OwnerWord:
    fact = _find_fact(snapshot, memory, id)
    at, old = _choose_moment(memory, fact), fact.proposition
    if fact.standing.state == "retracted":
        reason = f"{old.text!r} was retracted: correct what stands in its place, as `adk-graph-memory history` names it"
        raise errors.InvalidArgument(reason=reason)
    dates = {"valid_from": correction.valid_from, "valid_to": correction.valid_to}
    new = old.redate(**{name: date for name, date in dates.items() if not isinstance(date, EllipsisType)})
    new = replace(new, is_correction=False)
    if correction.text is not None:
        object = choose_object(fact, correction.text, memory.entities)
        new = replace(new, text=correction.text, object=object)
    if new.valid_from and new.valid_to and new.valid_to < new.valid_from:
        raise errors.InvalidArgument(reason=f"it would end ({new.valid_to}) before it begins ({new.valid_from})")
    if (new.text, new.valid_from, new.valid_to) == (old.text, old.valid_from, old.valid_to):
        raise errors.InvalidArgument(reason=f"the correction of {old.text!r} changes nothing: give a text or a date")
    turn = Turn(uuid4().hex, OWNER, new.text, at, session_id=OWNER_SESSION, origin="owner")
    source = replace(Source.from_turn(turn, 0, len(turn.text)), turn_id=turn.make_memory_id(OWNER_SESSION))
    reading = make_correction_reading(fact, replace(new, at=at), source, memory.entities, correction.reason)
    return OwnerWord(replace(reading, at=min(datetime.now(UTC), at)), (turn,))


def _find_fact(snapshot: MemorySnapshot, memory: DerivedMemory, id: str) -> Fact:
    check_text("the id", id)
    fact = memory.facts.get(id.removeprefix("fact:"))
    if fact is not None:
        return fact
    if id in snapshot.statements:
        reason = f"{id} was added directly, word for word: forget it, and add what is true"
        raise errors.InvalidArgument(reason=reason)
    raise errors.NotFound(what=f"fact {id!r} of this user", where="`adk-graph-memory facts`")


def _find_wording(snapshot: MemorySnapshot, fact: Fact, revision: str) -> Proposition:
    """Find the wording before a change, with the dates that it was read with."""
    texts = [item.text for item in fact.revisions if item.key == revision]
    if not texts:
        raise errors.NotFound(what=f"revision {revision!r} of this fact", where="`adk-graph-memory history`")
    return find_read_wording(snapshot.readings, fact, texts[0])


def _find_entity(memory: DerivedMemory, name: str) -> DerivedEntity:
    check_text("the name", name)
    return choose_named([entity for entity in memory.entities.values() if not entity.merged_into], name)


AGENT = "agent"
"""Who proposes something, unless the caller says who."""


@telemetry.trace_operation("propose_update")
async def propose_correction(user: UserContext, id: str, *, text: str, reason: str = "", by: str = AGENT) -> Proposal:
    """Propose to replace a wrong fact.

    Raises:
        errors.NotFound: this user's memory holds nothing of this id.
        errors.InvalidArgument: it is not a fact that can be corrected, or it already says this.
    """
    check_text("the text", text)
    if not (new_text := (await user.engine.redactor.redact_text(text)).strip()):
        raise errors.InvalidArgument(reason="the correction is empty: say what is true")
    return await _propose(user, "correct", id, new_text, reason, by)


@telemetry.trace_operation("propose_update")
async def propose_forgetting(user: UserContext, id: str, *, reason: str = "", by: str = AGENT) -> Proposal:
    """Propose to forget a memory for good.

    Raises:
        errors.NotFound: this user's memory holds nothing of this id.
    """
    return await _propose(user, "forget", id, "", reason, by)


@telemetry.trace_operation("update_memory")
async def accept_proposal(user: UserContext, id: str, *, preview: bool = False) -> MemoryChange:
    """Do what an agent proposed, in the owner's name.

    Raises:
        errors.NotFound: this user has no proposal with this id.
    """
    check_flags(preview=preview)
    proposal = await find_proposal(user, id)
    if proposal.action == "correct":
        reason = f"proposed by {proposal.by}" + (f": {proposal.reason}" if proposal.reason else "")
        change = await correct_fact(user, proposal.memory_id, text=proposal.text, reason=reason, preview=preview)
    else:
        change = await forgetting.preview_forgetting(user, proposal.memory_id)
        if not preview:
            await forgetting.forget_memories(user, proposal.memory_id)
    if not preview:
        await reviews.withdraw_proposals(user.graph, [id])
    return change


@telemetry.trace_operation("update_memory")
async def decline_proposal(user: UserContext, id: str) -> Proposal:
    """Drop a proposal and leave everything as it is; return the proposal.

    Raises:
        errors.NotFound: this user has no proposal with this id.
    """
    proposal = await find_proposal(user, id)
    await reviews.withdraw_proposals(user.graph, [id])
    return proposal


async def _propose(user: UserContext, action: ProposalAction, id: str, text: str, reason: str, by: str) -> Proposal:
    check_text("the id", id)
    check_name("who proposes it", by)
    why = await _redact_reason(user, reason)
    target = await reviews.fetch_target(user.graph, id)
    if action == "correct":
        _check_correction(id, target, text)
    now, is_pinned = datetime.now(UTC), target["is_pinned"]
    proposal = Proposal(uuid4().hex, action, id, target["text"], text, why, by, now, is_pinned)
    await reviews.write_proposal(user.graph, proposal)
    return proposal


async def find_proposal(user: UserContext, id: str) -> Proposal:
    """Find what an agent proposed.

    Raises:
        errors.NotFound: this user has no proposal with this id.
    """
    check_text("the id", id)
    for proposal in await reviews.fetch_proposals(user.graph):
        if proposal.id == id:
            return proposal
    raise errors.NotFound(what=f"proposal {id!r} of this user", where="`adk-graph-memory proposals`")


def _check_correction(id: str, target: Mapping[str, Any], text: str) -> None:
    """Refuse to propose what :func:`correct_fact` would refuse to do."""
    if target["kind"] != "fact":
        raise errors.InvalidArgument(reason=f"{id} is what somebody said, and no fact: propose to forget it")
    if target["is_direct"]:
        raise errors.InvalidArgument(reason=f"{id} was added directly, word for word: propose to forget it")
    if target["state"] == "retracted":
        raise errors.InvalidArgument(reason=f"{id} was retracted already: recall what stands in its place")
    if target["text"] == text:
        raise errors.InvalidArgument(reason=f"{id} says so already")


@telemetry.trace_operation("update_memory")
async def release_fact(user: UserContext, id: str) -> HeldFact:
    """Remember a held fact, as if no guard had held it; return the fact.

    Raises:
        errors.NotFound: this user has no held fact with this id.
    """
    return await _review(user, id, _release_fact)


@telemetry.trace_operation("delete_memory")
async def reject_fact(user: UserContext, id: str) -> HeldFact:
    """Delete a held fact for good, and with it a statement from which nothing else was extracted; return the fact.

    Raises:
        errors.NotFound: this user has no held fact with this id.
    """
    held = await _review(user, id, _reject_fact)
    if is_evidence(held.session_id):
        await user.rewriter.erase_memories(Erasure.select_idle_evidence)
    return held


async def find_held_fact(user: UserContext, id: str) -> HeldFact:
    """Find a fact that a guard holds back.

    Raises:
        errors.NotFound: this user has no held fact with this id.
    """
    check_text("the id", id)
    for fact in await reviews.fetch_held_facts(user.graph):
        if fact.id == id:
            return fact
    raise errors.NotFound(what=f"held fact {id!r} of this user", where="`adk-graph-memory review`")


async def _review(user: UserContext, id: str, change: Callable[[Reading, int], Reading]) -> HeldFact:
    held = await find_held_fact(user, id)

    def revise(reading: Reading) -> Reading:
        refs = [fact.ref for fact in reading.held if reviews.format_held_id(reading.id, fact.ref) == id]
        return change(reading, refs[0]) if refs else reading

    await user.rewriter.revise_readings(revise)
    return held


def _release_fact(reading: Reading, ref: int) -> Reading:
    return replace(reading, held=tuple(fact for fact in reading.held if fact.ref != ref), is_reviewed=True)


def _reject_fact(reading: Reading, ref: int) -> Reading:
    reading = _release_fact(reading, ref)
    return replace(reading, extraction=withhold_facts(reading.extraction, {ref}))
