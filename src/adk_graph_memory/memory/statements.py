"""Remember statements that nobody said in a session, and promote a user's facts to shared memories."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.consolidation.fact_rules import plan_statement
from adk_graph_memory.extraction.extractor import Extractor, Prepare, PreparedExtractor, keep_statements
from adk_graph_memory.graph import erasing, fact_rows, snapshots, writing
from adk_graph_memory.graph.connection import Connection, UserGraph
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.language.text import digest, fold_text
from adk_graph_memory.memory.guard import Guard, screen_statements
from adk_graph_memory.memory.redaction import Redactor
from adk_graph_memory.memory.vectors import GraphVectors
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.facts import KnownEntity, KnownFact, Proposition
from adk_graph_memory.records.memory import DerivedEntity
from adk_graph_memory.records.results import IngestReport
from adk_graph_memory.records.scopes import Scope, SharedMemory, check_text
from adk_graph_memory.records.turns import PROMOTED_SESSION, STATEMENT_SESSION, Passage, Role, Statement, Turn
from adk_graph_memory.runtime import telemetry


class Statements:
    """Remembers statements; a base class of :class:`adk_graph_memory.GraphMemory`."""

    connection: Connection
    vectors: GraphVectors

    @property
    def redactor(self) -> Redactor:
        """Redacts what is remembered."""
        raise NotImplementedError

    @property
    def guard(self) -> Guard | None:
        """Is asked before a statement is written."""
        raise NotImplementedError

    @property
    def extractor(self) -> Extractor:
        """Extracts entities and facts from turns."""
        raise NotImplementedError

    async def _ingest_turns(
        self,
        scope: Scope,
        session_id: str,
        turns: Sequence[Turn],
        metadata: JsonMapDelta | None = None,
        *,
        extractor: Extractor | None = None,
        guard: Guard | None = None,
    ) -> IngestReport:
        """Extract from turns and store what that gives."""
        raise NotImplementedError

    @telemetry.trace_operation("create_memory")
    async def add_statements(
        self, statements: Sequence[Statement], *, app_name: str, user_id: str, consolidate: bool = False
    ) -> IngestReport:
        """Store statements as facts, word for word; adding one again only updates its metadata.

        Statements that the guard drops are left out and counted in ``dropped``, and so are those it holds, except with
        ``consolidate``, where they wait for review.

        Args:
            statements: what to remember.
            app_name, user_id: whose memory it is.
            consolidate: read each statement as a turn of its author, with the model if there is one: it can reinforce
                or end known facts, and can be corrected. If no fact is extracted from it, it is kept in its own words.
                A statement that has ended counts again if it is added again later.

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
        statements, refused, guard = await screen_statements(self.guard, statements, scope, holds=consolidate)
        telemetry.annotate_memories(statements)
        report = await (
            self._consolidate_statements(statements, scope, guard)
            if consolidate
            else self._store_statements(statements, scope)
        )
        return replace(report, dropped={**report.dropped, **refused})

    async def _store_statements(self, statements: Sequence[Statement], scope: Scope) -> IngestReport:
        facts = sorted({fact.id: fact for fact in map(plan_statement, statements)}.values(), key=lambda fact: fact.id)
        await self.vectors.slot_tracker.refresh_slot()
        batch = await self.vectors.embed_passages([Passage(fact.proposition.text) for fact in facts])
        await writing.add_facts(self.connection.user(scope), facts, batch)
        done = {"ADD": len(facts)}
        return IngestReport(facts=done, embedded=len(batch.embeddings), extractor="direct")

    async def _consolidate_statements(
        self, statements: Sequence[Statement], scope: Scope, guard: Guard | None
    ) -> IngestReport:
        if named := [statement.id for statement in statements if statement.id]:
            reason = f"statement {named[0]!r} has an id of its own and is kept as it is: add it without consolidate"
            raise errors.InvalidArgument(reason=reason)
        report = IngestReport(extractor=self.extractor.version)
        for group in _group_by_metadata(statements):
            metadata, replaces = group[0].metadata, group[0].replaces_metadata
            turns = [_make_turn(statement, scope) for statement in group]
            turns = await renew_turns(self.connection.user(scope), STATEMENT_SESSION, turns)
            topics = {turn.id: item.topic for turn, item in zip(turns, group, strict=True) if item.topic}
            extractor = PreparedExtractor(self._make_reader(topics, scope.owner_name), self.extractor)
            delta = JsonMapDelta.from_values(metadata, replaces=replaces)
            report += await self._ingest_turns(scope, STATEMENT_SESSION, turns, delta, extractor=extractor, guard=guard)
        return report

    def _make_reader(self, topics: Mapping[str, str], owner: str) -> Prepare:
        async def read_statements(turns: Sequence[Turn], known_entities: Sequence[KnownEntity]) -> Extraction:
            result = await self.extractor.extract(turns, known_entities)
            return keep_statements(result, turns, topics, owner=owner)

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


async def renew_turns(graph: UserGraph, session_id: str, turns: Sequence[Turn]) -> list[Turn]:
    """Give those of the turns another id that were forgotten, or are over and said again: whoever adds one means it."""
    renewed = list(turns)
    while spent := await erasing.find_spent_turns(
        graph, {turn.make_memory_id(session_id): turn.at for turn in renewed}
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


SharedMemories = Sequence[SharedMemory]
FindShared = Callable[[str, str], SharedMemories | Awaitable[SharedMemories]]
"""From an app's name and a user's id to the shared memories that this user's searches read."""
SharedOption = SharedMemories | FindShared
"""The same ones for every user, or a function that finds them."""
PROMOTED = "promoted"
"""What stands for the extractor of a promoted fact."""


class Sharing(Statements):
    """Shares memories; a base class of :class:`adk_graph_memory.GraphMemory`."""

    _shared: SharedOption | None

    @telemetry.trace_operation("create_memory")
    async def promote(
        self, id: str, *, app_name: str, user_id: str, to: SharedMemory, author: str | None = None
    ) -> IngestReport:
        """Copy a fact that holds into a shared memory, with its supporting quotes and nothing else from their turns.

        It is read there as if it had been said there: an equal fact gains its quotes, and a contradicting fact ends or
        stays beside it. Promoting a fact again adds the quotes that have come to support it since. The copy belongs to
        the shared memory: if the user's fact is forgotten, the copy stays until it is forgotten there, as session
        ``:promoted:ID``.

        Args:
            id: of the fact, as in ``Recollection.id`` or ``StoredFact.id``.
            app_name, user_id: whose memory it is.
            to: the shared memory.
            author: the user's name in the shared memory (their own calls them ``user``); the user's id by default.

        Raises:
            errors.NotFound: this user has no such fact.
            errors.InvalidArgument: the fact has ended, no remaining quote supports it, or ``to`` is not a shared
                memory.
            errors.RedactionFailed: the redaction failed; nothing is stored.
            errors.DatabaseError: the graph could not be read or written.
        """
        check_text("the id", id)
        scope, target = Scope(app_name, user_id), Scope(app_name, check_shared(to))
        if scope == target:
            raise errors.InvalidArgument(reason=f"the fact is in {to!s} already")
        snapshot = await snapshots.fetch_snapshot(self.connection.user(scope))
        author = await self.redactor.redact_text(author or user_id)
        if (row := snapshot.statements.get(id)) is not None and row["stands"]:
            statement = fact_rows.read_statement(row)
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
        promotion = make_promotion(fact, turns, snapshot.stored.entities, author)
        session_id = f"{PROMOTED_SESSION}{fact.id}"
        turns = await renew_turns(self.connection.user(target), session_id, turns)
        return await self._ingest_turns(target, session_id, turns, extractor=self._prepare_extractor(fact, promotion))

    async def _redact_proposition(self, proposition: Proposition) -> Proposition:
        return replace(proposition, text=await self.redactor.redact_text(proposition.text))

    def _prepare_extractor(self, fact: KnownFact, promotion: Promotion) -> PreparedExtractor:
        async def read_promotion(turns: Sequence[Turn], known_entities: Sequence[KnownEntity]) -> Extraction:
            return promotion.extract_fact(turns)

        predicates = frozenset([fact.proposition.predicate] if fact.proposition.is_functional else [])
        return PreparedExtractor(read_promotion, self.extractor, version=PROMOTED, functional_predicates=predicates)

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
    expiries = (fact_rows.read_expiry(turns[source.turn_id]["expires_at"]) for source in quotes)
    return [
        make_quote_turn(source, scope, author, expires_at) for source, expires_at in zip(quotes, expiries, strict=True)
    ]


def check_shared(memory: object) -> SharedMemory:
    """Return the shared memory.

    Raises:
        errors.InvalidArgument: it is none.
    """
    if not isinstance(memory, SharedMemory):
        raise errors.InvalidArgument(reason=f"{memory!r} is no shared memory: give SharedMemory(…)")
    return memory


_ANONYMOUS_AUTHOR = "user"
"""ADK's author of whatever a user says, who in a shared memory could be anybody."""
_USER_PATTERN = re.compile(r"\bthe user\b|^user\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Promotion:
    """A fact for a shared memory: the turns it rests on, each no more than a quote, and what is read of them."""

    turns: tuple[Turn, ...]
    entities: tuple[ExtractedEntity, ...]
    fact: ExtractedFact

    def extract_fact(self, turns: Sequence[Turn]) -> Extraction:
        """Extract the fact from those of its turns that are new."""
        if not turns:
            return Extraction()
        sources = tuple(Source.from_turn(turn, 0, len(turn.text)) for turn in turns)
        return Extraction(self.entities, (replace(self.fact, sources=sources),))


def make_promotion(
    fact: KnownFact, turns: Sequence[Turn], entities: Mapping[str, DerivedEntity], author: str
) -> Promotion:
    """Make a promotion of a fact with these turns; ``author`` names the user, who is ``user`` in their own memory."""
    proposition = fact.proposition
    quotes = {source.quote for source in fact.sources}
    text = proposition.text if proposition.text in quotes else _USER_PATTERN.sub(lambda match: author, proposition.text)
    keys = dict.fromkeys(key for key in (proposition.subject, proposition.object) if key)
    refs = {key: ref for ref, key in enumerate(keys)}
    return Promotion(
        turns=tuple(turns),
        entities=tuple(_name_entity(entities[key], ref, author) for key, ref in refs.items()),
        fact=ExtractedFact(
            subject=refs[proposition.subject or ""],
            predicate=proposition.predicate,
            object=refs[proposition.object] if proposition.object else None,
            text=text,
            sources=(),
            speaker=_name_author(proposition.speaker or "", author),
            at=proposition.at,
            modality=proposition.modality,
            valid_from=proposition.valid_from,
            valid_to=proposition.valid_to,
            topic=proposition.topic,
            valid_from_precision=proposition.valid_from_precision,
            valid_to_precision=proposition.valid_to_precision,
        ),
    )


def make_quote_turn(source: Source, scope: Scope, author: str, expires_at: datetime | None) -> Turn:
    """Make a turn of a quote from the memory of this scope. The owner of the user's memory is a user here."""
    origin = "user" if source.is_owner else source.origin
    return Turn(
        id=digest("promoted", scope.key, *source.key),
        author=author if source.is_owner else _name_author(source.author, author),
        text=source.quote,
        at=source.at,
        role="user" if origin in ("user", "import") else "model",
        origin=origin,
        expires_at=expires_at,
    )


def _name_author(name: str, author: str) -> str:
    return author if name == _ANONYMOUS_AUTHOR else name


def _name_entity(entity: DerivedEntity, ref: int, author: str) -> ExtractedEntity:
    is_user = _ANONYMOUS_AUTHOR in (name.casefold() for name in (entity.name, *entity.aliases))
    return ExtractedEntity(ref, author if is_user else entity.name, entity.type)
