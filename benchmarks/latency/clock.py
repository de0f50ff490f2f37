"""Time the calls of several contenders in turn (A B A B …)."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

Call = Callable[[], Awaitable[object]]
Contenders = Mapping[str, Sequence[Call]]
Times = dict[str, tuple[float, ...]]


async def time_in_turn(rounds: int, warm_up: int, enter: Callable[[], Awaitable[Contenders]]) -> Times:
    """The median of each round's calls, for each contender.

    Args:
        rounds: how many count.
        warm_up: how many are made before them, until Neo4j's JVM has compiled what they run.
        enter: makes ready the calls of one round, as many for each contender; its own time does not count.
    """
    rounds_of: dict[str, list[float]] = {}
    for number in range(-warm_up, rounds):
        spent = await _run_round(await enter())
        if number >= 0:
            for name, milliseconds in spent.items():
                rounds_of.setdefault(name, []).append(statistics.median(milliseconds))
    return {name: tuple(values) for name, values in rounds_of.items()}


async def _run_round(contenders: Contenders) -> dict[str, list[float]]:
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    for calls in zip(*contenders.values(), strict=True):
        for name, call in zip(contenders, calls, strict=True):
            spent[name].append(await time_call(call))
    return spent


async def time_call(call: Call) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    await call()
    return (time.perf_counter() - start) * 1_000
