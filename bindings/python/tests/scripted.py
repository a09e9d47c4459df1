"""A server that says what a test tells it to: descriptions and replies byte for
byte. It speaks as much of spec/wire-format.md as that takes."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any, Self

HELLO_BYTES = 64
HEADER = struct.Struct("<IBBBBQIIII")
REQUEST, REPLY, ERROR, CANCEL, PING, PONG, RESOLVE, DRAIN, ASK = 1, 2, 3, 4, 8, 9, 10, 11, 16
INVALID_ARGUMENT, RESOURCE_EXHAUSTED, ABORTED, UNIMPLEMENTED = 3, 8, 10, 12
NOT_EXECUTED = 1 << 8
DESCRIPTIONS = 16  # the feature
ASKS = 256
CONNECTION_KEY = 4  # the extension
MSGPACK = 1


def pack(value: Any) -> bytes:
    """MessagePack of a description."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, str):
        data = value.encode()
        return b"\xdb" + struct.pack(">I", len(data)) + data
    if isinstance(value, dict):
        items = b"".join(pack(key) + pack(item) for key, item in value.items())
        return b"\xdf" + struct.pack(">I", len(value)) + items
    return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))


def function(params: list[Any], results: list[Any], **more: Any) -> dict[str, Any]:
    """The description of a function `f` with parameters p0, p1, ..."""
    named = [{"name": f"p{i}", "type": kind} for i, kind in enumerate(params)]
    return {"name": "f", "params": named, "results": results, **more}


class ScriptedServer:
    """Answers RESOLVE by `description` and REQUEST by `reply`."""

    features = 0
    _instances = itertools.count(1)

    def __init__(self, path: Path, description: bytes | dict[str, Any], reply: bytes = b"\xc0") -> None:
        self.address = f"unix:{path}"
        self.description = description if isinstance(description, bytes) else pack(description)
        self.reply = reply
        self.refuse_payload: bytes | None = None
        self.requests: list[bytes] = []
        self._instance = next(self._instances)
        self._connections: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        for end in (self._listener, *self._connections):
            with_shutdown(end)
        self._thread.join()
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            with connection:
                try:
                    self._talk(connection)
                except (EOFError, OSError):
                    continue

    def _talk(self, connection: socket.socket) -> None:
        hello = read(connection, HELLO_BYTES)
        read(connection, struct.unpack_from("<I", hello, 8)[0] - HELLO_BYTES)
        pid = os.getpid() + self._instance
        key = self._key()
        more = struct.pack("<HH", CONNECTION_KEY, len(key)) + key if key else b""
        welcome = struct.pack("<8sIHHQQIIQIIQ", b"\x89NCW\r\n\x1a\n", HELLO_BYTES + len(more), 1, 0, self.features,
                              self._instance, pid, 1 << 22, 0, 0, 1024, self._instance)  # fmt: skip
        connection.sendall(welcome + more)
        while True:
            self._answer(connection)

    def _key(self) -> bytes:
        """Of the connection that is welcomed; none where nobody can be asked about its calls."""
        return b""

    def _answer(self, connection: socket.socket) -> None:
        length, kind, _, codec, _, call, _, _, _, extensions = HEADER.unpack(read(connection, HEADER.size))
        payload = read(connection, length)[extensions:]
        if kind == RESOLVE:
            self._answer_resolve(connection, call, payload)
        elif kind == REQUEST:
            self._answer_request(connection, call, codec, payload)
        elif kind == PING:
            send(connection, PONG, 0, 0, payload)
        elif kind == ASK:
            self._answer_question(connection, call, payload)

    def _answer_resolve(self, connection: socket.socket, call: int, name: bytes) -> None:
        send(connection, REPLY, call, MSGPACK, self.description, function_id=1)

    def _answer_question(self, connection: socket.socket, call: int, payload: bytes) -> None:
        raise AssertionError("nobody can be asked")

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        self.requests.append(payload)
        if payload == self.refuse_payload:
            send(connection, ERROR, call, MSGPACK, pack(["refused", []]), status=INVALID_ARGUMENT | NOT_EXECUTED)
        else:
            send(connection, REPLY, call, codec, self.reply, function_id=1)


class OldServer(ScriptedServer):
    """One that is too old to compare descriptions."""

    def __init__(self, path: Path, description: dict[str, Any], reply: bytes) -> None:
        self.questions = 0
        super().__init__(path, description, reply)

    def _answer_resolve(self, connection: socket.socket, call: int, name: bytes) -> None:
        if name != b"nearcall.changes":
            super()._answer_resolve(connection, call, name)
            return
        self.questions += 1
        send(connection, ERROR, call, MSGPACK, pack(["no such function", []]), status=UNIMPLEMENTED | NOT_EXECUTED)


class ComparingServer(ScriptedServer):
    """One that is asked to compare descriptions. A silent one leaves the first question unanswered."""

    _QUESTION = pack(function(["string", "string"], ["any"], hash="3" * 32))

    def __init__(self, path: Path, description: dict[str, Any], answer: Any, is_silent: bool = False) -> None:
        self.questions = threading.Semaphore(0)
        self.asked = 0
        self._is_silent = is_silent
        self._answer_bytes = pack(answer)
        super().__init__(path, description, pack("done"))

    def _answer_resolve(self, connection: socket.socket, call: int, name: bytes) -> None:
        if name != b"nearcall.changes":
            super()._answer_resolve(connection, call, name)
            return
        send(connection, REPLY, call, MSGPACK, self._QUESTION, function_id=2)

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        if b'"hash"' not in payload:
            super()._answer_request(connection, call, codec, payload)
            return
        self.asked += 1
        if not self._is_silent or self.asked > 1:
            send(connection, REPLY, call, codec, self._answer_bytes, function_id=2)
        self.questions.release()


class LeavingServer(ScriptedServer):
    """Always a newer one in its own place: on a connection it refuses the first request, which
    another has described otherwise, and takes the connection away under the next, unread."""

    def _talk(self, connection: socket.socket) -> None:
        self._has_described = False
        self._instance = next(self._instances)
        self.description = pack(function([], ["any"], doc=f"instance {self._instance}"))
        super()._talk(connection)

    def _answer(self, connection: socket.socket) -> None:
        header = connection.recv(HEADER.size, socket.MSG_PEEK | socket.MSG_WAITALL)
        kind = HEADER.unpack(header)[1] if len(header) == HEADER.size else None
        if kind == REQUEST and self._has_described:
            self.requests.append(header)
            raise EOFError
        self._has_described = self._has_described or kind == RESOLVE
        super()._answer(connection)

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        self.requests.append(payload)
        send(connection, ERROR, call, MSGPACK, pack(["refused", []]), status=ABORTED | NOT_EXECUTED)


class TwiceReplacedServer(ScriptedServer):
    """Refuses the first request, which another has described otherwise, and is gone when it is asked how it
    describes the function itself. The next one takes what comes."""

    features = DESCRIPTIONS

    def _talk(self, connection: socket.socket) -> None:
        self._has_refused = False
        self._instance = next(self._instances)
        self.description = pack(function([], ["any"], hash=f"{self._instance << 224:064x}"))
        super()._talk(connection)

    def _answer_resolve(self, connection: socket.socket, call: int, name: bytes) -> None:
        if self._has_refused:
            raise EOFError
        super()._answer_resolve(connection, call, name)

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        self.requests.append(payload)
        self._has_refused = len(self.requests) == 1
        if self._has_refused:
            send(connection, ERROR, call, MSGPACK, pack(["refused", []]), status=ABORTED | NOT_EXECUTED)
        else:
            send(connection, REPLY, call, MSGPACK, pack("done"), function_id=1)


class ResettingServer(ScriptedServer):
    """Always a newer one in its own place: it takes the connection away under a request, unread, twice, and
    refuses the third, which another has described otherwise."""

    features = DESCRIPTIONS

    def _talk(self, connection: socket.socket) -> None:
        generation = 1 + len(self.requests) // 3
        self._instance = generation
        self.description = pack(function([], ["any"], hash=f"{generation << 224:064x}", doc=str(generation)))
        super()._talk(connection)

    def _answer(self, connection: socket.socket) -> None:
        header = connection.recv(HEADER.size, socket.MSG_PEEK | socket.MSG_WAITALL)
        if len(header) == HEADER.size and HEADER.unpack(header)[1] == REQUEST:
            self.requests.append(header)
            if len(self.requests) % 3:
                raise EOFError
        super()._answer(connection)

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        send(connection, ERROR, call, MSGPACK, pack(["refused", []]), status=ABORTED | NOT_EXECUTED)
        raise EOFError


class LateServer(ScriptedServer):
    """Describes `f` late, refuses the first request, whose encoding is another's, and never answers the next."""

    features = DESCRIPTIONS

    def __init__(self, path: Path, late_seconds: float) -> None:
        self._late_seconds = late_seconds
        self._descriptions = 0
        super().__init__(path, b"")

    def _answer_resolve(self, connection: socket.socket, call: int, name: bytes) -> None:
        if self._descriptions == 0:
            time.sleep(self._late_seconds)
        self._descriptions += 1
        self.description = pack(function([], ["any"], hash=f"{self._descriptions << 224:064x}"))
        super()._answer_resolve(connection, call, name)

    def _answer_request(self, connection: socket.socket, call: int, codec: int, payload: bytes) -> None:
        self.requests.append(payload)
        if len(self.requests) == 1:
            send(connection, ERROR, call, MSGPACK, pack(["refused", []]), status=ABORTED | NOT_EXECUTED)


def with_shutdown(end: socket.socket) -> None:
    """Ends what another thread may be blocked in."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def send(
    connection: socket.socket,
    kind: int,
    call: int,
    codec: int,
    payload: bytes,
    *,
    function_id: int = 0,
    status: int = 0,
) -> None:
    connection.sendall(HEADER.pack(len(payload), kind, 0, codec, 0, call, function_id, 0, status, 0) + payload)
