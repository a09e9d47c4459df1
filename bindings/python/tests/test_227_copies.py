"""What is copied because code of arguments may change it is copied, and given back, within the call's time."""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hostile import Acting

import nearcall
from nearcall import Client
from support import run_python

MANY = 10_000_000
"""Elements, of which all copies are given back in a fifth of a second."""
FEW_BYTES = 1_000_000
LONG = 2_000_000


def allocated_in(call: Callable[[], Any]) -> int:
    """The most bytes that a call, which its deadline ends, has had at once."""
    tracemalloc.start()
    try:
        with pytest.raises(nearcall.DeadlineExceeded) as caught:
            call()
        assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_cannot_be_given_back_in_time_is_not_copied(client: Client) -> None:
    ran: list[bool] = []
    values = [Acting(lambda: ran.append(True)), *[None] * MANY]
    assert allocated_in(lambda: client.call("identity", values, timeout=0.15)) < FEW_BYTES
    assert not ran
    pairs = dict.fromkeys(range(MANY // 4))
    assert allocated_in(lambda: client.call("identity", {"a": Acting(ran.clear), "b": pairs}, timeout=0.09)) < FEW_BYTES


LARGE: dict[str, Callable[[], Any]] = {
    "list": lambda: [Acting(int), *[None] * LONG],
    "dict": lambda: dict.fromkeys(range(LONG)),
    "text": lambda: "\u20ac" * LONG,
}


@pytest.mark.parametrize("name", LARGE)
def test_nothing_is_copied_behind_the_deadline(client: Client, name: str) -> None:
    large = LARGE[name]()
    client.one()

    def be_late() -> None:
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass

    assert allocated_in(lambda: client.call("identity", [Acting(be_late), large], timeout=0.1)) < FEW_BYTES


def test_elements_are_given_back_one_by_one(client: Client) -> None:
    """Not all at the end, which nothing would bound."""
    shared = object.__new__(Acting)
    shared.__init__(int)  # type: ignore[misc]
    counts: list[int] = []
    values = [Acting(int), *[shared] * 1000, Acting(lambda: counts.append(sys.getrefcount(shared)))]
    before = sys.getrefcount(shared)
    client.identity(values)
    assert counts[0] < before + 10
    counts.clear()
    client.identity({str(index): value for index, value in enumerate(values)})
    assert counts[0] < before + 1010


def test_long_text_is_not_kept_in_two_forms(client: Client) -> None:
    text = "a\u20ac\U0001f600\u00e9" * (LONG // 6)
    bytes_before = sys.getsizeof(text)
    assert client.identity(text) == text
    assert sys.getsizeof(text) == bytes_before
    assert client.identity({text: 1}) == {text: 1}


def test_long_text_without_a_form(client: Client) -> None:
    text = "\u20ac" * (LONG - 5) + "\ud800"
    with pytest.raises(nearcall.InvalidArgument, match="no UTF-8 form") as caught:
        client.identity(text)
    cause = caught.value.__cause__
    assert isinstance(cause, UnicodeEncodeError)
    assert cause.start == LONG - 5
    with pytest.raises(nearcall.ResourceExhausted, match="bytes of text are more than any frame may have"):
        client.identity("\u20ac" * 8_000_000)
    with pytest.raises(nearcall.ResourceExhausted, match="frame_bytes_max"):
        client.identity("\u20ac" * LONG)
    assert client.one() == 1


COLLECTED = """
import gc, sys
from nearcall import Client

class Seven:
    def __index__(self):
        return 7

class Clearing:
    def __del__(self):
        values.clear()

whole = [7, *range(1000, 1200)]
with Client(sys.argv[1], timeout=20) as client:
    client.identity([Seven()])
    for count in range(1, 60):
        values = [Seven(), *whole[1:]]
        gc.collect()
        gc.disable()
        garbage = Clearing()
        garbage.itself = garbage
        del garbage
        gc.set_threshold(count)
        gc.enable()
        sent = client.identity(values)
        gc.set_threshold(700)
        assert sent in (whole, []), sent
"""


def test_collection_while_a_list_is_copied(address: str) -> None:
    """It may begin wherever an object is made; a finalizer changes the list then."""
    done = run_python(COLLECTED, address)
    assert (done.returncode, done.stderr) == (0, "")
