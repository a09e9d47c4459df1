"""The Python caller: measures one way to call, when it is told to.

    caller.py MODE ADDRESS PAYLOAD_BYTES

MODE is raw, floats, typed, one, ack, md5; child- before it: from a child of who opened the
handle; alone-one, alone-ack, alone-md5: Python itself, where a sample is of many calls if
one takes no longer than to read the clock; simple-one, simple-ack, simple-md5: the simple
protocol, with a connection per call; kept-one, kept-ack, kept-md5: with one; app-NAME: a
function of shop.py.

What it prints and what is timed is as in calling.py.
"""

import hashlib
import json
import os
import socket
import struct
import sys
from array import array
from typing import Any

from calling import Call, differs, obey, payload_of
from shop import shop_subject

import nearcall

# How the calls went, as a report tells it.
TRANSPORTS = {"unix socket": 1, "shared memory": 2, "same process": 3, "tcp": 4, "tls": 5}

# A server gives shared memory to who has called some times.
CALLS_UNTIL_MEMORY_MAX = 256

# What the functions are given, and have to answer.
KNOWN: dict[str, tuple[str, list[Any], Any]] = {
    "typed": ("ack", [0, 1], 2),
    "one": ("one", [], 1),
    "ack": ("ack", [3, 4], 125),
    "md5": ("md5", ["hoge"], "ea703e7aa1efda0064eaa507d9e8ab7e"),
}


def ack(m: int, n: int) -> int:
    if m == 0:
        return n + 1
    return ack(m - 1, 1 if n == 0 else ack(m, n - 1))


def one() -> int:
    return 1


ALONE_BATCH = 1000


def batch_of_one() -> object:
    for _ in range(ALONE_BATCH):
        answer = one()
    return answer


def batch_of_md5() -> object:
    for _ in range(ALONE_BATCH):
        answer = hashlib.md5(b"hoge").hexdigest()
    return answer


# How Python calls each of them itself, and how often in one sample.
ALONE: dict[str, tuple[Call, int]] = {
    "one": (batch_of_one, ALONE_BATCH),
    "ack": (lambda: ack(3, 4), 1),
    "md5": (batch_of_md5, ALONE_BATCH),
}


def connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def exchange(connection: socket.socket, function: str, arguments: list[Any]) -> object:
    text = json.dumps({"f": function, "a": arguments}).encode()
    connection.sendall(struct.pack("!I", len(text)) + text)
    (length,) = struct.unpack("!I", connection.recv(4, socket.MSG_WAITALL))
    return json.loads(connection.recv(length, socket.MSG_WAITALL))["r"]


def simple(address: str, name: str, kept: bool) -> Call:
    function, arguments, _ = KNOWN[name]
    path = address.removeprefix("unix:")
    if kept:
        connection = connected(path)
        return lambda: exchange(connection, function, arguments)

    def call() -> object:
        with connected(path) as connection:
            return exchange(connection, function, arguments)

    return call


def become_child() -> None:
    """This process goes on as the one that serves; its child calls."""
    child = os.fork()
    if child == 0:
        return
    os.close(0)
    os.close(1)
    _, status = os.waitpid(child, 0)
    os._exit(status != 0)


# A way to call, what it has to return, and its client where it has one.
Subject = tuple[Call, object, nearcall.Client | None]


def reach_memory(go: nearcall.Client, call: Call) -> None:
    """Calls until the server has given shared memory; to have been given none is no error, the report tells."""
    for _ in range(CALLS_UNTIL_MEMORY_MAX):
        call()
        if go.transport() != "unix socket":
            return


def client_subject(mode: str, address: str, payload_bytes: int) -> Subject:
    go = nearcall.Client(address)
    call = go.call
    if mode.startswith("child-"):
        become_child()
        mode = mode.removeprefix("child-")
    if mode.startswith("app-"):
        errand, answer = shop_subject(mode.removeprefix("app-"), go)
        reach_memory(go, errand)
        return errand, answer, go
    if mode == "raw":
        payload = payload_of(payload_bytes)
        if "shm=off" not in address:
            reach_memory(go, lambda: call("echo", payload))
        return lambda: call("echo", payload), payload, go
    if mode == "floats":
        payload = payload_of(payload_bytes)
        numbers, views = array("d", payload), go.with_options(buffers=True)
        if "shm=off" not in address:
            reach_memory(go, lambda: views.call("echo_numbers", numbers))
        # What is compared is the memory of the view: quickly, and some of these floats are not equal to themselves.
        return lambda: views.call("echo_numbers", numbers).obj, payload, go
    # As a program writes it: to unpack a list is not what is measured.
    ways: dict[str, Call] = {
        "typed": lambda: call("ack", 0, 1),
        "one": lambda: call("one"),
        "ack": lambda: call("ack", 3, 4),
        "md5": lambda: call("md5", "hoge"),
    }
    return ways[mode], KNOWN[mode][2], go


def subject(mode: str, address: str, payload_bytes: int) -> Subject:
    kind, _, name = mode.partition("-")
    if kind == "alone":
        return ALONE[name][0], KNOWN[name][2], None
    if kind in ("simple", "kept"):
        return simple(address, name, kind == "kept"), KNOWN[name][2], None
    return client_subject(mode, address, payload_bytes)


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit("usage: caller.py MODE ADDRESS PAYLOAD_BYTES")
    call, expected, go = subject(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    if (answer := call()) != expected:
        differs(answer, expected)
    _, _, alone = sys.argv[1].partition("alone-")
    calls_per_sample = ALONE[alone][1] if alone else 1
    obey([call], lambda: TRANSPORTS.get(go.transport(), 0) if go else 0, expected, calls_per_sample)


if __name__ == "__main__":
    main()
