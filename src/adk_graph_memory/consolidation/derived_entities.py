"""The entities of a user as they come about, reading after reading: names, aliases, and who was merged into whom."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from adk_graph_memory.consolidation import comparison, entity_groups
from adk_graph_memory.consolidation.entity_groups import EntityGroup
from adk_graph_memory.records import Extraction, KnownEntity, PlannedEntity, fold_text
from adk_graph_memory.records.derived_memory import DerivedEntity, DerivedMemory
from adk_graph_memory.records.readings import OWNER, OwnerRuling, Reading


def find_root_key(entities: Mapping[str, DerivedEntity], key: str) -> str:
    """Return the key of the entity that this one was merged into in the end, or its own."""
    while (entity := entities.get(key)) and entity.merged_into:
        key = entity.merged_into
    return key


def list_known_entities(memory: DerivedMemory, limit: int) -> tuple[KnownEntity, ...]:
    """List the entities of most facts, as an extractor is offered them."""
    weights: Counter[str | None] = Counter()
    for fact in memory.facts.values():
        weights.update({fact.known.proposition.subject, fact.known.proposition.object})
    merged_keys: dict[str, list[str]] = defaultdict(list)
    for key in memory.entities:
        if (root_key := find_root_key(memory.entities, key)) != key:
            merged_keys[root_key].append(key)
    entities = [entity for entity in memory.entities.values() if not entity.merged_into]
    entities.sort(key=lambda entity: (-weights[entity.key], entity.key))
    return tuple(_make_known_entity(entity, merged_keys[entity.key]) for entity in entities[:limit])


def _make_known_entity(entity: DerivedEntity, merged_keys: Iterable[str]) -> KnownEntity:
    names = entity.own_names, entity.foreign_names
    return KnownEntity(entity.key, entity.name, entity.type, entity.aliases, entity.about, tuple(merged_keys), *names)


class EntityLedger:
    """All entities of a replay by key, merged ones too.

    Args:
        foreign_names: name of an entity → names that are somebody else's on the owner's word, all folded.
    """

    def __init__(self, foreign_names: Mapping[str, tuple[str, ...]]) -> None:
        self._foreign_names = foreign_names
        self.entities: dict[str, DerivedEntity] = {}
        self._keys_by_block: dict[str, set[str]] = defaultdict(set)
        self._merged_keys: dict[str, list[str]] = defaultdict(list)
        self.new_keys: dict[str, str] = {}
        """key that an entity had when a reading was written → its key in this replay"""

    def list_merged_keys(self, key: str) -> list[str]:
        """List the keys of all entities merged into this one, directly or not."""
        direct = self._merged_keys.get(key, ())
        return [*direct, *(other for merged in direct for other in self.list_merged_keys(merged))]

    def select_known_entities(self, extraction: Extraction, further_keys: Iterable[str]) -> tuple[KnownEntity, ...]:
        """Select the entities that those of an extraction may be, and those of further keys."""
        lookup_keys = comparison.GraphLookup(extraction).entity_keys
        keys = {find_root_key(self.entities, key) for key in (*lookup_keys, *further_keys) if key in self.entities}
        for entity in extraction.entities:
            for block in EntityGroup.from_extracted([entity]).blocking_keys:
                keys |= self._keys_by_block.get(block, set())
        return tuple(_make_known_entity(self.entities[key], self.list_merged_keys(key)) for key in sorted(keys))

    def write_entity(self, planned: PlannedEntity, merged_by: str) -> None:
        """Write a planned entity as the graph does: new names become aliases, a context is kept."""
        known = self.entities.get(planned.key)
        if known is None:
            entity = DerivedEntity(
                planned.key,
                planned.name,
                planned.type,
                planned.aliases,
                planned.about,
                foreign_names=self._foreign_names.get(fold_text(planned.name), ()),
            )
        else:
            names = (known.name, *known.aliases)
            aliases = (*known.aliases, *(alias for alias in planned.aliases if alias not in names))
            entity = replace(known, aliases=aliases, about=known.about or planned.about)
        self._store_entity(entity)
        for key in planned.merged_keys:
            if key in self.entities:
                gone = replace(self.entities[key], merged_into=planned.key, merged_by=merged_by)
                self._store_entity(replace(gone, merge_reason=planned.merge_reason))
                self._merged_keys[planned.key].append(key)

    def part_names(self, extraction: Extraction) -> Extraction:
        """Take from extracted entities the aliases that are somebody else's on the owner's word."""
        entities = []
        for entity in extraction.entities:
            foreign_names = self._foreign_names.get(fold_text(entity.name), ())
            aliases = tuple(alias for alias in entity.aliases if fold_text(alias) not in foreign_names)
            entities.append(replace(entity, aliases=aliases))
        return replace(extraction, entities=tuple(entities))

    def unite_entities(self, ruling: OwnerRuling) -> tuple[str, str] | None:
        """Merge two entities on the owner's word; return the keys of the one that stays and of the one that goes."""
        key, gone_key = (find_root_key(self.entities, self.new_keys.get(old, old)) for old in ruling.names[:2])
        entity, gone = self.entities.get(key), self.entities.get(gone_key)
        if entity is None or gone is None or entity is gone:
            return None
        aliases = tuple(name for name in (gone.name, *gone.aliases) if name != entity.name)
        plan = PlannedEntity(
            key, entity.name, entity.type, aliases, False, gone.about, (gone_key,), merge_reason=ruling.reason
        )
        self.write_entity(plan, OWNER)
        own_names = dict.fromkeys((*entity.own_names, *gone.own_names, *map(fold_text, (gone.name, *gone.aliases))))
        self._store_entity(replace(self.entities[key], own_names=tuple(own_names)))
        return key, gone_key

    def part_entities(self, ruling: OwnerRuling) -> list[tuple[str, str, list[str]]]:
        """Part, on the owner's word, the entities of the second name that were merged into that of the first.

        Returns:
            For each, the key of the one that stays, its own key, and the keys that leave with it.
        """
        name, alias = map(fold_text, ruling.names)
        parted = []
        for key, entity in list(self.entities.items()):
            root_key = find_root_key(self.entities, key)
            root_name = fold_text(self.entities[root_key].name)
            if entity.merged_into and root_name == name and alias == fold_text(entity.name):
                _, keys = self.split_entity(key) or ("", [])
                root = self.entities[root_key]
                gone = {alias, *map(fold_text, entity.aliases)}
                own_names = tuple(own for own in root.own_names if own not in gone)
                foreign_names = tuple(dict.fromkeys((*root.foreign_names, alias)))
                self._store_entity(replace(root, own_names=own_names, foreign_names=foreign_names))
                parted.append((root_key, key, keys))
        return parted

    def split_entity(self, key: str) -> tuple[str, list[str]] | None:
        """Part an entity from the one it was merged into; return that one's key and the keys that leave it."""
        entity = self.entities[key]
        if entity.merged_into is None:
            return None
        root_key = find_root_key(self.entities, key)
        self._merged_keys[entity.merged_into].remove(key)
        self._store_entity(replace(entity, merged_into=None, merged_by="", merge_reason=""))
        root = self.entities[root_key]
        own_names = (entity.name, *entity.aliases)
        aliases = tuple(alias for alias in root.aliases if alias not in own_names)
        self._store_entity(replace(root, aliases=aliases))
        return root_key, [key, *self.list_merged_keys(key)]

    def note_keys(self, reading: Reading, keys_by_ref: Mapping[int, str], authors: Collection[str]) -> None:
        """Note which keys of the reading mean which entities of this replay."""
        self.new_keys |= {old: keys_by_ref[ref] for ref, old in reading.entity_keys.items() if ref in keys_by_ref}
        self.new_keys |= {key: key for key in authors if key in self.entities and key not in self.new_keys}

    def _store_entity(self, entity: DerivedEntity) -> None:
        """Store an entity, and index it by its names unless it is merged."""
        for block in self._list_blocks(self.entities.get(entity.key)):
            self._keys_by_block[block].discard(entity.key)
        self.entities[entity.key] = entity
        for block in self._list_blocks(entity):
            self._keys_by_block[block].add(entity.key)

    @staticmethod
    def _list_blocks(entity: DerivedEntity | None) -> Collection[str]:
        if entity is None or entity.merged_into is not None:
            return ()
        known = KnownEntity(entity.key, entity.name, entity.type, entity.aliases, entity.about)
        return entity_groups.EntityGroup.from_known_entity(known).blocking_keys
