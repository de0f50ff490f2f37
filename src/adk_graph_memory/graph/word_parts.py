"""Split text into words, and joined words into the parts that Lucene's tokenizer does not split.

Lucene keeps ``1,240``, ``bees.example.org`` and, in some scripts, a mix like ``wifiи`` as one word. So that a search
for a part finds it too, the parts are indexed beside the text. So is a telephone number in its normal form.
"""

from __future__ import annotations

import itertools
import re
import unicodedata

from adk_graph_memory.language.identifiers import find_number_keys

_JOINED_WORD = re.compile(r"\w++(?:[^\w\s]++\w++)*+")
_QUOTES_TO_SPACES = str.maketrans('"\\', "  ")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
"""Lone surrogates are no characters, and the driver cannot send them."""
_JOINERS = "\u200c\u200d"


def split_words(text: str) -> list[str]:
    """Split a text into its distinct words, each followed by its parts; without quotes and backslashes."""
    words: dict[str, None] = {}
    for token in _find_joined_words(unicodedata.normalize("NFC", text)):
        words.update(dict.fromkeys([token, *_split_joined_word(token)]))
    return list(words)


def extract_word_parts(text: str) -> str | None:
    """Extract what is indexed beside the text: parts of joined words, and numbers; None if there are none."""
    words = dict.fromkeys(_find_joined_words(text))
    parts = dict.fromkeys(part for token in words for part in _split_joined_word(token))
    parts |= dict.fromkeys(number for number in find_number_keys(text) if number not in words)
    return " ".join(parts) or None


def _find_joined_words(text: str) -> list[str]:
    """Find runs of letters, digits and marks, joined by punctuation without spaces: ``O'Brien``, ``3.5``."""
    text = _SURROGATES.sub(" ", text.translate(_QUOTES_TO_SPACES))
    if text.isascii():
        return _JOINED_WORD.findall(text)
    runs = ("".join(run) for is_space, run in itertools.groupby(text, str.isspace) if not is_space)
    return [word for run in runs if (word := _trim_run(run))]


def _trim_run(run: str) -> str:
    """Cut what stands before the first and after the last word character."""
    positions = [position for position, character in enumerate(run) if _is_word_character(character)]
    return run[positions[0] : positions[-1] + 1] if positions else ""


def _is_word_character(character: str) -> bool:
    if character.isalnum() or character == "_" or character in _JOINERS:
        return True
    return unicodedata.category(character).startswith("M")  # vowel signs, accents


def _split_joined_word(token: str) -> list[str]:
    words = ["".join(run) for is_word, run in itertools.groupby(token, _is_word_character) if is_word]
    scripts = ["".join(run) for word in words if not word.isascii() for _, run in itertools.groupby(word, _is_latin)]
    parts = [*words, *scripts]
    return parts if set(parts) != {token} else []


def _is_latin(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character == "_"
    return unicodedata.name(character, "").startswith("LATIN")
