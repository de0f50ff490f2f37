"""Fetch the entities and facts of the graph that an extraction may be about."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from neo4j import Record

from adk_graph_memory.graph import erasing, fact_rows, lucene
from adk_graph_memory.graph.connection import Transaction, UserGraph
from adk_graph_memory.graph.ingest_queue import MAX_KNOWN_ENTITIES, Lease, read_known_entity
from adk_graph_memory.graph.statements import ROWS_PER_STATEMENT
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.records.facts import STATES_PREDICATE, Candidates, FactLink, KnownEntity, Proposition

MAX_PREDICATE_FACTS = 200
"""Facts of one subject and predicate that a new fact is compared with, latest first."""
MAX_NAMESAKES = 10
"""Entities looked up per name, for users with more entities than an extractor is offered."""
MIN_SIMILARITY, MAX_SIMILAR_FACTS, MAX_RECENT_FACTS = 0.70, 5, 300
"""Minimum similarity (0 to 1, Neo4j's scaled cosine) of a candidate fact; candidates per new fact and entity; and the
number of an entity's latest facts that are searched."""
_SIMILARITY_PARAMETERS = {"near": MIN_SIMILARITY, "nearest": MAX_SIMILAR_FACTS, "recent": MAX_RECENT_FACTS}
MAX_CONTEXT_FACTS, MAX_OPEN_PLANS = 30, 10
"""Latest facts and latest open plans, per entity of an extraction, that the judge sees. Plans count separately, because
their outcome is often heard long after them."""


class CandidateQuery(Protocol):
    """What an extraction looks up in the graph."""

    @property
    def entity_keys(self) -> Sequence[str]:
        """Keys of the entities that it may be about."""

    @property
    def entity_names(self) -> Sequence[str]:
        """For each of its entities, all names in one text."""

    @property
    def turn_ids(self) -> Sequence[str]:
        """Ids of the turns that its facts rest on."""

    def resolve_propositions(self, known_entities: Sequence[KnownEntity]) -> Sequence[Proposition]:
        """The propositions of its facts, with subjects and objects resolved to these entities."""


async def fetch_candidates(
    graph: UserGraph,
    window: Lease,
    query: CandidateQuery,
    batch: EmbeddingBatch,
    *,
    is_judged: bool,
) -> tuple[Candidates, int]:
    """Fetch what an extraction may be about, and the user's count of writes at that time.

    Args:
        graph: the user's graph.
        window: the window that was read.
        query: what the extraction names and says.
        batch: embeddings of the extraction's texts.
        is_judged: whether a judge decides what rules cannot. If so, facts about the same two entities and facts of
            similar meaning are candidates too.
    """
    await graph.connection.prepare()
    keys, queries, tombstones = await asyncio.to_thread(_list_lookup_keys, graph, window, query)
    vector_property = batch.slot.vector_property if batch.slot else None

    def prepare_parameters(entities: Sequence[KnownEntity]) -> tuple[dict[str, Any], list[list[dict[str, Any]]]]:
        propositions, known_keys = query.resolve_propositions(entities), {entity.key for entity in entities}
        chunks = _chunk_vectors(propositions, batch, known_keys) if is_judged else []
        return _list_fact_parameters(propositions, is_judged), chunks

    async def work(transaction: Transaction) -> tuple[Candidates, int]:
        [entity_row] = await transaction.run_statement(
            "entities_by_name", keys=keys, queries=queries, namesakes=MAX_NAMESAKES
        )
        entities = _drop_merged([*window.known_entities, *map(read_known_entity, entity_row["entities"])])
        parameters, chunks = await asyncio.to_thread(prepare_parameters, entities)
        similar = [
            row
            for chunk in chunks
            for row in await transaction.run_statement(
                "near_facts", _SIMILARITY_PARAMETERS, slot=vector_property, rows=chunk
            )
        ]
        similar_ids = sorted({row["fact"] for row in similar})
        [row] = await transaction.run_statement(
            "candidate_facts", parameters, alike=similar_ids, tombstones=list(tombstones)
        )
        facts = await transaction.run_statement("known_facts", ids=row["facts"]) if row["facts"] else []
        candidates = await asyncio.to_thread(_read_candidates, window, tombstones, entities, row, similar, facts)
        return candidates, entity_row["writes"]

    return await graph.transact(work)


def _list_lookup_keys(
    graph: UserGraph, window: Lease, query: CandidateQuery
) -> tuple[Sequence[str], list[str], dict[str, str]]:
    """Entity keys, Lucene queries for entity names, and the turns by tombstone key."""
    memory_ids, fields = window.memory_ids, ("name", "aliases")
    tombstones = {
        make_tombstone(graph.connection, memory_ids[turn_id]): turn_id
        for turn_id in query.turn_ids
        for make_tombstone in (erasing.make_turn_tombstone, erasing.make_fact_tombstone)
    }
    # With fewer entities than the maximum, the lease lists them all: none has to be looked up by name.
    names = () if len(window.known_entities) < MAX_KNOWN_ENTITIES else query.entity_names
    queries = [
        lucene_query
        for name in names
        for lucene_query in lucene.format_lucene_queries(graph.scope.key, lucene.extract_terms(name), fields)
    ]
    return query.entity_keys, queries, tombstones


def _read_candidates(
    window: Lease,
    tombstones: Mapping[str, str],
    entities: tuple[KnownEntity, ...],
    row: Record,
    similar: Sequence[Record],
    facts: Sequence[Record],
) -> Candidates:
    turn_ids = {memory_id: id for id, memory_id in window.memory_ids.items()}
    complete_ids, similar_ids = set(row["core"]), dict[str, tuple[str, ...]]()
    hits = {(-hit["score"], hit["fact"], hit["text"]) for hit in (*similar, *row["near"])}
    for _, fact_id, text in sorted(hits):
        similar_ids[text] = (*similar_ids.get(text, ()), fact_id)
    return Candidates(
        entities,
        tuple(
            fact_rows.read_fact(fact, turn_ids, window.edited_turn_ids, is_complete=fact["id"] in complete_ids)
            for [fact] in facts
        ),
        tuple(FactLink(**link) for link in row["links"]),
        similar_ids,
        tuple(row["around"]),
        frozenset(tombstones[key] for key in row["forgotten"]),
        tuple((fact_id, base_id) for fact_id, base_id in row["dependencies"]),
    )


def _drop_merged(entities: Sequence[KnownEntity]) -> tuple[KnownEntity, ...]:
    """Keep the last version of each entity, without entities that were merged into another meanwhile."""
    by_key = {entity.key: entity for entity in entities}
    merged_keys = {key for entity in by_key.values() for key in entity.merged_keys}
    return tuple(entity for key, entity in by_key.items() if key not in merged_keys)


def _list_fact_parameters(propositions: Sequence[Proposition], is_judged: bool) -> dict[str, Any]:
    """Parameters of ``candidate_facts``: facts are found by signature, subject and predicate, pair, or entity."""
    subjects = {(proposition.subject or "", proposition.predicate) for proposition in propositions}
    entity_keys = {key for proposition in propositions for key in _list_entity_keys(proposition)}
    return {
        "signatures": sorted({proposition.signature for proposition in propositions}),
        "slots": [
            {"subject": subject, "predicate": predicate}
            for subject, predicate in sorted(subjects)
            if predicate != STATES_PREDICATE
        ],
        "pairs": [
            {"subject": proposition.subject, "object": proposition.object, "text": proposition.text}
            for proposition in propositions
            if is_judged and proposition.object is not None
        ],
        "entities": sorted(entity_keys) if is_judged else [],
        "around": MAX_CONTEXT_FACTS,
        "plans": MAX_OPEN_PLANS,
        "most": MAX_PREDICATE_FACTS,
        "nearest": MAX_SIMILAR_FACTS,
    }


def _chunk_vectors(
    propositions: Sequence[Proposition], batch: EmbeddingBatch, known_keys: Collection[str]
) -> list[list[dict[str, Any]]]:
    """For each known entity, the texts about it with their vectors, in chunks that one statement takes."""
    pairs = sorted(
        {
            (key, proposition.text)
            for proposition in propositions
            if batch.find_vector(proposition.text)
            for key in _list_entity_keys(proposition)
            if key in known_keys
        }
    )
    chunks: list[list[dict[str, Any]]] = []
    for start in range(0, len(pairs), ROWS_PER_STATEMENT):
        rows_by_key: dict[str, list[dict[str, Any]]] = {}
        for key, text in pairs[start : start + ROWS_PER_STATEMENT]:
            rows_by_key.setdefault(key, []).append({"text": text, "vector": batch.find_vector(text)})
        chunks.append([{"entity": key, "texts": texts} for key, texts in rows_by_key.items()])
    return chunks


def _list_entity_keys(proposition: Proposition) -> list[str]:
    return sorted({key for key in (proposition.subject, proposition.object) if key is not None})
