"""Plain arguments take a shorter way; arguments that are given by name never do. Both do the same."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import nearcall
from nearcall import Client


class Whole(int):
    pass


class Text(str):
    pass


VALUES: list[Any] = [
    0, 1, -1, 3, 127, 128, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, True, None, 1.0, 0.5, float("inf"), Whole(2),
    "", "x", "ü", "x" * 5000, "ü" * 5000, "\ud800", Text("text"), b"", b"x", b"y" * 5000, bytearray(b"z"), [1], {},
]  # fmt: skip
FUNCTIONS = [
    ("ack", ["m", "n"]), ("add", ["arg1", "arg2"]), ("divmod", ["a", "b"]), ("md5", ["text"]), ("upper", ["text"]),
]  # fmt: skip


def outcome(client: Client, function: str, *positional: Any, **named: Any) -> tuple[str, Any]:
    try:
        return "result", client.call(function, *positional, **named)
    except nearcall.NearcallError as error:
        return type(error).__name__, (error.message, error.outcome)


@pytest.mark.parametrize(("function", "names"), FUNCTIONS)
def test_a_plain_call_does_what_others_do(client: Client, function: str, names: list[str]) -> None:
    ended = set()
    for value in VALUES:
        for other in [1, value]:
            arguments = [value, other][: len(names)]
            plain = outcome(client, function, *arguments)
            assert plain == outcome(client, function, **dict(zip(names, arguments, strict=True))), arguments
            ended.add(plain[0])
    assert {"result", "InvalidArgument"} <= ended


def test_too_few_and_too_many(client: Client) -> None:
    for arguments in [(), (1,), (1, 2, 3)]:
        assert outcome(client, "ack", *arguments)[0] == "InvalidArgument"
    assert client.call("ack", 0, 1) == 2


def test_texts_last_while_other_threads_run(client: Client) -> None:
    """The library copies them while the interpreter's lock is not held, and here nothing else holds them."""

    def calls(letter: str) -> None:
        for length in range(1, 400):
            assert client.call("upper", letter * length) == letter.upper() * length
            assert client.call("upper", f"{letter}ü" * length) == f"{letter}ü".upper() * length

    threads = [threading.Thread(target=calls, args=[letter]) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
