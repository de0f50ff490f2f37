"""Authors, known entities and the names in the turns go in; one number for each, and whom a text names, come out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from adk_graph_memory.language.detection import WIDE_CHARACTER, WIDE_RANGES, WORD_PATTERN, load_stop_words
from adk_graph_memory.records import ExtractedEntity, KnownEntity, fold_text

TOKEN_PATTERN = re.compile(rf"[{WIDE_RANGES}]|{WORD_PATTERN.pattern}|\d+")
_PRONOUN_OR_ARTICLE = re.compile(r"\b(?:I|you|he|she|it|we|they|who|a|an|the)\s+$", re.IGNORECASE)
"""What stands before an ordinary word that only looks like a name ("I will", "a rose") when it has no capital."""


class EntityRegistry:
    """The entities of one extraction: ``authors`` first, then what is known, then names as they come up."""

    def __init__(self, authors: Iterable[str], known: Sequence[KnownEntity]) -> None:
        self._entities: list[ExtractedEntity] = []
        self._refs_by_name: dict[str, tuple[str, int]] = {}
        self._max_name_lengths: dict[str, int] = {}
        self._known_by_name = _index_known_names(known)
        self.author_refs: dict[str, int] = {}
        for author in dict.fromkeys(authors):
            is_word = author == author.lower() != author.upper()  # a "user" in a sentence is not the one who speaks
            bearer = self._known_by_name.get(fold_text(author))
            self.author_refs[author] = self._register_entity(author, "person", bearer, in_texts=not is_word)
        taken = {entity.known_key for entity in self._entities}
        for entity in known:
            if entity.key not in taken:
                self._register_entity(entity.name, entity.type, entity)

    def has_name(self, name: str) -> bool:
        """Whether it is the name of any of them."""
        return fold_text(name) in self._refs_by_name

    def add_entity(self, name: str, type: str) -> None:
        """Counts in what bears this name, unless one of them does."""
        if not self.has_name(name):
            self._register_entity(name, type)

    def add_author_alias(self, author: str, name: str) -> None:
        """Notes what an author is called, if they told, unless another one is."""
        if name and not self.has_name(name):
            ref = self.author_refs[author]
            self._entities[ref] = replace(self._entities[ref], aliases=(*self._entities[ref].aliases, name))
            self._register_name(name, ref)

    def find_entity_refs(self, text: str) -> list[int]:
        """The numbers of those whom the text names, in its order; of names that begin together the longest counts."""
        tokens = list(TOKEN_PATTERN.finditer(text))
        found, place = list[int](), 0
        while place < len(tokens):
            here = tokens[place : place + self._max_name_lengths.get(tokens[place][0].casefold(), 0)]
            refs = ((self._match_ref(text, here[:length]), length) for length in range(len(here), 0, -1))
            ref, length = next((one for one in refs if one[0] is not None), (None, 1))
            found += [] if ref is None else [ref]
            place += length
        return found

    def select_entities(self, refs: Iterable[int]) -> tuple[ExtractedEntity, ...]:
        """The authors and the entities of these numbers."""
        return tuple(self._entities[ref] for ref in sorted({*refs, *self.author_refs.values()}))

    def _match_ref(self, text: str, here: Sequence[re.Match[str]]) -> int | None:
        """Who is named by these words: written as the name is or, of somebody known, no ordinary ones."""
        start, words = here[0].start(), text[here[0].start() : here[-1].end()]
        name, ref = self._refs_by_name.get(fold_text(words), ("", None))
        if ref is None or name == words:
            return ref
        is_ordinary = words in load_stop_words("en") or _PRONOUN_OR_ARTICLE.search(text[max(0, start - 8) : start])
        return ref if self._entities[ref].known_key and not is_ordinary else None

    def _register_entity(self, name: str, type: str, known: KnownEntity | None = None, *, in_texts: bool = True) -> int:
        ref = len(self._entities)
        self._entities.append(ExtractedEntity(ref, name, type, known_key=known.key if known else None))
        self._register_name(name, ref, in_texts=in_texts)
        for alias in known.aliases if known else ():
            if self._known_by_name.get(fold_text(alias)) is known:
                self._register_name(alias, ref)
        return ref

    def _register_name(self, name: str, ref: int, *, in_texts: bool = True) -> None:
        self._refs_by_name.setdefault(fold_text(name), (name, ref))
        words = [word.casefold() for word in TOKEN_PATTERN.findall(name)]
        if words and in_texts and not (len(words) == 1 and WIDE_CHARACTER.fullmatch(words[0])):
            self._max_name_lengths[words[0]] = max(len(words), self._max_name_lengths.get(words[0], 0))


def _index_known_names(known: Sequence[KnownEntity]) -> dict[str, KnownEntity]:
    """Who is meant by a name: the entity it is the name of, or the only one it is an alias of."""
    aliases = Counter(alias for entity in known for alias in {fold_text(alias) for alias in entity.aliases})
    found = {fold_text(alias): entity for entity in known for alias in entity.aliases if aliases[fold_text(alias)] == 1}
    return found | {fold_text(entity.name): entity for entity in known}
