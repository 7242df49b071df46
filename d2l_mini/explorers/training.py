"""The view of notebook 05: a short training with a part left out, compared with the run before."""

from __future__ import annotations

import html

import ipywidgets as widgets
from matplotlib.axes import Axes

from d2l_mini.ablation import PARTS, SHORT_EPOCHS, ShortRun, train_short
from d2l_mini.explorers.base import Explorer, panels
from d2l_mini.pictures import COLORS, Picture

__all__ = ["draw_training", "explore_training"]


# The picture ---------------------------------------------------------------------------------


def draw_training(part: str | None, lr: float, warm: bool) -> Picture:
    """Train with these settings, if that was never done, and draw how it went.

    Raises ValueError as `train_short`; a part without a name is None.
    """
    part = None if isinstance(part, str) and not part else part
    run = train_short(part, lr, warm)
    return draw_runs(((part, float(lr), warm), run))


def draw_runs(now: tuple, before: tuple | None = None) -> Picture:
    """The losses of a short training, and what it gets right, beside those of the run before.

    now, before  the settings (part, lr, warm) and their `ShortRun`, or the losses so far of one
                 that is going on
    """
    picture, (left, right) = panels(2, 2.9, 2.1, top=0.5)
    for i, (name, pair) in enumerate((("now", now), ("before", before))):
        if pair is not None:
            _draw_run(left, right, i, name, pair[1], 0.0 if before is None else 0.36 * i - 0.18)
    left.set(xlabel="epoch", ylabel="nats per token", xlim=(0.7, SHORT_EPOCHS + 0.3))
    left.set_ylim(0, min(8, max(5.5, left.get_ylim()[1])))  # what diverges leaves the picture
    left.set_xticks(range(1, SHORT_EPOCHS + 1))
    left.grid(alpha=0.4)
    right.set(xlim=(-0.6, 1.6), ylim=(0, 1.1), yticks=(0, 0.5, 1), ylabel="share right")
    right.set_xticks((0, 1), ("seen", "held out"))
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
    said = [_say_run(*now)]
    if before is not None:
        said.append(f"Before: {_say_run(*before)}")
    picture.description = " ".join(said)
    return picture


def _draw_run(left: Axes, right: Axes, i: int, name: str, run, shift: float) -> None:
    """One run: its losses, and two bars, moved by `shift`, if it has come to its end."""
    losses = run.loss if isinstance(run, ShortRun) else run
    look = {"marker": "os"[i], "linestyle": ("-", "--")[i], "color": COLORS[i]}
    left.plot(range(1, len(losses) + 1), losses, label=name, **look)
    if isinstance(run, ShortRun):
        shares, hatch = [run.seen, run.held_out], ("", "//")[i]
        bars = right.bar([shift, 1 + shift], shares, 0.34, color=COLORS[i], hatch=hatch, ec="white")
        right.bar_label(bars, [f"{share:.0%}" for share in shares], size="small")


def _say_settings(part: str | None, lr: float, warm: bool) -> str:
    model = (
        "the whole model" if part is None else f"without {'the ' * (part == 'causal mask')}{part}"
    )
    return f"{model}, learning rate {lr:.2g}, {'with' if warm else 'without'} warm-up"


def _say_run(settings: tuple, run: ShortRun | list[float]) -> str:
    said = f"{_say_settings(*settings)}: ".capitalize()
    if not isinstance(run, ShortRun):
        return f"{said}epoch {len(run)} of {SHORT_EPOCHS}, loss {run[-1]:.2f}."
    return (
        f"{said}loss {run.loss[-1]:.2f} after {len(run.loss)} epochs, right {run.seen:.0%} of the "
        f"seen and {run.held_out:.0%} of the held-out sentences."
    )


# The view ------------------------------------------------------------------------------------


class TrainingExplorer(Explorer):
    """Controls that set up a run, and a button that trains it and compares it with the last."""

    def __init__(self, **controls: widgets.ValueWidget):
        super().__init__(draw_training, {"Train": TrainingExplorer.train}, **controls)
        self.now = self.chosen, train_short(*self.chosen)

    @property
    def chosen(self) -> tuple:
        """What the controls say."""
        part, lr, warm = (control.value for control in self.controls.values())
        return part or None, lr, warm

    def redraw(self, change=None) -> None:
        """At first draw; later only say what would be trained."""
        if change is None:
            super().redraw()
        else:
            self.words.value = html.escape(
                f"To be trained: {_say_settings(*self.chosen)}. Press Train. (The picture is the "
                "last run.)"
            )

    def train(self) -> None:
        """Train the present settings, drawing after each epoch, and compare with the run before."""
        settings, button = self.chosen, self.buttons["Train"]
        if settings == self.now[0]:
            self.words.value = html.escape(
                "This is the run in the picture: change a setting, then press Train. "
                f"{self.picture.description}"
            )
            return
        before, controls = self.now, {name: box.value for name, box in self.controls.items()}
        button.disabled = True
        try:
            run = train_short(
                *settings, watch=lambda losses: self.show(draw_runs((settings, losses), before))
            )
            self.now, self.settings = (settings, run), controls
            self.show(draw_runs(self.now, before))
        except BaseException as error:  # an interruption too: what was drawn of the run goes again
            self.show(draw_runs(before))
            known = isinstance(error, (ValueError, FloatingPointError))
            kind = "" if known else f"{type(error).__name__}: "
            self.words.value = f"<b>⚠ {html.escape(kind + str(error))}</b>"
            if not known:
                raise
        finally:
            button.disabled = False


def explore_training() -> TrainingExplorer:
    """What is left out, the learning rate and the warm-up against a training of two seconds."""
    options = [("nothing", ""), *((part, part) for part in PARTS)]  # of None, none is selected
    return TrainingExplorer(
        part=widgets.Dropdown(options=options, description="leave out"),
        lr=widgets.FloatLogSlider(0.01, min=-3, max=0, step=0.1, description="learning rate"),
        warm=widgets.Checkbox(True, description="warm-up"),
    )
