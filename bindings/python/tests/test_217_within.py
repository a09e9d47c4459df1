"""Calls within calls, that code of arguments makes: as deep as sense goes, and no further."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import greenlet
import pytest
from hostile import Acting

import nearcall
from nearcall import AsyncClient, Client
from support import PATIENCE_SECONDS, Recorder

DEEP = 50
MANY = 60
"""Further than calls go within each other."""


class Again:
    """Calls with itself, as long as that goes."""

    def __init__(self, call: Callable[[Again], Any]) -> None:
        self.call, self.levels = call, 0

    def __index__(self) -> int:
        self.levels += 1
        return int(self.call(self))


def test_code_that_calls_for_ever(recorder: Recorder) -> None:
    with Client(recorder.address, timeout=PATIENCE_SECONDS) as client:
        for call in (lambda again: client.ack(again, 1), lambda again: client.begin("ack", again, 1).wait()):
            again = Again(call)
            with pytest.raises(nearcall.InvalidArgument, match=f"within {DEEP} others") as caught:
                again.call(again)
            assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
            assert DEEP <= again.levels < DEEP + 5
            assert len(recorder.connections()) < DEEP + 5
            assert client.one() == 1


def nested(client: Client, depth: int) -> Any:
    return client.identity([Acting(lambda: depth and nested(client, depth - 1), depth)])


def test_as_deep_as_that(client: Client) -> None:
    assert nested(client, DEEP - 5) == [DEEP - 5]


def test_threads_beside_each_other(client: Client) -> None:
    met, results = threading.Barrier(MANY, timeout=PATIENCE_SECONDS), []
    threads = [
        threading.Thread(target=lambda: results.append(client.identity([Acting(met.wait)]))) for _ in range(MANY)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert results == [[1]] * MANY


def test_greenlets_beside_each_other(client: Client) -> None:
    """Each is within its argument's code, from which another runs."""
    here = greenlet.getcurrent()
    results: list[Any] = []
    waiting = [greenlet.greenlet(lambda: results.append(nested(client, 3))) for _ in range(MANY)]

    def within() -> Any:
        return client.identity([Acting(here.switch)])

    beside = [greenlet.greenlet(within) for _ in range(MANY)]
    for each in beside:
        each.switch()
    for each in waiting:
        each.switch()
    assert results == [[3]] * MANY
    assert [each.switch() for each in beside] == [[1]] * MANY


def test_greenlets_within_each_other(client: Client) -> None:
    """Whatever calls a greenlet is within is its own."""

    def start(depth: int) -> Any:
        def inner() -> Any:
            return client.identity([Acting(lambda: depth and start(depth - 1))])

        return greenlet.greenlet(inner).switch()

    assert start(MANY) == [1]


def test_events_beside_each_other(address: str) -> None:
    async def run() -> list[Any]:
        async with AsyncClient(address, timeout=PATIENCE_SECONDS) as client:
            return await asyncio.gather(*[client.identity([Acting(int)]) for _ in range(2 * MANY)])

    assert asyncio.run(run()) == [[1]] * (2 * MANY)
