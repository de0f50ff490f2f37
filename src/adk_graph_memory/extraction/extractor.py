"""Turns go in, the model is asked once a window, and what its reply says and can prove comes out."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from adk_graph_memory import errors, llm, prompts
from adk_graph_memory.extraction.grounding import located
from adk_graph_memory.extraction.schema import EntityReply, ExtractionReply, FactReply
from adk_graph_memory.extraction.windows import windows
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
    functional: frozenset[str]
    """predicates of which a subject has one at a time"""

    def split(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
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
        functional: predicates of which a subject has one at a time.
    """

    def __init__(
        self, model: llm.BaseLlm, *, window_tokens: int, patience: llm.Patience, functional: Collection[str] = ()
    ) -> None:
        self._model, self._window_tokens, self._patience = model, window_tokens, patience
        self._prompt = prompts.load("extract")
        self.functional = frozenset(functional)
        self.version = f"{model.model} {self._prompt.version}"

    def split(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """Windows of about as many tokens as the setting says."""
        return windows(turns, size=self._window_tokens)

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[KnownEntity], context: Sequence[Turn] = ()
    ) -> Extraction:
        """What the turns say; a fact whose quote stands in none of them is left out and counted.

        Turns whose facts are too many for one reply are read in halves.

        Raises:
            errors.ModelError: the model failed; nothing was extracted.
        """
        prompt = self._prompt.filled(
            known_entities="\n".join(_known_line(i, entity) for i, entity in enumerate(known)) or "(none yet)",
            turns="\n".join([*map(_context_line, context), *(_turn_line(i, turn) for i, turn in enumerate(turns))]),
            topics="",
            entity_types="person, organization, place, animal, event, object or topic",
            predicates="",
        )
        try:
            answer = await llm.structured(self._model, prompt, ExtractionReply, self._patience)
        except errors.ReplyCutOff as error:
            if len(turns) > 1:
                middle = len(turns) // 2
                first = await self.extract(turns[:middle], known, context)
                rest = await self.extract(turns[middle:], known, turns[:middle][-len(context) or -1 :])
                read = joined((first, rest))
                return replace(read, usage=read.usage + error.usage)
            if error.answer is None:
                raise
            answer = error.answer
        read = understood(answer.reply, turns, known)
        return replace(read, usage=answer.usage, dropped=Counter(read.dropped) + Counter(answer.dropped))


def _known_line(number: int, entity: KnownEntity) -> str:
    about = {"about": entity.about} if entity.about else {}
    return f"{number}: {_framed({'names': [entity.name, *entity.aliases], 'type': entity.type, **about})}"


def _turn_line(number: int, turn: Turn) -> str:
    """One line of JSON, so that nothing said in a turn can pass for the conversation's own frame."""
    return _framed({"turn": number, **_said(turn)})


def _context_line(turn: Turn) -> str:
    """A turn without number: it explains the others, and no fact can rest on it."""
    return _framed({**_said(turn), "context_only": True})


def _said(turn: Turn) -> dict[str, Any]:
    return {"at": turn.at.isoformat(), "author": turn.author, "role": turn.role, "text": turn.text}


def _framed(data: dict[str, Any]) -> str:
    """One line of JSON without angle brackets, which the prompt's own frame is made of."""
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")


def understood(reply: ExtractionReply, turns: Sequence[Turn], known: Sequence[KnownEntity]) -> Extraction:
    """The reply as data of ours: references checked, quotes found, dates read; what fails is counted by reason."""
    dropped: Counter[str] = Counter()
    entities = {entity.ref: _entity(entity, known) for entity in reply.entities if entity.name.strip()}
    dropped["entity without a name, or named twice"] += len(reply.entities) - len(entities)
    facts, mentions = [], set()
    for fact in reply.facts:
        sources = _sources(fact, turns)
        if fact.subject not in entities:
            dropped["fact about no entity of the reply"] += 1
        elif not fact.text.strip() or not fact.predicate.strip():
            dropped["fact without words"] += 1
        elif not sources:
            dropped["quote not in the turns it names"] += 1
        else:
            facts.append(_fact(fact, sources, turns, entities))
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
        about=reply.about.strip(),
    )


def _sources(fact: FactReply, turns: Sequence[Turn]) -> tuple[Source, ...]:
    """Where the named turns say the quote."""
    named = [turns[i] for i in dict.fromkeys(fact.turns) if 0 <= i < len(turns)]
    return tuple(source for turn in named if (source := located(fact.quote, turn)))


def _fact(
    fact: FactReply, sources: tuple[Source, ...], turns: Sequence[Turn], entities: dict[int, ExtractedEntity]
) -> ExtractedFact:
    said_in = next(turn for turn in turns if turn.id == sources[0].turn_id)
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
        valid_to=_moment(fact.valid_to, is_end=True),
        topic=fact.topic.strip(),
        ref=fact.ref,
        replaces=tuple(fact.replaces),
        depends_on=tuple(fact.depends_on),
        correction=fact.correction,
    )


def _moment(text: str | None, *, is_end: bool = False) -> datetime | None:
    """The ISO 8601 year, month, date or time that the text is, in UTC unless it names an offset; else None.

    A year or a month begins with its first moment, and ends where the next one begins.
    """
    given = (text or "").strip()
    if coarse := re.fullmatch(r"(\d{4})(?:-(\d\d))?", given):
        year, month = int(coarse[1]), coarse[2]
        if is_end:
            year, month = (year, f"{int(month) + 1:02}") if month and month != "12" else (year + 1, "01")
        given = f"{year:04}-{month or '01'}-01"
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


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
        dropped.update(part.dropped)
    return Extraction(tuple(entities), tuple(facts), tuple(mentions), dict(dropped), usage)
