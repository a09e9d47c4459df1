"""Functions of the server as attributes and as objects."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc

import pytest

import nearcall
from nearcall import Client


def test_attributes_are_functions(client: Client) -> None:
    assert client.ack(2, 3) == 9
    assert isinstance(client.ack, nearcall.Function)
    assert client.ack.__name__ == client.ack.__qualname__ == "ack"
    assert client.ack.client is client
    assert repr(client.ack) == "<nearcall.Function ack>"


def test_function_objects(client: Client) -> None:
    ack = client.function("ack")
    assert ack(2, 3) == 9
    assert ack(m=2, n=3) == 9
    assert ack(2, 3, timeout=5.0) == 9
    assert list(map(client.function("upper"), ["a", "b"])) == ["A", "B"]


def test_functions_that_do_not_exist(client: Client) -> None:
    with pytest.raises(nearcall.Unimplemented):
        client.function("nope")
    later = client.nope
    with pytest.raises(nearcall.Unimplemented):
        later()


def test_methods_win_over_functions(client: Client) -> None:
    assert client.call("ack", 0, 1) == 2
    assert client.close.__self__ is client  # type: ignore[attr-defined]
    assert client.ping() > 0


@pytest.mark.parametrize("name", ["_private", "__len__", "__array__", "_ipython_display_"])
def test_names_with_underscore_are_python_s(client: Client, name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(client, name)


def test_attributes_of_a_program_hide_functions(address: str) -> None:
    class Mine(Client):
        pass

    with Mine(address) as client:
        assert client.one() == client.one() == client.one() == 1
        client.one = lambda: "mine"
        assert client.one() == "mine"
        del client.one
        assert client.one() == 1


def test_clients_take_no_attributes(client: Client) -> None:
    with pytest.raises(AttributeError):
        client.misspelt = 1


def test_signature(client: Client) -> None:
    assert str(inspect.signature(client.ack)) == "(m: 'int', n: 'int', *, timeout: 'float | None' = None) -> 'int'"
    assert str(inspect.signature(client.function("sum"))).startswith("(*numbers: 'int', timeout")
    assert str(inspect.signature(client.optional_sum)).startswith("(a: 'int', b: 'int | None' = None, *")
    assert inspect.signature(client.divmod).return_annotation == "tuple[int, int]"
    assert inspect.signature(client.word_count).return_annotation == "dict[str, int]"
    assert inspect.signature(client.greet).parameters["person"].annotation == "Person"
    assert inspect.signature(client.later).return_annotation == "datetime.datetime"


def test_documentation(client: Client) -> None:
    assert client.function("ack").__doc__
    assert "Person:\n    name: str\n    age: int | None\n    tags: list[str]" in (client.greet.__doc__ or "")
    assert client.greet.description["params"][0]["type"] == {"struct": "Person"}


def test_documentation_of_what_does_not_exist(client: Client) -> None:
    with pytest.raises(nearcall.Unimplemented):
        _ = client.nope.__doc__


def test_functions_cannot_be_made_nor_calls_pickled(client: Client) -> None:
    with pytest.raises(TypeError):
        nearcall.Function()
    with pytest.raises(TypeError):
        nearcall.Call()
    with pytest.raises((TypeError, pickle.PicklingError)):
        pickle.dumps(client.begin("one"))


def test_function_keeps_its_client(address: str) -> None:
    one = Client(address).function("one")
    assert [one() for _ in range(3)] == [1, 1, 1]


def test_views_have_functions_with_their_timeout(client: Client) -> None:
    assert client.sleep(1) == 1
    with pytest.raises(nearcall.DeadlineExceeded):
        client.with_timeout(0.05).sleep(5000)
    with pytest.raises(nearcall.DeadlineExceeded):
        client.with_timeout(0.05).function("sleep")(5000)


def test_help(client: Client) -> None:
    page = pydoc.render_doc(client.greet, renderer=pydoc.plaintext)
    assert "Greets a person." in page
    page = pydoc.render_doc(Client, renderer=pydoc.plaintext)
    assert "call(self, name, /, *args, timeout=None, **named)" in page


def test_functions_are_pickled(client: Client) -> None:
    for made in (client.ack, client.function("ack"), client._function("ack")):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            restored = pickle.loads(pickle.dumps(made, protocol))
            assert restored(2, 3) == 9
            assert (restored.client.address, restored.client.timeout) == (client.address, client.timeout)
            restored.client.close()
    assert copy.copy(client.ack).client is client
    assert copy.deepcopy(client.ack)(2, 3) == 9


def test_pickled_functions_are_not_looked_up_and_hide_nothing(client: Client) -> None:
    nope = pickle.loads(pickle.dumps(client.nope))
    with pytest.raises(nearcall.Unimplemented):
        nope()
    for name in ("close", "_private"):
        assert copy.copy(client._function(name)).__name__ == name
    assert client.close.__self__ is client  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        client._private  # noqa: B018
