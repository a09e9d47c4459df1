"""A front for the tests of handoffs: it accepts connections and gives them away."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from support import PATIENCE_SECONDS, TESTSERVER, read_line

TESTGIVER = Path(os.environ.get("NEARCALL_TESTGIVER", TESTSERVER.parent / "testgiver"))


class Giver:
    """A front that accepts TCP connections and gives them to who listens."""

    def __init__(self, *arguments: str) -> None:
        if not TESTGIVER.is_file():
            raise FileNotFoundError(f"{TESTGIVER} is missing: run `make build` first")
        self.process = subprocess.Popen([str(TESTGIVER), *arguments], stdout=subprocess.PIPE, text=True)
        word, address = read_line(self.process).split()
        assert word == "ready"
        host, _, port = address.rpartition(":")
        self.address = (host, int(port))
        self.url = f"http://{address}/"

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=PATIENCE_SECONDS)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


StartGiver = Callable[..., Giver]
