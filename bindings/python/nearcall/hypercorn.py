"""hypercorn for connections that another process has accepted, as ``nearcall front`` gives them.

    import asyncio
    from hypercorn.config import Config
    from nearcall.hypercorn import serve

    asyncio.run(serve(app, Config(), "unix:/run/site/hypercorn-1.sock"))

Each process has a socket of its own, and the front must be told all of them. When the process
stops no request is lost that is answered within graceful_timeout: connections between two
requests go back to the front, and clients of HTTP/2 are told to open no more streams before the
last ones are answered.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from hypercorn.asyncio.lifespan import Lifespan  # type: ignore[import-untyped, import-not-found, unused-ignore]
from hypercorn.asyncio.tcp_server import TCPServer  # type: ignore[import-untyped, import-not-found, unused-ignore]
from hypercorn.asyncio.worker_context import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
    WorkerContext,
)
from hypercorn.config import Config  # type: ignore[import-untyped, import-not-found, unused-ignore]
from hypercorn.events import RawData  # type: ignore[import-untyped, import-not-found, unused-ignore]
from hypercorn.protocol.h2 import H2Protocol  # type: ignore[import-untyped, import-not-found, unused-ignore]
from hypercorn.utils import wrap_app  # type: ignore[import-untyped, import-not-found, unused-ignore]

from nearcall import _core
from nearcall._handoff_http import HttpServer, current, listener_of
from nearcall.handoff import Listener

__all__ = ["serve"]

# GOAWAY without an error, whose last stream is the last there can be (RFC 9113, 6.8): the client
# opens no more, and all that it has opened are served. hypercorn itself resets those that cross
# its word on their way.
_GOAWAY = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00"
# How long a client of HTTP/2 that was told so may have nothing to ask before it is left.
_REST_SECONDS = _core.HANDOFF_REST_MS / 1000
_LOOK_AGAIN_SECONDS = 0.01


class _Streams:
    """An HTTP/2 client that is told to open no more streams."""

    def __init__(self, server: TCPServer) -> None:
        self._server = server
        self._telling: asyncio.Future[None] | None = None
        self._busy_until = 0.0

    def part(self) -> bool:
        """Returns whether it is to be waited for. One that reads nothing is told when it has
        read what was sent before."""
        wrapper: Any = getattr(self._server, "protocol", None)  # there is none until it runs
        protocol: Any = getattr(wrapper, "protocol", None)
        if not isinstance(protocol, H2Protocol) or protocol.closed:
            return False
        now = asyncio.get_running_loop().time()
        if self._telling is None:
            self._telling = asyncio.ensure_future(self._server.protocol_send(RawData(_GOAWAY)))
        if not self._telling.done() or not protocol.idle:
            self._busy_until = now
        return now < self._busy_until + _REST_SECONDS


class _Application:
    """The application. It notes when a request was answered, and says with each answer whether it is
    the last one on its connection."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self.taking: HttpServer | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any, *helpers: Any) -> None:
        kept = current.get(None)
        if kept is None or scope["type"] != "http" or scope["http_version"] not in ("1.0", "1.1"):
            await self._application(scope, receive, send, *helpers)
            return

        async def answer(message: Any) -> None:
            begins = message["type"] == "http.response.start"
            if begins and self.taking is not None and self.taking.leaving:
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                kept.resting = True

        await self._application(scope, receive, answer, *helpers)


class _Run:
    """hypercorn's own serve() with another listener."""

    def __init__(self, application: Any, config: Config, listener: Listener) -> None:
        self._application = _Application(application)
        self._config = config
        self._listener = listener
        self._state: dict[str, Any] = {}
        self._context = WorkerContext(config.max_requests)
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams: set[_Streams] = set()

    def _make(self) -> asyncio.Protocol:
        loop = asyncio.get_running_loop()
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), self._serve, loop=loop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: Any = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        loop = asyncio.get_running_loop()
        application: Any = self._application
        server = TCPServer(application, loop, self._config, self._context, self._state, reader, writer)
        streams = _Streams(server)
        self._streams.add(streams)
        try:
            await server
        finally:
            self._streams.discard(streams)

    async def until(self, told: Callable[[], Awaitable[object]]) -> None:
        loop = asyncio.get_running_loop()
        application: Any = self._application
        lifespan = Lifespan(application, self._config, loop, self._state)
        living = loop.create_task(lifespan.handle_lifespan())
        await lifespan.wait_for_startup()
        if living.done() and living.exception() is not None:
            await living
        context = self._config.create_ssl_context() if self._config.ssl_enabled else None
        taking = self._application.taking = HttpServer(self._make, self._listener, context=context)
        await self._config.log.info(f"Taking connections at {self._listener.address}")
        try:
            await self._first(told(), self._context.terminate.wait())
        finally:
            await self._end(taking)
            await lifespan.wait_for_shutdown()
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)

    async def _first(self, *events: Awaitable[object]) -> None:
        waiting = [asyncio.ensure_future(event) for event in events]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for event in waiting:
                event.cancel()

    async def _end(self, taking: HttpServer) -> None:
        end = asyncio.get_running_loop().time() + self._config.graceful_timeout
        draining = asyncio.ensure_future(taking.drain(lambda: asyncio.get_running_loop().time() >= end))
        await self._part(draining, end)
        await draining
        await self._context.terminated.set()
        taking.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(0, end - asyncio.get_running_loop().time()))
        for kept in list(taking.kept):
            kept.transport.abort()  # a client that reads nothing would keep the loop from ending

    async def _part(self, draining: asyncio.Future[None], end: float) -> None:
        """Waits until no client of HTTP/2 has anything to ask. Others may become such until all
        is drained."""
        loop = asyncio.get_running_loop()
        while loop.time() < end:
            drained = draining.done()
            waited = [streams.part() for streams in self._streams]
            if drained and not any(waited):
                return
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def _signalled() -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    await told.wait()


async def serve(
    app: Any,
    config: Config,
    address: str | os.PathLike[str] | int | socket.socket | Listener,
    *,
    shutdown_trigger: Callable[[], Awaitable[object]] | None = None,
    mode: Literal["asgi", "wsgi"] | None = None,
    **options: Any,
) -> None:
    """Does what hypercorn.asyncio.serve does, with another listener. address and options are those of
    nearcall.handoff.Listener. The addresses to bind in the configuration are not used."""
    application = wrap_app(app, config.wsgi_max_body_size, mode)
    await _Run(application, config, listener_of(address, options)).until(shutdown_trigger or _signalled)
