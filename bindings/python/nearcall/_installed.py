"""Keeps a program ready without changing it: this is what 'nearcall resident install' starts.

Everything in the program's file up to its first statement that does more than import, define or
name is run once, and each run does the rest. In a program that pip has made for an entry point
that part is the import. With an entry the module is imported once, and each run calls the
function, as pip's programs do.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import json
import os
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, NoReturn


def begin() -> NoReturn:
    """sys.argv holds -c, the settings as JSON, and the path of the program."""
    settings: dict[str, Any] = json.loads(sys.argv[1])
    program = sys.argv[2]
    sys.argv[:] = [program, "--nearcall-resident"]
    # What the run's own arguments are put in the place of, at its end.
    sys.orig_argv[:] = [settings["interpreter"], *sys.argv]
    if sys.path[:1] == [""]:  # not with -P and -I
        sys.path[0] = os.path.dirname(os.path.realpath(program))
    # By its argument it sees that it is to notice what is read from here on. It goes to the
    # caller's directory, where no modules are looked for any more.
    from nearcall import resident

    run = _entry(settings["entry"]) if settings["entry"] else _file(program)
    for name in settings["preload"]:
        importlib.import_module(name)
    resident.main(
        run,
        watch=[program, *settings.get("watch", ())],
        environment=settings.get("environment", ()),
        reread=settings.get("reread", ()),
        same_directory=settings.get("same_directory"),
        early_input=bool(settings.get("early_input")),
    )


def check() -> None:
    """Raises an exception that says what is missing if the program cannot be installed in this way."""
    settings: dict[str, Any] = json.loads(sys.argv[1])
    if settings["entry"]:
        _function(settings["entry"])
    for name in settings["preload"]:
        importlib.import_module(name)


def _function(entry: str) -> Callable[[], Any]:
    module, _, path = entry.partition(":")
    function = importlib.import_module(module)
    for name in path.split("."):
        function = getattr(function, name)
    return function  # type: ignore[return-value]


def _entry(entry: str) -> Callable[[], Any]:
    return _plainly(_function(entry))


def _file(program: str) -> Callable[[], Any]:
    with open(program, "rb") as file:
        source = file.read()
    once, each = _split(source, program)
    main = sys.modules["__main__"]
    for name in [name for name in vars(main) if not name.startswith("__")]:
        delattr(main, name)
    main.__file__ = program
    exec(once, vars(main))
    return _plainly(lambda: exec(each, vars(main)))


def _split(source: bytes, program: str) -> tuple[CodeType, CodeType]:
    """Returns the code that is run once, and the code of each run."""
    body = ast.parse(source, program).body
    count = next((i for i, statement in enumerate(body) if not _is_harmless(statement)), len(body))
    flags = 0
    for statement in body[:count]:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            for name in statement.names:
                flags |= getattr(__future__, name.name).compiler_flag

    def part(statements: list[ast.stmt]) -> CodeType:
        code: CodeType = compile(ast.Module(statements, []), program, "exec", flags=flags, dont_inherit=True)
        return code

    return part(body[:count]), part(body[count:])


def _is_harmless(statement: ast.stmt) -> bool:
    """Whether the statement does the same in all runs, because what it says is in the file or in modules."""
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.Pass)):
        return True
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return not (statement.decorator_list or statement.args.defaults or any(statement.args.kw_defaults))
    if isinstance(statement, (ast.Assign, ast.Expr)):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Try):
        parts = [*statement.body, *statement.orelse, *statement.finalbody]
        for handler in statement.handlers:
            parts += handler.body
        return all(map(_is_harmless, parts))
    return False


def _plainly(function: Callable[[], Any]) -> Callable[[], Any]:
    """Shows what goes wrong without the statements that led here."""

    def run() -> Any:
        try:
            return function()
        except Exception as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
                trace = trace.tb_next
            sys.excepthook(type(error), error.with_traceback(trace), trace)
            return 1

    return run
