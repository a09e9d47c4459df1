"""What AsyncClient needs of the loop that runs it, and asyncio's as that."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import weakref
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

from nearcall import _core

_Owner = TypeVar("_Owner")

TIMER_SECONDS_MAX = 3600.0
"""The longest time for which a loop is asked to call later. Some cannot wait for more than 24 days."""


class Future(Protocol):
    """What a call waits for."""

    def done(self) -> bool: ...
    def cancelled(self) -> bool: ...
    def result(self) -> Any: ...
    def exception(self) -> BaseException | None: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, error: Any, /) -> None: ...
    def __await__(self) -> Generator[Any, None, Any]: ...


class Timer(Protocol):
    def cancel(self) -> Any: ...


class Runtime(Protocol):
    """A loop: made of the token that tells it from others."""

    survives_fork: bool
    """Whether a forked child goes on with it."""

    waiters_survive_fork: bool
    """Whether what waits for it goes on in a forked child."""

    def __init__(self, token: Any) -> None: ...
    @staticmethod
    def token() -> Any:
        """The loop that runs the code that asks."""

    def is_alive(self) -> bool:
        """Whether it may go on in this process: it was not closed, its thread has not ended, and a fork has not left
        it to the parent."""

    def is_running(self) -> bool: ...
    def is_elsewhere(self) -> bool:
        """Whether it goes on in another thread of this process, and what waits on it is to be ended there."""

    def future(self) -> Future: ...
    def watch(self, descriptor: int, callback: Callable[[], None], /) -> Any:
        """Calls back for as long as there is something to read. May be asked again. The loop keeps the callback, and
        with it whatever that keeps, until it is told to watch no more."""

    def unwatch(self, descriptor: int, /) -> Any:
        """The end of that, while the descriptor is open. May be asked again."""

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> Timer: ...
    def call_soon_anywhere(self, callback: Callable[[], None], /) -> bool:
        """Calls back on the loop, asked from any thread and at any moment. False: it has ended, and calls nothing."""


def carried(function: Callable[..., None], /, *args: Any) -> Callable[..., None]:
    """A callback for a loop, in which a signal's handler raises without ending the work.

    All that loops call is one: handlers run between any two steps of Python code, and a loop calls
    back only once. What a callback does may so be done again, from its beginning."""
    return functools.partial(_core.carry_out, function, *args)


def call_weakly(reference: weakref.ref[_Owner], method: Callable[[_Owner], None], _kept: object = None) -> None:
    """A method of what may have gone: callbacks hold nothing that a program can drop, except what is given as kept."""
    owner = reference()
    if owner is not None:
        method(owner)


class AsyncioRuntime:
    """An event loop of asyncio."""

    survives_fork = False
    waiters_survive_fork = False

    def __init__(self, token: asyncio.AbstractEventLoop) -> None:
        self._loop = token
        self._generation = _core.fork_generation()
        self.future: Callable[[], asyncio.Future[Any]] = token.create_future
        self.unwatch = token.remove_reader
        self.call_later = token.call_later
        self.is_running = token.is_running

    @staticmethod
    def token() -> asyncio.AbstractEventLoop:
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "AsyncClient runs on an event loop of asyncio (its own, uvloop, anyio on either), and none runs here; "
                "under trio, call nearcall.Client from trio.to_thread.run_sync()"
            ) from None

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        # A child may go on with a loop that stood still. It takes the number for the file that its parent has there.
        self._loop.remove_reader(descriptor)
        self._loop.add_reader(descriptor, callback)

    def is_alive(self) -> bool:
        is_ours = self._generation == _core.fork_generation() or self._runs_here()
        return is_ours and not self._loop.is_closed()

    def is_elsewhere(self) -> bool:
        return self.is_alive() and self._loop.is_running() and not self._runs_here()

    def call_soon_anywhere(self, callback: Callable[[], None]) -> bool:
        with contextlib.suppress(RuntimeError):  # it was closed meanwhile
            self._loop.call_soon_threadsafe(callback)
            return True
        return False

    def _runs_here(self) -> bool:
        return asyncio._get_running_loop() is self._loop
