"""What a text is compared and counted by: its digest, its folded form, its tokens."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata

from adk_graph_memory import errors
from adk_graph_memory.language.detection import WIDE_CHARACTER, WIDE_RANGES

_TOKEN_PATTERN = re.compile(
    rf"[{WIDE_RANGES}]"  # a character where words are not parted by spaces
    r"|[a-zA-ZÀ-ɏ]{1,8}|\d{1,3}|[^\W\d_]{1,2}"  # Latin words, digits, letters of other scripts
    r"|(?:[^\w\s]|_){1,2}|\n\s*"  # marks, and the indent of a line
)

_MAX_LIST_CHARACTERS = 10_000
"""Characters whose tokens are counted in one call."""


def digest(*parts: str) -> str:
    """32 hex characters that stand for these strings and their borders (BLAKE2b, 128 bits).

    Raises:
        errors.InvalidUnicode: one holds half a character; JSON would spell two halves as the whole one.
    """
    try:
        "".join(parts).encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidUnicode(reason=str(error)) from error
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def fold_text(text: str) -> str:
    """The text as names and quotes are compared: NFKC, casefolded, one space between words."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def has_wide_character(text: str) -> bool:
    """Whether any of it is in a script that has no spaces between words."""
    return WIDE_CHARACTER.search(text) is not None


def count_tokens(text: str) -> int:
    """About how many tokens a model will count, in prose, code and any script (GPT-4's tokenizer is the measure)."""
    if len(text) < _MAX_LIST_CHARACTERS:
        return len(_TOKEN_PATTERN.findall(text))
    return sum(
        1 for _ in _TOKEN_PATTERN.finditer(text)
    )  # half as fast, but one long call would keep other threads waiting
