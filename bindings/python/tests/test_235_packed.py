"""Lists of numbers that travel as blocks: buffers as arguments, and memoryviews as results."""

from __future__ import annotations

import array
import asyncio
import ctypes
import datetime
import pickle
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile import Acting

import nearcall
from nearcall import AsyncClient, Client, Outcome
from scripted import ScriptedServer, function, pack

PACKED_LISTS = 64  # the feature
COUNTS = [0, 1, 7, 8, 500, 1000, 100_000, 200_000]
FORMATS = {
    "bool": ("?", 1), "int8": ("b", 2), "int16": ("h", 3), "int32": ("i", 4), "int64": ("q", 5),
    "uint8": ("B", 6), "uint16": ("H", 7), "uint32": ("I", 8), "uint64": ("Q", 9), "float32": ("f", 10),
    "float64": ("d", 11),
}  # fmt: skip


class Blocks(ScriptedServer):
    features = PACKED_LISTS


def block(kind: str, values: list[Any]) -> bytes:
    """A block as a server sends it, with a padding that no sender of ours writes."""
    form, element = FORMATS[kind]
    body = bytes([element, 3]) + b"\xaa" * 3 + struct.pack(f"<{len(values)}{form}", *values)
    return b"\xc9" + struct.pack(">I", len(body)) + b"\x02" + body


@pytest.fixture
def buffered(client: Client) -> Client:
    return client.with_options(buffers=True)


@pytest.mark.parametrize("count", COUNTS)
def test_numbers_there_and_back(client: Client, buffered: Client, count: int) -> None:
    numbers = np.arange(count, dtype=np.float64) / 3
    for sent in (numbers, array.array("d", numbers), memoryview(numbers), numbers.tolist(), tuple(numbers.tolist())):
        came = client.scale(sent, 2)
        assert type(came) is list
        assert came == (numbers * 2).tolist()
        view = buffered.scale(sent, 2)
        assert type(view) is memoryview
        assert (view.format, view.itemsize, len(view), view.readonly) == ("d", 8, count, False)
        assert np.array_equal(np.asarray(view), numbers * 2)


def test_a_view_is_the_callers(buffered: Client) -> None:
    first = np.asarray(buffered.echo_numbers(np.ones(1000)))
    second = np.asarray(buffered.echo_numbers(np.zeros(1000)))
    first[0] = 5
    assert (first[1:] == 1).all()
    assert not second.any()


def test_other_types(client: Client, buffered: Client) -> None:
    flags = np.arange(1000) % 3 == 0
    assert client.flip(flags) == (~flags).tolist()
    assert np.array_equal(np.asarray(buffered.flip(flags)), ~flags)
    integers = np.arange(-500, 500) * 2**40
    assert client.reverse(integers) == integers[::-1].tolist()
    view = buffered.reverse(integers)
    assert view.format == "q"
    assert view.tolist() == integers[::-1].tolist()


def test_what_is_no_row_of_memory(client: Client, buffered: Client) -> None:
    numbers = np.arange(2000, dtype=np.float64)
    assert client.echo_numbers(numbers[::2]) == numbers[::2].tolist()
    assert client.echo_numbers(numbers[::-1]) == numbers[::-1].tolist()
    assert client.echo_numbers(memoryview(numbers)[::3]) == numbers[::3].tolist()
    matrix = numbers.reshape(4, 500)
    for sent in (matrix, matrix.tolist(), np.asfortranarray(matrix), list(matrix), np.repeat(matrix, 2, axis=0)[::2]):
        assert client.transpose(sent) == matrix.T.tolist()
        assert client.transpose(sent) == [row.tolist() for row in buffered.transpose(sent)]
    assert client.transpose(np.zeros((0, 5))) == []


def test_arrays_that_are_larger_than_their_memory(client: Client) -> None:
    """They are refused before anything of their size is made."""
    shapes: dict[str, tuple[int, ...]] = {"echo_numbers": (2**40,), "transpose": (2**20, 2**20)}
    for name, shape in shapes.items():
        with pytest.raises(nearcall.ResourceExhausted) as raised:
            client.call(name, np.broadcast_to(np.float64(1), shape))
        assert raised.value.outcome is Outcome.NOT_EXECUTED


def test_elements_of_other_types(client: Client) -> None:
    """They are taken one by one, as those of any iterable."""
    for sent in (
        np.arange(100, dtype=np.float32), np.arange(100), array.array("i", range(100)), np.arange(100, dtype=">f8"),
        (ctypes.c_double * 100)(*range(100)), range(100),
    ):  # fmt: skip
        assert client.echo_numbers(sent) == list(range(100))
    assert client.reverse(np.arange(100, dtype=np.uint8)) == list(range(99, -1, -1))
    for wrong in (np.arange(100.0), array.array("d", [1.0])):
        with pytest.raises(nearcall.InvalidArgument, match="takes int64"):
            client.reverse(wrong)
    for wrong in (np.zeros((2, 2)), np.array(1.5), b"12345678", bytearray(8)):
        with pytest.raises(nearcall.InvalidArgument):
            client.echo_numbers(wrong)


def test_masked_values_are_not_sent(client: Client) -> None:
    masked = np.ma.array(np.ones(100), mask=np.arange(100) == 7)
    with pytest.raises(nearcall.InvalidArgument):
        client.echo_numbers(masked)


def test_long_lists_of_small_integers(client: Client) -> None:
    """A block of them would not fit a frame; an array does."""
    numbers = np.arange(1_000_000) % 100
    assert client.reverse(numbers) == numbers[::-1].tolist()
    with pytest.raises(nearcall.ResourceExhausted) as raised:
        client.reverse(numbers + 2**62)
    assert raised.value.outcome is Outcome.NOT_EXECUTED


@pytest.mark.parametrize("kind", FORMATS)
def test_on_the_wire(tmp_path: Path, kind: str) -> None:
    form, element = FORMATS[kind]
    values = [0, 1] * 100
    listed = {"list": kind}
    with (
        Blocks(tmp_path / "s", function([listed], [listed]), block(kind, values)) as server,
        Client(server.address) as client,
    ):
        sent = np.array(values, dtype=form)
        assert client.f(sent) == values
        assert client.with_options(buffers=True).f(sent).tolist() == values
        for request in server.requests:
            assert request[:2] == b"\x91\xc9"
            assert request[6:8] == bytes([2, element])
            assert request[-sent.nbytes :] == sent.tobytes()
            assert len(request) % 8 == sent.nbytes % 8


def test_a_call_that_is_begun_while_another_is_encoded(tmp_path: Path) -> None:
    """It is put together where nothing is connected, and goes by the same connection."""

    async def main(server: Blocks) -> None:
        async with AsyncClient(server.address) as client:
            begun: list[Any] = []

            def begin() -> None:
                begun.append(client.call("f", np.ones(20), 2))
                begun[0].send(None)

            assert await client.call("f", np.ones(20), 1) is None
            assert await client.call("f", np.ones(20), Acting(begin, 3)) is None
            begun[0].close()

    with Blocks(tmp_path / "s", function([{"list": "float64"}, "int64"], ["any"]), b"\xc0") as server:
        asyncio.run(main(server))
        assert sorted(request[-1] for request in server.requests) == [1, 2, 3]
        for request in server.requests:
            assert request[:2] == b"\x92\xc9"


def test_a_server_without_blocks(tmp_path: Path) -> None:
    listed = {"list": "float64"}
    with (
        ScriptedServer(tmp_path / "s", function([listed], [listed]), b"\x92\x01\x02") as server,
        Client(server.address) as client,
    ):
        assert client.f(np.ones(2)) == [1.0, 2.0]
        view = client.with_options(buffers=True).f(np.ones(20))
        assert (view.format, view.tolist()) == ("d", [1.0, 2.0])
        assert server.requests[0] == b"\x91\x92" + 2 * (b"\xcb" + struct.pack(">d", 1))
        server.reply = b"\xc0"
        assert client.with_options(buffers=True).f([]).tolist() == []


def test_inside_other_values(tmp_path: Path) -> None:
    kind = {"struct": "Series"}
    types = {"at": {"list": "duration"}, "values": {"optional": {"list": "float32"}}}
    fields = [{"name": name, "type": of} for name, of in types.items()]
    reply = b"\x82" + pack("at") + block("int64", [10**9]) + pack("values") + block("float32", [0.5, 1.5])
    described = function([kind], [kind], types={"Series": {"fields": fields}})
    with Blocks(tmp_path / "s", described, reply) as server, Client(server.address) as client:
        second = datetime.timedelta(seconds=1)
        assert client.f({"values": np.ones(100, np.float32)}) == {"at": [second], "values": [0.5, 1.5]}
        assert block("float32", [1.0] * 100)[-400:] in server.requests[0]
        came = client.with_options(buffers=True).f({})
        assert came["at"] == [second]  # durations stay what they are
        assert came["values"].tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    "reply",
    [
        block("int32", [1, 2]), block("float32", [1, 2]), b"\xc7\x00\x02", b"\xd5\x02\x0c\x00", b"\xd5\x02\x0b\x01",
        b"\xc7\x03\x02\x0b\x00\x00", block("float64", [1])[:-1], block("float64", [1]) + b"\xc0", b"\x91\xa1x",
        b"\xdd\xff\xff\xff\xff", b"\xc3",
    ],
    ids=bytes.hex,
)  # fmt: skip
@pytest.mark.parametrize("buffers", [False, True])
def test_malformed_results(tmp_path: Path, reply: bytes, buffers: bool) -> None:
    with (
        Blocks(tmp_path / "s", function([], [{"list": "float64"}]), reply) as server,
        Client(server.address) as client,
        pytest.raises(nearcall.Internal) as raised,
    ):
        client.with_options(buffers=buffers).f()
    assert raised.value.outcome is Outcome.EXECUTED_RESULT_LOST


@pytest.mark.parametrize("buffers", [False, True])
def test_malformed_booleans(tmp_path: Path, buffers: bool) -> None:
    reply = b"\xc7\x04\x02\x01\x00\x01\x02"
    with (
        Blocks(tmp_path / "s", function([], [{"list": "bool"}]), reply) as server,
        Client(server.address) as client,
        pytest.raises(nearcall.Internal),
    ):
        client.with_options(buffers=buffers).f()


def test_options_stay(client: Client) -> None:
    further = client.with_options(buffers=True).with_options(attempts=2).with_timeout(5)
    assert type(further.echo_numbers([1.0])) is memoryview
    assert type(client.echo_numbers([1.0])) is list
    with pickle.loads(pickle.dumps(further)) as again:
        assert type(again.echo_numbers([1.0])) is memoryview
    assert further.begin("echo_numbers", np.ones(100)).wait().tolist() == [1.0] * 100


def test_async_clients(address: str) -> None:
    async def calls() -> None:
        async with AsyncClient(address) as client:
            numbers = np.arange(1000.0)
            views = await asyncio.gather(
                *(client.with_options(buffers=True).call("scale", numbers, factor) for factor in range(8))
            )
            for factor, view in enumerate(views):
                assert np.array_equal(np.asarray(view), numbers * factor)
            assert await client.call("scale", numbers, 2) == (numbers * 2).tolist()

    asyncio.run(calls())


@pytest.fixture(params=["memory", "socket"])
def ways(request: pytest.FixtureRequest, address: str) -> Iterator[Client]:
    with Client(address + ("" if request.param == "memory" else "?shm=off")) as client:
        yield client.with_options(buffers=True)


def test_either_way(ways: Client) -> None:
    numbers = np.random.default_rng(7).random(50_000)
    for _ in range(40):
        assert np.array_equal(np.asarray(ways.echo_numbers(numbers)), numbers)
