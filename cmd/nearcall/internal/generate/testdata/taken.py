"""What the runtime takes, mypy and pyright take, too: each line runs, and both read it."""

import array
import collections
import dataclasses
import datetime
import decimal
import fractions
import sys
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs
import nearcall
import numpy as np
import pydantic

from demo import Demo


class Tuple(NamedTuple):
    x: float
    y: float


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: int
    y: decimal.Decimal


@attrs.define
class Attrs:
    x: float
    y: float


class Model(pydantic.BaseModel):
    x: float
    y: float


class Slots:
    __slots__ = ("x", "y")

    def __init__(self) -> None:
        self.x = 1.0
        self.y = 2.0


class Plain:
    def __init__(self) -> None:
        self.x = 1.0
        self.y = 2.0


class WithoutAge:
    """What is optional may be missing."""

    def __init__(self) -> None:
        self.name = "Ann"
        self.tags = ("a",)


class Index:
    def __index__(self) -> int:
        return 3


def check(demo: Demo) -> None:
    there = {"x": 2.0, "y": 4.0}
    for moved in (
        demo.move({"x": 1, "y": 2}, {"x": 1, "y": 2}),
        demo.move(Tuple(1, 2), Tuple(1, 2)),
        demo.move(Frozen(1, decimal.Decimal(2)), Frozen(1, decimal.Decimal(2))),
        demo.move(Attrs(1, 2), Attrs(1, 2)),
        demo.move(Model(x=1, y=2), Model(x=1, y=2)),
        demo.move(Slots(), Slots()),
        demo.move(Plain(), Plain()),
    ):
        assert moved == there
    loose: dict[str, Any] = {"x": 1, "y": 2}
    ordered: collections.OrderedDict[str, Any] = collections.OrderedDict(loose)
    view: Mapping[str, Any] = types.MappingProxyType(loose)
    assert demo.move(loose, ordered) == demo.move(view, loose) == there
    assert demo.greet(WithoutAge()) == "Hello, Ann [a]"
    assert demo.greet({"name": "Ann", "age": np.int8(7), "tags": (c for c in "ab")}) == "Hello, Ann, 7 [a,b]"

    assert demo.ack(np.int64(2), Index()) == demo.ack(2, 3) == 9
    assert demo.sum(1, True, np.uint8(3)) == 5
    assert demo.add(decimal.Decimal("0.5"), fractions.Fraction(1, 2)) == 1.0
    assert demo.add(np.float32(0.5), Index()) == 3.5
    assert demo.echo(np.zeros(3, np.uint8)) == demo.echo(array.array("B", [0, 0, 0])) == b"\0\0\0"
    moment = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
    late = moment + datetime.timedelta(seconds=3)
    assert demo.later(moment, 3) == demo.later(moment, np.float32(3)) == demo.later(moment, Index()) == late
    assert demo.kinds(np.bool_(True), 1, 1, 1, 1, 1, 1, "", memoryview(b""))[0] is True


with Demo(nearcall.Client(sys.argv[1])) as demo:
    check(demo)
print("ok")
