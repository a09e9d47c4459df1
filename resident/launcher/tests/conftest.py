"""A place of its own for each test, and a program that says how it was run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from peer import WAIT_S, Connection, Resident, residents_of

BUILD = Path(os.environ.get("NEARCALL_BUILD", Path(__file__).resolve().parents[3] / "build"))
LAUNCHER = BUILD / "bin" / "nearcall-run"
TINY = BUILD / "launcher" / "tests" / "tiny_resident"

# What nohup, or a shell that puts this into the background, had ignored is not what
# is tested.
for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)

# Started as a resident it ends at once; NOTE counts that.
PLAIN = """#!/bin/sh
if [ "$1" = --nearcall-resident ]; then
    echo start >>"$NOTE"
    exit 3
fi
echo plain "$@"
exit 9
"""
PLAIN_CODE = 9
# Of a launcher that is built with sanitizers, when they find something.
SANITIZER_CODE = 77


class World:
    """A directory for everything, the environment, and what was started."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runtime = directory / "run"
        self.runtime.mkdir(mode=0o700)
        self.place = self.runtime / "nearcall-resident"
        self.note = directory / "note"
        self.environment = {
            "PATH": os.environ["PATH"],
            "XDG_RUNTIME_DIR": str(self.runtime),
            "NEARCALL_RUN_DEBUG": "1",
            "ASAN_OPTIONS": f"exitcode={SANITIZER_CODE}",
            "UBSAN_OPTIONS": f"exitcode={SANITIZER_CODE}",
            "NOTE": str(self.note),
        }
        self.program = self.script("program", PLAIN)
        self.programs: list[str | Path] = [self.program]
        self.processes: list[subprocess.Popen[bytes]] = []
        self.residents: list[Resident] = []
        self.groups: list[int] = []

    def script(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def tiny(self, name: str = "tiny") -> Path:
        """A program with a resident of its own, at a new path."""
        path = self.directory / name
        path.write_bytes(TINY.read_bytes())
        path.chmod(0o755)
        self.programs.append(path)
        return path

    def resident(self, program: Path | None = None) -> Resident:
        self.place.mkdir(mode=0o700, exist_ok=True)
        self.residents.append(Resident(self.place, program or self.program))
        return self.residents[-1]

    def start(self, *arguments: str | Path, **options: object) -> subprocess.Popen[bytes]:
        settings: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self.directory,
            "env": self.environment,
        }
        command = options.pop("command", LAUNCHER)
        process = subprocess.Popen([command, *arguments], **{**settings, **options})  # type: ignore[call-overload]
        self.processes.append(process)
        return self.processes[-1]

    def asked(self, *arguments: str | Path, **options: object) -> tuple[subprocess.Popen[bytes], Connection]:
        """A launcher, and the request that it sent to the test."""
        if not self.residents:
            self.resident()
        process = self.start(*(arguments or [self.program]), **options)
        return process, self.residents[-1].accept()

    def run(self, *arguments: str | Path, **options: object) -> tuple[int, str, str]:
        return outcome(self.start(*(arguments or [self.program]), **options))

    def starts(self) -> int:
        return len(self.note.read_text().splitlines()) if self.note.exists() else 0

    def end(self) -> None:
        for resident in self.residents:
            resident.close()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for group in self.groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        for program in self.programs:
            for resident_process in residents_of(str(program)):
                os.kill(resident_process, signal.SIGKILL)


def outcome(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Exit code, or the signal's number made negative; standard output; standard error."""
    process.wait(WAIT_S)
    # The test has copies of the pipes, as a resident has.
    for connection in Connection.all:
        connection.close_descriptors()
    out, err = process.communicate(timeout=WAIT_S)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


def until(condition: Callable[[], bool]) -> None:
    """For what the kernel has no event: a bound that only a failure reaches."""
    bound = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < bound, f"it did not come true within {WAIT_S} s"


def asleep(process: subprocess.Popen[bytes]) -> None:
    """Until it waits in a system call."""
    status = Path(f"/proc/{process.pid}/stat")
    until(lambda: status.read_text().rpartition(")")[2].split()[0] == "S")


def stopped(process_id: int) -> None:
    """Until it is stopped."""
    status = Path(f"/proc/{process_id}/stat")
    until(lambda: status.read_text().rpartition(")")[2].split()[0] == "T")


def taken(process: subprocess.Popen[bytes]) -> None:
    """Until it has taken every signal that was sent to it."""
    status = Path(f"/proc/{process.pid}/status")
    until(lambda: "ShdPnd:\t" + "0" * 16 in status.read_text())
    asleep(process)


@pytest.fixture
def world() -> Iterator[World]:
    # Not pytest's own folders: their paths are too long for a socket's address.
    with tempfile.TemporaryDirectory(prefix="nearcall-run-") as directory:
        made = World(Path(directory))
        yield made
        made.end()
