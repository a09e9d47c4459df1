#!/usr/bin/env python3
"""catalogue: asks an application of Flask for a page, from the shell.

Whoever tries a page, or makes a site of files, starts the framework once for
each page; here a resident has imported it already.
"""

from __future__ import annotations

import argparse
import sys

import flask

import nearcall.resident

BOOKS = [
    {"title": "Notes on the Analytical Engine", "author": "Lovelace", "year": 1843},
    {"title": "The Education of a Computer", "author": "Hopper", "year": 1952},
    {"title": "Go To Statement Considered Harmful", "author": "Dijkstra", "year": 1968},
]

PAGE = """<!doctype html>
<title>Catalogue</title>
<ul>
{%- for book in books %}
<li>{{ book.author }}: <cite>{{ book.title }}</cite> ({{ book.year }})
{%- endfor %}
</ul>
"""

app = flask.Flask(__name__)


@app.get("/")
def index() -> str:
    """All books, or those since a year."""
    since = flask.request.args.get("since", 0, type=int)
    return flask.render_template_string(PAGE, books=[b for b in BOOKS if b["year"] >= since])


@app.get("/books/<int:number>")
def book(number: int) -> flask.Response:
    """One book as JSON."""
    if not 1 <= number <= len(BOOKS):
        flask.abort(404, f"there is no book {number}")
    return flask.jsonify(BOOKS[number - 1])


def get(path: str) -> int:
    """Prints a page; the exit code is 0 when its status is a good one."""
    response = app.test_client().get(path)
    print(response.get_data(as_text=True).rstrip())
    if response.status_code < 400:
        return 0
    print(f"catalogue: {path}: {response.status}", file=sys.stderr)
    return 1


def routes() -> int:
    """Prints what pages there are."""
    for rule in app.url_map.iter_rules():
        print(f"{rule.rule:30} {rule.endpoint}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="catalogue", description="Asks an application of Flask for a page.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("get", help="print a page").add_argument("path")
    commands.add_parser("routes", help="print what pages there are")
    options = parser.parse_args()
    return get(options.path) if options.command == "get" else routes()


# Without Nearcall this would be: sys.exit(main()).
if __name__ == "__main__":
    nearcall.resident.main(main)
