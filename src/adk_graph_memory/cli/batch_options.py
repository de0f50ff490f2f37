"""What commands that run many ingests share: their options, the budget, and how they tell where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import typer

from adk_graph_memory import batches, errors, ray_engine
from adk_graph_memory.cli.application import EXPECTED_ERRORS, UsageError
from adk_graph_memory.cli.output import announce
from adk_graph_memory.memory import RULES
from adk_graph_memory.settings import Settings

EXIT_BUDGET_SPENT = 3
BUDGET_SPENT = "The budget does not allow the rest; the same command goes on."
FATAL_ERRORS = (
    errors.DatabaseUnavailable,
    errors.AuthenticationFailed,
    errors.PermissionDenied,
    errors.DatabaseReadOnly,
    errors.SchemaError,
    errors.EmbeddingError,
)
"""Errors that would fail every further session too."""
WorkersOption = Annotated[int, typer.Option(min=1, help="How many users are read at a time.")]
MaxCallsOption = Annotated[
    int | None, typer.Option(min=0, help="Calls of the model in all; what is expected to need more is not begun.")
]
MaxCostOption = Annotated[float | None, typer.Option(min=0, help="Begin nothing more once this much is spent.")]


class EngineName(StrEnum):
    """Where a batch job runs."""

    LOCAL = "local"
    RAY = "ray"


EngineOption = Annotated[
    EngineName,
    typer.Option(help="local: this process; ray: the cluster of RAY_ADDRESS, or one that is started here."),
]
WorkerCpusOption = Annotated[float, typer.Option(min=0, help="With --engine ray: CPUs of each worker.")]
WorkerGpusOption = Annotated[float, typer.Option(min=0, help="With --engine ray: GPUs of each worker.")]
StallTimeoutOption = Annotated[
    float, typer.Option(min=1, help="With --engine ray: seconds without progress until it is given up.")
]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of the engine, as a command takes them."""

    engine: EngineName
    workers: int
    worker_cpus: float
    worker_gpus: float
    stall_timeout: float

    def make_ray_options(self, settings: Settings) -> ray_engine.RayOptions | None:
        """Make the options of Ray; None if another engine is chosen."""
        if self.engine is not EngineName.RAY:
            return None
        return ray_engine.RayOptions(
            settings.ray_address, self.workers, self.worker_cpus, self.worker_gpus, self.stall_timeout
        )


def make_budget(
    settings: Settings, models: Iterable[str], max_calls: int | None, max_cost: float | None
) -> batches.Budget:
    """Make a budget for what these models are to read; a cost needs one model that has a price."""
    names = sorted(set(models) - {RULES})
    budget = batches.Budget(max_calls, max_cost, settings.prices, names[0] if names else RULES)
    if max_cost is not None and len(names) > 1:
        raise UsageError(f"--max-cost: several models are to read ({', '.join(names)}); choose one with --model.")
    if max_cost is not None and names and budget.cost is None:
        raise UsageError(f"--max-cost: {names[0]} has no price; set ADK_GRAPH_MEMORY_PRICES.")
    return budget


async def run_batch(
    jobs: Sequence[batches.BatchJob],
    phase: str,
    open_runner: Callable[[], AbstractAsyncContextManager[batches.RunTask]],
    *,
    workers: int,
    budget: batches.Budget,
    attempts: int,
    ray_options: ray_engine.RayOptions | None = None,
) -> batches.BatchOutcome:
    """Run jobs in this process, or with ``ray_options`` on Ray, and tell in the status line how far they are."""

    def announce_progress(outcome: batches.BatchOutcome) -> None:
        text = f"{phase}: {outcome.done:,} of {outcome.total:,}"
        if outcome.done and outcome.seconds:
            rate = outcome.done / outcome.seconds
            text += f", {rate:,.1f}/s, {timedelta(seconds=round((outcome.total - outcome.done) / rate))} left"
        announce(text + (f", {len(outcome.failures)} failed" if outcome.failures else ""))

    rules = batches.FailureRules(EXPECTED_ERRORS, FATAL_ERRORS, attempts)
    if ray_options is not None:
        return await batches.run_jobs_on_ray(
            jobs, open_runner, rules, options=ray_options, budget=budget, on_progress=announce_progress
        )
    async with open_runner() as run_task:
        return await batches.run_jobs(
            jobs, run_task, rules, workers=workers, budget=budget, on_progress=announce_progress
        )
