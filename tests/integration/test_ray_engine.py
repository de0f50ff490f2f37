"""Batch jobs on a Ray cluster: every page has a result, whatever fails, and the database tells what is left."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adk_graph_memory import errors, ray_engine
from adk_graph_memory.ray_engine import RayOptions

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.xdist_group("ray")


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    """A cluster for all tests here: starting one takes seconds."""
    with ray_engine.connect_ray("local"):
        yield


@asynccontextmanager
async def open_worker(folder: Path) -> AsyncIterator[Callable[[int], Awaitable[int]]]:
    """Opens what squares numbers: odd hundreds fail, 50 hangs, 7 kills its process once, 8 fails once."""

    async def square(number: int) -> int:
        mark = folder / str(number)
        if number in (7, 8) and not mark.exists():
            mark.touch()
            if number == 7:
                os._exit(9)
            raise ConnectionError("once")
        if number == 50:
            await asyncio.sleep(3_600)
        if number == 100:
            raise errors.EmbedderFailed(name="squares", reason="no luck")
        if number == 300:
            raise ValueError(lambda: "an error that cannot be pickled")
        return number * number

    yield square


async def collect_results(folder: Path, numbers: list[int], **options: Any) -> dict[int, Any]:
    async def iterate() -> AsyncIterator[int]:
        for number in numbers:
            yield number

    results = ray_engine.map_pages(partial(open_worker, folder), iterate(), RayOptions(retry_pause=0.01, **options))
    return {
        page: result async for page, result in ray_engine.map_pages(partial(open_worker, folder), iterate(), chosen)
    }


async def test_each_page_has_its_result_and_one_that_fails_costs_no_other(tmp_path: Path) -> None:
    numbers = [*(number for number in range(40) if number != 7), 100, 300]
    results = await collect_results(tmp_path, numbers, actors=2, cpus=0.5)
    assert isinstance(results.pop(100), errors.EmbedderFailed)
    assert "ValueError" in str(results.pop(300))
    assert results == {number: number * number for number in numbers[:-2]}  # 8 failed once
    assert await collect_results(tmp_path, []) == {}


@pytest.mark.full
async def test_a_page_whose_process_dies_is_processed_again(tmp_path: Path) -> None:
    assert await collect_results(tmp_path, [6, 7, 9]) == {6: 36, 7: 49, 9: 81}


@pytest.mark.full
@pytest.mark.parametrize(("numbers", "cpus"), [([1, 50], 0.5), ([1], 99.0)], ids=["hangs", "no room"])
async def test_a_run_that_stands_still_is_given_up(tmp_path: Path, numbers: list[int], cpus: float) -> None:
    with pytest.raises(errors.BatchStalled, match=r"pages left .*no page was finished for 5 s"):
        await collect_results(tmp_path, numbers, cpus=cpus, stall_timeout=5.0)
