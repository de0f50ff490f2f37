"""Find whom somebody means who types a name, however it is spelled there."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Collection, Iterable, Sequence
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


def match_names(names: Iterable[str], name: str) -> frozenset[str]:
    """Return those of the names that are this one in any case, or else those that are but for accents."""
    names, folded = frozenset(names), unicodedata.normalize("NFC", name).casefold()
    same = (one for one in names if one.casefold() == folded)
    bare = strip_accents(folded)
    return frozenset(same) or frozenset(one for one in names if strip_accents(one.casefold()) == bare)


def list_named(entities: Collection[T], name: str) -> list[T]:
    """Return the entities with this key, or else with this name or alias, or else with one of these but for accents."""
    names = match_names((one for entity in entities for one in (entity.name, *entity.aliases)), name)
    return [entity for entity in entities if entity.key == name] or [
        entity for entity in entities if not names.isdisjoint((entity.name, *entity.aliases))
    ]


def choose_named(entities: Collection[T], name: str) -> T:
    """Return the one of :func:`list_named`, or of several the one whose own name it is, not an alias.

    Raises:
        errors.InvalidArgument: several have this name.
        errors.NotFound: none has; the error names the nearest.
    """
    named = list_named(entities, name)
    own_names = match_names((entity.name for entity in named), name)
    named = [entity for entity in named if entity.name in own_names] or named
    if len(named) > 1:
        several = ", ".join(sorted(f"{entity.key} ({entity.name})" for entity in named))
        raise errors.InvalidArgument(reason=f"{name!r} is the name of several: give one of the keys {several}")
    if not named:
        bare = strip_accents(name.casefold())
        names = {strip_accents(one.casefold()): one for entity in entities for one in (*entity.aliases, entity.name)}
        nearest = ", ".join(names[one] for one in difflib.get_close_matches(bare, names, MAX_NEAREST))
        where = "`adk-graph-memory entities`" + (f" (the nearest names are {nearest})" if nearest else "")
        raise errors.NotFound(what=f"person or thing {name!r} in this user's memory", where=where)
    return named[0]
