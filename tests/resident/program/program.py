"""What the tests of tests/resident make resident, in Python."""

import ctypes
import importlib.util
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from types import FrameType

from nearcall import resident

VERSION = "1"
EXIT_BROKEN = 99
# Of the process that loads this: a resident's children have it from there.
RESIDENT = "--nearcall-resident" in sys.argv

if RESIDENT:
    print("a resident starts", file=sys.stderr, flush=True)


if "PROGRAM_LIBRARY" in os.environ:
    ctypes.CDLL(os.environ["PROGRAM_LIBRARY"])

if "PROGRAM_CHANGES" in os.environ:
    os.environ["SET"] = "by the program"
    os.environ["CHANGED"] = "more than " + os.environ["CHANGED"]
    del os.environ["REMOVED"]


def look_early(what: str) -> str:
    """What a program can have looked at before its runs."""
    if what == "variable":
        return os.getenv("EARLY", "none")
    if what == "variables":
        return str(sorted(value for name, value in os.environ.items() if name.startswith("EARLY")))
    if what == "directory":
        return os.getcwd()
    if what == "file":
        return str(os.path.exists("where"))
    if what == "module":
        sys.path.append("")
        return str(importlib.util.find_spec("early") is not None)
    if what == "input":
        return str(stat.S_IFMT(os.fstat(0).st_mode))
    return ""


EARLY = look_early(os.environ.get("PROGRAM_EARLY", ""))


def state(text: str) -> dict[str, object]:
    umask = os.umask(0)
    os.umask(umask)
    try:
        with open("where", encoding="utf-8") as file:
            where = file.read()
    except OSError:
        where = ""
    try:
        directory = os.getcwd()
    except OSError:
        directory = ""
    return {
        "args": sys.argv,
        "mark": os.environ.get("MARK", ""),
        "extra": os.environ.get("EXTRA", ""),
        "names": sorted(os.environ),
        "dir": directory,
        "where": where,
        "umask": umask,
        "input": text,
        "resident": os.getppid() if RESIDENT else 0,
        "pid": os.getpid(),
        "version": VERSION,
        "wrong": "",
    }


def tell(text: str, code: str) -> int:
    print(json.dumps(state(text)), flush=True)
    print("mark", os.environ.get("MARK", ""), file=sys.stderr)
    return int(code)


def report(code: str, *_: str) -> int:
    return tell(sys.stdin.read(), code)


def meet(code: str, *_: str) -> int:
    tell("", code)
    return tell(sys.stdin.read(), code)


def say(*words: str) -> None:
    print(*words)


def changed() -> None:
    print([os.environ.get(name, "none") for name in ("SET", "CHANGED", "REMOVED", "OTHER")])
    sys.stdout.flush()
    subprocess.run(["sh", "-c", 'echo "$SET,$CHANGED,${REMOVED-none},$OTHER"'], check=True)


def lead() -> None:
    os.setpgrp()
    os.setpgid(0, 0)
    if os.getpgrp() != os.getpid():
        raise RuntimeError("it leads no group")
    child = os.fork()
    if child == 0:
        os.setpgrp()
        os._exit(0 if os.getpgrp() == os.getpid() else 1)
    print("leads", os.waitpid(child, 0)[1])


def ignored() -> None:
    names = ("SIGHUP", "SIGINT", "SIGPIPE", "SIGUSR1", "SIGTERM")
    print([name for name in names if signal.getsignal(getattr(signal, name)) is signal.SIG_IGN], flush=True)
    os.system("grep SigIgn /proc/self/status")


def copy() -> None:
    for text in sys.stdin:
        sys.stdout.write(text)


def take(count: str) -> None:
    sys.stdout.write(os.read(0, int(count)).decode())


def yes() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    while True:
        print("y")


def write(count: str) -> int:
    try:
        os.write(1, b"*" * int(count))
    except OSError:
        return 1
    return 0


def ledger(name: str, key: str, code: str) -> int:
    with open(name, "a", encoding="utf-8") as file:
        file.write(f"{key} {str(RESIDENT).lower()}\n")
    time.sleep(0.005)  # as in verbs.go
    print(key)
    return int(code)


def change(*_: str) -> None:
    os.umask(0o123)
    os.environ["EXTRA"] = "left behind"
    del os.environ["MARK"]
    sys.argv = ["changed"]
    os.chdir("/")


def limits(name: str) -> None:
    which = {"core": resource.RLIMIT_CORE, "files": resource.RLIMIT_NOFILE, "bytes": resource.RLIMIT_FSIZE}
    print(resource.getrlimit(which[name])[1] & 0xFFFFFFFFFFFFFFFF)


def leave(code: str) -> None:
    sys.exit(int(code))


def at_once(code: str) -> None:
    os._exit(int(code))


def panic() -> None:
    raise RuntimeError("as it was told")


def signal_self(number: str) -> None:
    signal.signal(int(number), signal.SIG_DFL) if int(number) not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), int(number))
    signal.pause()


def close_output() -> int:
    print("before", flush=True)
    os.close(1)
    os.open("/dev/null", os.O_WRONLY)
    return 3


def child(name: str) -> None:
    subprocess.Popen(["sh", "-c", 'while [ ! -e "$0" ]; do sleep 0.02; done; echo late', name])
    print("early")


class Signals:
    """Returns to the interpreter for each signal from its making on.

    pause() alone sleeps through one that comes just before it: it is noticed then, and
    its handler runs when pause() returns.
    """

    def __init__(self) -> None:
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        # A signal without a handler in Python is not told of, and ends the process.

    def wait_for_ever(self) -> None:
        while True:
            os.read(self._reader, 1)


def wait() -> None:
    signals = Signals()
    print("waiting", os.getpid(), flush=True)
    signals.wait_for_ever()


def linger(code: str, name: str) -> int:
    print("waiting", os.getpid(), flush=True)
    while not os.path.exists(name):
        time.sleep(0.001)
    return tell("", code)


def size() -> None:
    # Not by print, in which a handler that prints may begin.
    def show(word: str) -> None:
        columns, lines = os.get_terminal_size()
        os.write(1, f"{word} {lines} {columns}\n".encode())

    def show_again(_number: int, _frame: FrameType | None) -> None:
        show("resized")

    signal.signal(signal.SIGWINCH, show_again)
    signals = Signals()
    show("size")
    signals.wait_for_ever()


def line() -> None:
    import readline  # noqa: F401  # input() edits by it

    print("got [" + input(f"line of {os.getpid()}> ") + "]")


def raw() -> None:
    subprocess.run(["stty", "raw", "-echo"], check=True)
    signals = Signals()
    print("raw", os.getpid(), end="\r\n", flush=True)
    signals.wait_for_ever()


def pager(*command: str) -> None:
    subprocess.run(command, check=True)
    print("after the pager")


VERBS = {
    "report": report,
    "meet": meet,
    "say": say,
    "interpreter": lambda: print(os.path.dirname(sys.executable)),
    "changed": changed,
    "early": lambda: print(EARLY),
    "copy": copy,
    "take": take,
    "lead": lead,
    "ignored": ignored,
    "yes": yes,
    "write": write,
    "ledger": ledger,
    "change": change,
    "limits": limits,
    "exit": at_once,
    "leave": leave,
    "panic": panic,
    "signal": signal_self,
    "close": close_output,
    "child": child,
    "wait": wait,
    "linger": linger,
    "size": size,
    "line": line,
    "raw": raw,
    "pager": pager,
}


def main() -> int | None:
    if len(sys.argv) < 2 or sys.argv[1] not in VERBS:
        print("program: no verb", file=sys.stderr)
        return EXIT_BROKEN
    return VERBS[sys.argv[1]](*sys.argv[2:])  # type: ignore[operator]


resident.main(main, early_input=os.environ.get("PROGRAM_EARLY") == "input")
