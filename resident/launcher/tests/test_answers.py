"""What the launcher makes of what a resident says, and of one that says nothing."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from conftest import LAUNCHER, PLAIN_CODE, SANITIZER_CODE, World, asleep, outcome, stopped, until
from peer import (
    ENDING,
    EXECUTE,
    EXECUTED,
    EXITED,
    FRAME,
    KILLED,
    PLAINLY,
    REPORT,
    RUNNING,
    WAIT_S,
    Connection,
    identity,
)

PLAIN = (PLAIN_CODE, "plain\n")
TEXT_BYTES_MAX = 65536
CRASHES = {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGFPE, -signal.SIGILL, SANITIZER_CODE}


@pytest.mark.parametrize("code", [0, 1, 125, 126, 127, 255])
def test_it_exits_with_the_code_of_the_run(world: World, code: int) -> None:
    process, run = world.asked()
    run.running()
    run.exited(code)
    assert outcome(process) == (code, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGRTMAX])
def test_it_ends_by_the_signal_that_ended_the_run(world: World, number: int) -> None:
    def prepare() -> None:
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_IGN)

    process, run = world.asked(world.program, preexec_fn=prepare)
    run.running()
    run.send(KILLED, number)
    ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    assert (ended.si_code, ended.si_status) == (os.CLD_KILLED, number)  # not CLD_DUMPED


def test_a_signal_that_ends_nobody_is_a_code(world: World) -> None:
    process, run = world.asked()
    run.running()
    run.send(KILLED, signal.SIGCHLD)
    assert outcome(process)[0] == 128 + signal.SIGCHLD


def test_frames_may_come_in_pieces_and_together(world: World) -> None:
    process, run = world.asked()
    for byte in FRAME.pack(RUNNING, 0, 0, 0) + FRAME.pack(ENDING, 1, 0, 0)[:5]:
        run.socket.send(bytes([byte]))
    run.socket.send(FRAME.pack(ENDING, 1, 0, 0)[5:] + FRAME.pack(EXITED, 6, 0, 0) + b"rest")
    assert outcome(process) == (6, "", "")


def test_plainly_says_why(world: World) -> None:
    process, run = world.asked(world.program, "word")
    run.send(PLAINLY, text=b"other groups")
    code, out, err = outcome(process)
    assert (code, out) == (PLAIN_CODE, "plain word\n")
    assert err == f"nearcall-run: {world.program} runs plainly: other groups\n"


def test_nothing_is_said_when_nobody_asks_for_it(world: World) -> None:
    del world.environment["NEARCALL_RUN_DEBUG"]
    process, run = world.asked()
    run.send(PLAINLY, text=b"x" * TEXT_BYTES_MAX)
    assert outcome(process) == (*PLAIN, "")


def test_ending_and_the_end_are_an_end(world: World) -> None:
    process, run = world.asked()
    run.running()
    run.send(ENDING, 11)
    run.close()
    assert outcome(process) == (11, "", "")


def test_how_it_ended_counts_more_than_how_it_was_to_end(world: World) -> None:
    process, run = world.asked()
    run.running()
    run.send(ENDING, 0)
    run.send(KILLED, signal.SIGKILL)
    assert outcome(process)[0] == -signal.SIGKILL


def test_an_end_after_the_beginning_is_never_run_again(world: World) -> None:
    process, run = world.asked()
    run.running()
    run.close()
    code, out, err = outcome(process)
    assert (code, out) == (125, "")
    assert "nobody said how it ended" in err
    assert str(world.place) in err


def test_an_end_before_the_beginning_is_asked_once_more(world: World) -> None:
    process, run = world.asked()
    run.close()
    again = world.residents[0].accept()
    assert again.arguments == run.arguments
    again.running()
    again.exited(2)
    assert outcome(process) == (2, "", "")


def test_two_ends_before_the_beginning_are_enough(world: World) -> None:
    process, run = world.asked()
    run.close()
    world.residents[0].accept().close()
    code, out, err = outcome(process)
    assert (code, out) == PLAIN
    assert "ended without an answer, twice" in err


BROKEN: dict[str, Callable[[Connection], None]] = {
    "an unknown frame": lambda run: run.send(99),
    "a report": lambda run: run.send(REPORT, text=b"{}"),
    "one of the launcher's": lambda run: run.send(EXECUTED),
    "a text that is too long": lambda run: run.socket.sendall(FRAME.pack(PLAINLY, 0, 0, TEXT_BYTES_MAX + 1)),
    "no such code": lambda run: run.send(EXITED, 256),
    "no such signal": lambda run: run.send(KILLED, 0),
    "a signal beyond all": lambda run: run.send(KILLED, 65),
    "an EXECUTE without a text": lambda run: run.send(EXECUTE, 0),
    "an EXECUTE with other numbers": lambda run: run.send(EXECUTE, 2, text=b"true\0"),
    "an EXECUTE without an end": lambda run: run.send(EXECUTE, 1, text=b"true\0x"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_breaks_the_rules_ends_a_run_that_began(world: World, kind: str) -> None:
    process, run = world.asked()
    run.running()
    BROKEN[kind](run)
    assert run.receive() is None
    assert outcome(process)[:2] == (125, "")


@pytest.mark.parametrize("kind", ["a second RUNNING", "PLAINLY too late"])
def test_what_comes_too_late_ends_a_run_that_began(world: World, kind: str) -> None:
    process, run = world.asked()
    run.running()
    run.send(RUNNING if kind == "a second RUNNING" else PLAINLY)
    assert outcome(process)[:2] == (125, "")


@pytest.mark.parametrize("group", [1, 0xFFFFFFFF, 0x80000000])
def test_a_group_that_would_be_everybody_is_refused(world: World, group: int) -> None:
    process, run = world.asked()
    run.running(group)
    world.residents[0].accept().running(group)
    assert outcome(process)[:2] == PLAIN


@pytest.mark.parametrize("kind", [EXITED, KILLED, ENDING, EXECUTE, 99])
def test_what_breaks_the_rules_before_the_beginning_has_done_nothing(world: World, kind: int) -> None:
    process, run = world.asked()
    run.send(kind, 1)
    world.residents[0].accept().send(kind, 1)
    assert outcome(process)[:2] == PLAIN


def random_answer(choice: random.Random) -> bytes:
    """Frames with few kinds of numbers, so that many go far, and bytes that are none."""
    numbers = [0, 0, 1, 2, 9, 64, 255, 256, 0x7FFFFFFF, 0xFFFFFFFF]
    frames = [FRAME.pack(RUNNING, 0, 0, 0)] if choice.random() < 0.7 else []
    for _ in range(choice.randrange(8)):
        text = choice.choice([b"", b"", b"x\0", b"x\0\0y\0", choice.randbytes(choice.randrange(70000))])
        kind = choice.choice([*range(1, 8), 16, 17, 99])
        frames.append(FRAME.pack(kind, choice.choice(numbers), choice.choice(numbers), len(text)) + text)
    return b"".join(frames) + choice.randbytes(choice.randrange(40))


def test_whatever_comes_the_launcher_ends_by_itself(world: World) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choice = random.Random(seed)
    resident, answer = world.resident(), [b""]

    def serve() -> None:
        while answer:
            connection = resident.accept()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, IndexError):
                connection.socket.sendall(answer[0])
            connection.close()

    server = threading.Thread(target=serve)
    server.start()
    for _ in range(100):
        answer[0] = random_answer(choice)
        process = world.start(world.program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        process.wait(WAIT_S)
        assert process.returncode not in CRASHES
    answer.clear()
    world.start(world.program).wait(WAIT_S)
    server.join(WAIT_S)
    assert not server.is_alive()


def test_a_resident_that_does_not_answer_is_left(world: World) -> None:
    world.environment["NEARCALL_RUN_ANSWER_MS"] = "50"
    process, run = world.asked()
    code, out, err = outcome(process)
    assert (code, out) == PLAIN
    assert "no answer in time" in err
    with pytest.raises(BrokenPipeError):
        run.running()


def test_a_resident_that_does_not_accept_is_left(world: World) -> None:
    world.environment["NEARCALL_RUN_ANSWER_MS"] = "50"
    world.resident()
    # Its descriptors lie in the backlog with the request, so no end of a pipe is seen.
    output = world.directory / "output"
    with output.open("w") as file:
        assert world.run(stdout=file, stderr=file)[0] == PLAIN_CODE
    assert output.read_text().endswith("in time (NEARCALL_RUN_ANSWER_MS)\nplain\n")
    late, _ = world.residents[0].listener.accept()
    with pytest.raises(BrokenPipeError):
        late.sendall(FRAME.pack(RUNNING, 0, 0, 0))


def test_a_backlog_that_is_full_is_waited_for(world: World) -> None:
    world.environment["NEARCALL_RUN_ANSWER_MS"] = "100"
    world.place.mkdir(mode=0o700)
    world.resident().listener.listen(0)
    with socket.socket(socket.AF_UNIX) as first:
        first.connect(str(world.residents[0].path))
        code, out, err = world.run()
        assert (code, out) == PLAIN
        assert "cannot connect" in err
        world.environment["NEARCALL_RUN_ANSWER_MS"] = "20000"
        process = world.start(world.program)
        asleep(process)
        world.residents[0].listener.accept()[0].close()
        run = world.residents[0].accept()
        run.running()
        run.exited(5)
        assert outcome(process) == (5, "", "")


@pytest.mark.parametrize("value", ["", "0", "-1", "soon", "1s"])
def test_a_time_that_is_none_is_not_one(world: World, value: str) -> None:
    world.environment["NEARCALL_RUN_ANSWER_MS"] = value
    process, run = world.asked()
    run.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        run.socket.recv(1)
    run.running()
    run.exited(0)
    assert outcome(process) == (0, "", "")


def test_a_program_on_the_callers_side(world: World) -> None:
    process, run = world.asked(world.program, stdin=subprocess.PIPE)
    run.running()
    script = b'read line; echo "$line, $0" "$WORD"; exit 5'
    run.send(EXECUTE, 4, text=b"sh\0-c\0" + script + b"\0editor\0")
    assert process.stdin is not None
    process.stdin.write(b"typed\n")
    process.stdin.flush()
    answer = run.receive()
    assert answer is not None
    assert (answer.type, answer.value) == (EXECUTED, 5 << 8)
    run.send(EXECUTE, 2, text=b"no-such-editor\0\0")
    answer = run.receive()
    assert answer is not None
    assert answer.value == 127 << 8
    run.exited(0)
    assert outcome(process) == (0, "typed, editor \n", "nearcall-run: no-such-editor: No such file or directory\n")


def test_its_status_is_known_although_the_caller_ignores_children(world: World) -> None:
    process, run = world.asked(world.program, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    run.running()
    run.send(EXECUTE, 3, text=b"sh\0-c\0kill -TERM $$\0")
    answer = run.receive()
    assert answer is not None
    assert answer.value == signal.SIGTERM
    run.exited(0)
    assert outcome(process)[0] == 0


def test_its_end_is_known_although_the_caller_blocks_sigchld(world: World) -> None:
    blocked = {signal.SIGCHLD}
    process, run = world.asked(world.program, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, blocked))
    run.running()
    run.send(EXECUTE, 3, text=b"sh\0-c\0exit 5\0")
    frame = run.receive()
    assert frame is not None
    assert (frame.type, frame.value) == (EXECUTED, 5 << 8)
    run.exited(0)
    assert outcome(process) == (0, "", "")


def test_two_at_once_break_the_rules(world: World) -> None:
    process, run = world.asked(world.program, stdin=subprocess.PIPE)
    run.running()
    run.send(EXECUTE, 1, text=b"cat\0")
    run.send(EXECUTE, 1, text=b"cat\0")
    process.wait(WAIT_S)
    assert process.returncode == 125


def ended(world: World, script: str, *, reaped: bool) -> int:
    """The process of a run that has ended, and whose parent may not know yet."""
    process = world.start("-c", script, command="/bin/sh", start_new_session=True)
    if reaped:
        process.wait(WAIT_S)
    else:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return process.pid


# The supervisor of these runs is stopped: it says nothing, and keeps the connection.
@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -SEGV $$", -signal.SIGSEGV)])
def test_who_has_ended_is_not_waited_for(world: World, script: str, code: int) -> None:
    process, run = world.asked()
    pid = ended(world, script, reaped=False)
    run.send(RUNNING, pid, pid)
    run.send(ENDING, 5)  # it said so, and then came to another end
    assert outcome(process) == (code, "", "")


def test_who_has_ended_and_may_not_be_looked_into(world: World) -> None:
    """To who has fewer privileges the kernel tells 0 for every status."""
    process, run = world.asked("--bounding-set=-sys_ptrace,-sys_admin", LAUNCHER, world.program, command="setpriv")
    pid = ended(world, "exit 7", reaped=False)
    run.send(RUNNING, pid, pid)
    run.send(ENDING, 5)
    assert outcome(process) == (5, "", "")


def test_who_has_ended_and_is_no_more(world: World) -> None:
    process, run = world.asked()
    pid = ended(world, "exit 7", reaped=True)
    run.send(RUNNING, pid, pid)
    run.send(ENDING, 5)
    assert outcome(process) == (5, "", "")
    process, run = world.asked()
    run.send(RUNNING, pid, pid)
    code, out, err = outcome(process)
    assert (code, out) == (125, "")
    assert "nobody said how it ended" in err


# Says that it listens, and then nothing more.
LISTENING = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("listens", flush=True)
listener.accept()
input()
"""


def test_a_resident_that_is_stopped(world: World) -> None:
    """It gets nothing: who reads the output of a command sees its end."""
    world.place.mkdir(mode=0o700)
    listener = world.start(
        "-c",
        LISTENING,
        str(world.place / f"{identity(world.program)}.sock"),
        command=sys.executable,
    )
    assert listener.stdout is not None
    listener.stdout.readline()
    listener.send_signal(signal.SIGSTOP)
    stopped(listener.pid)
    code, out, err = world.run()
    assert (code, out) == PLAIN
    assert f"its resident is stopped; kill -CONT {listener.pid} lets it go on" in err


def watches(launcher: subprocess.Popen[bytes]) -> bool:
    """Whether it waits for the end of its run's process itself."""
    for number in range(20):
        with contextlib.suppress(FileNotFoundError):
            if "pidfd" in os.readlink(f"/proc/{launcher.pid}/fd/{number}"):
                return True
    return False


def watched(world: World) -> tuple[subprocess.Popen[bytes], Connection, Callable[[], int]]:
    """A launcher that watches its run, and what ends the run's process with 6."""
    process, run = world.asked()
    run_of = world.start("-c", "read line; exit 6", command="/bin/sh", stdin=subprocess.PIPE, start_new_session=True)
    run.send(RUNNING, run_of.pid, run_of.pid)
    until(lambda: watches(process))
    assert run_of.stdin is not None
    number = run_of.stdin.fileno()
    return process, run, lambda: os.write(number, b"\n")


def test_who_ends_after_a_while_is_not_waited_for(world: World) -> None:
    process, _, end = watched(world)
    end()
    assert outcome(process) == (6, "", "")


def test_a_word_that_comes_late_counts(world: World) -> None:
    process, run, end = watched(world)
    end()
    until(lambda: not watches(process))
    run.exited(3)
    assert outcome(process) == (3, "", "")
