"""What callers of Python share: the commands and reports that ../README.md describes.

What is timed is as in caller.c; allocations are not counted.
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter_ns, process_time_ns, sleep
from typing import NamedTuple, NoReturn

NOT_COUNTED = 2**64 - 1
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
CALLS_OF_A_SAMPLE = 16  # in a run with windows the first of so many calls is a sample
# A timer wakes a caller a little late, and a call is timed from then. What is later than
# this, or than the time between two calls, is a stall, and counts.
TIMER_LATE_NS_MAX = NS_PER_MS
VERIFIED_CALLS = 10  # of each caller

Call = Callable[[], object]
Exchange = Callable[[bytes], bytes]  # sends a request and returns the answer
Opener = Callable[[str, int], list[Exchange]]  # returns that many callers of the server at an address


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


def peer(description: dict[str, str], open_callers: Opener, serve: Callable[[], None] | None = None) -> None:
    """Is the whole program of a peer: ../peers/README.md says how it is used."""
    match sys.argv[1:]:
        case ["serve", _] if serve is not None:
            serve()
        case ["call", address, size, callers]:
            payload = payload_of(int(size))
            obey(echoing(open_callers(address, int(callers)), payload), expected=payload)
        case ["verify", address, size, callers]:
            verify(open_callers(address, int(callers)), int(size))
        case ["describe"]:
            print(json.dumps(description))
        case _:
            sys.exit("usage: serve ADDRESS, call or verify ADDRESS PAYLOAD_BYTES CALLERS, or describe")


def differs(answer: object, expected: object) -> NoReturn:
    sys.exit(f"answered {answer!r} instead of {expected!r}")


class Made(NamedTuple):
    """What one caller did in a run."""

    samples: array[int]
    calls: int
    windows: array[int]  # how many calls ended in each; none where nobody wants them


def of_samples(samples: array[int]) -> Made:
    return Made(samples, len(samples), array("Q"))


def call_sustained(call: Call, expected: object, begin: int, until: int, window: int) -> Made:
    """Calls without a pause; each is timed from the end of the one before, so that no time is left out."""
    samples, windows = array("Q"), array("Q")
    calls = in_window = 0
    last = begin
    edge = begin + window
    while last < until:
        answer = call()
        end = perf_counter_ns()
        while end >= edge:
            windows.append(in_window)
            in_window = 0
            edge += window
        in_window += 1
        if calls % CALLS_OF_A_SAMPLE == 0:
            samples.append(end - last)
        calls += 1
        if answer != expected:
            differs(answer, expected)
        last = end
    # The last call may have taken longer than the run.
    return Made(samples, calls, windows[: (until - begin) // window])


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


class Command(NamedTuple):
    """What a caller is told."""

    run_ms: int
    per_s: int
    begin_ns: int
    window_ms: int


def told(line: str, calls_per_sample: int) -> Command:
    match = re.fullmatch(r"run ([1-9]\d*)(?: (\d{1,9})(?: (\d+)(?: (\d+))?)?)?\n", line)
    if match is None:
        sys.exit(f'expected "run MILLISECONDS [CALLS_PER_SECOND [BEGIN_NS [WINDOW_MS]]]", got {line}')
    command = Command(*(int(number or 0) for number in match.groups()))
    if command.window_ms and (command.per_s or calls_per_sample > 1):
        sys.exit("only calls without a pause, each timed alone, are counted by windows")
    return command


def measure(calls: list[Call], expected: object, command: Command, begin: int) -> tuple[list[Made], int]:
    """Returns what each caller did, and for how long they called. Each is a thread, a single one this."""
    until = begin + command.run_ms * NS_PER_MS

    def one(call: Call) -> Made:
        if command.window_ms:
            return call_sustained(call, expected, begin, until, command.window_ms * NS_PER_MS)
        if command.per_s:
            return of_samples(call_paced(call, expected, begin, until, NS_PER_S // command.per_s))
        return of_samples(call_until(call, expected, until))

    if len(calls) == 1:
        made = [one(calls[0])]
    else:
        with ThreadPoolExecutor(len(calls)) as threads:
            made = list(threads.map(one, calls))
    return made, perf_counter_ns() - begin


def obey(
    calls: list[Call], transport: Callable[[], int] = lambda: 0, expected: object = None, calls_per_sample: int = 1
) -> None:
    """Says that the callers are ready, and lets them run as standard input tells.

    What a call returns has to be what is expected; to compare it is not timed. One that makes
    calls_per_sample calls is one sample.
    """
    print("ready", flush=True)
    for line in sys.stdin:
        command = told(line, calls_per_sample)
        # Its clock is perf_counter_ns's on Linux.
        if command.begin_ns and (early := command.begin_ns - perf_counter_ns()) > 0:
            sleep(early / NS_PER_S)
        begin_cpu = process_time_ns()
        made, elapsed = measure(calls, expected, command, command.begin_ns or perf_counter_ns())
        cpu = process_time_ns() - begin_cpu
        count = sum(m.calls for m in made) * calls_per_sample
        head = array("Q", [count, elapsed, cpu, NOT_COUNTED, sum(len(m.samples) for m in made), transport()])
        windows = array("Q", map(sum, zip(*(m.windows for m in made), strict=True)))
        sys.stdout.buffer.write(b"".join(part.tobytes() for part in (head, windows, *(m.samples for m in made))))
        sys.stdout.buffer.flush()
