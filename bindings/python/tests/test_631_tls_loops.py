"""Calls over TLS on the event loops of others."""

from __future__ import annotations

from typing import Any

import uvloop
from secure import Relay, many_calls

from support import run_python

GREENLETS = """
import sys

import gevent
from nearcall.gevent import Client

address, authorities, certificate, key = sys.argv[1:]
client = Client(
    address, timeout=30, tls_authorities=authorities, tls_certificate=certificate, tls_key=key, silence=5
)
for i in range(200):
    assert client.add(i, 1) == i + 1
jobs = [gevent.spawn(client.add, i, 1) for i in range(100)]
gevent.joinall(jobs, raise_error=True)
assert [job.value for job in jobs] == list(range(1, 101))
"""


def test_uvloop(relay: Relay, options: dict[str, Any]) -> None:
    uvloop.run(many_calls(relay.address, options))


def test_greenlets(relay: Relay, options: dict[str, Any]) -> None:
    paths = [str(options[name]) for name in ("tls_authorities", "tls_certificate", "tls_key")]
    ran = run_python(GREENLETS, relay.address, *paths)
    assert ran.returncode == 0, ran.stderr
