"""The collector, and who asks it for all objects, knows no part of a reply that is not whole: code of Python's may run
while one is decoded, and an empty place in a list ends the process of who looks at it."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nearcall import Client
from scripted import ScriptedServer, function, pack
from support import Server, run_python

TREE: dict[str, Any] = {
    "fields": [{"name": "trees", "type": {"list": {"struct": "Tree"}}}, {"name": "leaf", "type": "int64"}]
}


@contextlib.contextmanager
def looking(look: Callable[[], None]) -> Iterator[None]:
    """Looks at every collection, and lets there be many; of what is known, only what came since is looked at."""

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            look()

    former = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.callbacks.append(collected)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*former)
        gc.callbacks.remove(collected)
        gc.unfreeze()


def parts() -> list[type]:
    """The kinds of containers that are known and not whole. Their places are not looked at themselves."""
    found: list[type] = []
    for thing in gc.get_objects():
        if type(thing) in (list, tuple):
            is_part = len(gc.get_referents(thing)) < len(thing)
        else:
            is_part = type(thing) is dict and (len({"first", "last"} & set(thing)) == 1 or set(thing) == {"trees"})
        if is_part:
            found.append(type(thing))
    return found


def assert_hidden(call: Callable[[], Any], expected: Any) -> None:
    looks, seen = 0, []

    def look() -> None:
        nonlocal looks
        looks += 1
        seen.extend(parts())

    assert call() == expected
    with looking(look):
        came = call()
    assert came == expected
    assert looks > 20
    assert seen == []


def test_lists_and_maps(client: Client) -> None:
    value = [{"first": [number], "between": {"first": [], "last": {}}, "last": number} for number in range(100)]
    assert_hidden(lambda: client.identity(value), value)


def test_structs_and_several_results(folder: Path) -> None:
    trees: dict[str, Any] = {"trees": [{"trees": [], "leaf": n} for n in range(50)], "leaf": 1}
    results: list[Any] = [{"struct": "Tree"}, "any"]
    description = function([], results, types={"Tree": TREE})
    with (
        ScriptedServer(folder / "s", description, pack([trees, [[]] * 50])) as server,
        Client(server.address, timeout=20) as client,
    ):
        assert_hidden(lambda: client.call("f"), (trees, [[]] * 50))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_thread_that_copies_all_lists(start_server: Callable[..., Server]) -> None:
    """As profilers of memory do."""
    is_over = threading.Event()
    errors: list[BaseException] = []

    def copy() -> None:
        try:
            while not is_over.is_set():
                for thing in gc.get_objects():
                    if type(thing) is list and len(thing) == 14:
                        list(thing)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=copy)
    with Client(start_server("-files").address, timeout=20) as client:
        gc.collect()
        gc.freeze()
        thread.start()
        try:
            for _ in range(100):
                for file in client.file_many(14):
                    file.close()
        finally:
            is_over.set()
            thread.join()
            gc.unfreeze()
    assert errors == []


def test_whole_containers_are_known(client: Client) -> None:
    """What is not known can never be collected where it refers to itself."""
    value = [[{"a": [1]}, {"b": 1}]]
    came = client.identity(value)
    assert gc.is_tracked(came)
    assert gc.is_tracked(came[0])
    assert gc.is_tracked(came[0][0])
    assert gc.is_tracked(came[0][0]["a"])


FORKS = """
import gc, os, sys
import nearcall

client = nearcall.Client(sys.argv[1])
assert all(client.one() == 1 for _ in range(48))  # so that replies lie in shared memory
mine, other = ([[letter * 50, {"n": n}] for n in range(2000)] for letter in "AB")
ready, go = os.pipe()
pid = None

def collected(phase, info):
    global pid
    if pid is None:
        pid = os.fork()
        if pid == 0:
            os.close(go)
            os.read(ready, 1)

class Last:
    def __index__(self):
        gc.callbacks.append(collected)
        gc.enable()
        return 1

gc.disable()
gc.set_threshold(100)
try:
    came = "right" if client.identity([mine, Last()]) == [mine, 1] else "wrong"
except nearcall.NearcallError as error:
    came = f"{error.code.name} {error.outcome.text}"
gc.disable()
if pid == 0:
    print("child:", came, client.one(), flush=True)
    os._exit(0)
for _ in range(200):
    client.identity(other)
os.close(go)
print("parent:", came, os.waitpid(pid, 0)[1])
"""


def test_fork_while_a_reply_is_decoded(address: str) -> None:
    """The memory that the reply lies in is the parent's, whose next calls overwrite it."""
    done = run_python(FORKS, address)
    assert done.stdout.splitlines() == ["child: UNAVAILABLE unknown 1", "parent: right 0"], done.stderr


CLOSES_IN_A_CHILD = """
import gc, os, select, sys, threading
import nearcall

client = nearcall.AsyncClient(sys.argv[1])
engine = client._engine._places.first
is_held, may_go = threading.Event(), threading.Event()
pid = within = None

def find(name):
    engine.find([], name, 60.0)
    while not (finished := engine.process()):
        select.select([engine.fileno()], [], [], 60)
    finished.clear()

def descriptors():
    return len(os.listdir("/proc/self/fd"))

class Held:
    def __index__(self):
        is_held.set()
        may_go.wait(60)
        return 1

def collected(phase, info):
    global pid, within
    if pid is not None:
        return
    pid = -1
    gc.disable()
    thread.start()
    is_held.wait(60)
    pid = os.fork()
    if pid == 0:
        before = descriptors()
        engine.close()
        within = descriptors() - before

find("ack")
engine.found("ack")
find("greet")
thread = threading.Thread(target=engine.begin, args=([], "ack", {}, 60.0, None, Held(), 1))
gc.collect()
gc.callbacks.append(collected)
open_before = descriptors()
gc.set_threshold(1)
engine.found("greet")
gc.disable()
if pid == 0:
    print("child:", within, descriptors() < open_before, flush=True)
    os._exit(0)
may_go.set()
thread.join()
print("parent:", pid > 0 and os.waitpid(pid, 0)[1])
client.close()
"""


def test_a_child_closes_within_a_method(address: str) -> None:
    """The handle is closed behind the method that it is in, and not by what another thread of the parent's did."""
    done = run_python(CLOSES_IN_A_CHILD, address)
    assert done.stdout.splitlines() == ["child: 0 True", "parent: 0"], done.stderr
