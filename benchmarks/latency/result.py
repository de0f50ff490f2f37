"""Decide whether what was measured clears its bar."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table: the values of each round, of ours and of what we compare with.

    With ``theirs`` the bar holds for the ratio of the two medians, without for our median itself.
    """

    what: str
    unit: str
    ours: tuple[float, ...]
    bar: float | None = None
    peer: str = ""
    theirs: tuple[float, ...] = ()
    stretch: float | None = None
    more_is_better: bool = False
    note: str = ""

    @property
    def value(self) -> float:
        """Our median over the rounds."""
        return statistics.median(self.ours)

    @property
    def peer_value(self) -> float | None:
        """The other's median over the rounds."""
        return statistics.median(self.theirs) if self.theirs else None

    @property
    def ratio(self) -> float | None:
        """Ours to theirs."""
        return self.value / self.peer_value if self.peer_value else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """The lowest and the highest ratio of a single round: how far to trust the ratio."""
        ratios = [own / other for own, other in zip(self.ours, self.theirs, strict=False)]
        return (min(ratios), max(ratios)) if ratios else None

    @property
    def verdict(self) -> str:
        """``met``, ``met, stretch too``, ``missed``, or nothing where there is no bar."""
        if self.bar is None:
            return ""
        if not self._clears(self.bar):
            return "missed"
        return "met, stretch too" if self.stretch is not None and self._clears(self.stretch) else "met"

    def _clears(self, bar: float) -> bool:
        measured = self.value if self.ratio is None else self.ratio
        return measured >= bar if self.more_is_better else measured <= bar

    def as_json(self) -> dict[str, Any]:
        """Everything, with what follows from it."""
        derived = {"value": self.value, "peer_value": self.peer_value, "ratio": self.ratio, "verdict": self.verdict}
        return asdict(self) | derived
