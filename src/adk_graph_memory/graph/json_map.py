"""Keyed values go into a node as a list of JSON members (``"key":value``) and come back as a dict.

A key's old member is found by its prefix, so keys never become property names (Neo4j keeps a token for each for
ever), and one statement merges a change under the node's lock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from adk_graph_memory import errors


@dataclass(frozen=True, slots=True)
class JsonMapDelta:
    """A change: members to write, and keys (as JSON prefixes) whose old members go."""

    keys: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    @classmethod
    def from_values(cls, values: Mapping[str, Any], drop: Iterable[str] = ()) -> JsonMapDelta:
        """Sets these values (``dict.update`` semantics: None stays as null) and drops those keys for good."""
        if wrong := [key for key in (*values, *drop) if not isinstance(key, str)]:
            raise errors.ConfigurationError(reason=f"keys have to be text, these are not: {wrong!r}")
        dropped = set(drop)
        kept = {key: value for key, value in values.items() if key not in dropped}
        return cls(
            tuple(_make_key_prefix(key) for key in (*kept, *dropped)),
            tuple(f"{_make_key_prefix(key)}{_dump_json(value)}" for key, value in kept.items()),
        )

    def to_parameter(self) -> dict[str, list[str]]:
        """What a statement takes."""
        return {"keys": list(self.keys), "members": list(self.members)}


def _make_key_prefix(key: str) -> str:
    return f"{_dump_json(key)}:"


def _dump_json(value: Any) -> str:
    """The value as JSON; dates, sets and models in the form that pydantic gives them, the rest as its repr.

    Raises:
        errors.ConfigurationError: the value contains itself, or is nested too deep.
    """
    try:
        return json.dumps(value, separators=(",", ":"), default=_make_plain)
    except (RecursionError, ValueError) as error:
        raise errors.ConfigurationError(reason=f"a value cannot be kept as JSON: {error}") from error


def _make_plain(value: Any) -> Any:
    return to_jsonable_python(value, bytes_mode="base64", serialize_unknown=True)


def parse_json_map(members: Sequence[str] | None) -> dict[str, Any]:
    """The values that these members spell."""
    if not members:
        return {}
    [values] = parse_json_maps([",".join(members)])
    return values


def parse_json_maps(joined: Sequence[str]) -> list[dict[str, Any]]:
    """The same for many nodes at once, each with its members joined by commas: one JSON text is parsed, not many."""
    values: list[dict[str, Any]] = json.loads(f"[{','.join(f'{{{members}}}' for members in joined)}]")
    return values
