"""Extract statements, with their names and dates, by rules, for when there is no language model.

A statement keeps its speaker's words. It implies no other fact and ends none: rules cannot tell what "In summer we move
to Lisbon" means for Porto.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.extraction.entity_registry import TOKEN_PATTERN, EntityRegistry
from adk_graph_memory.extraction.name_finder import NameFinder, find_own_names, load_name_finder
from adk_graph_memory.extraction.pasted_lines import FIRST_PERSON_WORDS
from adk_graph_memory.extraction.pieces import split_into_windows
from adk_graph_memory.extraction.sentences import (
    count_shown_lines,
    group_sentences,
    is_question,
    is_request,
    mask_quoted_text,
    split_sentences,
)
from adk_graph_memory.language.date_finder import find_relative_date
from adk_graph_memory.language.detection import detect_language, load_stop_words
from adk_graph_memory.records import RULES, ExtractedFact, Extraction, KnownEntity, Source, Turn, find_token_end
from adk_graph_memory.records.write_plan import STATES_PREDICATE

_MIN_STATEMENT_WORDS = 4
"""Words (or, in scripts without spaces, characters) below which a sentence counts as small talk."""
MAX_WINDOW_TOKENS = 50_000
"""Tokens of a window, and of the beginning of a turn that is read: each statement in it is to be written at once."""
_FIRST_PERSON = re.compile(FIRST_PERSON_WORDS)


class RuleExtractor:
    """Extracts without a language model.

    Args:
        names: the name finder; by default spaCy, or patterns if spaCy is not installed.
    """

    functional_predicates: frozenset[str] = frozenset()
    topics: tuple[str, ...] = ()
    model_name = RULES

    def __init__(self, names: NameFinder | None = None) -> None:
        self._name_finder = names or load_name_finder()
        self.version = f"rules@4 {self._name_finder.version}"

    def restrict_topics(self, topics: Collection[str]) -> RuleExtractor:
        """This extractor, if there are no topics.

        Raises:
            errors.ConfigurationError: there are topics, which rules cannot tell apart.
        """
        if topics:
            reason = f"rules cannot tell what belongs to {', '.join(sorted(topics))}; topics need a model"
            raise errors.ConfigurationError(reason=f"{reason} (ADK_GRAPH_MEMORY_MODEL or model=)")
        return self

    def split_turns(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """Split the turns into windows that one transaction can write."""
        return split_into_windows(turns, size=MAX_WINDOW_TOKENS)

    async def extract(
        self, turns: Sequence[Turn], known_entities: Sequence[KnownEntity], context: Sequence[Turn] = ()
    ) -> Extraction:
        """Extract a fact about the speaker for each statement of a person, and an entity for each name used."""
        return await asyncio.to_thread(self._extract_by_rules, turns, known_entities) if turns else Extraction()

    def _extract_by_rules(self, turns: Sequence[Turn], known_entities: Sequence[KnownEntity]) -> Extraction:
        texts = [mask_quoted_text(turn.text[: find_token_end(turn.text, MAX_WINDOW_TOKENS)]) for turn in turns]
        # A short turn is expected in the most frequent language.
        usual = Counter(map(detect_language, texts)).most_common(1)[0][0]
        parsed_turns = [
            _ParsedTurn(turn, text, detect_language(text, usual)) for turn, text in zip(turns, texts, strict=True)
        ]
        entities = EntityRegistry([turn.author for turn in turns], known_entities)
        for parsed in parsed_turns:
            for sentence in parsed.sentences if parsed.turn.role == "user" else ():
                for own_name in find_own_names(sentence):
                    entities.add_author_alias(parsed.turn.author, own_name)
        sentences = [(sentence, parsed.language) for parsed in parsed_turns for sentence in parsed.sentences]
        names = [name for text, language in sentences for name in self._name_finder.find_names(text, language)]
        # Names at a sentence start come last: "Perhaps Anna" is Anna, if she is known by then.
        for name in sorted(names, key=lambda name: name.is_sentence_start):
            if not (name.is_sentence_start and entities.has_name(name.text.partition(" ")[2])):
                entities.add_entity(name.text, name.type)
        result = _extract_statements(parsed_turns, entities)
        cut = sum(len(parsed.own_text) < len(parsed.turn.text.rstrip()) for parsed in parsed_turns)
        return replace(result, drop_counts={**result.drop_counts, "rest of a long turn": cut}) if cut else result


class _ParsedTurn(NamedTuple):
    """A turn, its text with all but the author's own words blanked out, and the language of these."""

    turn: Turn
    own_text: str
    language: str

    @property
    def sentences(self) -> list[str]:
        return [self.own_text[start:end] for start, end in split_sentences(self.own_text, self.language)]


def _extract_statements(parsed_turns: Sequence[_ParsedTurn], entities: EntityRegistry) -> Extraction:
    facts, mentions, drop_counts = list[ExtractedFact](), set[tuple[str, int]](), Counter[str]()
    for parsed in parsed_turns:
        turn, author = parsed.turn, entities.author_refs[parsed.turn.author]
        drop_counts["shown, not said"] += count_shown_lines(turn.text, parsed.own_text)
        for start, end in group_sentences(parsed.own_text, parsed.language):
            refs = entities.find_entity_refs(parsed.own_text[start:end])
            mentions |= {(turn.id, ref) for ref in refs}
            others = [ref for ref in refs if ref != author]
            if reason := _get_drop_reason(parsed, start, end, names_somebody=bool(others)):
                drop_counts[reason] += 1
                continue
            date = find_relative_date(parsed.own_text[start:end], turn.at, parsed.language)
            fact = ExtractedFact(
                subject=author,
                predicate=STATES_PREDICATE,
                object=others[0] if others else None,
                text=turn.text[start:end],
                sources=(Source.from_turn(turn, start, end),),
                speaker=turn.author,
                at=turn.at,
                valid_from=date.at if date else None,
                valid_from_precision=date.precision if date else None,
                ref=len(facts),
            )
            facts.append(fact)
    mentioned = entities.select_entities(ref for _, ref in mentions)
    return Extraction(mentioned, tuple(facts), tuple(sorted(mentions)), dict(+drop_counts))


def _get_drop_reason(parsed_turn: _ParsedTurn, start: int, end: int, *, names_somebody: bool) -> str:
    """Why a passage is no statement of its author's; empty if it is one."""
    text, own_text = parsed_turn.turn.text[start:end], parsed_turn.own_text[start:end]
    if parsed_turn.turn.role == "model":
        return "said by an agent"
    if is_question(own_text):
        return "a question"
    if is_request(own_text):
        return "a request"
    if 2 * sum(map(str.isalnum, own_text)) < sum(map(str.isalnum, text)):
        return "mostly quoted"
    words = [word.casefold() for word in TOKEN_PATTERN.findall(own_text)]
    stop_words = load_stop_words(parsed_turn.language)
    has_content = names_somebody or any(len(word) > 3 and word not in stop_words for word in words[1:])
    # "I'm vegetarian" is short but says something.
    if len(words) < _MIN_STATEMENT_WORDS and not (has_content and _FIRST_PERSON.fullmatch(words[0])):
        return "too short to say anything"
    return ""
