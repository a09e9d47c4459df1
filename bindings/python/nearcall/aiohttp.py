"""aiohttp for connections that another process has accepted, as ``nearcall front`` gives them.

    from aiohttp import web
    from nearcall.aiohttp import Site

    runner = web.AppRunner(app)
    await runner.setup()
    await Site(runner, "unix:/run/site/aiohttp-1.sock").start()
    ...
    await runner.cleanup()

Each process has a socket of its own, and the front must be told all of them. cleanup() does not
lose a request that is answered within the runner's shutdown_timeout: connections between two
requests go back to the front.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import Any

from aiohttp import web  # type: ignore[import-untyped, import-not-found, unused-ignore]

from nearcall._handoff_http import HttpServer, Kept, listener_of
from nearcall.handoff import Listener

__all__ = ["Site"]


def _rests(kept: Kept) -> bool:
    protocol: Any = kept.inner
    return protocol._waiter is not None and not protocol._messages


class Site(web.BaseSite):  # type: ignore[misc, unused-ignore]
    """A site that is given its connections. address and options are those of nearcall.handoff.Listener."""

    def __init__(
        self,
        runner: web.BaseRunner,
        address: str | os.PathLike[str] | int | socket.socket | Listener,
        *,
        ssl_context: ssl.SSLContext | None = None,
        **options: Any,
    ) -> None:
        super().__init__(runner, ssl_context=ssl_context)
        self._listener = listener_of(address, options)

    @property
    def name(self) -> str:
        return str(self._listener.address)

    async def start(self) -> None:
        await super().start()
        server: Any = self._runner.server
        taking = HttpServer(server, self._listener, context=self._ssl_context, rests=_rests)
        answer = server.request_handler

        async def answer_last(request: Any) -> Any:
            response = await answer(request)
            if taking.leaving and not response.prepared:
                response.force_close()
            return response

        server.request_handler = answer_last
        served: Any = taking  # all that is asked of a server
        self._server = served

    async def stop(self) -> None:
        served: Any = self._server
        if isinstance(served, HttpServer):
            # Requests may have no end of their own, and on_shutdown, by which an application ends
            # those, is called after this.
            loop = asyncio.get_running_loop()
            end = loop.time() + self._runner._shutdown_timeout
            await served.drain(lambda: loop.time() >= end)
        await super().stop()
