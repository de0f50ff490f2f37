"""Stored words go in, as anybody may have said them; what fits a terminal of 80 columns comes out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202d\u202e]")
"""What would steer the terminal, or turn around what stands beside it."""


def replace_controls(text: str | None) -> str:
    """The text without what steers the terminal; our consoles take nothing in it for markup."""
    return _CONTROL_CHARACTERS.sub("\ufffd", (text or "").replace("\r\n", "\n").replace("\t", " "))


def format_day(moment: datetime | None) -> str:
    """The date, where it was said."""
    return moment.date().isoformat() if moment else ""


def format_timestamp(timestamp: float) -> str:
    """The date and time of day, in UTC."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M")


def make_grid(rows: Iterable[tuple[str | Text, ...]]) -> Table:
    """Rows without a frame: narrow columns, and a last one that takes all the room that is left.

    Nothing is cut off: what is too wide goes on in the next line.
    """
    table, rows = Table.grid(padding=(0, 2, 0, 0)), list(rows)
    for _ in rows[0][:-1]:
        table.add_column(overflow="fold", max_width=20)
    table.add_column(overflow="fold", ratio=1)
    for row in rows:
        table.add_row(*row)
    return table


def add_details(text: str, *details: str) -> Text:
    """A text, and under it in fainter lines what is known about it."""
    return Text("\n").join(
        [Text(replace_controls(text)), *(Text(replace_controls(detail), "dim") for detail in details if detail)]
    )
