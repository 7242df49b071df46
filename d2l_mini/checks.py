"""Checks of arguments that several modules share: one sentence, early, with the numbers in it."""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Iterable
from numbers import Real
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NUMBERS = (*FLOATS, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def in_line(value: object) -> str:
    """What a value looks like, in one line that is not too long."""
    try:
        value = tuple(value) if isinstance(value, torch.Size) else value
        shown = " ".join(repr(value).split())
    except Exception:  # a number of thousands of digits; what cannot say what it is
        shown = f"of type {type(value).__name__}"
    return shown if len(shown) <= 80 else f"{shown[:80]} …"


def check_count(name: str, number: int, least: int, most: float = sys.maxsize) -> int:
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
    if whole < least and most >= sys.maxsize:
        raise ValueError(f"{name} is {in_line(whole)}; it must be {least} or more")
    if not least <= whole <= most:
        raise ValueError(f"{name} is {in_line(whole)}; it must lie in {least} ... {most}")
    return whole


def as_float(value: object) -> float | None:
    """A real number of any type as a float; None for what is none, or too large for a float."""
    try:
        return float(value) if isinstance(value, Real) else None
    except OverflowError:
        return None


def check_number(name: str, value: float, least: float, most: float = math.inf) -> float:
    """Return a number of any real type as a float; raise ValueError unless it fits the range."""
    number = None if isinstance(value, bool) else as_float(value)
    if number is None or not least <= number <= most:  # NaN fits none
        raise ValueError(
            f"{name} must be a number in {least:g} ... {most:g}, but is {in_line(value)}"
        )
    return number


def check_sizes(**sizes: int) -> None:
    """Raise TypeError where a size is no whole number, ValueError where one is not 1 or more."""
    for name, size in sizes.items():
        check_count(name, size, 1)


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
        torch.empty(0, device=known)  # of no number, so nothing waits for a GPU
        if known.type == "meta":
            raise ValueError("it holds no numbers")
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:  # of several lines
        name = in_line(str(device))
        raise ValueError(f"device is {name}; there is none of this name here") from error
    return known


def check_tensor(tensor: Tensor, name: str) -> None:
    """Raise TypeError where something is no tensor, or not a dense one."""
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
        kind = getattr(tensor, "layout", type(tensor).__name__)
        raise TypeError(f"{name} must be a dense tensor, but is a {kind}")


def as_plain(name: str, value: object):
    """Python's own numbers of a tensor or an array; anything else as it is.

    Raises TypeError where a tensor holds none that can be read.
    """
    if not hasattr(value, "tolist"):
        return value
    try:
        return value.tolist()
    except RuntimeError:  # sparse, or on the meta device
        raise TypeError(f"{name} must be numbers, but are {in_line(value)}") from None


def check_whole(tensor: Tensor, name: str) -> None:
    """Raise TypeError where something is no tensor of whole numbers."""
    check_tensor(tensor, name)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise TypeError(f"{name} are whole numbers, but their type is {tensor.dtype}")


def check_shape(X: Tensor, shape: str) -> None:
    """Raise TypeError where X is no tensor, ValueError where it has not as many dimensions."""
    check_tensor(X, "X")
    if X.dim() != shape.count(",") + 1:
        raise ValueError(f"X must be ({shape}), but it has shape {tuple(X.shape)}")


def check_floats(tensor: Tensor, name: str) -> None:
    """Raise TypeError where something is no tensor of floating-point numbers."""
    check_tensor(tensor, name)
    if tensor.dtype not in FLOATS:
        raise TypeError(f"{name} must be floating-point numbers, but their type is {tensor.dtype}")


def find_outside(numbers: Tensor, most: int) -> int | None:
    """A whole number of a tensor that lies outside 0 ... most; None where there is none.

    Only on a CPU, where a look is free: a GPU would have to wait, so None there.
    """
    if numbers.device.type != "cpu" or numbers.numel() == 0:
        return None
    low, high = (int(number) for number in numbers.aminmax())
    if low < 0:
        return low
    return high if high > most else None


def count_to(end: int, device: torch.device | str) -> Tensor:
    """0, 1, ... end - 1 on a device; ValueError where there is none of this name."""
    end = check_count("a number of steps", end, 0)
    try:
        return torch.arange(end, device=device)
    except (AssertionError, RuntimeError, TypeError, ValueError):
        check_device(device)
        raise
