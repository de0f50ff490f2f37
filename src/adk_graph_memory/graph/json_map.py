"""Store a dict on a node as a list of JSON members (``"key":value``).

A statement finds a key's old member by its prefix and merges a change under the node's lock. Keys never become
property names, because Neo4j keeps a token for every property name for ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python

from adk_graph_memory import errors


@dataclass(frozen=True, slots=True)
class JsonMapDelta:
    """A change of a map: members to write, and key prefixes (``"key":``) whose old members are removed."""

    keys: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    @classmethod
    def from_values(
        cls, values: Mapping[str, Any], drop: Iterable[str] = (), *, replaces: bool = False
    ) -> JsonMapDelta:
        """Make a change that sets ``values`` as ``dict.update`` does (None is stored as null) and removes ``drop``.

        With ``replaces`` it removes whatever there was.
        """
        if not isinstance(values, Mapping):
            raise errors.InvalidArgument(reason=f"{values!r} does not map texts to values: give a dict")
        if invalid_keys := [key for key in (*values, *drop) if not isinstance(key, str)]:
            raise errors.InvalidArgument(reason=f"keys have to be text, these are not: {invalid_keys!r}")
        drop_keys = set(drop)
        updates = {key: value for key, value in values.items() if key not in drop_keys}
        return cls(
            ("",) if replaces else tuple(_format_key_prefix(key) for key in (*updates, *drop_keys)),
            tuple(f"{_format_key_prefix(key)}{_dump_json(value)}" for key, value in updates.items()),
        )

    def to_parameter(self) -> dict[str, list[str]]:
        """The change as a statement parameter."""
        return {"keys": list(self.keys), "members": list(self.members)}


def _format_key_prefix(key: str) -> str:
    return f"{_dump_json(key)}:"


def _dump_json(value: Any) -> str:
    """Dump a value as JSON: pydantic converts dates, sets and models, anything else becomes its repr.

    Raises:
        errors.InvalidArgument: the value contains itself, or is nested too deep.
    """
    try:
        convert = partial(to_jsonable_python, bytes_mode="base64", serialize_unknown=True)
        return json.dumps(value, separators=(",", ":"), default=convert)
    except (RecursionError, ValueError) as error:
        raise errors.InvalidArgument(reason=f"a value cannot be kept as JSON: {error}") from error


def parse_json_map(members: Sequence[str] | None) -> dict[str, Any]:
    """Parse the members of one node into a dict."""
    if not members:
        return {}
    [values] = parse_json_maps([",".join(members)])
    return values


def parse_json_maps(joined_members: Sequence[str]) -> list[dict[str, Any]]:
    """Parse many nodes' members, each node's joined by commas, as one JSON text: faster than one text per node."""
    values: list[dict[str, Any]] = json.loads(f"[{','.join(f'{{{members}}}' for members in joined_members)}]")
    return values
