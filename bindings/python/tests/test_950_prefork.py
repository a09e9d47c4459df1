"""gunicorn --preload: the client is made in the master, workers call."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support import Server, wait_until

APPLICATION = """
import os
import nearcall

client = nearcall.Client(os.environ["NEARCALL_ADDRESS"], timeout=10.0)
# The master calls before it forks.
assert client.ack(2, 3) == 9


def application(environ, start_response):
    number = int(environ["QUERY_STRING"])
    body = f"{os.getpid()} {client.add(number, 1)}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
"""
WORKERS = 4


class Gunicorn:
    def __init__(self, folder: Path, server: Server, *options: str) -> None:
        (folder / "worker_application.py").write_text(APPLICATION)
        self.port_file = folder / "port"
        config = folder / "gunicorn_config.py"
        config.write_text(
            "def when_ready(server):\n"
            f"    open({str(self.port_file)!r}, 'w').write(str(server.LISTENERS[0].sock.getsockname()[1]))\n"
        )
        command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", str(WORKERS), "--bind", "127.0.0.1:0",
                   "--config", str(config), "--log-level", "warning", "--chdir", str(folder), *options,
                   "worker_application:application"]  # fmt: skip
        self.process = subprocess.Popen(command, env={**os.environ, "NEARCALL_ADDRESS": server.address})
        self.port = int(wait_until(lambda: self.port_file.exists() and self.port_file.read_text(), "gunicorn"))

    def get(self, number: int) -> tuple[int, float]:
        """The worker's pid and its answer."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/?{number}", timeout=20) as response:
            pid, answer = response.read().split()
            return int(pid), float(answer)

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()


@pytest.fixture(params=["sync", "gthread"])
def gunicorn(request: pytest.FixtureRequest, folder: Path, shared_server: Server) -> Iterator[Gunicorn]:
    options = ["--worker-class", request.param] + (["--threads", "4"] if request.param == "gthread" else [])
    gunicorn = Gunicorn(folder, shared_server, *options)
    yield gunicorn
    gunicorn.stop()


def test_workers_call(gunicorn: Gunicorn) -> None:
    workers: Counter[int] = Counter()

    def ask(number: int) -> None:
        pid, answer = gunicorn.get(number)
        assert answer == number + 1
        workers[pid] += 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(400)))
    assert gunicorn.process.pid not in workers
    assert len(workers) > 1


def test_workers_are_replaced(gunicorn: Gunicorn) -> None:
    """HUP replaces every worker, gracefully; the new ones call like the old."""
    before = {gunicorn.get(number)[0] for number in range(40)}
    gunicorn.process.send_signal(signal.SIGHUP)
    wait_until(lambda: gunicorn.get(1)[0] not in before, "a new worker")
    assert [gunicorn.get(number)[1] for number in range(40)] == [number + 1 for number in range(40)]


def test_workers_that_are_killed(gunicorn: Gunicorn) -> None:
    for _ in range(3):
        pid, answer = gunicorn.get(1)
        assert answer == 2
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), "the worker is gone")
        assert gunicorn.get(5)[1] == 6


def test_gunicorn_stops_quickly(gunicorn: Gunicorn) -> None:
    gunicorn.get(1)
    start = time.monotonic()
    assert gunicorn.stop() == 0
    assert time.monotonic() - start < 10
