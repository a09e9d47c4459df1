"""What is shipped: the source distribution builds alone, the wheel is clean."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import nearcall
from support import REPOSITORY

SOURCE = REPOSITORY / "bindings" / "python"


def build(kind: str, source: Path, out: Path, environment: dict[str, str]) -> Path:
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (product,) = out.iterdir()
    return product


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    copy = folder / "source"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    environment = {**os.environ, "NEARCALL_SOURCE": str(REPOSITORY / "libnearcall")}
    return build("sdist", copy, folder / "out", environment)


def test_source_distribution_builds_by_itself(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    subprocess.run(["tar", "-xf", str(sdist), "-C", str(tmp_path)], check=True)
    assert {"LICENSE", "README.md", "csrc/core.h", "libnearcall/include/nearcall.h", "nearcall/py.typed"} <= names
    (unpacked,) = tmp_path.iterdir()
    environment = {name: value for name, value in os.environ.items() if name != "NEARCALL_SOURCE"}
    wheel = build("wheel", unpacked, tmp_path / "wheel", environment)
    assert "-cp311-abi3-linux" in wheel.name
    target = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        contents = archive.namelist()
        archive.extractall(target)
    assert not [name for name in contents if name.endswith((".c", ".h"))]
    code = "import nearcall; print(nearcall.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPATH": str(target)},
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.strip() == str(target / "nearcall" / "__init__.py"), done.stderr


def test_a_source_distribution_leaves_nothing_beside_the_sources(sdist: Path) -> None:
    source = sdist.parent.parent / "source"
    assert not list(source.glob("*.egg-info"))


def test_what_is_installed_has_the_licence() -> None:
    assert "LICENSE" in [file.name for file in importlib.metadata.files("nearcall") or []]


def test_nothing_of_libnearcall_is_tracked_twice() -> None:
    assert not (SOURCE / "libnearcall").exists()


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def install(source: Path, *options: str) -> None:
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-build-isolation", "--no-deps",
        "--ignore-installed",  # pip removes what it finds of the same name, also when it installs elsewhere
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name not in ("NEARCALL_SOURCE", "PYTHONPATH")}
    done = subprocess.run(
        [*command, *options, str(source)], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(autouse=True)
def own_installation() -> Iterator[None]:
    """What these tests install elsewhere leaves that alone with which all others run."""
    yield
    command = [sys.executable, "-c", "import nearcall; print(nearcall.__file__)"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=60, check=False)
    assert done.stdout.strip() == nearcall.__file__, done.stderr


def where_imported(folder: Path) -> str:
    """Where a program finds the package when a folder's packages are added, as those of a site are."""
    code = (
        "import site, sys; site.addsitedir(sys.argv[1]); import nearcall; "
        "print(nearcall.library_version(), nearcall.__file__)"
    )
    command = [sys.executable, "-S", "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={}, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The repository as far as the binding is built from it."""
    folder = tmp_path / "checkout"
    for part in ("bindings/python", "libnearcall/include", "libnearcall/src"):
        ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "*.so")
        shutil.copytree(REPOSITORY / part, folder / part, ignore=ignored)
    shutil.copy(REPOSITORY / "LICENSE", folder / "LICENSE")
    return folder


def test_installing_into_a_folder_leaves_nothing_beside_the_sources(checkout: Path, tmp_path: Path) -> None:
    before = files_of(checkout)
    install(checkout / "bindings" / "python", "--target", str(tmp_path / "target"))
    assert files_of(checkout) == before
    assert where_imported(tmp_path / "target") == str(tmp_path / "target" / "nearcall" / "__init__.py")


def test_editable_installation(checkout: Path, tmp_path: Path) -> None:
    """Only the extension lies beside the sources then, where Python finds it."""
    before = files_of(checkout)
    source = checkout / "bindings" / "python"
    install(source, "--prefix", str(tmp_path / "prefix"), "--editable")
    assert {Path(name).name for name in files_of(checkout) - before} == {"_core.abi3.so"}
    (packages,) = (tmp_path / "prefix").glob("lib*/python*/site-packages")
    assert where_imported(packages) == str(source / "nearcall" / "__init__.py")
