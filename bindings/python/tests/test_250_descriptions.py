"""A server that is replaced by one that declares its functions otherwise: a call never
runs with arguments that were encoded for the former one."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nearcall
from nearcall.generated import AsyncGenerated, Generated, Origin
from scripted import ComparingServer, LeavingServer, OldServer, ResettingServer, TwiceReplacedServer, function, pack
from support import Generations, Server, begun_again

CALLS_FOR_MEMORY = 64
PAUSE = datetime.timedelta(milliseconds=1500)

Call = Callable[..., Any]


@pytest.fixture
def generations(start_server: Callable[..., Server]) -> Generations:
    return Generations(start_server, 1)


def keyword_call(client: nearcall.Client) -> Call:
    return client.call


def proxy_call(client: nearcall.Client) -> Call:
    return lambda name, *args, **named: getattr(client, name)(*args, **named)


def function_call(client: nearcall.Client) -> Call:
    functions: dict[str, nearcall.Function] = {}

    def call(name: str, *args: Any, **named: Any) -> Any:
        if name not in functions:
            functions[name] = client.function(name)
        return functions[name](*args, **named)

    return call


def pipelined_call(client: nearcall.Client) -> Call:
    return lambda name, *args, **named: client.begin(name, *args, **named).wait()


def polled_call(client: nearcall.Client) -> Call:
    def call(name: str, *args: Any, **named: Any) -> Any:
        begun = client.begin(name, *args, **named)
        while not begun.ready():
            pass
        return begun.wait()

    return call


@pytest.fixture(params=[keyword_call, proxy_call, function_call, pipelined_call, polled_call])
def form(request: pytest.FixtureRequest) -> Callable[[nearcall.Client], Call]:
    chosen: Callable[[nearcall.Client], Call] = request.param
    return chosen


@pytest.fixture(params=["unix socket", "shared memory"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def warm(generations: Generations, transport: str) -> Iterator[nearcall.Client]:
    """A client that has called everything, over the transport of the test."""
    with nearcall.Client(generations.address, shared_memory=transport == "shared memory") as client:
        for _ in range(CALLS_FOR_MEMORY):
            assert client.transfer("alice", dst="bob") == "alice to bob"
        assert client.sleep_for(PAUSE) == "1500 ms"
        assert client.level() == 7
        assert client.tag(b"x") == b"bytes x"
        assert client.lost() == "lost"
        assert client.transport() == transport
        yield client


def test_reordered_by_keyword(
    warm: nearcall.Client, form: Callable[[nearcall.Client], Call], generations: Generations
) -> None:
    call = form(warm)
    assert call("transfer", src="alice", dst="bob") == "alice to bob"
    generations.replace(2)
    assert begun_again(call, "transfer", src="alice", dst="bob") == "alice to bob"
    assert generations.history() == ["alice to bob"]


def test_reordered_by_position_means_the_new_order(warm: nearcall.Client, generations: Generations) -> None:
    generations.replace(2)
    assert warm.transfer("bob", "alice") == "alice to bob"
    assert generations.history() == ["alice to bob"]


def test_duration_that_became_a_number(
    warm: nearcall.Client, form: Callable[[nearcall.Client], Call], generations: Generations
) -> None:
    call = form(warm)
    assert call("sleep_for", PAUSE) == "1500 ms"
    generations.replace(2)
    with pytest.raises(nearcall.InvalidArgument, match="int64") as caught:
        begun_again(call, "sleep_for", PAUSE)
    assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
    # By the former description this would not be encoded at all.
    assert call("sleep_for", 1500) == "1500 ms"
    assert generations.history() == ["1500 ms"]


def test_number_that_the_former_description_refuses(
    warm: nearcall.Client, form: Callable[[nearcall.Client], Call], generations: Generations
) -> None:
    call = form(warm)
    assert call("sleep_for", PAUSE) == "1500 ms"
    generations.replace(2)
    assert begun_again(call, "sleep_for", 1500) == "1500 ms"
    assert generations.history() == ["1500 ms"]


def test_result_of_another_type(
    warm: nearcall.Client, form: Callable[[nearcall.Client], Call], generations: Generations
) -> None:
    call = form(warm)
    assert call("level") == 7
    generations.replace(2)
    assert begun_again(call, "level") == "seven"
    assert generations.history() == ["level"]


def test_raw_function_that_became_another(
    warm: nearcall.Client, form: Callable[[nearcall.Client], Call], generations: Generations
) -> None:
    call = form(warm)
    assert call("tag", b"x") == b"bytes x"
    generations.replace(2)
    assert begun_again(call, "tag", "x") == "text x"
    assert generations.history() == ["text x"]


def test_function_lost(
    warm: nearcall.Client, form: Callable[[nearcall.Client], Call], generations: Generations
) -> None:
    call = form(warm)
    assert call("lost") == "lost"
    generations.replace(2)
    with pytest.raises(nearcall.Unimplemented, match="lost") as caught:
        begun_again(call, "lost")
    assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
    generations.replace(1)
    assert begun_again(call, "lost") == "lost"


def test_function_gained_refuses_nothing(generations: Generations) -> None:
    with nearcall.Client(generations.address, shared_memory=False) as client:
        assert client.transfer(src="alice", dst="bob") == "alice to bob"
        generations.replace(3)
        assert client.transfer(src="alice", dst="bob") == "alice to bob"
        assert client.gained() == "gained"
        assert generations.history() == ["alice to bob", "gained"]


def test_one_attempt_is_one_sending(generations: Generations) -> None:
    with nearcall.Client(generations.address, attempts=1) as client:
        assert client.transfer(src="alice", dst="bob") == "alice to bob"
        generations.replace(2)
        with pytest.raises(nearcall.NearcallError) as caught:
            client.transfer(src="alice", dst="bob")
        assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
        assert generations.history() == []


@pytest.mark.parametrize("attempts", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("kind", [nearcall.Client, nearcall.AsyncClient])
def test_attempts_are_all_sendings(folder: Path, kind: type, attempts: int) -> None:
    with LeavingServer(folder / "leaving.sock", function([], ["any"])) as server:
        go = kind(server.address, attempts=attempts)
        with pytest.raises(nearcall.NearcallError) as caught:
            asyncio.run(go.call("f")) if kind is nearcall.AsyncClient else go.call("f")
        go.close()
        assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
        assert len(server.requests) == attempts


@pytest.mark.parametrize("attempts", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("kind", [nearcall.Client, nearcall.AsyncClient])
def test_attempts_are_the_librarys_sendings_too(folder: Path, kind: type, attempts: int) -> None:
    with ResettingServer(folder / "resetting.sock", b"") as server:
        go = kind(server.address, attempts=attempts, timeout=20)
        with pytest.raises(nearcall.NearcallError) as caught:
            asyncio.run(go.call("f")) if kind is nearcall.AsyncClient else go.call("f")
        go.close()
        assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
        # On a loop a call that finds its connection gone is not sent, which uses one more.
        assert len(server.requests) == attempts or (kind is nearcall.AsyncClient and len(server.requests) < attempts)


@pytest.mark.parametrize("kind", [nearcall.Client, nearcall.AsyncClient])
def test_server_that_refused_has_gone_too(folder: Path, kind: type) -> None:
    with TwiceReplacedServer(folder / "twice.sock", b"") as server:
        go = kind(server.address, timeout=20)
        assert (asyncio.run(go.call("f")) if kind is nearcall.AsyncClient else go.call("f")) == "done"
        go.close()
        assert len(server.requests) == 2


def once(call: Call, name: str, *args: Any, **named: Any) -> Any:
    """A call that is sent once, and comes to a server that has taken the place of another:
    that ended the connection, and has the function otherwise."""
    try:
        return begun_again(call, name, *args, **named)
    except nearcall.NearcallError as error:
        if error.outcome is not nearcall.Outcome.NOT_EXECUTED:
            raise
        return None


def test_one_attempt_later_the_new_description_is_known(
    form: Callable[[nearcall.Client], Call], generations: Generations
) -> None:
    with nearcall.Client(generations.address, attempts=1) as client:
        call = form(client)
        for generation in [1, 2, 1]:
            generations.replace(generation)
            once(call, "transfer", src="alice", dst="bob")
            assert call("transfer", src="alice", dst="bob") == "alice to bob"


def test_one_attempt_later_arguments_fit_the_new_description(
    form: Callable[[nearcall.Client], Call], generations: Generations
) -> None:
    with nearcall.Client(generations.address, attempts=1) as client:
        call = form(client)
        assert call("tag", b"x") == b"bytes x"
        generations.replace(2)
        once(call, "tag", "x")
        assert call("tag", "x") == "text x"


def test_back_and_forth(warm: nearcall.Client, generations: Generations) -> None:
    for generation in [2, 1, 3, 2, 3, 1]:
        generations.replace(generation)
        assert warm.transfer(src="alice", dst="bob") == "alice to bob"
        assert warm.level() == ("seven" if generation == 2 else 7)
        assert generations.history() == ["alice to bob", "level"]


def test_async(generations: Generations, transport: str) -> None:
    async def main() -> None:
        async with nearcall.AsyncClient(generations.address, shared_memory=transport == "shared memory") as client:
            for _ in range(CALLS_FOR_MEMORY):
                assert await client.transfer(src="alice", dst="bob") == "alice to bob"
            assert await client.level() == 7
            assert await client.sleep_for(PAUSE) == "1500 ms"
            assert await client.tag(b"x") == b"bytes x"
            assert await client.lost() == "lost"
            assert client.transport() == transport
            generations.replace(2)
            transfers = [client.transfer(src="alice", dst="bob") for _ in range(8)]
            assert await asyncio.gather(*transfers) == ["alice to bob"] * 8
            assert await client.level() == "seven"
            assert await client.sleep_for(1500) == "1500 ms"
            assert await client.tag("x") == "text x"
            with pytest.raises(nearcall.InvalidArgument):
                await client.sleep_for(PAUSE)
            with pytest.raises(nearcall.Unimplemented):
                await client.lost()
        assert generations.history() == ["alice to bob"] * 8 + ["level", "1500 ms", "text x"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [("level", (), "seven"), ("sleep_for", (1500,), "1500 ms"), ("tag", ("x",), "text x")],
)
def test_async_first_call_after(generations: Generations, name: str, arguments: tuple[Any, ...], result: Any) -> None:
    async def main() -> None:
        async with nearcall.AsyncClient(generations.address) as client:
            assert await client.level() == 7
            assert await client.sleep_for(PAUSE) == "1500 ms"
            assert await client.tag(b"x") == b"bytes x"
            generations.replace(2)
            assert await client.call(name, *arguments) == result

    asyncio.run(main())


def test_async_one_attempt_later(generations: Generations) -> None:
    async def main() -> None:
        async with nearcall.AsyncClient(generations.address, attempts=1) as client:
            assert await client.transfer(src="alice", dst="bob") == "alice to bob"
            assert await client.tag(b"x") == b"bytes x"
            generations.replace(2)
            with contextlib.suppress(nearcall.Unavailable):  # the former server has gone
                await client.level()
            with contextlib.suppress(nearcall.Aborted):
                await client.transfer(src="alice", dst="bob")
            with contextlib.suppress(nearcall.InvalidArgument):
                await client.tag("x")
            assert await client.transfer(src="alice", dst="bob") == "alice to bob"
            assert await client.tag("x") == "text x"

    asyncio.run(main())


def called(client: nearcall.Client | nearcall.AsyncClient, text: str) -> Callable[[], Any]:
    """A call of generated code, which was generated from that description."""
    if isinstance(client, nearcall.Client):
        generated = Generated(client, {"transfer": text}, "error")
        return lambda: generated.call("transfer", "bob", "alice", timeout=10)
    generated_async = AsyncGenerated(client, {"transfer": text}, "error")
    return lambda: asyncio.run(generated_async.call("transfer", "bob", "alice", timeout=10))


@pytest.mark.parametrize("kind", [nearcall.Client, nearcall.AsyncClient])
def test_server_too_old_to_compare_vouches_for_no_other(generations: Generations, kind: type) -> None:
    generations.replace(2)
    with nearcall.Client(generations.address) as client:
        text = json.dumps(client.function("transfer").description)
    first = generations.replace(1)
    go = kind(generations.address)
    call = called(go, text)
    with pytest.raises(nearcall.FailedPrecondition):
        call()
    first.stop()
    params = [{"name": name, "type": "string"} for name in ("src", "dst")]
    old = {"name": "transfer", "params": params, "results": ["string"]}
    with OldServer(Path(generations.address.removeprefix("unix:")), old, pack("old")) as server:
        assert call() == "old"
        questions = server.questions
        assert call() == "old"
        assert server.questions == questions > 0
    Path(generations.address.removeprefix("unix:")).unlink()
    generations.replace(1)
    with pytest.raises(nearcall.FailedPrecondition):
        call()
    go.close()
    assert generations.history() == []


FORMER = json.dumps({"name": "transfer", "hash": "1" * 32})
PRESENT = {"name": "transfer", "params": [], "results": ["string"], "hash": "2" * 32}


def first_calls(address: str, count: int) -> list[Any]:
    """What becomes of that many first calls of generated code, made at the same time."""

    async def main() -> list[Any]:
        async with nearcall.AsyncClient(address, timeout=20) as client:
            generated = AsyncGenerated(client, {"transfer": FORMER}, "error")
            calls = [generated.call("transfer", timeout=None) for _ in range(count)]
            return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(main())


def test_calls_made_together_are_compared_once(folder: Path) -> None:
    with ComparingServer(folder / "new.sock", PRESENT, {"hash": PRESENT["hash"], "changes": []}) as server:
        assert first_calls(server.address, 50) == ["done"] * 50
        assert server.asked == 1
    with ComparingServer(folder / "other.sock", PRESENT, {"hash": PRESENT["hash"], "changes": ["all"]}) as server:
        for error in first_calls(server.address, 50):
            assert isinstance(error, nearcall.FailedPrecondition)
            assert error.message.startswith("transfer has changed since this code was generated: all")
        assert server.asked == 1
    with OldServer(folder / "old.sock", PRESENT, pack("done")) as server:
        assert first_calls(server.address, 50) == ["done"] * 50
        assert server.questions == 1


def test_who_goes_on_was_warned(generations: Generations) -> None:
    """Where warnings are errors, each call raises one; the first that does not is remembered."""
    with nearcall.Client(generations.address) as client:
        text = json.dumps(client.function("transfer").description)
        generations.replace(2)
        generated = Generated(client, {"transfer": text}, "warn")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                with pytest.raises(UserWarning, match="transfer has changed since this code was generated"):
                    generated.call("transfer", "alice", "bob", timeout=None)
        assert generations.history() == []
        with pytest.warns(UserWarning, match="transfer has changed"):
            generated.call("transfer", "alice", "bob", timeout=None)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                generated.call("transfer", "alice", "bob", timeout=None)


def test_a_question_that_is_not_answered_ran_nothing(folder: Path) -> None:
    """Whether the server has answered it is unknown; the function that it is about did not run."""

    async def main(address: str) -> nearcall.NearcallError:
        async with nearcall.AsyncClient(address) as client:
            with pytest.raises(nearcall.DeadlineExceeded) as caught:
                await AsyncGenerated(client, {"transfer": FORMER}, "error").call("transfer", timeout=0.2)
            return caught.value

    answer = {"hash": PRESENT["hash"], "changes": []}
    with ComparingServer(folder / "a.sock", PRESENT, answer, is_silent=True) as server:
        assert asyncio.run(main(server.address)).outcome is nearcall.Outcome.NOT_EXECUTED
    with (
        ComparingServer(folder / "b.sock", PRESENT, answer, is_silent=True) as server,
        nearcall.Client(server.address) as client,
        pytest.raises(nearcall.DeadlineExceeded) as caught,
    ):
        Generated(client, {"transfer": FORMER}, "error").call("transfer", timeout=0.2)
    assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED


def test_calls_that_wait_for_a_comparison_are_not_its_askers(folder: Path) -> None:
    """The one that asks is cancelled; of those that wait for it, one has less time, and one asks again."""

    async def main(server: ComparingServer) -> None:
        async with nearcall.AsyncClient(server.address, timeout=20) as client:
            generated = AsyncGenerated(client, {"transfer": FORMER}, "error")
            asks = asyncio.create_task(generated.call("transfer", timeout=None))
            assert await asyncio.to_thread(server.questions.acquire, timeout=20), "nobody has asked"
            waits = asyncio.create_task(generated.call("transfer", timeout=None))
            with pytest.raises(nearcall.DeadlineExceeded) as caught:
                await generated.call("transfer", timeout=0.2)
            assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
            asks.cancel()
            assert await waits == "done"
            assert asks.cancelled()

    answer = {"hash": PRESENT["hash"], "changes": []}
    with ComparingServer(folder / "silent.sock", PRESENT, answer, is_silent=True) as server:
        asyncio.run(main(server))
        assert server.asked == 2


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"hash": "h"},
        {"hash": 1, "changes": []},
        {"hash": "h", "changes": 5},
        {"hash": "h", "changes": [5]},
    ],
)
def test_server_that_does_not_say_how(answer: Any) -> None:
    with pytest.raises(nearcall.FailedPrecondition, match="the server does not say how"):
        Origin("f", '{"hash": "other"}', "error").judge(answer, {"hash": "h"})


def test_async_function_lost(generations: Generations) -> None:
    async def main() -> None:
        async with nearcall.AsyncClient(generations.address) as client:
            assert await client.lost() == "lost"
            generations.replace(2)
            with pytest.raises(nearcall.Unimplemented):
                await client.lost()

    asyncio.run(main())
