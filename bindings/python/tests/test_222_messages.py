"""Messages name what fits, and do not repeat what is large."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall import Client
from scripted import ScriptedServer, function

HUGE = 10**5000


class Unshown:
    def __repr__(self) -> str:
        raise RuntimeError("no text")

    def __hash__(self) -> int:
        return 1


CALLS: dict[str, tuple[Callable[[Client], Any], str]] = {
    "int64": (lambda client: client.ack(HUGE, 1), r"an integer of 16610 bits does not fit int64 \(-9223"),
    "int8": (lambda client: client.kinds(True, -HUGE, 1, 1, 1, 0, 0, "", b""), r"16610 bits does not fit int8 \(-128"),
    "uint": (lambda client: client.kinds(True, 1, 1, HUGE, 1, 0, 0, "", b""), r"16610 bits does not fit uint[0-9]+ \("),
    "any": (lambda client: client.identity([HUGE]), r"16610 bits does not fit uint64 \(0 to 18446744073709551615\)"),
    "key": (lambda client: client.identity({"k" * 5_000_000: 1j}), r"\['k+\.\.\.k+'\]: takes any, got complex"),
    "bytes as key": (lambda client: client.identity({b"k" * 5_000_000: 1j}), r"\[b'k+\.\.\.k+'\]: takes any"),
    "key without text": (lambda client: client.identity({Unshown(): 1}), "takes any, got Unshown"),
    "field": (lambda client: client.greet({"k" * 5_000_000: 1}), r"has no field 'k+\.\.\.k+'; it has name, age, tags"),
    "class": (lambda client: client.ack(type("K" * 5_000_000, (), {})(), 1), "takes int64, got KKK"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_large_values_are_shortened(client: Client, name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises(nearcall.InvalidArgument, match=message) as caught:
        call(client)
    assert len(caught.value.message) < 400


class Raising(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


NAMED: list[Any] = [
    *(type(name, (), {}) for name in ("list", "dict", "str", "tuple", "set", "array", "deque", "int", "a b")),
    Raising("Odd", (), {}), Raising("Odd", (Unshown,), {}), type("Text", (str,), {"__repr__": lambda self: self}),
]  # fmt: skip


@pytest.mark.parametrize("kind", NAMED, ids=range(len(NAMED)))
def test_names_of_classes_mean_nothing(client: Client, kind: Any) -> None:
    for key in (kind(), (1, kind()), frozenset([kind()])):
        with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(value\)\["):
            client.identity({key: 1j})
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(\w+\): takes int64, got (Odd|Text|[a-z ]+) "):
        client.ack(kind(), 1)
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(person\): struct Person has no field "):
        client.greet({kind(): 1})


def test_key_that_holds_what_is_large(client: Client) -> None:
    for key in ((HUGE, 1), (("k" * 5_000_000,), 1), frozenset([b"k" * 5_000_000])):
        with pytest.raises(nearcall.InvalidArgument) as caught:
            client.greet({key: 1})
        assert len(caught.value.message) < 400


def test_fields_are_listed(client: Client) -> None:
    class Person:
        def __init__(self) -> None:
            self.name, self.tags, self.nickname = "Ann", [], "A"

    for value in ({"nmae": "Ann"}, Person()):
        with pytest.raises(nearcall.InvalidArgument, match=r"has no field '(nmae|nickname)'.*; it has name, age, tags"):
            client.greet(value)


class Emptying(str):
    """A key that empties what it leads to when it is shown, and takes what was freed into use again."""

    __slots__ = ("kept", "table")

    def __repr__(self) -> str:
        self.table.clear()
        self.kept = ["".join(["another", str(number % 10)]) for number in range(1000)]
        return "key"


@pytest.mark.parametrize("more", [0, 5])
def test_name_whose_place_drops_it(folder: Path, more: int) -> None:
    types = {"Person": {"fields": [{"name": "name", "type": "string"}]}}
    key = Emptying("ann")
    with (
        ScriptedServer(folder / "f", function([{"map": ["string", {"struct": "Person"}]}], [], types=types)) as server,
        Client(server.address) as client,
    ):
        for _ in range(10):
            key.table = {"".join(["misname", str(number)]): 1 for number in range(1 + more)}
            told = r"\(p0\)\[key\]: .* has no field 'misname0'; it has name"
            with pytest.raises(nearcall.InvalidArgument, match=told):
                client.f({key: key.table})
