"""Parse a model's reply into entities and facts with verified quotes, and count what is dropped, by reason.

Gemini's schema subset allows no unions, tuples or free-form objects, so no field uses them. Each field is explained
here or in the prompt, not in both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import MAXYEAR, MINYEAR, datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, Field

from adk_graph_memory.extraction.grounding import QuoteLocator, fold_quote
from adk_graph_memory.extraction.vocabulary import OPEN_VOCABULARY, Vocabulary, format_predicate
from adk_graph_memory.language.dates import Precision, apply_fixed_offset, compute_date_end
from adk_graph_memory.language.text import fold_text, has_wide_character
from adk_graph_memory.records.extractions import (
    UNKNOWN_TYPE,
    ExtractedEntity,
    ExtractedFact,
    Extraction,
    Manner,
    Remark,
    Source,
    select_said_aliases,
)
from adk_graph_memory.records.facts import KnownEntity
from adk_graph_memory.records.turns import IMPERSONAL_ORIGINS, Turn


def _parse_number(value: Any) -> Any:
    """The number in "3", "turn-3" or 3.0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    match = re.search(r"(?<!\w)-?\d+", value) if isinstance(value, str) else None
    return int(match[0]) if match else value


def _parse_numbers(value: Any) -> Any:
    values = value if isinstance(value, list) else [] if value is None else [value]
    return list(dict.fromkeys(number for number in map(_parse_number, values) if isinstance(number, int)))


LenientInt = Annotated[int, BeforeValidator(_parse_number)]
LenientInts = Annotated[list[int], BeforeValidator(_parse_numbers)]
LenientText = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
LenientTexts = Annotated[list[str], BeforeValidator(lambda value: [] if value is None else value)]


class EntityReply(BaseModel):
    ref: LenientInt = Field(description="a number of your choice")
    name: str
    type: str = UNKNOWN_TYPE
    aliases: LenientTexts = []
    about: LenientText = ""
    known_id: LenientInt | None = None


class FactReply(BaseModel):
    ref: LenientInt = 0
    subject: LenientInt = Field(description="ref of an entity")
    predicate: str
    object: LenientInt | None = Field(default=None, description="ref of the other entity, if there is one")
    text: str = Field(description="one short sentence")
    quote: str
    turns: LenientInts = Field(description="numbers of the turns that contain the quote")
    speaker: LenientText = Field(default="", description="whose word it is, if not the author's of the turn")
    modality: Literal["asserted", "negated", "planned", "hypothetical", "reported"] = "asserted"
    valid_from: str | None = None
    valid_to: str | None = None
    topic: LenientText = ""
    replaces: LenientInts = Field(default=[], description="refs of facts of this reply")
    correction: bool = False
    depends_on: LenientInts = Field(default=[], description="refs of facts of this reply")


class TurnReply(BaseModel):
    turn: LenientInt
    kind: Manner
    origin: LenientText = Field(default="", description="who wrote it, if said")


class ForgetReply(BaseModel):
    request: LenientInt = Field(description="the turn that asks for it")
    turns: LenientInts = Field(description="those of its author that it covers, and answers that repeat them")


class ExtractionReply(BaseModel):
    entities: list[EntityReply] = []
    facts: list[FactReply] = []
    turns: list[TurnReply] = []
    forget: list[ForgetReply] = []


_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?")


class DateWithPrecision(NamedTuple):
    """A moment, and whether it stands for a year, month, day, estimated day or time."""

    at: datetime
    precision: Precision


class ValidityInterval(NamedTuple):
    """When a fact begins and ends to hold; ``is_inverted`` if the reply gave an end before the start."""

    start: DateWithPrecision | None = None
    end: DateWithPrecision | None = None
    is_inverted: bool = False


def parse_validity_interval(
    valid_from: str | None, valid_to: str | None, said_at: datetime, *, is_ahead: bool
) -> ValidityInterval:
    """Parse two ISO 8601 years, months, dates or times; one that cannot be parsed is None.

    An end before the start is dropped, or the start if that alone is estimated.

    Args:
        valid_from: the first year, month, day or time.
        valid_to: the last one.
        said_at: when the fact was said; a date without an offset is in its time zone.
        is_ahead: whether the fact is planned. If not, an end on the day it was said is at ``said_at``.
    """
    start, end = _parse_iso_date(valid_from, said_at), _parse_iso_date(valid_to, said_at)
    starts_at = start.at if start else None
    if end is not None:
        ends_at = compute_date_end(*end)
        is_same_day = end.precision == "day" and end.at.date() == said_at.date()
        if is_same_day and said_at > end.at and not is_ahead and (starts_at is None or starts_at < said_at):
            ends_at = said_at
        end = DateWithPrecision(ends_at, end.precision) if _is_in_range(ends_at) else None
    if end and starts_at and (end.at < starts_at or (end.at == starts_at and end.precision != "time")):
        is_start_vague = start is not None and start.precision == "about" and end.precision != "about"
        return ValidityInterval(None, end, True) if is_start_vague else ValidityInterval(start, None, True)
    return ValidityInterval(start, end)


def _parse_iso_date(text: str | None, said_at: datetime) -> DateWithPrecision | None:
    """The first moment of the year, month, day or time that the text names; "~" marks a day as estimated."""
    stripped = (text or "").strip()
    text = stripped.strip("~").strip()
    precision: Precision = "time" if ":" in text or "T" in text else "day"
    if match := _YEAR_OR_MONTH.fullmatch(text):
        precision = "month" if match[2] else "year"
        text = f"{match[1]}-{match[2] or '01'}-01"
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    if text != stripped and precision == "day":
        precision = "about"
    moment = parsed if parsed.tzinfo else parsed.replace(tzinfo=said_at.tzinfo)
    return DateWithPrecision(apply_fixed_offset(moment), precision) if _is_in_range(moment) else None


def _is_in_range(moment: datetime) -> bool:
    """Whether the moment exists in every time zone, and a year later too."""
    return MINYEAR < moment.year < MAXYEAR


def parse_reply(
    reply: ExtractionReply,
    turns: Sequence[Turn],
    known_entities: Sequence[KnownEntity],
    vocabulary: Vocabulary = OPEN_VOCABULARY,
    *,
    keep_unverified: bool = False,
) -> Extraction:
    """Check the references of a reply, find its quotes and parse its dates; count by reason what fails.

    A wrong number is corrected, and counted, where the words say which entity or turn it means. The reply numbers the
    turns of the window and the known entities from 0.
    """
    drop_counts: Counter[str] = Counter()
    reply_entities = _ReplyEntities(reply.entities, known_entities, vocabulary, drop_counts)
    reply_entities.drop_unsaid_aliases(turns)
    # A number that several facts have leads to none of them.
    ref_counts = Counter(fact.ref for fact in reply.facts)
    places_by_ref = {fact.ref: place for place, fact in enumerate(reply.facts) if ref_counts[fact.ref] == 1}
    locator = QuoteLocator(turns)
    facts, mentions = [], set()
    for ref, fact in enumerate(reply.facts):
        topic, fact_entities = vocabulary.match_topic(fact.topic.strip()), reply_entities.resolve_subject_object(fact)
        if fact_entities is None:
            drop_counts["fact about no entity of the reply"] += 1
        elif not fact.text.strip() or not fact.predicate.strip():
            drop_counts["fact without words"] += 1
        elif topic is None:
            drop_counts["fact of no topic that was asked for"] += 1
        elif not vocabulary.has_predicate(format_predicate(fact.predicate)):
            drop_counts["fact of no predicate that was asked for"] += 1
        elif not (sources := _find_fact_sources(fact, locator, drop_counts, keep_unverified=keep_unverified)):
            drop_counts["quote not in the turns it names"] += 1
        else:
            replaces = _resolve_links(fact.replaces, places_by_ref, drop_counts)
            depends_on = _resolve_links(fact.depends_on, places_by_ref, drop_counts)
            extracted = _convert_fact_reply(fact, topic, sources, locator.get_turn(sources[0].turn_id), drop_counts)
            subject, object = fact_entities
            facts.append(
                replace(extracted, ref=ref, subject=subject, object=object, replaces=replaces, depends_on=depends_on)
            )
            mentions |= {(source.turn_id, ref) for source in sources for ref in fact_entities if ref is not None}
    entities = reply_entities.entities
    if vocabulary.topics:  # drop entities that no fact of these topics is about
        used_refs = {ref for fact in facts for ref in (fact.subject, fact.object)}
        entities = [entity for entity in entities if entity.ref in used_refs]
    return Extraction(tuple(_add_entity_quotes(entities, facts)), tuple(facts), tuple(sorted(mentions)), +drop_counts)


class _ReplyEntities:
    """The entities of a reply under unique numbers; resolves the entities that a fact refers to."""

    def __init__(
        self,
        replies: Sequence[EntityReply],
        known_entities: Sequence[KnownEntity],
        vocabulary: Vocabulary,
        drop_counts: Counter[str],
    ) -> None:
        unique = {(entity.ref, fold_text(entity.name)): entity for entity in replies if entity.name.strip()}
        drop_counts["entity without a name, or named twice"] += len(replies) - len(unique)
        known_keys = {number: entity.key for number, entity in enumerate(known_entities)}
        self._drop_counts = drop_counts
        self._entities_by_ref: dict[int, list[ExtractedEntity]] = {}
        first_free = max((ref for ref, _ in unique), default=0) + 1
        for number, entity in enumerate(unique.values()):
            ref = first_free + number if entity.ref in self._entities_by_ref else entity.ref
            self._entities_by_ref.setdefault(entity.ref, []).append(
                _convert_entity_reply(entity, ref, known_keys, vocabulary, drop_counts)
            )
        self.entities = [entity for entities in self._entities_by_ref.values() for entity in entities]

    def drop_unsaid_aliases(self, turns: Sequence[Turn]) -> None:
        """Drop aliases that no turn ties to their entity: whoever is called so later would be taken for it."""
        authors, texts = [turn.author for turn in turns], [turn.author_text for turn in turns]
        for number, entity in enumerate(self.entities):
            said = select_said_aliases(entity.name, entity.aliases, authors, texts)
            self._drop_counts["alias that nobody said"] += len(entity.aliases) - len(said)
            self.entities[number] = replace(entity, aliases=said)

    def resolve_subject_object(self, fact: FactReply) -> tuple[int, int | None] | None:
        """The subject and object of a fact, or None if it has no subject.

        A number of no entity, or of several, means the only entity whose name is in the fact's text.
        """
        subject, object = self._find_by_ref(fact.subject), self._find_by_ref(fact.object)
        if subject is None:
            subject = self._find_by_name(fact.subject, fact.text, excluded_ref=object)
        if object is None and fact.object is not None:
            object = self._find_by_name(fact.object, fact.text, excluded_ref=subject)
        if subject is None:
            return None
        self._drop_counts["number that is no entity's"] += (subject != fact.subject) + (object != fact.object)
        return subject, object

    def _find_by_ref(self, ref: int | None) -> int | None:
        entities = self._entities_by_ref.get(ref, ()) if ref is not None else ()
        return entities[0].ref if len(entities) == 1 else None

    def _find_by_name(self, ref: int, text: str, excluded_ref: int | None) -> int | None:
        refs = [
            entity.ref
            for entity in self._entities_by_ref.get(ref, self.entities)
            if entity.ref != excluded_ref and any(_is_name_in(text, name) for name in (entity.name, *entity.aliases))
        ]
        return refs[0] if len(refs) == 1 else None


def _is_name_in(text: str, name: str) -> bool:
    """Whether the text contains the name, as whole words if its script has spaces."""
    text, name = fold_text(text), fold_text(name)
    if not any(character.isalnum() for character in name):
        return False
    return name in text if has_wide_character(name) else bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))


def _resolve_links(links: Sequence[int], refs: Mapping[int, int], drop_counts: Counter[str]) -> tuple[int, ...]:
    resolved = tuple(refs[link] for link in links if link in refs)
    drop_counts["link to no fact of the reply"] += len(links) - len(resolved)
    return resolved


def _convert_entity_reply(
    reply: EntityReply, ref: int, known_keys: Mapping[int, str], vocabulary: Vocabulary, drop_counts: Counter[str]
) -> ExtractedEntity:
    drop_counts["known_id of nobody"] += reply.known_id is not None and reply.known_id not in known_keys
    return ExtractedEntity(
        ref=ref,
        name=reply.name.strip(),
        type=vocabulary.match_entity_type(reply.type.strip().lower() or UNKNOWN_TYPE),
        aliases=tuple(alias.strip() for alias in reply.aliases if alias.strip()),
        known_key=None if reply.known_id is None else known_keys.get(reply.known_id),
        about=reply.about.strip(),
    )


def _add_entity_quotes(
    entities: Iterable[ExtractedEntity], facts: Iterable[ExtractedFact]
) -> Iterator[ExtractedEntity]:
    """Add to each entity matched to a known one the quotes that contain one of its names."""
    quotes_by_ref: dict[int | None, dict[str, None]] = {}
    for fact in facts:
        verified = dict.fromkeys(source.quote for source in fact.sources if source.is_verified)
        for ref in (fact.subject, fact.object):
            quotes_by_ref.setdefault(ref, {}).update(verified)
    for entity in entities:
        names = [fold_quote(name) for name in (entity.name, *entity.aliases)] if entity.known_key else []
        quotes = quotes_by_ref.get(entity.ref, {}) if names else {}
        yield replace(
            entity, quotes=tuple(quote for quote in quotes if any(name in fold_quote(quote) for name in names if name))
        )


def _find_fact_sources(
    fact: FactReply, locator: QuoteLocator, drop_counts: Counter[str], *, keep_unverified: bool
) -> tuple[Source, ...]:
    """Find the quote in the turns that the fact names, or else in the only turn that contains it."""
    if sources := locator.locate_in_turns(fact.quote, fact.turns):
        return sources
    if sources := locator.locate_unique_quote(fact.quote):
        drop_counts["number that is not the turn's"] += 1
        return sources
    return tuple(map(Source.from_whole_turn, locator.select_turns(fact.turns))) if keep_unverified else ()


def _convert_fact_reply(
    fact: FactReply, topic: str, sources: tuple[Source, ...], turn: Turn, drop_counts: Counter[str]
) -> ExtractedFact:
    interval = parse_validity_interval(fact.valid_from, fact.valid_to, turn.at, is_ahead=fact.modality == "planned")
    drop_counts["end before its beginning"] += interval.is_inverted
    return ExtractedFact(
        subject=fact.subject,
        predicate=format_predicate(fact.predicate),
        object=fact.object,
        text=fact.text.strip(),
        sources=sources,
        speaker=fact.speaker.strip() or turn.author,
        at=turn.at,
        modality=fact.modality,
        valid_from=interval.start.at if interval.start else None,
        valid_from_precision=interval.start.precision if interval.start else None,
        valid_to=interval.end.at if interval.end else None,
        valid_to_precision=interval.end.precision if interval.end else None,
        topic=topic,
        is_correction=fact.correction,
    )


_BORROWED_KINDS = ("pasted", "quoted")


def apply_remarks(
    extraction: Extraction, reply: ExtractionReply, turns: Sequence[Turn], context: Sequence[Turn] = ()
) -> Extraction:
    """Add the reply's remarks to the extraction and drop what somebody asked to forget.

    Args:
        extraction: the entities and facts of the reply.
        reply: the model's reply.
        turns: the turns of the window, numbered from 0.
        context: the turns before the window, with negative numbers; a request to forget may cover them.
    """
    turns_by_number = dict(enumerate((*context, *turns), start=-len(context)))
    drop_counts = Counter(extraction.drop_counts)
    remarks = {turns_by_number[remark.turn].id: remark for remark in reply.turns if 0 <= remark.turn < len(turns)}
    drop_counts["remark on no turn of the window"] += len(reply.turns) - len(remarks)
    extraction = replace(
        extraction,
        remarks=tuple(Remark(id, remark.kind, remark.origin.strip()) for id, remark in sorted(remarks.items())),
    )
    borrowed_ids = {id for id, remark in remarks.items() if remark.kind in _BORROWED_KINDS}
    forget: set[str] = set()
    for request in reply.forget:
        ids = set(_collect_forget_ids(request, turns_by_number, borrowed_ids))
        drop_counts["request to forget that its author may not make"] += not ids
        forget |= ids
    return drop_forgotten_turns(extraction, frozenset(forget), drop_counts)


def _collect_forget_ids(
    request: ForgetReply, turns_by_number: dict[int, Turn], borrowed_ids: set[str]
) -> Iterator[str]:
    """Ids of the turns that a request covers: those of the person who asks, and an agent's answers.

    A request in a turn of borrowed words may not be its author's, so it covers that turn only.
    """
    asking_turn = turns_by_number.get(request.request)
    if asking_turn is None or asking_turn.role != "user" or asking_turn.origin in IMPERSONAL_ORIGINS:
        return
    for turn in (asking_turn, *(turns_by_number[number] for number in request.turns if number in turns_by_number)):
        may_forget = turn.author == asking_turn.author or turn.role == "model"
        if turn is asking_turn or (may_forget and asking_turn.id not in borrowed_ids):
            yield turn.id


def drop_forgotten_turns(extraction: Extraction, forget: frozenset[str], drop_counts: Counter[str]) -> Extraction:
    """Drop all that rests on the turns with these ids, then facts without sources and entities nothing refers to."""
    if not forget:
        return replace(extraction, drop_counts=+drop_counts)
    facts: list[ExtractedFact] = []
    for fact in extraction.facts:
        sources = tuple(source for source in fact.sources if source.turn_id not in forget)
        if sources:
            facts.append(replace(fact, sources=sources))
    drop_counts["fact that somebody asked not to remember"] += len(extraction.facts) - len(facts)
    mentions = tuple(mention for mention in extraction.mentions if mention[0] not in forget)
    used_refs = {ref for fact in facts for ref in (fact.subject, fact.object)} | {ref for _, ref in mentions}
    return replace(
        extraction,
        entities=tuple(entity for entity in extraction.entities if entity.ref in used_refs),
        facts=tuple(facts),
        mentions=mentions,
        drop_counts=+drop_counts,
        remarks=tuple(remark for remark in extraction.remarks if remark.turn_id not in forget),
        forget_turn_ids=tuple(sorted(forget)),
    )
