"""The exercises: `exercise("1.2")` checks an answer, gives hints, shows a solution.

Each module here holds the exercises of one notebook; `base` says what an exercise is.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from d2l_mini.checks import in_line
from d2l_mini.exercises import record
from d2l_mini.exercises.base import SYMBOLS, Exercise

__all__ = ["exercise", "exercises", "progress", "reset_progress"]

MODULES = (
    "attention",
    "heads",
    "positions",
    "blocks",
    "training",
    "prediction",
    "heatmaps",
    "scaling",
)


def exercises() -> dict[str, Exercise]:
    """All exercises by their numbers, in the order of the notebooks."""
    modules = [importlib.import_module(f"{__name__}.{name}") for name in MODULES]
    return {item.number: item for module in modules for item in module.EXERCISES}


def exercise(number: str) -> Exercise:
    """Find an exercise: check(answer), hint() and solution() are what it is for.

    Raises ValueError for a number that there is not.
    """
    known = exercises()
    if str(number) not in known:
        raise ValueError(f"there is no exercise {in_line(number)}; there are {', '.join(known)}")
    return known[str(number)]


@dataclass(frozen=True)
class Progress:
    """Which exercises are solved, by notebook; `reset_progress` forgets it."""

    states: dict[str, str]

    def __repr__(self) -> str:
        lines: dict[str, list[str]] = {}
        for number, state in self.states.items():
            lines.setdefault(number.split(".")[0], []).append(f"{SYMBOLS[state]} {number}")
        solved = sum(state == "right" for state in self.states.values())
        said = [f"notebook {name:0>2}   {'   '.join(marks)}" for name, marks in lines.items()]
        return "\n".join([*said, f"{solved} of {len(self.states)} solved"])


def progress() -> Progress:
    """What is solved so far, on this machine, in any notebook."""
    states = record.read_record()
    return Progress({number: states.get(number, "open") for number in exercises()})


def reset_progress() -> Progress:
    """Forget what is solved."""
    record.reset()
    return progress()
