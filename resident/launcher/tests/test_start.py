"""How a resident is started: once, with nothing of its launcher but the environment."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PLAIN_CODE, World, asleep, outcome, until
from peer import WAIT_S, identity, residents_of, wait_readable

STARTS_MAX, GUARD_FIRST_S, GUARD_S, LOG_BYTES_MAX = 2, 30, 3600, 1 << 20
LAUNCHERS = 200
NOBODY = 65534


def only_resident(program: Path) -> int:
    (process,) = residents_of(str(program))
    return process


def kill_resident(program: Path) -> None:
    """Until its socket is closed: of one that is dying a connection may end before its
    listener does, so that who tries once more finds it again, and runs plainly."""
    process = only_resident(program)
    ended = os.pidfd_open(process)
    os.kill(process, signal.SIGKILL)
    wait_readable(ended)
    os.close(ended)


def test_two_hundred_launchers_start_one_resident(world: World) -> None:
    tiny = world.tiny()
    starts = world.directory / "starts"
    world.environment |= {"TINY_START": str(starts), "TINY_DELAY_MS": "200", "NEARCALL_RUN_ANSWER_MS": "60000"}
    processes = [world.start(tiny, str(i)) for i in range(LAUNCHERS)]
    for i, process in enumerate(processes):
        assert outcome(process) == (7, f"ran {i}\n", "")
    assert len(starts.read_text().splitlines()) == 1


def test_one_that_was_killed_is_started_again(world: World) -> None:
    tiny = world.tiny()
    assert world.run(tiny, "1") == (7, "ran 1\n", "")
    for i in range(2, 5):
        kill_resident(tiny)
        assert world.run(tiny, str(i)) == (7, f"ran {i}\n", "")


@pytest.fixture
def found(world: World) -> dict[str, object]:
    """What a program finds when it is started as a resident."""
    result = world.directory / "found"
    finder = world.script(
        "finder",
        f"""#!/usr/bin/python3
import json, os, signal, socket, sys
if sys.argv[1:] != ["--nearcall-resident"]:
    sys.exit(9)
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
found = dict(
    arguments=sys.argv, environment=dict(os.environ), directory=os.getcwd(), umask=os.umask(0),
    session=os.getsid(0) == os.getpid(), process=os.getpid(), parent=os.getppid(),
    blocked=status["SigBlk"], ignored=status["SigIgn"],
    descriptors={{d: os.readlink("/proc/self/fd/" + d) for d in os.listdir("/proc/self/fd")
                 if os.path.exists("/proc/self/fd/" + d)}},
    listening=socket.socket(fileno=os.dup(3)).getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN),
)
json.dump(found, open({str(result)!r} + ".new", "w"))
os.rename({str(result)!r} + ".new", {str(result)!r})
print("said", file=sys.stderr)
""",
    )
    world.programs.append(finder)
    world.environment |= {"LISTEN_FDS": "3", "LISTEN_PID": "1", "LISTEN_FDNAMES": "a:b:c", "WORD": "word"}
    world.environment |= {"NEARCALL_RESIDENT_SOCKET": "9:9", "NEARCALL_RESIDENT_DIRECTORY": "/elsewhere"}

    def prepare() -> None:
        os.umask(0o007)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        for number in (signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)

    with open("/dev/zero") as inherited:
        fcntl.fcntl(inherited, fcntl.F_DUPFD, 57)
        process = world.start("./finder", "word", preexec_fn=prepare, close_fds=False)
    assert outcome(process)[0] == 9
    place = world.place / identity(finder)
    return {**json.loads(result.read_text()), "place": place, "finder": finder, "started": world.directory}


def test_a_resident_finds_what_it_was_promised(found: dict[str, object]) -> None:
    place, process = found["place"], found["process"]
    assert found["arguments"] == [str(found["finder"]), "--nearcall-resident"]
    assert (found["directory"], found["umask"], found["session"]) == ("/", 0o077, True)
    assert (found["listening"], found["blocked"]) == (1, "0" * 16)
    # Python itself ignores SIGPIPE and SIGXFSZ.
    assert int(str(found["ignored"]), 16) == 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    environment = found["environment"]
    assert isinstance(environment, dict)
    added = {"LISTEN_FDS": "1", "LISTEN_PID": str(process), "LISTEN_FDNAMES": "nearcall-resident"}
    socket = os.stat(f"{place}.sock")
    added["NEARCALL_RESIDENT_SOCKET"] = f"{socket.st_dev}:{socket.st_ino}"
    added["NEARCALL_RESIDENT_DIRECTORY"] = str(found["started"])
    assert environment.items() >= {**added, "NEARCALL_RESIDENT_LOCK": f"{place}.lock", "WORD": "word"}.items()
    descriptors = found["descriptors"]
    assert isinstance(descriptors, dict)
    log = f"{place}.log"
    assert {d: descriptors[d] for d in ("0", "1", "2")} == {"0": "/dev/null", "1": log, "2": log}
    assert set(descriptors) == {"0", "1", "2", "3"}
    assert Path(log).read_text() == "said\n"


def test_the_files_of_a_place_are_private(found: dict[str, object]) -> None:
    for ending in (".sock", ".lock", ".log"):
        status = os.stat(f"{found['place']}{ending}")
        assert (status.st_mode & 0o077, status.st_uid) == (0, os.geteuid())


def test_a_program_whose_starts_come_to_nothing_is_left_alone(world: World) -> None:
    lock = world.place / f"{identity(world.program)}.lock"
    for i in range(4):
        code, out, err = world.run(world.program, str(i))
        assert (code, out) == (PLAIN_CODE, f"plain {i}\n")
        # No run starts it twice: it may be a program that is not made for it.
        assert world.starts() == min(i + 1, STARTS_MAX)
        assert lock.read_text() == f"{world.starts()}\n{world.program}\n"
    assert "came to nothing" in err
    assert str(lock.with_suffix(".log")) in err
    # Later it is tried again, once: a program that was mended elsewhere.
    past = time.time() - GUARD_FIRST_S - 1
    os.utime(lock, (past, past))
    assert world.run()[:2] == (PLAIN_CODE, "plain\n")
    assert world.starts() == STARTS_MAX + 1
    assert world.run()[:2] == (PLAIN_CODE, "plain\n")
    assert world.starts() == STARTS_MAX + 1


@pytest.mark.parametrize(
    ("starts", "guard_s"),
    [(STARTS_MAX, GUARD_FIRST_S), (STARTS_MAX + 3, 8 * GUARD_FIRST_S), (STARTS_MAX + 8, GUARD_S), (999, GUARD_S)],
)
def test_each_start_that_comes_to_nothing_doubles_the_time_without(world: World, starts: int, guard_s: int) -> None:
    world.place.mkdir(mode=0o700)
    lock = world.place / f"{identity(world.program)}.lock"
    lock.write_text(str(starts))
    for age_s, started in ((guard_s - 5, 0), (guard_s + 5, 1)):
        past = time.time() - age_s
        os.utime(lock, (past, past))
        assert world.run()[:2] == (PLAIN_CODE, "plain\n")
        assert world.starts() == started


def fewer_processes() -> None:
    """None at all, of a user who has one."""
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))


def few_files() -> None:
    """For the lock, and not for a socket."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))


def no_bytes_of_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.parametrize("starts", [0, STARTS_MAX])
@pytest.mark.parametrize("limit", [fewer_processes, few_files, no_bytes_of_files])
def test_what_a_caller_may_not_do_is_no_start(world: World, limit: Callable[[], None], starts: int) -> None:
    """Others are not to run plainly for it; nor does it end by SIGXFSZ."""
    tiny, begun = world.tiny(), world.directory / "begun"
    world.environment["TINY_START"] = str(begun)
    os.chown(tiny, NOBODY, NOBODY)
    world.place.mkdir(mode=0o700)
    lock = world.place / f"{identity(tiny)}.lock"
    lock.write_text(str(starts))
    for path in (world.directory, world.runtime, world.place, lock):
        os.chown(path, NOBODY, NOBODY)
    past = time.time() - GUARD_FIRST_S - 1
    os.utime(lock, (past, past))
    for _ in range(STARTS_MAX + 1):
        options = {"preexec_fn": limit, "user": NOBODY, "group": NOBODY, "extra_groups": []}
        assert world.run(tiny, "word", **options)[:2] == (7, "ran word\n")
    assert not begun.exists()
    assert int(lock.read_text().split()[0]) == starts
    assert abs(lock.stat().st_mtime - past) < 1
    assert not lock.with_suffix(".sock").exists()


def test_a_program_that_hangs_when_it_is_started_as_a_resident(world: World) -> None:
    hangs = world.script(
        "hangs",
        """#!/usr/bin/python3
import signal, sys
if sys.argv[1] == "--nearcall-resident":
    signal.pause()
print("plain", sys.argv[1])
""",
    )
    world.programs.append(hangs)
    world.environment |= {"NEARCALL_RUN_ANSWER_MS": "200"}
    said = world.directory / "said"
    # Files: what was sent to one that hangs stays open there.
    for i in range(STARTS_MAX + 1):
        with said.open("w") as to:
            assert world.start(hangs, str(i), stdout=to, stderr=to).wait(WAIT_S) == 0
        assert f"plain {i}\n" in said.read_text()
        assert ("no answer in time" in said.read_text()) == (i < STARTS_MAX)
    assert "came to nothing" in said.read_text()
    until(lambda: len(list(residents_of(str(hangs)))) == STARTS_MAX)  # a busy machine runs them later


@pytest.mark.parametrize("content", ["", "0", "1", "rubbish", "\0\0"])
def test_what_a_lock_may_hold(world: World, content: str) -> None:
    world.place.mkdir(mode=0o700)
    (world.place / f"{identity(world.program)}.lock").write_text(content)
    for _ in range(STARTS_MAX):
        assert world.run()[:2] == (PLAIN_CODE, "plain\n")
    assert world.starts() == (1 if content == "1" else STARTS_MAX)


def test_a_clock_that_was_set_back_does_not_matter(world: World) -> None:
    tiny = world.tiny()
    world.place.mkdir(mode=0o700)
    lock = world.place / f"{identity(tiny)}.lock"
    lock.write_text("9")
    future = time.time() + 3600
    os.utime(lock, (future, future))
    assert world.run(tiny, "word") == (7, "ran word\n", "")


def test_a_large_log_is_emptied(world: World) -> None:
    tiny = world.tiny()
    world.place.mkdir(mode=0o700)
    log = world.place / f"{identity(tiny)}.log"
    log.write_bytes(b"x" * LOG_BYTES_MAX)
    assert world.run(tiny)[0] == 7
    assert log.stat().st_size == LOG_BYTES_MAX
    kill_resident(tiny)
    log.write_bytes(b"x" * (LOG_BYTES_MAX + 1))
    assert world.run(tiny)[0] == 7
    assert log.stat().st_size == 0


def test_a_lock_that_nobody_releases_is_waited_for_only_so_long(world: World) -> None:
    world.environment["NEARCALL_RUN_ANSWER_MS"] = "100"
    world.place.mkdir(mode=0o700)
    with (world.place / f"{identity(world.program)}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, out, err = world.run()
    assert (code, out, world.starts()) == (PLAIN_CODE, "plain\n", 0)
    assert "cannot lock" in err


def test_the_callers_alarm_is_the_programs(world: World) -> None:
    sleeps = world.script("sleeps", "#!/bin/sh\nexec sleep 60\n")
    world.place.mkdir(mode=0o700)
    world.environment["NEARCALL_RUN_ANSWER_MS"] = "100"
    with (world.place / f"{identity(sleeps)}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = world.start(sleeps, preexec_fn=lambda: signal.setitimer(signal.ITIMER_REAL, 1.0))
        assert outcome(process)[0] == -signal.SIGALRM


def test_a_lock_is_waited_for_only_so_long_although_alarms_are_blocked(world: World) -> None:
    world.place.mkdir(mode=0o700)
    world.environment["NEARCALL_RUN_ANSWER_MS"] = "100"
    blocked = {signal.SIGALRM}
    with (world.place / f"{identity(world.program)}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = world.start(world.program, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, blocked))
        assert outcome(process)[:2] == (PLAIN_CODE, "plain\n")


def test_a_lock_that_was_removed_is_none(world: World) -> None:
    tiny = world.tiny()
    starts = world.directory / "starts"
    world.environment["TINY_START"] = str(starts)
    world.place.mkdir(mode=0o700)
    path = world.place / f"{identity(tiny)}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = world.start(tiny, "word")
        asleep(process)
        path.unlink()
    assert outcome(process) == (7, "ran word\n", "")
    assert len(starts.read_text().splitlines()) == 1


def test_a_plain_program_has_no_child_that_it_did_not_start(world: World) -> None:
    children = world.script(
        "children", '#!/bin/sh\n[ "$1" != --nearcall-resident ] || exec sleep 1000\ncat /proc/$$/task/$$/children\n'
    )
    world.environment["NEARCALL_RUN_ANSWER_MS"] = "100"
    output = world.directory / "output"
    with output.open("w") as file:
        process = world.start(children, stdout=file, stderr=subprocess.DEVNULL)
        assert process.wait(WAIT_S) == 0
    # The one child is cat.
    assert len(output.read_text().split()) == 1
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        if entry.read_bytes() == b"sleep\x001000\0" and os.getsid(int(entry.parent.name)) == int(entry.parent.name):
            environment = entry.with_name("environ").read_bytes()
            if os.fsencode(world.place) in environment:
                os.kill(int(entry.parent.name), signal.SIGKILL)


def test_a_caller_that_ignores_its_children(world: World) -> None:
    tiny = world.tiny()
    process = world.start(tiny, "word", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert outcome(process) == (7, "ran word\n", "")


def test_a_relative_path_is_made_absolute(world: World) -> None:
    tiny = world.tiny()
    assert world.run(".//./tiny", "word") == (7, "ran word\n", "")
    only_resident(tiny)


def test_a_lock_that_is_a_link_is_none(world: World) -> None:
    """What it leads to is not written to."""
    target = world.directory / "target"
    target.write_text("mine")
    world.place.mkdir(mode=0o700)
    (world.place / f"{identity(world.program)}.lock").symlink_to(target)
    assert world.run()[:2] == (PLAIN_CODE, "plain\n")
    assert (target.read_text(), world.starts()) == ("mine", 0)
