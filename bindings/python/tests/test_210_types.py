"""Values of every type, in both directions; what does not fit is refused here."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import math
import random
import re
import struct
import types
from collections import OrderedDict, UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall import Client, Outcome
from scripted import ScriptedServer, function

UTC = datetime.UTC
GOOD = {
    "b": True, "i8": 1, "i64": 2, "u8": 3, "u64": 4, "f32": 0.5, "f64": 0.25, "s": "text", "y": b"bytes",
}  # fmt: skip


def kinds(client: Client, **changed: Any) -> list[Any]:
    """The values of GOOD with some changed, as the server saw them."""
    result = client.kinds(*{**GOOD, **changed}.values())
    assert isinstance(result, list)
    return result


def refused(client: Client, text: str, **changed: Any) -> None:
    with pytest.raises(nearcall.InvalidArgument, match=text) as caught:
        kinds(client, **changed)
    assert caught.value.outcome is Outcome.NOT_EXECUTED
    name = next(iter(changed))
    assert f"argument {list(GOOD).index(name) + 1} ({name})" in caught.value.message


def test_every_kind_comes_back(client: Client) -> None:
    assert kinds(client) == list(GOOD.values())
    assert [type(value) for value in kinds(client)] == [bool, int, int, int, int, float, float, str, bytes]


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("i8", -128, 127), ("i64", -(2**63), 2**63 - 1), ("u8", 0, 255), ("u64", 0, 2**64 - 1)],
)
def test_integer_limits(client: Client, name: str, least: int, most: int) -> None:
    place = list(GOOD).index(name)
    for value in (least, most, 0, 1, most // 2):
        assert kinds(client, **{name: value})[place] == value
    for value in (least - 1, most + 1, -(2**100), 2**100):
        refused(client, re.escape(f"{value} does not fit") + r" u?int\d+ \(" + str(least), **{name: value})


def test_integers_of_every_length(client: Client) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    for bits in range(1, 64):
        value = source.getrandbits(bits)
        assert client.identity(value) == value
        assert client.identity(-value) == -value
        assert kinds(client, i64=-value)[2] == -value


def test_integer_likes(client: Client) -> None:
    class Number:
        def __index__(self) -> int:
            return 42

    class Level(enum.IntEnum):
        HIGH = 3

    assert kinds(client, i64=Number())[2] == 42
    assert kinds(client, i64=Level.HIGH)[2] == 3
    assert kinds(client, i64=True)[2] == 1
    for value in (1.0, "1", b"1", None, decimal.Decimal(1), fractions.Fraction(1), [1]):
        refused(client, f"takes int64, got {type(value).__name__}", i64=value)
        refused(client, f"takes uint64, got {type(value).__name__}", u64=value)


def test_error_of_a_value_is_passed_on(client: Client) -> None:
    class Broken:
        def __index__(self) -> int:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        kinds(client, i64=Broken())
    assert client.one() == 1


def test_bools(client: Client) -> None:
    assert kinds(client, b=False)[0] is False
    for value in (1, 0, "", None, "true"):
        refused(client, "takes bool", b=value)


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, 1e300, 5e-324, math.pi, math.inf, -math.inf])
def test_floats(client: Client, value: float) -> None:
    assert struct.pack("d", kinds(client, f64=value)[6]) == struct.pack("d", value)
    assert struct.pack("d", client.identity(value)) == struct.pack("d", value)


def test_float_likes(client: Client) -> None:
    assert math.isnan(kinds(client, f64=math.nan)[6])
    assert math.isnan(kinds(client, f32=math.nan)[5])
    assert kinds(client, f64=7)[6] == 7.0
    assert kinds(client, f64=decimal.Decimal("1.5"))[6] == 1.5
    assert kinds(client, f64=fractions.Fraction(1, 4))[6] == 0.25
    assert kinds(client, f32=math.inf)[5] == math.inf
    assert kinds(client, f32=0.1)[5] == struct.unpack("f", struct.pack("f", 0.1))[0]
    refused(client, "beyond the range of float32", f32=1e39)
    refused(client, "takes float64, got int", f64=10**400)
    for number in (2**53 + 1, -(2**53) - 1, 10**23):
        refused(client, "takes float64, got int; .*digits", f64=number)
    for value in ("1.0", "1e400", "inf", None, b"1", [1.0]):
        refused(client, "takes float64", f64=value)


@pytest.mark.parametrize("text", ["0.1", "-2.50", "1e300", "12345.678", "0", "Infinity", "NaN"])
def test_decimals_that_a_float_can_write(client: Client, text: str) -> None:
    came = kinds(client, f64=decimal.Decimal(text))[6]
    assert decimal.Decimal(repr(came)) == decimal.Decimal(text) or math.isnan(came)


def test_numbers_whose_digits_would_be_lost(client: Client) -> None:
    for value in (
        decimal.Decimal("0.12345678901234567890"),
        decimal.Decimal(2**53 + 1),
        decimal.Decimal("1e400"),
        decimal.Decimal("1e-400"),
        fractions.Fraction(1, 3),
    ):
        refused(client, f"takes float64, got {type(value).__name__}; .*digits", f64=value)
        with pytest.raises(nearcall.InvalidArgument, match=r"digits|within 292 years"):
            client.later(datetime.datetime.now(UTC), value)


@pytest.mark.parametrize(
    "text", ["", "a", "ä€😀", "\0", "a\0b", "x" * 31, "x" * 32, "x" * 255, "x" * 256, "é" * 40_000]
)
def test_text(client: Client, text: str) -> None:
    assert kinds(client, s=text)[7] == text
    assert client.upper(text) == text.upper()
    assert client.identity(text) == text


def test_text_that_is_none(client: Client) -> None:
    refused(client, "decode the bytes first", s=b"bytes")
    refused(client, "no UTF-8 form", s="\ud800")
    refused(client, "takes string, got int", s=1)
    refused(client, "takes string, got NoneType", s=None)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 255, 256, 65_535, 65_536, 1_000_000])
def test_bytes(client: Client, size: int) -> None:
    data = random.Random(size).randbytes(size)
    for value in (data, bytearray(data), memoryview(data)):
        assert kinds(client, y=value)[8] == data
        assert client.identity(value) == data


def test_bytes_that_are_none(client: Client) -> None:
    refused(client, "encode the text first", y="text")
    refused(client, "takes bytes, got int", y=5)
    refused(client, "takes bytes, got list", y=[1])
    refused(client, "takes bytes, got memoryview", y=memoryview(b"abcdef")[::2])


def test_lists(client: Client) -> None:
    person = {"name": "A", "tags": ["x", "y"]}
    for tags in (["x", "y"], ("x", "y"), iter(["x", "y"]), (tag for tag in "xy"), dict.fromkeys("xy").keys()):
        assert client.greet({**person, "tags": tags}) == "Hello, A [x,y]"
    for tags in ("xy", b"xy", {"x": 1}, 1, None):
        with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(person\)\.tags: takes list of string"):
            client.greet({**person, "tags": tags})
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(person\)\.tags\[1\]: takes string, got int"):
        client.greet({**person, "tags": ["x", 1]})


def test_lists_of_every_length(client: Client) -> None:
    for length in (0, 1, 15, 16, 65_535, 65_536, 100_000):
        numbers = list(range(length))
        assert client.identity(numbers) == numbers


def test_maps(client: Client) -> None:
    assert client.word_count("a b a") == {"a": 2, "b": 1}
    assert client.word_count("") == {}


def test_struct_from_dict(client: Client) -> None:
    assert client.greet({"name": "Ann"}) == "Hello, Ann"
    assert client.greet({"name": "Ann", "age": None, "tags": []}) == "Hello, Ann"
    assert client.greet({"name": "Ann", "age": 7, "tags": ["a"]}) == "Hello, Ann, 7 [a]"
    assert client.greet(OrderedDict(name="Ann", age=7)) == "Hello, Ann, 7"
    assert client.greet({}) == "Hello, "
    assert client.greet(UserDict(name="Ann")) == "Hello, Ann"
    assert client.greet(types.MappingProxyType({"name": "Ann", "age": 7})) == "Hello, Ann, 7"


def test_struct_results_are_dicts(client: Client) -> None:
    assert client.move({"x": 1, "y": 2}, types.SimpleNamespace(x=0.5, y=-2)) == {"x": 1.5, "y": 0.0}


def test_struct_that_does_not_fit(client: Client) -> None:
    with pytest.raises(nearcall.InvalidArgument, match="struct Person has no field 'nme'"):
        client.greet({"nme": "Ann"})
    with pytest.raises(nearcall.InvalidArgument, match="has no field 1"):
        client.greet({1: "Ann"})
    with pytest.raises(nearcall.InvalidArgument, match=r"\(person\)\.age: takes int64, got str"):
        client.greet({"name": "Ann", "age": "7"})
    with pytest.raises(nearcall.InvalidArgument, match=r"\(person\)\.name: takes string, got NoneType"):
        client.greet({"name": None})
    with pytest.raises(nearcall.InvalidArgument, match="has no field 'nothing'"):
        client.greet(UserDict(nothing=1))
    for value in (1, None, "Ann", ["Ann"], object()):
        with pytest.raises(nearcall.InvalidArgument, match="takes struct Person, got"):
            client.greet(value)


def test_struct_whose_attribute_fails(client: Client) -> None:
    class Person:
        @property
        def name(self) -> str:
            raise OSError("mine")

    with pytest.raises(OSError, match="mine"):
        client.greet(Person())


def test_times(client: Client) -> None:
    now = datetime.datetime.now(UTC)
    moments = [
        now,
        datetime.datetime(1970, 1, 1, tzinfo=UTC),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime.datetime(1, 1, 1, tzinfo=UTC),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime.datetime(2026, 3, 1, 12, 30, 1, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=-3))),
    ]
    for moment in moments:
        came = client.later(moment, datetime.timedelta(0))
        assert came == moment
        assert came.tzinfo is UTC
        assert client.identity(moment) == moment
    assert abs(client.now() - datetime.datetime.now(UTC)) < datetime.timedelta(minutes=1)
    february = [datetime.datetime(year, 2, 27, 23, 59, 59, tzinfo=UTC) for year in range(1, 9999, 7)]
    days = [day + datetime.timedelta(more) for day in february for more in range(4)]
    assert client.identity(days) == days


def test_times_that_do_not_fit(client: Client) -> None:
    for value in (datetime.datetime(2026, 1, 1), datetime.date(2026, 1, 1), 0, 0.0, "2026-01-01T00:00:00Z", None):
        with pytest.raises(nearcall.InvalidArgument, match="with a time zone is needed"):
            client.later(value, 0)


def test_durations(client: Client) -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=UTC)
    for duration in (
        datetime.timedelta(days=3, seconds=4, microseconds=5),
        datetime.timedelta(microseconds=-1),
        datetime.timedelta(days=-400, microseconds=7),
        datetime.timedelta(0),
    ):
        assert client.later(start, duration) == start + duration
    assert client.later(start, 1.5) == start + datetime.timedelta(seconds=1.5)
    assert client.later(start, -2) == start - datetime.timedelta(seconds=2)


def test_durations_that_come(folder: Path) -> None:
    """Also those of which Python has no small numbers."""
    seconds = (0, 2**30 - 1, 2**30, 2**31 + 86_399, 9_223_372_036)
    magnitudes = [10**9 * second + rest for second in seconds for rest in (0, 1_500, 854_775_807)]
    both = [2**63 - 1, -(2**63), *magnitudes, *(-each for each in magnitudes)]
    reply = b"\xdc" + struct.pack(">H", len(both)) + b"".join(b"\xd3" + struct.pack(">q", each) for each in both)
    description = function([], [{"list": "duration"}])
    with ScriptedServer(folder / "f", description, reply) as server, Client(server.address) as go:
        for came, nanoseconds in zip(go.f(), both, strict=True):
            whole = abs(nanoseconds) // 1000
            assert came == datetime.timedelta(microseconds=-whole if nanoseconds < 0 else whole)


def exact_durations() -> dict[object, int]:
    return {
        9_186_649_359: 9_186_649_359 * 10**9,
        -9_223_372_036: -9_223_372_036 * 10**9,
        9_186_649_360.0: 9_186_649_360 * 10**9,
        20_510_992.25: 20_510_992_250_000_000,
        0.1: 100_000_000,
        1e-10: 0,
        decimal.Decimal("20510992.991445730"): 20_510_992_991_445_730,
        decimal.Decimal("-9223372036.854775808"): -(2**63),
        decimal.Decimal("1.50000000000000000000000000000"): 1_500_000_000,
        decimal.Decimal("0e999999999"): 0,
        decimal.Decimal("12E+3"): 12_000 * 10**9,
        fractions.Fraction(-1, 10): -100_000_000,
    }


@pytest.mark.parametrize("given", exact_durations())
def test_durations_of_seconds_are_exact(sent: Callable[..., bytes], given: object) -> None:
    assert sent("duration", given) == sent("int64", exact_durations()[given])


def test_durations_with_too_many_digits(client: Client) -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=UTC)
    for text in ("1.1234567891", "1e-10", "1e-999999", "-0.0000000001"):
        with pytest.raises(nearcall.InvalidArgument, match="digits beyond nanoseconds"):
            client.later(start, decimal.Decimal(text))
    with pytest.raises(nearcall.InvalidArgument, match="digits beyond nanoseconds"):
        client.later(start, fractions.Fraction(1, 3))
    for value in (decimal.Decimal("1e999999"), decimal.Decimal("nan"), decimal.Decimal("9223372036.854775808")):
        with pytest.raises(nearcall.InvalidArgument, match="within 292 years"):
            client.later(start, value)


def test_durations_that_do_not_fit(client: Client) -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=UTC)
    for value in (datetime.timedelta(days=200_000), 1e10, -1e300, math.inf, math.nan, "1s", None):
        with pytest.raises(nearcall.InvalidArgument, match="within 292 years"):
            client.later(start, value)


def test_duration_limits_are_exact(client: Client) -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=UTC)
    largest = datetime.timedelta(microseconds=(2**63 - 1) // 1000)
    smallest = datetime.timedelta(microseconds=-((2**63) // 1000))
    assert client.later(start, largest) == start + largest
    assert client.later(start, smallest) == start + smallest
    for value in (largest + datetime.timedelta(microseconds=1), smallest - datetime.timedelta(microseconds=1)):
        with pytest.raises(nearcall.InvalidArgument, match="within 292 years"):
            client.later(start, value)


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, -1, 2**64 - 1, -(2**63), 1.5, "", "text", b"", b"bytes", [], {}, [None, [1, [2]]],
        {"a": 1, "b": [1, 2, {"c": None}]}, {1: "a", -5: "b"}, [b"x", "x"],
    ],
)  # fmt: skip
def test_any(client: Client, value: object) -> None:
    came = client.identity(value)
    assert came == value
    assert type(came) is type(value)


def test_any_that_does_not_fit(client: Client) -> None:
    for value in (object(), {1, 2}, 1j, decimal.Decimal(1), 2**64, -(2**63) - 1, ["x", object()]):
        with pytest.raises(nearcall.InvalidArgument):
            client.identity(value)
    for value, hint in (
        (datetime.timedelta(seconds=5), r"takes any, got timedelta; any has no dur.*total_seconds"),
        (decimal.Decimal(1), r"takes any, got Decimal; any has no decimal numbers; send float"),
        (datetime.datetime(2026, 1, 1), "with a time zone is needed"),
    ):
        with pytest.raises(nearcall.InvalidArgument, match=hint):
            client.identity([value])
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(value\)\['a'\]\[1\]: takes any, got complex"):
        client.identity({"a": [0, 1j]})


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_nesting_has_a_limit(client: Client) -> None:
    assert client.identity(nested(10)) == nested(10)
    for levels in (100, 900, 100_000):
        with pytest.raises(nearcall.NearcallError) as caught:
            client.identity(nested(levels))
        assert caught.value.outcome is Outcome.NOT_EXECUTED
    assert client.one() == 1


def test_nesting_may_be_so_deep(client: Client) -> None:
    value = {"a": nested(31)}
    assert client.identity(nested(32)) == nested(32)
    assert client.identity(value) == value
    for outer in (lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: ((inner,), 1)):
        with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 .*: it nests .* than 32 levels") as caught:
            client.identity(outer(nested(32)))
        assert len(caught.value.message) < 200


def containing_themselves() -> list[Any]:
    itself: list[Any] = []
    itself.append(itself)
    table: dict[str, Any] = {"a": 1}
    table["b" * 10] = [1, (table, 2)]
    many: list[Any] = list(range(1000))
    many.extend([many] * 1000)
    return [itself, table, many]


@pytest.mark.parametrize("value", containing_themselves(), ids=["list", "dict", "many times"])
def test_value_that_contains_itself(client: Client, value: Any) -> None:
    with pytest.raises(nearcall.InvalidArgument, match=r"the value contains itself, .* than 32 levels") as caught:
        client.identity(value)
    assert caught.value.outcome is Outcome.NOT_EXECUTED
    assert len(caught.value.message) < 300
    assert client.one() == 1


def test_request_that_is_too_large(client: Client) -> None:
    with pytest.raises(nearcall.ResourceExhausted) as caught:
        client.call_raw("echo", bytes(20_000_000))
    assert caught.value.outcome is Outcome.NOT_EXECUTED
    with pytest.raises(nearcall.ResourceExhausted):
        client.identity("x" * 20_000_000)
    assert client.one() == 1


def test_reply_that_is_too_large(address: str) -> None:
    with Client(address, frame_bytes_max=65_536) as client:
        assert client.fill(60_000) == b"*" * 60_000
        with pytest.raises(nearcall.ResourceExhausted) as caught:
            client.fill(100_000)
        assert caught.value.outcome is Outcome.EXECUTED_RESULT_LOST
        assert client.one() == 1
