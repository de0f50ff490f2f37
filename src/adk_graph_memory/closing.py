"""Something that holds connections goes into an ``async with`` block; it is closed when that ends."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closeable:
    """What has a ``close`` may stand in ``async with``."""

    async def close(self) -> None:
        """Closes what was opened; may be called again."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
