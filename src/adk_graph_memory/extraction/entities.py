"""Authors, known entities and the names in the turns go in; one number for each, and whom a text names, come out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from adk_graph_memory.language.words import WIDE, WIDE_CHARACTER, WORD, ordinary_words
from adk_graph_memory.records import ExtractedEntity, KnownEntity, folded

TOKEN = re.compile(rf"[{WIDE}]|{WORD.pattern}|\d+")
_NO_NAME_BEHIND = re.compile(r"\b(?:I|you|he|she|it|we|they|who|a|an|the)\s+$", re.IGNORECASE)
"""What stands before an ordinary word that only looks like a name ("I will", "a rose") when it has no capital."""


class Entities:
    """The entities of one extraction: ``authors`` first, then what is known, then names as they come up."""

    def __init__(self, authors: Iterable[str], known: Sequence[KnownEntity]) -> None:
        self._all: list[ExtractedEntity] = []
        self._names: dict[str, tuple[str, int]] = {}
        self._longest: dict[str, int] = {}
        self._bearers = _bearers(known)
        self.authors: dict[str, int] = {}
        for author in dict.fromkeys(authors):
            is_word = author == author.lower() != author.upper()  # a "user" in a sentence is not the one who speaks
            bearer = self._bearers.get(folded(author))
            self.authors[author] = self._new(author, "person", bearer, in_texts=not is_word)
        taken = {entity.known_key for entity in self._all}
        for entity in known:
            if entity.key not in taken:
                self._new(entity.name, entity.type, entity)

    def bears(self, name: str) -> bool:
        """Whether it is the name of any of them."""
        return folded(name) in self._names

    def add(self, name: str, type: str) -> None:
        """Counts in what bears this name, unless one of them does."""
        if not self.bears(name):
            self._new(name, type)

    def rename(self, author: str, name: str) -> None:
        """Notes what an author is called, if they told, unless another one is."""
        if name and not self.bears(name):
            ref = self.authors[author]
            self._all[ref] = replace(self._all[ref], aliases=(*self._all[ref].aliases, name))
            self._call(name, ref)

    def named(self, text: str) -> list[int]:
        """The numbers of those whom the text names, in its order; of names that begin together the longest counts."""
        tokens = list(TOKEN.finditer(text))
        found, place = list[int](), 0
        while place < len(tokens):
            here = tokens[place : place + self._longest.get(tokens[place][0].casefold(), 0)]
            refs = ((self._ref(text, here[:length]), length) for length in range(len(here), 0, -1))
            ref, length = next((one for one in refs if one[0] is not None), (None, 1))
            found += [] if ref is None else [ref]
            place += length
        return found

    def used(self, refs: Iterable[int]) -> tuple[ExtractedEntity, ...]:
        """The authors and the entities of these numbers."""
        return tuple(self._all[ref] for ref in sorted({*refs, *self.authors.values()}))

    def _ref(self, text: str, here: Sequence[re.Match[str]]) -> int | None:
        """Who is named by these words: written as the name is or, of somebody known, no ordinary ones."""
        start, words = here[0].start(), text[here[0].start() : here[-1].end()]
        name, ref = self._names.get(folded(words), ("", None))
        if ref is None or name == words:
            return ref
        is_ordinary = words in ordinary_words("en") or _NO_NAME_BEHIND.search(text[max(0, start - 8) : start])
        return ref if self._all[ref].known_key and not is_ordinary else None

    def _new(self, name: str, type: str, known: KnownEntity | None = None, *, in_texts: bool = True) -> int:
        ref = len(self._all)
        self._all.append(ExtractedEntity(ref, name, type, known_key=known.key if known else None))
        self._call(name, ref, in_texts=in_texts)
        for alias in known.aliases if known else ():
            if self._bearers.get(folded(alias)) is known:
                self._call(alias, ref)
        return ref

    def _call(self, name: str, ref: int, *, in_texts: bool = True) -> None:
        self._names.setdefault(folded(name), (name, ref))
        words = [word.casefold() for word in TOKEN.findall(name)]
        if words and in_texts and not (len(words) == 1 and WIDE_CHARACTER.fullmatch(words[0])):
            self._longest[words[0]] = max(len(words), self._longest.get(words[0], 0))


def _bearers(known: Sequence[KnownEntity]) -> dict[str, KnownEntity]:
    """Who is meant by a name: the entity it is the name of, or the only one it is an alias of."""
    aliases = Counter(alias for entity in known for alias in {folded(alias) for alias in entity.aliases})
    found = {folded(alias): entity for entity in known for alias in entity.aliases if aliases[folded(alias)] == 1}
    return found | {folded(entity.name): entity for entity in known}
