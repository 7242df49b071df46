"""What holds for any input: hypothesis looks for one that breaks it, the same way each time."""

from __future__ import annotations

import itertools
import math
import unicodedata

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import d2l_mini as d2l
from d2l_mini import data

settings.register_profile(
    "quick", derandomize=True, max_examples=40, deadline=None, database=None, print_blob=False
)
settings.load_profile("quick")

RESERVED = ["<pad>", "<bos>", "<eos>"]
VOCAB = 13
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
seeds = st.integers(0, 2**31)


# Masks ---------------------------------------------------------------------------------------


@st.composite
def masked_scores(draw):
    """Scores (batch, [heads,] queries, keys), and lengths (batch,) or (batch, queries)."""
    batch, queries, keys = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 7))
    heads = draw(st.sampled_from([(), (1,), (3,)]))
    generator = torch.Generator().manual_seed(draw(seeds))
    scale = draw(st.sampled_from([0.0, 1.0, 30.0, 3e4]))
    scores = scale * torch.randn(batch, *heads, queries, keys, generator=generator)
    shape = draw(st.sampled_from([(batch,), (batch, queries)]))
    lens = torch.randint(keys + 1, shape, generator=generator)
    return scores.clamp(-6e4, 6e4).to(draw(st.sampled_from(FLOATS))), lens


def per_row(lens: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """The length of each row of scores: (batch, [heads,] queries, 1)."""
    lens = lens.reshape(len(lens), *[1] * (scores.dim() - 3), -1, 1)
    return lens.expand(*scores.shape[:-1], 1)


@given(masked_scores())
def test_rows_of_weights_sum_to_1_or_0_and_end_at_their_length(given_scores):
    scores, lens = given_scores
    before = scores.clone()
    weights = d2l.masked_softmax(scores, lens)
    assert scores.equal(before)
    assert weights.dtype == scores.dtype
    rows = per_row(lens, scores)
    torch.testing.assert_close(
        weights.float().sum(-1, keepdim=True), (rows > 0).float(), atol=0.03, rtol=0
    )
    assert not weights[torch.arange(scores.shape[-1]) >= rows].any()
    assert (weights >= 0).all()


@given(masked_scores(), st.sampled_from([0.0, 6e4, -torch.inf, torch.inf, torch.nan]))
def test_what_lies_in_the_padding_and_how_long_it_is_never_matters(given_scores, filling):
    scores, lens = given_scores
    padding = torch.arange(scores.shape[-1]) >= per_row(lens, scores)
    weights = d2l.masked_softmax(scores, lens)
    assert d2l.masked_softmax(scores.masked_fill(padding, filling), lens).equal(weights)
    longer = torch.cat([scores, torch.full_like(scores, filling)], dim=-1)
    assert not d2l.masked_softmax(longer, lens)[..., scores.shape[-1] :].any()
    torch.testing.assert_close(
        d2l.masked_softmax(longer, lens)[..., : scores.shape[-1]], weights, check_dtype=True
    )


@given(masked_scores(), st.integers(-100, 100))
def test_sequence_mask_keeps_each_length_and_fills_the_rest(given_scores, value):
    X, lens = given_scores
    X, lens = X.movedim(-1, 1), lens if lens.dim() == 1 else lens[:, 0]
    before = X.clone()
    masked = d2l.sequence_mask(X, lens, value)
    for row, length in enumerate(lens.tolist()):
        assert masked[row, :length].equal(X[row, :length])
        assert (masked[row, length:] == value).all()
    assert X.equal(before)


OTHERS = [torch.float8_e4m3fn, torch.complex64, torch.bool, torch.int8, torch.uint8, torch.int64]
numbers = st.sampled_from([*FLOATS, *OTHERS, torch.uint16, torch.uint64])
sides = st.integers(0, 3)


@st.composite
def any_tensor(draw, shape):
    """Zeros to threes of any type, of nearly this shape, laid out in any way."""
    shape = list(shape)
    if draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = draw(sides)
    if draw(st.integers(0, 5)) == 0:
        shape = [*shape, 1] if draw(st.booleans()) else shape[1:]
    generator = torch.Generator().manual_seed(draw(seeds))
    tensor = torch.randint(0, 4, shape, generator=generator).to(draw(numbers))
    layouts = [
        lambda X: X,
        lambda X: X.transpose(0, -1).clone().transpose(0, -1) if X.dim() else X,
        lambda X: X[:1].expand_as(X) if X.dim() and len(X) else X,
        lambda X: torch.nn.Parameter(X, X.is_floating_point()),
        lambda X: X.to("meta"),
        lambda X: X.to_sparse() if X.dim() and X.numel() and X.dtype in FLOATS else X,
        lambda X: X.tolist(),
    ]
    return draw(st.sampled_from(layouts))(tensor)


def plain_loop(scores: torch.Tensor, lens) -> list[float]:
    """The weights, one row after the other, in float64."""
    lens, weights = torch.as_tensor(lens).to_dense().tolist(), []
    for place in itertools.product(*map(range, scores.shape[:-1])):
        length = lens[place[0]] if isinstance(lens[place[0]], int) else lens[place[0]][place[-1]]
        exps = [math.exp(float(score)) for score in scores.detach()[place][:length]]
        weights += [e / sum(exps) for e in exps] + [0.0] * (scores.shape[-1] - length)
    return weights


@given(any_tensor((2, 3, 3)), any_tensor((2,)) | any_tensor((2, 3)))
@settings(max_examples=400)
def test_any_tensors_give_the_weights_of_a_plain_loop_or_one_sentence(scores, lens):
    try:
        weights = d2l.masked_softmax(scores, lens)
    except (TypeError, ValueError) as error:
        message = str(error)
        assert "must" in message or "valid length" in message
        assert "\n" not in message
    else:
        assert (weights.shape, weights.dtype) == (scores.shape, scores.dtype)
        if not weights.is_meta:
            expected = pytest.approx(plain_loop(scores, lens), abs=0.01)
            assert weights.flatten().tolist() == expected


@given(any_tensor((2, 3)), any_tensor((2,)), st.sampled_from([0, -1, 7.5, 300, math.inf]))
@settings(max_examples=400)
def test_any_tensors_are_masked_or_refused_in_one_sentence(X, lens, value):
    try:
        masked = d2l.sequence_mask(X, lens, value)
    except (TypeError, ValueError) as error:
        message = str(error)
        assert "must" in message or "valid length" in message or "does not fit" in message
        assert "\n" not in message
    else:
        assert (masked.shape, masked.dtype) == (X.shape, X.dtype)
        if not masked.is_meta:
            fill = torch.tensor(value).to(X.dtype)
            for row, before, length in zip(
                masked, X, torch.as_tensor(lens).to_dense().tolist(), strict=True
            ):
                assert row[:length].equal(before[:length])
                assert (row[length:] == fill).all()


@given(masked_scores(), st.integers(1, 5))
def test_both_ways_of_attention_give_the_same(given_scores, size):
    scores, lens = given_scores
    *front, queries, keys = scores.shape
    generator = torch.Generator().manual_seed(size)
    qkv = [torch.randn(*front, steps, size, generator=generator) for steps in (queries, keys, keys)]
    outputs = []
    for keep in (True, False):
        attention = d2l.DotProductAttention()
        attention.keep_weights = keep
        outputs.append(attention(*qkv, lens))
    torch.testing.assert_close(*outputs, atol=1e-5, rtol=1e-5)


# Text ----------------------------------------------------------------------------------------

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
hard_text = st.text(
    st.sampled_from(
        "aAéÉe\u0301 1,.:;!?'’´`\u1ffd\u0374\t\n\r\xa0\u202f\u2028\u200b\xad\ufeff<>«»ΣİßŒ"
    ),
    max_size=30,
)
texts = st.one_of(any_text, hard_text)


@given(texts)
@settings(max_examples=300)
def test_preprocessing_again_changes_nothing(text):
    once = d2l.preprocess_nmt(text)
    assert d2l.preprocess_nmt(once) == once
    assert d2l.preprocess_nmt(" ".join(once.split())) == " ".join(once.split())


@given(texts)
@settings(max_examples=300)
def test_no_token_holds_a_space_or_is_reserved_and_lines_and_columns_stay(text):
    once = d2l.preprocess_nmt(text)
    for token in once.split():
        assert not any(character.isspace() for character in token)
        assert token not in ("<unk>", *RESERVED)
    ends = text.replace("\r\n", "\n").replace("\r", "\n")
    assert (once.count("\n"), once.count("\t")) == (ends.count("\n"), ends.count("\t"))


@given(texts, st.sampled_from(["NFC", "NFD"]))
@settings(max_examples=200)
def test_the_normal_form_and_the_end_of_lines_of_a_text_do_not_matter(text, form):
    expected = d2l.preprocess_nmt(text)
    assert d2l.preprocess_nmt(unicodedata.normalize(form, text)) == expected
    ends = text.replace("\r\n", "\n").replace("\r", "\n")
    for end in ("\r\n", "\r"):
        assert d2l.preprocess_nmt(ends.replace("\n", end)) == expected


@given(st.lists(st.tuples(texts, texts), max_size=8), st.integers(0, 9))
def test_pairs_are_the_lines_with_two_sides_and_no_more_than_asked_for(pairs, num_examples):
    text = d2l.preprocess_nmt("\n".join(f"{one}\t{other}" for one, other in pairs))
    expected = []
    for line in text.split("\n"):
        one, other, *_ = [*line.split("\t"), "", ""]
        if one and other:
            expected.append((one.split(), other.split()))
    if expected:
        source, target = d2l.tokenize_nmt(text, num_examples)
        assert list(zip(source, target, strict=True)) == expected[:num_examples]


# Vocabularies, arrays, batches ---------------------------------------------------------------

words = st.lists(st.text("abcé", min_size=1, max_size=3), max_size=20)


@given(words, st.integers(0, 3), st.randoms(use_true_random=False))
def test_ids_lead_back_to_their_tokens_whatever_the_order_of_the_text(tokens, min_freq, rng):
    vocab = d2l.Vocab(tokens, min_freq, RESERVED)
    ids = vocab[tokens]
    frequent = [token if tokens.count(token) >= min_freq else "<unk>" for token in tokens]
    for form in (ids, torch.tensor(ids, dtype=torch.long), torch.tensor(ids).numpy().astype(int)):
        assert vocab.to_tokens(form) == frequent
    assert vocab[vocab.idx_to_token] == list(range(len(vocab)))
    assert vocab.idx_to_token[:4] == ["<unk>", *RESERVED]
    shuffled = rng.sample(tokens, len(tokens))
    assert d2l.Vocab(shuffled, min_freq, RESERVED).idx_to_token == vocab.idx_to_token


@given(st.lists(words, min_size=1, max_size=6), st.integers(1, 12))
def test_each_row_is_its_sentence_then_eos_then_padding(lines, num_steps):
    vocab = d2l.Vocab(lines, reserved_tokens=RESERVED)
    array, valid_len = d2l.build_array_nmt(lines, vocab, num_steps)
    assert array.shape == (len(lines), num_steps)
    for line, row, length in zip(lines, array, valid_len.tolist(), strict=True):
        expected = [*line[: num_steps - 1], "<eos>"]
        assert length == len(expected)
        assert vocab.to_tokens(row) == expected + ["<pad>"] * (num_steps - length)


@given(st.integers(1, 30), st.integers(1, 40), st.booleans(), seeds)
def test_an_epoch_has_each_row_once(num_rows, batch_size, is_train, seed):
    rows = torch.arange(num_rows)
    torch.manual_seed(seed)
    batches = list(d2l.load_array((rows, -rows), batch_size, is_train))
    assert all(X.equal(-Y) for X, Y in batches)
    seen = torch.cat([X for X, _ in batches])
    assert seen.sort().values.equal(rows)
    assert is_train or seen.equal(rows)
    assert [len(X) for X, _ in batches[:-1]] == [batch_size] * (len(batches) - 1)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(0, 40), seeds)
def test_batches_by_length_have_each_row_once_within_their_tokens(lengths, more, seed):
    lengths, generator = torch.tensor(lengths), torch.Generator().manual_seed(seed)
    num_tokens = int(lengths.max()) + more
    batches = d2l.batches_by_length(lengths, num_tokens, generator)
    assert torch.cat(batches).sort().values.equal(torch.arange(len(lengths)))
    assert all(len(rows) * int(lengths[rows].max()) <= num_tokens for rows in batches)


@given(st.lists(st.tuples(words, words), max_size=12), st.floats(0, 1), st.integers(0, 5))
def test_no_english_sentence_is_on_both_sides(pairs, fraction, seed):
    source, target = [one for one, _ in pairs], [other for _, other in pairs]
    sides = d2l.hold_out_nmt(source, target, fraction, seed)
    train, held_out = ({" ".join(one) for one in side[0]} for side in sides)
    assert not train & held_out
    assert sorted([*zip(*sides[0], strict=True), *zip(*sides[1], strict=True)]) == sorted(pairs)


# The model -----------------------------------------------------------------------------------


@st.composite
def nets_with_tokens(draw):
    """A net of any size, tokens of both sides, and the lengths of both."""
    heads = draw(st.sampled_from([1, 2, 4]))
    sizes = (
        heads * draw(st.integers(1, 4)),
        draw(st.integers(1, 9)),
        heads,
        draw(st.integers(1, 2)),
    )
    torch.manual_seed(draw(seeds))
    net = d2l.EncoderDecoder(
        d2l.TransformerEncoder(VOCAB, *sizes), d2l.TransformerDecoder(VOCAB, *sizes)
    )
    batch, source, target = (draw(st.integers(1, most)) for most in (3, 6, 8))
    X, Y = torch.randint(VOCAB, (batch, source)), torch.randint(VOCAB, (batch, target))
    X_len = torch.randint(source + 1, (batch,))
    Y_len = torch.randint(target + 1, (batch,))
    return net.train(draw(st.booleans())), X, X_len, Y, Y_len


def assert_equal_within_1e_5(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@given(nets_with_tokens(), st.integers(1, 5), st.integers(1, 5))
def test_longer_padding_gives_the_same_logits_and_the_same_loss(everything, more_X, more_Y):
    net, X, X_len, Y, Y_len = everything
    longer_X = torch.cat([X, torch.randint(VOCAB, (len(X), more_X))], dim=1)
    longer_Y = torch.cat([Y, torch.randint(VOCAB, (len(Y), more_Y))], dim=1)
    logits, _ = net(X, Y, X_len)
    longer, _ = net(longer_X, longer_Y, X_len)
    assert_equal_within_1e_5(longer[:, : Y.shape[1]], logits)
    loss = d2l.MaskedSoftmaxCELoss()
    assert_equal_within_1e_5(loss(longer, longer_Y, Y_len), loss(logits, Y, Y_len))


@given(nets_with_tokens(), st.data())
def test_decoding_in_any_chunks_equals_one_pass(everything, choices):
    net, X, X_len, Y, _ = everything
    lens = choices.draw(st.sampled_from([None, X_len]), label="valid lens")
    expected, _ = net(X, Y, lens)
    state = net.decoder.init_state(net.encoder(X, lens), lens)
    logits, done = [], 0
    while done < Y.shape[1]:
        steps = choices.draw(st.integers(1, Y.shape[1] - done), label="steps")
        chunk, state = net.decoder(Y[:, done : done + steps], state)
        logits.append(chunk)
        done += steps
    assert_equal_within_1e_5(torch.cat(logits, dim=1), expected)


@given(nets_with_tokens(), st.integers(0, 7))
def test_no_logit_depends_on_a_later_token(everything, changed):
    net, X, X_len, Y, _ = everything
    changed %= Y.shape[1]
    other = Y.clone()
    other[:, changed:] = (other[:, changed:] + 1) % VOCAB
    logits, _ = net(X, Y, X_len)
    assert_equal_within_1e_5(net(X, other, X_len)[0][:, :changed], logits[:, :changed])


# BLEU ----------------------------------------------------------------------------------------

sentences = st.lists(st.sampled_from(["a", "b", "c", "d", "é", "'", "3,5"]), max_size=12).map(
    " ".join
)


@given(st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=3)), min_size=1))
def test_corpus_bleu_is_sacrebleu_s_with_any_number_of_references(rows):
    import sacrebleu

    hypotheses, references = [row[0] for row in rows], [row[1] for row in rows]
    streams = [
        [several[i] if i < len(several) else None for several in references]
        for i in range(max(map(len, references)))
    ]
    expected = sacrebleu.corpus_bleu(hypotheses, streams, tokenize="none", force=True).score
    assert d2l.corpus_bleu(hypotheses, references) == pytest.approx(expected)


@given(sentences, sentences, st.integers(1, 5))
@settings(max_examples=200)
def test_the_book_s_bleu_lies_in_0_to_1_and_is_1_for_itself(prediction, label, k):
    assert 0 <= d2l.bleu(prediction, label, k) <= 1
    assert d2l.bleu(label, label, k) == (1 if label else 0)


@given(st.binary(max_size=200), st.sampled_from(["pairs.tsv", "pairs.zip"]))
def test_any_file_is_read_or_refused_in_one_sentence(tmp_path_factory, content, name):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    message = ""
    try:
        assert data.read_data_nmt(path).strip()
    except ValueError as error:
        message = str(error)
    assert message == "" or (str(path) in message and "\n" not in message)
