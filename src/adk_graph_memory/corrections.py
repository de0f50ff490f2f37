"""Correct a memory: what its owner says outranks what was extracted, and can be taken back with ``undo``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import EllipsisType
from uuid import uuid4

from adk_graph_memory import consolidation, errors, graph, redaction, telemetry
from adk_graph_memory.graph.derivation import MemorySnapshot
from adk_graph_memory.graph_vectors import GraphVectors
from adk_graph_memory.language.name_lookup import choose_named
from adk_graph_memory.memory_changes import describe_change
from adk_graph_memory.records import Proposition, Scope, Source, Turn, check_timezone_aware
from adk_graph_memory.records.dates import infer_precision
from adk_graph_memory.records.derived_memory import DerivedEntity, DerivedFact, DerivedMemory
from adk_graph_memory.records.history import MemoryChange
from adk_graph_memory.records.readings import OWNER, OwnerRuling, OwnerWord, RulingOperation
from adk_graph_memory.records.scopes import check_text
from adk_graph_memory.records.turns import OWNER_SESSION
from adk_graph_memory.rewriting import Rewriter

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
    """What corrects memories; :class:`adk_graph_memory.GraphMemory` does.

    Each method returns what changes. With ``preview`` nothing is written. Words that come later are compared with what
    the owner said: they end a correction as they end any fact, but not a pinned one.
    """

    connection: graph.Connection
    vectors: GraphVectors

    @property
    def redactor(self) -> redaction.Redactor:
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
        """Replace a fact that is wrong: it was never true, and what you say is, with you as its source.

        Args:
            id: of the fact, as in ``Recollection.id`` or ``StoredFact.id``.
            app_name, user_id: whose memory it is.
            text: what is true.
            valid_from, valid_to: from when until when, aware; None if it is unknown. Without, the dates stay.
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
        """Pin a fact: nothing that is extracted ends or rewords it, until you unpin, correct or retract it.

        A fact that had ended holds again. The errors are those of :meth:`correct`.
        """
        return await self._rule_fact("pin", id, app_name, user_id, reason, preview)

    @telemetry.trace_operation("update_memory")
    async def unpin(
        self, id: str, *, app_name: str, user_id: str, reason: str = "", preview: bool = False
    ) -> MemoryChange:
        """Let what is said end a fact again; what was said meanwhile counts."""
        return await self._rule_fact("unpin", id, app_name, user_id, reason, preview)

    @telemetry.trace_operation("update_memory")
    async def retract(
        self, id: str, *, app_name: str, user_id: str, reason: str = "", preview: bool = False
    ) -> MemoryChange:
        """Say that a fact was never true. Its words stay, and no word that was said until now brings it back."""
        return await self._rule_fact("retract", id, app_name, user_id, reason, preview)

    @telemetry.trace_operation("update_memory")
    async def rollback(
        self, id: str, revision: str, *, app_name: str, user_id: str, reason: str = "", preview: bool = False
    ) -> MemoryChange:
        """Return a fact to what it was before a change: its wording, and that it holds if it held then.

        Args:
            id: of the fact.
            revision: the change, as in ``HistoryEntry.revision``.
            app_name, user_id: whose memory it is.
            reason: why, for the history.
            preview: only return what would change.

        Raises:
            errors.NotFound: this user has no such fact, or the fact no such revision.
        """
        check_text("the revision", revision)
        why = await self._redact_reason(reason)

        def make_word(snapshot: MemorySnapshot, memory: DerivedMemory) -> OwnerWord:
            fact = _find_fact(snapshot, memory, id)
            wording = _find_wording(snapshot, fact, revision)
            claim, at = consolidation.make_claim_ref(fact.known), _choose_moment(memory, fact)
            return _make_word(OwnerRuling("rollback", claim, wording, reason=why, at=at))

        return await self._add_word(app_name, user_id, make_word, preview)

    @telemetry.trace_operation("update_memory")
    async def merge(
        self, name: str, other: str, *, app_name: str, user_id: str, reason: str = "", preview: bool = False
    ) -> MemoryChange:
        """Say that two entities are one; the first keeps its name, and the other's names become aliases.

        Args:
            name, other: a name, an alias or a key of each.
            app_name, user_id: whose memory it is.
            reason: why, for the history.
            preview: only return what would change.

        Raises:
            errors.NotFound: this user's memory knows nobody and nothing of this name.
            errors.InvalidArgument: both names mean one entity already.
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
        """Say that an alias is somebody else's name: what was said under that name is said of somebody else.

        Args:
            alias: the alias, as :meth:`entity` lists it.
            app_name, user_id: whose memory it is.
            reason: why, for the history.
            preview: only return what would change.

        Raises:
            errors.NotFound: this user's memory knows nobody and nothing of this name.
            errors.InvalidArgument: it is the name of an entity and not an alias.
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
            claim, at = consolidation.make_claim_ref(fact.known), _choose_moment(memory, fact)
            return _make_word(OwnerRuling(op, claim, reason=why, at=at))

        return await self._add_word(app_name, user_id, make_word, preview)

    async def _redact_reason(self, reason: str) -> str:
        check_text("the reason", reason)
        return await self.redactor.redact_text(reason) if reason else ""

    async def _add_word(self, app_name: str, user_id: str, make_word: _MakeWord, preview: bool) -> MemoryChange:
        connection, scope = await graph.prepare_connection(self.connection), Scope(app_name, user_id)
        rewriter = Rewriter(connection, self.vectors)
        rewrite = await rewriter.add_owner_word(scope, make_word, is_preview=preview)
        return describe_change(rewrite.readings[-1].id, rewrite.difference)


def _make_word(ruling: OwnerRuling) -> OwnerWord:
    now = datetime.now(UTC)
    return OwnerWord(consolidation.make_ruling_reading(ruling, min(now, ruling.at or now)))


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
        object = consolidation.choose_object(fact, correction.text, memory.entities)
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
    reading = consolidation.make_correction_reading(
        fact, replace(new, at=at), source, memory.entities, correction.reason
    )
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
    return consolidation.find_read_wording(snapshot.readings, fact.known, texts[0])


def _find_entity(memory: DerivedMemory, name: str) -> DerivedEntity:
    check_text("the name", name)
    return choose_named([entity for entity in memory.entities.values() if not entity.merged_into], name)
