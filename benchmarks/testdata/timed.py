"""A caller whose 50th call takes 30 ms ("call"), or that is woken so late ("wake"), or whose
calls move the clock, which nothing else does: by 3 ms, the 5th by 35.5 ms ("clock").

    timed.py call|wake|clock
"""

import sys
import time
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "callers"))

import calling

STALLS_AT = 50
STALL_S = 0.03
LONG_CALL = 5
CALL_NS = 3_000_000
LONG_CALL_NS = 35_500_000

mode = sys.argv[1]
now = 7_000_000
numbers = count(1)


def call() -> None:
    global now
    number = next(numbers)
    now += LONG_CALL_NS if number == LONG_CALL else CALL_NS
    if mode == "call" and number == STALLS_AT:
        time.sleep(STALL_S)


def sleep_too_long(seconds: float) -> None:
    time.sleep(seconds + STALL_S)


if mode == "wake":
    calling.sleep = sleep_too_long
if mode == "clock":
    calling.perf_counter_ns = lambda: now
calling.obey([call])
