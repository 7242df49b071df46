"""The views of notebooks 01 to 04: the parts of a Transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ipywidgets as widgets
import torch
from matplotlib.axes import Axes
from matplotlib.markers import CARETLEFT
from matplotlib.patches import Rectangle
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from d2l_mini.attention import (
    MultiHeadAttention,
    attention_mask,
    masked_softmax,
    merge_heads,
    split_heads,
)
from d2l_mini.checks import check_number, in_line
from d2l_mini.explorers.base import Explorer, check_setting, label_cells, panels
from d2l_mini.pictures import COLORS, Picture
from d2l_mini.transformer import causal_lens

__all__ = [
    "draw_decoder",
    "draw_masks",
    "draw_positions",
    "draw_shapes",
    "draw_softmax",
    "explore_decoder",
    "explore_masks",
    "explore_positions",
    "explore_shapes",
    "explore_softmax",
]


# Notebook 01 ---------------------------------------------------------------------------------


def draw_softmax(width: int, temperature: float, scaled: bool) -> Picture:
    """The scores of eight random keys of this width for one query, and their softmax.

    width        of the vectors, from 1 to 1024
    temperature  what the scores are divided by, from 0.01 to 100
    scaled       whether they are divided by the root of the width as well

    Raises ValueError if the width or the temperature lies outside.
    """
    width = check_setting("width", width, range(1, 1025))
    temperature = check_number("temperature", temperature, 0.01, 100)
    vectors = torch.randn(9, 1024, generator=torch.Generator().manual_seed(1))[:, :width]
    scores = vectors[1:] @ vectors[0] / temperature
    if scaled:
        scores = scores / width**0.5
    weights = torch.softmax(scores, dim=-1)
    picture, (left, right) = panels(2, 2.8, 2)
    for axes, heights, name in ((left, scores, "score"), (right, weights, "weight")):
        axes.bar(range(1, 9), heights.tolist(), color=COLORS[0])
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(xlabel="key", ylabel=name, xticks=range(1, 9))
    right.set_ylim(0, 1)
    slope = torch.diag(weights) - torch.outer(weights, weights)
    picture.description = (
        f"{width} numbers a vector, temperature {temperature:.3g}, "
        f"{'divided' if scaled else 'not divided'} by the root of the width: the scores' standard "
        f"deviation is {scores.std():.2f}, the largest weight {weights.max():.3f}, the largest "
        f"slope of a weight {slope.abs().max():.2g}."
    )
    return picture


def explore_softmax() -> Explorer:
    """Width, temperature and scaling against the softmax of eight scores."""
    return Explorer(
        draw_softmax,
        width=widgets.SelectionSlider(
            options=[2**i for i in range(1, 11)], value=64, description="width d"
        ),
        temperature=widgets.FloatLogSlider(
            1, base=2, min=-3, max=5, step=0.5, description="temperature"
        ),
        scaled=widgets.Checkbox(False, description="divide by √d"),
    )


SOURCE = ("the", "red", "car", "stops", "here", ".")
TARGET = ("la", "voiture", "rouge", "s'arrête", "ici", ".")
CAUSAL = causal_lens(1, len(TARGET), 0, torch.device("cpu"))
MARKS = {"padding": "x", "later step": CARETLEFT, "not there yet": "."}
DECODER_MASKS = ("causal", "padding", "both")


def draw_masks(source: str, target: str, sentence: int, decoder_mask: str) -> Picture:
    """Who may look at whom in one sentence of a padded batch, in the three kinds of attention.

    source, target  the valid lengths of the batch, as typed
    sentence        which of the batch is shown, from 1
    decoder_mask    of the decoder's self-attention: one of DECODER_MASKS

    Raises ValueError if a length is none, the lengths do not pair up, or there is no such sentence
    or mask.
    """
    source_lens = read_lens(source, len(SOURCE), "source lengths")
    target_lens = read_lens(target, len(TARGET), "target lengths")
    if len(source_lens) != len(target_lens):
        raise ValueError(
            f"each sentence needs two lengths, but there are {len(source_lens)} source lengths and "
            f"{len(target_lens)} target lengths"
        )
    sentence = check_setting("sentence", sentence, range(1, len(source_lens) + 1))
    decoder_mask = check_setting("decoder_mask", decoder_mask, DECODER_MASKS)
    reads, writes = source_lens[sentence - 1], target_lens[sentence - 1]
    read, written = padded(SOURCE, reads), padded(TARGET, writes)
    in_source = {"padding": hidden(torch.tensor([reads]))}
    in_target = {"padding": hidden(torch.tensor([writes])), "later step": hidden(CAUSAL)}
    if decoder_mask != "both":
        del in_target["padding" if decoder_mask == "causal" else "later step"]
    kinds = {
        "encoder self-attention": (read, read, in_source),
        "decoder self-attention": (written, written, in_target),
        "cross-attention": (written, read, in_source),
    }
    picture, grid = panels(3, 1.9, 1.9, wspace=0.95, left=0.9, right=0.9, bottom=1.2, top=0.8)
    left = []
    for seed, (axes, (title, kind)) in enumerate(zip(grid, kinds.items(), strict=True)):
        left.append(draw_weights(axes, title, *kind, seed))
    finish_weights(picture, grid)
    picture.description = (
        f"Sentence {sentence} of {len(source_lens)}: {reads} of {len(SOURCE)} source steps and "
        f"{writes} of {len(TARGET)} target steps are words. The masks leave {left[0]} pairs of a "
        f"query and a key in the encoder, {left[1]} in the decoder, {left[2]} in cross-attention."
    )
    return picture


def read_lens(text: str, steps: int, name: str) -> list[int]:
    """Lengths out of what was typed, such as "3, 5"; ValueError says what is wrong."""
    try:
        lens = [int(part) for part in text.replace(",", " ").split()]
    except (AttributeError, TypeError, ValueError):
        given = in_line(text)
        raise ValueError(f"{name} must be whole numbers such as 3, 5, but are {given}") from None
    if not lens or min(lens) < 0 or max(lens) > steps:
        raise ValueError(f"{name} must be numbers in 0 ... {steps}, but are {in_line(text)}")
    return lens


def padded(words: Sequence[str], length: int) -> list[str]:
    """The first words, then <pad>."""
    return [*words[:length], *["<pad>"] * (len(words) - length)]


def hidden(valid_lens: Tensor) -> Tensor:
    """Which cells (queries, keys) the model's own mask hides in a single sentence."""
    shape = torch.Size((1, len(TARGET), len(SOURCE)))
    return ~attention_mask(shape, valid_lens, valid_lens.device).expand(shape)[0]


def draw_weights(
    axes: Axes,
    title: str,
    queries: Sequence[str],
    keys: Sequence[str],
    marks: Mapping[str, Tensor],
    seed: int,
) -> int:
    """Draw the softmax of random scores, with marks where there is none; return how many are left.

    queries, keys  their words
    marks          for a name in MARKS, the cells (queries, keys) that are hidden for this reason
    """
    nothing = torch.stack(list(marks.values())).any(dim=0)
    scores = torch.randn(nothing.shape, generator=torch.Generator().manual_seed(seed))
    weights = masked_softmax(scores.masked_fill(nothing, -torch.inf)[None])[0]
    axes.set_facecolor("0.88")  # which is no red of the scale
    axes.imshow(weights.masked_fill(nothing, torch.nan).numpy(), cmap="Reds", vmin=0, vmax=1)
    for name, cells in marks.items():
        rows, columns = cells.nonzero().T.tolist()
        axes.scatter(columns, rows, s=25, marker=MARKS[name], color="0.3", linewidth=1, label=name)
    axes.set_title(title)
    label_cells(axes, keys, queries)
    return int((~nothing).sum())


def finish_weights(picture: Picture, grid: Sequence[Axes]) -> None:
    """Add to panels of `draw_weights` what their marks and their colours mean."""
    marks = {}
    for axes in grid:
        handles, names = axes.get_legend_handles_labels()
        marks |= dict(zip(names, handles, strict=True))
    picture.legend(
        marks.values(), marks.keys(), loc="upper center", ncols=len(marks), frameon=False
    )
    x, y, width, height = grid[-1].get_position().bounds
    bar = picture.add_axes((x + width + 0.02, y, 0.012, height))
    picture.colorbar(grid[-1].images[0], cax=bar, label="weight", ticks=(0, 0.5, 1))


def explore_masks() -> Explorer:
    """The lengths of a batch of three sentences against the masks and the softmax rows."""
    return Explorer(
        draw_masks,
        source=widgets.Text("6, 4, 3", description="source lengths"),
        target=widgets.Text("6, 3, 5", description="target lengths"),
        sentence=widgets.Dropdown(options=[1, 2, 3], value=2, description="show sentence"),
        decoder_mask=widgets.Dropdown(
            options=DECODER_MASKS, value="causal", description="decoder's mask"
        ),
    )


# Notebook 02 ---------------------------------------------------------------------------------

# The kinds of tensor, each with its dimensions in words, and the kind that each step makes.
KINDS = ("batch, steps, width", "batch, heads, steps, width / heads", "batch, heads, steps, steps")
WHOLE, SPLIT, PAIRS = KINDS
MADE = {
    "queries": WHOLE,
    "W_q": WHOLE,
    "split_heads": SPLIT,
    "scores": PAIRS,
    "masked_softmax": PAIRS,
    "weights @ values": SPLIT,
    "merge_heads": WHOLE,
    "W_o": WHOLE,
}


def draw_shapes(batch: int, steps: int, width: int, heads: int) -> Picture:
    """The shape and the size of every tensor when a batch attends to itself.

    Raises ValueError if a number lies outside 1 ... 1024, or the heads do not divide the width, and
    then names the nearest that do.
    """
    sizes = {"batch": batch, "steps": steps, "width": width, "heads": heads}
    batch, steps, width, heads = (
        check_setting(name, value, range(1, 1025)) for name, value in sizes.items()
    )
    check_divides(width, heads)
    with torch.device("meta"):  # shapes without numbers: nothing is computed
        attention = MultiHeadAttention(width, heads).eval()
        X = torch.empty(batch, steps, width)
    with FlopCounterMode(display=False) as counter:
        attention(X, X, X)
    shapes = trace_shapes(attention, X)
    numbers = {name: shape.numel() for name, shape in shapes.items()}
    colors = [COLORS[KINDS.index(MADE[name])] for name in shapes]

    picture = Picture((8, 4.2), layout="none")
    axes = picture.add_axes((0.17, 0.2, 0.81, 0.72))  # there is room below for two lines
    rows, lengths = range(len(shapes)), [n / max(numbers.values()) for n in numbers.values()]
    boxes = axes.barh(rows, 0.45, 0.72, color="white", edgecolor=colors, linewidth=1.5)
    axes.barh(rows, [0.3 * length for length in lengths], 0.5, left=0.7, color=colors)
    for row, (name, shape) in enumerate(shapes.items()):
        text = " × ".join(f"{size:,}" for size in shape)
        axes.text(0.225, row, text, va="center", ha="center", weight="bold")
        axes.text(0.68, row, f"{numbers[name]:,}", va="center", ha="right")
    axes.text(0.225, -0.7, "shape", ha="center")
    axes.text(0.68, -0.7, "numbers in it", ha="right")
    axes.text(0.7, -0.7, "to scale")
    axes.set(xlim=(-0.005, 1.005), ylim=(len(shapes) - 0.5, -0.5), xticks=[])
    axes.set_yticks(rows, shapes)
    axes.set_frame_on(False)
    axes.tick_params(length=0)
    firsts = [boxes[colors.index(color)] for color in COLORS[: len(KINDS)]]
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.2), "frameon": False}
    picture.legend(firsts, KINDS, ncols=len(KINDS), **below)
    picture.description = (
        f"Batch {batch}, {steps} steps, width {width} = {heads} heads × {width // heads} units: "
        f"{sum(p.numel() for p in attention.parameters()):,} parameters, "
        f"{counter.get_total_flops() // 2:,} multiplications. The scores hold "
        f"{numbers['scores']:,} numbers, the output {numbers['W_o']:,}."
    )
    return picture


def trace_shapes(attention: MultiHeadAttention, X: Tensor) -> dict[str, torch.Size]:
    """Do step by step what `attention(X, X, X)` does, and note the shape after each step."""
    keys, values = attention.project(X, X)
    tensors = {"queries": X, "W_q": attention.W_q(X)}
    queries = tensors["split_heads"] = split_heads(tensors["W_q"], attention.num_heads)
    tensors["scores"] = attention.attention.score(queries, keys)
    tensors["masked_softmax"] = masked_softmax(tensors["scores"])
    tensors["weights @ values"] = tensors["masked_softmax"] @ values
    tensors["merge_heads"] = merge_heads(tensors["weights @ values"])
    tensors["W_o"] = attention.W_o(tensors["merge_heads"])
    return {name: tensor.shape for name, tensor in tensors.items()}


def check_divides(width: int, heads: int) -> None:
    """Raise ValueError where the heads do not divide the width, and name the nearest that do."""
    if width % heads:
        divisors = [number for number in range(1, width + 1) if width % number == 0]
        below = max(number for number in divisors if number < heads)
        nearest = " or ".join(str(n) for n in (below, *[n for n in divisors if n > heads][:1]))
        raise ValueError(
            f"{heads} heads cannot share {width} units in equal parts; {nearest} heads can."
        )


def explore_shapes() -> Explorer:
    """Batch, steps, width and heads against the shape of every tensor on the way."""
    powers = [2**i for i in range(11)]
    return Explorer(
        draw_shapes,
        batch=widgets.SelectionSlider(options=powers[:7], value=2, description="batch"),
        steps=widgets.SelectionSlider(options=powers, value=32, description="steps"),
        width=widgets.IntSlider(64, min=8, max=1024, step=8, description="width"),
        heads=widgets.IntSlider(4, min=1, max=16, description="heads"),
    )


# Notebook 03 ---------------------------------------------------------------------------------

FARTHEST = 127


def draw_positions(position: int, other: int, width: int, base: float) -> Picture:
    """The vectors of two positions, and how alike two positions are at each distance.

    position, other  the two positions, from 0
    width            the number of units, even, up to 1024
    base             the frequency of pair j is base^(-2j / width); the paper takes 10000

    Raises ValueError if a position lies outside 0 ... 127, the width is none of these, or the base
    lies outside 1 ... 1e9.
    """
    position = check_setting("position", position, range(FARTHEST + 1))
    other = check_setting("other", other, range(FARTHEST + 1))
    width = check_setting("width", width, range(2, 1025, 2))
    base = check_number("base", base, 1, 1e9)
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    cosines = torch.cos(torch.arange(FARTHEST + 1)[:, None] * frequencies).mean(dim=-1)
    distance = abs(position - other)
    picture, (left, right) = panels(2, 3.4, 2)
    draw_vectors(left, [position, other], frequencies)
    draw_similarity(right, cosines, distance)
    picture.description = (
        f"Positions {position} and {other}, {width} units, base {base:.6g}: they are {distance} "
        f"apart, their dot product is {cosines[distance] * width / 2:.2f} of at most "
        f"{width / 2:g}, their cosine similarity {cosines[distance]:.2f}. "
        f"{say_confused(cosines, distance)}"
    )
    return picture


def draw_vectors(axes: Axes, positions: Sequence[int], frequencies: Tensor) -> None:
    """Draw the encodings of two positions, a mark a unit, and how far each unit moves between."""
    angles = torch.tensor(positions)[:, None] * frequencies  # (positions, hiddens / 2)
    vectors = torch.stack([torch.sin(angles), torch.cos(angles)], dim=2).flatten(1).numpy()
    units, size = range(vectors.shape[1]), 6 if len(frequencies) <= 16 else 4
    axes.vlines(units, *vectors, color="0.6", linewidth=1)
    looks = (
        {"marker": "o", "fillstyle": "none", "markersize": size},
        {"marker": "s", "markersize": size / 2},
    )
    for i, (vector, look) in enumerate(zip(vectors, looks, strict=True)):
        label = f"position {positions[i]}"
        axes.plot(vector, linestyle="none", color=COLORS[i], label=label, **look)
    axes.set(xlabel="unit", ylabel="value", ylim=(-1.15, 1.15), yticks=(-1, 0, 1))
    axes.set_xticks(units[:: max(1, len(units) // 8)])
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)


def draw_similarity(axes: Axes, cosines: Tensor, distance: int) -> None:
    """Draw the cosine at each distance, and mark the chosen one."""
    axes.plot(cosines.numpy(), color=COLORS[0])
    axes.plot([distance], [cosines[distance]], "s", color=COLORS[1])
    axes.axvline(distance, color=COLORS[1], linestyle=":", linewidth=1)
    axes.set(xlabel="distance", ylabel="cosine similarity", ylim=(-1.15, 1.15), yticks=(-1, 0, 1))
    axes.set_xticks((0, 32, 64, 96, 128))
    axes.grid(alpha=0.4)


def say_confused(cosines: Tensor, distance: int) -> str:
    """Name the first larger distance that is at least as alike as this one."""
    if distance == FARTHEST:
        return "No larger distance is drawn."
    as_alike = (cosines[distance + 1 :] >= cosines[distance]).nonzero()
    if len(as_alike) == 0:
        return f"No larger distance, up to {FARTHEST}, is as similar."
    first = distance + 1 + int(as_alike[0])
    return f"Distance {first} is at least as similar ({cosines[first]:.2f})."


def explore_positions() -> Explorer:
    """Two positions, the width and the base against two vectors and their similarity."""
    return Explorer(
        draw_positions,
        position=widgets.IntSlider(3, 0, FARTHEST, description="position i"),
        other=widgets.IntSlider(10, 0, FARTHEST, description="position m"),
        width=widgets.Dropdown(
            options=[2**n for n in range(1, 8)], value=32, description="width d"
        ),
        base=widgets.FloatLogSlider(
            10000, min=1, max=5, step=0.5, readout_format=".0f", description="base"
        ),
    )


# Notebook 04 ---------------------------------------------------------------------------------

WAYS = ("all at once", "one by one, with cache")


def draw_decoder(step: int, way: str, source_len: int) -> Picture:
    """Which keys a decoder's query may use at a step, in its self-attention and in cross-attention.

    step        whose row is framed, from 1
    way         "all at once", as in training, or "one by one, with cache"
    source_len  how many of the source steps are words

    Raises ValueError if there is no such step, way or length.
    """
    step = check_setting("step", step, range(1, len(TARGET) + 1))
    way = check_setting("way", way, WAYS)
    source_len = check_setting("source_len", source_len, range(1, len(SOURCE) + 1))
    reads = ("<bos>", *TARGET[:-1])
    later, padding = hidden(CAUSAL), hidden(torch.tensor([source_len]))
    if way == "all at once":
        marks = {"later step": later}, {"padding": padding}
    else:
        to_come = torch.arange(len(TARGET))[:, None].expand_as(later) >= step  # rows of later calls
        marks = (
            {"not there yet": later | to_come},
            {"padding": padding & ~to_come, "not there yet": to_come},
        )
    picture, grid = panels(2, 2.4, 2.4, wspace=0.95, left=0.9, right=0.9, bottom=1.25, top=0.8)
    draw_weights(grid[0], "self-attention", TARGET, reads, marks[0], seed=0)
    draw_weights(grid[1], "cross-attention", TARGET, padded(SOURCE, source_len), marks[1], seed=1)
    for axes, name in zip(grid, ("words read", "source words"), strict=True):
        axes.set_xlabel(f"keys: {name}", labelpad=47)
        axes.set_ylabel("queries: words written", labelpad=51)
        row = Rectangle((-0.46, step - 1.46), 5.92, 0.92, fill=False, ec=COLORS[0], linewidth=3)
        axes.add_patch(row)
    finish_weights(picture, grid)
    picture.description = describe_step(step, way == "all at once", source_len)
    return picture


def describe_step(step: int, at_once: bool, source_len: int) -> str:
    """The picture of `draw_decoder` in words."""
    steps = len(TARGET)
    if at_once:
        keys = f"{step} of {steps} target keys ({steps - step} masked)"
        calls = f"One call makes all {steps} rows: {steps * steps} self-attention scores, "
        calls += f"{steps * (steps - 1) // 2} of them masked."
    else:
        keys = f"{step} target key{'s' * (step > 1)}, of which {step - 1} came from the cache"
        scores = step * (step + 1) // 2
        calls = f"{step} call{'s' * (step > 1)} so far, a row each: {scores} "
        calls += f"self-attention score{'s' * (scores > 1)}, none masked."
    return (
        f"Step {step} writes {TARGET[step - 1]!r}: its query may use {keys}, and {source_len} of "
        f"{len(SOURCE)} source keys. {calls}"
    )


def explore_decoder() -> Explorer:
    """Step, way of decoding and source length against the keys that each query may use."""
    return Explorer(
        draw_decoder,
        step=widgets.IntSlider(3, 1, len(TARGET), description="step"),
        way=widgets.Dropdown(options=WAYS, value=WAYS[1], description="decoding"),
        source_len=widgets.IntSlider(5, 1, len(SOURCE), description="source length"),
    )
