"""A caller whose 50th call takes 30 ms, or that is woken so late.

    stall.py call|wake
"""

import sys
import time
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "callers"))

import calling

STALLS_AT = 50
STALL_S = 0.03

late = sys.argv[1] == "wake"
numbers = count(1)


def call() -> None:
    if next(numbers) == STALLS_AT and not late:
        time.sleep(STALL_S)


def sleep_too_long(seconds: float) -> None:
    time.sleep(seconds + STALL_S)


if late:
    calling.sleep = sleep_too_long
calling.obey([call])
