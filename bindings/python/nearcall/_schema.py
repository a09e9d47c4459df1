"""A function's description as Python shows functions: signature and docstring."""

from __future__ import annotations

import inspect
import itertools
import keyword
from collections.abc import Iterator
from typing import Any

_OWN = "timeout"
"""What a call takes for itself."""

_UNDERSCORES_MAX = 8

_NAMES = {
    "bool": "bool",
    "float32": "float",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "time": "datetime.datetime",
    "duration": "datetime.timedelta",
    "any": "Any",
    "file": "BinaryIO",
    "connection": "socket.socket",
}


def type_text(description: Any) -> str:
    """Returns the type hint for a type of the schema."""
    if isinstance(description, str):
        return _NAMES.get(description, "int")
    if "list" in description:
        return f"list[{type_text(description['list'])}]"
    if "map" in description:
        key, value = description["map"]
        return f"dict[{type_text(key)}, {type_text(value)}]"
    if "optional" in description:
        return f"{type_text(description['optional'])} | None"
    return str(description.get("struct", "Any"))


def _result_text(results: list[Any]) -> str:
    if not results:
        return "None"
    if len(results) == 1:
        return type_text(results[0])
    return f"tuple[{', '.join(type_text(result) for result in results)}]"


def _identifier(name: str) -> str:
    word = "".join(letter if letter.isalnum() else "_" for letter in name)
    return word if word.isidentifier() else f"x{word}"


def keyword_names(params: list[Any]) -> tuple[str, ...]:
    """Returns the names by which parameters can be given as keywords: their own names, or names made from
    these if Python cannot write them or if a call uses them for itself."""
    own = {param["name"] for param in params}
    names: dict[str, None] = {}
    numbers: dict[str, Iterator[int]] = {}
    for param in params:
        name = first = _identifier(param["name"])
        while keyword.iskeyword(name) or name == _OWN or name in names or (name in own and name != param["name"]):
            if len(name) < len(first) + _UNDERSCORES_MAX:
                name += "_"
            else:  # there may be as many as a description holds
                name = f"{first}_{next(numbers.setdefault(first, itertools.count(2)))}"
        names[name] = None
    return tuple(names)


def _required_count(params: list[Any], variadic: bool) -> int:
    count = len(params) - variadic
    while count and isinstance(params[count - 1]["type"], dict) and "optional" in params[count - 1]["type"]:
        count -= 1
    return count


def signature(description: dict[str, Any]) -> inspect.Signature:
    """Returns what inspect.signature() shows for a function of the server."""
    params = description["params"]
    required = _required_count(params, bool(description.get("variadic")))
    names = keyword_names(params)
    parameters = []
    for i, param in enumerate(params):
        variadic = bool(description.get("variadic")) and i == len(params) - 1
        parameters.append(
            inspect.Parameter(
                names[i],
                inspect.Parameter.VAR_POSITIONAL if variadic else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if variadic or i < required else None,
                annotation=type_text(param["type"]),
            )
        )
    # Beside such a parameter it is refused.
    if all(param["name"] != _OWN for param in params):
        parameters.append(
            inspect.Parameter(_OWN, inspect.Parameter.KEYWORD_ONLY, default=None, annotation="float | None")
        )
    return inspect.Signature(parameters, return_annotation=_result_text(description["results"]))


def doc(description: dict[str, Any]) -> str:
    """Returns the docstring of a function of the server: its signature, which help() shows only for
    Python's own functions; then what the server says; then its structs."""
    types = str(signature(description)).replace("'", "")
    lines = [f"{description['name']}{types}", ""]
    lines.append(str(description.get("doc") or f"The function {description['name']} of the server."))
    for name, structure in sorted((description.get("types") or {}).items()):
        lines.append("")
        lines.append(f"{name}:")
        lines.extend(f"    {field['name']}: {type_text(field['type'])}" for field in structure["fields"])
    return "\n".join(lines)
