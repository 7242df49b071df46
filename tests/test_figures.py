"""Figures: what each shows, on which scale, with which words, and how Jupyter gets it."""

from __future__ import annotations

import io
import math
import re
import warnings

import matplotlib.colors
import matplotlib.image
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

import d2l_mini as d2l
from d2l_mini import figures, pictures


def panels(picture: Figure) -> list:
    """The axes that hold a heat map, row by row."""
    return [axes for axes in picture.axes if axes.images]


def texts(picture: Figure) -> list[str]:
    return [text.get_text() for axes in picture.axes for text in axes.texts]


def make_matrices(rows: int = 1, columns: int = 5, queries: int = 3, keys: int = 4):
    """Matrices with another range of values in each panel."""
    torch.manual_seed(0)
    ranges = torch.arange(1.0, rows * columns + 1).reshape(rows, columns, 1, 1)
    return torch.rand(rows, columns, queries, keys) * ranges


def show(matrices, **settings) -> Figure:
    return d2l.show_heatmaps(matrices, "keys", "queries", **settings)


def dots(picture: Figure) -> np.ndarray:
    data, _ = picture._repr_mimebundle_()
    return matplotlib.image.imread(io.BytesIO(data["image/png"]), format="png")


# Heat maps -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (5, 1), (2, 3), (1, 1)])
def test_each_matrix_has_its_panel_and_its_values(rows, columns):
    matrices = make_matrices(rows, columns)
    shown = [axes.images[0].get_array() for axes in panels(show(matrices))]
    assert len(shown) == rows * columns
    for values, matrix in zip(shown, matrices.flatten(0, 1), strict=True):
        assert np.array_equal(values, matrix.numpy())


def test_all_panels_share_one_colour_scale_and_one_colour_bar():
    matrices = make_matrices()
    picture = show(matrices)
    limits = {axes.images[0].get_clim() for axes in panels(picture)}
    assert limits == {(0.0, float(matrices.max()))}
    [bar] = [axes for axes in picture.axes if not axes.images]
    assert bar.get_ylim() == pytest.approx((0, float(matrices.max())))


def test_the_same_value_has_the_same_colour_in_every_panel():
    matrices = torch.tensor([[[[0.2, 0.2]], [[0.2, 1.0]]]])
    picture = show(matrices)
    image = dots(picture)
    colors = []
    for axes in panels(picture):
        left, bottom, width, height = axes.get_position().bounds
        row = round((1 - bottom - height / 2) * image.shape[0])
        colors.append(tuple(image[row, round((left + width / 4) * image.shape[1])]))
    assert colors[0] == colors[1]


@pytest.mark.parametrize(
    ("values", "limits"), [([-2.0, 1.0], (-2, 1)), ([0.25, 0.5], (0, 0.5)), ([2, 3], (0, 3))]
)
def test_the_scale_goes_from_0_or_the_least_value_to_the_largest(values, limits):
    picture = show([[[values]]])
    assert panels(picture)[0].images[0].get_clim() == limits


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_matrix_of_one_value_can_be_drawn(value):
    assert dots(show(torch.full((1, 1, 2, 2), value))).size > 0


def test_labels_stand_at_the_edges_and_titles_above_their_column():
    picture = show(make_matrices(2, 3), titles=["one", "two", "three"])
    grid = np.array(panels(picture)).reshape(2, 3)
    assert [axes.get_xlabel() for axes in grid[1]] == ["keys"] * 3
    assert [axes.get_ylabel() for axes in grid[:, 0]] == ["queries"] * 2
    assert {axes.get_xlabel() for axes in grid[0]} == {""}
    assert {axes.get_ylabel() for axes in grid[:, 1:].flat} == {""}
    for row in grid:
        assert [axes.get_title() for axes in row] == ["one", "two", "three"]


def test_every_key_and_query_can_have_its_word():
    xticks, yticks = ["je", "suis", "là", "<eos>"], ["i", "am", "here"]
    picture = show(make_matrices(), xticks=xticks, yticks=yticks)
    first = panels(picture)[0]
    assert first.get_xticks().tolist() == [0, 1, 2, 3]
    assert [label.get_text() for label in first.get_xticklabels()] == xticks
    assert first.get_yticks().tolist() == [0, 1, 2]
    assert [label.get_text() for label in first.get_yticklabels()] == yticks


def test_the_colour_map_and_the_size_can_be_chosen():
    picture = show(make_matrices(), cmap="Blues", figsize=(7, 3))
    assert {axes.images[0].get_cmap().name for axes in panels(picture)} == {"Blues"}
    assert picture.get_size_inches().tolist() == [7, 3]


MATRIX = [[0.0, 0.5], [1.0, 0.25]]


@pytest.mark.parametrize(
    "matrices",
    [
        [[MATRIX]],
        np.array([[MATRIX]]),
        torch.tensor([[MATRIX]], requires_grad=True),
        torch.tensor([[MATRIX]], dtype=torch.bfloat16),
        torch.tensor([[MATRIX]], dtype=torch.float64),
        [torch.tensor([MATRIX])],
        [[torch.tensor(MATRIX, requires_grad=True)]],
        [[np.array(MATRIX)]],
    ],
    ids=[
        "lists", "array", "needs a gradient", "bfloat16", "float64",
        "list of tensors", "lists of tensors", "lists of arrays",
    ],
)  # fmt: skip
def test_matrices_of_any_kind_are_drawn(matrices):
    [axes] = panels(show(matrices))
    assert axes.images[0].get_array().tolist() == MATRIX


def test_integers_are_drawn():
    [axes] = panels(show(torch.eye(3, dtype=torch.long)[None, None]))
    assert axes.images[0].get_array().tolist() == torch.eye(3).tolist()


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (1, 1, 1, 3, 4), (1, 0, 3, 4), (1, 1, 0, 4)])
def test_another_number_of_dimensions_is_refused_with_the_shape(shape):
    with pytest.raises(ValueError, match=re.escape(f"have shape {shape}")):
        show(torch.zeros(shape))


@pytest.mark.parametrize(("name", "size"), [("titles", 5), ("xticks", 4), ("yticks", 3)])
@pytest.mark.parametrize("change", [-1, 1])
def test_labels_of_another_number_are_refused_with_both_numbers(name, size, change):
    message = f"there are {size + change} {name} for {size} of them"
    with pytest.raises(ValueError, match=message):
        show(make_matrices(), **{name: ["word"] * (size + change)})


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_values_are_written_into_their_cells_in_a_colour_that_can_be_read(value):
    [axes] = panels(show(torch.tensor([[[[value, 0.0], [1.0, 0.5]]]]), fmt=".1f"))
    texts = {text.get_position(): text for text in axes.texts}
    shown = {place: text.get_text() for place, text in texts.items()}
    assert shown == {(0, 0): f"{value:.1f}", (1, 0): "0.0", (0, 1): "1.0", (1, 1): "0.5"}
    assert texts[0, 1].get_color() == "white"
    assert texts[1, 0].get_color() == "black"


def test_a_cell_that_is_no_number_stays_blank_and_is_counted():
    picture = show([[[[math.nan, 1.0], [math.inf, 0.5]]]], fmt=".1f")
    assert texts(picture) == ["1.0", "0.5"]
    assert panels(picture)[0].images[0].get_array().mask.tolist() == [[True, False]] * 2
    assert "values from 0.50 to 1.00 (2 of 4 not finite, left out)" in picture.description


@pytest.mark.parametrize("fmt", ["zz", "d", "%.2f", "{:.2f}", 2])
def test_a_format_that_writes_no_number_is_refused(fmt):
    with pytest.raises(ValueError, match=re.escape(f"as '.2f' does, but is {fmt!r}")):
        show(make_matrices(), fmt=fmt)


# What can be drawn ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 1],
        [False, True],
        [0, 1.0],
        range(2),
        np.arange(2)[::-1][::-1],
        np.arange(1, -1, -1)[::-1],
        np.arange(2, dtype=">f8"),
        np.arange(2, dtype=np.float16),
        torch.arange(2).to_sparse(),
        [torch.tensor(0.0, requires_grad=True), np.float32(1)],
        torch.arange(2.0).bfloat16(),
    ],
    ids=lambda numbers: str(getattr(numbers, "dtype", numbers)),
)
def test_numbers_of_any_kind_are_read(numbers):
    [axes] = d2l.show_curves([5, 6], {"a": numbers}, "x", "y").axes
    assert axes.lines[0].get_ydata().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ("ab", "str"),
        (["a", 1], "str"),
        ({1: 2}, "dict"),
        ({1, 2}, "set"),
        ((x for x in (1, 2)), "generator"),
        (np.array([1, None]), "object"),
        (np.array(["1", "2"]), "<U1"),
        (torch.tensor([1j, 2]), "torch.complex64"),
        ([1j, 2], "complex"),
    ],
)
def test_what_is_no_number_is_named(numbers, kind):
    sentence = f"the values of 'a' must hold real numbers, but hold {kind}"
    with pytest.raises(TypeError, match=re.escape(sentence)):
        d2l.show_curves([1, 2], {"a": numbers}, "x", "y")


def test_what_is_not_there_or_ragged_is_named():
    with pytest.raises(ValueError, match="the values of 'a' hold None"):
        d2l.show_curves([1, 2], {"a": [1, None]}, "x", "y")
    with pytest.raises(ValueError, match=re.escape("one shape, but have [(), (1,)]")):
        d2l.show_curves([1, 2], {"a": [1, [2]]}, "x", "y")


def test_numbers_that_are_drawn_stay_as_they_are():
    values = torch.tensor([1.0, math.nan, 3.0], dtype=torch.float64)
    d2l.show_curves([1, 2, 3], {"a": values}, "x", "y")
    assert values.nan_to_num(-1).tolist() == [1, -1, 3]


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda groups: d2l.show_curves([1], groups, "x", "y"), "curves"),
        (lambda groups: d2l.show_points(groups, "x", "y"), "groups"),
        (d2l.show_attention, "blocks"),
        (lambda parts: d2l.show_transformer(parts, parts, 1), "parts of the encoder"),
    ],
)
def test_what_has_names_must_be_there_and_have_them(draw, name):
    with pytest.raises(ValueError, match=f"there are 0 {name}, but a picture needs 1 or more"):
        draw({})
    with pytest.raises(TypeError, match=f"{name} must be a dictionary by name, but are a list"):
        draw([[1]])


@pytest.mark.parametrize(
    "labels", [np.array(["1", "2"]), torch.tensor([1, 2]), (1, 2), {1: 3, 2: 4}]
)
def test_labels_of_any_kind_are_written(labels):
    for picture in (
        show(torch.eye(2)[None, None].expand(1, 2, 2, 2), titles=labels, xticks=labels),
        d2l.show_bars(torch.eye(2), "key", "weight", labels, xticks=labels),
    ):
        first, second = picture.axes[:2]
        assert (first.get_title(), second.get_title()) == ("1", "2")
        assert [label.get_text() for label in first.get_xticklabels()] == ["1", "2"]


def test_a_number_is_no_list_of_labels():
    with pytest.raises(TypeError, match="xticks must be a list of words, but are 2"):
        show(torch.eye(2)[None, None], xticks=2)


# Curves and bars -----------------------------------------------------------------------------


def test_curves_are_told_apart_without_colour_and_named():
    picture = d2l.show_curves([1, 2, 4], {"a": [1, 2, 3], "b": torch.tensor([3.0, 2, 1])}, "x", "y")
    [axes] = picture.axes
    assert [line.get_ydata().tolist() for line in axes.lines] == [[1, 2, 3], [3, 2, 1]]
    assert [line.get_xdata().tolist() for line in axes.lines] == [[1, 2, 4]] * 2
    for get in ("get_color", "get_linestyle", "get_marker"):
        assert len({getattr(line, get)() for line in axes.lines}) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "y")
    assert picture.description == "y against x, 1 to 4: a from 1 to 3; b from 3 to 1"


def test_a_logarithmic_axis_names_the_points_measured():
    [axes] = d2l.show_curves([2, 8, 1024], {"a": [1, 2, 3]}, "x", "y", xscale="log").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "8", "1024"]
    assert axes.get_xscale() == "log"
    assert axes.get_yscale() == "linear"


def test_the_other_axis_can_be_logarithmic():
    [axes] = d2l.show_curves([0, 1, 2], {"a": [1, 2, 3]}, "x", "y", yscale="log").axes
    assert axes.get_xscale() == "linear"
    assert axes.get_yscale() == "log"


@pytest.mark.parametrize("least", [0, -1])
def test_a_logarithmic_axis_refuses_what_has_no_place_on_it(least):
    with pytest.raises(ValueError, match=f"the values of x must be above 0, but one is {least}"):
        d2l.show_curves([least, 1], {"a": [1, 2]}, "x", "y", xscale="log")
    with pytest.raises(ValueError, match=f"the values of 'a' must be above 0, but one is {least}"):
        d2l.show_curves([1, 2], {"a": [1, least]}, "x", "y", yscale="log")


def test_sixteen_points_have_marks_and_seventeen_are_a_line():
    for number, has_marks in ((16, True), (17, False)):
        [axes] = d2l.show_curves(range(number), {"a": range(number)}, "x", "y").axes
        assert (axes.lines[0].get_marker() == "o") == has_marks


def test_a_curve_is_broken_where_a_value_is_not_finite():
    values = [math.nan, 1, math.inf, 3, -math.inf]
    picture = d2l.show_curves(range(5), {"a": values}, "x", "y")
    drawn = picture.axes[0].lines[0].get_ydata()
    assert np.isnan(drawn).tolist() == [True, False, True, False, True]
    assert picture.description == "y against x, 0 to 4: a from 1 to 3 (3 of 5 not finite, left out)"
    with pytest.raises(ValueError, match="the curve 'a' holds no finite number"):
        d2l.show_curves([1], {"a": [math.nan]}, "x", "y")


@pytest.mark.parametrize(
    ("x", "values", "message"),
    [
        ([], [], "the values of x must be (points), but have shape (0,)"),
        ([[1, 2]], [1, 2], "the values of x must be (points), but have shape (1, 2)"),
        (1, [1], "the values of x must be (points), but have shape ()"),
        ([1], 1, "the values of 'a' must be (points), but have shape ()"),
        ([1, 2], [[1], [2]], "the values of 'a' must be (points), but have shape (2, 1)"),
        ([1, math.nan], [1, 2], "the values of x must be finite, but one is nan"),
    ],
)
def test_a_curve_that_is_no_list_of_numbers_is_refused(x, values, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        d2l.show_curves(x, {"a": values}, "x", "y")


NAMES = ["_x", "", None, 3, "$a$", "$\\x$"]


def test_a_legend_has_each_name_as_it_is():
    expected = [str(name) for name in NAMES]
    for picture in (
        d2l.show_curves([1, 2], {name: [1, 2] for name in NAMES}, "x", "y"),
        d2l.show_points({name: ([1, 2], [1, 2]) for name in NAMES}, "x", "y"),
    ):
        shown = picture.axes[0].get_legend().get_texts()
        assert [text.get_text() for text in shown] == expected
        assert not any(text.get_parse_math() for text in shown)
        assert dots(picture).size > 0


def test_a_curve_of_another_length_is_refused():
    with pytest.raises(ValueError, match="the curve 'b' has 2 values for 3 points"):
        d2l.show_curves([1, 2, 3], {"a": [1, 2, 3], "b": [1, 2]}, "x", "y")


def test_bars_share_one_scale():
    heights = torch.tensor([[0.5, 1.0, 0.0], [0.1, 0.2, 0.3]])
    picture = d2l.show_bars(heights, "key", "weight", ["one", "two"], xticks=["a", "b", "c"])
    for axes, row, title in zip(picture.axes, heights, ["one", "two"], strict=True):
        assert [bar.get_height() for bar in axes.patches] == pytest.approx(row.tolist())
        assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
        assert (axes.get_title(), axes.get_xlabel()) == (title, "key")
    assert len({axes.get_ylim() for axes in picture.axes}) == 1
    assert picture.axes[0].get_ylabel() == "weight"
    said = "bars of weight for 3 key: one from 0.00 to 1.00; two from 0.10 to 0.30"
    assert picture.description == said


def test_the_words_of_each_panel_of_bars_are_its_own():
    picture = d2l.show_bars([[1, 2], [3, 4], [5, 6]], "key", "weight", ["a", "b", "c"])
    said = "a from 1.00 to 2.00; b from 3.00 to 4.00; c from 5.00 to 6.00"
    assert picture.description == f"bars of weight for 2 key: {said}"
    assert [axes.get_ylabel() for axes in picture.axes] == ["weight", "", ""]
    bare = d2l.show_bars([[1, 2], [3, 4]], "key", "weight").description
    assert bare.endswith(": panel 1 from 1.00 to 2.00; panel 2 from 3.00 to 4.00")


@pytest.mark.parametrize(
    ("heights", "labels", "message"),
    [
        ([[1, math.nan]], {}, "heights must be finite, but one is nan"),
        ([[1, -math.inf]], {}, "heights must be finite, but one is -inf"),
        (torch.rand(3), {}, "must be (panels, bars), but have shape (3,)"),
        (torch.rand(2, 0), {}, "must be (panels, bars), but have shape (2, 0)"),
        (torch.rand(2, 3), {"titles": ["one"]}, "1 titles for 2 of them"),
        (torch.rand(2, 3), {"xticks": ["one"]}, "1 xticks for 3 of them"),
    ],
)
def test_bars_that_do_not_fit_are_refused(heights, labels, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        d2l.show_bars(heights, "key", "weight", **labels)


# Clocks --------------------------------------------------------------------------------------


def test_hands_turn_clockwise_from_the_top():
    picture = d2l.show_clocks([[[0, 1], [1, 0], [0, -1], [-1, 0]]], "hour", "clock")
    assert picture.description == (
        "1 by 4 clocks, their hands clockwise from the top, for hour 0, 1, 2, 3: "
        "clock 0 at 0, 90, 180, 270 degrees"
    )
    [axes] = picture.axes
    [dots] = [c for c in axes.collections if type(c).__name__ == "PathCollection"]
    tips = torch.as_tensor(dots.get_offsets())
    assert torch.allclose(tips[:, 0], torch.tensor([0, 1.42, 2, 2.58], dtype=tips.dtype))
    low, high = axes.get_ylim()
    assert low > high  # rows count downwards, so up is less
    assert torch.allclose(tips[:, 1], torch.tensor([-0.42, 0, 0.42, 0], dtype=tips.dtype))


def test_each_clock_has_its_circle_its_hand_and_its_words():
    hands = torch.tensor([[[0, 1], [1, 0], [0, -1]], [[-1, 0], [0, 0.5], [0.6, 0.8]]])
    picture = d2l.show_clocks(hands, "hour", "clock")
    [axes] = picture.axes
    circles, lines, _ = axes.collections
    places = [(j, i) for i in range(2) for j in range(3)]
    assert [tuple(place) for place in circles.get_offsets().tolist()] == places
    for (x, y), (right, up), line in zip(
        places, hands.flatten(0, 1).tolist(), lines.get_segments(), strict=True
    ):
        assert line.tolist()[0] == [x, y]
        assert line[1].tolist() == pytest.approx([x + 0.42 * right, y - 0.42 * up])
    assert picture.description.endswith(
        ": clock 0 at 0, 90, 180 degrees; clock 1 at 270, 0, 37 degrees"
    )


@pytest.mark.parametrize(("hand", "length"), [([3, 4], "5"), ([math.nan, 0], "nan")])
def test_a_hand_that_leaves_its_clock_is_refused(hand, length):
    with pytest.raises(ValueError, match=f"must be from 0 to 1, but one is {length}"):
        d2l.show_clocks([[hand]], "hour", "clock")


def test_clocks_have_their_labels():
    hands = torch.tensor([0.0, 1.0]).expand(2, 3, 2)
    picture = d2l.show_clocks(hands, "position", "pair", xticks=["a", "b", "$c"], yticks=["x", "y"])
    [axes] = picture.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "$c"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("position", "pair")


def test_a_hand_a_little_short_of_a_turn_is_at_zero_degrees():
    assert "clock 0 at 0 degrees" in d2l.show_clocks([[[-0.001, 1.0]]], "hour", "clock").description


def test_clocks_are_not_cut_off():
    hands = torch.tensor([0.0, 1.0]).expand(4, 8, 2)
    file = io.BytesIO(
        d2l.show_clocks(hands, "position", "pair")._repr_mimebundle_()[0]["image/png"]
    )
    image = matplotlib.image.imread(file)[..., :3]
    assert all((edge == 1).all() for edge in (image[0], image[-1], image[:, 0], image[:, -1]))


@pytest.mark.parametrize("shape", [(3, 2), (2, 3, 3), (0, 3, 2), (1, 2, 3, 2)])
def test_hands_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=re.escape(f"have shape {shape}")):
        d2l.show_clocks(torch.zeros(shape), "hour", "clock")


@pytest.mark.parametrize(("name", "size"), [("xticks", 3), ("yticks", 2)])
def test_labels_of_another_number_are_refused(name, size):
    with pytest.raises(ValueError, match=f"there are {size + 1} {name} for {size} of them"):
        d2l.show_clocks(torch.zeros(2, 3, 2), "hour", "clock", **{name: ["word"] * (size + 1)})


# The map of the whole model ------------------------------------------------------------------

SHAPE = (2, 5, 64)
ENCODER = {
    "embedding": (SHAPE, 1920),
    "pos_encoding": (SHAPE, 0),
    "attention": (SHAPE, 16384),
    "addnorm1": (SHAPE, 128),
    "ffn": (SHAPE, 16576),
    "addnorm2": (SHAPE, 128),
}
DECODER = {
    "embedding": (SHAPE, 1920),
    "pos_encoding": (SHAPE, 0),
    "attention1": (SHAPE, 16384),
    "addnorm1": (SHAPE, 128),
    "attention2": (SHAPE, 16384),
    "addnorm2": (SHAPE, 128),
    "ffn": (SHAPE, 16576),
    "addnorm3": (SHAPE, 128),
    "dense": ((2, 5, 40), 2600),
}


def test_the_map_has_each_part_with_its_shape_and_size():
    picture = d2l.show_transformer(ENCODER, DECODER, 3, inputs=("source", "target"))
    written = [text.get_text() for text in picture.axes[0].texts]
    for name, (shape, count) in [*ENCODER.items(), *DECODER.items()]:
        assert figures.PARTS[name][1] in written
        assert f"{shape}   {f'{count:,}' if count else 'no'} parameters" in written
    assert "3 blocks like this,\n33,216 parameters each" in written
    assert "3 blocks like this,\n49,728 parameters each" in written
    assert {"source", "target", "logits", "queries", "keys,\nvalues"} <= set(written)
    assert "causal self-attention (2, 5, 64) 16,384" in picture.description


def test_no_two_boxes_of_the_map_touch_and_no_word_leaves_it():
    picture = d2l.show_transformer(ENCODER, DECODER, 1)
    picture.draw_without_rendering()
    [axes] = picture.axes
    boxes = [patch.get_window_extent() for patch in axes.patches if patch.get_facecolor()[3]]
    assert len(boxes) == len(ENCODER) + len(DECODER)
    assert not any(a.overlaps(b) for a in boxes for b in boxes if a is not b)
    for text in axes.texts:
        box = text.get_window_extent()
        assert picture.bbox.fully_contains(box.x0, box.y0)
        assert picture.bbox.fully_contains(box.x1, box.y1)


@pytest.fixture
def model_map():
    """The axes of a map, and by half and part the box of each."""
    picture = d2l.show_transformer(ENCODER, DECODER, 2, inputs=("in", "out"))
    [axes] = picture.axes
    boxes = [patch.get_bbox() for patch in axes.patches if patch.get_facecolor()[3]]
    names = [("encoder", name) for name in ENCODER] + [("decoder", name) for name in DECODER]
    return axes, dict(zip(names, boxes, strict=True))


def test_each_half_of_the_map_goes_up_from_its_input(model_map):
    axes, boxes = model_map
    at = {text.get_text(): text.get_position() for text in axes.texts}
    for half, parts, word in (("encoder", ENCODER, "in"), ("decoder", DECODER, "out")):
        heights = [boxes[half, name].y0 for name in parts]
        assert heights == sorted(heights)
        for name in parts:
            box = boxes[half, name]
            assert (box.x0 + box.x1) / 2 == pytest.approx(at[word][0])
        assert at[word][1] < heights[0]
    assert at["in"][0] < at["out"][0]


def test_the_frames_of_the_map_hold_what_is_repeated(model_map):
    axes, boxes = model_map
    frames = [patch.get_bbox() for patch in axes.patches if not patch.get_facecolor()[3]]
    held = [
        {key for key, box in boxes.items() if frame.y0 < box.y0 and box.y1 < frame.y1}
        & {key for key, box in boxes.items() if frame.x0 < box.x0 and box.x1 < frame.x1}
        for frame in frames
    ]
    outside = {"embedding", "pos_encoding", "dense"}
    assert held == [
        {key for key in boxes if key[0] == half and key[1] not in outside}
        for half in ("encoder", "decoder")
    ]


def test_a_residual_connection_of_the_map_goes_around_its_sublayer(model_map):
    axes, boxes = model_map
    lines = [line for line in axes.lines if line.get_linestyle() == "--" and len(line.get_xdata())]
    ends = [key for key in boxes if key[1].startswith("addnorm")]
    keys = list(boxes)
    for line, end in zip(lines, ends, strict=True):
        sublayer, before = (boxes[keys[keys.index(end) - back]] for back in (1, 2))
        start = line.get_ydata()[0]
        assert before.y1 < start < sublayer.y0
        assert boxes[end].y0 < line.get_ydata()[-1] < boxes[end].y1


def test_what_the_encoder_of_the_map_returns_goes_to_the_cross_attention(model_map):
    axes, boxes = model_map
    orange = pictures.COLORS[1]
    [line] = [line for line in axes.lines if line.get_color() == orange and len(line.get_xdata())]
    top, cross = boxes["encoder", "addnorm2"], boxes["decoder", "attention2"]
    start = (line.get_xdata()[0], line.get_ydata()[0])
    assert start == pytest.approx(((top.x0 + top.x1) / 2, top.y1))
    heads = [text for text in axes.texts if isinstance(text, Annotation)]
    [head] = [head for head in heads if head.arrowprops["color"] == orange]
    assert head.xy == pytest.approx((cross.x0, (cross.y0 + cross.y1) / 2))


def test_the_legend_of_the_map_tells_its_lines_apart(model_map):
    axes, _ = model_map
    legend = axes.get_legend()
    looks = [(line.get_linestyle(), line.get_color()) for line in legend.get_lines()]
    assert [text.get_text() for text in legend.get_texts()] == [
        "residual connection",
        "what the encoder returns",
    ]
    assert looks == [("--", pictures.COLORS[2]), ("-", pictures.COLORS[1])]


def test_a_half_of_one_part_can_be_drawn():
    part = {"attention": (SHAPE, 1)}
    picture = d2l.show_transformer(part, part, 1)
    assert texts(picture).count("self-attention") == 2
    assert dots(picture).size > 0


@pytest.mark.parametrize("num_layers", [0, -1, 1.5, None, "2"])
def test_a_map_has_one_layer_or_more(num_layers):
    with pytest.raises(ValueError, match=f"a whole number from 1, but is {num_layers!r}"):
        d2l.show_transformer(ENCODER, DECODER, num_layers)


@pytest.mark.parametrize("part", [3, (SHAPE, 1, 2), (5, 1), (SHAPE, None)])
def test_a_part_without_shape_and_size_is_refused(part):
    with pytest.raises(ValueError, match=re.escape(f"must be (shape, parameters), not {part!r}")):
        d2l.show_transformer({"attention": part}, DECODER, 1)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ({"conv": (SHAPE, 1)}, "'conv' is no part of a Transformer"),
        ({"embedding": (SHAPE, 1)}, "the encoder must have one block, all in one piece"),
        (
            {"attention": (SHAPE, 1), "embedding": (SHAPE, 1), "ffn": (SHAPE, 1)},
            "the encoder must have one block, all in one piece",
        ),
        (
            {"embedding": (SHAPE, 1), "addnorm1": (SHAPE, 1)},
            "addnorm1 of the encoder follows no sublayer",
        ),
    ],
)
def test_a_map_that_cannot_be_is_refused(encoder, message):
    with pytest.raises(ValueError, match=message):
        d2l.show_transformer(encoder, DECODER, 2)


# The tree ------------------------------------------------------------------------------------

TREE = [
    [(0, "le", math.log(0.5)), (0, "un", math.log(0.4))],
    [(1, "chien", math.log(0.36)), (0, "chat", math.log(0.2))],
    [(0, "<eos>", math.log(0.3)), (0, "dort", math.log(0.06))],
    [(0, "", math.log(0.3)), (1, "<eos>", math.log(0.06))],
]


def test_the_tree_writes_each_token_with_its_probability_where_that_changes():
    words = texts(d2l.show_beam_tree(TREE))
    for text in ("<bos>", "le\n0.50", "un\n0.40", "chien\n0.36", "chat\n0.20", "<eos>\n0.30"):
        assert text in words
    assert "<eos>" in words  # still 0.06
    assert len(words) == 1 + 4 + 7


def test_the_path_that_won_is_coloured_and_what_was_dropped_is_pale():
    picture = d2l.show_beam_tree(TREE)
    looks = {text.get_text(): text.get_color() for text in picture.axes[0].texts}
    colors = {name: look[0] for name, look in figures.TREE_LOOKS.items()}
    assert looks["un\n0.40"] == looks["chien\n0.36"] == colors["won"]
    assert looks["dort\n0.06"] == colors["kept"]
    assert looks["le\n0.50"] == looks["chat\n0.20"] == colors["dropped"]
    other = d2l.show_beam_tree(TREE, best=1)
    looks = {text.get_text(): text.get_color() for text in other.axes[0].texts}
    assert looks["dort\n0.06"] == colors["won"]
    assert looks["<eos>\n0.30"] == colors["kept"]


def test_each_line_of_the_tree_comes_from_the_parent_in_the_colour_of_its_end():
    picture = d2l.show_beam_tree(TREE)
    looks = {}
    for lines in picture.axes[0].collections:
        [width], [color] = set(lines.get_linewidths()), {tuple(c) for c in lines.get_colors()}
        for line in lines.get_segments():
            (x, parent), (column, row) = line[:2]
            if round(column) > 0:
                assert round(x) == round(column) - 1
                assert parent == TREE[round(column)][round(row)][0]
            looks[round(column), round(row)] = (color, width)
    won, kept, dropped = (
        (matplotlib.colors.to_rgba(color), width) for _, color, width in figures.TREE_LOOKS.values()
    )
    assert {place for place, look in looks.items() if look == won} == {
        (0, 1),
        (1, 0),
        (2, 0),
        (3, 0),
    }
    assert {place for place, look in looks.items() if look == kept} == {(2, 1), (3, 1)}
    assert {place for place, look in looks.items() if look == dropped} == {(0, 0), (1, 1)}


def test_the_tree_says_the_best_in_words():
    said = d2l.show_beam_tree(TREE).description
    assert said == (
        "tree of a beam search, 4 steps, at most 2 beginnings kept; the best: un chien <eos>"
    )
    assert "un chien dort <eos>" in d2l.show_beam_tree(TREE, best=1).description


def test_the_path_back():
    assert figures.trace_back(TREE, 1) == ([1, 0, 1, 1], ["un", "chien", "dort", "<eos>"])


@pytest.mark.parametrize(
    ("steps", "best", "sentence"),
    [
        ([], 0, "a tree needs a step, and each step a beginning"),
        ([[(0, "le", -1.0)], []], 0, "a tree needs a step, and each step a beginning"),
        ([[(1, "le", -1.0)]], 0, "'le' at step 1 goes on from number 1, but the step before has 1"),
        (
            [[(0, "le", -1.0)], [(2, "chat", -2.0)]],
            0,
            "'chat' at step 2 goes on from number 2, but the step before has 1",
        ),
        (None, 0, "a tree needs a step, and each step a beginning"),
        ([[(0, "le", math.nan)]], 0, "one at step 1 is (0, 'le', nan)"),
        ([[(0, "le", 1.0)]], 0, "one at step 1 is (0, 'le', 1.0)"),
        ([[(0.5, "le", -1.0)]], 0, "one at step 1 is (0.5, 'le', -1.0)"),
        ([[(0, 7, -1.0)]], 0, "one at step 1 is (0, 7, -1.0)"),
        ([[(0, "le")]], 0, "one at step 1 is (0, 'le')"),
        (TREE, 0.0, "best is 0.0, but the last step has 2 beginnings"),
        (TREE, 2, "best is 2, but the last step has 2 beginnings"),
        (TREE, -1, "best is -1, but the last step has 2 beginnings"),
    ],
)
def test_a_tree_that_cannot_be_is_explained(steps, best, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        d2l.show_beam_tree(steps, best=best)


# Attention, links and points -----------------------------------------------------------------


def test_each_map_of_each_block_is_drawn_on_one_scale_with_its_words():
    torch.manual_seed(0)
    blocks = {
        "one": (torch.rand(2, 3, 4, 5) / 2, ["a", "b", "c", "$d$"], ["e", "f", "g", "h", "$i"]),
        "two": (torch.rand(1, 3, 2, 2), ["<bos>", "l'été"], ["j", "k"]),
    }
    picture = d2l.show_attention(blocks)
    grids = panels(picture)
    assert len(grids) == 2 * 3 + 3
    drawn = torch.cat([torch.tensor(axes.images[0].get_array()).flatten() for axes in grids])
    assert torch.equal(drawn, torch.cat([block[0].flatten() for block in blocks.values()]))
    assert {axes.images[0].get_clim() for axes in grids} == {(0, 1)}
    assert [axes.get_title() for axes in grids[:3]] == ["head 1", "head 2", "head 3"]
    assert {"one", "two", "layer 1", "layer 2"} <= {text.get_text() for text in picture.texts}
    for place, (_, queries, keys) in zip((3, 6), blocks.values(), strict=True):
        words = [text.get_text() for text in grids[place].texts]
        assert words == [*queries, *keys]
    picture.draw_without_rendering()
    for axes in grids:
        for text in axes.texts:
            box = text.get_window_extent()
            assert picture.bbox.x0 <= box.x0 < box.x1 <= picture.bbox.x1
            assert picture.bbox.y0 <= box.y0 < box.y1 <= picture.bbox.y1
    assert "one: 2 by 3 maps of 4 by 5 words" in picture.description


def test_rows_and_columns_can_have_other_names():
    weights = torch.rand(1, 2, 2, 2)
    picture = d2l.show_attention(
        {"title": (weights, "ab", "cd")}, rows=["mean"], columns=["epoch 0", "epoch 1"]
    )
    assert [axes.get_title() for axes in panels(picture)] == ["epoch 0", "epoch 1"]
    assert "mean" in [text.get_text() for text in picture.texts]


@pytest.mark.parametrize(
    ("blocks", "names", "message"),
    [
        ({"a": (torch.rand(1, 1, 2, 2), "ab")}, {}, r"must be \(weights, queries, keys\)"),
        ({"a": (torch.ones(1, 1, 1, 1) * 2, "a", "b")}, {}, "from 0 to 1, but one is 2"),
        ({"a": (torch.ones(1, 1, 1, 1) * math.nan, "a", "b")}, {}, "from 0 to 1, but one is nan"),
        ({"a": (torch.rand(2, 2, 2), "ab", "cd")}, {}, r"must be \(layers, heads, queries, keys\)"),
        ({"a": (torch.rand(1, 2, 2, 2), "abc", "cd")}, {}, "there are 3 queries for 2"),
        ({"a": (torch.rand(1, 2, 2, 2), "ab", "c")}, {}, "there are 1 keys for 2"),
        (
            {n: (torch.rand(1, n, 1, 1), "a", "b") for n in (1, 2)},
            {},
            r"one number of heads, but there are \[1, 2\]",
        ),
        ({"a": (torch.rand(1, 2, 1, 1), "a", "b")}, {"columns": ["x"]}, "1 columns for 2"),
        ({"a": (torch.rand(1, 2, 1, 1), "a", "b")}, {"rows": ["x", "y"]}, "2 rows for 1"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(blocks, names, message):
    with pytest.raises(ValueError, match=message):
        d2l.show_attention(blocks, **names)


def test_lines_are_as_wide_as_weights_and_the_largest_of_a_row_is_coloured():
    weights = torch.tensor([[0.7, 0.3, 0.0], [0.2, 0.2, 0.6]])
    picture = d2l.show_links([weights, weights], [["la", "$x$"]] * 2, [["the", "b", "c"]] * 2)
    assert len(picture.axes) == 2
    [lines] = picture.axes[0].collections
    assert sorted(lines.get_linewidths()) == pytest.approx([1.2, 1.2, 1.8, 3.6, 4.2])
    blue = [tuple(color) for color in lines.get_colors()]
    assert len(set(blue)) == 2
    assert picture.description.count("la to the 0.70") == 2
    assert "$x$ to c 0.60" in picture.description
    assert [text.get_text() for text in picture.axes[0].texts] == ["la", "$x$", "the", "b", "c"]


def test_links_go_from_queries_below_to_keys_above():
    weights = torch.tensor([[0.75, 0.25], [0.0, 1.0]])
    [axes] = d2l.show_links([weights], [["la", "mer"]], [["the", "sea"]], least=0.25).axes
    at = {text.get_text(): text.get_position() for text in axes.texts}
    drawn = set()
    for (x, low), (y, up) in axes.collections[0].get_segments():
        query = min(("la", "mer"), key=lambda word: abs(at[word][0] - x))
        key = min(("the", "sea"), key=lambda word: abs(at[word][0] - y))
        drawn.add((query, key))
        assert at[query][1] < low < up < at[key][1]
        assert (at[query][0], at[key][0]) == pytest.approx((x, y))
    assert drawn == {("la", "the"), ("la", "sea"), ("mer", "sea")}
    [axes] = d2l.show_links([weights], [["la", "mer"]], [["the", "sea"]], least=0.26).axes
    assert len(axes.collections[0].get_segments()) == 2


@pytest.mark.parametrize(
    ("weights", "queries", "keys", "message"),
    [
        ([], [], [], "there are 0, 0 and 0"),
        ([torch.ones(1, 1)], [["a"]], [], "there are 1, 1 and 0"),
        ([torch.ones(1)], [["a"]], [["b"]], r"must be \(queries, keys\), but have shape \(1,\)"),
        ([torch.ones(1, 2)], [["a"]], [["b"]], "there are 1 keys for 2"),
        ([torch.ones(1, 0)], [["a"]], [[]], r"have shape \(1, 0\)"),
        ([torch.ones(1, 1) * math.nan], [["a"]], [["b"]], "from 0 to 1, but one is nan"),
        ([torch.ones(1, 1) * -0.5], [["a"]], [["b"]], "from 0 to 1, but one is -0.5"),
    ],
)
def test_links_that_do_not_fit_are_refused(weights, queries, keys, message):
    with pytest.raises(ValueError, match=message):
        d2l.show_links(weights, queries, keys)


def test_each_cloud_has_its_points_its_colour_and_its_mark():
    clouds = {"one": (torch.arange(3), [1, 2, 4.0]), "two": ([0.5], torch.tensor([-1]))}
    picture = d2l.show_points(clouds, "weight", "fall")
    [axes] = picture.axes
    one, two = axes.collections
    assert one.get_offsets().tolist() == [[0, 1], [1, 2], [2, 4]]
    assert two.get_offsets().tolist() == [[0.5, -1]]
    assert one.get_paths()[0].vertices.shape != two.get_paths()[0].vertices.shape
    assert (one.get_facecolor() != two.get_facecolor()).any()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]
    assert "one: 3 points, weight from 0.00 to 2.00, fall from 1.00 to 4.00" in picture.description


@pytest.mark.parametrize(
    ("clouds", "message"),
    [
        ({"a": ([1, 2], [1])}, r"the x and the y of 'a' must have one shape, .*\(1,\), \(2,\)"),
        ({"a": ([], [])}, r"must be \(2, points\), but have shape \(2, 0\)"),
        ({"a": ([1], [1], [1])}, r"must be \(2, points\), but have shape \(3, 1\)"),
        ({"a": ([1], [math.inf])}, "must be finite, but one is inf"),
        ({"a": ([math.nan], [1])}, "must be finite, but one is nan"),
    ],
)
def test_clouds_that_do_not_fit_are_refused(clouds, message):
    with pytest.raises(ValueError, match=message):
        d2l.show_points(clouds, "x", "y")


# All figures ---------------------------------------------------------------------------------


def make_tree(words) -> list:
    """A tree with each word once."""
    return [[(0, word, -0.5), (0, "a", -1.0)] for word in words]


FIGURES = {  # each with four words wherever it takes words
    "heatmaps": lambda words, **size: show(
        torch.rand(1, 4, 4, 4), titles=words, xticks=words, yticks=words, **size
    ),
    "curves": lambda words, **size: d2l.show_curves(
        [1, 2], {word: [1, 2] for word in words}, "x", "y", **size
    ),
    "bars": lambda words, **size: d2l.show_bars(
        torch.rand(4, 4), "key", "weight", words, xticks=words, **size
    ),
    "clocks": lambda words, **size: d2l.show_clocks(
        torch.zeros(4, 4, 2), "hour", "clock", xticks=words, yticks=words, **size
    ),
    "transformer": lambda words, **size: d2l.show_transformer(
        ENCODER, DECODER, 2, words[:2], **size
    ),
    "beam_tree": lambda words, **size: d2l.show_beam_tree(make_tree(words), **size),
    "links": lambda words, **size: d2l.show_links([torch.rand(4, 4)], [words], [words], **size),
    "points": lambda words, **size: d2l.show_points(
        {word: torch.rand(2, 3) for word in words}, "x", "y", **size
    ),
}
SIZED = pytest.mark.parametrize("name", FIGURES)
ALL = pytest.mark.parametrize("name", [*FIGURES, "attention"])


def draw(name: str, words: list[str], **size) -> d2l.Picture:
    if name == "attention":
        blocks = {words[0]: (torch.rand(2, 4, 4, 4), words, words)}
        return d2l.show_attention(blocks, rows=words[:2], columns=words)
    return FIGURES[name](words, **size)


def drawn_texts(picture: d2l.Picture) -> list[Text]:
    """All words in their places; not the numbers of an axis, some of which lie outside of it."""
    picture.draw_without_rendering()
    found = picture.findobj(lambda artist: isinstance(artist, Text) and artist.get_visible())
    return [text for text in found if any(map(str.isalpha, text.get_text()))]


@SIZED
def test_the_size_can_be_chosen(name):
    assert draw(name, list("abcd"), figsize=(6.5, 5)).get_size_inches().tolist() == [6.5, 5]


@ALL
def test_words_are_never_read_as_formulas(name):
    words = ["$a$", "$\\x$", "$b", "c$"]
    shown = [text for text in drawn_texts(draw(name, words)) if "$" in text.get_text()]
    assert {text.get_text().split("\n")[0] for text in shown} >= set(words[:2])
    assert not any(text.get_parse_math() for text in shown)


def test_a_label_can_be_a_formula_and_stands_as_typed_where_it_is_none():
    picture = d2l.show_bars([[1, 2]], "size $d_k$", "cost $\\x$ of 3")
    shown = {text.get_text(): text.get_parse_math() for text in drawn_texts(picture)}
    assert shown["size $d_k$"]
    assert not shown["cost $\\x$ of 3"]


LONG = ["incompréhensiblement", "x" * 28, "W" * 28, "internationally"]


@ALL
def test_long_words_are_whole_or_end_in_dots_and_nothing_is_cut_off_or_hidden(name):
    picture = draw(name, LONG)
    shown = drawn_texts(picture)
    boxes = [text.get_window_extent() for text in shown]
    for text, box in zip(shown, boxes, strict=True):
        assert picture.bbox.x0 <= box.x0 < box.x1 <= picture.bbox.x1, text
        assert picture.bbox.y0 <= box.y0 < box.y1 <= picture.bbox.y1, text
        assert not any(
            box.x0 < axes.bbox.x1 - 2 and axes.bbox.x0 + 2 < box.x1
            and box.y0 < axes.bbox.y1 - 2 and axes.bbox.y0 + 2 < box.y1
            for axes in panels(picture)
        ), text  # fmt: skip
    for i, box in enumerate(boxes):
        for other in boxes[:i]:
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            down = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert min(across, down) < 3, (shown[i], other)  # a letter's margin, in dots
    written = " ".join(text.get_text() for text in shown)
    used = LONG[:2] if name == "transformer" else LONG
    for word in used:
        assert word in written or word in picture.description
        assert word[:3] in written


@pytest.mark.parametrize("name", ["heatmaps", "bars", "clocks"])
def test_long_words_leave_their_room_to_the_panels(name):
    heights = []
    for words in ("abcd", LONG):
        picture = draw(name, words)
        picture.draw_without_rendering()
        heights.append(picture.axes[0].bbox.height)
    assert heights[1] > 0.55 * heights[0]


@pytest.mark.parametrize("name", ["heatmaps", "bars", "clocks", "beam_tree", "links"])
def test_in_a_small_picture_long_words_are_cut_shorter(name):
    picture = draw(name, LONG, figsize=(6, 4))
    assert "in full: " in picture.description or "x" * 28 in picture.description
    assert "x" * 28 not in [text.get_text() for text in drawn_texts(picture)]


def test_short_words_stand_whole_and_are_not_said_twice():
    picture = draw("heatmaps", ["i", "have", "a", "voiture"])
    assert picture.cut == {}
    assert "in full" not in picture.description
    picture = draw("clocks", LONG)
    assert picture.description.count("x" * 28) == 2  # a column and a row
    assert "in full" not in picture.description


@pytest.fixture
def other_fonts(monkeypatch):
    """Forget which fonts there are, before and after; set those to look in."""

    def choose(*names):
        monkeypatch.setattr(pictures, "FONTS", names)
        pictures._find_fonts.cache_clear()
        pictures._warn_of_boxes.cache_clear()

    yield choose
    choose()


LETTER = "ᶁ"  # not in the usual font; in one that matplotlib brings along


def test_a_letter_that_the_usual_font_lacks_is_taken_from_another(other_fonts):
    """F075: Chinese labels are boxes."""
    other_fonts("No Such Font", "STIXGeneral")
    picture = show([[[[1, 2]]]], xticks=[LETTER, "a"])
    fonts = {text.get_text(): text.get_fontfamily() for text in drawn_texts(picture)}
    assert fonts[LETTER] == ["sans-serif", "STIXGeneral"]
    assert fonts["a"] == ["sans-serif"]


def test_a_letter_that_no_font_has_is_told_once(other_fonts):
    other_fonts("No Such Font")
    for sentences in (["no font on this machine has all letters of a picture"], []):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert dots(show([[[[1, 2]]]], xticks=[LETTER, "a"])).size > 0
        assert [str(warning.message).split(":")[0] for warning in caught] == sentences


# How a notebook shows it ---------------------------------------------------------------------


def test_jupyter_gets_twice_the_dots_at_the_plain_size():
    picture = d2l.Picture((3, 2))
    picture.subplots().plot([1, 2])
    data, metadata = picture._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG")
    assert dots(picture).shape[:2] == (2 * 2 * 96, 2 * 3 * 96)
    assert metadata["image/png"] == {"width": 3 * 96, "height": 2 * 96, "alt": ""}


def test_the_palette_changes_no_colour_that_one_could_see():
    picture = d2l.Picture((4, 2), layout="none")
    picture.subplots().imshow(torch.rand(20, 40).numpy(), cmap="RdBu")
    sharp = matplotlib.image.imread(io.BytesIO(picture.png()), format="png")[..., :3]
    assert np.abs(dots(picture)[..., :3] - sharp).max() < 0.05
    assert len(picture._repr_mimebundle_()[0]["image/png"]) < 0.6 * len(picture.png())


def test_a_picture_has_words_for_those_who_do_not_see_it():
    data, metadata = show(make_matrices())._repr_mimebundle_()
    text = data["text/plain"]
    assert metadata["image/png"]["alt"] == text
    assert text.startswith("1 by 5 heat maps of 3 queries by 4 keys, values from ")
    assert f"{float(make_matrices().max()):.2f}" in text
    data, _ = d2l.Picture(description='"<eos>" ends it')._repr_mimebundle_()
    assert data["text/plain"] == '"<eos>" ends it'
    assert ' alt="&quot;&lt;eos&gt;&quot; ends it" ' in data["text/html"]
    data, _ = d2l.Picture()._repr_mimebundle_()
    assert data["text/plain"].startswith("<Picture size 640x480")


def test_french_is_drawn_without_missing_letters():
    words = ["là-bas", "français", "cœur", "«Ÿ»", "l’été…"]
    picture = show(torch.eye(5)[None, None], titles=["Noël à Évian"], xticks=words, yticks=words)
    assert dots(picture).size > 0  # a missing letter is a warning, and warnings are errors here


def test_half_a_character_is_drawn_as_a_sign_and_said_as_one(other_fonts):
    """A lone surrogate, as a text cut in the middle of an emoji ends in."""
    half = "a\ud83d"
    weights = torch.full((1, 1, 1, 2), 0.5)
    for picture in (
        show(weights, titles=[half], xticks=[half] * 2, yticks=[half]),
        d2l.show_attention({half: (weights, [half], [half] * 2)}, rows=[half], columns=[half]),
        d2l.show_links(weights[0], [[half]], [[half] * 2]),
        d2l.show_points({half: [[0], [1]]}, half, half),
        d2l.show_beam_tree([[(0, half, -1.0)]]),
        d2l.show_bars([[1.0]], half, half, [half], xticks=[half]),
    ):
        data, _ = picture._repr_mimebundle_()
        assert data["text/html"].encode()  # as it is sent to the page
        assert "\ud83d" not in picture.description


def test_nothing_is_cut_off_at_the_edges():
    words = ["a word that is rather long"] * 4
    image = dots(show(make_matrices(), xticks=words, yticks=words[:3], titles=list("abcde")))
    edges = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    assert (edges[..., :3] == 1).all()


def test_weights_that_were_not_kept_say_how_to_keep_them():
    with pytest.raises(ValueError, match="keep_attention_weights"):
        d2l.show_heatmaps([None, None], "keys", "queries")


def test_matrices_of_different_shapes_are_refused():
    ragged = [[torch.rand(3, 3), torch.rand(2, 2)]]
    with pytest.raises(ValueError, match=r"one shape, but have \[\(2, 2\), \(3, 3\)\]"):
        d2l.show_heatmaps(ragged, "keys", "queries")


def test_a_cell_that_is_no_number_leaves_the_scale_alone():
    matrices = torch.tensor([[[[0.9, 1.0]], [[float("nan"), 0.5]]]])
    picture = d2l.show_heatmaps(matrices, "keys", "queries")
    assert {axes.images[0].get_clim() for axes in picture.axes if axes.images} == {(0.0, 1.0)}
    assert "0.50 to 1.00" in picture.description
    with pytest.raises(ValueError, match="no finite number"):
        d2l.show_heatmaps(torch.full((1, 1, 2, 2), float("nan")), "keys", "queries")


def test_a_dollar_is_a_dollar():
    picture = d2l.show_heatmaps(torch.rand(1, 1, 1, 2), "keys", "queries", xticks=["$\\x$", "a"])
    assert picture._repr_mimebundle_()[0]["image/png"]


def test_a_row_of_panels_with_words_is_not_cut_off():
    picture = d2l.show_heatmaps(
        torch.rand(1, 4, 6, 7),
        "reads English",
        "writes French",
        titles=["head 1", "head 2", "head 3", "head 4"],
        xticks=["i", "have", "a", "red", "car", ".", "<eos>"],
        yticks=["j'ai", "une", "voiture", "rouge", ".", "<eos>"],
    )
    file = io.BytesIO(picture._repr_mimebundle_()[0]["image/png"])
    pixels = matplotlib.image.imread(file)[..., :3]
    edges = (pixels[:2], pixels[-2:], pixels[:, :2], pixels[:, -2:])
    assert all((edge == 1).all() for edge in edges)


HUGE = 1.7e308  # of which matplotlib cannot find the ends


@pytest.mark.parametrize(
    "show",
    [
        lambda: d2l.show_curves([1, 2, 3], {"a": [-HUGE, 2, HUGE]}, "x", "y"),
        lambda: d2l.show_points({"a": ([1, 2], [-HUGE, HUGE])}, "x", "y"),
        lambda: d2l.show_heatmaps([[[[-HUGE, HUGE]]]], "x", "y"),
        lambda: d2l.show_bars([[HUGE, 1]], "x", "y"),
    ],
)
def test_a_number_too_large_to_draw_is_named(show):
    with pytest.raises(ValueError, match=r"must lie within 1e\+100 of 0, but one is 1.7e\+308"):
        show()


@pytest.mark.parametrize("scale", ["logit", "function", "logarithmic"])
def test_another_scale_is_refused_with_those_that_there_are(scale):
    message = f"yscale is '{scale}'; it must be one of linear, log, symlog, asinh"
    with pytest.raises(ValueError, match=message):
        d2l.show_curves([1, 2], {"a": [2, -3]}, "x", "y", yscale=scale)


def test_a_number_of_blocks_may_be_numpy_s():
    parts = {"embedding": ((2, 3), 5), "attention": ((2, 3), 5), "addnorm1": ((2, 3), 5)}
    picture = d2l.show_transformer(parts, parts, np.int64(2))
    assert "encoder of 2 blocks" in picture.description


@pytest.mark.parametrize("name", ["queries", "keys"])
def test_a_sentence_without_words_has_no_links(name):
    words = {"queries": ["ab"], "keys": ["ab"]} | {name: [None]}
    with pytest.raises(ValueError, match=f"there are 0 {name} for 2"):
        d2l.show_links([torch.rand(2, 2)], **words)
