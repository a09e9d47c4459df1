"""The places on the connections of one AsyncClient, and the calls that wait for one.

A call takes a place where its server takes the request at once, and waits in one line with all
others where there is none: bound to a connection it would wait for whatever runs there. A further
connection is one that stands, never one that is hoped for: it is opened beside the calls, and
where it cannot be had they wait for those there are.

A signal's handler may raise between any two steps. What a call takes is written down first with its Place,
and given back from there. What concerns others too is carried out, and so written to be done again.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from nearcall import _core
from nearcall._codes import Code, Outcome
from nearcall._crowd import Crowd
from nearcall._errors import (
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    NearcallError,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from nearcall._lane import Lane, Why, closed, fail
from nearcall._runtime import TIMER_SECONDS_MAX, Future, Runtime, Timer, call_weakly, carried

_PLACES_MAX = 256
"""Calls on one connection: a quarter of what a server answers on it by default, and of what a handle holds."""
_LANES_MAX = 32
_OPENING_SECONDS = 5.0
"""How long a further connection may take to be one."""
_PAUSE_SECONDS = 1.0
"""For how long none is opened after limits or descriptors allowed none; at most, after another refusal."""
_FIRST_PAUSE_SECONDS = 0.001
"""For how long none is opened after the first other refusal; twice as long after each further one."""
_IDLE_SECONDS = 2.0
"""How long a further connection without calls is kept at least; at most twice that."""
_ENDED_MAX = 256
"""Calls that have ended without a turn, and are left in the line, beside half of those there."""
_ASKED = "nearcall.changes"
"""A function of every server: that it is answered, in whatever way, shows that a connection stands."""


class Place:
    """What one call has of the connections, made before it has anything. The coroutine that makes one gives
    it back once its call has ended, wherever that was: give() is carried out."""

    lane: Lane | None = None
    turn: Future | None = None
    """What it waits for in the line; None: it does not, or no more."""


class Places:
    """The connections of one client, each with its engine. The first stays for good."""

    def __init__(self, make_engine: Callable[[], _core.Engine]) -> None:
        self._make_engine = make_engine
        # It is made now, to refuse a bad address where it is written.
        self.first = make_engine()
        self.lanes: list[Lane] = []
        self._opening: set[Lane] = set()
        self._is_closed = False
        self._is_pausing = False
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._is_swept = False
        self._connector: Place | None = None
        """Of the call that connects, where no connection stands."""
        self._queue: deque[Place] = deque()
        self._returned: deque[Place] = deque()
        """Those who had a place once, and go before the queue."""
        self._ended = 0
        """At most so many in both have ended since those were looked for."""
        self._crowd: Crowd | None = None
        self._is_crowd_timed = False
        self._runtime: Runtime | None = None

    def bind(self, runtime: Runtime) -> None:
        """Goes on with a loop, once the former one was left."""
        self._runtime = runtime

    def close(self) -> None:
        """Closes all connections for good, once the loop was left. May be asked again."""
        self._is_closed = True
        self.first.close()

    def leave(self, why: Why) -> None:
        """Ends all calls on the loop. The first connection remains, for the next one. May be asked again."""
        for lane in [*self.lanes, *self._opening]:
            lane.leave(why)
            if lane.engine is not self.first:
                lane.engine.close()
        self.lanes = []
        self._opening = set()
        self._is_pausing = self._is_swept = self._is_crowd_timed = False
        self._crowd = self._connector = None
        self._fail_all(lambda: why(Outcome.NOT_EXECUTED))

    # ---- One call ----

    def take(self, place: Place) -> Lane | None:
        """A place on a connection; None where all are taken, or others wait for one."""
        return None if self._line() else self._take_first(place)

    def _take_first(self, place: Place) -> Lane | None:
        lane = None if self._is_crowded() else self._free_lane(place)
        if lane is not None:
            # Between these no handler runs: nothing is called.
            place.lane = lane
            lane.places += 1
        return lane

    async def take_in_turn(self, place: Place, deadline: float) -> Lane:
        """The place that comes after those of all who wait already."""
        lane = await self._turn(place, deadline)
        return await self.keep_or_change(place, lane, deadline)

    async def take_again(self, place: Place, deadline: float, refusal: str) -> Lane:
        """A place for a call that its server has refused as one too many: before those that have had none."""
        _core.carry_out(self._refused, place, refusal)
        lane = await self._turn(place, deadline, goes_first=True)
        return await self.keep_or_change(place, lane, deadline)

    async def keep_or_change(self, place: Place, lane: Lane, deadline: float) -> Lane:
        """Returns a place for a call that has had one for a while and is about to begin. If the server of that place is
        stopping, or requests wait to be sent there, it is a place elsewhere, if there is one: there the call
        would have to wait for these."""
        return await self.change(place, deadline) if _holds_up(lane) else lane

    async def change(self, place: Place, deadline: float) -> Lane:
        """Another place for a call that has had one: before those that have had none."""
        while True:
            _core.carry_out(self._release, place)
            first = self._take_first(place)
            if first is not None:
                return first
            lane = await self._turn(place, deadline, goes_first=True)
            if not _holds_up(lane):
                return lane

    async def _turn(self, place: Place, deadline: float, *, goes_first: bool = False) -> Lane:
        assert self._runtime is not None
        place.turn = self._runtime.future()
        (self._returned if goes_first else self._queue).append(place)
        _core.carry_out(self._give_free)  # fails if the client was closed: nobody would tell this one any more
        lane: Lane | None = await wait(place.turn, deadline, self._runtime)
        if lane is None:
            raise late(self._held_up_by())
        return lane

    def _held_up_by(self) -> str:
        if self._crowd is not None:
            return f"room on the server: {self._crowd.reason}"
        return "earlier ones of this client" if self.stands() else "a connection"

    def failed(self, lane: Lane, error: NearcallError) -> None:
        """Tells what came of connecting. Where no connection can be had, all who wait for one have failed
        with that. May be asked again."""
        is_of_connection = isinstance(error, (Unavailable, ResourceExhausted, PermissionDenied))
        if not self._line() or not is_of_connection or error.outcome is not Outcome.NOT_EXECUTED:
            return
        if lane in self.lanes and not self.stands():
            self._fail_all(lambda: type(error)(error.message, error.code, error.outcome, error.details))

    def give(self, place: Place) -> None:
        """Gives back whatever a place has, to the call that has waited longest, if one waits. It may be
        called again."""
        if place.turn is not None and place.lane is None:
            self._ended += 1
        if place.turn is not None and place.turn.done() and not place.turn.cancelled():
            place.turn.exception()  # looked at, so that the loop does not report it
        self._release(place)
        place.turn = None
        self._forget_ended()
        self.connected(place)

    def _release(self, place: Place) -> None:
        lane, place.lane = place.lane, None
        if lane is not None:
            lane.places -= 1
        if self._connector is place:
            self._connector = None

    def connected(self, place: Place) -> None:
        """Tells that a call has connected or will not, if it is the one that was to. May be asked again."""
        if self._connector is place:
            self._connector = None
        if self._line():
            self._pass_on()

    def transport(self) -> str:
        """Of a connection that stands."""
        engines = (self.first, *(lane.engine for lane in self.lanes))
        return next(filter(None, (engine.where()[0] for engine in engines)), "")

    def endpoint(self) -> str:
        """Of a connection that stands."""
        engines = (self.first, *(lane.engine for lane in self.lanes))
        return next(filter(None, (engine.where()[1] for engine in engines)), "")

    # ---- All that wait ----

    def _is_alive(self) -> bool:
        return self._runtime is not None and self._runtime.is_alive()

    def _line(self) -> deque[Place]:
        """Those whose turn is next, whether or not any call waits."""
        return self._returned or self._queue

    def _pass_on(self) -> None:
        """Gives those who wait longest the places that are free now. May be asked again."""
        try:
            self._give_free()
        except (FailedPrecondition, Cancelled):
            if not self._is_closed:  # by code that ran within, as a finalizer: all who waited have been told
                raise

    def _give_free(self) -> None:
        while (line := self._line()) and self._is_alive():
            place = line[0]
            turn = place.turn
            if turn is None or turn.done():
                # It has its turn, or was cancelled, or its deadline has passed.
                line.popleft()
                continue
            if place.lane is None:
                if self._is_crowded():
                    return
                lane = self._free_lane(place)
                if lane is None:
                    was_pausing = self._is_pausing
                    self._open_further()
                    if was_pausing or not self._is_pausing:
                        return
                    continue  # it goes where it has to wait, as none can be opened
                place.lane = lane
                lane.places += 1
            settle(turn, place.lane)

    def _free_lane(self, place: Place) -> Lane | None:
        """One whose server takes a call at once, and that sends it at once, or soonest where no further one can be had.
        Calls on it that were not yet sent will need their room."""
        stands = False
        found, found_bytes = None, 0
        for lane in self.lanes:
            room = lane.engine.room()
            stands = stands or room >= 0
            if lane.places < _PLACES_MAX and room > lane.places - lane.sent:
                unsent_bytes = lane.engine.unsent_bytes()
                if found is None or unsent_bytes < found_bytes:
                    found, found_bytes = lane, unsent_bytes
                if unsent_bytes <= _core.CLIENT_UNSENT_BYTES_MAX:
                    break
        if found is None:
            return None if stands else self._lane_to_connect(place)
        if found_bytes > _core.CLIENT_UNSENT_BYTES_MAX and self._may_open():
            return None
        found.is_idle = False
        return found

    def _may_open(self) -> bool:
        """Whether a further connection is being opened, or would be."""
        return bool(self._opening) or (not self._is_pausing and len(self.lanes) < _LANES_MAX)

    def _lane_to_connect(self, place: Place) -> Lane | None:
        """Where no connection stands one call makes one before anything else, and the others wait for what
        comes of it."""
        if not self.lanes:
            self._begin_with(self._lane(self.first))
        if self._connector is not None and self._connector is not place:
            return None
        if not self.lanes:
            raise closed(Outcome.NOT_EXECUTED)  # by code that ran within
        self._connector = place
        return self.lanes[0]

    def _lane(self, engine: _core.Engine) -> Lane:
        assert self._runtime is not None
        stands = functools.partial(_stands, weakref.ref(self))
        return Lane(engine, self._runtime, _weakly(self, Places._pass_on), stands)

    def _begin_with(self, lane: Lane) -> None:
        try:
            _core.carry_out(self._add, lane)
        except BaseException:
            if not lane.is_begun():  # the loop has refused
                _core.carry_out(self._remove, lane)
            raise

    def _add(self, lane: Lane) -> None:
        if lane not in self.lanes:
            self.lanes.append(lane)
        if self._is_closed:  # after the lane was made, by code that ran then
            lane.leave(closed)
        lane.begin()

    def _remove(self, lane: Lane) -> None:
        lane.leave(closed)
        if lane in self.lanes:
            self.lanes.remove(lane)

    def stands(self) -> bool:
        """Whether there is a connection."""
        return any(lane.engine.room() >= 0 for lane in self.lanes)

    def _fail_all(self, make_error: Callable[[], NearcallError]) -> None:
        """Fails those who wait for a place."""
        while line := self._line():
            turn = line[0].turn
            if turn is not None and self._runtime is not None:
                fail(turn, make_error(), self._runtime)
            line.popleft()

    def _forget_ended(self) -> None:
        """Takes those out of the line who have ended behind others. May be asked again."""
        if self._ended > _ENDED_MAX + (len(self._queue) + len(self._returned)) // 2:
            self._returned = deque(filter(_waits, self._returned))
            self._queue = deque(filter(_waits, self._queue))
            self._ended = 0

    # ---- A server that has no room for further calls ----

    def _refused(self, place: Place, refusal: str) -> None:
        self._release(place)
        if self._crowd is None:
            self._crowd = Crowd()
        self._crowd.refuse(self._places_taken(), refusal)
        self._let_further_later()

    def _is_crowded(self) -> bool:
        return self._crowd is not None and self._places_taken() >= self._crowd.calls_max

    def _places_taken(self) -> int:
        return sum(lane.places for lane in self.lanes)

    def _let_further_later(self) -> None:
        assert self._runtime is not None
        if self._crowd is not None and not self._is_crowd_timed:
            self._runtime.call_later(self._crowd.pause_seconds, _weakly(self, Places._let_further))
            self._is_crowd_timed = True

    def _let_further(self) -> None:
        self._is_crowd_timed = False
        if self._crowd is None:
            return
        if self._crowd.calls_max >= _LANES_MAX * _PLACES_MAX or not self._line():
            self._crowd = None
        else:
            self._crowd.let_further()
        self._pass_on()
        self._let_further_later()

    # ---- Further connections ----

    def _open_further(self) -> None:
        if self._is_pausing or not self.stands():
            return
        self._close([lane for lane in self.lanes if not lane.places and lane.engine.room() < 0])
        for lane in [lane for lane in self._opening if not lane.is_asked]:
            self._ask(lane)  # that was ended before
        while len(self._queue) + len(self._returned) > len(self._opening) * _PLACES_MAX:
            if len(self.lanes) + len(self._opening) >= _LANES_MAX or not self._open():
                return

    def _open(self) -> bool:
        """Begins to open one; it gets calls once it stands."""
        try:
            lane = self._lane(self._make_engine())
        except (NearcallError, OSError):
            self._pause()
            return False
        self._opening.add(lane)
        return self._ask(lane)

    def _ask(self, lane: Lane) -> bool:
        reference, opening = weakref.ref(self), weakref.ref(lane)

        def answered() -> None:
            places, lane = reference(), opening()
            if places is not None and lane is not None:
                places._opened(lane)

        try:
            lane.begin()
            lane.ask(_ASKED, _OPENING_SECONDS, answered)
        except (NearcallError, OSError) as error:
            lane.refusal = error
            self._cannot_open(lane)
            return False
        return True

    def _opened(self, lane: Lane) -> None:
        if lane not in self._opening:
            return  # the loop was left meanwhile, or this was done
        if lane.engine.room() < 0:
            self._cannot_open(lane)
        else:
            self._pause_seconds = _FIRST_PAUSE_SECONDS
            self._sweep_later()
            if lane not in self.lanes:
                self.lanes.append(lane)
            self._opening.discard(lane)
        self._pass_on()

    def _cannot_open(self, lane: Lane) -> None:
        refusal = lane.refusal
        if isinstance(refusal, Unavailable | PermissionDenied) and self._is_full():
            # A server that is stopping answers its last calls, and nobody listens in its place: each call fails as if
            # there were no connection, and tries again by itself if it may.
            kind, message, code, details = type(refusal), refusal.message, refusal.code, refusal.details
            self._fail_all(lambda: kind(message, code, Outcome.NOT_EXECUTED, details))
        elif isinstance(refusal, ResourceExhausted) or not isinstance(refusal, NearcallError | None):
            self._pause()
        else:
            self._pause_briefly()
        self._opening.discard(lane)
        lane.leave(closed)
        lane.engine.close()

    def _is_full(self) -> bool:
        """Whether connections stand, and no server takes a further request on them."""
        return max((lane.engine.room() for lane in self.lanes), default=-1) == 0

    def _pause(self) -> None:
        self._pause_for(_PAUSE_SECONDS)

    def _pause_briefly(self) -> None:
        if not self._is_pausing:
            self._pause_for(self._pause_seconds)
            self._pause_seconds = min(self._pause_seconds * 2, _PAUSE_SECONDS)

    def _pause_for(self, seconds: float) -> None:
        assert self._runtime is not None
        if not self._is_pausing:
            self._runtime.call_later(seconds, _weakly(self, Places._pause_is_over))
            self._is_pausing = True

    def _pause_is_over(self) -> None:
        self._is_pausing = False
        self._pass_on()

    def _close(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            if lane.engine is not self.first:
                self._remove(lane)
                lane.engine.close()

    def _sweep_later(self) -> None:
        if not self._is_swept and self._runtime is not None:
            self._runtime.call_later(_IDLE_SECONDS, _weakly(self, Places._sweep))
            self._is_swept = True

    def _sweep(self) -> None:
        """Closes what has had no call since it came by last."""
        self._is_swept = False
        self._close([lane for lane in self.lanes if lane.is_idle and not lane.places])
        for lane in self.lanes:
            lane.is_idle = not lane.places
        if len(self.lanes) > 1:
            self._sweep_later()


def _holds_up(lane: Lane) -> bool:
    """Whether a call would wait on the connection, though it has a place there."""
    engine = lane.engine
    return engine.room() == 0 or engine.unsent_bytes() > _core.CLIENT_UNSENT_BYTES_MAX


def _stands(reference: weakref.ref[Places]) -> bool:
    places = reference()
    return places is not None and places.stands()


def _waits(place: Place) -> bool:
    return place.turn is not None and not place.turn.done()


def _weakly(places: Places, method: Callable[[Places], None]) -> Callable[[], None]:
    """The method as a callback that holds no client."""
    return carried(call_weakly, weakref.ref(places), method)


async def wait(turn: Future, deadline: float, runtime: Runtime) -> Any:
    """What a call is told that waits for another one; None where its deadline passes first."""
    patience = _Patience(turn, deadline, runtime)
    try:
        patience.begin()
        return await turn
    finally:
        del turn  # it has the exception, whose traceback has this frame
        patience.end()


class _Patience:
    """The timer of a wait, which there is without a deadline too: by the timer, the loop holds the task that waits."""

    def __init__(self, turn: Future, deadline: float, runtime: Runtime) -> None:
        self._turn: Future | None = turn
        self._deadline = deadline
        self._runtime = runtime
        self._timer: Timer | None = None

    def begin(self) -> None:
        if self._turn is None or self._turn.done():
            return
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            self._turn.set_result(None)
        else:
            self._timer = self._runtime.call_later(min(seconds, TIMER_SECONDS_MAX), carried(self.begin))

    def end(self) -> None:
        self._turn = None  # it may have an exception, whose traceback has the frame that holds this
        if self._timer is not None:
            self._timer.cancel()


def settle(future: Future, result: object) -> None:
    """Ends a wait that may have ended already."""
    if not future.done():
        future.set_result(result)


def late(what: str) -> DeadlineExceeded:
    """The end of a call that has waited for something else."""
    message = f"the deadline passed while the call waited for {what}"
    return DeadlineExceeded(message, Code.DEADLINE_EXCEEDED, Outcome.NOT_EXECUTED)
