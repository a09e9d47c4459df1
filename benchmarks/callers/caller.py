"""The Python caller: measures one way to call, when it is told to.

    caller.py raw|typed ADDRESS PAYLOAD_BYTES

What it prints and what is timed is as in caller.c; allocations are not counted.
"""

import sys
from array import array
from collections.abc import Callable
from time import perf_counter_ns, process_time_ns

import nearcall

NOT_COUNTED = 2**64 - 1
NS_PER_MS = 1_000_000

# How the calls went, as a report tells it.
TRANSPORTS = {"unix socket": 1, "shared memory": 2, "same process": 3}


def subject(mode: str, address: str, payload_bytes: int) -> tuple[nearcall.Client, Callable[[], object]]:
    go = nearcall.Client(address)
    call = go.call
    if mode == "raw":
        payload = bytes((i * 31 + 7) & 255 for i in range(payload_bytes))
        if call("echo", payload) != payload:
            sys.exit("echo differs")
        return go, lambda: call("echo", payload)
    if mode != "typed":
        sys.exit("usage: caller.py raw|typed ADDRESS PAYLOAD_BYTES")
    if call("ack", 0, 1) != 2:
        sys.exit("ack(0, 1) is not 2")
    return go, lambda: call("ack", 0, 1)


def run(go: nearcall.Client, call: Callable[[], object], run_ms: int) -> bytes:
    samples = array("Q")
    begin_cpu = process_time_ns()
    begin = perf_counter_ns()
    until = begin + run_ms * NS_PER_MS
    end = begin
    while end < until:
        start = perf_counter_ns()
        call()
        end = perf_counter_ns()
        samples.append(end - start)
    cpu = process_time_ns() - begin_cpu
    transport = TRANSPORTS.get(go.transport(), 0)
    head = array("Q", [len(samples), end - begin, cpu, NOT_COUNTED, len(samples), transport])
    return head.tobytes() + samples.tobytes()


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit("usage: caller.py raw|typed ADDRESS PAYLOAD_BYTES")
    go, call = subject(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print("ready", flush=True)
    for line in sys.stdin:
        command, run_ms, *_ = line.split()
        if command != "run":
            sys.exit(f'expected "run MILLISECONDS", got {line}')
        sys.stdout.buffer.write(run(go, call, int(run_ms)))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
