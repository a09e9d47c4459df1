"""An application of aiohttp, on connections that a front gives."""

import asyncio
import os
import signal
import sys

from aiohttp import web

from nearcall.aiohttp import Site


async def answer(request):
    return web.Response(text=f"process {os.getpid()}: {request.path} for {request.remote}\n")


async def main():
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await Site(runner, sys.argv[1]).start()
    await told.wait()
    await runner.cleanup()


asyncio.run(main())
