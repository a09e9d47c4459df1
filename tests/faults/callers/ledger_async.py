"""Does with AsyncClient what ledger.c does in C: several tasks call ledger(key) with one key after the other, and each
says on standard output what became of its calls, in the records of ledger.c.

    ledger_async.py ADDRESS FIRST_KEY CALLS TIMEOUT_MS SLOW_EVERY
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import time
from collections.abc import Iterator

import nearcall

SLOW_MS = 3
CALLS_AT_A_TIME = 4
"""As many as the driver takes each caller to have."""
BEGUN, ENDED = 0, 1
RECORD = struct.Struct("<QIBBBB")


def say(key: int, took_us: int, what: int, code: int, outcome: int, memory: bool) -> None:
    if os.write(1, RECORD.pack(key, took_us, what, code, outcome, memory)) != RECORD.size:
        sys.exit(3)


async def call_all(go: nearcall.AsyncClient, keys: Iterator[int], slow_every: int) -> None:
    for key in keys:
        memory = go.transport == "shared memory"
        say(key, 0, BEGUN, 0, 0, memory)
        began = time.monotonic()
        code = outcome = 0
        try:
            if key % slow_every == 0:
                await go.call("ledger_slow", key, SLOW_MS)
            else:
                await go.call("ledger", key)
        except nearcall.NearcallError as error:
            code, outcome = error.code.value, error.outcome.value
        say(key, int((time.monotonic() - began) * 1e6), ENDED, code, outcome, memory)


async def main(address: str, first: int, calls: int, timeout_ms: int, slow_every: int) -> None:
    keys = iter(range(first, first + calls))
    async with nearcall.AsyncClient(address, timeout=timeout_ms / 1000) as go:
        await asyncio.gather(*(call_all(go, keys, slow_every) for _ in range(CALLS_AT_A_TIME)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:6])))
