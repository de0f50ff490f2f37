"""Make hits of the rows that a search returns: a text, its score, and what else is known, without any vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import neo4j
from neo4j.graph import Node, Path, Relationship
from neo4j.spatial import Point
from neo4j.vector import Vector

from adk_graph_memory.language.text import join_lines

TEXT_KEYS = ("text", "content")
"""Columns or properties that hold a hit's text; the first there is counts."""
MIN_INTEGER_VECTOR = 64
"""A list of so many whole numbers or more is taken for a vector; a list of floats always is."""


@dataclass(frozen=True, slots=True)
class IndexHit:
    """One result of a search.

    Args:
        text: the text that was found.
        score: how well it fits, as the index counts; None if the ``retrieval_query`` returns no score.
        metadata: the other values, without vectors and nulls; plain values, as JSON has them.
        id: the node's elementId, if the search returned it.
    """

    text: str
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None

    @property
    def prompt_text(self) -> str:
        """The hit as one line for a prompt: ``[Score: 0.892] [company: Apple Inc] [risks: Competition] text``."""
        values = format_metadata(self.metadata)
        score = "" if self.score is None else f"[Score: {self.score:.3f}]"
        return join_lines(" ".join(filter(None, (score, values if values != self.text else "", self.text))))


def read_hit(record: neo4j.Record) -> IndexHit:
    """Read a hit from a row.

    The text is the column ``text`` or ``content``, or else that property of a node in the row. Where there is none, the
    text is all values together.
    """
    values = {
        name: plain for name, value in dict(record).items() if (plain := simplify_value(value)) not in (None, [], {})
    }
    score, id = values.pop("score", None), values.pop("elementId", None)
    if id is None:
        id = next((value.element_id for value in record.values() if isinstance(value, Node)), None)
    elif values.get("id") == id:  # its second name in the rows of neo4j-graphrag's retrievers
        values.pop("id")
    if _find_text_key(values) is None:
        nodes = [  # what was found: by its name, or because it has a text
            name
            for name, value in values.items()
            if isinstance(value, dict) and (name == "node" or _find_text_key(value) is not None)
        ]
        for name in nodes:
            values = values.pop(name) | values
    values.pop("nodeLabels", None)
    key = _find_text_key(values)
    text = format_metadata(values) if key is None else format_value(values.pop(key))
    return IndexHit(text, score if isinstance(score, int | float) else None, values, id if id is None else str(id))


def _find_text_key(values: Mapping[str, Any]) -> str | None:
    return next((key for key in TEXT_KEYS if key in values), None)


def format_metadata(values: Mapping[str, Any]) -> str:
    """Format values as ``[name: value] [name: value]``."""
    return " ".join(f"[{name}: {' '.join(format_value(value).split())}]" for name, value in values.items())


def format_value(value: Any) -> str:
    """Format a plain value for a prompt: lists joined by commas, maps as ``name: value``."""
    if isinstance(value, list):
        return ", ".join(map(format_value, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}: {format_value(item)}" for name, item in value.items())
    return str(value)


def simplify_value(value: Any) -> Any:
    """Simplify a value of the driver's to texts, numbers, lists and maps; None for vectors and bytes."""
    match value:
        case None | str() | bool() | int() | float():
            return value
        case Vector() | bytes() | bytearray():
            return None
        case Relationship():
            return {"type": value.type} | _simplify_map(value)
        case Path():
            return [simplify_value(part) for part in _list_parts(value)]
        case Node() | Mapping():
            return _simplify_map(value)
        case Point():
            return str(value)
        case list() | tuple() if not is_vector(value):
            return [plain for item in value if (plain := simplify_value(item)) is not None]
        case list() | tuple():
            return None
    return value.iso_format() if hasattr(value, "iso_format") else str(value)  # a time


def is_vector(values: list[Any] | tuple[Any, ...]) -> bool:
    """Whether a list is probably a vector: numbers alone, any of them a float, or very many of them."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if not numbers or len(numbers) < len(values):
        return False
    return len(numbers) >= MIN_INTEGER_VECTOR or any(isinstance(number, float) for number in numbers)


def _simplify_map(value: Any) -> dict[str, Any]:
    return {name: plain for name, item in value.items() if (plain := simplify_value(item)) is not None}


def _list_parts(path: Path) -> Iterator[Node | Relationship]:
    for node, relationship in zip(path.nodes, path.relationships, strict=False):
        yield node
        yield relationship
    yield path.nodes[-1]
