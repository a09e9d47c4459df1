"""Files and connections of a reply that cannot be made: each descriptor is closed, and closed once."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from support import Server, run_python

SETUP = """
import asyncio, gc, os, signal, socket, sys, nearcall

def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))

listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
at = "127.0.0.1:%d" % listener.getsockname()[1]
CALLS = {
    "file": lambda call: call("file_open", os.devnull),
    "connection": lambda call: call("connection_dial", at),
}
"""

# A signal comes while Python makes the object: its auditing runs code there.
RINGING = (
    SETUP
    + """
class Ended(KeyboardInterrupt):
    pass

def end(*_):
    raise Ended

def hook(event, _):
    if ringing and event == ringing[0]:
        ringing.clear()
        os.kill(os.getpid(), signal.SIGUSR1)

ringing = []
signal.signal(signal.SIGUSR1, end)
sys.addaudithook(hook)
call, event, how = CALLS[sys.argv[2]], sys.argv[3], sys.argv[4]

def rung(go):
    try:
        go()
    except Ended:
        return not ringing
    return False

async def ring():
    async with nearcall.AsyncClient(sys.argv[1], timeout=20) as client:
        (await call(client.call)).close()
        ringing.append(event)
        try:
            await call(client.call)
        except nearcall.Cancelled as error:
            assert error.outcome is nearcall.Outcome.EXECUTED_RESULT_LOST

with nearcall.Client(sys.argv[1], timeout=20) as client:
    call(client.call).close()
    before = descriptors()
    for _ in range(5):
        if how == "async":
            with asyncio.Runner() as runner:
                assert rung(lambda: runner.run(ring()))
            continue
        ringing.append(event)
        assert rung(lambda: call(client.call) if how == "call" else call(client.begin).wait())
    assert descriptors() == before, (before, descriptors())
    call(client.call).close()
"""
)

# Fails one allocation after the other, in a process of its own: nothing else is disturbed by that.
WITHOUT_MEMORY = (
    SETUP
    + """
import _testcapi

call, seen = CALLS[sys.argv[2]], set()
with nearcall.Client(sys.argv[1], timeout=20) as client:
    call(client.call).close()
    before = descriptors()
    for point in range(150):
        made = None
        _testcapi.set_nomemory(point, point + 1)
        try:
            made = call(client.call)
        except MemoryError:
            seen.add("MemoryError")
        except nearcall.NearcallError as error:
            seen.add(error.message)
        finally:
            _testcapi.remove_mem_hooks()
        if made is not None:
            made.close()
        assert descriptors() == before, point
print(*sorted(seen), sep="|")
"""
)

LOST = "the reply cannot be taken over into Python: MemoryError"
LOST_LOCK = "the reply cannot be taken over into Python: can't allocate read lock"
"""As Python's own files say."""


@pytest.fixture
def files_address(start_server: Callable[..., Server]) -> str:
    return start_server("-files").address


@pytest.mark.parametrize("how", ["call", "begin", "async"])
@pytest.mark.parametrize(("what", "event"), [("file", "open"), ("connection", "socket.__new__")])
def test_what_a_handler_raises_ends_the_call(files_address: str, what: str, event: str, how: str) -> None:
    done = run_python(RINGING, files_address, what, event, how)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("what", ["file", "connection"])
def test_memory_runs_out(files_address: str, what: str) -> None:
    done = run_python(WITHOUT_MEMORY, files_address, what, env={**os.environ, "PYTHONWARNINGS": "default"})
    assert done.returncode == 0, done.stderr
    said = set(done.stdout.strip().split("|"))
    assert LOST in said
    assert said <= {"MemoryError", LOST, LOST_LOCK}
