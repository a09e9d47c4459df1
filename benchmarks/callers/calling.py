"""What callers of Python share: the commands and reports that ../README.md describes.

What is timed is as in caller.c; allocations are not counted.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns, process_time_ns, sleep

NOT_COUNTED = 2**64 - 1
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

Call = Callable[[], object]


def payload_of(size: int) -> bytes:
    """Returns bytes that no short cut could guess, the same in every program."""
    return bytes((i * 31 + 7) & 255 for i in range(size))


def call_until(call: Call, until: int) -> array[int]:
    samples = array("Q")
    end = 0
    while end < until:
        start = perf_counter_ns()
        call()
        end = perf_counter_ns()
        samples.append(end - start)
    return samples


def call_paced(call: Call, until: int, pace: int) -> array[int]:
    """Calls at fixed times. A call that the one before it delayed is timed from when it was due."""
    samples = array("Q")
    end = due = perf_counter_ns()
    while end < until:
        due += pace
        start = due
        if (now := perf_counter_ns()) < due:
            sleep((due - now) / NS_PER_S)
            start = perf_counter_ns()
        call()
        end = perf_counter_ns()
        samples.append(end - start)
    return samples


def measure(calls: list[Call], run_ms: int, per_s: int) -> tuple[list[array[int]], int]:
    """Returns the samples of each caller, and for how long they called. Each is a thread, a single one this."""
    begin = perf_counter_ns()
    until = begin + run_ms * NS_PER_MS

    def one(call: Call) -> array[int]:
        return call_paced(call, until, NS_PER_S // per_s) if per_s else call_until(call, until)

    if len(calls) == 1:
        samples = [one(calls[0])]
    else:
        with ThreadPoolExecutor(len(calls)) as threads:
            samples = list(threads.map(one, calls))
    return samples, perf_counter_ns() - begin


def obey(calls: list[Call], transport: Callable[[], int] = lambda: 0) -> None:
    """Says that the callers are ready, and lets them run as standard input tells."""
    print("ready", flush=True)
    for line in sys.stdin:
        command, *numbers = line.split()
        if command != "run" or not numbers:
            sys.exit(f'expected "run MILLISECONDS [CALLS_PER_SECOND]", got {line}')
        run_ms, per_s, *_ = *map(int, numbers), 0
        begin_cpu = process_time_ns()
        samples, elapsed = measure(calls, run_ms, per_s)
        cpu = process_time_ns() - begin_cpu
        count = sum(map(len, samples))
        head = array("Q", [count, elapsed, cpu, NOT_COUNTED, count, transport()])
        sys.stdout.buffer.write(head.tobytes() + b"".join(s.tobytes() for s in samples))
        sys.stdout.buffer.flush()
