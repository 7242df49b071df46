"""The views of notebook 06, and the tree of a beam search."""

from __future__ import annotations

import html
import inspect
import itertools
import math
import re

import pytest
import torch

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
        (("I see Paul.", 0, 0), "step is 0, but the first is 1"),
        (("I see Paul.", 1, 5), r"head is 5; it must be 1 ... 4, or 0 for their mean"),
        (("I see Paul.", 1, -1), r"head is -1; it must be"),
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


def test_a_beam_of_one_is_greedy_search(translator):
    steps, _ = prediction.trace_beams(translator, "I see Paul.", 1, 0.75)
    result, _ = prediction.trace_steps(translator, "I see Paul.")
    assert [step[0][1] for step in steps] == result.attention.outputs


def test_no_beam_is_refused(translator):
    with pytest.raises(ValueError, match="beam_size is 0; it must be 1 or more"):
        prediction.draw_beams(translator, "I see Paul.", 0, 0.75)


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


# The tree ------------------------------------------------------------------------------------

TREE = [
    [(0, "le", math.log(0.5)), (0, "un", math.log(0.4))],
    [(1, "chien", math.log(0.36)), (0, "chat", math.log(0.2))],
    [(0, "<eos>", math.log(0.3)), (0, "dort", math.log(0.06))],
    [(0, "", math.log(0.3)), (1, "<eos>", math.log(0.06))],
]


def test_the_tree_writes_each_token_with_its_probability_where_that_changes():
    words = texts(figures.show_beam_tree(TREE))
    for text in ("<bos>", "le\n0.50", "un\n0.40", "chien\n0.36", "chat\n0.20", "<eos>\n0.30"):
        assert text in words
    assert "<eos>" in words  # still 0.06
    assert len(words) == 1 + 4 + 7


def test_the_path_that_won_is_coloured_and_what_was_dropped_is_pale():
    picture = figures.show_beam_tree(TREE)
    looks = {text.get_text(): text.get_color() for text in picture.axes[0].texts}
    colors = {name: look[0] for name, look in figures.TREE_LOOKS.items()}
    assert looks["un\n0.40"] == looks["chien\n0.36"] == colors["won"]
    assert looks["dort\n0.06"] == colors["kept"]
    assert looks["le\n0.50"] == looks["chat\n0.20"] == colors["dropped"]
    other = figures.show_beam_tree(TREE, best=1)
    looks = {text.get_text(): text.get_color() for text in other.axes[0].texts}
    assert looks["dort\n0.06"] == colors["won"]
    assert looks["<eos>\n0.30"] == colors["kept"]


def test_the_tree_says_the_best_in_words():
    said = figures.show_beam_tree(TREE).description
    assert said == (
        "tree of a beam search, 4 steps, at most 2 beginnings kept; the best: un chien <eos>"
    )
    assert "un chien dort <eos>" in figures.show_beam_tree(TREE, best=1).description


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
        (TREE, 2, "best is 2, but the last step has 2 beginnings"),
        (TREE, -1, "best is -1, but the last step has 2 beginnings"),
    ],
)
def test_a_tree_that_cannot_be_is_explained(steps, best, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        figures.show_beam_tree(steps, best=best)
