"""Call functions of another process as if they were your own.

import nearcall

with nearcall.Client("unix:/run/demo/nearcall.sock", timeout=1.5) as go:
    print(go.ack(3, 4))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearcall._client import Client
from nearcall._codes import Code, Outcome
from nearcall._core import Call, Function, library_version
from nearcall._errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NearcallError,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Unknown,
)

if TYPE_CHECKING:
    from nearcall._async import AsyncClient, AsyncFunction

__all__ = [
    "Aborted",
    "AlreadyExists",
    "AsyncClient",
    "AsyncFunction",
    "Call",
    "Cancelled",
    "Client",
    "Code",
    "DataLoss",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Function",
    "Internal",
    "InvalidArgument",
    "NearcallError",
    "NotFound",
    "OutOfRange",
    "Outcome",
    "PermissionDenied",
    "ResourceExhausted",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "__version__",
    "library_version",
]

__version__ = library_version()


# asyncio takes longer to import than all the rest, and most programs do without it.
def __getattr__(name: str) -> Any:
    if name not in ("AsyncClient", "AsyncFunction"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nearcall import _async

    globals()[name] = value = getattr(_async, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
