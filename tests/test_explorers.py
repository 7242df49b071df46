"""Views of notebooks 01 to 04: driven at the ends of their controls, and as a reader does."""

from __future__ import annotations

import html
import inspect
import io
import itertools
import re

import ipywidgets as widgets
import matplotlib.image
import pytest
import torch
from matplotlib.figure import Figure

import d2l_mini as d2l
from d2l_mini import explorers
from d2l_mini.explorers import parts

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


def test_a_picture_says_what_it_shows_to_all(view):
    data, metadata = view._repr_mimebundle_()
    assert set(data) >= {WIDGET, "image/png", "text/plain"}
    line = view.picture.description
    assert data["text/plain"] == metadata["image/png"]["alt"] == line
    assert f' alt="{html.escape(line)}" ' in view.image.value
    assert view.words.value == html.escape(line)
    drawn = [text.get_text() for text in view.picture.texts] + [view.picture.get_supxlabel()]
    assert line in " ".join(drawn).replace("\n", " ")


def test_the_line_below_a_picture_is_not_cut_off(view):
    data, _ = view._repr_mimebundle_()
    pixels = matplotlib.image.imread(io.BytesIO(data["image/png"]), format="png")[..., :3]
    edges = (pixels[:2], pixels[-2:], pixels[:, :2], pixels[:, -2:])
    assert all((edge == 1).all() for edge in edges)


def test_a_view_keeps_one_picture_and_leaves_no_figure_behind(view):
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


# What is wrong is said -----------------------------------------------------------------------


def failing(number: int) -> d2l.Picture:
    if number == 3:
        raise ValueError("3 is <too much>")
    if number == 4:
        raise KeyError("a fault of ours")
    return d2l.Picture((1, 1), description=f"the number {number}")


def test_a_setting_that_cannot_be_is_explained_and_the_next_one_heals_it():
    view = explorers.Explorer(failing, number=widgets.IntSlider(1, 1, 5, description="number"))
    with pytest.raises(ValueError, match="too much"):
        view.controls["number"].value = 3
    assert "⚠ 3 is &lt;too much&gt;" in view.words.value
    assert "ValueError" not in view.words.value
    view.controls["number"].value = 5
    assert view.words.value == "the number 5"


def test_a_fault_of_ours_is_shown_with_its_kind_and_reaches_the_tests():
    view = explorers.Explorer(failing, number=widgets.IntSlider(1, 1, 5, description="number"))
    with pytest.raises(KeyError):
        view.controls["number"].value = 4
    assert "⚠ KeyError: " in view.words.value


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


def test_for_words_a_causal_mask_hides_padding_already():
    rows = [masks(decoder_mask=mask)[0][1][:3] for mask in ("causal", "both")]
    torch.testing.assert_close(*rows, equal_nan=True)


def test_the_words_stand_beside_their_rows_and_columns():
    _, picture = masks()
    titles = [axes.get_title() for axes in picture.axes]
    cross = picture.axes[titles.index("cross-attention")]
    below = [text.get_text() for text in cross.texts if text.get_rotation() == 90]
    beside = [text.get_text() for text in cross.texts if text.get_rotation() == 0]
    assert below == ["the", "red", "car", "stops", "<pad>", "<pad>"]
    assert beside == ["la", "voiture", "rouge", "<pad>", "<pad>", "<pad>"]


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
        ({"source": "6, 7, 3"}, "source lengths must be numbers in 0 ... 6"),
        ({"target": "6, -1, 3"}, "target lengths must be numbers in 0 ... 6"),
        ({"target": ""}, "target lengths must be numbers in 0 ... 6"),
        ({"target": "1, 2"}, "there are 3 source lengths and 2 target lengths"),
        ({"source": "1", "target": "2", "sentence": 3}, "no sentence 3: the batch has 1"),
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


def test_draw_shapes_of_no_heads():
    with pytest.raises(ValueError, match="num_heads 0 does not divide num_hiddens 8"):
        explorers.draw_shapes(1, 1, 8, 0)


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


def test_it_says_so_where_no_larger_distance_is_as_similar():
    assert "No larger distance, up to 127" in explorers.draw_positions(9, 9, 32, 1e4).description
    assert "No larger distance is drawn" in explorers.draw_positions(0, 127, 32, 1e4).description


def test_the_left_panel_has_both_vectors_and_the_right_one_the_distance():
    left, right = explorers.draw_positions(3, 10, 8, 10000.0).axes
    P = d2l.PositionalEncoding(8).P
    for line, position in zip(left.lines, (3, 10), strict=True):
        assert torch.allclose(torch.as_tensor(line.get_ydata()).float(), P[position], atol=1e-5)
        assert line.get_label() == f"position {position}"
    curve, mark, _ = right.lines
    assert len(curve.get_ydata()) == 128
    assert mark.get_xdata() == [7]
    assert float(mark.get_ydata()[0]) == pytest.approx(float(P[3] @ P[10]) / 4, abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ((-1, 0, 32, 1e4), "position -1 lies outside 0 ... 127"),
        ((0, 128, 32, 1e4), "position 128 lies outside 0 ... 127"),
        ((0, 1, 7, 1e4), "width must be an even number of units, 2 or more, but is 7"),
        ((0, 1, 0, 1e4), "width must be an even number of units, 2 or more, but is 0"),
        ((0, 1, 8, 0.5), "base must be 1 or more, but is 0.5"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(settings, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        explorers.draw_positions(*settings)


def test_the_defaults_are_those_of_the_paper():
    view = explorers.explore_positions()
    settings = {name: control.value for name, control in view.controls.items()}
    assert settings == {"position": 3, "other": 10, "width": 32, "base": 10000}


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, AT_ONCE, 5), r"step must be in 1 \.\.\. 6, but is 0"),
        ((7, AT_ONCE, 5), r"step must be in 1 \.\.\. 6, but is 7"),
        ((3, AT_ONCE, 0), r"source_len must be in 1 \.\.\. 6, but is 0"),
        ((3, AT_ONCE, 7), r"source_len must be in 1 \.\.\. 6, but is 7"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        explorers.draw_decoder(*settings)
