"""Values of other people's libraries: what they make of Python's own classes and names is theirs."""

from __future__ import annotations

import datetime
import fractions
import struct
import sys
import types
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas
import pendulum
import pytest
import sqlalchemy
from werkzeug.local import LocalProxy

import nearcall
from nearcall import Client, Outcome
from support import Server, run_python

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)  # noqa: UP017 - pendulum's has the same name


def rows(columns: str) -> Any:
    with sqlalchemy.create_engine("sqlite://").connect() as connection:
        return connection.execute(sqlalchemy.text(f"select {columns}")).all()


def test_rows_of_sqlalchemy(client: Client) -> None:
    [row] = rows("'Ann' as name, 7 as age, null as tags")
    with pytest.raises(nearcall.InvalidArgument, match=r"\(person\)\.tags: takes list of string, got NoneType"):
        client.greet(row)
    [row] = rows("0.5 as x, 2 as y")
    assert client.move(row, row._mapping) == {"x": 1.0, "y": 4.0}
    with pytest.raises(nearcall.InvalidArgument, match="struct Point has no field 'z', which the object has"):
        client.move(rows("1 as x, 2 as y, 3 as z")[0], row)
    with pytest.raises(nearcall.InvalidArgument, match="has the field 'y', and the object has no such"):
        client.move(rows("1 as x")[0], row)


class Declaring:
    name, age, tags = "Ann", None, ()


@pytest.mark.parametrize("declared", [5, None, property(), object(), [[], {}], (1, None), iter("ab"), {}, ""])
@pytest.mark.parametrize("attribute", ["_fields", "__slots__", "keys", "__getitem__"])
def test_names_that_mean_something_else_in_a_class(client: Client, attribute: str, declared: Any) -> None:
    kind = type("Kind", (Declaring,), {"keys": 5})
    setattr(kind, attribute, declared)
    assert client.greet(kind()) == "Hello, Ann"


@pytest.mark.parametrize("value", [types.SimpleNamespace(fileno=5), types.SimpleNamespace(fileno=None)])
def test_fileno_that_is_no_method(start_server: Callable[..., Server], value: Any) -> None:
    client = Client(start_server("-files").address)
    with client, pytest.raises(nearcall.InvalidArgument, match=r"something open with fileno\(\) is needed"):
        client.file_read(value)


@pytest.mark.parametrize(
    "given",
    [
        {"days": -1, "seconds": 5}, {"hours": -64}, {"seconds": -1}, {"seconds": -1.5}, {"days": 1, "microseconds": -1},
        {"seconds": -90_000.25}, {"weeks": 1, "hours": 3}, {"microseconds": -1}, {"seconds": 1.5},
    ],
    ids=str,
)  # fmt: skip
def test_durations_of_pendulum(client: Client, given: dict[str, float]) -> None:
    assert client.later(START, pendulum.duration(**given)) == START + datetime.timedelta(**given)


@pytest.mark.parametrize("seconds", [-0.25, -1.5, -3e9 + 0.5, 0.25, 2e9 + 0.75])
def test_moments_and_intervals_of_pendulum(client: Client, seconds: float) -> None:
    epoch = datetime.datetime.fromtimestamp(0, START.tzinfo)
    moment = pendulum.from_timestamp(seconds)
    interval = moment - pendulum.from_timestamp(0)
    for came in (client.later(moment, 0), client.identity(moment), client.later(epoch, interval)):
        assert came == epoch + datetime.timedelta(seconds=seconds)


class Odd(datetime.timedelta):
    days = "one"  # type: ignore[assignment]
    seconds = 10**30  # type: ignore[assignment]


def test_what_a_subclass_calls_its_days(client: Client) -> None:
    assert client.later(START, Odd(days=2, seconds=3)) == START + datetime.timedelta(days=2, seconds=3)


def test_proxies_of_werkzeug(client: Client) -> None:
    moment, delta = LocalProxy(lambda: START), LocalProxy(lambda: datetime.timedelta(days=-1, seconds=3))
    assert client.later(moment, delta) == START + datetime.timedelta(days=-1, seconds=3)


def test_no_time_of_pandas(client: Client) -> None:
    for call in (lambda: client.later(pandas.NaT, 0), lambda: client.identity([pandas.NaT])):
        with pytest.raises(nearcall.InvalidArgument, match=r"takes time, got NaTType; a datetime") as error:
            call()
        assert error.value.outcome is Outcome.NOT_EXECUTED
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 2 \(by\)"):
        client.later(START, pandas.NaT)
    moment = pandas.Timestamp("2026-01-01T00:00:00.5Z")
    assert client.later(moment, pandas.Timedelta("-1.5s")) == START - datetime.timedelta(seconds=1)


@pytest.mark.parametrize("nanoseconds", [1_767_225_600_123_456_789, 1, -1, -1_500_000_000_001, 5_000_000_000_000])
def test_nanoseconds_of_pandas(sent: Callable[..., bytes], nanoseconds: int) -> None:
    delta = pandas.Timedelta(nanoseconds, "ns")
    for value in (delta, LocalProxy(lambda: delta)):
        assert sent("duration", value) == sent("int64", nanoseconds)
    seconds, rest = divmod(nanoseconds, 10**9)
    for kind in ("time", "any"):
        # Timestamps of MessagePack: 30 bits of nanoseconds and 34 of seconds, or 32 and 64 of them; or seconds alone.
        forms = [struct.pack(">Iq", rest, seconds), struct.pack(">Q", (rest << 34 | seconds) % 2**64)]
        if rest == 0:
            forms.append(struct.pack(">I", seconds))
        assert sent(kind, pandas.Timestamp(nanoseconds, unit="ns", tz="UTC")).endswith(tuple(forms))


def test_long_durations_of_pandas(client: Client) -> None:
    """In seconds they may be longer than any timedelta."""
    with pytest.raises(nearcall.InvalidArgument, match="within 292 years"):
        client.later(START, pandas.Timedelta(10**9, "s").as_unit("s") * 10**6)
    delta = pandas.Timedelta(200 * 365, "D").as_unit("s")
    assert client.later(START, delta) == START + datetime.timedelta(days=200 * 365)


class Whole:
    def __index__(self) -> int:
        return 5


STAND_INS = [types.ModuleType("half"), types.SimpleNamespace(generic=1, ndarray=2, Decimal=3, Fraction=4)]


@pytest.mark.parametrize("stand_in", STAND_INS)
def test_modules_that_are_not_whole_yet(client: Client, monkeypatch: pytest.MonkeyPatch, stand_in: Any) -> None:
    """As one is for other threads while it is imported."""
    for name in ("numpy", "numpy.ma", "decimal", "fractions"):
        monkeypatch.setitem(sys.modules, name, stand_in)
    assert client.identity(Whole()) == 5
    assert client.ack(2, Whole()) == client.ack(2, 5)
    for number in (Decimal("1.5"), fractions.Fraction(3, 2)):
        assert client.later(START, number) == START + datetime.timedelta(seconds=1.5)


WHILE_IMPORTING = """
import sys, threading, nearcall
class Whole:
    def __index__(self): return 5
client = nearcall.Client(sys.argv[1])
assert "numpy" not in sys.modules
imported = threading.Event()
def load():
    import numpy
    imported.set()
thread = threading.Thread(target=load)
thread.start()
while not imported.is_set():
    assert client.identity(Whole()) == 5
thread.join()
"""


def test_while_another_thread_imports_numpy(address: str) -> None:
    result = run_python(WHILE_IMPORTING, address)
    assert result.returncode == 0, result.stderr
