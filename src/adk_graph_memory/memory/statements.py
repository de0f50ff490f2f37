"""Remember statements that nobody said in a session, and promote a user's facts to shared memories."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.consolidation.fact_rules import plan_statement
from adk_graph_memory.extraction.extractor import PreparedExtractor, keep_statements
from adk_graph_memory.graph import erasing, fact_rows, snapshots, writing
from adk_graph_memory.graph.connection import UserGraph
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.language.text import digest, fold_text
from adk_graph_memory.memory.engine import UserContext
from adk_graph_memory.memory.guard import Guard, screen_statements
from adk_graph_memory.memory.ingestion import ingest_turns
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.facts import Fact, KnownEntity
from adk_graph_memory.records.memory import DerivedEntity
from adk_graph_memory.records.results import IngestReport
from adk_graph_memory.records.scopes import Scope, SharedMemory, check_flags, check_items, check_name, check_text
from adk_graph_memory.records.turns import (
    IMPERSONAL_ORIGINS,
    PROMOTED_SESSION,
    STATEMENT_SESSION,
    Passage,
    Role,
    Statement,
    Turn,
)
from adk_graph_memory.runtime import telemetry


@telemetry.trace_operation("create_memory")
async def add_statements(
    user: UserContext, statements: Sequence[Statement], *, consolidate: bool = False
) -> IngestReport:
    """Store statements as facts, word for word, or read each as a turn of its author.

    Raises:
        errors.InvalidArgument: a statement with its own id is to be consolidated, or one for a shared memory has the
            author ``user``.
        errors.RedactionFailed: the redaction failed; nothing is stored.
    """
    check_flags(consolidate=consolidate)
    statements = check_items("statements", statements, Statement)
    statements = [one for one in await user.engine.redactor.redact_statements(statements) if one.text.strip()]
    user.scope.check_authors(statement.author for statement in statements)
    statements, refused, guard = await screen_statements(user.engine.guard, statements, user.scope, holds=consolidate)
    telemetry.annotate_memories(statements)
    report = await (
        _consolidate_statements(user, statements, guard) if consolidate else _store_statements(user, statements)
    )
    return replace(report, dropped={**report.dropped, **refused})


async def _store_statements(user: UserContext, statements: Sequence[Statement]) -> IngestReport:
    writes_by_id = {write.fact.id: write for write in map(plan_statement, statements)}
    facts = [writes_by_id[id] for id in sorted(writes_by_id)]
    await user.engine.vectors.slot_tracker.refresh_slot()
    batch = await user.engine.vectors.embed_passages([Passage(one.fact.proposition.text) for one in facts])
    await writing.add_facts(user.graph, facts, batch)
    return IngestReport(facts={"ADD": len(facts)}, embedded=len(batch.embeddings), extractor="direct")


async def _consolidate_statements(
    user: UserContext, statements: Sequence[Statement], guard: Guard | None
) -> IngestReport:
    if named := [statement.id for statement in statements if statement.id]:
        reason = f"statement {named[0]!r} has an id of its own and is kept as it is: add it without consolidate"
        raise errors.InvalidArgument(reason=reason)
    report = IngestReport(extractor=user.engine.extractor.version)
    for group in _group_by_metadata(statements):
        metadata, replaces = group[0].metadata, group[0].replaces_metadata
        turns = [_convert_statement(statement, user.scope) for statement in group]
        turns = await renew_turns(user.graph, STATEMENT_SESSION, turns)
        topics = {turn.id: item.topic for turn, item in zip(turns, group, strict=True) if item.topic}
        delta = JsonMapDelta.from_values(metadata, replaces=replaces)
        extractor = _prepare_statements(user, topics)
        report += await ingest_turns(user, STATEMENT_SESSION, turns, delta, extractor=extractor, guard=guard)
    return report


def _prepare_statements(user: UserContext, topics: Mapping[str, str]) -> PreparedExtractor:
    """Make an extractor that keeps statements in their own words, with the caller's topics, where nothing is read."""
    extractor = user.engine.extractor

    async def read_statements(turns: Sequence[Turn], known_entities: Sequence[KnownEntity]) -> Extraction:
        result = await extractor.extract(turns, known_entities)
        return keep_statements(result, turns, topics, owner=user.scope.owner_name)

    return PreparedExtractor(read_statements, extractor)


def _convert_statement(statement: Statement, scope: Scope) -> Turn:
    role: Role = "model" if statement.origin in IMPERSONAL_ORIGINS else "user"
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


PROMOTED = "promoted"
"""What stands for the extractor of a promoted fact."""


@telemetry.trace_operation("create_memory")
async def promote_fact(user: UserContext, id: str, to: SharedMemory, *, author: str | None = None) -> IngestReport:
    """Copy a fact that holds into a shared memory, with its supporting quotes and nothing else from their turns.

    Raises:
        errors.NotFound: this user has no such fact.
        errors.InvalidArgument: the fact has ended, no remaining quote supports it, or ``to`` is not a shared memory.
        errors.RedactionFailed: the redaction failed; nothing is stored.
    """
    check_text("the id", id)
    if author is not None:
        check_name("the author", author)
    redactor, scope = user.engine.redactor, user.scope
    target = replace(user, scope=Scope(scope.app_name, check_shared(to)))
    if target == user:
        raise errors.InvalidArgument(reason=f"the fact is in {to!s} already")
    snapshot = await snapshots.fetch_snapshot(user.graph)
    author = await redactor.redact_text(scope.user_id if author is None else author)
    if (row := snapshot.statements.get(id)) is not None and row["stands"]:
        statement = fact_rows.read_statement(row)
        statement = replace(statement, author=author if statement.author == "user" else statement.author)
        return await add_statements(target, [statement])
    fact = snapshot.stored.facts.get(id.removeprefix("fact:"))
    if fact is None:
        raise errors.NotFound(what=f"fact {id!r} of this user", where="`adk-graph-memory facts`")
    if fact.standing.state != "current":
        reason = f"{fact.proposition.text!r} is over: promote what stands in its place"
        raise errors.InvalidArgument(reason=reason)
    turns = await redactor.redact_turns(_quote_turns(fact, snapshot.turns, scope, author))
    target.scope.check_authors(turn.author for turn in turns)
    text = await redactor.redact_text(fact.proposition.text)
    fact = replace(fact, proposition=replace(fact.proposition, text=text))
    promotion = make_promotion(fact, turns, snapshot.stored.entities, author)
    session_id = f"{PROMOTED_SESSION}{fact.id}"
    turns = await renew_turns(target.graph, session_id, turns)
    return await ingest_turns(target, session_id, turns, extractor=_prepare_promotion(user, fact, promotion))


def _prepare_promotion(user: UserContext, fact: Fact, promotion: Promotion) -> PreparedExtractor:
    """Make an extractor that extracts the promoted fact alone."""

    async def read_promotion(turns: Sequence[Turn], known_entities: Sequence[KnownEntity]) -> Extraction:
        return promotion.extract_fact(turns)

    predicates = frozenset([fact.proposition.predicate] if fact.proposition.is_functional else [])
    return PreparedExtractor(read_promotion, user.engine.extractor, version=PROMOTED, functional_predicates=predicates)


async def list_searched(user: UserContext, shared: Sequence[str] | None) -> list[UserContext]:
    """List the memories that a search of a user reads: their own, and the shared ones."""
    if shared is None:
        shared = () if user.scope.is_shared else await _find_shared(user)
    if isinstance(shared, str):  # a SharedMemory is a text
        shared = [shared]
    shared = check_items("shared memories", shared, object)
    others = (replace(user, scope=Scope(user.scope.app_name, check_shared(memory))) for memory in shared)
    return list(dict.fromkeys((user, *others)))


async def _find_shared(user: UserContext) -> Sequence[str]:
    shared = user.engine.shared
    if shared is None:
        return [SharedMemory.parse(id) for id in user.connection.settings.shared]
    if not callable(shared):
        return shared
    memories = shared(user.scope.app_name, user.scope.user_id)
    return (await memories if inspect.isawaitable(memories) else memories) or ()


def _quote_turns(fact: Fact, turns: Mapping[str, Mapping[str, Any]], scope: Scope, author: str) -> list[Turn]:
    """Make a turn of each quote of the fact that was found in its turn, if that has not expired."""
    quotes = [source for source in fact.sources if source.is_verified and turns[source.turn_id]["stands"]]
    if not quotes:
        reason = f"no quote that still stands supports {fact.proposition.text!r}, and nothing else can be shared of it"
        raise errors.InvalidArgument(reason=reason)
    expiries = (fact_rows.read_expiry(turns[source.turn_id]["expires_at"]) for source in quotes)
    return [
        convert_quote(source, scope, author, expires_at) for source, expires_at in zip(quotes, expiries, strict=True)
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


def make_promotion(fact: Fact, turns: Sequence[Turn], entities: Mapping[str, DerivedEntity], author: str) -> Promotion:
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
            object=refs[proposition.object] if proposition.object else None,
            sources=(),
            speaker=_name_author(proposition.speaker or "", author),
            at=proposition.at,
            **proposition.wording | {"text": text, "is_correction": False},
        ),
    )


def convert_quote(source: Source, scope: Scope, author: str, expires_at: datetime | None) -> Turn:
    """Convert a quote from the memory of this scope to a turn. The owner of that memory is a user here."""
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
