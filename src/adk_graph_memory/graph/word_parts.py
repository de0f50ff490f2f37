"""Text goes in, its words come out: what people ask for, and what Lucene's tokeniser would not find a text by.

Lucene keeps ``1,240``, ``bees.example.org`` and, in some scripts, a mix like ``wifiи`` as one word; whoever asks for a
part of it should find it too, so the parts are indexed beside the text.
"""

from __future__ import annotations

import itertools
import re
import unicodedata

_JOINED_WORD = re.compile(r"\w++(?:[^\w\s]++\w++)*+")
_QUOTES_TO_SPACES = str.maketrans('"\\', "  ")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
"""Of surrogate pairs: no characters, and no driver sends them."""
_JOINERS = "\u200c\u200d"


def split_words(text: str) -> list[str]:
    """The words of a text, whole and in their parts, each once; quotes and backslashes stand in none of them."""
    found: dict[str, None] = {}
    for token in _find_joined_words(unicodedata.normalize("NFC", text)):
        found.update(dict.fromkeys([token, *_split_joined_word(token)]))
    return list(found)


def extract_word_parts(text: str) -> str | None:
    """The parts of the text's joined words, to be indexed beside the text; None if it has none."""
    found = dict.fromkeys(part for token in _find_joined_words(text) for part in _split_joined_word(token))
    return " ".join(found) or None


def _find_joined_words(text: str) -> list[str]:
    """Runs of letters, digits and marks, joined by punctuation without spaces: ``O'Brien``, ``3.5``."""
    text = _SURROGATES.sub(" ", text.translate(_QUOTES_TO_SPACES))
    if text.isascii():
        return _JOINED_WORD.findall(text)
    runs = ("".join(run) for is_space, run in itertools.groupby(text, str.isspace) if not is_space)
    return [trimmed for run in runs if (trimmed := _trim_run(run))]


def _trim_run(run: str) -> str:
    """The run without what stands before its first and behind its last word character."""
    places = [place for place, character in enumerate(run) if _is_word_character(character)]
    return run[places[0] : places[-1] + 1] if places else ""


def _is_word_character(character: str) -> bool:
    """Whether it stands inside words: letters, digits, vowel signs and accents, joiners, the underscore."""
    return (
        character.isalnum()
        or character == "_"
        or character in _JOINERS
        or unicodedata.category(character).startswith("M")
    )


def _split_joined_word(token: str) -> list[str]:
    words = ["".join(run) for is_word, run in itertools.groupby(token, _is_word_character) if is_word]
    scripts = ["".join(run) for word in words if not word.isascii() for _, run in itertools.groupby(word, _is_latin)]
    found = [*words, *scripts]
    return found if set(found) != {token} else []


def _is_latin(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character == "_"
    return unicodedata.name(character, "").startswith("LATIN")
