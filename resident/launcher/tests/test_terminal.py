"""Terminals: sizes, modes, jobs."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest
from conftest import LAUNCHER, World, outcome, stopped, taken
from peer import EXECUTE, KILLED, SIGNAL, WAIT_S, Connection

ROWS, COLUMNS = 31, 97


class Terminal:
    """A pseudo-terminal: its other side, and what was written there."""

    def __init__(self) -> None:
        self.ours, self.theirs = os.openpty()
        self.resize(ROWS, COLUMNS)
        self.text = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def type(self, text: bytes) -> None:
        os.write(self.ours, text)

    def expect(self, pattern: str) -> re.Match[str]:
        until = time.monotonic() + WAIT_S
        while (match := re.search(pattern, self.text)) is None:
            ready = select.select([self.ours], [], [], max(0, until - time.monotonic()))[0]
            assert ready, f"{pattern!r} did not come; there was {self.text!r}"
            self.text += os.read(self.ours, 4096).decode()
        self.text = self.text[match.end() :]
        return match

    def modes(self) -> list[object]:
        return termios.tcgetattr(self.theirs)

    def make_raw(self) -> None:
        modes = termios.tcgetattr(self.theirs)
        modes[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(self.theirs, termios.TCSANOW, modes)

    def is_raw(self) -> bool:
        return not termios.tcgetattr(self.theirs)[3] & termios.ICANON

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


def control() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def on(terminal: Terminal) -> dict[str, object]:
    """To start something as the first process of the terminal's session."""
    return {**dict.fromkeys(("stdin", "stdout", "stderr"), terminal.theirs), "preexec_fn": control}


def begun(run: Connection, group: int = 0) -> None:
    run.running(group)
    run.send(EXECUTE, 1, text=b"true\0")
    assert run.receive() is not None


@pytest.mark.parametrize("where", ["stdin", "stdout", "stderr"])
def test_the_size_is_that_of_the_first_terminal(world: World, terminal: Terminal, where: str) -> None:
    process, run = world.asked(world.program, **{where: terminal.theirs})
    assert (run.rows, run.columns) == (ROWS, COLUMNS)
    run.running()
    run.exited(0)
    assert outcome(process)[0] == 0


def test_a_new_size_is_passed_on(world: World, terminal: Terminal) -> None:
    process, run = world.asked(world.program, **on(terminal))
    begun(run)
    terminal.resize(50, 132)
    frame = run.receive()
    assert frame is not None
    assert (frame.type, frame.value, frame.second) == (SIGNAL, signal.SIGWINCH, 50 << 16 | 132)
    run.exited(0)
    assert process.wait(WAIT_S) == 0


def test_a_new_size_before_the_beginning_is_not_lost(world: World, terminal: Terminal) -> None:
    process, run = world.asked(world.program, **on(terminal))
    terminal.resize(50, 132)
    taken(process)
    run.running()
    frame = run.receive()
    assert frame is not None
    assert (frame.value, frame.second) == (signal.SIGWINCH, 50 << 16 | 132)
    run.exited(0)
    assert process.wait(WAIT_S) == 0


@pytest.mark.parametrize("how", ["killed", "gone", "exited"])
def test_modes_are_restored_when_the_program_could_not(world: World, terminal: Terminal, how: str) -> None:
    before = terminal.modes()
    process, run = world.asked(world.program, **on(terminal))
    begun(run)
    terminal.make_raw()
    if how == "killed":
        run.send(KILLED, signal.SIGKILL)
    elif how == "gone":
        run.close()
    else:
        run.exited(0)
    process.wait(WAIT_S)
    # What a program leaves behind when it exits is what it wants, as stty does.
    assert (terminal.modes() == before) == (how != "exited")


def test_the_interrupt_key(world: World, terminal: Terminal) -> None:
    process, run = world.asked(world.program, **on(terminal))
    begun(run)
    terminal.type(b"\x03")
    frame = run.receive()
    assert frame is not None
    assert (frame.type, frame.value) == (SIGNAL, signal.SIGINT)
    run.send(KILLED, signal.SIGINT)
    assert process.wait(WAIT_S) == -signal.SIGINT


def shell(world: World, terminal: Terminal, script: str) -> None:
    """A shell with job control, as a person has, that runs a script."""
    settings = {**on(terminal), "env": {**world.environment, "RUN": str(LAUNCHER), "PROGRAM": str(world.program)}}
    world.start("--norc", "-mc", script, command="/bin/bash", **settings)


def job(world: World, terminal: Terminal, script: str) -> tuple[Connection, subprocess.Popen[bytes]]:
    """The run of a script's launcher, and its process, which is of another session."""
    resident = world.resident()
    run_of = world.start("1000", command="/bin/sleep", start_new_session=True)
    shell(world, terminal, script)
    run = resident.accept()
    begun(run, run_of.pid)
    return run, run_of


def test_the_stop_key_and_fg(world: World, terminal: Terminal) -> None:
    """The job stops with all of its run, the shell has its modes, and back."""
    run, run_of = job(world, terminal, '"$RUN" "$PROGRAM"; echo "stopped $?"; read line; fg; echo "ended $?"')
    terminal.make_raw()
    terminal.type(b"\x1a")
    terminal.expect(rf"stopped {128 + signal.SIGTSTP}\r\n")
    assert os.waitid(os.P_PID, run_of.pid, os.WSTOPPED) is not None
    assert not terminal.is_raw()
    terminal.type(b"\n")
    assert os.waitid(os.P_PID, run_of.pid, os.WCONTINUED) is not None
    assert terminal.is_raw()
    run.exited(6)
    terminal.expect(r"ended 6\r\n")


def test_the_stop_key_and_bg(world: World, terminal: Terminal) -> None:
    """What is typed then is the shell's: the run is of another session, and would get it."""
    run, run_of = job(world, terminal, '"$RUN" "$PROGRAM"; bg; read line; fg; echo "ended $?"')
    terminal.type(b"\x1a")
    terminal.expect(r"stays stopped in the background")
    assert os.waitid(os.P_PID, run_of.pid, os.WSTOPPED) is not None
    stopped(run.process)
    assert os.waitid(os.P_PID, run_of.pid, os.WCONTINUED | os.WNOHANG) is None
    terminal.type(b"\n")
    assert os.waitid(os.P_PID, run_of.pid, os.WCONTINUED) is not None
    run.exited(6)
    terminal.expect(r"ended 6\r\n")


def test_bg_without_the_terminal(world: World, terminal: Terminal) -> None:
    run, run_of = job(world, terminal, '"$RUN" "$PROGRAM" </dev/null; read line; bg; wait; echo "ended $?"')
    terminal.type(b"\x1a")
    assert os.waitid(os.P_PID, run_of.pid, os.WSTOPPED) is not None
    terminal.type(b"\n")
    assert os.waitid(os.P_PID, run_of.pid, os.WCONTINUED) is not None
    run.exited(0)
    terminal.expect(r"ended 0\r\n")


def test_one_that_was_stopped_by_force_is_stopped_in_the_background(world: World, terminal: Terminal) -> None:
    """The launcher could not tell the run: it does when it goes on there."""
    run, run_of = job(world, terminal, '"$RUN" "$PROGRAM"; bg; read line; fg; echo "ended $?"')
    os.kill(run.process, signal.SIGSTOP)
    assert os.waitid(os.P_PID, run_of.pid, os.WSTOPPED) is not None
    terminal.type(b"\n")
    assert os.waitid(os.P_PID, run_of.pid, os.WCONTINUED) is not None
    run.exited(6)
    terminal.expect(r"ended 6\r\n")


def test_the_stop_key_without_job_control(world: World, terminal: Terminal) -> None:
    """As by ssh -t and docker run -it: there is nobody who could let it go on."""
    process, run = world.asked(world.program, **on(terminal))
    begun(run)
    terminal.type(b"\x1a")
    frames = [run.receive(), run.receive()]
    assert [frame.value for frame in frames if frame] == [signal.SIGTSTP, signal.SIGCONT]
    run.exited(6)
    assert process.wait(WAIT_S) == 6


def test_in_the_background_with_the_terminal_it_runs_plainly(world: World, terminal: Terminal) -> None:
    world.resident().listener.setblocking(False)
    shell(world, terminal, '"$RUN" "$PROGRAM" <&0 & wait $!; echo "ended $?"')
    terminal.expect(r"runs plainly: it is in the background")
    terminal.expect(r"plain\r\n")
    terminal.expect(r"ended 9\r\n")


def test_in_the_background_without_the_terminal_it_does_not(world: World, terminal: Terminal) -> None:
    resident = world.resident()
    shell(world, terminal, '"$RUN" "$PROGRAM" </dev/null & wait $!; echo "ended $?"')
    run = resident.accept()
    run.write(b"from the run\n")
    run.running()
    run.exited(0)
    terminal.expect(r"from the run\r\n")
    terminal.expect(r"ended 0\r\n")


def test_in_the_background_it_leaves_the_modes_alone(world: World, terminal: Terminal) -> None:
    resident = world.resident()
    shell(world, terminal, '"$RUN" "$PROGRAM" </dev/null & echo go; read line; wait $!; echo "ended $?"')
    run = resident.accept()
    begun(run)
    terminal.make_raw()
    run.send(KILLED, signal.SIGTERM)
    run.close()
    terminal.type(b"\n")
    terminal.expect(rf"ended {128 + signal.SIGTERM}\r\n")
    assert terminal.is_raw()


def test_an_editor_on_the_callers_side_has_the_terminal(world: World, terminal: Terminal) -> None:
    process, run = world.asked(world.program, **on(terminal))
    run.running()
    run.send(EXECUTE, 3, text=b"bash\0-c\0read -p name: name; echo hello $name; exec 3</dev/tty; stty -icanon\0")
    terminal.expect("name:")
    terminal.type(b"world\n")
    terminal.expect("hello world")
    answer = run.receive()
    assert answer is not None
    assert answer.value == 0
    assert terminal.is_raw()
    run.exited(0)
    assert process.wait(WAIT_S) == 0
