"""A redraw of each interactive view, over all its controls."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from benchmarks.runner import Case, Settings, stopwatch


def views(settings: Settings) -> Iterator[Case]:
    """Set each control to its ends and back, as a reader does; the median of all these redraws."""
    from d2l_mini import explorers

    names = [name for name in explorers.__all__ if name.startswith("explore_")]
    for name in names[:1] if settings.quick else names:
        view = getattr(explorers, name)()  # the first of some trains a translator, or reads it
        yield Case(f"redraw {name}", "ms", {"d2l_mini": lambda view=view: redraw(view)})


def redraw(view) -> float:
    """The median of a redraw in milliseconds; settings that go ill together do not count."""
    times = [stopwatch(view.redraw)]
    for control in view.controls.values():
        before = control.value
        for value in (*ends(control), before):
            picture = view.image.value
            try:
                took = stopwatch(move(control, value))
            except ValueError:
                continue
            if view.image.value != picture:
                times.append(took)
    return 1000 * statistics.median(times)


def move(control, value) -> Callable[[], None]:
    """A function that sets a control."""
    return lambda: setattr(control, "value", value)


def ends(control) -> list:
    """The values at both ends of a control; of a text none."""
    if hasattr(control, "base"):
        return [control.base**control.min, control.base**control.max]
    if hasattr(control, "min"):
        return [control.min, control.max]
    if hasattr(control, "options"):
        values = [value for _, value in control._options_full]
        return [values[0], values[-1]]
    return [not control.value] if isinstance(control.value, bool) else []
