"""Names of classes with code of their own are what they are for clients of gevent and eventlet as well."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support import PATIENCE_SECONDS, TESTS

GREEN = """
import sys
sys.path.insert(0, sys.argv[2])
from test_520_greenlets import SETUP
exec(SETUP[sys.argv[3]])
from test_228_names import Liar

with Client(sys.argv[1], timeout=60) as go:
    assert go.call("one") == 1
    assert go.call(Liar("identity"), 7) == 7
    assert go.function(Liar("identity"))(7) == 7
    assert getattr(go, Liar("identity"))(7) == 7
    try:
        go.call("one", timeout=True)
    except TypeError:
        pass
    else:
        raise AssertionError("a timeout")
"""


@pytest.mark.parametrize("kind", ["gevent", "eventlet"])
def test_greenlets(address: str, kind: str) -> None:
    command = [sys.executable, "-c", GREEN, address, str(TESTS), kind]
    assert subprocess.run(command, timeout=2 * PATIENCE_SECONDS, check=False).returncode == 0
