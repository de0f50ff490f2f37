"""Find a quote in the turn that it comes from, so that no fact rests on words nobody said.

Only the words count: case, width, spacing, punctuation, Markdown marks and invisible characters are ignored.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat

from adk_graph_memory.language.detection import WIDE_CHARACTER, WIDE_RANGES, detect_language, load_stop_words
from adk_graph_memory.records.extractions import Source
from adk_graph_memory.records.turns import Turn

_IGNORED_CHARACTERS = frozenset("'’‘‚‛ʼ´`*_~ـ")
"""Apostrophes (dont), Markdown marks inside words, tatweel."""
_WORD_SEPARATORS = frozenset("|^<>=…")
_VOWEL_POINTS = ((0x064B, 0x0655), (0x0670, 0x0670), (0x0591, 0x05C7))
"""Vowel points of Arabic and Hebrew, which are optional."""
_QUOTED_TEXT = re.compile(
    "|".join(f"[{marks}](?:[^{marks}\n]|\n(?!\n))*[{marks}]" for marks in ('"', "“”„‟", "«»", "「」", "『』"))
)
"""Text in quotation marks within a paragraph; languages differ in which mark opens and which closes."""
_REDUNDANT_SPACES = re.compile(rf"(?<=[{WIDE_RANGES}]) +| +(?=[ {WIDE_RANGES}])")
_ELLIPSIS = re.compile(r"\s*[\[(]?(?:…|\.{3,})[\])]?\s*")
_LONG_QUOTE_LENGTH = 10
"""Characters from which a quote may begin or end inside a word."""
_MIN_QUOTE_WORDS, _MIN_QUOTE_LETTERS, _MIN_WORD_LENGTH = 3, 5, 3
"""Words, or letters of two words, that make a quote distinctive; letters that one word needs if it is no stop word."""


class _FoldTable(dict[str, str]):
    """Maps each character to its form for comparison; computed on first use."""

    def __missing__(self, character: str) -> str:
        folded = "".join(map(_fold_character, unicodedata.normalize("NFKC", character).casefold()))
        self[character] = folded = _fold_character(character) if character in _IGNORED_CHARACTERS else folded
        return folded


def _fold_character(character: str) -> str:
    category = unicodedata.category(character)
    is_vowel_point = any(first <= ord(character) <= last for first, last in _VOWEL_POINTS)
    if character in _IGNORED_CHARACTERS or category == "Cf" or is_vowel_point:
        return ""
    return " " if category[0] in "PZC" or category == "Sk" or character in _WORD_SEPARATORS else character


_FOLD_TABLE = _FoldTable()


class FoldedTurn:
    """A turn in folded form, in which quotes are looked up.

    Args:
        turn: the turn; folded once for all quotes.
    """

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._text, self._positions = _fold_with_positions(turn.text)
        self._quotation_spans: list[tuple[int, int]] | None = None

    def locate_quote(self, quote: str) -> Source | None:
        """The source that contains the quote; for a quote with a gap ("A … B"), from its first part to its last."""
        if span := self._find_quote(fold_quote(quote)):
            return self._convert_folded_span(*span)
        parts = [folded for part in _ELLIPSIS.split(quote) if (folded := fold_quote(part))]
        if len(parts) < 2 or not _is_distinctive(" ".join(parts)):
            return None
        spans: list[tuple[int, int]] = []
        for part in parts:
            span = self._find_words(part, spans[-1][1] if spans else 0)
            if span is None:
                return None
            spans.append(span)
        return self._convert_folded_span(spans[0][0], spans[-1][1])

    def _find_quote(self, folded_text: str) -> tuple[int, int] | None:
        """Find a folded quote; one that is not distinctive must be the whole turn."""
        if not folded_text or (not _is_distinctive(folded_text) and folded_text != self._text.strip()):
            return None
        return self._find_words(folded_text)

    def _find_words(self, folded_text: str, begin: int = 0) -> tuple[int, int] | None:
        while (start := self._text.find(folded_text, begin)) >= 0:
            end = start + len(folded_text)
            if len(folded_text) >= _LONG_QUOTE_LENGTH or not (self._is_within_word(start) or self._is_within_word(end)):
                return start, end
            begin = start + 1
        return None

    def _is_within_word(self, position: int) -> bool:
        around = self._text[max(position - 1, 0) : position + 1]
        return len(around) == 2 and around.isalnum() and not WIDE_CHARACTER.search(around)

    def _convert_folded_span(self, start: int, end: int) -> Source:
        """Convert a span of the folded text to the original words; a pair of quotation marks is never cut in half."""
        first, last = self._positions[start], self._positions[end - 1]
        text = self.turn.text
        while last + 1 < len(text) and _FOLD_TABLE[text[last + 1]] == "" and text[last + 1] not in _IGNORED_CHARACTERS:
            last += 1  # include what belongs to the last letter, such as a vowel point
        if self._quotation_spans is None:
            self._quotation_spans = [(pair.start(), pair.end() - 1) for pair in _QUOTED_TEXT.finditer(text)]
        for opening, closing in self._quotation_spans[max(bisect_right(self._quotation_spans, (first, 0)) - 1, 0) :]:
            if opening > last:
                break
            if opening < first <= closing <= last or first <= opening <= last < closing:
                first, last = min(first, opening), max(last, closing)
        return Source.from_turn(self.turn, first, last + 1)


class QuoteLocator:
    """Looks up the quotes of a reply in the turns of a window.

    Args:
        turns: the turns in order, numbered from 0.
    """

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._turns = list(turns)
        self._turns_by_id = {turn.id: turn for turn in reversed(self._turns)}
        self._folded_turns: dict[int, FoldedTurn] = {}

    def locate_in_turns(self, quote: str, numbers: Iterable[int]) -> tuple[Source, ...]:
        """The sources of the quote in the turns with these numbers."""
        return tuple(self._iterate_sources(quote, self._filter_turn_numbers(numbers)))

    def locate_unique_quote(self, quote: str) -> tuple[Source, ...]:
        """The source of the quote, if exactly one turn contains it."""
        sources = tuple(islice(self._iterate_sources(quote, range(len(self._turns))), 2))
        return sources if len(sources) == 1 else ()

    def select_turns(self, numbers: Iterable[int]) -> list[Turn]:
        """The turns with these numbers, each once."""
        return [self._turns[number] for number in self._filter_turn_numbers(numbers)]

    def get_turn(self, id: str) -> Turn:
        """The turn with this id."""
        return self._turns_by_id[id]

    def _filter_turn_numbers(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in dict.fromkeys(numbers) if 0 <= number < len(self._turns)]

    def _iterate_sources(self, quote: str, numbers: Iterable[int]) -> Iterator[Source]:
        for number in numbers:
            if number not in self._folded_turns:
                self._folded_turns[number] = FoldedTurn(self._turns[number])
            if source := self._folded_turns[number].locate_quote(quote):
                yield source


def fold_quote(text: str) -> str:
    """Fold a text as quotes are compared."""
    return _fold_with_positions(unicodedata.normalize("NFC", text))[0].strip()


def _fold_with_positions(text: str) -> tuple[str, list[int]]:
    """The folded text, and the position in the original of each of its characters."""
    pieces = list(map(_FOLD_TABLE.__getitem__, text))
    positions = list(chain.from_iterable(repeat(position, len(piece)) for position, piece in enumerate(pieces)))
    spaced, kept, kept_positions, end = "".join(pieces), list[str](), list[int](), 0
    for space in _REDUNDANT_SPACES.finditer(spaced):
        kept.append(spaced[end : space.start()])
        kept_positions += positions[end : space.start()]
        end = space.end()
    return "".join((*kept, spaced[end:])), kept_positions + positions[end:]


def _is_distinctive(folded_text: str) -> bool:
    """Whether a folded quote is more than a letter or a stop word."""
    if WIDE_CHARACTER.search(folded_text):
        letters = [character for character in folded_text if character.isalnum()]
        return len(letters) > 2 or (len(letters) == 2 and not all("\u3040" <= letter <= "\u309f" for letter in letters))
    words = folded_text.split()
    if any(character.isdigit() for character in folded_text):
        return sum(map(len, words)) > 1
    if len(words) >= _MIN_QUOTE_WORDS or (len(words) > 1 and sum(map(len, words)) >= _MIN_QUOTE_LETTERS):
        return True
    stop_words = load_stop_words("en") | load_stop_words(detect_language(folded_text))
    return any(len(word) >= _MIN_WORD_LENGTH and word not in stop_words for word in words)
