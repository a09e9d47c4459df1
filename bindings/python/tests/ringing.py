"""A signal's handler that raises, at any one place of Nearcall's own Python code.

CPython looks for signals after calls, where loops go round, and where functions begin or go on. A handler
that raises does so there. A trace function raises there as well, and the code cannot tell the two apart.
"""

from __future__ import annotations

import dis
import functools
import os
import signal
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Self

import nearcall

FOLDER = os.path.dirname(nearcall.__file__) + os.sep
_RESUMED_BY_WAITING = 2
"""From this argument on RESUME is of a coroutine that goes on, and does not look."""

Place = tuple[str, int]
"""A file and its function, and the offset of the instruction that is not reached."""


class RangError(BaseException):
    """What the handler raises: as KeyboardInterrupt no Exception, but it ends no loop."""


class Ringer:
    """Within its block Nearcall's own code is traced: places are collected, or the one that is given rings once."""

    def __init__(self, at: Place | None = None, turn: int = 1) -> None:
        self.places: dict[Place, int] = {}
        """How often each was reached."""
        self.has_rung = False
        self._at = at
        self._turn = turn
        self._looks: dict[CodeType, set[int]] = {}
        self._former: dict[FrameType, int] = {}

    def __enter__(self) -> Self:
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(FOLDER) or (self._at and self._at[0] != _name_of(code)):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "opcode":
            self._former.pop(frame, None)  # it was left, or a call has raised
            return self._step
        former = self._former.get(frame)
        self._former[frame] = frame.f_lasti
        if former is not None and former in self._looks_of(frame.f_code):
            self._reach((_name_of(frame.f_code), frame.f_lasti))
        return self._step

    def _reach(self, place: Place) -> None:
        self.places[place] = self.places.get(place, 0) + 1
        if place == self._at and self.places[place] == self._turn:
            self.has_rung = True
            raise RangError(place)

    def _looks_of(self, code: CodeType) -> set[int]:
        """The instructions after which CPython looks."""
        if code not in self._looks:
            self._looks[code] = {one.offset for one in dis.get_instructions(code) if _looks(one)}
        return self._looks[code]


@functools.cache
def _name_of(code: CodeType) -> str:
    return f"{os.path.basename(code.co_filename)}:{code.co_qualname}"


def _looks(instruction: dis.Instruction) -> bool:
    name = instruction.opname
    if name == "RESUME":
        return instruction.arg is not None and instruction.arg < _RESUMED_BY_WAITING
    return name.startswith("CALL") or ("JUMP_BACKWARD" in name and "NO_INTERRUPT" not in name)


class Storm:
    """Within its block a signal comes again and again, and its handler raises where it finds Nearcall's own code."""

    def __init__(self, seconds: float) -> None:
        self.rung = 0
        self._seconds = seconds
        self._former: Any = None

    def __enter__(self) -> Self:
        self._former = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._former)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_filename.startswith(FOLDER):
            self.rung += 1
            raise RangError(number)


def try_each(
    trial: Callable[[Ringer], None], tried: dict[Place, None], files: tuple[str, ...] = ("",), turn: int = 1
) -> int:
    """Has a trial reach its places, and then ring at each that was not tried, in a trial of its own, when it is
    reached for that time. How many have rung: some are not reached each time."""
    trial(all_places := Ringer())
    places = [at for at, n in all_places.places.items() if n >= turn and at not in tried and at[0].startswith(files)]
    rung = 0
    for place in places:
        ringer = Ringer(place, turn)
        try:
            trial(ringer)
        except BaseException as error:
            error.add_note(f"it rang at {place}" if ringer.has_rung else f"it did not come to {place}")
            raise
        rung += ringer.has_rung
        tried[place] = None
    return rung
