"""Take live connections from other processes of this machine.

A front, such as ``nearcall front``, accepts connections and gives them away. A process
that listens here gets them as sockets and talks to the clients directly::

    from nearcall import handoff

    with handoff.Listener("unix:/run/shop/backend.sock") as listener:
        while True:
            connection, meta = listener.accept()
            ...

The process that gives is called the giver. A connection has one owner at any time: it
belongs to its giver until accept() returns it, and to this process from then on,
whichever of them is killed.
"""

from __future__ import annotations

import _socket
import contextlib
import enum
import errno
import math
import os
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from nearcall import _core
from nearcall._options import User, user_id

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from nearcall._handoff_server import Server, start_server

__all__ = ["Address", "Connection", "Listener", "Meta", "Reason", "Server", "host_matches", "start_server"]

Address = tuple[str, int] | str | None
"""Host and port, the path of a Unix socket, or None where there is neither."""


_IDLE = b"idle"
_WAIT_SECONDS_MAX = 86_400
"""poll() counts no more than some weeks."""


class Reason(enum.IntEnum):
    """Why something is refused."""

    BUSY = 1
    WRONG_KIND = 3
    DRAINING = 4
    DENIED = 5


@dataclass(frozen=True, slots=True)
class Meta:
    """What came with a connection."""

    name: str
    """What the giver calls it, such as a route."""

    message: bytes
    """Whatever the two programs agreed on."""

    prefix: bytes
    """What the giver had read of the connection; its reads begin with it."""

    local: Address
    """The address that the client connected to."""

    remote: Address
    """The client's address."""

    process_id: int
    """The giver's process when it connected, as the kernel told; for logs."""

    user_id: int
    """The giver's user."""


def _parse_address(text: str) -> Address:
    network, _, rest = text.partition(":")
    if network != "tcp":
        return rest or None
    host, _, port = rest.rpartition(":")
    return (host.removeprefix("[").removesuffix("]"), int(port)) if port.isdecimal() else rest


def _seconds(timeout: float | None) -> float:
    """Checks a timeout: 0 means at once, and infinity without a limit."""
    seconds = _core.seconds(timeout) if timeout != 0 or isinstance(timeout, bool) else 0.0
    return math.inf if seconds is None else seconds


def _plain_host(host: str) -> str:
    return host.lower().removesuffix(".")


def host_matches(host: str | bytes, pattern: str) -> bool:
    """Whether a request for this host, as in its Host header, fits a pattern: ``www.example.com``,
    ``*.example.com`` for every name below example.com, or ``*`` for any. It ignores a port, a
    final dot and the case of letters, and compares as the front does."""
    text = host.decode("latin-1") if isinstance(host, bytes) else host
    before, colon, port = text.rpartition(":")
    # Within brackets the colons are those of an IPv6 address.
    name = _plain_host(before if colon and "]" not in port else text)
    wanted = _plain_host(pattern)
    if not wanted.startswith("*"):
        return name == wanted
    return name.endswith(wanted[1:]) and (wanted == "*" or len(name) > len(wanted) - 1)


class Connection(socket.socket):
    """A socket that came from another process.

    The giver may have read the first bytes, which are called the prefix. recv(), recv_into() and
    makefile() return the prefix first. select() and poll() do not know about it; pending() does."""

    meta: Meta
    """What came with it."""

    def __init__(self, listener: Listener) -> None:
        # As socket.socket has them. It would make a socket; accept() fills this in with
        # one that there is, so that no moment is without an owner for it.
        self._io_refs = 0
        self._closed = False
        self._prefix = memoryview(b"")
        self._listener = listener
        self._channel = 0
        self._texts = ("", "")

    def _describe(
        self,
        channel: int,
        process_id: int,
        giver: int,
        name: str,
        local: str,
        remote: str,
        message: bytes,
        prefix: bytes,
    ) -> Meta:
        self._prefix = memoryview(prefix)
        self._channel = channel
        self._texts = (local, remote)
        self.meta = Meta(name, message, prefix, _parse_address(local), _parse_address(remote), process_id, giver)
        return self.meta

    def pending(self) -> int:
        """Returns how many bytes of the prefix have not been read yet."""
        return len(self._prefix)

    def take_prefix(self) -> bytes:
        """Returns what was not yet read of the prefix, which counts as read from then on. It is for
        libraries that read from the descriptor themselves."""
        taken, self._prefix = bytes(self._prefix), memoryview(b"")
        return taken

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        if not self._prefix or bufsize <= 0:
            return super().recv(bufsize, flags)
        data = bytes(self._prefix[:bufsize])
        if not flags & socket.MSG_PEEK:
            self._prefix = self._prefix[len(data) :]
        if flags & socket.MSG_WAITALL and len(data) < bufsize:
            data += super().recv(bufsize - len(data), flags)
        return data

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        if not self._prefix:
            return super().recv_into(buffer, nbytes, flags)
        with memoryview(buffer) as view, view.cast("B") as room:
            data = self.recv(nbytes or len(room), flags)
            room[: len(data)] = data
        return len(data)

    def _refuse_unread(self, name: str) -> None:
        if self._prefix:
            raise ValueError(
                f"{name} would lose {len(self._prefix)} bytes that the giver had read: "
                "recv() them first, or take_prefix()"
            )

    def recvfrom(self, bufsize: int, flags: int = 0, /) -> tuple[bytes, Any]:
        self._refuse_unread("recvfrom()")
        return super().recvfrom(bufsize, flags)

    def recvfrom_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        self._refuse_unread("recvfrom_into()")
        return super().recvfrom_into(buffer, nbytes, flags)

    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0, /) -> tuple[bytes, list[Any], int, Any]:
        self._refuse_unread("recvmsg()")
        return super().recvmsg(bufsize, ancbufsize, flags)

    def recvmsg_into(
        self, buffers: Iterable[WriteableBuffer], ancbufsize: int = 0, flags: int = 0, /
    ) -> tuple[int, list[Any], int, Any]:
        self._refuse_unread("recvmsg_into()")
        return super().recvmsg_into(buffers, ancbufsize, flags)

    def detach(self) -> int:
        self._refuse_unread("detach()")
        return super().detach()

    def dup(self) -> socket.socket:  # type: ignore[override]
        """Returns a plain socket."""
        self._refuse_unread("dup()")
        copy = socket.socket(fileno=socket.dup(self.fileno()))
        copy.settimeout(self.gettimeout())
        return copy

    def getpeername(self) -> Any:
        """Returns the address of the client, from the giver or else from the kernel."""
        return self.meta.remote if self._texts[1] else super().getpeername()

    def getsockname(self) -> Any:
        return self.meta.local if self._texts[0] else super().getsockname()

    def _copy(self) -> Connection:
        """The same connection by another descriptor, to be handed back while something
        else still has this one: after the prefix was taken."""
        self._refuse_unread("a copy")
        copy = Connection(self._listener)
        copy.meta, copy._channel, copy._texts = self.meta, self._channel, self._texts
        _socket.socket.__init__(copy, fileno=_socket.dup(self.fileno()))
        return copy

    def hand_back(self, unread: bytes = b"", timeout: float | None = None, *, idle: bool = False) -> None:
        """Gives the connection to the process that it came from.

        unread are bytes that were read here but belong to whoever serves the connection next. The
        connection is then closed here. After an error it is as it was; the error is
        nearcall.Unimplemented if that process does not take connections back.

        idle says that the client keeps the connection open and that no byte of a next request was
        read. A program that stops gives such connections back; the front waits for the next request
        and gives it to another process."""
        if self.fileno() < 0:
            raise ValueError("the connection is closed, nothing is left to hand back: do that instead of closing it")
        meta = replace(self.meta, message=_IDLE) if idle else self.meta
        self._listener._give(self, self._channel, meta, self._texts, unread + bytes(self._prefix), timeout)
        self._prefix = memoryview(b"")
        super().detach()


class Listener:
    """Takes connections that other processes give. It may be used by any thread.

    address is ``unix:/path``, or a Unix socket that already listens, or the descriptor of one: a
    master can open it, and each forked worker make a Listener of it. A Listener that was made
    before a fork works in the children, too; each of them takes channels of its own.

    mode is the permissions of the socket file. window is how many connections may wait on a
    channel, and channels_max how many givers are served at a time; 0 means the defaults of
    spec/limits.md. peer_users may give in addition to root and this process's own user."""

    def __init__(
        self,
        address: str | os.PathLike[str] | int | socket.socket,
        *,
        mode: int = 0,
        window: int = 0,
        prefix_bytes_max: int = 0,
        message_bytes_max: int = 0,
        channels_max: int = 0,
        peer_users: Iterable[User] = (),
    ) -> None:
        if isinstance(address, socket.socket):
            address = address.fileno()
        where = address if isinstance(address, int) else os.fspath(address)
        users = tuple(user_id(user, "peer_users") for user in peer_users)
        self.address = where
        self._core = _core.Handoff(where, users, mode, window, prefix_bytes_max, message_bytes_max, channels_max)
        self._generation = _core.fork_generation()
        # Reentrant: a handler of a signal that arrives in accept() may drain() or close().
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[_core.Handoff]:
        if self._generation != _core.fork_generation():
            # A thread that only the parent has may have held it.
            self._generation, self._lock = _core.fork_generation(), threading.RLock()
        with self._lock:
            yield self._core

    def accept(self, timeout: float | None = None) -> tuple[Connection, Meta]:
        """Waits for a connection and takes it: the giver is told before this returns.

        After timeout seconds it raises TimeoutError, with a timeout of 0 it raises BlockingIOError
        at once, and after drain() it raises nearcall.Unavailable."""
        connection = Connection(self)
        try:
            return connection, connection._describe(*self._take(connection, timeout))
        except BaseException:
            connection.close()  # if it was taken at all: whatever holds the exception would hold it
            raise

    def _take(self, connection: Connection, timeout: float | None) -> _core._Taken:
        """Fills the connection in and returns what came with it."""
        deadline = time.monotonic() + _seconds(timeout)
        while True:
            with self._locked() as core:
                item = core.accept(connection, _socket.socket.__init__)
                wait_ms = core.timeout_ms() if item is None else 0
                descriptor = core.fileno()
            if item is not None:
                return item
            if deadline < math.inf:
                if timeout == 0:
                    raise BlockingIOError(errno.EAGAIN, "no connection was given")
                left_ms = max(0, int(min(deadline - time.monotonic(), _WAIT_SECONDS_MAX) * 1000) + 1)
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"no connection was given within {timeout} s")
                wait_ms = left_ms if wait_ms < 0 else min(wait_ms, left_ms)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll(None if wait_ms < 0 else wait_ms)

    def refuse(self, reason: Reason = Reason.BUSY, text: str = "") -> bool:
        """Refuses what accept() would return next; the giver keeps it. text is for people. Returns
        False if nothing waits."""
        with self._locked() as core:
            return core.refuse(reason, text)

    def _give(
        self,
        connection: Connection,
        channel: int,
        meta: Meta,
        texts: tuple[str, str],
        prefix: bytes,
        timeout: float | None,
    ) -> None:
        forget = _socket.socket.detach
        with self._locked() as core:
            core.give(channel, connection, forget, meta.name, *texts, meta.message, prefix, timeout)

    def drain(self, text: str = "") -> None:
        """Stops listening. What was not accepted goes back to its givers, who are told that this
        process takes no more. Connections that were accepted live on, and can be handed back
        until close()."""
        with self._locked() as core:
            core.drain(text)

    def fileno(self) -> int:
        """Returns the descriptor for select(), poll() and event loops. When it is readable, call accept(0)."""
        with self._locked() as core:
            return core.fileno()

    def timeout(self) -> float | None:
        """Returns the number of seconds after which to call accept(0) even if the descriptor stays silent."""
        with self._locked() as core:
            milliseconds = core.timeout_ms()
        return None if milliseconds < 0 else milliseconds / 1000

    def close(self) -> None:
        """Ends all channels. What was accepted lives on, and the rest belongs to its givers. An
        accept() in another thread ends with nearcall.Unavailable or ValueError."""
        with self._locked() as core:
            if core.fileno() >= 0:
                core.drain("")  # wakes who waits for the descriptor that is closed next
            core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


def __getattr__(name: str) -> Any:
    # asyncio is loaded for those who use it.
    if name not in ("Server", "start_server"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nearcall import _handoff_server

    return getattr(_handoff_server, name)
