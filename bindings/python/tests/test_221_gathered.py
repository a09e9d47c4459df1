"""What iterables and mappings give is gathered before it is encoded: no more of it than a frame may have."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearcall
from nearcall import Client
from scripted import ScriptedServer, function

FRAME_BYTES_MAX = 16_777_215
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
