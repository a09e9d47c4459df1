"""Files and connections: objects of Python into descriptors, and back."""

from __future__ import annotations

import fcntl
import io
import os
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from nearcall._values import Refusal

if TYPE_CHECKING:
    import socket


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


def make_file(descriptor: int) -> BinaryIO:
    """Returns a file object that owns the descriptor. Whether it blocks is for us to say, because the
    giver has closed its own descriptor: files of Python block."""
    try:
        os.set_blocking(descriptor, True)
        access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        if access == os.O_RDONLY:
            return open(descriptor, "rb")
        if access == os.O_WRONLY:
            return open(descriptor, "wb")
        if is_positioned(descriptor):
            return open(descriptor, "r+b")
        return cast(BinaryIO, io.FileIO(descriptor, "r+"))
    except BaseException:
        os.close(descriptor)
        raise


def is_positioned(descriptor: int) -> bool:
    try:
        os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return False
    return True


def make_connection(descriptor: int) -> socket.socket:
    """Returns a socket that owns the descriptor."""
    import socket

    try:
        made = socket.socket(fileno=descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    made.settimeout(socket.getdefaulttimeout())
    return made
