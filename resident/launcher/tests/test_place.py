"""Only a directory of the user's alone is a place for residents."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from conftest import LAUNCHER, PLAIN_CODE, World
from peer import WAIT_S, identity

OTHER_USER = 65534
PLAIN = (PLAIN_CODE, "plain\n")


def run_in_unsafe(world: World) -> None:
    code, out, err = world.run()
    assert (code, out) == PLAIN
    assert f"{world.place} is not a directory of this user's alone" in err
    assert world.starts() == 0


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701, 0o777, 0o720])
def test_one_that_others_may_use(world: World, mode: int) -> None:
    world.resident()
    world.place.chmod(mode)
    run_in_unsafe(world)


def test_a_link_to_one(world: World) -> None:
    elsewhere = world.directory / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    world.place.symlink_to(elsewhere)
    run_in_unsafe(world)


def test_a_file(world: World) -> None:
    world.place.touch(mode=0o700)
    run_in_unsafe(world)


def test_one_of_another_user(world: World) -> None:
    world.resident()
    os.chown(world.place, OTHER_USER, -1)
    run_in_unsafe(world)


def test_it_is_made_for_the_user_alone(world: World) -> None:
    assert world.run(umask=0)[:2] == PLAIN
    assert world.place.stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize("umask", [0o777, 0o200, 0o700])
def test_a_strange_umask_of_the_first_run_does_not_matter(world: World, umask: int) -> None:
    assert world.run(umask=umask)[:2] == PLAIN
    assert world.place.stat().st_mode & 0o7777 == 0o700
    modes = {path.suffix: path.stat().st_mode & 0o7777 for path in world.place.iterdir()}
    assert modes[".lock"] == modes[".log"] == 0o600
    assert modes[".sock"] == 0o700


def temporary(user: int) -> Path:
    return Path(f"/tmp/nearcall-resident-{user}")


@pytest.mark.parametrize("value", [None, "", "relative", "/no/such/directory", "/" + "long" * 1100])
def test_without_a_runtime_directory_it_is_below_tmp(world: World, value: str | None) -> None:
    world.environment.pop("XDG_RUNTIME_DIR")
    if value is not None:
        world.environment["XDG_RUNTIME_DIR"] = value
    assert world.run()[:2] == PLAIN
    left = list(temporary(os.geteuid()).glob(identity(world.program) + ".*"))
    assert {path.suffix for path in left} == {".sock", ".lock", ".log"}
    for path in left:
        path.unlink()


def test_nothing_is_made_in_another_users_runtime_directory(world: World) -> None:
    os.chown(world.runtime, OTHER_USER, -1)
    assert world.run()[:2] == PLAIN
    assert not world.place.exists()
    for path in temporary(os.geteuid()).glob(identity(world.program) + ".*"):
        path.unlink()


def test_another_user_who_listens_gets_nothing(world: World) -> None:
    world.place.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(world.place / (identity(world.program) + ".sock")))
        os.seteuid(OTHER_USER)
        listener.listen()
        os.seteuid(0)
        code, out, err = world.run()
        assert (code, out) == PLAIN
        assert "another user listens" in err
        listener.settimeout(WAIT_S)
        assert listener.accept()[0].recv(1) == b""


def test_a_launcher_with_other_rights_than_its_caller(world: World) -> None:
    world.resident()
    world.directory.chmod(0o755)
    copy = world.directory / "setuid"
    shutil.copy(LAUNCHER, copy)
    os.chown(copy, OTHER_USER, -1)
    copy.chmod(0o4755)
    code, out, err = world.run(world.program, command="nearcall-run", executable=copy)
    assert (code, out) == PLAIN
    assert "other rights than its caller" in err


def test_a_program_with_other_rights_than_its_caller(world: World) -> None:
    world.program.chmod(0o4755)
    world.resident()
    code, out, err = world.run()
    assert (code, out) == PLAIN
    assert "setuid" in err
