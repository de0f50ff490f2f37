"""What commands that run many ingests share: their options, the budget, and how they tell where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from adk_graph_memory import errors
from adk_graph_memory.cli.application import UsageError, list_expected_errors
from adk_graph_memory.cli.lazy_modules import batches, ray_engine
from adk_graph_memory.cli.output import announce
from adk_graph_memory.records.turns import RULES

if TYPE_CHECKING:
    from adk_graph_memory.runtime.settings import Settings


EXIT_BUDGET_SPENT = 3
BUDGET_SPENT = "The budget does not cover the rest; run the same command again to continue."
FATAL_ERRORS = (
    errors.DatabaseUnavailable,
    errors.AuthenticationFailed,
    errors.PermissionDenied,
    errors.SchemaError,
    errors.EmbeddingError,
)
"""Errors that would fail every further session too."""


class EngineName(StrEnum):
    """Where a batch job runs."""

    LOCAL = "local"
    RAY = "ray"


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The options of commands that run many jobs."""

    workers: Annotated[
        int, typer.Option(min=1, help="How many users or pages to process at a time, or actors with --engine ray.")
    ] = 4
    max_calls: Annotated[
        int | None,
        typer.Option(
            min=0, help="The maximum number of model or embedder calls; work expected to exceed it is not begun."
        ),
    ] = None
    max_cost: Annotated[float | None, typer.Option(min=0, help="Begin nothing new once this much is spent.")] = None
    engine: Annotated[
        EngineName,
        typer.Option(help="local: this process; ray: the cluster at RAY_ADDRESS, or one started on this machine."),
    ] = EngineName.LOCAL
    worker_cpus: Annotated[float, typer.Option(min=0, help="With --engine ray: CPUs per actor.")] = 1.0
    worker_gpus: Annotated[float, typer.Option(min=0, help="With --engine ray: GPUs per actor.")] = 0.0
    stall_timeout: Annotated[
        float, typer.Option(min=1, help="With --engine ray: give up after this many seconds without progress.")
    ] = 1_800.0

    def make_budget(self, settings: Settings, models: Iterable[str]) -> batches.Budget:
        """Make a budget for calls of these models; a cost needs a single one, which has a price."""
        names = sorted(set(models) - {RULES})
        model = names[0] if names else RULES
        budget = batches.Budget(self.max_calls, self.max_cost, settings.prices, model)
        if self.max_cost is not None and len(names) > 1:
            raise UsageError(f"--max-cost: several models would be used ({', '.join(names)}); choose one with --model.")
        if self.max_cost is not None and names and budget.cost is None:
            raise UsageError(f"--max-cost: {names[0]} has no price; set ADK_GRAPH_MEMORY_PRICES.")
        return budget

    def make_ray_options(self, settings: Settings) -> ray_engine.RayOptions | None:
        """Make the options of Ray; None if another engine is chosen."""
        if self.engine is not EngineName.RAY:
            return None
        return ray_engine.RayOptions(
            settings.ray_address, self.workers, self.worker_cpus, self.worker_gpus, self.stall_timeout
        )


def describe_progress(phase: str, done: int, total: int, seconds: float, *, decimals: int = 0) -> str:
    """Describe how far a phase is, with its rate and the time left as soon as something is done."""
    text = f"{phase}: {done:,} of {total:,}"
    if done and seconds:
        rate = done / seconds
        text += f", {rate:,.{decimals}f}/s, {timedelta(seconds=round((total - done) / rate))} left"
    return text


async def run_batch(
    jobs: Sequence[batches.BatchJob],
    phase: str,
    options: BatchOptions,
    settings: Settings,
    *,
    run_task: batches.RunTask,
    open_runner: Callable[[], AbstractAsyncContextManager[batches.RunTask]],
    budget: batches.Budget,
    attempts: int,
) -> batches.BatchOutcome:
    """Run jobs on the chosen engine, and tell in the status line how far they are.

    Args:
        jobs: what to run.
        phase: what the status line says of it.
        options: the engine.
        settings: where a cluster is.
        run_task: runs a job in this process.
        open_runner: opens what runs jobs in another one.
        budget: what may be spent.
        attempts: how often a job is tried.
    """

    def announce_progress(outcome: batches.BatchOutcome) -> None:
        text = describe_progress(phase, outcome.done, outcome.total, outcome.seconds, decimals=1)
        announce(text + (f", {len(outcome.failures)} failed" if outcome.failures else ""))

    rules = batches.FailureRules(list_expected_errors(), FATAL_ERRORS, attempts)
    if ray_options := options.make_ray_options(settings):
        return await batches.run_jobs_on_ray(
            jobs, open_runner, rules, options=ray_options, budget=budget, on_progress=announce_progress
        )
    return await batches.run_jobs(
        jobs, run_task, rules, workers=options.workers, budget=budget, on_progress=announce_progress
    )
