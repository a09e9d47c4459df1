"""Opens a client, forks workers that use it, and measures: workers.py ADDRESS"""

import os
import sys
from time import perf_counter_ns

import nearcall

WORKERS = 4
CALLS = 20_000

go = nearcall.Client(sys.argv[1])


def greet_and_count(who: str) -> None:
    # One write, so that lines of workers do not mix.
    sys.stdout.write(f"  Python {who:9} {os.getpid():6}: {go.greet(who)} visit {go.visit('/demo')}\n")
    sys.stdout.flush()


greet_and_count("parent")
workers = []
for number in range(1, WORKERS + 1):
    worker = os.fork()
    if worker == 0:
        greet_and_count(f"worker {number}")
        sys.exit()
    workers.append(worker)
for worker in workers:
    if os.waitpid(worker, 0)[1] != 0:
        sys.exit("a worker failed")
greet_and_count("parent")

times = []
for _ in range(CALLS):
    begin = perf_counter_ns()
    go.greet("World")
    times.append(perf_counter_ns() - begin)
times.sort()
print(f"measured Python {times[CALLS // 2] / 1e3:.1f} {times[CALLS * 99 // 100] / 1e3:.1f}")
