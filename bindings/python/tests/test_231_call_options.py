"""Options and metadata of single calls, the same for clients of every kind."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall import AsyncClient, Client, Outcome
from scripted import ABORTED, ERROR, MSGPACK, NOT_EXECUTED, ScriptedServer, function, pack, send
from support import Server, in_child

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
# Enough that some calls go over the socket and some through shared memory.
CALLS = 48
ANSWER = {"cost": [b"7", b"8"], "node": [b"a"]}
UNAVAILABLE = 14


class Waiting:
    """An AsyncClient that is called as Client is."""

    def __init__(self, client: AsyncClient, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def call(self, name: str, *args: Any, timeout: float | None = None) -> Any:
        async def call() -> Any:
            return await self._client.call(name, *args, timeout=timeout)

        return self._runner.run(call())

    def with_options(self, **options: Any) -> Waiting:
        return Waiting(self._client.with_options(**options), self._runner)

    def with_timeout(self, timeout: float | None) -> Waiting:
        return Waiting(self._client.with_timeout(timeout), self._runner)


Open = Callable[[str], Any]


@pytest.fixture(params=["sync", "async"])
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    with contextlib.ExitStack() as ends:

        def opened(address: str) -> Any:
            if request.param == "sync":
                return ends.enter_context(Client(address, timeout=20.0))
            runner = ends.enter_context(asyncio.Runner())
            client = AsyncClient(address, timeout=20.0)
            ends.callback(client.close)
            return Waiting(client, runner)

        yield opened


def test_metadata_of_requests(opened: Open, address: str) -> None:
    client = opened(address)
    tenant = client.with_options(metadata={"tenant": "acme"})
    every = tenant.with_timeout(10).with_options(
        metadata={"tenant": ["other"], "user": b"\0\xff", "empty": ""},
        traceparent=TRACEPARENT,
        idempotency_key=bytes(15) + b"\1",
    )
    for _ in range(CALLS):
        assert client.call("metadata_seen") == " map[] []"
        assert tenant.call("metadata_seen") == ' map["tenant":["acme"]] []'
        assert every.call("metadata_seen") == (
            TRACEPARENT + r' map["empty":[""] "tenant":["acme" "other"] "user":["\x00\xff"]]'
            " [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1]"
        )


def test_metadata_of_all_ways_to_call(client: Client) -> None:
    tenant = client.with_options(metadata={"tenant": "é"})
    expected = ' map["tenant":["é"]] []'
    assert tenant.metadata_seen() == tenant.function("metadata_seen")() == expected
    assert tenant.call_raw("metadata_raw", b"!") == "[é]!".encode()
    one, other = tenant.begin("metadata_seen"), client.begin("metadata_seen")
    assert other.wait() == " map[] []"
    assert one.wait() == expected
    assert in_child(lambda: tenant.metadata_seen()) == expected
    assert pickle.loads(pickle.dumps(tenant)).metadata_seen() == expected
    assert type(tenant) is Client


def test_async_view_is_pickled(address: str) -> None:
    async def main() -> Any:
        client = pickle.loads(pickle.dumps(AsyncClient(address).with_options(metadata={"tenant": ["a", "b"]})))
        return await client.metadata_seen()

    assert asyncio.run(main()) == ' map["tenant":["a" "b"]] []'


def test_metadata_of_calls_at_the_same_time(address: str) -> None:
    async def main() -> None:
        client = AsyncClient(address)
        views = [client.with_options(metadata={"number": str(i)}) for i in range(100)]
        seen = await asyncio.gather(*(view.metadata_seen() for view in views))
        assert seen == [f' map["number":["{i}"]] []' for i in range(100)]
        client.close()

    asyncio.run(main())


def test_metadata_of_threads(client: Client) -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        view = client.with_options(metadata={"number": str(number)})
        for _ in range(CALLS):
            seen, plain = view.metadata_seen(), client.metadata_seen()
            if seen != f' map["number":["{number}"]] []' or plain != " map[] []":
                wrong.append(seen + plain)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("size", [0, 100, 20 << 10, 1 << 20])
def test_metadata_of_replies(opened: Open, address: str, size: int) -> None:
    metadata: dict[str, list[bytes]] = {"of": [b"before"]}
    client = opened(address)
    view = client.with_options(reply_metadata=metadata)
    for _ in range(CALLS):
        assert len(view.call("metadata_answer", size, False)) == size
        assert metadata == ANSWER
        assert view.call("one") == 1
        assert metadata == {}
        with pytest.raises(nearcall.NotFound):
            view.call("metadata_answer", size, True)
        assert metadata == ANSWER
        client.call("one")
        assert metadata == ANSWER


def test_metadata_of_replies_that_are_waited_for(client: Client) -> None:
    first: dict[str, list[bytes]] = {}
    calls = [client.with_options(reply_metadata=first).begin("metadata_answer", 3, False), client.begin("one")]
    assert calls[1].wait() == 1
    assert first == {}
    assert calls[0].wait() == bytes(3)
    assert first == ANSWER
    raw: dict[str, list[bytes]] = {"x": []}
    assert client.with_options(reply_metadata=raw).call_raw("echo", b"x") == b"x"
    assert raw == {}


def test_metadata_have_a_limit(opened: Open, address: str) -> None:
    view = opened(address).with_options(metadata={"key": [b"x" * 1000] * 5})
    with pytest.raises(nearcall.ResourceExhausted, match="extension_bytes_max") as caught:
        view.call("one")
    assert caught.value.outcome is Outcome.NOT_EXECUTED


@pytest.mark.parametrize(
    "options",
    [
        {"metadata": {"Tenant": "x"}},
        {"metadata": {"": "x"}},
        {"metadata": {"k": "x" * 5000}},
        {"traceparent": "00-xyz"},
        {"idempotency_key": b"short"},
        {"backoff": (2.0, 1.0)},
        {"backoff": (0.0, 1.0)},
        {"backoff": (math.inf, math.inf)},
        {"attempts": 0},
        {"attempts": 17},
        {"timeout": 0},
        {"timeout": -1.0},
    ],
)
def test_options_out_of_range(opened: Open, address: str, options: dict[str, Any]) -> None:
    (keyword,) = options
    with pytest.raises(ValueError, match=keyword):
        opened(address).with_options(**options)


@pytest.mark.parametrize("options", [{"metadata": {1: "x"}}, {"metadata": {"k": 1}}, {"reply_metadata": []}])
def test_options_of_wrong_types(opened: Open, address: str, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        opened(address).with_options(**options)


def test_timeout_of_a_view(opened: Open, address: str) -> None:
    brief = opened(address).with_options(timeout=0.03)
    for view in (brief, brief.with_options(attempts=2)):
        with pytest.raises(nearcall.DeadlineExceeded):
            view.call("sleep", 60_000)
    assert brief.with_options(timeout=math.inf).call("sleep", 100) == 100
    assert brief.call("sleep", 100, timeout=10.0) == 100


class Losing(ScriptedServer):
    """Loses so many requests with their connections. Then refuses so many as if it stopped."""

    def __init__(self, path: Path, lost: int, refused: int = 0, idempotent: bool = True) -> None:
        self._lost, self._refused = lost, refused
        super().__init__(path, function([], ["int64"], idempotent=idempotent), b"\x07")

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        if self._lost > 0:
            self._lost -= 1
            self.requests.append(payload)
            raise EOFError
        if self._refused > 0:
            self._refused -= 1
            send(connection, ERROR, call, MSGPACK, pack(["stopping", []]), status=UNAVAILABLE | NOT_EXECUTED)
            return
        super()._answer_request(connection, call, codec, payload)


def test_retry_unknown(opened: Open, folder: Path) -> None:
    with Losing(folder / "s", 2) as server:
        client = opened(server.address)
        with pytest.raises(nearcall.Unavailable) as caught:
            client.call("f")
        assert caught.value.outcome is Outcome.UNKNOWN
        assert client.with_options(retry_unknown=True).call("f") == 7
        assert len(server.requests) == 3


def test_retry_unknown_within_attempts(opened: Open, folder: Path) -> None:
    with Losing(folder / "s", 5) as server:
        with pytest.raises(nearcall.Unavailable) as caught:
            opened(server.address).with_options(retry_unknown=True, attempts=2).call("f")
        assert caught.value.outcome is Outcome.UNKNOWN
        assert len(server.requests) == 2


def test_outcome_of_several_attempts(opened: Open, folder: Path) -> None:
    with Losing(folder / "s", 1, 10) as server:
        with pytest.raises(nearcall.Unavailable, match="stopping") as caught:
            opened(server.address).with_options(retry_unknown=True).call("f")
        assert caught.value.outcome is Outcome.UNKNOWN


class Replaced(Losing):
    """Loses the first request. Then it is as if another were in its place, whose function takes another type."""

    features = 16

    def __init__(self, path: Path, refused: int = 0) -> None:
        super().__init__(path, 1, refused)
        self.description = pack(function(["float64"], ["int64"], idempotent=True, hash="1" * 64))

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        if self._lost > 0:
            self.description = pack(function(["int64"], ["int64"], idempotent=True, hash="2" * 64))
            self._instance += 1
        elif b"\xcb" in payload:
            send(connection, ERROR, call, MSGPACK, pack(["refused", []]), status=ABORTED | NOT_EXECUTED)
            return
        super()._answer_request(connection, call, codec, payload)


def test_retry_unknown_encodes_again(opened: Open, folder: Path) -> None:
    with Replaced(folder / "s") as server:
        assert opened(server.address).with_options(retry_unknown=True).call("f", 5) == 7
        assert len(server.requests) == 2


@pytest.mark.parametrize(("value", "refused", "code"), [(5.5, 0, "INVALID_ARGUMENT"), (5, 9, "UNAVAILABLE")])
def test_outcome_of_what_was_encoded_again(opened: Open, folder: Path, value: float, refused: int, code: str) -> None:
    with Replaced(folder / "s", refused) as server:
        with pytest.raises(nearcall.NearcallError) as caught:
            opened(server.address).with_options(retry_unknown=True).call("f", value)
        assert caught.value.code.name == code
        assert caught.value.outcome is Outcome.UNKNOWN


def test_retry_unknown_needs_an_idempotent_function(opened: Open, folder: Path) -> None:
    with Losing(folder / "s", 1, idempotent=False) as server:
        with pytest.raises(nearcall.FailedPrecondition, match="idempotent") as caught:
            opened(server.address).with_options(retry_unknown=True).call("f")
        assert caught.value.outcome is Outcome.NOT_EXECUTED
        assert server.requests == []


def test_wait_for_ready(opened: Open, folder: Path) -> None:
    with Losing(folder / "s", 0, 8) as server:
        client = opened(server.address).with_options(attempts=1, backoff=(0.000_001, 0.001))
        with pytest.raises(nearcall.Unavailable):
            client.call("f")
        assert client.with_options(wait_for_ready=True).call("f") == 7


def test_wait_for_a_server_that_starts_later(opened: Open, start_server: Callable[..., Server]) -> None:
    server = start_server()
    client = opened(server.address)
    server.stop()
    if os.path.exists(server.path):
        server.path.unlink()
    view = client.with_options(wait_for_ready=True, backoff=(0.000_001, 0.001))
    with pytest.raises((nearcall.Unavailable, nearcall.DeadlineExceeded)) as caught:
        view.call("one", timeout=0.05)
    assert caught.value.outcome is Outcome.NOT_EXECUTED
    starter = threading.Thread(target=server.start)
    starter.start()
    assert view.call("one", timeout=60.0) == 1
    starter.join()


def test_views_share_the_client(client: Client) -> None:
    view = client.with_options(metadata={"a": "b"})
    client.close()
    assert view.closed


class Dropped:
    """Runs an action when it is dropped from where the metadata of a reply go."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self.action = action

    def __del__(self) -> None:
        self.action()


def test_former_values_that_act_when_they_are_dropped(opened: Open, address: str) -> None:
    metadata: dict[str, Any] = {}
    view = opened(address).with_options(reply_metadata=metadata)
    metadata["old"] = Dropped(lambda: metadata.update(cost="text", node=5))
    assert view.call("metadata_answer", 3, False) == bytes(3)
    assert metadata == ANSWER


def test_former_values_that_close_the_client(address: str) -> None:
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        client = AsyncClient(address, timeout=20.0)
        metadata: dict[str, Any] = {}
        view = client.with_options(reply_metadata=metadata)
        await view.one()
        metadata["old"] = Dropped(client.close)
        with pytest.raises(nearcall.Cancelled):
            await view.metadata_answer(3, False)

    asyncio.run(main())
    assert not complaints
