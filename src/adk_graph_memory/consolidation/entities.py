"""Why were these two names taken for one: the same folded name, an alias of nobody else, or the extractor said so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    keys: dict[int, str] = {}
    planned: dict[str, PlannedEntity] = {}
    for entity in entities:
        key = keys[entity.ref] = _key(entity, by_key)
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


def _key(entity: ExtractedEntity, known: Mapping[str, KnownEntity]) -> str:
    """Its known key; or its name's; or that of the one entity that has its name for an alias. Namesakes stay apart."""
    own = key_of(entity.name)
    if entity.known_key in known and entity.known_key is not None:
        return entity.known_key
    if own in known:
        return own
    bearers = [other.key for other in known.values() if own in map(key_of, other.aliases)]
    return bearers[0] if len(bearers) == 1 else own
