"""nearcall.resident: what a run is given, what of a process is its own, how it ends."""

from __future__ import annotations

import os
import pty
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher import ENDING, EXITED, KILLED, PLAINLY, RUNNING, STATUS, Resident
from support import wait_until

HEAD = """\
import os, sys
from nearcall import resident

"""

TAIL = """
if __name__ == "__main__":
    resident.main(run)
"""


@pytest.fixture(autouse=True)
def _no_variables_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have set some."""
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        monkeypatch.delenv(name)


@pytest.fixture
def write(folder: Path) -> Callable[..., Path]:
    """Writes a program: what stands before run(), and the body of run()."""

    def write(body: str, before: str = "", main: str = TAIL, options: str = "") -> Path:
        path = folder / "program.py"
        text = f"#!{sys.executable} {options}".rstrip() + "\n" + HEAD + textwrap.dedent(before)
        path.write_text(f"{text}\ndef run():\n{textwrap.indent(textwrap.dedent(body), '    ')}\n{main}")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def start(folder: Path, write: Callable[..., Path]) -> Iterator[Callable[..., Resident]]:
    """Starts a program's resident."""
    residents: list[Resident] = []

    def start(*arguments: str, environment: dict[str, str] | None = None, **options: str) -> Resident:
        residents.append(Resident(write(*arguments, **options), folder, environment))
        return residents[-1]

    yield start
    for resident in residents:
        resident.close()


# ---- What a run is given ----


def test_a_run_has_what_its_launcher_gives(start: Callable[..., Resident], folder: Path) -> None:
    resident = start(
        """
        print(sys.argv[1:], os.getcwd(), f"{os.umask(0):o}", sorted(n for n in os.environ if n.startswith("MINE")))
        print(sys.stdin.read())
        print(os.getpgrp() == os.getpid() == os.getsid(0), file=sys.stderr)
        """
    )
    environment = {**resident.environment, "MINE_TWO": "2"}
    result = resident.run("a", "b c", stdin=b"in\n", environment=environment, directory=str(folder), umask=0o027)
    assert result.output == f"['a', 'b c'] {folder} 27 ['MINE_TWO']\nin\n\n"
    assert result.errors == "True\n"
    assert result.code == 0
    assert result.kinds == [RUNNING, ENDING, EXITED]


def test_nothing_of_one_run_is_in_another(start: Callable[..., Resident]) -> None:
    resident = start(
        """
        print(os.environ.get("LEFT"), state, os.getcwd(), flush=True)
        state.append(1)
        os.environ["LEFT"] = "1"
        os.chdir("/tmp")
        """,
        "state = []",
    )
    for _ in range(4):
        assert resident.run().output == "None [] /\n"


def test_arguments_and_variables_are_bytes(start: Callable[..., Resident]) -> None:
    resident = start("print(os.fsencode(sys.argv[1]), os.environb[b'MINE'])")
    environment = {**resident.environment, "MINE": os.fsdecode(b"\xfe")}
    assert resident.run(b"\xff\xe4", environment=environment).output == "b'\\xff\\xe4' b'\\xfe'\n"


def test_the_name_is_as_in_a_plain_run(start: Callable[..., Resident]) -> None:
    resident = start("print(sys.argv[0], sys.orig_argv[1:], open('/proc/self/comm').read().strip())")
    path = str(resident.program)
    assert resident.run("x").output == f"{path} {[path, 'x']} program.py\n"


def test_modules_are_imported_once(start: Callable[..., Resident]) -> None:
    resident = start("print(os.getppid() == loaded)", "print('loading')\nloaded = os.getpid()")
    assert [resident.run().output for _ in range(5)] == ["True\n"] * 5
    assert resident.log.read_text() == "loading\n"


def test_what_is_started_while_it_loads_does_not_listen(start: Callable[..., Resident]) -> None:
    resident = start("pass", "print(os.get_inheritable(3), flush=True)")
    assert resident.run().code == 0
    assert resident.log.read_text() == "False\n"


# ---- Streams ----

SHOW_STREAMS = """
    with open(sys.argv[1], "w") as out:
        for s in (sys.stdin, sys.stdout, sys.stderr):
            raw = getattr(s.buffer, "raw", s.buffer)
            print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(), s.seekable(),
                  type(s.buffer).__name__, raw.name, raw.fileno(), s.tell() if s.seekable() else None, file=out)
        print(sys.__stdin__ is sys.stdin, sys.__stdout__ is sys.stdout, sys.__stderr__ is sys.stderr, file=out)
    """


@pytest.fixture(params=["pipe", "file", "terminal", "null"])
def descriptors(request: pytest.FixtureRequest, folder: Path) -> Iterator[list[int]]:
    """Standard streams of a kind."""
    if request.param == "pipe":
        opened = [*os.pipe()]
        streams = [opened[0], opened[1], opened[1]]
    elif request.param == "file":
        (folder / "file").write_text("0123456789")
        opened = [os.open(folder / "file", os.O_RDWR)]
        os.lseek(opened[0], 4, os.SEEK_SET)
        streams = opened * 3
    elif request.param == "terminal":
        opened = [*pty.openpty()]
        streams = [opened[1]] * 3
    else:
        opened = [os.open(os.devnull, os.O_RDWR)]
        streams = opened * 3
    yield streams
    for descriptor in opened:
        os.close(descriptor)


@pytest.mark.parametrize("options", ["", "-u"])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
def test_streams_are_as_python_makes_them(
    start: Callable[..., Resident], folder: Path, descriptors: list[int], options: str, locale: str
) -> None:
    environment = {**os.environ, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0"}
    resident = start(SHOW_STREAMS, environment=environment, options=options)
    streams = dict(zip(("stdin", "stdout", "stderr"), descriptors, strict=True))
    subprocess.run([resident.program, folder / "plain"], check=True, env=environment, **streams)
    connection = resident.begin([str(folder / "resident")], descriptors)
    assert connection.frames()[-1][:2] == (EXITED, 0)
    connection.close()
    assert (folder / "resident").read_text() == (folder / "plain").read_text()


def test_who_has_kept_a_stream_writes_to_the_caller(start: Callable[..., Resident]) -> None:
    resident = start(
        """
        logging.warning("one")
        print("two", file=kept)
        print("three")
        """,
        "import logging\nkept = sys.stdout\nlogging.basicConfig(stream=sys.stderr, format='%(message)s')",
    )
    result = resident.run()
    assert (result.output, result.errors, result.code) == ("two\nthree\n", "one\n", 0)


@pytest.mark.parametrize(
    ("before", "body", "output"),
    [
        (
            "import logging\nlogging.basicConfig(stream=sys.stdout, format='%(message)s')",
            "print('one'); logging.warning('two'); print('three')",
            "one\ntwo\nthree\n",
        ),
        (
            "kept = sys.stdout.buffer",
            "print('one', flush=True); kept.write(b'two\\n'); print('three')",
            "one\ntwo\nthree\n",
        ),
        (
            "import io\nsys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-16-le')",
            "print('one')",
            "o\0n\0e\0\n\0",
        ),
        ("sys.stdout.close()", "os.write(1, b'one')", "one"),
        ("sys.stdout.detach()", "os.write(1, b'one')", "one"),
        ("import codecs\nsys.stdout = codecs.getwriter('utf-8')(sys.stdout.buffer)", "print('one')", "one\n"),
        ("sys.stdout = sys.__stdout__ = None", "print('no'); os.write(1, b'one')", "one"),
        ("import ctypes\nc = ctypes.CDLL(None)\nc.printf(b'before')", "c.printf(b'one\\n')", "one\n"),
    ],
    ids=["logging", "buffer", "detached", "closed", "detached away", "codecs", "none", "c"],
)
def test_output_is_as_in_a_plain_run(start: Callable[..., Resident], before: str, body: str, output: str) -> None:
    resident = start(body, before)
    plain = subprocess.run([resident.program], capture_output=True, text=True, check=False)
    assert plain.stdout.removeprefix("before") == output
    for _ in range(3):
        result = resident.run()
        assert (result.errors, result.output, result.code) == (plain.stderr, output, plain.returncode)


@pytest.mark.parametrize(
    "opened", ["open({!r}, 'a')", "open({!r}, 'ab')", "os.fdopen(os.open({!r}, os.O_APPEND | 2), 'r+b')"]
)
def test_files_that_are_written_have_each_byte_once(start: Callable[..., Resident], folder: Path, opened: str) -> None:
    out = folder / "out"
    out.touch()
    resident = start(
        "file.write(b'run\\n' if is_binary else 'run\\n')",
        f"""
        file = {opened.format(str(out))}
        is_binary = 'b' in file.mode
        file.write(b'before\\n' if is_binary else 'before\\n')
        """,
    )
    for _ in range(3):
        assert resident.run().code == 0
    assert out.read_text() == "before\n" + "run\n" * 3


def test_output_before_the_fork_comes_once(start: Callable[..., Resident]) -> None:
    resident = start("sys.stdout.write('run')", "sys.stdout.write('before')")
    assert [resident.run().output for _ in range(3)] == ["run"] * 3
    assert resident.log.read_text() == "before"


def test_a_full_device_is_told_as_in_a_plain_run(start: Callable[..., Resident]) -> None:
    resident = start("print('x' * 10)")
    with open("/dev/full", "w") as full, open(os.devnull, "r+") as null:
        plain = subprocess.run([resident.program], stdin=null, stdout=full, stderr=null, check=False).returncode
        connection = resident.begin([], [null.fileno(), full.fileno(), null.fileno()])
        assert connection.frames()[-1][:2] == (EXITED, plain)
        connection.close()
    assert plain == 120


def test_files_that_are_read_are_each_run_s_own(start: Callable[..., Resident], folder: Path) -> None:
    (folder / "lines").write_text("".join(f"{number}\n" for number in range(100_000)))
    resident = start(
        "print(lines.readline().strip(), sum(1 for line in lines), lines.fileno() == number)",
        f"lines = open({str(folder / 'lines')!r})\nlines.readline()\nnumber = lines.fileno()",
    )
    assert [resident.run().output for _ in range(3)] == ["1 99998 True\n"] * 3


# ---- Ends ----


@pytest.mark.parametrize(
    ("body", "code", "errors"),
    [
        ("return 7", 7, ""),
        ("return None", 0, ""),
        ("sys.exit(9)", 9, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('why')", 1, "why\n"),
        ("sys.exit(ValueError('why'))", 1, "why\n"),
        ("sys.exit((1, 2))", 1, "(1, 2)\n"),
        ("raise SystemExit((1,))", 1, "(1,)\n"),
        ("sys.exit(b'why')", 1, "b'why'\n"),
        ("sys.exit(1.5)", 1, "1.5\n"),
        ("return [1]", 1, "[1]\n"),
        ("return False", 0, ""),
        ("return -1", 255, ""),
        ("return 2**70", 255, ""),
        ("return 256 + 4", 4, ""),
        ("os._exit(5)", 5, ""),
        ("os.kill(os.getpid(), 9)", -9, ""),
        ("import signal; signal.raise_signal(signal.SIGTERM)", -15, ""),
    ],
)
def test_codes(start: Callable[..., Resident], body: str, code: int, errors: str) -> None:
    resident = start(body)
    result = resident.run()
    assert (result.code, result.errors, result.output) == (code, errors, "")
    plain = subprocess.run([resident.program], capture_output=True, check=False, text=True)
    assert (plain.returncode, plain.stderr) == (code, errors)


def test_exceptions_are_the_interpreter_s(start: Callable[..., Resident]) -> None:
    resident = start("atexit.register(print, 'atexit')\nraise ValueError('what')", "import atexit")
    result = resident.run()
    assert (result.code, result.output) == (1, "atexit\n")
    assert result.errors.startswith("Traceback (most recent call last):\n")
    assert result.errors.endswith("ValueError: what\n")
    assert resident.log.read_text() == ""


def test_an_interrupt_ends_by_its_signal(start: Callable[..., Resident]) -> None:
    result = start("import signal; signal.raise_signal(signal.SIGINT)").run()
    assert result.code == -signal.SIGINT
    assert result.errors.endswith("KeyboardInterrupt\n")
    assert result.kinds[-1] == KILLED


def test_atexit_runs_once_and_in_the_run(start: Callable[..., Resident]) -> None:
    resident = start(
        "atexit.register(print, 'own')",
        "import atexit\natexit.register(lambda: print('before', os.getpid() == os.getpgrp()))",
    )
    assert [resident.run().output for _ in range(2)] == ["own\nbefore True\n"] * 2
    resident.close()
    assert "before" not in resident.log.read_text()


def test_threads_are_waited_for(start: Callable[..., Resident]) -> None:
    body = """
        go = threading.Event()
        threading.Thread(target=lambda: (go.wait(), print("thread"))).start()
        threading._register_atexit(go.set)
        """
    assert start(body, "import threading").run().output == "thread\n"


@pytest.mark.parametrize(
    "body",
    [
        "kept.append(open(sys.argv[1], 'w')); kept[0].write('text')",
        "class Last:\n    def __del__(self, write=os.write): write(1, b'text')\nkept.append(Last())",
        "def last(write):\n    try: yield\n    finally: write(1, b'text')\nkept.append(last(os.write)); next(kept[0])",
        "kept.append(open(sys.argv[1], 'wb')); kept.append(kept); kept[0].write(b'text')",
        "kept.append(open(sys.argv[1], 'w')); kept[0].write('text'); sys.exit('why')",
        "kept.append(open(sys.argv[1], 'w')); kept[0].write('text'); raise ValueError",
    ],
    ids=["file", "object", "generator", "cycle", "text", "exception"],
)
def test_what_wants_to_see_its_end_does(start: Callable[..., Resident], folder: Path, body: str) -> None:
    resident = start(body, "kept = []")
    out = folder / "out"
    out.touch()
    plain = subprocess.run([resident.program, out], capture_output=True, text=True, check=False)
    assert out.read_text() + plain.stdout == "text"
    out.write_text("")
    result = resident.run(str(out))
    assert out.read_text() + result.output == "text"
    assert (result.code, result.errors.splitlines()[-1:]) == (plain.returncode, plain.stderr.splitlines()[-1:])


# ---- State ----


def test_random_numbers_differ(start: Callable[..., Resident]) -> None:
    resident = start("print(random.random())", "import random\nrandom.seed(1)\nrandom.random()")
    assert len({resident.run().output for _ in range(4)}) == 4


def test_handlers_of_signals_stay(start: Callable[..., Resident]) -> None:
    before = """
        import signal
        signal.signal(signal.SIGTERM, lambda *_: (print("handler"), sys.exit(3)))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        """
    body = "print(signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN)\nsignal.raise_signal(signal.SIGTERM)"
    resident = start(body, before)
    result = resident.run()
    assert (result.output, result.code) == ("True\nhandler\n", 3)
    resident.process.send_signal(signal.SIGTERM)
    assert resident.wait_left() == 0


def test_signals_are_as_at_a_plain_start(start: Callable[..., Resident]) -> None:
    body = (
        "print(*[line.split()[1] for line in open('/proc/self/status') if line[:6] in ('SigBlk', 'SigIgn', 'SigCgt')])"
    )
    # What Python does itself; what this test was started with is not the run's.
    ignored = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    caught = 1 << (signal.SIGINT - 1)
    # 32 and 33 belong to the C library; make leaves one of them ignored.
    of_programs = (1 << 31) - 1
    assert [int(field, 16) & of_programs for field in start(body).run().output.split()] == [0, ignored, caught]


def test_the_group_gets_the_launcher_s_signals(start: Callable[..., Resident]) -> None:
    resident = start("print('ready', flush=True)\nsignal.pause()", "import signal")
    reader, writer = os.pipe()
    with open(os.devnull, "r+") as null, os.fdopen(reader) as output:
        connection = resident.begin([], [null.fileno(), writer, null.fileno()])
        os.close(writer)
        assert output.readline() == "ready\n"
        running = connection.frame()
        assert running is not None
        os.killpg(running[1], signal.SIGTERM)
        assert connection.frames() == [(KILLED, signal.SIGTERM, 0, b"")]
        connection.close()


def test_warm_is_called_in_each_child(start: Callable[..., Resident]) -> None:
    main = "if __name__ == '__main__':\n    resident.main(run, warm=lambda: warmed.append(os.getpid()))\n"
    resident = start("print(warmed == [os.getpid()])", "warmed = []", main=main)
    assert [resident.run().output for _ in range(3)] == ["True\n"] * 3
    assert subprocess.run([resident.program], capture_output=True, text=True, check=True).stdout == "True\n"


# ---- Plain runs ----


def test_a_plain_run_takes_no_resident_away(write: Callable[..., Path]) -> None:
    program = write("print(sys.argv[1:])\nreturn 4")
    done = subprocess.run([program, "--no-resident", "--no-resident"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("['--no-resident']\n", 4)
    done = subprocess.run([program, "--nearcall-resident"], capture_output=True, text=True, check=False)
    assert done.stdout == "['--nearcall-resident']\n"


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "PYTHONFOO", "LANG", "LC_NUMERIC", "TZ", "MINE_X"])
def test_variables_that_are_read_once(start: Callable[..., Resident], name: str) -> None:
    main = "resident.main(run, environment=['MINE_*'])\n"
    resident = start("print('run')", main=main)
    connection = resident.begin(environment={**resident.environment, name: "other"})
    assert [frame[0] for frame in connection.frames()] == [PLAINLY]
    connection.close()
    assert resident.run().output == "run\n"


# ---- The resident's end ----


def touch(path: Path) -> None:
    with path.open("a") as file:
        file.write("\n")


def is_plain_when_it_goes_on(resident: Resident) -> None:
    """A run that came while it was stopped is answered PLAINLY."""
    connection = resident.begin()
    frames = connection.frames()
    connection.close()
    resident.process.send_signal(signal.SIGCONT)
    assert [frame[0] for frame in frames] == [PLAINLY]


def with_module(start: Callable[..., Resident], folder: Path) -> Resident:
    """One that has loaded a module from the folder."""
    (folder / "mymodule.py").write_text("text = 'one'\n")
    return start("print(mymodule.text)", f"sys.path.insert(0, {str(folder)!r})\nimport mymodule")


def test_it_leaves_when_a_module_changes(start: Callable[..., Resident], folder: Path) -> None:
    resident = with_module(start, folder)
    assert resident.run().output == "one\n"
    touch(folder / "mymodule.py")
    assert resident.wait_left() == 0
    assert not resident.path.exists()
    assert not resident.log.exists()


def test_no_run_has_a_module_that_was_changed(start: Callable[..., Resident], folder: Path) -> None:
    resident = with_module(start, folder)
    resident.wait_waiting()
    resident.process.send_signal(signal.SIGSTOP)
    touch(folder / "mymodule.py")
    is_plain_when_it_goes_on(resident)
    assert resident.wait_left() == 0


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("what", ["directory", "link", "link of the file"])
def test_it_leaves_when_something_above_a_module_changes(
    start: Callable[..., Resident], folder: Path, what: str, stopped: bool
) -> None:
    """Nothing happens to the file itself."""
    release = folder / "releases" / "one" / "lib"
    release.mkdir(parents=True)
    (release / "mymodule.py").write_text("text = 'one'\n")
    (folder / "current").symlink_to(folder / "releases" / "one")
    (folder / "linked").mkdir()
    (folder / "linked" / "mymodule.py").symlink_to(release / "mymodule.py")
    place = folder / "linked" if what == "link of the file" else folder / "current" / "lib"
    resident = start("print(mymodule.text)", f"sys.path.insert(0, {str(place)!r})\nimport mymodule")
    resident.wait_waiting()
    if stopped:
        resident.process.send_signal(signal.SIGSTOP)
    if what == "directory":
        (folder / "releases" / "one").rename(folder / "releases" / "old")
    elif what == "link":
        (folder / "next").symlink_to(folder / "releases" / "two")
        (folder / "next").rename(folder / "current")
    else:
        (folder / "linked" / "mymodule.py").unlink()
    if stopped:
        is_plain_when_it_goes_on(resident)
    assert resident.wait_left() == 0


def test_it_leaves_when_a_file_changes_that_it_watches(start: Callable[..., Resident], folder: Path) -> None:
    (folder / "settings").write_text("one")
    resident = start("pass", main=f"resident.main(run, watch=[{str(folder / 'settings')!r}])\n")
    resident.wait_waiting()
    touch(folder / "settings")
    assert resident.wait_left() == 0


def test_it_leaves_when_idle(start: Callable[..., Resident]) -> None:
    resident = start("pass", main="resident.main(run, idle=0.05, workers=1)\n")
    assert resident.wait_left() == 0
    assert "idle" in resident.log.read_text()


@pytest.mark.parametrize(("idle", "idle_ms"), [("0", 600_000), ("None", 600_000), ("-1", -1), ("2.5", 2500)])
def test_idle_times(start: Callable[..., Resident], idle: str, idle_ms: int) -> None:
    resident = start("pass", main=f"resident.main(run, idle={idle})\n")
    assert resident.ask(STATUS)["idle_ms"] == idle_ms


def test_who_takes_arguments_away_before_does_no_work(start: Callable[..., Resident]) -> None:
    resident = start("open('/dev/stderr', 'a').write('work')", "sys.argv.pop(1)")
    assert resident.wait_left() == 125
    assert resident.log.read_text() == (
        "nearcall: arguments were read before resident { } (main(), Main): read them inside\n"
    )
    assert resident.lock.read_text() == "1"


def test_what_fails_at_the_start_is_in_the_log(start: Callable[..., Resident]) -> None:
    resident = start("pass", main="resident.main(run, watch=['/not/there'])\n")
    assert resident.wait_left() == 1
    assert "a file to watch is not there: /not/there" in resident.log.read_text()
    assert resident.lock.read_text() == "1"


def test_a_warm_that_fails_ends_it(start: Callable[..., Resident]) -> None:
    resident = start("pass", main="resident.main(run, warm=lambda: 1 / 0)\n")
    assert resident.wait_left() == 1
    assert "ZeroDivisionError" in resident.log.read_text()
    assert "before they waited" in resident.log.read_text()
    assert resident.lock.read_text() == "1"


def test_runs_at_a_time(start: Callable[..., Resident]) -> None:
    """As many as come, each with its own answer; the order is random."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    resident = start("print(sys.argv[1], sys.stdin.read(), os.environ['MINE'])\nreturn int(sys.argv[1])")
    numbers = random.Random(seed).sample(range(200), 40)
    opened = []
    for number in numbers:
        pipes = [os.pipe(), os.pipe()]
        environment = {**resident.environment, "MINE": str(number * 2)}
        connection = resident.begin([str(number)], [pipes[0][0], pipes[1][1], 2], environment)
        os.close(pipes[0][0])
        os.close(pipes[1][1])
        opened.append((number, connection, pipes[0][1], pipes[1][0]))
    random.Random(seed).shuffle(opened)
    for number, connection, writer, reader in opened:
        os.write(writer, b"in")
        os.close(writer)
        with os.fdopen(reader) as output:
            assert output.read() == f"{number} in {number * 2}\n"
        assert connection.frames()[-1][:2] == (EXITED, number)
        connection.close()
    assert wait_until(lambda: resident.ask(STATUS)["runs"] == len(numbers), "all have ended")
