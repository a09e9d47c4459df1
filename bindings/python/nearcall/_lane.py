"""One connection of an AsyncClient, as one loop uses it: what to watch, whom to wake.

No thread: the loop watches one descriptor for as long as it uses the connection. It holds the
lane by a weak reference only, so that a client which nobody has any more goes, and closes. A lane
that was inherited by a fork leaves the loop alone, because its kernel side is the parent's too.

Whoever waits is told what became of its call however the lane ends, and nothing that a use
of the engine meets keeps the loop from watching.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

from nearcall import _core
from nearcall._codes import Code, Outcome
from nearcall._errors import Cancelled, NearcallError, Unavailable
from nearcall._runtime import Future, Runtime, Timer

_NOT_WATCHED = -1


Why: TypeAlias = Callable[[Outcome], NearcallError]
"""What a call ends with that the loop can no longer wait for."""


def closed(outcome: Outcome) -> NearcallError:
    return Cancelled("the client was closed before the reply came", Code.CANCELLED, outcome)


def moved(outcome: Outcome) -> NearcallError:
    return Cancelled("the client went on with another event loop before the reply came", Code.CANCELLED, outcome)


def inherited(outcome: Outcome) -> NearcallError:
    message = "the call was begun before the fork and belongs to the parent process"
    return Unavailable(message, Code.UNAVAILABLE, outcome)


class Lane:
    """The calls in flight of one engine, each with the future that waits for it."""

    def __init__(self, engine: _core.Engine, runtime: Runtime, has_progressed: Callable[[], None]) -> None:
        self.engine = engine
        self.places = 0
        """Calls that are on it: from before they are begun until they have ended."""
        self.sent = 0
        """Those of them whose request the engine has."""
        self.is_idle = False
        """Kept by who closes lanes that have no calls."""
        self._has_progressed = has_progressed
        self._runtime = runtime
        self._new_future = runtime.future
        self._generation = _core.fork_generation()
        self._waiters: dict[int, Future | _Told] = {}
        self._left: Why | None = None
        self._timer: Timer | None = None
        self._timer_at = math.inf
        self._watched = engine.fileno()
        self._process_weakly = _weakly(self, Lane._process)
        runtime.watch(self._watched, self._process_weakly)

    def __del__(self) -> None:
        # Wherever the collector has come to, and in whatever thread: the loop stops watching when it
        # is its turn, and the descriptor stays until then.
        if getattr(self, "_watched", _NOT_WATCHED) != _NOT_WATCHED and self._may_touch_loop():
            self._runtime.call_soon_anywhere(_Release(self._runtime, self._watched, self._timer, self.engine))

    async def call(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Calls a function that was found."""
        self.sent += 1
        try:
            return await self.result(self.engine.begin, name, args, named)
        finally:
            self.sent -= 1

    def ask(self, name: str, seconds: float, answered: Callable[[], None]) -> None:
        """Looks a function up for the sake of being answered, in whatever way."""
        self._waiters[self.engine.find(name, seconds)] = _Told(answered)
        self._watch_time()

    async def result(self, begin: Callable[..., int], name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Begins a call, and returns or raises what became of it."""
        if self._left is not None:
            raise self._left(Outcome.NOT_EXECUTED)
        try:
            number = begin(name, *args, **named)
        except BaseException:
            # It may have found the connection gone, and other calls ended with that.
            self._watch_time()
            raise
        if self._left is not None:
            # That was while an argument's own code ran. Nobody would tell of the reply.
            self.engine.cancel(number)
            raise self._left(Outcome.UNKNOWN)
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

    def leave(self, why: Why) -> None:
        """Ends the loop's use of the connection; those who wait are told why."""
        self._left = why
        self._stop_watching()
        waiters, self._waiters = self._waiters, {}
        for number, future in waiters.items():
            self.engine.cancel(number)
            fail(future, why(Outcome.UNKNOWN), self._runtime)

    def is_ours(self) -> bool:
        """Whether the loop is this process's, and may be touched."""
        return self._generation == _core.fork_generation() and self._runtime.is_alive()

    # ---- What the loop calls ----

    def _process(self) -> None:
        if self._watched == _NOT_WATCHED:
            return
        if self._generation != _core.fork_generation():
            self.leave(inherited)  # a hub that goes on after a fork
            return
        others = None
        finished = None
        try:
            finished = self.engine.process()
            while finished:
                item = finished[0]
                number, error, result = item
                if not number:
                    others = error
                self._settle(number, error, result)
                # Only now: what a signal's handler raises in between loses nothing.
                if finished and finished[0] is item:
                    del finished[0]
        finally:
            if finished:
                self._runtime.call_later(0, self._process_weakly)
            self._watch_time()
            self._has_progressed()
        if others is not None:
            raise others  # of a signal's handler, which the loop deals with

    def _settle(self, number: int, error: BaseException | None, result: Any) -> None:
        future = self._waiters.get(number)
        if future is not None and not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._waiters.pop(number, None)

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
            self._timer = self._runtime.call_later(max(due - time.monotonic(), 0), _weakly(self, Lane._expire))
            self._timer_at = due

    def _may_touch_loop(self) -> bool:
        return self.is_ours() or (self._runtime.survives_fork and self._runtime.is_alive())

    def _stop_watching(self) -> None:
        if self._watched != _NOT_WATCHED and self._may_touch_loop():
            _Release(self._runtime, self._watched, self._timer, self.engine)()
        self._watched = _NOT_WATCHED
        self._timer = None
        self._timer_at = math.inf


class _Told:
    """What waits for an answer without a task of its own."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback

    def done(self) -> bool:
        return False

    def set_result(self, result: object, /) -> None:
        self._callback()

    def set_exception(self, error: BaseException, /) -> None:
        self._callback()


class _Release:
    """Has a loop let go of a descriptor, which the engine keeps open until then."""

    def __init__(self, runtime: Runtime, descriptor: int, timer: Timer | None, engine: _core.Engine) -> None:
        self._runtime = runtime
        self._descriptor = descriptor
        self._timer = timer
        self._engine: _core.Engine | None = engine

    def __call__(self) -> None:
        self._runtime.unwatch(self._descriptor)
        if self._timer is not None:
            self._timer.cancel()
        self._engine = None


def _weakly(lane: Lane, method: Callable[[Lane], None]) -> Callable[[], None]:
    """The method as a callback that holds no lane."""
    reference = weakref.ref(lane)

    def call() -> None:
        lane = reference()
        if lane is not None:
            method(lane)

    return call


def fail(future: Future | _Told, error: BaseException, runtime: Runtime) -> None:
    """Ends a wait, where there still is a loop to notice."""
    if not future.done() and runtime.is_alive():
        future.set_exception(error)
