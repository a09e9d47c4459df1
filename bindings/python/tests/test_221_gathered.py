"""What iterables and mappings give is gathered before it is encoded: no more of it than a frame may have."""

from __future__ import annotations

import dataclasses
import itertools
import types
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearcall
from nearcall import Client
from scripted import ScriptedServer, function

FRAME_BYTES_MAX = 16_777_215
EMPTY_BYTES = 16
PERSON = {"fields": [{"name": "name", "type": "string"}, {"name": "notes", "type": {"optional": {"list": "string"}}}]}
PERSONS = {"list": {"struct": "Person"}}
LARGE = 1_000_000


@dataclasses.dataclass
class Person:
    name: str
    notes: list[str]
    _seen: str = "x" * LARGE


class Mapping:
    """Counts the keys and values that it is asked for."""

    def __init__(self, key: Callable[[int], str]) -> None:
        self.key, self.asked = key, 0

    def keys(self) -> Iterator[str]:
        for number in range(100):
            self.asked += 1
            yield self.key(number)

    def __getitem__(self, key: str) -> str:
        self.asked += 1
        return "x" * LARGE


CASES: dict[str, tuple[Any, Callable[[], Any]]] = {
    "text": ("string", lambda: "x" * LARGE),
    "wide text": ("string", lambda: "\u20ac" * (LARGE // 4)),
    "bytes": ("bytes", lambda: b"x" * LARGE),
    "bytearray": ("bytes", lambda: bytearray(LARGE)),
    "memoryview": ("bytes", lambda: memoryview(b"x" * LARGE)),
    "array": ("bytes", lambda: np.zeros(LARGE, np.uint8)),
    "optional": ({"optional": "string"}, lambda: "x" * LARGE),
    "lists of texts": ({"list": "string"}, lambda: ["x" * 10_000] * 100),
    "lists of integers": ({"list": "uint64"}, lambda: (2**40,) * 100_000),
    "lists of small integers": ({"list": "int64"}, lambda: [-100, 200, -30_000, 60_000, 2**31, -1] * 50_000),
    "lists of floats": ({"list": "float64"}, lambda: [1.5] * 100_000),
    "maps": ({"map": ["string", "string"]}, lambda: {"a": "x" * LARGE}),
    "keys of maps": ({"map": ["string", "bool"]}, lambda: {"x" * LARGE: True}),
    "dicts": ({"struct": "Person"}, lambda: {"name": "x" * LARGE}),
    "objects": ({"struct": "Person"}, lambda: Person("A", ["x" * 100_000] * 10)),
    "any": ("any", lambda: [{"a": ("x" * 500_000, b"y" * 500_000)}]),
}  # fmt: skip


@pytest.fixture
def call(folder: Path) -> Callable[[Any, Any], ScriptedServer]:
    numbers = itertools.count()

    def call(kind: Any, value: Any) -> ScriptedServer:
        description = function([kind], [], types={"Person": PERSON})
        with ScriptedServer(folder / f"{next(numbers)}", description) as server, Client(server.address) as client:
            client.call("f", value, timeout=50)
        return server

    return call


def refused(call: Callable[[Any, Any], Any], kind: Any, value: Any) -> None:
    with pytest.raises(nearcall.ResourceExhausted, match=r"gives more than .*frame_bytes_max") as caught:
        call(kind, value)
    assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED


@pytest.mark.parametrize("name", CASES)
def test_iterable(call: Callable[[Any, Any], Any], name: str) -> None:
    kind, make = CASES[name]
    asked = 0

    def endless() -> Iterator[Any]:
        nonlocal asked
        for number in range(1, 100):
            asked = number
            yield make()

    refused(call, {"list": kind}, endless())
    assert asked < 80


@pytest.mark.parametrize("name", CASES)
def test_what_fits_is_not_refused(call: Callable[[Any, Any], ScriptedServer], name: str) -> None:
    """As many as fit, by the size that they have in a request. The server takes less, and says so itself."""
    kind, make = CASES[name]
    small = make()[:60] if isinstance(kind, dict) and "list" in kind else make()
    one, two = (len(call({"list": kind}, (small for _ in range(count))).requests[-1]) for count in (1, 2))
    count = (FRAME_BYTES_MAX - 100) // (two - one)
    with pytest.raises(nearcall.ResourceExhausted, match="than the largest frame the server takes"):
        call({"list": kind}, (small for _ in range(count)))


def test_endless_integers(call: Callable[[Any, Any], Any]) -> None:
    numbers = itertools.count(2**40)
    refused(call, {"list": "int64"}, numbers)
    assert next(numbers) - 2**40 <= FRAME_BYTES_MAX / 9 + 1


@pytest.mark.parametrize("key", [str, lambda number: str(number) + "x" * LARGE], ids=["values", "keys"])
def test_mapping(call: Callable[[Any, Any], Any], key: Callable[[int], str]) -> None:
    mapping = Mapping(key)
    refused(call, {"map": ["string", "string"]}, mapping)
    assert mapping.asked <= 100 + 17


def test_value_of_ever_more_parts_is_not_walked_to_its_end(call: Callable[[Any, Any], Any]) -> None:
    value: Any = "text"
    for _ in range(10):
        value = [value] * 1000
    refused(call, {"list": "any"}, (value for _ in range(100)))


class Empty:
    pass


EMPTY: dict[str, tuple[Any, Callable[[], Any]]] = {
    "lists": ({"list": "int64"}, list),
    "dicts": ({"struct": "Person"}, dict),
    "objects": ({"struct": "Person"}, Empty),
    "generators": ({"list": "int64"}, lambda: (number for number in ())),
    "lists for any": ("any", list),
    "objects for any": ("any", Empty),
}


@pytest.mark.parametrize("name", EMPTY)
def test_what_is_empty_takes_memory(call: Callable[[Any, Any], Any], name: str) -> None:
    kind, make = EMPTY[name]
    asked = 0

    def endless() -> Iterator[Any]:
        nonlocal asked
        while True:
            asked += 1
            yield make()

    refused(call, {"list": kind}, endless())
    assert asked <= FRAME_BYTES_MAX // EMPTY_BYTES + 1


@pytest.mark.parametrize(
    ("kind", "make"),
    [({"list": "int64"}, lambda: iter(())), ({"map": ["string", "int64"]}, lambda: types.MappingProxyType({}))],
    ids=["iterables", "mappings"],
)
def test_what_gives_nothing_takes_memory(call: Callable[[Any, Any], Any], kind: Any, make: Callable[[], Any]) -> None:
    """What each gives is kept until the call has ended."""
    many = FRAME_BYTES_MAX // EMPTY_BYTES
    values = [make() for _ in range(many)]
    assert len(call({"list": kind}, values).requests[-1]) > many
    same = [values[0]] * 2
    assert call({"list": kind}, values[:-1] + same).requests
    with pytest.raises(nearcall.ResourceExhausted, match=r"more iterables and mappings .*frame_bytes_max") as caught:
        call({"list": kind}, [*values, make()])
    assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED


ROW = {"id": 1, "name": "Ann"}
MISFITS: dict[str, tuple[Any, Any, str]] = {
    "dicts": ("int64", ROW, "takes int64, got dict"),
    "texts": ("int64", "7", "takes int64, got str"),
    "floats": ("int64", 1.5, "takes int64, got float"),
    "none": ("float64", None, "takes float64, got NoneType"),
    "texts for floats": ("float64", "1.5", "takes float64, got str"),
    "integers": ("string", 7, "takes string, got int"),
    "bytes": ("string", b"x", "takes string, got bytes"),
    "texts for bytes": ("bytes", "x", "takes bytes, got str"),
    "integers for truths": ("bool", 1, "takes bool, got int"),
    "times": ("time", 5, "takes time, got int"),
    "texts for durations": ("duration", "5", "takes duration, got str"),
    "texts for lists": ({"list": "string"}, "ab", "takes list of string, got str"),
    "dicts for lists": ({"list": "string"}, ROW, "takes list of string, got dict"),
    "lists for maps": ({"map": ["string", "any"]}, [ROW], "takes map, got list"),
    "lists for structs": ({"struct": "Person"}, ["Ann"], "takes struct Person, got list"),
    "texts for structs": ({"struct": "Person"}, "Ann", "takes struct Person, got str"),
    "optional": ({"optional": "int64"}, "7", "takes int64, got str"),
    "within a list": ({"list": "int64"}, [1, "2"], r"\[1\]: takes int64, got str"),
    "within a map": ({"map": ["string", "int64"]}, {"a": "b"}, r"\['a'\]: takes int64, got str"),
    "within a struct": ({"struct": "Person"}, {"name": 5}, r"\.name: takes string, got int"),
    "no field": ({"struct": "Person"}, {"nmae": "Ann"}, "struct Person has no field 'nmae'"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_nothing_is_taken_behind_what_can_never_fit(call: Callable[[Any, Any], Any], name: str) -> None:
    kind, value, message = MISFITS[name]
    taken = 0

    def rows() -> Iterator[Any]:
        nonlocal taken
        while taken < 1000:
            taken += 1
            yield value

    with pytest.raises(nearcall.InvalidArgument, match=rf"argument 1 \(p0\)\[0\].*{message}") as caught:
        call({"list": kind}, rows())
    assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
    assert taken == 1


@pytest.mark.parametrize("value", [Decimal(5), np.int8(5), 5, 2**60, True])
def test_numbers_of_all_classes_fit(call: Callable[[Any, Any], ScriptedServer], value: Any) -> None:
    for kind in ("float32", "float64", "float64" if isinstance(value, Decimal) else "int64"):
        assert call({"list": kind}, (value for _ in range(3))).requests


def test_where_another_description_takes_it_the_rest_is_asked_for(folder: Path) -> None:
    path, numbers = folder / "server", (str(number) for number in range(100))
    with ScriptedServer(path, function([{"list": "int64"}], [])) as former, Client(former.address) as client:
        client.call("f", [1])
        former.close()
        path.unlink()
        with ScriptedServer(path, function([{"list": "string"}], [])) as successor:
            client.call("f", numbers)
            client.call("f", list(map(str, range(100))))
    assert len(successor.requests) == 2
    assert successor.requests[0] == successor.requests[1]
