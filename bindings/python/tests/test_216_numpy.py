"""Values of numpy, and buffers: numbers are numbers, and only bytes are bytes."""

from __future__ import annotations

import array
import ctypes
import datetime
import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearcall
from nearcall import Client, Outcome
from scripted import ScriptedServer, function

SCALARS: list[tuple[Any, Any]] = [
    (np.int8(-5), -5), (np.int16(5), 5), (np.int32(-70_000), -70_000), (np.int64(2**62), 2**62),
    (np.uint8(200), 200), (np.uint64(2**64 - 1), 2**64 - 1), (np.longlong(7), 7),
    (np.float16(0.5), 0.5), (np.float32(0.25), 0.25), (np.float64(0.1), 0.1), (np.longdouble(0.75), 0.75),
    (np.bool_(True), True), (np.bool_(False), False), (np.str_("text"), "text"), (np.bytes_(b"bytes"), b"bytes"),
    (np.array(5), 5), (np.array(2.5), 2.5), (np.array(True), True), (np.array("text"), "text"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), SCALARS, ids=lambda value: f"{type(value).__name__}-{value}")
def test_any(client: Client, value: Any, expected: Any) -> None:
    for sent, wanted in ((value, expected), ([value], [expected]), ({"a": (1, value)}, {"a": [1, expected]})):
        came = client.identity(sent)
        assert came == wanted
        assert type(came) is type(wanted)
    assert type(client.identity([value])[0]) is type(expected)


def test_typed(client: Client) -> None:
    came = client.kinds(
        np.True_, np.int8(1), np.int64(2), np.uint8(3), np.uint64(4), np.float32(0.5), np.float16(0.25), np.str_("s"),
        np.bytes_(b"y"),
    )  # fmt: skip
    assert came == [True, 1, 2, 3, 4, 0.5, 0.25, "s", b"y"]
    assert client.add(np.int64(2), np.array(3)) == 5.0
    assert client.sum(*np.arange(5)) == 10
    assert client.ack(np.array(2), np.uint8(3)) == 9
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert client.later(start, np.float64(1.5)) == start + datetime.timedelta(seconds=1.5)
    assert client.greet({"name": np.str_("A"), "age": np.int32(5), "tags": np.array(["x", "y"])}) == "Hello, A, 5 [x,y]"


@pytest.mark.parametrize(
    "value",
    [
        np.datetime64("2026-01-01"), np.timedelta64(5, "ms"), np.timedelta64(5, "ns"), np.complex64(1), np.void(b"ab"),
        np.array([1, 2]), np.array([1.5]), np.zeros((2, 2), np.uint8), np.array([True]), np.array(["x"]),
        np.longdouble(1) / 3, np.arange(10, dtype=np.uint8)[::2], np.array(None), np.ma.masked,
        np.array([-1, 2], np.int8),
    ],
    ids=repr,
)  # fmt: skip
def test_what_has_no_counterpart_is_refused(client: Client, value: Any) -> None:
    for sent in (value, [value], {"a": value}):
        with pytest.raises(nearcall.InvalidArgument, match=r"takes any, got [A-Za-z]+[0-9]*; ") as caught:
            client.identity(sent)
        assert caught.value.outcome is Outcome.NOT_EXECUTED
    with pytest.raises(nearcall.InvalidArgument, match="takes float64"):
        client.add(value, 1)
    with pytest.raises(nearcall.InvalidArgument, match="takes bytes"):
        client.echo(value)
    with pytest.raises(nearcall.InvalidArgument):
        client.later(datetime.datetime.now(datetime.UTC), value)


def test_arrays_of_numpy_as_lists(client: Client) -> None:
    assert client.sum(*np.array([1, 2, 3])) == 6
    assert client.identity(np.array([[1, 2], [3, 4]]).tolist()) == [[1, 2], [3, 4]]


def test_not_a_number_and_infinity(client: Client) -> None:
    assert math.isnan(client.identity(np.float32("nan")))
    assert client.identity(np.longdouble("inf")) == math.inf
    assert client.add(np.float64("inf"), np.float32(1)) == math.inf


class Number:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Real:
    def __float__(self) -> float:
        return 1.5


def test_what_has_index_or_float_is_that_number(client: Client) -> None:
    assert client.identity([Number(7), Number(2**64 - 1), Real()]) == [7, 2**64 - 1, 1.5]
    assert client.add(Real(), Number(2)) == 3.5


@pytest.mark.parametrize(
    "value",
    [
        np.int64(2**53 + 1), np.uint64(2**64 - 1), np.array(2**53 + 1), np.int64(-(2**53) - 1), Number(2**53 + 1),
        Number(10**400), 2**53 + 1,
    ],
    ids=repr,
)  # fmt: skip
def test_integer_that_no_float_is(client: Client, value: Any) -> None:
    with pytest.raises(nearcall.InvalidArgument, match="takes float64"):
        client.add(value, 0)
    if not isinstance(value, Number) or value.value < 2**64:
        assert client.identity(value) == int(value)


def test_integer_that_a_float_is(client: Client) -> None:
    for value in (np.int64(2**53 + 2), np.uint64(2**63), Number(2**60), np.array(2**53)):
        assert client.add(value, 0) == int(value)


def test_array_of_bytes(client: Client) -> None:
    numbers = np.frombuffer(b"abcd", np.uint8)
    assert client.echo(numbers) == b"abcd"
    assert client.call_raw("echo", numbers) == b"abcd"
    with pytest.raises(nearcall.InvalidArgument, match=r"takes any, got ndarray; .*tolist"):
        client.identity(numbers)
    with pytest.raises(nearcall.InvalidArgument, match=r"takes any, got ndarray; .*tolist"):
        client.identity({"numbers": [numbers]})


def test_masked_values_are_no_numbers(client: Client) -> None:
    for value in (np.ma.masked, np.ma.array(5, mask=True), np.ma.array([1.5], mask=[True])[0]):
        with pytest.raises(nearcall.InvalidArgument, match=r"takes float64, got .* masked"):
            client.add(value, 0)
        with pytest.raises(nearcall.InvalidArgument, match=r"takes any, got .* masked"):
            client.identity([value])
    whole, truth = np.ma.array(2, mask=True), np.ma.array(True, mask=True)
    with pytest.raises(nearcall.InvalidArgument, match=r"takes int64, got .* masked"):
        client.ack(whole, 3)
    with pytest.raises(nearcall.InvalidArgument, match=r"takes int8, got .* masked"):
        client.kinds(True, whole, 2, 3, 4, 0.5, 0.25, "s", b"y")
    with pytest.raises(nearcall.InvalidArgument, match=r"takes uint[0-9]+, got .* masked"):
        client.kinds(True, 1, 2, whole, 4, 0.5, 0.25, "s", b"y")
    with pytest.raises(nearcall.InvalidArgument, match=r"takes bool, got .* masked"):
        client.kinds(truth, 1, 2, 3, 4, 0.5, 0.25, "s", b"y")
    with pytest.raises(nearcall.InvalidArgument, match=r"takes duration, got .* masked"):
        client.later(datetime.datetime.now(datetime.UTC), whole)
    assert client.add(np.ma.array([1.5])[0], 0) == 1.5
    assert client.ack(np.ma.array(2), np.ma.array([3])[0]) == 9
    pairs = np.zeros(2, [("x", "f8"), ("y", [("z", "i4")])])
    for mask in (False, (False, (True,))):
        with pytest.raises(nearcall.InvalidArgument, match=r"takes any, got "):
            client.identity(np.ma.array(pairs, mask=[mask, mask])[0])


PERSON = [("name", "U10"), ("age", "i8"), ("tags", "U5", (2,))]
PERSON_VALUES = ("Ann", 7, ("a", "b"))


def records(fields: list[Any], *values: Any) -> list[Any]:
    """As numpy has them: with their fields as attributes, and without."""
    return [np.rec.array([values], dtype=fields)[0], np.array([values], dtype=fields)[0]]


def test_records_as_structs(client: Client) -> None:
    for record in records(PERSON, *PERSON_VALUES):
        assert client.greet(record) == "Hello, Ann, 7 [a,b]"
    for record in records([PERSON[0], PERSON[2]], "Ann", ("a", "b")):
        assert client.greet(record) == "Hello, Ann [a,b]"


@pytest.mark.parametrize("misspelt", ["aeg", "real", "_age"])
def test_misspelt_fields_of_records(client: Client, misspelt: str) -> None:
    """All records have attributes of their own, such as `real`, which are none of these."""
    for record in records([PERSON[0], (misspelt, "i8"), PERSON[2]], *PERSON_VALUES):
        with pytest.raises(nearcall.InvalidArgument, match=f"struct Person has no field '{misspelt}'; it has name"):
            client.greet(record)


def test_fields_that_records_have_as_methods(folder: Path) -> None:
    fields = [{"name": name, "type": "int64"} for name in ("size", "item")]
    description = function([{"struct": "Kind"}], [], types={"Kind": {"fields": fields}})
    with ScriptedServer(folder / "f", description) as server, Client(server.address) as client:
        client.call("f", {"size": 70, "item": 80})
        for record in records([("size", "i8"), ("item", "i8")], 70, 80):
            client.call("f", record)
            assert server.requests[-1] == server.requests[0]
        for record in records([("size", "i8")], 70):
            with pytest.raises(nearcall.InvalidArgument, match="has the field 'item', and the object has no such"):
                client.call("f", record)
        with pytest.raises(nearcall.InvalidArgument, match="takes struct Kind, got void"):
            client.call("f", np.void(b"abc"))


def test_records_as_lists(client: Client) -> None:
    for record in records([("first", "U5"), ("second", "U5")], "a", "b"):
        assert client.greet({"name": "Ann", "tags": record}) == "Hello, Ann [a,b]"
    for value in (np.void(b"abc"), np.void(3)):
        with pytest.raises(nearcall.InvalidArgument, match=r"tags: takes list of string, got void; .*tobytes"):
            client.greet({"name": "Ann", "tags": value})


def test_misspelt_fields_of_structures(folder: Path) -> None:
    class Structure(ctypes.Structure):
        _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_double))

    class More(Structure):
        _fields_ = (("zz", ctypes.c_double),)

    fields = [{"name": "x", "type": "float64"}, {"name": "y", "type": "float64"}]
    fields.append({"name": "z", "type": {"optional": "float64"}})  # type: ignore[dict-item]
    description = function([{"struct": "Point"}], [], types={"Point": {"fields": fields}})
    with ScriptedServer(folder / "f", description) as server, Client(server.address) as client:
        client.call("f", Structure(1, 2))
        client.call("f", {"x": 1, "y": 2})
        assert server.requests[0] == server.requests[1]
        with pytest.raises(nearcall.InvalidArgument, match="has no field 'zz', which the object has as an attribute"):
            client.call("f", More(1, 2, 3))


def bytes_of_every_kind() -> list[Any]:
    mapped = mmap.mmap(-1, 4)
    mapped[:] = b"abcd"
    return [
        b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), memoryview(b"xabcdx")[1:5], mapped, array.array("B", b"abcd"),
        (ctypes.c_char * 4)(*b"abcd"),
        (ctypes.c_ubyte * 4)(*b"abcd"), memoryview(b"abcd").cast("c"),
    ]  # fmt: skip


def memory_that_is_no_bytes() -> list[Any]:
    return [
        np.int64(5), np.array(5), array.array("i", [1]), array.array("d", [1.0]), memoryview(b"abcd")[::2],
        memoryview(b"abcd").cast("B", (2, 2)), memoryview(array.array("i", [1])), (ctypes.c_int * 2)(1, 2),
        ctypes.c_int(5), np.zeros(3), np.zeros((2, 2), np.uint8), np.array([True]), array.array("b", [-1]),
        np.array([-1, 2], np.int8), memoryview(b"abcd").cast("b"), np.ma.array([1, 2], np.uint8, mask=[True, False]),
    ]  # fmt: skip


def test_buffers_that_are_bytes(client: Client) -> None:
    for value in bytes_of_every_kind():
        assert client.echo(value) == b"abcd"
        assert client.identity([value]) == [b"abcd"]
        assert client.call_raw("echo", value) == b"abcd"
        assert client.kinds(True, 1, 2, 3, 4, 0.5, 0.25, "s", value)[8] == b"abcd"


def test_memory_that_is_no_bytes_is_refused(client: Client) -> None:
    for value in memory_that_is_no_bytes():
        with pytest.raises(nearcall.InvalidArgument, match="takes bytes"):
            client.echo(value)
        with pytest.raises(nearcall.InvalidArgument, match=r"argument 9 \(y\): takes bytes"):
            client.kinds(True, 1, 2, 3, 4, 0.5, 0.25, "s", value)
        with pytest.raises(TypeError):
            client.call_raw("echo", value)
    for value in memory_that_is_no_bytes()[2:]:
        with pytest.raises(nearcall.InvalidArgument, match=r"takes (any|bytes), .*; (a buffer|arrays|it is masked)"):
            client.identity(value)
