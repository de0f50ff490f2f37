"""What was read goes in; what the graph holds that it may be about comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from neo4j import Record

from adk_graph_memory.graph import fact_rows, lucene
from adk_graph_memory.graph.connection import Connection, Transaction
from adk_graph_memory.graph.ingest_queue import MAX_KNOWN_ENTITIES, Lease, read_known_entity
from adk_graph_memory.graph.queries import ROWS_PER_STATEMENT
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.records import Candidates, FactLink, KnownEntity, Proposition, Scope
from adk_graph_memory.records.write_plan import STATES_PREDICATE

MAX_PREDICATE_FACTS = 200
"""Facts of one subject and predicate that a new one is compared with, the latest first."""
MAX_NAMESAKES = 10
"""Entities that are looked at for one name, where the user has more than an extractor is offered."""
MIN_SIMILARITY, MAX_SIMILAR_FACTS, MAX_RECENT_FACTS = 0.70, 5, 300
"""Similarity (0 to 1, as Neo4j scales the cosine) above which a fact is worth a look, though it decides nothing; how
many such a new fact gets for each of its entities; and among how many of the entity's latest facts they are sought."""
_SIMILARITY_PARAMETERS = {"near": MIN_SIMILARITY, "nearest": MAX_SIMILAR_FACTS, "recent": MAX_RECENT_FACTS}
MAX_CONTEXT_FACTS, MAX_OPEN_PLANS = 30, 10
"""Facts last heard of the entities that an extraction names, shown to whoever judges it, and the latest plans of theirs
that nobody has ended: what comes of a plan is often heard long after it."""


class CandidateQuery(Protocol):
    """What an extraction wants to know of the graph, once the entities that it may name are known."""

    @property
    def entity_keys(self) -> Sequence[str]:
        """Keys of the entities that it may be about."""
        ...

    @property
    def entity_names(self) -> Sequence[str]:
        """All names of each of its entities, in one text."""
        ...

    @property
    def quote_keys(self) -> Sequence[tuple[str, str]]:
        """Turn id and quote key of the words that it rests on."""
        ...

    def make_propositions(self, known: Sequence[KnownEntity]) -> Sequence[Proposition]:
        """What its facts say, of these entities."""
        ...


async def fetch_candidates(
    connection: Connection,
    scope: Scope,
    claimed: Lease,
    wanted: CandidateQuery,
    embedded: EmbeddingBatch,
    *,
    is_judged: bool,
) -> tuple[Candidates, int]:
    """What the graph holds that an extraction may be about, and the number of writes it has seen.

    Args:
        connection: a prepared connection.
        scope: whose memory it is.
        claimed: the window that was read.
        wanted: what the extraction names and says.
        embedded: the vectors of what it says.
        is_judged: whether anybody will decide what rules cannot; if so, facts that may have to do with one of the
            extraction's are looked for as well: about the same two entities, or near in meaning.
    """
    keys, queries, graves = await asyncio.to_thread(_make_lookup_keys, scope, claimed, wanted)

    place = embedded.slot.vector_property if embedded.slot else None

    def asked_about(known: Sequence[KnownEntity]) -> tuple[dict[str, Any], list[list[dict[str, Any]]]]:
        said, keys = wanted.make_propositions(known), {entity.key for entity in known}
        return _make_fact_parameters(said, is_judged), _chunk_vectors(said, embedded, keys) if is_judged else []

    async def work(transaction: Transaction) -> tuple[Candidates, int]:
        [named] = await transaction.run_statement(
            "entities_by_name", scope=scope.key, keys=keys, queries=queries, namesakes=MAX_NAMESAKES
        )
        entities = _drop_merged([*claimed.known_entities, *map(read_known_entity, named["entities"])])
        asked, said = await asyncio.to_thread(asked_about, entities)
        near = [
            (row["text"], row["fact"], row["score"])
            for part in said
            for row in await transaction.run_statement(
                "near_facts", _SIMILARITY_PARAMETERS, scope=scope.key, slot=place, rows=part
            )
        ]
        alike = sorted({fact for _, fact, _ in near})
        [row] = await transaction.run_statement(
            "candidate_facts", asked, scope=scope.key, alike=alike, quotes=list(graves)
        )
        known = (
            await transaction.run_statement("known_facts", scope=scope.key, ids=row["facts"]) if row["facts"] else []
        )
        return await asyncio.to_thread(_make_candidates, claimed, graves, entities, row, near, known), named["writes"]

    return await connection.transact(work)


def _make_lookup_keys(
    scope: Scope, claimed: Lease, wanted: CandidateQuery
) -> tuple[Sequence[str], list[str], dict[str, tuple[str, str]]]:
    """Keys and Lucene queries of the entities that it may be about, and the words it rests on by their tombstones."""
    memory_ids, fields = claimed.memory_ids, ("name", "aliases")
    graves = {f"{memory_ids[turn_id]}:{quote_key}": (turn_id, quote_key) for turn_id, quote_key in wanted.quote_keys}
    names = () if len(claimed.known_entities) < MAX_KNOWN_ENTITIES else wanted.entity_names
    queries = [
        query for name in names for query in lucene.make_lucene_queries(scope.key, lucene.extract_terms(name), fields)
    ]
    return wanted.entity_keys, queries, graves


def _make_candidates(
    claimed: Lease,
    graves: Mapping[str, tuple[str, str]],
    entities: tuple[KnownEntity, ...],
    row: Record,
    alike: Sequence[tuple[str, str, float]],
    known: Sequence[Record],
) -> Candidates:
    turn_ids = {memory_id: id for id, memory_id in claimed.memory_ids.items()}
    core, near = set(row["core"]), dict[str, tuple[str, ...]]()
    for text, fact, _ in sorted({*alike, *map(tuple, row["near"])}, key=lambda one: (-one[2], one[1], one[0])):
        near[text] = (*near.get(text, ()), fact)
    return Candidates(
        entities,
        tuple(
            fact_rows.read_known_fact(fact, turn_ids, claimed.edited_turn_ids, fact["id"] in core) for [fact] in known
        ),
        tuple(FactLink(*link) for link in row["links"]),
        near,
        tuple(row["around"]),
        frozenset(graves[key] for key in row["forgotten"]),
        tuple((one, base) for one, base in row["dependencies"]),
    )


def _drop_merged(entities: Sequence[KnownEntity]) -> tuple[KnownEntity, ...]:
    """Each once, as it was found last, without those that were merged into another meanwhile."""
    found = {entity.key: entity for entity in entities}
    gone = {key for entity in found.values() for key in entity.merged_keys}
    return tuple(entity for key, entity in found.items() if key not in gone)


def _make_fact_parameters(said: Sequence[Proposition], is_judged: bool) -> dict[str, Any]:
    """What the statement takes: by what it finds facts that say the same, of one slot, of one pair, or near."""
    return {
        "signatures": sorted({one.signature for one in said}),
        "slots": [
            {"subject": subject, "predicate": predicate}
            for subject, predicate in sorted({(one.subject or "", one.predicate) for one in said})
            if predicate != STATES_PREDICATE
        ],
        "pairs": [
            {"subject": one.subject, "object": one.object, "text": one.text}
            for one in said
            if is_judged and one.object is not None
        ],
        "entities": sorted({entity for one in said for entity in _list_entity_keys(one)}) if is_judged else [],
        "around": MAX_CONTEXT_FACTS,
        "plans": MAX_OPEN_PLANS,
        "most": MAX_PREDICATE_FACTS,
        "nearest": MAX_SIMILAR_FACTS,
    }


def _chunk_vectors(
    said: Sequence[Proposition], embedded: EmbeddingBatch, known: Collection[str]
) -> list[list[dict[str, Any]]]:
    """Each entity that the graph knows, with what is said of it and its vector, as many as one statement takes.

    Of a new entity there is nothing near.
    """
    pairs = sorted(
        {(entity, one.text) for one in said if embedded.find_vector(one.text) for entity in _list_entity_keys(one)}
    )
    pairs = [pair for pair in pairs if pair[0] in known]
    parts: list[list[dict[str, Any]]] = []
    for start in range(0, len(pairs), ROWS_PER_STATEMENT):
        texts: dict[str, list[dict[str, Any]]] = {}
        for entity, text in pairs[start : start + ROWS_PER_STATEMENT]:
            texts.setdefault(entity, []).append({"text": text, "vector": embedded.find_vector(text)})
        parts.append([{"entity": entity, "texts": told} for entity, told in texts.items()])
    return parts


def _list_entity_keys(said: Proposition) -> list[str]:
    return sorted({key for key in (said.subject, said.object) if key is not None})
