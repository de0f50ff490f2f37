"""Remember statements that nobody said in a session: word for word, or compared with what memory holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from adk_graph_memory import consolidation, errors, extraction, graph, telemetry
from adk_graph_memory import guard as guards
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.graph_vectors import GraphVectors
from adk_graph_memory.records import (
    Extraction,
    IngestReport,
    KnownEntity,
    Passage,
    Scope,
    Statement,
    Turn,
    digest,
    fold_text,
)
from adk_graph_memory.records.turns import STATEMENT_SESSION, Role
from adk_graph_memory.redaction import Redactor


class Statements:
    """What remembers statements; :class:`adk_graph_memory.GraphMemory` does."""

    connection: graph.Connection
    vectors: GraphVectors

    @property
    def redactor(self) -> Redactor:
        """Redacts what is remembered."""
        raise NotImplementedError

    @property
    def guard(self) -> guards.Guard | None:
        """Is asked before a statement is written."""
        raise NotImplementedError

    @property
    def extractor(self) -> extraction.Extractor:
        """Extracts entities and facts from turns."""
        raise NotImplementedError

    async def _ingest_turns(
        self,
        scope: Scope,
        session_id: str,
        turns: Sequence[Turn],
        metadata: JsonMapDelta | None = None,
        *,
        extractor: extraction.Extractor | None = None,
        guard: guards.Guard | None = None,
    ) -> IngestReport:
        """Extract from turns and store what that gives."""
        raise NotImplementedError

    @telemetry.trace_operation("create_memory")
    async def add_statements(
        self, statements: Sequence[Statement], *, app_name: str, user_id: str, consolidate: bool = False
    ) -> IngestReport:
        """Store statements as facts, word for word; adding one again only updates its metadata.

        What the guard does not keep is left out, and counted in ``dropped``. What it holds is refused too, but with
        ``consolidate``, where it waits for a review.

        Args:
            statements: what to remember.
            app_name, user_id: whose memory it is.
            consolidate: read each statement as its author's turn, with the model if there is one: it reinforces or ends
                what memory holds, and can be corrected. If nothing is read in it, it is kept in its own words. One that
                is over, said again later, counts again.

        Raises:
            errors.InvalidArgument: a statement with its own id is to be consolidated, or one for a shared memory has
                the author ``user``.
            errors.RedactionFailed: the redaction failed; nothing is stored.
            errors.ModelError: the model failed; statements to consolidate are stored and pending.
            errors.EmbeddingError, errors.EmbedderMismatch: no vector would fit the graph's; likewise.
            errors.DatabaseError: the graph could not be written.
        """
        scope, statements = Scope(app_name, user_id), await self.redactor.redact_statements(statements)
        check_authors(scope, (statement.author for statement in statements))
        statements, refused, guard = await guards.screen_statements(self.guard, statements, scope, holds=consolidate)
        telemetry.annotate_memories(statements)
        await graph.prepare_connection(self.connection)
        report = await (
            self._consolidate_statements(statements, scope, guard)
            if consolidate
            else self._store_statements(statements, scope)
        )
        return replace(report, dropped={**report.dropped, **refused})

    async def _store_statements(self, statements: Sequence[Statement], scope: Scope) -> IngestReport:
        facts = sorted(
            {fact.id: fact for fact in map(consolidation.plan_statement, statements)}.values(), key=lambda fact: fact.id
        )
        await self.vectors.slot_tracker.refresh_slot()
        batch = await self.vectors.embed_passages([Passage(fact.proposition.text) for fact in facts])
        await graph.memories.add_facts(self.connection, scope, facts, batch)
        done = {"ADD": len(facts)}
        return IngestReport(facts=done, embedded=len(batch.embeddings), extractor="direct")

    async def _consolidate_statements(
        self, statements: Sequence[Statement], scope: Scope, guard: guards.Guard | None
    ) -> IngestReport:
        if named := [statement.id for statement in statements if statement.id]:
            reason = f"statement {named[0]!r} has an id of its own and is kept as it is: add it without consolidate"
            raise errors.InvalidArgument(reason=reason)
        report = IngestReport(extractor=self.extractor.version)
        for group in _group_by_metadata(statements):
            metadata, replaces = group[0].metadata, group[0].replaces_metadata
            turns = [_make_turn(statement, scope) for statement in group]
            turns = await renew_turns(self.connection, scope, STATEMENT_SESSION, turns)
            topics = {turn.id: item.topic for turn, item in zip(turns, group, strict=True) if item.topic}
            extractor = extraction.PreparedExtractor(self._make_reader(topics, scope.owner_name), self.extractor)
            delta = JsonMapDelta.from_values(metadata, replaces=replaces)
            report += await self._ingest_turns(scope, STATEMENT_SESSION, turns, delta, extractor=extractor, guard=guard)
        return report

    def _make_reader(self, topics: Mapping[str, str], owner: str) -> extraction.Prepare:
        async def read_statements(turns: Sequence[Turn], known_entities: Sequence[KnownEntity]) -> Extraction:
            result = await self.extractor.extract(turns, known_entities)
            return extraction.keep_statements(result, turns, topics, owner=owner)

        return read_statements


def _make_turn(statement: Statement, scope: Scope) -> Turn:
    role: Role = "model" if statement.origin in ("agent", "tool") else "user"
    author = statement.author or (scope.owner_name if role == "user" else "agent")
    return Turn(
        id=digest("statement", author, fold_text(statement.text)),
        author=author,
        text=statement.text,
        at=statement.at,
        role=role,
        origin=statement.origin,
        expires_at=statement.expires_at,
    )


def _group_by_metadata(statements: Iterable[Statement]) -> list[list[Statement]]:
    """Group statements with the same metadata, which an ingest stores with all of its turns."""
    groups: dict[tuple[str, bool], list[Statement]] = {}
    for statement in statements:
        key = json.dumps(statement.metadata, sort_keys=True, default=repr), statement.replaces_metadata
        groups.setdefault(key, []).append(statement)
    return list(groups.values())


async def renew_turns(connection: graph.Connection, scope: Scope, session_id: str, turns: Sequence[Turn]) -> list[Turn]:
    """Give those of the turns another id that were forgotten, or are over and said again: whoever adds one means it."""
    renewed = list(turns)
    while spent := await graph.forgetting.find_spent_turns(
        connection, scope, {turn.make_memory_id(session_id): turn.at for turn in renewed}
    ):
        renewed = [
            replace(turn, id=digest(turn.id)) if turn.make_memory_id(session_id) in spent else turn for turn in renewed
        ]
    return renewed


def check_authors(scope: Scope, authors: Iterable[str | None]) -> None:
    """Refuse words for a shared memory that do not tell who says them; None stands for nobody known.

    Raises:
        errors.InvalidArgument: an author is ``user``, or blank.
    """
    nameless = [author for author in authors if author is not None and author.strip() in ("", "user")]
    if scope.is_shared and nameless:
        reason = (
            f"several people share this memory, so author {nameless[0]!r} could be any of them: give the person's name"
        )
        raise errors.InvalidArgument(reason=reason)
