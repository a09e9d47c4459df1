"""The C extension: this folder's sources and those of libnearcall in one.

In the repository libnearcall lies two folders up. A source distribution carries
its sources along, copied when it is made; they are never tracked twice.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.egg_info import egg_info
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
LIMITED_API = "0x030B0000"
PYTHON_TAG = "cp311"


def libnearcall() -> Path:
    """Where libnearcall lies: in this folder in a source distribution, beside the
    bindings in the repository, or where NEARCALL_SOURCE says."""
    named = os.environ.get("NEARCALL_SOURCE")
    folders = [HERE / "libnearcall", HERE.parent.parent / "libnearcall"]
    for folder in [Path(named)] if named else folders:
        if (folder / "include" / "nearcall.h").is_file():
            return folder
    raise SystemExit(
        "libnearcall/include/nearcall.h is missing: build from the repository or from a source distribution"
    )


def version() -> str:
    header = (libnearcall() / "include" / "nearcall.h").read_text()
    numbers = re.findall(r"^#define NEARCALL_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE)
    return ".".join(numbers)


def outside() -> str:
    """A folder for what is made on the way to a wheel, so that nothing of it is left beside the sources."""
    folder = tempfile.mkdtemp(prefix="nearcall-build-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Build(build):
    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = outside()


class EggInfo(egg_info):
    def initialize_options(self) -> None:
        super().initialize_options()
        # A source distribution takes its own along, from beside the sources.
        beside = HERE / "nearcall.egg-info"
        if "sdist" not in sys.argv:
            self.egg_base = outside()
        elif not beside.exists():
            atexit.register(shutil.rmtree, beside, ignore_errors=True)


# GCC optimises the binding and the library as one: what a call goes through lies in two dozen files of both.
AS_ONE = ["-flto=auto"]


def is_gcc(compiler: str) -> bool:
    """Whether it is GCC; what calls itself gcc may be another compiler."""
    told = subprocess.run([compiler, "-v"], capture_output=True, text=True, check=False)
    return "gcc version" in told.stderr


class BuildExtension(build_ext):
    """Adds libnearcall's sources by absolute path: relative ones with two dots
    would put their objects outside the build folder. NEARCALL_ARCHIVE names an archive that
    was made of them already, which quick tests link instead."""

    def build_extension(self, ext: Extension) -> None:
        archive = os.environ.get("NEARCALL_ARCHIVE")
        if archive:
            ext.extra_objects = [archive]
            ext.extra_compile_args += ["-O1"]
            ext.extra_link_args += ["-Wl,--exclude-libs,ALL"]
            super().build_extension(ext)
            return
        own = ext.sources
        if is_gcc(self.compiler.compiler_so[0]):
            ext.extra_compile_args += AS_ONE
            ext.extra_link_args += [*AS_ONE, "-Wno-maybe-uninitialized"]
        ext.sources = sorted(own) + sorted(str(path) for path in (libnearcall() / "src").glob("*/*.c"))
        try:
            super().build_extension(ext)
        finally:
            ext.sources = own  # other commands look at them too, and take no absolute paths


class SourceDistribution(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        for part in ("include", "src"):
            shutil.copytree(libnearcall() / part, Path(base_dir, "libnearcall", part), dirs_exist_ok=True)
        licence = HERE / "LICENSE"
        if not licence.exists():
            licence = libnearcall().parent / "LICENSE"
        shutil.copy(licence, Path(base_dir, "LICENSE"))


class Wheel(bdist_wheel):
    """One wheel for this Python and all later ones."""

    def finalize_options(self) -> None:
        self.py_limited_api = PYTHON_TAG
        super().finalize_options()


setup(
    version=version(),
    ext_modules=[
        Extension(
            "nearcall._core",
            sources=[str(path.relative_to(HERE)) for path in (HERE / "csrc").glob("*.c")],
            depends=["csrc/core.h", "csrc/encode.h", "csrc/limits_gen.h"],
            include_dirs=[str(libnearcall() / "include"), str(libnearcall() / "src")],
            # libnearcall's functions are not shown outside, where another one's could take their place.
            define_macros=[("_GNU_SOURCE", None), ("Py_LIMITED_API", LIMITED_API), ("NEARCALL_API", "")],
            extra_compile_args=[
                "-std=c11",
                "-fvisibility=hidden",
                "-Wall",
                "-Wextra",
                "-Wno-missing-field-initializers",
            ],
            libraries=["m"],
            py_limited_api=True,
        )
    ],
    cmdclass={
        "build": Build,
        "build_ext": BuildExtension,
        "egg_info": EggInfo,
        "sdist": SourceDistribution,
        "bdist_wheel": Wheel,
    },
)
