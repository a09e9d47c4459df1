"""What the tests share: the real server as a process, children, counters."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nearcall

REPOSITORY = Path(__file__).resolve().parents[3]
TESTSERVER = Path(os.environ.get("NEARCALL_TESTSERVER", REPOSITORY / "build" / "testserver"))
TESTS = Path(__file__).resolve().parent
PATIENCE_SECONDS = 60.0


def wait_until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Polls for what has no event to wait for."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.002)
    return value


def ring_during(seconds: float, call: Callable[[], Any]) -> Any:
    """Calls, with SIGALRM after so long. Where the handler raises that is within this,
    also on a machine that is busy and does not come to the call sooner."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    return call()


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line a process prints; fails when it prints none in time."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE_SECONDS)
    assert ready, "the process printed nothing in time"
    return process.stdout.readline().strip()


def wait_until_in_call(thread_id: int | None, pid: int | str = "self") -> None:
    """Waits until a thread is inside a call: until it is in a system call whose
    first argument is a socket."""

    def is_in_call() -> bool:
        try:
            fields = Path(f"/proc/{pid}/task/{thread_id}/syscall").read_text().split()
            return os.readlink(f"/proc/{pid}/fd/{int(fields[1], 16)}").startswith("socket:")
        except (OSError, IndexError):
            return False

    wait_until(is_in_call, "the thread is in a call")


class Server:
    """The test server as a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.path = folder / "nearcall.sock"
        self.address = f"unix:{self.path}"
        self._arguments = arguments
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        if not TESTSERVER.is_file():
            raise FileNotFoundError(f"{TESTSERVER} is missing: run `make build` first")
        command = [str(TESTSERVER), "-address", self.address, *self._arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = read_line(self.process)
        assert line == f"ready {self.address}", f"the server said {line!r}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def pause(self) -> None:
        """Stops the process, and waits until every thread of it stands."""
        os.kill(self.pid, signal.SIGSTOP)
        tasks = Path(f"/proc/{self.pid}/task")
        wait_until(
            lambda: all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.iterdir()),
            "the server stands",
        )

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is None:
            return
        # A stopped process does not act on SIGTERM before it continues.
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None

    def restart(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.stop(number)
        self.start()

    def socket_count(self) -> int:
        """How many sockets the server has open."""
        count = 0
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                count += os.readlink(entry).startswith("socket:")
        return count


class Generations:
    """A server and its successors with other functions, at one address."""

    def __init__(self, start: Callable[..., Server], generation: int) -> None:
        self._start = start
        self._server = start(f"-generation={generation}")
        self.address = self._server.address

    def replace(self, generation: int) -> Server:
        self._server.stop()
        self._server = self._start(f"-generation={generation}")
        return self._server

    def history(self) -> Any:
        with nearcall.Client(self.address) as other:
            return other.call("history")


def begun_again(call: Callable[..., Any], name: str, /, *args: Any, **named: Any) -> Any:
    """A call that is begun and fetched apart is sent once: a server that is leaving
    may tell it so."""
    try:
        return call(name, *args, **named)
    except nearcall.Unavailable as error:
        if error.outcome is not nearcall.Outcome.NOT_EXECUTED:
            raise
        return call(name, *args, **named)


def descriptor_count() -> int:
    """Open descriptors of this process; the listing's own is not counted."""
    return len(os.listdir("/proc/self/fd")) - 1


def rss_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_child(pid: int, seconds: float = PATIENCE_SECONDS) -> int:
    """Exit status of a child; one that hangs is killed and fails the test."""
    descriptor = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        if not ready:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(descriptor)
    assert ready, f"the child {pid} hung for {seconds} s"
    return os.waitstatus_to_exitcode(status)


def fork_child(function: Callable[[], Any]) -> tuple[int, int]:
    """Forks; the child runs function and sends what it returns or raises.

    Returns the child's pid and the descriptor to read from."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    status = 1
    try:
        os.close(reader)
        try:
            answer = pickle.dumps((True, function()))
        except BaseException as error:
            traceback.print_exc()
            answer = pickle.dumps((False, error))
        os.write(writer, answer)
        status = 0
    finally:
        os._exit(status)


def child_answer(pid: int, reader: int, seconds: float = PATIENCE_SECONDS) -> Any:
    """What the child of fork_child() returned; raises what it raised."""
    try:
        status = wait_child(pid, seconds)
        assert status == 0, f"the child ended with {status}"
        data = os.read(reader, 1 << 20)
    finally:
        os.close(reader)
    good, answer = pickle.loads(data)
    if not good:
        raise answer
    return answer


def in_child(function: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """Runs a function in a forked child and returns what it returned."""
    return child_answer(*fork_child(function), seconds)


def run_python(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program in a fresh interpreter."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, **options)


class Recorder:
    """A relay between callers and the server that counts what each connection
    carried, so that a test can tell who wrote on whose."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.address = f"unix:{folder / 'relay.sock'}"
        command = [sys.executable, str(TESTS / "relay.py"), str(folder / "relay.sock"), str(server.path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert read_line(self._process) == "ready"

    def connections(self) -> list[tuple[int, int, bool]]:
        """(caller's pid, bytes it sent, still open) for each connection so far."""
        assert self._process.stdin is not None
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        fields = [item.split(":") for item in read_line(self._process).split()]
        return [(int(pid), int(count), is_open == "open") for pid, count, is_open in fields]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
