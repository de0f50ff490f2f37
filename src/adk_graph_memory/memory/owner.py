"""Carry out what an owner decides: correct, pin, retract, merge; review held facts; accept or decline proposals."""

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
    make_claim_ref,
    make_correction_reading,
    make_ruling_reading,
)
from adk_graph_memory.consolidation.restriction import withhold_facts
from adk_graph_memory.graph import reviews
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.snapshots import MemorySnapshot
from adk_graph_memory.language.dates import infer_precision
from adk_graph_memory.language.spelling import choose_named
from adk_graph_memory.memory.changes import describe_change
from adk_graph_memory.memory.forgetting import Forgetting
from adk_graph_memory.memory.redaction import Redactor
from adk_graph_memory.memory.rewriting import Erasure, Rewriter
from adk_graph_memory.memory.vectors import GraphVectors
from adk_graph_memory.records.extractions import Source
from adk_graph_memory.records.facts import Proposition
from adk_graph_memory.records.history import HeldFact, MemoryChange, Proposal, ProposalAction
from adk_graph_memory.records.memory import DerivedEntity, DerivedFact, DerivedMemory
from adk_graph_memory.records.readings import OWNER, OwnerRuling, OwnerWord, Reading, RulingOperation
from adk_graph_memory.records.scopes import Scope, check_text
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


class Corrections:
    """Corrects memories; a base class of :class:`adk_graph_memory.GraphMemory`.

    Each method returns what changes. With ``preview``, nothing is written. Later words are compared with what the owner
    said: they can end a correction like any fact, but not a pinned one.
    """

    connection: Connection
    vectors: GraphVectors

    @property
    def redactor(self) -> Redactor:
        """Redacts what the owner says."""
        raise NotImplementedError

    @telemetry.trace_operation("update_memory")
    async def correct(
        self,
        id: str,
        *,
        app_name: str,
        user_id: str,
        text: str | None = None,
        valid_from: Change = ...,
        valid_to: Change = ...,
        reason: str = "",
        preview: bool = False,
    ) -> MemoryChange:
        """Replace a wrong fact: it was never true, and your version takes its place, with you as its source.

        Args:
            id: of the fact, as in ``Recollection.id`` or ``StoredFact.id``.
            app_name, user_id: whose memory it is.
            text: what is true.
            valid_from, valid_to: since when and until when it is true, as aware datetimes; None if unknown. By default,
                the dates stay.
            reason: why, for the history.
            preview: only return what would change.

        Raises:
            errors.NotFound: this user has no such fact.
            errors.InvalidArgument: nothing would change, or a date has no time zone.
        """
        if text is not None:
            check_text("the text", text)
            text = (await self.redactor.redact_text(text)).strip()
        for moment in (valid_from, valid_to):
            if not isinstance(moment, EllipsisType | None):
                check_timezone_aware(moment)
        correction = Correction(text or None, valid_from, valid_to, await self._redact_reason(reason))
        return await self._add_word(
            app_name, user_id, lambda snapshot, memory: _word_correction(snapshot, memory, id, correction), preview
        )

    @telemetry.trace_operation("update_memory")
    async def pin(
        self, id: str, *, app_name: str, user_id: str, reason: str = "", preview: bool = False
    ) -> MemoryChange:
        """Pin a fact: no extracted fact ends or rewords it, until you unpin, correct or retract it.

        A fact that had ended holds again. The errors are those of :meth:`correct`.
        """
        return await self._rule_fact("pin", id, app_name, user_id, reason, preview)

    @telemetry.trace_operation("update_memory")
    async def unpin(
        self, id: str, *, app_name: str, user_id: str, reason: str = "", preview: bool = False
    ) -> MemoryChange:
        """Let people's words end a fact again, including what was said in the meantime."""
        return await self._rule_fact("unpin", id, app_name, user_id, reason, preview)

    @telemetry.trace_operation("update_memory")
    async def retract(
        self, id: str, *, app_name: str, user_id: str, reason: str = "", preview: bool = False
    ) -> MemoryChange:
        """Mark a fact as never true. Its words stay, and nothing that was said until now brings it back."""
        return await self._rule_fact("retract", id, app_name, user_id, reason, preview)

    @telemetry.trace_operation("update_memory")
    async def rollback(
        self, id: str, revision: str, *, app_name: str, user_id: str, reason: str = "", preview: bool = False
    ) -> MemoryChange:
        """Return a fact to what it was before a change: its wording; it also holds again if it held then.

        Args:
            id: of the fact.
            revision: the change, as in ``HistoryEntry.revision``.
            app_name, user_id: whose memory it is.
            reason: why, for the history.
            preview: only return what would change.

        Raises:
            errors.NotFound: this user has no such fact, or the fact has no such revision.
        """
        check_text("the revision", revision)
        why = await self._redact_reason(reason)

        def make_word(snapshot: MemorySnapshot, memory: DerivedMemory) -> OwnerWord:
            fact = _find_fact(snapshot, memory, id)
            wording = _find_wording(snapshot, fact, revision)
            claim, at = make_claim_ref(fact.known), _choose_moment(memory, fact)
            return _make_word(OwnerRuling("rollback", claim, wording, reason=why, at=at))

        return await self._add_word(app_name, user_id, make_word, preview)

    @telemetry.trace_operation("update_memory")
    async def merge(
        self, name: str, other: str, *, app_name: str, user_id: str, reason: str = "", preview: bool = False
    ) -> MemoryChange:
        """Merge two entities that are the same; the first keeps its name, and the other's names become aliases.

        Args:
            name, other: a name, an alias or a key of each.
            app_name, user_id: whose memory it is.
            reason: why, for the history.
            preview: only return what would change.

        Raises:
            errors.NotFound: this user's memory knows nobody and nothing of this name.
            errors.InvalidArgument: both names already mean the same entity.
        """
        why = await self._redact_reason(reason)

        def make_word(snapshot: MemorySnapshot, memory: DerivedMemory) -> OwnerWord:
            kept, gone = _find_entity(memory, name), _find_entity(memory, other)
            if kept.key == gone.key:
                raise errors.InvalidArgument(reason=f"{name!r} and {other!r} mean {kept.name!r} already")
            names = (kept.key, gone.key, kept.name, *kept.aliases, gone.name, *gone.aliases)
            return _make_word(OwnerRuling("merge", names=names, reason=why))

        return await self._add_word(app_name, user_id, make_word, preview)

    @telemetry.trace_operation("update_memory")
    async def split(
        self, alias: str, *, app_name: str, user_id: str, reason: str = "", preview: bool = False
    ) -> MemoryChange:
        """Split off an alias that is somebody else's name: what was said under that name is about somebody else.

        Args:
            alias: the alias, as :meth:`entity` lists it.
            app_name, user_id: whose memory it is.
            reason: why, for the history.
            preview: only return what would change.

        Raises:
            errors.NotFound: this user's memory knows nobody and nothing of this name.
            errors.InvalidArgument: it is an entity's name and not an alias.
        """
        why = await self._redact_reason(reason)

        def make_word(snapshot: MemorySnapshot, memory: DerivedMemory) -> OwnerWord:
            entity = _find_entity(memory, alias)
            [*aliases] = [name for name in entity.aliases if name.casefold() == alias.casefold()]
            if not aliases:
                known = ", ".join(map(repr, entity.aliases)) or "it has none"
                raise errors.InvalidArgument(reason=f"{alias!r} is no alias of {entity.name!r}; its aliases: {known}")
            return _make_word(OwnerRuling("split", names=(entity.name, aliases[0]), reason=why))

        return await self._add_word(app_name, user_id, make_word, preview)

    async def _rule_fact(
        self, op: RulingOperation, id: str, app_name: str, user_id: str, reason: str, preview: bool
    ) -> MemoryChange:
        why = await self._redact_reason(reason)

        def make_word(snapshot: MemorySnapshot, memory: DerivedMemory) -> OwnerWord:
            fact = _find_fact(snapshot, memory, id)
            if op == "unpin" and not fact.known.ruling.is_pinned:
                raise errors.InvalidArgument(reason=f"{fact.known.proposition.text!r} is not pinned")
            claim, at = make_claim_ref(fact.known), _choose_moment(memory, fact)
            return _make_word(OwnerRuling(op, claim, reason=why, at=at))

        return await self._add_word(app_name, user_id, make_word, preview)

    async def _redact_reason(self, reason: str) -> str:
        check_text("the reason", reason)
        return await self.redactor.redact_text(reason) if reason else ""

    async def _add_word(self, app_name: str, user_id: str, make_word: _MakeWord, preview: bool) -> MemoryChange:
        graph = self.connection.user(Scope(app_name, user_id))
        rewriter = Rewriter(graph, self.vectors)
        rewrite = await rewriter.add_owner_word(make_word, is_preview=preview)
        return describe_change(rewrite.readings[-1].id, rewrite.difference)


def _make_word(ruling: OwnerRuling) -> OwnerWord:
    now = datetime.now(UTC)
    return OwnerWord(make_ruling_reading(ruling, min(now, ruling.at or now)))


def _choose_moment(memory: DerivedMemory, fact: DerivedFact) -> datetime:
    """From when the owner's word counts: now, or right after what was said of the fact, if another clock is ahead."""
    place = fact.known.proposition.subject, fact.known.proposition.predicate
    linked_ids = {id for pair in memory.links if fact.known.id in pair for id in pair}
    rivals = [
        known
        for known in (other.known for other in memory.facts.values())
        if known.id in linked_ids or (known.proposition.subject, known.proposition.predicate) == place
    ]
    moments = [source.at for known in rivals for source in known.sources]
    rulings = (known.ruling for known in rivals)
    moments += [at for ruling in rulings for at in (ruling.retracted_at, ruling.upheld_until) if at]
    return max([datetime.now(UTC), *(moment + TICK for moment in moments)])


def _word_correction(snapshot: MemorySnapshot, memory: DerivedMemory, id: str, correction: Correction) -> OwnerWord:
    derived_fact = _find_fact(snapshot, memory, id)
    fact, at = derived_fact.known, _choose_moment(memory, derived_fact)
    old = fact.proposition
    if fact.standing.state == "retracted":
        reason = f"{old.text!r} was retracted: correct what stands in its place, as `adk-graph-memory history` names it"
        raise errors.InvalidArgument(reason=reason)
    new = replace(old, is_correction=False)
    if correction.text is not None:
        object = choose_object(fact, correction.text, memory.entities)
        new = replace(new, text=correction.text, object=object)
    if not isinstance(since := correction.valid_from, EllipsisType):
        new = replace(new, valid_from=since, valid_from_precision=infer_precision(since))
    if not isinstance(until := correction.valid_to, EllipsisType):
        new = replace(new, valid_to=until, valid_to_precision=infer_precision(until))
    if new.valid_from and new.valid_to and new.valid_to < new.valid_from:
        raise errors.InvalidArgument(reason=f"it would end ({new.valid_to}) before it begins ({new.valid_from})")
    if (new.text, new.valid_from, new.valid_to) == (old.text, old.valid_from, old.valid_to):
        raise errors.InvalidArgument(reason=f"the correction of {old.text!r} changes nothing: give a text or a date")
    turn = Turn(uuid4().hex, OWNER, new.text, at, session_id=OWNER_SESSION, origin="owner")
    source = replace(Source.from_turn(turn, 0, len(turn.text)), turn_id=turn.make_memory_id(OWNER_SESSION))
    reading = make_correction_reading(fact, replace(new, at=at), source, memory.entities, correction.reason)
    return OwnerWord(replace(reading, at=min(datetime.now(UTC), at)), (turn,))


def _find_fact(snapshot: MemorySnapshot, memory: DerivedMemory, id: str) -> DerivedFact:
    check_text("the id", id)
    fact = memory.facts.get(id.removeprefix("fact:"))
    if fact is not None:
        return fact
    if id in snapshot.statements:
        reason = f"{id} was added directly, word for word: forget it, and add what is true"
        raise errors.InvalidArgument(reason=reason)
    raise errors.NotFound(what=f"fact {id!r} of this user", where="`adk-graph-memory facts`")


def _find_wording(snapshot: MemorySnapshot, fact: DerivedFact, revision: str) -> Proposition:
    """Find the wording before a change, with the dates that it was read with."""
    texts = [item.revision.text for item in fact.revisions if item.revision.key == revision]
    if not texts:
        raise errors.NotFound(what=f"revision {revision!r} of this fact", where="`adk-graph-memory history`")
    return find_read_wording(snapshot.readings, fact.known, texts[0])


def _find_entity(memory: DerivedMemory, name: str) -> DerivedEntity:
    check_text("the name", name)
    return choose_named([entity for entity in memory.entities.values() if not entity.merged_into], name)


AGENT = "agent"
"""Who proposes something, unless the caller says who."""


class Proposals(Corrections, Forgetting):
    """Keeps proposals for the owner; a base class of :class:`adk_graph_memory.GraphMemory`.

    A memory has at most one proposal, the latest, which is forgotten with it.
    """

    @telemetry.trace_operation("propose_update")
    async def propose_correction(
        self, id: str, *, text: str, app_name: str, user_id: str, reason: str = "", by: str = AGENT
    ) -> Proposal:
        """Propose to replace a wrong fact; :meth:`accept_proposal` corrects it.

        Args:
            id: of the fact, as in ``Recollection.id`` or ``StoredFact.id``.
            text: what is true.
            app_name, user_id: whose memory it is.
            reason: the reason, for the owner.
            by: who proposes it.

        Raises:
            errors.NotFound: this user's memory holds nothing of this id.
            errors.InvalidArgument: it is not a fact that can be corrected, or it already says this.
        """
        check_text("the text", text)
        if not (new_text := (await self.redactor.redact_text(text)).strip()):
            raise errors.InvalidArgument(reason="the correction is empty: say what is true")
        return await self._propose("correct", id, Scope(app_name, user_id), new_text, reason, by)

    @telemetry.trace_operation("propose_update")
    async def propose_forgetting(
        self, id: str, *, app_name: str, user_id: str, reason: str = "", by: str = AGENT
    ) -> Proposal:
        """Propose to forget a memory for good; :meth:`accept_proposal` forgets it.

        The arguments are those of :meth:`propose_correction`.

        Raises:
            errors.NotFound: this user's memory holds nothing of this id.
        """
        return await self._propose("forget", id, Scope(app_name, user_id), "", reason, by)

    @telemetry.trace_operation("list_memories")
    async def proposals(self, *, app_name: str, user_id: str) -> list[Proposal]:
        """List what agents propose to the owner of a memory, oldest first."""
        return await reviews.fetch_proposals(self.connection.user(Scope(app_name, user_id)))

    @telemetry.trace_operation("update_memory")
    async def accept_proposal(self, id: str, *, app_name: str, user_id: str, preview: bool = False) -> MemoryChange:
        """Do what an agent proposed, in the owner's name; call this only when the owner says so.

        Args:
            id: as in ``Proposal.id``. If a proposal was replaced after the owner saw it, the new one has another id.
            app_name, user_id: whose memory it is.
            preview: only return what would change.

        Returns:
            What changes. :meth:`~adk_graph_memory.GraphMemory.undo` takes a correction back; forgetting cannot be
            undone, so its ``ingest_id`` is empty.

        Raises:
            errors.NotFound: this user has no proposal with this id.
        """
        proposal = await self._find_proposal(id, Scope(app_name, user_id))
        if proposal.action == "correct":
            reason = f"proposed by {proposal.by}" + (f": {proposal.reason}" if proposal.reason else "")
            change = await self.correct(
                proposal.memory_id,
                app_name=app_name,
                user_id=user_id,
                text=proposal.text,
                reason=reason,
                preview=preview,
            )
        else:
            change = await self.preview_forget(proposal.memory_id, app_name=app_name, user_id=user_id)
            if not preview:
                await self.forget(proposal.memory_id, app_name=app_name, user_id=user_id)
        if not preview:
            await reviews.withdraw_proposals(self.connection.user(Scope(app_name, user_id)), [id])
        return change

    @telemetry.trace_operation("update_memory")
    async def decline_proposal(self, id: str, *, app_name: str, user_id: str) -> Proposal:
        """Drop a proposal and leave everything as it is; return the proposal.

        The errors are those of :meth:`accept_proposal`.
        """
        scope = Scope(app_name, user_id)
        proposal = await self._find_proposal(id, scope)
        await reviews.withdraw_proposals(self.connection.user(scope), [id])
        return proposal

    async def _propose(
        self, action: ProposalAction, id: str, scope: Scope, text: str, reason: str, by: str
    ) -> Proposal:
        check_text("the id", id)
        check_text("who proposes it", by)
        why = await self._redact_reason(reason)
        target = await reviews.fetch_target(self.connection.user(scope), id)
        if action == "correct":
            _check_correction(id, target, text)
        now, is_pinned = datetime.now(UTC), target["is_pinned"]
        proposal = Proposal(uuid4().hex, action, id, target["text"], text, why, by, now, is_pinned)
        await reviews.write_proposal(self.connection.user(scope), proposal)
        return proposal

    async def _find_proposal(self, id: str, scope: Scope) -> Proposal:
        check_text("the id", id)
        for proposal in await reviews.fetch_proposals(self.connection.user(scope)):
            if proposal.id == id:
                return proposal
        raise errors.NotFound(what=f"proposal {id!r} of this user", where="`adk-graph-memory proposals`")


def _check_correction(id: str, target: Mapping[str, Any], text: str) -> None:
    """Refuse to propose what :meth:`Corrections.correct` would refuse to do."""
    if target["kind"] != "fact":
        raise errors.InvalidArgument(reason=f"{id} is what somebody said, and no fact: propose to forget it")
    if target["is_direct"]:
        raise errors.InvalidArgument(reason=f"{id} was added directly, word for word: propose to forget it")
    if target["state"] == "retracted":
        raise errors.InvalidArgument(reason=f"{id} was retracted already: recall what stands in its place")
    if target["text"] == text:
        raise errors.InvalidArgument(reason=f"{id} says so already")


class Reviews:
    """Reviews held facts; a base class of :class:`adk_graph_memory.GraphMemory`."""

    connection: Connection
    vectors: GraphVectors

    @telemetry.trace_operation("list_memories")
    async def held_facts(self, *, app_name: str, user_id: str) -> list[HeldFact]:
        """List the facts that a guard holds back, in the order in which they were read."""
        return await reviews.fetch_held_facts(self.connection.user(Scope(app_name, user_id)))

    @telemetry.trace_operation("update_memory")
    async def release(self, id: str, *, app_name: str, user_id: str) -> HeldFact:
        """Remember a held fact, as if no guard had held it; return the fact.

        Args:
            id: as in ``HeldFact.id``.
            app_name, user_id: whose memory it is.

        Raises:
            errors.NotFound: this user has no held fact with this id.
        """
        return await self._review(id, Scope(app_name, user_id), _release_fact)

    @telemetry.trace_operation("delete_memory")
    async def reject(self, id: str, *, app_name: str, user_id: str) -> HeldFact:
        """Delete a held fact for good; return the fact.

        The session's turns that it was read from stay. A statement is deleted if nothing else was extracted from it.
        The errors are those of :meth:`release`.
        """
        scope = Scope(app_name, user_id)
        held = await self._review(id, scope, _reject_fact)
        if is_evidence(held.session_id):
            await Rewriter(self.connection.user(scope), self.vectors).erase_memories(Erasure.select_idle_evidence)
        return held

    async def _review(self, id: str, scope: Scope, change: Callable[[Reading, int], Reading]) -> HeldFact:
        facts = await reviews.fetch_held_facts(self.connection.user(scope))
        held = next((fact for fact in facts if fact.id == id), None)
        if held is None:
            raise errors.NotFound(what=f"held fact {id!r} of this user", where="`adk-graph-memory review`")

        def revise(reading: Reading) -> Reading:
            refs = [fact.ref for fact in reading.held if reviews.make_held_id(reading.id, fact.ref) == id]
            return change(reading, refs[0]) if refs else reading

        await Rewriter(self.connection.user(scope), self.vectors).revise_readings(revise)
        return held


def _release_fact(reading: Reading, ref: int) -> Reading:
    return replace(reading, held=tuple(fact for fact in reading.held if fact.ref != ref), is_reviewed=True)


def _reject_fact(reading: Reading, ref: int) -> Reading:
    reading = _release_fact(reading, ref)
    return replace(reading, extraction=withhold_facts(reading.extraction, {ref}))
