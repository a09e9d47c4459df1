"""Work on arguments ends by the deadline, and lets signals in, also where values cost time and take no bytes."""

from __future__ import annotations

import asyncio
import decimal
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall import AsyncClient, Client
from scripted import ScriptedServer, function
from support import PATIENCE_SECONDS, TESTS, ring_during, run_python

SLOTS = 1_000_000
TIMES = 10_000
FEW_SECONDS = 10
"""Far below what the same takes without an end: minutes."""
PERSON = {"fields": [{"name": "name", "type": {"optional": "string"}}, {"name": "age", "type": {"optional": "int64"}}]}
STRUCT = {"struct": "Person"}


class Thing:
    """An object with attributes."""


class Asked(Mapping[str, Any]):
    """A mapping that is no dict, over one that is."""

    def __init__(self, table: dict[Any, Any]) -> None:
        self.table = table

    def __getitem__(self, key: str) -> Any:
        return self.table[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)


class Own(dict[Any, Any]):
    """One whose class has code of its own."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key)


def emptied(table: dict[Any, Any]) -> dict[Any, Any]:
    """A dict that was large: its table stays."""
    for number in range(SLOTS):
        table[number] = None
    for number in range(SLOTS):
        del table[number]
    return table


def with_last(table: dict[Any, Any]) -> dict[Any, Any]:
    """The same with something in the last slot."""
    for number in range(SLOTS):
        table[number] = None
    table["name"] = "Ann"
    for number in range(SLOTS):
        del table[number]
    return table


def thing(fill: Callable[[dict[Any, Any]], dict[Any, Any]], **attributes: Any) -> Thing:
    made = Thing()
    made.__dict__.update(attributes)
    fill(made.__dict__)
    return made


def classes_of(depth: int) -> type:
    """A class of dicts that inherits from so many."""
    kind: type = dict
    for _ in range(depth):
        kind = type("Deep", (kind,), {})
    return kind


def two_deep_ones() -> list[Any]:
    first, second = (classes_of(400)() for _ in range(2))
    return [first, second] * (20 * TIMES)


VALUES: dict[str, tuple[Any, Callable[[], Any]]] = {
    "dicts for any": ("any", lambda: [with_last({})] * TIMES),
    "dicts for maps": ({"list": {"map": ["string", "string"]}}, lambda: [with_last({})] * TIMES),
    "dicts for structs": ({"list": STRUCT}, lambda: [with_last({})] * TIMES),
    "dicts in a dict": ({"map": ["string", "any"]}, lambda: dict.fromkeys(map(str, range(TIMES)), with_last({}))),
    "dicts in a tuple": ("any", lambda: (with_last({}),) * TIMES),
    "objects": ({"list": STRUCT}, lambda: [thing(with_last)] * TIMES),
    "an iterable of dicts": ({"list": "any"}, lambda: iter([with_last({})] * TIMES)),
    "an iterable of lists of dicts": ({"list": "any"}, lambda: iter([[with_last({})] * TIMES] * 2)),
    "an iterable of objects": ({"list": STRUCT}, lambda: iter([thing(with_last)] * TIMES)),
    "a mapping of dicts": ({"map": ["string", "any"]}, lambda: Asked({"a": [with_last({})] * TIMES})),
    "classes of many classes": ({"list": {"map": ["string", "any"]}}, two_deep_ones),
    "decimals": ({"list": "float64"}, lambda: [decimal.Decimal("0.5" + "0" * SLOTS)] * TIMES),
}
EMPTY: dict[str, tuple[Any, Callable[[], Any]]] = {
    "dicts for any": ("any", lambda: emptied({})),
    "dicts for maps": ({"map": ["string", "string"]}, lambda: emptied({})),
    "dicts for structs": (STRUCT, lambda: emptied({})),
    "dicts with code of their own": ({"map": ["string", "string"]}, lambda: emptied(Own())),
    "objects": (STRUCT, lambda: thing(emptied, name="Ann")),
}


@pytest.fixture
def serve(folder: Path) -> Callable[[Any], ScriptedServer]:
    return lambda kind: ScriptedServer(folder / "f.sock", function([kind], [], types={"Person": PERSON}))


class Timed:
    """How long a call took."""

    def __enter__(self) -> Timed:
        self.start = time.monotonic()
        return self

    def __exit__(self, *unused: object) -> None:
        self.seconds = time.monotonic() - self.start


@pytest.mark.parametrize("name", VALUES)
def test_ends_by_the_deadline(serve: Callable[[Any], ScriptedServer], name: str) -> None:
    kind, make = VALUES[name]
    value = make()
    with serve(kind) as server, Client(server.address, timeout=60) as client:
        client.connect()
        with Timed() as timed, pytest.raises(nearcall.DeadlineExceeded) as caught:
            client.call("f", value, timeout=0.3)
    assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
    assert timed.seconds < FEW_SECONDS
    assert not server.requests


class Rung(Exception):
    pass


@pytest.fixture
def ring() -> Iterator[None]:
    def raise_rung(*_: object) -> None:
        raise Rung

    former = signal.signal(signal.SIGALRM, raise_rung)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


@pytest.mark.parametrize("name", VALUES)
def test_signals_come_in(serve: Callable[[Any], ScriptedServer], ring: None, name: str) -> None:
    kind, make = VALUES[name]
    value = make()
    with serve(kind) as server, Client(server.address) as client:
        client.connect()
        with Timed() as timed, pytest.raises(Rung):
            ring_during(0.2, lambda: client.call("f", value, timeout=PATIENCE_SECONDS))
        assert timed.seconds < FEW_SECONDS
        assert not server.requests
        client.call("f", None if kind == "any" else [] if "list" in kind else {})


CHANGED: dict[str, tuple[Any, Any]] = {
    "durations": ("duration", 1),
    "optional durations": ({"optional": "duration"}, 1.5),
    "large integers for floats": ("float64", 2**60),
    "integers": ("int64", 5),
}


@pytest.mark.parametrize("name", CHANGED)
def test_list_that_a_handler_changes_is_sent_as_it_was(serve: Callable[[Any], ScriptedServer], name: str) -> None:
    kind, value = CHANGED[name]
    values: list[Any] = []
    former = signal.signal(signal.SIGALRM, lambda *_: values.clear())
    try:
        with serve({"list": kind}) as server, Client(server.address, timeout=PATIENCE_SECONDS) as client:
            client.call("f", [value] * 20 * TIMES)
            whole = server.requests.pop()
            sent = b""
            # Where the handler comes before the call, what is sent is empty.
            while values or sent != whole:
                values[:] = [value] * 20 * TIMES
                ring_during(0.005, lambda: client.call("f", values))
                signal.setitimer(signal.ITIMER_REAL, 0)
                sent = server.requests.pop()
                assert sent in (whole, b"\x91\x90")
    finally:
        signal.signal(signal.SIGALRM, former)


@pytest.mark.parametrize("name", EMPTY)
def test_what_was_emptied_costs_nothing(serve: Callable[[Any], ScriptedServer], name: str) -> None:
    kind, make = EMPTY[name]
    values = [make()] * TIMES
    with serve({"list": kind}) as server, Client(server.address, timeout=PATIENCE_SECONDS) as client:
        with Timed() as timed:
            client.call("f", values)
        assert len(server.requests) == 1
    assert timed.seconds < FEW_SECONDS


def test_set_that_was_emptied(serve: Callable[[Any], ScriptedServer]) -> None:
    values = set(range(SLOTS))
    while len(values) > 1:
        values.discard(len(values) - 1)
    with serve({"list": "int64"}) as server, Client(server.address) as client:
        client.call("f", values)
        client.call("f", frozenset(values))
        assert server.requests == [b"\x91\x91\x00"] * 2


def test_async_client(serve: Callable[[Any], ScriptedServer], ring: None) -> None:
    value = [with_last({})] * TIMES

    async def main(address: str) -> None:
        async with AsyncClient(address, timeout=PATIENCE_SECONDS) as client:
            with Timed() as timed, pytest.raises(nearcall.DeadlineExceeded):
                await client.call("f", value, timeout=0.3)
            assert timed.seconds < FEW_SECONDS
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with Timed() as timed, pytest.raises(Rung):
                await client.call("f", value)
            assert timed.seconds < FEW_SECONDS
            await client.call("f", [])

    with serve("any") as server:
        asyncio.run(main(server.address))
        assert server.requests == [b"\x91\x90"]


GREEN = """
import sys, time
sys.path.insert(0, sys.argv[2])
from test_520_greenlets import SETUP
exec(SETUP[sys.argv[3]])
import nearcall
from test_227_work import TIMES, FEW_SECONDS, with_last

value = [with_last({})] * TIMES
with Client(sys.argv[1], timeout=60) as go:
    start = time.monotonic()
    try:
        go.call("f", value, timeout=0.3)
    except nearcall.DeadlineExceeded as error:
        assert error.outcome is nearcall.Outcome.NOT_EXECUTED
    else:
        raise AssertionError("no end")
    assert time.monotonic() - start < FEW_SECONDS
    go.call("f", [])
"""


@pytest.mark.parametrize("kind", ["gevent", "eventlet"])
def test_greenlets(serve: Callable[[Any], ScriptedServer], kind: str) -> None:
    command = [sys.executable, "-c", GREEN]
    with serve("any") as server:
        done = subprocess.run([*command, server.address, str(TESTS), kind], timeout=2 * PATIENCE_SECONDS, check=False)
        assert done.returncode == 0
        assert server.requests == [b"\x91\x90"]


def test_list_that_a_handler_empties(client: Client) -> None:
    """What it had when the handler ran is sent, or nothing of it, but never a part."""
    numbers: list[int] = []
    full = list(range(300_000))
    former = signal.signal(signal.SIGALRM, lambda *_: numbers.clear())
    try:
        for attempt in range(20):
            numbers[:] = full
            signal.setitimer(signal.ITIMER_REAL, 0.0003 * (attempt + 1))
            assert client.identity(numbers) in (full, [])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


MEMORY = """
import resource, sys
import nearcall

with nearcall.Client(sys.argv[1], timeout=60) as client:
    client.connect()
    text = "\\u20ac" * 200_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, value in (("identity", text), ("identity", [text]), ("identity", {"a": text}), ("identity", {text: 1}),
                        ("greet", {"name": "A", "tags": iter([text])})):
        try:
            client.call(name, value)
        except nearcall.ResourceExhausted as error:
            assert error.outcome is nearcall.Outcome.NOT_EXECUTED
        else:
            raise AssertionError("sent")
    for call in (client.call, client.begin, client.function, lambda name: client.call_raw(name, b""),
                 lambda name: getattr(client, name)):
        try:
            call(text)
        except nearcall.InvalidArgument:
            pass
        else:
            raise AssertionError("called")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000, f"{grown} KiB more"
"""


def test_size_is_looked_at_first(address: str) -> None:
    """What is larger than any frame is not converted, and not kept."""
    done = run_python(MEMORY, address)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("kind", "value", "things"),
    [
        ("string", "x" * 16_777_216, "16777216 characters"),
        ("bytes", b"x" * 16_777_216, "16777216 bytes"),
        ("bytes", bytearray(16_777_216), "16777216 bytes"),
        ("bytes", memoryview(bytes(16_777_216)), "16777216 bytes"),
        ({"list": "bool"}, [True] * 16_777_216, "16777216 elements"),
        ({"list": "bool"}, (True,) * 16_777_216, "16777216 elements"),
    ],
)  # fmt: skip
def test_what_no_frame_holds(serve: Callable[[Any], ScriptedServer], kind: Any, value: Any, things: str) -> None:
    with serve(kind) as server, Client(server.address) as client:
        with pytest.raises(nearcall.ResourceExhausted, match=rf"argument 1 \(p0\): {things} are more than") as caught:
            client.call("f", value)
        assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
        assert not server.requests
