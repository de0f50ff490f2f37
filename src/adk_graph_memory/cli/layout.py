"""Lay out stored text safely for a terminal of 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202d\u202e]")
"""Characters that would control the terminal or reverse the text around them."""


def replace_controls(text: str | None) -> str:
    """Replace the control characters in a text; markup needs no escape, because the consoles have it switched off."""
    return _CONTROL_CHARACTERS.sub("\ufffd", (text or "").replace("\r\n", "\n").replace("\t", " "))


def format_day(moment: datetime | None) -> str:
    """The date in the time zone where it was said."""
    return moment.date().isoformat() if moment else ""


def format_timestamp(timestamp: float) -> str:
    """The date and time of day in UTC, of a time in epoch seconds."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M")


def make_grid(rows: Iterable[tuple[str | Text, ...]]) -> Table:
    """Make a table without a frame, with narrow columns and a last one that takes the remaining width.

    Cells that are too wide wrap; nothing is cut off.
    """
    table, rows = Table.grid(padding=(0, 2, 0, 0)), list(rows)
    for _ in rows[0][:-1]:
        table.add_column(overflow="fold", max_width=20)
    table.add_column(overflow="fold", ratio=1)
    for row in rows:
        table.add_row(*row)
    return table


def add_details(text: str, *details: str) -> Text:
    """A text with dim lines of detail below it; empty details are left out."""
    return Text("\n").join(
        [Text(replace_controls(text)), *(Text(replace_controls(detail), "dim") for detail in details if detail)]
    )
