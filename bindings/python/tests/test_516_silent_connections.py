"""AsyncClient where a connection is not welcomed while others are: its server was stopped, or accepts no more."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from pathlib import Path

import pytest

from nearcall import AsyncClient, _places
from nearcall._lane import Lane
from scripted import ScriptedServer, function, with_shutdown


class HalfStoppedServers(ScriptedServer):
    """Several that share an address: each connection is that of one which answers, or of one which was stopped."""

    def __init__(self, path: Path) -> None:
        self.answers = [True, True]
        """For each connection from now on; all further ones are silent."""
        self._talks: list[threading.Thread] = []
        super().__init__(path, function([], []))

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                if self.answers and self.answers.pop(0):
                    self._talks.append(threading.Thread(target=self._answer_all, args=(connection,)))
                    self._talks[-1].start()

    def _answer_all(self, connection: socket.socket) -> None:
        with contextlib.suppress(EOFError, OSError):
            self._talk(connection)

    def end_all(self) -> None:
        """Ends all connections that there are."""
        ended, self._connections = self._connections, []
        for connection in ended:
            with_shutdown(connection)
        for talk in self._talks:
            talk.join()
        for connection in ended:
            connection.close()

    def close(self) -> None:
        super().close()
        self.end_all()


async def two_lanes(go: AsyncClient) -> list[Lane]:
    while len(go._engine._places.lanes) < 2:
        await asyncio.gather(*(go.call("f") for _ in range(10)))
    return go._engine._places.lanes


@pytest.mark.parametrize("name", ["f", "not looked up before"])
def test_connection_that_does_not_come(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that waits for one goes on by another that stands."""
    monkeypatch.setattr(_places, "_LANES_MAX", 2)
    monkeypatch.setattr(_places, "_PLACES_MAX", 1)

    async def main(server: HalfStoppedServers) -> None:
        async with AsyncClient(server.address, timeout=8) as go:
            lanes = await two_lanes(go)
            server.answers += [False, True]
            server.end_all()
            # The loop has not noticed: each call finds out on a connection of its own.
            assert await asyncio.gather(go.call(name), go.call(name)) == [None, None]
            assert lanes[0].engine.room() < 0 <= lanes[1].engine.room()
            assert await go.call(name) is None

    with HalfStoppedServers(folder / "half.sock") as server:
        asyncio.run(main(server))


def test_connection_that_does_not_come_is_looked_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, by a call that had to connect before anything else."""
    monkeypatch.setattr(_places, "_LANES_MAX", 2)
    monkeypatch.setattr(_places, "_PLACES_MAX", 1)

    async def main(server: HalfStoppedServers) -> None:
        async with AsyncClient(server.address, timeout=8) as go:
            lanes = await two_lanes(go)
            server.answers += [False, True]
            server.end_all()
            for lane in lanes:
                lane.look()
            waiting = [asyncio.ensure_future(go.call("f")), asyncio.ensure_future(go.function("f"))]
            await asyncio.sleep(0)
            lanes[1].is_asked = False
            lanes[1].ask("f", 8, lambda: None)
            assert (await waiting[0], (await waiting[1]).__name__) == (None, "f")
            assert lanes[0].engine.room() < 0

    with HalfStoppedServers(folder / "half.sock") as server:
        asyncio.run(main(server))
