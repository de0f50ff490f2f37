"""Turns go in; what can be told without a language model comes out: what people state, and the names and days in it.

A statement stays in its speaker's own words. Nothing is inferred from it and nothing ended by it: what "In summer we
move to Lisbon" means for Porto takes somebody who understands it.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.extraction.entities import TOKEN, Entities
from adk_graph_memory.extraction.names import NameFinder, installed_names, own_names
from adk_graph_memory.extraction.sentences import is_question, own_words, passages, sentences
from adk_graph_memory.language.dates import day_ago
from adk_graph_memory.language.words import language_of, ordinary_words
from adk_graph_memory.records import ExtractedFact, Extraction, KnownEntity, Source, Turn
from adk_graph_memory.records.plan import STATES

_SHORTEST = 4
"""Words (or, in scripts without spaces, characters) below which a sentence is taken for small talk."""
_FIRST_PERSON = re.compile("i|i['’]m|we|we['’]re|my|ich|meine?|yo|mi|me|je|mon|ma|я|мой|моя|меня|με")


class RuleExtractor:
    """The extractor for when no language model is configured; ``names`` tells names (if not given: what is there)."""

    functional: frozenset[str] = frozenset()
    topics: tuple[str, ...] = ()

    def __init__(self, names: NameFinder | None = None) -> None:
        self._names = names or installed_names()
        self.version = f"rules@3 {self._names.version}"

    def keeping_to(self, topics: Collection[str]) -> RuleExtractor:
        """Itself; a ConfigurationError where topics are asked for, which rules cannot tell."""
        if topics:
            reason = f"rules cannot tell what belongs to {', '.join(sorted(topics))}; topics need a model"
            raise errors.ConfigurationError(reason=reason)
        return self

    def split(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """All in one window: rules have no limit."""
        return [turns]

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[KnownEntity], context: Sequence[Turn] = ()
    ) -> Extraction:
        """A fact for each statement a person makes, about its speaker, and an entity for each name used."""
        return await asyncio.to_thread(self._read, turns, known) if turns else Extraction()

    def _read(self, turns: Sequence[Turn], known: Sequence[KnownEntity]) -> Extraction:
        own = [own_words(turn.text) for turn in turns]
        usual = Counter(map(language_of, own)).most_common(1)[0][0]  # a short turn is in the language of the others
        said = [_Said(turn, words, language_of(words, usual)) for turn, words in zip(turns, own, strict=True)]
        entities = Entities([turn.author for turn in turns], known)
        for one in said:
            for words in one.sentences if one.turn.role == "user" else ():
                for given in own_names(words):
                    entities.rename(one.turn.author, given)
        names = [name for one in said for words in one.sentences for name in self._names.find(words, one.language)]
        for name in sorted(names, key=lambda name: name.opens):  # "Perhaps Anna" is Anna, if she is known by now
            if not (name.opens and entities.bears(name.words.partition(" ")[2])):
                entities.add(name.words, name.type)
        return _stated(said, entities)


class _Said(NamedTuple):
    """A turn, its author's own words with something blank for the rest, and their language."""

    turn: Turn
    own: str
    language: str

    @property
    def sentences(self) -> list[str]:
        return [self.own[start:end] for start, end in sentences(self.own, self.language)]


def _stated(said: Sequence[_Said], entities: Entities) -> Extraction:
    facts, mentions, dropped = list[ExtractedFact](), set[tuple[str, int]](), Counter[str]()
    for one in said:
        turn, author = one.turn, entities.authors[one.turn.author]
        for start, end in passages(one.own, one.language):
            named = entities.named(one.own[start:end])
            mentions |= {(turn.id, ref) for ref in named}
            others = [ref for ref in named if ref != author]
            if lack := _lack(one, start, end, names_somebody=bool(others)):
                dropped[lack] += 1
                continue
            began = day_ago(one.own[start:end], turn.at, one.language)
            fact = ExtractedFact(
                subject=author,
                predicate=STATES,
                object=others[0] if others else None,
                text=turn.text[start:end],
                sources=(Source.of(turn, start, end),),
                speaker=turn.author,
                at=turn.at,
                valid_from=began.at if began else None,
                valid_from_precision=began.precision if began else None,
                ref=len(facts),
            )
            facts.append(fact)
    used = entities.used(ref for _, ref in mentions)
    return Extraction(used, tuple(facts), tuple(sorted(mentions)), dict(dropped))


def _lack(one: _Said, start: int, end: int, *, names_somebody: bool) -> str:
    """What keeps a passage from being a statement of somebody's own; empty if nothing does."""
    text, own = one.turn.text[start:end], one.own[start:end]
    if one.turn.role == "model":
        return "said by an agent"
    if is_question(own):
        return "a question"
    if 2 * sum(map(str.isalnum, own)) < sum(map(str.isalnum, text)):
        return "mostly quoted"
    words = [word.casefold() for word in TOKEN.findall(own)]
    told = names_somebody or any(len(word) > 3 and word not in ordinary_words(one.language) for word in words[1:])
    if len(words) < _SHORTEST and not (told and _FIRST_PERSON.fullmatch(words[0])):  # "I'm vegetarian" says enough
        return "too short to say anything"
    return ""
