"""A call in flight whose connection was lost: the server is asked what became of it."""

from __future__ import annotations

import asyncio
import itertools
import socket
from pathlib import Path

import pytest
from test_516_silent_connections import HalfStoppedServers, two_lanes

from nearcall import AsyncClient, Client, Outcome, Unavailable, _lane, _places
from scripted import ASKS, REPLY, ScriptedServer, function, send, with_shutdown

NEVER, STARTED, FINISHED = 0, 2, 3


class AskedServer(ScriptedServer):
    """Loses each connection that brings a request, until it was asked, and says that all calls came as far as this."""

    features = ASKS

    def __init__(self, path: Path, stage: int) -> None:
        self.questions: list[bytes] = []
        self._stage = stage
        self._keys = itertools.count(1)
        super().__init__(path, function([], []))

    def _key(self) -> bytes:
        return bytes([next(self._keys)]) * 16

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        if not self.questions:
            self.requests.append(payload)
            with_shutdown(connection)
            raise EOFError
        super()._answer_request(connection, call, codec, payload)

    def _answer_question(self, connection: socket.socket, call: int, payload: bytes) -> None:
        self.questions.append(payload)
        send(connection, REPLY, call, 0, bytes([self._stage]) * ((len(payload) - 16) // 8))


@pytest.mark.parametrize(
    ("stage", "outcome"),
    [(NEVER, Outcome.NOT_EXECUTED), (STARTED, Outcome.UNKNOWN), (FINISHED, Outcome.EXECUTED_RESULT_LOST)],
)
def test_async_client_asks(stage: int, outcome: Outcome, folder: Path) -> None:
    async def main(server: AskedServer) -> None:
        async with AsyncClient(server.address, timeout=8, attempts=1) as go:
            with pytest.raises(Unavailable, match="the server says that") as raised:
                await go.call("f")
            assert raised.value.outcome is outcome
            assert await go.call("f") is None

    with AskedServer(folder / "asked.sock", stage) as server:
        asyncio.run(main(server))
        assert [question[:1] for question in server.questions] == [b"\x01"]


def test_async_client_sends_again_what_was_not_started(folder: Path) -> None:
    async def main(server: AskedServer) -> None:
        async with AsyncClient(server.address, timeout=8) as go:
            assert await go.call("f") is None

    with AskedServer(folder / "asked.sock", NEVER) as server:
        asyncio.run(main(server))
        assert len(server.requests) == 2


def test_begun_calls_ask(folder: Path) -> None:
    with AskedServer(folder / "asked.sock", FINISHED) as server, Client(server.address, timeout=8) as go:
        call = go.begin("f")
        with pytest.raises(Unavailable, match="the server says that") as raised:
            call.wait()
        assert raised.value.outcome is Outcome.EXECUTED_RESULT_LOST


class TakingServers(HalfStoppedServers):
    """Can be asked, and has a connection that takes a request before it is lost."""

    features = ASKS

    def __init__(self, path: Path) -> None:
        self.takes = False
        super().__init__(path)

    def _key(self) -> bytes:
        return b"k" * 16

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        if self.takes:
            self.requests.append(payload)
            with_shutdown(connection)
            raise EOFError
        send(connection, REPLY, call, codec, self.reply, function_id=1)


def test_call_that_may_have_run_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that was sent is not sent on another connection, though its own is gone and the next one does not come."""
    monkeypatch.setattr(_places, "_LANES_MAX", 2)
    monkeypatch.setattr(_places, "_PLACES_MAX", 1)
    monkeypatch.setattr(_lane, "_CONNECT_PATIENCE_SECONDS", 0.05)

    async def main(server: TakingServers) -> None:
        async with AsyncClient(server.address, timeout=8) as go:
            lanes = await two_lanes(go)
            server.answers += [True, False, True]  # that of the call, the one that asks, and that of the other lane
            server.end_all()
            lanes[1].look()
            server.takes = True
            lost = asyncio.ensure_future(go.with_timeout(1).call("f"))
            while not server.requests:
                await asyncio.sleep(0.001)
            server.takes = False
            while lanes[0].engine.room() >= 0:
                await asyncio.sleep(0.001)
            lanes[1].is_asked = False
            lanes[1].ask("f", 8, lambda: None)
            with pytest.raises(Unavailable) as raised:
                await lost
            assert raised.value.outcome is Outcome.UNKNOWN
            assert lanes[1].engine.room() >= 0 > lanes[0].engine.room()
            assert len(server.requests) == 1

    with TakingServers(folder / "taking.sock") as server:
        asyncio.run(main(server))
