"""How many calls a client has in flight while its server refuses further ones, because those of all
clients of its user are as many as it runs.

Nobody tells when others have ended theirs, and calls that this client has given up run on. So calls go where
one of this client has ended, and beside that a few more after each pause: twice as many each time while none is
refused; one, after pauses that grow, while all are.
"""

from __future__ import annotations

from nearcall._codes import Outcome
from nearcall._errors import ResourceExhausted

_DETAIL = "nearcall.limit"
_LIMITS = ("calls_in_flight_max", "calls_in_flight_per_user_max")
_FIRST_PAUSE_SECONDS = 0.005
_PAUSE_SECONDS_MAX = 0.1
_FURTHER_MAX = 64


def is_of_crowd(error: ResourceExhausted) -> bool:
    """Whether there will be room for a call that was refused, once others have ended."""
    limits = [value for kind, value in error.details if kind == _DETAIL]
    return error.outcome is Outcome.NOT_EXECUTED and any(limit in limits for limit in _LIMITS)


class Crowd:
    """From a refusal until calls wait for no room any more."""

    def __init__(self) -> None:
        self.calls_max = 0
        self.reason = ""
        self.pause_seconds = _FIRST_PAUSE_SECONDS
        self._further = 1
        self._was_refused = False

    def refuse(self, calls: int, reason: str) -> None:
        """Learns that the server has refused one beside so many."""
        self.calls_max = calls if not self.reason else min(self.calls_max, calls)
        self.reason = reason
        self._further = 1
        self._was_refused = True

    def let_further(self) -> None:
        """After each pause."""
        longer_seconds = min(self.pause_seconds * 2, _PAUSE_SECONDS_MAX)
        self.pause_seconds = longer_seconds if self._was_refused else _FIRST_PAUSE_SECONDS
        self._was_refused = False
        self.calls_max += self._further
        self._further = min(self._further * 2, _FURTHER_MAX)
