"""Training: the loss, the clipping, the loop and the file, against numbers worked out apart."""

from __future__ import annotations

import contextlib
import errno
import inspect
import io
import math
import os
import pickletools
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import d2l_mini as d2l
from d2l_mini import training

ROOT = Path(__file__).resolve().parent.parent
CPU = torch.device("cpu")
PAIRS = [
    ("go .", "va !"),
    ("i won .", "j'ai gagné !"),
    ("he is calm .", "il est calme ."),
    ("i am at home .", "je suis chez moi ."),
]
SENTENCES = [english for english, _ in PAIRS]
NUM_TOKENS = sum(len(french.split()) + 1 for _, french in PAIRS)  # with one <eos> each


def make_data(num_steps: int = 10, batch_size: int = 2):
    """A shuffled loader of PAIRS and its two vocabularies, as `load_data_nmt` gives them."""
    source, target = ([text.split() for text in side] for side in zip(*PAIRS, strict=True))
    return d2l.build_data_nmt(source, target, batch_size, num_steps, min_freq=1)


def make_net(src_vocab: d2l.Vocab, tgt_vocab: d2l.Vocab, dropout: float = 0.0, seed: int = 0):
    torch.manual_seed(seed)
    sizes = (16, 32, 2, 2, dropout)
    return d2l.EncoderDecoder(
        d2l.TransformerEncoder(len(src_vocab), *sizes),
        d2l.TransformerDecoder(len(tgt_vocab), *sizes),
    )


def make_all(dropout: float = 0.0, num_steps: int = 10):
    """A net, its batches in a fixed order, and its vocabularies."""
    train_iter, src_vocab, tgt_vocab = make_data(num_steps)
    net = make_net(src_vocab, tgt_vocab, dropout)
    return net, list(train_iter), src_vocab, tgt_vocab


def loader(batches: list, before: Callable) -> DataLoader:
    """The batches again in each epoch, with something done before each of them."""
    return DataLoader(batches, batch_size=None, collate_fn=lambda batch: (before(), batch)[1])


def raise_at(call: int, error: BaseException) -> Callable:
    """A function that raises `error` when it is called for the call-th time."""
    calls = []

    def before():
        calls.append(1)
        if len(calls) == call:
            raise error

    return before


def train(*arguments) -> d2l.History:
    """Train; an interrupt that comes through fails one test and does not end them all."""
    try:
        return d2l.train_seq2seq(*arguments)
    except KeyboardInterrupt:
        pytest.fail("the interrupt came through")


def weights(net: nn.Module) -> dict:
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def same_weights(one: dict, other: dict) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def nats_per_token(net: nn.Module, src_vocab: d2l.Vocab, tgt_vocab: d2l.Vocab) -> float:
    """The loss of PAIRS, sentence by sentence, without any padding."""
    total = 0.0
    for english, french in PAIRS:
        X = torch.tensor([src_vocab[[*english.split(), "<eos>"]]])
        words = tgt_vocab[["<bos>", *french.split(), "<eos>"]]
        with torch.no_grad():
            logits, _ = net(X, torch.tensor([words[:-1]]))
        for step, word in enumerate(words[1:]):
            total -= math.log(torch.softmax(logits[0, step].double(), dim=0)[word])
    return total / NUM_TOKENS


# The loss ------------------------------------------------------------------------------------


def make_loss_input():
    torch.manual_seed(0)
    return torch.randn(4, 5, 7), torch.randint(7, (4, 5)), torch.tensor([5, 3, 1, 0])


def test_loss_equals_a_plain_loop():
    pred, label, valid_len = make_loss_input()
    expected = []
    for i, length in enumerate(valid_len.tolist()):
        losses = [
            -math.log(pred[i, t, label[i, t]].exp() / pred[i, t].exp().sum()) for t in range(length)
        ]
        expected.append(sum(losses))
    loss = d2l.MaskedSoftmaxCELoss()(pred, label, valid_len)
    assert loss.tolist() == pytest.approx(expected, abs=1e-5)


def test_loss_of_a_model_that_knows_nothing_is_log_vocab_a_token():
    loss = d2l.MaskedSoftmaxCELoss()(
        torch.zeros(2, 6, 10), torch.zeros(2, 6, dtype=torch.long), torch.tensor([6, 2])
    )
    assert loss.tolist() == pytest.approx([6 * math.log(10), 2 * math.log(10)])


@pytest.mark.parametrize("logit", [3.0, 1e30, -1e30, math.inf, math.nan])
@pytest.mark.parametrize("word", [0, 6])
def test_loss_ignores_what_stands_in_the_padding(logit, word):
    pred, label, valid_len = make_loss_input()
    padding = torch.arange(5) >= valid_len[:, None]
    other_pred, other_label = pred.clone(), label.clone()
    other_pred[padding], other_label[padding] = logit, word
    other_pred[..., 0][padding] = 0.0
    loss = d2l.MaskedSoftmaxCELoss()
    expected = loss(pred, label, valid_len)
    assert torch.equal(loss(other_pred, other_label, valid_len), expected)


def test_loss_sends_no_gradient_into_the_padding():
    pred, label, valid_len = make_loss_input()
    pred[1, 3:] = 1e30
    pred.requires_grad_()
    d2l.MaskedSoftmaxCELoss()(pred, label, valid_len).sum().backward()
    real = torch.arange(5) < valid_len[:, None]
    assert torch.equal(pred.grad.abs().sum(dim=2) > 0, real)


@pytest.mark.parametrize("more", [1, 20])
def test_loss_ignores_how_much_padding_there_is(more):
    pred, label, valid_len = make_loss_input()
    longer_pred = torch.cat([pred, torch.randn(4, more, 7)], dim=1)
    longer_label = torch.cat([label, torch.ones(4, more, dtype=torch.long)], dim=1)
    loss = d2l.MaskedSoftmaxCELoss()
    expected = loss(pred, label, valid_len)
    torch.testing.assert_close(loss(longer_pred, longer_label, valid_len), expected)


def test_loss_changes_neither_itself_nor_its_arguments():
    """F055: the loss changes itself."""
    arguments = make_loss_input()
    loss = d2l.MaskedSoftmaxCELoss()
    before, copies = str(vars(loss)), [argument.clone() for argument in arguments]
    first = loss(*arguments)
    assert str(vars(loss)) == before
    assert all(torch.equal(a, b) for a, b in zip(arguments, copies, strict=True))
    assert torch.equal(loss(*arguments), first)


@pytest.mark.parametrize(
    ("pred", "label", "valid_len", "message"),
    [
        ((4, 5, 7), (4, 6), (4,), r"\(4, 5, 7\) and \(4, 6\)"),
        ((4, 5, 7), (3, 5), (4,), r"\(4, 5, 7\) and \(3, 5\)"),
        ((4, 5), (4, 5), (4,), r"\(4, 5\) and \(4, 5\)"),
        ((4, 5, 7), (4, 5), (3,), r"\(4,\).*\(3,\)"),
        ((4, 5, 7), (4, 5), (4, 1), r"\(4,\).*\(4, 1\)"),
    ],
)
def test_loss_names_shapes_that_do_not_fit(pred, label, valid_len, message):
    ids = torch.ones(label, dtype=torch.long), torch.ones(valid_len, dtype=torch.long)
    with pytest.raises(ValueError, match=message):
        d2l.MaskedSoftmaxCELoss()(torch.zeros(pred), *ids)


# Clipping ------------------------------------------------------------------------------------


def with_gradients(*grads) -> nn.Module:
    """A net with a parameter for each gradient; None = it has none."""
    net = nn.ParameterList(nn.Parameter(torch.zeros(2)) for _ in grads)
    for parameter, grad in zip(net, grads, strict=True):
        parameter.grad = None if grad is None else torch.tensor(grad)
    return net


@pytest.mark.parametrize("theta", [0.1, 1.0, 12.9])
def test_clipping_shortens_a_long_gradient_and_returns_its_norm_before(theta):
    net = with_gradients([3.0, 4.0], None, [0.0, 12.0])
    assert float(d2l.grad_clipping(net, theta)) == pytest.approx(13)
    assert net[1].grad is None
    clipped = torch.cat([net[0].grad, net[2].grad])
    expected = torch.tensor([3.0, 4.0, 0.0, 12.0]) * theta / 13
    torch.testing.assert_close(clipped, expected, rtol=1e-5, atol=0)


def test_clipping_leaves_a_short_gradient_as_it_is():
    net = with_gradients([3.0, 4.0])
    assert float(d2l.grad_clipping(net, 5.5)) == pytest.approx(5)
    assert net[0].grad.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("grads", [(), (None,), ([0.0, 0.0],)])
def test_clipping_without_a_gradient_gives_norm_zero(grads):
    """F058: a parameter without a gradient."""
    assert float(d2l.grad_clipping(with_gradients(*grads), 1)) == 0


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_clipping_refuses_a_gradient_that_is_not_finite(wrong):
    """F059: NaN passes."""
    net = with_gradients([3.0, 4.0], [wrong, 1.0])
    with pytest.raises(FloatingPointError, match="smaller learning rate"):
        d2l.grad_clipping(net, 1)
    assert net[0].grad.tolist() == [3.0, 4.0]
    assert str(net[1].grad.tolist()) == str([wrong, 1.0])


@pytest.mark.parametrize("wrong", [5, -1, -100])
def test_a_label_that_has_no_score_is_refused(wrong):
    label = torch.tensor([[1, 4], [0, wrong]])
    with pytest.raises(ValueError, match=rf"the id {wrong}, but pred has scores for 0 ... 4"):
        d2l.MaskedSoftmaxCELoss()(torch.zeros(2, 2, 5), label, torch.tensor([2, 2]))


@pytest.mark.parametrize("theta", [0, -1, math.nan])
def test_clipping_refuses_a_threshold_that_is_not_positive(theta):
    with pytest.raises(ValueError, match=f"theta is {theta}"):
        d2l.grad_clipping(with_gradients([3.0, 4.0]), theta)


# The loop ------------------------------------------------------------------------------------


def test_training_learns_a_tiny_corpus_by_heart(capsys):
    train_iter, src_vocab, tgt_vocab = make_data()
    net = make_net(src_vocab, tgt_vocab)
    history = d2l.train_seq2seq(net, train_iter, 0.01, 60, tgt_vocab, CPU)
    assert len(history.loss) == 60
    assert history.loss[0] > 2
    assert history.loss[-1] < 0.1
    results = d2l.translate(net, SENTENCES, src_vocab, tgt_vocab, 10, CPU)
    assert [result.text for result in results] == [french for _, french in PAIRS]
    assert all(result.finished for result in results)
    assert f"loss {history.loss[-1]:.3f} nats per token, " in capsys.readouterr().out


@pytest.mark.parametrize("num_steps", [7, 10, 40])
def test_history_holds_nats_per_real_token_whatever_the_padding(num_steps):
    """F054: the mean over padding, divided by tokens."""
    net, batches, src_vocab, tgt_vocab = make_all(num_steps=num_steps)
    history = d2l.train_seq2seq(net, batches, 0.0, 2, tgt_vocab, CPU)
    expected = nats_per_token(net, src_vocab, tgt_vocab)
    assert history.loss == pytest.approx([expected] * 2, abs=1e-5)
    assert history.num_tokens == 2 * NUM_TOKENS


@pytest.mark.parametrize("num_steps", [10, 40])
def test_dropping_the_padding_changes_nothing_that_is_learnt(num_steps, monkeypatch):
    losses = []
    for trim in (training.trim_padding, lambda X, valid_len: X):
        monkeypatch.setattr(training, "trim_padding", trim)
        net, batches, _, tgt_vocab = make_all(num_steps=num_steps)
        losses.append(d2l.train_seq2seq(net, batches, 0.005, 5, tgt_vocab, CPU).loss)
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_what_is_learnt_does_not_depend_on_num_steps():
    losses = []
    for num_steps in (7, 40):
        torch.manual_seed(0)
        net, batches, _, tgt_vocab = make_all(num_steps=num_steps)
        losses.append(d2l.train_seq2seq(net, batches, 0.005, 5, tgt_vocab, CPU).loss)
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_training_never_starts_the_weights_anew():
    """F056: a second call starts the weights anew."""
    net, batches, _, tgt_vocab = make_all(dropout=0.1)
    before = weights(net)
    history = d2l.train_seq2seq(net, batches, 0.0, 2, tgt_vocab, CPU)
    d2l.train_seq2seq(net, batches, 0.0, 2, tgt_vocab, CPU, history)
    assert same_weights(weights(net), before)


def test_a_second_call_without_history_goes_on_from_what_was_learnt():
    net, batches, _, tgt_vocab = make_all()
    first = d2l.train_seq2seq(net, batches, 0.01, 30, tgt_vocab, CPU)
    second = d2l.train_seq2seq(net, batches, 0.01, 2, tgt_vocab, CPU)
    assert second is not first
    assert len(first.loss) == 30
    assert len(second.loss) == 2
    assert max(second.loss) < first.loss[0] / 10


def test_two_calls_with_history_equal_one_long_call():
    net, batches, _, tgt_vocab = make_all(dropout=0.1)
    torch.manual_seed(1)
    whole = d2l.train_seq2seq(net, batches, 0.01, 6, tgt_vocab, CPU)
    other = make_net(*make_data()[1:], dropout=0.1)
    torch.manual_seed(1)
    parts = d2l.train_seq2seq(other, batches, 0.01, 2, tgt_vocab, CPU)
    optimizer = parts.optimizer
    assert d2l.train_seq2seq(other, batches, 0.01, 4, tgt_vocab, CPU, parts) is parts
    assert parts.optimizer is optimizer
    assert parts.loss == whole.loss
    assert parts.num_tokens == whole.num_tokens == 6 * NUM_TOKENS
    assert same_weights(weights(other), weights(net))


def test_a_second_call_uses_its_own_learning_rate():
    net, batches, _, tgt_vocab = make_all()
    history = d2l.train_seq2seq(net, batches, 0.01, 2, tgt_vocab, CPU)
    before = weights(net)
    d2l.train_seq2seq(net, batches, 0.0, 2, tgt_vocab, CPU, history)
    assert same_weights(weights(net), before)


@pytest.mark.parametrize(
    ("place", "wrong", "message"),
    [
        (1, None, "data_iter must be of type Iterable, but is a NoneType"),
        (4, {"<bos>": 2}, "tgt_vocab must be of type Vocab, but is a dict"),
        (6, [0.5], "history must be of type History, but is a list"),
    ],
)
def test_what_is_given_in_place_of_another_argument_is_refused(place, wrong, message):
    net, batches, _, tgt_vocab = make_all()
    arguments = [net, batches, 0.01, 1, tgt_vocab, CPU, None]
    arguments[place] = wrong
    with pytest.raises(TypeError, match=message):
        d2l.train_seq2seq(*arguments)


def test_the_history_of_another_net_is_refused():
    net, batches, src_vocab, tgt_vocab = make_all()
    history = d2l.train_seq2seq(net, batches, 0.01, 1, tgt_vocab, CPU)
    other = make_net(src_vocab, tgt_vocab)
    with pytest.raises(ValueError, match="another net"):
        d2l.train_seq2seq(other, batches, 0.01, 1, tgt_vocab, CPU, history)


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("error", [None, RuntimeError("no more"), KeyboardInterrupt()])
def test_training_happens_in_train_mode_and_gives_back_the_mode_it_found(mode, error):
    net, batches, _, tgt_vocab = make_all(dropout=0.1)
    seen = []
    stop = raise_at(3, error) if error else lambda: None
    data_iter = loader(batches, lambda: (seen.append(net.training), stop()))
    net.train(mode)
    if isinstance(error, RuntimeError):
        with pytest.raises(RuntimeError, match="no more"):
            d2l.train_seq2seq(net, data_iter, 0.01, 2, tgt_vocab, CPU)
    else:
        train(net, data_iter, 0.01, 2, tgt_vocab, CPU)
    assert seen == [True] * (3 if error else 4)
    assert all(module.training is mode for module in net.modules())


def test_an_interrupt_keeps_what_was_learnt_and_says_so(capsys):
    net, batches, _, tgt_vocab = make_all()
    before = weights(net)
    data_iter = loader(batches, raise_at(6, KeyboardInterrupt()))  # the second batch of epoch 3
    history = train(net, data_iter, 0.01, 10, tgt_vocab, CPU)
    assert len(history.loss) == 2
    assert history.num_tokens == 2 * NUM_TOKENS
    assert not same_weights(weights(net), before)
    assert "stopped in epoch 3; the net keeps what it has learnt" in capsys.readouterr().out
    d2l.train_seq2seq(net, batches, 0.01, 1, tgt_vocab, CPU, history)
    assert history.loss[2] < history.loss[1]


def test_no_epochs_train_nothing_and_give_an_empty_history(capsys):
    """F057: no epoch, no batch."""
    net, batches, _, tgt_vocab = make_all()
    before = weights(net)
    history = d2l.train_seq2seq(net, batches, 0.01, 0, tgt_vocab, CPU)
    assert (history.loss, history.num_tokens, history.tokens_per_second) == ([], 0, 0)
    assert same_weights(weights(net), before)
    assert capsys.readouterr().out == ""


def test_a_negative_number_of_epochs_is_refused():
    net, batches, _, tgt_vocab = make_all()
    with pytest.raises(ValueError, match="num_epochs is -1"):
        d2l.train_seq2seq(net, batches, 0.01, -1, tgt_vocab, CPU)


def test_data_without_a_batch_is_refused():
    net, _, _, tgt_vocab = make_all()
    with pytest.raises(ValueError, match="no batch"):
        d2l.train_seq2seq(net, [], 0.01, 3, tgt_vocab, CPU)


@pytest.mark.parametrize("batch", [None, "ab", (1, 2), {"X": 1}, 7])
def test_what_is_no_batch_is_refused(batch):
    net, batches, _, tgt_vocab = make_all()
    with pytest.raises(ValueError, match=r"must be \(X, X_valid_len, Y, Y_valid_len\)"):
        d2l.train_seq2seq(net, [next(iter(batches)), batch], 0.01, 1, tgt_vocab, CPU)


def test_a_vocabulary_without_bos_is_refused():
    net, batches, _, _ = make_all()
    vocab = d2l.Vocab(["va", "!"], reserved_tokens=["<pad>", "<eos>"])
    with pytest.raises(ValueError, match="lacks <bos>"):
        d2l.train_seq2seq(net, batches, 0.01, 1, vocab, CPU)


@pytest.mark.parametrize("wrong", [math.inf, math.nan])
def test_weights_that_are_not_finite_end_training_in_one_sentence(wrong):
    net, batches, _, tgt_vocab = make_all()
    with torch.no_grad():
        net.decoder.dense.weight[0, 0] = wrong
    before = weights(net)
    with pytest.raises(FloatingPointError, match="try a smaller learning rate") as caught:
        d2l.train_seq2seq(net, batches, 0.01, 2, tgt_vocab, CPU)
    assert "\n" not in str(caught.value)
    assert str(weights(net)) == str(before)


def test_a_learning_rate_far_too_large_ends_in_one_sentence_and_finite_weights():
    net, batches, _, tgt_vocab = make_all()
    with pytest.raises(FloatingPointError, match="try a smaller learning rate"):
        d2l.train_seq2seq(net, batches, 1e6, 50, tgt_vocab, CPU)
    assert all(parameter.isfinite().all() for parameter in net.parameters())


def test_the_same_seed_gives_the_same_numbers_again():
    """F092: other numbers when the cell is run again."""
    runs = []
    for _ in range(2):
        train_iter, src_vocab, tgt_vocab = make_data()
        net = make_net(src_vocab, tgt_vocab, dropout=0.1, seed=3)
        history = d2l.train_seq2seq(net, train_iter, 0.01, 4, tgt_vocab, CPU)
        runs.append((history.loss, weights(net)))
    assert runs[0][0] == runs[1][0]
    assert same_weights(runs[0][1], runs[1][1])


@pytest.mark.parametrize("beam_size", [1, 2])
def test_translating_between_batches_does_not_change_what_is_learnt(beam_size):
    """F002: after one translation the rest is trained in eval mode."""
    losses = []
    for looks in (False, True):
        net, batches, src_vocab, tgt_vocab = make_all(dropout=0.2)

        def look(net=net, vocabs=(src_vocab, tgt_vocab), looks=looks):
            if looks:
                d2l.translate(
                    net, SENTENCES, *vocabs, 10, CPU, beam_size, save_attention_weights=True
                )

        torch.manual_seed(1)
        history = d2l.train_seq2seq(net, loader(batches, look), 0.01, 4, tgt_vocab, CPU)
        losses.append(history.loss)
    assert losses[0] == losses[1]


def test_speed_counts_real_tokens_and_the_time_of_training_alone(monkeypatch, capsys):
    """F060: the speed of the last epoch, with its drawing."""
    net, batches, _, tgt_vocab = make_all(num_steps=40)
    clock = [0]

    def pass_time(seconds: int) -> None:
        clock[0] += seconds

    monkeypatch.setattr(d2l.Timer, "_now", lambda self: clock[0])
    monkeypatch.setattr(d2l.Animator, "add", lambda *args: pass_time(1000))
    data_iter = loader(batches, lambda: pass_time(1))
    history = d2l.train_seq2seq(net, data_iter, 0.01, 3, tgt_vocab, CPU)
    assert history.num_tokens == 3 * NUM_TOKENS
    assert history.seconds == 3 * len(batches)
    speed = history.tokens_per_second
    assert speed == pytest.approx(3 * NUM_TOKENS / history.seconds)
    assert f"{speed:.0f} tokens/s on cpu" in capsys.readouterr().out


# The file ------------------------------------------------------------------------------------


def save(path: Path, seed: int = 0) -> tuple:
    """Write a translator; return its net and vocabularies."""
    _, src_vocab, tgt_vocab = make_data()
    net = make_net(src_vocab, tgt_vocab, seed=seed)
    d2l.save_translator(path, net, src_vocab, tgt_vocab, num_steps=10)
    return net, src_vocab, tgt_vocab


def logits(net: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return net.eval()(torch.tensor([[4, 5, 3]]), torch.tensor([[2, 6, 7]]))[0]


def test_a_saved_translator_comes_back_the_same(tmp_path):
    net, src_vocab, tgt_vocab = save(tmp_path / "a.pt")
    loaded = d2l.load_translator(str(tmp_path / "a.pt"))
    assert not loaded.net.training
    assert torch.equal(logits(loaded.net), logits(net))
    assert loaded.src_vocab.idx_to_token == src_vocab.idx_to_token
    assert loaded.tgt_vocab.token_to_idx == tgt_vocab.token_to_idx
    expected = d2l.translate(net, SENTENCES, src_vocab, tgt_vocab, 10, CPU)
    assert d2l.translate(loaded.net, SENTENCES, *loaded[1:], CPU) == expected
    assert loaded.num_steps == 10


def test_a_loaded_translator_can_be_trained_on_and_saved_again(tmp_path):
    save(tmp_path / "a.pt")
    train_iter, _, _ = make_data()
    net, src_vocab, tgt_vocab, num_steps = d2l.load_translator(tmp_path / "a.pt")
    history = d2l.train_seq2seq(net, train_iter, 0.01, 5, tgt_vocab, CPU)
    assert history.loss[-1] < history.loss[0]
    d2l.save_translator(tmp_path / "a.pt", net, src_vocab, tgt_vocab, num_steps)
    assert torch.equal(logits(d2l.load_translator(tmp_path / "a.pt").net), logits(net))


def test_the_file_holds_plain_values_and_tensors_only(tmp_path):
    """F094: torch.load refuses the file."""
    save(tmp_path / "a.pt")
    content = torch.load(tmp_path / "a.pt", weights_only=True)
    assert isinstance(content, dict)
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        [name] = [name for name in archive.namelist() if name.endswith("data.pkl")]
        codes = list(pickletools.genops(archive.read(name)))
    modules = {arg.split()[0].split(".")[0] for code, arg, _ in codes if code.name == "GLOBAL"}
    assert modules <= {"torch", "collections"}
    assert "STACK_GLOBAL" not in {code.name for code, _, _ in codes}


def test_the_file_loads_in_another_process(tmp_path):
    """F095: a pickled vocabulary is tied to __main__."""
    net, src_vocab, tgt_vocab = save(tmp_path / "a.pt")
    program = (
        "import sys, torch, d2l_mini as d2l\n"
        "loaded = d2l.load_translator(sys.argv[1])\n"
        "[result] = d2l.translate(loaded.net, ['He is calm.'], *loaded[1:], torch.device('cpu'))\n"
        "print(ascii(result.text))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.pt"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    [expected] = d2l.translate(net, ["He is calm."], src_vocab, tgt_vocab, 10, CPU)
    assert run.stdout.strip() == ascii(expected.text)


def saved_bytes(value) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"one sentence that is no translator\n",
        bytes(range(256)) * 40,
        b"\x80\x02K\x01.",
        b"PK\x03\x04" + bytes(100),
        saved_bytes(nn.Linear(2, 2).state_dict()),
        saved_bytes(nn.Linear(2, 2)),
        saved_bytes(torch.zeros(3)),
        saved_bytes([1, 2]),
        saved_bytes({"src_tokens": ["<unk>"], "tgt_tokens": None}),
    ],
    ids=[
        "empty", "text", "bytes", "pickle", "broken zip",
        "weights of another model", "whole model", "tensor", "list", "half of it",
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_refused_in_one_sentence(content, tmp_path):
    path = tmp_path / "a.pt"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match="is not a translator that save_translator wrote"
    ) as caught:
        d2l.load_translator(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_cannot_run_a_program(tmp_path):
    harm = tmp_path / "harm"
    (tmp_path / "a.pt").write_bytes(f"cos\nmkdir\n(V{harm}\ntR.".encode("raw_unicode_escape"))
    with pytest.raises(ValueError, match="is not a translator"):
        d2l.load_translator(tmp_path / "a.pt")
    assert not harm.exists()


def test_a_file_cut_short_is_refused_in_one_sentence(tmp_path):
    save(tmp_path / "whole.pt")
    content = (tmp_path / "whole.pt").read_bytes()
    for length in (10, 1000, len(content) // 2, len(content) - 1000, len(content) - 1):
        (tmp_path / "cut.pt").write_bytes(content[:length])
        with pytest.raises(ValueError, match="or it is damaged"):
            d2l.load_translator(tmp_path / "cut.pt")


def test_random_files_are_refused_in_one_sentence(tmp_path):
    torch.manual_seed(0)
    for length in range(1, 200):
        (tmp_path / "a.pt").write_bytes(bytes(torch.randint(256, (length,)).tolist()))
        with pytest.raises(ValueError, match="is not a translator"):
            d2l.load_translator(tmp_path / "a.pt")


def test_weights_of_another_size_are_refused(tmp_path):
    save(tmp_path / "a.pt")
    content = torch.load(tmp_path / "a.pt", weights_only=True)
    content["encoder"] = (content["encoder"][0] + 1, *content["encoder"][1:])
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(ValueError, match="is not a translator"):
        d2l.load_translator(tmp_path / "a.pt")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pt"):
        d2l.load_translator(tmp_path / "nowhere.pt")


@pytest.mark.parametrize(("half", "size"), [("encoder", 0), ("decoder", 1)])
def test_a_vocabulary_that_does_not_fit_the_net_is_refused_with_both_numbers(half, size, tmp_path):
    net, _, src_vocab, tgt_vocab = make_all()
    vocabs = [src_vocab, tgt_vocab]
    expected = f"(?i){half} was made for {len(vocabs[size])} words, but its vocabulary has 5"
    vocabs[size] = d2l.Vocab(["word"], reserved_tokens=["<pad>", "<bos>", "<eos>"])
    with pytest.raises(ValueError, match=expected):
        d2l.save_translator(tmp_path / "a.pt", net, *vocabs, 10)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=expected):
        d2l.translate(net, ["word"], *vocabs, 10, torch.device("cpu"))


def test_training_refuses_a_vocabulary_that_does_not_fit_the_net():
    net, batches, _, tgt_vocab = make_all()
    other = d2l.Vocab(["word"], reserved_tokens=["<pad>", "<bos>", "<eos>"])
    with pytest.raises(ValueError, match=f"made for {len(tgt_vocab)} words, .* has 5"):
        d2l.train_seq2seq(net, batches, 0.01, 1, other, torch.device("cpu"))


def check_older_file(folder: Path, net: nn.Module) -> None:
    """Only the file of `net` is there, and it is whole."""
    assert [path.name for path in folder.iterdir()] == ["a.pt"]
    assert torch.equal(logits(d2l.load_translator(folder / "a.pt").net), logits(net))


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_older_file(error, tmp_path, monkeypatch):
    net, _, _ = save(tmp_path / "a.pt")
    monkeypatch.setattr(os, "replace", lambda *paths: raise_at(1, error)())
    with pytest.raises(type(error)):
        save(tmp_path / "a.pt", seed=1)
    check_older_file(tmp_path, net)


def test_a_save_that_fails_midway_leaves_the_older_file(tmp_path, monkeypatch):
    net, _, _ = save(tmp_path / "a.pt")

    def full(content, file):
        with open(file, "wb") if isinstance(file, (str, Path)) else file as out:
            out.write(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path / "a.pt", seed=1)
    monkeypatch.undo()
    check_older_file(tmp_path, net)


def test_a_disk_without_room_gives_one_sentence_and_leaves_the_older_file(tmp_path):
    resource = pytest.importorskip("resource")
    net, _, _ = save(tmp_path / "a.pt")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(OSError, match=r"could not write .*a\.pt: File too large"):
            save(tmp_path / "a.pt", seed=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    check_older_file(tmp_path, net)


def test_saving_into_a_folder_that_is_not_there_names_the_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"could not write .*no[/\\]a\.pt"):
        save(tmp_path / "no" / "a.pt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes as on Unix")
def test_what_is_no_file_is_never_replaced(tmp_path):
    """Such as /dev/null, where whoever trains may write anywhere."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match=f"could not write .*{name}: it is there, and no file"):
            save(tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.skipif(os.name != "posix", reason="permissions as on Unix")
def test_the_file_can_be_read_by_whoever_could_read_any_other(tmp_path):
    save(tmp_path / "a.pt")
    (tmp_path / "other").write_text("")
    assert (tmp_path / "a.pt").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("lr", [-0.005, float("nan"), float("inf")])
def test_a_learning_rate_that_is_none_is_refused_before_anything_moves(lr):
    net, batches, _, tgt_vocab = make_all()
    history = d2l.train_seq2seq(net, batches, 0.01, 1, tgt_vocab, torch.device("cpu"))
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    for earlier in (None, history):
        with pytest.raises(ValueError, match=f"lr must be a number in .* {lr}"):
            d2l.train_seq2seq(net, batches, lr, 1, tgt_vocab, torch.device("cpu"), earlier)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


def test_float16_is_refused_and_says_what_to_use():
    net, batches, _, tgt_vocab = make_all()
    with pytest.raises(ValueError, match="use float32 or bfloat16"):
        d2l.train_seq2seq(net.half(), batches, 0.01, 1, tgt_vocab, torch.device("cpu"))


def test_a_net_whose_parameters_are_all_frozen_cannot_learn():
    net, batches, _, tgt_vocab = make_all()
    with pytest.raises(ValueError, match="no parameter"):
        d2l.train_seq2seq(
            net.requires_grad_(False), batches, 0.01, 1, tgt_vocab, torch.device("cpu")
        )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_training_goes_on_after_a_change_of_type(dtype):
    net, batches, _, tgt_vocab = make_all()
    history = d2l.train_seq2seq(net, batches, 0.01, 1, tgt_vocab, torch.device("cpu"))
    d2l.train_seq2seq(net.to(dtype), batches, 0.01, 1, tgt_vocab, torch.device("cpu"), history)
    assert len(history.loss) == 2
    assert history.loss[1] < history.loss[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_loss_of_half_precision_logits_is_summed_in_full(dtype):
    torch.manual_seed(0)
    pred, label = 3 * torch.randn(64, 10, 50), torch.randint(50, (64, 10))
    lens = torch.full((64,), 10)
    halved = d2l.MaskedSoftmaxCELoss()(pred.to(dtype), label, lens)
    exact = d2l.MaskedSoftmaxCELoss()(pred.to(dtype).double(), label, lens)
    torch.testing.assert_close(halved.double(), exact, rtol=1e-5, atol=0)
    metric = d2l.Accumulator(1)
    for value in halved.to(dtype):
        metric.add(value)
    assert metric[0] == pytest.approx(halved.to(dtype).double().sum().item(), rel=1e-5)


def test_a_frozen_part_keeps_its_mode():
    net, batches, src_vocab, tgt_vocab = make_all()
    net.train()
    net.encoder.eval()
    d2l.train_seq2seq(net, batches, 0.01, 1, tgt_vocab, torch.device("cpu"))
    d2l.translate(net, ["word"], src_vocab, tgt_vocab, 10, torch.device("cpu"))
    assert net.decoder.training
    assert not net.encoder.training


def exchange_a_part(net: d2l.EncoderDecoder) -> None:
    net.decoder.dense = nn.Linear(net.decoder.num_hiddens, len(net.decoder.dense.bias), bias=False)


def test_a_net_that_its_sizes_do_not_describe_never_replaces_a_good_file(tmp_path):
    net, _, src_vocab, tgt_vocab = make_all()
    path = tmp_path / "a.pt"
    d2l.save_translator(path, net, src_vocab, tgt_vocab, 10)
    before = path.read_bytes()
    exchange_a_part(net)
    with pytest.raises(ValueError, match="cannot be built again"):
        d2l.save_translator(path, net, src_vocab, tgt_vocab, 10)
    with pytest.raises(ValueError, match="num_steps is 0"):
        d2l.save_translator(path, net, src_vocab, tgt_vocab, 0)
    assert path.read_bytes() == before


@pytest.mark.parametrize("part", d2l.PARTS)
def test_a_net_without_one_of_its_parts_is_never_saved_as_a_whole_one(part, tmp_path):
    net, _, src_vocab, tgt_vocab = make_all()
    d2l.leave_out(net, part)
    with pytest.raises(ValueError, match="cannot be built again from its sizes, so nothing was"):
        d2l.save_translator(tmp_path / "a.pt", net, src_vocab, tgt_vocab, 10)
    assert not list(tmp_path.iterdir())


def test_one_changed_byte_is_noticed(tmp_path):
    net, _, src_vocab, tgt_vocab = make_all()
    path = tmp_path / "a.pt"
    d2l.save_translator(path, net, src_vocab, tgt_vocab, 10)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 64
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        d2l.load_translator(path)


def test_the_type_of_the_weights_is_kept(tmp_path):
    net, _, src_vocab, tgt_vocab = make_all()
    d2l.save_translator(tmp_path / "a.pt", net.to(torch.bfloat16), src_vocab, tgt_vocab, 10)
    loaded = d2l.load_translator(tmp_path / "a.pt").net
    assert loaded.decoder.dense.weight.dtype == torch.bfloat16


# The schedule ---------------------------------------------------------------------------------


def test_the_learning_rate_rises_evenly_to_its_full_size_and_falls_evenly_to_nothing():
    shares = [d2l.rise_and_fall(step, 12, 4) for step in range(13)]
    assert shares == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8,
                                    2 / 8, 1 / 8, 0])  # fmt: skip
    assert [d2l.rise_and_fall(step, 4, 0) for step in range(4)] == [1, 3 / 4, 2 / 4, 1 / 4]


@pytest.mark.parametrize(
    ("step", "num_steps", "warm_up", "message"),
    [
        (-1, 4, 1, r"step is -1; it must lie in 0 \.\.\. 4"),
        (5, 4, 1, r"step is 5; it must lie in 0 \.\.\. 4"),
        (0, 4, 4, r"warm_up is 4; it must lie in 0 \.\.\. 3"),
        (0, 4, -1, r"warm_up is -1; it must lie in 0 \.\.\. 3"),
        (0, 0, 0, r"num_steps is 0; it must be 1 or more"),
    ],
)
def test_a_step_that_there_is_not_has_no_learning_rate(step, num_steps, warm_up, message):
    with pytest.raises(ValueError, match=message):
        d2l.rise_and_fall(step, num_steps, warm_up)


# The translator that is trained once ----------------------------------------------------------


@pytest.fixture
def small_recipe(monkeypatch):
    """Two epochs on a few pairs; the list gets an item for each epoch that is trained."""
    text = "\n".join(f"{english}\t{french}" for english, french in PAIRS * 10)
    trained: list[float] = []

    def counted(*args):
        trained.append(args[2].param_groups[0]["lr"])
        return d2l.train_epoch(*args)

    monkeypatch.setattr(training, "read_data_nmt", lambda: text)
    monkeypatch.setattr(training, "LEARNING_RATES", (0.01, 0.001))
    monkeypatch.setattr(training, "train_epoch", counted)
    return trained


def ready(tmp_path: Path, epoch: int = 2) -> d2l.Translator:
    return d2l.ready_translator(epoch, tmp_path / "cache", CPU)


def test_the_translator_is_trained_once_and_kept(tmp_path, small_recipe):
    first, second = ready(tmp_path), ready(tmp_path)
    assert small_recipe == [0.01, 0.001]
    for a, b in zip(first.net.parameters(), second.net.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not first.net.training
    assert first.src_vocab.to_tokens(second.src_vocab["calm"]) == "calm"
    assert first.num_steps == 10


def test_the_translator_is_kept_as_it_was_after_each_epoch(tmp_path, small_recipe):
    weights = [ready(tmp_path, epoch).net.decoder.dense.weight for epoch in range(3)]
    assert small_recipe == [0.01, 0.001]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    assert (weights[0] - weights[1]).abs().max() > (weights[1] - weights[2]).abs().max()


def test_a_damaged_translator_is_trained_again(tmp_path, small_recipe):
    ready(tmp_path)
    [path] = (tmp_path / "cache").glob("*/translator-2.pt")
    path.write_bytes(path.read_bytes()[:1000])
    ready(tmp_path)
    assert small_recipe == [0.01, 0.001] * 2


def test_another_recipe_is_another_translator(tmp_path, small_recipe, monkeypatch):
    ready(tmp_path)
    monkeypatch.setattr(training, "LEARNING_RATES", (0.02, 0.002))
    ready(tmp_path)
    assert small_recipe == [0.01, 0.001, 0.02, 0.002]
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.usefixtures("small_recipe")
def test_training_the_translator_leaves_random_numbers_and_threads_alone(tmp_path):
    state, num_threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        ready(tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(num_threads)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_seed_of_the_translator_does_not_depend_on_the_notebook(tmp_path, small_recipe):
    torch.manual_seed(3)
    first = d2l.ready_translator(2, tmp_path / "one", CPU)
    torch.manual_seed(4)
    second = d2l.ready_translator(2, tmp_path / "two", CPU)
    assert len(small_recipe) == 4
    for a, b in zip(first.net.parameters(), second.net.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("epoch", [-1, 3])
@pytest.mark.usefixtures("small_recipe")
def test_an_epoch_that_there_is_not_is_refused(tmp_path, epoch):
    with pytest.raises(ValueError, match=r"epoch is .+; it must lie in 0 \.\.\. 2"):
        ready(tmp_path, epoch)


@pytest.mark.usefixtures("small_recipe")
def test_a_cache_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(OSError, match="cannot be made: set D2L_MINI_CACHE to a folder of yours"):
        ready(tmp_path)


def weights_of(folder: Path) -> list[torch.Tensor]:
    return [p.detach().clone() for p in d2l.ready_translator(2, folder, "cpu").net.parameters()]


@pytest.mark.usefixtures("small_recipe")
@pytest.mark.parametrize(
    "around", [torch.no_grad, torch.inference_mode, contextlib.nullcontext], ids=str
)
def test_the_translator_is_the_same_whatever_the_notebook_has_set(tmp_path, around):
    expected = weights_of(tmp_path / "plain")
    torch.set_default_dtype(torch.float64)
    try:
        with around():
            found = weights_of(tmp_path / "other")
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(map(torch.equal, found, expected))


@pytest.mark.usefixtures("small_recipe")
def test_the_translator_is_trained_on_one_thread_and_its_curve_is_closed(tmp_path, monkeypatch):
    threads, closed = [], []
    counted = training.train_epoch
    monkeypatch.setattr(
        training,
        "train_epoch",
        lambda *args: (threads.append(torch.get_num_threads()), counted(*args))[1],
    )
    monkeypatch.setattr(training.Animator, "close", lambda self: closed.append(self.text()))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        ready(tmp_path)
    finally:
        torch.set_num_threads(before)
    assert threads == [1, 1]
    [line] = closed
    assert line.startswith("epoch 2: nats per token ")


@pytest.mark.parametrize(
    ("name", "value"),
    [("read_data_nmt", lambda: "go .\tva !\n" * 50), ("SIZES", training.SIZES | {"dropout": 0.2})],
)
def test_another_text_or_other_sizes_are_another_translator(
    tmp_path, small_recipe, monkeypatch, name, value
):
    ready(tmp_path)
    monkeypatch.setattr(training, name, value)
    ready(tmp_path)
    assert len(small_recipe) == 4


def test_the_recipe_is_that_of_the_notebook():
    """By default the last epoch is meant, into the cache folder, and training has dropout on."""
    assert training.LEARNING_RATES == (0.004, 0.004, 0.004, 0.004, 0.004, 0.001)
    assert inspect.signature(d2l.ready_translator).parameters["epoch"].default == 6


def test_the_translator_is_kept_in_the_cache_folder_and_learns_with_dropout_on(
    small_recipe, monkeypatch
):
    modes, counted = [], training.train_epoch
    monkeypatch.setattr(
        training,
        "train_epoch",
        lambda net, *args: (modes.append(net.training), counted(net, *args))[1],
    )
    d2l.ready_translator(2, device=CPU)
    assert modes == [True, True]
    assert len(list(d2l.cache_folder().glob("*/translator-2.pt"))) == 1


def test_the_translator_is_trained_where_it_is_asked_to(tmp_path, small_recipe, monkeypatch):
    """A device that computes nothing tells that it was asked."""
    with pytest.raises(ValueError, match="device is 'meta'; there is none of this name here"):
        d2l.ready_translator(2, tmp_path, "meta")
    monkeypatch.setattr(training, "check_device", torch.device)
    with pytest.raises((NotImplementedError, RuntimeError), match=r"(?i)meta"):
        d2l.ready_translator(2, tmp_path, "meta")


# One step -------------------------------------------------------------------------------------


def test_a_step_returns_the_loss_before_it_and_the_real_tokens():
    net, [batch, *_], _, tgt_vocab = make_all()
    X, X_valid_len, Y, Y_valid_len = batch
    bos = torch.full_like(Y[:, :1], tgt_vocab["<bos>"])
    logits, _ = net(X, torch.cat([bos, Y[:, :-1]], dim=1), X_valid_len)
    expected = d2l.MaskedSoftmaxCELoss()(logits, Y, Y_valid_len).sum()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses, num_tokens = d2l.train_step(net, batch, optimizer, tgt_vocab, CPU)
    torch.testing.assert_close(losses, expected.detach())
    assert not losses.requires_grad
    assert num_tokens == Y_valid_len.sum()


@pytest.mark.parametrize(
    ("other", "times"),
    [
        ({}, 1),
        ({"num_tokens": torch.tensor(1e4)}, None),
        ({"loss": lambda *args: 3 * ce(*args)}, 3),
    ],
)
def test_a_step_takes_another_loss_and_divides_by_another_number(other, times, monkeypatch):
    monkeypatch.setattr(training, "grad_clipping", lambda net, theta: None)
    grads = []
    for arguments in ({}, other):
        net, [batch, *_], _, tgt_vocab = make_all()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        d2l.train_step(net, batch, optimizer, tgt_vocab, CPU, **arguments)
        grads.append(net.decoder.dense.weight.grad)
    times = times or batch[3].sum() / 1e4
    torch.testing.assert_close(grads[1], times * grads[0])


def ce(*args):
    return d2l.MaskedSoftmaxCELoss()(*args)


def test_what_is_no_vocabulary_is_not_saved(tmp_path):
    net, _, src_vocab, _ = make_all()
    with pytest.raises(TypeError, match="tgt_vocab must be of type Vocab, but is a dict"):
        d2l.save_translator(tmp_path / "a.pt", net, src_vocab, {"va": 4}, 5)
    assert not list(tmp_path.iterdir())


# What comes back is what was saved --------------------------------------------------------------


def other_heads(net):
    net.encoder.blks[0].attention = d2l.MultiHeadAttention(16, 4)


def other_eps(net):
    net.decoder.blks[0].addnorm1.ln = nn.LayerNorm(16, eps=1.0)


def other_dropout(net):
    net.encoder.blks[0].addnorm1.dropout.p = 0.5


def more_positions(net):
    net.encoder.pos_encoding = d2l.PositionalEncoding(16, max_len=2000)


@pytest.mark.parametrize("change", [other_heads, other_eps, other_dropout, more_positions])
def test_a_net_with_another_setting_is_not_saved(tmp_path, change):
    """Its type and the shapes of its weights are those of the net that would come back."""
    net, _, src_vocab, tgt_vocab = make_all()
    change(net)
    with pytest.raises(ValueError, match="cannot be built again from its sizes"):
        d2l.save_translator(tmp_path / "a.pt", net, src_vocab, tgt_vocab, 10)
    assert not list(tmp_path.iterdir())


def test_an_encoder_of_a_reader_s_own_is_not_saved_and_told_so(tmp_path):
    class Own(d2l.TransformerEncoder):
        pass

    net, _, src_vocab, tgt_vocab = make_all()
    own = Own(len(src_vocab), 16, 32, 2, 2)
    del own.sizes
    net.encoder = own
    with pytest.raises(ValueError, match="cannot be built again from its sizes"):
        d2l.save_translator(tmp_path / "a.pt", net, src_vocab, tgt_vocab, 10)


@pytest.mark.parametrize("odd", [{"f": len}, {"a": Path()}, {"a": np.zeros(2)}, {"f": lambda: 0}])
def test_what_no_file_without_programs_holds_is_refused(tmp_path, odd):
    net, _, src_vocab, tgt_vocab = make_all()
    with pytest.raises(TypeError, match="training must hold plain values and tensors alone"):
        d2l.save_translator(tmp_path / "a.pt", net, src_vocab, tgt_vocab, 10, odd)
    assert not list(tmp_path.iterdir())


def test_words_of_numpy_are_saved_as_words(tmp_path):
    vocab = d2l.Vocab(np.array(["go", "run"]), reserved_tokens=["<pad>", "<bos>", "<eos>"])
    d2l.save_translator(tmp_path / "a.pt", make_net(vocab, vocab), vocab, vocab, 10)
    assert d2l.load_translator(tmp_path / "a.pt").src_vocab.idx_to_token == vocab.idx_to_token


@pytest.mark.skipif(os.name == "nt", reason="Windows lets no one make a link without rights")
def test_a_link_leads_to_the_new_translator_and_its_rights_stay(tmp_path):
    real, link = tmp_path / "real.pt", tmp_path / "link.pt"
    save(real)
    real.chmod(0o600)
    link.symlink_to(real)
    net, *_ = save(link, seed=1)
    assert link.is_symlink()
    assert logits(d2l.load_translator(real).net).equal(logits(net))
    assert real.stat().st_mode & 0o777 == 0o600


def test_a_file_that_may_not_be_written_is_left_alone(tmp_path, monkeypatch):
    net, *_ = save(tmp_path / "a.pt")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(OSError, match="it may not be written"):
        save(tmp_path / "a.pt", seed=1)
    assert logits(d2l.load_translator(tmp_path / "a.pt").net).equal(logits(net))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="only where devices are files")
def test_a_device_is_no_translator():
    with pytest.raises(ValueError, match="/dev/zero is no file"):
        d2l.load_translator("/dev/zero")


# What would learn nothing -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_training_without_gradients_is_refused(mode):
    net, batches, _, tgt_vocab = make_all()
    with mode(), pytest.raises(ValueError, match="gradients are off"):
        d2l.train_seq2seq(net, batches, 0.01, 1, tgt_vocab, CPU)


def test_a_history_that_does_not_know_a_part_of_the_net_is_refused():
    net, batches, _, tgt_vocab = make_all()
    history = d2l.train_seq2seq(net, batches, 0.01, 1, tgt_vocab, CPU)
    net.decoder.blks.append(d2l.DecoderBlock(16, 32, 2))
    with pytest.raises(ValueError, match="parts that the optimizer of history does not know"):
        d2l.train_seq2seq(net, batches, 0.01, 1, tgt_vocab, CPU, history)


@pytest.mark.parametrize("num_tokens", [-5, 0, math.inf, math.nan, True])
def test_a_loss_is_divided_by_more_than_nothing(num_tokens):
    net, [batch, *_], _, tgt_vocab = make_all()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="num_tokens must be a number in"):
        d2l.train_step(net, batch, optimizer, tgt_vocab, CPU, num_tokens=num_tokens)


def test_clipping_leaves_a_tiny_gradient_that_is_short_enough():
    net = with_gradients([3e-7, 4e-7])
    before = [parameter.grad.clone() for parameter in net.parameters()]
    d2l.grad_clipping(net, 1e-6)
    assert all(p.grad.equal(b) for p, b in zip(net.parameters(), before, strict=True))


def test_logits_and_labels_in_two_places_are_refused():
    pred, label = torch.zeros(1, 2, 3, device="meta"), torch.zeros(1, 2, dtype=torch.int64)
    with pytest.raises(TypeError, match="must be on one device, but are on meta and cpu"):
        d2l.MaskedSoftmaxCELoss()(pred, label, torch.tensor([2]))
