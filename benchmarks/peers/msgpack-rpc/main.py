"""MessagePack-RPC, in Python on both sides.

What it is used for is in ../README.md.
"""

import signal
import sys
from importlib.metadata import version
from pathlib import Path
from socket import socket
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "callers"))

import msgpack
import msgpackrpc
from calling import Exchange, peer
from msgpackrpc.transport import tcp
from tornado.netutil import bind_sockets

PACKAGES = ["msgpack-rpc-python", "msgpack", "tornado"]
CODEC = "msgpack._cmsgpack"  # the extension; the pure Python is msgpack.fallback
DESCRIPTION = {
    "version": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
    "language": "Python",
    "connections": "one each, which is a thread",
    "configuration": (
        "loopback TCP (its Unix sockets are not documented), the server answers one at a time;"
        f" the codec is {msgpack.Packer.__module__} of a newer msgpack than it asks for,"
        " which has no extension for this Python"
    ),
    "documentation": "https://pypi.org/project/msgpack-rpc-python/",
}
HOST = "127.0.0.1"
CALL_TIMEOUT_S = 30


class Packer(msgpack.Packer):
    """That of the old form, without a type of its own for bytes, as the library expects it."""

    def __new__(cls, encoding: str | None, default: Any) -> "Packer":
        return super().__new__(cls, default=default, use_bin_type=False)

    def __init__(self, encoding: str | None, default: Any) -> None:
        super().__init__(default=default, use_bin_type=False)


def unpacker(encoding: str | None) -> msgpack.Unpacker:
    return msgpack.Unpacker(raw=encoding is None, max_buffer_size=0)


def use_the_extension() -> None:
    if msgpack.Packer.__module__ != CODEC:
        found = msgpack.Packer.__module__
        sys.exit(f"msgpack is {found}, not {CODEC}: its extension was not built, or MSGPACK_PUREPYTHON is set")
    tcp.msgpack = SimpleNamespace(Packer=Packer, Unpacker=unpacker)


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


def open_callers(address: str, callers: int) -> list[Exchange]:
    _, host, port = address.split(":")

    def opened() -> Exchange:
        client = msgpackrpc.Client(msgpackrpc.Address(host, int(port)), timeout=CALL_TIMEOUT_S)
        return lambda payload: client.call("echo", payload)

    return [opened() for _ in range(callers)]


if __name__ == "__main__":
    use_the_extension()
    peer(DESCRIPTION, open_callers, serve)
