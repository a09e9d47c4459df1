"""The other side of the launcher, by hand: the place, the request, the frames."""

from __future__ import annotations

import os
import re
import select
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

MAGIC = bytes.fromhex("8b4e43520d0a1a0a")
HEADER = struct.Struct("<8sIHHIIHHIII8x")
FRAME = struct.Struct("<IIII")
RUNNING, EXITED, KILLED, PLAINLY, ENDING, EXECUTE, REPORT, SIGNAL, EXECUTED = 1, 2, 3, 4, 5, 6, 7, 16, 17
WAIT_S = 20.0
DESCRIPTORS = 4


def identity(program: Path) -> str:
    """PROGRAM-IDENTITY as spec/resident.md has it."""
    status = os.stat(program)
    seconds, nanoseconds = divmod(status.st_mtime_ns, 10**9), divmod(status.st_ctime_ns, 10**9)
    numbers = struct.pack("<7Q", status.st_dev, status.st_ino, status.st_size, *seconds, *nanoseconds)
    value = 0xCBF29CE484222325
    for byte in numbers:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    kept = re.sub(rb"[^A-Za-z0-9._-]", b"_", os.fsencode(program.name))
    return f"{kept[:32].decode()}-{value:016x}"


def wait_readable(descriptor: int | socket.socket) -> None:
    assert select.select([descriptor], [], [], WAIT_S)[0], f"nothing came within {WAIT_S} s"


class Frame:
    """One frame that the launcher sent."""

    def __init__(self, header: bytes) -> None:
        self.type, self.value, self.second, self.length = FRAME.unpack(header)


class Connection:
    """A request that came, and what is said about it."""

    all: ClassVar[list[Connection]] = []

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.all.append(self)
        wait_readable(connection)
        self.first, self.descriptors, _, _ = socket.recv_fds(connection, 1 << 20, DESCRIPTORS + 1)
        data = bytearray(self.first)
        _, self.total, self.version, self.kind, *numbers = HEADER.unpack(data[: HEADER.size])
        self.process, self.umask, self.rows, self.columns, arguments, variables, self.keyring = numbers
        while len(data) < self.total:
            wait_readable(connection)
            data += connection.recv(1 << 20)
        self.data = bytes(data)
        *strings, end = self.data[HEADER.size :].split(b"\0")
        assert end == b""
        assert len(strings) == 1 + arguments + variables
        self.directory = strings[0]
        self.arguments = strings[1 : 1 + arguments]
        self.environment = strings[1 + arguments :]

    def send(self, type_: int, value: int = 0, second: int = 0, text: bytes = b"") -> None:
        self.socket.sendall(FRAME.pack(type_, value, second, len(text)) + text)

    def receive(self) -> Frame | None:
        """The launcher's next frame; None at its end."""
        wait_readable(self.socket)
        data = b""
        while len(data) < FRAME.size:
            more = self.socket.recv(FRAME.size - len(data))
            if not more:
                assert data == b""
                return None
            data += more
        return Frame(data)

    def write(self, text: bytes) -> None:
        """To the run's standard output."""
        os.write(self.descriptors[1], text)

    def close_descriptors(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())

    def running(self, group: int = 0) -> None:
        self.send(RUNNING, group, os.getpid())

    def exited(self, code: int) -> None:
        self.close_descriptors()
        self.send(EXITED, code)

    def close(self) -> None:
        self.close_descriptors()
        self.socket.close()
        if self in self.all:
            self.all.remove(self)


class Resident:
    """Who listens at a program's place: the test itself."""

    def __init__(self, directory: Path, program: Path, *, backlog: int = 64) -> None:
        self.path = directory / f"{identity(program)}.sock"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connections: list[Connection] = []
        folder = os.open(directory, os.O_PATH)
        self.listener.bind(f"/proc/self/fd/{folder}/{self.path.name}")
        os.close(folder)
        self.listener.listen(backlog)

    def accept(self) -> Connection:
        wait_readable(self.listener)
        self.connections.append(Connection(self.listener.accept()[0]))
        return self.connections[-1]

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        self.listener.close()
        for connection in self.connections:
            connection.close()


def residents_of(program: str) -> Iterator[int]:
    """The processes that were started as residents by this path, as it was said."""
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(program) in line and b"--nearcall-resident" in line:
            yield int(entry.name)
