"""What the launcher sends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import tempfile
from collections.abc import Iterator

import pytest
from conftest import LAUNCHER, PLAIN_CODE, World, asleep, outcome
from peer import DESCRIPTORS, MAGIC, Connection


def allow_large_environments() -> None:
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, hard))


def test_everything_of_the_run_is_in_the_request(world: World) -> None:
    world.environment["EMPTY"] = ""
    world.environment["BYTES"] = os.fsdecode(b"\xff\n=")
    process, run = world.asked("./program", "one", "", "two words", os.fsdecode(b"\xfe"), umask=0o027)
    assert run.data.startswith(MAGIC)
    assert (run.total, run.version, run.kind, run.process) == (len(run.data), 1, 1, process.pid)
    assert (run.umask, run.rows, run.columns) == (0o027, 0, 0)
    assert run.directory == os.fsencode(world.directory)
    assert run.arguments == [b"./program", b"one", b"", b"two words", b"\xfe"]
    sent = dict(variable.split(b"=", 1) for variable in run.environment)
    assert sent == {os.fsencode(k): os.fsencode(v) for k, v in world.environment.items()}
    run.running()
    run.exited(0)
    assert outcome(process) == (0, "", "")


def test_four_descriptors_are_those_of_the_caller(world: World) -> None:
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as output, ours, theirs:
        process, run = world.asked(world.program, stdin=theirs, stdout=output)
        sent = [os.fstat(descriptor) for descriptor in run.descriptors]
        assert len(sent) == 4
        assert sent[0].st_ino == os.fstat(theirs.fileno()).st_ino
        assert sent[1].st_ino == os.fstat(output.fileno()).st_ino
        assert (sent[3].st_dev, sent[3].st_ino) == (os.stat(world.directory).st_dev, os.stat(world.directory).st_ino)
        run.write(b"from afar")
        run.running()
        run.exited(0)
        assert outcome(process)[0] == 0
        output.seek(0)
        assert output.read() == b"from afar"


def test_in_a_directory_that_was_removed_only_the_name_is_missing(world: World) -> None:
    gone = world.directory / "gone"
    gone.mkdir()
    world.resident()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    shell = world.start("--no-resident", "/bin/sh", "-c", script, gone, LAUNCHER, world.program)
    run = world.residents[0].accept()
    assert run.directory == b""
    assert os.fstat(run.descriptors[3]).st_nlink == 0
    run.running()
    run.exited(3)
    assert outcome(shell)[0] == 3


def test_two_mebibytes_of_environment(world: World) -> None:
    allow_large_environments()
    for i in range(20):
        world.environment[f"LARGE_{i}"] = chr(ord("a") + i) * (105 << 10)
    process, run = world.asked()
    assert run.total > 2 << 20
    assert len(run.first) < run.total
    assert len(run.descriptors) == 4
    assert os.fsencode("LARGE_19=" + world.environment["LARGE_19"]) in run.environment
    run.running()
    run.exited(0)
    assert outcome(process) == (0, "", "")


def test_a_resident_that_leaves_while_it_is_sent_to_has_done_nothing(world: World) -> None:
    allow_large_environments()
    for i in range(20):
        world.environment[f"LARGE_{i}"] = "x" * (105 << 10)
    listener = world.resident().listener
    process = world.start(world.program)
    for _ in range(2):
        connection, _ = listener.accept()
        connection.recv(100)
        connection.close()
    code, out, err = outcome(process)
    assert (code, out) == (PLAIN_CODE, "plain\n")
    assert "ended without an answer" in err


@pytest.mark.parametrize("missing", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_without_a_standard_descriptor_it_runs_plainly(world: World, missing: str) -> None:
    world.resident().listener.setblocking(False)
    note = world.script("note", '#!/bin/sh\necho "plain $1" >"$NOTE"\nexit 9\n')
    world.resident(note).listener.setblocking(False)
    code, _, err = world.run("--no-resident", "/bin/sh", "-c", f'"$0" "$1" word {missing}', LAUNCHER, note)
    assert code == PLAIN_CODE
    assert world.note.read_text() == "plain word\n"
    assert "descriptor is missing" in err or "2>&-" in missing


def test_a_directory_whose_path_is_too_long_for_a_socket(world: World) -> None:
    world.runtime = world.directory / ("deep" * 30) / "run"
    world.runtime.mkdir(mode=0o700, parents=True)
    world.place = world.runtime / "nearcall-resident"
    world.environment["XDG_RUNTIME_DIR"] = str(world.runtime)
    process, run = world.asked()
    run.running()
    run.exited(4)
    assert outcome(process) == (4, "", "")
    tiny = world.tiny()
    assert world.run(tiny, "cold") == (7, "ran cold\n", "")
    code, _, err = world.run(world.program, stdin=None, preexec_fn=lambda: os.close(0))
    assert code == PLAIN_CODE
    assert "descriptor is missing" in err


@pytest.mark.parametrize("name", ["with space+ü", "a" * 40, "v1.2_x-y"])
def test_names_that_a_socket_may_have(world: World, name: str) -> None:
    odd = world.script(name, "#!/bin/sh\n")
    world.resident(odd)
    process, run = world.asked(odd)
    assert run.arguments == [os.fsencode(odd)]
    run.running()
    run.exited(0)
    assert outcome(process) == (0, "", "")


def test_by_a_link_it_is_called_as_the_link(world: World) -> None:
    link = world.directory / "links" / "program"
    link.parent.mkdir()
    link.symlink_to(LAUNCHER)
    world.environment["PATH"] = f"{link.parent}::{world.directory}"
    world.resident()
    process = world.start("a", "b", command=link, cwd="/")
    run = world.residents[0].accept()
    assert run.arguments == [os.fsencode(link), b"a", b"b"]
    run.running()
    run.exited(0)
    assert outcome(process)[0] == 0


def test_a_file_that_was_touched_is_another_program(world: World) -> None:
    first = world.resident()
    first.listener.setblocking(False)
    world.program.chmod(0o700)
    second = world.resident()
    assert first.path != second.path
    process = world.start(world.program)
    run = second.accept()
    run.running()
    run.exited(0)
    assert outcome(process)[0] == 0
    with pytest.raises(BlockingIOError):
        first.listener.accept()


DESCRIPTORS_ON_THE_WAY = 200
PR_CAPBSET_DROP, CAP_SYS_ADMIN, CAP_SYS_RESOURCE = 24, 21, 24


@contextlib.contextmanager
def crowd() -> Iterator[None]:
    """Descriptors of this user that nobody receives while it lasts."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(ours, [b"x"], [ours.fileno()] * DESCRIPTORS_ON_THE_WAY)
        yield


def be_limited() -> None:
    """The kernel lets root, and who has many files, send as many as they want."""
    libc = ctypes.CDLL(None)
    for capability in (CAP_SYS_ADMIN, CAP_SYS_RESOURCE):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS_ON_THE_WAY // 2,) * 2)


def test_too_many_descriptors_on_the_way_are_waited_for(world: World) -> None:
    listener = world.resident().listener
    with crowd():
        process = world.start(world.program, preexec_fn=be_limited)
        connection, _ = listener.accept()
        asleep(process)
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)
    run = Connection(connection)
    assert len(run.descriptors) == DESCRIPTORS
    run.running()
    run.exited(3)
    assert outcome(process) == (3, "", "")


def test_descriptors_that_stay_too_many_are_not_waited_for_long(world: World) -> None:
    world.resident()
    with crowd():
        code, out, err = world.run(world.program, preexec_fn=be_limited)
    assert (code, out) == (PLAIN_CODE, "plain\n")
    assert "too many descriptors" in err


def test_an_interrupt_ends_who_waits_to_send(world: World) -> None:
    listener = world.resident().listener
    with crowd():
        process = world.start(world.program, preexec_fn=be_limited)
        with listener.accept()[0]:
            asleep(process)
            process.send_signal(signal.SIGTERM)
            assert outcome(process)[:2] == (-signal.SIGTERM, "")
