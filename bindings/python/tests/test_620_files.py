"""Files and connections in calls."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import io
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import nearcall
from support import Server, wait_until

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def _dropped_files_are_closed() -> Iterator[None]:
    """Files that are dropped without close() are closed all the same, with a warning."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    return start_server("-files")


@pytest.fixture
def go(server: Server) -> Iterator[Any]:
    with nearcall.Client(server.address, timeout=10) as client:
        yield client


def file_with(folder: Path, text: bytes, name: str = "file", **options: Any) -> BinaryIO:
    (folder / name).write_bytes(text)
    return open(folder / name, "rb", **options)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_files_go(go: Any, folder: Path) -> None:
    assert go.file_read(file_with(folder, b"in the file")) == b"in the file"
    assert go.file_read(file_with(folder, b"unbuffered", buffering=0)) == b"unbuffered"
    with open(folder / "file") as text:
        assert go.file_read(text) == b"unbuffered"

    class WithFileno:
        def __init__(self) -> None:
            self.file = file_with(folder, b"what has fileno")

        def fileno(self) -> int:
            return self.file.fileno()

    assert go.file_read(WithFileno()) == b"what has fileno"
    assert go.file_join([file_with(folder, name.encode(), name) for name in "abc"]) == b"abc"


def test_buffers(go: Any, folder: Path) -> None:
    file = file_with(folder, b"first line\nsecond line\n")
    assert file.readline() == b"first line\n"
    assert go.file_read(file) == b"second line\n"
    with open(folder / "file", encoding="utf-8") as text:
        assert text.readline() == "first line\n"
        assert go.file_read(text) == b"second line\n"
        text.seek(0)
        assert next(text) == "first line\n"
        with pytest.raises(nearcall.InvalidArgument) as refused:
            go.file_read(text)
        assert isinstance(refused.value.__cause__, OSError)
    reader, writer = os.pipe()
    with open(writer, "wb") as output:
        output.write(b"before, ")
        assert go.file_write(output, b"and after") == 9
    with open(reader, "rb") as source:
        assert source.read() == b"before, and after"


def test_files_come(go: Any, folder: Path) -> None:
    with go.file_open(file_with(folder, b"opened there").name) as got:
        assert isinstance(got, io.BufferedReader)
        assert fcntl.fcntl(got, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        assert got.read() == b"opened there"
    reader, writer = go.file_pipe()
    assert os.get_blocking(reader.fileno())
    writer.write(b"both ends")
    writer.close()
    assert reader.read() == b"both ends"
    with open(folder / "file", "r+b") as both, go.file_same(both) as same:
        assert isinstance(same, io.BufferedRandom)
        same.write(b"changed")
        same.seek(0)
        assert same.read() == b"changedthere"
    left, right = socket.socketpair()
    with left, right, go.file_same(right) as raw:
        assert isinstance(raw, io.FileIO)
        raw.write(b"both ways")
        assert left.recv(100) == b"both ways"
        left.send(b"and back")
        assert raw.read(100) == b"and back"


def test_files_in_structs(go: Any, folder: Path) -> None:
    first, second = file_with(folder, b"x", "x"), file_with(folder, b"y", "y")
    bundle = go.file_bundle({"name": "a", "file": first, "spare": second})
    assert bundle["name"] == "A"
    assert bundle["spare"] is None
    assert bundle["file"].read() == b"y"


def test_connections(go: Any, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = go.connection_dial(f"127.0.0.1:{listener.getsockname()[1]}")
        assert isinstance(made, socket.socket)
        assert made.getpeername() == listener.getsockname()
        accepted, _ = listener.accept()
        go.connection_greet(accepted, "hello")
        accepted.close()
        assert made.recv(100) == b"hello"
        assert made.recv(100) == b""
        made.close()
    with pytest.raises(nearcall.InvalidArgument) as raised:
        go.connection_greet(file_with(folder, b""), "x")
    assert raised.value.outcome == nearcall.Outcome.NOT_EXECUTED


@pytest.mark.parametrize("wrong", [None, 0, "/etc/passwd", b"", [], {}, io.BytesIO(b"x"), io.FileIO, socket.socket])
def test_no_files(go: Any, wrong: Any) -> None:
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(file\): takes file"):
        go.file_read(wrong)


def test_refused(go: Any, shared_server: Server, folder: Path) -> None:
    closed = file_with(folder, b"")
    closed.close()
    with pytest.raises(nearcall.InvalidArgument):
        go.file_read(closed)
    with nearcall.Client(shared_server.address) as strict, pytest.raises(nearcall.InvalidArgument):
        strict.identity(file_with(folder, b""))


def test_in_flight(go: Any, folder: Path) -> None:
    calls = [go.begin("file_same", file_with(folder, b"%d" % i, str(i))) for i in range(20)]
    for i, call in reversed(list(enumerate(calls))):
        assert call.wait().read() == b"%d" % i


def test_async(server: Server, folder: Path) -> None:
    async def run() -> None:
        async with nearcall.AsyncClient(server.address, timeout=10) as go:
            files = [file_with(folder, b"%d" % i, str(i)) for i in range(20)]
            got = await asyncio.gather(*(go.call("file_same", file) for file in files))
            assert [file.read() for file in got] == [b"%d" % i for i in range(20)]

    asyncio.run(run())


def test_nothing_is_left(go: Any, folder: Path) -> None:
    file = file_with(folder, b"x")

    def rounds(count: int) -> None:
        for _ in range(count):
            go.file_same(file)
            go.begin("file_same", file).cancel()
            for wrong in (lambda: go.file_join([file, file, 7]), lambda: go.connection_greet(file, ""),
                          lambda: go.file_many(17)):
                with pytest.raises(nearcall.NearcallError):
                    wrong()
            go.file_many(16)

    rounds(20)
    here, there = descriptors(), go.descriptors_open()
    rounds(200)
    wait_until(lambda: go.descriptors_open() <= there, "the server closes what it took")
    assert descriptors() == here


def test_fork(go: Any, folder: Path) -> None:
    got = go.file_same(file_with(folder, b"for both"))
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if go.file_same(got).read() == b"for both" else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    got.seek(0)
    assert got.read() == b"for both"
