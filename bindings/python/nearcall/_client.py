"""Client: functions of the server as methods."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from nearcall import _core
from nearcall._options import Options, Spin, User, core_arguments

__all__ = ["Client"]


class Client(_core.Client):
    """A server's functions, callable as methods: ``client.ack(3, 4)``.

    Making a client does not connect; the first call does. A client may be used
    by several threads at the same time and before and after a fork: each thread
    that calls at the same moment gets a connection of its own, and so does each
    process.

    address: ``"unix:/path"``, ``"unix:@name"`` or ``"tcp:host:port"``; or
        ``"embed:/path/of/library.so"``, a Go library that is loaded into this
        process at once. Children that are forked later call the process that loaded
        it; with ``"?children=own"`` behind the path it is loaded at the first call
        instead, by each process of its own.
    timeout: seconds that a call may take in all; None for no limit.
    name: what this program calls itself, for the server's log.
    any_server_user: talk to a server of any user. Without it the server must run
        as root, as this user, as the owner of the socket's directory, or as one
        of server_users (names or numbers).
    allow_abstract: accept ``"unix:@name"``, a name that any user can take.
    attempts: how often a call that was certainly not executed is sent in all.
    frame_bytes_max: the largest reply that is accepted; 0 for libnearcall's own
        limit.
    shared_memory: False to call over the socket only, as ``"?shm=off"`` behind the
        address. Otherwise a busy connection on this machine uses memory that it
        shares with the server. Results are copies, and a forked child gets memory
        of its own.
    spin: how to wait for shared memory: ``"auto"`` looks at it for some
        microseconds before it sleeps where that is faster, ``"off"`` sleeps at
        once, ``"dedicated"`` never sleeps, and signal handlers run when the reply has
        come or the timeout has passed. ``"?spin=off"`` and ``"?spin=dedicated"``
        behind the address are the same; of an option and an address, what switches
        more off wins.
    block_signals: for ``"embed:"``, let signals wait while a function runs in this
        process. Handlers that Python installs need it not; say it for those that
        an extension module installs in C after the library was loaded and
        without ``SA_ONSTACK``: Go's stacks have no room for them. The price is
        two system calls a call.
    """

    __slots__ = ("__weakref__", "_options")

    _options: Options

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
        shared_memory: bool = True,
        spin: Spin = "auto",
        block_signals: bool = False,
    ) -> None:
        self._options = Options(
            timeout=timeout,
            name=name,
            any_server_user=any_server_user,
            allow_abstract=allow_abstract,
            attempts=attempts,
            server_users=tuple(server_users),
            frame_bytes_max=frame_bytes_max,
            shared_memory=shared_memory,
            spin=spin,
            block_signals=block_signals,
        )
        super().__init__(*core_arguments(address, self._options))

    def with_timeout(self, timeout: float | None, /) -> Self:
        """The same client, its connections shared, with another default timeout."""
        view = super().with_timeout(timeout)
        view._options = Options(**{**self._options, "timeout": timeout})
        return view

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"timeout={self.timeout}"
        return f"<{type(self).__name__} {self.address} {state}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled client opens its own connections where it is unpickled.
        return (_reopen, (type(self), self.address, self._options))


def _reopen(kind: type[Client], address: str, options: Options) -> Client:
    return kind(address, **options)
