"""Ablation: what is taken out is gone, and nothing else."""

from __future__ import annotations

import pytest
import torch

import d2l_mini as d2l
from d2l_mini import ablation

SIZES = {"num_hiddens": 16, "ffn_num_hiddens": 32, "num_heads": 4, "num_layers": 2}


def make_net() -> d2l.EncoderDecoder:
    torch.manual_seed(0)
    encoder, decoder = d2l.TransformerEncoder(20, **SIZES), d2l.TransformerDecoder(20, **SIZES)
    return d2l.EncoderDecoder(encoder, decoder).eval()


def make_ids() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randint(20, (2, 6)), torch.randint(20, (2, 5))


def logits_without(part: str | None, enc_X=None, dec_X=None) -> torch.Tensor:
    net, ids = make_net(), make_ids()
    d2l.leave_out(net, part)
    with torch.no_grad():
        return net(ids[0] if enc_X is None else enc_X, ids[1] if dec_X is None else dec_X)[0]


@pytest.mark.parametrize("part", d2l.PARTS)
@pytest.mark.parametrize("training", [True, False])
def test_each_part_makes_a_difference_in_both_modes(part, training):
    nets = [make_net().train(training) for _ in range(2)]
    d2l.leave_out(nets[1], part)
    whole, without = (net(*make_ids())[0] for net in nets)
    assert (whole - without).abs().max() > 0.01


def test_none_leaves_the_net_whole():
    net = make_net()
    before = net(*make_ids())[0]
    d2l.leave_out(net, None)
    assert torch.equal(net(*make_ids())[0], before)


@pytest.mark.parametrize("part", d2l.PARTS)
def test_the_weights_stay(part):
    net = make_net()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    d2l.leave_out(net, part)
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_without_positions_the_source_is_a_bag_of_words():
    enc_X, _ = make_ids()
    order = torch.tensor([3, 0, 5, 1, 2, 4])
    torch.testing.assert_close(
        logits_without("positions"), logits_without("positions", enc_X=enc_X[:, order])
    )


def test_without_the_causal_mask_a_step_sees_what_comes_later():
    _, dec_X = make_ids()
    other = dec_X.clone()
    other[:, -1] = (other[:, -1] + 1) % 20
    moved = logits_without("causal mask") - logits_without("causal mask", dec_X=other)
    assert (moved[:, 0].abs().amax(dim=-1) > 1e-3).all()
    kept = logits_without(None) - logits_without(None, dec_X=other)
    assert kept[:, :-1].abs().max() < 1e-6


def test_without_scaling_scores_are_as_many_times_larger_as_the_root_says():
    whole, without = make_net(), make_net()
    d2l.leave_out(without, "scaling")
    X = torch.randn(2, 6, 16)
    attention = whole.encoder.blks[0].attention
    attention.W_q.weight.data *= 2  # the root of 16 / 4 units
    torch.testing.assert_close(without.encoder.blks[0].attention(X, X, X), attention(X, X, X))
    with d2l.keep_attention_weights(without, False):  # the fused way
        fused = without.encoder.blks[0].attention(X, X, X)
    torch.testing.assert_close(fused, attention(X, X, X))


def test_without_residuals_a_block_forgets_what_went_in():
    net = make_net()
    d2l.leave_out(net, "residuals")
    blk, X = net.encoder.blks[0], torch.randn(2, 6, 16)
    expected = blk.addnorm2.ln(blk.ffn(blk.addnorm1.ln(blk.attention(X, X, X))))
    torch.testing.assert_close(blk(X), expected)


COUNTS = {"positions": 2, "causal mask": 2, "scaling": 6, "residuals": 10}  # of two blocks a half


@pytest.mark.parametrize("part", d2l.PARTS)
def test_the_part_is_gone_from_every_block_and_may_be_left_out_again(part):
    net = make_net()
    for _ in range(2):
        d2l.leave_out(net, part)
        assert sum(type(module) is d2l.PARTS[part] for module in net.modules()) == COUNTS[part]
    changed = {name for name, module in net.named_modules() if type(module) is d2l.PARTS[part]}
    if part == "causal mask":
        assert changed == {f"decoder.blks.{i}.attention1" for i in range(2)}


@pytest.mark.parametrize("part", ["positions", "residuals"])
def test_dropout_stays(part):
    torch.manual_seed(0)
    net = d2l.EncoderDecoder(
        d2l.TransformerEncoder(20, **SIZES, dropout=0.5),
        d2l.TransformerDecoder(20, **SIZES, dropout=0.5),
    )
    d2l.leave_out(net, part)
    module = net.encoder.pos_encoding if part == "positions" else net.encoder.blks[0].addnorm1
    X = [torch.ones(2, 6, 16) for _ in range(1 if part == "positions" else 2)]
    assert not torch.equal(module(*X), module(*X))


def test_a_net_without_the_package_s_modules_is_refused():
    net = make_net()
    net.encoder.pos_encoding = net.decoder.pos_encoding = torch.nn.Identity()
    with pytest.raises(ValueError, match="positions cannot be left out: the net has no Positional"):
        d2l.leave_out(net, "positions")


def test_another_part_is_refused():
    with pytest.raises(ValueError, match="part is 'softmax'; it must be None or one of positions"):
        d2l.leave_out(make_net(), "softmax")


# The short training -------------------------------------------------------------------------------


@pytest.fixture
def forgetful(monkeypatch):
    """Nothing has been trained yet, and a training takes a moment."""
    monkeypatch.setattr(ablation, "_known", {})
    monkeypatch.setattr(ablation, "SHORT_EPOCHS", 2)
    monkeypatch.setattr(ablation, "RISING_STEPS", 1)
    monkeypatch.setattr(ablation, "short_corpus", lambda: few)


train, held_out = ablation.short_corpus()
few = tuple(lines[:64] for lines in train), tuple(lines[:8] for lines in held_out)


def test_the_corpus_is_of_common_words_and_holds_whole_sentences_out():
    assert len({word for line in train[0] + held_out[0] for word in line}) <= ablation.WORDS
    assert 0.08 < len(held_out[0]) / len(train[0]) < 0.13
    assert not {" ".join(line) for line in train[0]} & {" ".join(line) for line in held_out[0]}


def test_the_same_settings_give_the_same_run_and_leave_the_notebook_as_it_was(forgetful):
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first = ablation.train_short(None, 0.01, True)
    ablation._known.clear()
    again = ablation.train_short(None, 0.01, True)
    assert again is not first
    assert again.loss == first.loss
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_what_is_known_is_not_trained_again(forgetful):
    seen = []
    run = ablation.train_short(watch=lambda losses: seen.append(len(losses)))
    again = ablation.train_short(watch=lambda losses: seen.append(len(losses)))
    assert again.translator is run.translator
    assert seen == [1, 2]
    again.loss.clear()
    assert ablation.train_short().loss == run.loss
    assert len(run.loss) == 2
    assert ablation.train_short(seed=1).loss != run.loss


@pytest.mark.parametrize("part", d2l.PARTS)
def test_a_part_that_is_left_out_makes_a_difference(forgetful, part):
    assert ablation.train_short(part).loss != ablation.train_short().loss


@pytest.mark.parametrize("warm", [True, False])
def test_the_rate_rises_if_warm_and_falls_to_zero(forgetful, monkeypatch, warm):
    rates = []

    def train_epoch(net, train_iter, optimizer, *rest):
        optimizer.register_step_pre_hook(lambda *_: rates.append(optimizer.param_groups[0]["lr"]))
        return d2l.train_epoch(net, train_iter, optimizer, *rest)

    monkeypatch.setattr(ablation, "SHORT_EPOCHS", 1)
    monkeypatch.setattr(ablation, "SHORT_BATCH", 4)
    monkeypatch.setattr(ablation, "RISING_STEPS", 8)
    monkeypatch.setattr(ablation, "train_epoch", train_epoch)
    ablation.train_short(None, 0.02, warm)
    up = [0.02 * (step + 1) / 8 for step in range(8)] if warm else []
    down = [0.02 * (16 - step) / (16 - len(up)) for step in range(len(up), 16)]
    assert rates == pytest.approx(up + down)
    assert max(rates) == pytest.approx(0.02)


def test_the_shares_are_of_translations_that_the_corpus_gives(forgetful):
    run = ablation.train_short()
    translator = run.translator
    english = [" ".join(line) for line in few[1][0]]
    results = d2l.translate(translator.net, english, *translator[1:], ablation.CPU)
    goals = [" ".join(line) for line in few[1][1]]
    right = [result.text == goal for result, goal in zip(results, goals, strict=True)]
    assert run.held_out == sum(right) / len(right)
    memory = d2l.Translator(translator.net, *translator[1:])
    pairs = ([r.text.split() for r in results],)  # what it says is right if the corpus says so
    assert ablation._share_right(memory, (few[1][0], *pairs)) == 1


@pytest.mark.parametrize("lr", [0, -0.1, 1.5])
def test_a_rate_that_makes_no_sense_is_refused_in_one_sentence(lr):
    with pytest.raises(ValueError, match=f"lr must be a number in .* 1, but is {lr}"):
        ablation.train_short(None, lr, True)


def test_a_run_without_another_part_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="part is 'softmax'; it must be None or one of positions"):
        d2l.train_short("softmax")


# What the notebook says ----------------------------------------------------------------------


def test_the_lessons_of_the_notebook_hold_with_another_seed():
    runs = {part: ablation.train_short(part, seed=1) for part in (None, *d2l.PARTS)}
    whole, leak = runs[None], runs["causal mask"]
    assert whole.seen > 0.8
    assert leak.loss[-1] == min(run.loss[-1] for run in runs.values())
    assert leak.seen < 0.1
    assert runs["scaling"].held_out < whole.held_out - 0.15
    assert runs["residuals"].seen < 0.2
    assert runs["positions"].seen > 0.8
    assert ablation.train_short(warm=False, seed=1).seen > 0.7
    assert ablation.train_short(lr=0.02, seed=1).seen > 0.4
    assert ablation.train_short(lr=0.02, warm=False, seed=1).seen < 0.2


def test_no_part_of_a_reader_s_own_is_thrown_away():
    class Own(d2l.MultiHeadAttention):
        pass

    net = make_net()
    net.decoder.blks[-1].attention1 = Own(8, 2)
    with pytest.raises(ValueError, match="causal mask cannot be left out of Own, which is not"):
        d2l.leave_out(net, "causal mask")
    kinds = {type(blk.attention1) for blk in net.decoder.blks}
    assert kinds <= {Own, d2l.MultiHeadAttention}
    d2l.leave_out(net, "scaling")
    d2l.leave_out(net, "scaling")  # twice is once
