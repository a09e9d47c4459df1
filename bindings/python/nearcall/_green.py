"""Clients for greenlets: the coroutines of AsyncClient, driven by a hub that switches between greenlets.

A greenlet that waits for a reply lets others run; nothing blocks the hub.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Protocol, Self

from greenlet import getcurrent  # type: ignore[import-untyped, import-not-found, unused-ignore]

from nearcall import _core, generated
from nearcall._async import AsyncClient
from nearcall._options import Options
from nearcall._runtime import Runtime


class HubThread:
    """The thread of a hub, told from others by the greenlet from which all those of the thread descend. Its number
    would not do: the system gives that to the next thread, and monkey-patching makes it a greenlet's."""

    def __init__(self) -> None:
        self._main = _main_greenlet()
        self._generation = _core.fork_generation()

    def is_alive(self) -> bool:
        """Whether it goes on in this process: of all threads only the one that forks does so in the child."""
        if self._generation == _core.fork_generation():
            return not self._main.dead
        return self.is_here()

    def is_here(self) -> bool:
        return _main_greenlet() is self._main


def _main_greenlet() -> Any:
    greenlet = getcurrent()
    while greenlet.parent is not None:
        greenlet = greenlet.parent
    return greenlet


class Event(Protocol):
    """Something that greenlets wait for, and that happens once, whoever says so again."""

    def set(self) -> Any: ...
    def wait(self) -> Any: ...


class GreenFuture:
    """What a coroutine awaits, and its greenlet waits for in its place."""

    def __init__(self, event: Event) -> None:
        self._event = event
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._done

    def cancelled(self) -> bool:
        return False

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Any:
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # whose traceback has the frames of who waits for this
        return self._result

    def set_result(self, result: Any, /) -> None:
        self._result = result
        self._finish()

    def set_exception(self, error: BaseException, /) -> None:
        self._error = error
        self._finish()

    def wait(self) -> None:
        self._event.wait()

    def __await__(self) -> Generator[GreenFuture, None, Any]:
        if not self._done:
            yield self
        return self.result()

    def _finish(self) -> None:
        self._event.set()
        # Last: who was interrupted before sees that it is still to be done.
        self._done = True


def _drive(coroutine: Coroutine[GreenFuture, None, Any]) -> Any:
    """Runs a coroutine to its end; the greenlet waits for what it awaits. Whatever is raised ends it too."""
    try:
        return _run(coroutine)
    finally:
        coroutine.close()


def _run(coroutine: Coroutine[GreenFuture, None, Any]) -> Any:
    try:
        future = coroutine.send(None)
        while True:
            try:
                future.wait()
            except BaseException as error:  # as GreenletExit: the greenlet was killed, or timed out
                future = coroutine.throw(error)
            else:
                future = coroutine.send(None)
    except StopIteration as stop:
        return stop.value


class GreenFunction:
    """A function of the server, as a callable bound to a client."""

    def __init__(self, call: Callable[..., Any], name: str) -> None:
        self._call = call
        self.__name__ = self.__qualname__ = name

    def __call__(self, /, *args: Any, timeout: float | None = None, **named: Any) -> Any:
        return self._call(self.__name__, *args, timeout=timeout, **named)

    def __repr__(self) -> str:
        return f"<nearcall.GreenFunction {self.__name__}>"


class GreenClient:
    """A server's functions for greenlets: ``client.ack(3, 4)`` lets others run while it waits.

    It takes the keywords of AsyncClient and works like it: thousands of calls may be in
    flight, on as few connections as they need. A client belongs to the hub that uses it
    first, and so to the thread of that hub. With gevent it may be used before and after a
    fork. With eventlet, whose hub does not survive a fork, use it in the child first.
    """

    _kind: type[AsyncClient]

    def __init__(self, address: str | os.PathLike[str], **options: Any) -> None:
        self._client = self._kind(address, **options)

    def call(self, name: str, /, *args: Any, timeout: float | None = None, **named: Any) -> Any:
        """Calls a function and returns its result. timeout means what it means for AsyncClient."""
        return _drive(self._client.call(name, *args, timeout=timeout, **named))

    def function(self, name: str, /) -> GreenFunction:
        """Returns a function of the server with its signature and documentation."""
        found = _drive(self._client.function(name))
        function = GreenFunction(self.call, found.__name__)
        function.__doc__ = found.__doc__
        function.__signature__ = found.__signature__  # type: ignore[attr-defined]
        return function

    def _function(self, name: str, hash: str, description: str, warns: bool, /) -> Callable[..., Any]:
        """For generated code, as Client has it."""
        origin = generated.Origin(name, description, "warn" if warns else "error")

        def call(*args: Any, timeout: float | None = None) -> Any:
            return _drive(self._client._call_generated(origin, name, args, timeout))

        return call

    def with_timeout(self, timeout: float | None, /) -> Self:
        """Returns the same client, with the same connections, with another default timeout."""
        view = object.__new__(type(self))
        view._client = self._client.with_timeout(timeout)
        return view

    def with_options(self, **options: Any) -> Self:
        """Returns the same client, with the same connections, with options for its calls. The
        keywords are those of AsyncClient.with_options()."""
        view = object.__new__(type(self))
        view._client = self._client.with_options(**options)
        return view

    def transport(self) -> str:
        """Returns how calls travel at present: 'shared memory', 'unix socket', 'tcp', 'tls',
        'same process', or '' if there is no connection."""
        return self._client.transport()

    def endpoint(self) -> str:
        """Returns the endpoint that a connection leads to, as the address has it, or '' if there
        is no connection. It matters for an address that has several."""
        return self._client.endpoint()

    @property
    def address(self) -> str:
        """The address of the server."""
        return self._client.address

    @property
    def timeout(self) -> float | None:
        """The default timeout of calls in seconds, or None for no limit."""
        return self._client.timeout

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._client.closed

    def close(self) -> None:
        """Closes the connections. Calls in flight end with Cancelled."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> GreenFunction:
        name = str.__str__(name)
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return GreenFunction(self.call, name)

    def __repr__(self) -> str:
        return repr(self._client).replace(type(self._client).__name__, f"{type(self).__module__}.{type(self).__name__}")

    def __reduce__(self) -> tuple[Any, ...]:
        _, (_, address, options, call_options) = self._client.__reduce__()
        return (_reopen, (type(self), address, options, call_options))


def _reopen(
    kind: type[GreenClient], address: str, options: Options, call_options: tuple[dict[str, Any], ...] = ()
) -> GreenClient:
    client = kind(address, **options)
    for keywords in call_options:
        client = client.with_options(**keywords)
    return client


def kind_for(runtime: type[Runtime]) -> type[AsyncClient]:
    """The AsyncClient that a hub drives."""
    return type("AsyncClient", (AsyncClient,), {"_runtime": runtime})
