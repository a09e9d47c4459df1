"""AsyncClient on the event loops that people use, with many calls in flight."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import copy
import gc
import inspect
import itertools
import json
import os
import pickle
import random
import resource
import signal
import struct
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
import uvloop

import nearcall
from nearcall import AsyncClient, Outcome
from nearcall.generated import AsyncGenerated
from support import PATIENCE_SECONDS, Server, descriptor_count, in_child

Run = Callable[[Callable[[], Awaitable[Any]]], Any]


def on_asyncio(main: Callable[[], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        return await main()

    return asyncio.run(run())


def on_uvloop(main: Callable[[], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        return await main()

    return uvloop.run(run())


def on_anyio(main: Callable[[], Awaitable[Any]]) -> Any:
    return anyio.run(main)


def on_anyio_with_uvloop(main: Callable[[], Awaitable[Any]]) -> Any:
    return anyio.run(main, backend_options={"use_uvloop": True})


@pytest.fixture(params=[on_asyncio, on_uvloop, on_anyio, on_anyio_with_uvloop])
def run(request: pytest.FixtureRequest) -> Run:
    kind: Run = request.param
    return kind


def test_calls_at_the_same_time(address: str, run: Run) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            assert await asyncio.gather(*(go.add(n, 1) for n in range(200))) == [n + 1 for n in range(200)]
            assert await asyncio.gather(*(go.sleep(n % 20) for n in range(200))) == [n % 20 for n in range(200)]

    run(main)


def test_thousands_in_flight(address: str, run: Run) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            start = time.monotonic()
            assert await asyncio.gather(*(go.sleep(2000) for _ in range(2500))) == [2000] * 2500
            assert time.monotonic() - start < 3.9

    run(main)


def test_quick_call_beside_slow_ones(address: str, run: Run) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            slow = [asyncio.ensure_future(go.sleep(20_000)) for _ in range(500)]
            await go.one()
            start = time.monotonic()
            for _ in range(20):
                assert await go.one() == 1
            assert time.monotonic() - start < 2
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)

    run(main)


def test_calls_after_others_have_timed_out(start_server: Callable[..., Server], run: Run) -> None:
    """Functions run on where nobody waits for them: they count, and take nobody's place."""
    server = start_server("-calls-in-flight", "64")

    async def main() -> None:
        async with AsyncClient(server.address) as go:
            assert await go.one() == 1
            lost = await asyncio.gather(*(go.block(6000, timeout=0.2) for _ in range(150)), return_exceptions=True)
            assert {type(error) for error in lost} == {nearcall.DeadlineExceeded}
            quick = (go.add(n, 1, timeout=2.5) for n in range(300))
            assert await asyncio.gather(*quick) == [n + 1 for n in range(300)]

    run(main)
    server.stop(signal.SIGKILL)


def test_deadlines_are_kept_in_a_crowd(address: str, run: Run) -> None:
    async def late(go: AsyncClient, seconds: float) -> float:
        start = time.monotonic()
        with pytest.raises(nearcall.DeadlineExceeded):
            await go.sleep(20_000, timeout=seconds)
        return time.monotonic() - start - seconds

    async def main() -> None:
        async with AsyncClient(address) as go:
            await go.one()
            delays = await asyncio.gather(*(late(go, random.uniform(0.1, 1)) for _ in range(1500)))
            assert min(delays) > -0.005
            assert max(delays) < 1.5

    run(main)


@pytest.mark.parametrize("free", range(6))
def test_calls_do_without_a_further_connection(address: str, run: Run, free: int) -> None:
    async def main() -> list[int]:
        async with AsyncClient(address, timeout=30) as go:
            await go.one()
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
            taken = []
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.open("/dev/null", os.O_RDONLY))
            for descriptor in taken[:free]:
                os.close(descriptor)
            return await asyncio.gather(*(go.sleep(100) for _ in range(600)))

    assert in_child(lambda: run(main)) == [100] * 600


def test_idle_connections_are_closed(address: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcall._places._IDLE_SECONDS", 0.1)

    async def main() -> None:
        async with AsyncClient(address, timeout=30) as go:
            await go.one()
            before = descriptor_count()
            for _ in range(2):
                assert await asyncio.gather(*(go.sleep(100) for _ in range(600))) == [100] * 600
                assert descriptor_count() > before
                end = time.monotonic() + PATIENCE_SECONDS
                while descriptor_count() > before:
                    assert time.monotonic() < end, "connections stay"
                    assert await go.one() == 1
                    await asyncio.sleep(0.01)

    run(main)


def test_server_killed_during_large_sends(own_server: Server, run: Run) -> None:
    """Each call has an outcome, and the loop has nothing to complain about."""
    complaints: list[dict[str, Any]] = []
    data = bytes(3_000_000)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with AsyncClient(own_server.address, timeout=20, shared_memory=False) as go:
            for _ in range(3):
                await go.one()
                own_server.pause()
                tasks = [asyncio.ensure_future(go.echo(data)) for _ in range(40)]
                # All have been begun, and none can be sent as a whole.
                for _ in range(5):
                    await asyncio.sleep(0)
                await asyncio.to_thread(own_server.restart, signal.SIGKILL)
                results = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(isinstance(result, (bytes, nearcall.Unavailable)) for result in results)
                assert await go.one() == 1

    run(main)
    assert complaints == []


def test_server_restarts_while_calls_are_made(
    folder: Path, start_server: Callable[..., Server], run: Run
) -> None:
    path = folder / "ledger"
    own_server = start_server("-ledger", str(path))
    numbers = itertools.count(1)
    outcomes: dict[int, Outcome] = {}

    async def main() -> None:
        async with AsyncClient(own_server.address, timeout=20, attempts=8) as go:
            ended = False

            async def call() -> None:
                while not ended:
                    key = next(numbers)
                    try:
                        assert await go.ledger(key) == key
                        outcomes[key] = Outcome.EXECUTED
                    except nearcall.Unavailable as error:
                        outcomes[key] = error.outcome
                        await asyncio.sleep(0.01)

            tasks = [asyncio.ensure_future(call()) for _ in range(100)]
            for _ in range(4):
                await asyncio.sleep(0.1)
                await asyncio.to_thread(own_server.restart)
            ended = True
            await asyncio.gather(*tasks)
            assert await go.one() == 1

    run(main)
    own_server.stop()  # what runs ends first
    ran = collections.Counter(key for (key,) in struct.iter_unpack("<Q", path.read_bytes()))
    assert max(ran.values()) == 1, "a call ran twice"
    executed = {Outcome.EXECUTED, Outcome.EXECUTED_RESULT_LOST}
    assert {key for key, outcome in outcomes.items() if outcome in executed} <= ran.keys()
    assert not {key for key, outcome in outcomes.items() if outcome is Outcome.NOT_EXECUTED} & ran.keys()


def eventpolls() -> set[str]:
    """The descriptors of this process that are epoll instances."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            if os.readlink(entry) == "anon_inode:[eventpoll]":
                found.add(entry.name)
    return found


async def use_and_drop(address: str) -> None:
    """A client that is not closed, whose calls have failed in all the ways in which replies tell so."""
    go = AsyncClient(address)
    with contextlib.suppress(nearcall.NotFound):
        await go.fail(5, "gone")
    with contextlib.suppress(nearcall.DeadlineExceeded):
        await go.sleep(20_000, timeout=0.001)


def test_dropped_client_is_closed_although_its_calls_have_failed(address: str, run: Run) -> None:
    """Without the garbage collector, which may not come for a long time."""

    async def main() -> None:
        gc.collect()
        before = descriptor_count()
        for _ in range(5):
            await use_and_drop(address)
        end = time.monotonic() + PATIENCE_SECONDS
        while descriptor_count() > before:
            assert time.monotonic() < end, "dropped clients keep descriptors"
            await asyncio.sleep(0.005)

    gc.disable()
    try:
        run(main)
    finally:
        gc.enable()


def test_loop_watches_one_descriptor_whatever_becomes_of_the_server(own_server: Server, run: Run) -> None:
    """It is the library's own, and nothing stands between the two."""

    async def main() -> None:
        before = eventpolls()
        async with AsyncClient(own_server.address, timeout=20) as go:
            seen = set()
            for _ in range(4):
                assert await go.one() == 1
                seen.add(frozenset(eventpolls() - before))
                await asyncio.to_thread(own_server.restart)
            assert seen == {frozenset({str(go._engine._places.first.fileno())})}
        assert eventpolls() == before

    run(main)


def test_client_is_used_on_one_loop_after_another(address: str, run: Run) -> None:
    before = descriptor_count()
    go = AsyncClient(address)

    async def main() -> list[int]:
        return await asyncio.gather(*(go.ack(2, 3) for _ in range(100)))

    for _ in range(3):
        assert run(main) == [9] * 100
    assert in_child(lambda: run(main)) == [9] * 100
    assert run(main) == [9] * 100
    go.close()
    assert descriptor_count() == before


def test_cancelling(address: str, run: Run) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            for _ in range(5):
                tasks = [asyncio.ensure_future(go.sleep(20_000)) for _ in range(200)]
                await go.one()
                for task in tasks:
                    task.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
                assert {type(end) for end in ends} == {asyncio.CancelledError}
            assert await go.one() == 1

    run(main)


def test_cancel_scopes_of_anyio(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            with anyio.move_on_after(0.05) as scope:
                await go.sleep(20_000)
            assert scope.cancelled_caught
            with pytest.raises(TimeoutError):
                with anyio.fail_after(0.05):
                    await go.sleep(20_000)
            results: list[float] = []

            async def call(number: int) -> None:
                results.append(await go.add(1, number))

            async with anyio.create_task_group() as group:
                for number in range(100):
                    group.start_soon(call, number)
            assert sorted(results) == [number + 1 for number in range(100)]

    anyio.run(main)


def test_trio_is_refused(address: str) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"event loop of asyncio.*trio\.to_thread\.run_sync"):
            await AsyncClient(address).one()

    trio.run(main)
    anyio.run(main, backend="trio")


def test_trio_calls_from_a_thread(address: str) -> None:
    async def main() -> None:
        with nearcall.Client(address) as go:
            assert await trio.to_thread.run_sync(go.ack, 2, 3) == 9

    trio.run(main)


def test_fairness_without_a_free_place(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits longest is next, and who gives up loses no place for the others."""
    monkeypatch.setattr("nearcall._places._LANES_MAX", 1)
    monkeypatch.setattr("nearcall._places._PLACES_MAX", 4)
    order: list[int] = []

    async def call(go: AsyncClient, number: int) -> None:
        await go.sleep(1)
        order.append(number)

    async def main() -> None:
        async with AsyncClient(address) as go:
            await go.sleep(1)
            holders = [asyncio.ensure_future(go.sleep(200)) for _ in range(4)]
            await asyncio.sleep(0)
            with pytest.raises(nearcall.DeadlineExceeded) as caught:
                await go.one(timeout=0.05)
            assert caught.value.outcome is Outcome.NOT_EXECUTED
            given_up = asyncio.ensure_future(go.one())
            waiting = [asyncio.ensure_future(call(go, number)) for number in range(40)]
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.gather(*holders, *waiting)
            assert all(abs(place - number) < 4 for place, number in enumerate(order))

    asyncio.run(main())


async def held(go: AsyncClient, count: int) -> list[asyncio.Task[Any]]:
    """Slow calls that the server has begun, as far as it takes them."""
    tasks = [asyncio.ensure_future(go.sleep(60_000)) for _ in range(count)]
    await go.one()
    return tasks


async def let_go(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_further_connection_is_refused(start_server: Callable[..., Server], run: Run) -> None:
    """The calls wait for places on the one there is."""
    server = start_server("-connections-per-user", "1")

    async def main() -> None:
        async with AsyncClient(server.address) as go:
            assert await asyncio.gather(*(go.sleep(100) for _ in range(700))) == [100] * 700
            tasks = await held(go, 250)
            assert await asyncio.gather(*(go.add(n, 1) for n in range(400))) == [n + 1 for n in range(400)]
            assert len(go._engine._places.lanes) == 1
            await let_go(tasks)

    run(main)


@pytest.mark.parametrize("calls_in_flight", [1, 4, 64])
def test_quick_calls_beside_slow_ones_on_a_server_that_takes_few(
    start_server: Callable[..., Server], calls_in_flight: int
) -> None:
    server = start_server("-calls-in-flight", str(calls_in_flight))

    async def main() -> None:
        async with AsyncClient(server.address) as go:
            for _ in range(2):
                assert await go.one() == 1
                tasks = [asyncio.ensure_future(go.sleep(60_000)) for _ in range(2 * calls_in_flight)]
                quick = (go.add(n, 1, timeout=5) for n in range(200))
                assert await asyncio.gather(*quick) == [n + 1 for n in range(200)]
                await let_go(tasks)
                # Once more over what has to be connected again.
                await asyncio.to_thread(server.restart)

    asyncio.run(main())


def test_all_connections_hold_slow_calls(start_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits is bound to none of them: the first place that is free is taken."""
    monkeypatch.setattr("nearcall._places._LANES_MAX", 2)
    server = start_server("-calls-in-flight", "4")

    async def main() -> None:
        async with AsyncClient(server.address) as go:
            tasks = await held(go, 7)
            assert await go.one() == 1
            short = asyncio.ensure_future(go.sleep(300))
            assert await asyncio.gather(*(go.add(n, 1, timeout=10) for n in range(50))) == [n + 1 for n in range(50)]
            assert await short == 300
            await let_go(tasks)

    asyncio.run(main())


def test_calls_that_wait_for_a_connection_fail_with_it(folder: Path) -> None:
    async def main() -> None:
        async with AsyncClient(f"unix:{folder / 'none.sock'}", timeout=20) as go:
            ends = await asyncio.gather(*(go.one() for _ in range(300)), return_exceptions=True)
            assert {type(end) for end in ends} == {nearcall.Unavailable}
            assert {end.outcome for end in ends if isinstance(end, nearcall.NearcallError)} == {Outcome.NOT_EXECUTED}
            assert len(set(map(id, ends))) == 300, "each has an exception of its own"

    asyncio.run(main())


def test_cancelled_at_the_moment_the_turn_fails(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancellation is not lost."""
    monkeypatch.setattr("nearcall._places._LANES_MAX", 1)
    monkeypatch.setattr("nearcall._places._PLACES_MAX", 1)

    async def main() -> None:
        go = AsyncClient(address)
        tasks = await held(go, 0)
        tasks = [asyncio.ensure_future(go.sleep(60_000)) for _ in range(2)]
        await asyncio.sleep(0)
        go.close()
        tasks[1].cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(end) for end in ends] == [nearcall.Cancelled, asyncio.CancelledError]

    asyncio.run(main())


@pytest.mark.parametrize("places", [1, 2])
def test_generated_code_compares_without_a_free_place(
    address: str, monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    monkeypatch.setattr("nearcall._places._LANES_MAX", 1)
    monkeypatch.setattr("nearcall._places._PLACES_MAX", places)

    async def main() -> None:
        async with AsyncClient(address) as go:
            description = await go._engine.find("one", time.monotonic() + 10)
            written_for = json.dumps({**description, "hash": "0" * 64})
            generated = AsyncGenerated(go, {"one": written_for}, "error")
            assert await asyncio.gather(*(generated.call("one", timeout=10) for _ in range(20))) == [1] * 20
            changed = json.dumps({**description, "hash": "0" * 64, "results": ["string"]})
            generated = AsyncGenerated(go, {"one": changed}, "error")
            calls = (generated.call("one", timeout=10) for _ in range(20))
            for error in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(error, nearcall.FailedPrecondition)
                assert error.outcome is Outcome.NOT_EXECUTED
            assert await go.one() == 1

    asyncio.run(main())


def test_methods_are_coroutine_functions(address: str) -> None:
    go = AsyncClient(address)
    for function in (go.ack, go.call, go.function):
        assert inspect.iscoroutinefunction(function)
    assert list(inspect.signature(go.ack).parameters) == ["args", "timeout", "named"]
    assert not inspect.iscoroutinefunction(go.with_timeout)
    go.close()


def test_pickles_like_client(address: str) -> None:
    go = AsyncClient(address, timeout=5, name="pickled", attempts=2)

    async def ask(client: AsyncClient) -> int:
        async with client:
            return int(await client.ack(2, 3))

    for client in (pickle.loads(pickle.dumps(go)), copy.copy(go), pickle.loads(pickle.dumps(go.with_timeout(7)))):
        assert client.address == address
        assert asyncio.run(ask(client)) == 9
    assert pickle.loads(pickle.dumps(go.with_timeout(7))).timeout == 7
    go.close()
