"""Share memories: which shared ones a user's searches read too, and the promotion of a user's fact to one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adk_graph_memory import consolidation, errors, extraction, graph, telemetry
from adk_graph_memory.records import (
    Extraction,
    IngestReport,
    KnownEntity,
    KnownFact,
    Proposition,
    Scope,
    SharedMemory,
    Turn,
)
from adk_graph_memory.records.scopes import check_text
from adk_graph_memory.records.turns import PROMOTED_SESSION
from adk_graph_memory.statements import Statements, check_authors, renew_turns

SharedMemories = Sequence[SharedMemory]
FindShared = Callable[[str, str], SharedMemories | Awaitable[SharedMemories]]
"""From an app's name and a user's id to the shared memories that this user's searches read."""
SharedOption = SharedMemories | FindShared
"""The same ones for every user, or a function that finds them."""
PROMOTED = "promoted"
"""What stands for the extractor of a promoted fact."""


class Sharing(Statements):
    """What shares memories; :class:`adk_graph_memory.GraphMemory` does."""

    _shared: SharedOption | None

    @telemetry.trace_operation("create_memory")
    async def promote(
        self, id: str, *, app_name: str, user_id: str, to: SharedMemory, author: str | None = None
    ) -> IngestReport:
        """Copy a fact that holds into a shared memory, with the quotes that support it and nothing else they stand in.

        It is read there as if it were said there: an equal fact gains its words, and what contradicts it ends or stays
        beside it. Promoting a fact again adds what supports it since. The copy is the shared memory's own: what is
        forgotten of the user's stays there until it is forgotten there, as session ``:promoted:ID``.

        Args:
            id: of the fact, as in ``Recollection.id`` or ``StoredFact.id``.
            app_name, user_id: whose memory it is.
            to: the shared memory.
            author: what the shared memory calls the user, whom their own calls ``user``; the user's id by default.

        Raises:
            errors.NotFound: this user has no such fact.
            errors.InvalidArgument: the fact is over, no quote that still stands supports it, or ``to`` is no shared
                memory.
            errors.RedactionFailed: the redaction failed; nothing is stored.
            errors.DatabaseError: the graph could not be read or written.
        """
        check_text("the id", id)
        scope, target = Scope(app_name, user_id), Scope(app_name, check_shared(to))
        if scope == target:
            raise errors.InvalidArgument(reason=f"the fact is in {to!s} already")
        connection = await graph.prepare_connection(self.connection)
        snapshot = await graph.derivation.fetch_snapshot(connection, scope)
        author = await self.redactor.redact_text(author or user_id)
        if (row := snapshot.statements.get(id)) is not None and row["stands"]:
            statement = graph.fact_rows.read_statement(row)
            statement = replace(statement, author=author if statement.author == "user" else statement.author)
            return await self.add_statements([statement], app_name=app_name, user_id=to)
        fact = snapshot.stored.facts.get(id.removeprefix("fact:"))
        if fact is None:
            raise errors.NotFound(what=f"fact {id!r} of this user", where="`adk-graph-memory facts`")
        if fact.standing.state != "current":
            reason = f"{fact.proposition.text!r} is over: promote what stands in its place"
            raise errors.InvalidArgument(reason=reason)
        turns = await self.redactor.redact_turns(_quote_turns(fact, snapshot.turns, scope, author))
        check_authors(target, (turn.author for turn in turns))
        fact = replace(fact, proposition=await self._redact_proposition(fact.proposition))
        promotion = consolidation.make_promotion(fact, turns, snapshot.stored.entities, author)
        session_id = f"{PROMOTED_SESSION}{fact.id}"
        turns = await renew_turns(connection, target, session_id, turns)
        return await self._ingest_turns(target, session_id, turns, extractor=self._prepare_extractor(fact, promotion))

    async def _redact_proposition(self, proposition: Proposition) -> Proposition:
        return replace(proposition, text=await self.redactor.redact_text(proposition.text))

    def _prepare_extractor(self, fact: KnownFact, promotion: consolidation.Promotion) -> extraction.PreparedExtractor:
        async def read_promotion(turns: Sequence[Turn], known_entities: Sequence[KnownEntity]) -> Extraction:
            return promotion.extract_fact(turns)

        predicates = frozenset([fact.proposition.predicate] if fact.proposition.is_functional else [])
        return extraction.PreparedExtractor(
            read_promotion, self.extractor, version=PROMOTED, functional_predicates=predicates
        )

    async def _list_scopes(self, app_name: str, user_id: str, shared: Sequence[str] | None) -> tuple[Scope, ...]:
        """List the scopes that a search reads: the user's own, and the shared memories."""
        own = Scope(app_name, user_id)
        if shared is None:
            shared = () if own.is_shared else await self._find_shared(app_name, user_id)
        if isinstance(shared, str):  # a SharedMemory is a text
            shared = [shared]
        others = dict.fromkeys(Scope(app_name, check_shared(memory)) for memory in shared)
        return own, *(scope for scope in others if scope != own)

    async def _find_shared(self, app_name: str, user_id: str) -> Sequence[str]:
        if self._shared is None:
            return [SharedMemory.parse(id) for id in self.connection.settings.shared]
        if not callable(self._shared):
            return self._shared
        memories = self._shared(app_name, user_id)
        return (await memories if inspect.isawaitable(memories) else memories) or ()


def _quote_turns(fact: KnownFact, turns: Mapping[str, Mapping[str, Any]], scope: Scope, author: str) -> list[Turn]:
    """Make a turn of each quote of the fact that was found in its turn, if that has not expired."""
    quotes = [source for source in fact.sources if source.is_verified and turns[source.turn_id]["stands"]]
    if not quotes:
        reason = f"no quote that still stands supports {fact.proposition.text!r}, and nothing else can be shared of it"
        raise errors.InvalidArgument(reason=reason)
    expiries = (graph.fact_rows.read_expiry(turns[source.turn_id]["expires_at"]) for source in quotes)
    return [
        consolidation.make_quote_turn(source, scope, author, expires_at)
        for source, expires_at in zip(quotes, expiries, strict=True)
    ]


def check_shared(memory: object) -> SharedMemory:
    """Return the shared memory.

    Raises:
        errors.InvalidArgument: it is none.
    """
    if not isinstance(memory, SharedMemory):
        raise errors.InvalidArgument(reason=f"{memory!r} is no shared memory: give SharedMemory(…)")
    return memory
