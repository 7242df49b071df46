"""The view of notebook 05: what it trains, what it says, and what the reader sees meanwhile."""

from __future__ import annotations

import html
import re

import pytest

import d2l_mini as d2l
from d2l_mini import ablation
from d2l_mini.explorers import training


@pytest.fixture
def forgetful(monkeypatch):
    """Nothing has been trained yet, and a training takes a moment."""
    monkeypatch.setattr(ablation, "_known", {})
    monkeypatch.setattr(ablation, "SHORT_EPOCHS", 2)
    monkeypatch.setattr(ablation, "RISING_STEPS", 1)
    monkeypatch.setattr(training, "SHORT_EPOCHS", 2)
    monkeypatch.setattr(ablation, "short_corpus", lambda: few)


train, held_out = ablation.short_corpus()
few = tuple(lines[:64] for lines in train), tuple(lines[:8] for lines in held_out)

# The picture ---------------------------------------------------------------------------------


def make_run(loss, seen, held_out):
    return d2l.ShortRun(loss, seen, held_out, None)


def test_two_runs_are_drawn_and_said():
    now = ("causal mask", 0.02, True), make_run([4.0, 1.0], 0.25, 0.125)
    before = (None, 0.005, False), make_run([5.0, 2.0], 0.9, 0.6)
    picture = training.draw_runs(now, before)
    assert picture.description == (
        "Without the causal mask, learning rate 0.02, with warm-up: loss 1.00 after 2 epochs, "
        "right 25% of the seen and 12% of the held-out sentences. Before: The whole model, "
        "learning rate 0.005, without warm-up: loss 2.00 after 2 epochs, right 90% of the seen "
        "and 60% of the held-out sentences."
    )
    left, right = picture.axes
    assert [list(line.get_ydata()) for line in left.lines] == [[4.0, 1.0], [5.0, 2.0]]
    assert [line.get_label() for line in left.lines] == ["now", "before"]
    assert [bar.get_height() for bar in right.patches] == [0.25, 0.125, 0.9, 0.6]


def test_a_run_that_goes_on_has_no_bars_yet():
    picture = training.draw_runs((("residuals", 0.02, True), [4.0, 3.5]))
    epochs = training.SHORT_EPOCHS
    assert picture.description == (
        f"Without residuals, learning rate 0.02, with warm-up: epoch 2 of {epochs}, loss 3.50."
    )
    assert not picture.axes[1].patches


def test_a_huge_loss_does_not_flatten_the_other_curve():
    before = (None, 0.01, True), make_run([5.0, 1.0], 0.9, 0.6)
    picture = training.draw_runs(((None, 1.0, False), [170.0, 90.0]), before)
    assert picture.axes[0].get_ylim()[1] == 8
    assert "loss 90.00" in picture.description


@pytest.mark.parametrize("part", [None, "residuals"])
@pytest.mark.parametrize("lr", [0.001, 1.0])
@pytest.mark.parametrize("warm", [True, False])
def test_the_ends_of_every_control_give_a_picture(forgetful, part, lr, warm):
    picture = training.draw_training(part, lr, warm)
    run = d2l.train_short(part, lr, warm)
    assert picture.png()[:4] == b"\x89PNG"
    assert f"loss {run.loss[-1]:.2f} after 2 epochs" in picture.description
    assert f"and {run.held_out:.0%} of the held-out" in picture.description


# The view ------------------------------------------------------------------------------------


@pytest.fixture
def view(forgetful):
    return training.explore_training()


def test_the_defaults_are_those_of_the_notebook(view):
    assert view.controls["part"].index == 0  # a drop-down without an index shows nothing
    assert view.chosen == (None, 0.01, True)
    assert view.picture.description.startswith("The whole model, learning rate 0.01, with warm-up:")
    assert view.words.value == html.escape(view.picture.description)


def test_a_control_trains_nothing_and_says_what_would_be_trained(view):
    image, known = view.image.value, dict(ablation._known)
    said = set()
    for name, value in (("part", "residuals"), ("lr", 0.1), ("warm", False)):
        view.controls[name].value = value
        said.add(view.words.value)
    assert len(said) == 3
    assert view.words.value == (
        "To be trained: without residuals, learning rate 0.1, without warm-up. Press Train. "
        "(The picture is the last run.)"
    )
    assert view.image.value == image
    assert ablation._known == known


def test_train_draws_after_each_epoch_with_the_button_off(view, monkeypatch):
    states, show = [], training.TrainingExplorer.show

    def watched(self, picture):
        show(self, picture)
        states.append((view.buttons["Train"].disabled, view.words.value))

    monkeypatch.setattr(training.TrainingExplorer, "show", watched)
    image = view.image
    view.controls["part"].value = "positions"
    view.buttons["Train"].click()
    assert [disabled for disabled, _ in states] == [True, True, True]
    found = [re.search(r"epoch (\d) of 2, loss", line) for _, line in states]
    assert [match and match[1] for match in found] == ["1", "2", None]
    assert not view.buttons["Train"].disabled
    assert view.image is image
    assert view.words.value.startswith("Without positions, ")
    assert "Before: The whole model" in view.words.value


def test_the_run_before_is_the_last_one_that_was_trained(view):
    for part in ("positions", "scaling"):
        view.controls["part"].value = part
        view.buttons["Train"].click()
    assert view.words.value.startswith("Without scaling, ")
    assert "Before: Without positions" in view.words.value


def test_train_without_a_change_says_so_and_trains_nothing(view, monkeypatch):
    monkeypatch.setattr(training, "train_short", None)
    view.buttons["Train"].click()
    assert view.words.value.startswith("This is the run in the picture: change a setting")


def test_a_divergence_is_one_sentence_and_the_button_comes_back(view, monkeypatch):
    def diverge(*args, **kwargs):
        raise FloatingPointError("the norm of the gradient is nan: try a smaller learning rate")

    image = view.image.value
    monkeypatch.setattr(ablation, "train_epoch", diverge)
    view.controls["lr"].value = 1.0
    view.buttons["Train"].click()
    assert view.words.value == (
        "<b>⚠ the norm of the gradient is nan: try a smaller learning rate</b>"
    )
    assert view.image.value == image
    assert not view.buttons["Train"].disabled


def test_any_other_fault_is_said_and_not_hidden(view, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(ablation, "train_epoch", fail)
    view.controls["lr"].value = 0.5
    with pytest.raises(RuntimeError):
        view.train()
    assert view.words.value == "<b>⚠ RuntimeError: out of memory</b>"
    assert not view.buttons["Train"].disabled


def test_an_interrupted_run_leaves_the_picture_of_the_run_before(view, monkeypatch):
    image, train_epoch, epochs = view.image.value, ablation.train_epoch, []

    def interrupted(*args):
        epochs.append(1)
        if len(epochs) == 2:
            raise KeyboardInterrupt
        return train_epoch(*args)

    monkeypatch.setattr(ablation, "train_epoch", interrupted)
    view.controls["lr"].value = 0.5
    with pytest.raises(KeyboardInterrupt):
        view.train()
    assert view.image.value == image
    assert view.now[0] == (None, 0.01, True)
    assert not view.buttons["Train"].disabled
    monkeypatch.undo()
    view.controls["lr"].value = 0.01
    view.train()
    assert "with warm-up: loss" in view.words.value


def test_the_settings_are_those_of_the_picture(view):
    view.controls["part"].value = "positions"
    assert view.settings == {"part": "", "lr": 0.01, "warm": True}
    view.buttons["Train"].click()
    assert view.settings == {"part": "positions", "lr": 0.01, "warm": True}
    assert view.picture.description.startswith("Without positions")


def test_where_there_is_no_kernel_the_picture_and_its_line_stand(view):
    data, metadata = view._repr_mimebundle_()
    assert data["text/plain"] == metadata["image/png"]["alt"] == view.picture.description
    before = view.picture.png()
    assert data["image/png"] != before  # the words stand below
    assert view.picture.png() == before
