"""Extract assertions, with their names and dates, by rules, for when there is no language model.

An assertion keeps its speaker's words. It implies no other fact and ends none: rules cannot tell what "In summer we
move to Lisbon" means for Porto.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.extraction.names import (
    NameFinder,
    count_shown_lines,
    find_own_names,
    group_sentences,
    is_question,
    is_request,
    load_name_finder,
    mask_quoted_text,
    split_sentences,
)
from adk_graph_memory.extraction.pasted_lines import FIRST_PERSON_WORDS
from adk_graph_memory.extraction.pieces import split_into_windows
from adk_graph_memory.language.date_finder import find_relative_date
from adk_graph_memory.language.detection import (
    WIDE_CHARACTER,
    WIDE_RANGES,
    WORD_PATTERN,
    detect_language,
    load_stop_words,
)
from adk_graph_memory.language.text import find_token_end, fold_text
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.facts import STATES_PREDICATE, KnownEntity
from adk_graph_memory.records.turns import RULES, Turn

TOKEN_PATTERN = re.compile(rf"[{WIDE_RANGES}]|{WORD_PATTERN.pattern}|\d+")
_PRONOUN_OR_ARTICLE = re.compile(r"\b(?:I|you|he|she|it|we|they|who|a|an|the)\s+$", re.IGNORECASE)
"""Words before which a lower-case name is an ordinary word ("I will", "a rose")."""


class EntityRegistry:
    """The entities of one extraction, numbered from 0: authors, then known entities, then new names as they appear."""

    def __init__(self, authors: Iterable[str], known_entities: Sequence[KnownEntity]) -> None:
        self._entities: list[ExtractedEntity] = []
        self._refs_by_name: dict[str, tuple[str, int]] = {}
        self._max_name_lengths: dict[str, int] = {}
        self._known_by_name = _index_known_names(known_entities)
        self.author_refs: dict[str, int] = {}
        for author in dict.fromkeys(authors):
            is_word = author == author.lower() != author.upper()  # "user" in a sentence does not mean its author
            known_author = self._known_by_name.get(fold_text(author))
            self.author_refs[author] = self._register_entity(author, "person", known_author, in_texts=not is_word)
        author_keys = {entity.known_key for entity in self._entities}
        for entity in known_entities:
            if entity.key not in author_keys:
                self._register_entity(entity.name, entity.type, entity)

    def has_name(self, name: str) -> bool:
        """Whether an entity has this name or alias."""
        return fold_text(name) in self._refs_by_name

    def add_entity(self, name: str, type: str) -> None:
        """Add an entity, unless one has this name."""
        if not self.has_name(name):
            self._register_entity(name, type)

    def add_author_alias(self, author: str, name: str) -> None:
        """Add an alias to an author; ignore an empty name and one that an entity has."""
        if name and not self.has_name(name):
            ref = self.author_refs[author]
            self._entities[ref] = replace(self._entities[ref], aliases=(*self._entities[ref].aliases, name))
            self._register_name(name, ref)

    def find_entity_refs(self, text: str) -> list[int]:
        """The numbers of the entities that the text names, in its order; the longest name at a place wins."""
        tokens = list(TOKEN_PATTERN.finditer(text))
        refs, position = list[int](), 0
        while position < len(tokens):
            name_tokens = tokens[position : position + self._max_name_lengths.get(tokens[position][0].casefold(), 0)]
            matches = ((self._match_ref(text, name_tokens[:n]), n) for n in range(len(name_tokens), 0, -1))
            ref, length = next((match for match in matches if match[0] is not None), (None, 1))
            refs += [] if ref is None else [ref]
            position += length
        return refs

    def select_entities(self, refs: Iterable[int]) -> tuple[ExtractedEntity, ...]:
        """The authors and the entities with these numbers, in order of number."""
        return tuple(self._entities[ref] for ref in sorted({*refs, *self.author_refs.values()}))

    def _match_ref(self, text: str, tokens: Sequence[re.Match[str]]) -> int | None:
        """The entity that the tokens name. The case may differ only for a known entity, if it is no ordinary word."""
        start, words = tokens[0].start(), text[tokens[0].start() : tokens[-1].end()]
        name, ref = self._refs_by_name.get(fold_text(words), ("", None))
        if ref is None or name == words:
            return ref
        is_ordinary = words in load_stop_words("en") or _PRONOUN_OR_ARTICLE.search(text[max(0, start - 8) : start])
        return ref if self._entities[ref].known_key and not is_ordinary else None

    def _register_entity(
        self, name: str, type: str, entity: KnownEntity | None = None, *, in_texts: bool = True
    ) -> int:
        ref = len(self._entities)
        self._entities.append(ExtractedEntity(ref, name, type, known_key=entity.key if entity else None))
        self._register_name(name, ref, in_texts=in_texts)
        for alias in entity.aliases if entity else ():
            if self._known_by_name.get(fold_text(alias)) is entity:
                self._register_name(alias, ref)
        return ref

    def _register_name(self, name: str, ref: int, *, in_texts: bool = True) -> None:
        self._refs_by_name.setdefault(fold_text(name), (name, ref))
        words = [word.casefold() for word in TOKEN_PATTERN.findall(name)]
        if words and in_texts and not (len(words) == 1 and WIDE_CHARACTER.fullmatch(words[0])):
            self._max_name_lengths[words[0]] = max(len(words), self._max_name_lengths.get(words[0], 0))


def _index_known_names(entities: Sequence[KnownEntity]) -> dict[str, KnownEntity]:
    """Map each folded name, and each alias that only one entity has, to its entity."""
    aliases = [(alias, entity) for entity in entities for alias in {fold_text(alias) for alias in entity.aliases}]
    counts = Counter(alias for alias, _ in aliases)
    by_alias = {alias: entity for alias, entity in aliases if counts[alias] == 1}
    return by_alias | {fold_text(entity.name): entity for entity in entities}


_MIN_ASSERTION_WORDS = 4
"""Words (or, in scripts without spaces, characters) below which a sentence counts as small talk."""
MAX_WINDOW_TOKENS = 50_000
"""Tokens of a window, and of the beginning of a turn that is read: each assertion in it is to be written at once."""
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
        """Extract a fact about the speaker for each assertion of a person, and an entity for each name used."""
        return await asyncio.to_thread(self._extract_by_rules, turns, known_entities) if turns else Extraction()

    def _extract_by_rules(self, turns: Sequence[Turn], known_entities: Sequence[KnownEntity]) -> Extraction:
        turns = [turn.show_parts(()) for turn in turns]  # what is shown is nobody's assertion
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
        result = _extract_assertions(parsed_turns, entities)
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


def _extract_assertions(parsed_turns: Sequence[_ParsedTurn], entities: EntityRegistry) -> Extraction:
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
    """Why a passage is no assertion of its author's; empty if it is one."""
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
    if len(words) < _MIN_ASSERTION_WORDS and not (has_content and _FIRST_PERSON.fullmatch(words[0])):
        return "too short to say anything"
    return ""
