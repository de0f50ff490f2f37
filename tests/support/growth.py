"""What takes time in proportion to its input, told from what takes the square of it."""

from __future__ import annotations

import time
from collections.abc import Callable


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Fail if eight times the input takes more than 24 times the processor's time, three times in a row.

    Quadratic work takes 64 times as long each time; a garbage collection or another thread's work does not.
    """
    work(1)
    assert any(_measure_growth(work, size - 8 * attempt) < 24 for attempt in range(3))  # new sizes: nothing is cached


def _measure_growth(work: Callable[[int], object], size: int) -> float:
    seconds = []
    for part in (size // 8, size):
        began = time.process_time()
        work(part)
        seconds.append(time.process_time() - began)
    return seconds[1] / max(seconds[0], 0.005)  # of less than five milliseconds, the clock's own noise is a large part
