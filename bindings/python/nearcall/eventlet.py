"""A client for green threads of eventlet.

from nearcall.eventlet import Client

go = Client("unix:/run/demo/nearcall.sock")
go.ack(3, 4)  # other green threads run meanwhile

nearcall.Client works under eventlet too, but it blocks the whole hub while it waits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from eventlet import hubs  # type: ignore[import-untyped, import-not-found, unused-ignore]
from eventlet.event import Event  # type: ignore[import-untyped, import-not-found, unused-ignore]

from nearcall import _core
from nearcall._green import GreenClient, GreenFuture, kind_for

__all__ = ["Client"]


class _Event:
    def __init__(self) -> None:
        self._event = Event()
        self.wait = self._event.wait

    def set(self) -> None:
        if not self._event.ready():
            self._event.send()


class _Hub:
    """The hub of a thread, as a nearcall._runtime.Runtime."""

    survives_fork = False
    waiters_survive_fork = True

    def __init__(self, token: Any) -> None:
        self._hub = token

    @staticmethod
    def token() -> Any:
        return hubs.get_hub()

    def is_alive(self) -> bool:
        return True

    def is_running(self) -> bool:
        return True

    def is_elsewhere(self) -> bool:
        return False  # events are set from any thread

    def future(self) -> GreenFuture:
        return GreenFuture(_Event())

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        self.unwatch(descriptor)
        # The hub forgets a descriptor whose callback has raised.
        ready = functools.partial(_core.carry_out_and_tell, self._raise_later, _call, callback)
        self._hub.add(self._hub.READ, descriptor, ready, ready, callback)

    def unwatch(self, descriptor: int) -> None:
        # It is an engine's own and open: whoever listens does so for that.
        listener = self._hub.listeners[self._hub.READ].get(descriptor)
        if listener is not None:
            self._hub.remove(listener)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        return self._hub.schedule_call_global(seconds, callback)

    def call_soon_anywhere(self, callback: Callable[[], None]) -> None:
        self._hub.schedule_call_global(0, callback)

    def _raise_later(self, error: BaseException) -> None:
        self._hub.schedule_call_global(0, _raise, error)


def _call(callback: Callable[[], None], _: int) -> None:
    callback()


def _raise(error: BaseException) -> NoReturn:
    raise error


class Client(GreenClient):
    __doc__ = GreenClient.__doc__
    _kind = kind_for(_Hub)
