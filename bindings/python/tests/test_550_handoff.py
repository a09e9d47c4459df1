"""Connections that another process has accepted: real clients, a real giver."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import io
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from giver import Giver, StartGiver

import nearcall
from nearcall import handoff
from support import (
    PATIENCE_SECONDS,
    child_answer,
    descriptor_count,
    fork_child,
    in_child,
    read_line,
    ring_during,
    wait_child,
)


def curl(*arguments: str) -> str:
    command = ["curl", "--silent", "--show-error", "--max-time", str(PATIENCE_SECONDS), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ["window", "prefix_bytes_max", "message_bytes_max", "channels_max"])
@pytest.mark.parametrize("number", [-1, 1 << 31, (1 << 32) + 8])
def test_numbers_out_of_range_are_refused(tmp_path: Path, name: str, number: int) -> None:
    options: dict[str, Any] = {name: number}
    with pytest.raises((ValueError, nearcall.InvalidArgument), match=f"{name} is {number}[:;] it is "):
        handoff.Listener(f"unix:{tmp_path}/s", **options)


# ---- Sockets ----


def test_a_connection_with_all_that_belongs_to_it(listener: handoff.Listener, where: str, giver_of: StartGiver) -> None:
    giver = giver_of(where, prefix=5, name="shop", message="for you")
    with giver.connect() as client:
        client.sendall(b"Hello, world")
        connection, meta = listener.accept(PATIENCE_SECONDS)
        with connection:
            assert (meta.name, meta.message, meta.prefix) == ("shop", b"for you", b"Hello")
            assert meta.remote == client.getsockname() == connection.getpeername()
            assert meta.local == giver.address == connection.getsockname()
            assert (meta.process_id, meta.user_id) == (giver.process.pid, os.geteuid())
            assert connection.pending() == 5
            assert not connection.get_inheritable()
            assert connection.gettimeout() is None
            assert connection.recv(2, socket.MSG_PEEK) == b"He"
            assert connection.recv(3) == b"Hel"
            buffer = bytearray(10)
            assert connection.recv_into(buffer) == 2
            assert bytes(buffer[:2]) == b"lo"
            assert connection.recv(100) == b", world"
            connection.sendall(b"answer")
            connection.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b"answer"
        assert client.recv(100) == b""


def test_files_of_a_connection(listener: handoff.Listener, where: str, giver_of: StartGiver) -> None:
    giver = giver_of(where, prefix=3)
    with giver.connect() as client:
        client.sendall(b"one\ntwo\nthree")
        client.shutdown(socket.SHUT_WR)
        connection, _ = listener.accept(PATIENCE_SECONDS)
        with connection, connection.makefile("rb") as lines:
            assert isinstance(lines, io.BufferedReader)
            assert list(lines) == [b"one\n", b"two\n", b"three"]


def test_a_prefix_is_not_lost_unnoticed(listener: handoff.Listener, where: str, giver_of: StartGiver) -> None:
    giver = giver_of(where, prefix=4)
    with giver.connect() as client:
        client.sendall(b"abcdefgh")
        connection, _ = listener.accept(PATIENCE_SECONDS)
        with connection:
            for name, use in {
                "detach": connection.detach,
                "dup": connection.dup,
                "recvfrom": lambda: connection.recvfrom(1),
                "recvmsg": lambda: connection.recvmsg(1),
            }.items():
                with pytest.raises(ValueError, match=rf"{name}\(\) would lose 4 bytes"):
                    use()
            assert connection.recv(8, socket.MSG_WAITALL) == b"abcdefgh"
            with connection.dup() as copy:
                copy.sendall(b"x")
            assert client.recv(1) == b"x"


def test_waiting(listener: handoff.Listener) -> None:
    with pytest.raises(BlockingIOError):
        listener.accept(0)
    with pytest.raises(TimeoutError):
        listener.accept(0.02)
    with pytest.raises(TimeoutError):
        listener.accept(Decimal("0.02"))  # type: ignore[arg-type]
    assert listener.refuse() is False


def test_refused_connections_stay_their_givers(folder: Path, giver_of: StartGiver) -> None:
    with (
        handoff.Listener(f"unix:{folder / 'one.sock'}") as one,
        handoff.Listener(f"unix:{folder / 'two.sock'}") as two,
    ):
        giver = giver_of(str(one.address), str(two.address))
        with giver.connect() as client, ThreadPoolExecutor(1) as pool:
            accepting = pool.submit(two.accept, PATIENCE_SECONDS)
            while not accepting.done():
                one.refuse(handoff.Reason.BUSY, "ask the other")
            connection, _ = accepting.result()
            with connection:
                connection.sendall(b"two")
            assert client.recv(10) == b"two"


def test_handing_back(listener: handoff.Listener, where: str, giver_of: StartGiver) -> None:
    giver = giver_of(where, prefix=5)
    with giver.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        connection, _ = listener.accept(PATIENCE_SECONDS)
        assert connection.recv(3) == b"GET"
        connection.hand_back(b"GET", timeout=PATIENCE_SECONDS)
        assert connection.fileno() == -1
        answer = client.makefile("rb").read()
        assert answer.endswith(b"handed back with GET /")


def test_handing_back_between_two_requests(listener: handoff.Listener, where: str, giver_of: StartGiver) -> None:
    giver = giver_of(where)
    with giver.connect() as client:
        connection, meta = listener.accept(PATIENCE_SECONDS)
        connection.hand_back(timeout=PATIENCE_SECONDS, idle=True)
        assert meta.message == b""
        assert client.makefile("rb").read().endswith(b"handed back idle with ")


def _await_given(listener: handoff.Listener, beside: handoff.Listener) -> handoff.Connection:
    """What one that drains was given before its giver heard of that, it gives back when its
    program turns to it."""
    watched = select.poll()
    watched.register(listener.fileno(), select.POLLIN)
    watched.register(beside.fileno(), select.POLLIN)
    while True:
        assert watched.poll(PATIENCE_SECONDS * 1000), "nobody gave anything"
        with contextlib.suppress(nearcall.Unavailable, BlockingIOError):
            beside.accept(0)
        with contextlib.suppress(BlockingIOError):
            return listener.accept(0)[0]


def test_draining_wakes_and_gives_back(folder: Path, giver_of: StartGiver) -> None:
    first = handoff.Listener(f"unix:{folder / 'one.sock'}")
    giver = giver_of(str(first.address), f"unix:{folder / 'two.sock'}")
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(first.accept, PATIENCE_SECONDS)
        with giver.connect() as client:
            connection, _ = accepting.result()
            connection.close()
            assert client.recv(1) == b""
        accepting = pool.submit(first.accept, PATIENCE_SECONDS)
        first.drain("a new one comes")
        with pytest.raises(nearcall.Unavailable):
            accepting.result()
    with handoff.Listener(f"unix:{folder / 'two.sock'}") as second, giver.connect() as client:
        _await_given(second, beside=first).close()
    first.close()
    with pytest.raises(ValueError, match="closed"):
        first.accept()


def test_addresses(where: str, listener: handoff.Listener) -> None:
    with pytest.raises(nearcall.AlreadyExists, match="another process listens"):
        handoff.Listener(where)
    with pytest.raises(nearcall.InvalidArgument):
        handoff.Listener("tcp:127.0.0.1:80")
    with socket.socket() as tcp, pytest.raises(nearcall.InvalidArgument, match="not a Unix socket"):
        handoff.Listener(tcp)
    listener.close()
    assert not Path(where.removeprefix("unix:")).exists()


# ---- Servers ----


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = f"{self.path} {self.client_address[0]} {len(body)}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *unused: object) -> None:
        pass


class HandedServer(http.server.ThreadingHTTPServer):
    """What the guide shows."""

    def __init__(self, listener: handoff.Listener, handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        super().__init__(("", 0), handler, bind_and_activate=False)
        self.socket.close()
        self.listener = listener

    def fileno(self) -> int:
        return self.listener.fileno()

    def get_request(self) -> tuple[socket.socket, handoff.Address]:
        connection, meta = self.listener.accept(0)
        return connection, meta.remote


@pytest.mark.parametrize("prefix", [0, 30])
def test_http_server_with_curl(listener: handoff.Listener, where: str, giver_of: StartGiver, prefix: int) -> None:
    giver = giver_of(where, prefix=prefix)
    server = HandedServer(listener, Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        data = ["--data-binary", "x" * 100_000]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda number: curl(f"{giver.url}{number}", *data), range(20)))
        assert answers == [f"/{number} 127.0.0.1 100000\n" for number in range(20)]
        # Two requests by one connection: it was handed over once.
        verbose = curl("--verbose", "--stderr", "-", f"{giver.url}a", f"{giver.url}b", "--data-binary", "x")
        assert "Re-using existing connection" in verbose
    finally:
        server.shutdown()
        thread.join()


async def echo_upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, meta: handoff.Meta) -> None:
    line = await reader.readline()
    peer = writer.get_extra_info("peername")
    writer.write(line.upper() + f"{peer == meta.remote}".encode())
    await writer.drain()


@pytest.mark.parametrize("prefix", [0, 3, 6])
def test_asyncio_server(where: str, giver_of: StartGiver, prefix: int) -> None:
    async def ask(giver: Giver) -> bytes:
        reader, writer = await asyncio.open_connection(*giver.address)
        writer.write(b"hello\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    async def run() -> None:
        async with await handoff.start_server(echo_upper, where) as server:
            assert isinstance(server, handoff.Server)
            giver = giver_of(where, prefix=prefix)
            answers = await asyncio.wait_for(asyncio.gather(*(ask(giver) for _ in range(50))), PATIENCE_SECONDS)
            assert set(answers) == {b"HELLO\nTrue"}
        assert not Path(where.removeprefix("unix:")).exists()

    asyncio.run(run())


class DueListener(handoff.Listener):
    """One that says three times that accept(0) is due at once, by its timeout alone."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.looks = 0
        self.woken, self.waker = os.pipe()
        self.enough = asyncio.Event()

    def fileno(self) -> int:
        return self.woken

    def accept(self, timeout: float | None = None) -> tuple[handoff.Connection, handoff.Meta]:
        if self.looks == 0:
            os.read(self.woken, 1)
        self.looks += 1
        raise BlockingIOError

    def timeout(self) -> float | None:
        if self.looks < 3:
            return 0.0
        self.enough.set()
        return None


def test_what_is_due_at_once_is_looked_at(where: str) -> None:
    async def run() -> None:
        listener = DueListener(where)
        async with await handoff.start_server(echo_upper, listener):
            os.write(listener.waker, b"x")
            await asyncio.wait_for(listener.enough.wait(), PATIENCE_SECONDS)
        for descriptor in (listener.woken, listener.waker):
            os.close(descriptor)

    asyncio.run(run())


def test_serving_for_ever_ends_by_cancelling(where: str) -> None:
    async def run() -> None:
        server = await handoff.start_server(echo_upper, where)
        task = asyncio.ensure_future(server.serve_forever())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.wait_closed()

    asyncio.run(run())


# ---- Processes ----


def serve_pid(listener: handoff.Listener) -> int:
    connection, _ = listener.accept(PATIENCE_SECONDS)
    with connection:
        connection.sendall(str(os.getpid()).encode())
    return os.getpid()


@pytest.mark.parametrize("inherit", ["listener", "socket"])
def test_prefork(folder: Path, giver_of: StartGiver, inherit: str) -> None:
    """The master listens; each worker takes channels of its own."""
    path = folder / "shared.sock"
    if inherit == "listener":
        shared: handoff.Listener | socket.socket = handoff.Listener(f"unix:{path}")
    else:
        shared = socket.socket(socket.AF_UNIX)
        shared.bind(str(path))
        shared.listen()

    def work() -> int:
        return serve_pid(shared if isinstance(shared, handoff.Listener) else handoff.Listener(shared))

    with shared:
        workers = [fork_child(work) for _ in range(3)]
        giver = giver_of(f"unix:{path}")
        seen = set()
        for _ in workers:
            with giver.connect() as client:
                seen.add(int(client.recv(100)))
        assert seen == {child_answer(*worker) for worker in workers}


def test_a_child_leaves_the_parents_channel(listener: handoff.Listener, where: str, giver_of: StartGiver) -> None:
    giver = giver_of(where)
    with giver.connect() as client:
        client.settimeout(PATIENCE_SECONDS)
        serve_pid(listener)
        client.recv(100)
    with giver.connect() as client:
        select.select([listener], [], [], PATIENCE_SECONDS)  # it has arrived
        with pytest.raises(TimeoutError):
            in_child(lambda: listener.accept(0.05))
        serve_pid(listener)
        assert int(client.recv(100)) == os.getpid()


def test_a_killed_process_loses_what_it_served_alone(folder: Path, giver_of: StartGiver) -> None:
    """What it had not accepted goes to another."""
    one = f"unix:{folder / 'one.sock'}"
    reader, writer = os.pipe()

    def hang() -> None:
        with handoff.Listener(one) as listener:
            connection, _ = listener.accept(PATIENCE_SECONDS)
            connection.sendall(b"first")
            os.write(writer, b"x")
            signal.pause()

    pid, answer = fork_child(hang)
    giver = giver_of(one)
    clients = [giver.connect() for _ in range(5)]
    os.read(reader, 1)
    os.kill(pid, signal.SIGKILL)
    assert wait_child(pid) == -signal.SIGKILL
    for descriptor in (answer, reader, writer):
        os.close(descriptor)
    with handoff.Listener(one) as listener:  # the lock has ended with its process
        for _ in range(4):
            serve_pid(listener)
    answers = sorted(client.recv(100) for client in clients)
    assert answers == sorted([b"first", *[str(os.getpid()).encode()] * 4])
    for client in clients:
        client.close()


def test_at_the_descriptor_limit_connections_wait(
    listener: handoff.Listener, where: str, giver_of: StartGiver
) -> None:
    giver = giver_of(where)
    with giver.connect() as client:
        serve_pid(listener)
        client.recv(100)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with giver.connect() as client:
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            for _ in range(200):
                with pytest.raises(BlockingIOError):
                    listener.accept(0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        serve_pid(listener)
        assert int(client.recv(100)) == os.getpid()


def test_nothing_leaks(listener: handoff.Listener, where: str, giver_of: StartGiver) -> None:
    giver = giver_of(where, prefix=4, message="m" * 1000)

    def one() -> None:
        with giver.connect() as client:
            client.sendall(b"abcdefgh")
            connection, _ = listener.accept(PATIENCE_SECONDS)
            with connection:
                assert connection.recv(4) + connection.recv(4) == b"abcdefgh"

    one()
    objects, descriptors = sys.getallocatedblocks(), descriptor_count()
    for _ in range(300):
        one()
    assert descriptor_count() == descriptors
    assert sys.getallocatedblocks() - objects < 200


def test_a_signal_handler_runs_while_waiting(listener: handoff.Listener) -> None:
    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            ring_during(0.05, listener.accept)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_handler_uses_the_listener(listener: handoff.Listener) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: listener.fileno())
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        with pytest.raises(TimeoutError):
            listener.accept(timeout=0.5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_closing_ends_accept_in_another_thread(where: str) -> None:
    listener = handoff.Listener(where)
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(listener.accept)
        while not accepting.running():
            pass
        listener.close()
        with pytest.raises((nearcall.Unavailable, ValueError)):
            accepting.result(PATIENCE_SECONDS)


CLOSED_WITHIN = """
import _socket, os, sys
from nearcall import handoff

def fill(*args):
    child = os.fork() if sys.argv[2] == "in a child" else 0
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    listener.close()
    _socket.socket.__init__(*args)

listener = handoff.Listener(sys.argv[1])
print("ready", flush=True)
connection, item = handoff.Connection(listener), None
while item is None:
    item = listener._core.accept(connection, fill)
print(item[3], item[6], connection.recv(100))
"""


@pytest.mark.parametrize("process", ["in the same process", "in a child"])
def test_code_that_runs_while_a_connection_is_taken_closes(where: str, giver_of: StartGiver, process: str) -> None:
    """A finalizer may do so, also in a child that it forks and that goes on with the method. What is freed is
    overwritten here."""
    command = [sys.executable, "-c", CLOSED_WITHIN, where, process]
    environment = {**os.environ, "MALLOC_PERTURB_": "85"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert read_line(program) == "ready"
            with giver_of(where, name="shop", message="for you").connect() as client:
                client.sendall(b"Hello")
                assert read_line(program) == "shop b'for you' b'Hello'"
        finally:
            program.kill()
