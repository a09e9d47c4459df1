"""Signals that the launcher gets."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import World, outcome, taken
from peer import ENDING as ENDING_FRAME
from peer import EXECUTE, RUNNING, SIGNAL, WAIT_S, Connection, wait_readable

INTERRUPTS = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM]
END_S = 1.0
# A group of its own, whose parent is in another one of the session.
A_JOB: dict[str, object] = {"process_group": 0}
ENDING = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM]


class Group:
    """A process group that notes what it gets, as a run would be one."""

    def __init__(self, world: World) -> None:
        self.note = world.directory / "signals"
        os.mkfifo(self.note)
        numbers = [int(number) for number in [*ENDING, signal.SIGWINCH, signal.SIGCONT]]
        script = f"""import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {numbers})
note = os.open(sys.argv[1], os.O_WRONLY)
os.write(note, b"ready\\n")
while True:
    os.write(note, signal.Signals(signal.sigwait({numbers})).name.encode() + b"\\n")
"""
        command: list[str | Path] = ["/usr/bin/python3", "-c", script, self.note]
        self.process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
        self.groups = world.groups
        self.groups.append(self.process.pid)
        self.lines = self.note.open()
        assert self.next() == "ready"

    def next(self) -> str:
        return self.lines.readline().strip()

    def state(self) -> str:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.groups.remove(self.process.pid)
        self.process.wait()
        self.lines.close()


def begun(run: Connection, group: int = 0) -> None:
    """RUNNING has been read: an EXECUTE after it was answered."""
    run.running(group)
    run.send(EXECUTE, 1, text=b"true\0")
    assert run.receive() is not None


@pytest.mark.parametrize("number", [*ENDING, signal.SIGWINCH, signal.SIGCONT])
def test_signals_go_to_the_group(world: World, number: signal.Signals) -> None:
    process, run = world.asked()
    group = Group(world)
    begun(run, group.process.pid)
    process.send_signal(number)
    names = {number.name, "SIGCONT"} if number in INTERRUPTS else {number.name}
    assert {group.next() for _ in names} == names
    run.exited(0)
    assert outcome(process) == (0, "", "")
    group.end()


@pytest.mark.parametrize("number", [*ENDING, signal.SIGWINCH, signal.SIGCONT])
def test_signals_are_frames_without_a_group(world: World, number: signal.Signals) -> None:
    process, run = world.asked()
    begun(run)
    process.send_signal(number)
    frame = run.receive()
    assert frame is not None
    assert (frame.type, frame.value, frame.second, frame.length) == (SIGNAL, number, 0, 0)
    run.exited(0)
    assert outcome(process) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_what_the_caller_ignores_is_ignored(world: World, number: signal.Signals) -> None:
    process, run = world.asked(world.program, preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
    begun(run)
    process.send_signal(number)
    process.send_signal(signal.SIGUSR1)
    frame = run.receive()
    assert frame is not None
    assert frame.value == signal.SIGUSR1
    run.exited(0)
    assert outcome(process) == (0, "", "")


def test_what_the_caller_blocks_stays_pending(world: World) -> None:
    blocked = {signal.SIGHUP}  # of those that have come the lower number is first
    process, run = world.asked(world.program, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, blocked))
    begun(run)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGUSR1)
    frame = run.receive()
    assert frame is not None
    assert frame.value == signal.SIGUSR1
    run.exited(0)
    assert outcome(process) == (0, "", "")


@pytest.mark.parametrize("number", ENDING)
def test_before_the_beginning_a_signal_withdraws(world: World, number: signal.Signals) -> None:
    process, run = world.asked()
    process.send_signal(number)
    assert outcome(process) == (-number, "", "")
    with pytest.raises(BrokenPipeError):
        run.running()


def test_a_run_that_began_before_the_signal_gets_it(world: World) -> None:
    process, run = world.asked()
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    run.running()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    frames = [run.receive(), run.receive()]
    assert {frame.value for frame in frames if frame} == {signal.SIGINT, signal.SIGCONT}
    run.exited(8)
    assert outcome(process) == (8, "", "")


def test_a_run_that_ended_before_the_signal_has_ended(world: World) -> None:
    process, run = world.asked()
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    run.running()
    run.exited(8)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    assert outcome(process) == (8, "", "")


def test_the_plain_program_has_the_signals_as_they_were(world: World) -> None:
    status = world.script("status", "#!/bin/sh\nexec grep -E 'Sig(Blk|Ign)' /proc/self/status\n")

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    expected = outcome(world.start(command=status, preexec_fn=prepare))
    world.environment["NEARCALL_RUN_ANSWER_MS"] = "50"
    world.resident(status)
    process, _ = world.asked(status, preexec_fn=prepare)
    got = outcome(process)
    assert got[:2] == expected[:2]


def test_a_stop_before_the_beginning_stops_the_run(world: World) -> None:
    process, run = world.asked(world.program, **A_JOB)
    group = Group(world)
    process.send_signal(signal.SIGTSTP)
    taken(process)
    run.running(group.process.pid)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    os.waitid(os.P_PID, group.process.pid, os.WSTOPPED | os.WNOWAIT)
    assert group.state() == "T"
    process.send_signal(signal.SIGCONT)
    assert group.next() == "SIGCONT"
    run.exited(0)
    assert outcome(process)[0] == 0
    group.end()


def test_a_stop_before_the_beginning_stops_the_plain_program(world: World) -> None:
    world.environment["NEARCALL_RUN_ANSWER_MS"] = "300"
    process, _ = world.asked(world.program, **A_JOB)
    process.send_signal(signal.SIGTSTP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    process.send_signal(signal.SIGCONT)
    assert outcome(process)[:2] == (9, "plain\n")


def test_stopping_and_going_on(world: World) -> None:
    process, run = world.asked(world.program, **A_JOB)
    group = Group(world)
    begun(run, group.process.pid)
    for _ in range(3):
        process.send_signal(signal.SIGTSTP)
        assert os.WSTOPSIG(os.waitpid(process.pid, os.WUNTRACED)[1]) == signal.SIGTSTP
        os.waitid(os.P_PID, group.process.pid, os.WSTOPPED)
        process.send_signal(signal.SIGCONT)
        assert group.next() == "SIGCONT"
    process.send_signal(signal.SIGUSR1)
    assert group.next() == "SIGUSR1"  # each SIGCONT came once
    run.exited(0)
    assert outcome(process)[0] == 0
    group.end()


def test_without_job_control_a_run_goes_on(world: World) -> None:
    process, run = world.asked(world.program, start_new_session=True)
    group = Group(world)
    begun(run, group.process.pid)
    process.send_signal(signal.SIGTSTP)
    wait_readable(group.lines.fileno())
    assert group.next() == "SIGCONT"
    run.exited(5)
    assert outcome(process) == (5, "", "")
    group.end()


def test_a_stopped_run_goes_on_to_its_end(world: World) -> None:
    process, run = world.asked()
    group = Group(world)
    begun(run, group.process.pid)
    os.killpg(group.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, group.process.pid, os.WSTOPPED)
    process.send_signal(signal.SIGTERM)
    assert {group.next(), group.next()} == {"SIGTERM", "SIGCONT"}
    run.exited(0)
    assert outcome(process) == (0, "", "")
    group.end()


@pytest.mark.parametrize("number", INTERRUPTS)
@pytest.mark.parametrize("code", [None, 5])
def test_a_run_that_ended_without_a_word(world: World, number: signal.Signals, code: int | None) -> None:
    """Its supervisor is stopped: it neither waits for it nor ends the connection."""
    process, run = world.asked()
    run_of = world.start(command="/bin/true", start_new_session=True)
    run_of.wait(WAIT_S)
    run.send(RUNNING, run_of.pid, run_of.pid)
    if code is not None:
        run.send(ENDING_FRAME, code)
    run.send(EXECUTE, 1, text=b"true\0")
    assert run.receive() is not None
    process.send_signal(number)
    assert outcome(process)[0] == (-number if code is None else code)


def test_a_resident_that_is_stopped_while_it_runs(world: World) -> None:
    process, run = world.asked()
    run_of = world.start("1000", command="/bin/sleep", start_new_session=True)
    run_of.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, run_of.pid, os.WSTOPPED)
    run.send(RUNNING, 0, run_of.pid)
    run.send(EXECUTE, 1, text=b"true\0")
    assert run.receive() is not None
    process.send_signal(signal.SIGINT)
    assert outcome(process)[0] == -signal.SIGINT


def test_a_run_that_handles_interrupts_goes_on(world: World) -> None:
    process, run = world.asked()
    begun(run)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        assert run.receive() is not None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5 * END_S)
    run.exited(3)
    assert outcome(process) == (3, "", "")


def test_interrupts_are_for_the_program_on_the_callers_side(world: World) -> None:
    process, run = world.asked(world.program, stdin=subprocess.PIPE)
    run.running()
    run.send(EXECUTE, 1, text=b"cat\0")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"x")
    process.stdin.flush()
    assert process.stdout.read(1) == b"x"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGUSR1)
    frame = run.receive()
    assert frame is not None
    assert (frame.type, frame.value) == (SIGNAL, signal.SIGUSR1)
    process.stdin.close()
    process.stdin = None
    frame = run.receive()
    assert frame is not None
    assert frame.value == 0
    process.send_signal(signal.SIGINT)
    frame = run.receive()
    assert frame is not None
    assert (frame.type, frame.value) == (SIGNAL, signal.SIGINT)
    run.exited(0)
    assert outcome(process)[0] == 0


def test_an_end_of_the_launcher_ends_the_connection(world: World) -> None:
    process, run = world.asked()
    begun(run)
    process.kill()
    assert run.receive() is None
    process.wait(WAIT_S)


def test_running_is_not_lost_in_the_last_moment(world: World) -> None:
    """RUNNING and the end of the time to wait for it meet, many times: a run that could
    send RUNNING is never run plainly, one that could not always is."""
    world.environment["NEARCALL_RUN_ANSWER_MS"] = "10"
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    jitter = random.Random(seed)
    began = 0
    for _ in range(60):
        process, run = world.asked()
        time.sleep(jitter.uniform(0.0095, 0.0125))
        try:
            run.send(RUNNING)
            began += 1
            run.close()
            assert outcome(process)[:2] == (125, "")
        except BrokenPipeError:
            assert outcome(process)[:2] == (9, "plain\n")
    print(f"{began} of 60 began")
