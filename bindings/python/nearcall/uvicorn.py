"""uvicorn for connections that another process has accepted, as ``nearcall front`` gives them.

    import uvicorn
    from nearcall.uvicorn import Server

    Server(uvicorn.Config(app), "unix:/run/site/uvicorn-1.sock").run()

Each process has a socket of its own, and the front must be told all of them. On SIGTERM, or
after limit_max_requests, no request is lost: connections between two requests go back to the
front.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import Any

import uvicorn  # type: ignore[import-untyped, import-not-found, unused-ignore]

from nearcall._handoff_http import HttpServer, Kept, listener_of
from nearcall.handoff import Listener

__all__ = ["Server"]


def _rests(kept: Kept) -> bool:
    protocol: Any = kept.inner
    answered = protocol.cycle is None or protocol.cycle.response_complete
    return answered and not getattr(protocol, "pipeline", None)


class Server(uvicorn.Server):  # type: ignore[misc, unused-ignore]
    """A uvicorn.Server with another listener. address and options are those of
    nearcall.handoff.Listener. host, port, fd and uds of the configuration are not used."""

    def __init__(
        self,
        config: uvicorn.Config,
        address: str | os.PathLike[str] | int | socket.socket | Listener,
        **options: Any,
    ) -> None:
        super().__init__(config)
        self._handoff = listener_of(address, options)

    def _make_protocol(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        made: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._taking = HttpServer(self._make_protocol, self._handoff, context=self.config.ssl, rests=_rests)
        servers: Any = self.servers
        servers.append(self._taking)
        logging.getLogger("uvicorn.error").info("Uvicorn takes connections at %s", self._handoff.address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Those that have begun share the list.
        self.server_state.default_headers.append((b"connection", b"close"))
        most = self.config.timeout_graceful_shutdown
        loop = asyncio.get_running_loop()
        end = float("inf") if most is None else loop.time() + most
        await self._taking.drain(lambda: self.force_exit or loop.time() >= end)
        await super().shutdown(sockets)
