"""Which program is meant, and what is no run by a resident at all."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import LAUNCHER, PLAIN_CODE, World

MANUAL = Path(__file__).resolve().parents[1] / "nearcall-run.1"
HEADER = Path(__file__).resolve().parents[3] / "libnearcall" / "include" / "nearcall.h"
OTHER_USER = 65534


def test_help_and_version(world: World) -> None:
    code, out, err = world.run("--help")
    assert (code, err) == (0, "")
    assert out.startswith("usage: nearcall-run ")
    numbers = [
        line.split()[2] for line in HEADER.read_text().splitlines() if line.startswith("#define NEARCALL_VERSION_")
    ]
    assert world.run("--version") == (0, f"nearcall-run {'.'.join(numbers)}\n", "")


def test_the_manual_page_is_well_formed_and_complete(world: World) -> None:
    groff = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", MANUAL], capture_output=True, text=True, timeout=20, check=False
    )
    assert (groff.returncode, groff.stderr) == (0, "")
    page = MANUAL.read_text().replace("\\-", "-")
    words = set(re.findall(r"--[a-z-]+|NEARCALL_[A-Z_]+", world.run("--help")[1]))
    assert len(words) == 6
    assert [word for word in sorted(words) if word not in page] == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "which program?"),
        (["--"], "which program?"),
        (["--no-resident"], "which program?"),
        (["-x", "true"], "no option -x"),
        (["--resident"], "no option --resident"),
    ],
)
def test_wrong_usage(world: World, arguments: list[str], error: str) -> None:
    process = world.start(*arguments)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (125, b"")
    assert error in err.decode()
    assert "nearcall-run --help" in err.decode()


@pytest.mark.parametrize(
    ("name", "code"),
    [("no-such-program", 127), ("./no-such-program", 127), ("", 127), ("no/such/program", 127), ("/", 126)],
)
def test_there_is_no_such_program(world: World, name: str, code: int) -> None:
    result, out, err = world.run(name)
    assert (result, out) == (code, "")
    assert err.splitlines()[-1].startswith(f"nearcall-run: {name}: ")


def test_a_program_without_permission(world: World) -> None:
    world.program.chmod(0o644)
    assert world.run()[:2] == (126, "")
    world.environment["PATH"] = str(world.directory)
    assert world.run("program")[:2] == (126, "")
    (world.directory / "folder" / "program").mkdir(parents=True)
    world.environment["PATH"] = f"{world.directory}/folder"
    assert world.run("program")[:2] == (126, "")
    world.environment["PATH"] = f"{world.directory}/folder/none"
    assert world.run("program")[:2] == (127, "")
    world.script("later/program", "#!/bin/sh\necho later\n")
    world.environment["PATH"] = f"{world.directory}:{world.directory}/later"
    assert world.run("program")[:2] == (0, "later\n")


@pytest.mark.parametrize("variable", ["NEARCALL_NO_RESIDENT", "--no-resident first", "--no-resident second"])
def test_a_plain_run_can_be_asked_for(world: World, variable: str) -> None:
    world.resident()
    arguments: list[str | Path] = [world.program, "word", "--no-resident"]
    if variable == "NEARCALL_NO_RESIDENT":
        world.environment[variable] = "1"
    elif variable.endswith("first"):
        arguments.insert(0, "--no-resident")
    else:
        arguments.insert(1, "--no-resident")
    code, out, err = world.run(*arguments)
    assert (code, out) == (PLAIN_CODE, "plain word --no-resident\n")
    assert "runs plainly: " + variable.partition(" ")[0] in err


def test_an_empty_variable_asks_for_nothing(world: World) -> None:
    world.environment["NEARCALL_NO_RESIDENT"] = ""
    process, run = world.asked()
    run.running()
    run.exited(0)
    assert process.wait(20) == 0


@pytest.mark.parametrize("argument", ["/dev/fd/9", "--file=/dev/fd/63", "/proc/self/fd/9"])
def test_an_argument_that_is_a_descriptor(world: World, argument: str) -> None:
    world.resident()
    code, out, err = world.run(world.program, argument)
    assert (code, out) == (PLAIN_CODE, f"plain {argument}\n")
    assert "names a descriptor" in err


def test_a_script_of_the_shell(world: World) -> None:
    script = world.script("script", "echo $# $1 $2\nexit 4\n")
    assert world.run("--no-resident", script, "a b", "c")[:2] == (4, "2 a b c\n")


def linked(world: World, path: str) -> Path:
    link = world.directory / path
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(LAUNCHER)
    return link


def test_a_link_never_finds_itself_nor_a_copy(world: World) -> None:
    link = linked(world, "links/program")
    other = linked(world, "more/program")
    copy = world.directory / "copies" / "program"
    copy.parent.mkdir()
    shutil.copy(LAUNCHER, copy)
    world.environment["PATH"] = f"{link.parent}:{copy.parent}:{other.parent}:{world.directory}"
    for command in (link, copy):
        code, out, _ = world.run("word", command=command)
        assert (code, out) == (PLAIN_CODE, "plain word\n")
    assert world.run("program", "word")[:2] == (PLAIN_CODE, "plain word\n")


def test_links_alone_are_refused(world: World) -> None:
    link = linked(world, "links/program")
    copy = world.directory / "copies" / "program"
    copy.parent.mkdir()
    shutil.copy(LAUNCHER, copy)
    world.environment["PATH"] = f"{link.parent}:{copy.parent}"
    for command in (link, copy):
        code, out, err = world.run(command=command)
        assert (code, out) == (127, "")
        assert "searched for in PATH" in err


@pytest.mark.parametrize("copies", [1, 2])
def test_launchers_that_nobody_may_read(world: World, copies: int) -> None:
    paths = [world.directory / f"copies{i}" / "program" for i in range(copies)]
    for path in paths:
        path.parent.mkdir()
        shutil.copy(LAUNCHER, path)
        path.chmod(0o711)
    world.directory.chmod(0o755)
    world.environment |= {"PATH": ":".join(str(path.parent) for path in [*paths, world.program])}
    world.environment |= {"NEARCALL_NO_RESIDENT": "1"}
    for command in paths:
        assert world.run("word", command=command, user=OTHER_USER)[:2] == (PLAIN_CODE, "plain word\n")


def test_a_program_that_nobody_may_read(world: World) -> None:
    world.directory.chmod(0o755)
    true = world.directory / "unreadable"
    shutil.copy("/bin/true", true)
    true.chmod(0o711)
    world.environment |= {"PATH": str(world.directory), "NEARCALL_NO_RESIDENT": "1"}
    launcher = world.directory / "nearcall-run"
    shutil.copy(LAUNCHER, launcher)
    assert world.run("unreadable", command=launcher, user=OTHER_USER)[0] == 0


def test_a_link_to_a_program_that_nobody_may_read(world: World) -> None:
    """It is found, as a shell finds it."""
    world.directory.chmod(0o755)
    for name in ("links", "more"):
        (world.directory / name).mkdir()
    echo = world.directory / "more" / "unreadable"
    shutil.copy("/bin/echo", echo)
    echo.chmod(0o711)
    launcher, link = world.directory / "nearcall-run", world.directory / "links" / "unreadable"
    shutil.copy(LAUNCHER, launcher)
    link.symlink_to(launcher)
    world.environment["PATH"] = f"{link.parent}:{echo.parent}"
    assert world.run("word", command=link, user=OTHER_USER)[:2] == (0, "word\n")


@pytest.mark.parametrize("descriptors", ["auth=50,51", "fds=50,51", "auth=7,8 --jobserver-auth=50,51"])
def test_the_jobs_of_make(world: World, descriptors: str) -> None:
    """Its descriptors are the program's where they are open."""
    world.resident()
    world.environment["MAKEFLAGS"] = f" -j8 --jobserver-{descriptors}"
    with open("/dev/null") as null:
        for fd in (50, 51):
            os.dup2(null.fileno(), fd)
        try:
            code, out, err = world.run(world.program, "word", pass_fds=(50, 51))
        finally:
            os.close(50)
            os.close(51)
    assert (code, out) == (PLAIN_CODE, "plain word\n")
    assert "make shares its jobs" in err


@pytest.mark.parametrize(
    "flags", ["", "-j8", "-j8 --jobserver-auth=50,51", "-j --jobserver-auth=-2,-2", "--jobserver-auth=fifo:/tmp/x,1"]
)
def test_jobs_of_make_that_it_has_not(world: World, flags: str) -> None:
    world.environment["MAKEFLAGS"] = flags
    process, run = world.asked()
    run.running()
    run.exited(0)
    assert process.wait(20) == 0


def test_sockets_that_are_passed(world: World) -> None:
    """As systemd passes them, and not those that somebody before was passed."""
    world.resident()
    script = 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$1" word'
    code, out, err = world.run("-c", script, LAUNCHER, world.program, command="/bin/sh")
    assert (code, out) == (PLAIN_CODE, "plain word\n")
    assert "it is passed sockets" in err
    world.environment |= {"LISTEN_FDS": "1", "LISTEN_PID": "1"}
    process, run = world.asked()
    run.running()
    run.exited(0)
    assert process.wait(20) == 0


def test_a_link_that_is_named_is_followed_to_its_program(world: World) -> None:
    link = linked(world, "links/program")
    world.environment["PATH"] = f"{link.parent}:{world.directory}"
    process = world.start(link, "word")
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (PLAIN_CODE, b"plain word\n")
    assert f"{link} runs plainly: it is a launcher itself" in err.decode()


def test_options_are_the_programs_by_a_link(world: World) -> None:
    link = linked(world, "links/program")
    world.environment["PATH"] = f"{link.parent}:{world.directory}"
    for option in ("--help", "--version", "-x"):
        assert world.run(option, command=link)[:2] == (PLAIN_CODE, f"plain {option}\n")


def test_a_search_without_path(world: World) -> None:
    del world.environment["PATH"]
    del world.environment["NEARCALL_RUN_DEBUG"]
    assert world.run("--no-resident", "true") == (0, "", "")


def test_an_entry_of_path_that_is_too_long(world: World) -> None:
    world.environment["PATH"] = f"{'/long' * 1000}:{world.directory}:{'/long' * 20000}"
    assert world.run("program", "word")[:2] == (PLAIN_CODE, "plain word\n")


def test_without_any_argument(world: World) -> None:
    # Newer kernels put an empty name there, which is no program's.
    process = subprocess.run(
        ["/usr/bin/python3", "-c", "import ctypes, sys; ctypes.CDLL(None).execv(sys.argv[1].encode(), None)", LAUNCHER],
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert process.returncode in (125, 127)
