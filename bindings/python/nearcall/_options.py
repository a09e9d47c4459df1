"""What Client and AsyncClient are made with, in the form the extension takes."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from typing import Literal, TypedDict

from nearcall import _core
from nearcall._values import shown

User = int | str
Spin = Literal["auto", "off", "dedicated"]


class Options(TypedDict):
    """Every keyword of Client; AsyncClient has no block_signals."""

    timeout: float | None
    name: str | None
    any_server_user: bool
    allow_abstract: bool
    attempts: int
    server_users: Iterable[User]
    frame_bytes_max: int
    value_bytes_max: int
    shared_memory: bool
    spin: Spin
    block_signals: bool


_USER_ID_MAX = (1 << 32) - 1


def user_id(user: User, option: str) -> int:
    if not isinstance(user, str):
        return _core.whole_number(f"a user's id in {option}", user, 0, _USER_ID_MAX)
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):  # the latter of what cannot be a name, as one with a NUL
        raise ValueError(
            f"{option}: this machine has no user {shown(user)}; name one it has, or give the number"
        ) from None


def core_arguments(
    address: str | os.PathLike[str], options: Options
) -> tuple[str, str, float | None, int, int, int, tuple[int, ...], bool, bool, bool, Spin, bool]:
    """The arguments of _core.Client and _core.Engine."""
    return (
        os.fspath(address),
        options["name"] or f"nearcall-python/{_core.library_version()}",
        options["timeout"],
        options["attempts"],
        options["frame_bytes_max"],
        options["value_bytes_max"],
        tuple(user_id(user, "server_users") for user in options["server_users"]),
        options["any_server_user"],
        options["allow_abstract"],
        options["shared_memory"],
        options["spin"],
        options["block_signals"],
    )
