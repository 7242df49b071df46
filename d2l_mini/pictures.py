"""What a picture is: it shows itself, says itself in words, and has room for any word."""

from __future__ import annotations

import base64
import html
import io
import warnings
from bisect import bisect
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from functools import cache

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from PIL import Image  # matplotlib's own dependency

from d2l_mini.checks import as_plain, check_number, check_text, in_line

__all__ = ["Picture"]

# Okabe and Ito's colours, told apart with any kind of colour vision; the strokes and marks say the
# same without colour.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STROKES = ("-", "--", "-.", ":")
MARKS = ("o", "s", "^", "D", "v", "P", "X")

# Where the usual font lacks a letter, the first of these that has it; Linux, Windows, macOS.
FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC"),
    *("WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback"),
    *("Microsoft YaHei", "SimHei", "SimSun", "Yu Gothic", "Malgun Gothic"),
    *("PingFang SC", "Hiragino Sans GB", "Heiti TC", "Apple SD Gothic Neo", "Arial Unicode MS"),
)

LONGEST = 1.6  # inches that a word takes at most, about 24 letters


class Picture(Figure):
    """A matplotlib figure that shows itself as the last line of a cell, sharp on any screen.

    `figsize` is its width and height, in inches; where it is None, `default` is. `description` says
    in words what it shows, and stands in for it where there is none; at its end stand the words
    that `fit` cut.
    """

    def __init__(self, figsize=None, default=None, *, description: str = "", **kwargs):
        size = default if figsize is None else figsize
        size = None if size is None else check_figsize(size)
        super().__init__(size, **{"layout": "constrained", **kwargs})
        self.cut: dict[str, None] = {}  # a set in order
        self.description = description

    @property
    def description(self) -> str:
        """What the picture shows, in words."""
        whole = ", ".join(word for word in self.cut if word not in self._said)
        return f"{self._said}; in full: {whole}" if whole else self._said

    @description.setter
    def description(self, said: str) -> None:
        check_text("description", said)
        self._said = drawable(said)

    def fit(self, words: Sequence[str], inches: float = LONGEST, size: str = "medium") -> list[str]:
        """The words as they can be drawn: one that would be wider ends in "…"."""
        words = [*map(drawable, words)]
        short = [_shorten(word, inches, size) for word in words]
        self.cut |= {word: None for word, drawn in zip(words, short, strict=True) if word != drawn}
        return short

    def draw(self, renderer) -> None:
        """Draw; a formula that matplotlib cannot read stands as typed, any letter in some font."""
        for text in self.findobj(Text):
            words = drawable(text.get_text())
            text.set_text(words)
            if "$" in words and not _is_formula(words):
                text.set_parse_math(False)
            if not words.isascii():
                text.set_fontfamily(list(_find_fonts(words, tuple(text.get_fontfamily()))))
        with _boxes_allowed():
            super().draw(renderer)

    def png(self, sharpness: float = 2) -> bytes:
        """Return the picture as a PNG file, with this many dots for one of a plain screen."""
        file = io.BytesIO()
        fast = {"compress_level": 3}  # a tenth larger, and a third faster to write
        self.savefig(file, format="png", dpi=96 * sharpness, pil_kwargs=fast)
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


def check_figsize(figsize: Sequence[float]) -> tuple[float, float]:
    """Return width and height in inches; ValueError where they are not two numbers from 0.1."""
    match as_plain("figsize", figsize):
        case (width, height):
            return tuple(check_number("a side", side, 0.1, 1000) for side in (width, height))
    raise ValueError(f"figsize must be (width, height) in inches, but is {in_line(figsize)}")


@cache
def _letters_of(family: str) -> frozenset[str]:
    """The letters of a font; none where this machine does not have it."""
    try:
        path = findfont(FontProperties(family=[family]), fallback_to_default=False)
    except ValueError:
        return frozenset()
    return frozenset(map(chr, get_font(path).get_charmap()))


@cache
def _find_fonts(words: str, families: tuple[str, ...]) -> tuple[str, ...]:
    """The families, and those of `FONTS` that have letters which these lack."""
    missing = set(words).difference("\n", *map(_letters_of, families))
    for family in FONTS:
        if missing & _letters_of(family):
            families += (family,)
            missing -= _letters_of(family)
    if missing:
        _warn_of_boxes()
    return families


@cache
def _warn_of_boxes() -> None:
    """Say, once, that a picture has boxes in it."""
    warnings.warn(
        "no font on this machine has all letters of a picture: boxes stand for the others. "
        "A free font with Chinese, Japanese and Korean letters is Noto Sans CJK.",
        stacklevel=2,
    )


@contextmanager
def _boxes_allowed():
    """Without matplotlib's warning for each letter that no font has: `_warn_of_boxes` says it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def drawable(words: str) -> str:
    """Words with a sign in place of each half character (a lone surrogate), which no font has."""
    return words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def word_width(word: str, size: str = "medium") -> float:
    """How wide a word is when it is drawn, in inches."""
    word = drawable(word)
    font = FontProperties(family=list(_find_fonts(word, ("sans-serif",))), size=size)
    with _boxes_allowed():
        return max(
            text_to_path.get_text_width_height_descent(line, font, False)[0] / 72
            for line in word.split("\n")
        )


def _shorten(word: str, inches: float, size: str) -> str:
    """The word, or as much of it as fits and "…"."""
    if word_width(word, size) <= inches:
        return word
    most = bisect(range(1, len(word)), inches, key=lambda n: word_width(f"{word[:n]}…", size))
    return f"{word[:most]}…"


def room_for(words: Iterable[str] | None, size: str = "medium") -> float:
    """What the widest of these words takes once it is cut to fit, in inches."""
    return max((min(word_width(word, size), LONGEST) for word in words or ()), default=0)


def room_beyond(words: Iterable[str] | None) -> float:
    """What the widest word takes beyond what a panel can spare, in inches."""
    return max(0, room_for(words) - 0.8)


@cache
def _is_formula(words: str) -> bool:
    """Whether matplotlib can read what stands between dollars."""
    try:
        MathTextParser("path").parse(words)
    except ValueError:
        return False
    return True


def check_scale(name: str, scale: str) -> None:
    """Raise ValueError where an axis of any numbers has no such scale."""
    known = ("linear", "log", "symlog", "asinh")
    if not isinstance(scale, str) or scale not in known:
        raise ValueError(f"{name} is {in_line(scale)}; it must be one of {', '.join(known)}")


def check_strokes(name: str, fmts: Iterable[str]) -> None:
    """Raise ValueError where matplotlib cannot read the format of a line, such as "r--"."""
    axes = Figure().subplots()
    for fmt in fmts:
        try:
            axes.plot([], [], fmt)
        except ValueError:
            raise ValueError(f"{name} holds {in_line(fmt)}, which is no format of a line") from None
