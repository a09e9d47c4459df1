"""gunicorn workers for connections that another process has accepted, as ``nearcall front``
gives them.

    gunicorn -k nearcall.gunicorn.ThreadWorker --threads 4 -w 2 -b unix:/run/site/worker-%n.sock app:app

Each worker takes connections at an address of its own: %n is replaced by the first number from
1 that no other worker has, and the front must be told all of these addresses. (The master also
listens at the address as it is written, but nobody connects there.) A worker that ends does not
lose a request: what it has not accepted, and connections between two requests, go back to the
front.

Worker is gunicorn's sync worker, and ThreadWorker its gthread worker.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from gunicorn.workers.gthread import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
    ThreadWorker as _ThreadWorker,
)
from gunicorn.workers.sync import SyncWorker  # type: ignore[import-untyped, import-not-found, unused-ignore]

from nearcall import _core
from nearcall._errors import AlreadyExists, NearcallError
from nearcall.handoff import Connection, Listener

__all__ = ["ThreadWorker", "Worker"]

# How long a worker waits for one that is ending to give its address up.
_SLOT_PAUSE_SECONDS = 0.05
# How long a giver may take to take a connection back.
_HAND_BACK_SECONDS = _core.HANDOFF_BACK_MS / 1000


class _Socket:
    """What gunicorn takes for a listening socket."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self._local: Any = ""

    def fileno(self) -> int:
        return self.listener.fileno()

    def setblocking(self, blocking: bool) -> None:
        """Does nothing: this socket never blocks."""

    def accept(self) -> tuple[Connection, Any]:
        try:
            connection, _ = self.listener.accept(0)
        except NearcallError as error:
            raise BlockingIOError(str(error)) from error
        self._local = connection.getsockname()
        # As that of a Unix socket, where the client is none of TCP.
        try:
            return connection, connection.getpeername() or ""
        except OSError:  # it has gone
            return connection, ""

    def getsockname(self) -> Any:
        """Returns the address of the connection that was accepted last."""
        return self._local

    def drain(self) -> None:
        with contextlib.suppress(NearcallError, ValueError):
            self.listener.drain("the worker ends")

    def close(self) -> None:
        self.listener.close()


class _Taking:
    """What both kinds of workers do differently from gunicorn's own."""

    sockets: list[Any]
    alive: bool
    taking: _Socket

    def _listen(self: Any) -> _Socket | None:
        templates = [name for name in (each.getsockname() for each in self.sockets) if isinstance(name, str)]
        if len(templates) != 1 or len(self.sockets) != 1 or "%n" not in templates[0]:
            raise ValueError(
                "workers of nearcall.gunicorn need one address with %n, as --bind unix:/run/site/worker-%n.sock"
            )
        while self.alive and self.is_parent_alive():
            self.notify()
            for number in range(1, self.cfg.workers + 1):
                with contextlib.suppress(AlreadyExists):
                    return _Socket(Listener("unix:" + templates[0].replace("%n", str(number))))
            time.sleep(_SLOT_PAUSE_SECONDS)
        return None

    def run(self: Any) -> None:
        taking = self._listen()
        if taking is None:
            return
        self.taking, self.sockets = taking, [taking]
        self.wait_fds = [taking, self.PIPE[0]]
        self.log.info("Taking connections at %s", taking.listener.address)
        try:
            super().run()  # type: ignore[misc]
        finally:
            taking.drain()
            taking.close()


class Worker(_Taking, SyncWorker):  # type: ignore[misc, unused-ignore]
    """Serves one client at a time, and one request of each."""


class ThreadWorker(_Taking, _ThreadWorker):  # type: ignore[misc, unused-ignore]
    """Serves as many clients at a time as it has threads, and keeps connections."""

    _way_back = True
    _most = 0

    @property
    def worker_connections(self) -> int:
        """Returns how many it can serve now. More would be kept from workers that are
        free."""
        waiting = len(self.keepalived_conns) + len(self.pending_conns)
        return min(self._most, int(self.cfg.threads) + waiting)

    @worker_connections.setter
    def worker_connections(self, most: int) -> None:
        self._most = most

    def set_accept_enabled(self, enabled: bool) -> None:
        super().set_accept_enabled(enabled)
        if not enabled and not self.alive:
            self.taking.drain()
            self._hand_back_idle()

    def murder_keepalived(self, force: bool = False) -> None:
        if not self.alive:
            self._hand_back_idle()
        super().murder_keepalived(force)

    def _hand_back_idle(self) -> None:
        """Gives back connections that wait for a request of which nothing was read."""
        for waiting in (self.keepalived_conns, self.pending_conns):
            for each in list(waiting):
                if self._way_back and isinstance(each.sock, Connection) and self._hand_back(each):
                    waiting.remove(each)
                    self.nr_conns -= 1

    def _hand_back(self, each: Any) -> bool:
        self.poller.unregister(each.sock)
        try:
            each.sock.hand_back(timeout=_HAND_BACK_SECONDS, idle=True)
        except (NearcallError, OSError, ValueError) as error:
            self.log.debug("Keeping connections: %s", error)
            self._way_back = False
            if each.sock.fileno() >= 0:
                self.poller.register(each.sock, 1, self._readable(each))
            return False
        return True

    def _readable(self, each: Any) -> Any:
        kept = each in self.keepalived_conns
        return lambda client: (self.on_client_socket_readable if kept else self.on_pending_socket_readable)(
            each, client
        )
