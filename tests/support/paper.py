"""Conversations remembered without a database: what was read, and the memory that it makes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from benchmarks.quality import truth
from benchmarks.quality.histories import History
from benchmarks.quality.reader import make_reader
from benchmarks.quality.truth import Portion
from google.adk.models.base_llm import BaseLlm

from adk_graph_memory import Limits, Turn
from adk_graph_memory.consolidation.comparison import Comparison, GraphLookup, compare_extraction
from adk_graph_memory.consolidation.decisions import JudgeDecisions
from adk_graph_memory.consolidation.entity_resolution import digest_entity_name
from adk_graph_memory.consolidation.judge import Judge
from adk_graph_memory.consolidation.readings import recall_decisions, record_reading
from adk_graph_memory.consolidation.replay import replay_readings
from adk_graph_memory.extraction.extractor import ModelExtractor
from adk_graph_memory.extraction.vocabulary import Vocabulary
from adk_graph_memory.records.extractions import Extraction
from adk_graph_memory.records.facts import Candidates, Fact, KnownEntity
from adk_graph_memory.records.memory import DerivedMemory
from adk_graph_memory.records.readings import Reading, rename_turns

Compare = Callable[[Mapping[int, str | None] | None], Comparison]
"""Compares what a portion says with the memory, given whom names in doubt mean."""


class Reader:
    """Reads portions with a model, as memory does."""

    def __init__(self, model: BaseLlm, functional_predicates: Collection[str] = ()) -> None:
        self.functional_predicates = functional_predicates
        vocabulary = Vocabulary(functional_predicates=frozenset(functional_predicates))
        self._extractor = ModelExtractor(model, limits=Limits(), vocabulary=vocabulary)
        self._judge = Judge(model, Limits())

    async def extract(self, number: int, turns: Sequence[Turn], memory: DerivedMemory) -> Extraction:
        """What the portion of this number says, given what memory holds so far."""
        return await self._extractor.extract(turns, list_known_entities(memory))

    async def decide(self, number: int, compare: Compare, memory: DerivedMemory) -> tuple[Comparison, JudgeDecisions]:
        """The comparison of what was extracted with the memory, and what the model says about it."""
        draft = compare(None)
        replies = (await self._judge.decide(draft))[0] if draft.has_open_questions else JudgeDecisions()
        comparison = compare(replies.doubt_answers)
        return comparison, replies.remap_ids(draft, comparison)


class Rereader(Reader):
    """Reads portions of which words are gone, without a judge: it decides what these readings of all words hold.

    What was decided about words that are gone is decided no more.
    """

    def __init__(
        self, model: BaseLlm, readings: Sequence[Reading], functional_predicates: Collection[str] = ()
    ) -> None:
        super().__init__(model, functional_predicates)
        self.readings = readings

    async def decide(self, number: int, compare: Compare, memory: DerivedMemory) -> tuple[Comparison, JudgeDecisions]:
        """The comparison as far as names in doubt still mean somebody, and the decisions that are still about words."""
        keys, reading = self.map_entity_keys(memory), self.readings[number]
        answers = {ref: key and keys[key] for ref, key in reading.doubt_answers.items() if key is None or key in keys}
        comparison = compare(answers)
        return comparison, replace(recall_decisions(reading, comparison), doubt_answers=answers)

    def map_entity_keys(self, memory: DerivedMemory) -> dict[str, str]:
        """Map the key that an entity had among all words to the one that the same words gave it without the others."""
        authors = {digest_entity_name(name) for reading in self.readings for name, _ in reading.extraction.authors}
        pairs = {
            key: memory.entity_keys[reading.id, ref]
            for reading in self.readings
            for ref, key in reading.entity_keys.items()
            if (reading.id, ref) in memory.entity_keys
        }
        return {key: key for key in authors if key in memory.entities} | pairs


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said, who reads all of it, and who reads what is left of it.

    The latter is made from the readings of all of it, and the words that are told no more.
    """

    portions: list[Portion]
    make_reader: Callable[[], Reader]
    make_rereader: Callable[[Sequence[Reading], frozenset[str]], Rereader]


def tell_history(history: History, portions: list[Portion]) -> Conversation:
    """A life history in these portions; whoever reads what is left of it reads no more than that."""
    model, predicates = make_reader(history), history.functional_predicates
    return Conversation(
        portions,
        lambda: Reader(model, predicates),
        lambda readings, lost_words: Rereader(model, readings, predicates),
    )


async def read_portions(reader: Reader, portions: Sequence[Portion]) -> list[Reading]:
    """What memory reads of these portions, one after the other; portions without turns are left out."""
    readings = list[Reading]()
    for number, portion in enumerate(portions):
        if portion.turns:
            memory = replay_readings(readings)
            readings.append(await _read_portion(reader, number, portion, memory))
    return readings


async def _read_portion(reader: Reader, number: int, portion: Portion, memory: DerivedMemory) -> Reading:
    turns = [replace(turn, session_id=portion.session) for turn in portion.turns]
    memory_ids = {turn.id: turn.make_memory_id(portion.session) for turn in turns}
    read = rename_turns(await reader.extract(number, turns, memory), memory_ids)
    read = replace(read, authors=tuple(sorted({(turn.author, turn.role) for turn in turns})))
    predicates = reader.functional_predicates
    candidates = _list_candidates(memory, GraphLookup(read, predicates))

    def compare(doubt_answers: Mapping[int, str | None] | None) -> Comparison:
        return compare_extraction(read, candidates, functional_predicates=predicates, doubt_answers=doubt_answers)

    comparison, decisions = await reader.decide(number, compare, memory)
    return record_reading(
        read,
        comparison,
        decisions,
        ingest_id=f"reading-{number}",
        session_id=portion.session,
        memory_ids={id: id for id in memory_ids.values()},
        functional_predicates=predicates,
        versions=("scripted", "scripted"),
    )


def list_known_entities(memory: DerivedMemory) -> tuple[KnownEntity, ...]:
    """The entities that an extractor is offered."""
    return tuple(
        KnownEntity(
            entity.key,
            entity.name,
            entity.type,
            entity.aliases,
            entity.about,
            tuple(other.key for other in memory.entities.values() if other.merged_into == entity.key),
        )
        for entity in memory.entities.values()
        if entity.merged_into is None
    )


def _list_candidates(memory: DerivedMemory, wanted: GraphLookup) -> Candidates:
    """All that is known; facts of the same two entities count as alike."""
    known = list_known_entities(memory)
    facts = tuple(memory.facts.values())
    near: dict[str, tuple[str, ...]] = {}
    for said in wanted.resolve_propositions(known):
        same = [fact.id for fact in facts if said.object and _get_pair(fact) == (said.subject, said.object)]
        near[said.text] = (*near.get(said.text, ()), *sorted(same))
    links = tuple(memory.links.values())
    recent_ids = tuple(fact.id for fact in facts)
    return Candidates(known, facts, links, near, recent_ids, dependencies=tuple(sorted(memory.dependencies)))


def _get_pair(fact: Fact) -> tuple[str | None, str | None]:
    return fact.proposition.subject, fact.proposition.object


def list_held(memory: DerivedMemory) -> list[truth.Fact]:
    """The facts of a memory, as the truth table lists them."""
    return sorted(
        (
            memory.entities[fact.proposition.subject or ""].name,
            fact.proposition.text,
            fact.standing.state,
            fact.standing.valid_to.date().isoformat() if fact.standing.valid_to else "",
            len(fact.sources),
            _is_stale(memory, fact),
        )
        for fact in memory.facts.values()
    )


def _is_stale(memory: DerivedMemory, fact: Fact) -> bool:
    heard = max(source.at for source in fact.sources)
    bases = [memory.facts[base] for one, base in memory.dependencies if one == fact.id]
    return any(_is_gone(memory, base, heard) for base in bases)


def _is_gone(memory: DerivedMemory, base: Fact, heard: datetime) -> bool:
    ends = (link.later for link in memory.links.values() if link.earlier == base.id and not link.is_void)
    later = {memory.facts[by].proposition.modality for by in ends}
    came_true = base.proposition.modality == "planned" and later == {"asserted"}
    standing = base.standing
    ended = standing.state == "superseded" and standing.valid_to is not None and standing.valid_to > heard
    return standing.state == "retracted" or (ended and not came_true)


def digest_memory(memory: DerivedMemory) -> dict[str, Any]:
    """All of a memory but the places of turns in their sessions, which nobody renumbers."""

    def digest_sources(sources: Iterable[Any]) -> list[Any]:
        return sorted((replace(source, seq=0) for source in sources), key=lambda source: source.key)

    return {
        "entities": memory.entities,
        "facts": {
            id: (
                replace(fact, sources=(), equivalent_signatures=tuple(sorted(fact.equivalent_signatures))),
                digest_sources(fact.sources),
                sorted(revision.key for revision in fact.revisions),
            )
            for id, fact in memory.facts.items()
        },
        "links": dict(memory.links),
        "dependencies": memory.dependencies,
        "mentions": memory.mentions,
    }
