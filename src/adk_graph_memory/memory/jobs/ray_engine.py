"""Process the pages of a batch job on a Ray cluster, or on a local one that this process starts.

Pages go through one stage of Ray Data, whose actors read, compute and write. Nothing but pages and small results
travels between machines. An actor never raises, because Ray would drop the page or retry it for ever: a failure is a
result. Who plans pages plans again what the database says is left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from adk_graph_memory import errors

P = TypeVar("P")
R = TypeVar("R")
OpenWorker = Callable[[], AbstractAsyncContextManager[Callable[[P], Awaitable[R]]]]
"""Opens what processes pages; pickled, and called once in each actor."""

MAX_BLOCKS = 1_000
"""Blocks that pages travel in; Ray's own bookkeeping grows with their number."""
ATTEMPTS = 3
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_ENABLE_AUTO_CONNECT": "0"}
"""Ray would report the use of a cluster to its makers, and complain of what its own stage does. The thread that waits
for a run that was given up would start another cluster as the first one shuts down; with that thread the cluster would
end, and with the cluster this process. Ray reads this when it is imported."""
CONNECT_TIMEOUT = 10.0
"""Seconds that a cluster's address may take to answer; Ray itself gives up after minutes, and ends the process."""


@dataclass(frozen=True, slots=True)
class RayOptions:
    """A cluster, and how much of it to use.

    Attributes:
        address: the cluster's, as ``ray.init`` takes it; ``local`` starts one on this machine.
        actors: how many actors at most; it begins with what is free.
        cpus: CPUs of each actor.
        gpus: GPUs of each actor.
        stall_timeout: seconds without a finished page until the run is given up.
        retry_pause: seconds before the second attempt at a page; before the third one, twice as many.
    """

    address: str = "local"
    actors: int = 1
    cpus: float = 1.0
    gpus: float = 0.0
    stall_timeout: float = 1_800.0
    retry_pause: float = 2.0


async def map_pages(
    open_worker: OpenWorker[P, R], pages: AsyncIterator[P], options: RayOptions
) -> AsyncIterator[tuple[P, R | Exception]]:
    """Process each page once, or up to ``ATTEMPTS`` times if it fails; yield it with its result or its last error.

    Raises:
        errors.ConfigurationError: Ray is not installed.
        errors.BatchStalled: no page was finished for too long, or Ray gave up.
    """
    planned = [page async for page in pages]
    if not planned:
        return
    results, is_closed, left = asyncio.Queue[Any](), threading.Event(), set(range(len(planned)))
    with connect_ray(options.address) as ray:
        stream = _iterate_results(ray, open_worker, planned, options)
        _feed_queue(stream, results, is_closed)
        try:
            while left:
                number, result = await _take_result(results, len(left), options.stall_timeout)
                left.discard(number)
                yield planned[number], result
        finally:
            is_closed.set()


def _feed_queue(stream: Iterator[Any], queue: asyncio.Queue[Any], is_closed: threading.Event) -> None:
    """Feed a queue of this event loop from a blocking stream, and at its end with why it ended or None."""
    loop = asyncio.get_running_loop()

    def feed() -> None:
        end: BaseException | None = None
        with suppress(RuntimeError):  # the loop may be closed by now
            try:
                for item in stream:
                    if is_closed.is_set():
                        return
                    loop.call_soon_threadsafe(queue.put_nowait, item)
            except Exception as error:  # noqa: BLE001  whatever ends the stream is told to who waits for it
                end = error
            loop.call_soon_threadsafe(queue.put_nowait, end)

    # A stage that hangs cannot be interrupted: a daemon thread does not keep the process from ending.
    threading.Thread(target=feed, daemon=True, name="ray results").start()


async def _take_result(results: asyncio.Queue[Any], left: int, stall_timeout: float) -> tuple[int, Any]:
    try:
        async with asyncio.timeout(stall_timeout):
            result = await results.get()
    except TimeoutError as error:
        reason = f"no page was finished for {stall_timeout:g} s"
        raise errors.BatchStalled(reason=reason, pages=left) from error
    if result is None or isinstance(result, BaseException):
        reason = f"Ray gave up: {result}" if result else "Ray ended without it"
        raise errors.BatchStalled(reason=" ".join(reason.split()), pages=left) from result
    number, value = result
    return number, value


def _iterate_results(
    ray: Any, open_worker: OpenWorker[P, R], pages: Sequence[P], options: RayOptions
) -> Iterator[tuple[int, R | Exception]]:
    """Run the stage; yield the number of each page and its result, as they come."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = [{"number": number, "page": pickle.dumps(page)} for number, page in enumerate(pages)]
    results = ray.data.from_items(rows, override_num_blocks=min(len(rows), MAX_BLOCKS)).map_batches(
        PageActor,
        fn_constructor_args=(open_worker, options.retry_pause),
        batch_size=1,
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=options.actors),
        num_cpus=options.cpus,
        num_gpus=options.gpus,
    )
    for row in results.iter_rows():
        yield int(row["number"]), pickle.loads(row["result"])  # noqa: S301  it comes from our own actors


@contextmanager
def connect_ray(address: str) -> Iterator[Any]:
    """Import Ray and connect to the cluster, unless this process is connected to one; leave as it was before."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray.data
    except ImportError as error:
        reason = f'Ray is not installed ({error}): pip install "adk-graph-memory[ray]", or use the local engine.'
        raise errors.ConfigurationError(reason=reason) from error
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if ray.is_initialized():
        yield ray
        return
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if host and port.isdigit():  # else it names no machine
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT).close()
        has_dashboard = False if address == "local" else None  # a dozen processes that nobody looks at
        ray.init(address=address, include_dashboard=has_dashboard, log_to_driver=False, configure_logging=False)
    except (OSError, RuntimeError, ValueError) as error:
        reason = f"no Ray cluster answers at RAY_ADDRESS={address} ({error})."
        raise errors.ConfigurationError(reason=" ".join(reason.split())) from error
    try:
        with redirect_stdout(sys.stderr):  # Ray prints what happens to its machines, among what a command prints
            yield ray
    finally:
        ray.shutdown()


class PageActor:
    """Processes pages in a Ray actor, in one event loop; opens its worker at the first page."""

    def __init__(self, open_worker: OpenWorker[Any, Any], retry_pause: float) -> None:
        self._open_worker, self._retry_pause = open_worker, retry_pause
        self._runner, self._stack = asyncio.Runner(), AsyncExitStack()
        self._process_page: Callable[[Any], Awaitable[Any]] | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Process the page of a batch of one row; return its number and its result, pickled as the page is."""
        [number], [page] = batch["number"], batch["page"]
        result = self._runner.run(self._process_with_retries(pickle.loads(page)))  # noqa: S301  our own driver's
        return {"number": [number], "result": [pickle.dumps(result)]}

    async def _process_with_retries(self, page: Any) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                if self._process_page is None:
                    self._process_page = await self._stack.enter_async_context(self._open_worker())
                return await self._process_page(page)
            except Exception as error:  # noqa: BLE001  raised, it would cost other pages or never end
                if attempt == ATTEMPTS or isinstance(error, errors.ConfigurationError):
                    return simplify_error(error)
                await asyncio.sleep(self._retry_pause * attempt)
        raise AssertionError


def simplify_error(error: Exception) -> errors.GraphMemoryError:
    """The error as it can be sent to another process; those of other packages may not survive the way."""
    if isinstance(error, errors.GraphMemoryError):
        return error
    return errors.GraphMemoryError(f"{type(error).__name__}: {error}")
