"""How many calls a client keeps in flight while its server refuses further ones, because the calls of all
clients of its user are as many as the server runs.

Nobody tells when other clients' calls have ended, and calls that this client has given up run on. So a call is
sent when one of this client's has ended, and a few more are sent after each pause: twice as many each time while
none is refused, and only one, after pauses that grow, while all are.
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
    """The state from a refusal until no call waits for room any more."""

    def __init__(self) -> None:
        self.calls_max = 0
        self.reason = ""
        self.pause_seconds = _FIRST_PAUSE_SECONDS
        self._further = 1
        self._was_refused = False

    def refuse(self, calls: int, reason: str) -> None:
        """Records that the server has refused a call while so many others were in flight."""
        self.calls_max = calls if not self.reason else min(self.calls_max, calls)
        self.reason = reason
        self._further = 1
        self._was_refused = True

    def let_further(self) -> None:
        """Lets more calls go, after a pause."""
        longer_seconds = min(self.pause_seconds * 2, _PAUSE_SECONDS_MAX)
        self.pause_seconds = longer_seconds if self._was_refused else _FIRST_PAUSE_SECONDS
        self._was_refused = False
        self.calls_max += self._further
        self._further = min(self._further * 2, _FURTHER_MAX)
