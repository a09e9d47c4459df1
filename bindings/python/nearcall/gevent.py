"""A client for greenlets of gevent, such as those of ``gunicorn -k gevent`` workers.

from nearcall.gevent import Client

go = Client("unix:/run/demo/nearcall.sock")
go.ack(3, 4)  # other greenlets run meanwhile

nearcall.Client works under gevent too, but it blocks the whole hub while it waits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import gevent  # type: ignore[import-untyped, import-not-found, unused-ignore]
from gevent.event import Event  # type: ignore[import-untyped, import-not-found, unused-ignore]

from nearcall import _core
from nearcall._green import GreenClient, GreenFuture, HubThread, kind_for
from nearcall._runtime import TIMER_SECONDS_MAX, carried

__all__ = ["Client"]

_READ = 1


class _Timer:
    def __init__(self, timer: Any, callback: Callable[[], None]) -> None:
        self._timer = timer
        self._callback = callback
        timer.start(carried(self._ring))

    def _ring(self) -> None:
        self.cancel()
        self._callback()

    def cancel(self) -> None:
        self._timer.stop()
        self._timer.close()


class _Keeper:
    """Keeps the hub running while greenlets wait for a client, by a timer. All else that clients have the hub watch
    leaves it free to end, as programs expect that have gevent.wait() for whatever is still to be done."""

    def __init__(self, loop: Any) -> None:
        self._waiting: set[object] = set()
        self._timer = loop.timer(TIMER_SECONDS_MAX, TIMER_SECONDS_MAX)

    def hold(self, waiting: object) -> None:
        self._waiting.add(waiting)
        if not self._timer.active:
            self._timer.start(_nothing)

    def let_go(self, waiting: object) -> None:
        """The end of hold(). May be asked again."""
        self._waiting.discard(waiting)
        if not self._waiting:
            self._timer.stop()


def _nothing() -> None:
    pass


class _Event:
    def __init__(self, keeper: _Keeper) -> None:
        self._keeper = keeper
        self._event = Event()
        self.set = self._event.set

    def wait(self) -> None:
        try:
            self._keeper.hold(self)
            self._event.wait()
        finally:
            _core.carry_out(self._keeper.let_go, self)


class _Hub:
    """The hub of a thread, as a nearcall._runtime.Runtime."""

    survives_fork = True
    waiters_survive_fork = True

    def __init__(self, token: Any) -> None:
        self._hub = token
        self._thread = HubThread()
        self._keeper = _Keeper(token.loop)
        self._watchers: dict[int, Any] = {}

    @staticmethod
    def token() -> Any:
        return gevent.get_hub()

    def is_alive(self) -> bool:
        return self._hub.loop is not None and self._thread.is_alive()

    def is_running(self) -> bool:
        return True

    def is_elsewhere(self) -> bool:
        return self.is_alive() and not self._thread.is_here()

    def future(self) -> GreenFuture:
        return GreenFuture(_Event(self._keeper))

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        self.unwatch(descriptor)
        watcher: Any = self._hub.loop.io(descriptor, _READ, ref=False)
        self._watchers[descriptor] = watcher
        # The loop stops a watcher whose callback has raised.
        watcher.start(functools.partial(_core.carry_out_and_tell, self._raise_later, callback))

    def unwatch(self, descriptor: int) -> None:
        watcher = self._watchers.get(descriptor)
        if watcher is not None:
            watcher.stop()
            watcher.close()
            self._watchers.pop(descriptor, None)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> _Timer:
        return _Timer(self._hub.loop.timer(seconds, ref=False), callback)

    def call_soon_anywhere(self, callback: Callable[[], None]) -> bool:
        if not self.is_alive():
            return False
        self._hub.loop.run_callback_threadsafe(callback)
        return True

    def _raise_later(self, error: BaseException) -> None:
        self._hub.loop.run_callback(_raise, error)


def _raise(error: BaseException) -> NoReturn:
    raise error


class Client(GreenClient):
    __doc__ = GreenClient.__doc__
    _kind = kind_for(_Hub)
