"""Failures: class, code, message, outcome, details."""

from __future__ import annotations

import copy
import pickle
import signal

import pytest

import nearcall
from nearcall import Client, Code, Outcome
from support import Server

FAILURES = [code for code in Code if code is not Code.OK]


def class_of(code: Code) -> type[nearcall.NearcallError]:
    name = "".join(part.capitalize() for part in code.name.split("_"))
    found = getattr(nearcall, name)
    assert issubclass(found, nearcall.NearcallError)
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("code", FAILURES)
def test_every_code_has_its_class(client: Client, code: Code) -> None:
    with pytest.raises(class_of(code)) as caught:
        client.fail(int(code), f"failing with {code.name}")
    error = caught.value
    assert type(error) is class_of(code)
    assert error.code is code
    assert error.outcome is Outcome.EXECUTED
    assert error.message == f"failing with {code.name}"
    assert error.details == [("example.Hint", {"hint": "this is what fail is for"})]
    assert str(error) == f"{code.name}: failing with {code.name} (executed)"


@pytest.mark.parametrize(
    ("code", "builtin"),
    [
        (Code.INVALID_ARGUMENT, ValueError),
        (Code.DEADLINE_EXCEEDED, TimeoutError),
        (Code.NOT_FOUND, LookupError),
        (Code.PERMISSION_DENIED, PermissionError),
        (Code.UNIMPLEMENTED, NotImplementedError),
        (Code.UNAVAILABLE, ConnectionError),
    ],
)
def test_classes_that_python_has_too(client: Client, code: Code, builtin: type[Exception]) -> None:
    with pytest.raises(builtin):
        client.fail(int(code), "x")


@pytest.mark.parametrize("code", FAILURES)
def test_errors_survive_pickling(client: Client, code: Code) -> None:
    with pytest.raises(nearcall.NearcallError) as caught:
        client.fail(int(code), "ünicode 😀")
    for other in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert type(other) is type(caught.value)
        assert (other.code, other.message, other.outcome, other.details) == (
            caught.value.code, caught.value.message, caught.value.outcome, caught.value.details,
        )  # fmt: skip
        assert str(other) == str(caught.value)


def test_error_without_a_code(client: Client) -> None:
    with pytest.raises(nearcall.Unknown) as caught:
        client.plain_error("plain words")
    assert caught.value.message == "plain words"
    assert caught.value.outcome is Outcome.EXECUTED
    assert caught.value.details == []


def test_panic(client: Client) -> None:
    with pytest.raises(nearcall.Internal) as caught:
        client.panic("secret words")
    assert caught.value.outcome is Outcome.EXECUTED
    assert "secret words" not in caught.value.message
    assert client.one() == 1


def test_long_messages_are_cut(client: Client) -> None:
    with pytest.raises(nearcall.Aborted) as caught:
        client.fail(int(Code.ABORTED), "x" * 100_000)
    assert 0 < len(caught.value.message) < 100_000
    assert client.one() == 1


def test_errors_of_functions(client: Client) -> None:
    with pytest.raises(nearcall.OutOfRange):
        client.ack(4, 4)
    with pytest.raises(nearcall.InvalidArgument) as caught:
        client.divmod(1, 0)
    assert caught.value.outcome is Outcome.EXECUTED


def test_server_that_dies_during_a_call(own_server: Server) -> None:
    with Client(own_server.address, timeout=10.0) as client:
        assert client.one() == 1
        with pytest.raises(nearcall.Unavailable) as caught:
            client.call("exit", 3)
        assert caught.value.outcome is Outcome.UNKNOWN
        own_server.restart()
        assert client.one() == 1


def test_server_that_is_gone(own_server: Server) -> None:
    with Client(own_server.address, timeout=2.0) as client:
        assert client.one() == 1
        own_server.stop(signal.SIGKILL)
        with pytest.raises(nearcall.Unavailable) as caught:
            client.one()
        assert caught.value.outcome is Outcome.NOT_EXECUTED
        own_server.start()
        assert client.one() == 1


def test_outcome_texts() -> None:
    assert [outcome.text for outcome in Outcome] == [
        "none", "not executed", "unknown", "executed, result lost", "executed",
    ]  # fmt: skip


def test_errors_can_be_made_by_hand() -> None:
    error = nearcall.Unavailable("no")
    assert (error.message, error.details) == ("no", [])
    assert isinstance(error, nearcall.NearcallError)
