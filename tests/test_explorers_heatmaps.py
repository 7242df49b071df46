"""The views of notebook 07."""

from __future__ import annotations

import errno
import itertools
import re

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import d2l_mini as d2l
from d2l_mini.explorers import heatmaps as explorers
from d2l_mini.explorers import prediction
from d2l_mini.explorers.base import captioned, shorten
from d2l_mini.translation import attention_maps

SENTENCE = "we buy a blue car ."
pytestmark = pytest.mark.filterwarnings("ignore:no font on this machine has")
SIZES = (32, 32, 4, 2)


@pytest.fixture(scope="module")
def translators() -> list[d2l.Translator]:
    """Three small translators that have learnt nothing, as if after 0, 1 and 2 epochs."""
    reserved = ["<pad>", "<bos>", "<eos>"]
    src_vocab = d2l.Vocab(SENTENCE.split(), reserved_tokens=reserved)
    tgt_vocab = d2l.Vocab(
        ["nous", "achetons", "une", "voiture", "bleue", "."], reserved_tokens=reserved
    )
    made = []
    with torch.random.fork_rng():
        for seed in range(3):
            torch.manual_seed(seed)
            net = d2l.EncoderDecoder(
                d2l.TransformerEncoder(len(src_vocab), *SIZES),
                d2l.TransformerDecoder(len(tgt_vocab), *SIZES),
            )
            made.append(d2l.Translator(net.eval(), src_vocab, tgt_vocab, 10))
    return made


@pytest.fixture
def view(translators) -> explorers.Explorer:
    return explorers.explore_attention(translators[0])


@pytest.fixture
def course(translators) -> explorers.Explorer:
    view = explorers.explore_epochs(translators)
    view.controls["sentence"].value = SENTENCE
    return view


def heat(picture: d2l.Picture):
    """The weights of the map; masked where there is none."""
    return picture.axes[0].images[0].get_array()


def said_numbers(picture: d2l.Picture) -> list[float]:
    """The weights that the description lists."""
    return [float(x) for x in re.findall(r"\d\.\d\d", picture.description)]


# One sentence --------------------------------------------------------------------------------

SETTINGS = list(
    itertools.product(explorers.MAPS, (1, 2), (explorers.MEAN, 1, 4), (1, 10), ("row", "column"))
)


@pytest.mark.parametrize(("kind", "layer", "head", "step", "line"), SETTINGS)
def test_the_map_is_that_of_the_model(translators, kind, layer, head, step, line):
    [result] = d2l.translate(
        *translators[0][:1], [SENTENCE], *translators[0][1:], torch.device("cpu"),
        save_attention_weights=True,
    )  # fmt: skip
    field, rows, columns, *_ = explorers.MAPS[kind]
    weights = getattr(result.attention, field)[layer - 1]
    weights = weights.mean(dim=0) if head == explorers.MEAN else weights[head - 1]
    words = getattr(result.attention, rows if line == "row" else columns)
    for word in (1, len(words)):
        picture = explorers.draw_attention(
            translators[0], SENTENCE, kind, layer, head, step, line, word
        )
        shown = heat(picture)
        there = ~shown.mask if shown.mask.any() else torch.ones(shown.shape).bool().numpy()
        assert torch.equal(torch.tensor(shown.data)[there], weights[torch.tensor(there)])
        assert f"layer {layer}" in picture.description
        assert picture.png()[:4] == b"\x89PNG"
        numbers = weights[word - 1] if line == "row" else weights[:, word - 1]
        listed = there[word - 1] if line == "row" else there[:, word - 1]
        expected = [round(x, 2) for x in numbers[torch.tensor(listed)].tolist()]
        assert said_numbers(picture) == pytest.approx(expected, abs=0.006)
        if line == "row" and listed.any():
            assert sum(said_numbers(picture)) == pytest.approx(1, abs=0.05)


def test_a_later_step_is_not_there_yet_and_the_encoder_has_no_steps(translators):
    def draw(kind, step, word):
        return explorers.draw_attention(
            translators[0], SENTENCE, kind, 2, 1, step, "row", word
        )  # fmt: skip

    cross = draw("cross-attention", 2, 4)
    assert heat(cross).mask[2:].all()
    assert not heat(cross).mask[:2].any()
    assert "comes at step 4, and 2 is the last so far" in cross.description
    own = draw("decoder self-attention", 10, 3)
    rows, columns = own.axes[0].images[0].get_array().shape
    later = torch.ones(rows, columns).triu(1).bool()
    assert (torch.tensor(heat(own).mask) == later).all()
    assert not heat(draw("encoder self-attention", 1, 7)).mask.any()


def test_the_frame_is_around_the_row_or_the_column(translators):
    for line, attribute in (("row", "y"), ("column", "x")):
        picture = explorers.draw_attention(
            translators[0], SENTENCE, "cross-attention", 1, 1, 10, line, 3
        )
        [frame] = picture.axes[0].patches
        assert getattr(frame, f"get_{attribute}")() == 1.5
        assert picture.axes[1].get_title().startswith(f"{line} 3: ")


def test_the_words_the_bars_and_the_numbers_stand_where_they_belong(translators):
    [result] = d2l.translate(
        *translators[0][:1], [SENTENCE], *translators[0][1:], torch.device("cpu"),
        save_attention_weights=True,
    )  # fmt: skip
    maps = result.attention
    picture = explorers.draw_attention(
        translators[0], SENTENCE, "decoder self-attention", 2, 3, 10, "row", 4
    )
    left, right, _ = picture.axes
    assert left.get_title() == "columns: words read before"
    assert [text.get_text() for text in picture.texts] == ["rows: words written"]
    below = [text.get_text() for text in left.texts if text.get_rotation() == 90]
    beside = [text.get_text() for text in left.texts if text.get_rotation() == 0]
    assert (below, beside) == (list(map(shorten, maps.inputs)), list(map(shorten, maps.outputs)))
    assert left.images[0].get_clim() == (0, 1)
    weights = maps.decoder[1, 2, 3, :4]
    assert [bar.get_width() for bar in right.patches][:4] == pytest.approx(weights.tolist())
    written = {
        row: [text.get_text() for text in right.texts if text.get_position()[1] == row]
        for row in range(len(maps.inputs))
    }
    assert written == {
        row: [shorten(word), f"{weights[row]:.2f}"] if row < 4 else [shorten(word)]
        for row, word in enumerate(maps.inputs)
    }


def test_an_unknown_word_is_shown_as_it_was_typed_and_named(translators):
    picture = explorers.draw_attention(
        translators[0], "a zebra $ .", "encoder self-attention", 1, 1, 10, "row", 2
    )
    assert "Unknown to the model: zebra, $." in picture.description
    assert "zebra looks at a " in picture.description
    assert "zebra" in [text.get_text() for text in picture.axes[0].texts]
    assert picture.png()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sentence": " "}, "the sentence has 0 tokens, punctuation included"),
        (
            {"sentence": "a " * 10},
            "has 10 tokens, punctuation included; this translator reads 1 to 9",
        ),
        ({"layer": 3}, "layer must be a whole number in 1 ... 2, but is 3"),
        ({"layer": 0}, "layer must be a whole number in 1 ... 2, but is 0"),
        ({"layer": 1.0}, "layer must be a whole number in 1 ... 2, but is 1.0"),
        ({"head": 5}, "head must be one of 'mean', 1, 2, 3, 4, but is 5"),
        ({"head": "Mean"}, "head must be one of 'mean', 1, 2, 3, 4, but is 'Mean'"),
        ({"head": None}, "head must be one of 'mean', 1, 2, 3, 4, but is None"),
        ({"step": 0}, "step must be a whole number in 1 ... 10, but is 0"),
        ({"step": 11}, "step must be a whole number in 1 ... 10, but is 11"),
        ({"step": 1.5}, "step must be a whole number in 1 ... 10, but is 1.5"),
        ({"line": "diagonal"}, "line must be one of 'row', 'column', but is 'diagonal'"),
        (
            {"kind": "self-attention"},
            "kind must be one of 'cross-attention', 'decoder self-attention', "
            "'encoder self-attention', but is 'self-attention'",
        ),
        ({"word": 8, "line": "column"}, "the column must be a whole number in 1 ... 7, but is 8"),
        ({"word": 0}, "the row must be a whole number in 1 ... "),
    ],
)
def test_what_cannot_be_drawn_is_explained(translators, changed, message):
    settings = {
        "sentence": SENTENCE,
        "kind": "cross-attention",
        "layer": 1,
        "head": 1,
        "step": 10,
        "line": "row",
        "word": 1,
    }
    with pytest.raises(ValueError, match=re.escape(message)):
        explorers.draw_attention(translators[0], **(settings | changed))


def test_a_sentence_that_is_no_text_is_refused(translators):
    with pytest.raises(TypeError, match="the sentence must be a string, but is a NoneType"):
        explorers.draw_epochs(translators, None, 1, 1, 1)


def test_the_words_to_choose_from_follow_the_sentence_the_kind_and_the_line(view):
    controls = view.controls
    controls["sentence"].value = SENTENCE
    controls["line"].value = "column"
    expected = [f"{i} {word}" for i, word in enumerate([*SENTENCE.split(), "<eos>"], start=1)]
    assert [label for label, _ in controls["word"].options] == expected
    controls["kind"].value = "decoder self-attention"
    assert controls["word"].options[0] == ("1 <bos>", 1)
    controls["word"].value = len(controls["word"].options)
    controls["kind"].value = "encoder self-attention"
    controls["word"].value = 7
    controls["sentence"].value = "a car"  # has no 7th word
    assert [label for label, _ in controls["word"].options] == ["1 a", "2 car", "3 <eos>"]
    assert controls["word"].value == 3
    assert "⚠" not in view.words.value
    assert "&lt;eos&gt; is seen by a " in view.words.value


def test_there_are_as_many_steps_as_words_are_written_and_none_in_the_encoder(view, translators):
    step = view.controls["step"]
    for sentence in ("a car", SENTENCE):
        step.value = 1
        view.controls["sentence"].value = sentence
        written = len(explorers.read_sentence(translators[0], sentence).attention.outputs)
        assert step.value == step.max == written
        assert not step.disabled
    step.value = 2
    view.controls["line"].value = "column"
    assert step.value == 2
    for kind in explorers.MAPS:
        view.controls["kind"].value = kind
        assert step.disabled == (kind == "encoder self-attention")
    assert step.value == step.max


def test_a_sentence_is_translated_once(translators, monkeypatch):
    calls = []

    def counted(*args, **kwargs):
        calls.append(args[1])
        return d2l.translate(*args, **kwargs)

    monkeypatch.setattr(explorers, "translate", counted)
    view = explorers.explore_attention(translators[0])
    for name, value in (("layer", 1), ("head", 2), ("step", 3), ("line", "column"), ("word", 2)):
        view.controls[name].value = value
    assert len(calls) == 1
    view.controls["sentence"].value = SENTENCE
    assert len(calls) == 2


def test_a_change_draws_once(view, monkeypatch):
    view.controls["step"].value = 2  # the next sentence sets it to its end
    drawn, draw = [], view.draw
    monkeypatch.setattr(view, "draw", lambda **settings: drawn.append(settings) or draw(**settings))
    for name, value in (("sentence", "a car"), ("line", "column"), ("word", 3), ("word", 2)):
        view.controls[name].value = value
        assert drawn[-1][name] == value
    assert len(drawn) == 4


def test_every_control_redraws_into_the_one_image(view):
    image, seen = view.image, {view.image.value}
    for name, value in (
        ("sentence", SENTENCE),
        ("kind", "encoder self-attention"),
        ("layer", 1),
        ("head", 4),
        ("line", "column"),
        ("word", 7),
        ("kind", "cross-attention"),
        ("step", 1),
    ):
        view.controls[name].value = value
        assert view.children[1] is image
        assert image.value not in seen
        seen.add(image.value)
    assert all(control.description for control in view.controls.values())


def test_a_sentence_that_cannot_be_read_is_explained_and_the_next_heals(view):
    before = view.image.value
    with pytest.raises(ValueError, match="0 tokens"):
        view.controls["sentence"].value = ""
    assert "⚠ the sentence has 0 tokens, " in view.words.value
    assert view.image.value == before
    view.controls["sentence"].value = SENTENCE
    assert "⚠" not in view.words.value


def test_the_button_saves_the_picture_under_a_name_that_it_says(view, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    view.controls["head"].value = 3
    view.buttons["save as PNG"].click()
    name = "cross-attention-layer-2-head-3.png"
    assert name in view.words.value
    assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_is_saved_is_what_is_shown_under_the_settings_that_made_it(
    view, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    view.controls["kind"].value = "encoder self-attention"
    shown = view.picture.png()
    view.buttons["save as PNG"].click()
    [saved] = tmp_path.iterdir()
    assert saved.name == "encoder-self-attention-layer-2-head-mean.png"
    assert view.picture.png() == shown  # the words below are the file's alone
    content = saved.read_bytes()
    with captioned(view.picture) as picture:
        assert content == picture.png() != shown
    saved.unlink()
    for name, value in (("sentence", ""), ("kind", "cross-attention"), ("layer", 1)):
        with pytest.raises(ValueError, match="0 tokens"):
            view.controls[name].value = value
    view.buttons["save as PNG"].click()
    assert saved.read_bytes() == content
    assert saved.name in view.words.value
    assert len([*tmp_path.iterdir()]) == 1


def test_a_picture_that_was_saved_is_not_overwritten(view, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, saved = "cross-attention-layer-2-head-mean", []
    for word, number in ((1, ""), (2, "-2"), (3, "-3")):
        view.controls["word"].value = word
        view.buttons["save as PNG"].click()
        assert f"<b>{name}{number}.png</b>" in view.words.value
        saved.append((tmp_path / f"{name}{number}.png").read_bytes())
    assert len(set(saved)) == len(list(tmp_path.iterdir())) == 3


def test_a_folder_that_cannot_be_written_is_named_in_one_sentence(view, tmp_path, monkeypatch):
    def refuse(path, data):
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(explorers.Path, "write_bytes", refuse)
    view.buttons["save as PNG"].click()
    assert "⚠ cross-attention-layer-2-head-mean.png could not be written" in view.words.value
    assert "start Jupyter in a folder that is yours" in view.words.value
    assert "Errno" not in view.words.value


def test_a_view_leaves_the_net_and_the_seed_as_they_were(translators):
    net = translators[1].net.train()
    state = torch.get_rng_state()
    explorers.draw_attention(
        translators[1], SENTENCE, "cross-attention", 1, 1, 10, "row", 1
    )  # fmt: skip
    first = explorers.draw_epochs(translators, SENTENCE, 1, 1, 1).png()
    assert net.training
    assert torch.equal(torch.get_rng_state(), state)
    assert explorers.draw_epochs(translators, SENTENCE, 1, 1, 1).png() == first  # no dropout
    net.eval()


# Through training ----------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [0, 2])
@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("head", [explorers.MEAN, 1, 4])
def test_the_map_is_that_of_the_epoch_while_it_writes_the_last_translation(
    translators, epoch, layer, head
):
    picture = explorers.draw_epochs(translators, SENTENCE, epoch, layer, head)
    net, src_vocab, tgt_vocab, num_steps = translators[epoch]
    texts = [
        d2l.translate(t.net, [SENTENCE], src_vocab, tgt_vocab, num_steps, torch.device("cpu"))[0]
        for t in translators
    ]
    outputs = texts[-1].tokens + ["<eos>"] * texts[-1].finished
    source = [*SENTENCE.split(), "<eos>"]
    cross = attention_maps(
        net,
        torch.tensor([src_vocab[source]]),
        torch.tensor([tgt_vocab[["<bos>", *outputs[:-1]]]]),
    )[2][layer - 1]
    weights = cross.mean(dim=0) if head == explorers.MEAN else cross[head - 1]
    assert torch.equal(torch.tensor(heat(picture).data), weights)
    assert picture.description.startswith(f"After epoch {epoch}: '{texts[epoch].text}'.")
    spread = torch.special.entr(weights).sum(dim=-1).exp().mean()
    assert f"{spread:.1f} of {len(source)} words a row" in picture.description
    for word, k in zip(outputs, weights.argmax(dim=1).tolist(), strict=True):
        assert f"{word} → {source[k]}" in picture.description
    left, right, _ = picture.axes
    points = left.collections[-1].get_offsets()
    assert points.tolist() == [[k, row] for row, k in enumerate(weights.argmax(dim=1).tolist())]
    curve, mark = right.lines
    assert len(curve.get_ydata()) == len(translators)
    assert mark.get_xdata() == [epoch]
    assert float(mark.get_ydata()[0]) == pytest.approx(float(spread))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((SENTENCE, 3, 1, 1), "epoch must be a whole number in 0 ... 2, but is 3"),
        ((SENTENCE, -1, 1, 1), "epoch must be a whole number in 0 ... 2, but is -1"),
        ((SENTENCE, 0, 3, 1), "layer must be a whole number in 1 ... 2, but is 3"),
        ((SENTENCE, 0, 1, 5), "head must be one of 'mean', 1, 2, 3, 4, but is 5"),
        (("", 0, 1, 1), "the sentence has 0 tokens, punctuation included"),
    ],
)
def test_an_epoch_that_cannot_be_is_named(translators, settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        explorers.draw_epochs(translators, *settings)


def test_without_translators_there_is_nothing_to_follow():
    with pytest.raises(ValueError, match="there are 0 translators"):
        explorers.draw_epochs([], SENTENCE, 0, 1, 1)


def test_every_control_of_the_epochs_redraws_into_the_one_image(course):
    image, seen = course.image, {course.image.value}
    for name, value in (("epoch", 0), ("layer", 1), ("head", 4), ("sentence", "a car .")):
        course.controls[name].value = value
        assert course.children[1] is image
        assert image.value not in seen
        seen.add(image.value)


def test_without_a_translator_the_views_show_the_ready_one(translators, monkeypatch):
    monkeypatch.setattr(explorers, "LEARNING_RATES", (0.1, 0.1))
    monkeypatch.setattr(explorers, "ready_translator", lambda epoch=2: translators[epoch])
    view, course = explorers.explore_attention(), explorers.explore_epochs()
    given = explorers.explore_attention(translators[2])
    assert view.words.value == given.words.value
    assert view.image.value == given.image.value
    assert course.controls["epoch"].max == 2


# Long words, Chinese ones and signs ----------------------------------------------------------

SENTENCES = [
    "incomprehensibilities misunderstanding internationalization anticonstitutionnellement .",
    "recommendation",
    "注意力机制是变形金刚的核心部分之一吗 是 我们",
    r"$\x$ we $a$ $ \\",
]


def check_room(view: explorers.Explorer) -> None:
    """What is written lies inside the picture, and no two texts on each other."""
    with captioned(view.picture) as picture:
        FigureCanvasAgg(picture).draw()
        texts = [text for text in picture.findobj(Text) if text.get_text() and text.get_visible()]
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    cut = [word for word, box in boxes if picture.bbox.count_contains(box.corners()) < 4]
    met = [
        (word, other)
        for (word, box), (other, space) in itertools.combinations(boxes, 2)
        if (both := Bbox.intersection(box, space)) and min(both.size) > 2  # pixels
    ]
    assert (cut, met) == ([], [])


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("kind", explorers.MAPS)
def test_all_words_of_a_map_have_room(view, kind, sentence):
    view.controls["kind"].value = kind
    view.controls["line"].value = "column"
    view.controls["sentence"].value = sentence
    check_room(view)


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("make", [prediction.explore_steps, prediction.explore_beams])
def test_all_words_of_a_prediction_have_room(translators, make, sentence):
    view = make(long_words(translators[0]), sentence)
    check_room(view)
    if "step" in view.controls:
        view.controls["step"].value = 10
        check_room(view)


def long_words(translator: d2l.Translator) -> d2l.Translator:
    """A translator that writes only words of 14 letters and more."""
    words = ["recommandations", "malheureusement", "anticonstitutionnellement", "注意力机制注意力"]
    vocab = d2l.Vocab(
        [*words, "internationalisation", "$\\x$"], reserved_tokens=["<pad>", "<bos>", "<eos>"]
    )
    return translator._replace(tgt_vocab=vocab)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_all_words_of_an_epoch_have_room(translators, sentence):
    view = explorers.explore_epochs([long_words(translator) for translator in translators])
    view.controls["sentence"].value = sentence
    check_room(view)


@pytest.mark.parametrize("wrong", [None, "translator", (1, 2, 3, 4)])
def test_what_is_no_translator_is_refused(wrong):
    draws = [
        lambda: explorers.draw_attention(wrong, SENTENCE, "cross-attention", 1, 1, 1, "row", 1),
        lambda: prediction.draw_steps(wrong, SENTENCE, 1, 0),
        lambda: prediction.draw_beams(wrong, SENTENCE, 2, 0.75),
        lambda: explorers.draw_epochs([wrong], SENTENCE, 0, 1, 1),
    ]
    for draw in draws:
        with pytest.raises(TypeError, match="the translator must be of type Translator, but is"):
            draw()
