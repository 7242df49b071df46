"""Figures: arrays and labels in, a picture out. No function here knows a model or a widget."""

from __future__ import annotations

import io
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure

__all__ = ["Picture", "show_heatmaps"]


class Picture(Figure):
    """A matplotlib figure that shows itself as the last line of a cell, sharp on any screen.

    `description` says in words what the picture shows; it stands in for it where there is none.
    """

    def __init__(self, *args, description: str = "", **kwargs):
        super().__init__(*args, **{"layout": "constrained", **kwargs})
        self.description = description

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        """What Jupyter shows: twice the dots of a plain screen, at the plain size."""
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=192)
        width, height = (round(96 * inches) for inches in self.get_size_inches())
        return (
            {"image/png": file.getvalue(), "text/plain": self.description or repr(self)},
            {"image/png": {"width": width, "height": height}},
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
) -> Picture:
    """Draw a grid of heat maps on one shared colour scale (book, section 11.1).

    matrices        (rows, columns, queries, keys): tensor, array or lists of them
    xlabel, ylabel  what the keys and the queries are
    titles          one for each column
    figsize         of the whole picture, in inches; None = 2 inches and a half a panel
    xticks, yticks  a label for each key and each query

    Raises ValueError if the matrices have other dimensions or a list of labels another length.
    """
    matrices = _as_tensor(matrices).detach().float().cpu()
    if matrices.dim() != 4 or 0 in matrices.shape:
        raise ValueError(
            "matrices must be (rows, columns, queries, keys), but have shape "
            f"{tuple(matrices.shape)}"
        )
    rows, columns, queries, keys = matrices.shape
    for name, labels, size in (
        ("titles", titles, columns),
        ("xticks", xticks, keys),
        ("yticks", yticks, queries),
    ):
        if labels is not None and len(labels) != size:
            raise ValueError(f"there are {len(labels)} {name} for {size} of them in the picture")
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
