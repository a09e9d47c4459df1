"""Arguments with code of their own cannot crash, hang or corrupt the encoder; nor can what runs while it decodes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hostile import ATTACKS, Attack

from nearcall import Client
from support import PATIENCE_SECONDS, TESTS

# Reads and writes outside of what is allocated; python3 itself compares values that were never set.
VALGRIND = ["valgrind", "--quiet", "--undef-value-errors=no", "--error-exitcode=99", "--max-stackframe=16000000"]


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
