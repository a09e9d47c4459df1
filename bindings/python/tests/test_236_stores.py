"""Values above the frame travel in files in memory, if both sides let them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import nearcall
from nearcall import AsyncClient, Client, Outcome
from support import Server, in_child

GIB = 1 << 30
LARGE = bytes(range(250)) * 80_000


@pytest.fixture
def address(start_server: Callable[..., Server]) -> str:
    return start_server(f"-value-bytes-max={64 << 20}").address


def test_there_and_back(address: str) -> None:
    with Client(address, timeout=60, value_bytes_max=GIB) as client:
        for round_ in range(3):
            data = bytes([round_]) + LARGE
            assert client.echo(data) == data
            assert client.call_raw("echo", data) == data
        assert client.identity("x" * (18 << 20)) == "x" * (18 << 20)
        assert len(client.fill(30 << 20)) == 30 << 20
        assert [call.wait() for call in [client.begin("echo", LARGE) for _ in range(3)]] == [LARGE] * 3
        assert client.one() == 1


def test_in_a_loop(address: str) -> None:
    async def calls() -> None:
        async with AsyncClient(address, timeout=60, value_bytes_max=GIB) as client:
            data = [bytes([i]) + LARGE for i in range(4)]
            assert await asyncio.gather(*(client.echo(one) for one in data)) == data
            assert await client.one() == 1

    asyncio.run(calls())


def test_limits(address: str) -> None:
    with Client(address, timeout=60) as client, pytest.raises(nearcall.ResourceExhausted) as caught:
        client.echo(LARGE)
    assert caught.value.outcome is Outcome.NOT_EXECUTED
    with Client(address, timeout=60, value_bytes_max=17 << 20) as client:
        with pytest.raises(nearcall.ResourceExhausted, match="value_bytes_max") as caught:
            client.echo(LARGE)
        assert caught.value.outcome is Outcome.NOT_EXECUTED
        with pytest.raises(nearcall.ResourceExhausted) as caught:
            client.fill(18 << 20)
        assert caught.value.outcome is Outcome.EXECUTED_RESULT_LOST
        assert client.one() == 1
    with Client(address, timeout=60, value_bytes_max=GIB) as client:
        with pytest.raises(nearcall.ResourceExhausted, match="WithValueBytesMax") as caught:
            client.call_raw("echo", bytes(65 << 20))
        assert caught.value.outcome is Outcome.NOT_EXECUTED


def test_in_a_child(address: str) -> None:
    with Client(address, timeout=60, value_bytes_max=GIB) as client:
        assert client.echo(LARGE) == LARGE
        assert in_child(lambda: client.echo(LARGE) == LARGE)
        assert client.echo(LARGE) == LARGE
