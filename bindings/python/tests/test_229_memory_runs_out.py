"""Where memory runs out within a call, that is what the call says: nothing else is blamed for it."""

from __future__ import annotations

import pytest

from support import run_python

# Fails one allocation after the other, in a process of its own: nothing else is disturbed by that.
AT_EACH_POINT = """
import sys, _testcapi, nearcall
seen = set()
for point in range(300):
    with nearcall.Client(sys.argv[1], timeout=20) as client:
        call = CALL
        _testcapi.set_nomemory(point, point + 1)
        try:
            call()
        except MemoryError:
            seen.add("MemoryError")
        except nearcall.ResourceExhausted as error:
            seen.add(error.message)
        finally:
            _testcapi.remove_mem_hooks()
print(*sorted(seen), sep="|")
"""

LOST = "the reply cannot be taken over into Python: MemoryError"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('lambda: client.greet({"name": "Ann"})', "MemoryError"),
        ('(client.identity(0), lambda: client.identity([["text"] * 9]))[1]', LOST),
    ],
    ids=["description", "reply"],
)
def test_memory_runs_out(address: str, call: str, said: str) -> None:
    result = run_python(AT_EACH_POINT.replace("CALL", call), address)
    assert result.returncode == 0, result.stderr
    points = result.stdout.strip().split("|")
    assert said in points
    assert set(points) <= {"MemoryError", LOST}
