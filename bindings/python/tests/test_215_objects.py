"""Objects for structs: each field is there and no other, whatever made their class."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections import namedtuple
from typing import Any, ClassVar, NamedTuple, TypedDict

import attrs
import pydantic
import pytest

import nearcall
from nearcall import Client, Outcome


@dataclasses.dataclass
class Data:
    name: str
    age: int | None = None
    tags: list[str] = dataclasses.field(default_factory=list)
    kind: ClassVar[str] = "not a field"
    _private: str = "not sent"

    def greet(self) -> str:
        return self.name


@dataclasses.dataclass(slots=True, frozen=True)
class SlottedData:
    name: str
    age: int | None = None
    tags: tuple[str, ...] = ()


class Slots:
    __slots__ = ("_cache", "age", "name", "tags")

    def __init__(self, name: str, age: int | None = None, tags: tuple[str, ...] = ()) -> None:
        self.name, self.age, self.tags = name, age, tags


class Properties:
    def __init__(self, name: str, age: int | None = None, tags: tuple[str, ...] = ()) -> None:
        self._name, self._age, self._tags = name, age, tags

    @property
    def name(self) -> str:
        return self._name

    @property
    def age(self) -> int | None:
        return self._age

    @property
    def tags(self) -> tuple[str, ...]:
        return self._tags


class Tuple(NamedTuple):
    name: str
    age: int | None = None
    tags: tuple[str, ...] = ()


@attrs.define
class Attrs:
    name: str
    age: int | None = None
    tags: list[str] = attrs.Factory(list)


@attrs.define(slots=False)
class AttrsWithoutSlots:
    name: str
    age: int | None = None
    tags: list[str] = attrs.Factory(list)


class OpenModel(pydantic.BaseModel, extra="allow"):
    name: str
    tags: list[str] = []


class Model(pydantic.BaseModel):
    name: str
    age: int | None = None
    tags: list[str] = []


CLASSES = [Data, SlottedData, Slots, Properties, Tuple, Attrs, AttrsWithoutSlots, Model]


@pytest.mark.parametrize("kind", CLASSES)
def test_objects(client: Client, kind: Any) -> None:
    assert client.greet(kind(name="Ann")) == "Hello, Ann"
    assert client.greet(kind(name="Ann", age=7, tags=("a", "b"))) == "Hello, Ann, 7 [a,b]"


class Defaults:
    name, age, tags = "Ann", 7, ()


@dataclasses.dataclass
class AllDefaults:
    name: str = "Ann"
    age: int | None = None
    tags: tuple[str, ...] = ()


class Kind(type):
    name, age, tags = "Ann", 7, ()


@pytest.mark.parametrize("kind", [*CLASSES, Defaults, AllDefaults, Kind("Made", (), {}), dict, int])
def test_class_in_the_place_of_its_object(client: Client, kind: Any) -> None:
    """What its attributes are is not what anybody means: they may be the defaults."""
    refused = r"argument 1 \(person\): takes struct Person, got .*; it is a class, and an object of it is needed"
    with pytest.raises(nearcall.InvalidArgument, match=refused) as caught:
        client.greet(kind)
    assert caught.value.outcome is Outcome.NOT_EXECUTED


def test_typed_dict(client: Client) -> None:
    class Person(TypedDict, total=False):
        name: str
        age: int | None

    assert client.greet(Person(name="Ann")) == "Hello, Ann"


@dataclasses.dataclass
class MisnamedData:
    nme: str = "Ann"
    age: int | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


class MisnamedSlots:
    __slots__ = ("age", "nme", "tags")

    def __init__(self) -> None:
        self.age, self.tags = None, ()


class MisnamedTuple(NamedTuple):
    nme: str = "Ann"
    age: int | None = None
    tags: tuple[str, ...] = ()


class MisnamedChild(Slots):
    """The typo is in the child's own slots."""

    __slots__ = ("agee",)


@attrs.define
class MisnamedAttrs:
    nme: str = "Ann"
    age: int | None = None
    tags: list[str] = attrs.Factory(list)


class MisnamedModel(pydantic.BaseModel):
    nme: str = "Ann"
    age: int | None = None
    tags: list[str] = []


@pytest.mark.parametrize(
    "value",
    [
        MisnamedData(), MisnamedSlots(), MisnamedTuple(), MisnamedAttrs(), MisnamedModel(),
        namedtuple("T", "nme age tags")("Ann", None, ()),
        types.SimpleNamespace(nme="Ann", age=None, tags=()),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_misnamed_attribute_is_refused(client: Client, value: Any) -> None:
    with pytest.raises(nearcall.InvalidArgument, match="has no field 'nme', which the object has") as error:
        client.greet(value)
    assert error.value.outcome is Outcome.NOT_EXECUTED
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(person\)"):
        client.greet(person=value)


def test_attributes_beside_the_fields_are_refused(client: Client) -> None:
    person = Data("Ann")
    person.nickname = "A"  # type: ignore[attr-defined]
    extra = OpenModel(name="Ann", agee=7)  # type: ignore[call-arg]
    for value in (person, MisnamedChild("Ann"), extra, types.SimpleNamespace(name="Ann", tags=[], more=1)):
        with pytest.raises(nearcall.InvalidArgument, match=r"struct Person has no field '(nickname|agee|more)'"):
            client.greet(value)


def test_fields_that_a_model_allows_besides_its_own(client: Client) -> None:
    assert client.greet(OpenModel(name="Ann")) == "Hello, Ann"
    assert client.greet(OpenModel(name="Ann", age=7, _cache=1)) == "Hello, Ann, 7"  # type: ignore[call-arg]


def test_missing_attribute_is_refused(client: Client) -> None:
    class Person:
        name = "Ann"

    with pytest.raises(nearcall.InvalidArgument, match="has the field 'tags', and the object has no such attribute"):
        client.greet(Person())
    with pytest.raises(nearcall.InvalidArgument, match="has the field 'tags'"):
        client.greet(types.SimpleNamespace(name="Ann"))
    # One that is optional may be missing.
    assert client.greet(types.SimpleNamespace(name="Ann", tags=["a"])) == "Hello, Ann [a]"


def test_slot_that_is_empty(client: Client) -> None:
    person = Slots.__new__(Slots)
    person.name = "Ann"
    with pytest.raises(nearcall.InvalidArgument, match="has the field 'tags'"):
        client.greet(person)


class Failing:
    name = "Ann"
    tags = ()
    error: AttributeError | None = None

    @property
    def age(self) -> int:
        if self.error is not None:
            raise self.error
        return self.oops  # type: ignore[no-any-return, attr-defined]


class FailingWithin(Failing):
    age = functools.cached_property(lambda self: self.oops)  # type: ignore[assignment]


class FailingInAny:
    name = "Ann"
    tags = ()

    def __getattr__(self, name: str) -> Any:
        if name == "oops":
            raise AttributeError(name)
        return self.oops


class FailingInAll:
    tags = ()

    def __getattribute__(self, name: str) -> Any:
        return "Ann" if name == "name" else object.__getattribute__(self, name if name == "tags" else "oops")


def test_what_an_attributes_own_code_raises_is_raised(client: Client) -> None:
    """An attribute that is optional is there, though its value could not be had."""
    own = Failing()
    own.error = AttributeError("age")
    for value in (Failing(), own, FailingWithin(), FailingInAny(), FailingInAll()):
        with pytest.raises(AttributeError, match=r"oops|age"):
            client.greet(value)


class Proxy:
    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


class Named:
    def __getattr__(self, name: str) -> Any:
        if name in ("name", "tags"):
            return "Ann" if name == "name" else ()
        raise AttributeError(name)


class NamedByAll:
    tags = ()

    def __getattribute__(self, name: str) -> Any:
        return "Ann" if name == "name" else super().__getattribute__(name)


class LeftOut:
    __slots__ = ("age", "name", "tags")


def test_optional_attribute_that_is_not_there(client: Client) -> None:
    slots = LeftOut()
    slots.name, slots.tags = "Ann", ()
    for value in (Proxy(types.SimpleNamespace(name="Ann", tags=())), Named(), NamedByAll(), slots, Proxy(slots)):
        assert client.greet(value) == "Hello, Ann"
    with pytest.raises(AttributeError, match="oops"):
        client.greet(Proxy(Failing()))


def test_cached_names_with_underscore_and_methods_are_no_fields(client: Client) -> None:
    class Person(Data):
        @functools.lru_cache  # noqa: B019
        def shout(self) -> str:
            return self.name.upper()

        __hash__ = object.__hash__

    person = Person("Ann")
    person._seen = True  # type: ignore[attr-defined]
    assert person.shout() == "ANN"
    assert client.greet(person) == "Hello, Ann"


def test_nothing_but_strangers(client: Client) -> None:
    for value in (object(), 5, "Ann", [], lambda: None):
        with pytest.raises(nearcall.InvalidArgument, match="takes struct Person, got"):
            client.greet(value)
