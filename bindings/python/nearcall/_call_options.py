"""What with_options() says of single calls, for clients of every kind."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

from nearcall import _core
from nearcall._codes import Code, Outcome
from nearcall._errors import NearcallError, Unavailable

Value = str | bytes
"""A value of metadata. Text is sent as UTF-8."""

Metadata = Mapping[str, Value | Iterable[Value]]
"""Pairs to be sent: a key, and its value or values."""

ReplyMetadata = dict[str, list[bytes]]
"""Pairs that came with a reply."""

_MICROSECONDS = 1_000_000
_MILLISECOND = 0.001
_PAUSE_LEAST = 0.000_001
_PAUSE_MOST = 365 * 86_400.0
_LOST = (Outcome.UNKNOWN, Outcome.EXECUTED_RESULT_LOST)


class CallOptions(NamedTuple):
    """Options of the calls of a client that with_options() has returned."""

    view: _core.View | None = None
    attempts: int = 0
    """0: the client's."""
    backoff: tuple[float, float] = (_MILLISECOND, 1.0)
    """The mean pause after the first attempt, from which on each is twice as long, and the longest."""
    wait_for_ready: bool = False
    retry_unknown: bool = False
    keywords: tuple[dict[str, Any], ...] = ()
    """What each with_options() was given, to make the same once more."""

    def extended(
        self,
        attempts: int | None,
        backoff: tuple[float, float] | None,
        wait_for_ready: bool,
        retry_unknown: bool,
        metadata: Metadata | None,
        traceparent: str | None,
        idempotency_key: bytes | None,
        reply_metadata: ReplyMetadata | None,
        buffers: bool,
    ) -> CallOptions:
        """Returns these options and the given ones together; None and False are what these have."""
        pairs = () if metadata is None else tuple(_pairs(metadata))
        attempts_max = 0
        if attempts is not None:
            attempts_max = _core.whole_number("attempts", attempts, 1, _core.ATTEMPTS_MAX_CEILING)
        first_us, most_us = (0, 0) if backoff is None else map(_microseconds, backoff)
        view = _core.View(
            self.view, attempts_max, first_us, most_us, wait_for_ready, retry_unknown, traceparent, idempotency_key,
            pairs, reply_metadata, buffers,
        )  # fmt: skip
        kept: dict[str, Any] = {
            "attempts": attempts,
            "backoff": backoff,
            "wait_for_ready": wait_for_ready,
            "retry_unknown": retry_unknown,
            "metadata": _collected(pairs),
            "traceparent": traceparent,
            "idempotency_key": idempotency_key,
            "buffers": buffers,
        }
        return CallOptions(
            view,
            attempts_max or self.attempts,
            self.backoff if backoff is None else (first_us / _MICROSECONDS, most_us / _MICROSECONDS),
            wait_for_ready or self.wait_for_ready,
            retry_unknown or self.retry_unknown,
            (*self.keywords, kept),
        )

    def pause_seconds(self, tries: int) -> float:
        """Draws the pause after so many attempts, so that those that failed together do not come back together."""
        first, most = self.backoff
        mean = min(first * 2.0 ** min(tries - 1, 62), most)
        return mean * random.uniform(0.5, 1.5)

    def permit_again(self, error: NearcallError) -> bool:
        """Whether a call that ended so may be sent again at all."""
        if not isinstance(error, Unavailable) or error.code is not Code.UNAVAILABLE:
            return False
        return error.outcome is Outcome.NOT_EXECUTED or (self.retry_unknown and error.outcome in _LOST)


NO_OPTIONS = CallOptions()


def _pairs(metadata: Metadata) -> Iterator[tuple[str, bytes]]:
    for key, values in metadata.items():
        if not isinstance(key, str):
            raise TypeError(f"a key of metadata is a str, not {type(key).__name__}")
        for value in [values] if isinstance(values, str | bytes) else values:
            if not isinstance(value, str | bytes):
                raise TypeError(f"metadata {key!r}: a value is a str or bytes, not {type(value).__name__}")
            yield key, value.encode() if isinstance(value, str) else bytes(value)


def _collected(pairs: Iterable[tuple[str, bytes]]) -> dict[str, list[bytes]]:
    collected: MutableMapping[str, list[bytes]] = {}
    for key, value in pairs:
        collected.setdefault(key, []).append(value)
    return dict(collected)


def _microseconds(seconds: float) -> int:
    if not _PAUSE_LEAST <= seconds <= _PAUSE_MOST:
        raise ValueError(f"backoff has {seconds!r}: a pause is a microsecond at least and a year at most")
    return int(seconds * _MICROSECONDS)
