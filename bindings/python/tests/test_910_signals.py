"""Python's signal handlers run while a call waits, and the call goes on."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import datetime
import operator
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall import Client
from scripted import ScriptedServer, function
from support import (
    PATIENCE_SECONDS,
    Generations,
    Server,
    read_line,
    ring_during,
    run_python,
    wait_until,
    wait_until_in_call,
)


@pytest.fixture
def on_alarm() -> Iterator[Callable[[Callable[[], Any]], None]]:
    former = signal.getsignal(signal.SIGALRM)

    def install(function: Callable[[], Any]) -> None:
        signal.signal(signal.SIGALRM, lambda number, frame: function())

    yield install
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """Python's own handling of SIGINT, which a program started in the background
    does not have: its shell has made it ignore the signal."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, former)


USES: dict[str, Callable[[Client, int], Any]] = {
    "call": lambda client, duration_ms: client.sleep(duration_ms),
    "wait": lambda client, duration_ms: client.begin("sleep", duration_ms).wait(),
}


@pytest.mark.parametrize("use", USES)
def test_handlers_run_during_a_call(client: Client, on_alarm: Any, use: str) -> None:
    seen: list[float] = []
    on_alarm(lambda: seen.append(time.monotonic()))
    client.one()
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    assert USES[use](client, 2000) == 2000
    assert len(seen) >= 4
    assert seen[0] - start < 1.5
    assert 1.99 < time.monotonic() - start < 10


def test_interrupted_pings_take_time(client: Client, on_alarm: Any) -> None:
    handled: list[None] = []
    on_alarm(lambda: handled.append(None))
    client.ping()
    signal.setitimer(signal.ITIMER_REAL, 200e-6, 200e-6)
    interrupted = 0
    while interrupted < 100:
        before = len(handled)
        assert client.ping() > 0
        interrupted += len(handled) > before


class Alarm(Exception):
    pass


def raise_alarm() -> None:
    raise Alarm


def sleep_with_alarm(client: Client, after_us: int) -> None:
    signal.setitimer(signal.ITIMER_REAL, after_us / 1e6)
    client.sleep(60_000, timeout=2)


def test_signal_just_before_the_wait_is_not_missed(client: Client, on_alarm: Any) -> None:
    on_alarm(raise_alarm)
    client.one()
    missed = []
    for after_us in range(1, 301):
        start = time.monotonic()
        with pytest.raises(Alarm):
            sleep_with_alarm(client, after_us)
        if time.monotonic() - start > 1:
            missed.append(after_us)
        assert len(missed) < 10
    assert missed == []
    assert client.ack(2, 3) == 9


def test_what_a_handler_raises_is_raised_while_times_are_made(client: Client, on_alarm: Any) -> None:
    """Python runs handlers within the arithmetic of large integers, too."""
    moments = [datetime.datetime.now(datetime.UTC)] * 1000
    raise_at_any_time(on_alarm, lambda: client.identity(moments))
    assert client.identity(moments) == moments


def test_what_a_handler_raises_is_raised_while_long_durations_are_made(folder: Path, on_alarm: Any) -> None:
    reply = b"\xdc\x03\xe8" + (b"\xd3" + (2**62).to_bytes(8, "big")) * 1000
    description = function([], [{"list": "duration"}])
    with ScriptedServer(folder / "f", description, reply) as server, Client(server.address) as go:
        raise_at_any_time(on_alarm, go.f)


def raise_at_any_time(on_alarm: Any, call: Callable[[], Any]) -> None:
    on_alarm(raise_alarm)
    call()
    raised = 0
    for after_us in range(100, 20_000, 100):
        try:
            signal.setitimer(signal.ITIMER_REAL, after_us / 1e6)
            call()
            while True:
                time.sleep(1)
        except Alarm:
            raised += 1
    assert raised == len(range(100, 20_000, 100))


def test_looking_for_signals_begins_nothing_anew(own_server: Server) -> None:
    with Client(own_server.address) as client:
        client.one()
        own_server.pause()
        resume = threading.Timer(0.5, own_server.resume)
        resume.start()
        start = time.monotonic()
        round_trip = client.ping()
        took = time.monotonic() - start
        resume.join()
        assert 0.3 < round_trip < took + 0.01
        assert client.ping() < round_trip


@pytest.mark.parametrize("use", USES)
def test_handler_that_raises_ends_the_call(client: Client, on_alarm: Any, use: str) -> None:
    on_alarm(raise_alarm)
    client.one()
    for _ in range(3):
        start = time.monotonic()
        with pytest.raises(Alarm):
            ring_during(0.3, lambda: USES[use](client, 20_000))
        assert time.monotonic() - start < 5
        assert client.ack(2, 3) == 9


def test_keyboard_interrupt_leaves_the_client_usable(client: Client, on_alarm: Any, interrupt: Any) -> None:
    on_alarm(interrupt)
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            ring_during(0.03, lambda: client.sleep(20_000))
        assert client.ack(2, 3) == 9
        assert client.call_raw("echo", b"x") == b"x"


def test_interrupt_while_connecting(own_server: Server, on_alarm: Any, interrupt: Any) -> None:
    on_alarm(interrupt)
    own_server.pause()
    with Client(own_server.address) as client:
        for use in (client.connect, client.ping, client.one, lambda: client.begin("one"), lambda: client.one.__doc__):
            with pytest.raises(KeyboardInterrupt):
                ring_during(0.03, use)
        own_server.resume()
        assert client.one() == 1


def test_interrupt_while_sending(own_server: Server, on_alarm: Any, interrupt: Any) -> None:
    on_alarm(interrupt)
    with Client(own_server.address) as client:
        client.one()
        data = bytearray(3_000_000)
        for _ in range(3):
            own_server.pause()
            with pytest.raises(KeyboardInterrupt):
                ring_during(0.03, lambda: client.call_raw("echo", data))
            # Its memory is the caller's again.
            data.extend(b"x")
            own_server.resume()
            assert client.ack(2, 3) == 9
        assert client.call_raw("echo", data) == data


def test_signals_do_not_stretch_the_deadline(client: Client, on_alarm: Any) -> None:
    on_alarm(lambda: None)
    client.one()
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    start = time.monotonic()
    with pytest.raises(nearcall.DeadlineExceeded):
        client.block(5_000, timeout=0.3)
    assert 0.29 < time.monotonic() - start < 4


def test_handler_that_calls_the_same_client(client: Client, on_alarm: Any) -> None:
    answers: list[Any] = []
    on_alarm(lambda: answers.append((client.ack(2, 3), client.begin("one").wait(), client.call_raw("echo", b"x"))))
    client.one()
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    assert client.sleep(2000) == 2000
    assert answers == [(9, 1, b"x")]
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    assert client.begin("sleep", 2000).wait() == 2000
    assert len(answers) == 2


def test_handler_that_waits_for_the_same_call_is_told(client: Client, on_alarm: Any) -> None:
    call = client.begin("sleep", 2000)
    errors: list[BaseException] = []

    def handler() -> None:
        try:
            call.wait()
        except RuntimeError as error:
            errors.append(error)

    on_alarm(handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    assert call.wait() == 2000
    assert "another wait uses this call's connection" in str(errors[0])


def test_handler_that_cancels_the_call(client: Client, on_alarm: Any) -> None:
    call = client.begin("sleep", 20_000)
    on_alarm(call.cancel)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    # It ends by its cancellation, not by its deadline 20 seconds from now.
    start = time.monotonic()
    with pytest.raises(nearcall.Cancelled):
        call.wait()
    assert time.monotonic() - start < 15
    assert client.one() == 1


def test_handler_that_closes_the_client(address: str, on_alarm: Any) -> None:
    client = Client(address)
    client.one()
    on_alarm(client.close)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    assert client.sleep(2000) == 2000
    with pytest.raises(nearcall.FailedPrecondition):
        client.one()


ASKS: dict[str, Callable[[nearcall.Call], Any]] = {
    "wait": lambda call: call.wait(),
    "ready": lambda call: call.ready(),
}


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("transport", ["unix socket", "shared memory"])
def test_handler_that_raises_while_a_refused_call_is_begun_again(
    start_server: Callable[..., Server], on_alarm: Any, ask: str, transport: str
) -> None:
    generations = Generations(start_server, 1)
    on_alarm(raise_alarm)
    with Client(generations.address, shared_memory=transport == "shared memory") as client:
        client.transfer("alice", "bob")
        client.level()
        successor = generations.replace(2)
        with contextlib.suppress(nearcall.Unavailable):
            client.ping()  # of the former server; it notices that this has gone
        transfer, level = client.begin("transfer", src="alice", dst="bob"), client.begin("level")
        # It came back later than the refusal, whose description is asked for below.
        assert level.wait() == "seven"
        successor.pause()
        for _ in range(2):
            with pytest.raises(Alarm):
                ring_during(0.2, lambda: ASKS[ask](transfer))
        successor.resume()
        assert transfer.wait() == "alice to bob"
        assert generations.history() == ["level", "alice to bob"]


def ring_within(use: Callable[[], Any]) -> None:
    """Has SIGALRM's handler run in the first Python that `use`, which is written in C, leads to."""
    # None runs in between: they are called from C.
    list(map(operator.call, [partial(_thread.interrupt_main, signal.SIGALRM), use]))


@pytest.mark.parametrize("ask", ["wait", "ready", "cancel"])
def test_handler_that_raises_beside_a_failure(client: Client, on_alarm: Any, ask: str) -> None:
    on_alarm(raise_alarm)
    call = client.begin("fail", 5, "gone")
    wait_until(client.begin("one").ready, "a later call on the same connection")
    with pytest.raises(Alarm):
        ring_within(getattr(call, ask))
    for _ in range(2):
        with pytest.raises(nearcall.NotFound):
            call.wait()


class Ringing:
    """An engine that is interrupted where it puts failures into words."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def process(self) -> Any:
        ring = partial(_thread.interrupt_main, signal.SIGALRM)
        rung: list[Any] = list(map(operator.call, [ring, self._engine.process]))
        return rung[1]


def test_handler_that_raises_beside_a_failure_on_a_loop(address: str, on_alarm: Any) -> None:
    on_alarm(raise_alarm)
    raised: list[Any] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
        async with nearcall.AsyncClient(address) as client:
            await client.function("fail")
            lane = client._engine._places.lanes[0]
            lane.engine = Ringing(lane.engine)
            with pytest.raises(nearcall.NotFound):
                await asyncio.wait_for(client.fail(5, "gone"), PATIENCE_SECONDS)

    asyncio.run(main())
    assert {type(error) for error in raised} == {Alarm}


def test_sigterm_ends_a_worker_in_a_call(own_server: Server) -> None:
    code = """
import signal, sys, nearcall
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
client = nearcall.Client(sys.argv[1])
client.one()
print('ready', flush=True)
client.sleep(60_000)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, own_server.address], stdout=subprocess.PIPE, text=True
    ) as process:
        assert read_line(process) == "ready"
        wait_until_in_call(process.pid, process.pid)
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 7


def test_sigpipe_is_not_raised(own_server: Server) -> None:
    code = """
import os, signal, sys, nearcall
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
client = nearcall.Client(sys.argv[1], timeout=1.0)
pid = int(sys.argv[2])
client.one()
os.kill(pid, signal.SIGKILL)
for _ in range(20):
    try:
        client.call_raw('echo', bytes(100_000))
    except nearcall.Unavailable:
        pass
print('alive')
"""
    done = run_python(code, own_server.address, str(own_server.pid))
    assert done.stdout.strip() == "alive", done.stderr


def test_no_handler_is_installed() -> None:
    code = """
import signal
before = {number: signal.getsignal(number) for number in signal.valid_signals()}
status = open('/proc/self/status').read().split('SigCgt')[1].split()[1]
import nearcall
client = nearcall.Client('unix:/nowhere')
try:
    client.one()
except nearcall.Unavailable:
    pass
assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
assert open('/proc/self/status').read().split('SigCgt')[1].split()[1] == status
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_signal_in_another_thread_s_call(own_server: Server, on_alarm: Any) -> None:
    """Only the main thread runs handlers; a call elsewhere is waited through."""
    seen: list[int] = []
    on_alarm(lambda: seen.append(1))
    results: list[Any] = []
    with Client(own_server.address) as client:
        assert client.one() == 1
        own_server.pause()  # so that the call lasts until all signals have come
        thread = threading.Thread(target=lambda: results.append(client.one()))
        thread.start()
        try:
            for _ in range(10):
                wait_until_in_call(thread.native_id)
                assert thread.ident is not None
                signal.pthread_kill(thread.ident, signal.SIGALRM)
        finally:
            own_server.resume()
            thread.join(PATIENCE_SECONDS)
    assert results == [1]
    assert seen
