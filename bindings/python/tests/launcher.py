"""A launcher of resident commands by hand: it shows every frame, and can misbehave."""

from __future__ import annotations

import array
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support import PATIENCE_SECONDS, wait_until

# The launcher starts residents with all signals at their default, whatever nohup or a
# shell that put the tests into the background had ignored.
for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)

MAGIC = b"\x8bNCR\r\n\x1a\n"
HEADER = struct.Struct("<8sIHHIIHHII12x")
FRAME = struct.Struct("<IIII")

RUN, STATUS, STOP = 1, 2, 3
RUNNING, EXITED, KILLED, PLAINLY, ENDING, REPORT = 1, 2, 3, 4, 5, 7

Frame = tuple[int, int, int, bytes]


def identity(path: Path) -> str:
    """The part of a socket's name that tells one version of a program from others."""
    status = path.stat()
    times = [divmod(moment, 10**9) for moment in (status.st_mtime_ns, status.st_ctime_ns)]
    numbers = [status.st_dev, status.st_ino, status.st_size, *times[0], *times[1]]
    state = 14695981039346656037
    for byte in struct.pack("<7Q", *numbers):
        state = (state ^ byte) * 1099511628211 % 2**64
    return f"{state:016x}"


def request(
    kind: int,
    arguments: Sequence[str | bytes] = (),
    environment: Mapping[str, str] | None = None,
    *,
    umask: int = 0o022,
    directory: str = "/",
) -> bytes:
    variables = [f"{name}={value}" for name, value in (environment or {}).items()]
    texts = [os.fsencode(text) for text in ([directory] if kind == RUN else [])]
    texts += [os.fsencode(text) for text in [*arguments, *variables]]
    body = b"".join(text + b"\0" for text in texts)
    counts = (len(arguments), len(variables))
    return HEADER.pack(MAGIC, HEADER.size + len(body), 1, kind, os.getpid(), umask, 0, 0, *counts) + body


class Connection:
    """One request to a resident."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.connect(str(path))

    def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        sent = self.socket.sendmsg([data], rights)
        if sent < len(data):
            self.socket.sendall(data[sent:])

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count and (part := self.socket.recv(count - len(data))):
            data += part
        return data

    def frame(self) -> Frame | None:
        """The next frame; None at the end."""
        with contextlib.suppress(ConnectionResetError):
            header = self._exactly(FRAME.size)
            if header:
                kind, value, second, count = FRAME.unpack(header)
                return kind, value, second, self._exactly(count)
        return None

    def frames(self) -> list[Frame]:
        frames = []
        while frame := self.frame():
            frames.append(frame)
        return frames

    def close(self) -> None:
        self.socket.close()


class Result:
    """How a run ended, and what it wrote."""

    def __init__(self, frames: list[Frame], output: bytes, errors: bytes) -> None:
        self.frames = frames
        self.output = output.decode(errors="surrogateescape")
        self.errors = errors.decode(errors="surrogateescape")
        self.kinds = [frame[0] for frame in frames]
        ends = [frame[:2] for frame in frames if frame[0] in (EXITED, KILLED)]
        self.code = None if not ends else ends[0][1] if ends[0][0] == EXITED else -ends[0][1]


class Resident:
    """A program's resident, started as nearcall-run starts it."""

    def __init__(self, program: Path, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.program = program
        self.environment = dict(os.environ if environment is None else environment)
        stem = folder / f"{program.name}-{identity(program)}"
        self.path, self.lock, self.log = (Path(f"{stem}.{suffix}") for suffix in ("sock", "lock", "log"))
        self.lock.write_text("1")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.path))
        listener.listen(1024)
        self.process = self._start(listener)
        listener.close()

    def _start(self, listener: socket.socket) -> subprocess.Popen[bytes]:
        # The shell knows its own process id, and keeps it.
        number = listener.fileno()
        move = f"exec 3<&{number} {number}<&-; " if number != 3 else ""
        script = move + 'LISTEN_PID=$$ exec "$0" --nearcall-resident'
        environment = {
            **self.environment,
            "LISTEN_FDS": "1",
            "LISTEN_FDNAMES": "nearcall-resident",
            "NEARCALL_RESIDENT_LOCK": str(self.lock),
        }
        with self.log.open("ab") as log:
            return subprocess.Popen(
                ["/bin/bash", "-c", script, str(self.program)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment,
                umask=0o077,
                start_new_session=True,
                pass_fds=[number],
            )

    def begin(
        self,
        arguments: Sequence[str | bytes] = (),
        streams: Sequence[int] = (0, 1, 2),
        environment: Mapping[str, str] | None = None,
        directory: str = "/",
        umask: int = 0o022,
    ) -> Connection:
        """Sends a run; the connection is the caller's to close."""
        variables = self.environment if environment is None else environment
        connection = Connection(self.path)
        folder = os.open(directory, os.O_PATH)
        data = request(RUN, [str(self.program), *arguments], variables, umask=umask, directory=directory)
        try:
            connection.send(data, [*streams, folder])
        finally:
            os.close(folder)
        return connection

    def run(self, *arguments: str | bytes, stdin: bytes = b"", **options: Any) -> Result:
        """A whole run, with pipes as standard streams."""
        pipes = [os.pipe() for _ in range(3)]
        os.write(pipes[0][1], stdin)
        os.close(pipes[0][1])
        connection = self.begin(arguments, [pipes[0][0], pipes[1][1], pipes[2][1]], **options)
        for descriptor in (pipes[0][0], pipes[1][1], pipes[2][1]):
            os.close(descriptor)
        with os.fdopen(pipes[1][0], "rb") as output, os.fdopen(pipes[2][0], "rb") as errors:
            result = Result([], output.read(), errors.read())
        result = Result(connection.frames(), result.output.encode(), result.errors.encode())
        connection.close()
        return result

    def ask(self, kind: int) -> dict[str, Any]:
        connection = Connection(self.path)
        connection.send(request(kind))
        frame = connection.frame()
        connection.close()
        assert frame is not None, "no report came"
        assert frame[0] == REPORT
        report = json.loads(frame[3])
        assert isinstance(report, dict)
        return report

    def wait_waiting(self, count: int = 2) -> dict[str, Any]:
        """Waits until that many processes wait for a run."""
        return wait_until(lambda: (report := self.ask(STATUS))["waiting"] >= count and report, "processes wait")

    def wait_left(self, seconds: float = PATIENCE_SECONDS) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
