"""What a view is: controls, the picture that they set, and a line of words."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from numbers import Integral
from unicodedata import east_asian_width

import ipywidgets as widgets
from matplotlib.axes import Axes

from d2l_mini.checks import check_kind, in_line
from d2l_mini.pictures import Picture

__all__ = ["Explorer", "label_cells", "panels"]

# A slider of ipywidgets has a name for the eye alone, and says its place instead of its value.
NAME_SLIDERS = """
for (const slider of this.closest('.widget-vbox')?.querySelectorAll('.widget-slider') ?? []) {
    const handle = slider.querySelector('[role=slider]')
    const value = slider.querySelector('.widget-readout')
    if (handle && value && !handle.ariaLabel) {
        handle.ariaLabel = value.ariaLabel = slider.querySelector('.widget-label').textContent
        value.role = 'textbox'
        const say = () => {
            if (handle.ariaValueText !== value.textContent) handle.ariaValueText = value.textContent
        }
        const observer = new MutationObserver(say)
        observer.observe(value, {childList: true, characterData: true, subtree: true})
        observer.observe(handle, {attributeFilter: ['aria-valuetext']})
        say()
    }
}"""


class Explorer(widgets.VBox):
    """Controls, the picture that they set, and a line that says in words what it shows.

    draw      the settings, by name -> a `Picture` whose description is that line; a ValueError's
              sentence is shown to the reader
    buttons   for each label what a press does with the view: most set a control
    controls  for each setting its control, whose value is the default

    `picture` is what is shown, and `settings` are those that made it, also after a mistake.
    """

    _ipython_display_ = None  # ipywidgets 7, which Colab has, would show the view alone

    def __init__(
        self,
        draw: Callable[..., Picture],
        buttons: Mapping[str, Callable[[Explorer], None]] | None = None,
        /,
        **controls: widgets.ValueWidget,
    ):
        if not callable(draw):
            raise TypeError(f"draw must be a function, but is {in_line(draw)}")
        check_kind("buttons", {} if buttons is None else buttons, Mapping)
        self.draw = draw
        self.controls = controls
        self.image = widgets.HTML()
        self.words = widgets.HTML()
        self.redraw()
        for control in controls.values():
            control.style.description_width = "initial"
            control.continuous_update = False
            control.observe(self.redraw, names="value")
        self.buttons = {label: widgets.Button(description=label) for label in buttons or {}}
        for label, press in (buttons or {}).items():
            self.buttons[label].on_click(lambda _, press=press: press(self))
        handles = [*controls.values(), *self.buttons.values()]
        row = widgets.Box(handles, layout={"flex_flow": "row wrap"})
        super().__init__([row, self.image, self.words])

    def redraw(self, change=None) -> None:
        """Put the picture of the present settings in place of the last, or say what is wrong."""
        settings = {name: control.value for name, control in self.controls.items()}
        try:
            self.show(self.draw(**settings))
        except Exception as error:
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            self.words.value = (
                f"<b>⚠ {html.escape(kind + str(error))}</b> (The picture is the last.)"
            )
            raise
        self.settings = settings

    def show(self, picture: Picture) -> None:
        """Put a picture and its words in place of the last."""
        png = picture.png(sharpness=1.5)  # twice the dots would take a third longer
        self.picture = picture
        self.image.value = picture.html(png).replace(
            "<img", f'<img onload="{html.escape(NAME_SLIDERS)}"', 1
        )
        self.words.value = html.escape(picture.description)

    @contextmanager
    def held(self, name: str) -> Iterator[widgets.ValueWidget]:
        """A control, to be set without a redraw where the change of another brings one anyway."""
        control = self.controls[name]
        control.unobserve(self.redraw, names="value")
        try:
            yield control
        finally:
            control.observe(self.redraw, names="value")

    def _repr_mimebundle_(self, **kwargs) -> tuple[dict, dict]:
        """What Jupyter shows: the view, and for where it cannot live the picture and its line."""
        with captioned(self.picture) as picture:
            data, metadata = picture._repr_mimebundle_()
        del data["text/html"]  # or someone might show it in place of the view
        view = {"model_id": self.model_id, "version_major": 2, "version_minor": 0}
        return {"application/vnd.jupyter.widget-view+json": view, **data}, metadata


def panels(
    columns: int,
    width: float,
    height: float,
    *,
    wspace: float = 0.9,
    left: float = 0.8,
    right: float = 0.3,
    bottom: float = 1.0,
    top: float = 0.4,
) -> tuple[Picture, list[Axes]]:
    """A picture with a row of panels in fixed places, and its axes; sizes are inches.

    To lay out a picture anew takes longer than to draw it. There is room below for two lines.
    """
    total = left + columns * width + (columns - 1) * wspace + right
    high = bottom + height + top
    picture = Picture((total, high), layout="none")
    places = [(left + i * (width + wspace), bottom, width, height) for i in range(columns)]
    axes = [picture.add_axes((x / total, y / high, w / total, h / high)) for x, y, w, h in places]
    return picture, axes


@contextmanager
def captioned(picture: Picture) -> Iterator[Picture]:
    """The picture with its description below it for a while, on three lines at most."""
    line = textwrap.fill(
        picture.description,
        round(12 * picture.get_figwidth()),
        max_lines=3,
        placeholder=" …",
    )
    place = {"x": 0.5, "y": 0.01, "ha": "center", "va": "bottom"}
    text = picture.text(s=line, **place, size="medium", parse_math=False)
    try:
        yield picture
    finally:
        text.remove()


def shorten(text: str, room: int = 11) -> str:
    """A text of a reader's as it is drawn: cut with "…" where it is longer than so many letters.

    A Chinese letter takes the room of two. Counting is faster than `Picture.fit`, which measures.
    """
    ends = list(accumulate(2 if east_asian_width(letter) in "WF" else 1 for letter in text))
    if not text or ends[-1] <= room:
        return text
    return text[: sum(end < room for end in ends)] + "…"


def write_words(axes: Axes, keys: Sequence[str], queries: Sequence[str]) -> None:
    """Write the words beside a heat map: as ticks they would take three times as long to draw."""
    axes.set(xticks=[], yticks=[])
    look = {"parse_math": False}
    below, beside = axes.get_xaxis_transform(), axes.get_yaxis_transform()
    for j, word in enumerate(map(shorten, keys)):
        axes.text(j, -0.025, word, ha="center", va="top", rotation=90, transform=below, **look)
    for i, word in enumerate(map(shorten, queries)):
        axes.text(-0.025, i, word, ha="right", va="center_baseline", transform=beside, **look)


def label_cells(axes: Axes, keys: Sequence[str], queries: Sequence[str]) -> None:
    """Write the words beside a heat map, and what they are."""
    write_words(axes, keys, queries)
    axes.set_xlabel("keys", labelpad=43)
    axes.set_ylabel("queries", labelpad=51)


def check_setting(name: str, value: object, allowed: Sequence) -> object:
    """Return a setting, a number as an int, of a range or list; raise ValueError for another."""
    if type(value) is bool or not isinstance(value, (Integral, str)) or value not in allowed:
        choice = f"one of {', '.join(map(repr, allowed))}"
        if isinstance(allowed, range):
            kind = "an even" if allowed.step == 2 else "a whole"
            choice = f"{kind} number in {allowed[0]} ... {allowed[-1]}"
        raise ValueError(f"{name} must be {choice}, but is {in_line(value)}")
    return value if isinstance(value, str) else int(value)
