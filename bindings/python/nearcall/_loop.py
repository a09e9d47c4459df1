"""The connections of one AsyncClient on one loop, and the places on them.

The loop may change between calls (asyncio.run() twice) and the process may
fork; then the connections stay, and what waited for them on the former loop is forgotten.
"""

from __future__ import annotations

import itertools
import math
import os
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from nearcall import _core
from nearcall._codes import Code, Outcome
from nearcall._errors import (
    Aborted,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NearcallError,
    Unimplemented,
)
from nearcall._lane import Lane, Why, closed, fail, inherited, moved
from nearcall._runtime import Future, Runtime

_PLACES_MAX = 256
"""Calls on one connection: a quarter of what a server answers on it by default, and of what a handle holds."""
_LANES_MAX = 32
_OPENING_SECONDS_MAX = 1.0
"""For a further connection, before the call that wants it waits in turn as others do."""
_REFUSED_SECONDS = 1.0
"""So long no further connection is tried where one could not be had."""
_IDLE_SECONDS = 5.0
"""So long a further connection stays without calls."""
_CHANGES = "nearcall.changes"
_COMPARISONS_MAX = 3
"""How often one call asks about its function before servers that come and go are its failure."""
_NOT_COMPARED = (
    "{} could not be compared with generated code: servers that describe it otherwise take each other's place"
)
_MILLISECOND = 0.001


class Attempts:
    """How often a call may still be sent, whatever it is that it is sent again for."""

    __slots__ = ("_deadline", "asked", "left")

    def __init__(self, most: int, deadline: float) -> None:
        self.left = most
        self._deadline = deadline
        self.asked: dict[int, Any] = {}
        """What iterables among the arguments gave: many can be asked only once."""

    def another_after(self, error: NearcallError, pause_seconds: float = 0) -> bool:
        """Whether it may be sent again after one that has failed, when it has paused."""
        self.left -= 1
        in_time = time.monotonic() + pause_seconds < self._deadline
        return error.outcome is Outcome.NOT_EXECUTED and self.left > 0 and in_time


class LoopEngine:
    """Calls of one client. A call takes a place on a connection; without a free one it
    waits in turn, within its deadline."""

    def __init__(self, make_engine: Callable[[], _core.Engine], kind: type[Runtime]) -> None:
        _engines.add(self)
        self.closed = False
        self._kind = kind
        self._make_engine = make_engine
        # The first is made now, to refuse a bad address where it is written.
        self._engines = [make_engine()]
        self._token: object = None
        self._generation = -1
        self._runtime: Runtime | None = None
        self._lanes: list[Lane] = []
        self._opening: Lane | None = None
        """A further connection that is being made; nobody waits for it but the call that makes it."""
        self._opens_at = -math.inf
        """When a further one may be tried."""
        self._is_closing_idle = False
        self._queue: deque[Future] = deque()
        self._comparing: dict[tuple[Lane, Any], list[Future]] = {}
        """Those who wait for the call that compares its generated code on a lane."""

    async def call(
        self,
        name: str,
        args: tuple[Any, ...],
        named: dict[str, Any],
        deadline: float,
        attempts: Attempts,
        origin: Any = None,
    ) -> Any:
        """Calls a function and waits for its result, finding it first if needed."""
        lane = self._free_place() or await self._place(name, deadline)
        comparisons = 0
        try:
            while True:
                revision = lane.engine.revision(name)
                if not revision:
                    await self._find(lane, name, deadline)
                    continue
                if origin is not None and not origin.fits(lane.engine, revision):
                    if comparisons == _COMPARISONS_MAX:
                        raise Aborted(_NOT_COMPARED.format(name), Code.ABORTED, Outcome.NOT_EXECUTED)
                    comparisons += await self._compare_once(lane, origin, revision, deadline)
                    continue
                named["timeout"] = _seconds_left(deadline)
                try:
                    return await lane.result(lane.engine.begin, name, (attempts.asked, *args), named)
                except (Aborted, InvalidArgument) as error:
                    # Refused, here or by a server that came in the place of the one that
                    # had described the function: once more, by its own description.
                    is_left = attempts.another_after(error)
                    if error.outcome is not Outcome.NOT_EXECUTED:
                        raise
                    # What a server has refused the next call finds anyway.
                    if not is_left and lane.engine.revision(name) != revision:
                        raise
                    if not await self._has_changed(lane, name, revision, deadline) or not is_left:
                        raise
        finally:
            self._give_place(lane)

    async def find(self, name: str, deadline: float) -> dict[str, Any]:
        """Learns a function's description."""
        lane = self._free_place() or await self._place(name, deadline)
        try:
            await self._find(lane, name, deadline)
            return lane.engine.description(name)
        finally:
            self._give_place(lane)

    async def sleep(self, seconds: float) -> None:
        """Lets others run for a time."""
        runtime = self._bind()
        over = runtime.future()
        timer = runtime.call_later(seconds, lambda: _settle(over, None))
        try:
            await over
        finally:
            timer.cancel()

    def transport(self) -> str:
        """How calls travel now."""
        return self._engines[0].transport()

    def close(self) -> None:
        """Ends every call and closes the connections for good."""
        self.closed = True
        self._leave(closed)
        for engine in self._engines:
            engine.close()

    # ---- One call on one connection ----

    async def _has_changed(self, lane: Lane, name: str, revision: int, deadline: float) -> bool:
        lane.look()
        try:
            await self._find(lane, name, deadline)
        except Unimplemented:
            raise
        except NearcallError:
            return False  # it remains with what is known: the arguments were refused
        return lane.engine.revision(name) != revision

    async def _compare_once(self, lane: Lane, origin: Any, revision: int, deadline: float) -> bool:
        """Compares generated code with the function as it is known here, or waits for a call that
        does so already. Whether it was this one that asked."""
        waiting = self._comparing.get((lane, origin))
        if waiting is not None:
            waiting.append(self._bind().future())
            refusal: str | None = await self._turn(waiting[-1], deadline)
            if refusal is None:
                raise _late()
            if refusal:
                raise FailedPrecondition(refusal, Code.FAILED_PRECONDITION, Outcome.NOT_EXECUTED)
            return False
        refusal = ""
        waiting = self._comparing[lane, origin] = []
        try:
            await self._compare(lane, origin, revision, deadline)
        except FailedPrecondition as error:
            refusal = error.message
            raise
        finally:
            # After another end each asks itself: that was of the one call, or of its deadline.
            self._comparing.pop((lane, origin), None)
            for turn in waiting:
                _settle(turn, refusal)
        return True

    async def _compare(self, lane: Lane, origin: Any, revision: int, deadline: float) -> None:
        """Learns whether generated code fits the function as it is known here, or the function anew."""
        try:
            answer = await self._changes(lane, origin, deadline)
        except Aborted as error:
            if error.outcome is not Outcome.NOT_EXECUTED:
                raise
            return  # another server came
        if answer is not None and origin.judge(answer, lane.engine.description(origin.name)):
            return
        # What is known here may have come from another server than the answer.
        await self._find(lane, origin.name, deadline)
        if answer is None and lane.engine.revision(origin.name) == revision:
            origin.trust(lane.engine, revision)

    async def _changes(self, lane: Lane, origin: Any, deadline: float) -> Any:
        """What the server says has changed since code was generated; None: it is too old to say.
        It is asked on the call's own place: those that hold all others may wait for the same."""
        try:
            while not lane.engine.revision(_CHANGES):
                await self._find(lane, _CHANGES, deadline)
            named = {"timeout": _seconds_left(deadline)}
            return await lane.result(lane.engine.begin, _CHANGES, ({}, origin.name, origin.text), named)
        except Unimplemented:
            return None

    async def _find(self, lane: Lane, name: str, deadline: float) -> None:
        await lane.result(lane.engine.find, name, (_seconds_left(deadline),), {})
        lane.engine.found(name)

    # ---- Places ----

    def _free_place(self) -> Lane | None:
        """A place on a connection; None where all are taken, or others wait for one."""
        runtime = self._bind()
        lane = None if self._queue else self._free_lane(runtime)
        if lane is not None:
            lane.places += 1
        return lane

    async def _place(self, name: str, deadline: float) -> Lane:
        """A place, on a further connection where those there are have none at once, or in turn."""
        while True:
            if not (lane := self._free_place()):
                lane = await (self._open(name, deadline) if self._may_open() else self._place_in_turn(deadline))
            if lane is not None:
                return lane

    async def _place_in_turn(self, deadline: float) -> Lane | None:
        """None: a further connection may be made."""
        turn = self._bind().future()
        self._queue.append(turn)
        try:
            place: Lane | Literal[False] | None = await self._turn(turn, deadline)
        except BaseException:
            if not turn.done():
                turn.set_result(None)  # a greenlet was killed: its turn is nobody's any more
            elif not turn.cancelled() and turn.result():
                self._give_place(turn.result())
            raise
        if place is None:
            raise _late()
        return place or None

    async def _turn(self, turn: Future, deadline: float) -> Any:
        """What a call is told that waits for another one; None where its deadline passes first."""
        timer = None
        if deadline != math.inf:
            timer = self._bind().call_later(_seconds_left(deadline), lambda: _settle(turn, None))
        try:
            return await turn
        finally:
            if timer is not None:
                timer.cancel()

    def _free_lane(self, runtime: Runtime) -> Lane | None:
        """One whose server takes the call at once, or, where no further one is to be had, one on which it waits
        in line. Only the first is used before it is connected: others would fail calls that this one takes."""
        for lane in self._lanes:
            takes_it = lane.places < _PLACES_MAX and lane.engine.room() > 0
            if takes_it and (lane is self._lanes[0] or lane.engine.transport()):
                return lane
        if not self._lanes:
            self._lanes.append(Lane(self._spare_engine(), runtime))
            return self._lanes[0]
        if self._opening is not None or self._may_open():
            return None
        return next((lane for lane in self._lanes if lane.places < _PLACES_MAX), None)

    def _give_place(self, lane: Lane) -> None:
        """Passes a place on to who waits longest; it is free only where nobody waits."""
        if self._queue and lane in self._lanes and (turn := self._next_turn()):
            turn.set_result(lane)
            return
        lane.places -= 1
        if lane.places == 0 and len(self._lanes) > 1:
            lane.idle_since = time.monotonic()
            self._close_idle_later()

    def _next_turn(self) -> Future | None:
        """Of those who wait the first."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():  # else it was cancelled, or its deadline has passed
                return turn
        return None

    def _hand_out(self, lane: Lane, places: int) -> None:
        for _ in range(places):
            turn = self._next_turn()
            if turn is None:
                return
            lane.places += 1
            turn.set_result(lane)

    # ---- Further connections ----

    def _may_open(self) -> bool:
        return self._opening is None and len(self._lanes) < _LANES_MAX and time.monotonic() >= self._opens_at

    async def _open(self, name: str, deadline: float) -> Lane | None:
        """A place on a further connection, once that stands. None where none is to be had, which is remembered."""
        lane = self._begin_to_open()
        if lane is None:
            return None
        stands = False
        try:
            await self._find(lane, name, min(deadline, time.monotonic() + _OPENING_SECONDS_MAX))
            stands = True
        except Unimplemented:
            stands = True
        except NearcallError:
            if self._opening is not lane or time.monotonic() >= deadline:
                raise  # the client was closed, or is used by another loop; or the call is late
            self._opens_at = time.monotonic() + _REFUSED_SECONDS
        finally:
            if self._opening is lane:
                self._opening = None
                self._end_opening(lane, stands)
        return lane if stands else None

    def _begin_to_open(self) -> Lane | None:
        for lane in self._lanes[1:]:
            if lane.places == 0 and not lane.engine.transport():
                self._drop(lane)
        try:
            self._opening = Lane(self._spare_engine(), self._bind())
        except NearcallError:  # no descriptor is left
            self._opens_at = time.monotonic() + _REFUSED_SECONDS
        return self._opening

    def _end_opening(self, lane: Lane, stands: bool) -> None:
        """Those who have begun to wait meanwhile take their places, or make the next one."""
        self._lanes.append(lane)
        if stands:
            lane.places += 1
            self._hand_out(lane, min(lane.engine.room(), _PLACES_MAX) - 1)
        else:
            self._drop(lane)
        if not self._may_open():
            for other in self._lanes:
                self._hand_out(other, _PLACES_MAX - other.places)
        elif turn := self._next_turn():
            turn.set_result(False)

    def _spare_engine(self) -> _core.Engine:
        """One that no lane uses: of a loop that has ended, or a new one."""
        used = [lane.engine for lane in self._lanes]
        spare = next((engine for engine in self._engines if engine not in used), None)
        if spare is None:
            spare = self._make_engine()
            self._engines.append(spare)
        return spare

    def _drop(self, lane: Lane) -> None:
        self._lanes.remove(lane)
        self._engines.remove(lane.engine)
        lane.leave(closed)
        lane.engine.close()

    def _close_idle_later(self) -> None:
        if self._is_closing_idle or self._runtime is None or not self._runtime.is_alive():
            return
        reference, token = weakref.ref(self), self._token

        def close_idle() -> None:
            engine = reference()
            if engine is not None and engine._token is token and engine._generation == _core.fork_generation():
                engine._close_idle()

        self._is_closing_idle = True
        self._runtime.call_later(_IDLE_SECONDS, close_idle)

    def _close_idle(self) -> None:
        """Gives back what a rush has taken: the first connection stays."""
        self._is_closing_idle = False
        until = time.monotonic() - _IDLE_SECONDS
        idle = [lane for lane in self._lanes[1:] if lane.places == 0]
        for lane in idle:
            if lane.idle_since <= until:
                self._drop(lane)
        if any(lane in self._lanes for lane in idle):
            self._close_idle_later()

    # ---- The loop ----

    def _bind(self) -> Runtime:
        """Makes the running loop the one that watches."""
        token = self._kind.token()
        generation = _core.fork_generation()
        if self._runtime is not None and self._token is token and self._generation == generation:
            return self._runtime
        if self._runtime is not None and self._lanes and self._lanes[0].is_ours() and self._runtime.is_running():
            raise RuntimeError("this AsyncClient is in use on another running event loop; make one for each loop")
        self._leave(moved if self._generation == generation else inherited)
        self._token = token
        self._generation = generation
        self._runtime = self._kind(token)
        return self._runtime

    def _leave(self, why: Why) -> None:
        """Ends all calls on the loop that watches."""
        lanes, self._lanes = self._lanes, []
        if self._opening is not None:
            lanes.append(self._opening)
        self._opening = None
        self._is_closing_idle = False
        queue, self._queue = self._queue, deque()
        comparing, self._comparing = self._comparing, {}
        for lane in lanes:
            lane.leave(why)
        for turn in itertools.chain(queue, *comparing.values()):
            if self._runtime is not None:
                fail(turn, why(Outcome.NOT_EXECUTED), self._runtime)

    def leave_after_fork(self) -> None:
        """In a child, whose hub goes on: the calls are the parent's."""
        if self._runtime is None or not self._runtime.waiters_survive_fork:
            return
        if self._kind.token() is self._token:  # else its thread is the parent's
            self._leave(inherited)


_engines: weakref.WeakSet[LoopEngine] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for engine in list(_engines):
        engine.leave_after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _settle(future: Future, result: object) -> None:
    if not future.done():
        future.set_result(result)


def _late() -> DeadlineExceeded:
    message = "the deadline passed while the call waited for earlier ones of this client"
    return DeadlineExceeded(message, Code.DEADLINE_EXCEEDED, Outcome.NOT_EXECUTED)


def _seconds_left(deadline: float) -> float:
    return deadline if deadline == math.inf else max(deadline - time.monotonic(), _MILLISECOND)
