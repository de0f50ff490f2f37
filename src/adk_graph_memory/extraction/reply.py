"""A model's reply goes in; what it says and can prove comes out, and how much could not be used, by reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta

from adk_graph_memory.extraction.grounding import located
from adk_graph_memory.extraction.schema import EntityReply, ExtractionReply, FactReply
from adk_graph_memory.extraction.vocabulary import FREE, Vocabulary, predicate
from adk_graph_memory.records import ExtractedEntity, ExtractedFact, Extraction, KnownEntity, Source, Turn


def understood(
    reply: ExtractionReply,
    turns: Sequence[Turn],
    known: Sequence[KnownEntity],
    vocabulary: Vocabulary = FREE,
    *,
    keeps_unverified: bool = False,
) -> Extraction:
    """The reply as data of ours: references checked, quotes found, dates read; what fails is counted by reason."""
    dropped: Counter[str] = Counter()
    entities = {entity.ref: _entity(entity, known, vocabulary) for entity in reply.entities if entity.name.strip()}
    dropped["entity without a name, or named twice"] += len(reply.entities) - len(entities)
    facts, mentions = [], set()
    for fact in reply.facts:
        sources = _sources(fact, turns, keeps_unverified=keeps_unverified)
        topic = vocabulary.topic(fact.topic.strip())
        if fact.subject not in entities:
            dropped["fact about no entity of the reply"] += 1
        elif not fact.text.strip() or not fact.predicate.strip():
            dropped["fact without words"] += 1
        elif topic is None:
            dropped["fact of no topic that was asked for"] += 1
        elif not vocabulary.has(predicate(fact.predicate)):
            dropped["fact of no predicate that was asked for"] += 1
        elif not sources:
            dropped["quote not in the turns it names"] += 1
        else:
            facts.append(_fact(fact, topic, sources, turns, entities))
            about = [ref for ref in (fact.subject, fact.object) if ref in entities]
            mentions |= {(source.turn_id, ref) for source in sources for ref in about if ref is not None}
    if vocabulary.topics:  # whoever is spoken of in no fact that was asked for is not remembered either
        spoken_of = {ref for fact in facts for ref in (fact.subject, fact.object)}
        entities = {ref: entity for ref, entity in entities.items() if ref in spoken_of}
    return Extraction(tuple(entities.values()), tuple(facts), tuple(sorted(mentions)), +dropped)


def _entity(reply: EntityReply, known: Sequence[KnownEntity], vocabulary: Vocabulary) -> ExtractedEntity:
    is_known = reply.known_id is not None and 0 <= reply.known_id < len(known)
    return ExtractedEntity(
        ref=reply.ref,
        name=reply.name.strip(),
        type=vocabulary.entity_type(reply.type.strip().lower() or "thing"),
        aliases=tuple(alias.strip() for alias in reply.aliases if alias.strip()),
        known_key=known[reply.known_id].key if is_known and reply.known_id is not None else None,
        about=reply.about.strip(),
    )


def _sources(fact: FactReply, turns: Sequence[Turn], *, keeps_unverified: bool) -> tuple[Source, ...]:
    """Where the named turns say the quote."""
    named = [turns[i] for i in dict.fromkeys(fact.turns) if 0 <= i < len(turns)]
    found = tuple(source for turn in named if (source := located(fact.quote, turn)))
    return found or tuple(Source.unverified(turn) for turn in named if keeps_unverified)


def _fact(
    fact: FactReply,
    topic: str,
    sources: tuple[Source, ...],
    turns: Sequence[Turn],
    entities: Collection[int],
) -> ExtractedFact:
    said_in = next(turn for turn in turns if turn.id == sources[0].turn_id)
    return ExtractedFact(
        subject=fact.subject,
        predicate=predicate(fact.predicate),
        object=fact.object if fact.object in entities else None,
        text=fact.text.strip(),
        sources=sources,
        speaker=fact.speaker.strip() or said_in.author,
        at=said_in.at,
        modality=fact.modality,
        valid_from=_moment(fact.valid_from),
        valid_to=_end(fact, said_in),
        topic=topic,
        ref=fact.ref,
        replaces=tuple(fact.replaces),
        depends_on=tuple(fact.depends_on),
        correction=fact.correction,
    )


def _end(fact: FactReply, said_in: Turn) -> datetime | None:
    """When it stopped to be true; what ended on the day that it was told was over by then, if it is not yet to come."""
    end = _moment(fact.valid_to, is_end=True)
    is_of_the_day = (fact.valid_to or "").strip() == said_in.at.date().isoformat()
    return said_in.at if is_of_the_day and fact.modality != "planned" else end


def _moment(text: str | None, *, is_end: bool = False) -> datetime | None:
    """The ISO 8601 year, month, date or time that the text is, in UTC unless it names an offset; else None.

    A year, a month or a day begins with its first moment, and ends where the next one begins.
    """
    given = (text or "").strip()
    is_day = bool(re.fullmatch(r"\d{4}-\d\d-\d\d", given))
    if coarse := re.fullmatch(r"(\d{4})(?:-(\d\d))?", given):
        year, month = int(coarse[1]), coarse[2]
        if is_end:
            year, month = (year, f"{int(month) + 1:02}") if month and month != "12" else (year + 1, "01")
        given = f"{year:04}-{month or '01'}-01"
    try:
        moment = datetime.fromisoformat(given) + timedelta(days=is_end and is_day)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        utc = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    is_odd = bool((moment.utcoffset() or timedelta()).seconds % 60)  # an offset that no calendar of the graph knows
    return None if utc.year in (MINYEAR, MAXYEAR) else utc if is_odd else moment
