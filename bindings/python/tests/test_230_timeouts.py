"""Every call ends by its deadline, whatever state the server is in."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import fractions
import math
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall import Client, Outcome
from scripted import LateServer
from support import Server

GRACE_SECONDS = 0.05
# What the test's own process may add on a machine that does other things too.
SLACK_SECONDS = 1.5
ATTEMPTS = 20


def ends_in_time(call: Callable[[], Any], timeout: float) -> nearcall.DeadlineExceeded:
    start = time.monotonic()
    with pytest.raises(nearcall.DeadlineExceeded) as caught:
        call()
    elapsed = time.monotonic() - start
    assert timeout <= elapsed + 0.002
    assert elapsed <= timeout + GRACE_SECONDS + SLACK_SECONDS
    assert isinstance(caught.value, TimeoutError)
    return caught.value


def outcome_once_begun(call: Callable[[], Any], timeout: float) -> Outcome:
    """A server that gets no processor in time has not begun, and says so: then once more."""
    for _ in range(ATTEMPTS):
        outcome = ends_in_time(call, timeout).outcome
        if outcome is not Outcome.NOT_EXECUTED:
            break
    return outcome


@pytest.mark.parametrize("timeout", [0.01, 0.1, 0.3])
def test_slow_function(client: Client, timeout: float) -> None:
    outcome = outcome_once_begun(lambda: client.sleep(10_000, timeout=timeout), timeout)
    # The function stops with its context: it says so, when it is quick enough.
    assert outcome in (Outcome.EXECUTED, Outcome.UNKNOWN)
    assert client.one() == 1


@pytest.mark.parametrize("begun", [False, True])
def test_time_runs_from_the_beginning(folder: Path, begun: bool) -> None:
    with LateServer(folder / "late.sock", 2.0) as server, Client(server.address, timeout=3.0) as client:
        ends_in_time(lambda: client.begin("f").wait() if begun else client.call("f"), 3.0)
        assert len(server.requests) == 2, "refused, and encoded again"


class SlowZone(datetime.tzinfo):
    def utcoffset(self, _moment: datetime.datetime | None) -> datetime.timedelta:
        time.sleep(0.1)
        return datetime.timedelta(0)


class SlowFile:
    def fileno(self) -> int:
        time.sleep(0.1)
        return 0


class SlowNumber:
    def __index__(self) -> int:
        time.sleep(0.1)
        return 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("identity", datetime.datetime(2020, 1, 1, tzinfo=SlowZone())),
        ("file_join", SlowFile()),
        ("identity", SlowNumber()),
    ],
)
def test_code_of_values_is_part_of_the_time(
    start_server: Callable[..., Server], name: str, value: object
) -> None:
    with Client(start_server("-files").address) as client:
        error = ends_in_time(lambda: client.call(name, [value] * 10, timeout=0.25), 0.25)
        assert error.outcome is Outcome.NOT_EXECUTED
        assert client.one() == 1


def test_function_that_cannot_be_cancelled(client: Client) -> None:
    assert outcome_once_begun(lambda: client.block(2_000, timeout=0.1), 0.1) is Outcome.UNKNOWN
    assert client.one() == 1


def test_what_was_not_executed_never_began(folder: Path, start_server: Callable[..., Server]) -> None:
    """Calls whose time is over before, while and after the server reads them."""
    path = folder / "ledger"
    server = start_server("-ledger", str(path))
    outcomes: dict[int, Outcome] = {}
    with Client(server.address, timeout=20) as client:
        for key in range(60):
            client.ledger_slow(1000 + key, 0)
            server.pause()
            goes_on = threading.Timer(0.0002 * key, server.resume)
            goes_on.start()
            with pytest.raises(nearcall.DeadlineExceeded) as caught:
                client.ledger_slow(key, 100, timeout=0.006)
            goes_on.join()
            outcomes[key] = caught.value.outcome
    server.stop()  # what runs ends first
    began = {key for (key,) in struct.iter_unpack("<Q", path.read_bytes())}
    assert began & set(outcomes), "some are read in time"
    assert set(outcomes) - began, "and some are not"
    for key, outcome in outcomes.items():
        assert outcome is not (Outcome.NOT_EXECUTED if key in began else Outcome.EXECUTED)


def test_what_is_no_timeout_is_named(address: str) -> None:
    with Client(address) as client, pytest.raises(TypeError, match="timeout is a number of seconds"):
        client.one(timeout="soon")
    with pytest.raises(TypeError, match="timeout is a number of seconds"):
        Client(address, timeout="soon")  # type: ignore[arg-type]


def test_timeout_of_the_client(address: str) -> None:
    with Client(address, timeout=0.1) as client:
        assert client.one() == 1
        ends_in_time(lambda: client.sleep(10_000), 0.1)
        ends_in_time(lambda: client.call("sleep", 10_000), 0.1)
        assert client.sleep(150, timeout=5) == 150
        assert client.with_timeout(5).sleep(150) == 150
        assert client.with_timeout(None).sleep(150) == 150
        assert client.sleep(150, timeout=math.inf) == 150


def test_stopped_server(own_server: Server) -> None:
    with Client(own_server.address) as client:
        assert client.one() == 1
        own_server.pause()
        error = ends_in_time(lambda: client.one(timeout=0.2), 0.2)
        assert error.outcome is Outcome.UNKNOWN
        ends_in_time(lambda: client.ping(timeout=0.2), 0.2)
        ends_in_time(lambda: client.call_raw("echo", bytes(2_000_000), timeout=0.2), 0.2)
        own_server.resume()
        assert client.one() == 1


def test_server_stopped_before_it_accepts(own_server: Server) -> None:
    own_server.pause()
    with Client(own_server.address, timeout=0.2) as client:
        for call in (client.connect, client.ping, lambda: client.ack(0, 1), lambda: client.call_raw("echo", b"")):
            error = ends_in_time(call, 0.2)
            assert error.outcome is Outcome.NOT_EXECUTED
        own_server.resume()
        assert client.with_timeout(10).ack(0, 1) == 2


def test_listener_that_never_accepts(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "silent.sock"))
        listener.listen(0)
        with Client(f"unix:{folder / 'silent.sock'}", timeout=0.2) as first, first.with_timeout(0.1) as second:
            ends_in_time(lambda: first.one(), 0.2)
            ends_in_time(lambda: second.one(), 0.1)


def test_other_threads_run_meanwhile(client: Client) -> None:
    """The interpreter is free while a call waits."""
    assert client.one() == 1
    count = 0
    done = threading.Event()

    def work() -> None:
        nonlocal count
        while not done.is_set():
            count += 1

    worker = threading.Thread(target=work)
    worker.start()
    before = count
    assert client.sleep(200) == 200
    assert count > before + 1000
    done.set()
    worker.join()


def test_a_timeout_is_any_number(client: Client, address: str) -> None:
    async def call(seconds: Any) -> tuple[int, int]:
        async with nearcall.AsyncClient(address, timeout=seconds) as go, nearcall.AsyncClient(address) as other:
            return await go.one(), await other.one(timeout=seconds)

    for seconds in (decimal.Decimal(20), fractions.Fraction(41, 2), 20):
        assert client.one(timeout=seconds) == client.with_timeout(seconds).one() == 1
        assert asyncio.run(call(seconds)) == (1, 1)
