"""Addresses with several endpoints: the nearest one that works, alone, in children, threads and event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import nearcall
from nearcall import AsyncClient, Client
from support import Server, in_child, wait_until


@pytest.fixture
def servers(folder: Path) -> Iterator[tuple[Server, Server]]:
    """The second has functions that the first lacks."""
    for name in ("near", "far"):
        (folder / name).mkdir()
    near = Server(folder / "near")
    far = Server(folder / "far", "-generation", "1")
    yield near, far
    near.stop()
    far.stop()


@pytest.fixture
def both(servers: tuple[Server, Server]) -> str:
    return " | ".join(server.address for server in servers)


def test_nearest_that_works(servers: tuple[Server, Server], both: str) -> None:
    near, far = servers
    with Client(both, timeout=20.0) as client:
        assert client.endpoint() == ""
        assert client.add(1, 2) == 3
        assert client.endpoint() == near.address
        near.stop()
        assert client.add(1, 2) == 3
        assert client.endpoint() == far.address
        near.start()
        wait_until(lambda: bool(client.add(1, 2)) and client.endpoint() == near.address, "calls come back")


def test_function_that_only_one_has(servers: tuple[Server, Server], both: str) -> None:
    near, far = servers
    with Client(both, timeout=20.0) as client:
        for _ in range(2):  # what it finds out, it finds out where it is connected
            assert client.level() + client.add(1, 1) == 9
        for i in range(20):
            assert client.level() == 7
            assert client.endpoint() == far.address
            assert client.add(i, 1) == i + 1
            assert client.endpoint() == near.address
        with pytest.raises(nearcall.Unimplemented, match=f"\n{far.address}: "):
            client.call("nobody_has_it")


def test_children(both: str) -> None:
    with Client(both, timeout=20.0) as client:
        assert client.add(1, 1) + client.level() == 9
        for _ in range(5):
            assert in_child(lambda: client.endpoint() == "" and client.add(1, 1) + client.level() == 9)
            assert client.add(1, 1) + client.level() == 9


def test_threads(servers: tuple[Server, Server], both: str) -> None:
    near, _ = servers
    sums: list[int] = []

    def calls(client: Client) -> None:
        for i in range(50):
            sums.append(client.add(i, 1) + client.level())

    with Client(both, timeout=20.0) as client:
        threads = [threading.Thread(target=calls, args=(client,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        near.stop()
        for thread in threads:
            thread.join()
    assert len(sums) == 200


def test_asyncio(servers: tuple[Server, Server], both: str) -> None:
    near, far = servers

    async def calls() -> None:
        async with AsyncClient(both, timeout=20.0) as client:
            assert client.endpoint() == ""
            assert await asyncio.gather(*(client.add(i, 1) for i in range(100))) == list(range(1, 101))
            assert client.endpoint() == near.address
            near.stop()
            assert await client.add(1, 2) == 3
            assert await asyncio.gather(*(client.add(i, 1) for i in range(100))) == list(range(1, 101))
            assert client.endpoint() == far.address

    asyncio.run(calls())


def test_nobody_is_there(servers: tuple[Server, Server], both: str) -> None:
    with Client(both, timeout=20.0) as client:
        for server in servers:
            server.stop()
        with pytest.raises(nearcall.Unavailable) as caught:
            client.add(1, 2)
        assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
        for server in servers:
            assert server.address in str(caught.value)
