"""Clients for greenlets: whoever waits lets the others run, also under a server of theirs with one worker."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support import PATIENCE_SECONDS, Server, read_line, wait_until

SETUP = {
    "gevent": """
from gevent import monkey
monkey.patch_all()
import gevent
from nearcall.gevent import Client
spawn, sleep, Killed = gevent.spawn, gevent.sleep, gevent.GreenletExit

def gather(functions):
    greenlets = [gevent.spawn(function) for function in functions]
    gevent.joinall(greenlets, raise_error=True)
    return [greenlet.value for greenlet in greenlets]
""",
    "eventlet": """
import warnings
warnings.simplefilter("ignore")  # eventlet's own, of its future
import eventlet
eventlet.monkey_patch()
from nearcall.eventlet import Client
spawn, sleep = eventlet.spawn, eventlet.sleep
from greenlet import GreenletExit as Killed

def gather(functions):
    return list(eventlet.GreenPool(5000).imap(lambda function: function(), functions))
""",
}
CALLS = """
import os, pickle, sys, time
import nearcall

address = sys.argv[1]
with Client(address, timeout=20) as go:
    assert go.ack(2, 3) == 9
    assert go.call("divmod", 7, b=2) == (3, 1)
    assert go.function("ack")(2, 3) == 9
    assert go.identity({"a": [1, None]}) == {"a": [1, None]}
    start = time.monotonic()
    assert gather([lambda: go.sleep(1000)] * 50) == [1000] * 50
    assert time.monotonic() - start < 5
    assert gather([lambda: go.sleep(1500)] * 2000) == [1500] * 2000
    assert gather([lambda n=n: go.add(n, 1) for n in range(500)]) == [n + 1 for n in range(500)]
    slow = [spawn(go.sleep, 20000) for _ in range(300)]
    sleep(0)
    assert go.one() == 1
    turns = []
    def turn():
        while True:
            turns.append(1)
            sleep(0.01)
    turning = spawn(turn)
    try:
        go.sleep(20000, timeout=0.5)
    except nearcall.DeadlineExceeded:
        pass
    else:
        raise AssertionError("no timeout")
    assert len(turns) > 5
    for greenlet in (turning, *slow):
        greenlet.kill()
    assert go.one() == 1
    for call, kind in ((lambda: go.fail(5, "gone"), nearcall.NotFound), (lambda: go.nope(), nearcall.Unimplemented),
                       (lambda: go.ack("x", 1), nearcall.InvalidArgument)):
        try:
            call()
        except kind:
            pass
        else:
            raise AssertionError("no error")
    copy = pickle.loads(pickle.dumps(go))
    assert (copy.address, copy.timeout, copy.ack(2, 3)) == (address, 20, 9)
    copy.close()
    for function in (go.ack, go.function("ack")):
        restored = pickle.loads(pickle.dumps(function))
        assert restored(2, 3) == 9
    before = time.process_time()
    sleep(0.5)
    assert time.process_time() - before < 0.1, "idle costs CPU"
assert go.closed
try:
    go.one()
except nearcall.FailedPrecondition:
    pass
print("done")
"""
FORK = """
import os, sys
import nearcall

go = Client(sys.argv[1], timeout=20)
assert go.ack(2, 3) == 9
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        good = gather([lambda: go.ack(2, 3)] * 50) == [9] * 50
        os._exit(0 if good else 1)
    assert gather([lambda: go.ack(2, 3)] * 50) == [9] * 50
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print("done")
"""
KILLED = """
import sys
import nearcall._places

nearcall._places._LANES_MAX, nearcall._places._PLACES_MAX = 1, 2
with Client(sys.argv[1], timeout=20) as go:
    assert go.one() == 1
    holding = [spawn(go.sleep, 300) for _ in range(2)]
    sleep(0)
    waiting = [spawn(go.one) for _ in range(4)]
    sleep(0)
    assert len(go._client._engine._places._queue) == 4
    for greenlet in waiting:
        greenlet.kill()
    assert gather([lambda: go.one(timeout=10)] * 4) == [1] * 4
print("done")
"""
STEPPING = """
import sys
import nearcall

go = Client(sys.argv[1], timeout=20)
go.one(), go.sleep(0), go.identity(0)
waiting = []

class Lazy:
    # A value whose own code lets others run, and calls itself, as lazy attributes do.
    def __init__(self, number, turns=5):
        self.number, self.turns = number, turns
    def __index__(self):
        waiting.append(self)
        for _ in range(self.turns):
            sleep(0.01)
        waiting.remove(self)
        return go.identity(self.number)

def send(number):
    size = number * 300
    return go.identity(["before" * size, Lazy(number), "after" * size]) == ["before" * size, number, "after" * size]

def bystander(number):
    while not waiting:
        sleep(0)
    beside = [go.identity(number), go.one()]
    return beside == [number, 1] and bool(waiting)

for _ in range(3):
    assert all(gather([lambda n=n: send(n) for n in range(40)] + [lambda n=n: bystander(n) for n in range(20)]))
    replies = [spawn(go.sleep, 20) for _ in range(10)]
    assert send(1)
    for reply in replies:
        assert (reply.get() if hasattr(reply, "get") else reply.wait()) == 20
assert len(go._client._engine._places.lanes) == 1, "one connection holds them"

# While one is encoded, another's deadline passes, and it is killed itself.
def late():
    try:
        go.sleep(20000, timeout=0.05)
    except nearcall.DeadlineExceeded:
        return bool(waiting)
    return False
patient = spawn(lambda: go.identity(Lazy(1, turns=200)))
while not waiting:
    sleep(0)
assert gather([late]) == [True]
ends = []
def killed():
    try:
        go.identity([Lazy(1, turns=10000)])
    except BaseException as error:
        ends.append(type(error))
        raise
victim = spawn(killed)
while len(waiting) < 2:
    sleep(0)
victim.kill()
sleep(0)
assert ends == [Killed]
waiting.pop()
assert (patient.get() if hasattr(patient, "get") else patient.wait()) == 1

# Closed meanwhile.
def closed():
    try:
        go.identity([Lazy(1)])
    except nearcall.FailedPrecondition as error:
        return error.outcome is nearcall.Outcome.NOT_EXECUTED
    return False
def close():
    while not waiting:
        sleep(0)
    go.close()
assert gather([closed, close])[0]
print("done")
"""
RECONNECTING = """
import sys, time
import nearcall

go = Client(sys.argv[1], timeout=20)
assert go.identity([1]) == [1]

def lose():
    for lane in go._client._engine._places.lanes:
        lane.engine.disconnect()

class Lazy:
    def __init__(self, code):
        self.code = code
    def __index__(self):
        return self.code()

def beside(code, *more):
    # Others call while the code of an argument runs. They do not wait for it.
    begun, others = [], []
    def own():
        begun.append(True)
        end = time.monotonic() + 10
        while len(others) < 4:
            assert time.monotonic() < end, "the others wait for this one"
            sleep(0)
        return code()
    def call():
        return go.identity([1, Lazy(own), *more])
    def quick(number):
        while not begun:
            sleep(0)
        others.append(go.identity([number], timeout=5))
        return others[-1]
    return gather([call, *(lambda number=number: quick(number) for number in range(4))])

def nested():
    return go.identity([7], timeout=5)[0]
def lose_and_nest():
    lose()
    return nested()
for code, given in ((lambda: 2, 2), (nested, 7), (lose_and_nest, 7)):
    lose()
    assert beside(code) == [[1, given], [0], [1], [2], [3]]
lose()
assert go.identity([1, Lazy(nested)]) == [1, 7]

# What is wrong with one call is no failure of the connection.
def lose_all():
    lose()
    return 1
def refused():
    try:
        beside(lose_all, "x" * 20_000_000)
    except nearcall.ResourceExhausted:
        return True
lose()
assert refused()
assert go.identity([1]) == [1]
print("done")
"""
FORK_IN_CALLS = """
import os, sys
import nearcall, nearcall._places

nearcall._places._LANES_MAX, nearcall._places._PLACES_MAX = 1, 3
go = Client(sys.argv[1], timeout=10)
go.one(), go.sleep(0)

def call(milliseconds):
    try:
        return go.sleep(milliseconds)
    except nearcall.Unavailable as error:
        return error.outcome

calls = [spawn(call, 300) for _ in range(5)]
while len(go._client._engine._places._queue) < 2:
    sleep(0)
pid = os.fork()
if pid == 0:
    # Those that were sent are the parent's; those that waited for a place are sent from here.
    unknown = nearcall.Outcome.UNKNOWN
    ends = [greenlet.get(timeout=5) for greenlet in calls]
    os._exit(0 if ends == [unknown] * 3 + [300] * 2 and go.one() == 1 else 1)
assert [greenlet.get() for greenlet in calls] == [300] * 5
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print("done")
"""
RAISING = """
import signal, sys
import nearcall

class Rung(Exception):
    pass
turn = 0
def ring(*_):
    raise Rung
class Interrupted(dict):
    # The lane's waiters: between two replies a signal comes.
    def pop(self, *arguments):
        global turn
        found = super().pop(*arguments)
        turn += 1
        if turn % 3 == 0:
            signal.raise_signal(signal.SIGALRM)
        return found

go = Client(sys.argv[1], timeout=10)
go.one(), go.sleep(0)
signal.signal(signal.SIGALRM, ring)
lane = go._client._engine._places.lanes[0]
lane._waiters = Interrupted(lane._waiters)
assert gather([lambda: go.sleep(20)] * 20) == [20] * 20
assert turn >= 20
print("done")
"""
DROPPED = """
import gc, os, sys

def use(in_cycle):
    go = Client(sys.argv[1])
    assert go.one() == 1
    if in_cycle:
        go.__dict__["itself"] = go

use(False)
sleep(0.01)
before = len(os.listdir("/proc/self/fd"))
for in_cycle in (False, True):
    for _ in range(20):
        use(in_cycle)
    gc.collect()
    for _ in range(2000):
        if len(os.listdir("/proc/self/fd")) <= before:
            break
        sleep(0.005)
    else:
        raise AssertionError("dropped clients keep descriptors")
print("done")
"""
APPLICATION = """
import os
{setup}
client = Client(os.environ["NEARCALL_ADDRESS"], timeout=20.0)


def application(environ, start_response):
    body = str(client.sleep(int(environ["QUERY_STRING"]))).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
"""
EVENTLET_SERVER = """
from eventlet import wsgi
listener = eventlet.listen(("127.0.0.1", 0), backlog=200)
print(listener.getsockname()[1], flush=True)
wsgi.server(listener, application, log_output=False)
"""


@pytest.mark.parametrize("hub", ["gevent", "eventlet"])
def test_calls(hub: str, address: str) -> None:
    run(SETUP[hub] + CALLS, address)


@pytest.mark.parametrize("hub", ["gevent", "eventlet"])
def test_who_is_killed_in_the_line_takes_no_place(hub: str, address: str) -> None:
    run(SETUP[hub] + KILLED, address)


@pytest.mark.parametrize("hub", ["gevent", "eventlet"])
def test_arguments_whose_code_lets_others_run(hub: str, address: str) -> None:
    run(SETUP[hub] + STEPPING, address)


@pytest.mark.parametrize("hub", ["gevent", "eventlet"])
def test_arguments_whose_code_lasts_hold_up_no_connecting(hub: str, address: str) -> None:
    run(SETUP[hub] + RECONNECTING, address)


@pytest.mark.parametrize("hub", ["gevent", "eventlet"])
def test_handler_that_raises_among_replies(hub: str, address: str) -> None:
    run(SETUP[hub] + RAISING, address)


@pytest.mark.parametrize("hub", ["gevent", "eventlet"])
def test_dropped_client_is_closed(hub: str, address: str) -> None:
    run(SETUP[hub] + DROPPED, address)


def test_fork_while_greenlets_call(address: str) -> None:
    run(SETUP["gevent"] + FORK_IN_CALLS, address)


def test_fork(address: str) -> None:
    """gevent's hub goes on in a child."""
    run(SETUP["gevent"] + FORK, address)


def run(program: str, address: str) -> None:
    command = [sys.executable, "-c", program, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "done\n", done.stderr


@pytest.fixture(params=["gevent", "eventlet"])
def port(request: pytest.FixtureRequest, folder: Path, shared_server: Server) -> Iterator[int]:
    """A server with one worker: gunicorn's of gevent, and eventlet's own, as gunicorn has none of it any more."""
    program = APPLICATION.format(setup=SETUP[request.param])
    environment = {**os.environ, "NEARCALL_ADDRESS": shared_server.address}
    if request.param == "gevent":
        process, port = start_gunicorn(folder, program, environment)
    else:
        command = [sys.executable, "-c", program + EVENTLET_SERVER]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        port = int(read_line(process))
    yield port
    process.terminate()
    try:
        process.wait(20)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def start_gunicorn(folder: Path, program: str, environment: dict[str, str]) -> tuple[subprocess.Popen[str], int]:
    (folder / "green_application.py").write_text(program)
    port_file = folder / "port"
    (folder / "gunicorn_config.py").write_text(
        "def when_ready(server):\n"
        f"    open({str(port_file)!r}, 'w').write(str(server.LISTENERS[0].sock.getsockname()[1]))\n"
    )
    command = [sys.executable, "-m", "gunicorn", "-k", "gevent", "--workers", "1", "--bind", "127.0.0.1:0", "--config",
               str(folder / "gunicorn_config.py"), "--log-level", "warning", "--chdir", str(folder),
               "green_application:application"]  # fmt: skip
    process = subprocess.Popen(command, env=environment, text=True)
    return process, int(wait_until(lambda: port_file.exists() and port_file.read_text(), "gunicorn"))


def ask(port: int, milliseconds: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/?{milliseconds}", timeout=30) as response:
        return int(response.read())


def test_slow_calls_of_one_worker_take_the_time_of_one(port: int) -> None:
    assert ask(port, 1) == 1
    with ThreadPoolExecutor(50) as pool:
        start = time.monotonic()
        assert list(pool.map(lambda _: ask(port, 2000), range(50))) == [2000] * 50
        assert time.monotonic() - start < 8
