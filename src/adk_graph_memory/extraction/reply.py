"""A model's reply goes in; what it says and can prove comes out, and how much could not be used, by reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from adk_graph_memory.extraction.grounding import QuoteLocator, fold_quote
from adk_graph_memory.extraction.reply_schema import EntityReply, ExtractionReply, FactReply
from adk_graph_memory.extraction.validity_interval import parse_validity_interval
from adk_graph_memory.extraction.vocabulary import OPEN_VOCABULARY, Vocabulary, format_predicate
from adk_graph_memory.records import (
    ExtractedEntity,
    ExtractedFact,
    Extraction,
    KnownEntity,
    Source,
    Turn,
    fold_text,
    has_wide_character,
)


def parse_reply(
    reply: ExtractionReply,
    turns: Sequence[Turn],
    known: Sequence[KnownEntity],
    vocabulary: Vocabulary = OPEN_VOCABULARY,
    *,
    keeps_unverified: bool = False,
) -> Extraction:
    """The reply as data of ours: references checked, quotes found, dates read; what fails is counted by reason.

    A number that is one off is put right where the words say which entity or turn is meant, and counted too.
    """
    dropped: Counter[str] = Counter()
    cast = _ReplyEntities(reply.entities, known, vocabulary, dropped)
    transcript, places = QuoteLocator(turns), _index_unique_refs(fact.ref for fact in reply.facts)
    facts, mentions = [], set()
    for ref, fact in enumerate(reply.facts):
        topic, about = vocabulary.match_topic(fact.topic.strip()), cast.resolve_subject_object(fact)
        if about is None:
            dropped["fact about no entity of the reply"] += 1
        elif not fact.text.strip() or not fact.predicate.strip():
            dropped["fact without words"] += 1
        elif topic is None:
            dropped["fact of no topic that was asked for"] += 1
        elif not vocabulary.has_predicate(format_predicate(fact.predicate)):
            dropped["fact of no predicate that was asked for"] += 1
        elif not (sources := _find_fact_sources(fact, transcript, dropped, keeps_unverified=keeps_unverified)):
            dropped["quote not in the turns it names"] += 1
        else:
            links = [tuple(places[one] for one in refs if one in places) for refs in (fact.replaces, fact.depends_on)]
            dropped["link to no fact of the reply"] += len(fact.replaces) + len(fact.depends_on) - sum(map(len, links))
            said_in = transcript.get_turn(sources[0].turn_id)
            subject, object = about
            read = _make_extracted_fact(fact, topic, sources, said_in, dropped)
            facts.append(replace(read, ref=ref, subject=subject, object=object, replaces=links[0], depends_on=links[1]))
            mentions |= {(source.turn_id, one) for source in sources for one in about if one is not None}
    entities = cast.entities
    if vocabulary.topics:  # whoever is spoken of in no fact that was asked for is not remembered either
        spoken_of = {ref for fact in facts for ref in (fact.subject, fact.object)}
        entities = [entity for entity in entities if entity.ref in spoken_of]
    return Extraction(tuple(_add_entity_quotes(entities, facts)), tuple(facts), tuple(sorted(mentions)), +dropped)


class _ReplyEntities:
    """The entities of a reply, each with a number of its own, and which of them a fact is about."""

    def __init__(
        self,
        replies: Sequence[EntityReply],
        known: Sequence[KnownEntity],
        vocabulary: Vocabulary,
        dropped: Counter[str],
    ) -> None:
        listed = {(one.ref, fold_text(one.name)): one for one in replies if one.name.strip()}
        dropped["entity without a name, or named twice"] += len(replies) - len(listed)
        self._dropped = dropped
        self._entities_by_ref: dict[int, list[ExtractedEntity]] = {}
        free = max((ref for ref, _ in listed), default=0) + 1
        for number, one in enumerate(listed.values()):
            ref = free + number if one.ref in self._entities_by_ref else one.ref
            self._entities_by_ref.setdefault(one.ref, []).append(
                _make_extracted_entity(one, ref, known, vocabulary, dropped)
            )
        self.entities = [entity for listed in self._entities_by_ref.values() for entity in listed]

    def resolve_subject_object(self, fact: FactReply) -> tuple[int, int | None] | None:
        """Subject and object; where a number is nobody's, or of two, the only one whose name is in the text."""
        subject, object = self._find_by_ref(fact.subject), self._find_by_ref(fact.object)
        if subject is None:
            subject = self._find_by_name(fact.subject, fact.text, beside=object)
        if object is None and fact.object is not None:
            object = self._find_by_name(fact.object, fact.text, beside=subject)
        if subject is None:
            return None
        self._dropped["number that is no entity's"] += (subject != fact.subject) + (object != fact.object)
        return subject, object

    def _find_by_ref(self, ref: int | None) -> int | None:
        found = self._entities_by_ref.get(ref, ()) if ref is not None else ()
        return found[0].ref if len(found) == 1 else None

    def _find_by_name(self, ref: int, text: str, beside: int | None) -> int | None:
        named = [
            one.ref
            for one in self._entities_by_ref.get(ref, self.entities)
            if one.ref != beside and any(_is_name_in(text, name) for name in (one.name, *one.aliases))
        ]
        return named[0] if len(named) == 1 else None


def _is_name_in(text: str, name: str) -> bool:
    """Whether the text has the name as words of its own, where its script has words."""
    said, name = fold_text(text), fold_text(name)
    if not any(character.isalnum() for character in name):
        return False
    return name in said if has_wide_character(name) else bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said))


def _index_unique_refs(refs: Iterable[int]) -> dict[int, int]:
    """The place of each fact whose number no other has."""
    listed = list(refs)
    times = Counter(listed)
    return {ref: place for place, ref in enumerate(listed) if times[ref] == 1}


def _make_extracted_entity(
    reply: EntityReply, ref: int, known: Sequence[KnownEntity], vocabulary: Vocabulary, dropped: Counter[str]
) -> ExtractedEntity:
    number = reply.known_id
    is_known = number is not None and 0 <= number < len(known)
    dropped["known_id of nobody"] += number is not None and not is_known
    return ExtractedEntity(
        ref=ref,
        name=reply.name.strip(),
        type=vocabulary.match_entity_type(reply.type.strip().lower() or "thing"),
        aliases=tuple(alias.strip() for alias in reply.aliases if alias.strip()),
        known_key=known[number].key if is_known and number is not None else None,
        about=reply.about.strip(),
    )


def _add_entity_quotes(
    entities: Iterable[ExtractedEntity], facts: Iterable[ExtractedFact]
) -> Iterator[ExtractedEntity]:
    """Those that the reply takes for somebody known, with the words that hold one of their names."""
    told: dict[int | None, dict[str, None]] = {}
    for fact in facts:
        for ref in (fact.subject, fact.object):
            told.setdefault(ref, {}).update(dict.fromkeys(one.quote for one in fact.sources if one.is_verified))
    for entity in entities:
        names = [fold_quote(name) for name in (entity.name, *entity.aliases)] if entity.known_key else []
        quotes = told.get(entity.ref, {}) if names else {}
        yield replace(
            entity, quotes=tuple(one for one in quotes if any(name in fold_quote(one) for name in names if name))
        )


def _find_fact_sources(
    fact: FactReply, transcript: QuoteLocator, dropped: Counter[str], *, keeps_unverified: bool
) -> tuple[Source, ...]:
    """Where the named turns say the quote, or else the one turn that does."""
    if found := transcript.locate_in_turns(fact.quote, fact.turns):
        return found
    if found := transcript.locate_unique_quote(fact.quote):
        dropped["number that is not the turn's"] += 1
        return found
    return tuple(map(Source.from_whole_turn, transcript.select_turns(fact.turns))) if keeps_unverified else ()


def _make_extracted_fact(
    fact: FactReply, topic: str, sources: tuple[Source, ...], said_in: Turn, dropped: Counter[str]
) -> ExtractedFact:
    when = parse_validity_interval(fact.valid_from, fact.valid_to, said_in.at, is_ahead=fact.modality == "planned")
    dropped["end before its beginning"] += when.is_inverted
    return ExtractedFact(
        subject=fact.subject,
        predicate=format_predicate(fact.predicate),
        object=fact.object,
        text=fact.text.strip(),
        sources=sources,
        speaker=fact.speaker.strip() or said_in.author,
        at=said_in.at,
        modality=fact.modality,
        valid_from=when.start.at if when.start else None,
        valid_from_precision=when.start.precision if when.start else None,
        valid_to=when.end.at if when.end else None,
        valid_to_precision=when.end.precision if when.end else None,
        topic=topic,
        is_correction=fact.correction,
    )
