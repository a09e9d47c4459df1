"""nearcall.resident: what it notes for 'nearcall resident check'."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher import EXITED, Resident

Notes = Callable[..., list[list[str]]]


@pytest.fixture
def notes(folder: Path) -> Iterator[Notes]:
    """Runs a program that does something before its runs, and something in its run."""
    residents: list[Resident] = []

    def notes(before: str, each: str = "pass", variable: str = "NEARCALL_RESIDENT_NOTES") -> list[list[str]]:
        program = folder / "program.py"
        program.write_text(
            f"#!{sys.executable}\nfrom nearcall import resident\nimport os, sys\n{before}\n"
            f"def run():\n    {each}\nresident.main(run)\n"
        )
        program.chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {variable: str(folder / "notes"), "NEARCALL_RESIDENT_DIRECTORY": str(folder)}
        residents.append(Resident(program, folder, environment))
        del environment["NEARCALL_RESIDENT_DIRECTORY"]
        result = residents[-1].run(directory=str(folder), environment={**environment, "PWD": "/"})  # as bash has set it
        assert result.kinds[-1] == EXITED
        assert not residents[-1].log.read_text()
        path = folder / "notes"
        return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []

    yield notes
    for resident in residents:
        resident.close()


@pytest.mark.parametrize(
    ("before", "kind", "name"),
    [
        ("os.environ.get('MINE')", "variable", "MINE"),
        ("os.getcwd()", "directory", ""),
        ("open('/etc/passwd').close()", "file", "/etc/passwd"),
        ("import pathlib; pathlib.Path('/etc/passwd').read_bytes()", "file", "/etc/passwd"),
        ("os.listdir('/etc')", "file", "/etc"),
        ("import time; time.time()", "time", "time.time"),
        ("import time; time.strftime('%Y')", "time", "time.strftime"),
        ("import random; random.random()", "randomness", "random"),
        ("os.urandom(1)", "randomness", "os.urandom"),
        ("import subprocess; subprocess.run(['true'])", "process", "true"),
        ("import socket; socket.socket().connect_ex(('127.0.0.1', 1))", "socket", "connects to ('127.0.0.1', 1)"),
    ],
)
def test_what_is_touched_before_runs_is_noted(notes: Notes, before: str, kind: str, name: str) -> None:
    found = [note for note in notes(before) if note[:2] == ["before", kind]]
    assert [note[3] for note in found] == [name]
    assert found[0][2] == ("__main__:4" if name != "random" else "")


def test_what_is_made_before_runs_is_noted(notes: Notes, folder: Path) -> None:
    made = str(folder / "made")
    assert ["before", "file", "__main__:4", made] in notes(f"os.mkdir({made!r})")


@pytest.mark.parametrize(
    "before",
    [
        "import logging, tempfile, json, email",
        "import time; time.localtime(0), time.strftime('%Y', time.gmtime(0))",
        "import time\nclass Holder: clock = time.time\nHolder().clock",
        "import random; random.seed",
        "open('/dev/null').close()",
    ],
)
def test_what_does_not_matter_is_not_noted(notes: Notes, before: str) -> None:
    assert notes(before) == []


def test_what_a_run_loads_is_noted(notes: Notes) -> None:
    each = "import json.tool, importlib, wave; importlib.import_module('decimal'); open('/etc/passwd').close()"
    found = notes("import email", each)
    assert [note for note in found if note[0] == "before"] == []
    assert {note[3] for note in found} == {"json.tool", "wave", "decimal"}
    assert {tuple(note[:3]) for note in found} == {("run", "module", "")}


def test_nothing_is_noted_without_being_asked(notes: Notes) -> None:
    each = "assert not [finder for finder in sys.meta_path if 'nearcall' in type(finder).__module__]"
    assert notes("os.getcwd()", each, "OTHER") == []
