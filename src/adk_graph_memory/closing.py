"""Close objects that hold connections at the end of an ``async with`` block."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closeable:
    """Base class that makes a class with ``close`` an async context manager."""

    async def close(self) -> None:
        """Close what this object opened; may be called again."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
