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
standard streams themselves to a child that is forked from the resident, a process that has
imported everything already, and ends as the child ended. The first run starts the resident.
The resident leaves after ten minutes without a run, and as soon as the program or a module
that was imported changes. Started in any other way, the program runs plainly, as if this
module were not there.

What stands before main() sees the arguments, environment, directory and streams (``/dev/null``
and a log) of the resident, not those of a run. Some of this is noticed, from the import of this
module on, which should therefore come first: variables of the environment that are read, and
the directory if it is asked for or a relative path is used. For a caller for whom these are
different the program runs plainly. A program that is started before main() (by ``subprocess``,
``os.system`` or ``os.fork``) counts as reading the directory and all variables.

Two things are not noticed. If an extension reads a variable by C's getenv(), name the variable
in ``environment``; if its C code opens files by relative paths, set ``same_directory``.

Whatever is opened before main() is shared by the runs, except files that are open for reading.
Connect to data bases in ``warm``. Threads that were started before main() do not exist in a run.
The hashes of strings, and with them the order of sets, are the same in all runs of a resident.
The functions of ``random`` are seeded anew in each run, but other generators that were seeded
before main() give all runs the same numbers: seed them in ``warm`` or in the run.

The process of a run has no controlling terminal, so ``/dev/tty`` cannot be opened. It already
leads its process group and its session; os.setpgrp(), os.setpgid() and os.setsid() accept that.
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
    """Run a function as the program, and end with the number it returns, as sys.exit() does.

    sys.exit(), exceptions, atexit and threads work in the function as in any program. The program
    must not rely on anything around or behind the call of main(), which does not return. In a plain
    run main() removes ``--no-resident`` from sys.argv if that is the first argument. Nothing before
    main() may remove the first argument: a resident that cannot see how it was started ends with
    code 125 and says so in its log.

    warm: called in each child before it gets a run, and in plain runs, for data bases and
      whatever else cannot be shared.
    idle: the number of seconds without a run after which the resident leaves; 0 and None mean
      600, and a negative number means never.
    workers: how many children wait for runs; 0 means two. Any number of children may run.
    environment: names of variables, or of their beginnings such as ``MYAPP_*``, that the program
      reads before main() in a way that is not noticed. If they have other values than at the
      start of the resident, the program runs plainly. This is already done for ``PYTHON*``,
      ``LANG`` and ``LC_*``, the dynamic linker and the time zone, and for what is read through
      ``os.environ``.
    reread: names of variables, or of their beginnings, that are read before main() and again in
      each run, so that callers may have other values. ``*`` stands for all variables.
    same_directory: if True, only callers in the directory in which the resident was started are
      served by it; for others the program runs plainly. If False, callers in any directory are
      served, even if the program has looked at its directory. None: it depends on whether the
      program was seen to look.
    early_input: whether the program asks before main() what its standard input is. In the
      resident that was ``/dev/null``, so for callers with another one the program runs plainly.
    watch: files that the program reads before main(), such as its configuration. The resident
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
    """Tells the handle what the program has read, except what its options leave out."""

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
    """Returns only in children that have a run."""
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
    """Converts to the form of nearcall_resident.h: 0 is its default, and a negative number means never."""
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
    """Returns the program's streams that children will write to, whoever else holds them."""
    opened = []
    for thing in gc.get_objects():
        # Not by isinstance(), which asks objects that stand for others to become them.
        if issubclass(type(thing), io.IOBase):
            with contextlib.suppress(Exception):
                if not thing.closed and thing.writable():
                    opened.append(thing)
    return opened


def _flush(streams: Iterable[io.IOBase]) -> None:
    """Flushes a stream. What fails here fails again for those who ask, and, as in any program, for nobody else."""
    for stream in (*streams, sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _leave(code: int) -> NoReturn:
    """Ends the process without anything that belongs to runs, such as atexit functions and destructors."""
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
    """What this process runs. It is empty in a supervisor and in a plain run."""

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
        """Tells the launcher how the run ends, in case the supervisor has gone."""
        if self.handle:
            notes.tell_run()
            _flush(self.inherited)
            self.handle.ending(self.code)

    def end(self, code: object) -> None:
        """Ends a run as the interpreter does, but without taking the modules apart: that takes longer
        than most runs, and copies what all of them share. It returns if something that the run has
        made needs to see its own end, or is not as usual."""
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
    """Returns what the interpreter makes of a code; anything that is not a number it writes to stderr."""
    if code is None:
        return 0
    if not isinstance(code, int):
        return 1
    return code & 0xFF if -sys.maxsize <= code <= sys.maxsize else 0xFF


def _has_finalizers() -> bool:
    """Whether there is an object with a __del__ that is not shared with other runs."""
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
    """Tells Python about a signal that is ignored, as Python sees it when it starts."""
    for number in ignored:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.SIG_IGN)


def _lead() -> None:
    """Answers a request to lead its process group or session, which it already does. The kernel would
    refuse that, although it grants it to a program that was started."""
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
    """Returns the streams that are still as Python made them. Others belong to the program."""
    standard = []
    for number, stream in enumerate((sys.__stdin__, sys.__stdout__, sys.__stderr__)):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            if type(stream) is io.TextIOWrapper and type(_raw(stream)) is io.FileIO and stream.fileno() == number:
                standard.append((number, stream))
    return standard


def _raw(stream: io.TextIOWrapper) -> object:
    return getattr(stream.buffer, "raw", stream.buffer)


def _renew(number: int, stream: io.TextIOWrapper) -> None:
    """Makes a stream anew as Python does when it starts, because whether it is a terminal, and its
    position, have changed. The object and its buffer stay the same for whoever has kept one of
    them, such as a handler of logging."""
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
