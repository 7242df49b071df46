"""Figures: arrays and labels in, a picture out. No function here knows a model or a widget."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import cycle

import torch
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from PIL import Image  # matplotlib's own dependency

__all__ = [
    "Picture",
    "show_bars",
    "show_clocks",
    "show_curves",
    "show_heatmaps",
    "show_transformer",
]

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


def show_clocks(
    hands,
    xlabel: str,
    ylabel: str,
    *,
    xticks: Sequence[str] | None = None,
    yticks: Sequence[str] | None = None,
    figsize: tuple[float, float] | None = None,
) -> Picture:
    """Draw a grid of clocks with one hand each; a hand that points up has not turned.

    hands           (rows, columns, 2): how far right and how far up the tip of each hand is, of 1
    xlabel, ylabel  what the columns and the rows are
    xticks, yticks  a label for each column and each row; None = their numbers
    figsize         of the whole picture, in inches; None = 0.75 inches a clock

    Raises ValueError if the hands have other dimensions or a list of labels another length.
    """
    hands = _as_tensor(hands).detach().float().cpu()
    if hands.dim() != 3 or hands.shape[2] != 2 or 0 in hands.shape:
        raise ValueError(f"hands must be (rows, columns, 2), but have shape {tuple(hands.shape)}")
    rows, columns, _ = hands.shape
    _check_labels(("xticks", xticks, columns), ("yticks", yticks, rows))
    xticks = [str(j) for j in range(columns)] if xticks is None else xticks
    yticks = [str(i) for i in range(rows)] if yticks is None else yticks
    picture = Picture(figsize or (0.75 * columns + 1, 0.75 * rows + 0.6))
    axes = picture.subplots()
    centres = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).flip(1).float()
    tips = centres + 0.42 * hands.reshape(-1, 2) * torch.tensor([1, -1])  # rows count downwards
    sizes = len(centres) * [0.84]
    places = {"units": "x", "offsets": centres.numpy(), "transOffset": axes.transData}
    axes.add_collection(
        EllipseCollection(sizes, sizes, 0, **places, facecolors="none", edgecolors="0.6")
    )
    axes.add_collection(
        LineCollection(torch.stack([centres, tips], dim=1).numpy(), colors=COLORS[0], linewidths=2)
    )
    axes.scatter(*tips.T.numpy(), s=25, color=COLORS[0], zorder=3)
    axes.set(xlim=(-0.6, columns - 0.4), ylim=(rows - 0.4, -0.6), aspect="equal")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_xticks(range(columns), xticks, parse_math=False)
    axes.set_yticks(range(rows), yticks, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    turned = torch.rad2deg(torch.atan2(hands[..., 0], hands[..., 1])).round().int() % 360
    said = [
        f"{ylabel} {label} at {', '.join(map(str, row))} degrees"
        for label, row in zip(yticks, turned.tolist(), strict=True)
    ]
    picture.description = (
        f"{rows} by {columns} clocks, their hands clockwise from the top, for {xlabel} "
        f"{', '.join(xticks)}: {'; '.join(said)}"
    )
    return picture


# The parts of a Transformer by their names in the package: how each is drawn, and what it is.
PARTS = {
    "embedding": ("plain", "embedding × √d"),
    "pos_encoding": ("plain", "add positions"),
    "attention": ("sublayer", "self-attention"),
    "attention1": ("sublayer", "causal self-attention"),
    "attention2": ("cross", "cross-attention"),
    "ffn": ("sublayer", "feed-forward network"),
    "addnorm1": ("add", "add, then normalise"),
    "addnorm2": ("add", "add, then normalise"),
    "addnorm3": ("add", "add, then normalise"),
    "dense": ("plain", "linear: a score for each word"),
}
FILLS = {"plain": "#eeeeee", "sublayer": "#cfe3f3", "cross": "#fbe0cc", "add": "#d5efe6"}

Parts = Mapping[str, tuple[Sequence[int], int]]


def show_transformer(
    encoder: Parts,
    decoder: Parts,
    num_layers: int,
    inputs: tuple[str, str] = ("source", "target"),
    *,
    figsize: tuple[float, float] = (8, 7),
) -> Picture:
    """Draw both halves of a Transformer from the bottom up, each part with its shape and its size.

    encoder, decoder  for the name of each part: the shape of its output, how many parameters
    num_layers        how many blocks like the one that is drawn each half has
    inputs            what comes in at the bottom of each half

    Raises ValueError for a name that no part of the package has, a half without a block or with
    its block in pieces, and an `addnorm` that does not follow a sublayer.
    """
    picture = Picture(figsize, layout="none")
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, figsize[0]), ylim=(0, figsize[1]))  # inches
    axes.axis("off")
    rise = (figsize[1] - 0.7) / max(len(encoder), len(decoder))  # from a box to the next
    wide, high = 0.31 * figsize[0], 0.58 * rise
    said = []
    for half, parts, x, side, word in (
        ("encoder", encoder, 0.225 * figsize[0], -1, inputs[0]),
        ("decoder", decoder, 0.76 * figsize[0], 1, inputs[1]),
    ):
        block = _find_block(half, parts)
        heights = {name: 0.45 + rise * (i + 0.5) for i, name in enumerate(parts)}
        _draw_half(axes, parts, heights, x, side, wide, high)
        count = sum(parts[name][1] for name in block)
        _frame_block(axes, heights, block, num_layers, count, x, side, wide, high)
        axes.text(x, 0.22, word, ha="center", va="center", parse_math=False)
        listed = (f"{PARTS[name][1]} {tuple(s)} {n:,}" for name, (s, n) in parts.items())
        said.append(f"{half} of {num_layers} blocks, from the bottom: {', '.join(listed)}")
        if half == "encoder":
            top = max(heights.values()) + high / 2
    out = x, max(heights.values()) + high / 2
    _draw_arrow(axes, [out, (x, figsize[1] - 0.28)])
    axes.text(x, figsize[1] - 0.16, "logits", ha="center", va="center")
    if "attention2" in heights:
        turn, roof, y = 0.49 * figsize[0], top + 0.12 + 0.75 * (rise - high), heights["attention2"]
        start = 0.225 * figsize[0]
        corners = [(start, top), (start, roof), (turn, roof), (turn, y), (x - wide / 2, y)]
        _draw_arrow(axes, corners, "-", COLORS[1])
        axes.text(turn - 0.05, y, "keys,\nvalues", ha="right", va="center", size="small")
        axes.text(x - 0.05, y - rise / 2, "queries", ha="right", va="center", size="small")
    axes.plot([], [], "--", color=COLORS[2], label="residual connection")
    axes.plot([], [], "-", color=COLORS[1], label="what the encoder returns")
    axes.legend(loc="upper left", frameon=False)
    picture.description = f"shape and parameters of each part; {'; '.join(said)}"
    return picture


def _find_block(half: str, parts: Parts) -> list[str]:
    """The names of the parts that are repeated; ValueError where they do not hang together."""
    names = list(parts)
    for name in names:
        if name not in PARTS:
            raise ValueError(f"{name!r} is no part of a Transformer: they are {', '.join(PARTS)}")
    kinds = [PARTS[name][0] for name in names]
    places = [i for i, kind in enumerate(kinds) if kind != "plain"]
    if not places or places != list(range(places[0], places[-1] + 1)):
        raise ValueError(f"the {half} must have one block, all in one piece")
    for i in places:
        if kinds[i] == "add" and (i < 2 or kinds[i - 1] not in ("sublayer", "cross")):
            raise ValueError(f"{names[i]} of the {half} follows no sublayer that it could add to")
    return [names[i] for i in places]


def _draw_half(axes, parts, heights, x, side, wide, high) -> None:
    """The boxes of a half around x, arrows up, and residual connections on one side, -1 or 1."""
    centers = list(heights.values())
    rise = centers[1] - centers[0]
    for name, y in heights.items():
        kind, words = PARTS[name]
        shape, count = parts[name]
        _draw_arrow(axes, [(x, max(y - rise + high / 2, 0.33)), (x, y - high / 2)])
        _draw_box(axes, x, y, wide, high, FILLS[kind])
        axes.text(x, y + 0.2 * high, words, ha="center", va="center")
        text = f"({', '.join(map(str, shape))})   {f'{count:,}' if count else 'no'} parameters"
        axes.text(x, y - 0.24 * high, text, ha="center", va="center", size="small", color="0.25")
        if kind == "add":
            start, out = y - 1.5 * rise, x + side * (wide / 2 + 0.2)
            corners = [(x, start), (out, start), (out, y), (x + side * wide / 2, y)]
            _draw_arrow(axes, corners, "--", COLORS[2])


def _frame_block(axes, heights, block, num_layers, count, x, side, wide, high) -> None:
    """A frame around the parts that are repeated, and how often."""
    left = x - wide / 2 - (0.32 if side < 0 else 0.12)
    low, up = heights[block[0]] - high / 2 - 0.2, heights[block[-1]] + high / 2 + 0.12
    _draw_box(axes, left + wide / 2 + 0.22, (low + up) / 2, wide + 0.44, up - low, "none")
    text = f"{num_layers} block{'s' * (num_layers != 1)} like this,\n{count:,} parameters each"
    if side < 0:
        axes.text(left, up + 0.06, text, ha="left", va="bottom", size="small")
    else:
        axes.text(left - 0.1, up, text, ha="right", va="top", size="small")


def _draw_box(axes, x, y, wide, high, fill) -> None:
    """A box with round corners around (x, y)."""
    look = {"boxstyle": "round,pad=0,rounding_size=0.06", "fc": fill, "ec": "0.4"}
    axes.add_patch(FancyBboxPatch((x - wide / 2, y - high / 2), wide, high, **look))


def _draw_arrow(axes, corners, stroke: str = "-", color: str = "black") -> None:
    """A line over corners with a head at its end."""
    axes.plot(*zip(*corners[:-1], strict=True), stroke, color=color, lw=1.2)
    look = {"arrowstyle": "-|>", "color": color, "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", corners[-1], corners[-2], arrowprops=look)


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
