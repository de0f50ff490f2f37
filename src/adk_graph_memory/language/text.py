"""Digest, fold, cut and count texts and their tokens, and write counts with their nouns."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import TypeVar

from adk_graph_memory import errors
from adk_graph_memory.language.detection import WIDE_CHARACTER, WIDE_RANGES
from adk_graph_memory.language.spelling import normalize_words

T = TypeVar("T")

_TOKEN_PATTERN = re.compile(
    rf"[{WIDE_RANGES}]"  # a character of a script without spaces between words
    r"|[a-zA-ZÀ-ɏ]{1,8}|\d{1,3}|[^\W\d_]{1,2}"  # Latin words, digits, letters of other scripts
    r"|(?:[^\w\s]|_){1,2}|\n\s*"  # punctuation, and a line's indent
)

CUT_MARK = "…"
"""Stands for words of a text that were left out."""
MAX_TOKEN_CHARACTERS = 30
"""The most characters that a token is taken to have, the white space around it included."""
_MAX_CACHED_CHARACTERS = 400
_MAX_LIST_CHARACTERS = 10_000
"""Length from which tokens are counted one by one instead of in one list."""


def digest(*parts: str) -> str:
    """Hash the strings, and where each ends, to 32 hex characters (BLAKE2b, 128 bits).

    Raises:
        errors.InvalidUnicode: a string holds a lone surrogate; JSON would join two of them to one character.
    """
    if not (text := "".join(parts)).isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise errors.InvalidUnicode(reason=str(error)) from error
    listed = ", ".join(map(json.encoder.encode_basestring_ascii, parts))  # as json.dumps writes it, in half the time
    return hashlib.blake2b(f"[{listed}]".encode(), digest_size=16).hexdigest()


def cache_short(function: Callable[[str], T]) -> Callable[[str], T]:
    """Cache a function of short texts, a few MB at most: a replay asks about the same ones again and again."""
    cached = lru_cache(maxsize=16_384)(function)

    @wraps(function)
    def call(text: str) -> T:
        return cached(text) if len(text) <= _MAX_CACHED_CHARACTERS else function(text)

    return call


@cache_short
def fold_text(text: str) -> str:
    """Normalize a name or quote for comparison: NFKC, case-folded, one space between words."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def has_wide_character(text: str) -> bool:
    """Whether any character is of a script without spaces between words."""
    return WIDE_CHARACTER.search(text) is not None


def count_tokens(text: str) -> int:
    """Estimate the number of a model's tokens in prose, code and any script; calibrated with GPT-4's tokenizer."""
    if len(text) < _MAX_LIST_CHARACTERS:
        return len(_TOKEN_PATTERN.findall(text))
    # Half as fast, but one long call would hold the GIL and block other threads.
    return sum(1 for _ in _TOKEN_PATTERN.finditer(text))


def find_token_end(text: str, count: int, start: int = 0) -> int:
    """The position behind so many tokens from ``start``; the end of a text that has no more."""
    for number, token in enumerate(_TOKEN_PATTERN.finditer(text, start), start=1):
        if number == count:
            return token.end()
    return len(text)


def leave_out_middle(text: str, max_tokens: int) -> str:
    """Keep at most so many tokens of a text, from its beginning and its end; a mark stands for those between."""
    if not text[find_token_end(text, max_tokens) :].strip():
        return text
    half, text = max(1, max_tokens // 2), text.strip()
    tail = text[-half * MAX_TOKEN_CHARACTERS :]
    starts = [token.start() for token in _TOKEN_PATTERN.finditer(tail)][-half:]
    return f"{text[: find_token_end(text, half)].rstrip()} {CUT_MARK} {tail[starts[0] :].lstrip()}"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: "1 fact", "2 facts"."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def join_lines(text: str) -> str:
    """Join a text's lines, so that it is one entry in whatever lists it line by line; a single line stays as it is."""
    return text if text.splitlines() == [text] else " ".join(filter(None, map(str.strip, text.splitlines())))


def shorten_text(text: str, most: int) -> str:
    """Cut a text of more than ``most`` characters between two words."""
    return text if len(text) <= most else f"{text[:most].rsplit(' ', 1)[0]} …"


def find_proof(text: str, quotes: Sequence[str]) -> int:
    """Find the quote that proves a text: the index of the first one that says most of its words."""
    words = set(normalize_words(text.casefold()))
    return max(
        range(len(quotes)), key=lambda at: (len(words.intersection(normalize_words(quotes[at].casefold()))), -at)
    )
