"""An application whose answers take as long as the path says, in milliseconds: of WSGI for
gunicorn, whose workers wait, and of ASGI for uvicorn, where others are served meanwhile.

    python busy.py ADDRESS    is uvicorn, on connections that a front gives
"""

import asyncio
import sys
import time


def seconds(path):
    return int(path.strip("/") or 0) / 1000


def wsgi(environ, start_response):
    time.sleep(seconds(environ["PATH_INFO"]))
    start_response("200 OK", [("Content-Length", "5")])
    return [b"here\n"]


async def asgi(scope, receive, send):
    await asyncio.sleep(seconds(scope["path"]))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"here\n"})


if __name__ == "__main__":
    import uvicorn

    from nearcall.uvicorn import Server

    Server(uvicorn.Config(asgi, lifespan="off", access_log=False), sys.argv[1]).run()
