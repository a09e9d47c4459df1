"""AsyncClient on the caller's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall import AsyncClient, Outcome
from scripted import ScriptedServer, function
from support import Server, descriptor_count, in_child, wait_until


def test_calls(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            assert await go.ack(2, 3) == 9
            assert await go.call("divmod", 7, b=2) == (3, 1)
            assert await go.echo(b"bytes") == b"bytes"
            assert await go.identity({"a": [1, None]}) == {"a": [1, None]}
            assert not go.closed
        assert go.closed

    asyncio.run(main())


def test_no_thread_is_started(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            before = threading.active_count()
            await go.one()
            assert threading.active_count() <= before

    asyncio.run(main())


def test_many_calls_at_once(address: str) -> None:
    """More than a connection holds."""

    async def main() -> None:
        async with AsyncClient(address) as go:
            start = time.monotonic()
            results = await asyncio.gather(*(go.sleep(10) for _ in range(1000)))
            assert results == [10] * 1000
            assert time.monotonic() - start < 5
            assert await asyncio.gather(*(go.add(i, 0.5) for i in range(1000))) == [i + 0.5 for i in range(1000)]

    asyncio.run(main())


def test_calls_run_at_the_same_time(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            start = time.monotonic()
            await asyncio.gather(*(go.sleep(200) for _ in range(20)))
            assert time.monotonic() - start < 2

    asyncio.run(main())


def test_the_loop_runs_meanwhile(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            await go.one()
            task = asyncio.ensure_future(go.sleep(300))
            turns = 0
            while not task.done():
                await asyncio.sleep(0.001)
                turns += 1
            assert turns > 50
            assert task.result() == 300

    asyncio.run(main())


def test_large_values(address: str) -> None:
    async def main() -> None:
        data = bytes(range(256)) * 12_000
        async with AsyncClient(address) as go:
            assert await asyncio.gather(*(go.echo(data) for _ in range(10))) == [data] * 10

    asyncio.run(main())


def test_errors(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            with pytest.raises(nearcall.NotFound) as caught:
                await go.fail(5, "gone")
            assert caught.value.details == [("example.Hint", {"hint": "this is what fail is for"})]
            with pytest.raises(nearcall.Unimplemented):
                await go.nope()
            with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(m\)"):
                await go.ack("x", 1)
            with pytest.raises(nearcall.InvalidArgument):
                await go.one(timeout=0)
            with pytest.raises(AttributeError):
                _ = go._private
            assert await go.one() == 1

    asyncio.run(main())


def test_request_that_is_too_large(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            other = asyncio.ensure_future(go.sleep(200))
            await go.one()
            with pytest.raises(nearcall.ResourceExhausted):
                await go.echo(bytes(20_000_000))
            assert await other == 200

    asyncio.run(main())


def test_timeouts(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address, timeout=0.2) as go:
            await go.one()
            for timeout, call in ((0.2, go.sleep(20_000)), (0.05, go.sleep(20_000, timeout=0.05))):
                start = time.monotonic()
                with pytest.raises(nearcall.DeadlineExceeded):
                    await call
                assert timeout <= time.monotonic() - start + 0.002 < timeout + 1
            assert await go.sleep(300, timeout=math.inf) == 300
            assert await go.with_timeout(None).sleep(300) == 300
            assert (go.timeout, go.with_timeout(1).timeout, go.address) == (0.2, 1, address)

    asyncio.run(main())


def test_timeout_while_waiting_for_a_place(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcall._places._LANES_MAX", 2)
    monkeypatch.setattr("nearcall._places._PLACES_MAX", 64)

    async def main() -> None:
        async with AsyncClient(address) as go:
            await asyncio.gather(go.one(), go.sleep(1))
            calls = [asyncio.ensure_future(go.sleep(20_000)) for _ in range(200)]
            await asyncio.sleep(0)
            start = time.monotonic()
            with pytest.raises(nearcall.DeadlineExceeded) as caught:
                await go.one(timeout=0.1)
            assert caught.value.outcome is Outcome.NOT_EXECUTED
            assert time.monotonic() - start < 2
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            assert await go.one() == 1

    asyncio.run(main())


def test_cancelling_a_task_cancels_the_call(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            await go.one()
            for _ in range(300):
                task = asyncio.ensure_future(go.sleep(20_000))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert await asyncio.gather(*(go.one() for _ in range(100))) == [1] * 100

    asyncio.run(main())


def test_wait_for(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(go.sleep(20_000), 0.05)
            assert await go.one() == 1

    asyncio.run(main())


def test_closing_ends_calls(address: str) -> None:
    async def main() -> None:
        go = AsyncClient(address)
        tasks = [asyncio.ensure_future(go.sleep(20_000)) for _ in range(100)]
        await asyncio.sleep(0.05)
        go.close()
        for task in tasks:
            with pytest.raises((nearcall.Cancelled, nearcall.FailedPrecondition)):
                await asyncio.wait_for(task, 5)
        with pytest.raises(nearcall.FailedPrecondition):
            await go.one()

    asyncio.run(main())


def test_several_loops_one_after_another(address: str) -> None:
    before = descriptor_count()
    go = AsyncClient(address)

    async def main() -> int:
        return int(await go.ack(2, 3))

    assert [asyncio.run(main()) for _ in range(5)] == [9] * 5
    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(main()) == 9
    assert asyncio.run(main()) == 9
    assert loop.run_until_complete(main()) == 9
    loop.close()
    go.close()
    assert descriptor_count() == before


def test_loop_that_ends_during_a_call(address: str) -> None:
    go = AsyncClient(address)

    async def leave() -> None:
        task = asyncio.ensure_future(go.sleep(20_000))
        await asyncio.sleep(0.05)
        del task

    async def main() -> int:
        return int(await go.one())

    for _ in range(3):
        asyncio.run(leave())
        assert asyncio.run(main()) == 1
    go.close()


def test_two_loops_at_once_are_refused(address: str) -> None:
    go = AsyncClient(address)
    inside = threading.Event()
    leave = threading.Event()

    async def hold() -> None:
        await go.one()
        inside.set()
        while not leave.is_set():
            await asyncio.sleep(0.005)

    async def intrude() -> None:
        with pytest.raises(RuntimeError, match="one for each loop"):
            await go.one()

    thread = threading.Thread(target=asyncio.run, args=(hold(),))
    thread.start()
    assert inside.wait(10)
    try:
        asyncio.run(intrude())
    finally:
        leave.set()
        thread.join()
    go.close()


def test_server_that_restarts(own_server: Server) -> None:
    async def main() -> None:
        async with AsyncClient(own_server.address, timeout=10) as go:
            for _ in range(5):
                assert await go.ack(0, 1) == 2
                await asyncio.to_thread(own_server.restart)

    asyncio.run(main())


def test_server_that_restarted_before_the_loop_could_look(own_server: Server) -> None:
    """Nothing was sent of the call that finds the connection gone: that is no attempt."""

    async def main() -> None:
        async with AsyncClient(own_server.address, attempts=1, timeout=10, shared_memory=False) as go:
            for _ in range(3):
                assert await go.ack(0, 1) == 2
                own_server.restart()

    asyncio.run(main())


def test_server_that_dies_during_calls(own_server: Server) -> None:
    async def main() -> None:
        async with AsyncClient(own_server.address, timeout=10) as go:
            await asyncio.gather(go.one(), go.sleep(0))
            tasks = [asyncio.ensure_future(go.sleep(20_000)) for _ in range(10)]
            await asyncio.sleep(0)
            await go.one()  # sent behind them
            await asyncio.to_thread(own_server.restart)
            for task in tasks:
                with pytest.raises(nearcall.Unavailable) as caught:
                    await task
                assert caught.value.outcome is Outcome.UNKNOWN
            assert await go.one() == 1

    asyncio.run(main())


def test_server_that_died_before_the_loop_could_look(own_server: Server) -> None:
    """The next call finds the connection gone and tells those in flight on it."""

    async def main() -> None:
        async with AsyncClient(own_server.address, attempts=1) as go:
            assert (await go.one(), await go.sleep(0)) == (1, 0)
            running = asyncio.create_task(go.sleep(20_000))
            await go.one()
            own_server.stop(signal.SIGKILL)
            with pytest.raises(nearcall.Unavailable):
                await go.one()
            with pytest.raises(nearcall.Unavailable):
                async with asyncio.timeout(5):
                    await running

    asyncio.run(main())


def finish(engine: Any, number: int) -> None:
    wait_until(lambda: number in [one for one, _, _ in engine.process()], "the call has finished")


def test_looking_up_never_waits_for_a_server(folder: Path) -> None:
    """Another server came, and went, since the function was found."""
    path = folder / "scripted.sock"
    engine = AsyncClient(f"unix:{path}", timeout=1)._engine._places.first
    for name in ("f", "g"):
        with ScriptedServer(path, function([], [])):
            finish(engine, engine.find([], name, 5))
        engine.disconnect()
        path.unlink()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        with pytest.raises(nearcall.Unavailable):
            engine.found("f")


def test_no_server(folder: Path) -> None:
    async def main() -> None:
        async with AsyncClient(f"unix:{folder / 'none.sock'}", timeout=5) as go:
            start = time.monotonic()
            with pytest.raises(nearcall.Unavailable) as caught:
                await go.one()
            assert caught.value.outcome is Outcome.NOT_EXECUTED
            assert time.monotonic() - start < 3

    asyncio.run(main())


def test_stopped_server(own_server: Server) -> None:
    async def main() -> None:
        async with AsyncClient(own_server.address) as go:
            assert await go.one() == 1
            own_server.pause()
            start = time.monotonic()
            with pytest.raises(nearcall.DeadlineExceeded):
                await go.one(timeout=0.2)
            assert time.monotonic() - start < 2
            own_server.resume()
            assert await go.one() == 1

    asyncio.run(main())


def test_idle_client_costs_nothing(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            await go.one()
            before = time.process_time()
            await asyncio.sleep(0.5)
            assert time.process_time() - before < 0.05

    asyncio.run(main())


def test_after_fork_in_a_new_loop(address: str) -> None:
    go = AsyncClient(address)

    async def main() -> int:
        return int(await go.ack(2, 3))

    assert asyncio.run(main()) == 9
    assert in_child(lambda: asyncio.run(main())) == 9
    assert asyncio.run(main()) == 9
    go.close()


def test_fork_inside_a_running_loop(address: str) -> None:
    """The child makes a loop of its own; the parent's goes on undisturbed."""
    go = AsyncClient(address)

    async def ask() -> int:
        return int(await go.ack(2, 3))

    def child() -> int:
        asyncio.events._set_running_loop(None)
        return asyncio.run(ask())

    async def main() -> None:
        assert await ask() == 9
        waiting = asyncio.ensure_future(go.sleep(300))
        await asyncio.sleep(0)
        for _ in range(5):
            assert in_child(child) == 9
            assert await ask() == 9
        assert await waiting == 300

    asyncio.run(main())
    go.close()


def test_function_objects(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            ack = await go.function("ack")
            assert await ack(2, 3) == 9
            assert ack.__doc__
            assert ack.__name__ == "ack"
            assert list(inspect.signature(ack).parameters) == ["m", "n", "timeout"]
            with pytest.raises(nearcall.Unimplemented):
                await go.function("nope")

    asyncio.run(main())


def test_signals_reach_the_loop(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as go:
            loop = asyncio.get_running_loop()
            seen = asyncio.Event()
            loop.add_signal_handler(signal.SIGUSR1, seen.set)
            task = asyncio.ensure_future(go.sleep(300))
            await asyncio.sleep(0)
            signal.raise_signal(signal.SIGUSR1)
            await asyncio.wait_for(seen.wait(), 5)
            assert await task == 300
            loop.remove_signal_handler(signal.SIGUSR1)

    asyncio.run(main())


def test_process_without_a_free_descriptor(address: str) -> None:
    """The call is refused before it is sent, and works once there are descriptors again."""
    go = AsyncClient(address)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def main() -> int:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
        taken = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        with pytest.raises(nearcall.ResourceExhausted, match="too many open files, see ulimit -n") as caught:
            await go.ack(2, 3)
        assert caught.value.outcome is Outcome.NOT_EXECUTED
        for descriptor in taken:
            os.close(descriptor)
        return int(await go.ack(2, 3))

    assert in_child(lambda: asyncio.run(main())) == 9
    go.close()


def test_unused_client_needs_no_loop(address: str) -> None:
    AsyncClient(address).close()


@pytest.mark.parametrize("use", [lambda go: go.one(), lambda go: go.function("one")])
def test_coroutine_that_is_dropped(address: str, use: Callable[[AsyncClient], Any]) -> None:
    go = AsyncClient(address)
    use(go).close()
    go.close()


def test_connection_is_dropped_with_its_client(own_server: Server) -> None:
    async def main() -> None:
        sockets = own_server.socket_count()
        async with AsyncClient(own_server.address) as go:
            await go.one()
            assert own_server.socket_count() == sockets + 1
        wait_until(lambda: own_server.socket_count() == sockets, "the connection's end")

    asyncio.run(main())
