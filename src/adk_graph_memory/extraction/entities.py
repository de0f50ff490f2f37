"""Authors, known entities and the names in the turns go in; one number for each of them, and its places, come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from adk_graph_memory.extraction.lexicon import Lexicon
from adk_graph_memory.records import ExtractedEntity, ExtractedFact, Extraction, KnownEntity, folded

_UNSURE = ("name", "thing")


class Entities:
    """The entities of one extraction: authors first, then what is known, then names as they come up."""

    def __init__(self, authors: Iterable[str], known: Sequence[KnownEntity]) -> None:
        self._entities: list[ExtractedEntity] = []
        self._by_name: dict[str, int] = {}
        self._lexicon = Lexicon()
        self._authors: dict[str, int] = {}
        by_name = _bearers(known)
        for author in dict.fromkeys(authors):
            bearer = by_name.get(folded(author))
            self._authors[author] = self._new(
                author, "person", bearer, is_word=author == author.lower() != author.upper()
            )
            for alias in bearer.aliases if bearer else ():
                self._call(alias, self._authors[author])
        taken = {entity.known_key for entity in self._entities}
        for entity in known:
            if entity.key not in taken:
                ref = self._new(entity.name, entity.type, entity)
                for alias in entity.aliases:
                    if by_name.get(folded(alias)) is entity:
                        self._call(alias, ref)

    @property
    def kinds(self) -> dict[int, str]:
        """What kind of thing each entity is, as far as that is known."""
        return {entity.ref: entity.type for entity in self._entities}

    def author(self, name: str) -> int:
        """The number of who said a turn."""
        return self._authors[name]

    def add(self, name: str, type: str) -> int:
        """The number of what bears this name, which is new if nothing did."""
        if (ref := self._by_name.get(folded(name))) is None:
            return self._new(name, type, None)
        self.tell_kind(ref, type)
        return ref

    def tell_kind(self, ref: int, type: str) -> None:
        """Notes the kind of an entity that was only a name so far."""
        if self._entities[ref].type in _UNSURE and type not in _UNSURE:
            self._entities[ref] = replace(self._entities[ref], type=type)

    def rename(self, author: str, name: str) -> None:
        """Notes what an author is called, unless somebody else is."""
        ref = self._authors[author]
        entity = self._entities[ref]
        if folded(name) not in self._by_name:
            self._call(name, ref)
            self._entities[ref] = replace(entity, aliases=(*entity.aliases, name))

    def find(self, text: str) -> list[tuple[int, int, int]]:
        """Where the text names an entity: start, end, its number."""
        return self._lexicon.find(text)

    def extraction(
        self, facts: Sequence[ExtractedFact], mentions: Iterable[tuple[str, int]], dropped: Mapping[str, int]
    ) -> Extraction:
        """The facts with those entities that they or the turns name, numbered anew."""
        mentions = sorted(mentions)
        used = {ref for fact in facts for ref in (fact.subject, fact.object)} | {ref for _, ref in mentions}
        used |= set(self._authors.values())
        kept = [entity for entity in self._entities if entity.ref in used]
        new = {entity.ref: number for number, entity in enumerate(kept)}
        return Extraction(
            entities=tuple(replace(entity, ref=new[entity.ref]) for entity in kept),
            facts=tuple(
                replace(fact, subject=new[fact.subject], object=None if fact.object is None else new[fact.object])
                for fact in facts
            ),
            mentions=tuple(sorted((turn_id, new[ref]) for turn_id, ref in mentions)),
            dropped=dict(Counter(dropped)),
        )

    def _new(self, name: str, type: str, known: KnownEntity | None, *, is_word: bool = False) -> int:
        ref = len(self._entities)
        self._entities.append(ExtractedEntity(ref, name, type, known_key=known.key if known else None))
        self._by_name.setdefault(folded(name), ref)
        if not is_word:
            self._lexicon.add(name, ref, any_case=known is not None or type == "thing")
        return ref

    def _call(self, name: str, ref: int) -> None:
        self._by_name.setdefault(folded(name), ref)
        self._lexicon.add(name, ref, any_case=self._entities[ref].known_key is not None)


def _bearers(known: Sequence[KnownEntity]) -> dict[str, KnownEntity]:
    """Who is meant by a name: the entity it is the name of, or the only one it is an alias of."""
    aliases = Counter(alias for entity in known for alias in {folded(alias) for alias in entity.aliases})
    found = {folded(alias): entity for entity in known for alias in entity.aliases if aliases[folded(alias)] == 1}
    return found | {folded(entity.name): entity for entity in known}
