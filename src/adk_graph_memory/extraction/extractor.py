"""Define the extractor interface, and the extractor that asks a language model once per window; choose an extractor."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import replace
from datetime import date
from typing import Protocol

from adk_graph_memory import errors, llm, prompts
from adk_graph_memory.extraction.remarks import apply_remarks, drop_forgotten_turns
from adk_graph_memory.extraction.reply import parse_reply
from adk_graph_memory.extraction.reply_schema import ExtractionReply
from adk_graph_memory.extraction.rules import RuleExtractor
from adk_graph_memory.extraction.vocabulary import OPEN_VOCABULARY, Topic, Vocabulary
from adk_graph_memory.records import ExtractedEntity, ExtractedFact, Extraction, KnownEntity, Remark, Turn, count_tokens
from adk_graph_memory.records.dates import format_weekday_time
from adk_graph_memory.settings import Limits, Settings


class Extractor(Protocol):
    """Extracts entities and facts from turns."""

    version: str
    model_name: str
    """The model's name in ADK's registry; ``rules`` without a model."""
    functional_predicates: frozenset[str]
    """Predicates of which a subject has one value at a time."""
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

        A fact whose quote is in none of the turns is dropped and counted, or kept unverified. If the reply is
        truncated, each half of the turns is extracted separately.

        Raises:
            errors.ModelError: the model failed; nothing was extracted.
        """
        prompt = await asyncio.to_thread(self._fill_prompt, turns, known_entities, context)
        try:
            answer = await llm.generate_structured(self._model, prompt, ExtractionReply, self._limits)
        except errors.ReplyTruncated as error:
            if len(turns) > 1:
                middle = len(turns) // 2
                first = await self.extract(turns[:middle], known_entities, context)
                second = await self.extract(turns[middle:], known_entities, turns[:middle][-len(context) or -1 :])
                extraction_of_halves = join_extractions((first, second))
                return replace(extraction_of_halves, usage=extraction_of_halves.usage + error.usage)
            if error.answer is None:
                raise
            answer = error.answer
        extraction = await asyncio.to_thread(self._read_reply, answer.reply, turns, known_entities, context)
        drop_counts = Counter(extraction.drop_counts) + Counter(answer.dropped)
        return replace(extraction, usage=answer.usage, drop_counts=drop_counts)

    def _fill_prompt(
        self, turns: Sequence[Turn], known_entities: Sequence[KnownEntity], context: Sequence[Turn]
    ) -> str:
        entity_lines = "\n".join(_format_known_entity(number, entity) for number, entity in enumerate(known_entities))
        return self._prompt.fill_template(
            known_entities=entity_lines or "(none yet)",
            turns="\n".join(_format_turns(context, turns)),
            **self._vocabulary.make_prompt_fields(),
        )

    def _read_reply(
        self,
        reply: ExtractionReply,
        turns: Sequence[Turn],
        known_entities: Sequence[KnownEntity],
        context: Sequence[Turn],
    ) -> Extraction:
        extraction = parse_reply(reply, turns, known_entities, self._vocabulary, keep_unverified=self._keep_unverified)
        return apply_remarks(extraction, reply, turns, context)


def split_into_windows(turns: Sequence[Turn], *, size: int) -> list[tuple[Turn, ...]]:
    """Split the turns, in order, into windows of at most ``size`` tokens; a longer turn gets a window of its own."""
    windows: list[list[Turn]] = []
    used = 0
    for turn in turns:
        tokens = count_tokens(turn.text)
        if not windows or used + tokens > size:
            windows.append([])
            used = 0
        windows[-1].append(turn)
        used += tokens
    return [tuple(window) for window in windows]


def _format_known_entity(number: int, entity: KnownEntity) -> str:
    about = {"about": entity.about} if entity.about else {}
    return f"{number}: {prompts.encode_line({'names': [entity.name, *entity.aliases], 'type': entity.type, **about})}"


def _format_turns(context: Sequence[Turn], turns: Sequence[Turn]) -> Iterator[str]:
    """One line of JSON per turn, and one per change of date; context turns have negative numbers."""
    day: date | None = None
    for number, turn in enumerate((*context, *turns), start=-len(context)):
        if turn.at.date() != day:
            day = turn.at.date()
            yield prompts.encode_line({"date": day.isoformat()})
        role = {"role": turn.role} if turn.role == "model" else {}
        yield prompts.encode_line(
            {"turn": number, "at": format_weekday_time(turn.at), "author": turn.author, **role, "text": turn.text}
        )


def join_extractions(parts: Sequence[Extraction]) -> Extraction:
    """Join the extractions of several windows and renumber their references; entities are merged by key later."""
    entities: list[ExtractedEntity] = []
    facts: list[ExtractedFact] = []
    mentions: list[tuple[str, int]] = []
    remarks: list[Remark] = []
    forget_turn_ids: list[str] = []
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
        forget_turn_ids += part.forget_turn_ids
        drop_counts.update(part.drop_counts)
    joined = Extraction(tuple(entities), tuple(facts), tuple(mentions), usage=usage, remarks=tuple(remarks))
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
