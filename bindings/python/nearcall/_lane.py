"""One connection of an AsyncClient as an event loop uses it: what to watch, and whom to wake.

There is no thread: the loop watches one descriptor for as long as it uses the connection. It holds the lane only
by a weak reference, so that a client to which nobody refers any more goes away and closes. It does hold what waits
for replies, and by that the client too while there are calls: a loop holds no tasks, so that a task to which nobody
else refers would vanish in the middle of its call. A lane that was inherited by a fork leaves the loop alone, because
its kernel side is the parent's too.

A task that waits is told what happened to its call, however the lane ends, and no error in using the engine keeps the
loop from watching. A signal handler may raise between any two steps here. What must not be cut short by that is
carried out (see carry_out), and is therefore written so that it can be done again.
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
from nearcall._runtime import TIMER_SECONDS_MAX, Future, Runtime, Timer, call_weakly, carried

_CONNECT_PATIENCE_SECONDS = 1.0
"""How often a call that waits for its connection looks whether there is a better one."""

Why: TypeAlias = Callable[[Outcome], NearcallError]
"""Makes the error of a call for which the loop can no longer wait."""


def closed(outcome: Outcome) -> NearcallError:
    return Cancelled("the client was closed before the reply came", Code.CANCELLED, outcome)


def moved(outcome: Outcome) -> NearcallError:
    return Cancelled("the client went on with another event loop before the reply came", Code.CANCELLED, outcome)


def inherited(outcome: Outcome) -> NearcallError:
    message = "the call was begun before the fork and belongs to the parent process"
    return Unavailable(message, Code.UNAVAILABLE, outcome)


class Elsewhere(Exception):
    """Ends a wait for a connection, because a call can go on by another one."""


class Watch:
    """A loop's watch on an engine: on its descriptor, and on the time. It ends before the engine closes, because the
    number of the engine's descriptor may belong to another file after that."""

    def __init__(self, engine: _core.Engine, runtime: Runtime) -> None:
        self._engine = engine
        self._runtime = runtime
        self._descriptor = engine.fileno()
        self._generation = _core.fork_generation()
        self.is_on = False
        """May be true or false while the watch is being begun or ended."""
        self.is_begun = False
        self._has_ended = False
        self.timer: Timer | None = None
        self.timer_at = math.inf

    def begin(self, callback: Callable[[], None]) -> None:
        """Begins the watch, unless it has ended. It may be called again. Code that runs meanwhile, such as a finalizer,
        may end it: then the descriptor is not this engine's any more."""
        if self.is_begun or self._has_ended:
            return
        self.is_on = True
        try:
            self._runtime.watch(self._descriptor, callback)
        except OSError:
            if not self._has_ended:
                raise
        if self._has_ended:
            self._runtime.unwatch(self._descriptor)
        self.is_begun = True

    def end(self) -> None:
        """Ends the watch for good. It may be called again."""
        self._has_ended = True
        if self.is_on and self._may_touch_loop():
            self._runtime.unwatch(self._descriptor)
            self.expect_nothing()
        self.is_on = False

    def lose(self, _: object) -> None:
        """Ends the watch of a lane that was dropped, wherever and in whatever thread the collector has dropped it. The
        loop stops watching at its next turn, and the descriptor stays open until then."""
        if self.is_on and self._may_touch_loop():
            self._runtime.call_soon_anywhere(carried(self.end))

    def is_ours(self) -> bool:
        """Whether the loop belongs to this process and may be used."""
        return self._generation == _core.fork_generation() and self._runtime.is_alive()

    def is_inherited(self) -> bool:
        return self._generation != _core.fork_generation()

    def expect(self, due: float, callback: Callable[[], None]) -> None:
        """Calls back at that time or earlier. Earlier does no harm, because the callback looks and asks again."""
        seconds = min(max(due - time.monotonic(), 0), TIMER_SECONDS_MAX)
        timer = self._runtime.call_later(seconds, callback)
        former = self.timer
        self.timer = timer
        self.timer_at = due
        if former is not None:
            former.cancel()

    def expect_nothing(self) -> None:
        # Cancel it even if a timer has just fired: that may be an earlier one that a signal handler kept uncancelled.
        timer, self.timer = self.timer, None
        self.timer_at = math.inf
        if timer is not None:
            timer.cancel()

    def _may_touch_loop(self) -> bool:
        return self.is_ours() or (self._runtime.survives_fork and self._runtime.is_alive())


class Lane:
    """The calls in flight on one engine, each with the future that waits for it."""

    def __init__(
        self,
        engine: _core.Engine,
        runtime: Runtime,
        has_progressed: Callable[[], None],
        stands_another: Callable[[], bool],
    ) -> None:
        self.engine = engine
        self.places = 0
        """The number of calls on this lane, from before they are begun until they have ended."""
        self.sent = 0
        """The number of those whose request the engine has."""
        self.is_idle = False
        """Set and used by the code that closes lanes without calls."""
        self.is_asked = False
        """Whether ask() has come to its end."""
        self.refusal: BaseException | None = None
        """The error by which that was answered, or could not be asked."""
        self._has_progressed = has_progressed
        self.stands_another = stands_another
        """Whether calls could go on elsewhere, if this connection does not come."""
        self._runtime = runtime
        self._new_future = runtime.future
        self._waiters: dict[int, Future | _Told] = {}
        self._left: Why | None = None
        self._watch = Watch(engine, runtime)
        reference = weakref.ref(self, carried(self._watch.lose))
        self._process_weakly = carried(call_weakly, reference, Lane._process, self._waiters)
        self._expire_weakly = carried(call_weakly, reference, Lane._expire)

    def begin(self) -> None:
        """Has the loop watch. May be asked again. Before it is, the lane is where leave() finds it."""
        self._watch.begin(self._process_weakly)

    def is_begun(self) -> bool:
        return self._watch.is_begun

    async def call(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Calls a function that was found."""
        self.sent += 1
        try:
            return await self.result(self.engine.begin, name, args, named)
        finally:
            self.sent -= 1

    def ask(self, name: str, seconds: float, answered: Callable[[], None]) -> None:
        """Looks a function up for the sake of being answered, in whatever way. May be asked again."""
        if not self.is_asked:
            told = _Told(answered)
            self._waiters[self.engine.find([], name, seconds)] = told
            self._watch_time()
            self.is_asked = True

    async def result(self, begin: Callable[..., int], name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Begins a call, and returns or raises what became of it. Raises Elsewhere for one that was not sent because
        its connection does not come, once another one stands."""
        if self._left is not None:
            raise self._left(Outcome.NOT_EXECUTED)
        future = self._new_future()
        begun: list[int] = []
        impatience: _Impatience | None = None
        try:
            begin(begun, name, *args, **named)
            self._waiters[begun[0]] = future
            if self._left is not None:
                # That was while an argument's own code ran. Nobody would tell of the reply.
                raise self._left(Outcome.UNKNOWN)
            self._watch_time()
            if self.engine.room() < 0:
                impatience = _Impatience(self, future, begun[0])
                impatience.begin()
            return await future
        except BaseException:
            _core.carry_out(self._give_up, begun, future)
            raise
        finally:
            if impatience is not None:
                impatience.end()
            del future  # it has the exception, whose traceback has this frame

    def look(self) -> None:
        """Notices what the loop has not come to yet: that the connection has ended."""
        _core.carry_out(self._process)

    def leave(self, why: Why) -> None:
        """Ends the loop's use of the connection; those who wait are told why. May be asked again."""
        self._left = why
        self._watch.end()
        for number, future in [*self._waiters.items()]:
            self.engine.cancel(number)
            if not isinstance(future, _Told):
                fail(future, why(Outcome.UNKNOWN), self._runtime)
            self._waiters.pop(number, None)

    def is_ours(self) -> bool:
        """Whether the loop is this process's, and may be touched."""
        return self._watch.is_ours()

    def _give_up(self, begun: list[int], future: Future) -> None:
        """Forgets a call that nobody waits for, wherever beginning it or waiting for it has ended."""
        for number in begun:
            # One that has an end is forgotten by the engine too.
            if self._waiters.get(number) is not None or not (future.done() or self._left):
                self.engine.cancel(number)
                self._waiters.pop(number, None)
        if future.done() and not future.cancelled():
            future.exception()  # looked at, so that the loop does not report it
        # It may have found the connection gone, and other calls ended with that.
        self._watch_time()

    # ---- What the loop calls ----

    def _process(self) -> None:
        watch = self._watch
        if not watch.is_on:
            return
        if watch.is_inherited():
            self.leave(inherited)  # a hub that goes on after a fork
            return
        # The engine keeps them: each is taken from it once it was dealt with.
        finished = self.engine.process()
        while finished:
            item = finished[0]
            number, error, result = item
            if number:
                self._settle(number, error, result)
            if finished and finished[0] is item:
                del finished[0]
            if not number and error is not None:
                raise error  # of a signal's handler, which the loop deals with
        self._watch_time()
        self._has_progressed()

    def _settle(self, number: int, error: BaseException | None, result: Any) -> None:
        future = self._waiters.get(number)
        if future is not None and not future.done():
            if error is None:
                future.set_result(result)
            else:
                if isinstance(future, _Told):
                    self.refusal = error
                future.set_exception(error)
        self._waiters.pop(number, None)

    def _expire(self) -> None:
        self._watch.expect_nothing()
        self._process()

    def _watch_time(self) -> None:
        """Follows what the engine waits for; asked again after each use of it."""
        watch = self._watch
        if not watch.is_on:
            return
        due = self.engine.due()
        if due < watch.timer_at and watch.is_ours():
            watch.expect(due, self._expire_weakly)


class _Impatience:
    """Looks now and then whether a call that waits for its connection is better off elsewhere."""

    def __init__(self, lane: Lane, future: Future, number: int) -> None:
        self._lane = lane
        self._number = number
        self._future: Future | None = future
        self._timer: Timer | None = None

    def begin(self) -> None:
        self._timer = self._lane._runtime.call_later(_CONNECT_PATIENCE_SECONDS, carried(self._look))

    def end(self) -> None:
        self._future = None  # it may have an exception, whose traceback has the frame that holds this
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._lane._process()
        future = self._future
        if future is None or future.done():
            return
        # It may have been sent over a connection that was lost: what became of it is asked over the next one.
        engine = self._lane.engine
        if engine.room() < 0 and engine.is_unsent(self._number) and self._lane.stands_another():
            future.set_exception(Elsewhere())
        else:
            self.begin()


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


def fail(future: Future, error: BaseException, runtime: Runtime) -> None:
    """Ends a wait, where there still is a loop to notice."""
    if not future.done() and runtime.is_alive():
        future.set_exception(error)
