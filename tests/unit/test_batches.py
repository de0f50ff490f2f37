"""Many ingests at a time: one after another of each user, within a budget, failed ones again and then listed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from adk_graph_memory.memory.jobs.batches import (
    BatchJob,
    BatchOutcome,
    Budget,
    FailureRules,
    JobResult,
    map_pages,
    run_jobs,
)
from adk_graph_memory.records.extractions import Usage
from adk_graph_memory.records.results import IngestReport

PRICES = (("bard", 1.0, 10.0, 0.0),)


class Fatal(ValueError):
    pass


class Clerk:
    """Runs jobs and notes how many ran at a time, in all and of each group."""

    def __init__(self, failing: dict[str, int] | None = None) -> None:
        self.failing, self.running, self.most, self.order = dict(failing or {}), list[str](), 0, list[str]()

    def make(self, name: str, group: str, calls: int = 1) -> BatchJob:
        async def run_clerk_job() -> JobResult:
            assert group not in self.running
            self.running.append(group)
            self.most = max(self.most, len(self.running))
            await asyncio.sleep(0.01)
            self.running.remove(group)
            self.order.append(name)
            if self.failing.get(name, 0):
                self.failing[name] -= 1
                raise (Fatal if name.startswith("fatal") else ValueError)(name)
            return JobResult(IngestReport(turns=1, usage=Usage(calls, 1_000_000, 0)), name)

        return BatchJob(name, group, run_clerk_job, calls)


async def run_all_jobs(jobs: Sequence[BatchJob], workers: int = 3, budget: Budget | None = None) -> BatchOutcome:
    rules = FailureRules(expected=(ValueError,), fatal=(Fatal,))
    return await run_jobs(jobs, lambda task: task(), rules, workers=workers, budget=budget or Budget())


async def test_groups_run_side_by_side_and_their_jobs_one_after_another() -> None:
    clerk = Clerk()
    outcome = await run_all_jobs([clerk.make(f"{group}{n}", group) for n in range(3) for group in "abcde"])
    assert (outcome.done, outcome.left, outcome.is_complete, clerk.most) == (15, 0, True, 3)
    assert [name for name in clerk.order if name[0] == "a"] == ["a0", "a1", "a2"]
    assert outcome.report.turns == 15
    assert {result.value for result in outcome.results.values()} == set(clerk.order)
    assert (await run_all_jobs([])).is_complete


async def test_what_fails_is_tried_again_after_the_others_and_then_listed() -> None:
    clerk = Clerk({"a0": 1, "b0": 9})
    outcome = await run_all_jobs([clerk.make(name, name[0]) for name in ("a0", "a1", "b0", "b1")])
    assert [name for name in clerk.order if name[0] == "a"] == ["a0", "a1", "a0"]
    assert (outcome.done, outcome.left, outcome.failures.keys()) == (3, 0, {"b0"})
    assert clerk.failing["b0"] == 7


@pytest.mark.parametrize(("max_calls", "done"), [(0, 0), (1, 0), (2, 1), (5, 2), (100, 4)])
async def test_no_more_calls_are_made_than_allowed(max_calls: int, done: int) -> None:
    clerk, budget = Clerk(), Budget(max_calls)
    outcome = await run_all_jobs([clerk.make(f"{group}0", group, calls=2) for group in "abcd"], budget=budget)
    assert (outcome.done, outcome.left) == (done, 4 - done)
    assert budget.usage.calls == 2 * done <= max_calls


async def test_nothing_more_begins_once_the_cost_is_reached() -> None:
    clerk, budget = Clerk(), Budget(max_cost=2.0, prices=PRICES, model="bard")
    outcome = await run_all_jobs([clerk.make(f"a{n}", "a") for n in range(5)], budget=budget)
    assert (outcome.done, outcome.left, budget.cost) == (2, 3, 2.0)
    free = await run_all_jobs([clerk.make(f"b{n}", "b", calls=0) for n in range(3)], budget=budget)
    assert free.is_complete  # rules cost nothing


async def test_what_would_fail_every_job_ends_the_run() -> None:
    clerk = Clerk({"fatal": 1})
    jobs = [clerk.make("a0", "a"), clerk.make("fatal", "b"), *(clerk.make(f"c{n}", "c") for n in range(9))]
    outcome = await run_all_jobs(jobs, workers=2)
    assert isinstance(outcome.fatal_error, Fatal)
    assert "c8" not in clerk.order
    assert outcome.left == len(jobs) - outcome.done - 1 > 0


async def test_what_is_too_large_for_the_budget_holds_up_nothing() -> None:
    clerk, budget = Clerk(), Budget(10)
    outcome = await run_all_jobs([clerk.make("large", "a", calls=20), clerk.make("small", "b", calls=2)], budget=budget)
    assert (clerk.order, outcome.done, outcome.left) == (["small"], 1, 1)


async def test_what_was_reserved_and_not_used_is_used_by_others() -> None:
    clerk, budget = Clerk(), Budget(4)
    jobs = [clerk.make(f"{group}0", group, calls=1) for group in "abc"]
    greedy = [BatchJob(job.name, job.group, job.task, calls=2) for job in jobs]  # each takes one
    outcome = await run_all_jobs(greedy, budget=budget)
    assert (outcome.done, outcome.left, budget.usage.calls) == (3, 0, 3)


async def test_a_failed_job_counts_as_if_it_had_used_all() -> None:
    clerk, budget = Clerk({"a0": 1}), Budget(3)
    outcome = await run_all_jobs([clerk.make("a0", "a", calls=2)], budget=budget)
    assert (outcome.done, outcome.failures.keys(), budget.usage.calls) == (0, {"a0"}, 2)


async def test_a_bug_ends_the_run_too() -> None:
    async def fail() -> JobResult:
        raise KeyError("bug")

    clerk = Clerk()
    jobs = [BatchJob("bug", "z", fail), *(clerk.make(f"a{n}", "a") for n in range(9))]
    with pytest.raises(KeyError):
        await run_all_jobs(jobs, workers=2)
    assert "a8" not in clerk.order


# -- pages ------------------------------------------------------------------------------------------------------


async def iterate(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


async def test_pages_are_processed_a_few_at_a_time_and_each_has_its_result() -> None:
    running, most = set[int](), 0

    async def square(page: int) -> int:
        nonlocal most
        running.add(page)
        most = max(most, len(running))
        await asyncio.sleep(0.001 * (page % 3))
        running.discard(page)
        return page * page

    results = {page: result async for page, result in map_pages(square, iterate(20), 3)}
    assert (results, most) == ({page: page * page for page in range(20)}, 3)


async def test_a_page_that_fails_ends_the_others() -> None:
    cancelled = list[int]()

    async def fail(page: int) -> int:
        if page == 1:
            raise ValueError("no luck")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(page)
            raise
        return page

    with pytest.raises(ValueError, match="no luck"):
        async for _ in map_pages(fail, iterate(5), 2):
            pass
    assert cancelled == [0]
