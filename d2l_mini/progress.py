"""Progress: a stopwatch, sums, and a plot that grows while a model trains."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence

import torch

from d2l_mini.checks import (
    as_float,
    as_plain,
    check_count,
    check_number,
    check_text,
    check_texts,
    in_line,
)

__all__ = ["Accumulator", "Animator", "Timer"]


class Timer:
    """A stopwatch in seconds that waits for the accelerator; it runs from the moment it is made."""

    def __init__(self):
        self.times: list[float] = []
        self.start()

    def start(self) -> None:
        """Start, or start anew."""
        self.tik = self._now()

    def stop(self) -> float:
        """Record the time since the start, and return it."""
        self.times.append(self._now() - self.tik)
        return self.times[-1]

    def avg(self) -> float:
        """The mean of the recorded times; ValueError where there is none."""
        if not self.times:
            raise ValueError("no time is recorded yet: stop() records one")
        return sum(self.times) / len(self.times)

    def sum(self) -> float:
        """The sum of the recorded times."""
        return sum(self.times)

    def cumsum(self) -> list[float]:
        """The recorded times, each added to all before it."""
        return [sum(self.times[: i + 1]) for i in range(len(self.times))]

    @staticmethod
    def _now() -> float:
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()  # kernels run on after their call returns
        return time.perf_counter()


class Accumulator:
    """Sums over n quantities. Tensors are added where they are, and read only when asked for."""

    def __init__(self, n: int):
        self.data: list = [0] * check_count("n", n, 0)

    def add(self, *args) -> None:
        """Add one number, or tensor of one number, to each sum.

        Raises ValueError if there are not n of them.
        """
        if len(args) != len(self.data):
            raise ValueError(
                f"this accumulator has {len(self.data)} sums, but was given {len(args)}"
            )
        self.data = [total + _number(value) for total, value in zip(self.data, args, strict=True)]

    def reset(self) -> None:
        """Set every sum to 0."""
        self.data = [0] * len(self.data)

    def __getitem__(self, idx: int) -> float:
        return float(self.data[check_count("the number of a sum", idx, -math.inf)])


class Animator:
    """Draw lines that grow, in one picture that is updated in place.

    legend         a name for each line
    fmts           formats of the lines; with more lines than formats they start again
    nrows, ncols   a grid of panels; figsize is the size of one of them, in inches

    In a notebook the picture is drawn anew from time to time, so seldom that drawing costs little
    beside the work it shows, and once more when the cell has run. Elsewhere the last values stand
    in one line of text: rewritten in place in a terminal, said once by `close` in a log.
    """

    def __init__(
        self,
        xlabel: str | None = None,
        ylabel: str | None = None,
        legend: Sequence[str] | None = None,
        xlim: Sequence[float] | None = None,
        ylim: Sequence[float] | None = None,
        xscale: str = "linear",
        yscale: str = "linear",
        fmts: Sequence[str] = ("-", "m--", "g-.", "r:"),
        nrows: int = 1,
        ncols: int = 1,
        figsize: tuple[float, float] = (3.5, 2.5),
    ):
        from d2l_mini.pictures import Picture, check_figsize, check_scale, check_strokes

        nrows, ncols = check_count("nrows", nrows, 1, 100), check_count("ncols", ncols, 1, 100)
        width, height = check_figsize(figsize)
        self.fig = Picture((width * ncols, height * nrows))
        self.axes = list(self.fig.subplots(nrows, ncols, squeeze=False).flat)
        for name, label in (("xlabel", xlabel), ("ylabel", ylabel)):
            if label is not None:
                check_text(name, label)
        check_scale("xscale", xscale)
        check_scale("yscale", yscale)
        limits = {"xlim": _check_limits("xlim", xlim), "ylim": _check_limits("ylim", ylim)}
        settings = {"xlabel": xlabel, "ylabel": ylabel, **limits}
        for axes in self.axes:
            axes.set(xscale=xscale, yscale=yscale)
            axes.set(**{name: value for name, value in settings.items() if value is not None})
            axes.grid()
        self.xlabel, self.ylabel = xlabel or "x", ylabel or "y"
        self.legend = check_texts("legend", () if legend is None else legend)
        self.fmts = check_texts("fmts", () if fmts is None else fmts) or ["-"]
        check_strokes("fmts", self.fmts)
        self.shell = _notebook()
        self.handle = None  # of the picture in the running cell
        self.open = False
        self.next_time = 0.0

    def add(self, x, y, panel: int = 0) -> None:
        """Add a point to each line of a panel; where it is None, that line gets none.

        x, y   numbers, or sequences with one number a line; a single x serves all lines

        Raises ValueError if x and y differ in length.
        """
        x, y = as_plain("x", x), as_plain("y", y)
        y = list(y) if hasattr(y, "__len__") else [y]
        x = list(x) if hasattr(x, "__len__") else [x] * len(y)
        if len(x) != len(y):
            raise ValueError(f"there are {len(x)} values of x for {len(y)} of y")
        points = [
            (None, None) if a is None or b is None else (float(_number(a)), float(_number(b)))
            for a, b in zip(x, y, strict=True)
        ]
        axes = self.axes[check_count("panel", panel, 0, len(self.axes) - 1)]
        while len(axes.lines) < len(y):
            self._new_line(axes)
        for line, (a, b) in zip(axes.lines, points, strict=False):
            if a is not None:
                line.set_data([*line.get_xdata(), a], [*line.get_ydata(), b])
        if not self.open:
            self.open = True
            if self.shell:
                self.shell.events.register("post_execute", self.close)
        self._show_now_and_then()

    def close(self) -> None:
        """Show the last state. A later `add` begins a new picture, with all points so far."""
        if not self.open:
            return
        self.open = False
        if self.shell:
            self.shell.events.unregister("post_execute", self.close)
            self._draw()
            self.handle = None
        else:
            print(self._clear_line() + self.text())

    def text(self) -> str:
        """The last point of every line, in one line of text."""
        points = []
        for line in (line for axes in self.axes for line in axes.lines if len(line.get_xdata())):
            x, y = line.get_xdata()[-1], line.get_ydata()[-1]
            points.append(f"{self.xlabel} {x:g}: {line.get_label()} {y:.4g}")
        return ", ".join(points)

    def _new_line(self, axes) -> None:
        i = len(axes.lines)
        label = self.legend[i] if i < len(self.legend) else self.ylabel
        [line] = axes.plot([], [], self.fmts[i % len(self.fmts)], label=label)
        if line.get_marker() == "None":  # a dot on the first point, else nothing shows it alone
            line.set(marker=".", markevery=(0, sys.maxsize))
        if self.legend:
            axes.legend()

    def _show_now_and_then(self) -> None:
        """Show the state, unless the last time was too short ago: 20 times what showing costs."""
        start = time.perf_counter()
        if start < self.next_time:
            return
        if self.shell:
            self._draw()
        elif sys.stdout.isatty():
            print(self._clear_line() + self.text(), end="", flush=True)
        end = time.perf_counter()
        self.next_time = end + min(max(20 * (end - start), 0.2), 2.0)

    def _draw(self) -> None:
        from IPython.display import display

        for axes in self.axes:
            axes.relim()
            axes.autoscale_view()
        self.fig.description = self.text()
        if self.handle is None:
            self.handle = display(self.fig, display_id=True)
        else:
            self.handle.update(self.fig)

    @staticmethod
    def _clear_line() -> str:
        return "\r\x1b[K" if sys.stdout.isatty() else ""


def _number(value):
    """A plain number, or a tensor that adds up exactly: without gradient, and not in half."""
    number = as_float(value)
    if number is not None:
        return number
    fits = isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex()
    if not fits or value.layout != torch.strided:
        raise TypeError(f"a number is asked for, but {in_line(value)} is none")
    if not value.is_floating_point():
        return value.detach().long()
    return value.detach().to(torch.float32 if value.device.type == "mps" else torch.float64)


def _check_limits(name: str, limits: Sequence[float] | None) -> tuple[float, float] | None:
    """Return both ends of an axis; ValueError where they are no two numbers."""
    if limits is None:
        return None
    match as_plain(name, limits):
        case (low, high):
            ends = (low, high)  # where one is None, the data tell
            return tuple(end if end is None else check_number(name, end, -1e9, 1e9) for end in ends)
    raise ValueError(f"{name} must be (from, to), but is {in_line(limits)}")


def _notebook():
    """The IPython shell of a notebook's kernel, or None outside a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if hasattr(shell, "kernel") else None
