"""Values whose own code runs while they are encoded or decoded, and does its worst.

Each function here takes a client. test_217_hostile.py runs them one by one; as a program
this runs them all against the address it is given, for valgrind.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import datetime
import gc
import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import nearcall
from nearcall import Client, InvalidArgument, Outcome

Attack = Callable[[Client], None]


class Acting:
    """Runs an action whenever it is looked at as a number, a text, or a float."""

    def __init__(self, action: Callable[[], Any], value: int = 1) -> None:
        self.action, self.value = action, value

    def __index__(self) -> int:
        self.action()
        return self.value

    def __float__(self) -> float:
        self.action()
        return float(self.value)

    def __repr__(self) -> str:
        self.action()
        return "Acting"


def refused(call: Callable[[], Any], *kinds: type[BaseException]) -> None:
    """The call fails with one of these, and has not run."""
    try:
        call()
    except kinds as error:
        outcome = getattr(error, "outcome", Outcome.NOT_EXECUTED)
    else:
        raise AssertionError(f"not refused, by none of {kinds}")
    assert outcome is Outcome.NOT_EXECUTED


def list_that_changes(client: Client) -> None:
    """What it has when code of an element's own first runs is sent."""
    acts: list[Callable[[list[Any]], Any]] = [
        list.clear, list.pop, list.reverse, lambda items: items.extend([5] * 100),
        lambda items: items.__setitem__(slice(None), ["other"] * len(items)),
    ]  # fmt: skip
    for act in acts:
        items: list[Any] = []
        items.extend([0, Acting(lambda items=items, act=act: (act(items), gc.collect())), *map(str, range(50)), [1]])
        assert client.identity(items) == [0, 1, *map(str, range(50)), [1]]


def dict_that_changes(client: Client) -> None:
    """What it has when it is come to is sent."""
    acts: list[Callable[[dict[Any, Any]], Any]] = [
        dict.clear, dict.popitem, lambda table: table.update({f"new{n}": n for n in range(1000)}),
        lambda table: table.update(dict.fromkeys(table, "other")),
        lambda table: (table.clear(), table.update({str(n): "other" for n in range(51)})),
    ]  # fmt: skip
    rest = {str(n): [n] for n in range(50)}
    for act in acts:
        table: dict[Any, Any] = {}
        table.update({"first": Acting(lambda table=table, act=act: (act(table), gc.collect())), **rest})
        assert client.identity(table) == {"first": 1, **rest}


class Key:
    """A key that hits every name, and changes the dict it is in when it is compared."""

    def __init__(self, name: str, table: dict[Any, Any], act: Callable[[dict[Any, Any]], Any]) -> None:
        self.name, self.table, self.act = name, table, act

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        self.act(self.table)
        return False

    def __repr__(self) -> str:
        self.table.clear()
        return "Key"


def keys_that_change_a_struct(client: Client) -> None:
    for act in (dict.clear, lambda table: table.update({str(n): n for n in range(500)}), lambda table: gc.collect()):
        table: dict[Any, Any] = {}
        for name in ("tags", "name", "age"):
            table[Key(name, table, lambda table: None)] = [name] * 3
        for key in list(table):
            key.act = act
        refused(lambda table=table: client.greet(table), InvalidArgument)


def keys_that_lie(client: Client) -> None:
    class Liar(str):
        __slots__ = ()

        def __hash__(self) -> int:
            return hash("name")

        def __eq__(self, other: object) -> bool:
            return True

    refused(lambda: client.greet({Liar("other"): "Ann", "nme": 1}), InvalidArgument, RuntimeError)
    client.identity({Liar("x"): Liar("y")})


def attributes_that_change_the_object(client: Client) -> None:
    class Person:
        def __init__(self) -> None:
            self.age, self.tags = 5, [str(n) for n in range(20)]

        def __getattr__(self, name: str) -> Any:
            if name != "name":
                raise AttributeError(name)
            self.__dict__.clear()
            gc.collect()
            return "Ann"

    refused(lambda: client.greet(Person()), InvalidArgument)


def attributes_without_end(client: Client) -> None:
    class Endless:
        def __getattr__(self, name: str) -> Any:
            return Endless()

    refused(lambda: client.greet(Endless()), InvalidArgument)

    class Deep(dict[str, Any]):
        pass

    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    refused(lambda: client.identity(deep), InvalidArgument)
    while deep:
        deep = deep[0]


def value_of_ever_more_parts(client: Client) -> None:
    """Small in memory, and without end when it is written out."""
    for kind in (lambda inner: [inner] * 1000, lambda inner: {str(n): inner for n in range(1000)}):
        value: Any = "a text that takes its place"
        for _ in range(6):
            value = kind(value)
        start = time.monotonic()
        refused(lambda value=value: client.identity(value), nearcall.ResourceExhausted)
        assert time.monotonic() - start < 20


def iterable_without_end(client: Client) -> None:
    def trickle() -> Iterator[str]:
        while True:
            time.sleep(0.01)
            yield "x"

    start = time.monotonic()
    refused(
        lambda: client.call("greet", {"name": "Ann", "tags": trickle()}, timeout=0.3), nearcall.DeadlineExceeded
    )
    # A quick machine reaches the size of a frame before the deadline.
    refused(
        lambda: client.call("greet", {"name": "Ann", "tags": itertools.repeat("x")}, timeout=0.3),
        nearcall.DeadlineExceeded,
        nearcall.ResourceExhausted,
    )
    assert time.monotonic() - start < 20


def mapping_without_end(client: Client) -> None:
    class Endless:
        def __init__(self, pause: float, most: int) -> None:
            self.pause, self.most = pause, most

        def keys(self) -> Iterator[str]:
            for number in itertools.count():
                assert number < self.most, "nobody has looked at the time"
                time.sleep(self.pause)
                yield str(number)

        def __getitem__(self, name: str) -> Any:
            return "Ann"

    for pause, most in ((0, 5_000_000), (0.01, 500)):
        refused(
            lambda pause=pause, most=most: client.call("greet", Endless(pause, most), timeout=0.3),
            nearcall.DeadlineExceeded,
        )


def code_that_takes_its_time(client: Client) -> None:
    start = time.monotonic()
    slow = [Acting(lambda: time.sleep(0.05)) for _ in range(1000)]
    for value in (slow, {"a": slow}, [slow]):
        refused(lambda value=value: client.call("identity", value, timeout=0.2), nearcall.DeadlineExceeded)
    refused(lambda: client.call("ack", Acting(lambda: time.sleep(0.3)), 1, timeout=0.2), nearcall.DeadlineExceeded)
    assert time.monotonic() - start < 20


def time_of_arguments_counts(client: Client) -> None:
    start = time.monotonic()
    with contextlib.suppress(nearcall.DeadlineExceeded):
        client.call("sleep", Acting(lambda: time.sleep(2), 20_000), timeout=2.2)
    assert 2.1 < time.monotonic() - start < 3.8


def arguments_that_call_the_same_client(client: Client) -> None:
    def again() -> None:
        assert client.ack(2, 3) == 9
        assert client.begin("add", 1, 2).wait() == 3

    assert client.ack(Acting(again, 2), Acting(again, 3)) == 9
    assert client.identity([Acting(again), {"a": Acting(again)}]) == [1, {"a": 1}]
    assert client.begin("ack", Acting(again, 2), Acting(again, 3)).wait() == 9


def arguments_that_close_the_client(client: Client) -> None:
    own = Client(client.address)
    with contextlib.suppress(nearcall.FailedPrecondition):
        assert own.ack(Acting(own.close, 2), 3) == 9
    refused(lambda: own.one(), nearcall.FailedPrecondition)


def buffer_that_changes(client: Client) -> None:
    data = bytearray(b"x" * 100_000)

    def change() -> None:
        data[:] = b"y" * 50_000
        data.extend(b"z" * 500_000)
        del data[10:]

    assert client.identity([Acting(change), data])[1] == b"y" * 10
    data = bytearray(b"x" * 100_000)
    assert client.identity([data, Acting(change)])[0] == b"x" * 100_000


def errors_that_are_raised(client: Client) -> None:
    class Own(Exception):
        pass

    def fail(error: BaseException) -> None:
        raise error

    for error in (
        Own("mine"), KeyboardInterrupt(), MemoryError(), RecursionError("mine"), StopIteration(), TypeError("x"),
        ValueError("x"), OverflowError("x"),
    ):  # fmt: skip
        refused(lambda error=error: client.ack(Acting(lambda: fail(error)), 1), type(error))
        refused(lambda error=error: client.identity([Acting(lambda: fail(error))]), type(error))


def texts_of_errors_that_act(client: Client) -> None:
    class Value:
        def __class_getitem__(cls, item: Any) -> Any:
            return cls

    table: dict[Any, Any] = {}

    class Shown(str):
        __slots__ = ()

        def __repr__(self) -> str:
            table.clear()
            gc.collect()
            return "shown"

    table[Shown("key")] = object()
    refused(lambda: client.identity(table), InvalidArgument)

    class Meta(type):
        @property
        def __name__(cls) -> Any:
            return 5

    class Odd(metaclass=Meta):
        pass

    refused(lambda: client.ack(Odd(), 1), InvalidArgument)


def times_that_lie(client: Client) -> None:
    class Delta(datetime.timedelta):
        @property
        def days(self) -> int:
            return 2**62

    class Micro(datetime.timedelta):
        @property
        def microseconds(self) -> int:
            return -(2**62)

    class Moment(datetime.datetime):
        def __sub__(self, other: Any) -> Any:
            return 5

    class Pretending:
        __class__ = datetime.timedelta  # type: ignore[assignment]

        def __add__(self, other: Any) -> Any:
            return 5

    now = datetime.datetime.now(datetime.UTC)
    for value in (Delta(1), Micro(1)):
        assert client.later(now, value) == now + datetime.timedelta(1)
    refused(lambda: client.later(now, Pretending()), InvalidArgument)
    refused(lambda: client.later(Moment.now(datetime.UTC), 1), InvalidArgument)


def numbers_that_lie(client: Client) -> None:
    class Text(str):
        __slots__ = ()

        def __float__(self) -> float:
            return 1.0

    class Wrong:
        def __float__(self) -> Any:
            return "x"

        def __index__(self) -> Any:
            return "x"  # noqa: PLE0305

        __class__ = property(lambda self: int)  # type: ignore[assignment]

    for value in (Text("x"), Wrong()):
        refused(lambda value=value: client.add(value, 1), InvalidArgument)
        refused(lambda value=value: client.ack(value, 1), InvalidArgument)
    refused(lambda: client.identity(Wrong()), InvalidArgument)


def iterables_that_act(client: Client) -> None:
    class Mapping:
        def keys(self) -> Any:
            client.one()
            return iter(["name", "name", "tags"])

        def __getitem__(self, name: str) -> Any:
            gc.collect()
            return ["x"] if name == "tags" else "Ann"

    assert client.greet(Mapping()) == "Hello, Ann [x]"

    class Broken:
        def __iter__(self) -> Any:
            yield "a"
            raise OSError("mine")

    refused(lambda: client.greet({"name": "A", "tags": Broken()}), OSError)


def collections_during_decoding(client: Client) -> None:
    """The collector runs finalizers while a result is half made; they use the client."""
    seen = []

    class Finalized:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            with contextlib.suppress(RuntimeError):
                seen.append(client.ack(1, 1))

    value = [{"a": [n, {"b": n}]} for n in range(300)]
    former = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(3):
            for _ in range(5):
                Finalized()
            assert client.identity(value) == value
    finally:
        gc.set_threshold(*former)
    gc.collect()
    assert set(seen) == {3}


def collector_that_closes_an_async_client(client: Client) -> None:
    """A finalizer closes it wherever an object is made, also while descriptions are read."""
    former = gc.get_threshold()
    left = 0

    def close_in_turn(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            go.close()

    async def ask() -> None:
        with contextlib.suppress(nearcall.FailedPrecondition, nearcall.Cancelled):
            await go.function("greet")

    loop = asyncio.new_event_loop()
    gc.collect()
    gc.callbacks.append(close_in_turn)
    for turn in itertools.count(1, 2):
        go = nearcall.AsyncClient(client.address, timeout=60)
        left = 2 * turn  # each collection begins and ends
        gc.set_threshold(1, 1000, 1000)
        loop.run_until_complete(ask())
        gc.set_threshold(*former)
        if not go.closed:
            break
    gc.callbacks.remove(close_in_turn)
    go.close()
    loop.close()
    assert turn > 50


def values_of_a_call_that_is_dropped(client: Client) -> None:
    calls: list[Any] = []
    calls.append(client.begin("identity", [Acting(calls.clear), "x" * 100]))
    del calls
    gc.collect()


def handlers_that_change_what_is_sent(client: Client) -> None:
    """Handlers of signals run between any two values: nothing is used that they have dropped."""

    class Thing:
        pass

    def large() -> list[Any]:
        thing, table = Thing(), {str(n): [n] for n in range(6000)}
        thing.__dict__.update(name="Ann", age=5, tags=[str(n) for n in range(20_000)])
        return [[*range(40_000)], [[n] for n in range(6000)], table, {"a": table, "b": [table] * 3}, thing]

    values: list[Any] = []

    def act(*_: Any) -> None:
        for value in values:
            (vars(value) if isinstance(value, Thing) else value).clear()
        with contextlib.suppress(nearcall.NearcallError):
            client.one()

    former = signal.signal(signal.SIGALRM, act)
    try:
        for number in range(10):
            values[:] = large()
            value = values[number % len(values)]
            signal.setitimer(signal.ITIMER_REAL, 0.002 * (number + 1), 0.05)
            for given in (value, [value, value], iter([value] * 5), {"name": "Ann", "tags": value}):
                with contextlib.suppress(InvalidArgument, nearcall.ResourceExhausted, RuntimeError):
                    client.call("identity" if isinstance(given, list) else "greet", given)
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert client.one() == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def handlers_that_close_the_client(client: Client) -> None:
    for number in range(8):
        own = Client(client.address)
        own.connect()
        former = signal.signal(signal.SIGALRM, lambda *_, own=own: own.close())
        signal.setitimer(signal.ITIMER_REAL, 0.0005 * (number + 1))
        with contextlib.suppress(nearcall.NearcallError):
            while not own.closed:
                own.identity([*range(30_000)])
        signal.signal(signal.SIGALRM, former)
        refused(own.one, nearcall.FailedPrecondition)


def dicts_that_were_larger(client: Client) -> None:
    for left in ((), ("name",), ("name", "age")):
        table: dict[Any, Any] = dict.fromkeys([*range(5000), *left])
        for number in range(5000):
            del table[number]
        table.update(zip(left, ("Ann", 5), strict=False))
        assert client.identity([table] * 300) == [table] * 300
        assert client.greet(table).startswith("Hello, ")
        assert client.greet({"name": "Ann", "tags": table.keys()}).startswith("Hello, Ann")
        assert client.greet({"name": "Ann", "tags": set(table)}).startswith("Hello, Ann")

        class Changing:
            def __index__(self, table: Any = table) -> int:
                table.update(dict.fromkeys(range(50)))
                table.clear()
                return 1

        client.identity([table, Changing(), table, {"a": table}])


def names_that_lie(client: Client) -> None:
    class Liar(str):
        __slots__ = ()

        def __hash__(self) -> int:
            gc.collect()
            return hash("one")

        def __eq__(self, other: object) -> bool:
            client.close()
            return True

    assert client.one() == 1
    assert client.call("one") == 1
    for call in (client.call, client.begin, client.function, lambda name: getattr(client, name)()):
        refused(lambda call=call: call(Liar("nope")), nearcall.Unimplemented)
    assert client.call(Liar("add"), 1, 2) == 3


def keywords_that_are_dropped(client: Client) -> None:
    """Who calls from C gives a dict of the program's own."""
    call = ctypes.pythonapi.PyObject_Call
    call.restype = ctypes.py_object
    call.argtypes = [ctypes.py_object] * 3
    for _ in range(10):
        named: dict[str, Any] = {}
        kept: list[Any] = []

        def act(named: dict[str, Any] = named, kept: list[Any] = kept) -> None:
            named.clear()
            kept.extend(Acting(bool, 7) for _ in range(1000))

        named.update(a=Acting(act, 17), b=Acting(bool, 5))
        assert call(client.divmod, (), named) == (3, 2)


ATTACKS: list[Attack] = [
    list_that_changes, dict_that_changes, keys_that_change_a_struct, keys_that_lie, attributes_that_change_the_object,
    attributes_without_end, value_of_ever_more_parts, iterable_without_end, code_that_takes_its_time,
    time_of_arguments_counts, arguments_that_call_the_same_client, arguments_that_close_the_client, buffer_that_changes,
    errors_that_are_raised, texts_of_errors_that_act, times_that_lie, numbers_that_lie, iterables_that_act,
    handlers_that_change_what_is_sent, handlers_that_close_the_client, dicts_that_were_larger, names_that_lie,
    mapping_without_end, collections_during_decoding, collector_that_closes_an_async_client,
    values_of_a_call_that_is_dropped, keywords_that_are_dropped,
]  # fmt: skip


def main() -> None:
    for attack in ATTACKS:
        with Client(sys.argv[1], timeout=60) as client:
            attack(client)
            assert client.one() == 1
    print("all were withstood")


if __name__ == "__main__":
    main()
