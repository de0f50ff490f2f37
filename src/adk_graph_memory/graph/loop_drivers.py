"""Keep an async driver for each event loop, and close it when nothing uses it any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from neo4j import AsyncDriver


@dataclass(eq=False)
class _LoopDriver:
    """A loop's driver, the generator that closes it, and how many operations use it."""

    driver: AsyncDriver
    generator: AsyncGenerator[AsyncDriver]
    users: int = 0


class LoopDrivers:
    """The drivers of event loops: one for each loop, opened at its first use and closed when the loop shuts down.

    A driver that is closed while it connects leaves the new connection open. So a driver that is dropped is closed by
    the last operation that uses it.

    Args:
        open_driver: opens one.
    """

    def __init__(self, open_driver: Callable[[], AsyncDriver]) -> None:
        self._open_driver = open_driver
        self._drivers: dict[asyncio.AbstractEventLoop, _LoopDriver] = {}

    async def get_driver(self) -> AsyncDriver:
        """The driver of the running loop."""
        return (await self._get_loop_driver()).driver

    @asynccontextmanager
    async def use_driver(self) -> AsyncIterator[AsyncDriver]:
        """The driver of the running loop, which stays open for the length of the block."""
        loop_driver = await self._get_loop_driver()
        loop_driver.users += 1
        try:
            yield loop_driver.driver
        finally:
            loop_driver.users -= 1
            await self._close_dropped(loop_driver)

    async def drop_driver(self, driver: AsyncDriver | None = None) -> None:
        """Let the running loop's next operation open another driver.

        Args:
            driver: nothing happens if this is not the loop's driver any more.
        """
        loop = asyncio.get_running_loop()
        loop_driver = self._drivers.get(loop)
        if loop_driver is not None and driver in (None, loop_driver.driver):
            del self._drivers[loop]
            await self._close_dropped(loop_driver)

    async def _get_loop_driver(self) -> _LoopDriver:
        loop = asyncio.get_running_loop()
        if loop not in self._drivers:
            generator = self._open_until_shutdown()
            self._drivers[loop] = _LoopDriver(await anext(generator), generator)
        return self._drivers[loop]

    async def _open_until_shutdown(self) -> AsyncGenerator[AsyncDriver]:
        """Open a driver; asyncio closes a loop's generators, and with this one the driver, before the loop itself."""
        loop = asyncio.get_running_loop()
        for closed_loop in [other for other in list(self._drivers) if other.is_closed()]:
            self._drivers.pop(closed_loop, None)
        driver = self._open_driver()
        try:
            while True:
                yield driver
        finally:
            if (loop_driver := self._drivers.get(loop)) is not None and loop_driver.driver is driver:
                del self._drivers[loop]
            await driver.close()

    async def _close_dropped(self, loop_driver: _LoopDriver) -> None:
        if not loop_driver.users and loop_driver is not self._drivers.get(asyncio.get_running_loop()):
            await loop_driver.generator.aclose()
