"""The client in Python: python client.py unix:/tmp/hello/nearcall.sock"""

import sys

import nearcall

with nearcall.Client(sys.argv[1]) as go:
    print("greet:", go.greet("World"))

    quotient, remainder = go.divide(17, 5)
    print(f"divide: {quotient}, remainder {remainder}")

    print("visit:", go.visit("/"))

    try:
        go.divide(1, 0)
    except nearcall.InvalidArgument as error:
        print(f"error: {error.code.name}, {error.outcome.text}, {error.message}")
