"""What code of an argument's own raises is raised as it is; what Nearcall cannot convert it refuses itself."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import fractions
import io
import mmap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearcall
from nearcall import Client
from support import Generations, Server

ERRORS = [ValueError, TypeError, OverflowError, BufferError, KeyError, RecursionError]
UTC = datetime.UTC


@pytest.fixture
def go(start_server: Callable[..., Server]) -> Iterator[Client]:
    with Client(start_server("-generation", "1", "-files").address, timeout=20.0) as client:
        yield client


def fail(kind: type[Exception]) -> Any:
    raise kind("mine")


class Whole:
    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind

    def __index__(self) -> int:
        return fail(self.kind)  # type: ignore[no-any-return]


class Real:
    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind

    def __float__(self) -> float:
        return fail(self.kind)  # type: ignore[no-any-return]


class Iterated:
    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind

    def __iter__(self) -> Iterator[Any]:
        return fail(self.kind)  # type: ignore[no-any-return]


class Mapping:
    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind

    def keys(self) -> Iterable[str]:
        return ["name"]

    def __getitem__(self, name: str) -> Any:
        fail(self.kind)


class Keys(Mapping):
    def keys(self) -> Iterable[str]:
        return fail(self.kind)  # type: ignore[no-any-return]


class Person:
    tags = ()

    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind

    @property
    def name(self) -> str:
        return fail(self.kind)  # type: ignore[no-any-return]


class Zone(datetime.tzinfo):
    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind

    def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta:
        return fail(self.kind)  # type: ignore[no-any-return]


class File:
    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind

    def fileno(self) -> int:
        return fail(self.kind)  # type: ignore[no-any-return]


def generator(kind: type[Exception]) -> Iterator[Any]:
    yield from ()
    fail(kind)


def in_zone(kind: type[Exception]) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, tzinfo=Zone(kind))


CALLS: dict[str, Callable[[Client, type[Exception]], Any]] = {
    "generator": lambda go, kind: go.greet({"name": "Ann", "tags": generator(kind)}),
    "generator for a list": lambda go, kind: go.total(generator(kind)),
    "iter": lambda go, kind: go.total(Iterated(kind)),
    "mapping": lambda go, kind: go.bag([], Mapping(kind)),
    "mapping of any": lambda go, kind: go.greet(Mapping(kind)),
    "keys": lambda go, kind: go.bag([], Keys(kind)),
    "keys of a struct": lambda go, kind: go.greet(Keys(kind)),
    "property": lambda go, kind: go.greet(Person(kind)),
    "index": lambda go, kind: go.ack(Whole(kind), 1),
    "index in a list": lambda go, kind: go.total([1, Whole(kind)]),
    "index for float": lambda go, kind: go.add(Whole(kind), 1),
    "index in any": lambda go, kind: go.identity([Whole(kind)]),
    "float": lambda go, kind: go.add(Real(kind), 1),
    "float in any": lambda go, kind: go.identity({"a": Real(kind)}),
    "float as duration": lambda go, kind: go.later(datetime.datetime.now(UTC), Real(kind)),
    "utcoffset": lambda go, kind: go.later(in_zone(kind), 1),
    "utcoffset in any": lambda go, kind: go.identity([in_zone(kind)]),
    "fileno": lambda go, kind: go.file_read(File(kind)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ERRORS)
def test_raised(go: Client, name: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="mine") as caught:
        CALLS[name](go, kind)
    assert type(caught.value) is kind
    assert go.one() == 1


def test_bad_row_of_a_generator(go: Client) -> None:
    with pytest.raises(ValueError, match="invalid literal for int") as caught:
        go.total(int(text) for text in ["1", "oops"])
    assert not isinstance(caught.value, nearcall.NearcallError)
    with pytest.raises(TypeError, match="unsupported operand"):
        go.total(number + 1 for number in [1, None])  # type: ignore[operator]


def test_file_of_lines(go: Client, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"fine\n\xff\xfe\n")
    with open(lines, encoding="utf-8") as text, pytest.raises(UnicodeDecodeError):
        go.greet({"name": "Ann", "tags": text})
    with pytest.raises(ValueError, match="closed file"):
        go.greet({"name": "Ann", "tags": text})


def test_error_of_a_call_within_an_argument(go: Client) -> None:
    def calling() -> Iterator[int]:
        yield go.fail(3, "executed and said invalid")

    with pytest.raises(nearcall.InvalidArgument, match="executed and said invalid") as caught:
        go.total(calling())
    assert caught.value.outcome is nearcall.Outcome.EXECUTED


class Calling:
    """An argument whose own code makes a call that fails, after a server of other functions has come."""

    def __init__(self, error: nearcall.NearcallError, before: Callable[[], Any]) -> None:
        self.error, self.before, self.asked = error, before, 0

    def __index__(self) -> int:
        self.asked += 1
        self.before()
        raise self.error


OTHERS = [
    kind("mine", code, nearcall.Outcome.NOT_EXECUTED)
    for kind, code in (
        (nearcall.Unavailable, nearcall.Code.UNAVAILABLE),
        (nearcall.Aborted, nearcall.Code.ABORTED),
        (nearcall.InvalidArgument, nearcall.Code.INVALID_ARGUMENT),
    )
]


@pytest.mark.parametrize("error", OTHERS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("is_async", [False, True])
def test_failure_of_an_arguments_own_call_is_none_of_this_one(
    start_server: Callable[..., Server], error: nearcall.NearcallError, is_async: bool
) -> None:
    """It is raised as it is, and the argument is not asked again."""
    generations = Generations(start_server, 1)
    value = Calling(error, lambda: generations.replace(2) if value.asked == 1 else None)

    async def call() -> None:
        async with nearcall.AsyncClient(generations.address, attempts=5) as client:
            await client.total([value])

    with Client(generations.address, attempts=5) as client, pytest.raises(type(error)) as caught:
        asyncio.run(call()) if is_async else client.total([value])
    assert caught.value is error
    assert value.asked == 1


def refusal(call: Callable[[], Any], match: str) -> nearcall.InvalidArgument:
    with pytest.raises(nearcall.InvalidArgument, match=match) as caught:
        call()
    assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
    return caught.value


def test_what_cannot_be_converted_is_refused(go: Client) -> None:
    now = datetime.datetime.now(UTC)
    for value in (object(), "5", 5.0, None, [], np.float64(5), np.array([1, 2]), np.array("x"), np.ma.array([1, 2])):
        refusal(lambda value=value: go.ack(value, 1), "takes int64, got")
    for value in (object(), "5", None, [], decimal.Decimal("sNaN"), fractions.Fraction(10**400), 10**400):
        refusal(lambda value=value: go.add(value, 1), "takes float64, got")
        refusal(lambda value=value: go.later(now, value), "takes duration, got")
    for value in (object(), 5, None, "text", list, np.array(5), np.int64(5)):
        refusal(lambda value=value: go.total(value), "takes list of int64, got")
        refusal(lambda value=value: go.bag([], value), "takes map, got")
    refusal(lambda: go.bag([], dict), "takes map, got type")
    refusal(lambda: go.later(now.replace(tzinfo=None), 1), "a datetime.datetime with a time zone is needed")
    refusal(lambda: go.file_read(5), "something open with fileno")


class Nowhere(datetime.tzinfo):
    def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta | None:
        return None


def test_time_zone_that_knows_no_time(go: Client) -> None:
    refusal(lambda: go.later(datetime.datetime(2026, 1, 1, tzinfo=Nowhere()), 1), "with a time zone is needed")


def test_range_is_named(go: Client) -> None:
    refusal(lambda: go.add(10**400, 1), r"takes float64, got int; .* the range of float64 \(-1.8e308 to 1.8e308\)")
    refusal(lambda: go.kinds(True, 1, 2, 3, 4, 1e300, 0, "", b""), r"range of float32 \(-3.4e38 to 3.4e38\)")


def test_cause_of_a_refusal_is_kept(go: Client, tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb") as closed, mmap.mmap(-1, 4) as mapped:
        pass
    for call, kind in (
        (lambda: go.file_read(io.StringIO("text")), io.UnsupportedOperation),
        (lambda: go.file_read(closed), ValueError),
        (lambda: go.greet({"name": "a\ud800b"}), UnicodeEncodeError),
        (lambda: go.identity(mapped), ValueError),
        (lambda: go.add(fractions.Fraction(10**400), 1), OverflowError),
    ):
        assert type(refusal(call, "argument 1").__cause__) is kind
    assert refusal(lambda: go.ack("x", 1), "takes int64").__cause__ is None
