"""Imports a web framework, as a program of a web application does, and says its argument."""

import sys

import flask

import nearcall.resident


def main() -> int:
    """Print the argument; the framework is what costs the time."""
    assert flask.Flask
    print(sys.argv[1])
    return 0


nearcall.resident.main(main)
