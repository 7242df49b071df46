"""The views of notebook 06."""

from __future__ import annotations

import html
import inspect
import itertools
import math
import re

import pytest
import torch
from matplotlib.colors import to_rgba

import d2l_mini as d2l
from d2l_mini import figures
from d2l_mini.explorers import prediction

ENGLISH = ["i see paul .", "she likes the red car .", "he lost", "their neighbor's car is red ."]
FRENCH = [
    "je vois paul .",
    "elle aime la voiture rouge .",
    "il a perdu",
    "leur voiture est rouge .",
]


@pytest.fixture(scope="module")
def translator() -> d2l.Translator:
    """A small one, untrained: any translator has views."""
    vocabs = [
        d2l.Vocab([line.split() for line in lines], reserved_tokens=["<pad>", "<bos>", "<eos>"])
        for lines in (ENGLISH, FRENCH)
    ]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = d2l.EncoderDecoder(
            d2l.TransformerEncoder(len(vocabs[0]), 16, 32, 4, 2),
            d2l.TransformerDecoder(len(vocabs[1]), 16, 32, 4, 2),
        )
    return d2l.Translator(net, *vocabs, 8)


def greedy(translator, sentence) -> d2l.Translation:
    return d2l.translate(*translator[:1], [sentence], *translator[1:], torch.device("cpu"))[0]


def texts(picture) -> list[str]:
    return [text.get_text() for axes in picture.axes for text in axes.texts]


# One step of greedy search -------------------------------------------------------------------


@pytest.mark.parametrize("sentence", ["I see Paul.", "She likes the red car."])
def test_the_steps_are_those_of_greedy_search(translator, sentence):
    result, log_probs = prediction.trace_steps(translator, sentence)
    plain = greedy(translator, sentence)
    ids = log_probs.argmax(dim=-1)
    assert translator.tgt_vocab.to_tokens(ids) == result.attention.outputs
    assert result.text == plain.text
    assert float(log_probs.max(dim=-1).values.sum()) == pytest.approx(plain.log_prob, abs=1e-4)


def test_tracing_leaves_the_net_as_it_was(translator):
    translator.net.train()
    prediction.trace_steps(translator, "I see Paul.")
    prediction.trace_beams(translator, "I see Paul.", 2, 0.75)
    assert all(module.training for module in translator.net.modules())
    translator.net.eval()


@pytest.mark.parametrize("step", [1, 3, 8])
@pytest.mark.parametrize("head", [0, 1, 4])
def test_a_step_says_its_numbers_and_draws_them(translator, step, head):
    sentence = "She likes the red car."
    result, log_probs = prediction.trace_steps(translator, sentence)
    maps, steps = result.attention, len(log_probs)
    now = min(step, steps) - 1
    picture = prediction.draw_steps(translator, sentence, step, head)
    best = log_probs[now].exp().topk(2)
    first, second = translator.tgt_vocab.to_tokens(best.indices)
    said = picture.description
    assert f"Step {now + 1} of {steps} reads {maps.inputs[now]!r} and writes {first!r}" in said
    assert f"probability {best.values[0]:.3f}, before {second!r} with {best.values[1]:.3f}" in said
    total = log_probs[: now + 1].max(dim=-1).values.sum().exp()
    assert f"the tokens so far together have {total:.3f}" in said
    own, cross = (
        layers[-1].mean(dim=0) if head == 0 else layers[-1, head - 1]
        for layers in (maps.decoder, maps.cross)
    )
    at = int(cross[now].argmax())
    assert f"looks most at {maps.source[at]!r}, weight {cross[now, at]:.2f}" in said
    left, right = [axes.images[0].get_array() for axes in picture.axes if axes.images][:2]
    for shown, weights in ((left, own), (right, cross)):
        for row in range(now + 1):
            assert float(shown[row].sum()) == pytest.approx(float(weights[row].sum()), abs=1e-5)
        assert shown.mask[now + 1 :].all() if now + 1 < steps else True
    assert all(left.mask[i, j] for i in range(now + 1) for j in range(i + 1, steps))
    assert f"{first}  {best.values[0]:.3f}" in texts(picture)


def test_the_chosen_word_is_coloured_and_the_row_of_the_step_is_framed(translator):
    sentence = "She likes the red car."
    maps = prediction.trace_steps(translator, sentence)[0].attention
    steps = len(maps.outputs)
    for step in (1, 3):
        picture = prediction.draw_steps(translator, sentence, step, 2)
        bars, left, right, _ = picture.axes
        assert [bar.get_facecolor() for bar in bars.patches] == [
            to_rgba(figures.COLORS[number]) for number in (1, 0, 0, 0, 0, 0)
        ]
        titles = ["the next word", "causal self-attention", "cross-attention"]
        assert [axes.get_title() for axes in (bars, left, right)] == titles
        assert (left.get_xlabel(), left.get_ylabel()) == ("words read", "words written")
        assert (right.get_xlabel(), right.get_ylabel()) == ("source words", "")
        for axes, weights in ((left, maps.decoder[-1, 1]), (right, maps.cross[-1, 1])):
            [frame] = axes.patches
            assert step - 1.5 < frame.get_y() < step - 1 < frame.get_y() + 0.92 < step - 0.5
            [image] = axes.images
            assert image.get_clim() == (0, 1)
            row = image.get_array()[step - 1].filled(0)
            assert row == pytest.approx(weights[step - 1].numpy(), abs=1e-6)
        words, still = [text.get_text() for text in left.texts], [""] * (steps - step)
        assert words == [*maps.inputs[:step], *still, *maps.outputs[:step], *still]
        assert [text.get_text() for text in right.texts][: len(maps.source)] == maps.source


def test_past_the_end_the_last_step_is_shown_and_said(translator):
    picture = prediction.draw_steps(translator, "I see Paul.", 8, 0)
    steps = len(prediction.trace_steps(translator, "I see Paul.")[1])
    assert f"Step {steps} of {steps}" in picture.description
    if steps < 8:
        assert picture.description.startswith(f"The translation ended with <eos> at step {steps}.")


def test_unknown_words_are_named(translator):
    for picture in (
        prediction.draw_steps(translator, "I see Zoe.", 1, 0),
        prediction.draw_beams(translator, "I see Zoe.", 2, 0.0),
    ):
        assert picture.description.endswith("Unknown, read as <unk>: zoe.")
    assert "zoe (?)" in texts(prediction.draw_steps(translator, "I see Zoe.", 1, 0))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            ("", 1, 0),
            "the sentence has 0 tokens, punctuation included; this translator reads 1 to 7",
        ),
        (("  ", 1, 0), "the sentence has 0 tokens"),
        (("I see " * 4, 1, 0), "the sentence has 8 tokens"),
        (("I see Paul.", 0, 0), "step must be a whole number in 1 ... 8, but is 0"),
        (("I see Paul.", 9, 0), "step must be a whole number in 1 ... 8, but is 9"),
        (("I see Paul.", 1.5, 0), "step must be a whole number in 1 ... 8, but is 1.5"),
        (("I see Paul.", 1, 5), "head must be a whole number in 0 ... 4, but is 5"),
        (("I see Paul.", 1, -1), "head must be a whole number in 0 ... 4, but is -1"),
        (("I see Paul.", 1, "mean"), "head must be a whole number in 0 ... 4, but is 'mean'"),
    ],
)
def test_a_step_that_cannot_be_is_explained(translator, settings, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        prediction.draw_steps(translator, *settings)


def test_the_buttons_walk_through_the_steps(translator):
    view = prediction.explore_steps(translator, "I see Paul.")
    steps = len(prediction.trace_steps(translator, "I see Paul.")[1])
    step = view.controls["step"]
    view.buttons["Reset"].click()
    assert step.value == 1
    view.buttons["Back"].click()
    assert step.value == 1
    for _ in range(12):
        view.buttons["Next"].click()
    assert step.value == steps
    view.buttons["Back"].click()
    assert step.value == steps - 1
    view.controls["sentence"].value = "She likes the red car."
    assert step.value == 1
    assert "Step 1 of" in view.words.value


def test_back_from_beyond_the_end_leads_to_the_step_before_the_last(translator):
    sentence = "She likes the red car."
    steps = len(prediction.trace_steps(translator, sentence)[1])
    assert steps < translator.num_steps
    view = prediction.explore_steps(translator, sentence)
    view.controls["step"].value = translator.num_steps
    view.buttons["Back"].click()
    assert f"Step {steps - 1} of {steps}" in view.words.value


def test_a_change_draws_once_and_a_new_sentence_begins_at_its_first_step(translator, monkeypatch):
    view = prediction.explore_steps(translator, "I see Paul.")
    drawn, draw = [], view.draw
    monkeypatch.setattr(view, "draw", lambda **settings: drawn.append(settings) or draw(**settings))
    view.controls["sentence"].value = "She likes the red car."
    assert drawn == [{"sentence": "She likes the red car.", "step": 1, "head": 0}]
    view.controls["step"].value = 2
    assert [settings["step"] for settings in drawn] == [1, 2]


def test_the_views_begin_with_these_settings(translator):
    steps, beams = prediction.explore_steps(translator), prediction.explore_beams(translator)
    assert steps.settings == {"sentence": "Marie arrived at the station.", "step": 3, "head": 0}
    sentence = "I met her yesterday."
    assert beams.settings == {"sentence": sentence, "beam_size": 3, "length_penalty": 0.75}


def test_a_bad_sentence_is_explained_and_a_good_one_heals_the_view(translator):
    for view in (prediction.explore_steps(translator), prediction.explore_beams(translator)):
        with pytest.raises(ValueError, match="has 0 tokens"):
            view.controls["sentence"].value = ""
        assert "⚠ the sentence has 0 tokens" in view.words.value
        view.controls["sentence"].value = "I see Paul."
        assert view.words.value == html.escape(view.picture.description)


# Beam search ---------------------------------------------------------------------------------


@pytest.mark.parametrize("beam_size", [1, 2, 6])
@pytest.mark.parametrize("length_penalty", [0.0, 0.75, 2.0])
def test_the_tree_ends_with_what_beam_search_returns(translator, beam_size, length_penalty):
    sentence = "Their neighbor's car is red."
    lines = [d2l.preprocess_nmt(sentence).split()]
    batch = d2l.build_array_nmt(lines, translator.src_vocab, translator.num_steps)
    settings = translator.tgt_vocab, translator.num_steps, beam_size, length_penalty
    translator.net.eval()
    with torch.no_grad():
        ids, log_prob = d2l.beam_search(translator.net, *batch, *settings)
    steps, beams = prediction.trace_beams(translator, sentence, beam_size, length_penalty)
    best = int(beams.ranks(length_penalty).argmax())
    tokens = [token for token in figures.trace_back(steps, best)[1] if token]
    expected = translator.tgt_vocab.to_tokens(ids[0])
    if "<eos>" in expected:
        expected = expected[: expected.index("<eos>") + 1]
    assert tokens == expected
    assert float(beams.scores[0, best]) == pytest.approx(float(log_prob), abs=1e-4)
    assert steps[-1][best][2] == pytest.approx(float(log_prob), abs=1e-4)
    assert all(len(step) == beam_size for step in steps)
    picture = prediction.draw_beams(translator, sentence, beam_size, length_penalty)
    words = " ".join(token for token in tokens if token != "<eos>")
    said, plain = picture.description, greedy(translator, sentence)
    settings = f"beam of {beam_size}, length penalty {length_penalty:g}"
    source = d2l.preprocess_nmt(sentence)
    assert said.startswith(f"{source!r}, {settings}: {words!r}, prob")
    assert f"probability {math.exp(log_prob):.3f}; log-probability {float(log_prob):.2f}" in said
    assert f"Greedy search: {plain.text!r}, probability {math.exp(plain.log_prob):.3f}" in said


def test_a_beginning_that_has_ended_stays_and_writes_no_more(translator, monkeypatch):
    def ending(net, token, state, tgt_vocab):
        log_probs, state = d2l.next_log_probs(net, token, state, tgt_vocab)
        log_probs[0, tgt_vocab["<eos>"]] = 0  # of the best beginning, which so stays the best
        return log_probs, state

    monkeypatch.setattr("d2l_mini.translation.next_log_probs", ending)
    steps, _ = prediction.trace_beams(translator, "I see Paul.", 2, 0.0)
    assert [step[0] for step in steps] == [(0, "<eos>", 0), *[(0, "", 0)] * (len(steps) - 1)]
    assert len(steps) > 1
    assert all(step[1][1] for step in steps)


def test_a_beam_of_one_is_greedy_search(translator):
    steps, _ = prediction.trace_beams(translator, "I see Paul.", 1, 0.75)
    result, _ = prediction.trace_steps(translator, "I see Paul.")
    assert [step[0][1] for step in steps] == result.attention.outputs


@pytest.mark.parametrize("beam_size", [0, -3, 1.5, "2", None, 17])
def test_a_beam_that_cannot_be_is_refused(translator, beam_size):
    most = len(translator.tgt_vocab) - 2  # <pad> and <bos> never come
    message = f"beam_size must be a whole number in 1 ... {most}, but is {beam_size!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        prediction.draw_beams(translator, "I see Paul.", beam_size, 0.75)


def test_the_widest_beam_holds_no_beginning_that_cannot_be(translator):
    steps, _ = prediction.trace_beams(translator, "I see Paul.", 16, 0.75)
    assert all(math.isfinite(log_prob) for step in steps for _, _, log_prob in step)


@pytest.mark.parametrize("length_penalty", [math.nan, math.inf, -0.1, 11, "1"])
def test_a_length_penalty_that_cannot_be_is_refused(translator, length_penalty):
    message = f"length_penalty must be a number in 0 ... 10, but is {length_penalty!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        prediction.draw_beams(translator, "I see Paul.", 2, length_penalty)


def test_the_ranking_is_in_order(translator):
    picture = prediction.draw_beams(translator, "I see Paul.", 6, 0.75)
    [table] = [text.get_text() for text in picture.texts]
    ranks = [float(line.split()[3]) for line in table.split("\n")[1:]]
    assert ranks == sorted(ranks, reverse=True)
    assert len(ranks) == 6


# Both views, at the ends of their controls ---------------------------------------------------


@pytest.mark.parametrize("make", [prediction.explore_steps, prediction.explore_beams])
def test_a_view_draws_at_all_ends_of_its_controls_into_one_image(translator, make):
    view = make(translator, "I see Paul.")
    image = view.image
    ends = {
        name: [control.min, control.max] if hasattr(control, "min") else [control.value]
        for name, control in view.controls.items()
    }
    if "head" in ends:
        ends["head"] = [0, 4]
    seen = set()
    for values in itertools.product(*ends.values()):
        for name, value in zip(ends, values, strict=True):
            view.controls[name].value = value
        seen.add((view.image.value, view.words.value))
        assert view.picture.png()[:4] == b"\x89PNG"
    assert len(seen) == math.prod(map(len, ends.values()))
    assert view.children[1] is image
    assert list(inspect.signature(view.draw).parameters) == list(view.controls)
