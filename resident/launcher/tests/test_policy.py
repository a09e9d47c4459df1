"""What an administrator allows, and what is installed beside a link."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BUILD, LAUNCHER, PLAIN_CODE, World, outcome
from peer import identity

# Its policy is the file of this name in the directory that it is started in.
POLICED = BUILD / "launcher" / "tests" / "nearcall-run"
POLICY = "policy"


def run(world: World, *arguments: str | Path, **options: object) -> str:
    """What the launcher says of a run that is plain."""
    code, out, err = outcome(world.start(world.program, *arguments, command=POLICED, **options))
    assert (code, out) == (PLAIN_CODE, " ".join(["plain", *map(str, arguments)]) + "\n")
    return err


def policy(world: World, text: str) -> None:
    (world.directory / POLICY).write_text(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("forbid\n", "forbids residents"),
        ("# of the administrator\n\n  forbid  # not understood\n", "line 3 "),
        ("forbid", "forbids residents"),
        ("\tforbid\r\n", "forbids residents"),
        ("allow /usr/bin/*\n", "does not list it"),
        ("allow {program}x\nallow /*x\n", "does not list it"),
        ("allow *\n", "line 1 "),
        ("allow\n", "line 1 "),
        ("residents\n", "line 1 "),
        ("residents 0\n", "line 1 "),
        ("residents -1\n", "line 1 "),
        ("memory_mib lots\n", "line 1 "),
        ("residents 99999999999999999999\n", "line 1 "),
        ("allow /*\nallows /*\n", "line 2 "),
        ("allow /*\n" * 8000, "is too long"),
    ],
)
def test_what_is_forbidden(world: World, text: str, reason: str) -> None:
    policy(world, text.replace("{program}", str(world.program)))
    err = run(world, "word")
    assert reason in err
    assert world.starts() == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "allow {program}\n",
        "allow /nowhere\n  allow  {directory}/*  \nresidents 1\n",
        "residents 20",
        "memory_mib 1",
    ],
)
def test_what_is_allowed(world: World, text: str) -> None:
    policy(world, text.replace("{program}", str(world.program)).replace("{directory}", str(world.directory)))
    run(world)
    assert world.starts() > 0


def test_without_a_policy(world: World) -> None:
    run(world)
    assert world.starts() > 0


def test_a_policy_that_cannot_be_read(world: World) -> None:
    """It may forbid this."""
    (world.directory / POLICY).mkdir()
    assert "policy cannot be read: Is a directory" in run(world)
    assert world.starts() == 0


@contextlib.contextmanager
def listening(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield


def test_how_many_there_may_be(world: World) -> None:
    policy(world, "residents 2\n")
    world.place.mkdir(mode=0o700)
    with listening(world.place / "killed-0000000000000000.sock"):
        pass  # the socket's file stays
    (world.place / "no-socket.sock").touch()
    with listening(world.place / "one-0000000000000000.sock"):
        run(world)
        assert world.starts() > 0
        before = world.starts()
        other = world.script("other", world.program.read_text())
        with listening(world.place / "two-0000000000000000.sock"):
            code, out, err = outcome(world.start(other, command=POLICED))
            assert (code, out) == (PLAIN_CODE, "plain\n")
            assert "allows no more than 2 residents of a user" in err
            assert world.starts() == before


# Listens, and has a child that takes 64 MiB.
TAKING = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
ends, end = os.pipe()
if os.fork() == 0:
    os.close(end)
    taken = os.urandom(1 << 20) * 64
    print("takes it", flush=True)
    os.read(ends, 1)
    os._exit(0)
os.close(ends)
sys.stdin.read()
"""


def test_how_much_they_may_take(world: World) -> None:
    """Together, with what waits for runs."""
    world.place.mkdir(mode=0o700)
    path = world.place / "one-0000000000000000.sock"
    taker = world.start("-c", TAKING, path, command=sys.executable, stdin=subprocess.PIPE)
    assert taker.stdout is not None
    taker.stdout.readline()
    policy(world, "memory_mib 64\n")
    assert "starts no more residents when those of a user take 64 MiB" in run(world)
    assert world.starts() == 0
    policy(world, "memory_mib 1000\n")
    run(world)
    assert world.starts() > 0


def test_who_runs_already_is_not_asked(world: World) -> None:
    """A policy is looked at when a resident is started: no run pays for it."""
    policy(world, "forbid\n")
    world.resident()
    process = world.start(world.program, command=POLICED)
    request = world.residents[0].accept()
    request.running()
    request.exited(3)
    assert outcome(process) == (3, "", "")


# ---- What is installed ----

STARTER = """#!/bin/sh
echo "$0" "$@" >>"$NOTE.starter"
exit 3
"""


def links(world: World) -> Path:
    link = world.directory / "links" / "program"
    link.parent.mkdir()
    link.symlink_to(LAUNCHER)
    return link


def installed(world: World) -> tuple[Path, Path]:
    """A link, and what is installed beside it."""
    link = links(world)
    (link.parent / ".nearcall-resident").mkdir()
    starter = world.script("links/.nearcall-resident/program", STARTER)
    world.environment["PATH"] = f"{link.parent}:{world.directory}:/usr/bin:/bin"
    return link, starter


# How the launcher is called, the entry of PATH that has the link, and in which directory.
CALLS = [
    ("program", "{links}", "."),
    ("{links}/program", "{links}", "."),
    ("links/program", "{links}", "."),
    ("./program", "{links}", "links"),
    ("../links/program", "{links}", "links"),
    ("program", "links", "."),
    ("program", "", "links"),
]


@pytest.mark.parametrize(("called", "entry", "directory"), CALLS)
def test_what_is_installed_beside_the_link(world: World, called: str, entry: str, directory: str) -> None:
    link, starter = installed(world)
    entry = entry.replace("{links}", str(link.parent))
    world.environment["PATH"] = f"{entry}:{world.directory}:/usr/bin:/bin"
    command = called.replace("{links}", str(link.parent))
    for _ in range(2):
        process = world.start(command, "word", command="/usr/bin/env", cwd=world.directory / directory)
        code, out, _ = outcome(process)
        assert (code, out) == (PLAIN_CODE, "plain word\n")
    assert world.starts() == 0  # the program itself knows nothing of residents
    lines = (world.directory / "note.starter").read_text().splitlines()
    paths, arguments = zip(*(line.split(" ", 1) for line in lines), strict=True)
    assert {os.path.normpath(path) for path in paths} == {str(starter)}
    assert set(arguments) == {f"--nearcall-resident {world.program}"}
    assert (world.place / f"{identity(world.program)}.lock").exists()


# A link to the one that is installed, and where each of the links leads.
LINKS_TO_IT = {
    "of its name": {"own/program": "{links}/program"},
    "of another name": {"own/other": "{links}/program"},
    "of another program's name": {"own/true": "{links}/program"},
    "relative": {"own/other": "../links/program"},
    "by another link": {"own/other": "../more/another", "more/another": "../links/program"},
    "beside it": {"links/other": "program"},
}


@pytest.mark.parametrize("by_path", [True, False])
@pytest.mark.parametrize("chain", LINKS_TO_IT.values(), ids=LINKS_TO_IT.keys())
def test_a_link_to_the_one_that_is_installed(world: World, chain: dict[str, str], by_path: bool) -> None:
    """It does what that one does."""
    link, starter = installed(world)
    for path, target in chain.items():
        (world.directory / path).parent.mkdir(exist_ok=True)
        (world.directory / path).symlink_to(target.replace("{links}", str(link.parent)))
    world.environment["PATH"] = f"{world.directory}/own:{link.parent}:{world.directory}:/usr/bin:/bin"
    first = next(iter(chain))
    called = str(world.directory / first) if by_path else os.path.basename(first)
    process = world.start(called, "word", command="/usr/bin/env")
    code, out, err = outcome(process)
    assert (code, out) == (PLAIN_CODE, "plain word\n"), err
    assert world.starts() == 0
    line = (world.directory / "note.starter").read_text().splitlines()[0]
    path, arguments = line.split(" ", 1)
    assert os.path.realpath(path) == str(starter)
    assert arguments == f"--nearcall-resident {world.program}"


@pytest.mark.parametrize("by_path", [True, False])
def test_a_link_to_a_link_beside_which_nothing_is(world: World, by_path: bool) -> None:
    """It is one of its own name, as any other."""
    links(world)
    own = world.directory / "own" / "program"
    own.parent.mkdir()
    (world.directory / "links" / "program").rename(world.directory / "links" / "another")
    own.symlink_to("../links/another")
    world.environment["PATH"] = f"{own.parent}:{world.directory}:/usr/bin:/bin"
    code, out, _ = outcome(world.start(own if by_path else "program", "word", command="/usr/bin/env"))
    assert (code, out) == (PLAIN_CODE, "plain word\n")
    assert world.starts() > 0


@pytest.mark.parametrize("called", ["program", "links/program"])
def test_what_is_installed_and_cannot_be_started(world: World, called: str) -> None:
    _, starter = installed(world)
    starter.chmod(stat.S_IRUSR)
    code, out, err = outcome(world.start(called, command="/usr/bin/env"))
    assert (code, out) == (PLAIN_CODE, "plain\n")
    assert "links/.nearcall-resident/program: Permission denied" in err
    assert world.starts() == 0


@pytest.mark.parametrize("called", ["program", "links/program"])
def test_what_is_not_installed_is_asked_itself(world: World, called: str) -> None:
    """As a link of one's own, beside those that are installed."""
    _, starter = installed(world)
    starter.unlink()
    code, _, _ = outcome(world.start(called, command="/usr/bin/env"))
    assert code == PLAIN_CODE
    assert world.starts() > 0
