"""AsyncClient where calls crowd: held up loops, limits, bulk beside quick calls."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nearcall import AsyncClient, Cancelled, DeadlineExceeded, Outcome, Unavailable, _places
from nearcall._lane import Lane
from scripted import (
    DRAIN,
    ERROR,
    HEADER,
    MSGPACK,
    NOT_EXECUTED,
    RESOURCE_EXHAUSTED,
    ScriptedServer,
    function,
    pack,
    send,
    with_shutdown,
)
from support import PATIENCE_SECONDS, Server, wait_until

LARGE_BYTES = 3_000_000


@pytest.mark.parametrize("shared_memory", [False, True])
def test_loop_that_is_held_up_within_an_upload(
    start_server: Callable[..., Server], shared_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the connection for it. No call has done anything wrong, and what did not run is sent again.
    The upload goes by the socket in both cases: the arena is too small for it."""
    monkeypatch.setattr(_places, "_LANES_MAX", 1)
    server = start_server("-frame-silence", "100ms", "-shared-memory-arena", str(1 << 20))
    data = bytes(4_000_000)

    async def main() -> None:
        async with AsyncClient(server.address, shared_memory=shared_memory) as go:
            await go.sleep(0)
            await asyncio.gather(*(go.echo(b"") for _ in range(40)))
            sockets = server.socket_count()
            slow = asyncio.ensure_future(go.sleep(3_000))
            upload = asyncio.ensure_future(go.echo(data))
            quick = asyncio.ensure_future(go.add(1, 2))
            await asyncio.sleep(0)
            wait_until(lambda: server.socket_count() < sockets, "the server has ended the connection")
            assert await upload == data
            assert await quick == 3
            with pytest.raises(Unavailable) as caught:
                await slow
            assert caught.value.outcome in (Outcome.UNKNOWN, Outcome.EXECUTED_RESULT_LOST)

    asyncio.run(main())


def test_more_calls_than_a_user_may_have(start_server: Callable[..., Server]) -> None:
    """What the server refuses for that waits in turn, as what this client has no place for."""
    server = start_server("-calls-in-flight-per-user", "64")

    async def main() -> None:
        async with AsyncClient(server.address, timeout=60) as go:
            await go.sleep(20)
            assert await asyncio.gather(*(go.sleep(20) for _ in range(500))) == [20] * 500
            assert await asyncio.gather(*(go.sleep(20) for _ in range(500))) == [20] * 500

    asyncio.run(main())


def test_calls_after_others_were_given_up(start_server: Callable[..., Server], folder: Path) -> None:
    """Their functions run on, and count for the user on the server alone."""
    server = start_server("-calls-in-flight-per-user", "16", "-ledger", str(folder / "ledger"))

    async def main() -> None:
        async with AsyncClient(server.address, timeout=60) as go:
            await go.ledger_slow(0, 50)
            slow = (go.call("ledger_slow", key, 1_000, timeout=0.2) for key in range(40))
            assert {type(end) for end in await asyncio.gather(*slow, return_exceptions=True)} == {DeadlineExceeded}
            assert await asyncio.gather(*(go.ledger_slow(key, 1) for key in range(100, 150))) == list(range(100, 150))

    asyncio.run(main())


class FullServer(ScriptedServer):
    """One that has no room for any call, as long as it says so."""

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        self.requests.append(payload)
        details = [["nearcall.limit", "calls_in_flight_per_user_max"]]
        refusal = pack(["1 calls of this user are in flight", details])
        send(connection, ERROR, call, MSGPACK, refusal, status=RESOURCE_EXHAUSTED | NOT_EXECUTED)


def test_waiting_for_room_on_the_server(folder: Path) -> None:
    """It ends with the deadline, says what it was for, and asks the server now and then."""

    async def main(server: FullServer) -> None:
        async with AsyncClient(server.address) as go:
            ends = await asyncio.gather(*(go.call("f", timeout=3) for _ in range(5)), return_exceptions=True)
        for end in ends:
            assert isinstance(end, DeadlineExceeded)
            assert end.outcome is Outcome.NOT_EXECUTED
            assert "1 calls of this user are in flight" in end.message
        assert 5 < len(server.requests) < 200

    with FullServer(folder / "full.sock", function([], [])) as server:
        asyncio.run(main(server))


def close_when_asleep(go: AsyncClient, thread_id: int) -> None:
    def is_asleep() -> bool:
        fields = Path(f"/proc/self/task/{thread_id}/syscall").read_text().split()
        with contextlib.suppress(OSError, IndexError):
            return "eventpoll" in os.readlink(f"/proc/self/fd/{int(fields[1], 16)}")
        return False

    wait_until(is_asleep, "the loop waits")
    go.close()


def test_closing_from_another_thread(address: str) -> None:
    """What waits hears of it at once, whatever else the loop waits for."""

    async def main() -> None:
        go = AsyncClient(address, timeout=math.inf)
        await go.one()
        waiting = asyncio.ensure_future(go.sleep(600_000))
        closer = threading.Thread(target=close_when_asleep, args=(go, threading.get_native_id()))
        closer.start()
        start = time.monotonic()
        with pytest.raises(Cancelled):
            await asyncio.wait_for(waiting, 30)
        assert time.monotonic() - start < 30
        closer.join()
        assert go.closed

    asyncio.run(main())


def test_calls_that_ended_leave_the_line(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind one that waits on."""
    monkeypatch.setattr(_places, "_LANES_MAX", 1)
    monkeypatch.setattr(_places, "_PLACES_MAX", 1)

    async def main() -> None:
        async with AsyncClient(address, timeout=math.inf) as go:
            await go.one()
            first = [asyncio.ensure_future(go.sleep(600_000)) for _ in range(2)]
            await asyncio.sleep(0)
            for _ in range(20):
                calls = (go.call("one", timeout=0.001) for _ in range(200))
                ends = await asyncio.gather(*calls, return_exceptions=True)
                assert {type(end) for end in ends} == {DeadlineExceeded}
            assert len(go._engine._places._queue) < 1_000
            for call in first:
                call.cancel()
            await asyncio.gather(*(go.one() for _ in range(10)))

    asyncio.run(main())


class HoldingServer(ScriptedServer):
    """One that reads no large request before it may; each connection has a thread."""

    def __init__(self, path: Path) -> None:
        self.may_read = threading.Event()
        self._threads: list[threading.Thread] = []
        super().__init__(path, function(["bytes"], []))

    def close(self) -> None:
        self.may_read.set()
        super().close()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self._threads.append(threading.Thread(target=self._talk_until_end, args=(connection,)))
                self._threads[-1].start()

    def _talk_until_end(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(EOFError, OSError):
            self._talk(connection)

    def _answer(self, connection: socket.socket) -> None:
        header = connection.recv(HEADER.size, socket.MSG_PEEK | socket.MSG_WAITALL)
        if len(header) == HEADER.size and HEADER.unpack(header)[0] > LARGE_BYTES:
            self.may_read.wait()
        super()._answer(connection)


class LateServer(HoldingServer):
    """One that greets nobody before it may."""

    def _talk(self, connection: socket.socket) -> None:
        self.may_read.wait()
        super()._talk(connection)


@pytest.mark.parametrize("are_cancelled", [False, True])
def test_calls_that_end_while_another_connects(folder: Path, are_cancelled: bool) -> None:
    """The others wait for what comes of that, also if they are more than a connection holds."""

    async def main(server: LateServer) -> None:
        async with AsyncClient(server.address, timeout=math.inf) as go:
            short_timeout = math.inf if are_cancelled else 0.01
            short = [asyncio.ensure_future(go.call("f", b"", timeout=short_timeout)) for _ in range(1_100)]
            healthy = [asyncio.ensure_future(go.f(b"")) for _ in range(1_100)]
            await asyncio.sleep(0)
            for call in short if are_cancelled else ():
                call.cancel()
            end = asyncio.CancelledError if are_cancelled else DeadlineExceeded
            assert {type(error) for error in await asyncio.gather(*short, return_exceptions=True)} == {end}
            server.may_read.set()
            assert await asyncio.gather(*healthy) == [None] * len(healthy)

    with LateServer(folder / "late.sock") as server:
        asyncio.run(main(server))


@pytest.mark.parametrize("uploads", [1, 10])
def test_quick_calls_beside_uploads(folder: Path, uploads: int) -> None:
    """They are not sent behind what waits to be sent."""
    data = bytes(LARGE_BYTES + 1)

    async def main(server: HoldingServer) -> None:
        async with AsyncClient(server.address, timeout=30) as go:
            await go.f(b"")
            large = [asyncio.ensure_future(go.f(data)) for _ in range(uploads)]
            await asyncio.gather(*(go.f(b"quick") for _ in range(10)))
            assert not any(call.done() for call in large)
            server.may_read.set()
            await asyncio.gather(*large)

    with HoldingServer(folder / "holding.sock") as server:
        asyncio.run(main(server))


def test_quick_calls_where_no_further_connection_can_be_had(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share the connections there are."""
    monkeypatch.setattr(_places, "_LANES_MAX", 2)
    data = bytes(LARGE_BYTES + 1)

    async def main(server: HoldingServer) -> None:
        async with AsyncClient(server.address, timeout=60) as go:
            await go.f(b"")
            large = [asyncio.ensure_future(go.f(data)) for _ in range(10)]
            quick = [asyncio.ensure_future(go.f(b"quick")) for _ in range(10)]
            server.may_read.set()
            await asyncio.gather(*large, *quick)
            assert len(go._engine._places.lanes) == 2

    with HoldingServer(folder / "holding.sock") as server:
        asyncio.run(main(server))


class LastServer(ScriptedServer):
    """One that listens no more once it has a request, which it answers when it may."""

    def __init__(self, path: Path, *, drains: bool) -> None:
        self._path = path
        self.drains = drains
        self.has_ended_listening = threading.Event()
        self.may_answer = threading.Event()
        super().__init__(path, function([], []))

    def next(self) -> ScriptedServer:
        """Has another one listen in its place."""
        self._path.unlink()
        return ScriptedServer(self._path, function([], []))

    def close(self) -> None:
        self.may_answer.set()
        super().close()

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        with_shutdown(self._listener)
        self.has_ended_listening.set()
        if self.drains:
            send(connection, DRAIN, call, 0, b"stopping")
        self.may_answer.wait()
        super()._answer_request(connection, call, codec, payload)


async def slow_call(go: AsyncClient, server: LastServer) -> asyncio.Task[None]:
    """A call, once nobody listens any more while it is answered."""
    slow = asyncio.ensure_future(go.call("f"))
    while not server.has_ended_listening.is_set() or (server.drains and go._engine._places.lanes[0].engine.room() != 0):
        await asyncio.sleep(0)
    return slow


def test_nobody_listens_while_a_server_is_stopping(folder: Path) -> None:
    """Quick calls fail at once, as they do after it has stopped."""

    async def main(server: LastServer) -> None:
        async with AsyncClient(server.address, timeout=PATIENCE_SECONDS) as go:
            slow = await slow_call(go, server)
            calls = (go.call("f"), go.call("f"), go.with_options(attempts=1).call("f"), go.function("f"))
            for end in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(end, Unavailable)
                assert end.outcome is Outcome.NOT_EXECUTED
                assert "is the server running" in end.message
            assert not slow.done()
            server.may_answer.set()
            await slow

    with LastServer(folder / "last.sock", drains=True) as server:
        asyncio.run(main(server))


@pytest.mark.parametrize("drains", [True, False])
def test_next_server_while_the_last_one_answers(folder: Path, monkeypatch: pytest.MonkeyPatch, drains: bool) -> None:
    """Quick calls go to it as soon as it listens. Beside a server that is not stopping they need not be tried
    again: they wait for their place."""
    monkeypatch.setattr(_places, "_PAUSE_SECONDS", 600)
    monkeypatch.setattr(_places, "_PLACES_MAX", 1)
    refused = asyncio.Event()
    cannot_open = _places.Places._cannot_open

    def told(places: _places.Places, lane: Lane) -> None:
        cannot_open(places, lane)
        refused.set()

    monkeypatch.setattr(_places.Places, "_cannot_open", told)

    async def main(server: LastServer) -> None:
        async with AsyncClient(server.address, timeout=PATIENCE_SECONDS) as go:
            slow = await slow_call(go, server)
            quick = asyncio.ensure_future(go.with_options(wait_for_ready=drains, attempts=1).call("f"))
            await refused.wait()
            with server.next():
                assert await quick is None
                assert not slow.done()
                server.may_answer.set()
                await slow

    with LastServer(folder / "last.sock", drains=drains) as server:
        asyncio.run(main(server))
