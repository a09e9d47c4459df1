"""Plain TCP to another machine is warned of once. The other machine is an address in a network of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = "192.0.2.1"

PROGRAM = """
import asyncio, os, subprocess, sys, warnings
from nearcall import AsyncClient, Client

server = subprocess.Popen([sys.argv[1], "-address", "tcp:0.0.0.0:0"], stdout=subprocess.PIPE, text=True)
port = server.stdout.readline().rsplit(":", 1)[1].strip()
here, elsewhere = f"tcp:127.0.0.1:{port}", f"tcp:192.0.2.1:{port}"

def warned(use):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use()
    return len([each for each in caught if "can read calls over plain TCP" in str(each.message)])

def calls(address, **options):
    with Client(address, timeout=30, **options) as go:
        assert go.add(1, 2) == go.call("add", 1, 2) == 3

def raw(address):
    with Client(address, timeout=30) as go:
        assert go.call_raw("echo", b"x") == go.call_raw("echo", b"x") == b"x"

def loop(address):
    async def main():
        async with AsyncClient(address, timeout=30) as go:
            await asyncio.gather(*(go.call("sleep", 20) for _ in range(300)))
    asyncio.run(main())

for use in calls, raw, loop:
    print(use.__name__, *(warned(lambda: use(each)) for each in (elsewhere, here, elsewhere + "?plain=quiet")))
warnings.simplefilter("error")
try:
    calls(elsewhere)
except UserWarning as warning:
    print("raised", "tcp:192.0.2.1" in str(warning))
server.terminate()
"""


@pytest.fixture
def network() -> list[str]:
    """Begins a command in a network where that address is this machine's, and not on loopback."""
    setup = f'ip link set lo up && ip address add {ELSEWHERE}/32 dev lo && exec "$@"'
    return ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "sh", "-c", setup, "sh"]


def test_warned_once(network: list[str], tmp_path: Path) -> None:
    command = [*network, sys.executable, "-c", PROGRAM, os.environ["NEARCALL_TESTSERVER"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.stdout.splitlines() == ["calls 1 0 0", "raw 1 0 0", "loop 1 0 0", "raised True"], done.stderr
