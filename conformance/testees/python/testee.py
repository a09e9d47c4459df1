"""Testee for the Python binding: a command a line on stdin, an answer a line on stdout.

conformance/README.md describes the protocol.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import nearcall

Answer = dict[str, Any]


class Testee:
    """One client at a time, driven by commands."""

    def __init__(self) -> None:
        self.client: nearcall.Client | None = None

    def connect(self, address: str, attempts_max: int = 3, frame_bytes_max: int = 0) -> Answer:
        self.client = nearcall.Client(address, attempts=attempts_max, frame_bytes_max=frame_bytes_max)
        return {}

    def call(
        self,
        name: str,
        codec: str,
        timeout_ms: int,
        payload_hex: str = "",
        arguments: list[Any] | None = None,
    ) -> Answer:
        assert self.client is not None
        timeout = timeout_ms / 1000
        if codec == "raw":
            data = self.client.call_raw(name, bytes.fromhex(payload_hex), timeout=timeout)
            return {"payload_hex": data.hex()}
        return {"value": self.client.call(name, *(arguments or []), timeout=timeout)}

    def ping(self, timeout_ms: int) -> Answer:
        assert self.client is not None
        self.client.ping(timeout=timeout_ms / 1000)
        return {}

    def close(self) -> Answer:
        if self.client is not None:
            self.client.close()
        self.client = None
        return {}


def answer(testee: Testee, command: dict[str, Any]) -> Answer:
    commands: dict[str, Callable[..., Answer]] = {
        "connect": testee.connect,
        "call": testee.call,
        "ping": testee.ping,
        "close": testee.close,
    }
    try:
        return {"ok": True, **commands[command.pop("do")](**command)}
    except nearcall.NearcallError as error:
        return {
            "ok": False,
            "code": error.code.name,
            "outcome": error.outcome.text,
            "message": error.message,
        }


def main() -> None:
    testee = Testee()
    for line in sys.stdin:
        print(json.dumps(answer(testee, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
