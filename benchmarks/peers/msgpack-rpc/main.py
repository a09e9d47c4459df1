"""MessagePack-RPC, in Python on both sides.

What it is used for is in ../README.md.
"""

import json
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from socket import socket

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "callers"))

import msgpackrpc
from calling import Call, obey, payload_of
from msgpackrpc.transport import tcp
from tornado.netutil import bind_sockets

DESCRIPTION = {
    "version": version("msgpack-rpc-python"),
    "configuration": (
        "loopback TCP (its Unix sockets are not documented), Python on both sides;"
        " a client is for one thread, so each caller, which is a thread, has its own"
    ),
    "documentation": "https://pypi.org/project/msgpack-rpc-python/",
}
HOST = "127.0.0.1"
CALL_TIMEOUT_S = 30


class Echo:
    def echo(self, data: bytes) -> bytes:
        return data


class Loopback(tcp.ServerTransport):
    """The library's own would listen on every interface, and not tell the port that the kernel chose."""

    bound: list[socket]

    def listen(self, server: msgpackrpc.Server) -> None:
        self._server = server
        self._mp_server = tcp.MessagePackServer(self, io_loop=server._loop._ioloop, encodings=self._encodings)
        Loopback.bound = bind_sockets(0, HOST)
        self._mp_server.add_sockets(self.bound)


class Builder:
    ServerTransport = Loopback


def serve() -> None:
    server = msgpackrpc.Server(Echo(), builder=Builder)
    server.listen(msgpackrpc.Address(HOST, 0))
    (bound,) = Loopback.bound
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"ready tcp:{HOST}:{bound.getsockname()[1]}", flush=True)
    server.start()


def open_callers(address: str, size: int, callers: int) -> list[Call]:
    _, host, port = address.split(":")
    payload = payload_of(size)

    def opened() -> Call:
        client = msgpackrpc.Client(msgpackrpc.Address(host, int(port)), timeout=CALL_TIMEOUT_S)
        if client.call("echo", payload) != payload:
            sys.exit("the echo differs")

        def call() -> None:
            if len(client.call("echo", payload)) != size:
                raise ValueError("the echo differs")

        return call

    return [opened() for _ in range(callers)]


def main() -> None:
    match sys.argv[1:]:
        case ["serve", _]:
            serve()
        case ["call", address, size, callers]:
            obey(open_callers(address, int(size), int(callers)))
        case ["describe"]:
            print(json.dumps(DESCRIPTION))
        case _:
            sys.exit("usage: main.py serve ADDRESS, call ADDRESS PAYLOAD_BYTES CALLERS, or describe")


if __name__ == "__main__":
    main()
