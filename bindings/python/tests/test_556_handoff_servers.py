"""How servers behind a front end while a client keeps them busy. Under load the same servers run in examples."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from aiohttp import web
from giver import StartGiver
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes
from hypercorn.config import Config
from hypercorn.utils import wrap_app

from nearcall.aiohttp import Site
from nearcall.handoff import Listener
from nearcall.hypercorn import _Run
from support import PATIENCE_SECONDS

END_SECONDS = 0.5
"""What each server is told that its end may take."""


Run = Callable[[Listener, socket.socket], Awaitable[None]]


def run_beside_client(giver_of: StartGiver, where: str, run: Run) -> None:
    """The client's connection is open until the loop has ended, too."""
    with Listener(where) as listener, giver_of(where).connect() as client:

        async def main() -> None:
            try:
                await asyncio.wait_for(run(listener, client), PATIENCE_SECONDS)
            except BaseException:
                client.close()  # so that the loop ends
                raise

        asyncio.run(main())


def greedy_request() -> bytes:
    """Asks for more than any window holds."""
    connection = H2Connection(config=H2Configuration(client_side=True))
    connection.initiate_connection()
    connection.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: (1 << 31) - 1})
    connection.increment_flow_control_window(1 << 30)
    head = {":method": "GET", ":path": "/", ":scheme": "http", ":authority": "x"}
    connection.send_headers(1, list(head.items()), end_stream=True)
    return connection.data_to_send()


async def endless(scope: dict[str, Any], _receive: object, send: Callable[[dict[str, Any]], Any]) -> NoReturn:
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})


def test_hypercorn_ends_where_a_client_reads_nothing(where: str, giver_of: StartGiver) -> None:
    async def run(listener: Listener, client: socket.socket) -> None:
        config = Config()
        config.graceful_timeout = END_SECONDS
        server = _Run(wrap_app(endless, config.wsgi_max_body_size, "asgi"), config, listener)
        client.sendall(greedy_request())

        async def is_stuck() -> None:
            while not (taking := server._application.taking) or not any(
                kept.transport.get_write_buffer_size() > kept.transport.get_write_buffer_limits()[1]
                for kept in taking.kept
            ):
                await asyncio.sleep(0.01)

        await server.until(is_stuck)

    run_beside_client(giver_of, where, run)


def test_aiohttp_ends_where_a_request_does_not(where: str, giver_of: StartGiver) -> None:
    async def run(listener: Listener, client: socket.socket) -> None:
        begun = asyncio.Event()

        async def wait(_request: web.Request) -> NoReturn:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        application = web.Application()
        application.router.add_get("/", wait)
        runner = web.AppRunner(application, shutdown_timeout=END_SECONDS)
        await runner.setup()
        await Site(runner, listener).start()
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await begun.wait()
        await runner.cleanup()

    run_beside_client(giver_of, where, run)
