"""What the runtime refuses, and what would hide a mistake: mypy finds each line that is marked, and no other."""

import collections
import dataclasses
from typing import NamedTuple

from demo import Demo, Point


class Misspelt(NamedTuple):
    x: float
    z: float


@dataclasses.dataclass
class Words:
    x: str
    y: str


demo = Demo("unix:/nowhere")
point: Point = {"x": 1, "y": 2}
demo.move(point, {"x": 1, "z": 2})  # wrong
demo.move(point, {"x": "1"})  # wrong
demo.move(point, Misspelt(1, 2))  # wrong
demo.move(point, Words("1", "2"))  # wrong
demo.move(point, 5)  # wrong
demo.move(point, "x")  # wrong
demo.move(point, collections.OrderedDict(x=1.0))  # wrong: its keys are any
demo.greet({"name": "Ann", "age": "7"})  # wrong
demo.ack(1.5, 2)  # wrong
demo.ack("1", 2)  # wrong
demo.ack(None, 2)  # wrong
demo.add("0.5", 1)  # wrong
demo.add(1j, 1)  # wrong
demo.echo("text")  # wrong
demo.upper(b"bytes")  # wrong
demo.kinds(1, 1, 1, 1, 1, 1, 1, "", b"")  # wrong
demo.kinds("true", 1, 1, 1, 1, 1, 1, "", b"")  # wrong
demo.sum(1, "2")  # wrong
quotient: str = demo.divmod(7, 2)[0]  # wrong
Demo(5)  # wrong
