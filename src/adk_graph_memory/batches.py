"""Run many ingests, several at a time, within a budget; what fails is tried again, then listed.

The database alone knows what is left: whatever stops a run, the next one goes on from there.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from adk_graph_memory import ledger
from adk_graph_memory.records import IngestReport, Usage

P = TypeVar("P")
R = TypeVar("R")

CHARACTERS_PER_TOKEN = 3
"""Few enough for most languages."""
CALLS_PER_WINDOW = 2
"""Calls of a model for a window at most: to extract, and to decide what new and stored facts have to do."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchJob:
    """An ingest to run; ``calls`` is how many calls of a model it is expected to take at most.

    Jobs of one ``group`` run one after another: they write to the same user.
    """

    name: str
    group: Hashable
    run: Callable[[], Awaitable[IngestReport]]
    calls: int = 0


@dataclass(slots=True)
class Budget:
    """What a run may spend, and what it has spent."""

    max_calls: int | None = None
    max_cost: float | None = None
    prices: ledger.Prices = ()
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    _reserved_calls: int = 0

    @property
    def cost(self) -> float | None:
        """What was spent, in the currency of the prices; None if the model has no price."""
        return ledger.compute_cost(self.model, self.usage, self.prices)

    def reserve_calls(self, calls: int) -> bool:
        """Reserve calls for a job; return False, and reserve none, if the budget does not allow them."""
        calls_then = self.usage.calls + self._reserved_calls + calls
        if self.max_calls is not None and calls and calls_then > self.max_calls:
            return False
        if self.max_cost is not None and calls and (self.cost or 0.0) >= self.max_cost:
            return False
        self._reserved_calls += calls
        return True

    def settle_calls(self, calls: int, usage: Usage) -> None:
        """Put what a job has used in place of what was reserved for it."""
        self._reserved_calls -= calls
        self.usage += usage


@dataclass(slots=True)
class BatchOutcome:
    """What a run came to: jobs in all, done and not begun, and the last error of each that failed, by name."""

    total: int
    done: int = 0
    left: int = 0
    failures: dict[str, Exception] = field(default_factory=dict)
    report: IngestReport = field(default_factory=IngestReport)
    seconds: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether every job is done."""
        return self.done == self.total


def count_calls(characters: int, window_tokens: int) -> int:
    """Estimate the calls of a model that turns of so many characters take at most, if no reply is asked for again."""
    return CALLS_PER_WINDOW * max(1, math.ceil(characters / CHARACTERS_PER_TOKEN / window_tokens))


async def map_pages(
    process_page: Callable[[P], Awaitable[R]], pages: AsyncIterator[P], workers: int
) -> AsyncIterator[tuple[P, R]]:
    """Process so many pages at a time in this process; yield each with its result, in any order.

    Raises:
        Exception: what a page failed with; the others are cancelled.
    """
    tasks = set[asyncio.Task[tuple[P, R]]]()

    async def process(page: P) -> tuple[P, R]:
        return page, await process_page(page)

    try:
        async for page in pages:
            tasks.add(asyncio.create_task(process(page)))
            if len(tasks) >= workers:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        for next_task in asyncio.as_completed(tasks):
            yield await next_task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_jobs(
    jobs: Sequence[BatchJob],
    *,
    workers: int,
    budget: Budget,
    expected: tuple[type[Exception], ...],
    fatal: tuple[type[Exception], ...],
    on_progress: Callable[[BatchOutcome], None] = lambda outcome: None,
    attempts: int = 2,
) -> BatchOutcome:
    """Run the jobs.

    Args:
        jobs: what to run.
        workers: how many groups run at a time.
        budget: what may be spent; a job begins only if what it is expected to take fits in.
        expected: errors after which the other jobs go on.
        fatal: those of them that would fail every further job too. Like any other error, they are raised once the
            running jobs have ended.
        on_progress: called after every job.
        attempts: how often a job is tried, again only after all others of its group.
    """
    run = _BatchRun(jobs, budget, expected, fatal, on_progress, attempts)
    results = await asyncio.gather(*(run.work() for _ in range(workers)), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    await run.run_postponed()
    run.outcome.left = run.outcome.total - run.outcome.done - len(run.outcome.failures)
    return run.outcome


class _BatchRun:
    """The jobs that have not begun, group by group, and the outcome so far."""

    def __init__(
        self,
        jobs: Sequence[BatchJob],
        budget: Budget,
        expected: tuple[type[Exception], ...],
        fatal: tuple[type[Exception], ...],
        on_progress: Callable[[BatchOutcome], None],
        attempts: int,
    ) -> None:
        self._max_attempts = attempts
        self._budget, self._expected, self._fatal, self._on_progress = budget, expected, fatal, on_progress
        self.outcome, self._attempts = BatchOutcome(len(jobs)), dict[BatchJob, int]()
        self._start_time, self._is_stopped, self._postponed = time.monotonic(), False, list[BatchJob]()
        groups: dict[Hashable, deque[BatchJob]] = {}
        for job in jobs:
            groups.setdefault(job.group, deque()).append(job)
        self._groups = deque(groups.values())

    async def work(self) -> None:
        """Run group after group until none is left or the run is stopped; put off what the budget does not allow."""
        while self._groups and not self._is_stopped:
            group = self._groups.popleft()
            while group and not self._is_stopped:
                job = group.popleft()
                if not self._budget.reserve_calls(job.calls):
                    self._postponed.append(job)
                elif await self._is_to_be_repeated(job):
                    group.append(job)

    async def run_postponed(self) -> None:
        """Run what fits now that the others have not used all that was reserved for them."""
        for job in self._postponed:
            if self._budget.reserve_calls(job.calls):
                await self._is_to_be_repeated(job)

    async def _is_to_be_repeated(self, job: BatchJob) -> bool:
        """Run a job; return whether it failed and is tried again."""
        outcome, usage = self.outcome, Usage(calls=job.calls)  # what a failed job has used nobody knows
        try:
            report = await job.run()
        except self._expected as error:
            if isinstance(error, self._fatal):
                self._is_stopped = True
                raise
            outcome.failures[job.name] = error
            self._attempts[job] = self._attempts.get(job, 0) + 1
        except BaseException:
            self._is_stopped = True
            raise
        else:
            usage, outcome.report, outcome.done = report.usage, outcome.report + report, outcome.done + 1
            outcome.failures.pop(job.name, None)
        finally:
            self._budget.settle_calls(job.calls, usage)
            outcome.seconds = time.monotonic() - self._start_time
        self._on_progress(outcome)
        return job.name in outcome.failures and self._attempts[job] < self._max_attempts
