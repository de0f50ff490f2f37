"""Names go in, then a text; where the text uses them comes out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from adk_graph_memory.language.words import WIDE, WIDE_CHARACTER, WORD, ordinary_words


class Lexicon:
    """Names with what they stand for, found in a text in time that does not depend on how many there are."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, ...], list[_Entry]] = {}
        self._lengths: dict[str, list[int]] = {}

    def add(self, name: str, ref: int, *, any_case: bool = False) -> None:
        """Finds this name from now on; a name that is known already keeps what it stands for."""
        tokens = tuple(token for token, _, _ in _tokens(name))
        if not tokens or (len(tokens) == 1 and WIDE_CHARACTER.fullmatch(tokens[0])):
            return
        key = tuple(token.casefold() for token in tokens)
        entries = self._entries.setdefault(key, [])
        if all(tokens != entry.tokens for entry in entries):
            entries.append(_Entry(tokens, ref, any_case))
        lengths = self._lengths.setdefault(key[0], [])
        if len(key) not in lengths:
            lengths.append(len(key))
            lengths.sort(reverse=True)

    def find(self, text: str) -> list[tuple[int, int, int]]:
        """Where the names stand (start, end, what it stands for), the longest first where several begin."""
        tokens = list(_tokens(text))
        found, i = [], 0
        while i < len(tokens):
            entry = self._entry(text, tokens, i)
            if entry is None:
                i += 1
            else:
                last = i + len(entry.tokens) - 1
                found.append((tokens[i][1], tokens[last][2], entry.ref))
                i = last + 1
        return found

    def _entry(self, text: str, tokens: Sequence[tuple[str, int, int]], i: int) -> _Entry | None:
        for length in self._lengths.get(tokens[i][0].casefold(), ()):
            here = tokens[i : i + length]
            said = tuple(token for token, _, _ in here)
            entries = self._entries.get(tuple(token.casefold() for token in said), ())
            exact = next((entry for entry in entries if entry.tokens == said), None)
            entry = exact or next((entry for entry in entries if entry.any_case), None)
            joined = all(text[a[2] : b[1]].strip() in _BETWEEN for a, b in pairwise(here))
            if entry and joined and (exact or _may_be_a_name(text, said, here[0][1])):
                return entry
        return None


@dataclass(frozen=True, slots=True)
class _Entry:
    tokens: tuple[str, ...]
    ref: int
    any_case: bool


_BETWEEN = frozenset(("", "&", ".", "-", "・"))


def _may_be_a_name(text: str, said: tuple[str, ...], start: int) -> bool:
    """Whether words that are written like a name but for their capitals are not just ordinary ones ("I will")."""
    if len(said) == 1 and said[0] in ordinary_words("en"):
        return False
    return not _ORDINARY_BEFORE.search(text[max(0, start - 8) : start])


_ORDINARY_BEFORE = re.compile(r"\b(?:I|you|he|she|it|we|they|who|a|an|the)\s+$", re.IGNORECASE)
"""What stands before an ordinary word that only looks like a name ("I will", "a rose") when it has no capital."""

_LEXICAL = re.compile(rf"[{WIDE}]|{WORD.pattern}|\d+")


def _tokens(text: str) -> Iterable[tuple[str, int, int]]:
    return ((match[0], match.start(), match.end()) for match in _LEXICAL.finditer(text))
