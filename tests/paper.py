"""Life histories remembered without a database: what was read, and the memory that it makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from benchmarks.quality.histories import History
from benchmarks.quality.reader import make_reader
from benchmarks.quality.truth import Fact, Portion

from adk_graph_memory import Limits, consolidation, extraction
from adk_graph_memory.consolidation.readings import recall_decisions
from adk_graph_memory.records import Candidates, KnownEntity, KnownFact
from adk_graph_memory.records.derived_memory import DerivedMemory
from adk_graph_memory.records.readings import Reading, rename_turns


async def read_portions(
    history: History, portions: Sequence[Portion], decided: Sequence[Reading] | None = None
) -> list[Reading]:
    """What memory reads of these portions, one after the other; portions without turns are left out.

    ``decided`` are readings of the same portions with more turns: what was decided then about words that these portions
    still hold is decided again, and nothing else.
    """
    model, readings, predicates = make_reader(history), list[Reading](), history.functional_predicates
    vocabulary = extraction.Vocabulary(functional_predicates=frozenset(predicates))
    extractor = extraction.ModelExtractor(model, limits=Limits(), vocabulary=vocabulary)
    judge = consolidation.Judge(model, Limits())
    for number, portion in enumerate(portions):
        if not portion.turns:
            continue
        turns = [replace(turn, session_id=portion.session) for turn in portion.turns]
        memory = consolidation.replay_readings(readings)
        known = _list_known_entities(memory)
        read = await extractor.extract(turns, known)
        memory_ids = {turn.id: turn.make_memory_id(portion.session) for turn in turns}
        read = rename_turns(read, memory_ids)
        read = replace(read, authors=tuple(sorted({(turn.author, turn.role) for turn in turns})))
        candidates = _list_candidates(memory, known, consolidation.GraphLookup(read, predicates))
        draft = consolidation.compare_extraction(read, candidates, functional_predicates=predicates)
        if decided is not None:
            comparison, decisions = draft, recall_decisions(decided[number], draft)
        else:
            replies = (await judge.decide(draft))[0] if draft.has_open_questions else consolidation.JudgeDecisions()
            comparison = consolidation.compare_extraction(
                read, candidates, functional_predicates=predicates, doubt_answers=replies.doubt_answers
            )
            decisions = replies.remap_ids(draft, comparison)
        readings.append(
            consolidation.record_reading(
                read,
                comparison,
                decisions,
                ingest_id=f"reading-{number}",
                session_id=portion.session,
                memory_ids={id: id for id in memory_ids.values()},
                functional_predicates=predicates,
                versions=("scripted", "scripted"),
            )
        )
    return readings


def _list_known_entities(memory: DerivedMemory) -> tuple[KnownEntity, ...]:
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


def _list_candidates(
    memory: DerivedMemory, known: Sequence[KnownEntity], wanted: consolidation.GraphLookup
) -> Candidates:
    """All that is known; facts of the same two entities count as alike."""
    facts = tuple(fact.known for fact in memory.facts.values())
    near: dict[str, tuple[str, ...]] = {}
    for said in wanted.make_propositions(known):
        same = [fact.id for fact in facts if said.object and _get_pair(fact) == (said.subject, said.object)]
        near[said.text] = (*near.get(said.text, ()), *sorted(same))
    links = tuple(link.link for link in memory.links.values())
    return Candidates(tuple(known), facts, links, near, dependencies=tuple(sorted(memory.dependencies)))


def _get_pair(fact: KnownFact) -> tuple[str | None, str | None]:
    return fact.proposition.subject, fact.proposition.object


def list_held(memory: DerivedMemory) -> list[Fact]:
    """The facts of a memory, as the truth table lists them."""
    return sorted(
        (
            memory.entities[fact.known.proposition.subject or ""].name,
            fact.known.proposition.text,
            fact.known.standing.state,
            fact.known.standing.valid_to.date().isoformat() if fact.known.standing.valid_to else "",
            len(fact.known.sources),
            _is_stale(memory, fact.known),
        )
        for fact in memory.facts.values()
    )


def _is_stale(memory: DerivedMemory, fact: KnownFact) -> bool:
    heard = max(source.at for source in fact.sources)
    bases = [memory.facts[base].known for one, base in memory.dependencies if one == fact.id]
    return any(_is_gone(memory, base, heard) for base in bases)


def _is_gone(memory: DerivedMemory, base: KnownFact, heard: datetime) -> bool:
    ends = (link.link.later for link in memory.links.values() if link.link.earlier == base.id and not link.link.is_void)
    later = {memory.facts[by].known.proposition.modality for by in ends}
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
                replace(fact.known, sources=(), equivalent_signatures=tuple(sorted(fact.known.equivalent_signatures))),
                digest_sources(fact.known.sources),
                sorted(revision.revision.key for revision in fact.revisions),
            )
            for id, fact in memory.facts.items()
        },
        "links": {pair: link.link for pair, link in memory.links.items()},
        "dependencies": memory.dependencies,
        "mentions": memory.mentions,
    }
