"""Write the comparison as Markdown that a page can take, and as JSON with every figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.compare.rows import Row

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how its cell is made of a row's figures."""

    heading: str
    pattern: str

    def make_cell(self, figures: Mapping[str, float]) -> str:
        """The cell, or a dash if a figure is missing."""
        try:
            return self.pattern.format_map(figures)
        except KeyError:
            return NOTHING


MEMORY_COLUMNS = (
    Column("R", "{recall:.1f}"),
    Column("nDCG", "{ndcg:.1f}"),
    Column("R in 1,024", "{recall_in_tokens:.1f}"),
    Column("finds another's words", "{leaked:.0f} of {tenants:.0f}"),
    Column("finds its own", "{found:.0f} of {tenants:.0f}"),
    Column("statements a session", "{session_statements:g}"),
    Column("s", "{session_seconds:.3f}"),
    Column("statements a search", "{search_statements:g}"),
    Column("ms p50", "{search_p50:.1f}"),
    Column("p95", "{search_p95:.1f}"),
)
SESSION_COLUMNS = (
    Column("statements an append", "{append_statements:g}"),
    Column("ms p50", "{append_p50:.2f}"),
    Column("p95", "{append_p95:.2f}"),
    Column("statements a get_session", "{get_statements:g}"),
    Column("ms p50", "{get_p50:.2f}"),
)


def format_markdown(memories: Sequence[Row], sessions: Sequence[Row], about: Mapping[str, str]) -> str:
    """Both tables, how each peer was configured, and what they were measured on."""
    parts = [format_table("memory service", MEMORY_COLUMNS, memories)] if memories else []
    parts += [format_table("session service", SESSION_COLUMNS, sessions)] if sessions else []
    parts.append("\n".join(f"- {row.name}: {row.about}" for row in (*memories, *sessions)))
    parts.append("\n".join(f"- {name}: {value}" for name, value in about.items()))
    return "\n\n".join(parts) + "\n"


def format_table(what: str, columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """A row a peer; one without figures says why in the first cell."""
    lines = [
        _join_cells([what, *(column.heading for column in columns)]),
        f"|---|{'---:|' * len(columns)}",
        *(_join_cells([row.name, *_make_cells(columns, row)]) for row in rows),
    ]
    return "\n".join(lines)


def _join_cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _make_cells(columns: Sequence[Column], row: Row) -> list[str]:
    if row.error:
        return [row.error.replace("|", "\\|"), *([NOTHING] * (len(columns) - 1))]
    return [column.make_cell(row.figures) for column in columns]


def format_json(
    memories: Sequence[Row], sessions: Sequence[Row], about: Mapping[str, str], arguments: Mapping[str, Any]
) -> str:
    """The same with all figures as they were measured."""
    document = {
        "about": dict(about),
        "arguments": dict(arguments),
        "memories": [row.as_json() for row in memories],
        "sessions": [row.as_json() for row in sessions],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
