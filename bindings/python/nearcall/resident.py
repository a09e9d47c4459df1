"""Keep a Python program ready between its runs.

What is imported once need not be imported for each run::

    #!/usr/bin/python3
    import sys

    import a_large_framework

    from nearcall import resident


    def run() -> int:
        print("hello", *sys.argv[1:])
        return 0


    if __name__ == "__main__":
        resident.main(run)

The launcher ``nearcall-run`` stands in for the program: ``nearcall-run ./report --since
yesterday``. It passes arguments, environment, directory, umask, resource limits and the
standard streams themselves to a forked child that has imported everything already, and
ends as that ended. The first run starts the resident; after ten minutes without a run it
leaves, and as soon as the program or a module that was imported changes. Started in any
other way the program runs plainly.

What stands before main() sees the arguments, environment, directory and streams (``/dev/null``
and a log) of the resident, not those of a run. Variables of the environment that are read
there, and the directory where it is asked for or a relative path is looked at, are noticed from the
import of this module on, so that it is to be the first: a caller with another value runs the
program plainly. A program that is started there (``subprocess``, ``os.system``, ``os.fork``) has the
directory and all variables. What extensions read by C's getenv() is not noticed: name it in
``environment``; nor is what their C code opens: say ``same_directory``. What was opened there is
shared by the runs, but for files that are read; data bases are for ``warm``. Threads that were
started there do not exist in a run. Hashes of text are the same in all runs of a resident, and with
them the order of sets; the functions of
``random`` are seeded anew, but other generators that were seeded there give all runs the same
numbers: seed them in ``warm`` or in the run.
``/dev/tty`` cannot be opened in a run, whose process has no controlling terminal. It leads
its process group and its session: os.setpgrp(), os.setpgid() and os.setsid() are content
with that.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import NoReturn

from nearcall import _core
from nearcall._resident_notes import notes
from nearcall._resident_reads import reads
from nearcall._values import shown

__all__ = ["main"]

# What Python itself reads when it starts, and never again.
_READ_ONCE = ("PYTHON*", "LANG", "LC_*")

_IDLE_SECONDS_MAX = 1 << 31  # longer than that is never


def main(
    function: Callable[[], int | None],
    *,
    warm: Callable[[], object] | None = None,
    idle: float | None = None,
    workers: int = 0,
    environment: Iterable[str] = (),
    watch: Iterable[str | os.PathLike[str]] = (),
    reread: Iterable[str] = (),
    same_directory: bool | None = None,
    early_input: bool = False,
) -> NoReturn:
    """Run a function as the program, and end with the number it returns as sys.exit() does.

    sys.exit(), exceptions, atexit and threads work in it as in any program; the program is
    not to count on anything that stands around or behind the call of main(). In a plain run
    a first argument ``--no-resident`` is taken from sys.argv. Nothing before it takes the
    first argument away: a resident that cannot see how it was started ends with code 125
    and says so in its log.

    warm: called in each child before it has something to run, and in plain runs: for data
      bases and whatever else cannot be shared.
    idle: after how many seconds without a run the resident leaves; 0 or None: 600,
      negative: never.
    workers: how many children wait; 0: two. There is no limit to how many run.
    environment: names of variables that the program reads before main() where nobody sees
      it, or their beginnings, as ``MYAPP_*``. A run where they have another value than at the
      resident's start is a plain one. For ``PYTHON*``, ``LANG`` and ``LC_*``, the dynamic
      linker and the time zone that holds already, and for what is read by ``os.environ``.
    reread: names of variables that are read before main(), and again in each run: callers
      may have others. Or their beginnings; ``*``: all.
    same_directory: True: only callers in the directory where the resident was started have
      it; the others run plainly. False: callers in any, though the program has looked at its
      directory. None: as it was seen to do.
    early_input: whether the program asks before main() what its standard input is. It was
      ``/dev/null``, and callers with another one run plainly.
    watch: files that the program reads before main(), as its configuration: the resident
      leaves when one of them changes.
    """
    if _core.Resident.started(os.fsencode(sys.argv[1]) if len(sys.argv) > 1 else b""):
        names = tuple(os.fsencode(name) for name in (*_READ_ONCE, *environment))
        handed = _Handed(reread, same_directory, early_input)
        _supervise(workers, idle, names, [os.fspath(path) for path in watch], warm, handed)
    else:
        if sys.argv[1:2] == ["--no-resident"]:
            del sys.argv[1]
        if warm:
            warm()
    code = _run.execute(function)
    _run.end(code)
    raise SystemExit(code)


# ---- The supervisor ----


class _Handed:
    """Tells the handle what the program has read, without what its options except."""

    def __init__(self, reread: Iterable[str], same_directory: bool | None, early_input: bool) -> None:
        self._reread = [os.fsencode(name) for name in reread]
        self._known: set[bytes] = set()
        self._same_directory = same_directory
        self._early_input = early_input

    def to(self, handle: _core.Resident) -> None:
        """What is new since the last time."""
        everything = {b"*"} & reads.variables
        new = {name for name in everything or reads.variables if not self._is_read_again(name)} - self._known
        self._known |= new
        for name in sorted(new):
            handle.reads(_core.RESIDENT_VARIABLE, name)
        if self._same_directory or (self._same_directory is None and reads.directory):
            handle.reads(_core.RESIDENT_DIRECTORY, b"")
            self._same_directory = False
        if self._early_input:
            handle.reads(_core.RESIDENT_INPUT, b"")

    def _is_read_again(self, name: bytes) -> bool:
        return any(name.startswith(again[:-1]) if again.endswith(b"*") else name == again for again in self._reread)


def _supervise(
    workers: int,
    idle: float | None,
    names: tuple[bytes, ...],
    watch: list[str],
    warm: Callable[[], object] | None,
    handed: _Handed,
) -> None:
    """Returns in children that have a run, and nowhere else."""
    code = 1
    try:
        handle = _core.Resident(os.fsencode(sys.argv[0]), workers, _idle_ms(idle), names)
        reads.leave()
        handed.to(handle)
        _watch(handle, watch)
        # What was loaded is not looked at any more, and so stays shared with the children.
        gc.unfreeze()
        gc.collect()
        _run.inherited = _open_for_writing()
        gc.freeze()
        while handle.next():
            _flush(_run.inherited)
            if _fork(handle):
                continue
            if _become_run(handle, warm, handed):
                return
            break
        code = 0
    except BaseException:
        traceback.print_exc()
    _leave(code)


def _idle_ms(idle: float | None) -> int:
    """As nearcall_resident.h has it: 0: its own, negative: never."""
    if idle is None or idle == 0:
        return 0
    if isinstance(idle, bool) or idle != idle:
        raise ValueError(f"idle is {shown(idle)}; it is a number of seconds, negative for never, or None")
    seconds = float(idle)
    return -1 if seconds < 0 or seconds > _IDLE_SECONDS_MAX else max(1, round(seconds * 1000))


def _fork(handle: _core.Resident) -> int:
    try:
        pid = os.fork()
    except OSError:
        pid = -1
    if pid:
        handle.forked(pid)
    return pid


def _open_for_writing() -> list[io.IOBase]:
    """What the children will have of the program's streams, whoever keeps them."""
    opened = []
    for thing in gc.get_objects():
        # Not by isinstance(), which asks objects that stand for others to become them.
        if issubclass(type(thing), io.IOBase):
            with contextlib.suppress(Exception):
                if not thing.closed and thing.writable():
                    opened.append(thing)
    return opened


def _flush(streams: Iterable[io.IOBase]) -> None:
    """What fails here fails again for those who ask, and as in any program for no one else."""
    for stream in (*streams, sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _leave(code: int) -> NoReturn:
    """Without anything that belongs to runs: atexit, destructors."""
    _flush(_run.inherited)
    os._exit(code)


def _watch(handle: _core.Resident, more: list[str]) -> None:
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    for path in {sys.executable, *loaded}:
        if isinstance(path, str) and os.path.isfile(path):
            handle.watch(os.fsencode(path))
    for path in more:
        if not handle.watch(os.fsencode(path)):
            raise FileNotFoundError(f"a file to watch is not there: {path}")


# ---- A run ----


class _Run:
    """What this process runs; nothing in a supervisor and in a plain run."""

    def __init__(self) -> None:
        self.handle: _core.Resident | None = None
        self.code = 0
        self.inherited: list[io.IOBase] = []

    def execute(self, function: Callable[[], int | None]) -> object:
        """What SystemExit is to have. Other exceptions are the interpreter's."""
        self.code = 1
        code: object = None
        try:
            sys.exit(function())
        except SystemExit as end:
            code = end.code
        except BaseException:
            self.share_nothing()
            raise
        self.code = _exit_code(code)
        return code

    def share_nothing(self) -> None:
        """From here on the interpreter may take everything apart."""
        if self.handle:
            gc.unfreeze()

    def tell_end(self) -> None:
        """For the launcher, in case that the supervisor is no more."""
        if self.handle:
            notes.tell_run()
            _flush(self.inherited)
            self.handle.ending(self.code)

    def end(self, code: object) -> None:
        """Ends a run as the interpreter does, but does not take the modules apart: that
        takes longer than most runs, and copies what all of them share. Returns where
        something that the run has made wants to see its own end, or is not as usual."""
        if self.handle and (code is None or isinstance(code, int)) and self._finish():
            _core.Resident.exit(self.code)
        self.share_nothing()

    def _finish(self) -> bool:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()
        _flush(self.inherited)
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):
            return False
        gc.collect()
        return not _has_finalizers()


def _exit_code(code: object) -> int:
    """What the interpreter makes of it; everything that is no number it writes to stderr."""
    if code is None:
        return 0
    if not isinstance(code, int):
        return 1
    return code & 0xFF if -sys.maxsize <= code <= sys.maxsize else 0xFF


def _has_finalizers() -> bool:
    """Whether an object that is not shared with other runs is there and has a __del__."""
    streams = [sys.stdin, sys.stdout, sys.stderr]
    layers = [*streams, *(getattr(stream, "buffer", None) for stream in streams)]
    layers += [getattr(layer, "raw", None) for layer in layers]
    usual = {id(layer) for layer in layers}
    made = gc.get_objects()
    types = {kind for kind in {type(thing) for thing in made} if hasattr(kind, "__del__")}
    return any(type(thing) in types and id(thing) not in usual for thing in made)


_run = _Run()
atexit.register(_run.tell_end)


def _become_run(handle: _core.Resident, warm: Callable[[], object] | None, handed: _Handed) -> bool:
    handle.child()
    if warm:
        reads.enter()
        warm()
        reads.leave()
        handed.to(handle)
    reads.end()
    standard = _standard_streams()
    run = handle.accept()
    if run is None:
        return False
    arguments, environment, ignored = run
    _run.handle = handle
    sys.argv[:] = [os.fsdecode(argument) for argument in arguments]
    sys.orig_argv[-2:] = sys.argv
    _set_environment(environment)
    for number, stream in standard:
        _renew(number, stream)
    _ignore(ignored)
    _lead()
    return True


def _ignore(ignored: list[int]) -> None:
    """Tells Python what it sees when it starts; what is ignored anyway it knows."""
    for number in ignored:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.SIG_IGN)


def _lead() -> None:
    """Leads its process group and its session, as others ask to. The kernel refuses that to
    who does already, where a program that was started would be granted it."""
    own = os.getpid()
    setpgrp, setpgid, setsid = os.setpgrp, os.setpgid, os.setsid

    def leads() -> bool:
        return os.getpid() == own == os.getsid(0)

    def setpgrp_again() -> None:
        if not leads():
            setpgrp()

    def setpgid_again(pid: int, pgrp: int, /) -> None:
        if not (leads() and pid in (0, own) and pgrp in (0, own)):
            setpgid(pid, pgrp)

    def setsid_again() -> None:
        if not leads():
            setsid()

    os.setpgrp, os.setpgid, os.setsid = setpgrp_again, setpgid_again, setsid_again


def _set_environment(variables: list[bytes]) -> None:
    os.environ.clear()
    for variable in variables:
        name, equals, value = variable.partition(b"=")
        if name and equals:
            os.environb[name] = value


def _standard_streams() -> list[tuple[int, io.TextIOWrapper]]:
    """Those that are still as Python made them: others are the program's own."""
    standard = []
    for number, stream in enumerate((sys.__stdin__, sys.__stdout__, sys.__stderr__)):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            if type(stream) is io.TextIOWrapper and type(_raw(stream)) is io.FileIO and stream.fileno() == number:
                standard.append((number, stream))
    return standard


def _raw(stream: io.TextIOWrapper) -> object:
    return getattr(stream.buffer, "raw", stream.buffer)


def _renew(number: int, stream: io.TextIOWrapper) -> None:
    """Makes a stream as Python makes it when it starts: whether it is a terminal, and where
    it stands, is other than it was. It stays what it is, and so does its buffer, for
    whoever has kept one of them, as a handler of logging."""
    binary = stream.buffer
    errors, unbuffered, by_line = stream.errors, stream.write_through, stream.line_buffering
    raw = io.FileIO(number, "wb" if number else "rb", closefd=False)
    raw.name = f"<{('stdin', 'stdout', 'stderr')[number]}>"
    if isinstance(binary, io.FileIO):
        binary = raw
    else:
        binary.__init__(raw, raw._blksize)  # type: ignore[misc, attr-defined]
    io.TextIOWrapper.__init__(
        stream,
        binary,
        stream.encoding,
        errors,
        newline="\n",
        line_buffering=not unbuffered and (number == 2 or by_line or raw.isatty()),
        write_through=unbuffered,
    )
