"""Ablation: what is taken out is gone, and nothing else."""

from __future__ import annotations

import pytest
import torch

import d2l_mini as d2l

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


def test_another_part_is_refused():
    with pytest.raises(ValueError, match="part is 'softmax'; it must be None or one of positions"):
        d2l.leave_out(make_net(), "softmax")
