"""Show the progress of a job: a bar with rate and time left on a terminal, else a plain line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINE_INTERVAL = 10.0
"""Seconds between two lines of one phase, without a terminal."""


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """Progress of a job: ``done`` of ``total`` items in this phase; a phase without a count has total 0."""

    phase: str
    done: int = 0
    total: int = 0


StepCallback = Callable[[ProgressStep], None]


class Rate:
    """The number of items per second since the phase began."""

    def __init__(self) -> None:
        self._first_step, self._start_time = ProgressStep(""), 0.0

    def measure_rate(self, step: ProgressStep) -> float:
        """The rate up to this step; 0 while it is unknown."""
        if step.phase != self._first_step.phase or step.done < self._first_step.done:
            self._first_step, self._start_time = step, time.monotonic()
        seconds = time.monotonic() - self._start_time
        return (step.done - self._first_step.done) / seconds if seconds > 0 else 0.0


@contextmanager
def show_progress() -> Iterator[StepCallback]:
    """Yield a callback that shows the steps of a job on stderr, so that stdout holds only the result."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        with _show_bar(console) as show_step:
            yield show_step
    else:
        yield _make_line_printer(console)


@contextmanager
def _show_bar(console: Console) -> Iterator[StepCallback]:
    rate = Rate()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=None, rate="")

        def show_step(step: ProgressStep) -> None:
            if step.phase != progress.tasks[task].description:
                progress.reset(task, description=step.phase)
            progress.update(
                task, completed=step.done, total=max(step.total, 1), rate=f"{rate.measure_rate(step):,.0f}/s"
            )

        yield show_step


def _make_line_printer(console: Console) -> StepCallback:
    rate, last_phase, last_time = Rate(), "", 0.0

    def show_step(step: ProgressStep) -> None:
        nonlocal last_phase, last_time
        per_second = rate.measure_rate(step)
        is_last = bool(step.total) and step.done == step.total
        if step.phase == last_phase and not is_last and time.monotonic() < last_time + LINE_INTERVAL:
            return
        last_phase, last_time = step.phase, time.monotonic()
        line = f"{step.phase}: {step.done:,} of {step.total:,}" if step.total else step.phase
        if per_second and not is_last:
            line += f", {per_second:,.0f}/s, {timedelta(seconds=round((step.total - step.done) / per_second))} left"
        console.print(line, soft_wrap=True)

    return show_step
