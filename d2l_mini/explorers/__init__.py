"""The interactive views: each is a drawing function of its settings, and controls that set them.

Where there is no kernel (GitHub, a printed page) a view shows the picture of its defaults.
"""

from d2l_mini.explorers import heatmaps, parts, prediction, training
from d2l_mini.explorers.base import Explorer
from d2l_mini.explorers.heatmaps import *
from d2l_mini.explorers.parts import *
from d2l_mini.explorers.prediction import *
from d2l_mini.explorers.training import *

__all__ = [
    "Explorer",
    *parts.__all__,
    *training.__all__,
    *prediction.__all__,
    *heatmaps.__all__,
]
