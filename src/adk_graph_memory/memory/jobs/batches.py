"""Run many ingests within a budget, here or on a cluster; retry what fails, then list it; sum up cost.

The database alone knows what is left: whatever stops a run, the next one goes on from there.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, TypeVar

from adk_graph_memory.memory.jobs import ray_engine
from adk_graph_memory.records.extractions import Usage
from adk_graph_memory.records.results import IngestReport

Prices = Sequence[tuple[str, float, float, float]]
"""For each model its name and the price of a million tokens: input, output, cached input."""


@dataclass(frozen=True, slots=True)
class CostEntry:
    """The ingests of one user, day and extractor; ``cost`` is None if the model has no price."""

    app_name: str
    user_id: str
    day: str
    extractor: str
    ingests: int
    report: IngestReport
    cost: float | None = None


def sum_reports(rows: Iterable[Mapping[str, Any]], prices: Prices) -> list[CostEntry]:
    """Sum reports into one entry per user, day and extractor, sorted by app, user, day and extractor.

    Args:
        rows: what :func:`adk_graph_memory.graph.ingest_queue.fetch_ingest_reports` returns.
        prices: the price table of the settings.
    """
    entries: dict[tuple[str, str, str, str], CostEntry] = {}
    for row in rows:
        key = row["app_name"], row["user_id"], row["day"], row["extractor"]
        entry = entries.get(key, CostEntry(*key, 0, IngestReport(extractor=key[3])))
        entries[key] = replace(entry, ingests=entry.ingests + 1, report=entry.report + _parse_report(row["report"]))
    return [
        replace(entry, cost=compute_cost(entry.extractor.partition(" ")[0], entry.report.usage, prices))
        for _, entry in sorted(entries.items())
    ]


def _parse_report(text: str) -> IngestReport:
    """Parse a stored report, ignoring fields of other releases."""
    members = json.loads(text)
    names = {field.name for field in fields(IngestReport)}
    usage = Usage(**{field.name: members.get("usage", {}).get(field.name, 0) for field in fields(Usage)})
    return IngestReport(**{name: value for name, value in members.items() if name in names} | {"usage": usage})


def compute_cost(model: str, usage: Usage, prices: Prices) -> float | None:
    """Compute what a model's usage costs; None if the model has no price."""
    model_prices = next((costs for name, *costs in prices if name == model), None)
    if model_prices is None:
        return None
    tokens = (usage.input_tokens - usage.cached_tokens, usage.output_tokens, usage.cached_tokens)
    return sum(count * price for count, price in zip(tokens, model_prices, strict=True)) / 1_000_000


P = TypeVar("P")
R = TypeVar("R")

CHARACTERS_PER_TOKEN = 3
"""Few enough for most languages."""
CALLS_PER_WINDOW = 2
"""Calls of a model for a window at most: to extract, and to decide what new and stored facts have to do."""
GROUPS_PER_ACTOR = 4
"""Groups that each actor gets in a round, if what they cost has to be known before the next."""


@dataclass(frozen=True, slots=True)
class BatchJob:
    """An ingest to run: a task, and how many calls of a model it is expected to take at most.

    Jobs of one ``group`` run one after another: they write to the same user. Names differ.
    """

    name: str
    group: Hashable
    task: Any
    calls: int = 0


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job came to: its report, and what else its caller wants to know."""

    report: IngestReport
    value: Any = None


RunTask = Callable[[Any], Awaitable[JobResult]]


@dataclass(slots=True)
class Budget:
    """What a run may spend, and what it has spent."""

    max_calls: int | None = None
    max_cost: float | None = None
    prices: Prices = ()
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    _reserved_calls: int = 0

    @property
    def cost(self) -> float | None:
        """What was spent, in the currency of the prices; None if the model has no price."""
        return compute_cost(self.model, self.usage, self.prices)

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
    """What a run came to: jobs in all, and not begun; by name the results, and the last error of each that failed."""

    total: int
    left: int = 0
    results: dict[str, JobResult] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    fatal_error: Exception | None = None
    """what would have failed every further job too"""
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """Jobs that were done."""
        return len(self.results)

    @property
    def report(self) -> IngestReport:
        """The reports of what was done, added up."""
        return sum((result.report for result in self.results.values()), IngestReport())

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


@dataclass(frozen=True, slots=True)
class FailureRules:
    """Errors after which other jobs go on; those of them that end the run; how often a job is tried in all."""

    expected: tuple[type[Exception], ...]
    fatal: tuple[type[Exception], ...]
    attempts: int = 2
    """a failed job is tried again only after all others of its group"""


def ignore_progress(outcome: BatchOutcome) -> None:
    """Do nothing."""


async def run_jobs(
    jobs: Sequence[BatchJob],
    run_task: RunTask,
    rules: FailureRules,
    *,
    workers: int,
    budget: Budget,
    on_progress: Callable[[BatchOutcome], None] = ignore_progress,
) -> BatchOutcome:
    """Run the jobs in this process.

    Args:
        jobs: what to run.
        run_task: runs a job's task.
        rules: what a failure means; an error that is not expected is raised once the running jobs have ended.
        workers: how many groups run at a time.
        budget: what may be spent; a job begins only if what it is expected to take fits in.
        on_progress: called after every job.
    """
    run = _BatchRun(jobs, run_task, rules, budget, on_progress)
    results = await asyncio.gather(*(run.work() for _ in range(workers)), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    await run.run_postponed()
    run.outcome.left = run.outcome.total - run.outcome.done - len(run.outcome.failures)
    return run.outcome


async def run_jobs_on_ray(
    jobs: Sequence[BatchJob],
    open_runner: Callable[[], AbstractAsyncContextManager[RunTask]],
    rules: FailureRules,
    *,
    options: ray_engine.RayOptions,
    budget: Budget,
    on_progress: Callable[[BatchOutcome], None] = ignore_progress,
) -> BatchOutcome:
    """Run the jobs on a Ray cluster, each group in one actor.

    Args:
        jobs: what to run; their tasks are pickled.
        open_runner: opens what runs tasks, once in each actor; pickled.
        rules: what a failure means.
        options: the cluster, and how much of it to use.
        budget: what may be spent. If it is limited, the groups go in rounds: what each has used is known at its end.
        on_progress: called after every group.

    Raises:
        errors.ConfigurationError: Ray is not installed, or the cluster cannot be used.
        errors.BatchStalled: no group was finished for too long, or Ray gave up.
    """
    outcome, start_time = BatchOutcome(len(jobs)), time.monotonic()
    open_worker = partial(_open_group_runner, open_runner, rules)
    groups = _group_jobs(jobs)
    most = len(groups) if budget.max_cost is None else options.actors * GROUPS_PER_ACTOR
    while outcome.fatal_error is None and (pages := _take_affordable(groups, budget, most)):
        async for page, result in ray_engine.map_pages(open_worker, _iterate(pages), options):
            reserved_calls = sum(job.calls for job in page)
            if isinstance(result, Exception):
                outcome.failures |= {job.name: result for job in page}
                budget.settle_calls(reserved_calls, Usage(calls=reserved_calls))
            else:
                outcome.results |= result.results
                outcome.failures |= result.failures
                outcome.fatal_error = outcome.fatal_error or result.fatal_error
                budget.settle_calls(reserved_calls, result.report.usage)
            outcome.seconds = time.monotonic() - start_time
            on_progress(outcome)
    outcome.left = outcome.total - outcome.done - len(outcome.failures)
    return outcome


@asynccontextmanager
async def _open_group_runner(
    open_runner: Callable[[], AbstractAsyncContextManager[RunTask]], rules: FailureRules
) -> AsyncIterator[Callable[[tuple[BatchJob, ...]], Awaitable[BatchOutcome]]]:
    async with open_runner() as run_task:

        async def run_group(jobs: tuple[BatchJob, ...]) -> BatchOutcome:
            outcome = await run_jobs(jobs, run_task, rules, workers=1, budget=Budget())
            outcome.failures = {name: ray_engine.simplify_error(error) for name, error in outcome.failures.items()}
            return outcome

        yield run_group


def _take_affordable(groups: list[list[BatchJob]], budget: Budget, most: int) -> list[tuple[BatchJob, ...]]:
    """Take the next jobs of at most so many groups off them, and reserve their calls."""
    pages = list[tuple[BatchJob, ...]]()
    for group in groups:
        if len(pages) == most:
            break
        page, rest = list[BatchJob](), list[BatchJob]()
        for job in group:
            (page if budget.reserve_calls(job.calls) else rest).append(job)
        group[:] = rest
        if page:
            pages.append(tuple(page))
    return pages


async def _iterate(pages: Iterable[P]) -> AsyncIterator[P]:
    for page in pages:
        yield page


def _group_jobs(jobs: Iterable[BatchJob]) -> list[list[BatchJob]]:
    groups: dict[Hashable, list[BatchJob]] = {}
    for job in jobs:
        groups.setdefault(job.group, []).append(job)
    return list(groups.values())


class _BatchRun:
    """The jobs that have not begun, group by group, and the outcome so far."""

    def __init__(
        self,
        jobs: Sequence[BatchJob],
        run_task: RunTask,
        rules: FailureRules,
        budget: Budget,
        on_progress: Callable[[BatchOutcome], None],
    ) -> None:
        self._run_task, self._rules, self._budget, self._on_progress = run_task, rules, budget, on_progress
        self.outcome, self._attempts = BatchOutcome(len(jobs)), dict[str, int]()
        self._start_time, self._is_stopped, self._postponed = time.monotonic(), False, list[BatchJob]()
        self._groups = deque(deque(group) for group in _group_jobs(jobs))

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
            if not self._is_stopped and self._budget.reserve_calls(job.calls):
                await self._is_to_be_repeated(job)

    async def _is_to_be_repeated(self, job: BatchJob) -> bool:
        """Run a job; return whether it failed and is tried again."""
        outcome, usage = self.outcome, Usage(calls=job.calls)  # what a failed job has used nobody knows
        try:
            result = await self._run_task(job.task)
        except self._rules.expected as error:
            outcome.failures[job.name] = error
            self._attempts[job.name] = self._attempts.get(job.name, 0) + 1
            if isinstance(error, self._rules.fatal):
                self._is_stopped, outcome.fatal_error = True, error
        except BaseException:
            self._is_stopped = True
            raise
        else:
            usage, outcome.results[job.name] = result.report.usage, result
            outcome.failures.pop(job.name, None)
        finally:
            self._budget.settle_calls(job.calls, usage)
            outcome.seconds = time.monotonic() - self._start_time
        self._on_progress(outcome)
        return job.name in outcome.failures and self._attempts[job.name] < self._rules.attempts
