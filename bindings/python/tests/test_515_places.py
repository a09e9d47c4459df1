"""AsyncClient where calls crowd: held up loops, limits, bulk beside quick calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from nearcall import AsyncClient, Outcome, Unavailable
from support import Server, wait_until


@pytest.mark.parametrize("shared_memory", [False, True])
def test_loop_that_is_held_up_within_an_upload(start_server: Callable[..., Server], shared_memory: bool) -> None:
    """The server ends the connection for it. No call has done anything wrong, and what did not run is sent again."""
    server = start_server("-frame-silence", "100ms")
    data = bytes(4_000_000)

    async def main() -> None:
        async with AsyncClient(server.address, shared_memory=shared_memory) as go:
            await go.sleep(0)
            await asyncio.gather(*(go.echo(b"") for _ in range(40)))
            sockets = server.socket_count()
            slow = asyncio.ensure_future(go.sleep(3_000))
            upload = asyncio.ensure_future(go.echo(data))
            quick = asyncio.ensure_future(go.add(1, 2))
            await asyncio.sleep(0)
            wait_until(lambda: server.socket_count() < sockets, "the server has ended the connection")
            assert await upload == data
            assert await quick == 3
            with pytest.raises(Unavailable) as caught:
                await slow
            assert caught.value.outcome in (Outcome.UNKNOWN, Outcome.EXECUTED_RESULT_LOST)

    asyncio.run(main())
