"""Measure what a search costs in a scope of thousands, and in one of tens of thousands.

The store around it is filled by plain Cypher, in the shape that remembering gives it, but in minutes.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from neo4j_graphrag.embeddings.base import Embedder
from numpy.typing import NDArray
from typing_extensions import override

from adk_graph_memory import GraphMemory, Neo4jMemoryService
from adk_graph_memory.graph import lucene, vector_slots
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.statements import fill_identifiers
from adk_graph_memory.language.text import digest
from adk_graph_memory.models.projection import Projection, QuestionTokens
from adk_graph_memory.models.tokens import QuestionEmbedding
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import Embedding, Passage
from adk_graph_memory.runtime.settings import Settings
from benchmarks import server
from benchmarks.latency.clock import time_call
from benchmarks.latency.counting import count_sent
from benchmarks.latency.result import Result
from benchmarks.latency.scale import Scale
from benchmarks.latency.speech import Speaker
from benchmarks.percentile import compute_percentile

BARS = ((50, 25), (150, 80))
"""Milliseconds of p95 for each of the scale's scopes, and for those who aim higher."""
TURNS_A_SESSION, SUBJECTS_A_SESSION = 20, 3
ENTITIES = 100
SHORTEST, LONGEST, LONGEST_FACT = 8, 40, 20
"""Words of a turn, and of the fact that is read in it."""
TOPICS, DIMENSIONS = 50, 384
BATCH, AT_ONCE = 500, 4
"""Turns a transaction, each with its fact; and users that are filled side by side."""

_LETTERS = ("BDFGKLMNPRSTVZ", "aeiou", "lmnr", "aeiou", "nsx")
_COUNT = "MATCH (n:@Memory) RETURN count(n) AS memories"
_FILL_USER = """
CREATE (:@User {scope: $scope, app_name: $app_name, user_id: $user_id, state: [], authors: $authors, writes: 1})
WITH 1 AS once
UNWIND $names AS name
CREATE (:@Entity {scope: $scope, key: toLower(name), name: name, type: 'person', aliases: [], about: ''})
"""
_FILL_TURNS = """
UNWIND $rows AS row
MATCH (n:@Entity {scope: $scope, key: toLower(row.name)})
CREATE (e:@Event:@Memory {scope: $scope, kind: 'event', open: true}) SET e += row.event
CREATE (f:@Fact:@Memory {scope: $scope, kind: 'fact', open: true, state: 'current', direct: false, support: 1,
  predicate: 'speaks_of', modality: 'asserted', topic: '', metadata: [], recorded_at: datetime()}) SET f += row.fact
CREATE (f)-[:SUPPORTED_BY {key: f.id, quote: e.text, start: 0, end: size(e.text)}]->(e),
  (f)-[:SUBJECT]->(n), (e)-[:MENTIONS]->(n)
SET e.tokens_a = row.tokens[0], f.tokens_a = row.tokens[1]
WITH row, e, f
CALL db.create.setNodeVectorProperty(e, 'embedding_a', row.vectors[0])
CALL db.create.setNodeVectorProperty(f, 'embedding_a', row.vectors[1])
WITH e ORDER BY e.seq
WITH e.session_uid AS session, collect(e) AS turns
UNWIND range(1, size(turns) - 1) AS place
WITH turns[place - 1] AS earlier, turns[place] AS later
CREATE (earlier)-[:NEXT]->(later)
"""


async def search(settings: Settings, scale: Scale) -> AsyncIterator[Result]:
    """search_memory of one user in a large store, which grows from one scope to the next."""
    embedder, app_name = Topics(), f"bench-{uuid.uuid4().hex[:12]}"
    memory = GraphMemory(settings=server.set_apart(settings, "Scopes"), model="rules", embedder=embedder)
    async with Neo4jMemoryService(memory=memory) as service:
        store = await open_store(memory, app_name)
        for (size, total), (bar, stretch) in zip(scale.scopes, BARS, strict=True):
            before, asking = await store.count(), f"asks-among-{size}"
            took = await time_call(partial(store.fill, asking, size, total, scale.memories_a_user)) / 1_000
            present = await store.count()
            costs = await _measure_costs(service, embedder, Scope(app_name, asking), size, scale)
            note = (
                f"store filled by plain Cypher, {present - before:,} memories in {took:.0f} s; half of them facts; "
                f"seeded vectors around {TOPICS} topics"
            )
            yield Result(f"search_memory, {size:,} of {present:,} memories, p50", "ms", costs.middle, note=note)
            yield Result("  p95, beyond the embedding", "ms", costs.slowest, bar, stretch=stretch)
            yield Result("  statements", "", costs.statements, 2)


async def open_store(memory: GraphMemory, app_name: str, first_user: int = 0) -> Store:
    """Makes the graph ready for vectors of :class:`Topics`."""
    await memory.prepare()
    assert memory.engine.vectors.embedder
    await vector_slots.open_slot(memory.connection, "a", memory.engine.vectors.embedder.name, DIMENSIONS)
    return Store(memory.connection, app_name, first_user)


@dataclass(frozen=True, slots=True)
class Costs:
    """What a search cost in each round: milliseconds beyond the embedding, and statements."""

    middle: tuple[float, ...]
    slowest: tuple[float, ...]
    statements: tuple[float, ...]


async def _measure_costs(service: Neo4jMemoryService, embedder: Topics, scope: Scope, size: int, scale: Scale) -> Costs:
    talk, rows = Talk(size), []
    for _ in range(scale.warm_up + scale.rounds):
        spent, sent_each = [], []
        with count_sent() as sent:
            for _ in range(scale.searches):
                arguments = {"app_name": scope.app_name, "user_id": scope.user_id, "query": talk.make_question()}
                embedded, statements = embedder.milliseconds, sent.statements
                total = await time_call(partial(service.search_memory, **arguments))
                spent.append(total - (embedder.milliseconds - embedded))
                sent_each.append(sent.statements - statements)
        rows.append((compute_percentile(spent, 0.50), compute_percentile(spent, 0.95), statistics.median(sent_each)))
    return Costs(*zip(*rows[-scale.rounds :], strict=True))


class Store:
    """Memories of many users, written without being read.

    Args:
        connection: a prepared connection with slot a open.
        app_name: of all its users.
        first_user: the number of the first user to come.
    """

    def __init__(self, connection: Connection, app_name: str, first_user: int = 0) -> None:
        self._connection, self._app_name = connection, app_name
        self._users = itertools.count(first_user)
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def count(self) -> int:
        """How many memories there are."""
        [row] = await self._run(_COUNT, {})
        return int(row["memories"])

    async def fill(self, user_id: str, size: int, total: int, size_of_others: int) -> None:
        """A user of that many memories, and as many others as make up the total with whoever is there."""
        lacking = total - size - await self.count()
        others = [min(size_of_others, lacking - start) for start in range(0, lacking, size_of_others)]
        seeds = [next(self._users) for _ in others]
        await asyncio.gather(
            self._fill(user_id, size, Talk(size)),
            *(self._fill(f"other-{seed}", of, Talk(-1 - seed)) for seed, of in zip(seeds, others, strict=True)),
        )

    async def _fill(self, user_id: str, size: int, talk: Talk) -> None:
        scope = Scope(self._app_name, user_id)
        owner = {"scope": scope.key, "app_name": self._app_name, "user_id": user_id}
        turns, since = size // 2, time.time() - size * 600
        async with self._slots:
            await self._run(_FILL_USER, owner | {"names": talk.names, "authors": ["user", "assistant"]})
            for start in range(0, turns, BATCH):
                rows = talk.make_turns(range(start, min(start + BATCH, turns)), since)
                await self._run(_FILL_TURNS, {"scope": scope.key, "rows": rows})

    async def _run(self, text: str, parameters: dict[str, Any]) -> Sequence[Any]:
        return await self._connection.run_cypher(fill_identifiers(text, self._connection.settings), parameters)


class Talk:
    """What one user and their agent say of a hundred acquaintances, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"talk {seed}")
        self._numbers = np.random.default_rng(self._random.getrandbits(32))
        self.names = self._random.sample(list(_number_topics()), ENTITIES)
        self._subjects: dict[int, list[str]] = {}

    def make_turns(self, places: range, since: float) -> list[dict[str, Any]]:
        """Rows of turns, each with a fact, an entity and the vectors of both."""
        named = [self._random.choice(self._choose_subjects(place // TURNS_A_SESSION)) for place in places]
        vectors = make_vectors_around([_number_topics()[name] for name in named for _ in "ef"], self._numbers)
        return [
            {
                "name": name,
                "event": (event := self._make_event(place, name, since + place * 600)),
                "fact": (fact := self._make_fact(name, event)),
                "vectors": [vectors[2 * at], vectors[2 * at + 1]],
                "tokens": [_load_projection().pack_vectors(self._make_tokens(node["text"])) for node in (event, fact)],
            }
            for at, (place, name) in enumerate(zip(places, named, strict=True))
        ]

    def _make_tokens(self, text: str) -> NDArray[np.float32]:
        """One for each of its words, and a third more, as MiniLM's tokenizer makes of them."""
        return self._numbers.standard_normal((4 * len(text.split()) // 3, DIMENSIONS), dtype=np.float32)

    def make_question(self) -> str:
        """What the user might ask, another one each time."""
        return f"What did I say about {self._random.choice(self.names)} and {' '.join(self._choose_words(6))}?"

    def _make_event(self, place: int, name: str, timestamp: float) -> dict[str, Any]:
        session_id, is_user = f"session-{place // TURNS_A_SESSION}", place % 2 == 0
        text = self._make_text(name, LONGEST)
        return {
            "id": f"turn-{place}",
            "memory_id": f"event:{digest(session_id, f'turn-{place}')}",
            "session_id": session_id,
            "session_uid": f"elsewhere:{session_id}",
            "seq": 1 + place % TURNS_A_SESSION,
            "author": "user" if is_user else "assistant",
            "role": "user" if is_user else "model",
            "timestamp": timestamp,
            "text": text,
            "words": lucene.extract_word_parts(text),
        }

    def _make_fact(self, name: str, event: dict[str, Any]) -> dict[str, Any]:
        text, id = self._make_text(name, LONGEST_FACT), digest(event["memory_id"])
        columns = {key: event[key] for key in ("author", "timestamp")}
        return {
            "id": id,
            "memory_id": f"fact:{id}",
            "signature": id,
            "text": text,
            "words": lucene.extract_word_parts(text),
            **columns,
        }

    def _choose_subjects(self, session: int) -> list[str]:
        return self._subjects.setdefault(session, self._random.sample(self.names, SUBJECTS_A_SESSION))

    def _make_text(self, name: str, longest: int) -> str:
        words = self._choose_words(self._random.randint(SHORTEST, longest) - 1)
        words.insert(self._random.randrange(len(words)), name)
        return " ".join(words)

    def _choose_words(self, count: int) -> list[str]:
        start = self._random.randrange(len(_make_speech()) - count)
        return _make_speech()[start : start + count]


class Topics(Embedder):
    """Vectors of MiniLM's size by whom a text names, and how long they took."""

    model = "topics"

    def __init__(self) -> None:
        super().__init__()
        self.milliseconds = 0.0
        self._numbers = np.random.default_rng(1)

    @override
    def embed_query(self, text: str) -> list[float]:
        return self.embed_question(text).vector

    def embed_question(self, text: str, typed_text: str | None = None) -> QuestionEmbedding:
        """With a token for each word."""
        typed = None if typed_text is None else self.embed_question(typed_text)
        start = time.perf_counter()
        [vector] = make_vectors_around(
            [next((_number_topics()[word] for word in text.split() if word in _number_topics()), 0)], self._numbers
        )
        tokens = self._numbers.standard_normal((len(text.split()), DIMENSIONS), dtype=np.float32)
        embedding = QuestionEmbedding(vector, QuestionTokens(tokens, _load_projection()), typed)
        self.milliseconds += (time.perf_counter() - start) * 1_000
        return embedding

    def embed_passages(self, passages: Sequence[Passage]) -> list[Embedding]:
        """The vectors of each."""
        return [Embedding(self.embed_query(passage.text)) for passage in passages]


def make_vectors_around(topics: Sequence[int], numbers: np.random.Generator) -> list[list[float]]:
    """A unit vector for each topic: its centre and as much noise, so that two of one topic have a cosine of a half."""
    noise = numbers.standard_normal((len(topics), DIMENSIONS)) / np.sqrt(DIMENSIONS)
    return [vector.tolist() for vector in _scale_to_units(_make_centres()[list(topics)] + noise)]


@cache
def _load_projection() -> Projection:
    return Projection.from_model("all-MiniLM-L6-v2", DIMENSIONS)


@cache
def _make_centres() -> NDArray[np.float64]:
    return _scale_to_units(np.random.default_rng(0).standard_normal((TOPICS, DIMENSIONS)))


def _scale_to_units(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    unit_vectors: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit_vectors


@cache
def _number_topics() -> dict[str, int]:
    """Every name that there is, and the topic to which it belongs."""
    return {"".join(letters): place % TOPICS for place, letters in enumerate(itertools.product(*_LETTERS))}


@cache
def _make_speech() -> list[str]:
    """A long run of words as people use them."""
    events = (event for seed in range(100) for event in Speaker(seed).make_events(40))
    texts = (part.text for event in events if event.content for part in event.content.parts or ())
    return [word for text in texts if text for word in text.split()]
