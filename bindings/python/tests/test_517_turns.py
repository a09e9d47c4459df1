"""AsyncClient lets the loop have its turn while objects of many large errors are made."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from pathlib import Path

import pytest

from nearcall import AsyncClient, NearcallError
from scripted import ERROR, INVALID_ARGUMENT, MSGPACK, ScriptedServer, function, send

CALLS = 8
DETAILS = 4000
"""They take some milliseconds to make, and all calls together fit the buffer of a socket."""


class FailingServer(ScriptedServer):
    """Answers all calls by errors when the last has come, at once."""

    def __init__(self, path: Path) -> None:
        self.has_answered = threading.Event()
        self._calls: list[int] = []
        super().__init__(path, function([], []))

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        self._calls.append(call)
        if len(self._calls) < CALLS:
            return
        details = b"\xdd" + struct.pack(">I", DETAILS) + b"\x92\xa1t\x01" * DETAILS
        for each in self._calls:
            send(connection, ERROR, each, MSGPACK, b"\x92\xa2no" + details, status=INVALID_ARGUMENT)
        self.has_answered.set()


def test_large_errors_take_turns(folder: Path) -> None:
    turns = 0
    ended: list[int] = []

    async def call(go: AsyncClient) -> None:
        with pytest.raises(NearcallError) as raised:
            await go.call("f")
        assert len(raised.value.details) == DETAILS
        ended.append(turns)

    async def main(server: FailingServer) -> None:
        nonlocal turns
        async with AsyncClient(server.address, timeout=30) as go:
            await go.function("f")
            calls = asyncio.gather(*(call(go) for _ in range(CALLS)))
            for _ in range(3):
                await asyncio.sleep(0)  # they are sent
            assert server.has_answered.wait(30)  # and the loop is held until all errors have arrived
            while not calls.done():
                turns += 1
                await asyncio.sleep(0)
            await calls
        assert len(ended) == CALLS
        assert len(set(ended)) > 1

    with FailingServer(folder / "failing.sock") as server:
        asyncio.run(main(server))
