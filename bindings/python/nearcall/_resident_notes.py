"""Tells 'nearcall resident check' what a program touches before its runs, and what a run loads.

Only in residents, and only where the variable names a file to write to: spec/resident.md.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

_VARIABLE = "NEARCALL_RESIDENT_NOTES"

# Not to be noticed itself.
_getcwd = os.getcwd

# More of a kind tells nobody more.
_NOTES_MAX = 100

# They ask for others.
_IMPORTING = frozenset((
    "_frozen_importlib",
    "_frozen_importlib_external",
    "importlib",
    "importlib._bootstrap",
    "importlib._bootstrap_external",
))
_PASSING_ON = _IMPORTING | frozenset((
    *(__name__, "nearcall._resident_reads", "os", "collections.abc", "codecs", "random"),
    *("posixpath", "genericpath", "pathlib", "pathlib._local"),
))

# It keeps the time of its import to tell how old a message is, and nothing else of it.
_HARMLESS = frozenset(("logging",))

_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "localtime", "gmtime", "ctime", "strftime")


class Noticing:
    """A function that tells of its calls first. It is no function itself: as a member of a
    class it is not to become a method, as those that it replaces do not."""

    def __init__(self, original: Any, notice: Callable[[tuple[Any, ...], dict[str, Any]], None]) -> None:
        functools.update_wrapper(self, original)
        self._original = original
        self._notice = notice

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self._notice(arguments, options)
        return self._original(*arguments, **options)


class Notes:
    """What was noted. It belongs to the process; children have their own from the fork on."""

    def __init__(self) -> None:
        self._path = ""
        self._is_noting = False
        self._found: dict[tuple[str, str, str], None] = {}  # in this order
        self._restore: list[Callable[[], None]] = []
        self._numbers: Callable[[], object] = object
        self._numbers_then: object = None
        self._loading = _Loading()

    def begin(self) -> None:
        self._path = os.environ.get(_VARIABLE, "")
        if not os.path.isabs(self._path):
            self._path = ""
            return
        import random

        self._numbers = random.getstate
        self._numbers_then = random.getstate()
        for name in _CLOCKS:
            self._stand_before(time, name, "time", 1 if name in ("localtime", "gmtime", "ctime") else 2)
        self._stand_before(os, "urandom", "randomness", 2)
        sys.addaudithook(self._hears)

    def enter(self) -> None:
        self._is_noting = bool(self._path)

    def leave(self) -> None:
        """When everything is loaded."""
        if not self._is_noting:
            return
        if self._numbers() != self._numbers_then:
            self.add("randomness", "random", "")
        self._is_noting = False
        self._write("before")

    def end(self) -> None:
        """From here on it is a run: what it loads is noted, and nothing else."""
        if not self._path:
            return
        for restore in self._restore:
            restore()
        self._restore.clear()
        sys.meta_path.insert(0, self._loading)

    def tell_run(self) -> None:
        if not self._path:
            return
        self._found = {("module", name, ""): None for name in self._loading.loaded()}
        self._write("run")

    def add(self, kind: str, name: str, by: str | None = None) -> None:
        if self._is_noting and len(self._found) < _NOTES_MAX:
            who = by if by is not None else _who()
            if who is not None:
                self._found[kind, name, who] = None

    # ---- What is heard of ----

    def _stand_before(self, module: Any, name: str, kind: str, arguments: int) -> None:
        """With so many arguments it is not asked what is now."""
        original = getattr(module, name)

        def notice(given: tuple[Any, ...], _options: dict[str, Any]) -> None:
            if len(given) < arguments:
                self.add(kind, f"{module.__name__}.{name}")

        replacement = Noticing(original, notice)

        def restore() -> None:
            if getattr(module, name) is replacement:
                setattr(module, name, original)

        setattr(module, name, replacement)
        self._restore.append(restore)

    def _hears(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_noting or event not in _HEARD:
            return
        with contextlib.suppress(Exception):  # what is thrown here is thrown by what is heard
            kind, name = _HEARD[event](arguments)
            if name and not (kind == "file" and _is_of_programs(name)):
                self.add(kind, name)

    def _write(self, when: str) -> None:
        """In one piece: other runs may write, too."""
        text = "".join("\t".join(map(_printable, (when, kind, by, name))) + "\n" for kind, name, by in self._found)
        try:
            with open(self._path, "ab", buffering=0) as file:
                file.write(text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            print(f"nearcall: {self._path}: {error}", file=sys.stderr)


class _Loading:
    """Sees which modules are looked for, and finds none."""

    def __init__(self) -> None:
        self._wanted: list[str] = []

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if not any(_is_module(frame, self._wanted) for frame in _frames()):
            self._wanted.append(name)

    def loaded(self) -> Iterable[str]:
        """Those that were there, without packages of which a part was loaded, too."""
        there = [name for name in self._wanted if name in sys.modules]
        return [name for name in there if not any(other.startswith(name + ".") for other in there)]


def _printable(text: str) -> str:
    return "".join(c if c >= " " else "?" for c in text)


def _frames() -> Iterable[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame:
        yield frame
        frame = frame.f_back


def _is_module(frame: Any, names: list[str]) -> bool:
    """Whether it is the code of one of these modules: what that loads comes with it."""
    return frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") in names


def _who() -> str | None:
    """The line that asks, or one that has a part of Python ask; None where it does not matter."""
    asking = [frame for frame in _frames() if frame.f_globals.get("__name__") not in _PASSING_ON]
    if not asking:
        return ""
    if asking[0].f_globals.get("__name__") in _HARMLESS:
        return None
    library = os.path.dirname(os.__file__) + "/"
    shown = next((frame for frame in asking if not _is_library(frame, library)), asking[0])
    return f"{shown.f_globals.get('__name__')}:{shown.f_lineno}"


def _is_library(frame: Any, library: str) -> bool:
    path = frame.f_code.co_filename
    return path.startswith((library, "<frozen ")) and "-packages/" not in path


def _path(arguments: tuple[Any, ...]) -> tuple[str, str]:
    """Not of a module that is loaded: those are watched."""
    path = arguments[0]
    if isinstance(path, int) or path == ":memory:" or sys._getframe(2).f_globals.get("__name__") in _IMPORTING:
        return "file", ""
    return "file", os.path.normpath(os.path.join(_getcwd(), os.fsdecode("." if path is None else path)))


def _is_of_programs(path: str) -> bool:
    """Of Python, or of a package: it changes when modules do."""
    folders = [os.path.dirname(os.__file__), *(folder for folder in sys.path if folder.endswith("-packages"))]
    return path.startswith("/dev/") or any(path.startswith(folder + "/") for folder in folders)


_HEARD: dict[str, Callable[[tuple[Any, ...]], tuple[str, str]]] = {
    "open": _path,
    "os.listdir": _path,
    "os.mkdir": _path,
    "os.rename": _path,
    "os.remove": _path,
    "os.scandir": _path,
    "sqlite3.connect": _path,
    "socket.connect": lambda arguments: ("socket", f"connects to {arguments[1]!r}"),
    "socket.bind": lambda arguments: ("socket", f"listens at {arguments[1]!r}"),
    "socket.getaddrinfo": lambda arguments: ("socket", f"looks for {arguments[0]!r}"),
    "socket.gethostbyname": lambda arguments: ("socket", f"looks for {arguments[0]!r}"),
    "subprocess.Popen": lambda arguments: ("process", os.fsdecode(arguments[0] or arguments[1][0])),
    "os.system": lambda arguments: ("process", os.fsdecode(arguments[0])),
    "os.fork": lambda _arguments: ("process", "os.fork"),
}

notes = Notes()
