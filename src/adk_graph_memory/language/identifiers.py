"""Find telephone numbers, account numbers and codes in other spellings: "+43 664 555 0127" by 06645550127.

A question's identifiers are searched for in other spellings too; a text's numbers are indexed in their normal form too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from adk_graph_memory.language.detection import load_stop_words
from adk_graph_memory.language.quantities import UNITS_BY_NAME, normalize_quantities

_NUMBER_HINT = re.compile(r"(?:\d[ ()/.-]{0,2}){6}\d|\b[A-Za-z]{2}\d\d \d{4}\b")
"""What every telephone and account number has; most texts have none."""
_YEAR = r"(?:19|20)\d\d(?!\d)"
_CODE = re.compile(
    rf"(?<![\w@./+-])(?:([A-Za-z]{{1,5}})-?(\d{{1,6}})|(?!I )([A-Z]{{1,4}}) (?!{_YEAR})(\d{{1,6}}))(?![\w@%]|[.,:/-]\w)"
)
"""A seat, a flight, a model: letters with a number, and in capitals also apart from it, if that is no year."""
_MAX_CODES = 16
"""Codes of a question that are searched for in other spellings."""
_ENGLISH_STOP_WORDS = frozenset(("a", "an", "and", "as", "at", "be", "but", "by", "for", "if", "in", "is", "it", "no"))
_ENGLISH_STOP_WORDS |= {"not", "of", "on", "or", "that", "the", "to", "was", "will", "with"}
"""Short ones that Lucene's English analyzer, which also reads other languages, drops; the usual list has "e" too."""


@dataclass(frozen=True, slots=True)
class Identifiers:
    """What a text names by a number or a code: the normal forms of numbers, and codes as their letters and digits."""

    numbers: tuple[str, ...] = ()
    codes: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.numbers or self.codes)

    def list_terms(self, language: str) -> Iterator[str]:
        """Yield the terms, some of several words, by which other spellings are found.

        Telephone numbers are indexed in their normal form too, since nobody knows how their digits were grouped.
        """
        for number in self.numbers:
            yield number
            if not number.isdigit():
                yield " ".join(re.findall(".{1,4}", number))
        stop_words = _ENGLISH_STOP_WORDS
        if language not in ("", "en"):
            stop_words |= load_stop_words(language)
        for letters, digits in self.codes:
            yield letters + digits
            if letters not in stop_words:  # else only the digits would count
                yield f"{letters} {digits}"

    def unify_spellings(self, text: str) -> str:
        """Fold a text and write these identifiers in their normal form, wherever it has them."""
        text = normalize_quantities(text.casefold()).text if self.numbers else text.casefold()
        for letters, digits in self.codes:
            text = re.sub(rf"(?<!\w){letters}[ -]?{digits}(?!\w)", letters + digits, text)
        return text


def find_identifiers(text: str) -> Identifiers:
    """Find the identifiers of a question."""
    codes = dict[tuple[str, str], None]()
    for match in _CODE.finditer(text):
        letters = (match[1] or match[3]).casefold()
        if match[1] or letters not in UNITS_BY_NAME:
            codes[letters, match[2] or match[4]] = None
    return Identifiers(tuple(find_number_keys(text)), tuple(codes)[:_MAX_CODES])


def find_number_keys(text: str) -> list[str]:
    """Find the telephone and account numbers of a text, each once in its normal form."""
    if not _NUMBER_HINT.search(unicodedata.normalize("NFKC", text)):
        return []
    quantities = normalize_quantities(text.casefold()).quantities
    return list(dict.fromkeys(one.number for one in quantities if one.is_identifier and one.number.isalnum()))
