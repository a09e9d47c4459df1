"""One client, many threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import nearcall
from nearcall import Client
from support import Server, descriptor_count, run_python, wait_until, wait_until_in_call


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Runs work(0), work(1), ... in threads that begin at the same moment."""
    barrier = threading.Barrier(count)

    def run(i: int) -> Any:
        barrier.wait()
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_threads_share_a_client(client: Client) -> None:
    def work(i: int) -> bool:
        return all(
            client.add(i, n) == i + n
            and client.call_raw("echo", b"%d:%d" % (i, n)) == b"%d:%d" % (i, n)
            and client.identity([i, n]) == [i, n]
            for n in range(200)
        )

    assert together(16, work) == [True] * 16


def test_a_slow_call_holds_up_nobody(client: Client) -> None:
    client.one()
    thread = threading.Thread(target=client.sleep, args=(2000,))
    thread.start()
    wait_until_in_call(thread.native_id)
    assert [client.ack(0, n) for n in range(5)] == [1, 2, 3, 4, 5]
    assert thread.is_alive()
    thread.join()


def test_connections_are_as_many_as_threads_that_call_at_once(address: str) -> None:
    before = descriptor_count()
    with Client(address) as client:
        assert together(8, lambda i: client.sleep(100)) == [100] * 8
        assert descriptor_count() == before + 8
        for _ in range(100):
            assert together(1, lambda i: client.one()) == [1]
        assert descriptor_count() == before + 8
    assert descriptor_count() == before


def test_pipelines_of_several_threads(client: Client) -> None:
    def work(i: int) -> bool:
        for _ in range(20):
            calls = [client.begin("add", i, n) for n in range(20)]
            if [call.wait() for call in calls] != [i + n for n in range(20)]:
                return False
        return True

    assert together(8, work) == [True] * 8


def test_call_handed_to_another_thread(client: Client) -> None:
    calls = [client.begin("sleep", 20) for _ in range(10)]
    with ThreadPoolExecutor(1) as pool:
        assert list(pool.map(lambda call: call.wait(), calls)) == [20] * 10


def test_two_threads_that_wait_on_one_connection_are_told(client: Client) -> None:
    slow, quick = client.begin("sleep", 1000), client.begin("sleep", 1000)
    thread = threading.Thread(target=slow.wait)
    thread.start()
    wait_until_in_call(thread.native_id)
    with pytest.raises(RuntimeError, match="in the thread that began it"):
        quick.wait()
    # Giving up does not need the connection.
    assert quick.cancel()
    thread.join()
    assert slow.wait() == 1000
    assert client.one() == 1


def test_close_during_a_call(address: str) -> None:
    before = descriptor_count()
    client = Client(address)
    client.one()
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(client.sleep(1000)))
    thread.start()
    wait_until_in_call(thread.native_id)
    client.close()
    with pytest.raises(nearcall.FailedPrecondition):
        client.one()
    thread.join()
    assert results == [1000]
    assert descriptor_count() == before


def test_dropping_calls_while_another_thread_waits(client: Client) -> None:
    slow = client.begin("sleep", 1000)
    others = [client.begin("sleep", 20_000) for _ in range(20)]
    thread = threading.Thread(target=slow.wait)
    thread.start()
    wait_until_in_call(thread.native_id)
    others.clear()
    thread.join()
    assert slow.wait() == 1000
    assert [call.wait() for call in [client.begin("one") for _ in range(40)]] == [1] * 40


def test_server_restarts_under_threads(own_server: Server) -> None:
    stop = threading.Event()
    wrong: list[Any] = []
    counts = [0] * 4

    with Client(own_server.address, timeout=10.0) as client:

        def work(i: int) -> None:
            while not stop.is_set():
                try:
                    if client.add(i, counts[i]) != i + counts[i]:
                        wrong.append(i)
                except nearcall.Unavailable:
                    pass
                counts[i] += 1

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                start = list(counts)
                wait_until(lambda start=start: all(c > s + 20 for c, s in zip(counts, start, strict=True)), "calls")
                own_server.restart()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not wrong
        assert client.one() == 1


def test_exit_with_a_daemon_thread_in_a_call(address: str) -> None:
    code = """
import sys, threading, nearcall
client = nearcall.Client(sys.argv[1])
client.one()
threading.Thread(target=client.sleep, args=(1000,), daemon=True).start()
counts = [0] * 3


def work(i):
    while True:
        counts[i] += client.one()


for i in range(3):
    threading.Thread(target=work, args=(i,), daemon=True).start()
while min(counts) < 20:
    client.one()
"""
    done = run_python(code, address)
    assert done.returncode == 0, done.stderr


def test_thread_switches_everywhere(client: Client) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        add = client.function("add")
        expected = [[i + n for n in range(200)] for i in range(8)]
        assert together(8, lambda i: [add(i, n) for n in range(200)]) == expected
    finally:
        sys.setswitchinterval(interval)


FIRST_CALLS = """
import keyword, sys, threading, types
import nearcall
from nearcall import _schema

held, others_are_done = threading.Event(), threading.Event()

def iskeyword(name):
    if threading.current_thread() is first:
        held.set()
        others_are_done.wait()
    return keyword.iskeyword(name)

_schema.keyword = types.SimpleNamespace(iskeyword=iskeyword)
client = nearcall.Client(sys.argv[1])
client.add  # all use one function
came = []

def work(count):
    for _ in range(count):
        came.append(client.add(1, 2))

first = threading.Thread(target=work, args=(5,))
first.start()
held.wait()
barrier = threading.Barrier(8)
others = [threading.Thread(target=lambda: (barrier.wait(), work(200))) for _ in range(8)]
for thread in others:
    thread.start()
for thread in others:
    thread.join()
others_are_done.set()
first.join()
assert came == [3] * (8 * 200 + 5), len(came)
"""


def test_code_that_describes_a_function_lets_other_threads_call_it(address: str) -> None:
    """What is known of it on the one connection stays where it is while others come."""
    done = run_python(FIRST_CALLS, address)
    assert done.returncode == 0, done.stderr
