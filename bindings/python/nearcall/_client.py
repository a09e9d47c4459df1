"""Client: functions of the server as methods."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from nearcall import _core
from nearcall._call_options import NO_OPTIONS, CallOptions, Metadata, ReplyMetadata
from nearcall._options import Options, Path, PlainTcp, Spin, User, core_arguments

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
    value_bytes_max: lets requests and replies that do not fit a frame travel through
        files in memory, up to so many bytes and at most 1 GiB, on local sockets, if
        the server allows it (in Go ``server.WithValueBytesMax``). 0 means that none do.
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
    tls_authorities: for ``"tls:"``, the path of a PEM file with the authorities of which
        one has signed the server's certificate. By default those that the system trusts.
    tls_certificate, tls_key: the paths of PEM files with this program's certificate, by
        which the server knows it, and with its key, which must not need a passphrase.
        Without tls_key the key is in the file of the certificate.
    tls_server_name: for whom the server's certificate has to be made out, if that is not
        the host of the address. The four can also be given in the address, as
        ``"?ca=PATH&cert=PATH&key=PATH&name=HOST"``. Files that change are read again
        before the next connection. ``"tls:"`` needs OpenSSL 3, which the library loads
        itself: an ssl.SSLContext cannot be given.
    silence: for ``"tcp:"`` and ``"tls:"``, in seconds, from 0.1 to 300. A server from which
        nothing comes for so long while a call waits, although it is asked for a sign of life,
        is taken for gone. By default only one that leaves bytes unanswered for 30 seconds is,
        or, if the address has several endpoints, one that is silent for a second.
    plain_tcp: what is done about ``"tcp:"`` to another machine, where everybody on the way
        can read and change what is sent. ``"refuse"`` makes such calls fail with
        FAILED_PRECONDITION before anything is sent. With ``"warn"``, the default, they are
        made, and `warnings.warn` tells of it once; ``?plain=quiet`` at the end of the address
        says that the way is safe.
    """

    __slots__ = ("__weakref__", "_call_options", "_options")

    _options: Options
    _call_options: CallOptions

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
        block_signals: bool = False,
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
            block_signals=block_signals,
            tls_authorities=tls_authorities,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            tls_server_name=tls_server_name,
            silence=silence,
            plain_tcp=plain_tcp,
        )
        self._call_options = NO_OPTIONS
        super().__init__(*core_arguments(address, self._options))

    def with_timeout(self, timeout: float | None, /) -> Self:
        """Returns the same client, with the same connections, with another default timeout."""
        view = super().with_timeout(timeout)
        view._options = Options(**{**self._options, "timeout": timeout})
        view._call_options = self._call_options
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
        assert options.view is not None
        view = self._with_view(options.view, timeout)
        view._options = Options(**{**self._options, "timeout": view.timeout})
        view._call_options = options
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
        return (_reopen, (type(self), self.address, self._options, self._call_options.keywords))


def _reopen(
    kind: type[Client], address: str, options: Options, call_options: tuple[dict[str, Any], ...] = ()
) -> Client:
    client = kind(address, **options)
    for keywords in call_options:
        client = client.with_options(**keywords)
    return client
