"""The calls of one AsyncClient on one loop.

The loop may change between calls (asyncio.run() twice) and the process may
fork; then the first connection stays, and what waited on the former loop is forgotten.
"""

from __future__ import annotations

import itertools
import math
import os
import time
import weakref
from collections.abc import Callable
from typing import Any

from nearcall import _core
from nearcall._call_options import CallOptions
from nearcall._codes import Code, Outcome
from nearcall._crowd import is_of_crowd
from nearcall._errors import (
    Aborted,
    FailedPrecondition,
    InvalidArgument,
    NearcallError,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from nearcall._lane import Elsewhere, Lane, Why, closed, fail, inherited, moved
from nearcall._places import Place, Places, late, settle, wait
from nearcall._runtime import Future, Runtime, carried

_CHANGES = "nearcall.changes"
_COMPARISONS_MAX = 3
"""How often one call asks about its function before servers that come and go are its failure."""
_NOT_COMPARED = (
    "{} could not be compared with generated code: servers that describe it otherwise take each other's place"
)
_NOT_IDEMPOTENT = (
    "{} is not registered as idempotent (in Go server.Idempotent), so a call of it cannot ask to be sent again when "
    "nobody knows whether it ran (retry_unknown)"
)
_MILLISECOND = 0.001


class Attempts:
    """How often a call may still be sent, whatever it is that it is sent again for."""

    __slots__ = ("_deadline", "_former", "_tries", "asked", "left", "options")

    def __init__(self, most: int, deadline: float, options: CallOptions) -> None:
        self.left = options.attempts or most
        self.options = options
        self._deadline = deadline
        self._tries = 0
        self._former = Outcome.NOT_EXECUTED
        """The worst outcome of the attempts before the last."""
        self.asked: dict[Any, Any] = {}
        """What iterables among the arguments gave: many can be asked only once."""

    @property
    def is_over(self) -> bool:
        """Whether code of an argument's own has raised: whatever that is, it is no failure of the call's."""
        return None in self.asked

    def another_after(self, error: NearcallError) -> bool:
        """Whether it may be encoded and sent again after a refusal."""
        self.left -= 1
        return error.outcome is Outcome.NOT_EXECUTED and self.left > 0 and time.monotonic() < self._deadline

    def pause_after(self, error: NearcallError) -> float | None:
        """How long to pause before it is sent again after one that has failed; None: it has failed for good. The
        error's outcome is then that of all attempts: that the last was not executed says nothing about those before."""
        if self.is_over:
            return None
        pause_seconds = self._pause_before_another() if self._may_be_another(error) else math.inf
        if time.monotonic() + pause_seconds < self._deadline:
            self._former = max(self._former, error.outcome)
            return pause_seconds
        if error.outcome is Outcome.NOT_EXECUTED:
            error.outcome = self._former
        return None

    def _may_be_another(self, error: NearcallError) -> bool:
        if not self.options.permit_again(error):
            return False
        if not (self.options.wait_for_ready and error.outcome is Outcome.NOT_EXECUTED):
            self.left -= 1
        return self.left > 0

    def _pause_before_another(self) -> float:
        self._tries += 1
        pause_seconds = self.options.pause_seconds(self._tries)
        left_seconds = self._deadline - time.monotonic()
        if self.options.wait_for_ready and left_seconds > _MILLISECOND:
            return min(pause_seconds, left_seconds * 0.75)
        return pause_seconds


class LoopEngine:
    """Calls of one client. A call takes a place on a connection; without a free one it
    waits in turn, within its deadline."""

    def __init__(self, make_engine: Callable[[], _core.Engine], kind: type[Runtime]) -> None:
        _engines.add(self)
        self.closed = False
        self._kind = kind
        self._places = Places(make_engine)
        self._token: object = None
        self._generation = -1
        self._runtime: Runtime | None = None
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
        self._bind()
        place = Place()
        try:
            lane = self._places.take(place) or await self._places.take_in_turn(place, deadline)
            while True:
                try:
                    return await self._call_on(place, lane, name, args, named, deadline, attempts, origin)
                except Elsewhere:
                    lane = await self._places.change(place, deadline)
                    continue
                except ResourceExhausted as error:
                    if attempts.is_over or not is_of_crowd(error):
                        raise
                    refusal = error.message
                lane = await self._places.take_again(place, deadline, refusal)
        finally:
            _core.carry_out(self._places.give, place)

    async def _call_on(
        self,
        place: Place,
        lane: Lane,
        name: str,
        args: tuple[Any, ...],
        named: dict[str, Any],
        deadline: float,
        attempts: Attempts,
        origin: Any,
    ) -> Any:
        """Calls on the connection of a place, or where that changes on its next. Raises Elsewhere, as what it calls
        does, if that connection does not come and another one stands."""
        comparisons = 0
        while True:
            if lane.engine.room() < 0:
                lane = await self._connected(place, lane, name, deadline)
            revision = lane.engine.revision(name)
            if not revision:
                await self._find(lane, name, deadline)
            elif origin is not None and not origin.fits(lane.engine, revision):
                if comparisons == _COMPARISONS_MAX:
                    raise Aborted(_NOT_COMPARED.format(name), Code.ABORTED, Outcome.NOT_EXECUTED)
                comparisons += await self._compare_once(lane, origin, revision, deadline)
            else:
                if attempts.options.retry_unknown and not lane.engine.description(name).get("idempotent"):
                    raise FailedPrecondition(
                        _NOT_IDEMPOTENT.format(name), Code.FAILED_PRECONDITION, Outcome.NOT_EXECUTED
                    )
                try:
                    before = (attempts.asked, _seconds_left(deadline), attempts.options.view)
                    return await lane.call(name, (*before, *args), named)
                except (Aborted, InvalidArgument) as error:
                    # Refused, here or by a server that came in the place of the one that
                    # had described the function: once more, by its own description.
                    if attempts.is_over:
                        raise
                    is_left = attempts.another_after(error)
                    if error.outcome is not Outcome.NOT_EXECUTED:
                        raise
                    # What a server has refused the next call finds anyway.
                    if not is_left and lane.engine.revision(name) != revision:
                        raise
                    if not await self._has_changed(lane, name, revision, deadline, error) or not is_left:
                        raise
            lane = await self._places.keep_or_change(place, lane, deadline)

    async def find(self, name: str, deadline: float) -> dict[str, Any]:
        """Learns a function's description."""
        self._bind()
        place = Place()
        try:
            lane = self._places.take(place) or await self._places.take_in_turn(place, deadline)
            while True:
                try:
                    lane = await self._connected(place, lane, name, deadline)
                    await self._find(lane, name, deadline)
                    description = lane.engine.description(name)
                    break
                except Elsewhere:
                    lane = await self._places.change(place, deadline)
        finally:
            _core.carry_out(self._places.give, place)
        return description

    async def sleep(self, seconds: float) -> None:
        """Lets others run for a time."""
        runtime = self._bind()
        over = runtime.future()
        timer = runtime.call_later(seconds, carried(settle, over, None))
        try:
            await over
        finally:
            timer.cancel()

    def transport(self) -> str:
        """How calls travel now."""
        return self._places.transport()

    def endpoint(self) -> str:
        """Where calls go now."""
        return self._places.endpoint()

    def close(self) -> None:
        """Ends every call and closes the connections for good. What waits on a loop that runs in another thread
        is ended there."""
        self.closed = True
        runtime = self._runtime
        is_elsewhere = runtime is not None and runtime.is_elsewhere()
        if runtime is None or not is_elsewhere or not runtime.call_soon_anywhere(carried(self._close)):
            _core.carry_out(self._close)

    # ---- One call on one connection ----

    async def _connected(self, place: Place, lane: Lane, name: str, deadline: float) -> Lane:
        """The place of a call, or another, once its connection stands: the code of arguments may last, and
        others wait for that connection. So it is made for a question that has none."""
        while lane.engine.room() < 0:
            try:
                await self._find(lane, name, deadline)
            except NearcallError as error:
                _core.carry_out(self._places.failed, lane, error)
                raise
            finally:
                _core.carry_out(self._places.connected, place)
            lane = await self._places.keep_or_change(place, lane, deadline)
        return lane

    async def _has_changed(self, lane: Lane, name: str, revision: int, deadline: float, refusal: NearcallError) -> bool:
        lane.look()
        try:
            await self._find(lane, name, deadline)
        except Unimplemented:
            raise
        except Unavailable:
            if isinstance(refusal, Aborted):
                raise  # the server that refused has gone as well: the next one is asked, if an attempt is left
            return False
        except NearcallError:
            return False  # it remains with what is known: the arguments were refused
        return lane.engine.revision(name) != revision

    async def _compare_once(self, lane: Lane, origin: Any, revision: int, deadline: float) -> bool:
        """Compares generated code with the function as it is known here, or waits for a call that
        does so already. Whether it was this one that asked."""
        waiting = self._comparing.get((lane, origin))
        if waiting is not None:
            waiting.append(self._bind().future())
            refusal: str | None = await wait(waiting[-1], deadline, self._bind())
            if refusal is None:
                raise late("earlier ones of this client")
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
            _core.carry_out(self._compared, (lane, origin), waiting, refusal)
        return True

    def _compared(self, key: tuple[Lane, Any], waiting: list[Future], refusal: str) -> None:
        for turn in waiting:
            settle(turn, refusal)
        if self._comparing.get(key) is waiting:
            del self._comparing[key]

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
            return await lane.call(_CHANGES, ({}, _seconds_left(deadline), None, origin.name, origin.text), {})
        except Unimplemented:
            return None
        except NearcallError as error:
            error.outcome = Outcome.NOT_EXECUTED  # of the call that asks, whatever became of the question
            raise

    async def _find(self, lane: Lane, name: str, deadline: float) -> None:
        await lane.result(lane.engine.find, name, (_seconds_left(deadline),), {})
        lane.engine.found(name)

    # ---- The loop ----

    def _bind(self) -> Runtime:
        """Makes the running loop the one that watches."""
        token = self._kind.token()
        if self.closed:
            self.close()  # in case the loop that was to do so has ended before it came to it
            raise FailedPrecondition(_core.CLOSED, Code.FAILED_PRECONDITION, Outcome.NOT_EXECUTED)
        generation = _core.fork_generation()
        if self._runtime is not None and self._token is token and self._generation == generation:
            return self._runtime
        lanes = self._places.lanes
        if self._runtime is not None and lanes and lanes[0].is_ours() and self._runtime.is_running():
            raise RuntimeError("this AsyncClient is in use on another running event loop; make one for each loop")
        _core.carry_out(self._leave, moved if self._generation == generation else inherited)
        self._runtime = None  # until all is bound the next call begins anew, on whatever loop
        runtime = self._kind(token)
        self._places.bind(runtime)
        self._token = token
        self._generation = generation
        self._runtime = runtime
        return runtime

    def _close(self) -> None:
        self.closed = True
        self._leave(closed)
        self._places.close()

    def _leave(self, why: Why) -> None:
        """Ends all calls on the loop that watches. May be asked again."""
        self._places.leave(why)
        for turn in itertools.chain(*self._comparing.values()):
            if self._runtime is not None:
                fail(turn, why(Outcome.NOT_EXECUTED), self._runtime)
        self._comparing = {}

    def leave_after_fork(self) -> None:
        """In a child, whose hub goes on: the calls are the parent's."""
        if self._runtime is None or not self._runtime.waiters_survive_fork:
            return
        if self._runtime.is_alive():  # else its thread is the parent's
            self._leave(inherited)


_engines: weakref.WeakSet[LoopEngine] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for engine in list(_engines):
        engine.leave_after_fork()


os.register_at_fork(after_in_child=carried(_after_fork_in_child))


def _seconds_left(deadline: float) -> float:
    return deadline if deadline == math.inf else max(deadline - time.monotonic(), _MILLISECOND)
