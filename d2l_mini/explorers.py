"""The interactive views: each is a drawing function of its settings, and controls that set them.

Where there is no kernel (GitHub, a printed page) a view shows the picture of its defaults.
"""

from __future__ import annotations

import base64
import html
import textwrap
from collections.abc import Callable, Sequence

import ipywidgets as widgets
import torch
from matplotlib.axes import Axes
from matplotlib.markers import CARETLEFT
from torch import Tensor

from d2l_mini.attention import attention_mask, masked_softmax
from d2l_mini.figures import COLORS, Picture
from d2l_mini.transformer import causal_lens

__all__ = ["Explorer", "draw_masks", "draw_softmax", "explore_masks", "explore_softmax"]


class Explorer(widgets.VBox):
    """Controls, the picture that they set, and a line that says in words what it shows.

    draw      the settings, by name -> a `Picture` whose description is that line; a ValueError's
              sentence is shown to the reader
    controls  for each setting its control, whose value is the default
    """

    def __init__(self, draw: Callable[..., Picture], **controls: widgets.ValueWidget):
        self.draw = draw
        self.controls = controls
        self.image = widgets.HTML()
        self.words = widgets.HTML()
        self.redraw()
        for control in controls.values():
            control.style.description_width = "initial"
            control.continuous_update = False
            control.observe(self.redraw, names="value")
        row = widgets.Box(list(controls.values()), layout={"flex_flow": "row wrap"})
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
        line = html.escape(picture.description)
        width, height = picture.screen_size
        self.image.value = (  # decoded before it is shown: no flicker
            f'<img alt="{line}" width="{width}" height="{height}" decoding="sync" '
            'style="max-width: 100%; height: auto" '
            f'src="data:image/png;base64,{base64.b64encode(png).decode()}">'
        )
        self.words.value = line

    def _repr_mimebundle_(self, **kwargs) -> tuple[dict, dict]:
        """What Jupyter shows: the view, and for where it cannot live the picture and its line."""
        line = textwrap.fill(self.picture.description, round(12 * self.picture.get_figwidth()))
        self.picture.supxlabel(line, size="medium")
        data, metadata = self.picture._repr_mimebundle_()
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


# Notebook 01 ---------------------------------------------------------------------------------


def draw_softmax(width: int, temperature: float, scaled: bool) -> Picture:
    """The scores of eight random keys of this width for one query, and their softmax."""
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
        f"{width} numbers a vector, temperature {temperature:.2g}, "
        f"{'divided' if scaled else 'not divided'} by the root of the width: the scores' standard "
        f"deviation is {scores.std():.2f}, the largest weight {weights.max():.2f}, the largest "
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
        temperature=widgets.FloatLogSlider(1, min=-1, max=1, step=0.1, description="temperature"),
        scaled=widgets.Checkbox(False, description="divide by √d"),
    )


SOURCE = ("the", "red", "car", "stops", "here", ".")
TARGET = ("la", "voiture", "rouge", "s'arrête", "ici", ".")


def draw_masks(source: str, target: str, sentence: int, decoder_mask: str) -> Picture:
    """Who may look at whom in one sentence of a padded batch, in the three kinds of attention.

    source, target  the valid lengths of the batch, as typed
    sentence        which of the batch is shown, from 1
    decoder_mask    of the decoder's self-attention: "causal", "padding" or "both"
    """
    source_lens = read_lens(source, len(SOURCE), "source lengths")
    target_lens = read_lens(target, len(TARGET), "target lengths")
    if len(source_lens) != len(target_lens):
        raise ValueError(
            f"each sentence needs two lengths, but there are {len(source_lens)} source lengths and "
            f"{len(target_lens)} target lengths"
        )
    if sentence > len(source_lens):
        raise ValueError(f"there is no sentence {sentence}: the batch has {len(source_lens)}")
    reads, writes = source_lens[sentence - 1], target_lens[sentence - 1]
    read, written = padded(SOURCE, reads), padded(TARGET, writes)
    decoder_keys = len(TARGET) if decoder_mask == "causal" else writes
    kinds = {
        "encoder self-attention": (read, read, reads, False),
        "decoder self-attention": (written, written, decoder_keys, decoder_mask != "padding"),
        "cross-attention": (written, read, reads, False),
    }
    picture, grid = panels(3, 1.9, 1.9, wspace=0.95, left=0.9, right=0.9, bottom=1.2, top=0.8)
    scores = torch.randn(3, len(TARGET), len(SOURCE), generator=torch.Generator().manual_seed(0))
    used = [
        draw_weights(axes, title, s, *kind)
        for axes, s, (title, kind) in zip(grid, scores, kinds.items(), strict=True)
    ]
    finish_weights(picture, grid)
    picture.description = (
        f"Sentence {sentence} of {len(source_lens)}: {reads} of {len(SOURCE)} source steps and "
        f"{writes} of {len(TARGET)} target steps are words. The masks leave {used[0]} pairs of a "
        f"query and a key in the encoder, {used[1]} in the decoder and {used[2]} between them."
    )
    return picture


def read_lens(text: str, steps: int, name: str) -> list[int]:
    """Lengths out of what was typed, such as "3, 5"; ValueError says what is wrong."""
    try:
        lens = [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise ValueError(f"{name} must be whole numbers such as 3, 5, but are {text!r}") from None
    if not lens or min(lens) < 0 or max(lens) > steps:
        raise ValueError(f"{name} must be numbers in 0 ... {steps}, but are {text!r}")
    return lens


def padded(words: Sequence[str], length: int) -> list[str]:
    """The first words, then <pad>."""
    return [*words[:length], *["<pad>"] * (len(words) - length)]


def draw_weights(
    axes: Axes,
    title: str,
    scores: Tensor,
    queries: Sequence[str],
    keys: Sequence[str],
    num_keys: int,
    causal: bool,
) -> int:
    """Draw the masked softmax of scores, with marks at the mask; return how many pairs it leaves.

    scores         (queries, keys)
    queries, keys  their words
    num_keys       how many leading keys are not padding
    causal         whether each query may use itself and what came before only
    """
    later = causal_lens(1, len(queries), 0, scores.device) if causal else len(keys)
    valid_lens = torch.full((1, len(queries)), num_keys).clamp(max=later)
    keep = attention_mask((1, *scores.shape), valid_lens, scores.device)[0]
    weights = masked_softmax(scores[None], valid_lens)[0]
    axes.set_facecolor("0.88")  # where the mask is, and in no red of the scale
    axes.imshow(weights.masked_fill(~keep, torch.nan).numpy(), cmap="Reds", vmin=0, vmax=1)
    cells = torch.cartesian_prod(torch.arange(len(queries)), torch.arange(len(keys)))
    for name, mark, masked in (
        ("padding", "x", cells[:, 1] >= num_keys),
        ("later step", CARETLEFT, (cells[:, 1] > cells[:, 0]) & causal),
    ):
        rows, columns = cells[masked].T.tolist()
        axes.scatter(columns, rows, s=25, marker=mark, color="0.3", linewidth=1, label=name)
    axes.set_title(title)
    label_cells(axes, keys, queries)
    return int(keep.sum())


def label_cells(axes: Axes, keys: Sequence[str], queries: Sequence[str]) -> None:
    """Write the words beside a heat map: as ticks they would take three times as long to draw."""
    axes.set(xticks=[], yticks=[])
    for j, word in enumerate(keys):
        axes.text(j, len(queries) - 0.35, word, ha="center", va="top", rotation=90)
    for i, word in enumerate(queries):
        axes.text(-0.65, i, word, ha="right", va="center_baseline")
    axes.set_xlabel("keys", labelpad=43)
    axes.set_ylabel("queries", labelpad=51)


def finish_weights(picture: Picture, grid: Sequence[Axes]) -> None:
    """Add to panels of `draw_weights` what their marks and their colours mean."""
    picture.legend(*grid[0].get_legend_handles_labels(), loc="upper center", ncols=2, frameon=False)
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
            options=["causal", "padding", "both"], value="causal", description="decoder's mask"
        ),
    )
