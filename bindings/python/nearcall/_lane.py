"""One connection of an AsyncClient, as one loop uses it: what to watch, whom to wake.

No thread: the loop watches one descriptor for as long as it uses the connection. A lane
that was inherited by a fork leaves the loop alone, because its kernel side is the parent's too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from nearcall import _core
from nearcall._codes import Code, Outcome
from nearcall._errors import Cancelled
from nearcall._runtime import Future, Runtime, Timer

_NOT_WATCHED = -1


class Lane:
    """The calls in flight of one engine, each with the future that waits for it."""

    def __init__(self, engine: _core.Engine, runtime: Runtime) -> None:
        self.engine = engine
        self.places = 0
        """Calls that are on it: from before they are begun until they have ended."""
        self._runtime = runtime
        self._new_future = runtime.future
        self._generation = _core.fork_generation()
        self._waiters: dict[int, Future] = {}
        self._timer: Timer | None = None
        self._timer_at = math.inf
        self._watched = engine.fileno()
        runtime.watch(self._watched, self._process)

    async def result(self, begin: Callable[..., int], name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Begins a call, and returns or raises what became of it."""
        try:
            number = begin(name, *args, **named)
        except BaseException:
            # It may have found the connection gone, and other calls ended with that.
            self._watch_time()
            raise
        self._waiters[number] = future = self._new_future()
        self._watch_time()
        try:
            return await future
        except BaseException:
            # Still there: the task was cancelled, and the call is with it.
            if self._waiters.pop(number, None) is not None:
                self.engine.cancel(number)
                self._watch_time()
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

    # ---- What the loop calls ----

    def _process(self) -> None:
        if self._watched == _NOT_WATCHED:
            return
        if self._generation != _core.fork_generation():
            self._stop_watching()  # a hub that goes on after a fork
            return
        others = None
        for number, error, result in self.engine.process():
            if not number:
                others = error
            future = self._waiters.pop(number, None)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._watch_time()
        if others is not None:
            raise others  # of a signal's handler, which the loop deals with

    def _expire(self) -> None:
        self._timer = None
        self._timer_at = math.inf
        self._process()

    # ---- What the loop watches ----

    def _watch_time(self) -> None:
        """Follows what the engine waits for; asked again after each use of it."""
        if self._watched == _NOT_WATCHED:
            return
        due = self.engine.due()
        # An early timer does no harm: it looks, and is set again.
        if due < self._timer_at and self.is_ours():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._runtime.call_later(max(due - time.monotonic(), 0), self._expire)
            self._timer_at = due

    def _stop_watching(self) -> None:
        ours = self.is_ours() or (self._runtime.survives_fork and self._runtime.is_alive())
        if self._watched != _NOT_WATCHED and ours:
            self._runtime.unwatch(self._watched)
        if self._timer is not None and ours:
            self._timer.cancel()
        self._watched = _NOT_WATCHED
        self._timer = None
        self._timer_at = math.inf
