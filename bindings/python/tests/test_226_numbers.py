"""Numbers that may be whole or not, as proxies and tensors are: what a parameter needs is asked for first."""

from __future__ import annotations

import decimal
import math
import weakref
from collections import UserString
from collections.abc import Callable
from typing import Any

import pandas
import pytest
import wrapt
from werkzeug.local import LocalProxy

import nearcall
from nearcall import Client


class Tensor:
    """Has both for every number, and refuses fractions in the one."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.asked: list[str] = []

    def __float__(self) -> float:
        self.asked.append("float")
        return float(self.value)

    def __index__(self) -> int:
        self.asked.append("index")
        if not isinstance(self.value, int):
            raise TypeError("only whole tensors can be converted to an index")
        return self.value


def proxy(value: Any) -> Any:
    return LocalProxy(lambda: value)


def lazy(value: Any) -> Any:
    return wrapt.LazyObjectProxy(lambda: value)


NUMBERS: list[Callable[[Any], Any]] = [Tensor, wrapt.ObjectProxy, proxy, lazy]


@pytest.mark.parametrize("make", NUMBERS)
def test_numbers(client: Client, make: Callable[[Any], Any]) -> None:
    for value in (1.5, 2, -0.25, 1e300, math.inf, 2**60, -(2.0**70)):
        assert client.add(make(value), 0) == value
        assert client.identity([make(value)]) == [value]
        assert type(client.identity(make(value))) is type(value)
    assert client.ack(make(2), 3) == client.ack(2, 3)
    with pytest.raises(TypeError if make is Tensor else nearcall.InvalidArgument):
        client.ack(make(1.5), 3)
    for value in (2**53 + 1, -(2**60) - 1):
        with pytest.raises(nearcall.InvalidArgument, match="digits that a float64 has not"):
            client.add(make(value), 0)


def test_what_is_asked_for(client: Client) -> None:
    for call, value, asked in (
        (lambda tensor: client.add(tensor, 0), 1.5, ["float"]),
        (lambda tensor: client.add(tensor, 0), 2, ["float"]),
        (lambda tensor: client.ack(tensor, 1), 2, ["index"]),
        (lambda tensor: client.identity(tensor), 2, ["index"]),
        (lambda tensor: client.identity(tensor), 1.5, ["index", "float"]),
    ):
        tensor = Tensor(value)
        call(tensor)
        assert tensor.asked == asked


def test_proxies_that_are_no_numbers(client: Client) -> None:
    assert client.identity([proxy(True), proxy(False)]) == [True, False]
    for value in ("text", b"bytes", {"a": 1}, [1], (1,)):
        for make in (wrapt.ObjectProxy, proxy):
            with pytest.raises(nearcall.InvalidArgument, match="it only stands for what can be sent"):
                client.identity(make(value))


def test_places_of_what_is_refused_within(client: Client) -> None:
    items = [{"price": 1.0}, {"price": decimal.Decimal("0.5")}]
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(value\)\[1\]\['price'\]: takes any, got Decimal"):
        client.identity(items)
    with pytest.raises(nearcall.InvalidArgument, match=r"\[1\]\['at'\]\[0\]: takes time, got NaTType"):
        client.identity([0, {"at": [pandas.NaT]}])
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 2 \(by\)\.y: takes float64, got Decimal"):
        client.move({}, {"y": decimal.Decimal("0.12345678901234567890123")})


# What float() reads as a number, and what it does not.
TEXTS = ["007", "1e5", "nan", "12 ", "text"]


def test_text_of_another_class_is_text(client: Client) -> None:
    for text in TEXTS:
        assert client.identity(UserString(text)) == text
        assert client.identity({"zip": [UserString(text), proxy(UserString(text))]}) == {"zip": [text, text]}
        assert client.upper(UserString(text)) == text.upper()
    assert client.greet({"name": UserString("Ann"), "tags": (UserString(tag) for tag in "ab")}) == "Hello, Ann [a,b]"


class Element:
    """As lxml's StringElement is: not of Python's own text, but of its kind."""

    def __float__(self) -> float:
        return 7.0

    def __add__(self, other: object) -> str:
        return f"007{other}"

    def __mod__(self, other: object) -> str:
        return "007"


STAND_INS: list[Callable[[], Any]] = [
    lambda: UserString("007"), Element, lambda: proxy("007"), lambda: wrapt.ObjectProxy("007"), lambda: proxy(b"7"),
    lambda: proxy(UserString("007")),
    lambda: lazy("text"), lambda: proxy([7]), lambda: proxy(None),
]  # fmt: skip


@pytest.mark.parametrize("make", STAND_INS)
def test_text_is_no_number(client: Client, make: Callable[[], Any]) -> None:
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(arg1\): takes float64, got "):
        client.add(make(), 0)
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 2 \(by\): takes duration, got "):
        client.later(pandas.Timestamp(0, tz="UTC"), make())
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(m\): takes int64, got "):
        client.ack(make(), 3)
    if not isinstance(make(), UserString):
        with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(value\)\[0\]: takes any, got "):
            client.identity([make()])


@pytest.mark.parametrize("make", [UserString, proxy, wrapt.ObjectProxy])
def test_text_is_no_list(client: Client, make: Callable[[Any], Any]) -> None:
    with pytest.raises(nearcall.InvalidArgument, match=r"\.tags: takes list of string, got "):
        client.greet({"name": "Ann", "tags": make("ab")})


class Nothing:
    pass


def test_weak_references(client: Client) -> None:
    nothing, number = Nothing(), Tensor(2)
    assert client.identity(weakref.proxy(number)) == 2
    assert client.add(weakref.proxy(number), 1) == 3
    for call, place in (
        (client.identity, r"argument 1 \(value\)\[0\]: takes any, got "),
        (lambda items: client.add(items[0], 0), r"argument 1 \(arg1\): takes float64, got "),
        (lambda items: client.ack(items[0], 0), r"argument 1 \(m\): takes int64, got "),
    ):
        with pytest.raises(nearcall.InvalidArgument, match=place):
            call([weakref.proxy(nothing)])


class Odd:
    """Its methods return, and what they return is no number."""

    __float__ = __index__ = lambda self: "7"


def test_what_no_code_of_the_programs_raises(client: Client) -> None:
    """But float() itself, or what is made in C: it says no more than that the value is no number."""
    for call, place in (
        (client.identity, r"argument 1 \(value\): takes any, got Odd"),
        (lambda value: client.add(value, 0), r"argument 1 \(arg1\): takes float64, got Odd"),
        (lambda value: client.ack(value, 0), r"argument 1 \(m\): takes int64, got Odd"),
    ):
        with pytest.raises(nearcall.InvalidArgument, match=place) as caught:
            call(Odd())
        assert isinstance(caught.value.__cause__, TypeError)
