"""Exceptions while a connection is taken or handed back: at any moment."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import select
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
from giver import StartGiver

from nearcall import handoff
from support import PATIENCE_SECONDS, descriptor_count


class Interruption(BaseException):
    """What a signal's handler raises."""


def interrupted(function: Callable[[], object], after: int) -> bool:
    """Runs a function, and raises before so many of the operations that handoff.py does
    in it are done. False: it had fewer."""
    left = after

    def trace(frame: types.FrameType, event: str, argument: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != handoff.__file__:
            return None
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left == 0:
            raise Interruption
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except Interruption:
        return True
    finally:
        sys.settrace(before)
    return False


# Exceptions come to where nothing can close the connection, but its own end.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_exception_in_accept_leaves_no_descriptor(
    listener: handoff.Listener, where: str, giver_of: StartGiver
) -> None:
    giver = giver_of(where, prefix=2)
    with giver.connect() as client:
        client.sendall(b"ab")
        listener.accept(PATIENCE_SECONDS)[0].close()
        assert client.recv(1) == b""
    descriptors = descriptor_count()
    for step in itertools.count(1):
        with giver.connect() as client:
            client.sendall(b"ab")
            select.select([listener], [], [], PATIENCE_SECONDS)
            goes_on = interrupted(lambda: listener.accept(PATIENCE_SECONDS), step)
            # The client sees the end, or its connection is still to be accepted.
            with contextlib.suppress(TimeoutError):
                listener.accept(0.005)[0].close()
            assert descriptor_count() == descriptors + 1, f"operation {step}"
            assert client.recv(1) == b""
        if not goes_on:
            break
    assert step > 50


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_exception_in_hand_back_closes_nothing_else(
    listener: handoff.Listener, where: str, giver_of: StartGiver
) -> None:
    """The number of what was handed back may be another's at once."""
    giver = giver_of(where)
    for step in itertools.count(1):
        with giver.connect() as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            connection, _ = listener.accept(PATIENCE_SECONDS)
            is_it = os.fstat(connection.fileno()).st_ino
            goes_on = interrupted(functools.partial(connection.hand_back, timeout=PATIENCE_SECONDS), step)
            with socket.socket(socket.AF_UNIX) as other:
                assert connection.fileno() < 0 or os.fstat(connection.fileno()).st_ino == is_it, f"operation {step}"
                connection.close()
                assert other.getsockname() == ""
        if not goes_on:
            break
    assert step > 20


def test_what_is_closed_is_not_handed_back(listener: handoff.Listener, where: str, giver_of: StartGiver) -> None:
    giver = giver_of(where)
    with giver.connect():
        connection, _ = listener.accept(PATIENCE_SECONDS)
        connection.close()
        with pytest.raises(ValueError, match="instead of closing it"):
            connection.hand_back()


def test_a_failure_behind_taken_closes(listener: handoff.Listener, where: str, giver_of: StartGiver) -> None:
    """As for want of memory."""
    giver = giver_of(where)
    with giver.connect() as client:
        listener.accept(PATIENCE_SECONDS)[0].close()
        client.recv(1)
    descriptors = descriptor_count()

    def fail(*unused: object) -> None:
        raise MemoryError

    for place in ("_socket.socket", "Meta"):
        with giver.connect() as client, pytest.MonkeyPatch.context() as patch:
            if place == "Meta":
                patch.setattr(handoff, place, fail)
            else:
                patch.setattr(handoff, "_socket", types.SimpleNamespace(socket=types.SimpleNamespace(__init__=fail)))
            with pytest.raises(MemoryError) as kept:
                listener.accept(PATIENCE_SECONDS)
            assert kept.tb is not None
            assert client.recv(1) == b""
        assert descriptor_count() == descriptors
