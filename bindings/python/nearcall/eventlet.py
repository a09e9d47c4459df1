"""A client for green threads of eventlet.

from nearcall.eventlet import Client

go = Client("unix:/run/demo/nearcall.sock")
go.ack(3, 4)  # other green threads run meanwhile

nearcall.Client works under eventlet too, but it blocks the whole hub while it waits.
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

from eventlet import hubs  # type: ignore[import-untyped, import-not-found, unused-ignore]
from eventlet.event import Event  # type: ignore[import-untyped, import-not-found, unused-ignore]

from nearcall import _core
from nearcall._codes import Code, Outcome
from nearcall._errors import ResourceExhausted
from nearcall._green import GreenClient, GreenFuture, HubThread, kind_for

__all__ = ["Client"]


class _Event:
    def __init__(self) -> None:
        self._event = Event()
        self.wait = self._event.wait

    def set(self) -> None:
        if not self._event.ready():
            self._event.send()


class _Waker:
    """What other threads ask of a hub, and the descriptor by which they wake it. The hub's own timers are for its
    thread alone, and end no wait that has begun."""

    def __init__(self, hub: Any) -> None:
        self._asked: deque[Callable[[], None]] = deque()
        self._descriptor = -1
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        ready = functools.partial(_core.carry_out_and_tell, _raise_later, self._ready)
        hub.add(hub.READ, self._descriptor, ready, ready, _nothing)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def ask(self, callback: Callable[[], None]) -> None:
        self._asked.append(callback)
        os.eventfd_write(self._descriptor, 1)

    def _ready(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):  # it is done again if a handler raises
            os.eventfd_read(self._descriptor)
        while self._asked:
            callback = self._asked[0]
            _core.carry_out_and_tell(_raise_later, callback)
            if self._asked and self._asked[0] is callback:
                self._asked.popleft()


_wakers: weakref.WeakKeyDictionary[Any, _Waker] = weakref.WeakKeyDictionary()
"""One for each hub, for as long as there is the hub."""


def _waker_of(hub: Any) -> _Waker:
    waker = _wakers.get(hub)
    if waker is None:
        try:
            waker = _wakers[hub] = _Waker(hub)
        except OSError as error:
            message = f"a hub needs a descriptor by which other threads wake it: {error}; see ulimit -n"
            raise ResourceExhausted(message, Code.RESOURCE_EXHAUSTED, Outcome.NOT_EXECUTED) from None
    return waker


class _Hub:
    """The hub of a thread, as a nearcall._runtime.Runtime."""

    survives_fork = False
    waiters_survive_fork = True

    def __init__(self, token: Any) -> None:
        self._hub = token
        self._thread = HubThread()
        self._waker = _waker_of(token)

    @staticmethod
    def token() -> Any:
        return hubs.get_hub()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def is_running(self) -> bool:
        return True

    def is_elsewhere(self) -> bool:
        return self.is_alive() and not self._thread.is_here()

    def future(self) -> GreenFuture:
        return GreenFuture(_Event())

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        self.unwatch(descriptor)
        # The hub forgets a descriptor whose callback has raised.
        ready = functools.partial(_core.carry_out_and_tell, _raise_later, _call, callback)
        self._hub.add(self._hub.READ, descriptor, ready, ready, callback)

    def unwatch(self, descriptor: int) -> None:
        # It is an engine's own and open: whoever listens does so for that.
        listener = self._hub.listeners[self._hub.READ].get(descriptor)
        if listener is not None:
            self._hub.remove(listener)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        return self._hub.schedule_call_global(seconds, callback)

    def call_soon_anywhere(self, callback: Callable[[], None]) -> bool:
        if not self.is_alive():
            return False
        self._waker.ask(callback)
        return True


def _nothing() -> None:
    pass


def _call(callback: Callable[[], None], _: int) -> None:
    callback()


def _raise_later(error: BaseException) -> None:
    hubs.get_hub().schedule_call_global(0, _raise, error)


def _raise(error: BaseException) -> NoReturn:
    raise error


class Client(GreenClient):
    __doc__ = GreenClient.__doc__
    _kind = kind_for(_Hub)
