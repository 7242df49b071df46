"""d2l_mini/transformer.py against formulas, against PyTorch's own, and against itself in steps."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor, nn

import d2l_mini as d2l
from d2l_mini.transformer import causal_lens

VOCAB, HIDDENS, FFN, HEADS, LAYERS = 11, 8, 16, 2, 2

both_modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
both_paths = pytest.mark.parametrize("keep", [True, False], ids=["weights-kept", "fused"])
source_lengths = pytest.mark.parametrize(
    "enc_valid_lens",
    [None, torch.tensor([5, 2]), torch.tensor([0, 4])],
    ids=["no-lengths", "padded", "one-empty"],
)
VOCABULARY = d2l.Vocab(["a"], reserved_tokens=["<pad>", "<bos>", "<eos>"])  # of no net
STACKS = {"encoder": d2l.TransformerEncoder, "decoder": d2l.TransformerDecoder}
halves = pytest.mark.parametrize("half", STACKS)


def make_net(dropout: float = 0.0, training: bool = False, keep: bool | None = None):
    torch.manual_seed(0)
    sizes = (VOCAB, HIDDENS, FFN, HEADS, LAYERS, dropout)
    net = d2l.EncoderDecoder(*(stack(*sizes) for stack in STACKS.values()))
    for module in net.modules():
        if isinstance(module, d2l.Attention):
            module.keep_weights = keep
    return net.train(training)


def make_tokens(source_steps: int = 5, target_steps: int = 6) -> tuple[Tensor, Tensor]:
    """Source and target of two sentences."""
    torch.manual_seed(1)
    return (
        torch.randint(VOCAB, (2, source_steps)),
        torch.randint(VOCAB, (2, target_steps)),
    )


def first_state(net: d2l.EncoderDecoder, enc_X: Tensor, enc_valid_lens: Tensor | None = None):
    return net.decoder.init_state(net.encoder(enc_X, enc_valid_lens), enc_valid_lens)


def decode(net: d2l.EncoderDecoder, dec_X: Tensor, state, steps: int = 1):
    """The logits of `steps` tokens a call, side by side, and the last state."""
    logits = []
    for X in dec_X.split(steps, dim=1):
        step, state = net.decoder(X, state)
        logits.append(step)
    return torch.cat(logits, dim=1), state


def fields(state) -> list[Tensor]:
    return [field for block in state for field in block if field is not None]


def assert_close(actual, expected, atol: float = 1e-5):
    torch.testing.assert_close(actual, expected, atol=atol, rtol=0)


def copy_attention(theirs: nn.MultiheadAttention, ours: d2l.MultiHeadAttention) -> None:
    """Give PyTorch's the weights of ours; a bias that ours lacks is 0."""
    layers = (ours.W_q, ours.W_k, ours.W_v)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        theirs.out_proj.weight.copy_(ours.W_o.weight)
        theirs.in_proj_bias.zero_()
        theirs.out_proj.bias.zero_()
        if ours.W_q.bias is not None:
            theirs.in_proj_bias.copy_(torch.cat([layer.bias for layer in layers]))
            theirs.out_proj.bias.copy_(ours.W_o.bias)


def copy_rest(theirs: nn.Module, ours: d2l.EncoderBlock | d2l.DecoderBlock) -> None:
    """Give PyTorch's layer the feed-forward network and the norms of ours."""
    theirs.linear1.load_state_dict(ours.ffn.dense1.state_dict())
    theirs.linear2.load_state_dict(ours.ffn.dense2.state_dict())
    for number in (1, 2, 3):
        if hasattr(ours, f"addnorm{number}"):
            norm = getattr(ours, f"addnorm{number}").ln
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
            getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


def pytorch_encoder_layer(ours: d2l.EncoderBlock) -> nn.TransformerEncoderLayer:
    theirs = nn.TransformerEncoderLayer(HIDDENS, HEADS, FFN, dropout=0.0, batch_first=True)
    copy_attention(theirs.self_attn, ours.attention)
    copy_rest(theirs, ours)
    return theirs


def pytorch_decoder_layer(ours: d2l.DecoderBlock) -> nn.TransformerDecoderLayer:
    theirs = nn.TransformerDecoderLayer(HIDDENS, HEADS, FFN, dropout=0.0, batch_first=True)
    copy_attention(theirs.self_attn, ours.attention1)
    copy_attention(theirs.multihead_attn, ours.attention2)
    copy_rest(theirs, ours)
    return theirs


def drop_padding(valid_lens: Tensor | None, steps: int) -> Tensor:
    """PyTorch's mask, True = drop: (batch, steps)."""
    lens = [steps, steps] if valid_lens is None else valid_lens.tolist()
    return torch.tensor([[step >= length for step in range(steps)] for length in lens])


def drop_later(steps: int) -> Tensor:
    """PyTorch's mask, True = drop: (steps, steps)."""
    return torch.tensor([[key > query for key in range(steps)] for query in range(steps)])


# Positions


@pytest.mark.parametrize("num_hiddens", [1, 7, 8])
@pytest.mark.parametrize("offset", [0, 3])
def test_positions_follow_the_formula_of_the_paper(num_hiddens, offset):
    """F022: an odd width."""
    encoded = d2l.PositionalEncoding(num_hiddens)(torch.zeros(2, 5, num_hiddens), offset)
    expected = [
        [
            (math.cos if column % 2 else math.sin)(
                position / 10000 ** ((column - column % 2) / num_hiddens)
            )
            for column in range(num_hiddens)
        ]
        for position in range(offset, offset + 5)
    ]
    torch.testing.assert_close(encoded, torch.tensor([expected, expected]))


def test_positions_are_added():
    X = torch.randn(2, 5, 8)
    encoding = d2l.PositionalEncoding(8)
    torch.testing.assert_close(encoding(X) - encoding(torch.zeros(2, 5, 8)), X)


def test_the_last_position_is_max_len_less_1():
    encoding = d2l.PositionalEncoding(8, max_len=10)
    whole = encoding(torch.zeros(1, 10, 8))
    assert encoding(torch.zeros(1, 1, 8), offset=9).equal(whole[:, 9:])


@pytest.mark.parametrize(
    ("shape", "offset", "message"),
    [
        ((1, 11, 8), 0, r"position 10 .*0 \.\.\. 9 \(max_len 10\)"),
        ((1, 1, 8), 10, r"position 10 .*0 \.\.\. 9 \(max_len 10\)"),
        ((1, 1, 8), -1, r"offset is -1; it must be 0 or more"),
        ((1, 5, 6), 0, r"\(batch, steps, 8\).*\(1, 5, 6\)"),
        ((1, 5, 1), 0, r"\(batch, steps, 8\).*\(1, 5, 1\)"),
        ((5, 8), 0, r"\(batch, steps, 8\).*\(5, 8\)"),
    ],
)
def test_a_position_or_width_that_does_not_fit_is_named(shape, offset, message):
    """F023: longer than max_len."""
    with pytest.raises(ValueError, match=message):
        d2l.PositionalEncoding(8, max_len=10)(torch.zeros(shape), offset)


def test_positions_are_no_part_of_a_checkpoint():
    """F025: the positions tie a checkpoint to its max_len."""
    assert not d2l.PositionalEncoding(8).state_dict()


def test_positions_move_with_their_module():
    """F024: the positions stay behind when the module moves."""
    encoding = d2l.PositionalEncoding(8)
    assert encoding.to(torch.float64).P.dtype == torch.float64
    assert encoding.to("meta").P.device.type == "meta"


def test_positions_go_where_the_input_is_when_their_module_did_not_move():
    X = torch.zeros(1, 5, 8, dtype=torch.float16, device="meta")
    encoded = d2l.PositionalEncoding(8)(X)
    assert (encoded.device.type, encoded.dtype) == ("meta", torch.float16)


def test_positions_pass_through_dropout():
    X = torch.randn(1, 5, 8)
    assert not d2l.PositionalEncoding(8, dropout=1.0)(X).any()


# The parts of a block


def test_the_feed_forward_network_is_the_same_at_every_step():
    ffn = d2l.PositionWiseFFN(8, 16)
    X = torch.randn(2, 5, 8)
    by_step = [
        ffn.dense2.weight @ (ffn.dense1.weight @ x + ffn.dense1.bias).clamp(min=0) + ffn.dense2.bias
        for x in X.flatten(0, 1)
    ]
    torch.testing.assert_close(ffn(X).flatten(0, 1), torch.stack(by_step))


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((1, 3, 8), "X and Y must have one shape, but have (2, 3, 8) and (1, 3, 8)"),
        ((8,), "X and Y must have one shape, but have (2, 3, 8) and (8,)"),
        ((5, 3, 8), "X and Y must have one shape, but have (2, 3, 8) and (5, 3, 8)"),
        ((2, 3, 1), "Y must be (..., 8), but they have shape (2, 3, 1)"),
        ((), "Y must be (..., 8), but they have shape ()"),
    ],
)
def test_what_comes_out_of_a_sublayer_is_never_repeated_to_fit(shape, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        d2l.AddNorm(8)(torch.zeros(2, 3, 8), torch.zeros(shape))


def test_add_norm_drops_what_came_out_of_the_sublayer_and_keeps_what_went_in():
    X, Y = torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    addnorm = d2l.AddNorm(8, dropout=1.0)
    torch.testing.assert_close(addnorm(X, Y), addnorm.ln(X))
    torch.testing.assert_close(addnorm.eval()(X, Y), addnorm.ln(X + Y))


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, [1, 2, 3]), (4, [5, 6, 7])], ids=["from-the-start", "going-on"]
)
def test_a_query_may_use_itself_and_what_came_before(offset, expected):
    """F014: with a cache, a causal mask that begins at the first key."""
    lens = causal_lens(2, 3, offset, torch.device("cpu"))
    assert lens.tolist() == [expected, expected]
    assert causal_lens(2, 3, offset, torch.device("meta")).device.type == "meta"


# Equal to PyTorch's own


@both_modes
@both_paths
@pytest.mark.parametrize("valid_lens", [None, torch.tensor([5, 2])], ids=["no-lengths", "padded"])
@pytest.mark.parametrize("bias", [False, True], ids=["no-bias", "bias"])
def test_an_encoder_block_equals_pytorch_s_layer(training, keep, valid_lens, bias):
    torch.manual_seed(0)
    block = d2l.EncoderBlock(HIDDENS, FFN, HEADS, bias=bias).train(training)
    theirs = pytorch_encoder_layer(block)
    X = torch.randn(2, 5, HIDDENS)
    expected = theirs(X, src_key_padding_mask=drop_padding(valid_lens, 5))
    with d2l.keep_attention_weights(block, keep):
        assert_close(block(X, valid_lens), expected)


@both_modes
@both_paths
@pytest.mark.parametrize("valid_lens", [None, torch.tensor([5, 2])], ids=["no-lengths", "padded"])
@pytest.mark.parametrize("bias", [False, True], ids=["no-bias", "bias"])
def test_a_decoder_block_equals_pytorch_s_layer(training, keep, valid_lens, bias):
    torch.manual_seed(0)
    block = d2l.DecoderBlock(HIDDENS, FFN, HEADS, bias=bias).train(training)
    theirs = pytorch_decoder_layer(block)
    X, enc_outputs = torch.randn(2, 6, HIDDENS), torch.randn(2, 5, HIDDENS)
    expected = theirs(
        X,
        enc_outputs,
        tgt_mask=drop_later(6),
        memory_key_padding_mask=drop_padding(valid_lens, 5),
    )
    with d2l.keep_attention_weights(block, keep):
        assert_close(block(X, block.init_state(enc_outputs, valid_lens))[0], expected)


@both_modes
@both_paths
@pytest.mark.parametrize("valid_lens", [None, torch.tensor([5, 2])], ids=["no-lengths", "padded"])
def test_the_whole_net_equals_pytorch_s_transformer(training, keep, valid_lens):
    net = make_net(training=training, keep=keep)
    encoder, decoder = net.encoder, net.decoder
    theirs = nn.Transformer(
        HIDDENS,
        HEADS,
        custom_encoder=nn.TransformerEncoder(
            pytorch_encoder_layer(encoder.blks[0]), LAYERS, enable_nested_tensor=False
        ),
        custom_decoder=nn.TransformerDecoder(pytorch_decoder_layer(decoder.blks[0]), LAYERS),
        batch_first=True,
    )
    theirs.encoder.layers = nn.ModuleList(map(pytorch_encoder_layer, encoder.blks))
    theirs.decoder.layers = nn.ModuleList(map(pytorch_decoder_layer, decoder.blks))
    enc_X, dec_X = make_tokens()
    source, target = (
        half.embedding(X) * HIDDENS**0.5 + half.pos_encoding.P[: X.shape[1]]
        for half, X in ((encoder, enc_X), (decoder, dec_X))
    )
    padding = drop_padding(valid_lens, 5)
    hiddens = theirs(
        source,
        target,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
        tgt_mask=drop_later(6),
    )
    logits, _ = net(enc_X, dec_X, valid_lens)
    assert_close(logits, decoder.dense(hiddens))


# Masks and padding


@both_modes
@both_paths
@source_lengths
@pytest.mark.parametrize("changed", [1, 3, 5])
def test_a_later_target_token_never_changes_an_earlier_logit(
    training, keep, enc_valid_lens, changed
):
    """F001: no causal mask in eval mode."""
    net = make_net(training=training, keep=keep)
    enc_X, dec_X = make_tokens()
    other = dec_X.clone()
    other[:, changed] = (other[:, changed] + 1) % VOCAB
    logits, _ = net(enc_X, dec_X, enc_valid_lens)
    other_logits, _ = net(enc_X, other, enc_valid_lens)
    assert_close(logits[:, :changed], other_logits[:, :changed], atol=1e-6)
    assert (logits[:, changed:] - other_logits[:, changed:]).abs().amax(-1).min() > 1e-4


@source_lengths
def test_train_and_eval_mode_give_the_same_logits_without_dropout(enc_valid_lens):
    tokens = make_tokens()
    train, _ = make_net(training=True)(*tokens, enc_valid_lens)
    evaluated, _ = make_net(training=False)(*tokens, enc_valid_lens)
    assert_close(train, evaluated)


@both_modes
@both_paths
@pytest.mark.parametrize("lens", [[5, 2], [0, 4]])
def test_longer_padding_gives_the_same_logits(training, keep, lens):
    net = make_net(training=training, keep=keep)
    (enc_X, dec_X), enc_valid_lens = make_tokens(), torch.tensor(lens)
    longer = torch.cat([enc_X, torch.randint(VOCAB, (2, 4))], dim=1)
    expected, _ = net(enc_X, dec_X, enc_valid_lens)
    assert_close(net(longer, dec_X, enc_valid_lens)[0], expected)


@both_paths
def test_tokens_beyond_the_length_of_a_source_do_not_matter_and_those_before_do(keep):
    net = make_net(keep=keep)
    (enc_X, dec_X), enc_valid_lens = make_tokens(), torch.tensor([3, 3])
    logits, _ = net(enc_X, dec_X, enc_valid_lens)
    for step, matters in ((3, False), (2, True)):
        other = enc_X.clone()
        other[:, step] = (other[:, step] + 1) % VOCAB
        difference = (net(other, dec_X, enc_valid_lens)[0] - logits).abs().amax(dim=(1, 2))
        assert ((difference > 1e-4) == matters).all()


@both_modes
@both_paths
def test_an_empty_source_gives_finite_logits_and_gradients(training, keep):
    net = make_net(training=training, keep=keep)
    logits, _ = net(*make_tokens(), torch.tensor([0, 0]))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)


def test_a_length_that_does_not_fit_the_source_is_named():
    with pytest.raises(ValueError, match=r"6 .*0 \.\.\. 5"):
        make_net()(*make_tokens(), torch.tensor([6, 1]))


# Decoding with the cache


@both_modes
@both_paths
@source_lengths
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_decoding_in_steps_equals_one_pass(training, keep, enc_valid_lens, steps):
    """F021, F029: every step at position 0; the cache never compared with one pass."""
    net = make_net(training=training, keep=keep)
    enc_X, dec_X = make_tokens(target_steps=7)
    expected, expected_state = net(enc_X, dec_X, enc_valid_lens)
    logits, state = decode(net, dec_X, first_state(net, enc_X, enc_valid_lens), steps)
    assert_close(logits, expected)
    assert_close(fields(state), fields(expected_state))
    assert [block.num_steps for block in state] == [7] * LAYERS


@source_lengths
def test_decoding_never_changes_the_state_it_is_given(enc_valid_lens):
    net = make_net()
    enc_X, dec_X = make_tokens()
    state = first_state(net, enc_X, enc_valid_lens)
    for step in range(3):
        blocks, before = list(state), [field.clone() for field in fields(state)]
        _, next_state = net.decoder(dec_X[:, step : step + 1], state)
        assert all(a is b for a, b in zip(state, blocks, strict=True))
        assert all(a.equal(b) for a, b in zip(fields(state), before, strict=True))
        state = next_state


def test_two_sentences_can_go_on_from_one_state():
    net = make_net()
    enc_X, dec_X = make_tokens()
    other = torch.cat([dec_X[:, :3], (dec_X[:, 3:] + 1) % VOCAB], dim=1)
    _, state = decode(net, dec_X[:, :3], first_state(net, enc_X))
    for X in (dec_X, other):
        assert_close(decode(net, X[:, 3:], state)[0], net(enc_X, X)[0][:, 3:])


def test_the_encoder_outputs_are_projected_once_a_sentence():
    net = make_net()
    calls = []
    for blk in net.decoder.blks:
        for layer in (blk.attention2.W_k, blk.attention2.W_v):
            layer.register_forward_hook(lambda *_: calls.append(1))
    enc_X, dec_X = make_tokens()
    decode(net, dec_X, first_state(net, enc_X))
    assert len(calls) == 2 * LAYERS


def test_each_step_projects_its_own_key_alone():
    net = make_net()
    steps = []
    net.decoder.blks[0].attention1.W_k.register_forward_hook(
        lambda _, inputs, output: steps.append(output.shape[1])
    )
    enc_X, dec_X = make_tokens()
    decode(net, dec_X, first_state(net, enc_X))
    assert steps == [1] * 6


@source_lengths
@pytest.mark.parametrize("rows", [[1, 0], [1, 1, 0], [1], []], ids=str)
def test_selected_rows_go_on_as_those_sentences_alone(enc_valid_lens, rows):
    net = make_net()
    enc_X, dec_X = make_tokens()
    _, state = decode(net, dec_X[:, :3], first_state(net, enc_X, enc_valid_lens))
    selected = [block.select(torch.tensor(rows, dtype=torch.long)) for block in state]
    for before, after in zip(state, selected, strict=True):
        for field, chosen in zip(before, after, strict=True):
            if field is None:
                assert chosen is None
            else:
                assert chosen.tolist() == [field[row].tolist() for row in rows]
    if rows:
        lens = None if enc_valid_lens is None else enc_valid_lens[rows]
        expected, _ = net(enc_X[rows], dec_X[rows], lens)
        assert_close(decode(net, dec_X[rows, 3:], selected)[0], expected[:, 3:])


def test_reordered_rows_keep_their_source():
    net = make_net()
    (enc_X, dec_X), lens = make_tokens(), torch.tensor([4, 4])
    enc_X = enc_X[:1].expand(2, -1)  # two beams of one sentence
    _, state = decode(net, dec_X[:, :3], first_state(net, enc_X, lens))
    reordered = [block.reorder(torch.tensor([1, 1])) for block in state]
    for before, after in zip(state, reordered, strict=True):
        assert all(getattr(after, name) is getattr(before, name) for name in before._fields[:3])
        assert after.keys.equal(before.keys[[1, 1]])
        assert after.values.equal(before.values[[1, 1]])
    expected, _ = net(enc_X, dec_X[[1, 1]], lens)
    assert_close(decode(net, dec_X[[1, 1], 3:], reordered)[0], expected[:, 3:])


def test_decoding_past_the_last_position_is_refused():
    net = make_net()
    enc_X, dec_X = make_tokens()
    net.decoder.pos_encoding = d2l.PositionalEncoding(HIDDENS, max_len=4)
    _, state = decode(net, dec_X[:, :4], first_state(net, enc_X))
    with pytest.raises(ValueError, match=r"position 4 .*max_len 4"):
        net.decoder(dec_X[:, 4:5], state)


# Devices and float types


@both_paths
@pytest.mark.parametrize("lens_device", [None, "cpu", "meta"], ids=str)
def test_the_net_runs_and_decodes_where_its_input_is(keep, lens_device):
    """F061: a dropout mask that is drawn on the CPU."""
    net = make_net(dropout=0.1, training=True, keep=keep).to("meta")
    enc_X, dec_X = (X.to("meta") for X in make_tokens(target_steps=2))
    lens = None if lens_device is None else torch.tensor([5, 2], device=lens_device)
    logits, _ = net(enc_X, dec_X, lens)
    stepped, state = decode(net, dec_X, first_state(net, enc_X, lens))
    assert {logits.device.type, stepped.device.type} == {"meta"}
    assert state[0].keys.device.type == "meta"


@both_modes
@both_paths
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_net_keeps_its_float_type_and_stays_finite(training, keep, dtype):
    net = make_net(training=training, keep=keep).to(dtype)
    (enc_X, dec_X), lens = make_tokens(), torch.tensor([0, 4])
    logits, _ = net(enc_X, dec_X, lens)
    logits.sum().backward()
    stepped, _ = decode(net, dec_X, first_state(net, enc_X, lens))
    assert {logits.dtype, stepped.dtype} == {dtype}
    assert all(X.isfinite().all() for X in (logits, *(p.grad for p in net.parameters())))
    expected, _ = make_net()(enc_X, dec_X, lens)
    assert_close(logits.float(), expected, atol=0.2 if dtype == torch.bfloat16 else 0.03)
    assert_close(stepped, logits, atol=0.2 if dtype == torch.bfloat16 else 0.03)


# Weights: where they start, what can be seen, what learns


@halves
def test_embeddings_start_at_the_size_of_the_positions(half):
    """F027: embeddings so large that positions drown."""
    torch.manual_seed(0)
    embedding = STACKS[half](400, 64, 8, 2, 1).embedding.weight.detach()
    assert embedding.mean().abs() < 0.01
    assert embedding.std() * math.sqrt(64) == pytest.approx(1, abs=0.05)


@halves
def test_linear_layers_start_by_xavier_s_rule(half):
    net = make_net()
    layers = [layer for layer in getattr(net, half).modules() if isinstance(layer, nn.Linear)]
    for layer in layers:
        bound = math.sqrt(6 / (layer.in_features + layer.out_features))
        assert 0.85 * bound < layer.weight.abs().max() <= bound


@both_modes
def test_gradients_reach_every_parameter(training):
    net = make_net(training=training)
    logits, _ = net(*make_tokens(), torch.tensor([5, 2]))
    logits.logsumexp(-1).sum().backward()
    untouched = [name for name, p in net.named_parameters() if p.grad is None or not p.grad.any()]
    assert untouched == []


@halves
def test_dropout_reaches_every_layer(half):
    net = getattr(make_net(dropout=0.3), half)
    layers = [module for module in net.modules() if isinstance(module, nn.Dropout)]
    in_a_block = {"encoder": 3, "decoder": 5}[half]
    assert [layer.p for layer in layers] == [0.3] * (1 + in_a_block * LAYERS)


@halves
@pytest.mark.parametrize("num_layers", [0, -1])
def test_a_stack_without_layers_is_refused(half, num_layers):
    with pytest.raises(ValueError, match=f"num_layers is {num_layers}.*1 or more"):
        STACKS[half](VOCAB, HIDDENS, FFN, HEADS, num_layers)


@halves
def test_heads_that_do_not_divide_the_hidden_units_are_refused(half):
    with pytest.raises(ValueError, match="num_heads 3 does not divide num_hiddens 8"):
        STACKS[half](VOCAB, HIDDENS, FFN, 3, LAYERS)


def test_the_encoder_shows_one_map_a_layer_with_no_weight_on_padding():
    net = make_net()
    enc_X, _ = make_tokens()
    net.encoder(enc_X, torch.tensor([5, 2]))
    assert [maps.shape for maps in net.encoder.attention_weights] == [(2, HEADS, 5, 5)] * LAYERS
    for maps in net.encoder.attention_weights:
        assert_close(maps.sum(-1), torch.ones(2, HEADS, 5))
        assert not maps[1, :, :, 2:].any()
        assert maps[0].all()
        assert maps[1, :, :, :2].all()


def test_the_decoder_shows_self_attention_and_then_attention_to_the_encoder():
    net = make_net()
    net(*make_tokens(), torch.tensor([5, 2]))
    to_itself, to_encoder = net.decoder.attention_weights
    assert [maps.shape for maps in to_itself] == [(2, HEADS, 6, 6)] * LAYERS
    assert [maps.shape for maps in to_encoder] == [(2, HEADS, 6, 5)] * LAYERS
    for maps in to_itself:
        assert ((maps > 0) == ~drop_later(6)).all()
    for maps in to_encoder:
        assert ((maps > 0) == ~drop_padding(torch.tensor([5, 2]), 5)[:, None, None]).all()
    for maps in (*to_itself, *to_encoder):
        assert_close(maps.sum(-1), torch.ones(2, HEADS, 6))


@both_modes
def test_weights_seen_in_steps_are_the_rows_of_those_seen_in_one_pass(training):
    """F028: in train mode, a step with a cache sees the first key alone."""
    net = make_net(training=training, keep=True)
    (enc_X, dec_X), lens = make_tokens(), torch.tensor([5, 2])
    net(enc_X, dec_X, lens)
    in_one_pass = net.decoder.attention_weights
    state = first_state(net, enc_X, lens)
    for step in range(6):
        _, state = net.decoder(dec_X[:, step : step + 1], state)
        to_itself, to_encoder = net.decoder.attention_weights
        for layer in range(LAYERS):
            row = in_one_pass[0][layer][:, :, step : step + 1, : step + 1]
            assert_close(to_itself[layer], row)
            assert_close(to_encoder[layer], in_one_pass[1][layer][:, :, step : step + 1])


def test_nothing_is_kept_in_training():
    net = make_net()
    tokens = make_tokens()
    net(*tokens)
    net.train()(*tokens)
    assert net.encoder.attention_weights == [None] * LAYERS
    assert net.decoder.attention_weights == [[None] * LAYERS] * 2


def test_kept_weights_carry_no_gradient():
    net = make_net()
    net(*make_tokens())
    for maps in (net.encoder.attention_weights, *net.decoder.attention_weights):
        assert not any(weights.requires_grad for weights in maps)


@pytest.mark.parametrize("half", ["source", "target"])
@pytest.mark.parametrize("wrong", [VOCAB, -1])
def test_a_token_id_of_another_vocabulary_is_refused(half, wrong):
    net = make_net()
    ids = {"source": torch.zeros(1, 3).long(), "target": torch.zeros(1, 3).long()}
    ids[half][0, 1] = wrong
    with pytest.raises(ValueError, match=f"token id {wrong} lies outside 0 ... {VOCAB - 1}"):
        net(ids["source"], ids["target"])


def test_source_and_target_of_different_batches_are_refused():
    net = make_net()
    with pytest.raises(ValueError, match="X has 2 sentences, but the state is that of 3"):
        net(torch.zeros(3, 4).long(), torch.zeros(2, 4).long())


def train_and_fail(net: d2l.EncoderDecoder) -> None:
    with d2l.in_mode(net, training=True):
        assert all(module.training for module in net.modules())
        raise RuntimeError


def test_the_mode_of_every_part_is_restored_also_after_an_error():
    net = make_net(training=True)
    net.encoder.eval()
    with pytest.raises(RuntimeError):
        train_and_fail(net)
    assert net.training
    assert not net.encoder.training
    assert not net.encoder.blks[0].ffn.training
    assert net.decoder.training


@pytest.mark.parametrize("training", [True, False])
def test_in_mode_asks_the_net_itself_and_leaves_it_in_peace_where_nothing_changes(training):
    class Frozen(torch.nn.Dropout):
        def train(self, mode: bool = True):
            self.asked = self.__dict__.get("asked", 0) + 1
            return super().train(False)

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), Frozen()).eval()
    with d2l.in_mode(net, training=training):
        assert net.training is net[0].training is training
        assert not net[1].training
    assert not any(module.training for module in net.modules())
    assert net[1].asked == 1 + training


def test_a_single_step_is_scored_without_a_mask_and_as_with_one(monkeypatch):
    net, ids, cut = make_net(), torch.randint(4, VOCAB, (2, 5)), 3
    masks = []
    wrapped = d2l.transformer.causal_lens
    monkeypatch.setattr(
        d2l.transformer, "causal_lens", lambda *args: masks.append(args) or wrapped(*args)
    )
    whole, _ = net(ids, ids)
    _, state = net(ids, ids[:, :cut])
    assert len(masks) == 2 * len(net.decoder.blks)
    for step in range(cut, 5):
        logits, state = net.decoder(ids[:, step : step + 1], state)
        torch.testing.assert_close(logits[:, 0], whole[:, step])
    assert len(masks) == 2 * len(net.decoder.blks)


LAYERS_OF_SIZE_8 = {
    "AdditiveAttention": lambda X: d2l.AdditiveAttention(8)(X, X, X),
    "MultiHeadAttention": lambda X: d2l.MultiHeadAttention(8, 2)(X, X, X),
    "PositionWiseFFN": lambda X: d2l.PositionWiseFFN(8, 16)(X),
    "AddNorm": lambda X: d2l.AddNorm(8)(X, X),
    "EncoderBlock": lambda X: d2l.EncoderBlock(8, 16, 2)(X),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("layer", LAYERS_OF_SIZE_8)
def test_a_layer_refuses_another_type_than_its_weights(layer, dtype):
    X = torch.ones(2, 3, 8)
    LAYERS_OF_SIZE_8[layer](X)
    with pytest.raises(TypeError, match=r"must (have the type of|be floating-point)"):
        LAYERS_OF_SIZE_8[layer](X.to(dtype))


@pytest.mark.parametrize("layer", LAYERS_OF_SIZE_8)
def test_under_autocast_a_layer_takes_the_narrower_type(layer):
    with torch.autocast("cpu", torch.bfloat16):
        assert LAYERS_OF_SIZE_8[layer](torch.ones(2, 3, 8).bfloat16()).shape == (2, 3, 8)


def test_the_second_call_of_additive_attention_refuses_another_size():
    attention = d2l.AdditiveAttention(8)
    attention(torch.ones(1, 2, 5), torch.ones(1, 3, 4), torch.ones(1, 3, 2))
    with pytest.raises(ValueError, match=r"keys must be \(..., 4\)"):
        attention(torch.ones(1, 2, 5), torch.ones(1, 3, 5), torch.ones(1, 3, 2))


def test_addnorm_refuses_a_residual_of_another_type_or_size():
    X = torch.ones(2, 3, 8)
    with pytest.raises(TypeError, match="Y must have the type"):
        d2l.AddNorm(8)(X, X.double())
    with pytest.raises(TypeError, match="X must be a dense tensor, but is a NoneType"):
        d2l.AddNorm(8)(None, X)
    with pytest.raises(ValueError, match=r"X must be \(..., 9\)"):
        d2l.AddNorm(9)(X, X)


def test_a_layer_that_a_reader_puts_in_another_ones_place_needs_no_weight():
    addnorm, X = d2l.AddNorm(8).eval(), torch.ones(2, 3, 8)
    addnorm.ln = torch.nn.Identity()
    assert torch.equal(addnorm(X, X), 2 * X)


@pytest.mark.parametrize("net", [None, "net", torch.nn.Linear(2, 2), torch.nn.ModuleDict()])
def test_what_is_no_encoder_decoder_is_refused(net):
    """In every function that takes one."""
    calls = [
        lambda: d2l.translate(net, ["go"], VOCABULARY, VOCABULARY, 5, torch.device("cpu")),
        lambda: d2l.train_seq2seq(net, [], 0.1, 1, VOCABULARY, torch.device("cpu")),
        lambda: d2l.leave_out(net, "positions"),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="net must be an EncoderDecoder, but is a"):
            call()


@pytest.mark.parametrize("net", [None, "net", [torch.ones(2)]])
def test_what_is_no_module_is_refused(net):
    with pytest.raises(TypeError, match="net must be of type Module, but is a"):
        d2l.grad_clipping(net, 1)
    with (
        pytest.raises(TypeError, match="net must be of type Module"),
        d2l.keep_attention_weights(net, True),
    ):
        pass


def test_a_mask_of_whole_numbers_is_not_taken_for_lengths():
    """As other libraries make it: (batch, steps) of 0 and 1."""
    ids = torch.tensor([[4, 5, 6, 1]])
    net = d2l.EncoderDecoder(
        d2l.TransformerEncoder(9, 8, 16, 2, 1), d2l.TransformerDecoder(9, 8, 16, 2, 1)
    )
    mask = torch.tensor([[1, 1, 1, 0]])
    message = re.escape("valid_lens must be (batch,) = (1,), but it has shape (1, 4)")
    with pytest.raises(ValueError, match=message):
        net.encoder(ids, mask)
    with pytest.raises(ValueError, match=message):
        net.decoder.init_state(torch.zeros(1, 4, 8), mask)


def test_a_state_keeps_lengths_that_were_given_as_a_list():
    enc_outputs = torch.randn(2, 3, 8)
    block = d2l.DecoderBlock(8, 16, 2)
    state = block.init_state(enc_outputs, [3, 2]).select(torch.tensor([1, 0]))
    assert state.enc_valid_lens.tolist() == [2, 3]
