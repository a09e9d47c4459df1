"""One engine on one event loop: what to watch, whom to wake.

No thread and no poller of its own: the loop watches the descriptor that
libnearcall names. The loop may change between calls (asyncio.run() twice) and
the process may fork; a loop that was inherited by a fork is never touched,
because its poller is the parent's too.
"""

from __future__ import annotations

import asyncio
import math
import select
from collections import deque
from collections.abc import Callable
from typing import Any

from nearcall import _core
from nearcall._codes import Code, Outcome
from nearcall._errors import Cancelled, DeadlineExceeded, InvalidArgument, ResourceExhausted

_NOT_WATCHED = (-1, 0, 0)
_MILLISECOND = 0.001


class LoopEngine:
    """The calls in flight of one engine, each with the future that waits for it."""

    def __init__(self, engine: _core.Engine) -> None:
        self.closed = False
        self._engine = engine
        self._loop: asyncio.AbstractEventLoop | None = None
        self._generation = _core.fork_generation()
        self._waiters: dict[int, asyncio.Future[Any]] = {}
        self._queue: deque[asyncio.Future[None]] = deque()
        self._watched = _NOT_WATCHED
        self._timer: asyncio.TimerHandle | None = None

    async def call(self, name: str, args: tuple[Any, ...], named: dict[str, Any], deadline: float) -> Any:
        """Calls a function and waits for its result, finding it first if needed."""
        try:
            return await self._call_once(name, args, named, deadline)
        except InvalidArgument as error:
            # Refused by a server that came in the place of the one that had
            # described the function: once more, by its own description.
            if error.outcome is not Outcome.NOT_EXECUTED or self._engine.knows(name):
                raise
        return await self._call_once(name, args, named, deadline)

    async def _call_once(self, name: str, args: tuple[Any, ...], named: dict[str, Any], deadline: float) -> Any:
        self._bind()
        if not self._engine.knows(name):
            await self.find(name, deadline)

        def begin(timeout: float) -> int:
            return self._engine.begin(name, *args, timeout=timeout, **named)

        return await self._result(await self._begin(begin, deadline))

    async def find(self, name: str, deadline: float) -> dict[str, Any]:
        """Learns a function's description."""
        self._bind()

        def begin(timeout: float) -> int:
            return self._engine.find(name, timeout)

        await self._result(await self._begin(begin, deadline))
        self._engine.found(name)
        return self._engine.description(name)

    def transport(self) -> str:
        """How calls travel now."""
        return self._engine.transport()

    def close(self) -> None:
        """Ends every call and closes the connection for good."""
        self.closed = True
        if self._is_ours():
            self._stop_watching()
        self._engine.close()
        waiters, self._waiters = self._waiters, {}
        for future in waiters.values():
            if not future.done() and not future.get_loop().is_closed():
                error = Cancelled("the client was closed before the reply came", Code.CANCELLED, Outcome.UNKNOWN)
                future.set_exception(error)
        # Those that have no place yet try to begin, and hear that it is closed.
        for place in self._queue:
            if not place.done() and not place.get_loop().is_closed():
                place.set_result(None)

    # ---- Places: an engine holds a fixed number of calls, further ones queue ----

    async def _begin(self, begin: Callable[[float], int], deadline: float) -> int:
        if not self._queue:
            try:
                return self._begin_now(begin, deadline)
            except ResourceExhausted:
                # With no call in flight it is not their number that is too large.
                if not self._waiters:
                    raise
        queue = self._queue
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(place)
        try:
            await self._wait_for(place, deadline)
            return self._begin_now(begin, deadline)
        except BaseException:
            if queue is self._queue:
                self._give_place()
            raise
        finally:
            # Not before: who comes later waits behind this one.
            queue.remove(place)

    def _begin_now(self, begin: Callable[[float], int], deadline: float) -> int:
        try:
            return begin(self._seconds_left(deadline))
        except BaseException:
            # It may have found the connection gone, and other calls ended with that.
            if self._is_ours():
                self._watch()
            raise

    async def _wait_for(self, place: asyncio.Future[None], deadline: float) -> None:
        try:
            async with asyncio.timeout_at(None if deadline == math.inf else deadline):
                await place
        except TimeoutError:
            raise DeadlineExceeded(
                "the deadline passed while the call waited for earlier ones of this client",
                Code.DEADLINE_EXCEEDED,
                Outcome.NOT_EXECUTED,
            ) from None

    def _give_place(self) -> None:
        for place in self._queue:
            if not place.done():
                place.set_result(None)
                return

    def _seconds_left(self, deadline: float) -> float:
        return deadline if deadline == math.inf else max(deadline - asyncio.get_running_loop().time(), _MILLISECOND)

    # ---- Waiting ----

    async def _result(self, number: int) -> Any:
        waiters = self._waiters
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiters[number] = future
        self._watch()
        try:
            return await future
        except BaseException:
            # Still there: the task was cancelled, and the call is with it.
            if waiters.pop(number, None) is not None:
                self._engine.cancel(number)
                if self._is_ours() and waiters is self._waiters:
                    self._watch()
                    self._give_place()
            elif future.done() and not future.cancelled():
                future.exception()  # looked at, so that the loop does not report it
            raise

    def _process(self) -> None:
        if not self._is_ours() or self.closed:
            return
        for number, error, result in self._engine.process():
            future = self._waiters.pop(number, None)
            if future is not None and not future.done():
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)
            self._give_place()
        self._watch()

    def _expire(self) -> None:
        self._timer = None
        self._process()

    # ---- The loop ----

    def _is_ours(self) -> bool:
        return self._generation == _core.fork_generation() and self._loop is not None and not self._loop.is_closed()

    def _bind(self) -> None:
        """Makes the running loop the one that watches."""
        loop = asyncio.get_running_loop()
        if self._loop is loop and self._generation == _core.fork_generation():
            return
        if self._is_ours():
            self._leave_loop()
        for number in self._waiters:
            self._engine.cancel(number)
        self._loop = loop
        self._generation = _core.fork_generation()
        self._waiters = {}
        self._queue = deque()
        self._watched = _NOT_WATCHED
        self._timer = None

    def _leave_loop(self) -> None:
        assert self._loop is not None
        if self._loop.is_running():
            raise RuntimeError("this AsyncClient is in use on another running event loop; make one for each loop")
        self._stop_watching()

    def _watch(self) -> None:
        """Follows what the engine waits for; asked again after each use of it."""
        if self.closed or self._loop is None:
            return
        descriptor, inode, events, milliseconds = self._engine.watch()
        if (descriptor, inode, events) != self._watched:
            self._watch_descriptor(self._loop, descriptor, inode, events)
        if milliseconds >= 0:
            self._watch_time(self._loop, milliseconds * _MILLISECOND)

    def _watch_descriptor(self, loop: asyncio.AbstractEventLoop, descriptor: int, inode: int, events: int) -> None:
        former, former_inode, former_events = self._watched
        # A new connection may have the number of the one that was closed: then
        # the poller has forgotten it, though the loop has not.
        if former >= 0 and (former, former_inode) != (descriptor, inode):
            loop.remove_reader(former)
            loop.remove_writer(former)
            former_events = 0
        if descriptor >= 0:
            if events & ~former_events & select.POLLIN:
                loop.add_reader(descriptor, self._process)
            elif former_events & ~events & select.POLLIN:
                loop.remove_reader(descriptor)
            if events & ~former_events & select.POLLOUT:
                loop.add_writer(descriptor, self._process)
            elif former_events & ~events & select.POLLOUT:
                loop.remove_writer(descriptor)
        self._watched = (descriptor, inode, events)

    def _watch_time(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        when = loop.time() + seconds
        if self._timer is not None:
            # An early timer does no harm: it looks, and is set again.
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = loop.call_at(when, self._expire)

    def _stop_watching(self) -> None:
        assert self._loop is not None
        if self._watched[0] >= 0:
            self._loop.remove_reader(self._watched[0])
            self._loop.remove_writer(self._watched[0])
        if self._timer is not None:
            self._timer.cancel()
        self._watched = _NOT_WATCHED
        self._timer = None
