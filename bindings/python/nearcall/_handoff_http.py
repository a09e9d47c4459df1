"""HTTP servers of asyncio whose connections come from other processes.

The adapters for uvicorn, hypercorn and aiohttp are made of this. A server that stops loses
no request: what it was offered goes back, every answer says that it is the connection's
last one, and connections between two requests go back to the front, which waits for the
next request and gives it to another process.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import re
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

from nearcall import _core
from nearcall._errors import NearcallError
from nearcall._handoff_server import Taking
from nearcall.handoff import Connection, Listener, Meta

current: contextvars.ContextVar[Kept] = contextvars.ContextVar("nearcall_kept")
"""The connection whose bytes are being served."""

_HEAD_BYTES_MAX = 1 << 20
# How long a connection that cannot go back is left open for its next request.
_REST_SECONDS = _core.HANDOFF_REST_MS / 1000
_LOOK_AGAIN_SECONDS = 0.01
# How long a giver may take to take a connection back.
_HAND_BACK_SECONDS = _core.HANDOFF_BACK_MS / 1000

_FIELD = re.compile(rb"\n(content-length|transfer-encoding|upgrade)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)


class Requests:
    """Follows the bytes of a connection, so as to know whether they end where a request
    does. What it cannot tell it calls unsure, for good."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._body_bytes = 0
        self._unsure = False
        self.upgrades = False

    def between(self) -> bool:
        """No byte of a request was read that is not complete."""
        return not self._unsure and not self._head and self._body_bytes == 0

    def read(self, data: bytes) -> None:
        while data and not self._unsure:
            of_body = min(self._body_bytes, len(data))
            self._body_bytes -= of_body
            data = self._read_head(data[of_body:]) if of_body < len(data) else b""

    def _read_head(self, data: bytes) -> bytes:
        """Returns what follows the head."""
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            self._unsure = len(self._head) > _HEAD_BYTES_MAX
            return b""
        rest = bytes(self._head[end + 4 :])
        fields = [(name.lower(), value) for name, value in _FIELD.findall(self._head, 0, end)]
        lengths = [value for name, value in fields if name == b"content-length"]
        self.upgrades = self._head.startswith(b"PRI ") or any(name == b"upgrade" for name, _ in fields)
        self._unsure = self.upgrades or len(lengths) != len(fields) or len(lengths) > 1
        if lengths and not self._unsure:
            self._unsure = not lengths[0].strip().isdigit()
            self._body_bytes = 0 if self._unsure else int(lengths[0])
        self._head.clear()
        return rest


class Kept(asyncio.Protocol):
    """Stands between a connection and the protocol of its server."""

    def __init__(self, server: HttpServer, inner: asyncio.Protocol, connection: Connection, prefix: bytes) -> None:
        self.inner = inner
        self.resting = True
        self.transport: asyncio.Transport
        self._server = server
        self._connection = connection
        self._prefix = prefix
        self._requests = Requests()
        self._stays = server.ssl is not None
        self._rests_since: float | None = None

    # ---- What the loop tells ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # That of uvloop is none by its class.
        self.transport = cast(asyncio.Transport, transport)
        self._server.kept.add(self)
        token = current.set(self)
        try:
            self.inner.connection_made(transport)
            if self._prefix:
                self.data_received(self._prefix)
        finally:
            current.reset(token)

    def data_received(self, data: bytes) -> None:
        self.resting = False
        self._requests.read(data)
        self.inner.data_received(data)
        if self._requests.upgrades and self.transport.get_protocol() is not self:
            # Another protocol has the connection, as for a WebSocket, and is told of its end.
            self._server.kept.discard(self)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.kept.discard(self)
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    # ---- What the server asks ----

    def is_waited_for(self, now: float) -> bool:
        """Asked again and again by a server that leaves: what rests is waited for no longer
        than _REST_SECONDS."""
        if self.transport.is_closing():
            return self.transport.get_write_buffer_size() > 0  # of the last answer
        if self.transport.get_protocol() is not self or self._requests.upgrades:
            return False
        if not self._server.rests(self):
            self._rests_since = None
            return True
        if self._rests_since is None:
            self._rests_since = now
        return now < self._rests_since + _REST_SECONDS

    def goes(self) -> bool:
        """Whether nothing of it is in this process, so that it can go back."""
        return (
            not self._stays
            and self._requests.between()
            and self._server.rests(self)
            and not self.transport.is_closing()
            and self.transport.get_write_buffer_size() == 0
            and self.transport.get_protocol() is self
        )

    async def hand_back(self) -> None:
        """Gives a copy back. The server sees the end of its own."""
        self.transport.pause_reading()
        copy = self._connection._copy()
        try:
            await asyncio.to_thread(copy.hand_back, timeout=_HAND_BACK_SECONDS, idle=True)
        except (NearcallError, OSError, ValueError):
            copy.close()
            self._stays = True
            if not self.transport.is_closing():
                self.transport.resume_reading()
            return
        self.transport.abort()


class HttpServer(Taking):
    """Makes a protocol for each connection until close(). rests tells of a connection
    whether its server has answered all that it read."""

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        listener: Listener,
        *,
        context: ssl.SSLContext | None = None,
        rests: Callable[[Kept], bool] = lambda kept: kept.resting,
    ) -> None:
        self.ssl = context
        self.rests = rests
        self.kept: set[Kept] = set()
        self.leaving = False
        self._make = make
        super().__init__(listener)

    async def _serve(self, connection: Connection, meta: Meta) -> None:
        prefix = connection.take_prefix()
        if prefix and self.ssl is not None:
            # Its TLS has begun elsewhere.
            connection.close()
            return
        kept = Kept(self, self._make(), connection, prefix)
        try:
            await self._loop.connect_accepted_socket(lambda: kept, connection, ssl=self.ssl)
        except OSError:  # a handshake that failed, or a client that has gone
            connection.close()
        except BaseException:
            connection.close()
            raise

    async def drain(self, hurry: Callable[[], bool] = lambda: False) -> None:
        """Takes no more, hands back what rests, and waits until what has begun is served, or
        hurry says so. Connections that cannot go back stay for their next request, for
        _REST_SECONDS. Meanwhile the server answers each request as the connection's last one."""
        if self.leaving:
            return
        self.leaving = True
        self._stop_taking()
        while not hurry():
            for kept in list(self.kept):
                if kept.goes():
                    await kept.hand_back()
            now = self._loop.time()
            waited_for = [kept for kept in self.kept if kept.is_waited_for(now)]
            if not self._tasks and not waited_for:
                return
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def wait_closed(self) -> None:
        """Is not waited for: drain() is."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        return not self.leaving

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """None listens for clients."""
        return ()


def listener_of(address: str | os.PathLike[str] | int | socket.socket | Listener, options: dict[str, Any]) -> Listener:
    return address if isinstance(address, Listener) else Listener(address, **options)
