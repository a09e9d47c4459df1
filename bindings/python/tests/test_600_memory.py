"""Calls through shared memory: the same answers, and what switches it off."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall import AsyncClient, Client, Outcome
from support import Server, child_answer, fork_child, in_child

# As many calls as it takes until a connection is given memory, and some more.
CALLS_ENOUGH = 40


def busy(client: Client) -> Client:
    for _ in range(CALLS_ENOUGH):
        client.one()
    return client


def test_busy_connection_gets_memory(shared_server: Server) -> None:
    with Client(shared_server.address) as client:
        assert client.transport() == ""
        client.one()
        assert client.transport() == "unix socket"
        assert busy(client).transport() == "shared memory"


def test_memory_is_off(shared_server: Server) -> None:
    with Client(shared_server.address, shared_memory=False) as client:
        assert busy(client).transport() == "unix socket"
    with Client(shared_server.address + "?shm=off") as client:
        assert busy(client).transport() == "unix socket"


@pytest.mark.parametrize("spin", ["auto", "off", "dedicated"])
def test_spin(shared_server: Server, spin: nearcall._options.Spin) -> None:
    with Client(shared_server.address, spin=spin) as client:
        assert busy(client).transport() == "shared memory"


def test_another_spin(shared_server: Server) -> None:
    with pytest.raises(ValueError, match="spin is 'auto', 'off' or 'dedicated', not 'fast'"):
        Client(shared_server.address, spin="fast")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 1, 80, 100, 4096, 70_000, 1 << 20, 3 << 20])
def test_sizes(client: Client, size: int) -> None:
    busy(client)
    data = os.urandom(size)
    assert client.call_raw("echo", data) == data
    assert client.echo(data) == data
    assert client.transport() == "shared memory"


def test_values(client: Client) -> None:
    busy(client)
    text = "\N{WHITE SMILING FACE}" * 50_000
    assert client.upper(text) == text
    nested = {"list": list(range(5000)), "text": "x" * 10_000}
    assert client.identity(nested) == nested


def test_values_are_kept(client: Client) -> None:
    busy(client)
    kept = [client.call_raw("echo", b"value %d" % i * 20) for i in range(1000)]
    assert kept == [b"value %d" % i * 20 for i in range(1000)]


def test_pipelined(client: Client) -> None:
    busy(client)
    for round_ in range(100):
        calls = [client.begin("add", round_, i) for i in range(60)]
        assert [call.wait() for call in calls] == [round_ + i for i in range(60)]


def test_child_gets_its_own(client: Client) -> None:
    busy(client)
    assert in_child(lambda: busy(client).transport()) == "shared memory"
    assert client.add(3, 4) == 7
    assert client.transport() == "shared memory"


def test_async(shared_server: Server) -> None:
    async def run() -> None:
        client = AsyncClient(shared_server.address)
        assert client.transport() == ""
        for _ in range(CALLS_ENOUGH):
            assert await client.call("one") == 1
        for _ in range(50):
            sums = await asyncio.gather(*(client.call("add", 1, i) for i in range(60)))
            assert sums == [1 + i for i in range(60)]
        data = os.urandom(1 << 20)
        assert await client.call("echo", data) == data
        assert client.transport() == "shared memory"
        client.close()
        async with AsyncClient(shared_server.address, shared_memory=False) as client:
            for _ in range(CALLS_ENOUGH):
                await client.call("one")
            assert client.transport() == "unix socket"

    asyncio.run(run())


def test_children_come_and_go(client: Client) -> None:
    busy(client)
    for child in range(20):
        pid, reader = fork_child(lambda child=child: [client.add(child, i) for i in range(CALLS_ENOUGH)])  # type: ignore[misc]
        assert [client.add(-1, i) for i in range(200)] == [i - 1 for i in range(200)]
        assert child_answer(pid, reader) == [child + i for i in range(CALLS_ENOUGH)]
    assert client.transport() == "shared memory"


def reply_place(server: Server, text: bytes) -> int:
    """The address in the server at which a text that it replied with lies."""
    for line in Path(f"/proc/{server.pid}/maps").read_text().splitlines():
        if "nearcall-server" in line:
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            with open(f"/proc/{server.pid}/mem", "rb", buffering=0) as memory:
                memory.seek(begin)
                return begin + memory.read(end - begin).index(text)
    raise AssertionError("the server shares no memory")


@contextlib.contextmanager
def flipping(server: Server, place: int, *values: bytes) -> Iterator[None]:
    """A child writes values in turn into the server's memory."""
    pid = os.fork()
    if pid == 0:
        try:
            memory = os.open(f"/proc/{server.pid}/mem", os.O_RDWR)
            while True:
                for value in values:
                    os.pwrite(memory, value, place)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def keeps_its_kind(text: str) -> bool:
    """False for a str that says it is ASCII and is not: encoding copies what it holds."""
    return text.encode().isascii() == text.isascii()


@pytest.mark.parametrize("kind", ["text", "key"])
def test_reply_that_changes_while_it_is_read(own_server: Server, kind: str) -> None:
    text = "a" * (1 << 19)
    value = text if kind == "text" else {text: 1}
    with Client(own_server.address, timeout=10.0) as client:
        busy(client).identity(value)
        place = reply_place(own_server, text.encode()) + len(text) // 2
        refused, end = 0, time.monotonic() + 60
        with flipping(own_server, place, b"\xff", b"a"):
            while refused < 30 and time.monotonic() < end:
                try:
                    result = client.identity(value)
                except nearcall.Internal:
                    refused += 1
                    continue
                is_whole = keeps_its_kind(result if kind == "text" else next(iter(result)))
                assert is_whole
        assert refused >= 30


class Ledger:
    """A server that notes which calls of ledger() and ledger_slow() have begun."""

    def __init__(self, folder: Path, start_server: Callable[..., Server]) -> None:
        path = folder / "ledger"
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)
        self.server = start_server("-ledger", str(path))

    def wait_for(self, calls: int) -> None:
        assert len(os.read(self._fd, 8 * calls)) == 8 * calls

    def busy_client(self, **options: Any) -> Client:
        client = Client(self.server.address, timeout=10.0, **options)
        for i in range(CALLS_ENOUGH):
            client.ledger(i)
        self.wait_for(CALLS_ENOUGH)
        return client

    def kill(self) -> None:
        assert self.server.process is not None
        self.server.process.kill()
        self.server.process.wait()

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def ledger(folder: Path, start_server: Callable[..., Server]) -> Iterator[Ledger]:
    ledger = Ledger(folder, start_server)
    yield ledger
    ledger.close()


@pytest.mark.parametrize(
    ("shared_memory", "outcome"), [(True, Outcome.NOT_EXECUTED), (False, Outcome.UNKNOWN)], ids=["memory", "socket"]
)
def test_killed_before_the_call_began(ledger: Ledger, shared_memory: bool, outcome: Outcome) -> None:
    with ledger.busy_client(shared_memory=shared_memory) as client:
        ledger.server.pause()
        # Two, because of a single one the socket itself tells whether it was read.
        calls = [client.begin("ledger", key) for key in (7, 8)]
        ledger.kill()
        for call in calls:
            with pytest.raises(nearcall.Unavailable) as caught:
                call.wait()
            assert caught.value.outcome is outcome


def test_killed_while_the_call_ran(ledger: Ledger) -> None:
    with ledger.busy_client() as client:
        call = client.begin("ledger_slow", 7, 60_000)
        ledger.wait_for(1)
        ledger.kill()
        with pytest.raises(nearcall.Unavailable) as caught:
            call.wait()
        assert caught.value.outcome is Outcome.UNKNOWN


def test_another_server_gives_memory_again(own_server: Server) -> None:
    with Client(own_server.address, timeout=10.0) as client:
        busy(client)
        own_server.restart()
        assert busy(client).transport() == "shared memory"
