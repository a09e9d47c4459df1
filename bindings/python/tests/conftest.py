"""Fixtures: a server for the session, servers of a test's own, clients."""

from __future__ import annotations

import faulthandler
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from giver import Giver, StartGiver
from secure import Relay, make_certificates

import nearcall
from nearcall import Client, handoff
from scripted import ScriptedServer, function
from support import Recorder, Server

HANG_SECONDS = 900


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    """A test that hangs ends the run and shows where."""
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path that is short enough for a socket's."""
    with tempfile.TemporaryDirectory(prefix="nearcall-") as name:
        yield Path(name)


@pytest.fixture
def sent(folder: Path) -> Callable[..., bytes]:
    """What a server gets for a value of a type, whose description may say more."""
    numbers = itertools.count()

    def sent(kind: Any, value: Any, **described: Any) -> bytes:
        with (
            ScriptedServer(folder / f"{next(numbers)}", function([kind], [], **described)) as server,
            Client(server.address) as client,
        ):
            client.call("f", value, timeout=50)
        return server.requests[-1]

    return sent


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="nearcall-") as name:
        server = Server(Path(name))
        yield server
        server.stop()


@pytest.fixture(scope="session")
def certificates() -> Iterator[Path]:
    """Those of TLS."""
    with tempfile.TemporaryDirectory(prefix="nearcall-tls-") as name:
        make_certificates(Path(name))
        yield Path(name)


@pytest.fixture
def relay(shared_server: Server, certificates: Path) -> Iterator[Relay]:
    """TLS before the server of the session, which wants a certificate of its callers."""
    with Relay(shared_server.address, certificates, "clients=required") as relay:
        yield relay


@pytest.fixture
def options(certificates: Path) -> dict[str, Any]:
    """Of clients for the relay."""
    return {
        "timeout": 30.0,
        "tls_authorities": certificates / "ca.pem",
        "tls_certificate": certificates / "client.pem",
        "tls_key": str(certificates / "client.key"),
    }


@pytest.fixture
def start_server(folder: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers that the test may kill."""
    servers: list[Server] = []

    def start(*arguments: str) -> Server:
        servers.append(Server(folder, *arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def own_server(start_server: Callable[..., Server]) -> Server:
    return start_server()


@pytest.fixture
def recorder(folder: Path, shared_server: Server) -> Iterator[Recorder]:
    recorder = Recorder(folder, shared_server)
    yield recorder
    recorder.close()


@pytest.fixture
def address(shared_server: Server) -> str:
    return shared_server.address


@pytest.fixture
def client(address: str) -> Iterator[nearcall.Client]:
    with nearcall.Client(address, timeout=20.0) as client:
        yield client


@pytest.fixture
def giver_of() -> Iterator[StartGiver]:
    givers: list[Giver] = []

    def start(*addresses: str, **options: object) -> Giver:
        arguments = [part for address in addresses for part in ("-address", address)]
        givers.append(Giver(*arguments, *(f"-{name}={value}" for name, value in options.items())))
        return givers[-1]

    yield start
    for giver in givers:
        giver.stop()


@pytest.fixture
def where(folder: Path) -> str:
    return f"unix:{folder / 'backend.sock'}"


@pytest.fixture
def listener(where: str) -> Iterator[handoff.Listener]:
    with handoff.Listener(where) as listener:
        yield listener
