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
from nearcall._green import GreenClient, GreenFuture, kind_for
from nearcall._runtime import carried

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


class _Hub:
    """The hub of a thread, as a nearcall._runtime.Runtime."""

    survives_fork = True
    waiters_survive_fork = True

    def __init__(self, token: Any) -> None:
        self._hub = token
        self._watchers: dict[int, Any] = {}

    @staticmethod
    def token() -> Any:
        return gevent.get_hub()

    def is_alive(self) -> bool:
        return self._hub.loop is not None

    def is_running(self) -> bool:
        return True

    def is_elsewhere(self) -> bool:
        return False  # events are set from any thread

    def future(self) -> GreenFuture:
        return GreenFuture(Event())

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        self.unwatch(descriptor)
        watcher: Any = self._hub.loop.io(descriptor, _READ)
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
        return _Timer(self._hub.loop.timer(seconds), callback)

    def call_soon_anywhere(self, callback: Callable[[], None]) -> None:
        if self.is_alive():
            self._hub.loop.run_callback_threadsafe(callback)

    def _raise_later(self, error: BaseException) -> None:
        self._hub.loop.run_callback(_raise, error)


def _raise(error: BaseException) -> NoReturn:
    raise error


class Client(GreenClient):
    __doc__ = GreenClient.__doc__
    _kind = kind_for(_Hub)
