"""Uses the generated module as a program would; mypy and pyright read it too."""

import asyncio
import dataclasses
import datetime
import pickle
import sys

import nearcall

from demo import AsyncDemo, Demo, Person


@dataclasses.dataclass
class Customer:
    name: str
    age: int
    tags: tuple[str, ...] = ()


def check(address: str) -> None:
    ada: Person = {"name": "Ada", "age": 36, "tags": ["a", "b"]}
    with Demo(address, timeout=5) as demo:
        assert demo.ack(2, 3) == 9
        assert demo.ack(m=2, n=3) == 9
        assert demo.sum(1, 2, 3, 4) == 10
        quotient, remainder = demo.divmod(17, 5)
        assert (quotient, remainder) == (3, 2)
        assert demo.optional_sum(5) == 5
        assert demo.optional_sum(5, 6) == 11
        assert demo.greet(ada) == "Hello, Ada, 36 [a,b]"
        assert demo.greet({"name": "Ada"}) == "Hello, Ada"
        assert demo.greet({"name": "Ada", "tags": {"a": 1}.keys()}) == "Hello, Ada [a]"
        assert demo.greet(Customer("Ann", 7)) == "Hello, Ann, 7"
        moved = demo.move({"x": 1, "y": 2}, {"x": 3, "y": 4})
        assert moved["y"] == 6
        assert demo.move(moved, moved)["x"] == 8
        assert demo.word_count("a b a") == {"a": 2, "b": 1}
        assert demo.echo(b"\0\xff") == b"\0\xff"
        assert demo.echo(bytearray(b"x")) == demo.echo(memoryview(b"x")) == b"x"
        moment = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
        assert demo.later(moment, datetime.timedelta(hours=1)) == moment + datetime.timedelta(hours=1)
        try:
            demo.fail(5, "no")
        except nearcall.NotFound:
            pass
        else:
            raise AssertionError("fail() does not fail")
        try:
            demo.sleep(5000, timeout=0.05)
        except nearcall.DeadlineExceeded:
            pass
        else:
            raise AssertionError("the timeout does not pass")


def check_pickled(address: str) -> None:
    """Before the first call and after it."""
    with Demo(address, timeout=5, changes="warn") as demo:
        for _ in range(2):
            with pickle.loads(pickle.dumps(demo)) as restored:
                assert restored.one() == 1
                assert restored.client.timeout == 5
            assert demo.one() == 1


def check_clients(address: str) -> None:
    client = nearcall.Client(address)
    for wrong in (lambda: Demo(client, timeout=5), lambda: Demo(nearcall.AsyncClient(address)), lambda: AsyncDemo(client)):  # type: ignore[arg-type]
        try:
            wrong()
        except TypeError:
            pass
        else:
            raise AssertionError("options or a client that do not fit are taken")


async def check_async(address: str) -> None:
    async with AsyncDemo(address) as demo:
        for _ in range(2):
            async with pickle.loads(pickle.dumps(demo)) as restored:
                assert await restored.one() == 1
            assert await demo.one() == 1
        results = await asyncio.gather(*(demo.ack(1, n) for n in range(5)))
        assert results == [2, 3, 4, 5, 6]


check(sys.argv[1])
check_pickled(sys.argv[1])
check_clients(sys.argv[1])
asyncio.run(check_async(sys.argv[1]))
print("ok")
