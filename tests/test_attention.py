"""d2l_mini/attention.py against plain loops and against PyTorch's own attention."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import d2l_mini as d2l

PER_BATCH = torch.tensor([2, 5])
PER_QUERY = torch.tensor([[1, 2, 3], [5, 1, 4]])
WITH_EMPTY_ROWS = torch.tensor([[0, 2, 0], [5, 0, 1]])

every_length = pytest.mark.parametrize(
    "valid_lens", [None, PER_BATCH, PER_QUERY], ids=["no-lengths", "per-batch", "per-query"]
)
with_and_without_heads = pytest.mark.parametrize("heads", [(), (3,)], ids=["no-heads", "heads"])
both_paths = pytest.mark.parametrize("keep", [True, False], ids=["weights-kept", "fused"])
both_modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
float_types = pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64], ids=["fp16", "bf16", "fp64"]
)


def make_qkv(*heads: int, queries: int = 3, keys: int = 5, size: int = 4) -> tuple[Tensor, ...]:
    """Queries, keys and values of two sequences."""
    torch.manual_seed(1)
    return (
        torch.randn(2, *heads, queries, size),
        torch.randn(2, *heads, keys, size),
        torch.randn(2, *heads, keys, size),
    )


def make_attention(keep: bool, dropout: float = 0.0) -> d2l.DotProductAttention:
    attention = d2l.DotProductAttention(dropout)
    attention.keep_weights = keep
    return attention


def length(valid_lens: Tensor | None, row: int, query: int, keys: int) -> int:
    if valid_lens is None:
        return keys
    return int(valid_lens[row] if valid_lens.dim() == 1 else valid_lens[row, query])


def softmax_by_hand(scores: Tensor, valid_lens: Tensor | None) -> Tensor:
    """One row at a time, in plain Python; scores (batch, [heads,] queries, keys)."""
    weights = torch.zeros(scores.shape)
    for index in torch.cartesian_prod(*(torch.arange(n) for n in scores.shape[:-1])).tolist():
        count = length(valid_lens, index[0], index[-1], scores.shape[-1])
        powers = [math.exp(score) for score in scores[tuple(index)][:count].tolist()]
        for key, power in enumerate(powers):
            weights[(*index, key)] = power / sum(powers)
    return weights


def keep_mask(valid_lens: Tensor | None, queries: int = 3, keys: int = 5) -> Tensor:
    """True = keep, (2, queries, keys), in plain Python."""
    return torch.tensor(
        [
            [
                [k < length(valid_lens, row, query, keys) for k in range(keys)]
                for query in range(queries)
            ]
            for row in range(2)
        ]
    )


def copy_of(attention: nn.MultiheadAttention) -> d2l.MultiHeadAttention:
    """Ours, with the weights of PyTorch's."""
    bias = attention.in_proj_bias is not None
    ours = d2l.MultiHeadAttention(attention.embed_dim, attention.num_heads, bias=bias)
    with torch.no_grad():
        ours.W_o.weight.copy_(attention.out_proj.weight)
        for layer, weight in zip(
            (ours.W_q, ours.W_k, ours.W_v), attention.in_proj_weight.chunk(3), strict=True
        ):
            layer.weight.copy_(weight)
        if bias:
            ours.W_o.bias.copy_(attention.out_proj.bias)
            for layer, vector in zip(
                (ours.W_q, ours.W_k, ours.W_v), attention.in_proj_bias.chunk(3), strict=True
            ):
                layer.bias.copy_(vector)
    return ours


# sequence_mask


@pytest.mark.parametrize("trailing", [(), (3,), (3, 2)])
def test_sequence_mask_replaces_what_lies_beyond_each_length(trailing):
    X = torch.arange(1, 1 + 8 * math.prod(trailing)).reshape(2, 4, *trailing)
    masked = d2l.sequence_mask(X, torch.tensor([1, 3]), value=-7)
    assert masked[0, :1].equal(X[0, :1])
    assert masked[1, :3].equal(X[1, :3])
    assert (masked[0, 1:] == -7).all()
    assert (masked[1, 3:] == -7).all()
    assert masked.dtype == X.dtype


def test_sequence_mask_takes_lengths_from_none_to_all():
    masked = d2l.sequence_mask(torch.ones(2, 3), torch.tensor([0, 3]))
    assert masked.tolist() == [[0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize(
    "view",
    [lambda X: X, lambda X: X[:2, :3], lambda X: X.T[:3, :2].T, lambda X: X[::2, ::2]],
    ids=["whole", "slice", "transposed", "strided"],
)
@pytest.mark.parametrize(
    "mask",
    [
        lambda X: d2l.sequence_mask(X, torch.ones(len(X), dtype=torch.long), 9),
        lambda X: d2l.masked_softmax(X[:, None], torch.ones(len(X), dtype=torch.long)),
    ],
    ids=["sequence_mask", "masked_softmax"],
)
def test_masking_leaves_its_input_untouched(mask, view):
    """F008: the mask is written into the caller's tensor."""
    X = torch.randn(4, 6)
    before = X.clone()
    masked = mask(view(X))
    assert X.equal(before)
    masked.zero_()
    assert X.equal(before)


@pytest.mark.parametrize("make", [lambda p: p, torch.tanh], ids=["leaf", "tanh"])
def test_gradient_passes_through_sequence_mask_only_where_steps_stay(make):
    """F009: a mask in place breaks the gradient."""
    parameter = nn.Parameter(torch.ones(2, 3))
    d2l.sequence_mask(make(parameter), torch.tensor([1, 2]), 5.0).sum().backward()
    assert (parameter.grad != 0).tolist() == [[True, False, False], [True, True, False]]


def test_sequence_mask_refuses_a_value_that_does_not_fit_the_type():
    """F007: -1e6 does not fit fp16."""
    with pytest.raises(ValueError, match=r"-1000000\.0 does not fit torch.float16.*65504"):
        d2l.sequence_mask(torch.zeros(2, 2).half(), torch.tensor([1, 1]), -1e6)


def test_sequence_mask_can_fill_with_minus_infinity():
    masked = d2l.sequence_mask(torch.zeros(1, 2).half(), torch.tensor([1]), -math.inf)
    assert masked.tolist() == [[0, -math.inf]]


@pytest.mark.parametrize(
    ("shape", "valid_len", "error", "message"),
    [
        ((2, 3), torch.tensor([1, 2, 3]), ValueError, r"\(2,\).*\(3,\)"),
        ((2, 3), torch.tensor([[1], [2]]), ValueError, r"\(2,\).*\(2, 1\)"),
        ((2, 3), [1], ValueError, r"\(2,\).*\(1,\)"),
        ((2,), torch.tensor([1, 2]), ValueError, r"\(batch, steps, \.\.\.\).*\(2,\)"),
        ((2, 3), torch.tensor([1, 4]), ValueError, r"4 .*0 \.\.\. 3"),
        ((2, 3), torch.tensor([-1, 2]), ValueError, r"-1 .*0 \.\.\. 3"),
        ((2, 3), torch.tensor([1.0, 2.0]), TypeError, "whole numbers.*float32"),
        ((2, 3), torch.tensor([True, False]), TypeError, "whole numbers.*bool"),
    ],
)
def test_sequence_mask_says_what_is_wrong_with_its_lengths(shape, valid_len, error, message):
    with pytest.raises(error, match=message):
        d2l.sequence_mask(torch.zeros(shape), valid_len)


# masked_softmax


@with_and_without_heads
@every_length
def test_masked_softmax_equals_a_plain_loop(heads, valid_lens):
    torch.manual_seed(0)
    scores = torch.randn(2, *heads, 3, 5)
    torch.testing.assert_close(
        d2l.masked_softmax(scores, valid_lens), softmax_by_hand(scores, valid_lens)
    )


def test_masked_softmax_of_transposed_scores_equals_that_of_their_copy():
    scores = torch.randn(2, 5, 3).mT
    assert d2l.masked_softmax(scores, PER_QUERY).equal(
        d2l.masked_softmax(scores.contiguous(), PER_QUERY)
    )


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("shape", [(3,), (2, 1), (2, 3, 15), (2, 2, 3, 16), (1, 2, 40), (2, 3, 0)])
def test_softmax_over_keys_is_the_softmax_for_any_number_of_keys(shape, device):
    scores = torch.randn(shape, device=device, requires_grad=True)
    weights, expected = d2l.softmax_over_keys(scores), torch.softmax(scores, dim=-1)
    assert weights.shape == expected.shape
    if device == "cpu":
        torch.testing.assert_close(weights, expected)
        upstream = torch.randn(shape)
        (ours,) = torch.autograd.grad(weights, scores, upstream)
        torch.testing.assert_close(ours, torch.autograd.grad(expected, scores, upstream)[0])


@pytest.mark.parametrize("make", [list, Tensor.int], ids=["list", "int32"])
def test_lengths_may_be_a_list_or_any_whole_type(make):
    scores = torch.randn(2, 3, 5)
    lens = PER_BATCH.tolist() if make is list else make(PER_BATCH)
    assert d2l.masked_softmax(scores, lens).equal(d2l.masked_softmax(scores, PER_BATCH))


@with_and_without_heads
def test_rows_of_length_0_have_no_weights_and_the_others_sum_to_1(heads):
    """F003: length 0 shares its weight among the padding."""
    weights = d2l.masked_softmax(torch.randn(2, *heads, 3, 5), WITH_EMPTY_ROWS)
    sums = (WITH_EMPTY_ROWS > 0).float().reshape(2, *[1] * len(heads), 3).expand(2, *heads, 3)
    torch.testing.assert_close(weights.sum(-1), sums)
    assert (weights == 0).sum() == weights.numel() - WITH_EMPTY_ROWS.sum() * math.prod(heads)


def test_gradient_of_a_row_of_length_0_is_zero_and_never_nan_on_the_way():
    """F005: a clean output whose gradient is NaN."""
    scores = torch.randn(2, 3, 5, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        (d2l.masked_softmax(scores, WITH_EMPTY_ROWS) * torch.randn(2, 3, 5)).sum().backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad.abs().sum(-1) > 0).tolist() == (WITH_EMPTY_ROWS > 1).tolist()


def test_scores_of_padding_do_not_matter_even_when_infinite():
    scores = torch.randn(2, 3, 5)
    expected = d2l.masked_softmax(scores, PER_BATCH)
    scores[0, :, 2:] = torch.tensor([math.inf, -math.inf, math.nan])
    assert d2l.masked_softmax(scores, PER_BATCH).equal(expected)


def test_longer_padding_gives_the_same_weights():
    scores = torch.randn(2, 3, 5)
    longer = torch.cat([scores, torch.randn(2, 3, 4)], dim=-1)
    weights = d2l.masked_softmax(longer, PER_BATCH)
    torch.testing.assert_close(weights[..., :5], d2l.masked_softmax(scores, PER_BATCH))
    assert not weights[..., 5:].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("sign", [-1, 1], ids=["lowest", "highest"])
def test_scores_at_the_limit_of_their_type_share_the_weight(dtype, sign):
    scores = torch.full((2, 1, 4), sign * torch.finfo(dtype).max, dtype=dtype)
    weights = d2l.masked_softmax(scores, torch.tensor([2, 0]))
    assert weights.tolist() == [[[0.5, 0.5, 0, 0]], [[0, 0, 0, 0]]]
    assert weights.dtype == dtype


@pytest.mark.parametrize(
    ("shape", "valid_lens", "error", "message"),
    [
        ((2, 3, 5), torch.tensor([1, 2, 3]), ValueError, r"\(2,\).*\(2, 3\).*\(3,\)"),
        ((2, 3, 5), torch.ones(2, 5, dtype=int), ValueError, r"\(2,\).*\(2, 3\).*\(2, 5\)"),
        ((2, 4, 3, 5), torch.ones(2, 4, dtype=int), ValueError, r"\(2,\).*\(2, 3\).*\(2, 4\)"),
        ((2, 3, 5), [1], ValueError, r"\(2,\).*\(1,\)"),
        ((2, 3, 5), 4, ValueError, r"\(2,\).*\(\)"),
        ((2, 5), torch.tensor([1, 2]), ValueError, r"\(batch, .*queries, keys\).*\(2, 5\)"),
        ((2, 3, 5), torch.tensor([1, 6]), ValueError, r"6 .*0 \.\.\. 5"),
        ((2, 3, 5), torch.tensor([-1, 5]), ValueError, r"-1 .*0 \.\.\. 5"),
        ((2, 3, 5), torch.tensor([1.0, 2.0]), TypeError, "whole numbers.*float32"),
        ((2, 3, 5), torch.ones(2, 3, dtype=bool), TypeError, "whole numbers.*bool"),
    ],
)
def test_masked_softmax_says_what_is_wrong_with_its_lengths(shape, valid_lens, error, message):
    with pytest.raises(error, match=message):
        d2l.masked_softmax(torch.zeros(shape), valid_lens)


# Additive and dot-product attention


@with_and_without_heads
@every_length
def test_additive_attention_equals_a_plain_loop(heads, valid_lens):
    queries, _, values = make_qkv(*heads)
    keys = torch.randn(*values.shape[:-1], 6)
    attention = d2l.AdditiveAttention(7).eval()
    with torch.no_grad():
        output = attention(queries, keys, values, valid_lens)
        scores = torch.zeros(*queries.shape[:-1], 5)
        for index in torch.cartesian_prod(*(torch.arange(n) for n in scores.shape)).tolist():
            *place, query, key = index
            hidden = (
                attention.W_q.weight @ queries[(*place, query)]
                + attention.W_k.weight @ keys[(*place, key)]
            )
            scores[tuple(index)] = attention.w_v.weight[0] @ torch.tanh(hidden)
    weights = softmax_by_hand(scores, valid_lens)
    torch.testing.assert_close(attention.attention_weights, weights)
    torch.testing.assert_close(output, weights @ values)


@both_modes
@both_paths
@with_and_without_heads
@every_length
def test_dot_product_attention_equals_pytorch_s(training, keep, heads, valid_lens):
    qkv = make_qkv(*heads)
    mask = keep_mask(valid_lens).reshape(2, *[1] * len(heads), 3, 5)
    expected = F.scaled_dot_product_attention(*qkv, attn_mask=mask)
    output = make_attention(keep).train(training)(*qkv, valid_lens)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=0)


@with_and_without_heads
@pytest.mark.parametrize("valid_lens", [None, PER_BATCH, PER_QUERY, WITH_EMPTY_ROWS])
def test_both_paths_give_the_same_output_and_gradients(heads, valid_lens):
    results = []
    for keep in (True, False):
        qkv = [X.requires_grad_() for X in make_qkv(*heads)]
        output = make_attention(keep)(*qkv, valid_lens)
        (output * torch.arange(output.numel()).reshape(output.shape)).sum().backward()
        results.append([output, *(X.grad for X in qkv)])
    torch.testing.assert_close(*results)


@both_paths
def test_a_query_with_nothing_to_attend_to_gives_zeros_and_a_finite_gradient(keep):
    qkv = [X.requires_grad_() for X in make_qkv(4)]
    output = make_attention(keep)(*qkv, WITH_EMPTY_ROWS)
    output.sum().backward()
    empty = WITH_EMPTY_ROWS == 0
    assert not output.transpose(1, 2)[empty].any()
    assert output.transpose(1, 2)[~empty].all()
    assert all(X.grad.isfinite().all() for X in qkv)


@both_paths
def test_keys_and_values_of_padding_do_not_matter(keep):
    queries, keys, values = make_qkv()
    attention = make_attention(keep)
    expected = attention(queries, keys, values, torch.tensor([2, 2]))
    keys[:, 2:], values[:, 2:] = 100.0, -100.0
    torch.testing.assert_close(attention(queries, keys, values, torch.tensor([2, 2])), expected)


@both_paths
def test_dropout_of_1_leaves_nothing_in_training_and_all_in_eval(keep):
    qkv = make_qkv()
    attention = make_attention(keep, dropout=1.0)
    assert not attention(*qkv, PER_BATCH).any()
    assert not attention(*qkv).any()
    torch.testing.assert_close(
        attention.eval()(*qkv, PER_BATCH), make_attention(True)(*qkv, PER_BATCH)
    )


@both_paths
@pytest.mark.parametrize("valid_lens", [None, PER_BATCH])
def test_dropout_in_training_is_right_on_average(keep, valid_lens):
    qkv = make_qkv()
    many = [X.repeat(4000, 1, 1) for X in qkv]
    many_lens = None if valid_lens is None else valid_lens.repeat(4000)
    outputs = make_attention(keep, dropout=0.5)(*many, many_lens).reshape(4000, 2, 3, 4)
    assert outputs.std(dim=0).min() > 0.1
    expected = make_attention(keep)(*qkv, valid_lens)
    torch.testing.assert_close(outputs.mean(dim=0), expected, atol=0.1, rtol=0)


@both_paths
@float_types
def test_attention_keeps_its_float_type_and_stays_finite(keep, dtype):
    qkv = [X.to(dtype).requires_grad_() for X in make_qkv(3)]
    output = make_attention(keep)(*qkv, WITH_EMPTY_ROWS)
    output.sum().backward()
    assert output.dtype == dtype
    assert all(X.isfinite().all() for X in (output, *(X.grad for X in qkv)))
    expected = make_attention(keep)(*make_qkv(3), WITH_EMPTY_ROWS)
    torch.testing.assert_close(output.float(), expected, atol=0.03, rtol=0.03)


@float_types
def test_additive_attention_keeps_its_float_type(dtype):
    attention = d2l.AdditiveAttention(7).to(dtype)
    output = attention(*(X.to(dtype) for X in make_qkv()), WITH_EMPTY_ROWS)
    assert output.dtype == dtype
    assert output.isfinite().all()


@pytest.mark.parametrize("lens_device", ["cpu", "meta"])
@pytest.mark.parametrize("valid_lens", [PER_BATCH, PER_QUERY])
def test_attention_runs_where_its_input_is(lens_device, valid_lens):
    """F020: lengths on another device."""
    qkv = [X.to("meta") for X in make_qkv(3)]
    lens = valid_lens.to(lens_device)
    X, per_row = torch.zeros(2, 5, device="meta"), PER_BATCH.to(lens_device)
    results = [make_attention(keep)(*qkv, lens) for keep in (True, False)]
    results += [d2l.masked_softmax(torch.zeros(2, 3, 5, device="meta"), lens)]
    results += [d2l.sequence_mask(X, per_row)]
    assert [result.device.type for result in results] == ["meta"] * 4


@both_paths
@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 3, 4), (2, 5, 6), (2, 5, 4)), "4 and 6"),
        (((2, 3, 4), (2, 5, 4), (2, 6, 4)), "5 keys and 6 values"),
        (((2, 3, 4), (3, 5, 4), (3, 5, 4)), r"\(2, 3, 4\), \(3, 5, 4\)"),
        (((2, 7, 3, 4), (2, 1, 5, 4), (2, 7, 5, 4)), r"\(2, 1, 5, 4\)"),
        (((3, 4), (5, 4), (5, 4)), r"\(3, 4\), \(5, 4\)"),
    ],
)
def test_attention_names_the_sizes_that_do_not_fit(keep, shapes, message):
    with pytest.raises(ValueError, match=message):
        make_attention(keep)(*(torch.zeros(shape) for shape in shapes))


@both_paths
def test_attention_names_the_length_that_does_not_fit(keep):
    with pytest.raises(ValueError, match=r"6 .*0 \.\.\. 5"):
        make_attention(keep)(*make_qkv(), torch.tensor([6, 1]))


# The weights that are kept


@pytest.mark.parametrize("make", [d2l.DotProductAttention, lambda: d2l.AdditiveAttention(7)])
def test_weights_are_kept_in_eval_and_not_in_training(make):
    attention = make()
    attention(*make_qkv(), PER_BATCH)
    assert attention.attention_weights is None
    attention.eval()(*make_qkv(), PER_BATCH)
    assert attention.attention_weights.shape == (2, 3, 5)
    attention.train()(*make_qkv(), PER_BATCH)
    assert attention.attention_weights is None


@both_modes
def test_weights_are_kept_or_not_as_asked(training):
    attention = make_attention(keep=True).train(training)
    attention(*make_qkv())
    assert attention.attention_weights.shape == (2, 3, 5)
    attention.keep_weights = False
    attention(*make_qkv())
    assert attention.attention_weights is None


@both_modes
@pytest.mark.parametrize("keep", [None, True, False])
def test_the_fused_kernel_is_used_where_no_one_looks_at_the_weights(monkeypatch, training, keep):
    calls = []
    kernel = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or kernel(*a, **k)
    )
    make_attention(keep).train(training)(*make_qkv(), PER_BATCH)
    looks = not training if keep is None else keep
    assert len(calls) == (0 if looks else 1)
    make_attention(keep, dropout=0.5).train()(*make_qkv(), PER_BATCH)  # it has none for a CPU
    assert len(calls) == (0 if looks else 1)


def test_kept_weights_are_those_before_dropout_and_carry_no_gradient():
    """F017: what is shown under dropout is not what is said."""
    attention = make_attention(keep=True, dropout=0.5)
    queries, keys, values = (X.requires_grad_() for X in make_qkv())
    attention(queries, keys, values, PER_BATCH)
    scores = torch.einsum("bqd,bkd->bqk", queries, keys) / 2
    assert not attention.attention_weights.requires_grad
    torch.testing.assert_close(
        attention.attention_weights, softmax_by_hand(scores.detach(), PER_BATCH)
    )


@pytest.mark.parametrize("before", [None, True, False])
@pytest.mark.parametrize("inside", [None, True, False])
def test_keep_attention_weights_holds_inside_and_is_undone_after_an_error(before, inside):
    net = nn.ModuleList([d2l.MultiHeadAttention(4, 2), d2l.AdditiveAttention(3)])
    attentions = [net[0].attention, net[1]]
    for attention in attentions:
        attention.keep_weights = before
    try:
        with d2l.keep_attention_weights(net, inside):
            assert [attention.keep_weights for attention in attentions] == [inside, inside]
            raise KeyError
    except KeyError:
        pass
    assert [attention.keep_weights for attention in attentions] == [before, before]


def test_keep_attention_weights_keeps_them_in_training():
    attention = d2l.MultiHeadAttention(4, 2)
    X = torch.randn(2, 3, 4)
    with d2l.keep_attention_weights(attention, True):
        attention(X, X, X)
    assert attention.attention_weights.shape == (2, 2, 3, 3)


# Many heads


def test_a_head_is_a_slice_of_the_hidden_units():
    X = torch.randn(2, 5, 12)
    heads = d2l.split_heads(X, 3)
    assert heads.shape == (2, 3, 5, 4)
    for head in range(3):
        assert heads[:, head].equal(X[:, :, 4 * head : 4 * head + 4])


@pytest.mark.parametrize("num_heads", [1, 2, 3, 12])
def test_merge_heads_undoes_split_heads(num_heads):
    X = torch.randn(2, 5, 12)
    assert d2l.merge_heads(d2l.split_heads(X, num_heads)).equal(X)


@pytest.mark.parametrize("num_heads", [3, 20])
@pytest.mark.parametrize(
    "make",
    [
        lambda heads: d2l.MultiHeadAttention(10, heads),
        lambda heads: d2l.split_heads(torch.zeros(1, 2, 10), heads),
    ],
    ids=["MultiHeadAttention", "split_heads"],
)
def test_heads_that_do_not_divide_the_hidden_units_are_refused(make, num_heads):
    """F018: found only when the net is called."""
    with pytest.raises(ValueError, match=f"num_heads {num_heads} does not divide num_hiddens 10"):
        make(num_heads)


@pytest.mark.parametrize("shape", [(5, 12), (2, 3, 5, 12)])
def test_split_heads_names_a_shape_it_cannot_split(shape):
    with pytest.raises(ValueError, match=rf"\(batch, steps, hiddens\).*\({shape[0]}, .*12\)"):
        d2l.split_heads(torch.zeros(shape), 3)


@both_modes
@both_paths
@every_length
@pytest.mark.parametrize("bias", [False, True], ids=["no-bias", "bias"])
def test_multi_head_attention_equals_pytorch_s(training, keep, valid_lens, bias):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, bias=bias, batch_first=True)
    if bias:
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
    ours = copy_of(theirs).train(training)
    qkv = make_qkv(size=12)
    drop = ~keep_mask(valid_lens).repeat_interleave(3, dim=0)  # theirs: True = drop
    expected, weights = theirs(*qkv, attn_mask=drop, average_attn_weights=False)
    with d2l.keep_attention_weights(ours, keep):
        torch.testing.assert_close(ours(*qkv, valid_lens), expected, atol=1e-5, rtol=0)
    if keep:
        torch.testing.assert_close(ours.attention_weights, weights.detach())
    else:
        assert ours.attention_weights is None


def test_projecting_first_and_attending_later_equals_one_call():
    attention = d2l.MultiHeadAttention(12, 3, bias=True)
    queries, keys, values = make_qkv(size=12)
    projected = attention.project(keys, values)
    assert [X.shape for X in projected] == [(2, 3, 5, 4)] * 2
    torch.testing.assert_close(
        attention.attend(queries, *projected, PER_BATCH),
        attention(queries, keys, values, PER_BATCH),
    )


def test_scores_that_are_no_floats_are_refused():
    scores = torch.tensor([[[1, 2, 3, 4]]])
    for lens in (None, torch.tensor([2])):
        with pytest.raises(TypeError, match=r"scores must be floating-point .* torch\.int64"):
            d2l.masked_softmax(scores, lens)
    with pytest.raises(TypeError, match="queries must be floating-point"):
        d2l.DotProductAttention()(scores, scores, scores)


@pytest.mark.parametrize("lens", [None, torch.tensor([2])], ids=["all", "two"])
def test_a_row_of_nothing_but_minus_infinity_gets_no_weight(lens):
    """F004: a row of nothing but minus infinity is NaN."""
    weights = d2l.masked_softmax(torch.full((1, 1, 3), -torch.inf), lens)
    assert torch.equal(weights, torch.zeros(1, 1, 3))


@pytest.mark.parametrize(
    ("value", "dtype"), [(300, torch.int8), (0.5, torch.int64), (-1e6, torch.float16)]
)
def test_a_value_that_the_type_cannot_hold_is_refused(value, dtype):
    with pytest.raises(ValueError, match=f"{value} does not fit {dtype}"):
        d2l.sequence_mask(torch.zeros(1, 3, dtype=dtype), torch.tensor([1]), value)


def test_merge_heads_wants_heads():
    with pytest.raises(ValueError, match=r"\(2, 3, 8\)"):
        d2l.merge_heads(torch.zeros(2, 3, 8))


# A reader's own parts ---------------------------------------------------------------------------


class Negated(d2l.DotProductAttention):
    """Looks most at what is least alike."""

    def score(self, queries, keys):
        return -super().score(queries, keys)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_a_score_of_a_reader_s_own_is_used_in_every_mode(keep, training):
    attention, (queries, keys, values) = Negated().train(training), make_qkv()
    attention.keep_weights = keep
    expected = d2l.DotProductAttention()(-queries, keys, values)
    torch.testing.assert_close(attention(queries, keys, values), expected)


def test_a_dropout_that_stays_on_drops_with_kept_weights_and_without():
    """As for Monte Carlo dropout: the mode that counts is the dropout's own."""
    attention, qkv = d2l.DotProductAttention(0.5).eval(), make_qkv()
    attention.dropout.train()
    for attention.keep_weights in (True, False):
        outputs = [attention(*qkv) for _ in range(9)]
        assert len({output.sum().item() for output in outputs}) > 1


def test_another_module_may_stand_in_the_dropout_s_place():
    attention, qkv = d2l.DotProductAttention(0.5).train(), make_qkv()
    attention.dropout = torch.nn.Identity()
    expected = d2l.DotProductAttention()(*qkv)
    torch.testing.assert_close(attention(*qkv), expected)


def test_no_length_is_a_list_of_lengths_too():
    assert d2l.masked_softmax(torch.zeros(0, 1, 4), []).shape == (0, 1, 4)


def test_autocast_takes_no_float64_for_float32():
    X = torch.zeros(1, 2, 8, dtype=torch.float64)
    message = "keys must have the type of the layer's weights"
    with torch.autocast("cpu"), pytest.raises(TypeError, match=message):
        d2l.MultiHeadAttention(8, 2)(X, X, X)


def test_what_is_no_tensor_is_told_before_the_kernel_is_chosen():
    attention = d2l.DotProductAttention(0.5).train()
    with pytest.raises(TypeError, match="queries must be a dense tensor, but is a list"):
        attention([[1.0]], *make_qkv()[1:])


def test_another_type_on_the_meta_device_is_told():
    X = torch.zeros(2, 3, 8, device="meta", dtype=torch.float16)
    with pytest.raises(TypeError, match="X must have the type of the layer's weights"):
        d2l.AddNorm(8)(X, X)
