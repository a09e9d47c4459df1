"""Numbers that may be whole or not, as proxies and tensors are: what a parameter needs is asked for first."""

from __future__ import annotations

import decimal
import math
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
    with pytest.raises(TypeError):
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
