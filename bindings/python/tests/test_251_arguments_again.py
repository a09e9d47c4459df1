"""Arguments that are encoded a second time, for a server in the place of another: what the
first encoding used up is kept, and what the program may have changed is not sent."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nearcall
from support import Generations, Server, begun_again

Make = Callable[[], Any]


@pytest.fixture
def generations(start_server: Callable[..., Server]) -> Generations:
    return Generations(start_server, 1)


@pytest.fixture
def warm(generations: Generations) -> Iterator[nearcall.Client]:
    with nearcall.Client(generations.address) as client:
        assert client.total([0]) == "[0]"
        assert client.totals([[0]]) == "[[0]]"
        assert client.transfer("alice", "bob") == "alice to bob"
        yield client


class Wrapped:
    """Iterable, but only once: it is no iterator itself."""

    def __init__(self) -> None:
        self._numbers = iter([1, 2, 3])

    def __iter__(self) -> Iterator[int]:
        return self._numbers


ONCE: list[tuple[str, Make, str]] = [
    ("total", lambda: (number for number in (1, 2, 3)), "[1 2 3]"),
    ("total", lambda: map(int, "123"), "[1 2 3]"),
    ("total", Wrapped, "[1 2 3]"),
    ("totals", lambda: zip([1, 2], [3, 4], strict=True), "[[1 3] [2 4]]"),
    ("totals", lambda: [iter([1, 2]), map(int, "34")], "[[1 2] [3 4]]"),
    ("totals", lambda: (iter([number]) for number in (1, 2)), "[[1] [2]]"),
]


@pytest.mark.parametrize(("name", "make", "said"), ONCE)
def test_iterators_are_asked_once(
    warm: nearcall.Client, generations: Generations, name: str, make: Make, said: str
) -> None:
    for generation in (2, 1):
        generations.replace(generation)
        assert warm.call(name, make()) == said
        assert generations.history() == [said]


@pytest.mark.parametrize(("name", "make", "said"), ONCE)
def test_iterators_are_asked_once_by_an_async_client(
    generations: Generations, name: str, make: Make, said: str
) -> None:
    async def main() -> None:
        async with nearcall.AsyncClient(generations.address) as client:
            assert await client.call(name, []) == "[]"
            for generation in (2, 2, 1):
                generations.replace(generation)
                assert await client.call(name, make()) == said
                assert generations.history() == [said]

    asyncio.run(main())


class Both:
    """A mapping that does not say that it is one, and so is an iterable of its keys as well."""

    def keys(self) -> Iterator[str]:
        return iter(["ann"])

    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __getitem__(self, key: str) -> int:
        return 7


def test_mapping_is_asked_for_its_keys_and_for_its_pairs(warm: nearcall.Client, generations: Generations) -> None:
    both: Any = Both()
    for generation, said in ((1, "[ann] map[ann:7]"), (2, "map[ann:7] [ann]"), (1, "[ann] map[ann:7]")):
        generations.replace(generation)
        # Begun before it is known that another takes the place, and after.
        assert warm.bag(both, both) == said
        assert warm.begin("bag", both, both).wait() == said
        assert generations.history() == [said] * 2


def test_mapping_is_asked_for_both_by_an_async_client(generations: Generations) -> None:
    both: Any = Both()

    async def main() -> None:
        async with nearcall.AsyncClient(generations.address) as client:
            for generation, said in ((1, "[ann] map[ann:7]"), (2, "map[ann:7] [ann]"), (1, "[ann] map[ann:7]")):
                generations.replace(generation)
                assert await client.bag(both, both) == said
                assert generations.history() == [said]

    asyncio.run(main())


def test_lines_of_a_file(warm: nearcall.Client, generations: Generations, folder: Path) -> None:
    path = folder / "lines"
    path.write_text("1\n2\n")
    generations.replace(2)
    with path.open() as lines:
        assert warm.total(map(int, lines)) == "[1 2]"


# The second is what a call within an argument raises, which looks like a refusal of this one.
FAILURES = [
    ValueError("the second is missing"),
    nearcall.InvalidArgument("the second is missing", nearcall.Code.INVALID_ARGUMENT, nearcall.Outcome.NOT_EXECUTED),
]


def broken(error: Exception) -> Iterator[int]:
    yield 1
    raise error


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_iterator_that_fails_is_not_asked_again(
    warm: nearcall.Client, generations: Generations, error: Exception
) -> None:
    generations.replace(2)
    with pytest.raises(type(error), match="the second is missing"):
        warm.total(broken(error))
    assert generations.history() == []


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_iterator_that_fails_is_not_asked_again_by_an_async_client(generations: Generations, error: Exception) -> None:
    async def main() -> None:
        async with nearcall.AsyncClient(generations.address) as client:
            assert await client.total([0]) == "[0]"
            generations.replace(2)
            with pytest.raises(type(error), match="the second is missing"):
                await client.total(broken(error))
        assert generations.history() == []

    asyncio.run(main())


def change(value: Any) -> None:
    """Changes what a caller still has of an argument."""
    if isinstance(value, list):
        value.clear()
    elif isinstance(value, tuple):
        change(value[0])


@pytest.mark.parametrize("polled", [False, True])
@pytest.mark.parametrize(
    ("name", "make"),
    [("total", lambda: [1, 2, 3]), ("totals", lambda: ([1], [2])), ("total", lambda: iter([1, 2, 3]))],
)
def test_begun_call_is_not_sent_with_what_came_later(
    warm: nearcall.Client, generations: Generations, polled: bool, name: str, make: Make
) -> None:
    generations.replace(2)
    argument = make()
    call = begun_again(warm.begin, name, argument)
    change(argument)
    while polled and not call.ready():
        pass
    with pytest.raises(nearcall.Aborted, match="call again") as caught:
        call.wait()
    assert caught.value.outcome is nearcall.Outcome.NOT_EXECUTED
    assert generations.history() == []
    # What the server says now is known.
    assert warm.begin(name, []).wait() == "[]"


def test_begun_call_of_constants_is_sent_again(warm: nearcall.Client, generations: Generations) -> None:
    generations.replace(2)
    assert begun_again(warm.begin, "transfer", src="alice", dst="bob").wait() == "alice to bob"


class Counting(datetime.timedelta):
    """What a description that asks for a number leads to code of its own."""

    runs = 0

    def __index__(self) -> int:
        Counting.runs += 1
        return 1500


def test_own_code_of_a_begun_calls_argument_does_not_run_for_another_server(
    warm: nearcall.Client, generations: Generations
) -> None:
    length = Counting(milliseconds=1500)
    assert warm.sleep_for(length) == "1500 ms"
    generations.replace(2)
    with pytest.raises(nearcall.Aborted, match="call again"):
        begun_again(warm.begin, "sleep_for", length).wait()
    assert Counting.runs == 0
    assert generations.history() == []
    assert warm.sleep_for(length) == "1500 ms"
    assert Counting.runs == 1
