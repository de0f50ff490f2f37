"""The entities of a user as they come about, reading after reading: names, aliases, and who was merged into whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from adk_graph_memory.consolidation import comparison, entity_groups
from adk_graph_memory.consolidation.entity_groups import EntityGroup
from adk_graph_memory.records import Extraction, KnownEntity, PlannedEntity
from adk_graph_memory.records.derived_memory import DerivedEntity
from adk_graph_memory.records.readings import Reading


def find_root_key(entities: Mapping[str, DerivedEntity], key: str) -> str:
    """Return the key of the entity that this one was merged into in the end, or its own."""
    while (entity := entities.get(key)) and entity.merged_into:
        key = entity.merged_into
    return key


class EntityLedger:
    """All entities of a replay by key, merged ones too."""

    def __init__(self) -> None:
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
        return tuple(self._make_known_entity(self.entities[key]) for key in sorted(keys))

    def _make_known_entity(self, entity: DerivedEntity) -> KnownEntity:
        merged_keys = tuple(self.list_merged_keys(entity.key))
        return KnownEntity(entity.key, entity.name, entity.type, entity.aliases, entity.about, merged_keys)

    def write_entity(self, planned: PlannedEntity, merged_by: str) -> None:
        """Write a planned entity as the graph does: new names become aliases, a context is kept."""
        known = self.entities.get(planned.key)
        if known is None:
            entity = DerivedEntity(planned.key, planned.name, planned.type, planned.aliases, planned.about)
        else:
            names = (known.name, *known.aliases)
            aliases = (*known.aliases, *(alias for alias in planned.aliases if alias not in names))
            entity = replace(known, aliases=aliases, about=known.about or planned.about)
        self._store_entity(entity)
        for key in planned.merged_keys:
            if key in self.entities:
                self._store_entity(replace(self.entities[key], merged_into=planned.key, merged_by=merged_by))
                self._merged_keys[planned.key].append(key)

    def split_entity(self, key: str) -> tuple[str, list[str]] | None:
        """Part an entity from the one it was merged into; return that one's key and the keys that leave it."""
        entity = self.entities[key]
        if entity.merged_into is None:
            return None
        root_key = find_root_key(self.entities, key)
        self._merged_keys[entity.merged_into].remove(key)
        self._store_entity(replace(entity, merged_into=None, merged_by=""))
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
