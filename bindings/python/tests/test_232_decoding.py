"""Results with millions of values: decoding them ends by the deadline, and does not hold up signals."""

from __future__ import annotations

import asyncio
import operator
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall import AsyncClient, Client, Outcome
from scripted import ScriptedServer, function
from support import PATIENCE_SECONDS

COUNT = 100_000
REPLY = b"\xdd" + struct.pack(">I", COUNT) + (b"\x91" * 9 + b"\x90") * COUNT
"""A million lists, which take a tenth of a second at least."""
FIRST_TIMEOUT_SECONDS = 0.02

Ring = Callable[[Callable[[], None]], None]


class Rung(Exception):
    """What the handler raises."""


class Answering(ScriptedServer):
    """Says when all of a reply has been sent, and so when it is decoded."""

    def __init__(self, path: Path) -> None:
        self.answered = threading.Event()
        super().__init__(path, function([], ["any"]), REPLY)

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        super()._answer_request(connection, call, codec, payload)
        self.answered.set()


@pytest.fixture
def server(folder: Path) -> Iterator[Answering]:
    with Answering(folder / "s") as server:
        yield server


@pytest.fixture
def ring() -> Iterator[Ring]:
    """Rings every two milliseconds, from the first call on."""
    former = signal.getsignal(signal.SIGALRM)

    def begin(act: Callable[[], None]) -> None:
        signal.signal(signal.SIGALRM, lambda *_: act())
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)

    yield begin
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


def call(address: str, form: str, timeout: float) -> Any:
    async def call_async() -> Any:
        async with AsyncClient(address) as go:
            await go.function("f")
            return await go.call("f", timeout=timeout)

    if form == "async":
        return asyncio.run(call_async())
    with Client(address) as go:
        go.function("f")
        return go.call("f", timeout=timeout) if form == "call" else go.begin("f", timeout=timeout).wait()


@pytest.mark.parametrize("form", ["call", "begin", "async"])
def test_deadline(server: Answering, form: str) -> None:
    """It passes before the reply has come, until the timeout is long enough for that."""
    timeout, message = FIRST_TIMEOUT_SECONDS, ""
    while "while the result was decoded" not in message:
        with pytest.raises(nearcall.DeadlineExceeded) as caught:
            call(server.address, form, timeout)
        message = caught.value.message
        timeout *= 1.5
    assert caught.value.outcome is Outcome.EXECUTED_RESULT_LOST


def test_result_that_came_in_time(server: Answering) -> None:
    """It is given whenever it is fetched. On a machine that is busy it may come too late."""
    with Client(server.address, timeout=PATIENCE_SECONDS) as go:
        go.function("f")
        end = time.monotonic() + 1
        first, second = go.begin("f", timeout=1), go.begin("f")
        assert len(second.wait()) == COUNT
        time.sleep(max(end - time.monotonic(), 0))
        problem = ""
        try:
            assert len(first.wait()) == COUNT
        except nearcall.DeadlineExceeded as error:
            problem = error.message
        assert "decoded" not in problem


@pytest.mark.parametrize("form", ["call", "begin"])
def test_handlers_run(server: Answering, ring: Ring, form: str) -> None:
    rung: list[bool] = []
    with Client(server.address, timeout=PATIENCE_SECONDS) as go:
        fetch = go.f if form == "call" else go.begin("f").wait
        ring(lambda: rung.append(server.answered.is_set()))
        # Between the call's end and the look at what was rung no handler runs.
        results = [*map(operator.call, [fetch, rung.copy])]
        assert len(results[0]) == COUNT
        assert results[1].count(True) > 3


def test_handler_closes_the_client(server: Answering, ring: Ring) -> None:
    with Client(server.address, timeout=PATIENCE_SECONDS) as go:
        go.function("f")
        ring(lambda: go.close() if server.answered.is_set() else None)
        assert len(go.f()) == COUNT
        assert go.closed


@pytest.mark.parametrize("form", ["call", "begin"])
def test_handler_raises(server: Answering, ring: Ring, form: str) -> None:
    def fail() -> None:
        if server.answered.is_set():
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Rung

    results: list[Any] = []
    with Client(server.address, timeout=PATIENCE_SECONDS) as go:
        go.function("f")
        fetch = go.f if form == "call" else go.begin("f").wait
        ring(fail)
        with pytest.raises(Rung):
            results.extend(map(operator.call, [fetch]))
        assert not results
        if form == "begin":
            with pytest.raises(nearcall.Cancelled) as caught:
                fetch()
            assert caught.value.outcome is Outcome.EXECUTED_RESULT_LOST
        assert len(go.f()) == COUNT
