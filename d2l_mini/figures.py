"""Figures: arrays and labels in, a picture out. No function here knows a model or a widget."""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Mapping, Sequence
from itertools import cycle

import torch
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from PIL import Image  # matplotlib's own dependency

__all__ = [
    "Picture",
    "show_attention",
    "show_bars",
    "show_beam_tree",
    "show_clocks",
    "show_curves",
    "show_heatmaps",
    "show_links",
    "show_points",
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

    def html(self, png: bytes) -> str:
        """An image file of the picture as an element of a page, with its words."""
        words = html.escape(self.description)
        width, height = self.screen_size
        return (  # decoded before it is shown: no flicker
            f'<img alt="{words}" width="{width}" height="{height}" decoding="sync" '
            'style="max-width: 100%; height: auto" '
            f'src="data:image/png;base64,{base64.b64encode(png).decode()}">'
        )

    @property
    def screen_size(self) -> tuple[int, int]:
        """Width and height in dots of a plain screen."""
        width, height = (round(96 * inches) for inches in self.get_size_inches())
        return width, height

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        """What Jupyter shows and keeps: twice the dots of a plain screen, at the plain size.

        With a palette of 256 colours the notebook's file is a third as large, and no one sees it.
        JupyterLab shows the HTML, for of a PNG alone it leaves out the words.
        """
        width, height = self.screen_size
        image = Image.open(io.BytesIO(self.png())).convert("RGB")
        file = io.BytesIO()
        image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(file, "PNG")
        png, words = file.getvalue(), self.description
        return (
            {"text/html": self.html(png), "image/png": png, "text/plain": words or repr(self)},
            {"image/png": {"width": width, "height": height, "alt": words}},
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


# For each step the beginnings kept, from the best down; for each the number of the one in the step
# before that it goes on from, its last token, and its log-probability.
Tree = Sequence[Sequence[tuple[int, str, float]]]

TREE_LOOKS = {  # colour of the words, of the lines, their width
    "won": (COLORS[0], COLORS[0], 2.5),
    "kept": ("black", "0.4", 1.2),
    "dropped": ("0.6", "0.82", 1.0),
}


def show_beam_tree(
    steps: Tree, *, best: int = 0, figsize: tuple[float, float] | None = None
) -> Picture:
    """Draw the beginnings that a beam search kept at each step, a column a step, the best on top.

    steps    for each step, for each beginning: the number of the one before that it goes on from
             (0 at the first step), its last token, its log-probability in nats; the token of one
             that had ended before is ""
    best     which beginning of the last step won
    figsize  of the whole picture, in inches; None = 1 a step, 0.5 a beginning

    The one that won is in colour; what leads to none of the last step is pale. Below a token stands
    the probability of all tokens so far, where it has changed and does not round to 0.00.

    Raises ValueError if there is no step or an empty one, a beginning goes on from one that is not
    there, or `best` is none of the last step.
    """
    widest = max(map(len, steps), default=0)
    picture = Picture(figsize or (len(steps) + 0.8, 0.5 * widest + 0.7), layout="none")
    draw_beam_tree(picture.add_axes((0.01, 0, 0.98, 1)), steps, best)
    picture.description = (
        f"tree of a beam search, {len(steps)} steps, at most {widest} beginnings kept; the best: "
        f"{' '.join(token for token in trace_back(steps, best)[1] if token)}"
    )
    return picture


def trace_back(steps: Tree, last: int) -> tuple[list[int], list[str]]:
    """Number and token, step by step, of what leads to beginning number `last` of the last step."""
    rows, tokens = [last], []
    for step in reversed(steps):
        parent, token, _ = step[rows[-1]]
        rows.append(parent)
        tokens.append(token)
    return rows[-2::-1], tokens[::-1]


def draw_beam_tree(axes: Axes, steps: Tree, best: int = 0) -> None:
    """Draw the tree of `show_beam_tree` into axes, which lose their frame."""
    check_beam_tree(steps, best)
    ways = [trace_back(steps, last)[0] for last in range(len(steps[-1]))]
    kept = {place for way in ways for place in enumerate(way)}
    won = set(enumerate(ways[best]))
    last_row = max(map(len, steps)) - 1
    lines: dict[str, list] = {name: [] for name in TREE_LOOKS}
    look = {"ha": "center", "va": "center", "size": "small", "parse_math": False}
    axes.text(-0.85, last_row / 2, "<bos>", **look)
    ends, numbers = [(-0.6, last_row / 2)], [""]  # of the last column
    for column, step in enumerate(steps):
        axes.text(column, -0.8, f"step {column + 1}", color="0.4", **look)
        starts, ends, before, numbers = ends, [], numbers, []
        for row, (parent, token, log_prob) in enumerate(step):
            place, half = (column, row), min(0.06 + 0.037 * max(len(token), 4), 0.46)
            name = "won" if place in won else "kept" if place in kept else "dropped"
            ends.append((column + half, row))
            numbers.append(f"{math.exp(log_prob):.2f}")
            if token:
                is_news = numbers[-1] not in ("0.00", before[parent])
                text = f"{token}\n{numbers[-1]}" if is_news else token
                axes.text(*place, text, color=TREE_LOOKS[name][0], **look)
                lines[name].append([starts[parent], (column - half, row)])
            else:  # it had ended before
                lines[name].append([starts[parent], (column - half, row), ends[-1]])
    for name in reversed(TREE_LOOKS):
        _, color, width = TREE_LOOKS[name]
        axes.add_collection(LineCollection(lines[name], colors=color, linewidths=width))
    axes.set(xlim=(-1.15, len(steps) - 0.5), ylim=(last_row + 0.55, -1.1))
    axes.axis("off")


def check_beam_tree(steps: Tree, best: int) -> None:
    """Raise ValueError where the parts of a tree do not fit together."""
    if not steps or not all(steps):
        raise ValueError("a tree needs a step, and each step a beginning")
    sizes = [1, *map(len, steps)]
    for number, (size, step) in enumerate(zip(sizes, steps, strict=False), start=1):
        for parent, token, _ in step:
            if not 0 <= parent < size:
                raise ValueError(
                    f"{token!r} at step {number} goes on from number {parent}, but the step before "
                    f"has {size}, from 0"
                )
    if not 0 <= best < sizes[-1]:
        raise ValueError(f"best is {best}, but the last step has {sizes[-1]} beginnings, from 0")


Block = tuple[torch.Tensor, Sequence[str], Sequence[str]]


def show_attention(
    blocks: Mapping[str, Block],
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    cell: float = 0.15,
    cmap: str = "Reds",
) -> Picture:
    """Draw kinds of attention one below the other: a row a layer, a column a head.

    blocks         for each title: weights (layers, heads, queries, keys), the words of the queries
                   and those of the keys; these stand at the left and under the first head
    rows, columns  what the layers and the heads are called; None = "layer 1", "head 1" ...
    cell           the side of a weight, in inches; all have one colour scale, from 0 to 1

    Raises ValueError if there is no block, the weights have other dimensions, the blocks have not
    one number of heads, or a list of words or names has another length.
    """
    read = {title: _read_block(title, *block) for title, block in blocks.items()}
    numbers = sorted({weights.shape[1] for weights, _, _ in read.values()})
    if len(numbers) != 1:
        raise ValueError(f"all blocks must have one number of heads, but there are {numbers}")
    columns = [f"head {j + 1}" for j in range(numbers[0])] if columns is None else columns
    _check_labels(("columns", columns, numbers[0]))
    left = 0.6 + max(_room(queries) for _, queries, _ in read.values())
    step = 0.12 + cell * max(len(keys) for _, _, keys in read.values())
    tall = {title: 0.1 + cell * len(queries) for title, (_, queries, _) in read.items()}
    width = left + step * len(columns) + 0.7
    height = sum(
        0.6 + tall[title] * len(weights) + _room(keys) for title, (weights, _, keys) in read.items()
    )
    picture = Picture((width, height), layout="none")
    top, said = height, []
    for title, (weights, queries, keys) in read.items():
        picture.text(
            0.1 / width, 1 - (height - top + 0.15) / height, title, weight="bold", va="center"
        )
        names = [f"layer {i + 1}" for i in range(len(weights))] if rows is None else rows
        _check_labels(("rows", names, len(weights)))
        top -= 0.5
        for i, layer in enumerate(weights):
            top -= tall[title]
            for j, head in enumerate(layer):
                x, wide, high = left + j * step, cell * len(keys), cell * len(queries)
                place = (x / width, top / height, wide / width, high / height)
                axes = picture.add_axes(place, xticks=[], yticks=[])
                image = axes.imshow(head.numpy(), cmap=cmap, vmin=0, vmax=1, aspect="auto")
                if i == 0:
                    axes.set_title(columns[j], size="medium", pad=3)
                if j == 0:
                    _write_words(axes, queries, keys if i == len(weights) - 1 else ())
                    middle = (0.2 / width, (top + high / 2) / height)
                    picture.text(*middle, names[i], rotation=90, ha="center", va="center")
        top -= _room(keys) + 0.1
        said.append(
            f"{title}: {len(weights)} by {len(columns)} maps of {len(queries)} by {len(keys)} "
            f"words, weights up to {float(weights.max()):.2f}"
        )
    high = min(2, 0.5 * height)
    bar = (1 - 0.58 / width, 0.5 - high / 2 / height, 0.12 / width, high / height)
    picture.colorbar(image, cax=picture.add_axes(bar), ticks=(0, 0.5, 1))
    picture.description = "; ".join(said)
    return picture


def _room(words: Sequence[str]) -> float:
    """What the longest of these small words takes, in inches."""
    return 0.075 * max(map(len, words))


def _write_words(axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Write the words at the left of a map, and below it."""
    look = {"size": "small", "parse_math": False}
    for k, word in enumerate(queries):
        axes.text(-0.75, k, word, ha="right", va="center", **look)
    for k, word in enumerate(keys):
        axes.text(k, len(queries) - 0.3, word, ha="center", va="top", rotation=90, **look)


def _read_block(title: str, weights, queries: Sequence[str], keys: Sequence[str]) -> Block:
    """A block as `show_attention` takes it, checked."""
    weights = _as_tensor(weights).detach().float().cpu()
    if weights.dim() != 4 or 0 in weights.shape:
        raise ValueError(
            f"the weights of {title!r} must be (layers, heads, queries, keys), but have shape "
            f"{tuple(weights.shape)}"
        )
    _check_labels(("queries", queries, weights.shape[2]), ("keys", keys, weights.shape[3]))
    return weights, list(queries), list(keys)


def show_links(
    weights: Sequence,
    queries: Sequence[Sequence[str]],
    keys: Sequence[Sequence[str]],
    *,
    least: float = 0.15,
    figsize: tuple[float, float] | None = None,
) -> Picture:
    """Draw attention as lines from words to the words that they look at, as wide as the weight.

    weights        for each sentence (queries, keys), from 0 to 1
    queries, keys  for each sentence its words: queries below, keys above
    least          weights below it are left out
    figsize        of the whole picture, in inches; None = 7 wide, 1.3 a sentence

    The line of the largest weight of each query is coloured. Raises ValueError if there is no
    sentence, or there are not as many words as queries or keys.
    """
    if not len(weights) == len(queries) == len(keys) or len(weights) == 0:
        raise ValueError(
            "each sentence needs weights, queries and keys, but there are "
            f"{len(weights)}, {len(queries)} and {len(keys)}"
        )
    width, height = figsize or (7, 1.3 * len(weights))
    picture = Picture((width, height), layout="none")
    high, said = 1 / len(weights), []
    for i, (matrix, low, up) in enumerate(zip(weights, queries, keys, strict=True)):
        matrix = _as_tensor(matrix).detach().float().cpu()
        if matrix.dim() != 2:
            raise ValueError(f"weights must be (queries, keys), not {tuple(matrix.shape)}")
        _check_labels(("queries", low, matrix.shape[0]), ("keys", up, matrix.shape[1]))
        axes = picture.add_axes((0, 1 - (i + 1) * high, 1, high))
        axes.set(xlim=(0, width), ylim=(0, height * high))
        axes.axis("off")
        bottom, roof = 0.34, height * high - 0.34
        from_x, to_x = _spread_words(low, width), _spread_words(up, width)
        best = matrix.argmax(dim=1)
        lines, widths, colors = [], [], []
        for q, k in sorted(
            torch.cartesian_prod(*map(torch.arange, matrix.shape)).reshape(-1, 2).tolist(),
            key=lambda cell: float(matrix[cell[0], cell[1]]),
        ):
            if matrix[q, k] < least:
                continue
            lines.append([(from_x[q], bottom), (to_x[k], roof)])
            widths.append(6 * float(matrix[q, k]))
            colors.append(COLORS[0] if k == best[q] else "0.75")
        axes.add_collection(LineCollection(lines, linewidths=widths, colors=colors))
        for x, word in zip(from_x, low, strict=True):
            axes.text(x, bottom - 0.06, word, ha="center", va="top", parse_math=False)
        for x, word in zip(to_x, up, strict=True):
            axes.text(x, roof + 0.06, word, ha="center", va="bottom", parse_math=False)
        pairs = (
            f"{word} to {up[k]} {float(row[k]):.2f}"
            for word, row, k in zip(low, matrix, best.tolist(), strict=True)
        )
        said.append(f"{' '.join(low)}: {', '.join(pairs)}")
    picture.description = f"the largest weight of each word; {'; '.join(said)}"
    return picture


def _spread_words(words: Sequence[str], width: float) -> list[float]:
    """Where the middle of each word goes, so that the gaps between words are alike, in inches."""
    lengths = [0.08 * len(word) for word in words]
    gap = (width - sum(lengths)) / (len(words) + 1)
    starts = [gap * (i + 1) + sum(lengths[:i]) for i in range(len(words))]
    return [start + length / 2 for start, length in zip(starts, lengths, strict=True)]


def show_points(
    groups: Mapping[str, tuple],
    xlabel: str,
    ylabel: str,
    *,
    figsize: tuple[float, float] = (5, 4),
) -> Picture:
    """Draw clouds of points, each with its colour and its mark.

    groups  for each name the x and the y of its points, drawn in this order

    Raises ValueError if there is no group, or one has not as many x as y.
    """
    if not groups:
        raise ValueError("there are 0 groups of points, but a picture needs 1 or more")
    picture, said = Picture(figsize), []
    axes = picture.subplots()
    for (name, (x, y)), color, mark in zip(groups.items(), cycle(COLORS), cycle(MARKS)):
        x, y = (_as_tensor(values).detach().float().flatten().cpu() for values in (x, y))
        if len(x) != len(y):
            raise ValueError(f"the group {name!r} has {len(x)} x and {len(y)} y")
        axes.scatter(
            x.numpy(),
            y.numpy(),
            s=8,
            marker=mark,
            color=color,
            alpha=0.8,
            linewidths=0,
            label=name,
        )
        said.append(
            f"{name}: {len(x)} points, {xlabel} from {float(x.min()):.2f} to {float(x.max()):.2f}, "
            f"{ylabel} from {float(y.min()):.2f} to {float(y.max()):.2f}"
        )
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.grid(alpha=0.4)
    axes.legend()
    picture.description = "; ".join(said)
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
