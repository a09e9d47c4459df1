"""AsyncClient: functions of the server as coroutines."""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import os
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from nearcall import _core, _schema
from nearcall._call_options import NO_OPTIONS, CallOptions, Metadata, ReplyMetadata
from nearcall._errors import NearcallError
from nearcall._loop import Attempts, LoopEngine
from nearcall._options import PLAIN_QUIET, Options, Path, PlainTcp, Spin, User, core_arguments
from nearcall._runtime import AsyncioRuntime, Runtime

__all__ = ["AsyncClient", "AsyncFunction"]


class AsyncFunction:
    """A function of the server, as a coroutine function."""

    __name__: str

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client = client
        self.__name__ = self.__qualname__ = name

    async def __call__(self, /, *args: Any, timeout: float | None = None, **named: Any) -> Any:
        return await self._client.call(self.__name__, *args, timeout=timeout, **named)

    # What inspect and asyncio look at to tell whether calling it gives a coroutine.
    __code__ = __call__.__code__
    __defaults__ = __call__.__defaults__
    __kwdefaults__ = __call__.__kwdefaults__
    # As such it would be shown with self.
    __signature__ = inspect.signature(__call__.__get__(object()))

    def __repr__(self) -> str:
        return f"<nearcall.AsyncFunction {self.__name__}>"


class AsyncClient:
    """A server's functions as coroutines: ``await client.ack(3, 4)``.

    It runs on the caller's event loop, that of asyncio or uvloop, without a thread.
    Thousands of calls may be in flight, and their replies come in any order. Calls
    that do not fit on one connection go over further ones, and calls that do not fit
    on those either wait their turn. Cancelling a task cancels its call. The keywords
    are those of Client.

    A client may be used on one running loop at a time. It may be used under
    asyncio.run() again and again, and in a child after a fork.
    """

    _runtime: type[Runtime] = AsyncioRuntime

    def __init__(
        self,
        address: str | os.PathLike[str],
        *,
        timeout: float | None = 30.0,
        name: str | None = None,
        any_server_user: bool = False,
        allow_abstract: bool = False,
        attempts: int = 3,
        server_users: Iterable[User] = (),
        frame_bytes_max: int = 0,
        value_bytes_max: int = 0,
        shared_memory: bool = True,
        spin: Spin = "auto",
        tls_authorities: Path | None = None,
        tls_certificate: Path | None = None,
        tls_key: Path | None = None,
        tls_server_name: str | None = None,
        silence: float | None = None,
        plain_tcp: PlainTcp = "warn",
    ) -> None:
        self._options = Options(
            timeout=timeout,
            name=name,
            any_server_user=any_server_user,
            allow_abstract=allow_abstract,
            attempts=attempts,
            server_users=tuple(server_users),
            frame_bytes_max=frame_bytes_max,
            value_bytes_max=value_bytes_max,
            shared_memory=shared_memory,
            spin=spin,
            block_signals=False,  # it enters no Go
            tls_authorities=tls_authorities,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            tls_server_name=tls_server_name,
            silence=silence,
            plain_tcp=plain_tcp,
        )
        self._address = os.fspath(address)
        self._timeout = _core.seconds(timeout)
        arguments = core_arguments(address, self._options)
        # The first connection warns for all of them.
        quiet = (*arguments[:-1], arguments[-1] or PLAIN_QUIET)
        further = itertools.chain([arguments], itertools.repeat(quiet))
        self._engine = LoopEngine(lambda: _core.Engine(*next(further)), self._runtime)
        self._attempts = operator.index(attempts)
        self._call_options: CallOptions = NO_OPTIONS

    async def call(self, name: str, /, *args: Any, timeout: float | None = None, **named: Any) -> Any:
        """Calls a function and returns its result.

        timeout is in seconds and bounds the whole call. None means the client's default,
        and math.inf means no limit. If the function has a parameter with that name,
        timeout is refused; give the parameter as timeout_.
        """
        if timeout is not None:
            named["timeout"] = timeout  # for where the function has a parameter of that name
        return await self._call(name, args, named, timeout, None)

    async def _call_generated(self, origin: Any, name: str, args: tuple[Any, ...], timeout: float | None) -> Any:
        return await self._call(name, args, {}, timeout, origin)

    async def _call(
        self, name: str, args: tuple[Any, ...], named: dict[str, Any], timeout: float | None, origin: Any
    ) -> Any:
        name = _core.function_name(name)
        deadline = self._deadline(timeout)
        attempts = Attempts(self._attempts, deadline, self._call_options)
        while True:
            try:
                return await self._engine.call(name, args, named, deadline, attempts, origin)
            except NearcallError as error:
                pause_seconds = attempts.pause_after(error)
                if pause_seconds is None:
                    raise
            await self._engine.sleep(pause_seconds)

    async def function(self, name: str, /) -> AsyncFunction:
        """Returns a function of the server with its signature and documentation."""
        name = _core.function_name(name)
        description = await self._engine.find(name, self._deadline(None))
        function = AsyncFunction(self, name)
        function.__doc__ = _schema.doc(description)
        function.__signature__ = _schema.signature(description)
        return function

    def with_timeout(self, timeout: float | None, /) -> AsyncClient:
        """Returns the same client, with the same connections, with another default timeout."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view._timeout = _core.seconds(timeout)
        view._options = Options(**{**self._options, "timeout": timeout})
        return view

    def with_options(
        self,
        *,
        timeout: float | None = None,
        attempts: int | None = None,
        backoff: tuple[float, float] | None = None,
        wait_for_ready: bool = False,
        retry_unknown: bool = False,
        metadata: Metadata | None = None,
        traceparent: str | None = None,
        idempotency_key: bytes | None = None,
        reply_metadata: ReplyMetadata | None = None,
        buffers: bool = False,
    ) -> Self:
        """Returns the same client, with the same connections, with options for its calls.

        It is cheap, may be kept, and can be asked for further options. What is None or False stays
        as it is in this client.

        timeout: the default timeout in seconds, as in a call; ``math.inf`` means no limit.
        attempts: how many times in all a call is sent.
        backoff: the mean pauses between attempts in seconds: the first pause, and the longest. Each
            pause is twice as long as the one before it. The default is ``(0.001, 1.0)``.
        wait_for_ready: wait until the deadline for a server that is not there or is stopping.
        retry_unknown: also send a call again if the connection was lost and nobody knows whether
            the function ran. The function must be registered as idempotent; otherwise calls fail
            with FailedPrecondition before anything is sent.
        metadata: pairs that travel with each request. A key has lower-case letters, digits and any of
            ``-_.``; its value, or each of a list of values, is text or bytes.
        traceparent: a W3C trace context.
        idempotency_key: 16 bytes that name what is asked for, as ``uuid.uuid4().bytes``.
        reply_metadata: a dict. After each call it has the pairs that came with the reply or error,
            as lists of bytes. Calls that are made at the same time need a dict each.
        buffers: return lists of numbers and booleans as memoryviews, of which ``numpy.asarray()``
            makes an array without a copy. Functions that Python describes as returning a list then
            return a memoryview, also within other lists, dicts and structs.
        """
        options = self._call_options.extended(
            attempts,
            backoff,
            wait_for_ready,
            retry_unknown,
            metadata,
            traceparent,
            idempotency_key,
            reply_metadata,
            buffers,
        )
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view._call_options = options
        if timeout is not None:
            view._timeout = _core.seconds(timeout)
            view._options = Options(**{**self._options, "timeout": timeout})
        return view

    def transport(self) -> str:
        """Returns how calls travel at present: 'shared memory', 'unix socket', 'tcp', 'tls',
        'same process', or '' if there is no connection."""
        return self._engine.transport()

    def endpoint(self) -> str:
        """Returns the endpoint that a connection leads to, as the address has it, or '' if there
        is no connection. It matters for an address that has several."""
        return self._engine.endpoint()

    @property
    def address(self) -> str:
        """The address of the server."""
        return self._address

    @property
    def timeout(self) -> float | None:
        """The default timeout of calls in seconds, or None for no limit."""
        return self._timeout

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._engine.closed

    def close(self) -> None:
        """Closes the connections. Calls in flight end with Cancelled."""
        self._engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> AsyncFunction:
        name = str.__str__(name)
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return AsyncFunction(self, name)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"timeout={self._timeout}"
        return f"<{type(self).__name__} {self._address} {state}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled client opens its own connections where it is unpickled.
        options = {name: value for name, value in self._options.items() if name != "block_signals"}
        return (_reopen, (type(self), self._address, options, self._call_options.keywords))

    def _deadline(self, timeout: float | None) -> float:
        seconds = self._timeout if timeout is None else _core.seconds(timeout)
        return math.inf if seconds is None else time.monotonic() + seconds


def _reopen(
    kind: type[AsyncClient],
    address: str,
    options: dict[str, Any],
    call_options: tuple[dict[str, Any], ...] = (),
) -> AsyncClient:
    client = kind(address, **options)
    for keywords in call_options:
        client = client.with_options(**keywords)
    return client
