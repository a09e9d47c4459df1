"""multiprocessing and executors, with every way to start a process."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from typing import Any

import pytest

import nearcall
from nearcall import Client
from support import in_child

METHODS = ["fork", "spawn", "forkserver"]
PROGRAM = """
import concurrent.futures, multiprocessing, sys
import nearcall

client = nearcall.Client(sys.argv[1], timeout=20.0)


def work(number):
    return client.add(number, 0.5)


def work_with(given, number):
    return given.add(number, 0.5)


def fail(number):
    client.fail(5, f"gone {number}")


if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[2])
    assert client.ack(2, 3) == 9
    with multiprocessing.Pool(4) as pool:
        assert pool.map(work, range(100)) == [number + 0.5 for number in range(100)]
        assert pool.starmap(work_with, [(client, number) for number in range(20)]) == [n + 0.5 for n in range(20)]
        try:
            pool.apply(fail, (1,))
        except nearcall.NotFound as error:
            assert error.details and error.outcome is nearcall.Outcome.EXECUTED
        else:
            raise AssertionError
        assert client.ack(2, 3) == 9
    with concurrent.futures.ProcessPoolExecutor(4) as executor:
        assert list(executor.map(work, range(100))) == [number + 0.5 for number in range(100)]
    assert client.ack(2, 3) == 9
    print("good")
"""


@pytest.mark.parametrize("method", METHODS)
def test_pools(address: str, method: str, tmp_path: Any) -> None:
    import subprocess
    import sys

    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-W", "error", str(program), address, method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "good\n", done.stderr


def test_threads_that_fork_while_others_call(address: str) -> None:
    """Not by multiprocessing: a child of its that was forked in a thread cannot
    leave cleanly, whatever it does."""
    with Client(address) as client:

        def fork(number: int) -> tuple[object, object]:
            return in_child(lambda: client.add(number, 1)), client.add(number, 2)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(fork, range(80))) == [(number + 1, number + 2) for number in range(80)]


def test_errors_travel_between_processes(address: str) -> None:
    context = multiprocessing.get_context("fork")
    with Client(address) as client, context.Pool(1) as pool:
        with pytest.raises(nearcall.NotFound, match="gone"):
            pool.apply(client.call, ("fail", 5, "gone"))
        assert pool.apply(client.call, ("ack", 2, 3)) == 9
