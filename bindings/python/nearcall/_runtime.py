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
        """Whether it was not closed."""

    def is_running(self) -> bool: ...
    def is_elsewhere(self) -> bool:
        """Whether it runs now in another thread, and what waits on it is to be ended there."""

    def future(self) -> Future: ...
    def watch(self, descriptor: int, callback: Callable[[], None], /) -> Any:
        """Calls back for as long as there is something to read. May be asked again."""

    def unwatch(self, descriptor: int, /) -> Any:
        """The end of that, while the descriptor is open. May be asked again."""

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> Timer: ...
    def call_soon_anywhere(self, callback: Callable[[], None], /) -> None:
        """Calls back on the loop, asked from any thread and at any moment; no more once it has ended."""


def carried(function: Callable[..., None], /, *args: Any) -> Callable[..., None]:
    """A callback for a loop, in which a signal's handler raises without ending the work.

    All that loops call is one: handlers run between any two steps of Python code, and a loop calls
    back only once. What a callback does may so be done again, from its beginning."""
    return functools.partial(_core.carry_out, function, *args)


def call_weakly(reference: weakref.ref[_Owner], method: Callable[[_Owner], None]) -> None:
    """A method of what may have gone: callbacks hold nothing that a program can drop."""
    owner = reference()
    if owner is not None:
        method(owner)


class AsyncioRuntime:
    """An event loop of asyncio."""

    survives_fork = False
    waiters_survive_fork = False

    def __init__(self, token: asyncio.AbstractEventLoop) -> None:
        self._loop = token
        self.future: Callable[[], asyncio.Future[Any]] = token.create_future
        self.watch = token.add_reader
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

    def is_alive(self) -> bool:
        return not self._loop.is_closed()

    def is_elsewhere(self) -> bool:
        return self._loop.is_running() and asyncio._get_running_loop() is not self._loop

    def call_soon_anywhere(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # it was closed meanwhile
            self._loop.call_soon_threadsafe(callback)
