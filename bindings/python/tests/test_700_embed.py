"""Calls to a Go library within the process, and from children to it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import nearcall
from support import PATIENCE_SECONDS, read_line

ADDRESS = "embed:" + os.environ["NEARCALL_TESTLIBRARY"]

SIGNALS = ["SIGTERM", "SIGHUP", "SIGCHLD", "SIGALRM", "SIGUSR1", "SIGINT", "SIGPIPE"]


def run(program: str, *arguments: str) -> str:
    """Runs a program of its own: what a process has loaded stays there."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), ADDRESS, *arguments],
        capture_output=True, text=True, timeout=100, check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_calls_and_children() -> None:
    run(
        """
        import os, sys, nearcall
        go = nearcall.Client(sys.argv[1], timeout=10)
        assert go.transport() == "same process"
        assert go.one() == 1 and go.ack(2, 3) == 9 and go.goroutine() == 1
        assert go.process_id() == os.getpid()
        assert go.call_raw("echo", b"x" * 3_000_000) == b"x" * 3_000_000
        before = go.count()
        for _ in range(3):
            if (child := os.fork()) == 0:
                for _ in range(40):
                    go.one()
                assert go.transport() == "shared memory"
                assert go.process_id() == os.getppid()
                go.count()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        assert go.count() == before + 4
        """
    )


def test_errors() -> None:
    run(
        """
        import sys, nearcall
        go = nearcall.Client(sys.argv[1])
        for call, code in [
            (lambda: go.divmod(1, 0), nearcall.Code.INVALID_ARGUMENT),
            (lambda: go.panic("no"), nearcall.Code.INTERNAL),
            (lambda: go.no_such(), nearcall.Code.UNIMPLEMENTED),
        ]:
            try:
                call()
            except nearcall.NearcallError as error:
                assert error.code == code, error
            else:
                raise AssertionError("no error")
        """
    )


def test_each_child_its_own() -> None:
    run(
        """
        import os, sys, nearcall
        go = nearcall.Client(sys.argv[1] + "?children=own")
        for _ in range(2):
            if (child := os.fork()) == 0:
                assert go.count() == 1 and go.transport() == "same process"
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        """
    )


# Calls in the process that loads the library, and in a child: there once more when the loader
# has been killed and the child is told that another process has loaded the library.
LOADER = """
import os, signal, sys, nearcall
go = nearcall.Client(sys.argv[1], timeout=10)
assert go.transfer(src="alice", dst="bob") == "alice to bob" and go.transport() == "same process"
if sys.argv[2] == "parent" and os.fork() == 0:
    for _ in range(40):
        assert go.transfer(src="alice", dst="bob") == "alice to bob"
    assert go.transport() == "shared memory"
    print("called", flush=True)
    sys.stdin.readline()
    print(go.transfer(src="alice", dst="bob"), go.transfer("bob", "alice"), sep=", ", flush=True)
    os._exit(0)
if sys.argv[2] == "alone":
    print("loaded", flush=True)
signal.pause()
"""


def test_successor_with_other_functions(folder: Path) -> None:
    """A child never calls the next loader by the description of the one before."""
    library = folder / "library.so"  # of which no other test knows who has loaded it
    shutil.copy(os.environ["NEARCALL_TESTLIBRARY"], library)

    def load(kind: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", LOADER, f"embed:{library}", kind],
            env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    with load("parent") as former:
        try:
            assert read_line(former) == "called"
            former.kill()
            former.wait(PATIENCE_SECONDS)
            with load("alone", NEARCALL_TEST_NEXT_VERSION="1") as successor:
                try:
                    assert read_line(successor) == "loaded"
                    assert former.stdin is not None
                    former.stdin.write("\n")
                    former.stdin.flush()
                    assert read_line(former) == "alice to bob, alice to bob"
                finally:
                    successor.kill()
        finally:
            former.kill()


def test_missing_library() -> None:
    with pytest.raises(nearcall.NearcallError, match="nearcall build"):
        nearcall.Client("embed:/no/such.so")


# Sends a signal a hundred times, each time when the one before was handled; ends sooner
# if one is not within 10 seconds. The calls go on until it has ended.
RAIN = """
import os, select, signal, sys, nearcall
go = nearcall.Client(sys.argv[1], timeout=10)
go.one()
if sys.argv[3] == "child" and (child := os.fork()):
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert (go.transport() == "same process") == (sys.argv[3] == "loader")
answers, handler_side = os.pipe()
handled = 0
def handler(number, frame):
    global handled
    handled += 1
    os.write(handler_side, b"h")
number = getattr(signal, sys.argv[2])
signal.signal(number, handler)
me = os.getpid()
if (sender := os.fork()) == 0:
    for _ in range(100):
        os.kill(me, number)
        if not select.select([answers], [], [], 10)[0] or not os.read(answers, 1):
            os._exit(1)
    os._exit(0)
depth, ended, status = 0, 0, 0
while not ended:
    depth = (depth + 1) % 300
    assert go.deep(depth) == depth
    ended, status = os.waitpid(sender, os.WNOHANG)
# The end of the sender is a SIGCHLD more.
assert status == 0 and handled in ((100, 101) if number == signal.SIGCHLD else (100,)), (status, handled)
"""


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("where", ["loader", "child"])
def test_signal(name: str, where: str) -> None:
    run(RAIN, name, where)


# What becomes of a process that raises a signal, with the library and without.
FATE = """
import os, signal, sys
number = getattr(signal, sys.argv[2])
def act():
    if sys.argv[4] != "as it is":
        signal.signal(number, getattr(signal, sys.argv[4]))
if sys.argv[3] != "child":
    act()
if sys.argv[3] != "plain":
    import nearcall
    go = nearcall.Client(sys.argv[1], timeout=10)
    go.one()
if sys.argv[3] == "child":
    if (child := os.fork()) == 0:
        act()
    else:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
try:
    if sys.argv[3] != "plain":
        go.one()
        assert (go.transport() == "same process") == (sys.argv[3] == "loader")
    os.kill(os.getpid(), number)
    if sys.argv[3] != "plain":
        go.one()
except KeyboardInterrupt:
    os._exit(77)
os._exit(0)
"""


def fate(name: str, where: str, action: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FATE, ADDRESS, name, where, action], timeout=100, check=False
    )
    return done.returncode % 256


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("action", ["SIG_DFL", "SIG_IGN", "as it is"])
def test_signal_without_handler(name: str, action: str) -> None:
    plain = fate(name, "plain", action)
    assert fate(name, "loader", action) == plain
    assert fate(name, "child", action) == plain


def test_signals_can_be_the_end() -> None:
    assert fate("SIGTERM", "plain", "SIG_DFL") == 256 - signal.SIGTERM


def test_handlers_end_waits_for_slow_functions() -> None:
    run(
        """
        import signal, sys, nearcall
        go = nearcall.Client(sys.argv[1], timeout=10)
        go.block(100)  # it is slow
        class Alarm(Exception): pass
        def handler(number, frame):
            raise Alarm
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            go.block(5000)
        except Alarm:
            sys.exit(0)
        sys.exit(1)
        """
    )


def test_block_signals() -> None:
    run(
        """
        import signal, sys, nearcall
        usr1 = 1 << signal.SIGUSR1 - 1
        for block in False, True:
            go = nearcall.Client(sys.argv[1], block_signals=block)
            go.blocked_signals()  # makes this thread known to Go
            assert bool(go.blocked_signals() & usr1) == block
            assert go.transport() == "same process"
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
        """
    )


def test_async_client_calls_over_the_socket() -> None:
    run(
        """
        import asyncio, sys, nearcall
        async def main():
            async with nearcall.AsyncClient(sys.argv[1]) as go:
                assert await asyncio.gather(*(go.one() for _ in range(10))) == [1] * 10
        asyncio.run(main())
        """
    )
