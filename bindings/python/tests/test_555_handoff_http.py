"""What servers of asyncio know of the requests on connections that were given to them. The
servers themselves run in examples, under load."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from giver import StartGiver

from nearcall import handoff
from nearcall._handoff_http import HttpServer, Kept, Requests
from support import PATIENCE_SECONDS, REPOSITORY, wait_until


def test_hosts_are_compared_as_the_front_does() -> None:
    rows = [line.split("\t") for line in (REPOSITORY / "conformance" / "hosts.tsv").read_text().splitlines()[1:]]
    assert len(rows) > 15
    for host, pattern, verdict in rows:
        assert handoff.host_matches(host, pattern) == (verdict == "yes"), (host, pattern)
        assert handoff.host_matches(host.encode(), pattern) == (verdict == "yes"), (host, pattern)


def followed(text: bytes, pieces: random.Random | None = None) -> Requests:
    requests = Requests()
    while text:
        size = pieces.randrange(1, 9) if pieces else len(text)
        requests.read(text[:size])
        text = text[size:]
    return requests


GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: x\r\ncontent-LENGTH : 5\r\n\r\n12345"


@pytest.mark.parametrize("text", [b"", GET, POST, GET + POST + GET, POST * 3])
def test_between_requests(text: bytes) -> None:
    seed = random.randrange(1 << 32)
    pieces = random.Random(seed)
    for _ in range(50):
        assert followed(text, pieces).between(), f"seed {seed}"
        for more in (b"G", GET[:-1], POST[:-1], GET + b"\r"):
            assert not followed(text + more, pieces).between(), f"seed {seed}"


@pytest.mark.parametrize(
    "fields",
    [
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 0\r\nContent-Length: 0\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 0\r\nTransfer-Encoding: identity\r\n",
        b"Upgrade: websocket\r\n",
    ],
)
def test_what_is_not_certain_stays_so(fields: bytes) -> None:
    requests = followed(b"POST / HTTP/1.1\r\n" + fields + b"\r\n")
    assert not requests.between()
    requests.read(GET)
    assert not requests.between()


def test_a_head_without_an_end_does_not_grow() -> None:
    requests = Requests()
    for _ in range(40):
        requests.read(b"x" * (1 << 16))
    assert not requests.between()
    assert len(requests._head) < 1 << 21


class Echo(asyncio.Protocol):
    """Answers each line with itself. A line of HTTP's end is one too."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def run_server(
    where: str, use: Callable[[HttpServer], None], make: Callable[[], asyncio.Protocol] = Echo
) -> None:
    async def run() -> None:
        server = HttpServer(make, handoff.Listener(where))
        try:
            await asyncio.wait_for(asyncio.to_thread(use, server), PATIENCE_SECONDS)
        finally:
            server.close()

    asyncio.run(run())


def test_a_prefix_comes_first_and_then_what_follows(where: str, folder: Path, giver_of: StartGiver) -> None:
    def use(server: HttpServer) -> None:
        giver = giver_of(where, prefix=5)
        with giver.connect() as client:
            client.sendall(b"12345")
            assert client.recv(5, socket.MSG_WAITALL) == b"12345"
            client.sendall(b"67")
            assert client.recv(2, socket.MSG_WAITALL) == b"67"

    run_server(where, use)


def test_what_rests_goes_back_and_what_does_not_stays(where: str, folder: Path, giver_of: StartGiver) -> None:
    rests: dict[int, bool] = {}

    async def run() -> None:
        def resting(kept: Kept) -> bool:
            return rests[kept.transport.get_extra_info("peername")[1]]

        server = HttpServer(Echo, handoff.Listener(where), rests=resting)
        giver = await asyncio.to_thread(giver_of, where)
        with giver.connect() as idle, giver.connect() as busy:
            rests[idle.getsockname()[1]], rests[busy.getsockname()[1]] = True, False
            for client in (idle, busy):
                client.setblocking(False)
                await server._loop.sock_sendall(client, GET)
                assert await asyncio.wait_for(server._loop.sock_recv(client, 100), PATIENCE_SECONDS) == GET
            draining = asyncio.create_task(server.drain())
            # The giver took it: it answers what comes back.
            answer = await asyncio.wait_for(server._loop.sock_recv(idle, 1000), PATIENCE_SECONDS)
            assert answer.endswith(b"handed back idle with ")
            assert not draining.done()
            await server._loop.sock_sendall(busy, b"more")
            assert await asyncio.wait_for(server._loop.sock_recv(busy, 100), PATIENCE_SECONDS) == b"more"
            busy.close()
            await asyncio.wait_for(draining, PATIENCE_SECONDS)
            assert not server.kept
        server.close()

    asyncio.run(run())


def test_what_rests_late_is_left_its_time_as_well(where: str, giver_of: StartGiver) -> None:
    """An answer that had begun when the server was told to end says nothing of it: a next
    request may follow it."""
    rests = False

    def use(server: HttpServer) -> None:
        server.rests = lambda kept: rests
        with giver_of(where).connect() as client:
            client.sendall(GET)
            assert client.recv(len(GET), socket.MSG_WAITALL) == GET
            (kept,) = server.kept
            nonlocal rests
            for now, resting, waits in (
                (100.0, False, True),
                (105.0, True, True),
                (105.9, True, True),
                (105.95, False, True),
                (106.5, True, True),
                (107.4, True, True),
                (107.5, True, False),
            ):
                rests = resting
                assert kept.is_waited_for(now) == waits, now

    run_server(where, use)


class Large(asyncio.Protocol):
    """Answers with more than sockets hold, and closes."""

    BYTES = 64 << 20

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(bytes(self.BYTES))
        self.transport.close()


def test_a_last_answer_is_waited_for_until_it_was_sent(where: str, giver_of: StartGiver) -> None:
    def use(server: HttpServer) -> None:
        with giver_of(where).connect() as client:
            client.sendall(GET)
            read = len(client.recv(1))
            (kept,) = server.kept
            wait_until(lambda: kept.transport.is_closing(), "the server closes")
            assert kept.is_waited_for(0.0)
            while data := client.recv(1 << 20):
                read += len(data)
            assert read == Large.BYTES
            wait_until(lambda: not server.kept, "the connection has ended")

    run_server(where, use, Large)
