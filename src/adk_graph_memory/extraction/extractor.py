"""Turns go in, the model is asked once a window, and what its reply says and can prove comes out."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from adk_graph_memory import llm, prompts
from adk_graph_memory.extraction.grounding import located
from adk_graph_memory.extraction.schema import EntityReply, ExtractionReply, FactReply
from adk_graph_memory.extraction.windows import Window, windows
from adk_graph_memory.records import (
    ExtractedEntity,
    ExtractedFact,
    Extraction,
    KnownEntity,
    Source,
    Turn,
)


class Extractor(Protocol):
    """Anything that reads entities and facts out of turns."""

    version: str

    async def extract(self, turns: Sequence[Turn], known: Sequence[KnownEntity]) -> Extraction:
        """What the turns say, given the entities that are known already."""
        ...


class ModelExtractor:
    """Asks a language model, one call a window.

    Args:
        model: any ADK model.
        window_tokens: size of a window.
        seconds: for one call.
    """

    def __init__(self, model: llm.BaseLlm, *, window_tokens: int, seconds: float) -> None:
        self._model, self._window_tokens, self._seconds = model, window_tokens, seconds
        self._prompt = prompts.load("extract")
        self.version = f"{model.model} {self._prompt.version}"

    async def extract(self, turns: Sequence[Turn], known: Sequence[KnownEntity]) -> Extraction:
        """What the turns say; a fact whose quote stands in none of them is left out and counted.

        Raises:
            errors.ModelError: the model failed; nothing was extracted.
        """
        read = await asyncio.gather(*(self._read(window, known) for window in windows(turns, size=self._window_tokens)))
        return joined(read)

    async def _read(self, window: Window, known: Sequence[KnownEntity]) -> Extraction:
        prompt = self._prompt.filled(
            known_entities="\n".join(_known_line(i, entity) for i, entity in enumerate(known)) or "(none yet)",
            turns="\n".join(_turn_line(i, turn, i < window.context) for i, turn in enumerate(window.turns)),
        )
        reply, usage = await llm.structured(self._model, prompt, ExtractionReply, seconds=self._seconds)
        return replace(understood(reply, window, known), usage=usage)


def _known_line(number: int, entity: KnownEntity) -> str:
    return f"{number}: {_framed({'names': [entity.name, *entity.aliases], 'type': entity.type})}"


def _turn_line(number: int, turn: Turn, is_context: bool) -> str:
    """One line of JSON, so that nothing said in a turn can pass for the conversation's own frame."""
    line = {"turn": number, "at": turn.at.isoformat(), "author": turn.author, "role": turn.role, "text": turn.text}
    return _framed(line | ({"context_only": True} if is_context else {}))


def _framed(data: dict[str, Any]) -> str:
    """One line of JSON without angle brackets, which the prompt's own frame is made of."""
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")


def understood(reply: ExtractionReply, window: Window, known: Sequence[KnownEntity]) -> Extraction:
    """The reply as data of ours: references checked, quotes found, dates read; what fails is counted by reason."""
    dropped: Counter[str] = Counter()
    entities = {entity.ref: _entity(entity, known) for entity in reply.entities if entity.name.strip()}
    dropped["entity without a name, or named twice"] += len(reply.entities) - len(entities)
    facts, mentions = [], set()
    for fact in reply.facts:
        sources = _sources(fact, window)
        if fact.subject not in entities:
            dropped["fact about no entity of the reply"] += 1
        elif not fact.text.strip() or not fact.predicate.strip():
            dropped["fact without words"] += 1
        elif not sources:
            dropped["quote not in the turns it names"] += 1
        else:
            facts.append(_fact(fact, sources, window, entities))
            about = [ref for ref in (fact.subject, fact.object) if ref in entities]
            mentions |= {(source.turn_id, ref) for source in sources for ref in about if ref is not None}
    return Extraction(tuple(entities.values()), tuple(facts), tuple(sorted(mentions)), +dropped)


def _entity(reply: EntityReply, known: Sequence[KnownEntity]) -> ExtractedEntity:
    is_known = reply.known_id is not None and 0 <= reply.known_id < len(known)
    return ExtractedEntity(
        ref=reply.ref,
        name=reply.name.strip(),
        type=reply.type.strip().lower() or "thing",
        aliases=tuple(alias.strip() for alias in reply.aliases if alias.strip()),
        known_key=known[reply.known_id].key if is_known and reply.known_id is not None else None,
    )


def _sources(fact: FactReply, window: Window) -> tuple[Source, ...]:
    """Where the named turns say the quote; the overlap's turns were read before and prove nothing new."""
    named = [window.turns[i] for i in dict.fromkeys(fact.turns) if window.context <= i < len(window.turns)]
    return tuple(source for turn in named if (source := located(fact.quote, turn)))


def _fact(
    fact: FactReply, sources: tuple[Source, ...], window: Window, entities: dict[int, ExtractedEntity]
) -> ExtractedFact:
    said_in = next(turn for turn in window.turns if turn.id == sources[0].turn_id)
    return ExtractedFact(
        subject=fact.subject,
        predicate="_".join(fact.predicate.lower().split()),
        object=fact.object if fact.object in entities else None,
        text=fact.text.strip(),
        sources=sources,
        speaker=fact.speaker.strip() or said_in.author,
        at=said_in.at,
        modality=fact.modality,
        valid_from=_moment(fact.valid_from),
        valid_to=_moment(fact.valid_to),
        topic=fact.topic.strip(),
    )


def _moment(text: str | None) -> datetime | None:
    """The ISO 8601 date or time that the text is, in UTC unless it names an offset; else None."""
    try:
        moment = datetime.fromisoformat(text.strip()) if text else None
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def joined(parts: Sequence[Extraction]) -> Extraction:
    """Extractions of several windows as one; their references are renumbered, their names meet by key later."""
    entities: list[ExtractedEntity] = []
    facts: list[ExtractedFact] = []
    mentions: list[tuple[str, int]] = []
    dropped: Counter[str] = Counter()
    usage = sum((part.usage for part in parts), Extraction().usage)
    for number, part in enumerate(parts):
        new = {entity.ref: len(entities) + i for i, entity in enumerate(part.entities)}
        entities += [replace(entity, ref=new[entity.ref], window=number) for entity in part.entities]
        facts += [
            replace(fact, subject=new[fact.subject], object=None if fact.object is None else new[fact.object])
            for fact in part.facts
        ]
        mentions += [(turn_id, new[ref]) for turn_id, ref in part.mentions]
        dropped.update(part.dropped)
    return Extraction(tuple(entities), tuple(facts), tuple(mentions), dict(dropped), usage)
