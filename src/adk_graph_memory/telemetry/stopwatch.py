"""Measure how long the stages of some work take."""

from __future__ import annotations

import time


class Stopwatch:
    """Adds up milliseconds by stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._lap_start = time.perf_counter()

    def lap(self, stage: str) -> None:
        """End a stage and begin the next."""
        now = time.perf_counter()
        self.laps[stage] = round(self.laps.get(stage, 0.0) + (now - self._lap_start) * 1_000, 1)
        self._lap_start = now
