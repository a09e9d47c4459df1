"""Clients that end, or go on, where their loop does not look: closed by other threads and by children, with nobody
who holds the task that calls, and beside a program that waits for all that is still to be done."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
import uvloop
from test_520_greenlets import SETUP, run

import nearcall
from nearcall import AsyncClient, Outcome
from support import PATIENCE_SECONDS, descriptor_count, in_child, wait_until

NewLoop: TypeAlias = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop])
def new_loop(request: pytest.FixtureRequest) -> NewLoop:
    kind: NewLoop = request.param
    return kind


class LoopThread:
    """A loop that runs in a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thread = threading.Thread(target=loop.run_forever)
        self._thread.start()

    def submit(self, make: Callable[[], Any]) -> Any:
        async def call() -> Any:
            return await make()

        return asyncio.run_coroutine_threadsafe(call(), self.loop)

    def do(self, make: Callable[[], Any]) -> Any:
        return self.submit(make).result(PATIENCE_SECONDS)

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture
def beside(new_loop: NewLoop) -> Iterator[LoopThread]:
    thread = LoopThread(new_loop())
    yield thread
    thread.end()


def calls_in_flight(go: AsyncClient) -> int:
    return sum(len(lane._waiters) for lane in go._engine._places.lanes)


@pytest.mark.parametrize("debug", [False, True])
def test_child_closes_while_a_loop_of_its_parent_runs_in_another_thread(
    address: str, beside: LoopThread, debug: bool
) -> None:
    beside.loop.set_debug(debug)
    before = in_child(descriptor_count)
    go = AsyncClient(address)
    assert beside.do(lambda: go.one()) == 1
    waiting = beside.submit(lambda: go.sleep(500))
    wait_until(lambda: calls_in_flight(go) == 1, "the call is on its way")

    def child() -> int:
        go.close()
        return descriptor_count()

    assert in_child(child) == before
    assert waiting.result(PATIENCE_SECONDS) == 500
    assert beside.do(lambda: go.one()) == 1
    go.close()


@pytest.mark.parametrize("debug", [False, True])
def test_child_calls_while_a_loop_of_its_parent_runs_in_another_thread(
    address: str, beside: LoopThread, debug: bool
) -> None:
    beside.loop.set_debug(debug)
    go = AsyncClient(address)
    assert beside.do(lambda: go.one()) == 1
    waiting = beside.submit(lambda: go.sleep(500))
    wait_until(lambda: calls_in_flight(go) == 1, "the call is on its way")

    async def child() -> int:
        async with go:
            return int(await go.one())

    assert in_child(lambda: asyncio.run(child())) == 1
    assert waiting.result(PATIENCE_SECONDS) == 500
    go.close()


def test_child_that_goes_on_with_a_loop_hears_of_calls_that_are_its_parents(address: str, new_loop: NewLoop) -> None:
    """As after a program has become a daemon between two runs of its loop."""
    loop = new_loop()
    go = AsyncClient(address)

    async def begin() -> asyncio.Task[Any]:
        waiting = asyncio.ensure_future(go.sleep(20_000))
        await go.one()
        return waiting

    async def go_on() -> bool:
        assert await go.one() == 1
        with pytest.raises(nearcall.Unavailable) as caught:
            await asyncio.wait_for(waiting, PATIENCE_SECONDS)
        return caught.value.outcome is Outcome.UNKNOWN

    waiting = loop.run_until_complete(begin())
    assert in_child(lambda: loop.run_until_complete(go_on()))
    go.close()
    loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))
    loop.close()


def test_close_that_a_loop_has_not_come_to_before_it_ended(address: str, new_loop: NewLoop) -> None:
    before = descriptor_count()
    loop = new_loop()
    go = AsyncClient(address)
    assert loop.run_until_complete(go.call("one")) == 1
    inside, leave = threading.Event(), threading.Event()

    def stop() -> None:
        loop.stop()
        inside.set()
        leave.wait(PATIENCE_SECONDS)

    loop.call_soon(stop)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    assert inside.wait(PATIENCE_SECONDS)
    go.close()
    leave.set()
    thread.join()
    loop.close()

    async def call() -> None:
        with pytest.raises(nearcall.FailedPrecondition):
            await go.one()

    asyncio.run(call())
    assert descriptor_count() == before


def test_closed_client_has_no_transport(address: str) -> None:
    with nearcall.Client(address) as client:
        assert client.one() == 1
        assert client.transport()
    assert client.transport() == ""

    async def main() -> None:
        async with AsyncClient(address) as go:
            assert await go.one() == 1
            assert go.transport()
        assert go.transport() == ""

    asyncio.run(main())
    unused = AsyncClient(address)
    assert unused.transport() == ""
    unused.close()
    assert unused.transport() == ""


@pytest.mark.parametrize("timeout", [20, math.inf])
def test_task_that_nobody_holds(
    address: str, new_loop: NewLoop, monkeypatch: pytest.MonkeyPatch, timeout: float
) -> None:
    """A loop refers to its tasks only weakly. A call on its way and one that waits in the line are the loop's own."""
    monkeypatch.setattr("nearcall._places._LANES_MAX", 1)
    monkeypatch.setattr("nearcall._places._PLACES_MAX", 2)
    results: list[Any] = []
    clients: list[weakref.ref[AsyncClient]] = []

    def begin() -> None:
        go = AsyncClient(address, timeout=timeout)
        clients.append(weakref.ref(go))

        async def call() -> None:
            results.append(await go.sleep(100))

        calls = [asyncio.ensure_future(call()) for _ in range(6)]
        calls.clear()

    async def main() -> None:
        begin()
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while len(results) < 6:
            assert asyncio.get_running_loop().time() < end, "calls were lost"
            gc.collect()
            await asyncio.sleep(0.001)
        while clients[0]() is not None:
            assert asyncio.get_running_loop().time() < end, "the client stays"
            gc.collect()
            await asyncio.sleep(0.001)

    loop = new_loop()
    with contextlib.closing(loop):
        loop.run_until_complete(main())
    assert results == [100] * 6


def test_timeouts_that_are_longer_than_loops_can_wait(
    address: str, new_loop: NewLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearcall._places._LANES_MAX", 1)
    monkeypatch.setattr("nearcall._places._PLACES_MAX", 1)

    async def main() -> None:
        for timeout in (1e7, 1e12, math.inf):
            async with AsyncClient(address, timeout=timeout) as go:
                assert await asyncio.gather(*(go.sleep(10) for _ in range(3))) == [10] * 3

    with contextlib.closing(new_loop()) as loop:
        loop.run_until_complete(main())


# ---- Greenlets ----

PLACES = """
import gc, math, os, sys, time
import nearcall, nearcall._places

nearcall._places._LANES_MAX, nearcall._places._PLACES_MAX = 1, 2
address = sys.argv[1]
def descriptors():
    return sorted(os.listdir("/proc/self/fd"))
"""
THREAD = {
    "gevent": """
begin_thread = monkey.get_original("_thread", "start_new_thread")
native_sleep = monkey.get_original("time", "sleep")
""",
    "eventlet": """
from eventlet import patcher
begin_thread = patcher.original("_thread").start_new_thread
native_sleep = patcher.original("time").sleep
""",
}
for hub in THREAD:
    THREAD[hub] += """
import os
class Thread:
    # A thread of the system: hubs make greenlets of others.
    def __init__(self, target):
        before = set(os.listdir("/proc/self/task"))
        begin_thread(target, ())
        self.ends = lambda: set(os.listdir("/proc/self/task")) <= before
    def join(self):
        end = time.monotonic() + 30
        while not self.ends():
            assert time.monotonic() < end, "the thread goes on"
            native_sleep(0.001)
"""
CLOSED_ELSEWHERE = """
def is_asleep():
    fields = open(f"/proc/self/task/{os.getpid()}/syscall").read().split()
    try:
        return "eventpoll" in os.readlink(f"/proc/self/fd/{int(fields[1], 16)}")
    except (OSError, IndexError, ValueError):
        return False

for turn in range(20):
    go = Client(address, timeout=math.inf)
    assert go.one() == 1 and go.sleep(0) == 0
    if turn == 0:
        before = len(descriptors())
    def call():
        try:
            return go.sleep(600_000)
        except nearcall.Cancelled as error:
            return error.outcome
    calls = [spawn(call) for _ in range(4)]
    while len(go._client._engine._places._queue) < 2:
        sleep(0)
    def close():
        if turn % 2:
            while not is_asleep():
                native_sleep(0.0001)
        go.close()
    start = time.monotonic()
    thread = Thread(close)
    ends = [greenlet.get() if hasattr(greenlet, "get") else greenlet.wait() for greenlet in calls]
    assert time.monotonic() - start < 20, "nobody has woken the hub"
    unknown, not_executed = nearcall.Outcome.UNKNOWN, nearcall.Outcome.NOT_EXECUTED
    assert ends == [unknown] * 2 + [not_executed] * 2, ends
    thread.join()
    try:
        go.one()
    except nearcall.FailedPrecondition:
        pass
    else:
        raise AssertionError("it is open")
gc.collect()
assert len(descriptors()) <= before, "closed clients keep descriptors"
print("done")
"""
IDLE_CLOSED_ELSEWHERE = """
go = Client(address)
assert go.one() == 1
before = descriptors()
go.close()
for _ in range(5):
    go = Client(address)
    assert go.one() == 1
    Thread(go.close).join()
    end = time.monotonic() + 30
    while len(descriptors()) >= len(before):
        assert time.monotonic() < end, "it is open"
        sleep(0.001)
print("done")
"""
THREAD_ENDED = """
# A client goes on in a thread after the thread that has used it has ended, or is closed there.
go, other = Client(address, timeout=20), Client(address, timeout=20)
def use():
    assert go.one() == 1 and other.one() == 1
    begun = spawn(go.sleep, 500)
    sleep(0.01)
    used.append(1)
for _ in range(3):
    used = []
    Thread(use).join()
    assert used == [1]
assert go.one() == 1
other.close()
def closed():
    try:
        other.one()
    except nearcall.FailedPrecondition:
        return True
assert closed()
print("done")
"""
NOBODY_HOLDS = """
results = []
def begin(timeout):
    go = Client(address, timeout=timeout)
    def call():
        results.append(go.sleep(100))
    for _ in range(6):
        spawn(call)
for timeout in (20, math.inf):
    results.clear()
    begin(timeout)
    end = time.monotonic() + 20
    while len(results) < 6:
        assert time.monotonic() < end, "calls were lost"
        gc.collect()
        sleep(0.001)
assert results == [100] * 6
print("done")
"""
LONG = """
for timeout in (1e7, 1e12, math.inf):
    with Client(address, timeout=timeout) as go:
        assert gather([lambda: go.sleep(10)] * 3) == [10] * 3
print("done")
"""
HUB_ENDS = """
from gevent import get_hub, wait
go = Client(address, timeout=60)
assert go.one() == 1
gather([lambda: go.sleep(20)] * 6)
start = time.monotonic()
assert wait(timeout=20) and get_hub().join(20) and time.monotonic() - start < 10, "an idle client holds the hub"

results = []
for calls in (1, 6):  # on their way, and in the line
    results.clear()
    for timeout in (30, math.inf):
        for _ in range(calls):
            spawn(lambda: results.append(go.sleep(100, timeout=timeout)))
    wait()
    assert results == [100] * 2 * calls, results

def late():
    try:
        go.sleep(20_000, timeout=0.2)
    except nearcall.DeadlineExceeded:
        results.append("late")
spawn(late)
wait()
assert results[-1] == "late"
lost = Client("unix:/nonexistent/nearcall.sock", timeout=5, attempts=8)
def absent():
    try:
        lost.one()
    except nearcall.Unavailable:
        results.append("absent")
spawn(absent)
wait()
assert results[-1] == "absent"
killed = spawn(go.sleep, 20_000)
sleep(0.05)
killed.kill()
start = time.monotonic()
wait(timeout=20)
assert time.monotonic() - start < 10, "a call that was given up holds the hub"
print("done")
"""


@pytest.mark.parametrize("hub", ["gevent", "eventlet"])
def test_another_thread_closes(address: str, hub: str) -> None:
    run(SETUP[hub] + THREAD[hub] + PLACES + CLOSED_ELSEWHERE, address)


@pytest.mark.parametrize("hub", ["gevent", "eventlet"])
def test_another_thread_closes_what_is_idle(address: str, hub: str) -> None:
    run(SETUP[hub] + THREAD[hub] + PLACES + IDLE_CLOSED_ELSEWHERE, address)


@pytest.mark.parametrize("hub", ["gevent", "eventlet"])
def test_thread_of_a_client_has_ended(address: str, hub: str) -> None:
    run(SETUP[hub] + THREAD[hub] + PLACES + THREAD_ENDED, address)


@pytest.mark.parametrize("hub", ["gevent", "eventlet"])
def test_greenlet_that_nobody_holds(address: str, hub: str) -> None:
    run(SETUP[hub] + PLACES + NOBODY_HOLDS, address)


@pytest.mark.parametrize("hub", ["gevent", "eventlet"])
def test_timeouts_that_are_longer_than_hubs_can_wait(address: str, hub: str) -> None:
    run(SETUP[hub] + PLACES.replace("= 1, 2", "= 1, 1") + LONG, address)


def test_hub_ends_beside_an_idle_client(address: str) -> None:
    run(SETUP["gevent"] + PLACES + HUB_ENDS, address)
