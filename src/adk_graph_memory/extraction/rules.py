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
from adk_graph_memory.extraction.entity_registry import TOKEN_PATTERN, EntityRegistry
from adk_graph_memory.extraction.name_finder import NameFinder, find_own_names, load_name_finder
from adk_graph_memory.extraction.sentences import group_sentences, is_question, mask_quoted_text, split_sentences
from adk_graph_memory.language.date_finder import find_relative_date
from adk_graph_memory.language.detection import detect_language, load_stop_words
from adk_graph_memory.records import ExtractedFact, Extraction, KnownEntity, Source, Turn
from adk_graph_memory.records.write_plan import STATES_PREDICATE

_MIN_STATEMENT_WORDS = 4
"""Words (or, in scripts without spaces, characters) below which a sentence is taken for small talk."""
_FIRST_PERSON = re.compile("i|i['’]m|we|we['’]re|my|ich|meine?|yo|mi|me|je|mon|ma|я|мой|моя|меня|με")


class RuleExtractor:
    """The extractor for when no language model is configured; ``names`` tells names (if not given: what is there)."""

    functional_predicates: frozenset[str] = frozenset()
    topics: tuple[str, ...] = ()

    def __init__(self, names: NameFinder | None = None) -> None:
        self._name_finder = names or load_name_finder()
        self.version = f"rules@3 {self._name_finder.version}"

    def restrict_topics(self, topics: Collection[str]) -> RuleExtractor:
        """Itself; a ConfigurationError where topics are asked for, which rules cannot tell."""
        if topics:
            reason = f"rules cannot tell what belongs to {', '.join(sorted(topics))}; topics need a model"
            raise errors.ConfigurationError(reason=reason)
        return self

    def split_turns(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """All in one window: rules have no limit."""
        return [turns]

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[KnownEntity], context: Sequence[Turn] = ()
    ) -> Extraction:
        """A fact for each statement a person makes, about its speaker, and an entity for each name used."""
        return await asyncio.to_thread(self._extract_by_rules, turns, known) if turns else Extraction()

    def _extract_by_rules(self, turns: Sequence[Turn], known: Sequence[KnownEntity]) -> Extraction:
        own = [mask_quoted_text(turn.text) for turn in turns]
        usual = Counter(map(detect_language, own)).most_common(1)[0][0]  # a short turn is in the language of the others
        said = [_ParsedTurn(turn, words, detect_language(words, usual)) for turn, words in zip(turns, own, strict=True)]
        entities = EntityRegistry([turn.author for turn in turns], known)
        for one in said:
            for words in one.sentences if one.turn.role == "user" else ():
                for given in find_own_names(words):
                    entities.add_author_alias(one.turn.author, given)
        names = [
            name
            for one in said
            for words in one.sentences
            for name in self._name_finder.find_names(words, one.language)
        ]
        for name in sorted(
            names, key=lambda name: name.is_sentence_start
        ):  # "Perhaps Anna" is Anna, if she is known by now
            if not (name.is_sentence_start and entities.has_name(name.text.partition(" ")[2])):
                entities.add_entity(name.text, name.type)
        return _extract_statements(said, entities)


class _ParsedTurn(NamedTuple):
    """A turn, its author's own words with something blank for the rest, and their language."""

    turn: Turn
    own_text: str
    language: str

    @property
    def sentences(self) -> list[str]:
        return [self.own_text[start:end] for start, end in split_sentences(self.own_text, self.language)]


def _extract_statements(said: Sequence[_ParsedTurn], entities: EntityRegistry) -> Extraction:
    facts, mentions, dropped = list[ExtractedFact](), set[tuple[str, int]](), Counter[str]()
    for one in said:
        turn, author = one.turn, entities.author_refs[one.turn.author]
        for start, end in group_sentences(one.own_text, one.language):
            named = entities.find_entity_refs(one.own_text[start:end])
            mentions |= {(turn.id, ref) for ref in named}
            others = [ref for ref in named if ref != author]
            if lack := _get_drop_reason(one, start, end, names_somebody=bool(others)):
                dropped[lack] += 1
                continue
            began = find_relative_date(one.own_text[start:end], turn.at, one.language)
            fact = ExtractedFact(
                subject=author,
                predicate=STATES_PREDICATE,
                object=others[0] if others else None,
                text=turn.text[start:end],
                sources=(Source.from_turn(turn, start, end),),
                speaker=turn.author,
                at=turn.at,
                valid_from=began.at if began else None,
                valid_from_precision=began.precision if began else None,
                ref=len(facts),
            )
            facts.append(fact)
    used = entities.select_entities(ref for _, ref in mentions)
    return Extraction(used, tuple(facts), tuple(sorted(mentions)), dict(dropped))


def _get_drop_reason(one: _ParsedTurn, start: int, end: int, *, names_somebody: bool) -> str:
    """What keeps a passage from being a statement of somebody's own; empty if nothing does."""
    text, own = one.turn.text[start:end], one.own_text[start:end]
    if one.turn.role == "model":
        return "said by an agent"
    if is_question(own):
        return "a question"
    if 2 * sum(map(str.isalnum, own)) < sum(map(str.isalnum, text)):
        return "mostly quoted"
    words = [word.casefold() for word in TOKEN_PATTERN.findall(own)]
    told = names_somebody or any(len(word) > 3 and word not in load_stop_words(one.language) for word in words[1:])
    if len(words) < _MIN_STATEMENT_WORDS and not (
        told and _FIRST_PERSON.fullmatch(words[0])
    ):  # "I'm vegetarian" says enough
        return "too short to say anything"
    return ""
