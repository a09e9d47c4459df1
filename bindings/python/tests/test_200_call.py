"""Calling by name, by proxy, with bytes."""

from __future__ import annotations

import hashlib
import os

import pytest

import nearcall
from nearcall import Client, Outcome


def test_call_by_name(client: Client) -> None:
    assert client.call("one") == 1
    assert client.call("ack", 2, 3) == 9
    assert client.call("ack", 3, 4, timeout=5.0) == 125
    assert client.call("md5", "hello") == hashlib.md5(b"hello").hexdigest()


def test_counter_counts(client: Client) -> None:
    first = client.count()
    assert [client.count() for _ in range(5)] == list(range(first + 1, first + 6))


@pytest.mark.parametrize("size", [0, 1, 64, 65_536, 1_000_000, 4_000_000])
def test_raw_bytes(client: Client, size: int) -> None:
    data = os.urandom(size)
    assert client.call_raw("echo", data) == data
    assert client.echo(data) == data


def test_raw_takes_any_buffer(client: Client) -> None:
    for data in (bytearray(b"abc"), memoryview(b"abc"), memoryview(b"xabcx")[1:4]):
        assert client.call_raw("echo", data) == b"abc"
        assert client.call("echo", data) == b"abc"


def test_raw_refuses_what_is_no_buffer(client: Client) -> None:
    with pytest.raises(TypeError):
        client.call_raw("echo", "text")
    with pytest.raises(TypeError):
        client.call_raw("echo")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        client.call_raw("echo", b"", b"")  # type: ignore[misc]
    with pytest.raises(TypeError):
        client.call_raw(1, b"")  # type: ignore[arg-type]


def test_raw_buffer_is_free_after_the_call(client: Client) -> None:
    data = bytearray(b"abc")
    client.call_raw("echo", data)
    data.extend(b"def")
    assert client.call_raw("echo", data) == b"abcdef"


def test_raw_on_a_function_that_is_not(client: Client) -> None:
    with pytest.raises(nearcall.InvalidArgument) as caught:
        client.call_raw("ack", b"x")
    assert caught.value.outcome is Outcome.NOT_EXECUTED


def test_unknown_function(client: Client) -> None:
    for use in (lambda: client.call("nope"), lambda: client.nope(), lambda: client.call_raw("nope", b"")):
        with pytest.raises(nearcall.Unimplemented, match="nope") as caught:
            use()
        assert caught.value.outcome is Outcome.NOT_EXECUTED
    assert client.one() == 1


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_names_of_impossible_length(client: Client, name: str) -> None:
    with pytest.raises(nearcall.InvalidArgument):
        client.call(name)


def test_names_that_are_no_text(client: Client) -> None:
    with pytest.raises(TypeError):
        client.call()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        client.call(b"one")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        client.call([])  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        client.call("\ud800")
    with pytest.raises(nearcall.Unimplemented):
        client.call("a\0b")


def test_named_arguments(client: Client) -> None:
    assert client.call("divmod", a=7, b=2) == (3, 1)
    assert client.divmod(7, b=2, timeout=5) == (3, 1)
    assert client.divmod(b=2, a=7) == (3, 1)


def test_named_arguments_that_do_not_fit(client: Client) -> None:
    with pytest.raises(nearcall.InvalidArgument, match="divmod has no parameter 'c'; it has a, b "):
        client.divmod(1, c=2)
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(a\) is given twice"):
        client.divmod(1, a=2)
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 1 \(a\) is missing"):
        client.divmod(b=2)
    with pytest.raises(nearcall.InvalidArgument, match="takes 2 arguments, got 1"):
        client.divmod(a=2)


def test_number_of_arguments(client: Client) -> None:
    for arguments in [(), (1,), (1, 2, 3)]:
        with pytest.raises(nearcall.InvalidArgument, match=f"ack takes 2 arguments, got {len(arguments)}") as caught:
            client.ack(*arguments)
        assert caught.value.outcome is Outcome.NOT_EXECUTED


def test_optional_arguments(client: Client) -> None:
    assert client.optional_sum(1) == 1
    assert client.optional_sum(1, None) == 1
    assert client.optional_sum(1, 2) == 3
    assert client.optional_sum(1, b=2) == 3
    with pytest.raises(nearcall.InvalidArgument, match="at least 1"):
        client.optional_sum()
    with pytest.raises(nearcall.InvalidArgument, match="at most 2"):
        client.optional_sum(1, 2, 3)


def test_variadic(client: Client) -> None:
    assert client.sum() == 0
    assert client.sum(5) == 5
    assert client.sum(*range(100)) == 4950


def test_several_results_are_a_tuple(client: Client) -> None:
    assert client.divmod(7, 2) == (3, 1)


def test_many_calls(client: Client) -> None:
    assert all(client.ack(0, i % 10) == i % 10 + 1 for i in range(5000))


def test_system_functions(client: Client) -> None:
    assert '"functions"' in client.call("nearcall.schema")


def test_nested_use_by_an_argument(client: Client) -> None:
    """An argument's own code may call the same client."""

    class Number:
        def __index__(self) -> int:
            return int(client.ack(0, 1))

    assert client.ack(Number(), Number()) == 7


def test_server_restart_between_calls(own_server: nearcall.Client) -> None:
    with Client(own_server.address, timeout=10.0) as client:
        for _ in range(3):
            assert client.ack(0, 1) == 2
            assert client.call_raw("echo", b"x") == b"x"
            own_server.restart()  # type: ignore[attr-defined]
