"""Find whom somebody means who types a name, however it is spelled there."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

from adk_graph_memory import errors
from adk_graph_memory.language.spelling import strip_accents

MAX_NEAREST = 3
"""Names that are suggested where none fits."""


class Named(Protocol):
    """What has a key, a name and perhaps other names."""

    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> Sequence[str]: ...


T = TypeVar("T", bound=Named)


def choose_named(entities: Collection[T], name: str) -> T:
    """Return the entity with this key or name, or else with this alias, or else with one of these but for accents.

    Raises:
        errors.InvalidArgument: several have this name.
        errors.NotFound: none has; the error names the nearest.
    """
    folded, bare = name.casefold(), strip_accents(name.casefold())
    ranked = (
        [entity for entity in entities if entity.key == name]
        or [entity for entity in entities if entity.name.casefold() == folded]
        or [entity for entity in entities if folded in map(str.casefold, entity.aliases)]
        or [entity for entity in entities if strip_accents(entity.name.casefold()) == bare]
        or [entity for entity in entities if bare in (strip_accents(alias.casefold()) for alias in entity.aliases)]
    )
    if len(ranked) > 1:
        several = ", ".join(sorted(f"{entity.key} ({entity.name})" for entity in ranked))
        raise errors.InvalidArgument(reason=f"{name!r} is the name of several: give one of the keys {several}")
    if not ranked:
        names = {strip_accents(one.casefold()): one for entity in entities for one in (*entity.aliases, entity.name)}
        nearest = ", ".join(names[one] for one in difflib.get_close_matches(bare, names, MAX_NEAREST))
        where = "`adk-graph-memory entities`" + (f" (the nearest names are {nearest})" if nearest else "")
        raise errors.NotFound(what=f"person or thing {name!r} in this user's memory", where=where)
    return ranked[0]
