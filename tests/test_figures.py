"""Figures: what a heat map shows, on which scale, with which words, and how Jupyter gets it."""

from __future__ import annotations

import io
import re

import matplotlib.image
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import d2l_mini as d2l
from d2l_mini import figures


def panels(picture: Figure) -> list:
    """The axes that hold a heat map, row by row."""
    return [axes for axes in picture.axes if axes.images]


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


def test_negative_values_widen_the_scale():
    picture = show(torch.tensor([[[[-2.0, 1.0]]]]))
    assert panels(picture)[0].images[0].get_clim() == (-2, 1)


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


@pytest.mark.parametrize(
    ("heights", "labels", "message"),
    [
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
    picture.canvas.draw()
    [axes] = picture.axes
    boxes = [patch.get_window_extent() for patch in axes.patches if patch.get_facecolor()[3]]
    assert len(boxes) == len(ENCODER) + len(DECODER)
    assert not any(a.overlaps(b) for a in boxes for b in boxes if a is not b)
    for text in axes.texts:
        box = text.get_window_extent()
        assert picture.bbox.fully_contains(box.x0, box.y0)
        assert picture.bbox.fully_contains(box.x1, box.y1)


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
