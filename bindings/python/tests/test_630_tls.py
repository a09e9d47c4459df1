"""Calls over TLS: alone, beside each other, in children, threads and event loops, and who is refused."""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from secure import Relay, many_calls

import nearcall
from nearcall import Client, Outcome
from support import Server, in_child


def test_calls(relay: Relay, options: dict[str, Any]) -> None:
    with Client(relay.address, **options) as client:
        assert client.add(1, 2) == 3
        assert client.transport() == "tls"
        assert client.call_raw("echo", b"x" * 3_000_000) == b"x" * 3_000_000
        calls = [client.begin("add", i, 1) for i in range(50)]
        assert [call.wait() for call in calls] == list(range(1, 51))


def test_settings_in_the_address(relay: Relay, options: dict[str, Any]) -> None:
    files = f"ca={options['tls_authorities']}&cert={options['tls_certificate']}&key={options['tls_key']}"
    parameters = f"{files}&name=localhost"
    with Client(f"{relay.address}?{parameters}", timeout=30.0, tls_authorities="/none") as client:
        assert client.add(1, 2) == 3


def test_children(relay: Relay, options: dict[str, Any]) -> None:
    with Client(relay.address, **options) as client:
        client.count()
        for _ in range(10):
            assert in_child(lambda: client.count() > 0)
            assert client.count() > 0


def test_threads(relay: Relay, options: dict[str, Any]) -> None:
    sums: list[int] = []
    with Client(relay.address, **options) as client:
        threads = [threading.Thread(target=lambda i=i: sums.append(client.add(i, 1))) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(sums) == list(range(1, 9))


def test_asyncio(relay: Relay, options: dict[str, Any]) -> None:
    asyncio.run(many_calls(relay.address, options))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("certificate=expired-server", "certificate has expired"),
        ("certificate=other-name", "tls_server_name"),
        ("version=1.2", "speaks no TLS 1.3"),
    ],
)
def test_a_server_that_is_not_accepted(
    shared_server: Server, certificates: Path, options: dict[str, Any], option: str, words: str
) -> None:
    with Relay(shared_server.address, certificates, option) as relay, Client(relay.address, **options) as client:
        with pytest.raises(nearcall.NearcallError, match=words) as caught:
            client.count()
        assert caught.value.code == nearcall.Code.UNAUTHENTICATED
        assert caught.value.outcome is Outcome.NOT_EXECUTED


def test_a_caller_that_is_not_accepted(relay: Relay, options: dict[str, Any]) -> None:
    del options["tls_certificate"], options["tls_key"]
    with (
        Client(relay.address, **options) as client,
        pytest.raises(nearcall.NearcallError, match="wants a certificate") as caught,
    ):
        client.count()
    assert caught.value.outcome is Outcome.NOT_EXECUTED


def test_another_name_that_was_meant(shared_server: Server, certificates: Path, options: dict[str, Any]) -> None:
    options["tls_server_name"] = "other.example.org"
    with (
        Relay(shared_server.address, certificates, "certificate=other-name") as relay,
        Client(relay.address, **options) as client,
    ):
        assert client.add(1, 2) == 3


def test_options() -> None:
    with pytest.raises(nearcall.NearcallError, match=r"/none/ca\.pem: No such file"):
        Client("tls:localhost:7000", tls_authorities="/none/ca.pem")
    with pytest.raises(TypeError, match="tls_authorities is the path of a PEM file"):
        Client("tls:localhost:7000", tls_authorities=ssl.create_default_context())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="plain_tcp is 'warn' or 'refuse'"):
        Client("tcp:localhost:7000", plain_tcp="no")  # type: ignore[arg-type]
    with pytest.raises(nearcall.NearcallError, match="silence"):
        Client("tcp:localhost:7000", silence=0.05)
    for silence in (math.inf, math.nan, 0, -1, 10**400):
        with pytest.raises(nearcall.NearcallError, match=r"silence is .*; it is a positive and finite number"):
            Client("tcp:localhost:7000", silence=silence)
    for no_number in (True, "long"):
        with pytest.raises(TypeError, match="silence is a number of seconds, or None, not"):
            Client("tcp:localhost:7000", silence=no_number)  # type: ignore[arg-type]
    Client("tcp:localhost:7000", silence=0.5, plain_tcp="refuse").close()


def test_errors_that_python_has_left(relay: Relay, options: dict[str, Any]) -> None:
    """Python's ssl has the same OpenSSL, and the same queue of errors."""
    with Client(relay.address, **options) as client:
        assert client.add(1, 2) == 3
        for _ in range(20):
            with pytest.raises(ssl.SSLError):
                ssl.create_default_context().load_verify_locations(cadata="none")
            assert client.add(1, 2) == 3
        context = ssl.create_default_context(cafile=os.fspath(options["tls_authorities"]))
        assert len(context.get_ca_certs()) == 1
