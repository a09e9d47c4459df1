"""Arguments with code of their own cannot crash, hang or corrupt the encoder; nor can what runs while it decodes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile import ATTACKS, Attack

import nearcall
from nearcall import Client
from support import PATIENCE_SECONDS, REPOSITORY, TESTS, Server

# Reads and writes outside of what is allocated; python3 itself compares values that were never set.
VALGRIND = ["valgrind", "--quiet", "--undef-value-errors=no", "--error-exitcode=99", "--max-stackframe=16000000"]


SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]


class Ended(BaseException):
    """As SystemExit, and what handlers of signals raise."""


class Raising:
    def __getattr__(self, name: str) -> object:
        raise Ended(name)


class RaisingType(type):
    def __getattr__(cls, name: str) -> object:
        raise Ended(name)


def test_what_looking_for_an_attribute_raises_is_raised(start_server: Callable[..., Server]) -> None:
    class OfRaisingType(metaclass=RaisingType):
        pass

    with Client(start_server("-files").address) as client:
        for name, kind in (("file_read", Raising), ("greet", OfRaisingType)):
            with pytest.raises(Ended):
                client.call(name, kind())
            assert client.one() == 1


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_withstood(client: Client, attack: Attack) -> None:
    attack(client)
    assert client.one() == 1


@pytest.mark.parametrize("allocator", ["debug", "malloc"])
def test_memory_stays_whole(address: str, allocator: str) -> None:
    checker = VALGRIND if allocator == "malloc" else []
    done = subprocess.run(
        [*checker, sys.executable, str(TESTS / "hostile.py"), address],
        env={**os.environ, "PYTHONMALLOC": allocator},
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "all were withstood\n"


@pytest.fixture
def sanitized(tmp_path: Path) -> Path:
    """A folder with the package as it is installed, but an extension that the sanitizers watch."""
    shutil.copytree(Path(nearcall.__file__).parent, tmp_path / "nearcall", ignore=shutil.ignore_patterns("*.so"))
    library = REPOSITORY / "libnearcall"
    sources = [*(REPOSITORY / "bindings/python/csrc").glob("*.c"), *(library / "src").glob("*/*.c")]
    folders = [sysconfig.get_path("include"), library / "include", library / "src"]
    command = ["gcc", "-shared", "-fPIC", "-O1", "-g", "-std=c11", "-D_GNU_SOURCE", "-DPy_LIMITED_API=0x030B0000"]
    command += [*SANITIZERS, *(f"-I{folder}" for folder in folders), *map(str, sources), "-lm"]
    subprocess.run([*command, "-o", tmp_path / "nearcall" / "_core.abi3.so"], timeout=5 * PATIENCE_SECONDS, check=True)
    return tmp_path


def test_sanitizers_find_nothing(address: str, sanitized: Path) -> None:
    libraries = [
        subprocess.check_output(["gcc", f"-print-file-name=lib{name}.so"], text=True).strip()
        for name in ("asan", "ubsan")
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",  # python3 itself keeps what it has until it ends
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(sanitized),
    }
    done = subprocess.run(
        [sys.executable, str(TESTS / "hostile.py"), address],
        env=environment,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "all were withstood\n"
