"""What docs/guides/python.md shows is what happens."""

from __future__ import annotations

import doctest

from support import REPOSITORY, Server

GUIDE = REPOSITORY / "docs" / "guides" / "python.md"
ADDRESS = "unix:/run/demo/nearcall.sock"


def test_guide(shared_server: Server) -> None:
    text = GUIDE.read_text()
    assert ADDRESS in text
    text = text.replace(ADDRESS, shared_server.address)
    found = doctest.DocTestParser().get_doctest(text, {}, GUIDE.name, str(GUIDE), 0)
    assert len(found.examples) > 20
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(found, out=report.append)
    assert not report, "".join(report)
