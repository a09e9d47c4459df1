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

    Making a client does not connect; the first call does. A client may be used by
    several threads at the same time, and before and after a fork. Each thread that
    calls at the same moment gets a connection of its own, and so does each process.

    address: ``"unix:/path"``, ``"unix:@name"`` or ``"tcp:host:port"``; or
        ``"embed:/path/of/library.so"``, a Go library that is loaded into this
        process at once. Children that are forked later call the process that loaded
        it. With ``"?children=own"`` at the end, each process loads the library for
        itself instead, at its first call.
    timeout: how many seconds a call may take in all; None means no limit.
    name: the name by which this program introduces itself, for the server's log.
    any_server_user: accept a server that runs as any user. By default the server
        must run as root, as this user, as the owner of the directory with the
        socket, or as one of server_users (names or numbers).
    allow_abstract: accept ``"unix:@name"``, a name that any user can take.
    attempts: how many times a call that was certainly not executed is sent in all.
    frame_bytes_max: the size of the largest reply that is accepted, in bytes; 0
        means the limit of libnearcall.
    shared_memory: False makes all calls go over the socket, as ``"?shm=off"`` at the
        end of the address does. By default a busy connection on this machine uses
        memory that it shares with the server. Results are copies, and a forked child
        gets memory of its own.
    spin: how to wait on shared memory. ``"auto"`` looks at it for some
        microseconds before it sleeps if that is faster, ``"off"`` sleeps at once,
        and ``"dedicated"`` never sleeps: signal handlers then run when the reply has
        come or the timeout has passed. ``"?spin=off"`` and ``"?spin=dedicated"`` at
        the end of the address do the same. If an option and the address differ, the
        one that switches more off wins.
    block_signals: for ``"embed:"``, make signals wait while a function runs in this
        process. Handlers that Python installs do not need it. Set it for handlers
        that an extension module installs in C, without ``SA_ONSTACK``, after the
        library was loaded: Go's stacks have no room for them. It costs two system
        calls for each call.
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
        """Returns the same client, with the same connections, with another default timeout."""
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
