"""Certificates, and a process that ends TLS before a server."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

from nearcall import AsyncClient
from support import REPOSITORY, read_line

PROGRAMS = REPOSITORY / "tests" / "programs" / "tls"


def make_certificates(folder: Path) -> None:
    made = subprocess.run([PROGRAMS / "certificates", folder], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


class Relay:
    """Before the server of that address; the options are those of tests/programs/tls/relay."""

    def __init__(self, target: str, certificates: Path, *options: str) -> None:
        command = [PROGRAMS / "relay", target, certificates, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ready, _, self.address = read_line(self.process).partition(" ")
        assert ready == "ready"

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


async def many_calls(address: str, options: dict[str, Any]) -> None:
    """One after the other, and many at a time."""
    async with AsyncClient(address, **options) as client:
        assert await client.upper("x" * 1_000_000) == "X" * 1_000_000
        for i in range(200):
            assert await client.add(i, 1) == i + 1
        sums = await asyncio.gather(*(client.add(i, 1) for i in range(300)))
        assert sums == list(range(1, 301))
