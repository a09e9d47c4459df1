"""nearcall.resident: what a program reads before its runs, and for whom it is run then."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher import EXITED, PLAINLY, STATUS, Resident

Start = Callable[..., Resident]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts the resident of a program that does something before its runs."""
    residents: list[Resident] = []

    def start(before: str, options: str = "") -> Resident:
        program = folder / "program.py"
        program.write_text(
            f"#!{sys.executable}\nfrom nearcall import resident\nimport os, pathlib, sys\n{before}\n"
            f"def run():\n    print(os.environ.get('MINE'), os.getcwd())\nresident.main(run{options})\n"
        )
        program.chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {"MINE": "a", "NEARCALL_RESIDENT_DIRECTORY": str(folder)}
        residents.append(Resident(program, folder, environment))
        return residents[-1]

    yield start
    for resident in residents:
        resident.close()


def runs(resident: Resident, directory: Path, **changed: str | None) -> bool:
    """Whether it runs the program for a caller who has something else."""
    variables = {**resident.environment, "PWD": "/", **changed}  # which bash has set in the resident
    del variables["NEARCALL_RESIDENT_DIRECTORY"]
    environment = {name: value for name, value in variables.items() if value is not None}
    result = resident.run(directory=str(directory), environment=environment)
    assert result.kinds[-1] in (EXITED, PLAINLY), resident.log.read_text()
    if result.kinds[-1] == EXITED:
        assert result.output == f"{environment.get('MINE')} {directory}\n"
    return result.kinds[-1] == EXITED


ONE = [
    "os.environ['MINE']",
    "os.environ.get('MINE')",
    "os.environb.get(b'MINE')",
    "os.getenv('MINE')",
    "'MINE' in os.environ",
    "os.path.expandvars('$MINE')",
    "from os import environ; environ.setdefault('MINE', 'b')",
]
ALL = ["dict(os.environ)", "os.environ.copy()", "list(os.environb)", "sorted(os.environ.values())", "repr(os.environ)"]


@pytest.mark.parametrize("read", [*ONE, *ALL])
def test_variables_that_are_read_count(start: Start, folder: Path, read: str) -> None:
    resident = start(read)
    assert runs(resident, folder)
    assert not runs(resident, folder, MINE="b")
    assert not runs(resident, folder, MINE=None)
    assert runs(resident, Path("/"), SHLVL="7", _="another")
    assert runs(resident, folder, OTHER="1") == (read not in ALL)
    reads = resident.ask(STATUS)["reads"]
    assert ("MINE" in reads) == (read in ONE)
    assert ("*" in reads) == (read in ALL)


def test_variables_that_are_not_there_count(start: Start, folder: Path) -> None:
    resident = start("assert os.environ.get('ABSENT') is None")
    assert runs(resident, folder)
    assert not runs(resident, folder, ABSENT="")


def test_what_is_only_set_or_read_by_python_itself_does_not_count(start: Start, folder: Path) -> None:
    resident = start(
        "import ctypes.util, platform\nctypes.util.find_library('c'), platform.processor()\nos.environ['OWN'] = '1'"
    )
    assert runs(resident, Path("/"), MINE="b")


LOOKS = [
    "os.getcwd()",
    "os.getcwdb()",
    "pathlib.Path.cwd()",
    "pathlib.Path('x').exists()",
    "os.path.abspath('x')",
    "os.path.exists('x')",
    "os.access('x', os.R_OK)",
    "os.listdir()",
    "list(os.scandir('.'))",
    "open('program.py').close()",
    "io_open = open; pathlib.Path('program.py').read_text()",
    "os.close(os.open('program.py', os.O_RDONLY))",
    "sys.path.insert(0, '')",
    "import io; io.FileIO('program.py').close()",
    "import io; io.open_code('program.py').close()",
    "import sqlite3; sqlite3.connect('file').close()",
    "import sqlite3; sqlite3.connect('file:file?mode=rwc', uri=True).close()",
]


@pytest.mark.parametrize("look", LOOKS)
def test_the_directory_counts_where_it_is_looked_at(start: Start, folder: Path, look: str) -> None:
    resident = start(look)
    assert runs(resident, folder)
    assert not runs(resident, Path("/"))
    assert resident.ask(STATUS)["reads_directory"] == str(folder)


# Programs that are started before the runs, and whether they have this one's variables.
STARTS = [
    ("subprocess.run(['true'])", True),
    ("os.system('true')", True),
    ("os.popen('true').read()", True),
    ("os.fork() or os._exit(0); os.wait()", True),
    ("subprocess.run(['/bin/true'], env=os.environ)", True),
    ("subprocess.run(['/bin/true'], env={})", False),
    ("os.posix_spawn('/bin/true', ['true'], os.environ); os.wait()", True),
    ("os.posix_spawn('/bin/true', ['true'], {}); os.wait()", False),
    (
        "import multiprocessing.util as util; r, w = os.pipe();"
        "util.spawnv_passfds(b'/bin/true', [b'true'], [r]); os.wait(); os.close(r); os.close(w)",
        True,
    ),
]


@pytest.mark.parametrize(("begin", "all_variables"), STARTS)
def test_what_programs_have_that_are_started_counts(
    start: Start, folder: Path, begin: str, all_variables: bool
) -> None:
    resident = start(f"import subprocess\n{begin}")
    assert runs(resident, folder)
    assert not runs(resident, Path("/"))
    assert runs(resident, folder, OTHER="1") == (not all_variables)
    assert ("*" in resident.ask(STATUS)["reads"]) == all_variables


def test_a_program_that_is_started_somewhere_else(start: Start, folder: Path) -> None:
    resident = start("import subprocess\nsubprocess.run(['/bin/true'], cwd='/', env={})")
    assert runs(resident, Path("/"), OTHER="1")


def test_it_waits_in_the_root_directory(start: Start) -> None:
    resident = start("os.getcwd()")
    resident.wait_waiting()
    assert resident.process.poll() is None
    assert os.readlink(f"/proc/{resident.process.pid}/cwd") == "/"


@pytest.mark.parametrize(
    "look",
    [
        "import asyncio, email, http.client, json, logging, shutil, subprocess, tempfile",
        "os.path.abspath('/x/../y')",
        "open('/dev/null').close()",
        "import sqlite3; sqlite3.connect(':memory:').close(); sqlite3.connect('').close()",
        "os.close(os.open('null', os.O_RDONLY, dir_fd=os.open('/dev', os.O_RDONLY)))",
        "import io; assert type(open) is type(len) and io.open is open",
        "os.stat(0)",
        "class Holder: look = os.stat\nHolder().look('/')",
        "assert os.stat in os.supports_dir_fd",
    ],
)
def test_absolute_paths_do_not_count(start: Start, look: str) -> None:
    assert runs(start(look), Path("/"))


def test_what_options_except_does_not_count(start: Start, folder: Path) -> None:
    resident = start("os.environ['MINE'], os.getcwd()", ", reread=['MINE'], same_directory=False")
    assert runs(resident, Path("/"), MINE="b")


def test_what_options_add_counts(start: Start, folder: Path) -> None:
    resident = start("", ", environment=['MINE'], same_directory=True")
    assert runs(resident, folder)
    assert not runs(resident, Path("/"))
    assert not runs(resident, folder, MINE="b")


def test_what_warm_reads_counts(start: Start, folder: Path) -> None:
    resident = start("def warm(): os.environ['MINE'], os.stat('program.py')", ", warm=warm")
    assert runs(resident, folder)
    assert not runs(resident, folder, MINE="b")
    assert not runs(resident, Path("/"))


def test_an_early_look_at_standard_input(start: Start, folder: Path) -> None:
    resident = start("", ", early_input=True")
    assert not runs(resident, folder)  # it is a pipe
    with open("/dev/null") as null:
        connection = resident.begin([], [null.fileno(), 1, 2])
        assert connection.frames()[-1][0] == EXITED
        connection.close()
    assert resident.ask(STATUS)["reads_input"] is True
