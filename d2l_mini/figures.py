"""Figures: arrays and labels in, a picture out. No function here knows a model or a widget."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import cycle

import torch
from matplotlib.figure import Figure
from PIL import Image  # matplotlib's own dependency

__all__ = ["Picture", "show_bars", "show_curves", "show_heatmaps"]

# Okabe and Ito's colours, told apart with any kind of colour vision; the strokes and marks say the
# same without colour.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STROKES = ("-", "--", "-.", ":")
MARKS = ("o", "s", "^", "D", "v", "P", "X")


class Picture(Figure):
    """A matplotlib figure that shows itself as the last line of a cell, sharp on any screen.

    `description` says in words what the picture shows; it stands in for it where there is none.
    """

    def __init__(self, *args, description: str = "", **kwargs):
        super().__init__(*args, **{"layout": "constrained", **kwargs})
        self.description = description

    def png(self, sharpness: float = 2) -> bytes:
        """Return the picture as a PNG file, with this many dots for one of a plain screen."""
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=96 * sharpness)
        return file.getvalue()

    @property
    def screen_size(self) -> tuple[int, int]:
        """Width and height in dots of a plain screen."""
        width, height = (round(96 * inches) for inches in self.get_size_inches())
        return width, height

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        """What Jupyter shows and keeps: twice the dots of a plain screen, at the plain size.

        With a palette of 256 colours the notebook's file is a third as large, and no one sees it.
        """
        width, height = self.screen_size
        image = Image.open(io.BytesIO(self.png())).convert("RGB")
        file = io.BytesIO()
        image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(file, "PNG")
        return (
            {"image/png": file.getvalue(), "text/plain": self.description or repr(self)},
            {"image/png": {"width": width, "height": height, "alt": self.description}},
        )


def show_heatmaps(
    matrices,
    xlabel: str,
    ylabel: str,
    titles: Sequence[str] | None = None,
    figsize: tuple[float, float] | None = None,
    cmap: str = "Reds",
    *,
    xticks: Sequence[str] | None = None,
    yticks: Sequence[str] | None = None,
    fmt: str | None = None,
) -> Picture:
    """Draw a grid of heat maps on one shared colour scale (book, section 11.1).

    matrices        (rows, columns, queries, keys): tensor, array or lists of them
    xlabel, ylabel  what the keys and the queries are
    titles          one for each column
    figsize         of the whole picture, in inches; None = 2 inches and a half a panel
    xticks, yticks  a label for each key and each query
    fmt             writes each value into its cell, as in ".2f"; None = no values

    Raises ValueError if the matrices have other dimensions or a list of labels another length.
    """
    matrices = _as_tensor(matrices).detach().float().cpu()
    if matrices.dim() != 4 or 0 in matrices.shape:
        raise ValueError(
            "matrices must be (rows, columns, queries, keys), but have shape "
            f"{tuple(matrices.shape)}"
        )
    rows, columns, queries, keys = matrices.shape
    _check_labels(
        ("titles", titles, columns), ("xticks", xticks, keys), ("yticks", yticks, queries)
    )
    finite = matrices[matrices.isfinite()]  # other cells stay blank
    if len(finite) == 0:
        raise ValueError("matrices hold no finite number, so there is nothing to draw")
    low, high = min(0.0, float(finite.min())), float(finite.max())
    picture = Picture(
        figsize or (2.5 * columns + 0.5, 2.5 * rows),
        layout="compressed",  # made for panels that keep their shape
        description=f"{rows} by {columns} heat maps of {queries} {ylabel} by {keys} {xlabel}, "
        f"values from {float(finite.min()):.2f} to {high:.2f}",
    )
    grid = picture.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for i, row in enumerate(grid):
        for j, axes in enumerate(row):
            image = axes.imshow(matrices[i, j].numpy(), cmap=cmap, vmin=low, vmax=high)
            if fmt is not None:
                _write_values(axes, image, matrices[i, j], fmt)
            if i == rows - 1:
                axes.set_xlabel(xlabel)
            if j == 0:
                axes.set_ylabel(ylabel)
            if titles is not None:
                axes.set_title(titles[j])
            if xticks is not None:
                axes.set_xticks(range(keys), xticks, rotation=90, parse_math=False)
            if yticks is not None:
                axes.set_yticks(range(queries), yticks, parse_math=False)
    picture.colorbar(image, ax=grid, shrink=0.6)
    return picture


def _write_values(axes, image, matrix: torch.Tensor, fmt: str) -> None:
    """Write the values of a heat map into its cells, white on dark ones."""
    for i, row in enumerate(matrix.tolist()):
        for j, value in enumerate(row):
            red, green, blue, _ = image.cmap(image.norm(value))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            color = "white" if dark else "black"
            text = format(value, fmt)
            axes.text(j, i, text, ha="center", va="center", size="small", color=color)


def show_curves(
    x: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    *,
    xscale: str = "linear",
    yscale: str = "linear",
    figsize: tuple[float, float] = (5, 3),
) -> Picture:
    """Draw curves over one axis; each has its colour, its stroke and its mark.

    x        the points at which all curves are measured
    curves   for each name, a value at each point

    Raises ValueError if a curve has another number of values than there are points.
    """
    x = _as_tensor(x).tolist()
    picture = Picture(figsize)
    axes = picture.subplots()
    said = []
    looks = zip(cycle(COLORS), cycle(STROKES), cycle(MARKS), strict=False)
    for (name, values), (color, stroke, mark) in zip(curves.items(), looks, strict=False):
        values = _as_tensor(values).detach().float().tolist()
        if len(values) != len(x):
            raise ValueError(f"the curve {name!r} has {len(values)} values for {len(x)} points")
        axes.plot(x, values, stroke, color=color, marker=mark if len(x) <= 16 else "", label=name)
        said.append(f"{name} from {values[0]:.3g} to {values[-1]:.3g}")
    axes.set(xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale)
    if xscale == "log" and len(x) <= 16:
        axes.set_xticks(x, [f"{point:g}" for point in x])
        axes.set_xticks([], minor=True)
    axes.grid(alpha=0.4)
    axes.legend()
    picture.description = f"{ylabel} against {xlabel}, {x[0]:g} to {x[-1]:g}: {'; '.join(said)}"
    return picture


def show_bars(
    heights,
    xlabel: str,
    ylabel: str,
    titles: Sequence[str] | None = None,
    *,
    xticks: Sequence[str] | None = None,
    figsize: tuple[float, float] | None = None,
) -> Picture:
    """Draw panels of bars side by side, all on one scale.

    heights  (panels, bars)
    titles   one for each panel
    xticks   a label for each bar

    Raises ValueError if the heights have other dimensions or a list of labels another length.
    """
    heights = _as_tensor(heights).detach().float().cpu()
    if heights.dim() != 2 or 0 in heights.shape:
        raise ValueError(f"heights must be (panels, bars), but have shape {tuple(heights.shape)}")
    panels, bars = heights.shape
    _check_labels(("titles", titles, panels), ("xticks", xticks, bars))
    picture = Picture(figsize or (2.5 * panels + 0.5, 2.2))
    said = []
    for i, axes in enumerate(
        picture.subplots(1, panels, sharex=True, sharey=True, squeeze=False)[0]
    ):
        axes.bar(range(bars), heights[i].tolist(), color=COLORS[0])
        axes.set_xlabel(xlabel)
        if i == 0:
            axes.set_ylabel(ylabel)
        if titles is not None:
            axes.set_title(titles[i])
        if xticks is not None:
            axes.set_xticks(range(bars), xticks, rotation=90, parse_math=False)
        else:
            axes.xaxis.get_major_locator().set_params(integer=True)
        low, high = heights[i].min(), heights[i].max()
        said.append(f"{titles[i] if titles else f'panel {i + 1}'} from {low:.2f} to {high:.2f}")
    picture.description = f"bars of {ylabel} for {bars} {xlabel}: {'; '.join(said)}"
    return picture


def _check_labels(*lists: tuple[str, Sequence[str] | None, int]) -> None:
    """Raise ValueError where a list of labels has another length than what it labels."""
    for name, labels, size in lists:
        if labels is not None and len(labels) != size:
            raise ValueError(f"there are {len(labels)} {name} for {size} of them in the picture")


def _as_tensor(matrices) -> torch.Tensor:
    """A tensor out of a tensor, an array, or lists of these or of numbers."""
    if matrices is None:
        raise ValueError(
            "there are no weights to draw: in train mode they are kept only inside "
            "`with keep_attention_weights(net, True)`"
        )
    if isinstance(matrices, (list, tuple)):
        parts = [_as_tensor(matrix) for matrix in matrices]
        if len({part.shape for part in parts}) != 1:
            shapes = sorted({tuple(part.shape) for part in parts})
            raise ValueError(f"all matrices of a picture must have one shape, but have {shapes}")
        return torch.stack(parts)
    return torch.as_tensor(matrices)
