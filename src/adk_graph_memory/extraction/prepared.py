"""Extract what somebody knows of turns beforehand, in an extractor's place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace

from adk_graph_memory.extraction.extractor import Extractor
from adk_graph_memory.records import ExtractedEntity, ExtractedFact, Extraction, KnownEntity, Source, Turn
from adk_graph_memory.records.write_plan import STATES_PREDICATE

Prepare = Callable[[Sequence[Turn], Sequence[KnownEntity]], Awaitable[Extraction]]
"""Extracts from a window of turns, given the entities already in the graph; what was said before does not matter."""


class PreparedExtractor:
    """Extracts what is known of the turns beforehand.

    Args:
        prepare: makes the extraction of a window of turns.
        extractor: reads the turns in its place if the request is resumed later.
        version: how the graph names who made the extraction; by default, the extractor.
        functional_predicates: predicates of which a subject has one value at a time; by default, the extractor's.
    """

    def __init__(
        self,
        prepare: Prepare,
        extractor: Extractor,
        *,
        version: str | None = None,
        functional_predicates: frozenset[str] | None = None,
    ) -> None:
        self._prepare, self._extractor = prepare, extractor
        self.version, self.model_name = version or extractor.version, extractor.model_name
        self.topics: tuple[str, ...] = ()
        self.functional_predicates = (
            extractor.functional_predicates if functional_predicates is None else functional_predicates
        )

    def restrict_topics(self, topics: Collection[str]) -> Extractor:
        """Return the extractor itself: what is known has its topic."""
        return self

    def split_turns(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """Split the turns as the extractor does."""
        return self._extractor.split_turns(turns)

    async def extract(
        self, turns: Sequence[Turn], known_entities: Sequence[KnownEntity], context: Sequence[Turn] = ()
    ) -> Extraction:
        """Return what is known of the turns."""
        return await self._prepare(turns, known_entities)


def keep_statements(
    extraction: Extraction, turns: Sequence[Turn], topics: Mapping[str, str], *, owner: str
) -> Extraction:
    """Return the extraction with a fact of each of these turns, in its own words if nothing else was read in it.

    Such a fact is about who says it. What an agent or a tool says is about whom it serves.

    Args:
        extraction: what was extracted from the turns.
        turns: each a statement that somebody asked to remember.
        topics: the topic of a turn's facts, by the turn's id, if somebody gave one.
        owner: how whoever the memory belongs to is named.
    """
    facts = [_set_topic(fact, topics) for fact in extraction.facts]
    entities = list(extraction.entities)
    read_ids = {source.turn_id for fact in facts for source in fact.sources}
    for turn in turns:
        if turn.id in read_ids:
            continue
        fact = ExtractedFact(
            subject=_find_person(owner if turn.role == "model" else turn.author, entities),
            predicate=STATES_PREDICATE,
            object=None,
            text=turn.text,
            sources=(Source.from_turn(turn, 0, len(turn.text)),),
            speaker=turn.author,
            at=turn.at,
            topic=topics.get(turn.id, ""),
            ref=max((other.ref for other in facts), default=-1) + 1,
        )
        facts.append(fact)
    return replace(extraction, entities=tuple(entities), facts=tuple(facts))


def _set_topic(fact: ExtractedFact, topics: Mapping[str, str]) -> ExtractedFact:
    given = [topics[source.turn_id] for source in fact.sources if source.turn_id in topics]
    return replace(fact, topic=given[0]) if given else fact


def _find_person(name: str, entities: list[ExtractedEntity]) -> int:
    """Find the reference of a person, who is added to the entities if need be."""
    for entity in entities:
        if name.casefold() in (known.casefold() for known in (entity.name, *entity.aliases)):
            return entity.ref
    ref = max((entity.ref for entity in entities), default=-1) + 1
    entities.append(ExtractedEntity(ref, name, "person"))
    return ref
