"""What a text is compared and counted by: its digest, its folded form, its tokens."""

from __future__ import annotations

import hashlib
import json
import unicodedata

from adk_graph_memory.language.words import WIDE_CHARACTER


def digest(*parts: str) -> str:
    """32 hex characters that stand for these strings and their borders (BLAKE2b, 128 bits)."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def folded(text: str) -> str:
    """The text as names and quotes are compared: NFKC, casefolded, one space between words."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def is_wide(text: str) -> bool:
    """Whether any of it is in a script that has no spaces between words."""
    return WIDE_CHARACTER.search(text) is not None


def token_count(text: str) -> int:
    """About how many tokens a model will count: 1.3 a word, and one a character in scripts without spaces."""
    wide = len(WIDE_CHARACTER.findall(text))
    return wide + round(1.3 * len(WIDE_CHARACTER.sub(" ", text).split()))
