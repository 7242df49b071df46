"""Checks of arguments that several modules share: one sentence, early, with the numbers in it."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable
from numbers import Real
from pathlib import Path

import numpy as np
import torch


def in_line(value: object) -> str:
    """What a value looks like, in one line that is not too long."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= 80 else f"{shown[:80]} …"


def check_count(name: str, number: int, least: int, most: float = math.inf) -> int:
    """Return a whole number of any type as an int.

    Raises TypeError where it is not whole, ValueError where it lies outside least ... most.
    """
    try:
        if isinstance(number, (bool, np.ndarray)) or getattr(number, "ndim", 0) > 0:
            raise TypeError
        if getattr(number, "dtype", None) == torch.bool:
            raise TypeError
        whole = operator.index(number)
    except (TypeError, RuntimeError):  # a tensor without numbers raises the latter
        raise TypeError(f"{name} is {in_line(number)}; it must be a whole number") from None
    if whole < least and most == math.inf:
        raise ValueError(f"{name} is {whole}; it must be {least} or more")
    if not least <= whole <= most:
        raise ValueError(f"{name} is {whole}; it must lie in {least} ... {most}")
    return whole


def check_number(name: str, value: float, least: float, most: float = math.inf) -> float:
    """Return a number of any real type as a float; raise ValueError unless it fits the range."""
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= value <= most:  # NaN
        raise ValueError(
            f"{name} must be a number in {least:g} ... {most:g}, but is {in_line(value)}"
        )
    return float(value)


def check_sizes(dropout: float = 0.0, **sizes: int) -> None:
    """Check what a part of a net is made with: sizes are 1 or more, dropout lies in 0 ... 1.

    Raises TypeError where a size is no whole number, ValueError where a number lies outside.
    """
    for name, size in sizes.items():
        check_count(name, size, 1)
    check_number("dropout", dropout, 0, 1)


def check_path(path: str | os.PathLike) -> Path:
    """Return a path, a leading "~" as the home folder.

    Raises TypeError where it is none (a number would be an open file), ValueError where no file can
    have this name.
    """
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise TypeError(f"a path must be a string or a Path, but is {in_line(path)}")
    try:
        path = Path(path).expanduser()
        if b"\0" in os.fsencode(path):
            raise ValueError("it holds a NUL")
    except (RuntimeError, ValueError) as error:  # no such user's home; what no encoding has
        raise ValueError(f"no file can be named {os.fspath(path)!r} ({error})") from error
    return path


def check_kind(name: str, value: object, kind: type) -> None:
    """Raise TypeError where something is of another kind."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be of type {kind.__name__}, but is a {type(value).__name__}")


def check_text(name: str, text: str) -> None:
    """Raise TypeError where something is no string."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, but is a {type(text).__name__}")


def check_texts(name: str, texts: Iterable[str]) -> list[str]:
    """Return strings as a list; raise TypeError for one string alone, and for what holds others."""
    try:
        texts = [None] if isinstance(texts, str) else list(texts)
    except TypeError:
        texts = [None]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} must be a list of strings; put a single one in brackets: [...]")
    return texts


def check_device(device: torch.device | str) -> torch.device:
    """Return a device; raise ValueError where there is none of this name that holds numbers."""
    try:
        known = torch.device(device)
        torch.zeros(1, device=known).item()
    except (AssertionError, RuntimeError, TypeError) as error:  # of several lines, or of a bug
        raise ValueError(f"device is {str(device)!r}; there is none of this name here") from error
    return known
