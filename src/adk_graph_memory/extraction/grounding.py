"""Find the words of a quote in the turn that said them: no fact is kept on words nobody said.

What counts are the words: case, width, spacing, punctuation, marks of Markdown and what nobody sees make no difference.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat

from adk_graph_memory.language.detection import WIDE_CHARACTER, WIDE_RANGES, detect_language, load_stop_words
from adk_graph_memory.records import Source, Turn

_IGNORED_CHARACTERS = frozenset("'’‘‚‛ʼ´`*_~ـ")
"""Apostrophes (dont), marks of Markdown inside words, tatweel."""
_WORD_SEPARATORS = frozenset("|^<>=…")
_VOWEL_POINTS = ((0x064B, 0x0655), (0x0670, 0x0670), (0x0591, 0x05C7))
"""Vowel points of Arabic and Hebrew, which are written or not."""
_QUOTED_TEXT = re.compile(
    "|".join(f"[{marks}](?:[^{marks}\n]|\n(?!\n))*[{marks}]" for marks in ('"', "“”„‟", "«»", "「」", "『』"))
)
"""What stands in quotation marks, within a paragraph; which mark opens and which closes is a matter of language."""
_REDUNDANT_SPACES = re.compile(rf"(?<=[{WIDE_RANGES}]) +| +(?=[ {WIDE_RANGES}])")
_ELLIPSIS = re.compile(r"\s*[\[(]?(?:…|\.{3,})[\])]?\s*")
_LONG_QUOTE_LENGTH = 10
"""Characters from which on a quote need not begin and end with a word."""
_MIN_QUOTE_WORDS, _MIN_QUOTE_LETTERS, _MIN_WORD_LENGTH = 3, 5, 3
"""Words, and letters of two words, that prove something however ordinary; letters of one word that is not."""


class _FoldTable(dict[str, str]):
    """Each character as it is compared."""

    def __missing__(self, character: str) -> str:
        folds = "".join(map(_fold_character, unicodedata.normalize("NFKC", character).casefold()))
        self[character] = folds = _fold_character(character) if character in _IGNORED_CHARACTERS else folds
        return folds


def _fold_character(character: str) -> str:
    category = unicodedata.category(character)
    if character in _IGNORED_CHARACTERS or category == "Cf" or any(a <= ord(character) <= b for a, b in _VOWEL_POINTS):
        return ""
    return " " if category[0] in "PZC" or category == "Sk" or character in _WORD_SEPARATORS else character


_FOLD_TABLE = _FoldTable()


class FoldedTurn:
    """A turn as quotes are looked up in it; folded once, whatever the number of quotes.

    Args:
        turn: what was said.
    """

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._text, self._positions = _fold_with_positions(turn.text)
        self._quotation_spans: list[tuple[int, int]] | None = None

    def locate_quote(self, quote: str) -> Source | None:
        """The place that says the quote; with a gap ("A … B"), the place from the first part to the last."""
        wanted = fold_quote(quote)
        if found := self._find_quote(wanted):
            return self._make_source(*found)
        parts = [fold_quote(part) for part in _ELLIPSIS.split(quote)]
        parts = [part for part in parts if part]
        if len(parts) < 2 or not _is_distinctive(" ".join(parts)):
            return None
        places: list[tuple[int, int]] = []
        for part in parts:
            place = self._find_words(part, places[-1][1] if places else 0)
            if place is None:
                return None
            places.append(place)
        return self._make_source(places[0][0], places[-1][1])

    def _find_quote(self, wanted: str) -> tuple[int, int] | None:
        """Where the folded words stand, as words; where they prove nothing, they have to be all that was said."""
        if not wanted or (not _is_distinctive(wanted) and wanted != self._text.strip()):
            return None
        return self._find_words(wanted)

    def _find_words(self, wanted: str, begin: int = 0) -> tuple[int, int] | None:
        while (start := self._text.find(wanted, begin)) >= 0:
            end = start + len(wanted)
            if len(wanted) >= _LONG_QUOTE_LENGTH or not (self._is_within_word(start) or self._is_within_word(end)):
                return start, end
            begin = start + 1
        return None

    def _is_within_word(self, place: int) -> bool:
        around = self._text[max(place - 1, 0) : place + 1]
        return len(around) == 2 and around.isalnum() and not WIDE_CHARACTER.search(around)

    def _make_source(self, start: int, end: int) -> Source:
        """The words in the turn, with both marks of a pair of quotation marks of which they would have one."""
        first, last = self._positions[start], self._positions[end - 1]
        text = self.turn.text
        while last + 1 < len(text) and _FOLD_TABLE[text[last + 1]] == "" and text[last + 1] not in _IGNORED_CHARACTERS:
            last += 1  # what belongs to the last letter, like a vowel point
        if self._quotation_spans is None:
            self._quotation_spans = [(pair.start(), pair.end() - 1) for pair in _QUOTED_TEXT.finditer(text)]
        for opening, closing in self._quotation_spans[max(bisect_right(self._quotation_spans, (first, 0)) - 1, 0) :]:
            if opening > last:
                break
            if opening < first <= closing <= last or first <= opening <= last < closing:
                first, last = min(first, opening), max(last, closing)
        return Source.from_turn(self.turn, first, last + 1)


class QuoteLocator:
    """The turns of a window, as the quotes of a reply are looked up in them.

    Args:
        turns: in their order; their places are their numbers.
    """

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._turns = list(turns)
        self._turns_by_id = {turn.id: turn for turn in reversed(self._turns)}
        self._folded_turns: dict[int, FoldedTurn] = {}

    def locate_in_turns(self, quote: str, numbers: Iterable[int]) -> tuple[Source, ...]:
        """Where the turns of these numbers say the quote."""
        return tuple(self._iterate_sources(quote, self._filter_turn_numbers(numbers)))

    def locate_unique_quote(self, quote: str) -> tuple[Source, ...]:
        """Where the quote is said, if it is in one turn only."""
        found = tuple(islice(self._iterate_sources(quote, range(len(self._turns))), 2))
        return found if len(found) == 1 else ()

    def select_turns(self, numbers: Iterable[int]) -> list[Turn]:
        """The turns of these numbers, each once."""
        return [self._turns[number] for number in self._filter_turn_numbers(numbers)]

    def get_turn(self, id: str) -> Turn:
        """The turn of this id."""
        return self._turns_by_id[id]

    def _filter_turn_numbers(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in dict.fromkeys(numbers) if 0 <= number < len(self._turns)]

    def _iterate_sources(self, quote: str, numbers: Iterable[int]) -> Iterator[Source]:
        for number in numbers:
            if number not in self._folded_turns:
                self._folded_turns[number] = FoldedTurn(self._turns[number])
            if source := self._folded_turns[number].locate_quote(quote):
                yield source


def ground_quote(quote: str, turn: Turn) -> Source | None:
    """The place in one turn that says the quote, or None."""
    return FoldedTurn(turn).locate_quote(quote)


def fold_quote(text: str) -> str:
    """The text as quotes are compared."""
    return _fold_with_positions(unicodedata.normalize("NFC", text))[0].strip()


def _fold_with_positions(text: str) -> tuple[str, list[int]]:
    """The text as it is compared, and for each of its characters the place in the original."""
    pieces = list(map(_FOLD_TABLE.__getitem__, text))
    places = list(chain.from_iterable(repeat(place, len(piece)) for place, piece in enumerate(pieces)))
    spaced, kept, kept_places, end = "".join(pieces), list[str](), list[int](), 0
    for needless in _REDUNDANT_SPACES.finditer(spaced):
        kept.append(spaced[end : needless.start()])
        kept_places += places[end : needless.start()]
        end = needless.end()
    return "".join((*kept, spaced[end:])), kept_places + places[end:]


def _is_distinctive(wanted: str) -> bool:
    """Whether folded words say something: not a letter, not an ordinary word."""
    if WIDE_CHARACTER.search(wanted):
        letters = [character for character in wanted if character.isalnum()]
        return len(letters) > 2 or (len(letters) == 2 and not all("\u3040" <= letter <= "\u309f" for letter in letters))
    words = wanted.split()
    if any(character.isdigit() for character in wanted):
        return sum(map(len, words)) > 1
    if len(words) >= _MIN_QUOTE_WORDS or (len(words) > 1 and sum(map(len, words)) >= _MIN_QUOTE_LETTERS):
        return True
    ordinary = load_stop_words("en") | load_stop_words(detect_language(wanted))
    return any(len(word) >= _MIN_WORD_LENGTH and word not in ordinary for word in words)
