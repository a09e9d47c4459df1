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
PlainTcp = Literal["warn", "refuse"]
Path = str | os.PathLike[str]


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
    tls_authorities: Path | None
    tls_certificate: Path | None
    tls_key: Path | None
    tls_server_name: str | None
    silence: float | None
    plain_tcp: PlainTcp


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


def _path(path: Path | None, option: str) -> str | None:
    if path is None:
        return None
    try:
        text = os.fspath(path)
    except TypeError:
        text = None  # an ssl.SSLContext is no use: this is not Python's ssl
    if not isinstance(text, str):
        raise TypeError(f"{option} is the path of a PEM file, not {shown(path)}")
    return text


_PLAIN = {"warn": 0, "refuse": 1}
"""The numbers of csrc/options.c."""
PLAIN_QUIET = 2


def _plain(plain_tcp: PlainTcp) -> int:
    if plain_tcp not in ("warn", "refuse"):
        raise ValueError(f"plain_tcp is 'warn' or 'refuse', not {shown(plain_tcp)}")
    return _PLAIN[plain_tcp]


Secure = tuple[str | None, str | None, str | None, str | None]


def core_arguments(
    address: str | os.PathLike[str], options: Options
) -> tuple[
    str, str, float | None, int, int, int, tuple[int, ...], bool, bool, bool, Spin, bool, Secure, float | None, int
]:
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
        (
            _path(options["tls_authorities"], "tls_authorities"),
            _path(options["tls_certificate"], "tls_certificate"),
            _path(options["tls_key"], "tls_key"),
            options["tls_server_name"],
        ),
        options["silence"],
        _plain(options["plain_tcp"]),
    )
