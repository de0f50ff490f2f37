"""Number the entities of one extraction and find them in text by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from adk_graph_memory.language.detection import WIDE_CHARACTER, WIDE_RANGES, WORD_PATTERN, load_stop_words
from adk_graph_memory.records import ExtractedEntity, KnownEntity, fold_text

TOKEN_PATTERN = re.compile(rf"[{WIDE_RANGES}]|{WORD_PATTERN.pattern}|\d+")
_PRONOUN_OR_ARTICLE = re.compile(r"\b(?:I|you|he|she|it|we|they|who|a|an|the)\s+$", re.IGNORECASE)
"""Words before which a lower-case name is an ordinary word ("I will", "a rose")."""


class EntityRegistry:
    """The entities of one extraction, numbered from 0: authors, then known entities, then new names as they appear."""

    def __init__(self, authors: Iterable[str], known_entities: Sequence[KnownEntity]) -> None:
        self._entities: list[ExtractedEntity] = []
        self._refs_by_name: dict[str, tuple[str, int]] = {}
        self._max_name_lengths: dict[str, int] = {}
        self._known_by_name = _index_known_names(known_entities)
        self.author_refs: dict[str, int] = {}
        for author in dict.fromkeys(authors):
            is_word = author == author.lower() != author.upper()  # "user" in a sentence does not mean its author
            known_author = self._known_by_name.get(fold_text(author))
            self.author_refs[author] = self._register_entity(author, "person", known_author, in_texts=not is_word)
        author_keys = {entity.known_key for entity in self._entities}
        for entity in known_entities:
            if entity.key not in author_keys:
                self._register_entity(entity.name, entity.type, entity)

    def has_name(self, name: str) -> bool:
        """Whether an entity has this name or alias."""
        return fold_text(name) in self._refs_by_name

    def add_entity(self, name: str, type: str) -> None:
        """Add an entity, unless one has this name."""
        if not self.has_name(name):
            self._register_entity(name, type)

    def add_author_alias(self, author: str, name: str) -> None:
        """Add an alias to an author; ignore an empty name and one that an entity has."""
        if name and not self.has_name(name):
            ref = self.author_refs[author]
            self._entities[ref] = replace(self._entities[ref], aliases=(*self._entities[ref].aliases, name))
            self._register_name(name, ref)

    def find_entity_refs(self, text: str) -> list[int]:
        """The numbers of the entities that the text names, in its order; the longest name at a place wins."""
        tokens = list(TOKEN_PATTERN.finditer(text))
        refs, position = list[int](), 0
        while position < len(tokens):
            name_tokens = tokens[position : position + self._max_name_lengths.get(tokens[position][0].casefold(), 0)]
            matches = ((self._match_ref(text, name_tokens[:n]), n) for n in range(len(name_tokens), 0, -1))
            ref, length = next((match for match in matches if match[0] is not None), (None, 1))
            refs += [] if ref is None else [ref]
            position += length
        return refs

    def select_entities(self, refs: Iterable[int]) -> tuple[ExtractedEntity, ...]:
        """The authors and the entities with these numbers, in order of number."""
        return tuple(self._entities[ref] for ref in sorted({*refs, *self.author_refs.values()}))

    def _match_ref(self, text: str, tokens: Sequence[re.Match[str]]) -> int | None:
        """The entity that the tokens name. The case may differ only for a known entity, if it is no ordinary word."""
        start, words = tokens[0].start(), text[tokens[0].start() : tokens[-1].end()]
        name, ref = self._refs_by_name.get(fold_text(words), ("", None))
        if ref is None or name == words:
            return ref
        is_ordinary = words in load_stop_words("en") or _PRONOUN_OR_ARTICLE.search(text[max(0, start - 8) : start])
        return ref if self._entities[ref].known_key and not is_ordinary else None

    def _register_entity(
        self, name: str, type: str, entity: KnownEntity | None = None, *, in_texts: bool = True
    ) -> int:
        ref = len(self._entities)
        self._entities.append(ExtractedEntity(ref, name, type, known_key=entity.key if entity else None))
        self._register_name(name, ref, in_texts=in_texts)
        for alias in entity.aliases if entity else ():
            if self._known_by_name.get(fold_text(alias)) is entity:
                self._register_name(alias, ref)
        return ref

    def _register_name(self, name: str, ref: int, *, in_texts: bool = True) -> None:
        self._refs_by_name.setdefault(fold_text(name), (name, ref))
        words = [word.casefold() for word in TOKEN_PATTERN.findall(name)]
        if words and in_texts and not (len(words) == 1 and WIDE_CHARACTER.fullmatch(words[0])):
            self._max_name_lengths[words[0]] = max(len(words), self._max_name_lengths.get(words[0], 0))


def _index_known_names(entities: Sequence[KnownEntity]) -> dict[str, KnownEntity]:
    """Map each folded name, and each alias that only one entity has, to its entity."""
    aliases = [(alias, entity) for entity in entities for alias in {fold_text(alias) for alias in entity.aliases}]
    counts = Counter(alias for alias, _ in aliases)
    by_alias = {alias: entity for alias, entity in aliases if counts[alias] == 1}
    return by_alias | {fold_text(entity.name): entity for entity in entities}
