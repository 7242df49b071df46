"""Views of notebooks 01 to 04: driven at the ends of their controls, and as a reader does."""

from __future__ import annotations

import html
import inspect
import io
import itertools
import math
import re

import ipywidgets as widgets
import matplotlib.image
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.markers import CARETLEFT, MarkerStyle

import d2l_mini as d2l
from d2l_mini import explorers
from d2l_mini.explorers import base, parts

VIEWS = [getattr(explorers, name) for name in parts.__all__ if name.startswith("explore_")]
WIDGET = "application/vnd.jupyter.widget-view+json"


def extremes(control: widgets.ValueWidget) -> list:
    """The values at the ends of a control; of a text, what it holds."""
    if isinstance(control, widgets.FloatLogSlider):
        return [control.base**control.min, control.base**control.max]
    if hasattr(control, "min"):
        return [control.min, control.max]
    if hasattr(control, "options"):
        values = [value for _, value in control._options_full]
        return [values[0], values[-1]]
    if isinstance(control, widgets.Checkbox):
        return [False, True]
    return [control.value]


@pytest.fixture(params=VIEWS, ids=lambda view: view.__name__)
def view(request) -> explorers.Explorer:
    return request.param()


# Every view ----------------------------------------------------------------------------------


def test_there_is_a_view_for_each_drawing_function():
    drawn = {name[5:] for name in parts.__all__ if name.startswith("draw_")}
    assert drawn == {view.__name__[8:] for view in VIEWS}


def test_a_view_draws_at_all_ends_of_its_controls(view):
    drawn, explained = set(), []
    for values in itertools.product(*map(extremes, view.controls.values())):
        try:
            picture = view.draw(**dict(zip(view.controls, values, strict=True)))
        except ValueError as error:  # a combination that cannot be
            explained.append(str(error))
            continue
        drawn.add(picture.description)
        assert isinstance(picture, Figure)
        assert picture.png()[:4] == b"\x89PNG"
    assert len(drawn) > 1
    assert all(re.search(r"\d.* .*\d", message) for message in explained)  # with both numbers


def test_each_control_has_a_name_redraws_at_the_end_of_a_move_and_changes_the_view(view):
    """F079: a slider floods a slow callback."""
    for control in view.controls.values():
        assert control.description
        assert not getattr(control, "continuous_update", False)
        before = control.value
        seen = set()
        for value in extremes(control):
            control.value = value
            seen.add((view.image.value, view.words.value))
        control.value = before
        assert len(seen) == len(extremes(control))


def test_a_picture_says_what_it_shows_to_all(view, monkeypatch):
    below, png = [], d2l.Picture.png

    def noted(picture, *sharpness):
        below.append(" ".join(text.get_text() for text in picture.texts))
        return png(picture, *sharpness)

    monkeypatch.setattr(d2l.Picture, "png", noted)
    data, metadata = view._repr_mimebundle_()
    assert set(data) >= {WIDGET, "image/png", "text/plain"}
    line = view.picture.description
    assert data["text/plain"] == metadata["image/png"]["alt"] == line
    assert f' alt="{html.escape(line)}" ' in view.image.value
    assert view.words.value == html.escape(line)
    assert [line in words.replace("\n", " ") for words in below] == [True]
    assert view.picture.texts == []  # it was there for that picture only


def test_the_line_below_a_picture_is_not_cut_off(view):
    data, _ = view._repr_mimebundle_()
    pixels = matplotlib.image.imread(io.BytesIO(data["image/png"]), format="png")[..., :3]
    edges = (pixels[:2], pixels[-2:], pixels[:, :2], pixels[:, -2:])
    assert all((edge == 1).all() for edge in edges)


def test_a_view_keeps_one_picture_and_leaves_no_figure_behind(view):
    """F077: flicker and double figures."""
    from matplotlib import pyplot

    image = view.image
    for control in view.controls.values():
        for value in extremes(control):
            control.value = value
    assert view.children[1] is image
    assert len(view.children) == 3
    assert pyplot.get_fignums() == []


def test_the_same_settings_give_the_same_picture(view):
    torch.manual_seed(1)
    settings = {name: control.value for name, control in view.controls.items()}
    first = view.draw(**settings).png()
    state = torch.get_rng_state()
    assert view.draw(**settings).png() == first
    assert torch.equal(torch.get_rng_state(), state)  # a view leaves the notebook's seed alone


def test_settings_are_named_as_in_the_drawing_function(view):
    assert list(inspect.signature(view.draw).parameters) == list(view.controls)


DEFAULTS = {
    "softmax": {"width": 64, "temperature": 1, "scaled": False},
    "masks": {"source": "6, 4, 3", "target": "6, 3, 5", "sentence": 2, "decoder_mask": "causal"},
    "shapes": {"batch": 2, "steps": 32, "width": 64, "heads": 4},
    "positions": {"position": 3, "other": 10, "width": 32, "base": 10000},
    "decoder": {"step": 3, "way": "one by one, with cache", "source_len": 5},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_view_begins_with_these_settings(name):
    view = getattr(explorers, f"explore_{name}")()
    assert {name: control.value for name, control in view.controls.items()} == DEFAULTS[name]
    assert view.settings == DEFAULTS[name]


nan, inf = float("nan"), float("inf")
SIZE, TEMPERATURE, STEP = "a whole number in 1 ... 1024", "a number in 0.01 ... 100", "1 ... 6"
PLACE, WIDTH, BASE = "number in 0 ... 127", "an even number in 2 ... 1024", "number in 1 ... 1e+09"


@pytest.mark.parametrize(
    ("name", "setting", "values", "allowed"),
    [
        ("softmax", "width", (0, 1025, 2.5, "64", None), SIZE),
        ("softmax", "temperature", (0, -1.5, nan, inf, 1e-40, "1"), TEMPERATURE),
        ("masks", "sentence", (0, -1, 4, 1.0, True, None), "a whole number in 1 ... 3"),
        ("masks", "decoder_mask", ("none", None), "one of 'causal', 'padding', 'both'"),
        *(("shapes", size, (0, -1, 1.5, 1025, nan), SIZE) for size in DEFAULTS["shapes"]),
        ("positions", "position", (-1, 128, 1.5, nan, "3"), PLACE),
        ("positions", "other", (-1, 128, 1.5, nan, "3"), PLACE),
        ("positions", "width", (7, 0, -2, 32.0, 1026), WIDTH),
        ("positions", "base", (0.5, nan, inf, "9"), BASE),
        ("decoder", "step", (0, 7, 1.5, nan, "1"), STEP),
        ("decoder", "source_len", (0, 7, 2.5), STEP),
        ("decoder", "way", ("at once", None), "one of 'all at once', 'one by one, with cache'"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_what_can(name, setting, values, allowed):
    draw = getattr(explorers, f"draw_{name}")
    for value in values:
        with pytest.raises(ValueError, match="must be") as caught:
            draw(**(DEFAULTS[name] | {setting: value}))
        words = str(caught.value)
        assert words.startswith(f"{setting} must be ")
        assert words.endswith(f"{allowed}, but is {value!r}")


# What is wrong is said -----------------------------------------------------------------------


class Unprintable(d2l.Picture):
    def png(self, sharpness: float = 2) -> bytes:
        raise ValueError("no picture of 2")


def failing(number: int) -> d2l.Picture:
    if number == 3:
        raise ValueError("3 is <too much>")
    if number == 4:
        raise KeyError("a fault of ours")
    kind = Unprintable if number == 2 else d2l.Picture
    return kind((number, 1.5), description=f"the number {number}")


def test_a_setting_that_cannot_be_is_explained_and_the_next_one_heals_it():
    view = explorers.Explorer(failing, number=widgets.IntSlider(1, 1, 5, description="number"))
    with pytest.raises(ValueError, match="too much"):
        view.controls["number"].value = 3
    assert "⚠ 3 is &lt;too much&gt;" in view.words.value
    assert "ValueError" not in view.words.value
    view.controls["number"].value = 5
    assert view.words.value == "the number 5"


def test_a_fault_of_ours_is_shown_with_its_kind_and_reaches_the_tests():
    """F076: a broken callback passes the tests."""
    view = explorers.Explorer(failing, number=widgets.IntSlider(1, 1, 5, description="number"))
    with pytest.raises(KeyError):
        view.controls["number"].value = 4
    assert "⚠ KeyError: " in view.words.value


def test_after_a_mistake_the_view_keeps_the_picture_that_it_shows_and_its_settings():
    view = explorers.Explorer(failing, number=widgets.IntSlider(1, 1, 5, description="number"))
    before = view.image.value
    for number in (2, 3):  # no PNG, no picture
        with pytest.raises(ValueError, match=f"{number}"):
            view.controls["number"].value = number
        assert (view.picture.description, view.settings) == ("the number 1", {"number": 1})
        assert view.image.value == before
        assert view._repr_mimebundle_()[0]["text/plain"] == "the number 1"


def test_the_image_has_the_words_and_the_size_of_the_picture_of_now():
    view = explorers.Explorer(failing, number=widgets.IntSlider(1, 1, 5, description="number"))
    view.controls["number"].value = 5
    assert ' alt="the number 5" width="480" height="144" ' in view.image.value
    assert view.settings == {"number": 5}


def test_controls_and_buttons_stand_in_one_row_and_a_button_does_its_own():
    number = widgets.IntSlider(1, 1, 5, description="number")
    presses = {"one": lambda view: view.words.set_trait("value", "1"), "other": lambda view: None}
    view = explorers.Explorer(failing, presses, number=number)
    assert list(view.children[0].children) == [number, view.buttons["one"], view.buttons["other"]]
    view.buttons["other"].click()
    assert view.words.value == "the number 1"
    view.buttons["one"].click()
    assert view.words.value == "1"


def test_showing_a_view_leaves_its_picture_as_it_was():
    view = explorers.explore_softmax()
    before = view.picture.png()
    shown = view._repr_mimebundle_()[0]["image/png"]
    assert view.picture.png() == before
    assert view._repr_mimebundle_()[0]["image/png"] == shown


def test_the_words_below_a_picture_are_three_lines_at_most_and_never_math():
    picture = d2l.Picture((4, 1), layout="none", description="$\\x$ " + 40 * "word ")
    with base.captioned(picture):
        [text] = picture.texts
        assert text.get_text().startswith("$\\x$ word")
        assert text.get_text().count("\n") == 2
        assert text.get_text().endswith(" …")
        assert picture.png()


@pytest.mark.parametrize(
    ("word", "drawn"),
    [
        ("", ""),
        ("information", "information"),
        ("informations", "informatio…"),
        ("$\\x$", "$\\x$"),
        ("注意力注意a", "注意力注意a"),
        ("注意力注意力", "注意力注意…"),  # a letter takes the room of two
    ],
)
def test_a_long_word_is_cut(word, drawn):
    assert base.shorten(word) == drawn


# Notebook 01 ---------------------------------------------------------------------------------


def test_dividing_by_the_root_does_what_the_temperature_can():
    by_root = explorers.draw_softmax(64, 1, True).axes
    by_temperature = explorers.draw_softmax(64, 8, False).axes
    for a, b in zip(by_root, by_temperature, strict=True):
        heights = [[bar.get_height() for bar in axes.patches] for axes in (a, b)]
        assert heights[0] == pytest.approx(heights[1], rel=1e-5)
    plain = explorers.draw_softmax(1024, 1, False).axes[1]
    assert sum(bar.get_height() for bar in plain.patches) == pytest.approx(1, abs=1e-6)
    assert max(bar.get_height() for bar in plain.patches) > 0.99


@pytest.mark.parametrize(
    ("width", "temperature", "scaled"), [(64, 1, False), (64, 0.125, True), (1024, 2**4.5, False)]
)
def test_the_softmax_view_draws_and_says_what_eight_scores_give(width, temperature, scaled):
    torch.manual_seed(7)  # of no account
    vectors = torch.randn(9, 1024, generator=torch.Generator().manual_seed(1))[:, :width].double()
    scores = torch.tensor([float(vectors[0] @ key) for key in vectors[1:]]) / temperature
    scores = scores / width**0.5 if scaled else scores
    weights = scores.exp() / scores.exp().sum()
    slopes = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, 0), scores)
    picture = explorers.draw_softmax(width, temperature, scaled)
    for axes, name, heights in zip(
        picture.axes, ("score", "weight"), (scores, weights), strict=True
    ):
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("key", name)
        assert [bar.get_height() for bar in axes.patches] == pytest.approx(
            heights.tolist(), rel=1e-4, abs=1e-6
        )
        middles = [bar.get_x() + bar.get_width() / 2 for bar in axes.patches]
        assert middles == pytest.approx(range(1, 9))
    assert picture.description == (
        f"{width} numbers a vector, temperature {temperature:.3g}, {'' if scaled else 'not '}"
        f"divided by the root of the width: the scores' standard deviation is {scores.std():.2f}, "
        f"the largest weight {weights.max():.3f}, the largest slope of a weight "
        f"{slopes.abs().max():.2g}."
    )


def masks(source="6, 4, 3", target="6, 3, 5", sentence=2, decoder_mask="causal"):
    """The weights drawn in each panel, masked cells as NaN."""
    picture = explorers.draw_masks(source, target, sentence, decoder_mask)
    shown = [
        axes.images[0].get_array().filled(float("nan")) for axes in picture.axes if axes.images
    ]
    return [torch.tensor(weights) for weights in shown], picture


@pytest.mark.parametrize("decoder_mask", ["causal", "padding", "both"])
def test_the_workbench_masks_what_the_model_masks(decoder_mask):
    (encoder, decoder, cross), picture = masks(decoder_mask=decoder_mask)
    rows, columns = torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij")
    causal, padding = columns > rows, columns >= 3
    expected = {"causal": causal, "padding": padding, "both": causal | padding}[decoder_mask]
    assert torch.equal(encoder.isnan(), columns >= 4)
    assert torch.equal(cross.isnan(), columns >= 4)
    assert torch.equal(decoder.isnan(), expected)
    for weights in (encoder, decoder, cross):
        torch.testing.assert_close(weights.nansum(dim=-1), torch.ones(6))
    left = [int((~weights.isnan()).sum()) for weights in (encoder, decoder, cross)]
    assert [f" {number} " in picture.description for number in left] == [True] * 3


def look_of(marker) -> list:
    """The outline of a marker."""
    style = MarkerStyle(marker)
    return style.get_path().transformed(style.get_transform()).vertices.tolist()


def legend_of(picture: d2l.Picture) -> list[str]:
    [legend] = picture.legends
    return [text.get_text() for text in legend.get_texts()]


def words_of(axes) -> tuple[list[str], list[str]]:
    """The words below a panel and those at its left."""
    below = [text.get_text() for text in axes.texts if text.get_rotation() == 90]
    return below, [text.get_text() for text in axes.texts if text.get_rotation() == 0]


def test_the_workbench_says_in_full_what_it_shows():
    assert masks("6, 4, 3", "6, 3, 5", 2, "both")[1].description == (
        "Sentence 2 of 3: 4 of 6 source steps and 3 of 6 target steps are words. The masks leave "
        "24 pairs of a query and a key in the encoder, 15 in the decoder, 24 in cross-attention."
    )
    assert masks("6, 4, 3", "6, 3, 5", 3, "padding")[1].description == (
        "Sentence 3 of 3: 3 of 6 source steps and 5 of 6 target steps are words. The masks leave "
        "18 pairs of a query and a key in the encoder, 30 in the decoder, 18 in cross-attention."
    )


def test_each_panel_of_the_workbench_has_its_words_its_marks_and_its_scale():
    (encoder, _, cross), picture = masks(decoder_mask="both")
    source = ["the", "red", "car", "stops", "<pad>", "<pad>"]
    target = ["la", "voiture", "rouge", "<pad>", "<pad>", "<pad>"]
    expected = {
        "encoder self-attention": (source, source),
        "decoder self-attention": (target, target),
        "cross-attention": (source, target),
    }
    grid = [axes for axes in picture.axes if axes.images]
    assert {axes.get_title(): words_of(axes) for axes in grid} == expected
    for axes in grid:
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("keys", "queries")
        assert axes.images[0].get_clim() == (0, 1)
    drawn = {
        (points.get_label(), str(points.get_paths()[0].vertices.tolist()))
        for axes in grid
        for points in axes.collections
    }
    looks = {"padding": "x", "later step": CARETLEFT}
    assert drawn == {(name, str(look_of(marker))) for name, marker in looks.items()}
    assert legend_of(picture) == ["padding", "later step"]  # of all panels: the last has one
    assert not torch.equal(encoder.nan_to_num(), cross.nan_to_num())  # other scores, same mask


def test_for_words_a_causal_mask_hides_padding_already():
    rows = [masks(decoder_mask=mask)[0][1][:3] for mask in ("causal", "both")]
    torch.testing.assert_close(*rows, equal_nan=True)


def test_a_length_of_0_leaves_nothing():
    (encoder, decoder, cross), _ = masks("0", "6", 1)
    assert cross.isnan().all()
    assert encoder.isnan().all()
    assert not decoder.isnan().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"source": "6, x, 3"},
            "source lengths must be whole numbers such as 3, 5, but are '6, x",
        ),
        ({"source": 6}, "source lengths must be whole numbers such as 3, 5, but are 6"),
        ({"source": "6, 7, 3"}, "source lengths must be numbers in 0 ... 6"),
        ({"target": "6, -1, 3"}, "target lengths must be numbers in 0 ... 6"),
        ({"target": ""}, "target lengths must be numbers in 0 ... 6"),
        ({"target": "1, 2"}, "there are 3 source lengths and 2 target lengths"),
        ({"source": "1", "target": "2", "sentence": 3}, "in 1 ... 1, but is 3"),
    ],
)
def test_lengths_that_cannot_be_are_explained(settings, message):
    with pytest.raises(ValueError, match=message):
        masks(**settings)


# Notebook 02 ---------------------------------------------------------------------------------

EXTREMES = [
    (1, 1, 8, 1),
    (64, 1024, 1024, 16),
    (64, 1, 8, 8),
    (1, 1024, 1024, 1),
    (1024, 1024, 1024, 1024),
]


@pytest.mark.parametrize(("batch", "steps", "width", "heads"), EXTREMES)
def test_draw_shapes_says_the_right_numbers(batch, steps, width, heads):
    words = explorers.draw_shapes(batch, steps, width, heads).description
    products = batch * (4 * steps * width**2 + 2 * steps**2 * width)
    assert (
        f"{batch}, {steps} steps, width {width} = {heads} heads × {width // heads} units" in words
    )
    assert f"{4 * width**2:,} parameters, {products:,} multiplications" in words
    assert f"scores hold {batch * heads * steps**2:,} numbers" in words
    assert f"the output {batch * steps * width:,}." in words


@pytest.mark.parametrize(("batch", "steps", "width", "heads"), EXTREMES)
def test_draw_shapes_shows_every_shape_whole(batch, steps, width, heads):
    picture = explorers.draw_shapes(batch, steps, width, heads)
    texts = [text.get_text() for text in picture.axes[0].texts]
    for shape in (
        (batch, steps, width),
        (batch, heads, steps, width // heads),
        (batch, heads, steps, steps),
    ):
        assert " × ".join(f"{size:,}" for size in shape) in texts
    picture.canvas.draw()
    frame = picture.bbox
    for text in (*picture.axes[0].texts, *picture.axes[0].get_yticklabels()):
        box = text.get_window_extent()
        assert frame.x0 <= box.x0 < box.x1 <= frame.x1, text.get_text()
    boxes, bars = picture.axes[0].containers
    for row, box in enumerate(boxes):
        shape, number = picture.axes[0].texts[2 * row : 2 * row + 2]
        inside, outside = shape.get_window_extent(), number.get_window_extent()
        assert box.get_window_extent().x0 < inside.x0 < inside.x1 < box.get_window_extent().x1
        assert inside.x1 < outside.x0 < outside.x1 < bars[row].get_window_extent().x0


def test_trace_is_what_the_call_does():
    torch.manual_seed(0)
    attention, X = d2l.MultiHeadAttention(12, 3).eval(), torch.randn(2, 5, 12)
    shapes = parts.trace_shapes(attention, X)
    assert list(shapes) == list(parts.MADE)
    assert shapes["W_o"] == attention(X, X, X).shape
    assert shapes["masked_softmax"] == attention.attention_weights.shape
    sizes = {"batch": 2, "steps": 5, "width": 12, "heads": 3, "width / heads": 4}
    for name, shape in shapes.items():
        assert shape == tuple(sizes[word] for word in parts.MADE[name].split(", "))
    assert set(parts.MADE.values()) == set(parts.KINDS)


@pytest.mark.parametrize(
    ("width", "heads", "nearest"),
    [(64, 3, "2 or 4"), (24, 7, "6 or 8"), (8, 16, "8"), (8, 9, "8"), (1016, 16, "8 or 127")],
)
def test_draw_shapes_names_the_nearest_heads(width, heads, nearest):
    with pytest.raises(ValueError, match="cannot share") as caught:
        explorers.draw_shapes(2, 4, width, heads)
    words = str(caught.value)
    assert words == f"{heads} heads cannot share {width} units in equal parts; {nearest} heads can."
    for number in map(int, re.findall(r"\d+", nearest)):
        assert explorers.draw_shapes(2, 4, width, number).description


def test_the_bars_are_to_scale_and_the_legend_has_their_colours():
    picture = explorers.draw_shapes(2, 16, 8, 2)
    boxes, bars = picture.axes[0].containers
    numbers = [2 * 16 * 8] * 3 + [2 * 2 * 16 * 16] * 2 + [2 * 16 * 8] * 3
    lengths = [bar.get_width() / bars[3].get_width() for bar in bars]
    assert lengths == pytest.approx([number / max(numbers) for number in numbers])
    [legend] = picture.legends
    colors = {
        text.get_text(): handle.get_edgecolor()
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)
    }
    kinds = list(parts.MADE.values())
    assert [colors[kind] for kind in kinds] == [box.get_edgecolor() for box in boxes]
    assert [colors[kind] for kind in kinds] == [bar.get_facecolor() for bar in bars]
    assert len(set(colors.values())) == 3


def test_explore_shapes_keeps_one_image_and_says_what_is_wrong():
    view = explorers.explore_shapes()
    image, words = view.image, view.words.value
    before = image.value
    for name, values in {"batch": (1, 64), "steps": (1, 1024), "heads": (1, 16)}.items():
        for value in values:
            view.controls[name].value = value
    for value in (1024, 16):
        view.controls["width"].value = value
    assert view.image is image
    assert image.value != before
    assert view.words.value != words
    last = image.value
    with pytest.raises(ValueError, match="16 heads cannot share 8 units"):
        view.controls["width"].value = 8
    assert "16 heads cannot share 8 units" in view.words.value
    assert image.value == last
    view.controls["heads"].value = 8
    assert "width 8 = 8 heads × 1 units" in view.words.value
    assert image.value != last
    assert all(control.description for control in view.controls.values())


# Notebook 03 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 127])
@pytest.mark.parametrize("other", [0, 127])
@pytest.mark.parametrize("width", [2, 128])
@pytest.mark.parametrize("base", [10.0, 100_000.0])
def test_the_ends_of_every_control_give_a_picture(position, other, width, base):
    picture = explorers.draw_positions(position, other, width, base)
    assert picture._repr_mimebundle_()[0]["image/png"]
    assert (
        f"Positions {position} and {other}, {width} units, base {base:.6g}" in picture.description
    )


@pytest.mark.parametrize(("position", "other", "width"), [(3, 10, 32), (90, 20, 8), (5, 5, 64)])
def test_it_says_what_the_package_encodes(position, other, width):
    P = d2l.PositionalEncoding(width).P
    dot = P[position] @ P[other]
    said = explorers.draw_positions(position, other, width, 10000.0).description
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", said)]
    assert f"{abs(position - other)} apart" in said
    assert f"of at most {width // 2}," in said
    assert numbers[0] == pytest.approx(float(dot), abs=0.006)
    assert numbers[1] == pytest.approx(float(dot) / (width / 2), abs=0.006)


@pytest.mark.parametrize(("position", "other", "width"), [(3, 10, 32), (90, 20, 8), (0, 1, 8)])
def test_it_names_the_first_larger_distance_that_is_as_similar(position, other, width):
    P = d2l.PositionalEncoding(width).P[:128].double()
    similar = P @ P[0]
    distance = abs(position - other)
    first = next(far for far in range(distance + 1, 128) if similar[far] >= similar[distance])
    said = explorers.draw_positions(position, other, width, 10000.0).description
    assert f"Distance {first} is at least as similar" in said


@pytest.mark.parametrize(("width", "base"), [(4, 100.0), (2, 1.0), (32, 1e9)])
def test_the_base_and_the_width_set_the_frequencies(width, base):
    alike = sum(math.cos(7 * base ** (-2 * j / width)) for j in range(width // 2))
    _, right = explorers.draw_positions(3, 10, width, base).axes
    assert float(right.lines[0].get_ydata()[7]) == pytest.approx(alike / (width / 2))
    said = explorers.draw_positions(3, 10, width, base).description
    assert f"their dot product is {alike:.2f} of at most {width // 2}, their" in said
    assert f"their cosine similarity {alike / (width / 2):.2f}." in said


def test_a_distance_that_is_just_as_similar_counts():
    said = parts.say_confused(torch.tensor([1, 0.5, 0.25, 0.5]), 1)
    assert said == "Distance 3 is at least as similar (0.50)."


def test_it_says_so_where_no_larger_distance_is_as_similar():
    assert "No larger distance, up to 127" in explorers.draw_positions(9, 9, 32, 1e4).description
    assert "No larger distance is drawn" in explorers.draw_positions(0, 127, 32, 1e4).description


def test_the_left_panel_has_both_vectors_and_the_right_one_the_distance():
    left, right = explorers.draw_positions(3, 10, 8, 10000.0).axes
    P = d2l.PositionalEncoding(8).P
    for line, position in zip(left.lines, (3, 10), strict=True):
        assert torch.allclose(torch.as_tensor(line.get_ydata()).float(), P[position], atol=1e-5)
        assert line.get_label() == f"position {position}"
    curve, mark, upright = right.lines
    assert len(curve.get_ydata()) == 128
    assert mark.get_xdata() == [7]
    assert upright.get_xdata() == [7, 7]
    [stems] = left.collections
    for unit, stem in enumerate(stems.get_segments()):
        expected = [[unit, P[3, unit]], [unit, P[10, unit]]]
        assert torch.allclose(torch.tensor(stem), torch.tensor(expected).double(), atol=1e-5)
    assert float(mark.get_ydata()[0]) == pytest.approx(float(P[3] @ P[10]) / 4, abs=1e-5)


# Notebook 04 ---------------------------------------------------------------------------------

ONE_BY_ONE = "one by one, with cache"
AT_ONCE = "all at once"


def marks(picture: d2l.Picture, panel: int) -> dict[str, set[tuple[int, int]]]:
    """The cells (query, key), from 0, that carry each mark."""
    axes = [axes for axes in picture.axes if axes.images][panel]
    return {
        points.get_label(): {(int(y), int(x)) for x, y in points.get_offsets()}
        for points in axes.collections
    }


def weights(picture: d2l.Picture, panel: int):
    """The weights drawn in a panel; masked where there is none."""
    return [axes for axes in picture.axes if axes.images][panel].images[0].get_array()


@pytest.mark.parametrize("step", [1, 3, 6])
def test_all_at_once_masks_every_later_word_whatever_the_step(step):
    picture = explorers.draw_decoder(step, AT_ONCE, 4)
    later = {(query, key) for query in range(6) for key in range(6) if key > query}
    assert marks(picture, 0)["later step"] == later
    assert marks(picture, 1)["padding"] == {(query, key) for query in range(6) for key in (4, 5)}


@pytest.mark.parametrize("step", [1, 3, 6])
def test_one_by_one_has_nothing_to_mask_and_no_row_beyond_the_step(step):
    picture = explorers.draw_decoder(step, ONE_BY_ONE, 4)
    there = {(query, key) for query in range(step) for key in range(query + 1)}
    everything = {(query, key) for query in range(6) for key in range(6)}
    assert marks(picture, 0) == {"not there yet": everything - there}
    assert marks(picture, 1)["padding"] == {(q, key) for q in range(step) for key in (4, 5)}
    assert marks(picture, 1)["not there yet"] == {cell for cell in everything if cell[0] >= step}


@pytest.mark.parametrize("way", [AT_ONCE, ONE_BY_ONE])
@pytest.mark.parametrize("source_len", [1, 6])
def test_each_row_that_is_there_sums_to_1_and_the_framed_one_is_the_same_in_both_ways(
    way, source_len
):
    for step in (1, 6):
        picture = explorers.draw_decoder(step, way, source_len)
        other = explorers.draw_decoder(step, AT_ONCE, source_len)
        for panel in (0, 1):
            row = weights(picture, panel)[step - 1]
            assert row.sum() == pytest.approx(1)
            assert (row == weights(other, panel)[step - 1]).all()


def test_the_frame_is_around_the_row_of_the_step():
    picture = explorers.draw_decoder(4, ONE_BY_ONE, 5)
    for axes in (axes for axes in picture.axes if axes.images):
        [frame] = [patch for patch in axes.patches if patch.get_width() > 5]
        assert frame.get_y() < 3 < frame.get_y() + frame.get_height()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            (3, ONE_BY_ONE, 5),
            "Step 3 writes 'rouge': its query may use 3 target keys, of which 2 came from the "
            "cache, and 5 of 6 source keys. 3 calls so far, a row each: 6 self-attention scores, "
            "none masked.",
        ),
        (
            (1, ONE_BY_ONE, 1),
            "Step 1 writes 'la': its query may use 1 target key, of which 0 came from the cache, "
            "and 1 of 6 source keys. 1 call so far, a row each: 1 self-attention score, none "
            "masked.",
        ),
        (
            (6, AT_ONCE, 6),
            "Step 6 writes '.': its query may use 6 of 6 target keys (0 masked), and 6 of 6 source "
            "keys. One call makes all 6 rows: 36 self-attention scores, 15 of them masked.",
        ),
    ],
)
def test_the_words_say_the_numbers(settings, says):
    assert explorers.draw_decoder(*settings).description == says


@pytest.mark.parametrize("way", [AT_ONCE, ONE_BY_ONE])
def test_both_panels_of_the_decoder_have_their_titles_their_words_and_their_captions(way):
    picture = explorers.draw_decoder(3, way, 4)
    written = ["la", "voiture", "rouge", "s'arrête", "ici", "."]
    read = ["<bos>", *written[:-1]]
    source = ["the", "red", "car", "stops", "<pad>", "<pad>"]
    grid = [axes for axes in picture.axes if axes.images]
    assert [(axes.get_title(), words_of(axes)) for axes in grid] == [
        ("self-attention", (read, written)),
        ("cross-attention", (source, written)),
    ]
    assert [axes.get_xlabel() for axes in grid] == ["keys: words read", "keys: source words"]
    assert {axes.get_ylabel() for axes in grid} == {"queries: words written"}
    assert {axes.images[0].get_clim() for axes in grid} == {(0, 1)}
    first = "later step" if way == AT_ONCE else "not there yet"
    assert legend_of(picture) == [first, "padding"]


def test_numbers_of_numpy_are_taken_as_what_they_say():
    """A setting may come out of an array, whose numbers of 8 bits would run over."""
    narrow = np.uint8
    pictures = {
        "softmax": (explorers.draw_softmax, (200, 1.0, True)),
        "shapes": (explorers.draw_shapes, (200, 16, 240, 8)),
        "positions": (explorers.draw_positions, (100, 127, 240, 10000.0)),
        "decoder": (explorers.draw_decoder, (3, parts.WAYS[0], 2)),
    }
    for draw, settings in pictures.values():
        as_numpy = [narrow(value) if type(value) is int else value for value in settings]
        assert draw(*as_numpy).description == draw(*settings).description
