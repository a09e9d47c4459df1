"""Servers that lie or change: a clear error, and nothing else."""

from __future__ import annotations

import asyncio
import inspect
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall import AsyncClient, Client, Outcome
from scripted import ScriptedServer, function, pack
from support import rss_bytes

LIST = {"list": "int64"}
TREE = {
    "params": [{"name": "tree", "type": {"struct": "Tree"}}],
    "results": [{"struct": "Tree"}],
    "types": {"Tree": {"fields": [{"name": "leaf", "type": "int64"},
                                  {"name": "trees", "type": {"list": {"struct": "Tree"}}}]}},
    "name": "f",
}  # fmt: skip


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., ScriptedServer]]:
    servers: list[ScriptedServer] = []

    def start(*arguments: Any) -> ScriptedServer:
        servers.append(ScriptedServer(folder / f"{len(servers)}.sock", *arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


BAD_REPLIES: dict[str, tuple[list[Any], bytes]] = {
    "text for a number": (["int64"], pack("text")),
    "nil for a number": (["int64"], pack(None)),
    "number for text": (["string"], pack(1)),
    "text that is no UTF-8": (["string"], b"\xa2\xff\xfe"),
    "number for bytes": (["bytes"], pack(1)),
    "number for bool": (["bool"], pack(1)),
    "text for a float": (["float64"], pack("1.5")),
    "number for a time": (["time"], pack(1)),
    "time beyond Python's": (["time"], b"\xc7\x0c\xff\0\0\0\0" + struct.pack(">q", 10**12)),
    "time before Python's": (["time"], b"\xc7\x0c\xff\0\0\0\0" + struct.pack(">q", -(10**12))),
    "time at the end of int64": (["time"], b"\xc7\x0c\xff\0\0\0\0" + struct.pack(">q", 2**63 - 1)),
    "text for a duration": (["duration"], pack("1s")),
    "unsigned duration": (["duration"], b"\xcf" + b"\xff" * 8),
    "nothing": (["int64"], b""),
    "cut off": (["string"], b"\xdb\0\0\0\x09text"),
    "reserved byte": (["int64"], b"\xc1"),
    "list that claims too much": ([LIST], b"\xdd\xff\xff\xff\xff\x01"),
    "list of other things": ([LIST], pack(["x"])),
    "list that is cut off": ([LIST], b"\xdd\0\0\0\x02\x01"),
    "map for a list": ([LIST], pack({})),
    "map that claims too much": ([{"map": ["string", "int64"]}], b"\xdf\xff\xff\xff\xff\xa1a\x01"),
    "map without its last value": ([{"map": ["string", "int64"]}], b"\x81\xa1a"),
    "list for a map": ([{"map": ["string", "int64"]}], pack([])),
    "list as a key": (["any"], b"\x81\x90\x01"),
    "extension": (["any"], b"\xd4\x05\x01"),
    "any that claims too much": (["any"], b"\xdd\xff\xff\xff\xff\x01"),
    "nesting beyond the limit": (["any"], b"\x91" * 33 + b"\xc0"),
    "bytes behind": (["int64"], pack(1) + b"\x00"),
    "nesting without end": (["any"], b"\x91" * 100_000),
    "too few results": (["int64", "int64"], pack([1])),
    "too many results": (["int64", "int64"], pack([1, 2, 3])),
    "one result for two": (["int64", "int64"], pack(1)),
}


@pytest.mark.parametrize("name", BAD_REPLIES)
def test_replies_that_are_not_as_described(serve: Callable[..., ScriptedServer], name: str) -> None:
    results, reply = BAD_REPLIES[name]
    server = serve(function([], results), reply)
    before = rss_bytes()
    with Client(server.address, timeout=5.0) as client:
        for use in (client.f, lambda: client.begin("f").wait()):
            with pytest.raises(nearcall.Internal) as caught:
                use()
            assert caught.value.outcome is Outcome.EXECUTED_RESULT_LOST
            assert "the reply cannot be taken over into Python" in caught.value.message
        assert rss_bytes() - before < 64 << 20
        assert client.ping() > 0


def test_bad_replies_in_asyncio(serve: Callable[..., ScriptedServer]) -> None:
    server = serve(function([], ["int64"]), pack("text"))

    async def main() -> None:
        async with AsyncClient(server.address, timeout=5.0) as go:
            with pytest.raises(nearcall.Internal) as caught:
                await go.f()
            assert caught.value.outcome is Outcome.EXECUTED_RESULT_LOST
            server.reply = pack(7)
            assert await go.f() == 7

    asyncio.run(main())


BAD_DESCRIPTIONS: dict[str, bytes] = {
    "no map": pack([1, 2]),
    "nothing in it": pack({}),
    "no params": pack({"name": "f", "results": []}),
    "no results": pack({"name": "f", "params": []}),
    "params that are no list": pack({"name": "f", "params": 1, "results": []}),
    "param without a type": pack({"name": "f", "params": [{"name": "x"}], "results": []}),
    "param without a name": pack({"name": "f", "params": [{"type": "bool"}], "results": []}),
    "param that is no map": pack({"name": "f", "params": ["x"], "results": []}),
    "name that is no text": pack({"name": "f", "params": [{"name": 1, "type": "bool"}], "results": []}),
    "unknown type": pack(function(["int128"], [])),
    "unknown kind of type": pack(function([{"set": "int64"}], [])),
    "type that is a number": pack(function([5], [])),
    "map of one": pack(function([{"map": ["string"]}], [])),
    "struct without a definition": pack(function([{"struct": "Lost"}], [])),
    "struct without fields": pack(function([{"struct": "S"}], [], types={"S": {}})),
    "struct by number": pack(function([{"struct": 1}], [], types={"S": {"fields": []}})),
    "types that are none": pack(function([{"struct": "S"}], [], types=5)),
    "cut off": pack(function(["int64"], []))[:-3],
    "no MessagePack": b"\xc1",
    "raw without a parameter": pack({**function([], []), "raw": True}),
    "variadic without a parameter": pack({**function([], []), "variadic": True}),
    "list as a key": pack(function([{"map": [{"list": "string"}, "int64"]}], [])),
}


@pytest.mark.parametrize("name", BAD_DESCRIPTIONS)
def test_descriptions_that_are_none(serve: Callable[..., ScriptedServer], name: str) -> None:
    server = serve(BAD_DESCRIPTIONS[name])
    with Client(server.address, timeout=5.0) as client:
        for use in (lambda: client.f(1), lambda: client.begin("f", 1), lambda: client.function("f")):
            with pytest.raises(nearcall.Internal) as caught:
                use()
            assert caught.value.outcome is Outcome.NOT_EXECUTED
        assert not server.requests
        assert client.ping() > 0


def test_unknown_keys_are_ignored(serve: Callable[..., ScriptedServer]) -> None:
    server = serve({**function(["int64"], ["int64"]), "future": [1, {"x": None}]}, pack(5))
    with Client(server.address, timeout=5.0) as client:
        assert client.f(1) == 5
        assert client.f.description["future"] == [1, {"x": None}]


def test_optional_arguments_before_variadic_ones_may_be_left_out(serve: Callable[..., ScriptedServer]) -> None:
    server = serve(function(["int64", {"optional": "int64"}, "int64"], ["int64"], variadic=True), pack(5))
    with Client(server.address, timeout=5.0) as client:
        assert client.f(1) == 5
        assert client.f(1, 2) == 5
        assert client.f(1, None, 3, 4) == 5
        assert server.requests == [b"\x91\x01", b"\x92\x01\x02", b"\x94\x01\xc0\x03\x04"]
        assert str(inspect.signature(client.f)).startswith("(p0: 'int', p1: 'int | None' = None, *p2: 'int'")
        with pytest.raises(nearcall.InvalidArgument, match="takes at least 1 argument, got 0"):
            client.f()


def test_unknown_fields_of_a_result_are_ignored(serve: Callable[..., ScriptedServer]) -> None:
    description = function([], [{"struct": "S"}], types={"S": {"fields": [{"name": "a", "type": "int64"}]}})
    server = serve(description, pack({"new": [{"deep": [1]}], "a": 1, "newer": None}))
    with Client(server.address, timeout=5.0) as client:
        assert client.f() == {"a": 1}


def test_struct_that_contains_itself(serve: Callable[..., ScriptedServer]) -> None:
    tree = {"leaf": 1, "trees": [{"leaf": 2, "trees": []}, {"leaf": 3, "trees": [{"leaf": 4, "trees": []}]}]}
    server = serve(TREE, pack(tree))
    with Client(server.address, timeout=5.0) as client:
        assert client.f(tree) == tree
        loop: dict[str, Any] = {"leaf": 1}
        loop["trees"] = [loop]
        with pytest.raises(nearcall.NearcallError) as caught:
            client.f(loop)
        assert caught.value.outcome is Outcome.NOT_EXECUTED
        server.reply = (b"\x82\xa4leaf\x01\xa5trees\x91" * 50_000) + b"\xc0"
        with pytest.raises(nearcall.Internal):
            client.f(tree)
        assert client.ping() > 0


def test_nil_is_an_empty_list_or_map(serve: Callable[..., ScriptedServer]) -> None:
    with Client(serve(function([], [LIST]), pack(None)).address) as client:
        assert client.f() == []
    with Client(serve(function([], [{"map": ["int64", "bool"]}]), pack(None)).address) as client:
        assert client.f() == {}


def test_maps_with_integer_keys(serve: Callable[..., ScriptedServer]) -> None:
    kind = {"map": ["int8", {"list": "string"}]}
    server = serve(function([kind], [kind]), pack({1: ["a"], -5: []}))
    with Client(server.address, timeout=5.0) as client:
        assert client.f({1: ["a"], -5: []}) == {1: ["a"], -5: []}
        with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(p0\)\[300\]: 300 does not fit int8"):
            client.f({300: []})
        with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(p0\)\[1\]\[0\]: takes string"):
            client.f({1: [2]})


def replaced(folder: Path, first: ScriptedServer, description: dict[str, Any], reply: bytes) -> ScriptedServer:
    """Another server in the place of the first."""
    path = Path(first.address.removeprefix("unix:"))
    first.close()
    path.unlink()
    return ScriptedServer(path, description, reply)


def test_another_description_after_a_restart(folder: Path, serve: Callable[..., ScriptedServer]) -> None:
    first = serve(function(["int64"], ["int64"]), pack(1))
    with Client(first.address, timeout=5.0) as client:
        assert client.f(1) == 1
        with replaced(folder, first, function(["int64", {"optional": "string"}], ["string"]), pack("two")) as second:
            # The former description would refuse a second argument.
            assert client.f(1, "x") == "two"
            assert len(second.requests) == 1


def test_server_that_cannot_look_gets_nothing_of_another(folder: Path, serve: Callable[..., ScriptedServer]) -> None:
    first = serve(function(["int64"], ["int64"]), pack(1))
    with Client(first.address, timeout=5.0) as client:
        assert client.f(5) == 1
        assert client.begin("f", 5).wait() == 1
        with replaced(folder, first, function(["float64"], ["string"]), pack("two")) as second:
            assert client.f(5) == "two"
            assert client.begin("f", 5).wait() == "two"
            assert second.requests == [b"\x91\xcb\x40\x14" + bytes(6)] * 2
            # Refused by a server that is known: final.
            second.refuse_payload = second.requests[0]
            with pytest.raises(nearcall.InvalidArgument, match="refused"):
                client.f(5)
            assert len(second.requests) == 3


def test_server_that_cannot_look_in_asyncio(folder: Path, serve: Callable[..., ScriptedServer]) -> None:
    first = serve(function(["int64"], ["int64"]), pack(1))

    async def main() -> None:
        async with AsyncClient(first.address, timeout=5.0) as go:
            assert await go.f(5) == 1
            second = await asyncio.to_thread(replaced, folder, first, function(["float64"], ["string"]), pack("two"))
            try:
                assert await go.f(5) == "two"
                assert second.requests == [b"\x91\xcb\x40\x14" + bytes(6)]
                second.refuse_payload = second.requests[0]
                with pytest.raises(nearcall.InvalidArgument, match="refused"):
                    await go.f(5)
                assert len(second.requests) == 2
            finally:
                second.close()

    asyncio.run(main())


def test_local_refusal_stays_one(serve: Callable[..., ScriptedServer]) -> None:
    server = serve(function(["int64"], ["int64"]), pack(1))
    with Client(server.address, timeout=5.0) as client:
        assert client.f(5) == 1
        with pytest.raises(nearcall.InvalidArgument, match="takes int64, got str"):
            client.f("x")
        assert len(server.requests) == 1
