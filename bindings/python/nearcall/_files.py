"""Files and connections: objects of Python into descriptors."""

from __future__ import annotations

import io
import os
from typing import Any

from nearcall._values import Refusal


def descriptor_of(value: Any) -> int:
    """Returns the descriptor of an object with fileno(). The function should find the file at the place
    where the program is: what was buffered is written, and what was read ahead is given back."""
    try:
        number: int = value.fileno()
    except ValueError as error:
        if isinstance(error, io.UnsupportedOperation) or getattr(value, "closed", False) is True:
            raise Refusal from error
        raise
    place = None
    if isinstance(value, (io.BufferedReader, io.TextIOWrapper)) and value.seekable():
        place = place_of(value)  # first: a text file forgets by flush() that next() was used
    flush = getattr(value, "flush", None)
    if flush is not None:
        flush()
    if place is not None:
        os.lseek(number, place, os.SEEK_SET)
    return number


PLACE_MAX = 2**63 - 1


def place_of(file: io.BufferedReader | io.TextIOWrapper) -> int:
    """Returns how many bytes the program has read. A text file does not know this within a line that is
    read by next(), nor while its decoder holds a part of a character: that is more than a place."""
    try:
        place = file.tell()
    except OSError as error:
        raise Refusal from error
    if place > PLACE_MAX:
        raise Refusal
    return place
