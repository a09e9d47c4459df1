"""A client for green threads of eventlet.

from nearcall.eventlet import Client

go = Client("unix:/run/demo/nearcall.sock")
go.ack(3, 4)  # other green threads run meanwhile

nearcall.Client works under eventlet too, but blocks the whole hub while it waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventlet import hubs  # type: ignore[import-untyped, import-not-found, unused-ignore]
from eventlet.event import Event  # type: ignore[import-untyped, import-not-found, unused-ignore]

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
    """The hub of a thread, as nearcall._runtime.Runtime."""

    survives_fork = False
    waiters_survive_fork = True

    def __init__(self, token: Any) -> None:
        self._hub = token
        self._listeners: dict[int, Any] = {}

    @staticmethod
    def token() -> Any:
        return hubs.get_hub()

    def is_alive(self) -> bool:
        return True

    def is_running(self) -> bool:
        return True

    def future(self) -> GreenFuture:
        return GreenFuture(_Event())

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        def ready(_: Any) -> None:
            try:
                callback()
            except BaseException:
                # The hub forgets a descriptor whose callback has raised.
                self._hub.schedule_call_global(0, resume)
                raise

        def resume() -> None:
            if self._listeners.get(descriptor) is listener:
                self._hub.remove(listener)
                self.watch(descriptor, callback)

        listener = self._listeners[descriptor] = self._hub.add(self._hub.READ, descriptor, ready, ready, callback)

    def unwatch(self, descriptor: int) -> None:
        self._hub.remove(self._listeners.pop(descriptor))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        return self._hub.schedule_call_global(seconds, callback)

    def call_soon_anywhere(self, callback: Callable[[], None]) -> None:
        self._hub.schedule_call_global(0, callback)


class Client(GreenClient):
    __doc__ = GreenClient.__doc__
    _kind = kind_for(_Hub)
