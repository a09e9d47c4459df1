"""What a program reads before its runs, and of which each caller has its own.

It is noticed from the import of nearcall.resident on, in residents alone: variables of
the environment in the table of ``os.environ``, the current directory where it is asked for
and where a relative path is looked at, and both where a program is started. What Python
itself tells of its doings (``sys.addaudithook``) is taken from there.
"""

from __future__ import annotations

import _posixsubprocess
import os
import site
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nearcall._resident_notes import Noticing, notes

# Shells set these for each command. They are compared only where the program names them.
_OF_COMMANDS = frozenset((b"_", b"SHLVL", b"OLDPWD"))

# Parts of Python which start programs that tell of the machine, and give them all variables.
_OF_MACHINE = frozenset(("ctypes.util", "platform", "uuid"))

# Events that tell of a process which has this one's directory and variables. What a
# process that posix_spawn starts has is given to it.
_PROCESSES = frozenset(("os.fork", "os.forkpty", "os.system"))

# Functions of os whose first argument is a path, and those where it may be left out.
_OF_PATHS = ("open", "stat", "lstat", "access", "readlink", "chdir")
_OF_DIRECTORIES = ("listdir", "scandir")

_SETS = ("supports_dir_fd", "supports_effective_ids", "supports_fd", "supports_follow_symlinks")


class Reads:
    """What was read. It belongs to the process; children have their own from the fork on."""

    def __init__(self) -> None:
        self.variables: set[bytes] = set()
        self.directory = False
        self._is_noticing = False
        self._start = os.environ.get("NEARCALL_RESIDENT_DIRECTORY")
        self._restore: list[Callable[[], None]] = []

    def begin(self) -> None:
        notes.begin()
        self.enter()
        if site.ENABLE_USER_SITE:
            self.variables.add(b"HOME")
        self._replace_table()
        for name in ("getcwd", "getcwdb"):
            self._replace(os, name, self._asks)
        for name in _OF_PATHS:
            self._replace(os, name, self._looks_at)
        for name in _OF_DIRECTORIES:
            self._replace(os, name, self._lists)
        self._replace(_posixsubprocess, "fork_exec", self._executes)
        sys.addaudithook(self._hears)

    def end(self) -> None:
        """From here on nothing is noticed."""
        for restore in self._restore:
            restore()
        self._restore.clear()
        notes.end()

    def enter(self) -> None:
        """Goes to the directory of the launcher, so that the program finds there what it
        would find in a plain run."""
        if self._start:
            try:
                os.chdir(self._start)
            except OSError:
                self.directory = True  # what the program reads is of none that a caller has
        self._is_noticing = True
        notes.enter()

    def leave(self) -> None:
        """When everything is loaded. Modules may still be found by a path that is relative."""
        self._is_noticing = False
        notes.leave()
        if not all(os.path.isabs(path) for path in sys.path if isinstance(path, str)):
            self.directory = True
        if self._start:
            os.chdir("/")

    # ---- Variables ----

    def _replace_table(self) -> None:
        """Both views of the environment have one table."""
        table: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
        noticing = _Table(table, self)

        def restore() -> None:
            plain = dict(noticing.whole())
            os.environ._data = os.environb._data = plain  # type: ignore[attr-defined]

        os.environ._data = os.environb._data = noticing  # type: ignore[attr-defined]
        self._restore.append(restore)

    def notice(self, name: bytes) -> None:
        if not self._is_noticing or name in _OF_COMMANDS or name in self.variables:
            return
        if _reader() not in _OF_MACHINE:
            self.variables.add(name)
            notes.add("variable", os.fsdecode(name))

    # ---- The directory ----

    def _replace(self, module: Any, name: str, notice: Callable[[tuple[Any, ...], dict[str, Any]], None]) -> None:
        """Whoever keeps the replacement has the function all the same."""
        original = getattr(module, name)
        replacement = Noticing(original, notice)
        # Some ask in this way what a function can do.
        for known in (getattr(os, of) for of in _SETS):
            if original in known:
                known.add(replacement)

        def restore() -> None:
            if getattr(module, name) is replacement:
                setattr(module, name, original)

        setattr(module, name, replacement)
        self._restore.append(restore)

    def _asks(self, _arguments: tuple[Any, ...], _options: dict[str, Any]) -> None:
        self._notice_directory()

    def _looks_at(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        path = arguments[0] if arguments else options.get("path", options.get("file", 0))
        if options.get("dir_fd") is None and _is_relative(path):
            self._notice_directory()

    def _lists(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        path = arguments[0] if arguments else options.get("path")
        if path is None or _is_relative(path):
            self._notice_directory()

    # ---- What Python tells ----

    def _hears(self, event: str, arguments: tuple[Any, ...]) -> None:
        """For as long as the process lives: nobody can take it away again."""
        if not self._is_noticing:
            return
        if event == "open" and arguments[1] is not None:  # that is os.open's, which may have a dir_fd
            self._looks_at(arguments[:1], {})
        elif event == "sqlite3.connect":
            self._looks_at((_file_of(arguments[0]),), {})
        elif event == "subprocess.Popen":
            self._notice_process(arguments[2], arguments[3])
        elif event == "os.posix_spawn":
            self._notice_process(None, arguments[2])
        elif event in _PROCESSES:
            self._notice_process(None, None)

    def _executes(self, arguments: tuple[Any, ...], _options: dict[str, Any]) -> None:
        """As multiprocessing does, of which nothing is told."""
        self._notice_process(arguments[4], arguments[5])

    def _notice_process(self, directory: Any, variables: Any) -> None:
        """None: it has this process's own. Nobody sees what it looks at."""
        if not self._is_noticing or _reader() in _OF_MACHINE:
            return
        if variables is None:
            self.variables.add(b"*")
        if directory is None or _is_relative(directory):
            self._notice_directory()

    def _notice_directory(self) -> None:
        if self._is_noticing and not self.directory:
            self.directory = True
            notes.add("directory", "")


class _Table(dict[bytes, bytes]):
    """The variables, which notes what is asked for, whether it is there or not."""

    def __init__(self, variables: dict[bytes, bytes], reads: Reads) -> None:
        super().__init__(variables)
        self._reads = reads

    def whole(self) -> Iterable[tuple[bytes, bytes]]:
        return super().items()

    def __getitem__(self, name: bytes) -> bytes:
        self._reads.notice(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        if isinstance(name, bytes):
            self._reads.notice(name)
        return super().__contains__(name)

    def __iter__(self) -> Iterator[bytes]:
        self._reads.notice(b"*")
        return super().__iter__()

    def __len__(self) -> int:
        self._reads.notice(b"*")
        return super().__len__()

    def items(self) -> Any:
        self._reads.notice(b"*")
        return super().items()


def _reader() -> str:
    """The module that asks, behind what only passes it on."""
    frame = sys._getframe(2)
    own = (__name__, Noticing.__module__, "os", "_collections_abc", "subprocess")
    while frame.f_back and frame.f_globals.get("__name__") in own:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


def _is_relative(path: Any) -> bool:
    """Names such as <string> are those of code without a file."""
    try:
        text = os.fspath(path)
    except TypeError:
        return False  # a descriptor, or an error of the program's
    return not text.startswith(("/", "<") if isinstance(text, str) else (b"/", b"<"))


def _file_of(database: Any) -> Any:
    """What a data base of SQLite is in: a path, or a descriptor, which is none."""
    text = os.fsdecode(database).removeprefix("file:")
    return 0 if text == "" or text.startswith(":memory:") else text


def _is_resident() -> bool:
    return getattr(sys, "argv", [])[1:2] == ["--nearcall-resident"] and os.environ.get("LISTEN_PID") == str(os.getpid())


reads = Reads()
if _is_resident():
    reads.begin()
