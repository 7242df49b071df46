"""What a view is: controls, the picture that they set, and a line of words."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Mapping, Sequence

import ipywidgets as widgets
from matplotlib.axes import Axes

from d2l_mini.figures import Picture

__all__ = ["Explorer", "label_cells", "panels"]

# A slider of ipywidgets has a name for the eye alone, and says its place instead of its value.
NAME_SLIDERS = """
for (const slider of this.closest('.widget-vbox')?.querySelectorAll('.widget-slider') ?? []) {
    const handle = slider.querySelector('[role=slider]')
    const value = slider.querySelector('.widget-readout')
    if (handle && value) {
        handle.ariaLabel = value.ariaLabel = slider.querySelector('.widget-label').textContent
        handle.ariaValueText = value.textContent
        value.role = 'textbox'
    }
}"""


class Explorer(widgets.VBox):
    """Controls, the picture that they set, and a line that says in words what it shows.

    draw      the settings, by name -> a `Picture` whose description is that line; a ValueError's
              sentence is shown to the reader
    buttons   for each label what a press does with the view: most set a control
    controls  for each setting its control, whose value is the default
    """

    def __init__(
        self,
        draw: Callable[..., Picture],
        buttons: Mapping[str, Callable[[Explorer], None]] | None = None,
        /,
        **controls: widgets.ValueWidget,
    ):
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
        try:
            picture = self.draw(**{name: control.value for name, control in self.controls.items()})
            png = picture.png(sharpness=1.5)  # twice the dots would take a third longer
        except Exception as error:
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            self.words.value = (
                f"<b>⚠ {html.escape(kind + str(error))}</b> (The picture is the last.)"
            )
            raise
        self.picture = picture
        self.image.value = picture.html(png).replace(
            "<img", f'<img onload="{html.escape(NAME_SLIDERS)}"', 1
        )
        self.words.value = html.escape(picture.description)

    def _repr_mimebundle_(self, **kwargs) -> tuple[dict, dict]:
        """What Jupyter shows: the view, and for where it cannot live the picture and its line."""
        line = textwrap.fill(self.picture.description, round(12 * self.picture.get_figwidth()))
        self.picture.supxlabel(line, size="medium")
        data, metadata = self.picture._repr_mimebundle_()
        del data["text/html"]  # or someone might show it in place of the view
        return {**super()._repr_mimebundle_(**kwargs), **data}, metadata


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


def label_cells(axes: Axes, keys: Sequence[str], queries: Sequence[str]) -> None:
    """Write the words beside a heat map: as ticks they would take three times as long to draw."""
    axes.set(xticks=[], yticks=[])
    for j, word in enumerate(keys):
        axes.text(j, len(queries) - 0.35, word, ha="center", va="top", rotation=90)
    for i, word in enumerate(queries):
        axes.text(-0.65, i, word, ha="right", va="center_baseline")
    axes.set_xlabel("keys", labelpad=43)
    axes.set_ylabel("queries", labelpad=51)
