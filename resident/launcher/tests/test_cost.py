"""What the launcher costs: its size, and its system calls until the request is sent."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import LAUNCHER, World, outcome

BYTES_MAX = 100 * 1024
CALLS_MAX = 23
# What nobody but the launcher can know of itself: what restricts it, and its keyring.
CALLS_OF_STANDING = 12
STANDING = ("prctl", "personality", "capget", "readlink", "keyctl")
# Where the link leads, PATH's entries before the right one, and what makes sure that it is no launcher.
CALLS_OF_A_LINK = 6


def test_it_is_small_and_static() -> None:
    assert LAUNCHER.stat().st_size <= BYTES_MAX
    described = subprocess.run(["readelf", "-lS", LAUNCHER], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in described
    assert "DYNAMIC" not in described
    assert ".symtab" not in described


@pytest.fixture
def terminal() -> Iterator[int]:
    ours, theirs = pty.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


# Runs its arguments as the first process of a session whose terminal is standard input.
CONTROLLED = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def calls_until_sent(
    world: World, *command: str | Path, before: Sequence[str] = (), **options: object
) -> list[str]:
    trace = world.directory / "trace"
    tracing = [*before, str(shutil.which("strace")), "-f", "-o", trace, *command]
    process = world.start(*tracing[1:], command=tracing[0], **options)
    run = world.residents[0].accept()
    run.running()
    run.exited(0)
    assert outcome(process)[0] == 0
    calls = re.findall(r"^\d+ +(\w+)\(", trace.read_text(), re.MULTILINE)
    before_it = calls[: calls.index("sendmsg")]
    assert len([call for call in before_it if call in STANDING]) <= CALLS_OF_STANDING, " ".join(calls)
    return [call for call in before_it if call not in STANDING]


@pytest.mark.parametrize("where", ["nowhere", "input", "output", "error", "everywhere"])
def test_system_calls_of_a_path(world: World, terminal: int, where: str) -> None:
    world.resident()
    names = {"input": "stdin", "output": "stdout", "error": "stderr"}
    options: dict[str, Any] = {name: terminal for key, name in names.items() if where in (key, "everywhere")}
    calls = calls_until_sent(world, LAUNCHER, world.program, "word", **options)
    assert len(calls) <= CALLS_MAX, " ".join(calls)


def test_system_calls_of_a_job_with_a_terminal(world: World, terminal: int) -> None:
    """The most there are: whose the terminal is has to be asked."""
    world.resident()
    before = ["python3", "-c", CONTROLLED]
    calls = calls_until_sent(world, LAUNCHER, world.program, before=before, stdin=terminal)
    assert "getpgid" in calls
    assert len(calls) <= CALLS_MAX, " ".join(calls)


def test_system_calls_of_a_link(world: World) -> None:
    world.resident()
    link = world.directory / "links" / "program"
    link.parent.mkdir()
    link.symlink_to(LAUNCHER)
    world.environment["PATH"] = f"{world.directory}/none:{world.directory}"
    calls = calls_until_sent(world, link)
    assert len(calls) <= CALLS_MAX + CALLS_OF_A_LINK, " ".join(calls)
