"""A caller whose calls move the clock, which nothing else does: by 3 ms, the 5th by 35.5 ms."""

import sys
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "callers"))

import calling

LONG_CALL = 5
CALL_NS = 3_000_000
LONG_CALL_NS = 35_500_000

now = 7_000_000
numbers = count(1)


def call() -> None:
    global now
    now += LONG_CALL_NS if next(numbers) == LONG_CALL else CALL_NS


calling.perf_counter_ns = lambda: now
calling.obey([call])
