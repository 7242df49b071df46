"""The original Transformer, small enough to read: `import d2l_mini as d2l` gives every name.

Read the modules in this order: attention, transformer, data, training, translation; `progress` and
`figures` hold the tools around them. Each serves the notebook of its chapter.
"""

import importlib

import torch  # the book's cells say `torch` without importing it: `from d2l_mini import *` gives it

from d2l_mini import ablation, attention, data, progress, training, transformer, translation
from d2l_mini.ablation import *
from d2l_mini.attention import *
from d2l_mini.data import *
from d2l_mini.progress import *
from d2l_mini.training import *
from d2l_mini.transformer import *
from d2l_mini.translation import *

_FIGURES = [
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
]  # matplotlib loads when one of them is first used

__all__ = [
    "torch",
    *attention.__all__,
    *transformer.__all__,
    *ablation.__all__,
    *data.__all__,
    *training.__all__,
    *translation.__all__,
    *progress.__all__,
    *_FIGURES,
]


def __getattr__(name: str):
    if name in _FIGURES:
        from d2l_mini import figures

        return getattr(figures, name)
    if name in ("exercises", "explorers"):
        return importlib.import_module(f"d2l_mini.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
