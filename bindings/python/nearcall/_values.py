"""Values of types that are not Python's own, as what they are to a function of the server.

The extension comes here only for what it does not know itself: numbers of
numpy and decimal, buffers, and attributes that a class declares.
"""

from __future__ import annotations

import collections
import datetime
import math
import operator
import reprlib
import sys
import types
from collections.abc import KeysView
from typing import Any

_SHOWN_BITS_MAX = 256
_SHOWN_BYTES_MAX = 256
_SHOWN_CHARACTERS_MAX = 80

_BYTE_FORMATS = {"B", "c"}
_OF_NUMPY = operator.attrgetter("generic", "ndarray")
_VOID = operator.attrgetter("void")
_MASKED = operator.attrgetter("MaskedArray")
_OF_DECIMAL = operator.attrgetter("Decimal")
_OF_FRACTIONS = operator.attrgetter("Fraction")
_OF_CTYPES = operator.attrgetter("Structure", "Union")
_OF_PANDAS = operator.attrgetter("Timedelta")
_NO_NUMBERS = (str, bytes, bytearray, list, tuple, dict)
NO_LISTS = (str, bytes, bytearray, collections.UserString, collections.abc.Mapping)
"""Texts and mappings are iterable, and no lists; nor is what says that it is one, as a proxy does."""

_WHOLE_NUMBERS_END = 2.0**53
_DURATIONS_END_S = 1e10
_NANOSECOND_DIGITS = 9
_NANOSECONDS = 10**_NANOSECOND_DIGITS
_KINDS = (
    "None, bool, int, float, str, bytes, list, dict and datetime can be sent, and numbers of other types; "
    "convert it to one of them"
)


class Refusal(TypeError):
    """A value that does not fit. The text, if there is one, says what to do instead. Nothing else that is
    raised here is: it is what code of the value's own has raised."""


class _Short(reprlib.Repr):
    """By the class that a value has: reprlib goes by what that is called."""

    def repr1(self, x: Any, level: int) -> str:
        return super().repr1(x, level) if type(x) in (str, tuple, frozenset) else self.repr_instance(x, level)

    def repr_instance(self, x: Any, level: int) -> str:
        kind = type(x)  # isinstance() believes what a value says that it is
        if issubclass(kind, int) and (bits := int.bit_length(x)) > _SHOWN_BITS_MAX:
            return f"an integer of {bits} bits"
        if issubclass(kind, bytes) and bytes.__len__(x) > 2 * _SHOWN_BYTES_MAX:
            x = b"".join(bytes.__getitem__(x, end) for end in (slice(_SHOWN_BYTES_MAX), slice(-_SHOWN_BYTES_MAX, None)))
        try:
            text = str.__str__(repr(x))
        except Exception:
            text = f"<{_NAME_OF(kind)} instance>"
        half = (self.maxother - len(self.fillvalue)) // 2
        return text if len(text) <= self.maxother else text[:half] + self.fillvalue + text[-half:]


_NAME_OF = type.__dict__["__name__"].__get__
_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = _SHOWN_CHARACTERS_MAX


def shown(value: object) -> str:
    """What the program gave, in a message: shortened, where it is large."""
    return _SHORT.repr(value)


def plain(value: object) -> object:
    """A value for a parameter of type any, as one that Python has itself."""
    if isinstance(value, datetime.timedelta):
        raise Refusal("any has no duration: the function would see a bare integer; send value.total_seconds()")
    if _is_numpy(value):
        return _plain_numpy(value)
    if isinstance(value, _NO_NUMBERS):
        raise Refusal("it only stands for what can be sent; send that itself")
    if isinstance(value, bool):
        return bool(value)
    if isinstance(value, collections.UserString):
        return str(value)
    whole = _whole(value)
    if whole is not None:
        return whole
    if _has(value, "__float__"):
        if _is_decimal(value):
            raise Refusal("any has no decimal numbers; send float(value) or str(value)")
        return number(value)
    return _checked(_memory(value, _KINDS))


def number(value: Any) -> float:
    """What has __float__ or __index__ as a float, unless that loses digits."""
    has_float = _has(value, "__float__")
    if not has_float and not _has(value, "__index__"):
        raise Refusal
    if _is_numpy(value):
        _require_unmasked(value)
        if value.ndim != 0 or value.dtype.kind not in "biuf":
            raise Refusal("of numpy, single real numbers are taken; use value.tolist() for an array")
        whole = int(value) if value.dtype.kind in "iu" else None
    elif has_float:
        _require_no_text(value)
        real = _real(value)
        # Below, a float has every whole number.
        whole = _whole(value) if _WHOLE_NUMBERS_END <= abs(real) < math.inf else None
    else:
        whole = _whole(value)
    if whole is not None or _is_numpy(value):
        real = _real(value if whole is None else whole)
    if not (_is_exact(value, real) if whole is None else whole == real):
        raise Refusal("it has digits that a float64 has not; use float(value) if they do not matter")
    return real


def seconds(value: Any) -> int | float:
    """Whole nanoseconds of seconds that are written exactly, or else a float of seconds."""
    if _is_decimal(value) and type(value).__module__ == "decimal":
        return _nanoseconds_of_decimal(value)
    if _is_fraction(value) and type(value).__module__ == "fractions":
        return _whole_nanoseconds(*divmod(value.numerator * _NANOSECONDS, value.denominator))
    return number(value)


def _nanoseconds_of_decimal(value: Any) -> int | float:
    if not abs(real := _real(value)) < _DURATIONS_END_S:
        return real  # which is refused for its size
    sign, digits, exponent = value.as_tuple()
    coefficient = "".join(map(str, digits)).rstrip("0")  # the exponent may be anything
    exponent += len(digits) - len(coefficient) + _NANOSECOND_DIGITS
    if not coefficient:
        return 0
    whole = int(coefficient) * 10**exponent if exponent >= 0 else 0
    return _whole_nanoseconds(-whole if sign else whole, exponent < 0)


def _whole_nanoseconds(whole: int, rest: int) -> int:
    if rest:
        raise Refusal("it has digits beyond nanoseconds; round it to nine of them")
    return whole


def finer(value: Any) -> tuple[int, int] | None:
    """Seconds and nanoseconds of a timedelta that has more than microseconds, as those of pandas."""
    if not _is_of(value, "pandas", _OF_PANDAS):
        return None
    return value.days * 86_400 + value.seconds, value.microseconds * 1000 + value.nanoseconds


def integer(value: Any) -> int:
    """What has __index__ as that, unless it is masked."""
    if _is_numpy(value):
        _require_unmasked(value)
        if value.ndim != 0 or value.dtype.kind not in "iu":
            raise Refusal("of numpy, single whole numbers are taken; use value.tolist() for an array")
    elif not _has(value, "__index__"):
        raise Refusal
    return _index(value)


def text(value: object) -> str:
    """What Python has for texts of other classes; nothing else is one but str."""
    if isinstance(value, collections.UserString):
        return str(value)
    raise Refusal


def boolean(value: Any) -> bool:
    """A truth of numpy's; nothing else is one but bool."""
    if _is_numpy(value) and value.ndim == 0 and value.dtype.kind == "b":
        _require_unmasked(value)
        return bool(value)
    raise Refusal


def buffer(value: Any) -> memoryview:
    """The bytes of what is one-dimensional bytes; other memory is not sent as it lies there."""
    if _is_numpy(value) and value.ndim == 0:
        raise Refusal("a single value of numpy is no bytes; use value.tobytes() if its memory is meant")
    if _is_numpy(value):
        _require_unmasked(value)
    return _checked(_memory(value, "it has no memory that is bytes"))


def declared_names(value: object, has_memory: bool) -> set[str]:
    """The names of an object's values besides what its __dict__ has: those that its class declares, and
    the extra ones that a pydantic model keeps in a slot. A structure of ctypes has memory to show."""
    names = _names(getattr(value, "_fields", None))
    if has_memory and _is_of(value, "ctypes", _OF_CTYPES):
        names |= {field[0] for base in type(value).__mro__ for field in base.__dict__.get("_fields_", ())}
    for base in type(value).__mro__:
        names |= _names(base.__dict__.get("__slots__"))
    if "__pydantic_extra__" in names:
        names |= _names(getattr(value, "__pydantic_extra__", None))
    return names


def _names(declared: object) -> set[str]:
    """Those that an attribute declares; what others than its inventors mean by it may be anything."""
    if isinstance(declared, str):
        return {declared}
    if not isinstance(declared, (tuple, list, set, frozenset, dict, KeysView)):
        return set()
    return {name for name in declared if isinstance(name, str)}


def record(value: Any) -> dict[str, object] | None:
    """The fields of a record of numpy's, which is asked for them by name: attributes of all records have some of
    the same names. None for what is no record."""
    if not _is_of(value, "numpy", _VOID):
        return None
    require_elements(value)
    return {name: value[name] for name in value.dtype.names}


def require_elements(value: Any) -> None:
    """Refuses memory of numpy that has no fields: it can be iterated over, and gives nothing."""
    if _is_of(value, "numpy", _VOID) and value.dtype.names is None:
        raise Refusal("this void of numpy has no fields; use value.tobytes() if its memory is meant")


def is_absent(value: object, name: str, error: AttributeError) -> bool:
    """Whether an object that raised this when it was asked for an attribute has none of that name. Else
    the attribute is there, and its own code has failed."""
    for base in type(value).__mro__:
        if name in base.__dict__:
            is_slot = isinstance(base.__dict__[name], types.MemberDescriptorType)
            return is_slot and error.name == name
    # Python names what is missing in each, unless __getattr__ has: within that, it may be another.
    return error.name == name


def _memory(value: Any, hint: str) -> memoryview:
    try:
        return memoryview(value)
    except (TypeError, ValueError) as error:
        # From Python 3.12 on, code of the value's own may have raised it.
        if isinstance(getattr(type(value), "__buffer__", None), types.FunctionType):
            raise
        raise Refusal(hint) from error


def _real(value: Any) -> float:
    """What numbers of Python say that cannot be floats is no code of the program's own."""
    try:
        return float(value)
    except TypeError as error:
        if _is_of_type(error):
            raise Refusal("it is no float64") from error
        raise
    except (OverflowError, ValueError) as error:
        if isinstance(value, int) or _is_decimal(value) or _is_fraction(value) or _is_of_type(error):
            raise Refusal("it is no float64") from error
        raise


def _index(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        if _is_of_type(error):
            raise Refusal("it is no whole number") from error
        raise


def _is_of_type(error: Exception) -> bool:
    """Whether an error that was just caught was raised by code in C, and not by code in Python. In this way a
    type that is made in C, such as a proxy or a tensor, says that it is not of a kind."""
    return error.__traceback__ is None or error.__traceback__.tb_next is None


def _checked(view: memoryview) -> memoryview:
    if view.ndim != 1 or view.format.lstrip("@=<>!") not in _BYTE_FORMATS or not view.c_contiguous:
        raise Refusal(
            f"a buffer is bytes only where it is one-dimensional bytes without gaps, and this one has {view.ndim} "
            f"dimensions of format {shown(view.format)}; use value.tolist(), or bytes(value) if its memory is meant"
        )
    return view


def _is_of(value: object, module: str, kinds: operator.attrgetter[Any]) -> bool:
    """Whether it is of these classes. A module that another thread is just importing has not all of them,
    and one that stands in the place of another may have anything by their names."""
    loaded = sys.modules.get(module)
    if loaded is None:
        return False
    try:
        return isinstance(value, kinds(loaded))
    except (AttributeError, TypeError):
        return False


def _has(value: object, method: str) -> bool:
    """Whether its class has it. A proxy's has all, and it says to be of the class that it stands for."""
    return hasattr(type(value), method) and hasattr(getattr(value, "__class__", type(value)), method)


def _require_no_text(value: object) -> None:
    """What can be read as a number is none where it is text, which % formats and - does not take."""
    kind = getattr(value, "__class__", type(value))
    if hasattr(kind, "__mod__") and not hasattr(kind, "__sub__"):
        raise Refusal("text is no number; use float(value) if it is one, or str(value)")


def _is_numpy(value: object) -> bool:
    return _is_of(value, "numpy", _OF_NUMPY)


def _has_masked(mask: Any) -> bool:
    """Whether a part of a value is masked; that of a record has a part for each field."""
    fields = mask.dtype.names
    return bool(mask.any()) if fields is None else any(_has_masked(mask[field]) for field in fields)


def _require_unmasked(value: Any) -> None:
    if _is_of(value, "numpy.ma", _MASKED) and _has_masked(value.mask):
        raise Refusal("it is masked, so that it has no value; use value.filled(...)")


def _whole(value: Any) -> int | None:
    """Exactly, unless it is none: what may be one number or another, as a tensor or a proxy, has __index__ for all
    and raises a TypeError for some. What has no __float__ is nothing else, and its TypeError its own."""
    if not _has(value, "__index__"):
        return None
    _require_no_text(value)
    try:
        return _index(value)
    except TypeError:
        if not _has(value, "__float__"):
            raise
        return None


def _plain_numpy(value: Any) -> object:
    _require_unmasked(value)
    if value.ndim != 0:
        raise Refusal("arrays are no values; send value.tolist(), or value.tobytes() if its memory is meant")
    kind = value.dtype.kind
    if kind in "bUS":
        return value.item()
    if kind in "iu":
        return int(value)
    if kind == "f":
        return number(value)
    if kind in "mM":
        raise Refusal(
            "times of numpy have no time zone and their own unit; "
            "send a datetime with a time zone, or a number"
        )
    raise Refusal(f"{value.dtype} of numpy has no counterpart; " + _KINDS)


def _is_decimal(value: object) -> bool:
    return _is_of(value, "decimal", _OF_DECIMAL)


def _is_fraction(value: object) -> bool:
    return _is_of(value, "fractions", _OF_FRACTIONS)


def _is_exact(value: Any, real: float) -> bool:
    """Whether the float, written out, is the number again: 0.1 is to Decimal("0.1")."""
    if real != real:
        return True
    if _is_decimal(value):
        return bool(type(value)(repr(real)) == value)
    if _is_fraction(value):
        return bool(value == real)
    return not _is_numpy(value) or bool(value == real)
