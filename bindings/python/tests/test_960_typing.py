"""The types that are promised: stubs against the extension, and a user's view."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support import TESTS

PROGRAM = """
import asyncio
import nearcall

client = nearcall.Client("unix:/x", timeout=1.5, server_users=["root", 0])
with client as go:
    number: int = go.ack(3, 4, timeout=0.5)
    data: bytes = go.call_raw("echo", b"x")
    call: nearcall.Call = go.begin("ack", 3, 4)
    function: nearcall.Function = go.function("ack")
    view: nearcall.Client = go.with_timeout(None)
    pairs: dict[str, list[bytes]] = {}
    options: nearcall.Client = go.with_options(attempts=2, metadata={"a": ["b", b"c"]}, reply_metadata=pairs)
    seconds: float = go.ping()
    done: bool = call.ready()


async def main() -> None:
    async with nearcall.AsyncClient("unix:/x") as go:
        number: int = await go.ack(3, 4)
        named: nearcall.AsyncFunction = await go.function("ack")
        await named(3, 4, timeout=1)


try:
    asyncio.run(main())
except nearcall.NearcallError as error:
    code: nearcall.Code = error.code
    outcome: nearcall.Outcome = error.outcome
    text: str = error.outcome.text
    details: list[tuple[str, object]] = list(error.details)
"""
WRONG = """
import nearcall

nearcall.Client(5)
nearcall.Client("unix:/x", 1.5)
nearcall.Client("unix:/x", timeout="1")
nearcall.Client("unix:/x").call(5)
"""


def check(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    path = folder / "program.py"
    path.write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False)


def test_stubs_are_what_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "nearcall", "--allowlist", str(TESTS / "stubtest_allowlist.txt")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_program_with_types(tmp_path: Path) -> None:
    done = check(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stdout


def test_wrong_programs_are_found(tmp_path: Path) -> None:
    done = check(tmp_path, WRONG)
    for line in (4, 5, 6, 7):
        assert f"program.py:{line}: error" in done.stdout, done.stdout
