"""Why were these two names taken for one: by the same folded name or alias, or because the extractor said so."""

from __future__ import annotations

from collections.abc import Sequence

from adk_graph_memory.records import ExtractedEntity, KnownEntity, PlannedEntity, digest, folded


def key_of(name: str) -> str:
    """The key of an entity of this name: names that differ only in case, width or spacing share it."""
    return digest("entity", folded(name))


def keys_of(entity: ExtractedEntity) -> list[str]:
    """Every key under which the entity may already be known."""
    return [key_of(name) for name in (entity.name, *entity.aliases)]


def resolved(
    entities: Sequence[ExtractedEntity], known: Sequence[KnownEntity]
) -> tuple[dict[int, str], list[PlannedEntity]]:
    """The key of each extracted entity, and the entities to create or to extend, one a key."""
    by_key = {entity.key: entity for entity in known}
    aliased = {key_of(alias): entity.key for entity in known for alias in entity.aliases}
    keys: dict[int, str] = {}
    planned: dict[str, PlannedEntity] = {}
    for entity in entities:
        own = key_of(entity.name)
        key = entity.known_key if entity.known_key in by_key else own if own in by_key else aliased.get(own, own)
        keys[entity.ref] = key
        for alias in entity.aliases:
            aliased.setdefault(key_of(alias), key)
        before = planned.get(key)
        name = before.name if before else by_key[key].name if key in by_key else entity.name
        names = {*(before.aliases if before else ()), entity.name, *entity.aliases} - {name}
        planned[key] = PlannedEntity(
            key=key,
            name=name,
            type=before.type if before else entity.type,
            aliases=tuple(sorted(names)),
            is_new=key not in by_key,
        )
    return keys, list(planned.values())
