"""Turns go in, the model is asked once a window, and what its reply says and can prove comes out."""

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
from adk_graph_memory.extraction.vocabulary import OPEN_VOCABULARY, Vocabulary
from adk_graph_memory.extraction.windows import split_into_windows
from adk_graph_memory.records import (
    ExtractedEntity,
    ExtractedFact,
    Extraction,
    KnownEntity,
    Remark,
    Turn,
)
from adk_graph_memory.records.dates import format_weekday_time


class Extractor(Protocol):
    """Anything that reads entities and facts out of turns."""

    version: str
    functional_predicates: frozenset[str]
    """predicates of which a subject has one at a time"""
    topics: tuple[str, ...]
    """labels of the topics that it keeps to; empty for all"""

    def restrict_topics(self, topics: Collection[str]) -> Extractor:
        """The same for a request that allows the topics of these labels only; of none, all."""
        ...

    def split_turns(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """The turns in windows, each to be read in one go."""
        ...

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[KnownEntity], context: Sequence[Turn] = ()
    ) -> Extraction:
        """What the turns say, given the entities that are known already and what was said right before."""
        ...


class ModelExtractor:
    """Asks a language model, one call a window.

    Args:
        model: any ADK model.
        window_tokens: size of a window.
        patience: with the model.
        vocabulary: what it keeps to.
        keeps_unverified: whether a fact is kept whose quote is not in the turns that it names.
    """

    def __init__(
        self,
        model: llm.BaseLlm,
        *,
        window_tokens: int,
        patience: llm.RetryPolicy,
        vocabulary: Vocabulary = OPEN_VOCABULARY,
        keeps_unverified: bool = False,
    ) -> None:
        self._model, self._window_tokens, self._retry_policy = model, window_tokens, patience
        self._prompt, self._vocabulary = prompts.load_prompt("extract"), vocabulary
        self._keep_unverified = keeps_unverified
        self.functional_predicates = vocabulary.functional_predicates
        self.topics = tuple(topic.label for topic in vocabulary.topics)
        self.version = f"{model.model} {self._prompt.version}"

    def restrict_topics(self, topics: Collection[str]) -> ModelExtractor:
        """The same for a request that allows the topics of these labels only; of none, all.

        Raises:
            errors.ConfigurationError: there is no topic of this label.
        """
        if not topics:
            return self
        kept = copy(self)
        kept._vocabulary = self._vocabulary.restrict_topics(topics)
        kept.topics = tuple(topic.label for topic in kept._vocabulary.topics)
        return kept

    def split_turns(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """Windows of about as many tokens as the setting says."""
        return split_into_windows(turns, size=self._window_tokens)

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[KnownEntity], context: Sequence[Turn] = ()
    ) -> Extraction:
        """What the turns say; a fact whose quote stands in none of them is left out and counted, or kept unverified.

        Turns whose facts are too many for one reply are read in halves.

        Raises:
            errors.ModelError: the model failed; nothing was extracted.
        """
        prompt = await asyncio.to_thread(self._fill_prompt, turns, known, context)
        try:
            answer = await llm.generate_structured(self._model, prompt, ExtractionReply, self._retry_policy)
        except errors.ReplyTruncated as error:
            if len(turns) > 1:
                middle = len(turns) // 2
                first = await self.extract(turns[:middle], known, context)
                rest = await self.extract(turns[middle:], known, turns[:middle][-len(context) or -1 :])
                read = join_extractions((first, rest))
                return replace(read, usage=read.usage + error.usage)
            if error.answer is None:
                raise
            answer = error.answer
        read = await asyncio.to_thread(self._read_reply, answer.reply, turns, known, context)
        return replace(read, usage=answer.usage, drop_counts=Counter(read.drop_counts) + Counter(answer.dropped))

    def _fill_prompt(self, turns: Sequence[Turn], known: Sequence[KnownEntity], context: Sequence[Turn]) -> str:
        return self._prompt.fill_template(
            known_entities="\n".join(_format_known_entity(i, entity) for i, entity in enumerate(known)) or "(none yet)",
            turns="\n".join(_format_turns(context, turns)),
            **self._vocabulary.make_prompt_fields(),
        )

    def _read_reply(
        self, reply: ExtractionReply, turns: Sequence[Turn], known: Sequence[KnownEntity], context: Sequence[Turn]
    ) -> Extraction:
        read = parse_reply(reply, turns, known, self._vocabulary, keeps_unverified=self._keep_unverified)
        return apply_remarks(read, reply, turns, context)


def _format_known_entity(number: int, entity: KnownEntity) -> str:
    about = {"about": entity.about} if entity.about else {}
    return f"{number}: {prompts.encode_line({'names': [entity.name, *entity.aliases], 'type': entity.type, **about})}"


def _format_turns(context: Sequence[Turn], turns: Sequence[Turn]) -> Iterator[str]:
    """The date wherever it changes, and one line of JSON a turn; what was read before has negative numbers."""
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
    """Extractions of several windows as one; their references are renumbered, their names meet by key later."""
    entities: list[ExtractedEntity] = []
    facts: list[ExtractedFact] = []
    mentions: list[tuple[str, int]] = []
    remarks: list[Remark] = []
    forget: list[str] = []
    dropped: Counter[str] = Counter()
    usage = sum((part.usage for part in parts), Extraction().usage)
    for number, part in enumerate(parts):
        new = {entity.ref: len(entities) + i for i, entity in enumerate(part.entities)}
        entities += [replace(entity, ref=new[entity.ref], window=number) for entity in part.entities]
        refs = {fact.ref: len(facts) + i for i, fact in enumerate(part.facts)}
        facts += [
            replace(
                fact,
                subject=new[fact.subject],
                object=None if fact.object is None else new[fact.object],
                ref=refs[fact.ref],
                replaces=tuple(refs[ref] for ref in fact.replaces if ref in refs),
                depends_on=tuple(refs[ref] for ref in fact.depends_on if ref in refs),
            )
            for fact in part.facts
        ]
        mentions += [(turn_id, new[ref]) for turn_id, ref in part.mentions]
        remarks += part.remarks
        forget += part.forget_turn_ids
        dropped.update(part.drop_counts)
    whole = Extraction(
        entities=tuple(entities),
        facts=tuple(facts),
        mentions=tuple(mentions),
        usage=usage,
        remarks=tuple(remarks),
    )
    return drop_forgotten_turns(whole, frozenset(forget), dropped)  # one part may ask to forget what another part says
