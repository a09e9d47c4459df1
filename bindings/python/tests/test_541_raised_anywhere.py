"""A signal's handler that raises at any place of AsyncClient's own code: the call that it interrupts has ended,
all others are told what became of them, and no place, watch or descriptor stays taken."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from ringing import Place, RangError, Ringer, Storm, try_each
from test_516_silent_connections import HalfStoppedServers, two_lanes
from test_520_greenlets import SETUP

import nearcall
from nearcall import AsyncClient
from nearcall.generated import AsyncGenerated
from support import PATIENCE_SECONDS, TESTS, descriptor_count

NewLoop = Callable[[], asyncio.AbstractEventLoop]
Scene = Callable[[AsyncClient], Awaitable[None]]

ENDLESS_MS = 600_000
RUNG_LEAST = 100
"""There are some 300 places. Which are reached depends on what comes first."""


@pytest.fixture(autouse=True)
def small_crowds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcall._places._PLACES_MAX", 2)
    monkeypatch.setattr("nearcall._places._LANES_MAX", 2)
    monkeypatch.setattr("nearcall._places._IDLE_SECONDS", 0.002)
    monkeypatch.setattr("nearcall._places._PAUSE_SECONDS", 0.002)


@pytest.fixture(autouse=True)
def no_complaints(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A coroutine that has not begun when it rings is not awaited, and what rings in the collector is only printed."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


async def ends(*calls: Awaitable[Any]) -> list[Any]:
    """What became of calls; none of them waits for ever."""
    return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), PATIENCE_SECONDS)


def check(ended: list[Any], *expected: Any) -> None:
    """Each call has ended as it should, and at most one as it was interrupted."""
    differing = [(end, one) for end, one in zip(ended, expected, strict=True) if end != one and type(end) is not one]
    assert len(differing) <= 1, differing
    assert all(isinstance(end, RangError) for end, _ in differing), differing


# ---- What is interrupted ----


async def alone(go: AsyncClient) -> None:
    """Nothing comes afterwards that would have the loop look again."""
    check(await ends(go.identity(1)), 1)


async def few(go: AsyncClient) -> None:
    late = asyncio.ensure_future(go.sleep(ENDLESS_MS, timeout=0.003))
    cancelled = asyncio.ensure_future(go.sleep(ENDLESS_MS))
    asyncio.get_running_loop().call_later(0.002, cancelled.cancel)
    calls = [go.identity("x"), go.fail(5, "gone"), go.sleep(1), cancelled, late]
    check(await ends(*calls), "x", nearcall.NotFound, 1, asyncio.CancelledError, nearcall.DeadlineExceeded)
    check(await ends(go.function("one"), go.one()), nearcall.AsyncFunction, 1)


async def crowd(go: AsyncClient) -> None:
    calls = [go.sleep(1) for _ in range(7)]
    check(await ends(*calls), *[1] * 7)
    full = [asyncio.ensure_future(go.sleep(ENDLESS_MS)) for _ in range(4)]
    check(await ends(go.one(timeout=0.003)), nearcall.DeadlineExceeded)
    for call in full:
        call.cancel()
    check(await ends(*full), *[asyncio.CancelledError] * 4)
    await asyncio.sleep(0.005)


async def compared(go: AsyncClient) -> None:
    description = {"name": "one", "hash": "0" * 64, "params": [], "results": ["int64"]}
    generated = AsyncGenerated(go, {"one": json.dumps(description)}, "warn")
    check(await ends(*(generated.call("one", timeout=None) for _ in range(3))), 1, 1, 1)


async def closed(go: AsyncClient) -> None:
    calls = [asyncio.ensure_future(go.sleep(ENDLESS_MS)) for _ in range(6)]
    await asyncio.sleep(0.003)
    try:
        go.close()
    except RangError:
        go.close()
    # One whose function was just found has come to know it by itself.
    kinds = {type(end) for end in await ends(*calls)}
    assert kinds <= {nearcall.Cancelled, nearcall.FailedPrecondition, RangError}, kinds


async def dropped(go: AsyncClient) -> None:
    """Its descriptor is another client's next."""
    for _ in range(2):
        client = AsyncClient(go.address, timeout=PATIENCE_SECONDS)
        check(await ends(client.one()), 1)
        del client
    check(await ends(go.one(), go.sleep(1)), 1, 1)


async def absent(go: AsyncClient) -> None:
    async with unavailable(go.address) as client:
        check(await ends(*(client.one() for _ in range(3))), *[nearcall.Unavailable] * 3)


@asynccontextmanager
async def unavailable(address: str) -> AsyncIterator[AsyncClient]:
    client = AsyncClient(address + ".none", timeout=PATIENCE_SECONDS)
    try:
        yield client
        await idle(client)
    finally:
        client.close()


# ---- What holds afterwards ----


async def idle(go: AsyncClient) -> None:
    """Nothing of it is taken, or waits, and its engines have no call."""
    places = go._engine._places
    end = time.monotonic() + PATIENCE_SECONDS
    while places._opening or any(lane.engine.due() != math.inf for lane in places.lanes):
        assert time.monotonic() < end, "a call is left behind"
        await asyncio.sleep(0.001)
    assert all((lane.places, lane.sent, lane._waiters) == (0, 0, {}) for lane in places.lanes)
    assert places._connector is None
    assert not places._queue
    assert not go._engine._comparing


async def still_works(go: AsyncClient) -> None:
    calls = [go.identity(n) for n in range(9)]
    assert await ends(*calls) == list(range(9))
    await idle(go)


async def main(scene: Scene, ringer: Ringer, address: str) -> None:
    other = AsyncClient(address, timeout=PATIENCE_SECONDS)
    await other.sleep(0)
    beside = asyncio.ensure_future(other.sleep(1))
    await asyncio.sleep(0)
    go = AsyncClient(address, timeout=PATIENCE_SECONDS)
    try:
        with ringer:
            await scene(go)
    except RangError:
        pass
    if not go.closed:
        await still_works(go)
    check(await ends(beside), 1)
    await still_works(other)
    again = AsyncClient(address, timeout=PATIENCE_SECONDS)
    await still_works(again)
    for client in (go, other, again):
        client.close()


def run(new_loop: NewLoop, scene: Scene, address: str, ringer: Ringer) -> None:
    raised: list[Any] = []
    loop = new_loop()
    loop.set_exception_handler(lambda _, context: raised.append(context.get("exception")))
    try:
        loop.run_until_complete(main(scene, ringer, address))
    finally:
        loop.close()
    assert {type(error) for error in raised} <= {RangError}, raised


OF_THE_LOOP = ("_lane.py", "_loop.py", "_places.py", "_runtime.py")


@pytest.mark.parametrize(
    ("new_loop", "files"),
    [(asyncio.new_event_loop, ("",)), (uvloop.new_event_loop, OF_THE_LOOP)],
    ids=["asyncio", "uvloop"],
)
def test_raised_anywhere(address: str, new_loop: NewLoop, files: tuple[str, ...]) -> None:
    run(new_loop, few, address, Ringer())
    gc.collect()
    before = descriptor_count()
    for turn in (1, 2, 3):
        try_each(functools.partial(run, new_loop, alone, address), {}, ("_lane.py",), turn)
    tried: dict[Place, None] = {}
    rung = 0
    for scene in (few, closed, dropped, compared, absent, crowd):
        rung += try_each(functools.partial(run, new_loop, scene, address), tried, files)
        gc.collect()
        assert descriptor_count() == before
    assert rung >= RUNG_LEAST


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_raised_while_another_loop_takes_over(address: str, new_loop: NewLoop) -> None:
    """Either loop goes on with the client."""

    async def one(go: AsyncClient) -> Any:
        return (await ends(go.one()))[0]

    def trial(ringer: Ringer) -> None:
        loops = [new_loop(), new_loop()]
        go = AsyncClient(address, timeout=PATIENCE_SECONDS)
        assert loops[0].run_until_complete(one(go)) == 1
        with ringer:
            assert loops[1].run_until_complete(one(go)) == 1 or ringer.has_rung
        for loop in loops:
            assert loop.run_until_complete(one(go)) == 1
        go.close()
        for loop in loops:
            loop.close()

    assert try_each(trial, {}, ("_loop.py:LoopEngine._", "_places.py:Places.bind", "_runtime.py")) > 0


def test_raised_while_a_connection_does_not_come(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls that wait for it go on by another one, and give back what they had there."""
    monkeypatch.setattr("nearcall._lane._CONNECT_PATIENCE_SECONDS", 0.002)
    monkeypatch.setattr("nearcall._places._PLACES_MAX", 1)
    monkeypatch.setattr("nearcall._places._IDLE_SECONDS", PATIENCE_SECONDS)

    async def main(server: HalfStoppedServers, ringer: Ringer) -> None:
        async with AsyncClient(server.address, timeout=PATIENCE_SECONDS) as go:
            lanes = await two_lanes(go)
            server.answers += [False]
            server.end_all()
            server.answers += [True] * 9
            with ringer:
                check(await ends(go.call("f"), go.call("not looked up before")), None, None)
            check(await ends(go.call("f"), go.call("not looked up before")), None, None)
            assert all((lane.places, lane.sent, lane._waiters) == (0, 0, {}) for lane in lanes)

    def trial(ringer: Ringer) -> None:
        with HalfStoppedServers(folder / "half.sock") as server:
            asyncio.run(main(server, ringer))
        (folder / "half.sock").unlink()

    of_that = ("_lane.py:_Impatience", "_places.py:Places.change", "_places.py:Places.stands")
    assert try_each(trial, {}, of_that) > 0


async def in_a_storm(go: AsyncClient, storm: Storm) -> None:
    calls = [asyncio.ensure_future(go.identity(n)) for n in range(12)]
    with storm:
        # Waiting here calls nothing of Nearcall's: what is raised ends calls, and this goes on.
        await ends(*calls)
    ended = await ends(*calls)
    assert all(end == n or isinstance(end, RangError) for n, end in enumerate(ended)), ended
    await still_works(go)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_signals_that_come_all_the_time(address: str, new_loop: NewLoop) -> None:
    """However often they do: each call has ended, and the client goes on."""

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        storm = Storm(0.0001)
        end = time.monotonic() + PATIENCE_SECONDS
        while storm.rung < 200:
            assert time.monotonic() < end, f"it has rung {storm.rung} times"
            async with AsyncClient(address, timeout=PATIENCE_SECONDS) as go:
                await in_a_storm(go, storm)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


# ---- Greenlets ----

GREENLETS = """
import math, sys, warnings
import nearcall, nearcall._places
from ringing import RangError, Ringer, try_each

warnings.simplefilter("ignore")
sys.unraisablehook = lambda _: None
nearcall._places._PLACES_MAX = nearcall._places._LANES_MAX = 2
nearcall._places._IDLE_SECONDS = nearcall._places._PAUSE_SECONDS = 0.002

def end_of(function):
    try:
        return function()
    except (RangError, Killed, nearcall.NearcallError) as error:
        return type(error)

def ends(*functions):
    return gather([lambda one=one: end_of(one) for one in functions])

def check(ended, *expected):
    differing = [end for end, one in zip(ended, expected, strict=True) if end != one]
    assert differing in ([], [RangError]), (ended, expected)

def idle(go):
    places = go._client._engine._places
    while places._opening or any(lane.engine.due() != math.inf for lane in places.lanes):
        sleep(0.001)
    state = [(lane.places, lane.sent, lane._waiters) for lane in places.lanes]
    assert state == [(0, 0, {})] * len(state), state
    assert not (places._connector or places._queue)

def still_works(go):
    assert ends(*(lambda n=n: go.identity(n) for n in range(9))) == list(range(9))
    idle(go)

def calls(go):
    late = lambda: go.sleep(600_000, timeout=0.005)
    check(ends(*[lambda: go.sleep(1)] * 5, late), *[1] * 5, nearcall.DeadlineExceeded)
    killed = spawn(end_of, lambda: go.sleep(600_000))
    sleep(0.002)
    killed.kill()
    check(ends(lambda: go.function("one")(), lambda: go.fail(5, "gone")), 1, nearcall.NotFound)
    sleep(0.004)

def dropped(go):
    for _ in range(2):
        client = Client(go.address, timeout=60)
        check(ends(client.one), 1)
        del client
    check(ends(go.one, lambda: go.sleep(1)), 1, 1)

def closed(go):
    waiting = [spawn(end_of, lambda: go.sleep(600_000)) for _ in range(6)]
    sleep(0.003)
    try:
        go.close()
    except RangError:
        go.close()
    for one in waiting:
        assert result_of(one) in (RangError, nearcall.Cancelled, nearcall.FailedPrecondition)

def trial(ringer):
    other = Client(sys.argv[1], timeout=60)
    go = Client(sys.argv[1], timeout=60)
    other.one()
    trace_hub(ringer.trace)
    try:
        with ringer:
            scene(go)
    except RangError:
        pass
    trace_hub(None)
    again = Client(sys.argv[1], timeout=60)
    for client in (other, again) if scene is closed else (go, other, again):
        still_works(client)
        client.close()

tried, rung = {}, 0
for scene in (calls, dropped, closed):
    rung += try_each(trial, tried, FILES)
assert rung >= 50
print("done")
"""
HUBS = {
    "gevent": """
from gevent import get_hub
from ringing import RangError
get_hub().NOT_ERROR += (RangError,)
FILES = ("gevent.py", "_green.py", "_lane.py")

def trace_hub(trace):
    traced = gevent.event.Event()
    def set_trace():
        sys.settrace(trace)
        traced.set()
    get_hub().loop.run_callback(set_trace)
    traced.wait()

def result_of(greenlet):
    return greenlet.get(timeout=60)
""",
    "eventlet": """
from eventlet import debug, hubs
debug.hub_exceptions(False)
FILES = ("eventlet.py", "_green.py", "_lane.py")

def trace_hub(trace):
    traced = eventlet.event.Event()
    def set_trace():
        sys.settrace(trace)
        traced.send()
    hubs.get_hub().schedule_call_global(0, set_trace)
    traced.wait()

def result_of(greenlet):
    return greenlet.wait()
""",
}


@pytest.mark.parametrize("hub", HUBS)
def test_raised_anywhere_among_greenlets(address: str, hub: str) -> None:
    code = SETUP[hub] + "import sys\n" + HUBS[hub] + GREENLETS
    ended = subprocess.run(
        [sys.executable, "-c", code, address],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
    )
    assert ended.stdout == "done\n", ended.stderr
