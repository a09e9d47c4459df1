"""The base of code that `nearcall gen python` has written.

Generated code encodes arguments by the description from which it was generated. So before the
first call under each description that a server has, the two descriptions are compared; the
server decides whether they are compatible.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import warnings
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Protocol,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
    final,
)

from nearcall._client import Client
from nearcall._codes import Code, Outcome
from nearcall._errors import FailedPrecondition

if TYPE_CHECKING:
    from nearcall import _core
    from nearcall._async import AsyncClient
    from nearcall._green import GreenClient

__all__ = [
    "AsyncGenerated",
    "Changes",
    "Data",
    "Dataclass",
    "Duration",
    "Generated",
    "Opened",
    "Real",
    "SyncClient",
    "Truth",
    "Whatever",
    "async_client_of",
    "client_of",
]

Changes = Literal["error", "warn", "ignore"]
"""What becomes of calls of a function that has changed incompatibly."""

_FITTING_MAX = 8


class Dataclass(Protocol):
    """Any dataclass. For structs that may have no fields, and those with fields whose names cannot be attributes."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


@final
class Whatever:
    """A type that no value has. Checkers accept for it only what they know nothing of, so a
    dict[str, Any] may be passed for a struct, while a dict that is written out is compared
    with the struct's fields."""


class _Buffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...


class _Array(Protocol):
    @property
    def data(self) -> memoryview: ...


class _NumpyTruth(Protocol):
    def __bool__(self) -> bool: ...
    def item(self, /) -> bool: ...


class Opened(Protocol):
    """Anything that is open."""

    def fileno(self) -> int: ...


Data: TypeAlias = _Buffer | _Array
"""Bytes, and buffers and arrays, of which checkers do not tell those that are bytes."""
Truth: TypeAlias = bool | _NumpyTruth
Real: TypeAlias = SupportsFloat | SupportsIndex
Duration: TypeAlias = datetime.timedelta | Real
SyncClient: TypeAlias = "Client | GreenClient"
"""A client whose calls return when they have ended."""


def client_of(client: str | os.PathLike[str] | SyncClient, options: dict[str, Any]) -> SyncClient:
    """Returns the client for an address and options, or the one that was given."""
    if isinstance(client, (str, os.PathLike)):
        return Client(client, **options)
    if not hasattr(type(client), "_function"):
        raise TypeError(f"takes an address or a client whose calls wait, not {type(client).__name__}")
    _refuse(options)
    return client


def async_client_of(client: str | os.PathLike[str] | AsyncClient, options: dict[str, Any]) -> AsyncClient:
    """Does the same for AsyncClient."""
    from nearcall import _async  # asyncio takes long to import

    if not isinstance(client, _async.AsyncClient):
        return _async.AsyncClient(client, **options)
    _refuse(options)
    return client


def _refuse(options: dict[str, Any]) -> None:
    if options:
        raise TypeError(f"options are for an address, and a client was given: {', '.join(options)}")


def _check(changes: str) -> None:
    if changes not in ("error", "warn", "ignore"):
        raise ValueError(f"changes is 'error', 'warn' or 'ignore', not {changes!r}")


class Generated:
    """The functions of generated code, by name."""

    def __init__(self, client: SyncClient, descriptions: dict[str, str], changes: Changes) -> None:
        _check(changes)
        self._client = client
        self._descriptions = descriptions
        self._changes = changes
        self._functions: dict[str, Any] = {}

    def call(self, name: str, /, *args: Any, timeout: float | None) -> Any:
        """Calls a function that was compared."""
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = self._function(name)
        return function(*args, timeout=timeout)

    def _function(self, name: str) -> Any:
        if self._changes == "ignore":
            return self._uncompared(name)
        text = self._descriptions[name]
        return self._client._function(name, json.loads(text)["hash"], text, self._changes == "warn")

    def _uncompared(self, name: str) -> Any:
        function = self._client.function(name)

        def call(*args: Any, timeout: float | None) -> Any:
            if timeout is None:
                return function(*args)
            # As a keyword it is refused where the function has got a parameter of that name.
            return self._client.with_timeout(timeout).call(name, *args)

        return call

    def __reduce__(self) -> tuple[Any, ...]:
        # Functions and what they were compared with are a connection's.
        return (type(self), (self._client, self._descriptions, self._changes))


class AsyncGenerated:
    """The functions of generated code for AsyncClient, by name."""

    def __init__(self, client: AsyncClient, descriptions: dict[str, str], changes: Changes) -> None:
        _check(changes)
        self._client = client
        self._descriptions = descriptions
        self._changes = changes
        self._origins = {name: Origin(name, text, changes) for name, text in descriptions.items()}

    async def call(self, name: str, /, *args: Any, timeout: float | None) -> Any:
        """Calls a function that was compared."""
        if self._changes == "ignore":
            client = self._client if timeout is None else self._client.with_timeout(timeout)
            return await client.call(name, *args)
        return await self._client._call_generated(self._origins[name], name, args, timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._client, self._descriptions, self._changes))


def _callers_level() -> int:
    """Returns the stack level, for its caller, of the line that called generated code."""
    level, frame = 1, sys._getframe(1)
    entries = (Generated.call.__code__, AsyncGenerated.call.__code__)
    while frame.f_code not in entries and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level + 2  # beyond the generated method


def _said(answer: Any) -> tuple[str, list[str]] | None:
    """Returns the hash and the changes from an answer, if it has them."""
    if not isinstance(answer, dict):
        return None
    function_hash, changes = answer.get("hash"), answer.get("changes")
    if not isinstance(function_hash, str) or not isinstance(changes, list):
        return None
    return (function_hash, changes) if all(isinstance(change, str) for change in changes) else None


class Origin:
    """The description from which a function's code was generated, and which descriptions it fits."""

    def __init__(self, name: str, text: str, changes: Changes) -> None:
        self.name = name
        self.text = text
        self._changes = changes
        self._hash = json.loads(text)["hash"]
        self._fitting: dict[str, None] = {}
        """Hashes of descriptions that servers have compared it with, the oldest first."""
        self._revisions: weakref.WeakKeyDictionary[_core.Engine, int] = weakref.WeakKeyDictionary()
        """Of the description that an engine has, and that it fits."""

    def fits(self, engine: _core.Engine, revision: int) -> bool:
        """Whether it is known to fit the description that an engine has of the function."""
        if self._revisions.get(engine) == revision:
            return True
        function_hash = engine.description(self.name).get("hash")
        if function_hash != self._hash and function_hash not in self._fitting:
            return False
        self._revisions[engine] = revision
        return True

    def trust(self, engine: _core.Engine, revision: int) -> None:
        """Accepts a description for as long as an engine has it, because its server is too old to compare."""
        self._revisions[engine] = revision

    def judge(self, answer: Any, description: dict[str, Any]) -> bool:
        """Raises or warns if the server says that it does not fit. Returns False if the server has
        compared another description."""
        known_hash = description.get("hash", "")
        function_hash, changes = _said(answer) or (known_hash, ["the server does not say how"])
        if function_hash != known_hash:
            return False
        if changes:
            how = "; ".join(changes)
            message = f"{self.name} has changed since this code was generated: {how}; generate it again"
            if self._changes == "error":
                raise FailedPrecondition(message, Code.FAILED_PRECONDITION, Outcome.NOT_EXECUTED)
            warnings.warn(message, stacklevel=_callers_level())
        self._fitting[function_hash] = None
        if len(self._fitting) > _FITTING_MAX:
            del self._fitting[next(iter(self._fitting))]
        return True
