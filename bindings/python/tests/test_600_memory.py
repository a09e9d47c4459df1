"""Calls through shared memory: the same answers, and what switches it off."""

from __future__ import annotations

import asyncio
import os

import pytest

import nearcall
from nearcall import AsyncClient, Client
from support import Server, in_child

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
        for _ in range(CALLS_ENOUGH):
            assert await client.call("one") == 1
        for _ in range(50):
            sums = await asyncio.gather(*(client.call("add", 1, i) for i in range(60)))
            assert sums == [1 + i for i in range(60)]
        data = os.urandom(1 << 20)
        assert await client.call("echo", data) == data
        client.close()

    asyncio.run(run())
