"""Parameters whose names Python, or a call, has another use for: what the signature shows can be given,
and what could mean the call's own time is refused."""

from __future__ import annotations

import asyncio
import inspect
import json
import pydoc
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nearcall
import nearcall.gevent
from nearcall import Client, _schema
from nearcall.generated import AsyncGenerated, Generated, SyncClient
from scripted import ScriptedServer, pack
from support import Generations, Server, begun_again

Call = Callable[..., Any]


def begun(client: Client) -> Call:
    return lambda name, /, *args, **named: client.begin(name, *args, **named).wait()


def looked_up(client: SyncClient) -> Call:
    return lambda name, /, *args, **named: client.function(name)(*args, **named)


def attribute(client: SyncClient) -> Call:
    return lambda name, /, *args, **named: getattr(client, name)(*args, **named)


def on_a_loop(address: str, how: Callable[[nearcall.AsyncClient, str], Any]) -> Iterator[Call]:
    client = nearcall.AsyncClient(address, timeout=20.0)
    with asyncio.Runner() as runner:

        async def call(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
            function = how(client, name)
            if inspect.iscoroutine(function):
                function = await function
            return await function(*args, **named)

        yield lambda name, /, *args, **named: runner.run(call(name, args, named))
        client.close()


def calls_of(form: str, address: str) -> Iterator[Call]:
    if form == "coroutine attribute":
        yield from on_a_loop(address, getattr)
        return
    if form == "coroutine looked up":
        yield from on_a_loop(address, lambda client, name: client.function(name))
        return
    kind, _, how = form.partition(" ")
    kinds: dict[str, Callable[..., Any]] = {"plain": Client, "greenlets'": nearcall.gevent.Client}
    forms = {"call": lambda client: client.call, "begun": begun, "looked up": looked_up, "attribute": attribute}
    with kinds[kind](address, timeout=20.0) as client:
        yield forms[how](client)


FORMS = [
    *(f"plain {how}" for how in ("call", "begun", "looked up", "attribute")),
    *(f"greenlets' {how}" for how in ("call", "looked up", "attribute")),
    "coroutine attribute",
    "coroutine looked up",
]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def call(form: str, address: str) -> Iterator[Call]:
    yield from calls_of(form, address)


def test_what_is_shown_can_be_given(client: Client, call: Call) -> None:
    shown = inspect.signature(client.function("oddly_named"))
    assert list(shown.parameters) == ["self", "from_", "max_size", "timeout_"]
    page = pydoc.render_doc(client.oddly_named, renderer=pydoc.plaintext)
    assert "oddly_named(self: int, from_: int, max_size: int, timeout_: int | None = None) -> list[int]\n" in page
    for count in range(3, 5):
        given = dict(list(zip(shown.parameters, range(1, 5), strict=True))[:count])
        assert call("oddly_named", **given) == [1, 2, 3, 4 if count == 4 else 0]


def test_own_names_can_be_given_by_who_can_write_them(call: Call) -> None:
    assert call("oddly_named", 1, **{"from": 2, "max-size": 3}) == [1, 2, 3, 0]


def test_a_parameter_given_by_both_its_names(call: Call) -> None:
    with pytest.raises(nearcall.InvalidArgument, match=r"argument 2 \(from_?\) is given twice"):
        call("oddly_named", 1, **{"from": 2, "from_": 2, "max_size": 3})


@pytest.mark.parametrize("seconds", [4, 4.0])
def test_a_timeout_that_may_be_a_parameter_is_refused(call: Call, seconds: float) -> None:
    with pytest.raises(nearcall.InvalidArgument, match=r"timeout_=.*with_timeout\(\)") as caught:
        call("oddly_named", 1, 2, 3, timeout=seconds)
    assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
    assert call("oddly_named", 1, 2, 3, timeout=None) == [1, 2, 3, 0]
    assert call("oddly_named", 1, 2, 3, 4) == [1, 2, 3, 4]
    assert call("ack", 2, 3, timeout=20) == 9


def test_what_is_no_time_is_told_as_well(call: Call) -> None:
    with pytest.raises(TypeError, match="timeout_="):
        call("oddly_named", 1, 2, 3, timeout=True)


def test_a_server_that_gains_such_a_parameter(form: str, start_server: Callable[..., Server]) -> None:
    generations = Generations(start_server, 1)
    for call in calls_of(form, generations.address):
        assert call("job", name="x", timeout=20) == "x"
        generations.replace(2)
        with pytest.raises(nearcall.InvalidArgument, match="job has a parameter called timeout"):
            begun_again(call, "job", name="x", timeout=20)
        assert call("job", name="x", timeout_=5) == "x for 5"
        generations.replace(1)
        assert begun_again(call, "job", name="x", timeout=20) == "x"


@pytest.mark.parametrize("changes", ["error", "ignore"])
def test_generated_code_says_which_it_means(address: str, changes: Any) -> None:
    with Client(address) as plain:
        description = plain.oddly_named.description
    descriptions = {"oddly_named": json.dumps(description)}
    with Client(address) as client, nearcall.gevent.Client(address) as green:
        for kind in (client, green):
            generated = Generated(kind, descriptions, changes)
            assert generated.call("oddly_named", 1, 2, 3, 4, timeout=20.0) == [1, 2, 3, 4]

    async def main() -> Any:
        async with nearcall.AsyncClient(address) as client:
            generated = AsyncGenerated(client, descriptions, changes)
            return await generated.call("oddly_named", 1, 2, 3, 4, timeout=20.0)

    assert asyncio.run(main()) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["different", "of one kind"])
def test_names_of_very_many_parameters(kind: str) -> None:
    """A server may have as many as its description holds, and a call waits until they have names."""
    many = 50_000
    signs = [chr(number) for number in range(0x2190, 0x2190 + 250)]  # no name of Python has them
    names = [f"p{i}" if kind == "different" else f"a{signs[i // 250]}{signs[i % 250]}" for i in range(many)]
    began = time.thread_time()
    shown = _schema.keyword_names([{"name": name} for name in names])
    assert time.thread_time() - began < 10
    assert len(set(shown)) == many
    assert all(name.isidentifier() for name in shown)
    assert shown[:3] == (("p0", "p1", "p2") if kind == "different" else ("a__", "a___", "a____"))


def test_names_that_are_taken(folder: Any) -> None:
    names = ["from", "from_", "timeout_", "timeout", "a-b", "a_b", "1", "", "größe", "None"]
    shown = _schema.keyword_names([{"name": name} for name in names])
    assert shown == ("from__", "from_", "timeout_", "timeout__", "a_b_", "a_b", "x1", "x", "größe", "None_")
    params = [{"name": name, "type": "int64"} for name in ("from", "from_")]
    reply = pack(1)
    with (
        ScriptedServer(folder / "s", {"name": "f", "params": params, "results": ["int64"]}, reply) as server,
        Client(server.address) as client,
    ):
        assert list(inspect.signature(client.function("f")).parameters) == ["from__", "from_", "timeout"]
        assert client.f(from__=1, from_=2) == 1
        assert server.requests == [b"\x92\x01\x02"]


@pytest.mark.parametrize("key", [1, None, b"m", (1,)])
def test_keywords_are_text(client: Client, key: Any) -> None:
    """Python itself sees to that for functions of its own only."""
    for function in (client.function("ack"), client.ack):
        for given in ({key: 2}, {"m": 1, key: 2}, {"timeout": 5, key: 2}):
            with pytest.raises(TypeError, match="keywords must be strings"):
                function(**given)
    assert client.one() == 1
