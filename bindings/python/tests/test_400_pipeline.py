"""Several calls in flight: begin, ready, wait, cancel."""

from __future__ import annotations

import gc
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import nearcall
from nearcall import Client, Outcome
from support import PATIENCE_SECONDS, Server, descriptor_count, ring_during, wait_until


def test_begin_and_wait(client: Client) -> None:
    call = client.begin("ack", 2, 3)
    assert call.wait() == 9
    assert call.wait() == 9
    assert call.ready()
    assert not call.cancel()


def test_waiting_in_any_order(client: Client) -> None:
    calls = [client.begin("add", i, 0.5) for i in range(50)]
    for i in reversed(range(50)):
        assert calls[i].wait() == i + 0.5


def test_calls_run_at_the_same_time(client: Client) -> None:
    start = time.monotonic()
    calls = [client.begin("sleep", 200) for _ in range(20)]
    assert [call.wait() for call in calls] == [200] * 20
    assert time.monotonic() - start < 2.0


def test_calls_share_one_connection(client: Client) -> None:
    client.one()
    before = descriptor_count()
    calls = [client.begin("sleep", 50) for _ in range(10)]
    assert descriptor_count() == before
    assert [call.wait() for call in calls] == [50] * 10


def test_ready(client: Client) -> None:
    slow, quick = client.begin("sleep", 300), client.begin("one")
    assert not slow.ready()
    wait_until(quick.ready, "the quick call")
    assert quick.wait() == 1
    assert not slow.ready()
    wait_until(slow.ready, "the slow call")
    assert slow.wait() == 300


def test_ready_when_it_failed(client: Client) -> None:
    call = client.begin("fail", 5, "gone")
    wait_until(call.ready, "the failure")
    for _ in range(2):
        with pytest.raises(nearcall.NotFound) as caught:
            call.wait()
        assert caught.value.outcome is Outcome.EXECUTED


def test_other_calls_meanwhile(client: Client) -> None:
    call = client.begin("sleep", 300)
    assert client.ack(2, 3) == 9
    assert client.call_raw("echo", b"x") == b"x"
    assert call.wait() == 300


def test_cancel(client: Client) -> None:
    call = client.begin("sleep", 20_000)
    assert call.cancel()
    assert not call.cancel()
    assert call.ready()
    with pytest.raises(nearcall.Cancelled):
        call.wait()
    assert client.one() == 1


def test_dropped_calls_are_cancelled(client: Client) -> None:
    for _ in range(500):
        client.begin("sleep", 20_000)
    gc.collect()
    assert client.begin("one").wait() == 1


def test_calls_time_out_on_their_own(client: Client) -> None:
    quick, slow = client.begin("sleep", 20_000, timeout=0.1), client.begin("sleep", 2000)
    with pytest.raises(nearcall.DeadlineExceeded):
        quick.wait()
    assert not slow.ready()
    assert slow.wait() == 2000


def test_too_many_calls(client: Client) -> None:
    calls: list[nearcall.Call] = []

    def begin_all() -> None:
        for _ in range(10_000):
            calls.append(client.begin("sleep", 20_000))

    with pytest.raises(nearcall.ResourceExhausted) as caught:
        begin_all()
    assert caught.value.outcome is Outcome.NOT_EXECUTED
    assert len(calls) >= 16
    # Plain calls go on, and finished places are free again.
    assert client.one() == 1
    calls.clear()
    assert client.begin("one").wait() == 1


def test_arguments_are_checked_at_once(client: Client) -> None:
    with pytest.raises(nearcall.InvalidArgument):
        client.begin("ack", "x", 1)
    with pytest.raises(nearcall.Unimplemented):
        client.begin("nope")
    with pytest.raises(TypeError):
        client.begin()  # type: ignore[call-arg]
    with pytest.raises(nearcall.InvalidArgument):
        client.begin("one", timeout=-1)


def test_named_arguments(client: Client) -> None:
    assert client.begin("divmod", b=2, a=7, timeout=5).wait() == (3, 1)


def test_raw_functions(client: Client) -> None:
    calls = [client.begin("echo", bytes([i]) * 1000) for i in range(50)]
    assert [call.wait() for call in calls] == [bytes([i]) * 1000 for i in range(50)]


def test_large_requests_and_replies_do_not_block_each_other(client: Client) -> None:
    data = bytes(1_000_000)
    calls = [client.begin("echo", data) for _ in range(20)]
    assert all(call.wait() == data for call in calls)


def test_closing_ends_calls(address: str) -> None:
    client = Client(address)
    call = client.begin("sleep", 20_000)
    client.close()
    assert call.ready()
    with pytest.raises(nearcall.Cancelled) as caught:
        call.wait()
    assert caught.value.outcome is Outcome.UNKNOWN


def test_calls_outlive_the_name_of_their_client(address: str) -> None:
    call = Client(address).begin("sleep", 50)
    assert call.wait() == 50


def test_server_that_dies(own_server: Server) -> None:
    with Client(own_server.address, timeout=5.0) as client:
        calls = [client.begin("sleep", 20_000) for _ in range(5)]
        wait_until(lambda: not calls[0].ready(), "the calls are sent")
        own_server.restart()
        for call in calls:
            with pytest.raises(nearcall.Unavailable) as caught:
                call.wait()
            assert caught.value.outcome in (Outcome.UNKNOWN, Outcome.NOT_EXECUTED)
        assert client.begin("one").wait() == 1


def looks(thread_id: int) -> int:
    """How often a thread has left a wait, to look for signals among other things."""
    status = Path(f"/proc/self/task/{thread_id}/status").read_text()
    found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", status, re.MULTILINE)
    assert found is not None, status
    return int(found.group(1))


@pytest.mark.parametrize("signals", [False, True])
def test_a_large_request_is_sent_whole(start_server: Callable[..., Server], signals: bool) -> None:
    server = start_server("-generation=1")
    returned, resumed = threading.Event(), threading.Event()
    main = threading.get_native_id()
    handled: list[int] = []

    def read_late(before: int) -> None:
        wait_until(lambda: returned.is_set() or looks(main) > before + 5, "the main thread waits, or has not waited")
        if not returned.is_set():
            resumed.set()
        server.resume()

    with Client(server.address, timeout=20.0, shared_memory=False) as client, Client(server.address) as other:
        assert client.tag(b"x") == b"bytes x"
        server.pause()
        reader = threading.Thread(target=read_late, args=(looks(main),))
        former = signal.signal(signal.SIGALRM, lambda number, frame: handled.append(number))
        if signals:
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            reader.start()
            call = client.begin("tag", b"x" * 2_000_000)
        finally:
            returned.set()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, former)
            reader.join(PATIENCE_SECONDS)
        assert resumed.is_set(), "begin() returned before the server had read the request"
        assert bool(handled) == signals
        # It runs though nobody uses the client.
        wait_until(lambda: len(other.call("history")) == 2, "the function has run")
        assert len(call.wait()) == 2_000_006


def test_a_signal_s_handler_gives_a_large_request_up(own_server: Server) -> None:
    class Rung(Exception):
        pass

    def ring(number: int, frame: object) -> None:
        raise Rung

    with Client(own_server.address, timeout=20.0, shared_memory=False) as client:
        assert client.one() == 1
        own_server.pause()
        former = signal.signal(signal.SIGALRM, ring)
        try:
            with pytest.raises(Rung):
                ring_during(0.1, lambda: client.begin("upper", "x" * 2_000_000))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, former)
            own_server.resume()
        assert client.begin("one").wait() == client.one() == 1
