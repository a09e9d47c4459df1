"""Clients before, across and after forks. NEARCALL_FORKS sets how many."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import nearcall
from nearcall import Client, Outcome
from support import (
    Recorder,
    Server,
    child_answer,
    descriptor_count,
    fork_child,
    in_child,
    rss_bytes,
    run_python,
    wait_child,
    wait_until,
    wait_until_in_call,
)

FORKS = int(os.environ.get("NEARCALL_FORKS", "1000"))


def test_child_and_parent_call(client: Client) -> None:
    assert client.ack(2, 3) == 9
    assert in_child(lambda: client.ack(3, 3)) == 61
    assert client.ack(2, 3) == 9


def test_client_that_never_called_before_the_fork(client: Client) -> None:
    assert in_child(lambda: client.ack(2, 3)) == 9


def test_grandchildren(client: Client) -> None:
    assert client.one() == 1
    assert in_child(lambda: [client.one(), in_child(lambda: [client.one(), in_child(client.one)])]) == [1, [1, 1]]
    assert client.one() == 1


def test_child_uses_all_it_inherited(client: Client) -> None:
    ack, view, one = client.function("ack"), client.with_timeout(5), client.one
    assert (ack(0, 1), view.one(), one()) == (2, 1, 1)
    assert in_child(lambda: (ack(0, 1), view.one(), one(), client.call_raw("echo", b"x"))) == (2, 1, 1, b"x")


def test_child_outlives_its_parent(address: str) -> None:
    client = Client(address)
    assert client.one() == 1

    def parent() -> int:
        reader, writer = os.pipe()
        client.one()
        if os.fork() == 0:
            # The middle process is gone when its end of the pipe is.
            os.close(writer)
            os.read(reader, 1)
            os._exit(0 if client.ack(2, 3) == 9 else 1)
        return 1

    assert in_child(parent) == 1
    assert client.one() == 1
    client.close()


def test_child_closes_the_client(client: Client) -> None:
    assert client.one() == 1

    def child() -> str:
        client.close()
        try:
            client.one()
        except nearcall.FailedPrecondition:
            return "closed"
        return "open"

    assert in_child(child) == "closed"
    assert client.one() == 1


def test_fork_while_another_threads_loop_reads(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go = nearcall.AsyncClient(address, timeout=30)
    inside, leave = threading.Event(), threading.Event()
    make = nearcall.NotFound.__init__

    def read(self: nearcall.NotFound, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        inside.set()
        leave.wait(60)

    async def fail() -> None:
        await go.one()
        with pytest.raises(nearcall.NotFound):
            await go.fail(5, "x")
        go.close()

    async def one() -> object:
        try:
            return await go.one()
        finally:
            go.close()

    monkeypatch.setattr(nearcall.NotFound, "__init__", read)
    thread = threading.Thread(target=asyncio.run, args=(fail(),))
    thread.start()
    try:
        assert inside.wait(60), "the other thread reads no error"
        assert in_child(lambda: asyncio.run(one())) == 1
    finally:
        leave.set()
        thread.join()


def test_child_drops_the_client(address: str) -> None:
    holder = [Client(address)]
    assert holder[0].one() == 1
    assert in_child(lambda: holder.clear() or gc.collect() >= 0) is True
    assert holder[0].one() == 1
    holder[0].close()


def end_by_underscore_exit(client: Client) -> None:
    os._exit(0)


def end_by_exit(client: Client) -> None:
    sys.exit(0)


def end_by_exception(client: Client) -> None:
    raise RuntimeError("the child's own")


def end_after_a_call(client: Client) -> None:
    client.one()


def end_with_a_finalizer(client: Client) -> None:
    import atexit

    atexit.register(client.close)


def end_by_signal(client: Client) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


PROGRAM = """
import os, sys
sys.path.insert(0, {tests!r})
import nearcall, test_900_fork
address, ending, forks = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = nearcall.Client(address)
kept = client.function('one')
call = client.begin('sleep', 50)
assert client.ack(0, 1) == 2
print('ready', flush=True)
sys.stdin.readline()
for _ in range(forks):
    pid = os.fork()
    if pid == 0:
        sys.stderr = open(os.devnull, 'w')
        getattr(test_900_fork, ending)(client)
        break
    os.waitpid(pid, 0)
else:
    print('forked', flush=True)
    sys.stdin.readline()
    assert call.wait() == 50
    assert client.ack(0, 1) == 2
    assert kept() == 1
    client.close()
    print('good', flush=True)
"""


@pytest.mark.parametrize(
    "ending",
    [end_by_underscore_exit, end_by_exit, end_by_exception, end_after_a_call, end_with_a_finalizer, end_by_signal],
    ids=lambda ending: ending.__name__,
)
def test_children_leave_the_parent_s_connection_alone(recorder: Recorder, ending: Callable[[Client], None]) -> None:
    """Whatever way a child ends, through the interpreter's own shutdown too, no
    byte of it arrives on its parent's connection, which stays open."""
    import subprocess

    from support import TESTS, read_line

    command = [sys.executable, "-c", PROGRAM.format(tests=str(TESTS)), recorder.address, ending.__name__, "20"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert read_line(process) == "ready"
        before = [record for record in recorder.connections() if record[0] == process.pid]
        # One that carries the call in flight, one for plain calls.
        assert [is_open for _, _, is_open in before] == [True, True]
        process.stdin.write("\n")
        process.stdin.flush()
        assert read_line(process) == "forked"
        records = recorder.connections()
        assert [record for record in records if record[0] == process.pid] == before
        children = [record for record in records if record[0] != process.pid]
        assert len(children) == (20 if ending is end_after_a_call else 0)
        process.stdin.write("\n")
        process.stdin.flush()
        assert read_line(process) == "good"
        assert process.wait(30) == 0


def test_call_in_flight_belongs_to_the_parent(client: Client) -> None:
    call = client.begin("sleep", 300)

    def child() -> Any:
        assert call.ready()
        try:
            return call.wait()
        except nearcall.Unavailable as error:
            assert client.begin("one").wait() == 1
            return error

    error = in_child(child)
    assert isinstance(error, nearcall.Unavailable)
    assert error.outcome is Outcome.UNKNOWN
    assert call.wait() == 300


def test_child_may_begin_as_many_calls_as_its_parent(client: Client) -> None:
    calls = [client.begin("sleep", 200) for _ in range(60)]

    def child() -> int:
        for call in calls:
            with pytest.raises(nearcall.Unavailable):
                call.wait()
        return sum(call.wait() for call in [client.begin("one") for _ in range(60)])

    assert in_child(child) == 60
    assert [call.wait() for call in calls] == [200] * 60


def test_child_may_cancel_what_its_parent_began(client: Client) -> None:
    call = client.begin("sleep", 300)
    assert in_child(lambda: (call.cancel(), client.one())) == (True, 1)
    assert call.wait() == 300


def test_finished_call_is_known_in_the_child(client: Client) -> None:
    call = client.begin("one")
    assert call.wait() == 1
    assert in_child(call.wait) == 1


def test_descriptor_of_the_parent_is_closed_in_the_child(client: Client) -> None:
    client.one()

    def child() -> tuple[int, int]:
        before = descriptor_count()
        client.one()
        return before, descriptor_count()

    before, after = in_child(child)
    assert before == after


def test_child_that_closed_all_descriptors(client: Client) -> None:
    """A daemon closes what it inherited; the numbers mean something else then."""
    client.one()

    def child() -> tuple[int, bytes]:
        own = [descriptor for descriptor in range(3, 64) if is_socket(descriptor)]
        for descriptor in own:
            os.close(descriptor)
        pairs = [socket.socketpair() for _ in range(len(own) + 2)]
        one = client.one()
        pairs[0][0].send(b"still mine")
        return one, pairs[0][1].recv(100)

    def is_socket(descriptor: int) -> bool:
        try:
            return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
        except OSError:
            return False

    assert in_child(child) == (1, b"still mine")
    assert client.one() == 1


def test_exec_does_not_inherit_connections(client: Client) -> None:
    client.one()
    done = run_python("import os; print(sum(os.readlink(f'/proc/self/fd/{d}').startswith('socket:') "
                      "for d in os.listdir('/proc/self/fd') if os.path.islink(f'/proc/self/fd/{d}')))",
                      close_fds=False)  # fmt: skip
    assert done.stdout.strip() == "0", done.stderr


def test_fork_while_another_thread_is_in_a_call(address: str) -> None:
    """The child has one thread and all the handles; none may be locked."""
    client = Client(address, timeout=20.0)
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not stop.is_set():
                assert client.ack(1, 1) == 3
                assert client.call_raw("echo", b"x" * 3000) == b"x" * 3000
                assert client.begin("one").wait() == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(max(FORKS // 10, 20)):
            assert in_child(lambda: (client.ack(2, 3), client.begin("one").wait(), client.echo(b"y"))) == (9, 1, b"y")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
    client.close()


def test_fork_while_a_thread_waits_long(address: str) -> None:
    client = Client(address, timeout=20.0)
    client.one()
    thread = threading.Thread(target=client.sleep, args=(1000,))
    thread.start()
    wait_until_in_call(thread.native_id)
    assert in_child(lambda: [client.ack(2, 3) for _ in range(3)]) == [9, 9, 9]
    thread.join()
    client.close()


def test_fork_in_a_signal_handler_during_a_call(client: Client) -> None:
    """The child finds its thread inside the parent's call."""
    answers: list[Any] = []

    def handler(number: int, frame: object) -> None:
        pid = os.fork()
        if pid == 0:
            good = client.ack(2, 3) == 9
            try:
                raise SystemExit
            finally:
                os._exit(0 if good else 1)
        answers.append(wait_child(pid))

    former = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        assert client.sleep(2000) == 2000
    finally:
        signal.signal(signal.SIGALRM, former)
    assert answers == [0]


def test_child_that_returns_into_its_parent_s_call(client: Client) -> None:
    """A handler that forks and returns: the child's wait ends, and says why."""
    reader, writer = os.pipe()
    parent = os.getpid()

    def handler(number: int, frame: object) -> None:
        os.fork()

    former = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            result: Any = client.sleep(2000)
        except nearcall.NearcallError as error:
            result = error
        if os.getpid() != parent:
            good = isinstance(result, nearcall.Unavailable) and result.outcome is Outcome.UNKNOWN
            try:
                good = good and client.ack(2, 3) == 9
            finally:
                os.write(writer, b"good" if good else repr(result).encode())
                os._exit(0)
        assert result == 2000
    finally:
        if os.getpid() == parent:
            signal.signal(signal.SIGALRM, former)
            os.close(writer)
            answer = os.read(reader, 1000)
            os.close(reader)
            os.wait()
    assert answer == b"good"


def test_many_children_at_once(client: Client) -> None:
    """Workers that all connect at the same moment."""
    assert client.one() == 1
    children = [fork_child(lambda: [client.ack(1, n) for n in range(10)]) for _ in range(32)]
    assert [child_answer(*child) for child in children] == [[n + 2 for n in range(10)]] * 32


def test_fork_without_python_s_hooks(client: Client) -> None:
    """C code that forks does not tell Python; libnearcall notices by itself."""
    import ctypes

    assert client.one() == 1
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        try:
            good = client.ack(2, 3) == 9
        finally:
            os._exit(0 if good else 1)
    assert wait_child(pid) == 0
    assert client.one() == 1


def test_forks_one_after_another(shared_server: Server) -> None:
    """Calls in parent and child for every fork: no hang, no wrong answer, and
    neither descriptors nor memory grow."""
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    client = Client(shared_server.address, timeout=20.0)
    client.one()
    gc.collect()
    descriptors, sockets = descriptor_count(), shared_server.socket_count()
    memory: list[int] = []
    for i in range(FORKS):
        m, n = source.randrange(3), source.randrange(5)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = 0 if client.ack(m, n) == ackermann(m, n) else 2
            finally:
                os._exit(status)
        if i % 2:
            assert client.ack(m, n) == ackermann(m, n)
        assert wait_child(pid) == 0
        if i % max(FORKS // 10, 1) == 0:
            memory.append(rss_bytes())
    assert client.one() == 1
    assert descriptor_count() == descriptors
    assert memory[-1] - memory[len(memory) // 3] < 1 << 20, memory
    wait_until(lambda: shared_server.socket_count() == sockets, "the children's connections are gone")
    client.close()


def ackermann(m: int, n: int) -> int:
    return [n + 1, n + 2, 2 * n + 3][m]


def test_generations_of_forks(client: Client) -> None:
    """Each child forks the next, thirty deep."""

    def generation(depth: int) -> int:
        one = int(client.one())
        return one if depth == 0 else one + int(in_child(lambda: generation(depth - 1), seconds=60))

    assert generation(30) == 31


def test_time_of_a_fork_with_an_open_client(client: Client) -> None:
    """A client makes a fork no slower."""
    client.one()
    start = time.monotonic()
    for _ in range(20):
        assert in_child(lambda: None) is None
    assert time.monotonic() - start < 10
