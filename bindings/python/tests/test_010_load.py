"""The package loads, names what it promises, and says its version."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import subprocess
import sysconfig
from pathlib import Path

import nearcall
from nearcall import _core
from support import REPOSITORY, run_python


def test_all_names_exist() -> None:
    assert len(set(nearcall.__all__)) == len(nearcall.__all__)
    for name in nearcall.__all__:
        assert getattr(nearcall, name) is not None


def test_asyncio_is_imported_by_those_who_use_it() -> None:
    code = """
import sys, nearcall, nearcall.resident
assert "asyncio" not in sys.modules
assert {"AsyncClient", "AsyncFunction"} <= set(dir(nearcall))
from nearcall import AsyncClient
assert nearcall.AsyncClient is AsyncClient and "asyncio" in sys.modules
assert not hasattr(nearcall, "other")
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_version_is_the_library_s() -> None:
    header = (REPOSITORY / "libnearcall" / "include" / "nearcall.h").read_text()
    numbers = re.findall(r"^#define NEARCALL_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE)
    assert nearcall.__version__ == ".".join(numbers)
    assert importlib.metadata.version("nearcall") == nearcall.__version__


def test_extension_is_built_for_the_stable_abi() -> None:
    path = Path(_core.__file__ or "")
    assert path.name == "_core.abi3.so"
    assert sysconfig.get_config_var("EXT_SUFFIX") != ".abi3.so"


def test_extension_exports_its_init_function_alone() -> None:
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=posix", _core.__file__ or ""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line.split()[0] for line in listing.stdout.splitlines()} == {"PyInit__core"}


def test_every_code_has_one_class() -> None:
    classes = [value for value in vars(nearcall).values() if inspect.isclass(value)]
    errors = [value for value in classes if issubclass(value, nearcall.NearcallError)]
    # The base has no code of its own, and OK is no error.
    assert len(errors) - 1 == len(nearcall.Code) - 1


def test_package_has_types() -> None:
    folder = Path(nearcall.__file__ or "").parent
    assert (folder / "py.typed").is_file()
    assert (folder / "_core.pyi").is_file()


def test_signatures_can_be_read() -> None:
    assert list(inspect.signature(nearcall.Client.call).parameters) == ["self", "name", "args", "timeout", "named"]
    assert list(inspect.signature(nearcall.Client.ping).parameters) == ["self", "timeout"]


def test_import_starts_no_thread_and_opens_nothing() -> None:
    code = """
import os, threading
before = os.listdir('/proc/self/fd')
import nearcall
assert os.listdir('/proc/self/fd') == before
assert len(os.listdir('/proc/self/task')) == 1
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_module_can_be_loaded_twice_and_dropped() -> None:
    code = """
import gc, importlib, sys
import nearcall
first = nearcall._core
for name in [name for name in sys.modules if name.startswith('nearcall')]:
    del sys.modules[name]
import nearcall as again
assert again._core is not first
assert again._core.Client is not first.Client
del first, nearcall
gc.collect()
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
