"""Checks of arguments that several modules share: one sentence, early, with the numbers in it."""

from __future__ import annotations

import math
import operator
from numbers import Real

import torch


def check_count(name: str, number: int, least: int, most: float = math.inf) -> int:
    """Return a whole number of any type as an int.

    Raises TypeError where it is not whole, ValueError where it lies outside least ... most.
    """
    try:
        if isinstance(number, bool) or getattr(number, "dtype", None) == torch.bool:
            raise TypeError
        whole = operator.index(number)
    except (TypeError, RuntimeError):  # a tensor without numbers raises the latter
        raise TypeError(f"{name} is {number!r}; it must be a whole number") from None
    if whole < least and most == math.inf:
        raise ValueError(f"{name} is {whole}; it must be {least} or more")
    if not least <= whole <= most:
        raise ValueError(f"{name} is {whole}; it must lie in {least} ... {most}")
    return whole


def check_number(name: str, value: float, least: float, most: float) -> None:
    """Raise ValueError unless a setting is a number between these two."""
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= value <= most:  # NaN
        raise ValueError(f"{name} must be a number in {least:g} ... {most:g}, but is {value!r}")


def check_sizes(dropout: float = 0.0, **sizes: int) -> None:
    """Check what a part of a net is made with: sizes are 1 or more, dropout lies in 0 ... 1.

    Raises TypeError where a size is no whole number, ValueError where a number lies outside.
    """
    for name, size in sizes.items():
        check_count(name, size, 1)
    check_number("dropout", dropout, 0, 1)
