"""A web application that calls Go in every request."""

import os
import sys
from collections.abc import Callable, Iterable

import nearcall

# Once, in the parent: gunicorn --preload imports this before it forks. Each worker
# gets a connection of its own when it first calls; this one remains the parent's.
# With an embed: address the parent loads the library here, and workers call the parent.
go = nearcall.Client(os.environ["NEARCALL_ADDRESS"], timeout=2, name="prefork-python")
print(go.greet("parent"), file=sys.stderr)


def application(environ: dict, start_response: Callable) -> Iterable[bytes]:
    page = environ["PATH_INFO"]
    try:
        status = "200 OK"
        text = f"{go.greet(page)} Visit {go.visit(page)}, served by {os.getpid()}.\n"
    except nearcall.NearcallError as error:
        # The error says what went wrong and whether the function ran.
        environ["wsgi.errors"].write(f"nearcall error: {error}\n")
        status = "503 Service Unavailable"
        text = "Go does not answer.\n"
    body = text.encode()
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
