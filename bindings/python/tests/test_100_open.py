"""Making clients: addresses, options, connecting, closing."""

from __future__ import annotations

import gc
import math
import os
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

import nearcall
from nearcall import Client, Code, Outcome
from support import Server, descriptor_count, wait_until


def test_making_a_client_does_not_connect(own_server: Server) -> None:
    # At a server that others have used connections may still be ending.
    sockets = own_server.socket_count()
    with Client(own_server.address) as client:
        assert own_server.socket_count() == sockets
        client.connect()
        assert wait_until(lambda: own_server.socket_count() == sockets + 1, "the connection")
    wait_until(lambda: own_server.socket_count() == sockets, "the connection's end")


@pytest.mark.parametrize(
    "address",
    ["", "/tmp/x", "unix:", "http://x", "tcp:host", "unix:" + "x" * 200, "unix:/a | unix:b", "tcp:a:1,b"],
)
def test_bad_addresses_are_refused_at_once(address: str) -> None:
    with pytest.raises(nearcall.InvalidArgument) as caught:
        Client(address)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert caught.value.outcome is Outcome.NOT_EXECUTED
    assert isinstance(caught.value, ValueError)


def test_a_list_is_taken_unless_a_library_is_in_it() -> None:
    Client("unix:/a | tcp:b:1,c:1").close()
    with pytest.raises(nearcall.InvalidArgument, match="stands alone in an address"):
        Client("unix:/a | embed:/b.so")


def test_abstract_addresses_are_refused_unless_asked_for(start_server: Callable[..., Server]) -> None:
    with pytest.raises(nearcall.InvalidArgument):
        Client("unix:@nearcall-test")
    Client("unix:@nearcall-test", allow_abstract=True).close()


def test_no_server(folder: Path) -> None:
    client = Client(f"unix:{folder / 'none.sock'}", timeout=1.0)
    with pytest.raises(nearcall.Unavailable) as caught:
        client.connect()
    assert isinstance(caught.value, ConnectionError)
    assert caught.value.outcome is Outcome.NOT_EXECUTED
    assert "none.sock" in caught.value.message
    with pytest.raises(nearcall.Unavailable):
        client.ack(0, 1)


@pytest.mark.parametrize("timeout", [0, -1, -0.5, math.nan])
def test_bad_timeouts(address: str, timeout: float) -> None:
    with pytest.raises(nearcall.InvalidArgument, match="positive number of seconds"):
        Client(address, timeout=timeout)
    with Client(address) as client, pytest.raises(nearcall.InvalidArgument):
        client.call("one", timeout=timeout)


def test_timeouts_must_be_numbers(address: str) -> None:
    with pytest.raises(TypeError):
        Client(address, timeout="1")  # type: ignore[arg-type]


def test_timeout_property(address: str) -> None:
    assert Client(address).timeout == 30.0
    assert Client(address, timeout=None).timeout is None
    assert Client(address, timeout=math.inf).timeout is None
    assert Client(address, timeout=0.25).timeout == 0.25


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"attempts": 1000}, nearcall.InvalidArgument),
        ({"attempts": 0}, ValueError),
        ({"attempts": -1}, ValueError),
        ({"frame_bytes_max": -1}, ValueError),
        ({"frame_bytes_max": 1}, nearcall.InvalidArgument),
        ({"server_users": ["no such user"]}, ValueError),
        ({"server_users": [-1]}, nearcall.InvalidArgument),
        ({"server_users": [2**40]}, nearcall.InvalidArgument),
        ({"name": "x" * 300}, nearcall.InvalidArgument),
        ({"unknown": 1}, TypeError),
    ],
)
def test_bad_options(address: str, options: dict[str, object], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        Client(address, **options)  # type: ignore[arg-type]


def test_options_are_accepted(address: str) -> None:
    with Client(
        address,
        timeout=5,
        name="test/1",
        any_server_user=True,
        attempts=1,
        server_users=("root", os.getuid()),
        frame_bytes_max=1 << 20,
    ) as client:
        assert client.one() == 1


def test_path_objects(shared_server: Server) -> None:
    class Address:
        def __fspath__(self) -> str:
            return shared_server.address

    with Client(Address()) as client:
        assert client.one() == 1


def test_tcp(start_server: Callable[..., Server], folder: Path) -> None:
    # The listener's own port is in the line that says ready.
    import subprocess

    from support import TESTSERVER, read_line

    with subprocess.Popen([TESTSERVER, "-address", "tcp:127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            address = read_line(process).removeprefix("ready ")
            with Client(address, timeout=5.0) as client:
                assert client.ack(2, 3) == 9
        finally:
            process.terminate()


def test_closed_client_refuses(address: str) -> None:
    client = Client(address)
    assert client.one() == 1
    assert not client.closed
    client.close()
    client.close()
    assert client.closed
    for use in (client.one, client.ping, client.connect, lambda: client.begin("one")):
        with pytest.raises(nearcall.FailedPrecondition) as caught:
            use()
        assert caught.value.outcome is Outcome.NOT_EXECUTED


def test_leaving_the_with_block_closes(address: str) -> None:
    with pytest.raises(KeyError), Client(address) as client:
        raise KeyError
    assert client.closed


def test_dropping_a_client_closes_its_connections(address: str) -> None:
    gc.collect()
    gc.disable()
    try:
        before = descriptor_count()
        client = Client(address)
        assert client.ack(0, 1) == 2
        assert client.call("one") == 1
        function = client.function("one")
        assert descriptor_count() == before + 1
        del client
        assert function() == 1
        del function
        # At once, without the cycle collector.
        assert descriptor_count() == before
    finally:
        gc.enable()


def test_weak_references(address: str) -> None:
    client = Client(address)
    reference = weakref.ref(client)
    assert reference() is client
    del client
    assert reference() is None


def test_views_share_connections(address: str) -> None:
    before = descriptor_count()
    with Client(address) as client:
        view = client.with_timeout(0.5)
        assert (client.timeout, view.timeout) == (30.0, 0.5)
        assert type(view) is Client
        assert client.one() == view.one() == 1
        assert descriptor_count() == before + 1
    assert view.closed


def test_pickled_clients_open_anew(address: str) -> None:
    with Client(address, timeout=7.0, attempts=2) as client:
        copy = pickle.loads(pickle.dumps(client.with_timeout(3.0)))
    with copy:
        assert copy.timeout == 3.0
        assert copy.address == address
        assert copy.one() == 1


def test_subclasses(address: str) -> None:
    class Demo(Client):
        def double(self, number: int) -> int:
            return 2 * int(self.add(number, 0))

    with Demo(address) as demo:
        demo.note = "mine"  # type: ignore[attr-defined]
        assert demo.double(4) == 8
        assert demo.note == "mine"  # type: ignore[comparison-overlap]
        assert type(demo.with_timeout(1)) is Demo


def test_subclass_without_init(address: str) -> None:
    class Broken(Client):
        def __init__(self) -> None:
            pass

    for use in ("call", "call_raw", "begin"):
        with pytest.raises(RuntimeError, match="__init__"):
            getattr(Broken(), use)("one", b"")
    with pytest.raises(RuntimeError, match="__init__"):
        Broken().ping()
    with pytest.raises(RuntimeError, match="__init__"):
        Broken().with_timeout(1)
    Broken().close()


def test_second_init_is_refused(address: str) -> None:
    with Client(address) as client, pytest.raises(RuntimeError):
        client.__init__(address)  # type: ignore[misc]


def test_repr(address: str) -> None:
    with Client(address, timeout=2.0) as client:
        assert repr(client) == f"<Client {address} timeout=2.0>"
    assert repr(client) == f"<Client {address} closed>"


def test_ping(client: Client) -> None:
    assert 0 < client.ping() < 10
    assert 0 < client.ping(timeout=5) < 5
