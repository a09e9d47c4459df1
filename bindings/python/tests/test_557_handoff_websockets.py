"""WebSockets, lifespan and TLS under real servers that are given their connections."""

from __future__ import annotations

import asyncio
import gc
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvicorn
from aiohttp import web
from giver import StartGiver
from hypercorn.config import Config

import nearcall.aiohttp
import nearcall.hypercorn
import nearcall.uvicorn
from nearcall._handoff_http import HttpServer
from support import PATIENCE_SECONDS


class Application:
    """Of ASGI: sends back what a WebSocket says."""

    def __init__(self) -> None:
        self.lived: list[str] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for what in ("startup", "shutdown"):
                assert (await receive())["type"] == f"lifespan.{what}"
                self.lived.append(what)
                await send({"type": f"lifespan.{what}.complete"})
            return
        assert self.lived == ["startup"]
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})
            return
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"] + " again"})


@asynccontextmanager
async def of_uvicorn(where: str, certificate: Path | None) -> AsyncIterator[None]:
    application = Application()
    config = uvicorn.Config(application, ssl_certfile=certificate, ssl_keyfile=certificate, access_log=False)
    server = nearcall.uvicorn.Server(config, where)
    serving = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield
    server.should_exit = True
    await serving
    assert application.lived == ["startup", "shutdown"]


@asynccontextmanager
async def of_hypercorn(where: str, certificate: Path | None) -> AsyncIterator[None]:
    application, told, config = Application(), asyncio.Event(), Config()
    if certificate is not None:
        config.certfile = config.keyfile = str(certificate)
    serving = asyncio.create_task(nearcall.hypercorn.serve(application, config, where, shutdown_trigger=told.wait))
    yield
    told.set()
    await serving
    assert application.lived == ["startup", "shutdown"]


@asynccontextmanager
async def of_aiohttp(where: str, certificate: Path | None) -> AsyncIterator[None]:
    lived: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        if "Upgrade" not in request.headers:
            return web.Response(text="ok")
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        request.app[sockets].add(socket)
        async for message in socket:
            await socket.send_str(message.data + " again")
        return socket

    async def live(_application: web.Application) -> AsyncIterator[None]:
        lived.append("startup")
        yield
        lived.append("shutdown")

    async def leave(application: web.Application) -> None:
        for socket in application[sockets]:
            await socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)

    application = web.Application()
    sockets = web.AppKey("sockets", set[web.WebSocketResponse])
    application[sockets] = set()
    application.router.add_get("/", answer)
    application.cleanup_ctx.append(live)
    application.on_shutdown.append(leave)
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await nearcall.aiohttp.Site(runner, where, ssl_context=context).start()
    yield
    await runner.cleanup()
    assert lived == ["startup", "shutdown"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("certificate") / "both.pem"
    key = ["-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", path]
    subprocess.run(
        ["openssl", "req", "-x509", "-subj", "/CN=localhost", "-days", "2", *key, "-out", f"{path}.own"],
        check=True,
        capture_output=True,
    )
    with path.open("a") as both:
        both.write(Path(f"{path}.own").read_text())
    return path


def kept_connections() -> int:
    """How many connections the server believes to have."""
    (server,) = (each for each in gc.get_objects() if type(each) is HttpServer and not each.leaving)
    return len(server.kept)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("server", [of_uvicorn, of_hypercorn, of_aiohttp])
def test_websockets(server: Any, secure: bool, where: str, giver_of: StartGiver, certificate: Path) -> None:
    """Those that have ended leave nothing. One that is open ends with the server, and does not keep
    it from ending."""

    async def run() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as client:
            async with server(where, certificate if secure else None):
                giver = await asyncio.to_thread(giver_of, where)
                url = giver.url.replace("http:", "https:") if secure else giver.url
                async with client.get(url) as answer:
                    assert await answer.text() == "ok"
                for number in range(3):
                    async with client.ws_connect(url) as socket:
                        await socket.send_str(f"{number}")
                        assert await socket.receive_str() == f"{number} again"
                stays = await client.ws_connect(url)
                await stays.send_str("hello")
                assert await stays.receive_str() == "hello again"
                while kept_connections() > 1:  # it may be its own
                    await asyncio.sleep(0.01)
                ended = asyncio.create_task(stays.receive())
            message = await ended
            # hypercorn says nothing when it ends, whoever accepts its connections.
            assert message.type is (aiohttp.WSMsgType.CLOSED if server is of_hypercorn else aiohttp.WSMsgType.CLOSE)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))
