"""What an exercise is, and how an answer is checked.

An answer is right if it gives what the solution gives, on random inputs of several shapes. A wrong
one is compared with the mistakes that people make: one that gives the same is named, with a small
input on which it and the truth differ.
"""

from __future__ import annotations

import ctypes
import html
import inspect
import math
import textwrap
import threading
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import torch
from torch import Tensor

from d2l_mini.checks import as_float
from d2l_mini.exercises.record import remember

__all__ = ["Exercise", "FunctionExercise", "Result", "ValueExercise"]

SECONDS = 5  # for one call of an answer
LETTERS = 400  # of a value that is shown
COLORS = {"right": "#009E73", "wrong": "#D55E00", "open": "#0072B2"}
SYMBOLS = {"right": "✓", "wrong": "✗", "open": "○"}


@dataclass(frozen=True)
class Result:
    """A box with words and a symbol in a notebook, a few lines of text in a terminal.

    state  "right", "wrong", or "open": not attempted yet, a hint, a solution
    code   shown below the words, as it is
    """

    number: str
    state: str
    words: str
    code: str = ""

    def __repr__(self) -> str:
        code = "\n\n" + textwrap.indent(self.code, "    ") if self.code else ""
        return f"{SYMBOLS[self.state]} {self.number}: {self.words}{code}"

    def _repr_html_(self) -> str:
        code = f"<pre>{html.escape(self.code)}</pre>" if self.code else ""
        return (
            f'<div style="border-left: 0.4em solid {COLORS[self.state]}; padding: 0.2em 0.8em">'
            f"<b>{SYMBOLS[self.state]} {self.number}:</b> {html.escape(self.words)}{code}</div>"
        )


class NotAttempted(Exception):
    """The answer is still the stub."""


class TookTooLong(Exception):
    """The answer was stopped."""


class Stop(BaseException):
    """Stops an answer; what it catches itself is no more than Exception, as a rule."""


@dataclass
class Exercise:
    """An exercise; `exercise("1.2")` finds it by its number.

    right     the function that is asked for, or the function that computes the value
    hints     two: the second nearly gives it away
    """

    number: str
    title: str
    minutes: int
    right: Callable
    hints: tuple[str, str]
    hints_given: int = field(default=0, init=False)

    def check(self, answer: object) -> Result:
        """Say whether an answer is right, and if not, why; nothing is raised."""
        try:
            if is_stub(answer):
                raise NotAttempted
            with torch.inference_mode(False), torch.enable_grad():  # which a reader may have off
                words = self.find_fault(answer)
        except NotAttempted:
            return Result(self.number, "open", "Not attempted yet.")
        except Exception as error:  # from within the answer: it says no to == or to repr()
            words = f"Not yet: what this gives cannot be looked at ({type(error).__name__})."
        state = "wrong" if words else "right"
        remember(self.number, state)
        return Result(self.number, state, words or f"Right: {self.title}.")

    def find_fault(self, answer: object) -> str | None:
        """Say what is wrong with an answer, None if nothing is; raise NotAttempted for a stub."""
        raise NotImplementedError

    def hint(self) -> Result:
        """Give the first hint, from the second call on the second."""
        self.hints_given = min(self.hints_given + 1, len(self.hints))
        said = f"Hint {self.hints_given} of {len(self.hints)}: {self.hints[self.hints_given - 1]}"
        return Result(self.number, "open", said)

    def solution(self) -> Result:
        """Show the source of a solution, the one that the tests check."""
        source = textwrap.dedent(inspect.getsource(self.right)).rstrip()
        return Result(self.number, "open", "A solution:", source)


@dataclass
class FunctionExercise(Exercise):
    """A function is asked for.

    mistakes   wrong answers that people give; the docstring of each is what to tell them
    broken     what the reader is given to repair: as long as an answer does the same, the
               exercise counts as not attempted
    inputs     from a random generator, the arguments of several calls: other shapes in each, odd
               sizes among them, one small enough to be shown
    tolerance  how far numbers may be apart: this, and this share of the right one
    """

    mistakes: Sequence[Callable] = field(kw_only=True)
    broken: Callable | None = field(default=None, kw_only=True)
    inputs: Callable[[torch.Generator], Iterable[tuple]] = field(kw_only=True)
    tolerance: float = field(default=1e-4, kw_only=True)

    def find_fault(self, answer: object) -> str | None:
        """As `Exercise.find_fault`."""
        if not callable(answer):
            return "Hand in the function itself, as in check(name), and not what it returns."
        generator = torch.Generator()
        generator.seed()  # afresh: an answer for one example only does not pass
        calls = list(self.inputs(generator))
        truths = [outcome(self.right, call) for call in calls]
        given = []
        for call in calls:
            arguments = deepcopy(call)
            given.append(outcome(answer, arguments))
            if isinstance(given[-1], TookTooLong):
                return f"Stopped after {SECONDS} seconds. Is there a loop that never ends?"
            if is_stub(given[-1]):
                raise NotAttempted
            if not alike(arguments, call, 0):
                return "It changes its arguments, which the caller still needs: work on a copy."
        wrong = [
            i for i, (a, b) in enumerate(zip(given, truths, strict=True))
            if not alike(a, b, self.tolerance)
        ]  # fmt: skip
        if not wrong:
            return None
        if self.broken and self.acts_like(self.broken, calls, given):
            raise NotAttempted
        shown = min(wrong, key=lambda i: size(calls[i]))
        example = self.example(calls[shown], given[shown], truths[shown])
        for mistake in self.mistakes:
            if self.acts_like(mistake, calls, given):
                return f"{inspect.cleandoc(mistake.__doc__)} {example}".replace("\n", " ")
        return f"Not yet. {example}"

    def acts_like(self, mistake: Callable, calls: Sequence[tuple], given: Sequence) -> bool:
        """Whether the answers are those of a mistake."""
        return all(
            alike(a, outcome(mistake, deepcopy(call)), self.tolerance)
            for call, a in zip(calls, given, strict=True)
        )

    def example(self, call: tuple, given: object, truth: object) -> str:
        """Show one call, what the answer gave, and what is right."""
        names = inspect.signature(self.right).parameters
        arguments = ", ".join(f"{n} = {show(a)}" for n, a in zip(names, call, strict=False))
        verb = "raises" if isinstance(given, BaseException) else "gives"
        return f"For {arguments} it {verb} {show(given)}; right is {show(truth)}."


@dataclass
class ValueExercise(Exercise):
    """A value is asked for: a number, a shape, a word; or the result of a measurement.

    mistakes   values that people give, each with what to tell them
    tolerance  how far numbers may be apart: this, and this share of the right one
    """

    mistakes: Sequence[tuple[object, str]] = field(kw_only=True)
    tolerance: float = field(default=1e-4, kw_only=True)

    def find_fault(self, answer: object) -> str | None:
        """As `Exercise.find_fault`."""
        truth = self.right()
        if alike(answer, truth, self.tolerance):
            return None
        for mistake, words in self.mistakes:
            if alike(answer, mistake, min(self.tolerance, 0.02)):
                return words
        number = None if isinstance(answer, bool) else as_float(answer)
        if isinstance(truth, (int, float)) and number is not None and not math.isnan(number):
            return f"Not yet: {show(answer)} is too {'small' if answer < truth else 'large'}."
        return f"Not yet: {show(answer)} is not it."


def outcome(function: Callable, arguments: tuple) -> object:
    """What a call returns, or the exception that it raises; a call that takes too long is stopped.

    The call runs in a thread of its own, because only a thread can be stopped on every system.
    """
    result: list = []

    def work() -> None:
        try:
            result.append(function(*arguments))
        except Stop:
            return
        except BaseException as error:  # sys.exit() is an answer too
            result.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if not result:
        which, what = ctypes.c_ulong(thread.ident), ctypes.py_object(Stop)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(which, what)
        thread.join(1)
        return TookTooLong()
    return result[0]


def alike(a: object, b: object, tolerance: float) -> bool:
    """Whether a is what b is: numbers and tensors within a tolerance, whatever their type."""
    if isinstance(b, BaseException):
        return type(a) is type(b)
    if isinstance(a, BaseException) or isinstance(a, str) != isinstance(b, str):
        return False
    if isinstance(b, dict):
        return (
            isinstance(a, dict)
            and a.keys() == b.keys()
            and all(alike(a[key], b[key], tolerance) for key in b)
        )
    if isinstance(b, (list, tuple)) and not all(isinstance(x, (int, float)) for x in b):
        return (
            isinstance(a, (list, tuple))
            and len(a) == len(b)
            and all(alike(x, y, tolerance) for x, y in zip(a, b, strict=True))
        )
    if isinstance(b, (Tensor, int, float, list, tuple)):
        if isinstance(a, bool) != isinstance(b, bool):
            return False
        try:
            a, b = (torch.as_tensor(float(x) if is_exact(x) else x).detach().cpu() for x in (a, b))
        except (OverflowError, TypeError, ValueError, RuntimeError):
            return False
        if a.is_complex() and not b.is_complex():
            return False
        if a.is_floating_point() and a.itemsize == 2:  # no more digits than it can have
            tolerance = max(tolerance, 2 * torch.finfo(a.dtype).eps)
        tolerances = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
        return a.shape == b.shape and torch.allclose(a.double(), b.double(), **tolerances)
    return bool(a == b)


def is_exact(value: object) -> bool:
    """Whether this is a Fraction or a Decimal, of which torch knows nothing."""
    return isinstance(value, (Fraction, Decimal))


def size(arguments: object) -> int:
    """How much there is to show."""
    if isinstance(arguments, Tensor):
        return arguments.numel()
    if isinstance(arguments, (list, tuple)):
        return sum(map(size, arguments))
    return len(arguments) if isinstance(arguments, (str, dict)) else 1


def is_stub(value: object) -> bool:
    """Whether this is what a stub has or returns: nothing, dots, or several of them."""
    if isinstance(value, (list, tuple)) and len(value) > 0:
        return all(map(is_stub, value))
    return value is None or value is ...


def show(value: object) -> str:
    """A value in a sentence, cut if long: numbers to three places, a larger tensor as its shape."""
    words = show_whole(value)
    return words if len(words) <= LETTERS else f"{words[:LETTERS]} …"


def show_whole(value: object) -> str:
    """As `show`, however long."""
    if isinstance(value, TookTooLong):
        return "nothing in time"
    if isinstance(value, BaseException):
        last = " ".join(str(value).split())
        return f"{type(value).__name__}: {last[:200]}"
    if isinstance(value, Tensor):
        if value.numel() > 12:
            return f"a tensor of shape {tuple(value.shape)}"
        return show(value.tolist())
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {show(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        parts = ", ".join(map(show, value))
        return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
    return repr(round(value, 3) if isinstance(value, float) else value)
