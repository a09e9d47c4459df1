"""A WSGI application for workers of gunicorn, as README.md starts them."""

import os


def app(environ, start_response):
    text = f"process {os.getpid()}: {environ['PATH_INFO']} for {environ['REMOTE_ADDR']}\n".encode()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]
