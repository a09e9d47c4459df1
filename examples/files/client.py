"""The client in Python: python client.py unix:/tmp/files/nearcall.sock"""

import gzip
import os
import sys

import nearcall

with nearcall.Client(sys.argv[1]) as go, go.open_page("hello.txt") as page:
    print("page:", page.read().decode(), end="")

    # Both sides share the position in a file.
    page.seek(0)
    reader, writer = os.pipe()
    with open(reader, "rb") as compressed:
        with open(writer, "wb") as target:
            read = go.compress(page, target)
        # Closed here and by the function, so that the pipe has an end.
        back = gzip.decompress(compressed.read()).decode()
    print(f"compressed: {read} bytes, and back: {back}", end="")
