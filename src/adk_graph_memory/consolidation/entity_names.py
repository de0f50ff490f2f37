"""Apply the owner's word on names to extracted entities, before these are resolved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from adk_graph_memory.records import ExtractedEntity, KnownEntity, fold_text


def apply_owner_names(
    entities: Iterable[ExtractedEntity], known_entities: Sequence[KnownEntity]
) -> list[ExtractedEntity]:
    """Let a name mean whom the owner said that it means, and nobody else."""
    entities = list(entities)
    for known in known_entities:
        if known.own_names:
            entities = [_unite_name(entity, known) for entity in entities]
        if known.foreign_names:
            entities = [_part_names(entity, known) for entity in entities]
    return entities


def _unite_name(entity: ExtractedEntity, known: KnownEntity) -> ExtractedEntity:
    """Name the entity as the known one if that is so called; two that a reply lists apart become one."""
    if fold_text(entity.name) not in (fold_text(known.name), *known.own_names):
        return entity
    return replace(entity, name=known.name, type=known.type, about=known.about, known_key=known.key)


def _part_names(entity: ExtractedEntity, known: KnownEntity) -> ExtractedEntity:
    """Take away what ties an entity to the known one that its name is foreign to, or that its aliases are."""
    if fold_text(entity.name) in known.foreign_names:
        aliases = tuple(alias for alias in entity.aliases if fold_text(alias) != fold_text(known.name))
        is_tied = entity.known_key in (known.key, *known.merged_keys)
        return replace(entity, aliases=aliases, known_key=None if is_tied else entity.known_key)
    if fold_text(known.name) == fold_text(entity.name) or entity.known_key == known.key:
        aliases = tuple(alias for alias in entity.aliases if fold_text(alias) not in known.foreign_names)
        return replace(entity, aliases=aliases)
    return entity
