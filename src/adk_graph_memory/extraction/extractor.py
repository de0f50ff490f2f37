"""Extract what turns say: the interface, the extractor that asks a model once per window, and prepared results."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Protocol

from adk_graph_memory import errors
from adk_graph_memory.extraction.pieces import (
    Piece,
    divide_window,
    pack_pieces,
    place_sources,
    shorten_context,
    split_into_windows,
)
from adk_graph_memory.extraction.reply import ExtractionReply, apply_remarks, drop_forgotten_turns, parse_reply
from adk_graph_memory.extraction.rules import RuleExtractor
from adk_graph_memory.extraction.vocabulary import OPEN_VOCABULARY, Topic, Vocabulary
from adk_graph_memory.language.dates import format_weekday_time
from adk_graph_memory.language.detection import detect_language, load_stop_words
from adk_graph_memory.language.text import count_tokens, fold_text, has_wide_character
from adk_graph_memory.models import llm, prompts
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Remark, Source
from adk_graph_memory.records.facts import STATES_PREDICATE, KnownEntity
from adk_graph_memory.records.turns import Turn
from adk_graph_memory.runtime.settings import Limits, Settings

_CONTEXT_SHARE, _MIN_CONTEXT_TOKENS = 0.25, 1_000
"""Tokens of the turns before a window, as a share of the window's, and how many there may always be."""
MAX_UNNAMED_TOKENS = 1_000
"""Tokens of the known entities that a window does not name."""
_PASSING_TYPES = frozenset(("event", "topic"))
_WORD = re.compile(r"\w+")
_GREETING = Turn("greeting", "user", "Good morning!", datetime(2026, 1, 1, 9, tzinfo=UTC))


class Extractor(Protocol):
    """Extracts entities and facts from turns."""

    version: str
    model_name: str
    """The model's name in ADK's registry; ``rules`` without a model."""
    functional_predicates: frozenset[str]
    """Predicates with a single value per subject at a time."""
    topics: tuple[str, ...]
    """Labels of the topics it is restricted to; empty for all."""

    def restrict_topics(self, topics: Collection[str]) -> Extractor:
        """The extractor for a request restricted to the topics with these labels; unchanged if there are none."""

    def split_turns(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """Split the turns into windows, each for one call of ``extract``."""

    async def extract(
        self, turns: Sequence[Turn], known_entities: Sequence[KnownEntity], context: Sequence[Turn] = ()
    ) -> Extraction:
        """Extract from one window, given the entities already in the graph and the turns right before the window."""


class ModelExtractor:
    """Extracts with a language model, one call per window.

    Args:
        model: any ADK model.
        limits: the size of a window; how often, how long and how many at a time to call the model.
        vocabulary: the topics, entity types and predicates it may use.
        keep_unverified: whether to keep a fact whose quote is not in the turns it names.
    """

    def __init__(
        self,
        model: llm.BaseLlm,
        *,
        limits: Limits,
        vocabulary: Vocabulary = OPEN_VOCABULARY,
        keep_unverified: bool = False,
    ) -> None:
        self._model, self._limits = model, limits
        self._prompt, self._vocabulary = prompts.load_prompt("extract"), vocabulary
        self._keep_unverified = keep_unverified
        self.functional_predicates = vocabulary.functional_predicates
        self.topics = tuple(topic.label for topic in vocabulary.topics)
        self.model_name, self.version = model.model, f"{model.model} {self._prompt.version}"

    def restrict_topics(self, topics: Collection[str]) -> ModelExtractor:
        """The extractor for a request restricted to the topics with these labels; unchanged if there are none.

        Raises:
            errors.ConfigurationError: no topic has this label.
        """
        if not topics:
            return self
        restricted = copy(self)
        restricted._vocabulary = self._vocabulary.restrict_topics(topics)
        restricted.topics = tuple(topic.label for topic in restricted._vocabulary.topics)
        return restricted

    def split_turns(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """Split the turns into windows of at most ``window_tokens``; a longer turn gets a window of its own."""
        return split_into_windows(turns, size=self._limits.window_tokens)

    async def extract(
        self, turns: Sequence[Turn], known_entities: Sequence[KnownEntity], context: Sequence[Turn] = ()
    ) -> Extraction:
        """Extract entities and facts from one window, with one model call or more.

        A turn longer than ``window_tokens`` is read in pieces. A fact whose quote is in none of the turns is dropped
        and counted, or kept unverified. What the model cannot answer or refuses to is asked for in halves, until only
        what cannot be read at all is left: the extraction names these turns.

        Raises:
            errors.ModelError: the model failed; nothing was extracted.
        """
        windows = await asyncio.to_thread(pack_pieces, turns, size=self._limits.window_tokens)
        contexts = [list(map(Piece, context)), *(window[-1:] for window in windows)]
        reader = _WindowReader(self._ask, known_entities)
        slots = asyncio.Semaphore(self._limits.model_concurrency)
        tasks = [
            asyncio.create_task(reader.read_window(window, before, slots))
            for window, before in zip(windows, contexts, strict=False)
        ]
        try:
            parts = [part for task in tasks for part in await task]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return parts[0] if len(parts) == 1 else join_extractions(parts)

    async def _ask(
        self, pieces: Sequence[Piece], known_entities: Sequence[KnownEntity], context: Sequence[Piece]
    ) -> Extraction:
        """Ask the model about what fits into one prompt.

        Raises:
            errors.ReplyTruncated: the reply was cut off; its answer is the extraction of what came, if anything did.
            errors.ModelError: the model failed.
        """
        known_entities = await asyncio.to_thread(
            select_known_entities, known_entities, [piece.turn.text for piece in (*context, *pieces)]
        )
        prompt = await asyncio.to_thread(self._fill_prompt, pieces, known_entities, context)
        try:
            answer = await llm.generate_structured(self._model, prompt, ExtractionReply, self._limits)
        except errors.ReplyTruncated as error:
            if error.answer is not None:
                answer = await self._drop_shown_requests(error.answer, (*context, *pieces), start=-len(context))
                error.answer = await asyncio.to_thread(self._read_answer, answer, pieces, known_entities, context)
            raise
        answer = await self._drop_shown_requests(answer, (*context, *pieces), start=-len(context))
        return await asyncio.to_thread(self._read_answer, answer, pieces, known_entities, context)

    async def _drop_shown_requests(
        self, answer: llm.ModelAnswer[ExtractionReply], pieces: Sequence[Piece], *, start: int
    ) -> llm.ModelAnswer[ExtractionReply]:
        """Drop the requests to forget that the model does not find in their author's own words: a picture makes them.

        Args:
            answer: the model's answer.
            pieces: what it was shown, in order.
            start: the number of the first piece.
        """
        requests = []
        for request in answer.reply.forget:
            place = request.request - start
            turn = pieces[place].turn if 0 <= place < len(pieces) else None
            if turn is not None and turn.shown:
                prompt = await asyncio.to_thread(self._fill_prompt, [Piece(turn.show_parts(()))], (), ())
                control = await llm.generate_structured(self._model, prompt, ExtractionReply, self._limits)
                answer = answer._replace(usage=answer.usage + control.usage)
                if not control.reply.forget:
                    continue
            requests.append(request)
        return answer._replace(reply=answer.reply.model_copy(update={"forget": requests}))

    def _fill_prompt(
        self, pieces: Sequence[Piece], known_entities: Sequence[KnownEntity], context: Sequence[Piece]
    ) -> str:
        entity_lines = []
        for number, entity in enumerate(known_entities):
            known = {"about": entity.about, "facts": entity.facts}
            fields = {"type": entity.type, **{name: value for name, value in known.items() if value}}
            line = prompts.encode_line({"names": [entity.name, *entity.aliases], **fields})
            entity_lines.append(f"{number}: {line}")
        max_tokens = max(_MIN_CONTEXT_TOKENS, int(self._limits.window_tokens * _CONTEXT_SHARE))
        texts = [*shorten_context(context, max_tokens=max_tokens), *(piece.prompt_text for piece in pieces)]
        turns = [piece.turn for piece in (*context, *pieces)]
        return self._prompt.fill_template(
            known_entities="\n".join(entity_lines) or "(none yet)",
            turns="\n".join(_format_turns(turns, texts, start=-len(context))),
            **self._vocabulary.format_prompt_fields(),
        )

    def _read_answer(
        self,
        answer: llm.ModelAnswer[ExtractionReply],
        pieces: Sequence[Piece],
        known_entities: Sequence[KnownEntity],
        context: Sequence[Piece],
    ) -> Extraction:
        turns, reply = [piece.turn for piece in pieces], answer.reply
        extraction = parse_reply(reply, turns, known_entities, self._vocabulary, keep_unverified=self._keep_unverified)
        extraction = place_sources(extraction, pieces)
        extraction = apply_remarks(extraction, reply, turns, [piece.turn for piece in context])
        extraction = _keep_seen_facts(extraction, turns)
        drop_counts = Counter(extraction.drop_counts) + Counter(answer.dropped)
        return replace(extraction, usage=answer.usage, drop_counts=drop_counts)


class _WindowReader:
    """Reads what one request gives to a model, in as small parts as the model needs.

    Args:
        ask: asks the model about pieces, given known entities and what was said before.
        known_entities: the entities already in the graph.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Piece], Sequence[KnownEntity], Sequence[Piece]], Awaitable[Extraction]],
        known_entities: Sequence[KnownEntity],
    ) -> None:
        self._ask, self._known_entities = ask, known_entities
        self._unread: dict[str, str] = {}
        self._has_answered = False

    async def read_window(
        self, pieces: Sequence[Piece], context: Sequence[Piece], slots: asyncio.Semaphore
    ) -> list[Extraction]:
        """Read a window while holding a slot; return what was extracted from each of its parts."""
        async with slots:
            return await self._read(pieces, context)

    async def _read(self, pieces: Sequence[Piece], context: Sequence[Piece]) -> list[Extraction]:
        context = [piece for piece in context if piece.turn.id not in self._unread]
        try:
            extraction = await self._ask(pieces, self._known_entities, context)
        except errors.ReplyTruncated as error:
            self._has_answered = True
            if error.answer is not None and divide_window(pieces) is None:
                return [error.answer]
            return [Extraction(usage=error.usage), *await self._read_halves(pieces, context, error)]
        except (errors.ModelRefused, errors.ReplyUnusable) as error:
            return await self._read_halves(pieces, context, error)
        self._has_answered = True
        return [extraction]

    async def _read_halves(
        self, pieces: Sequence[Piece], context: Sequence[Piece], error: errors.ModelError
    ) -> list[Extraction]:
        """Read in halves what the model could not answer, a short text without its context, and then no more."""
        known_entities = self._known_entities
        control = [] if self._has_answered else [await self._read_control(error)]
        if self._known_entities is not known_entities:
            return [*control, *await self._read(pieces, context)]
        if halves := divide_window(pieces):
            first, second = halves
            parts = await self._read(first, context)
            return [*control, *parts, *await self._read(second, first[-max(len(context), 1) :])]
        if context:
            return [*control, *await self._read(pieces, ())]
        unread = {pieces[0].turn.id: str(error)}
        self._unread |= unread
        return [*control, Extraction(unread=unread, drop_counts={"text that the model could not read": 1})]

    async def _read_control(self, error: errors.ModelError) -> Extraction:
        """Ask about a greeting: a model that does not answer even that fails for another reason than the text.

        If it answers only without the known entities, a word of theirs is the reason, and they are no longer shown.

        Raises:
            errors.ModelError: the given error, if the model does not answer.
        """
        for known_entities in [self._known_entities, ()] if self._known_entities else [()]:
            with suppress(errors.ModelError):
                extraction = await self._ask([Piece(_GREETING)], known_entities, ())
                self._has_answered = True
                if len(known_entities) < len(self._known_entities):
                    self._known_entities = known_entities
                return Extraction(usage=extraction.usage)
        raise error


def select_known_entities(entities: Sequence[KnownEntity], texts: Sequence[str]) -> list[KnownEntity]:
    """Select who may be meant in these texts: whom they name, and others in the given order, as far as there is room.

    An event or a topic that they do not name is left out: there are many, and most matter once.
    """
    text = fold_text("\n".join(texts))
    words = frozenset(_WORD.findall(text)) - load_stop_words(detect_language(text))
    named, others = list[KnownEntity](), list[KnownEntity]()
    for entity in entities:
        parts = _WORD.findall(fold_text(" ".join((entity.name, *entity.aliases))))
        if any(part in words or (has_wide_character(part) and part in text) for part in parts):
            named.append(entity)
        elif entity.type not in _PASSING_TYPES:
            others.append(entity)
    room = MAX_UNNAMED_TOKENS
    for entity in others:
        room -= count_tokens(" ".join((entity.name, *entity.aliases, entity.about, *entity.facts)))
        if room >= 0:
            named.append(entity)
    return named


def _format_turns(turns: Sequence[Turn], texts: Sequence[str], start: int) -> Iterator[str]:
    """One line of JSON per turn, with its text and its number from ``start`` on, and one per change of date."""
    day: date | None = None
    for number, (turn, text) in enumerate(zip(turns, texts, strict=True), start=start):
        if turn.at.date() != day:
            day = turn.at.date()
            yield prompts.encode_line({"date": day.isoformat()})
        role = {"role": turn.role} if turn.role == "model" else {}
        yield prompts.encode_line(
            {"turn": number, "at": format_weekday_time(turn.at), "author": turn.author, **role, "text": text}
        )


def join_extractions(parts: Sequence[Extraction]) -> Extraction:
    """Join the extractions of several windows and renumber their references; entities are merged by key later."""
    entities: list[ExtractedEntity] = []
    facts: list[ExtractedFact] = []
    mentions: list[tuple[str, int]] = []
    remarks: list[Remark] = []
    forget_turn_ids: list[str] = []
    unread: dict[str, str] = {}
    drop_counts: Counter[str] = Counter()
    usage = sum((part.usage for part in parts), Extraction().usage)
    for number, part in enumerate(parts):
        entity_refs = {entity.ref: len(entities) + i for i, entity in enumerate(part.entities)}
        entities += [replace(entity, ref=entity_refs[entity.ref], window=number) for entity in part.entities]
        fact_refs = {fact.ref: len(facts) + i for i, fact in enumerate(part.facts)}
        facts += [
            replace(
                fact,
                subject=entity_refs[fact.subject],
                object=None if fact.object is None else entity_refs[fact.object],
                ref=fact_refs[fact.ref],
                replaces=tuple(fact_refs[ref] for ref in fact.replaces if ref in fact_refs),
                depends_on=tuple(fact_refs[ref] for ref in fact.depends_on if ref in fact_refs),
            )
            for fact in part.facts
        ]
        mentions += [(turn_id, entity_refs[ref]) for turn_id, ref in part.mentions]
        remarks += part.remarks
        unread |= part.unread
        forget_turn_ids += part.forget_turn_ids
        drop_counts.update(part.drop_counts)
    first_remarks = {remark.turn_id: remark for remark in reversed(remarks)}  # pieces of a turn may have one each
    joined = Extraction(
        tuple(entities),
        tuple(facts),
        tuple(mentions),
        usage=usage,
        remarks=tuple(remark for _, remark in sorted(first_remarks.items())),
        unread=unread,
    )
    # A turn of one window may ask to forget a turn of another.
    return drop_forgotten_turns(joined, frozenset(forget_turn_ids), drop_counts)


def choose_extractor(model: llm.BaseLlm | None, topics: Sequence[Topic | str] | None, settings: Settings) -> Extractor:
    """A model extractor, or rules if there is no model; ``topics`` None means those of the settings."""
    vocabulary = Vocabulary.from_topics(
        settings.topics if topics is None else topics,
        entity_types=settings.entity_types,
        predicates=settings.predicates,
        functional_predicates=settings.functional_predicates,
    )
    if model is None:
        return RuleExtractor().restrict_topics([topic.label for topic in vocabulary.topics])
    return ModelExtractor(
        model,
        limits=settings.limits,
        vocabulary=vocabulary,
        keep_unverified=settings.keep_unverified,
    )


Prepare = Callable[[Sequence[Turn], Sequence[KnownEntity]], Awaitable[Extraction]]
"""Extracts from a window of turns, given the entities already in the graph; what was said before does not matter."""


class PreparedExtractor:
    """Extracts what is known of the turns beforehand.

    Args:
        prepare: makes the extraction of a window of turns.
        extractor: reads the turns in its place if the request is resumed later.
        version: how the graph names who made the extraction; by default, the extractor.
        functional_predicates: predicates with a single value per subject at a time; by default, the extractor's.
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
    facts = []
    for fact in extraction.facts:
        given = [topics[source.turn_id] for source in fact.sources if source.turn_id in topics]
        facts.append(replace(fact, topic=given[0]) if given else fact)
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


def mark_reported(extraction: Extraction) -> Extraction:
    """Return the extraction of a document's passages: hearsay, which asks for nothing, and makes no two people one."""
    facts = map(_report, extraction.facts)
    entities = (replace(entity, aliases=()) for entity in extraction.entities)
    return replace(extraction, entities=tuple(entities), facts=tuple(facts), remarks=(), forget_turn_ids=(), authors=())


def _report(fact: ExtractedFact) -> ExtractedFact:
    is_stated = fact.modality in ("asserted", "negated", "planned")
    return replace(fact, modality="reported") if is_stated else fact


def _keep_seen_facts(extraction: Extraction, turns: Iterable[Turn]) -> Extraction:
    """Return facts that pictures alone tell as hearsay, and none from a file's name, which is nobody's statement."""
    descriptions = {turn.id: [part.description for part in turn.shown if part.description] for turn in turns}

    def is_seen(source: Source) -> bool:
        return any(source.quote in text or text in source.quote for text in descriptions.get(source.turn_id, ()))

    facts, drop_counts = list[ExtractedFact](), Counter(extraction.drop_counts)
    for fact in extraction.facts:
        sources = tuple(source for source in fact.sources if source.origin != "picture" or is_seen(source))
        if not sources:
            drop_counts["fact from the name of a file"] += 1
        elif all(source.origin == "picture" for source in sources):
            facts.append(replace(_report(fact), sources=sources, is_correction=False))
        else:
            facts.append(replace(fact, sources=sources))
    return replace(extraction, facts=tuple(facts), drop_counts=drop_counts)


def _find_person(name: str, entities: list[ExtractedEntity]) -> int:
    """Find the reference of a person, who is added to the entities if need be."""
    for entity in entities:
        if name.casefold() in (known.casefold() for known in (entity.name, *entity.aliases)):
            return entity.ref
    ref = max((entity.ref for entity in entities), default=-1) + 1
    entities.append(ExtractedEntity(ref, name, "person"))
    return ref
