"""Subclasses of dict, list and tuple that have code of their own are asked, as what is none is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from werkzeug.datastructures import CombinedMultiDict, MultiDict

from nearcall import Client
from support import Generations, Server


class Lazy(dict[str, Any]):
    """Nothing lies in it: it is asked."""

    def __getitem__(self, key: str) -> Any:
        return {"name": "Ann", "age": 7}[key]

    def keys(self) -> Any:
        return ["name", "age"]


class Walked(dict[str, Any]):
    """Gives something else where it is walked, which dict() does not do either."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)()

    def __iter__(self) -> Iterator[Any]:
        return iter([("name", 1), 5])

    items = values = __iter__  # type: ignore[assignment]


class Pairs:
    """As some mappings are iterated over, by pairs."""

    def keys(self) -> Any:
        return iter(["name", "age"])

    def __getitem__(self, key: str) -> Any:
        return {"name": "Ann", "age": 7}[key]

    def __iter__(self) -> Iterator[Any]:
        return iter([("name", "Ann"), ("age", 7)])


class Unfolded(dict[str, Any]):
    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        return value() if callable(value) else value


class Misleading(dict[str, Any]):
    keys = 5  # type: ignore[assignment]


MAPPINGS: list[Callable[[], Any]] = [
    Lazy,
    lambda: Walked(name=lambda: "Ann", age=lambda: 7),
    lambda: Unfolded(name=lambda: "Ann", age=7),
    lambda: Misleading(name="Ann", age=7),
    lambda: CombinedMultiDict([MultiDict([("name", "Ann"), ("name", "Bob")]), MultiDict({"age": 7})]),
]


@pytest.mark.parametrize("make", MAPPINGS)
def test_dicts_with_code_of_their_own(client: Client, make: Callable[[], Any]) -> None:
    assert client.greet(make()) == "Hello, Ann, 7"
    assert client.identity([make()]) == [{"name": "Ann", "age": 7}]


def test_mapping_that_is_iterated_over_by_pairs(client: Client) -> None:
    assert client.greet(Pairs()) == "Hello, Ann, 7"


def test_form_of_werkzeug(client: Client) -> None:
    form = MultiDict([("name", "Ann"), ("name", "Bob")])
    assert client.greet(form) == "Hello, Ann"
    assert client.identity(form) == {"name": "Ann"}


class Reversed(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        return reversed(self)


class Doubled(tuple[Any, ...]):
    def __iter__(self) -> Iterator[Any]:
        return (2 * item for item in super().__iter__())


def test_lists_with_code_of_their_own(client: Client) -> None:
    assert client.identity({"a": Reversed([1, 2, 3])}) == {"a": [3, 2, 1]}
    assert client.identity(Doubled((1, 2))) == [2, 4]
    assert client.greet({"name": "Ann", "tags": Reversed("ab")}) == "Hello, Ann [b,a]"
    assert client.greet({"name": "Ann", "tags": Doubled("ab")}) == "Hello, Ann [aa,bb]"


class Growing(dict[str, int]):
    def keys(self) -> Any:
        self["ann"] = self.get("ann", 0) + 1
        return super().keys()


def test_dict_with_code_of_its_own_for_a_map(start_server: Callable[..., Server]) -> None:
    generations = Generations(start_server, 1)
    with Client(generations.address) as client:
        assert client.bag(["x"], Growing()) == "[x] map[ann:1]"
        both = Growing()
        generations.replace(2)
        assert client.bag(both, ["x"]) == "map[ann:1] [x]"
