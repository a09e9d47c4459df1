"""aiohttp on connections that another process has accepted, as ``nearcall front`` gives them.

    from aiohttp import web
    from nearcall.aiohttp import Site

    runner = web.AppRunner(app)
    await runner.setup()
    await Site(runner, "unix:/run/site/aiohttp-1.sock").start()
    ...
    await runner.cleanup()

Each process has a socket of its own, and the front is told all of them. cleanup() loses no
request: connections between two requests go back to the front.
"""

from __future__ import annotations

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
    """A site whose connections are given. address and options are those of
    nearcall.handoff.Listener."""

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
            await served.drain()
        await super().stop()
