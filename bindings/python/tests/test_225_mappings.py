"""Mappings: which dicts are sent as they lie, those with several values of a key, and proxies."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import django.conf
import pytest
import sqlalchemy
import wrapt
from multidict import CIMultiDict, MultiDict, MultiDictProxy
from werkzeug import datastructures
from werkzeug.local import LocalProxy

import nearcall
from nearcall import Client
from scripted import ScriptedServer, function

django.conf.settings.configure()
from django.http import QueryDict  # noqa: E402 - it takes settings
from django.utils.datastructures import MultiValueDict  # noqa: E402

LARGE = 1_000_000
PERSON = {"fields": [{"name": "name", "type": "string"}, {"name": "notes", "type": {"optional": {"list": "string"}}}]}
LISTS = {"map": ["string", {"list": "string"}]}
SCALARS = {"map": ["string", "string"]}
STRUCT = {"struct": "Person"}


@pytest.fixture
def sent(sent: Callable[..., bytes]) -> Callable[[Any, Any], bytes]:
    return functools.partial(sent, types={"Person": PERSON})


# ---- Subclasses of dict without code of their own for what they hold ----


class Plain(dict[Any, Any]):
    pass


class Telling(dict[Any, Any]):
    """What the encoder does not ask for may be anything."""

    def items(self) -> Any:
        raise AssertionError("it was asked")

    __iter__ = __len__ = values = __contains__ = get = items  # type: ignore[assignment]


class Again(dict[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("it was asked")

    keys = __getitem__  # type: ignore[assignment]


class Reverted(Again):
    keys, __getitem__ = dict.keys, dict.__getitem__  # type: ignore[assignment]


PLAIN: list[Callable[[], Any]] = [
    Plain, Telling, Reverted, OrderedDict, type("Ordered", (OrderedDict,), {}), Counter,
    lambda: defaultdict(list), type("Default", (defaultdict,), {}),
]  # fmt: skip


def make_plain(kind: Callable[[], Any], value: dict[Any, Any]) -> Any:
    made = kind()
    dict.update(made, value)
    return made


@pytest.mark.parametrize("kind", PLAIN)
def test_plain_subclasses(client: Client, kind: Any) -> None:
    assert client.identity([make_plain(kind, {"a": 1, "b": [2]})]) == [{"a": 1, "b": [2]}]
    assert client.greet(make_plain(kind, {"name": "Ann"})) == "Hello, Ann"


@pytest.mark.parametrize("kind", PLAIN)
def test_plain_subclasses_that_are_gathered(sent: Callable[[Any, Any], Any], kind: Any) -> None:
    """Their bytes count, without their being asked."""
    for element in ("any", SCALARS, STRUCT):
        refused(sent, element, lambda: make_plain(kind, {"name": "x" * LARGE}))


def refused(sent: Callable[[Any, Any], Any], element: Any, make: Callable[[], Any]) -> None:
    given = 0

    def endless() -> Iterator[Any]:
        nonlocal given
        while given < 100:
            given += 1
            yield make()

    with pytest.raises(nearcall.ResourceExhausted, match=r"gives more than .*frame_bytes_max"):
        sent({"list": element}, endless())
    assert given < 20


def test_code_of_a_metaclass_does_not_run(client: Client) -> None:
    asked = []

    class Asked(type):
        def __getattribute__(cls, name: str) -> Any:
            asked.append(name)
            return super().__getattribute__(name)

    value = Asked("Kind", (dict,), {})({"name": "Ann"})
    asked.clear()
    assert client.identity([value, value]) == [{"name": "Ann"}] * 2
    assert client.greet(value) == "Hello, Ann"
    assert asked == []


def test_class_that_changes_while_it_is_sent(client: Client) -> None:
    class Changing(dict[str, Any]):
        pass

    class Change:
        def __index__(self) -> int:
            Changing.__getitem__ = lambda self, key: "asked"  # type: ignore[method-assign, assignment]
            return 1

    rows: list[Any] = [Changing(a=0), Changing(a=0), Change(), Changing(a=0)]
    assert client.identity(rows) == [{"a": 0}, {"a": 0}, 1, {"a": "asked"}]
    del Changing.__getitem__
    assert client.identity(rows[:1]) == [{"a": 0}]


def test_classes_that_go_while_they_are_sent(client: Client) -> None:
    def rows() -> Iterator[Any]:
        for number in range(1000):
            yield type(f"Row{number}", (dict,), {"__getitem__": lambda self, key: key} if number % 2 else {})(a="b")

    assert client.identity(list(rows())) == [{"a": "a"} if number % 2 else {"a": "b"} for number in range(1000)]


class Key(str):
    """One that lies in a class, and changes what is sent when it is compared."""

    __slots__ = ()
    act: Callable[[], Any] = staticmethod(lambda: None)

    def __hash__(self) -> int:
        return hash("keys")

    def __eq__(self, other: object) -> bool:
        Key.act()
        return False


def test_names_of_a_class_that_change_what_is_sent(client: Client) -> None:
    value: dict[str, Any] = {}
    inner: list[Any] = []
    odd = type("Odd", (dict,), {Key("other"): 1})  # type: ignore[dict-item]
    inner.extend(odd({str(n): [n]}) for n in range(50))
    value["a"] = inner
    Key.act = staticmethod(lambda: (inner.clear(), value.clear()))
    try:
        for call in (lambda: client.identity(value), lambda: client.identity({"a": (value for _ in range(3))})):
            inner.extend(odd({str(n): [n]}) for n in range(50))
            value["a"] = inner
            with contextlib.suppress(nearcall.InvalidArgument):
                call()
    finally:
        Key.act = staticmethod(lambda: None)
    assert client.one() == 1


# ---- What lies in slots and places ----


class Slots:
    __slots__ = ("_seen", "name", "notes")

    def __init__(self, name: str) -> None:
        self.name, self.notes, self._seen = name, None, "x" * LARGE


class Row(NamedTuple):
    name: str
    notes: list[str] | None = None


def row() -> Any:
    with sqlalchemy.create_engine("sqlite://").connect() as connection:
        return connection.execute(sqlalchemy.text(f"select '{'x' * LARGE}' as name, null as notes")).one()


@pytest.mark.parametrize("make", [lambda: Slots("x" * LARGE), lambda: Row("x" * LARGE), row])
def test_rows_that_are_gathered(sent: Callable[[Any, Any], Any], make: Callable[[], Any]) -> None:
    refused(sent, STRUCT, make)


def test_rows_that_fit(sent: Callable[[Any, Any], Any]) -> None:
    """What is not sent, in names of the object's own, does not count."""
    for make in (lambda: Slots("Ann"), lambda: Row("Ann")):
        assert len(sent({"list": STRUCT}, (make() for _ in range(50)))) < 10_000


# ---- Several values of a key ----

BOTH = [("a", "1"), ("a", "2"), ("b", "3")]
MULTIPLE: list[Callable[[], Any]] = [
    lambda: datastructures.MultiDict(BOTH), lambda: datastructures.ImmutableMultiDict(BOTH),
    lambda: datastructures.CombinedMultiDict([datastructures.MultiDict([pair]) for pair in BOTH]),
    lambda: datastructures.Headers(BOTH), lambda: LocalProxy(lambda: datastructures.MultiDict(BOTH)),
    lambda: MultiValueDict({"a": ["1", "2"], "b": ["3"]}), lambda: QueryDict("a=1&a=2&b=3"),
    lambda: MultiDict(BOTH), lambda: CIMultiDict([("a", "1"), ("A", "2"), ("b", "3")]),
    lambda: MultiDictProxy(MultiDict(BOTH)), lambda: wrapt.ObjectProxy(QueryDict("a=1&a=2&b=3")),
]  # fmt: skip


@pytest.mark.parametrize("make", MULTIPLE)
def test_all_values_of_a_key(sent: Callable[[Any, Any], bytes], make: Callable[[], Any]) -> None:
    def assert_sent(kind: Any, value: dict[str, Any]) -> None:
        reverse = dict(reversed(value.items()))  # some keep their keys in a set
        assert sent(kind, make()) in (sent(kind, value), sent(kind, reverse))

    everything = {"a": ["1", "2"], "b": ["3"]}
    assert_sent(LISTS, everything)
    assert_sent({"map": ["string", {"optional": {"list": "string"}}]}, everything)
    value = make()
    assert value["a"] in ("1", "2")
    assert_sent(SCALARS, {key: value[key] for key in ("a", "b")})


def test_all_values_for_a_field(sent: Callable[[Any, Any], bytes], client: Client) -> None:
    form = [("name", "Ann"), ("notes", "a"), ("notes", "b")]
    query = QueryDict("name=Ann&notes=a&notes=b")
    for value in (datastructures.MultiDict(form), MultiDict(form), query):
        assert sent(STRUCT, value) == sent(STRUCT, {"name": "Ann", "notes": ["a", "b"]})


def test_many_values_of_a_key_are_asked_for_once(sent: Callable[[Any, Any], bytes]) -> None:
    class Counting(MultiDictLike):
        asked = 0

        def getall(self, key: str) -> list[str]:
            Counting.asked += 1
            return ["x"] * 1000

    assert sent(LISTS, Counting()) == sent(LISTS, {"a": ["x"] * 1000})
    assert Counting.asked == 1


FORMS = {"fields": [{"name": "a", "type": {"list": "string"}}, {"name": "b", "type": "string"}]}
OTHER_FORMS = {"fields": [{"name": "a", "type": "string"}, {"name": "b", "type": {"list": "string"}}]}
SHAPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "lists": (LISTS, {"a": ["1", "2"], "b": ["3"]}),
    "scalars": (SCALARS, {"a": "2", "b": "3"}),
    "struct": ({"struct": "Form"}, {"a": ["1", "2"], "b": "3"}),
    "other struct": ({"struct": "OtherForm"}, {"a": "2", "b": ["3"]}),
}


@pytest.mark.parametrize("second", SHAPES)
@pytest.mark.parametrize("first", SHAPES)
def test_same_mapping_for_two_types(folder: Path, first: str, second: str) -> None:
    (kind, value), (other_kind, other_value) = SHAPES[first], SHAPES[second]
    description = function([kind, other_kind], [], types={"Form": FORMS, "OtherForm": OTHER_FORMS})
    form = MultiValueDict({"a": ["1", "2"], "b": ["3"]})
    with ScriptedServer(folder / "f", description) as server, Client(server.address) as client:
        client.call("f", form, form)
        client.call("f", value, other_value)
    assert server.requests[0] == server.requests[1]


def test_mapping_with_one_value_of_a_key_is_asked_once(folder: Path) -> None:
    """It may be one that can be read only once."""

    class Once(MultiDictLike):
        asked = 0

        def keys(self) -> Iterator[str]:
            self.asked += 1
            return iter(["a", "b"])

        def __getitem__(self, key: str) -> str:
            return "1"

    kinds: list[Any] = [SCALARS, {"struct": "Optional"}, {"map": ["string", {"optional": "string"}]}]
    types = {"Optional": {"fields": [{"name": name, "type": "string"} for name in "ab"]}}
    value = Once()
    description = function(kinds, [], types=types)
    with ScriptedServer(folder / "f", description) as server, Client(server.address) as client:
        client.call("f", *[value] * 3)
        client.call("f", *[{"a": "1", "b": "1"}] * 3)
    assert server.requests[0] == server.requests[1]
    assert value.asked == 1


class MultiDictLike:
    def keys(self) -> Iterator[str]:
        return iter(["a"] * 1000)

    def __getitem__(self, key: str) -> str:
        return "x"


def test_endless_values_of_a_key(sent: Callable[[Any, Any], bytes]) -> None:
    class Endless(MultiDictLike):
        asked = 0

        def keys(self) -> Iterator[str]:
            return map(str, range(1000))

        def getlist(self, key: str) -> list[str]:
            self.asked += 1
            return ["x" * LARGE]

    value = Endless()
    with pytest.raises(nearcall.ResourceExhausted, match="gives more than"):
        sent(LISTS, value)
    assert value.asked < 20


@pytest.mark.parametrize("method", ["getlist", "getall"])
def test_what_asking_for_all_raises(sent: Callable[[Any, Any], bytes], method: str) -> None:
    def fail(self: object, key: str) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sent(LISTS, type("Failing", (MultiDictLike,), {method: fail})())
    # What cannot be called is no method.
    with pytest.raises(nearcall.InvalidArgument, match=r"\['a'\]: takes list of string, got str"):
        sent(LISTS, type("Odd", (MultiDictLike,), {method: 5})())


# ---- Mappings that are none by their class ----


class Delegating:
    """A proxy as many write them."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def __getitem__(self, key: str) -> Any:
        return self._target[key]

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._target)


class Registered:
    keys = property(lambda self: self._keys)

    def _keys(self) -> Any:
        return ["name", "age"]

    def __getitem__(self, key: str) -> Any:
        return {"name": "Ann", "age": 7}[key]


Mapping.register(Registered)
PERSON_VALUE = {"name": "Ann", "age": 7}
PROXIES: list[Callable[[], Any]] = [
    lambda: wrapt.ObjectProxy(PERSON_VALUE), lambda: LocalProxy(lambda: PERSON_VALUE), lambda: Delegating(PERSON_VALUE),
    lambda: wrapt.ObjectProxy(UserDict(PERSON_VALUE)), lambda: wrapt.ObjectProxy(Plain(PERSON_VALUE)),
    lambda: types.MappingProxyType(PERSON_VALUE), Registered, lambda: wrapt.LazyObjectProxy(lambda: PERSON_VALUE),
]  # fmt: skip


@pytest.mark.parametrize("make", PROXIES)
def test_proxies_of_dicts(client: Client, make: Callable[[], Any]) -> None:
    assert client.greet(make()) == "Hello, Ann, 7"
    with pytest.raises(nearcall.InvalidArgument, match="struct Point has no field 'name'; it has x, y"):
        client.move(make(), {})


@pytest.mark.parametrize("proxy", [wrapt.ObjectProxy, lambda value: LocalProxy(lambda: value), Delegating])
def test_proxies_of_objects(client: Client, proxy: Callable[[Any], Any]) -> None:
    assert client.greet(proxy(types.SimpleNamespace(name="Ann", tags=()))) == "Hello, Ann"


def test_proxy_of_nothing(client: Client) -> None:
    def fail() -> Any:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        client.greet(wrapt.LazyObjectProxy(fail))


class Elements:
    """What is iterable in Python's older way, and has no length."""

    def __getitem__(self, index: int) -> str:
        return "a"


def test_mappings_and_endless_elements_are_no_lists(client: Client) -> None:
    texts = (ctypes.c_char_p * 3)(b"a", b"b", b"c")
    mapping = {"a": "1"}
    for value in (
        mapping, UserDict(mapping), ChainMap(mapping), types.MappingProxyType(mapping), Counter("a"),
        OrderedDict(mapping), wrapt.ObjectProxy(mapping),
        ctypes.cast(texts, ctypes.POINTER(ctypes.c_char_p)), Elements(),
    ):  # fmt: skip
        with pytest.raises(nearcall.InvalidArgument, match=r"tags: takes list of string, got"):
            client.greet({"name": "Ann", "tags": value})
    assert client.greet({"name": "Ann", "tags": mapping.values()}) == "Hello, Ann [1]"
    assert client.greet({"name": "Ann", "tags": UserList("ab")}) == "Hello, Ann [a,b]"
