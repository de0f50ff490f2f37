"""What a reader has to be told of a fact beside its words: what of it is so now, and what a plan came to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from adk_graph_memory.records.dates import Precision, compute_date_end, format_english_date
from adk_graph_memory.records.extraction_result import Modality
from adk_graph_memory.records.write_plan import FactState

FactStatus = Literal["holds", "planned", "lapsed", "happened", "over"]


@dataclass(frozen=True, slots=True)
class FactValidity:
    """Since and until when a fact is so, as its graph holds it."""

    modality: Modality | None
    state: FactState | None
    valid_from: datetime | None
    valid_to: datetime | None
    valid_from_precision: Precision | None = None
    valid_to_precision: Precision | None = None
    is_stale: bool = False

    def compute_status(self, now: datetime) -> FactStatus:
        """What of it is so now, as far as is known.

        A plan lapses when its day is over and nothing was heard of it; what was asserted of days that are over
        happened once.
        """
        is_open = self.state in (None, "current")
        if self.state == "retracted" or self.is_stale:
            return "over"
        if self.modality == "planned":
            lapses = self._plan_end
            return "over" if not is_open else "lapsed" if lapses is not None and lapses <= now else "planned"
        if self.valid_to is None or self.valid_to > now:
            return "holds" if is_open or self.valid_to else "over"
        is_once = is_open and self.modality == "asserted" and self.valid_from is not None
        return "happened" if is_once else "over"

    @property
    def _plan_end(self) -> datetime | None:
        """When the day is over for which it is planned."""
        if self.valid_to is not None or self.valid_from is None:
            return self.valid_to
        try:
            return compute_date_end(self.valid_from, self.valid_from_precision)
        except OverflowError:
            return None

    def describe_plan(self, text: str, said: datetime | None, now: datetime) -> str | None:
        """Of a plan that nothing replaced, when it is for, unless its text says so, and if it lapsed; else None."""
        status = self.compute_status(now)
        if status not in ("planned", "lapsed"):
            return None
        if self.valid_from is not None:
            day = f"planned for {format_english_date(self.valid_from, self.valid_from_precision)}"
        elif self.valid_to is not None:
            day = f"planned until {format_english_date(self.valid_to, self.valid_to_precision, is_end=True)}"
        else:
            return f"planned; spoken of on {format_english_date(said, 'day')}" if said else "planned"
        if status == "lapsed":
            return f"{day}; nothing was heard of it since"
        names_its_year = any(str(when.year) in text for when in (self.valid_from, self.valid_to) if when)
        return None if names_its_year else day
