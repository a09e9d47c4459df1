"""Connections from other processes on an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Self

from nearcall._errors import NearcallError
from nearcall.handoff import Connection, Listener, Meta

Callback = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Meta], Awaitable[None]]
"""What is called with each connection, and closes it."""

_ACCEPTS_AT_ONCE = 16


class Taking:
    """Takes connections on the running loop until close()."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = asyncio.Event()
        self._descriptor = listener.fileno()
        self._loop.add_reader(self._descriptor, self._accept)

    def _accept(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # The descriptor stays readable while there are more: others have their turn.
        with contextlib.suppress(BlockingIOError):
            for _ in range(_ACCEPTS_AT_ONCE):
                connection, meta = self.listener.accept(0)
                task = self._loop.create_task(self._serve(connection, meta))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        after = self.listener.timeout()
        if after is not None:
            self._timer = self._loop.call_later(after, self._accept)

    async def _serve(self, connection: Connection, meta: Meta) -> None:
        """Owns the connection."""
        raise NotImplementedError

    def close(self) -> None:
        """Takes no more: what was not accepted goes back to its givers. Connections that
        are being served live on."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._stop_taking()
        self.listener.close()

    def _stop_taking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._descriptor)
        with contextlib.suppress(NearcallError):
            self.listener.drain("the server was closed")

    async def wait_closed(self) -> None:
        """Waits for close(), and until every connection has been served."""
        await self._closed.wait()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def serve_forever(self) -> None:
        """Waits for close(); cancelling this closes."""
        try:
            await self._closed.wait()
        finally:
            self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *unused: object) -> None:
        self.close()
        await self.wait_closed()


class Server(Taking):
    """Calls a coroutine with each connection. start_server() makes it."""

    def __init__(self, callback: Callback, listener: Listener, limit: int) -> None:
        super().__init__(listener)
        self._callback = callback
        self._limit = limit

    async def _serve(self, connection: Connection, meta: Meta) -> None:
        reader = asyncio.StreamReader(limit=self._limit, loop=self._loop)
        prefix = connection.take_prefix()
        if prefix:
            reader.feed_data(prefix)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, connection)
        except BaseException:
            connection.close()
            raise
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        try:
            await self._callback(reader, writer, meta)
        finally:
            writer.close()


async def start_server(
    callback: Callback,
    address: str | os.PathLike[str] | int | socket.socket | Listener,
    *,
    limit: int = 2**16,
    **options: Any,
) -> Server:
    """Takes connections on the running loop, and calls callback(reader, writer, meta) for
    each, as a task of its own. The reader begins with the prefix; the writer is closed when
    the callback has ended. options are those of Listener, limit is that of
    asyncio.StreamReader."""
    listener = address if isinstance(address, Listener) else Listener(address, **options)
    return Server(callback, listener, limit)
