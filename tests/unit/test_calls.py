"""What fails by the way is told from what fails for good, and no more calls run at once than may, in whatever loop."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from typing import Any

import httpx
import pytest

from adk_graph_memory.runtime import concurrency


class Coded(Exception):
    def __init__(self, **codes: int) -> None:
        super().__init__(str(codes))
        self.__dict__.update(codes)


@pytest.mark.parametrize(
    "error",
    [
        Coded(code=429),
        Coded(status_code=503),
        httpx.ReadTimeout("late"),
        httpx.RemoteProtocolError("hung up"),
        ConnectionResetError(),
        TimeoutError(),
        json.JSONDecodeError("half", "{", 1),
    ],
    ids=repr,
)
def test_what_may_do_better_later_passes(error: Exception) -> None:
    assert concurrency.is_transient(error)


@pytest.mark.parametrize("error", [Coded(code=400), Coded(status_code=401), ValueError("no"), KeyError("x")], ids=repr)
def test_what_will_not_do_better_does_not_pass(error: Exception) -> None:
    assert not concurrency.is_transient(error)


def test_the_other_http_library_counts_as_one() -> None:
    httpx2 = pytest.importorskip("httpx2")
    assert concurrency.is_transient(httpx2.ConnectError("no route"))


def test_each_pause_is_about_twice_the_last() -> None:
    pauses = list(itertools.islice(concurrency.generate_backoff_delays(1.0), 5))
    assert all(0.5 * 2**n <= pause <= 1.5 * 2**n for n, pause in enumerate(pauses))


class Crowd:
    """Everybody inside a throttle, counted."""

    def __init__(self, at_once: int) -> None:
        self.throttle, self.inside, self.most, self.been = concurrency.Throttle(at_once), 0, 0, 0
        self._lock = threading.Lock()

    async def enter(self, name: Any = None) -> Any:
        async with self.throttle.hold_permit():
            self._count(1)
            await asyncio.sleep(0.002)
            self._count(-1)
            return name

    def _count(self, change: int) -> None:
        with self._lock:
            self.inside += change
            self.most = max(self.most, self.inside)
            self.been += change > 0


async def test_so_many_are_inside_at_once() -> None:
    crowd = Crowd(3)
    await asyncio.gather(*(crowd.enter() for _ in range(20)))
    assert (crowd.most, crowd.been, crowd.inside) == (3, 20, 0)


def test_loops_share_the_places() -> None:
    crowd = Crowd(3)

    async def many() -> None:
        await asyncio.gather(*(crowd.enter() for _ in range(10)))

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (crowd.most, crowd.been, crowd.inside) == (3, 40, 0)


async def test_first_come_first_served() -> None:
    crowd = Crowd(1)
    entering = asyncio.as_completed([asyncio.create_task(crowd.enter(n)) for n in range(8)])
    assert [await item for item in entering] == list(range(8))


async def test_who_gives_up_waiting_takes_no_place() -> None:
    crowd = Crowd(1)
    async with crowd.throttle.hold_permit():
        waiting = [asyncio.create_task(crowd.enter()) for _ in range(3)]
        await asyncio.sleep(0.001)
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
    await asyncio.wait_for(asyncio.gather(*waiting[1:]), 30)
    assert crowd.been == 2


async def test_a_place_that_comes_to_one_who_just_gave_up_goes_to_the_next() -> None:
    crowd = Crowd(1)
    async with crowd.throttle.hold_permit():
        late, next_one = (asyncio.create_task(crowd.enter()) for _ in range(2))
        await asyncio.sleep(0.001)
    late.cancel()  # the place is given already, and the loop has not told it yet
    await asyncio.wait_for(next_one, 30)
    assert (late.cancelled(), crowd.been) == (True, 1)


async def test_a_call_that_fails_leaves_its_place() -> None:
    crowd = Crowd(1)
    with pytest.raises(ZeroDivisionError):
        async with crowd.throttle.hold_permit():
            _ = 1 / 0
    await asyncio.wait_for(crowd.enter(), 30)


def test_whoever_allows_as_many_shares_the_throttle() -> None:
    assert concurrency.get_shared_throttle(7) is concurrency.get_shared_throttle(7)
    assert concurrency.get_shared_throttle(7) is not concurrency.get_shared_throttle(8)
