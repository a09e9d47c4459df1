"""An ASGI application under uvicorn, on connections that a front gives."""

import os
import sys

import uvicorn

from nearcall.uvicorn import Server


async def app(scope, receive, send):
    assert scope["type"] == "http"
    text = f"process {os.getpid()}: {scope['path']} for {scope['client'][0]}\n".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
    await send({"type": "http.response.body", "body": text})


if __name__ == "__main__":
    Server(uvicorn.Config(app, lifespan="off", access_log=False), sys.argv[1]).run()
