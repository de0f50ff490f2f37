"""Compute whether a fact holds now, and describe what became of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from adk_graph_memory.records.dates import Precision, compute_date_end, format_english_date
from adk_graph_memory.records.extraction_result import Modality
from adk_graph_memory.records.turns import check_timezone_aware
from adk_graph_memory.records.write_plan import FactState

FactStatus = Literal["holds", "planned", "lapsed", "happened", "over"]


@dataclass(frozen=True, slots=True)
class AsOf:
    """A point on the two axes of time: what was so at ``valid``, as memory knew it at ``recorded``; None is now.

    A fact without a first day began when it was first said.
    """

    valid: datetime | None = None
    recorded: datetime | None = None

    def __post_init__(self) -> None:
        for moment in (self.valid, self.recorded):
            if moment is not None:
                check_timezone_aware(moment)


@dataclass(frozen=True, slots=True)
class FactValidity:
    """The stored properties of a fact that say when it holds."""

    modality: Modality | None
    state: FactState | None
    valid_from: datetime | None
    valid_to: datetime | None
    valid_from_precision: Precision | None = None
    valid_to_precision: Precision | None = None
    is_stale: bool = False

    def compute_status(self, now: datetime) -> FactStatus:
        """The status of the fact at ``now``, as far as the graph knows.

        A plan lapses when its day is over and no later fact replaced it. A fact asserted of a period that is over has
        happened.
        """
        is_open = self.state in (None, "current")
        if self.state == "retracted" or self.is_stale:
            return "over"
        if self.modality == "planned":
            end = self._plan_end
            return "over" if not is_open else "lapsed" if end is not None and end <= now else "planned"
        if self.valid_to is None or self.valid_to > now:
            return "holds" if is_open or self.valid_to else "over"
        has_happened = is_open and self.modality == "asserted" and self.valid_from is not None
        return "happened" if has_happened else "over"

    @property
    def _plan_end(self) -> datetime | None:
        if self.valid_to is not None or self.valid_from is None:
            return self.valid_to
        return compute_date_end(self.valid_from, self.valid_from_precision)

    def describe_plan(self, text: str, said_at: datetime | None, now: datetime) -> str | None:
        """Describe when a plan, stated at ``said_at``, is due, and whether it lapsed by ``now``.

        Returns:
            None if the fact is not an open plan, or if it has not lapsed and its text names the year.
        """
        status = self.compute_status(now)
        if status not in ("planned", "lapsed"):
            return None
        if self.valid_from is not None:
            plan = f"planned for {format_english_date(self.valid_from, self.valid_from_precision)}"
        elif self.valid_to is not None:
            plan = f"planned until {format_english_date(self.valid_to, self.valid_to_precision, is_end=True)}"
        else:
            return f"planned; spoken of on {format_english_date(said_at, 'day')}" if said_at else "planned"
        if status == "lapsed":
            return f"{plan}; nothing was heard of it since"
        text_names_year = any(str(moment.year) in text for moment in (self.valid_from, self.valid_to) if moment)
        return None if text_names_year else plan
