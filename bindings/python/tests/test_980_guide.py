"""What docs/guides/python.md shows is what happens."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

from support import REPOSITORY, Server

GUIDE = REPOSITORY / "docs" / "guides" / "python.md"


def test_guide(shared_server: Server, tmp_path: Path) -> None:
    text = GUIDE.read_text()
    for shown, real in (
        ("unix:/run/demo/nearcall.sock", shared_server.address),
        ("/srv/app/libdemo.so", os.environ["NEARCALL_TESTLIBRARY"]),
    ):
        assert shown in text
        text = text.replace(shown, real)
    assert len(doctest.DocTestParser().get_examples(text)) > 20
    page = tmp_path / GUIDE.name
    page.write_text(text)
    # A program of its own: the library that it loads stays in its process.
    done = subprocess.run(
        [sys.executable, "-m", "doctest", "-o", "ELLIPSIS", str(page)],
        capture_output=True, text=True, timeout=100, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
