"""One connection of an AsyncClient, as one loop uses it: what to watch, whom to wake.

No thread and no poller thread: the loop watches one descriptor for as long as it uses
the connection. A lane that was inherited by a fork touches neither the loop
nor that descriptor, because their kernel side is the parent's too.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any

from nearcall import _core
from nearcall._codes import Code, Outcome
from nearcall._errors import Cancelled
from nearcall._runtime import Future, Poller, Runtime, Timer

_NOT_WATCHED = (-1, 0, 0)
_MILLISECOND = 0.001


class Lane:
    """The calls in flight of one engine, each with the future that waits for it."""

    def __init__(self, engine: _core.Engine, runtime: Runtime) -> None:
        self.engine = engine
        self.places = 0
        """Calls that are on it: from before they are begun until they have ended."""
        self._runtime = runtime
        self._generation = _core.fork_generation()
        self._waiters: dict[int, Future] = {}
        self._poller: Poller | None = None
        self._watched = _NOT_WATCHED
        self._timer: Timer | None = None
        self._timer_at = math.inf

    async def result(self, begin: Callable[[], int]) -> Any:
        """Begins a call, and returns or raises what became of it."""
        try:
            number = begin()
        except BaseException:
            # It may have found the connection gone, and other calls ended with that.
            self._watch()
            raise
        future = self._runtime.future()
        self._waiters[number] = future
        self._watch()
        try:
            return await future
        except BaseException:
            # Still there: the task was cancelled, and the call is with it.
            if self._waiters.pop(number, None) is not None:
                self._give_up(number)
            elif future.done() and not future.cancelled():
                future.exception()  # looked at, so that the loop does not report it
            raise

    def look(self) -> None:
        """Notices what the loop has not come to yet: that the connection has ended."""
        self._process()

    def leave(self, *, ended: bool) -> None:
        """Ends the loop's use of the connection; `ended` tells those who wait that the client was closed."""
        self._stop_watching()
        waiters, self._waiters = self._waiters, {}
        for number, future in waiters.items():
            if not ended:
                self.engine.cancel(number)
            elif not future.done() and self._runtime.is_alive():
                error = Cancelled("the client was closed before the reply came", Code.CANCELLED, Outcome.UNKNOWN)
                future.set_exception(error)

    def is_ours(self) -> bool:
        """Whether the loop is this process's, and may be touched."""
        return self._generation == _core.fork_generation() and self._runtime.is_alive()

    def _give_up(self, number: int) -> None:
        self.engine.cancel(number)
        self._watch()

    # ---- What the loop calls ----

    def _process(self) -> None:
        if self._poller is None:
            return
        if not self.is_ours():
            self._stop_watching()  # a hub that goes on after a fork
            return
        for number, error, result in self.engine.process():
            future = self._waiters.pop(number, None)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._watch()

    def _expire(self) -> None:
        self._timer = None
        self._timer_at = math.inf
        self._process()

    # ---- What the loop watches ----

    def _watch(self) -> None:
        """Follows what the engine waits for; asked again after each use of it."""
        if not self.is_ours():
            return
        watched = self.engine.watch()
        if watched[:3] != self._watched:
            self._watch_descriptor(*watched[:3])
        if watched[3] >= 0:
            self._watch_time(watched[3] * _MILLISECOND)

    def _watch_descriptor(self, descriptor: int, inode: int, events: int) -> None:
        if self._poller is None:
            self._poller = self._runtime.poller()
            self._runtime.watch(self._poller.fileno(), self._process)
        former, former_inode, former_events = self._watched
        same = (former, former_inode) == (descriptor, inode)
        # One that was closed has left the poller by itself, and its number may be another's.
        if former_events and not (same and events):
            with contextlib.suppress(OSError):
                self._poller.unregister(former)
        if events and same and former_events:
            self._poller.modify(descriptor, events)
        elif events:
            self._poller.register(descriptor, events)
        self._watched = (descriptor, inode, events)

    def _watch_time(self, seconds: float) -> None:
        when = time.monotonic() + seconds
        # An early timer does no harm: it looks, and is set again.
        if self._timer_at <= when:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._runtime.call_later(seconds, self._expire)
        self._timer_at = when

    def _stop_watching(self) -> None:
        ours = self.is_ours() or (self._runtime.survives_fork and self._runtime.is_alive())
        if self._poller is not None:
            if ours:
                self._runtime.unwatch(self._poller.fileno())
            self._poller.close()
        if self._timer is not None and ours:
            self._timer.cancel()
        self._poller = None
        self._watched = _NOT_WATCHED
        self._timer = None
        self._timer_at = math.inf
