"""Exceptions: one base, one class for each code."""

from __future__ import annotations

from typing import Any

from nearcall._codes import Code, Outcome

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Cancelled",
    "DataLoss",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Internal",
    "InvalidArgument",
    "NearcallError",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "ResourceExhausted",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
]


class NearcallError(Exception):
    """A call has failed: what went wrong, and whether the function ran."""

    code: Code
    """What went wrong. Test this or the class, never the message."""

    message: str
    """A sentence for people."""

    outcome: Outcome
    """Whether the function ran. This decides whether the call may be made again."""

    details: list[tuple[str, Any]]
    """What the function has added, as pairs of a type and a value."""

    def __init__(
        self,
        message: str,
        code: Code = Code.UNKNOWN,
        outcome: Outcome = Outcome.UNKNOWN,
        details: list[tuple[str, Any]] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.outcome = outcome
        self.details = [] if details is None else details

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message} ({self.outcome.text})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message, self.code, self.outcome, self.details))

    def _may_have_run(self) -> None:
        if self.outcome is Outcome.NOT_EXECUTED:
            self.outcome = Outcome.UNKNOWN


class Cancelled(NearcallError):
    """The caller gave the call up."""


class Unknown(NearcallError):
    """The function returned an error that carries no code."""


class InvalidArgument(NearcallError, ValueError):
    """An argument or an option is not of the agreed form."""


class DeadlineExceeded(NearcallError, TimeoutError):
    """The deadline passed before the reply came."""


class NotFound(NearcallError, LookupError):
    """What the function was asked for does not exist."""


class AlreadyExists(NearcallError):
    """What the function was asked to create exists."""


class PermissionDenied(NearcallError, PermissionError):
    """The peer is known and may not do this."""


class ResourceExhausted(NearcallError):
    """A limit was reached, or memory ran out."""


class FailedPrecondition(NearcallError):
    """The state the call needs does not hold."""


class Aborted(NearcallError):
    """A conflict with another call; it may be tried again from the start."""


class OutOfRange(NearcallError):
    """Beyond the end of what there is."""


class Unimplemented(NearcallError, NotImplementedError):
    """The server has no such function, or this version does not do that."""


class Internal(NearcallError):
    """A fault in the server; its log has the details."""


class Unavailable(NearcallError, ConnectionError):
    """No server is there, or the connection to it was lost."""


class DataLoss(NearcallError):
    """Data was lost or damaged beyond repair."""


class Unauthenticated(NearcallError):
    """Who the peer is could not be established."""


_CLASSES: dict[Code, type[NearcallError]] = {
    Code.CANCELLED: Cancelled,
    Code.UNKNOWN: Unknown,
    Code.INVALID_ARGUMENT: InvalidArgument,
    Code.DEADLINE_EXCEEDED: DeadlineExceeded,
    Code.NOT_FOUND: NotFound,
    Code.ALREADY_EXISTS: AlreadyExists,
    Code.PERMISSION_DENIED: PermissionDenied,
    Code.RESOURCE_EXHAUSTED: ResourceExhausted,
    Code.FAILED_PRECONDITION: FailedPrecondition,
    Code.ABORTED: Aborted,
    Code.OUT_OF_RANGE: OutOfRange,
    Code.UNIMPLEMENTED: Unimplemented,
    Code.INTERNAL: Internal,
    Code.UNAVAILABLE: Unavailable,
    Code.DATA_LOSS: DataLoss,
    Code.UNAUTHENTICATED: Unauthenticated,
}

for _class in (NearcallError, *_CLASSES.values()):
    _class.__module__ = "nearcall"  # where a user finds them, and a traceback names them


def make_error(code: int, message: str, outcome: int, details: list[list[Any]]) -> NearcallError:
    """Returns the exception for an error that libnearcall or this binding has found."""
    try:
        known = Code(code)
    except ValueError:
        # Only misuse of libnearcall has numbers beyond the list.
        known = Code.FAILED_PRECONDITION
    try:
        known_outcome = Outcome(outcome)
    except ValueError:
        known_outcome = Outcome.UNKNOWN
    pairs = [(str(pair[0]), pair[1]) for pair in details if len(pair) == 2]
    return _CLASSES.get(known, Unknown)(message, known, known_outcome, pairs)
