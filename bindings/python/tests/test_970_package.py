"""What is shipped: the source distribution builds alone, the wheel is clean."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

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


def test_nothing_of_libnearcall_is_tracked_twice() -> None:
    assert not (SOURCE / "libnearcall").exists()
