"""Calls on one connection: the end of one of them, or of the server's time, is not that of the others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable

import pytest
import uvloop
from test_520_greenlets import SETUP

import nearcall
from nearcall import AsyncClient, Outcome
from support import PATIENCE_SECONDS, Server, read_line, wait_until

StartServer = Callable[..., Server]

GREENLETS = """
import sys
with Client(sys.argv[1], timeout=60) as go:
    slow = spawn(go.sleep, 6000)
    sleep(0)
    assert gather([go.one] * 10) == [1] * 10
    print("slow", flush=True)
    sys.stdin.readline()
    assert gather([lambda n=n: go.add(n, 1, timeout=4) for n in range(300)]) == [n + 1 for n in range(300)]
    print("done", flush=True)
"""


def leave(server: Server) -> None:
    """Has a server stop listening; it answers what it has taken."""
    assert server.process is not None
    server.process.terminate()
    wait_until(lambda: not server.path.exists(), "the server has left its socket")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("slow_calls", [1, 300])
def test_slow_calls_on_a_server_that_stops_hold_up_no_others(
    start_server: StartServer, new_loop: Callable[[], asyncio.AbstractEventLoop], slow_calls: int
) -> None:
    old = start_server("-drain-timeout=60s")

    async def main() -> None:
        async with AsyncClient(old.address, timeout=60) as go:
            await go.one()
            slow = [asyncio.ensure_future(go.sleep(6_000)) for _ in range(slow_calls)]
            await asyncio.gather(*(go.one() for _ in range(10)))
            leave(old)
            new = start_server()
            quick = [go.add(n, 1, timeout=4) for n in range(600)]
            assert await asyncio.gather(*quick) == [n + 1 for n in range(600)]
            assert go.transport()
            assert await asyncio.gather(*slow) == [6_000] * slow_calls
            assert await go.one() == 1
            assert new.pid != old.pid

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("hub", SETUP)
def test_slow_calls_of_greenlets_hold_up_no_others(start_server: StartServer, hub: str) -> None:
    old = start_server("-drain-timeout=60s")
    command = [sys.executable, "-c", SETUP[hub] + GREENLETS, old.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert read_line(process) == "slow"
        leave(old)
        start_server()
        process.stdin.write("\n")
        process.stdin.flush()
        assert read_line(process) == "done"


@pytest.mark.parametrize("shared_memory", [True, False])
def test_a_request_that_is_half_sent_when_its_time_is_over(own_server: Server, shared_memory: bool) -> None:
    async def main() -> None:
        async with AsyncClient(own_server.address, timeout=PATIENCE_SECONDS, shared_memory=shared_memory) as go:
            await asyncio.gather(go.one(), go.identity(b"found"))
            slow = [asyncio.ensure_future(go.sleep(1_000)) for _ in range(50)]
            await asyncio.gather(*(go.one() for _ in range(10)))
            own_server.pause()
            large = (go.identity(bytes(3_900_000), timeout=0.1) for _ in range(3))
            ends = await asyncio.gather(*large, return_exceptions=True)
            own_server.resume()
            assert [type(end) for end in ends] == [nearcall.DeadlineExceeded] * 3
            assert await asyncio.gather(*slow) == [1_000] * 50
            assert await go.identity(b"after") == b"after"

    asyncio.run(main())


def test_the_same_of_a_client_that_blocks(own_server: Server) -> None:
    with nearcall.Client(own_server.address, timeout=PATIENCE_SECONDS, shared_memory=False) as go:
        assert go.identity(b"found") == b"found"
        slow = [go.begin("sleep", 1_000) for _ in range(20)]
        assert go.one() == 1
        own_server.pause()
        with pytest.raises(nearcall.DeadlineExceeded) as caught:
            go.begin("identity", bytes(3_900_000), timeout=0.1).wait()
        own_server.resume()
        assert caught.value.outcome is Outcome.UNKNOWN
        assert [call.wait() for call in slow] == [1_000] * 20
        assert go.identity(b"after") == b"after"
