"""Names, numbers and texts of classes with code of their own are what they are; numbers of options are not cut."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall import AsyncClient, Client, handoff
from scripted import ScriptedServer, function
from support import PATIENCE_SECONDS, ring_during


class Liar(str):
    """A text that says that it is another."""

    __slots__ = ()
    OTHER = "one"

    def __hash__(self) -> int:
        return hash(self.OTHER)

    def __eq__(self, other: object) -> bool:
        return True

    def __str__(self) -> str:
        return self.OTHER

    def startswith(self, *_: Any) -> bool:
        return False


@pytest.fixture
def known(client: Client) -> Client:
    """A client that knows the function that the names say they are, by both ways."""
    assert client.call("one") == 1
    assert client.function("one")() == 1
    assert client.one() == 1
    return client


def test_function_that_is_called(known: Client) -> None:
    name = Liar("identity")
    assert known.call(name, 7) == 7
    assert known.begin(name, 7).wait() == 7
    assert known.function(name)(7) == 7
    assert known._function(name)(7) == 7
    assert getattr(known, name)(7) == 7
    assert known.function(name).__name__ == "identity"
    assert type(known.function(name).__name__) is str
    assert known.call("one") == 1
    assert known.one() == 1


def test_function_that_is_not_there(known: Client) -> None:
    name = Liar("nope")
    for call in (known.call, known.function, lambda name: getattr(known, name)()):
        with pytest.raises(nearcall.Unimplemented):
            call(name)
    with pytest.raises(nearcall.Unimplemented):
        known.call_raw(name, b"")


def test_attribute_that_is_set(known: Client) -> None:
    """It hides the function that it names, and no other."""

    class Subclass(Client):
        pass

    with Subclass(known.address) as own:
        assert own.one() == 1
        setattr(own, Liar("identity"), 5)
        assert own.one() == 1
        assert own.identity == 5


@pytest.mark.parametrize("kind", [Liar, str])
def test_async_client(address: str, kind: type[str]) -> None:
    async def main() -> None:
        async with AsyncClient(address, timeout=PATIENCE_SECONDS) as client:
            assert await client.call("one") == 1
            name = kind("identity")
            assert await client.call(name, 7) == 7
            assert await (await client.function(name))(7) == 7
            assert await getattr(client, name)(7) == 7
            assert type((await client.function(name)).__name__) is str
            with pytest.raises(nearcall.Unimplemented):
                await client.call(kind("nope"))
            with pytest.raises(AttributeError):
                getattr(client, kind("_nope"))
            for call in (client.call, client.function):
                with pytest.raises(TypeError, match="a function's name is a str"):
                    await call(5)  # type: ignore[arg-type]
                with pytest.raises(nearcall.InvalidArgument, match="255"):
                    await call(kind("x" * 256))

    asyncio.run(main())


def test_keywords_and_fields(client: Client) -> None:
    class Field(Liar):
        __slots__ = ()
        OTHER = "name"

    assert client.call("divmod", 7, **{Liar("b"): 2}) == (3, 1)
    with pytest.raises(nearcall.InvalidArgument, match="no parameter"):
        client.call("divmod", 7, **{Liar("x"): 2})
    with pytest.raises(nearcall.InvalidArgument, match="no field 'nme'"):
        client.greet({Field("nme"): "Ann"})
    assert client.greet({Field("name"): "Ann"}) == "Hello, Ann"
    assert client.identity({Field("key"): Field("value")}) == {"key": "value"}


def test_timeout_that_is_none(client: Client) -> None:
    """The keyword timeout= is the one that is spelt so."""
    with pytest.raises(nearcall.InvalidArgument, match="no parameter 'timeout_'"):
        client.call("one", **{Liar("timeout_"): 1})
    assert client.call("one", **{Liar("timeout"): 10}) == 1


class LyingInt(int):
    def __float__(self) -> float:
        raise AssertionError("asked")

    def __index__(self) -> int:
        raise AssertionError("asked")

    __int__ = __index__

    def __eq__(self, other: object) -> bool:
        return True

    __le__ = __lt__ = __gt__ = __ge__ = __eq__  # type: ignore[assignment]
    __hash__ = int.__hash__


class LyingFloat(float):
    def __float__(self) -> float:
        raise AssertionError("asked")

    def __eq__(self, other: object) -> bool:
        return True

    __le__ = __lt__ = __gt__ = __ge__ = __eq__  # type: ignore[assignment]
    __hash__ = float.__hash__


class LyingBytes(bytes):
    def __buffer__(self, flags: int) -> memoryview:
        raise AssertionError("asked")

    def __len__(self) -> int:
        return 1

    def __bytes__(self) -> bytes:
        return b"other"


def test_values_are_what_they_are(client: Client) -> None:
    assert client.identity([LyingInt(5), LyingFloat(0.5), LyingBytes(b"bytes"), Liar("text")]) \
        == [5, 0.5, b"bytes", "text"]  # fmt: skip
    assert client.ack(LyingInt(2), LyingInt(3)) == 9
    assert client.echo(LyingBytes(b"bytes")) == b"bytes"
    assert client.call_raw("echo", LyingBytes(b"bytes")) == b"bytes"


@pytest.mark.parametrize(("kind", "value", "sent"), [
    ("float64", LyingInt(3), b"\xcb\x40\x08" + bytes(6)), ("float32", LyingFloat(0.5), b"\xca\x3f\x00\x00\x00"),
    ("duration", LyingInt(1), b"\xce\x3b\x9a\xca\x00"), ("float64", LyingFloat(0.5), b"\xcb\x3f\xe0" + bytes(6)),
])  # fmt: skip
def test_numbers_are_what_they_are(folder: Path, kind: str, value: Any, sent: bytes) -> None:
    with ScriptedServer(folder / "f", function([kind], [])) as server, Client(server.address) as client:
        client.call("f", value)
        assert server.requests == [b"\x91" + sent]


# ---- Options ----

NUMBERS = {"attempts": (1, 16), "frame_bytes_max": (0, 16_777_215)}
NO_NUMBERS = [True, False, 1.5, float("nan"), float("inf"), 1e300, "3", None, -1, -(2**32), -(2**64), 10**400]
CLIENTS = {"Client": Client, "AsyncClient": AsyncClient}


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_out_of_range(address: str, kind: str, name: str) -> None:
    """Refused by name at whatever width, and not cut."""
    least, most = NUMBERS[name]
    for value in (*NO_NUMBERS, most + 1, 2**32, 2**32 + least, 2**32 + 65_536, 2**64 + 3, 2**63):
        with pytest.raises(nearcall.InvalidArgument, match=rf"{name} is .*from {least} to {most}"):
            CLIENTS[kind](address, **{name: value})
    CLIENTS[kind](address, **{name: most}).close()


@pytest.mark.parametrize("kind", CLIENTS)
def test_users_out_of_range(address: str, kind: str) -> None:
    for value in (*NO_NUMBERS, 2**32, 2**64 + 3):
        if value != "3":
            with pytest.raises(nearcall.InvalidArgument, match=r"server_users is .*from 0 to 4294967295"):
                CLIENTS[kind](address, server_users=[value])


@pytest.mark.parametrize(
    "name", ["mode", "window", "prefix_bytes_max", "message_bytes_max", "channels_max"]
)  # fmt: skip
def test_numbers_of_a_listener(folder: Path, name: str) -> None:
    for value in (*NO_NUMBERS, 2**32, 2**32 + 1, 2**64 + 1):
        with pytest.raises(nearcall.InvalidArgument, match=f"{name} is "):
            handoff.Listener(f"unix:{folder / 'l.sock'}", **{name: value})  # type: ignore[arg-type]
    for value in (True, -1, 2**32, 2**64 + 1):
        with pytest.raises(nearcall.InvalidArgument, match="as a descriptor"):
            handoff.Listener(value)
    with pytest.raises(nearcall.InvalidArgument, match="peer_users is "):
        handoff.Listener(f"unix:{folder / 'l.sock'}", peer_users=[2**32])


def timeouts_of(client: Any) -> list[Callable[[Any], Any]]:
    return [client.with_timeout, lambda timeout: client.call("one", timeout=timeout)]


BAD_TIMEOUTS = [0, -1, -0.5, float("nan"), -float("inf"), -1e300, 10**400, -(10**400), True, False, "1", [1]]


def test_timeouts_of_calls(client: Client) -> None:
    asked = [
        *timeouts_of(client), lambda timeout: client.begin("one", timeout=timeout),
        lambda timeout: client.call_raw("echo", b"", timeout=timeout), lambda timeout: client.one(timeout=timeout),
        lambda timeout: client.function("one")(timeout=timeout), lambda timeout: client.ping(timeout),
        lambda timeout: client.connect(timeout=timeout), lambda timeout: Client(client.address, timeout=timeout),
        lambda timeout: AsyncClient(client.address, timeout=timeout),
        lambda timeout: AsyncClient(client.address).with_timeout(timeout),
    ]  # fmt: skip
    for ask in asked:
        for timeout in BAD_TIMEOUTS:
            with pytest.raises((nearcall.InvalidArgument, TypeError), match="timeout is a"):
                ask(timeout)
    for timeout in (1e300, float("inf"), 10**300, 2**64, 60):
        assert client.call("one", timeout=timeout) == 1


def test_timeouts_of_async_calls(address: str) -> None:
    async def main() -> None:
        async with AsyncClient(address) as client:
            for timeout in BAD_TIMEOUTS:
                with pytest.raises((nearcall.InvalidArgument, TypeError), match="timeout is a"):
                    await client.call("one", timeout=timeout)  # type: ignore[arg-type]
            for timeout in (1e300, float("inf"), 10**300, 2**64, 60):
                assert await client.call("one", timeout=timeout) == 1
                assert await client.with_timeout(timeout).call("one") == 1

    asyncio.run(main())


def test_timeouts_of_a_listener(listener: handoff.Listener) -> None:
    for timeout in (-1, float("nan"), 10**400, True, False):
        with pytest.raises((nearcall.InvalidArgument, TypeError), match="timeout is a"):
            listener.accept(timeout)
    with pytest.raises(BlockingIOError):
        listener.accept(0)


class Rung(Exception):
    pass


@pytest.mark.parametrize("timeout", [None, float("inf"), 1e300, 1e7])
def test_long_timeouts_of_a_listener(listener: handoff.Listener, timeout: float | None) -> None:
    def raise_rung(*_: object) -> None:
        raise Rung

    former = signal.signal(signal.SIGALRM, raise_rung)
    try:
        with pytest.raises(Rung):
            ring_during(0.05, lambda: listener.accept(timeout))
    finally:
        signal.signal(signal.SIGALRM, former)


# ---- NUL ----


@pytest.mark.parametrize("kind", CLIENTS)
def test_nul_is_refused(address: str, kind: str, folder: Path) -> None:
    """C ends a text there: the rest is not cut off, and something else reached."""
    make = CLIENTS[kind]
    for cut in (lambda: make(f"{address}\0x"), lambda: make(address, name="a\0b"), lambda: make(address, spin="off\0")):
        with pytest.raises(ValueError, match="NUL"):
            cut()
    with pytest.raises(ValueError, match="server_users"):
        make(address, server_users=["root\0x"])
    with pytest.raises(ValueError, match="NUL"):
        handoff.Listener(f"unix:{folder / 'l.sock'}\0x")
    assert not (folder / "l.sock").exists()


def test_nul_in_a_functions_name(client: Client) -> None:
    with pytest.raises(ValueError, match="NUL"):
        client.call_raw("echo\0x", b"")
    for call in (client.call, client.function, lambda name: getattr(client, name)()):
        with pytest.raises(nearcall.Unimplemented):
            call("one\0x")
    with contextlib.suppress(nearcall.Unimplemented):
        client.begin("one\0x").wait()
        raise AssertionError("another was called")
