"""What callers of Python share: the commands and reports that ../README.md describes.

What is timed is as in caller.c; allocations are not counted.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter_ns, process_time_ns, sleep
from typing import NoReturn

NOT_COUNTED = 2**64 - 1
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
# A timer wakes a caller a little late, and a call is timed from then. What is later than
# this, or than the time between two calls, is a stall, and counts.
TIMER_LATE_NS_MAX = NS_PER_MS
VERIFIED_CALLS = 10  # of each caller

Call = Callable[[], object]
Exchange = Callable[[bytes], bytes]  # sends a request and returns the answer


def payload_of(size: int, caller: int = 0) -> bytes:
    """Returns bytes that no short cut could guess and nothing could compress, the same in every program.

    Callers that are told apart have others.
    """
    state = 1 + caller
    payload = bytearray(size)
    for i in range(size):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        payload[i] = state >> 24
    return bytes(payload)


def echoing(exchanges: list[Exchange], payload: bytes) -> list[Call]:
    """Returns callers that have sent this, and got it back, once."""
    for exchange in exchanges:
        if exchange(payload) != payload:
            sys.exit("the echo differs")
    return [partial(exchange, payload) for exchange in exchanges]


def verify(exchanges: list[Exchange], size: int) -> None:
    """Lets all call at the same time, each with bytes of its own, and compares every answer in full."""

    def calls(numbered: tuple[int, Exchange]) -> None:
        payload = payload_of(size, numbered[0])
        for _ in range(VERIFIED_CALLS):
            if numbered[1](payload) != payload:
                raise ValueError(f"the echo of caller {numbered[0]} differs")

    with ThreadPoolExecutor(len(exchanges)) as threads:
        list(threads.map(calls, enumerate(exchanges)))


def differs(answer: object, expected: object) -> NoReturn:
    sys.exit(f"answered {answer!r} instead of {expected!r}")


def call_until(call: Call, expected: object, until: int) -> array[int]:
    samples = array("Q")
    end = 0
    while end < until:
        start = perf_counter_ns()
        answer = call()
        end = perf_counter_ns()
        samples.append(end - start)
        if answer != expected:
            differs(answer, expected)
    return samples


def call_paced(call: Call, expected: object, begin: int, until: int, pace: int) -> array[int]:
    """Calls at fixed times: all calls that are due, however long that takes.

    One that another delayed, or a stall of the machine, is timed from when it was due.
    """
    samples = array("Q")
    due = begin + pace
    while True:
        start = due
        if (now := perf_counter_ns()) < due:
            sleep((due - now) / NS_PER_S)
            if (woken := perf_counter_ns()) - due <= min(pace, TIMER_LATE_NS_MAX):
                start = woken
        answer = call()
        samples.append(perf_counter_ns() - start)
        if answer != expected:
            differs(answer, expected)
        due += pace
        if due > until:
            return samples


def measure(calls: list[Call], expected: object, run_ms: int, per_s: int, begin: int) -> tuple[list[array[int]], int]:
    """Returns the samples of each caller, and for how long they called. Each is a thread, a single one this."""
    until = begin + run_ms * NS_PER_MS

    def one(call: Call) -> array[int]:
        if per_s:
            return call_paced(call, expected, begin, until, NS_PER_S // per_s)
        return call_until(call, expected, until)

    if len(calls) == 1:
        samples = [one(calls[0])]
    else:
        with ThreadPoolExecutor(len(calls)) as threads:
            samples = list(threads.map(one, calls))
    return samples, perf_counter_ns() - begin


def obey(
    calls: list[Call], transport: Callable[[], int] = lambda: 0, expected: object = None, calls_per_sample: int = 1
) -> None:
    """Says that the callers are ready, and lets them run as standard input tells.

    What a call returns has to be what is expected; to compare it is not timed. One that makes
    calls_per_sample calls is one sample.
    """
    print("ready", flush=True)
    for line in sys.stdin:
        told = re.fullmatch(r"run ([1-9]\d*)(?: (\d{1,9})(?: (\d+))?)?\n", line)
        if told is None:
            sys.exit(f'expected "run MILLISECONDS [CALLS_PER_SECOND [BEGIN_NS]]", got {line}')
        run_ms, per_s, begin_ns = (int(number or 0) for number in told.groups())
        # Its clock is perf_counter_ns's on Linux.
        if begin_ns and (early := begin_ns - perf_counter_ns()) > 0:
            sleep(early / NS_PER_S)
        begin_cpu = process_time_ns()
        samples, elapsed = measure(calls, expected, run_ms, per_s, begin_ns or perf_counter_ns())
        cpu = process_time_ns() - begin_cpu
        count = sum(map(len, samples))
        head = array("Q", [count * calls_per_sample, elapsed, cpu, NOT_COUNTED, count, transport()])
        sys.stdout.buffer.write(head.tobytes() + b"".join(s.tobytes() for s in samples))
        sys.stdout.buffer.flush()
