"""What comes between while AsyncClient works: arguments' own code, close(), other loops, signals, the collector."""

from __future__ import annotations

import asyncio
import gc
import itertools
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import uvloop

import nearcall
from nearcall import AsyncClient, Outcome
from support import PATIENCE_SECONDS, descriptor_count

NewLoop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> NewLoop:
    return asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop


@pytest.fixture
def loop(new_loop: NewLoop) -> Iterator[asyncio.AbstractEventLoop]:
    made = new_loop()
    yield made
    made.close()


class Number:
    """An integer whose own code does something else as well."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def __index__(self) -> int:
        self._act()
        return 2


async def bounded(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, PATIENCE_SECONDS)


def test_arguments_code_uses_the_client(address: str, loop: asyncio.AbstractEventLoop) -> None:
    """Calls begun, cancelled and processed meanwhile; each is sent as it was encoded."""

    async def main() -> None:
        async with AsyncClient(address) as go:
            await asyncio.gather(go.identity(0), go.sleep(1), go.one())
            for size in (1, 5000, 100_000):
                held: list[Coroutine[Any, Any, Any]] = []

                def act(size: int = size, held: list[Any] = held) -> None:
                    given_up = go.sleep(20_000)
                    given_up.send(None)
                    given_up.close()
                    held.append(go.identity(["inner" * size, Number(go._engine._places.first.process)]))
                    held[-1].send(None)
                    held.append(go.identity("second" * size))

                outer = await bounded(go.identity(["before" * size, Number(act), "after" * size]))
                assert outer == ["before" * size, 2, "after" * size]
                held[0].close()  # it was begun outside of any task
                assert await bounded(held[1]) == "second" * size
            assert await bounded(go.one()) == 1

    loop.run_until_complete(main())


def test_arguments_code_closes_the_client(address: str, loop: asyncio.AbstractEventLoop) -> None:
    async def main() -> None:
        go = AsyncClient(address, timeout=20)
        await asyncio.gather(go.ack(0, 1), go.sleep(0))
        beside = asyncio.ensure_future(go.sleep(20_000))
        await asyncio.sleep(0)
        with pytest.raises(nearcall.FailedPrecondition) as caught:
            await bounded(go.ack(Number(go.close), 1))
        assert caught.value.outcome is Outcome.NOT_EXECUTED
        with pytest.raises(nearcall.Cancelled):
            await bounded(beside)

    loop.run_until_complete(main())


def test_closing_again_and_calling_after_it(
    address: str, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while calls wait for a place."""
    monkeypatch.setattr("nearcall._places._LANES_MAX", 1)
    monkeypatch.setattr("nearcall._places._PLACES_MAX", 2)

    async def main() -> None:
        go = AsyncClient(address, timeout=4 * PATIENCE_SECONDS)
        await go.one()
        calls = [asyncio.ensure_future(go.sleep(100_000)) for _ in range(6)]
        await asyncio.sleep(0)
        assert len(go._engine._places._queue) == 4
        go.close()
        with pytest.raises(nearcall.FailedPrecondition):
            await bounded(go.one())
        go.close()
        ends = await bounded(asyncio.gather(*calls, return_exceptions=True))
        assert [type(end) for end in ends] == [nearcall.Cancelled] * 6
        assert [end.outcome for end in ends[2:]] == [Outcome.NOT_EXECUTED] * 4

    loop.run_until_complete(main())


def test_two_loops_in_turn(address: str, new_loop: NewLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first loop waits for ends when the second one takes the client over."""
    monkeypatch.setattr("nearcall._places._LANES_MAX", 1)
    monkeypatch.setattr("nearcall._places._PLACES_MAX", 1)
    go = AsyncClient(address, timeout=4 * PATIENCE_SECONDS)
    first, second = new_loop(), new_loop()

    async def begin() -> list[asyncio.Future[Any]]:
        await go.sleep(0)
        calls = [asyncio.ensure_future(go.sleep(100_000)) for _ in range(2)]
        while not go._engine._places._queue:
            await asyncio.sleep(0)
        return calls

    async def end(calls: list[asyncio.Future[Any]]) -> list[Any]:
        ends: list[Any] = await bounded(asyncio.gather(*calls, return_exceptions=True))
        return ends

    async def once() -> int:
        return int(await go.one())

    calls = first.run_until_complete(begin())
    assert second.run_until_complete(once()) == 1
    ends = first.run_until_complete(end(calls))
    assert [type(one) for one in ends] == [nearcall.Cancelled] * 2
    assert [one.outcome for one in ends] == [Outcome.UNKNOWN, Outcome.NOT_EXECUTED]
    assert first.run_until_complete(once()) == 1
    go.close()
    first.close()
    second.close()


class AlarmRangError(Exception):
    """Raised by the handler of SIGALRM."""


def test_handler_that_raises_among_replies(address: str, loop: asyncio.AbstractEventLoop) -> None:
    """However often it does, each call is told what became of it."""
    interruptions = 0

    def raise_alarm(*_: object) -> None:
        nonlocal interruptions
        interruptions += 1
        raise AlarmRangError

    class Interrupted:
        """The lane's waiters: between two replies a signal comes."""

        def __init__(self, waiters: dict[int, Any]) -> None:
            self._waiters = waiters
            self._turn = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._waiters, name)

        def __setitem__(self, number: int, future: Any) -> None:
            self._waiters[number] = future

        def pop(self, number: int, default: Any) -> Any:
            found = self._waiters.pop(number, default)
            self._turn += 1
            if self._turn % 7 == 0:
                signal.raise_signal(signal.SIGALRM)
            return found

    async def main() -> None:
        async with AsyncClient(address, timeout=20) as go:
            await go.one()
            lane = go._engine._places.lanes[0]
            lane._waiters = Interrupted(lane._waiters)  # type: ignore[assignment]
            calls = [asyncio.ensure_future(go.sleep(20)) for _ in range(100)]
            assert await bounded(asyncio.gather(*calls)) == [20] * 100

    raised: list[BaseException] = []
    loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
    former = signal.signal(signal.SIGALRM, raise_alarm)
    try:
        loop.run_until_complete(main())
    finally:
        signal.signal(signal.SIGALRM, former)
    assert interruptions >= 10
    assert {type(error) for error in raised} == {AlarmRangError}


@pytest.mark.parametrize("attempts", [3, 16])
def test_deadline_bounds_all_attempts(folder: Path, loop: asyncio.AbstractEventLoop, attempts: int) -> None:
    """Its pauses grow to half a minute at the sixteenth."""

    async def main() -> None:
        async with AsyncClient(f"unix:{folder / 'none.sock'}", timeout=0.3, attempts=attempts) as go:
            for _ in range(3):
                start = time.monotonic()
                with pytest.raises(nearcall.Unavailable) as caught:
                    await bounded(go.one())
                assert caught.value.outcome is Outcome.NOT_EXECUTED
                assert time.monotonic() - start < 0.3 + 0.5

    loop.run_until_complete(main())


def test_no_attempt_after_the_deadline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when looking up a host's name has taken it all."""
    tried = 0

    async def main() -> None:
        async with AsyncClient(f"unix:{folder / 'none.sock'}", timeout=0.05, attempts=5) as go:
            call = go._engine.call

            async def late(*arguments: Any) -> Any:
                nonlocal tried
                tried += 1
                time.sleep(0.06)
                return await call(*arguments)

            monkeypatch.setattr(go._engine, "call", late)
            with pytest.raises(nearcall.Unavailable):
                await bounded(go.one())

    asyncio.run(main())
    assert tried == 1


def test_dropped_client_is_closed(address: str, loop: asyncio.AbstractEventLoop) -> None:
    """Also where the collector finds it."""

    async def use(in_cycle: bool) -> None:
        go = AsyncClient(address)
        await asyncio.gather(go.one(), go.sleep(0, timeout=1))
        if in_cycle:
            go.__dict__["itself"] = go

    async def main() -> None:
        await use(in_cycle=False)
        await asyncio.sleep(0)
        before = descriptor_count()
        for in_cycle in (False, True):
            for _ in range(20):
                await use(in_cycle)
            gc.collect()
            end = time.monotonic() + PATIENCE_SECONDS
            while descriptor_count() > before:
                assert time.monotonic() < end, "dropped clients keep descriptors"
                await asyncio.sleep(0.001)

    loop.run_until_complete(main())


def test_client_in_use_is_not_dropped(address: str, loop: asyncio.AbstractEventLoop) -> None:
    async def main() -> None:
        calls = [asyncio.ensure_future(AsyncClient(address).sleep(20)) for _ in range(5)]
        await asyncio.sleep(0)
        gc.collect()
        assert await bounded(asyncio.gather(*calls)) == [20] * 5

    loop.run_until_complete(main())


def test_timeouts_are_numbers_of_any_kind(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            assert await go.one(timeout=Decimal("2")) == 1
            for timeout in ("2", True):
                with pytest.raises(TypeError):
                    await go.one(timeout=timeout)

    asyncio.run(main())


def test_collector_closes_the_client(address: str, loop: asyncio.AbstractEventLoop) -> None:
    """A finalizer may, wherever an object is made. Calls end as of a closed client; the loop has nothing to tell."""
    told: list[Any] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    left = -1
    go: AsyncClient

    def close_in_turn(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            go.close()

    async def main() -> bool:
        calls = [go.identity([[1], {"a": [2]}]), go.fail(5, "gone"), go.function("divmod"), go.ack(1, 2)]
        ends = await bounded(asyncio.gather(*calls, return_exceptions=True))
        kinds = (list, nearcall.NotFound, nearcall.AsyncFunction, int)
        for end, kind in zip(ends, kinds, strict=True):
            assert isinstance(end, (kind, nearcall.FailedPrecondition, nearcall.Cancelled)), end
        return go.closed

    former = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(close_in_turn)
    try:
        for turn in itertools.count(1, 3):
            go = AsyncClient(address, timeout=PATIENCE_SECONDS)
            left = turn
            gc.set_threshold(1)
            was_closed = loop.run_until_complete(main())
            gc.set_threshold(*former)
            left = -1
            go.close()
            if not was_closed:
                break
    finally:
        gc.callbacks.remove(close_in_turn)
        gc.set_threshold(*former)
    assert not told
    assert turn > 100
