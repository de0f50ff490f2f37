"""A wire to a server that can be cut, silenced and mended, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


@dataclass(slots=True)
class Gate:
    """Whether the connections that were made at one time let anything through."""

    is_shut: bool = False


class Wire:
    """Leads from an address of its own to a server's, as long as it is whole.

    Args:
        uri: the server's.
    """

    def __init__(self, uri: str) -> None:
        address = urlsplit(uri)
        self._place = address.hostname or "", address.port or 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._ends: set[asyncio.StreamWriter] = set()
        self._is_whole = True
        self._gate = Gate()

    def __enter__(self) -> Self:
        self._thread.start()
        self._listen(0)
        self._port = self._server.sockets[0].getsockname()[1]
        self.uri = f"bolt://127.0.0.1:{self._port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        while left := asyncio.all_tasks(self._loop):
            self._loop.run_until_complete(asyncio.wait(left))
        self._loop.close()

    def cut(self) -> None:
        """Ends all connections; further ones end at once."""
        self._is_whole = False
        asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result()

    def refuse(self) -> None:
        """Ends all connections; whoever connects is refused from now on, as by a server that was stopped."""
        self._loop.call_soon_threadsafe(self._server.close)
        self.cut()

    def mend(self) -> None:
        """Lets new connections through again."""
        if not self._server.is_serving():
            self._listen(self._port)
        self._is_whole = True
        self._gate = Gate()

    def silence(self, *, new: bool = False) -> None:
        """Lets nothing through the connections there are, for good, as a firewall that has forgotten them.

        Args:
            new: whether further ones are silent too, until the wire is mended.
        """
        self._gate.is_shut = True
        self._gate = Gate(is_shut=new)

    def _listen(self, port: int) -> None:
        starting = asyncio.start_server(self._lead, "127.0.0.1", port)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result()

    async def _close_all(self) -> None:
        ends, self._ends = self._ends, set()
        for end in ends:
            end.close()
        await asyncio.gather(*(end.wait_closed() for end in ends), return_exceptions=True)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_whole:
            writer.close()
            return
        server_reader, server_writer = await asyncio.open_connection(*self._place)
        self._ends |= {writer, server_writer}
        gate = self._gate
        await asyncio.gather(_pump(reader, server_writer, gate), _pump(server_reader, writer, gate))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: Gate) -> None:
    try:
        while data := await reader.read(65_536):
            if not gate.is_shut:
                writer.write(data)
                await writer.drain()
    except OSError:
        pass  # it was cut
    finally:
        writer.close()
