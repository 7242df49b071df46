"""Figures: arrays and labels in, a picture out. No function here knows a model or a widget."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from numbers import Integral, Real

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.colors import Colormap
from matplotlib.patches import FancyBboxPatch

from d2l_mini.checks import as_plain, check_number, in_line
from d2l_mini.pictures import (
    COLORS,
    LONGEST,
    MARKS,
    STROKES,
    Picture,
    check_scale,
    room_beyond,
    room_for,
    word_width,
)

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

LARGEST = 1e100
SLACK = 1e-4  # that rounding may put a number outside its range


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
    figsize         of the whole picture, in inches; None = 2 inches and a half a panel, and more
                    for long words
    xticks, yticks  a label for each key and each query
    fmt             writes each value into its cell, as in ".2f"; None = no values

    A cell without a finite number stays blank. Raises ValueError if the matrices have other
    dimensions or no finite number, a list of labels has another length, or fmt writes no number.
    """
    matrices = _read("matrices", matrices, "rows, columns, queries, keys")
    rows, columns, queries, keys = matrices.shape
    titles = _read_labels("titles", titles, columns)
    xticks = _read_labels("xticks", xticks, keys)
    yticks = _read_labels("yticks", yticks, queries)
    _check_cmap(cmap)
    if fmt is not None:
        _check_format(fmt)
    finite = matrices[matrices.isfinite()]
    if len(finite) == 0:
        raise ValueError("matrices hold no finite number, so there is nothing to draw")
    low, high = min(0.0, float(finite.min())), float(finite.max())
    picture = Picture(
        figsize,
        (2.5 * columns + 0.5 + room_beyond(yticks), 2.5 * rows + room_beyond(xticks)),
        layout="compressed",  # made for panels that keep their shape
        description=f"{rows} by {columns} heat maps of {queries} {ylabel} by {keys} {xlabel}, "
        f"values from {float(finite.min()):.2f} to {high:.2f}" + _say_gaps(matrices),
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
            _write_ticks(axes, xticks, yticks)
    picture.colorbar(image, ax=grid, shrink=0.6)
    _write_titles(grid, titles)
    return picture


def _check_cmap(cmap: str | Colormap) -> None:
    """Raise ValueError where a colour map is none that matplotlib knows."""
    known = isinstance(cmap, Colormap) or (isinstance(cmap, str) and cmap in colormaps)
    if not known:
        raise ValueError(f"cmap is {in_line(cmap)}; it must be a colour map, such as 'Reds'")


def _check_format(fmt: str) -> None:
    """Raise ValueError where fmt does not say how to write a number."""
    try:
        format(0.5, fmt)
    except (TypeError, ValueError):
        raise ValueError(
            f"fmt must say how to write a number, as '.2f' does, but is {in_line(fmt)}"
        ) from None


def _write_values(axes, image, matrix: torch.Tensor, fmt: str) -> None:
    """Write the finite values of a heat map into its cells, white on dark ones."""
    for i, j in matrix.isfinite().nonzero().tolist():
        value = float(matrix[i, j])
        red, green, blue, _ = image.cmap(image.norm(value))
        color = "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"
        look = {"ha": "center", "va": "center", "size": "small", "color": color}
        axes.text(j, i, format(value, fmt), **look)


def _write_titles(grid: np.ndarray, titles: list[str] | None) -> None:
    """Write a title above each column of a grid of axes that has all else; long ones are cut."""
    if titles is None:
        return
    for axes, title in zip(grid.flat, cycle(titles), strict=False):
        axes.set_title(title, parse_math=False)
    picture, wide = grid[0, 0].figure, [word_width(title, "large") for title in titles]
    if len(titles) * max(wide) < 0.5 * picture.get_figwidth():
        return
    picture.draw_without_rendering()  # lays it out
    middles = [axes.get_position().intervalx.mean() for axes in grid[0]]
    gaps = np.diff([0, *middles, 1]) * picture.get_figwidth() - 0.1
    if (np.convolve(wide, (0.5, 0.5)) > gaps).any():
        room = min(2 * gaps[0], *gaps[1:-1], 2 * gaps[-1])
        for axes, title in zip(grid.flat, cycle(picture.fit(titles, room, "large")), strict=False):
            axes.title.set_text(title)


def _write_ticks(axes: Axes, xticks, yticks, rotation: float = 90) -> None:
    """Write words for the columns and the rows of a panel, cut to half of the picture."""
    width, height = axes.figure.get_size_inches()
    if xticks is not None:
        words = axes.figure.fit(xticks, min(LONGEST, height / 2))
        axes.set_xticks(range(len(words)), words, rotation=rotation, parse_math=False)
    if yticks is not None:
        words = axes.figure.fit(yticks, min(LONGEST, width / 2))
        axes.set_yticks(range(len(words)), words, parse_math=False)


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

    x        (points,): where all curves are measured
    curves   for each name (points,): its values; the curve is broken where one is not finite

    Raises ValueError if there is no curve, x or a curve is no list of numbers, a curve has another
    length than x or no finite value, or what has a logarithmic axis is not above 0.
    """
    _check_names("curves", curves)
    x = _read("the values of x", x, "points")
    _check_range("the values of x", x)
    check_scale("xscale", xscale)
    check_scale("yscale", yscale)
    _check_positive("the values of x", x, xscale)
    picture = Picture(figsize)
    axes = picture.subplots()
    lines, said = [], []
    looks = zip(cycle(COLORS), cycle(STROKES), cycle(MARKS), strict=False)
    for (name, values), (color, stroke, mark) in zip(curves.items(), looks, strict=False):
        values = _read(f"the values of {name!r}", values, "points")
        if len(values) != len(x):
            raise ValueError(f"the curve {name!r} has {len(values)} values for {len(x)} points")
        finite = values[values.isfinite()]
        if len(finite) == 0:
            raise ValueError(f"the curve {name!r} holds no finite number")
        _check_positive(f"the values of {name!r}", finite, yscale)
        drawn = torch.where(values.isfinite(), values, torch.nan).tolist()
        look = {"color": color, "marker": mark if len(x) <= 16 else ""}
        lines += axes.plot(x.tolist(), drawn, stroke, **look)
        said.append(f"{name} from {finite[0]:.3g} to {finite[-1]:.3g}{_say_gaps(values)}")
    axes.set(xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale)
    if xscale == "log" and len(x) <= 16:
        axes.set_xticks(x.tolist(), [f"{point:g}" for point in x])
        axes.set_xticks([], minor=True)
    axes.grid(alpha=0.4)
    _write_legend(axes, lines, curves)
    picture.description = f"{ylabel} against {xlabel}, {x[0]:g} to {x[-1]:g}: {'; '.join(said)}"
    return picture


def _check_positive(name: str, numbers: torch.Tensor, scale: str) -> None:
    """Raise ValueError where a number has no place on a logarithmic axis."""
    if scale == "log" and numbers.min() <= 0:
        raise ValueError(f"on a log axis {name} must be above 0, but one is {numbers.min():g}")


def _write_legend(axes: Axes, artists: Sequence, names: Iterable[str]) -> None:
    """Name lines or clouds of points, whatever the names look like."""
    names = axes.figure.fit([*map(str, names)], axes.figure.get_figwidth() / 2)
    legend = axes.legend(artists, ["name"] * len(names))  # it would hide one such as "_x"
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=name, parse_math=False)


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

    Raises ValueError if the heights have other dimensions or are not all finite, or a list of
    labels has another length.
    """
    heights = _read("heights", heights, "panels, bars")
    _check_range("heights", heights)
    panels, bars = heights.shape
    titles = _read_labels("titles", titles, panels)
    xticks = _read_labels("xticks", xticks, bars)
    picture = Picture(figsize, (2.5 * panels + 0.5, 2.2 + room_beyond(xticks)))
    said = []
    grid = picture.subplots(1, panels, sharex=True, sharey=True, squeeze=False)
    for i, axes in enumerate(grid[0]):
        axes.bar(range(bars), heights[i].tolist(), color=COLORS[0])
        axes.set_xlabel(xlabel)
        if i == 0:
            axes.set_ylabel(ylabel)
        if xticks is None:
            axes.xaxis.get_major_locator().set_params(integer=True)
        _write_ticks(axes, xticks, None)
        low, high = heights[i].min(), heights[i].max()
        said.append(f"{titles[i] if titles else f'panel {i + 1}'} from {low:.2f} to {high:.2f}")
    _write_titles(grid, titles)
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
    figsize         of the whole picture, in inches; None = 0.75 inches a clock, and more for words

    Raises ValueError if the hands have other dimensions, one is longer than 1 or no number, or a
    list of labels has another length.
    """
    hands = _read("hands", hands, "rows, columns, 2")
    _check_range("the lengths of hands", hands.norm(dim=2), 0, 1)
    rows, columns, _ = hands.shape
    xticks = _read_labels("xticks", xticks, columns) or [str(j) for j in range(columns)]
    yticks = _read_labels("yticks", yticks, rows) or [str(i) for i in range(rows)]
    upright = room_for(xticks) > 0.7
    wide = 0.75 * columns + 1 + room_beyond(yticks)
    high = 0.75 * rows + 0.6 + upright * (room_for(xticks) + 0.2)
    picture = Picture(figsize, (wide, high))
    axes = picture.subplots()
    centres = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).flip(1)
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
    axes.set(xlim=(-0.6, columns - 0.4), ylim=(rows - 0.4, -0.6), aspect="equal", anchor="S")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    _write_ticks(axes, xticks, yticks, rotation=90 * upright)
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
    figsize: tuple[float, float] | None = None,
) -> Picture:
    """Draw both halves of a Transformer from the bottom up, each part with its shape and its size.

    encoder, decoder  for the name of each part: the shape of its output, how many parameters
    num_layers        how many blocks like the one that is drawn each half has
    inputs            what comes in at the bottom of each half
    figsize           of the whole picture, in inches; None = 8 by 7

    Raises ValueError for a name that no part of the package has, a half without a block or with
    its block in pieces, an `addnorm` that does not follow a sublayer, and less than one layer.
    """
    blocks = {
        "encoder": _find_block("encoder", encoder),
        "decoder": _find_block("decoder", decoder),
    }
    if not isinstance(num_layers, Integral) or num_layers < 1:
        raise ValueError(f"num_layers must be a whole number from 1, but is {in_line(num_layers)}")
    num_layers = int(num_layers)  # of NumPy's too
    inputs = _read_labels("inputs", inputs, 2) or ("", "")
    picture = Picture(figsize, (8, 7), layout="none")
    width, height = picture.get_size_inches()
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))  # inches
    axes.axis("off")
    rise = (height - 0.7) / max(len(encoder), len(decoder))  # from a box to the next
    wide, high = 0.31 * width, 0.58 * rise
    said = []
    for half, parts, x, side, word in (
        ("encoder", encoder, 0.225 * width, -1, inputs[0]),
        ("decoder", decoder, 0.76 * width, 1, inputs[1]),
    ):
        heights = {name: 0.45 + rise * (i + 0.5) for i, name in enumerate(parts)}
        _draw_half(axes, parts, heights, x, side, wide, high, rise)
        count = sum(parts[name][1] for name in blocks[half])
        _frame_block(axes, heights, blocks[half], num_layers, count, x, side, wide, high)
        [word] = picture.fit([word], wide)
        axes.text(x, 0.22, word, ha="center", va="center", parse_math=False)
        listed = (f"{PARTS[name][1]} {tuple(s)} {n:,}" for name, (s, n) in parts.items())
        said.append(f"{half} of {num_layers} blocks, from the bottom: {', '.join(listed)}")
        if half == "encoder":
            top = max(heights.values()) + high / 2
    out = x, max(heights.values()) + high / 2
    _draw_arrow(axes, [out, (x, height - 0.28)])
    axes.text(x, height - 0.16, "logits", ha="center", va="center")
    if "attention2" in heights:
        turn, roof, y = 0.49 * width, top + 0.12 + 0.75 * (rise - high), heights["attention2"]
        start = 0.225 * width
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
    _check_names(f"parts of the {half}", parts)
    names = list(parts)
    for name in names:
        if name not in PARTS:
            raise ValueError(f"{name!r} is no part of a Transformer: they are {', '.join(PARTS)}")
        match parts[name]:
            case ([*_], Integral()):
                pass
            case odd:
                raise ValueError(
                    f"{name} of the {half} must be (shape, parameters), not {in_line(odd)}"
                )
    kinds = [PARTS[name][0] for name in names]
    places = [i for i, kind in enumerate(kinds) if kind != "plain"]
    if not places or places != list(range(places[0], places[-1] + 1)):
        raise ValueError(f"the {half} must have one block, all in one piece")
    for i in places:
        if kinds[i] == "add" and (i < 2 or kinds[i - 1] not in ("sublayer", "cross")):
            raise ValueError(f"{names[i]} of the {half} follows no sublayer that it could add to")
    return [names[i] for i in places]


def _draw_half(axes, parts, heights, x, side, wide, high, rise) -> None:
    """The boxes of a half around x, arrows up, and residual connections on one side, -1 or 1."""
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
    figsize  of the whole picture, in inches; None = 1 a step or what the longest token takes, 0.5
             a beginning

    The one that won is in colour; what leads to none of the last step is pale. Below a token stands
    the probability of all tokens so far, where it has changed and does not round to 0.00.

    Raises ValueError if there is no step or an empty one, a beginning goes on from one that is not
    there or is no such triple, or `best` is none of the last step.
    """
    check_beam_tree(steps, best)
    widest = max(map(len, steps))
    column = max(1, room_for((token for step in steps for _, token, _ in step), "small") + 0.25)
    picture = Picture(figsize, (column * len(steps) + 0.8, 0.5 * widest + 0.7), layout="none")
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
    axes.set(xlim=(-1.15, len(steps) - 0.5), ylim=(last_row + 0.55, -1.1))
    axes.axis("off")
    inches = (
        axes.get_position().width * axes.figure.get_figwidth() / (len(steps) + 0.65)
    )  # a column
    axes.text(-0.85, last_row / 2, "<bos>", **look)
    ends, numbers = [(-0.6, last_row / 2)], [""]  # of the last column
    for column, step in enumerate(steps):
        axes.text(column, -0.8, f"step {column + 1}", color="0.4", **look)
        starts, ends, before, numbers = ends, [], numbers, []
        for row, (parent, token, log_prob) in enumerate(step):
            [token] = axes.figure.fit([token], inches - 0.22, "small")
            place, half = (column, row), (max(word_width(token, "small"), 0.26) + 0.12) / 2 / inches
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


def check_beam_tree(steps: Tree, best: int) -> None:
    """Raise ValueError where the parts of a tree do not fit together."""
    fits = isinstance(steps, Sequence) and all(isinstance(step, Sequence) for step in steps)
    if not fits or not steps or not all(map(len, steps)):
        raise ValueError("a tree needs a step, and each step a beginning")
    sizes = [1, *map(len, steps)]
    for number, (size, step) in enumerate(zip(sizes, steps, strict=False), start=1):
        for beginning in step:
            match beginning:
                case (Integral() as parent, str() as token, Real() as log_prob) if (
                    log_prob <= SLACK
                ):
                    pass
                case _:
                    raise ValueError(
                        "a beginning must be (number of the one before, token, log-probability, "
                        f"which is 0 or less), but one at step {number} is {in_line(beginning)}"
                    )
            if not 0 <= parent < size:
                raise ValueError(
                    f"{token!r} at step {number} goes on from number {parent}, but the step before "
                    f"has {size}, from 0"
                )
    if not (isinstance(best, Integral) and 0 <= best < sizes[-1]):
        raise ValueError(
            f"best is {in_line(best)}, but the last step has {sizes[-1]} beginnings, from 0"
        )


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

    Raises ValueError if there is no block, the weights have other dimensions or lie outside 0 to 1,
    the blocks have not one number of heads, or a list of words or names has another length.
    """
    _check_names("blocks", blocks)
    _check_cmap(cmap)
    cell = check_number("cell", cell, 0.01, 10)
    read = {str(title): _read_block(title, block) for title, block in blocks.items()}
    numbers = sorted({weights.shape[1] for weights, _, _ in read.values()})
    if len(numbers) != 1:
        raise ValueError(f"all blocks must have one number of heads, but there are {numbers}")
    layers = {title: len(weights) for title, (weights, _, _) in read.items()}
    for number in layers.values():
        names = _read_labels("rows", rows, number)
    names = names or [f"layer {i + 1}" for i in range(max(layers.values()))]
    columns = _read_labels("columns", columns, numbers[0])
    columns = columns or [f"head {j + 1}" for j in range(numbers[0])]
    left = 0.6 + max(room_for(queries, "small") for _, queries, _ in read.values())
    step = max(
        0.12 + cell * max(len(keys) for _, _, keys in read.values()), 0.1 + room_for(columns)
    )
    tall = {
        title: max(0.1 + cell * len(queries), 0.05 + room_for(names))
        for title, (_, queries, _) in read.items()
    }
    below = {title: room_for(keys, "small") for title, (_, _, keys) in read.items()}
    width = left + step * len(columns) + 0.7
    width = max(width, min(8, 0.3 + 1.15 * max(map(word_width, read))))  # the titles are bold
    height = sum(0.6 + tall[title] * layers[title] + below[title] for title in read)
    picture = Picture((width, height), layout="none")
    columns, names = picture.fit(columns), picture.fit(names)
    top, said = height, []
    for title, (weights, queries, keys) in read.items():
        [head] = picture.fit([title], (width - 0.3) / 1.15)
        look = {"weight": "bold", "va": "center", "parse_math": False}
        picture.text(0.1 / width, 1 - (height - top + 0.15) / height, head, **look)
        top -= 0.5
        for i, layer in enumerate(weights):
            top -= tall[title]
            for j, head in enumerate(layer):
                x, wide, high = left + j * step, cell * len(keys), cell * len(queries)
                place = (x / width, top / height, wide / width, high / height)
                axes = picture.add_axes(place, xticks=[], yticks=[])
                image = axes.imshow(head.numpy(), cmap=cmap, vmin=0, vmax=1, aspect="auto")
                if i == 0:
                    axes.set_title(columns[j], size="medium", pad=3, parse_math=False)
                if j == 0:
                    _write_words(axes, queries, keys if i == len(weights) - 1 else ())
                    look = {"rotation": 90, "ha": "center", "va": "center", "parse_math": False}
                    picture.text(0.2 / width, (top + high / 2) / height, names[i], **look)
        top -= below[title] + 0.1
        said.append(
            f"{title}: {len(weights)} by {len(columns)} maps of {len(queries)} by {len(keys)} "
            f"words, weights up to {float(weights.max()):.2f}"
        )
    high = min(2, 0.5 * height)
    bar = (1 - 0.58 / width, 0.5 - high / 2 / height, 0.12 / width, high / height)
    picture.colorbar(image, cax=picture.add_axes(bar), ticks=(0, 0.5, 1))
    picture.description = "; ".join(said)
    return picture


def _write_words(axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Write the words at the left of a map, and below it."""
    look = {"size": "small", "parse_math": False}
    for k, word in enumerate(axes.figure.fit(queries, size="small")):
        axes.text(-0.75, k, word, ha="right", va="center", **look)
    for k, word in enumerate(axes.figure.fit(keys, size="small")):
        axes.text(k, len(queries) - 0.3, word, ha="center", va="top", rotation=90, **look)


def _read_block(title: str, block: Block) -> Block:
    """A block as `show_attention` takes it, checked."""
    match block:
        case (weights, queries, keys) if queries is not None and keys is not None:
            weights = _read_weights(
                f"the weights of {title!r}", weights, "layers, heads, queries, keys"
            )
        case _:
            raise ValueError(f"the block {title!r} must be (weights, queries, keys)")
    queries = _read_labels("queries", queries, weights.shape[2])
    return weights, queries, _read_labels("keys", keys, weights.shape[3])


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
    figsize        of the whole picture, in inches; None = 7 wide, and more for many or long words,
                   1.3 a sentence

    The line of the largest weight of each query is coloured. Raises ValueError if there is no
    sentence, a weight lies outside 0 to 1, or there are not as many words as queries or keys.
    """
    for name, sentences in (("weights", weights), ("queries", queries), ("keys", keys)):
        if not hasattr(sentences, "__len__") or getattr(sentences, "ndim", 1) == 0:
            raise TypeError(f"{name} must be a list, one a sentence, but are {in_line(sentences)}")
    if not len(weights) == len(queries) == len(keys) or len(weights) == 0:
        raise ValueError(
            "each sentence needs weights, queries and keys, but there are "
            f"{len(weights)}, {len(queries)} and {len(keys)}"
        )
    least = check_number("least", least, 0, 1)
    matrices = [_read_weights("weights", matrix, "queries, keys") for matrix in weights]
    queries, keys = (
        [
            _read_labels(name, () if line is None else line, matrix.shape[i])
            for line, matrix in zip(lines, matrices, strict=True)
        ]
        for i, (name, lines) in enumerate((("queries", queries), ("keys", keys)))
    )
    wide = max(sum(room_for([word]) + 0.15 for word in line) for line in (*queries, *keys))
    picture = Picture(figsize, (max(7, wide + 0.15), 1.3 * len(matrices)), layout="none")
    width, height = picture.get_size_inches()
    high, said = 1 / len(matrices), []
    for i, (matrix, low, up) in enumerate(zip(matrices, queries, keys, strict=True)):
        axes = picture.add_axes((0, 1 - (i + 1) * high, 1, high))
        axes.set(xlim=(0, width), ylim=(0, height * high))
        axes.axis("off")
        bottom, roof = 0.34, height * high - 0.34
        from_x = _write_line(axes, low, bottom - 0.06, "top")
        to_x = _write_line(axes, up, roof + 0.06, "bottom")
        best = matrix.argmax(dim=1).tolist()
        links = sorted((float(matrix[q, k]), q, k) for q, k in (matrix >= least).nonzero().tolist())
        axes.add_collection(
            LineCollection(
                [[(from_x[q], bottom), (to_x[k], roof)] for _, q, k in links],
                linewidths=[6 * weight for weight, _, _ in links],
                colors=[COLORS[0] if k == best[q] else "0.75" for _, q, k in links],
            )
        )
        pairs = (
            f"{word} to {up[k]} {float(row[k]):.2f}"
            for word, row, k in zip(low, matrix, best, strict=True)
        )
        said.append(f"{' '.join(low)}: {', '.join(pairs)}")
    picture.description = f"the largest weight of each word; {'; '.join(said)}"
    return picture


def _write_line(axes, words: Sequence[str], y: float, va: str) -> list[float]:
    """Write words in a line with gaps alike, and return where the middle of each is, in inches."""
    width = axes.figure.get_figwidth()
    most = 0.95 * width  # for all words
    fits = sum(room_for([word]) for word in words) <= most
    words = axes.figure.fit(words, LONGEST if fits else most / len(words))
    wide = [word_width(word) for word in words]
    gap = (width - sum(wide)) / (len(words) + 1)
    middles = [gap * (i + 1) + sum(wide[:i]) + wide[i] / 2 for i in range(len(words))]
    for x, word in zip(middles, words, strict=True):
        axes.text(x, y, word, ha="center", va=va, parse_math=False)
    return middles


def show_points(
    groups: Mapping[str, tuple],
    xlabel: str,
    ylabel: str,
    *,
    figsize: tuple[float, float] = (5, 4),
) -> Picture:
    """Draw clouds of points, each with its colour and its mark.

    groups  for each name the x and the y of its points (2, points), drawn in this order

    Raises ValueError if there is no group, or one has no point, not as many x as y, or a number
    that is not finite.
    """
    _check_names("groups", groups)
    picture, clouds, said = Picture(figsize), [], []
    axes = picture.subplots()
    for (name, points), color, mark in zip(groups.items(), cycle(COLORS), cycle(MARKS)):
        points = _read(f"the x and the y of {name!r}", points, "2, points")
        _check_range(f"the x and the y of {name!r}", points)
        look = {"s": 8, "marker": mark, "color": color, "alpha": 0.8, "linewidths": 0}
        clouds.append(axes.scatter(*points.numpy(), **look))
        spans = (
            f"{label} from {float(row.min()):.2f} to {float(row.max()):.2f}"
            for label, row in zip((xlabel, ylabel), points, strict=True)
        )
        said.append(f"{name}: {points.shape[1]} points, {', '.join(spans)}")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.grid(alpha=0.4)
    _write_legend(axes, clouds, groups)
    picture.description = "; ".join(said)
    return picture


def _check_names(name: str, groups: Mapping) -> None:
    """Raise an error unless something has a name."""
    if not isinstance(groups, Mapping):
        raise TypeError(f"{name} must be a dictionary by name, but are a {type(groups).__name__}")
    if not groups:
        raise ValueError(f"there are 0 {name}, but a picture needs 1 or more")


def _read_labels(name: str, labels: Iterable | None, size: int) -> list[str] | None:
    """Labels as a list of words; ValueError where there are more or fewer than what they label."""
    if labels is None:
        return None
    try:
        labels = [str(label) for label in as_plain(name, labels)]
    except TypeError:
        raise TypeError(f"{name} must be a list of words, but are {in_line(labels)}") from None
    if len(labels) != size:
        raise ValueError(f"there are {len(labels)} {name} for {size} of them in the picture")
    return labels


def _read_weights(name: str, weights, shape: str) -> torch.Tensor:
    """Attention weights of a shape as `_read` takes it; ValueError where one is not in 0 ... 1."""
    weights = _read(name, weights, shape)
    _check_range(name, weights, 0, 1)
    return weights


def _read(name: str, numbers, shape: str) -> torch.Tensor:
    """Numbers of a shape such as "rows, columns, 2" without an empty side, as float64 on the CPU.

    Raises ValueError for another shape or too large a number, TypeError for what is no real number.
    """
    numbers = _as_tensor(name, numbers)
    sides = shape.split(", ")
    fits = numbers.dim() == len(sides) and all(
        size == int(side) if side.isdigit() else size > 0
        for size, side in zip(numbers.shape, sides, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} must be ({shape}), but have shape {tuple(numbers.shape)}")
    largest = numbers[numbers.isfinite()].abs().max() if numbers.isfinite().any() else 0
    if largest > LARGEST:  # more than matplotlib can set apart
        raise ValueError(f"{name} must lie within {LARGEST:g} of 0, but one is {largest:g} away")
    return numbers


def _check_range(name: str, numbers: torch.Tensor, low=-math.inf, high=math.inf) -> None:
    """Raise ValueError where a number is not finite, or not from low to high."""
    fits = numbers.isfinite() & (numbers >= low - SLACK) & (numbers <= high + SLACK)
    if not fits.all():
        wanted = "finite" if high == math.inf else f"from {low} to {high}"
        raise ValueError(f"{name} must be {wanted}, but one is {float(numbers[~fits][0]):g}")


def _say_gaps(numbers: torch.Tensor) -> str:
    """Words for the numbers that a picture leaves out, if there are any."""
    gaps = int((~numbers.isfinite()).sum())
    return f" ({gaps} of {numbers.numel()} not finite, left out)" if gaps else ""


def _as_tensor(name: str, numbers) -> torch.Tensor:
    """A tensor out of a number, a tensor, an array, or lists of these."""
    if numbers is None:
        raise ValueError(
            f"{name} hold None; attention weights are kept in train mode only inside "
            "`with keep_attention_weights(net, True)`"
        )
    if isinstance(numbers, (list, tuple, range)):
        parts = [_as_tensor(name, part) for part in numbers]
        shapes = sorted({tuple(part.shape) for part in parts})
        if len(shapes) > 1:
            raise ValueError(f"all parts of {name} must have one shape, but have {shapes}")
        return torch.stack(parts) if parts else torch.empty(0)
    try:
        if isinstance(numbers, torch.Tensor):
            if numbers.is_complex():
                raise TypeError
            return numbers.detach().cpu().to_dense().double()  # in this order: MPS has no float64
        array = np.asarray(numbers, np.float64 if isinstance(numbers, Real) else None)
        if array.dtype.kind not in "biuf":
            raise TypeError
        return torch.from_numpy(array.astype(np.float64))
    except (TypeError, ValueError, RuntimeError, OverflowError):
        kind = getattr(numbers, "dtype", type(numbers).__name__)
        raise TypeError(f"{name} must hold real numbers, but hold {kind}") from None
