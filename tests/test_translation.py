"""Translation: both searches against plain loops and brute force, BLEU against formulas."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

import d2l_mini as d2l

CPU = torch.device("cpu")
RESERVED = ["<pad>", "<bos>", "<eos>"]
SENTENCES = [
    "She sings a song .",
    "Go .",
    "He is at home , and she is calm .",
    "I won !",
    "Go .",
    "Is he calm ?",
]
NUM_STEPS = 12


def make_vocabs(target: str = "va il elle est calme chez moi j'ai gagné . !"):
    source = [token for sentence in SENTENCES for token in sentence.lower().split()]
    return d2l.Vocab(source, reserved_tokens=RESERVED), d2l.Vocab(
        target.split(), reserved_tokens=RESERVED
    )


def make_net(src_vocab: d2l.Vocab, tgt_vocab: d2l.Vocab, seed: int = 0, dropout: float = 0.0):
    """A net that was never trained, with weights so large that it has firm opinions."""
    torch.manual_seed(seed)
    sizes = (16, 32, 2, 2, dropout)
    net = d2l.EncoderDecoder(
        d2l.TransformerEncoder(len(src_vocab), *sizes),
        d2l.TransformerDecoder(len(tgt_vocab), *sizes),
    )
    with torch.no_grad():
        net.decoder.dense.weight *= 3
        net.decoder.embedding.weight *= 3
        net.decoder.dense.bias[tgt_vocab["<eos>"]] += 1.5
    return net


def make_all(seed: int = 0, dropout: float = 0.0):
    src_vocab, tgt_vocab = make_vocabs()
    return make_net(src_vocab, tgt_vocab, seed, dropout), src_vocab, tgt_vocab


def translate(everything, sentences=SENTENCES, num_steps=NUM_STEPS, **settings):
    net, src_vocab, tgt_vocab = everything
    return d2l.translate(net, sentences, src_vocab, tgt_vocab, num_steps, CPU, **settings)


def source_ids(sentence: str, src_vocab: d2l.Vocab) -> torch.Tensor:
    return torch.tensor([src_vocab[[*sentence.lower().split(), "<eos>"]]])


def next_words(everything, sentence: str, ids: list[int]) -> torch.Tensor:
    """Log-probabilities of the word after each of `ids`, everything computed anew."""
    net, src_vocab, tgt_vocab = everything
    with torch.no_grad():
        logits, _ = net.eval()(source_ids(sentence, src_vocab), torch.tensor([ids]))
    log_probs = torch.log_softmax(logits[0].double(), dim=1)
    log_probs[:, tgt_vocab[["<pad>", "<bos>"]]] = -math.inf
    return log_probs


def plain_greedy(everything, sentence: str, num_steps: int = NUM_STEPS):
    """One sentence, without batch, padding or cache: ids and log-probability."""
    *_, tgt_vocab = everything
    ids, total = [tgt_vocab["<bos>"]], 0.0
    while len(ids) <= num_steps and ids[-1] != tgt_vocab["<eos>"]:
        log_probs = next_words(everything, sentence, ids)[-1]
        ids.append(int(log_probs.argmax()))
        total += float(log_probs.max())
    return ids[1:], total


def output_ids(result: d2l.Translation, tgt_vocab: d2l.Vocab) -> list[int]:
    return tgt_vocab[result.tokens + ["<eos>"] * result.finished]


def forced_log_prob(everything, sentence: str, ids: list[int]) -> float:
    """What the net gives to a known translation, in one pass."""
    log_probs = next_words(everything, sentence, [everything[2]["<bos>"], *ids[:-1]])
    return sum(float(log_probs[i, word]) for i, word in enumerate(ids))


# Greedy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_greedy_equals_a_plain_loop_without_batch_or_cache(seed):
    everything = make_all(seed)
    for sentence, result in zip(SENTENCES, translate(everything), strict=True):
        ids, log_prob = plain_greedy(everything, sentence)
        assert output_ids(result, everything[2]) == ids
        assert result.log_prob == pytest.approx(log_prob, abs=1e-4)
        assert result.text == " ".join(result.tokens)


def test_the_nets_of_these_tests_end_some_sentences_and_not_others():
    results = [result for seed in range(4) for result in translate(make_all(seed))]
    assert {result.finished for result in results} == {True, False}
    assert len({result.text for result in results}) > 8


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 2, 5, 256])
def test_a_batch_gives_what_each_sentence_alone_gives_in_the_order_given(beam_size, batch_size):
    everything = make_all()
    sentences = SENTENCES * 2
    random.Random(0).shuffle(sentences)
    batch = translate(everything, sentences, beam_size=beam_size, batch_size=batch_size)
    for sentence, result in zip(sentences, batch, strict=True):
        [alone] = translate(everything, [sentence], beam_size=beam_size)
        assert result.log_prob == pytest.approx(alone.log_prob, abs=1e-4)
        assert replace(result, log_prob=alone.log_prob) == alone


@pytest.mark.parametrize("beam_size", [1, 3])
def test_only_a_batch_with_padding_is_masked(beam_size):
    everything, masked = make_all(), []
    everything[0].encoder.register_forward_pre_hook(lambda _, args: masked.append(args[1]))
    sentences = ["he's calm .", "i'm home .", "go ."]
    translate(everything, sentences, batch_size=2, beam_size=beam_size)
    assert [lens if lens is None else lens.tolist() for lens in masked] == [[3, 4], None]


def test_the_net_is_moved_only_where_a_part_of_it_is_elsewhere(monkeypatch):
    everything, moved = make_all(), []
    net = everything[0]
    monkeypatch.setattr(net, "to", moved.append)
    translate(everything, ["go ."])
    assert moved == []
    net.decoder.dense.bias = torch.nn.Parameter(net.decoder.dense.bias.to("meta"))
    with pytest.raises(RuntimeError):  # this `to` moves nothing, so that part holds no numbers
        translate(everything, ["go ."])
    assert moved == [CPU]


def test_a_trained_net_translates_each_sentence_by_its_own_translation():
    source = [["go", "."], ["i", "am", "at", "home", "."], ["he", "sings", "."]]
    target = [["va", "!"], ["je", "suis", "chez", "moi", "."], ["il", "chante", "."]]
    train_iter, *vocabs = d2l.build_data_nmt(source, target, 3, 8, min_freq=1)
    torch.manual_seed(0)
    net = d2l.EncoderDecoder(
        d2l.TransformerEncoder(len(vocabs[0]), 16, 32, 2, 1),
        d2l.TransformerDecoder(len(vocabs[1]), 16, 32, 2, 1),
    )
    d2l.train_seq2seq(net, train_iter, 0.02, 40, vocabs[1], CPU)
    sentences = ["I am at home.", "Go.", "He sings."]
    expected = ["je suis chez moi .", "va !", "il chante ."]
    for beam_size in (1, 2):
        results = d2l.translate(net, sentences, *vocabs, 8, CPU, beam_size)
        assert [result.text for result in results] == expected
        assert all(result.finished and result.log_prob > -1 for result in results)


# Beam search ---------------------------------------------------------------------------------


def batch_of(sentences: list[str], src_vocab: d2l.Vocab):
    return d2l.build_array_nmt(
        [sentence.lower().split() for sentence in sentences], src_vocab, NUM_STEPS
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("length_penalty", [0, 0.75])
def test_one_beam_is_greedy_search(seed, length_penalty):
    net, src_vocab, tgt_vocab = make_all(seed)
    arguments = (net.eval(), *batch_of(SENTENCES, src_vocab), tgt_vocab, NUM_STEPS)
    with torch.no_grad():
        tokens, log_probs = d2l.greedy_search(*arguments)
        beam_tokens, beam_log_probs = d2l.beam_search(*arguments, 1, length_penalty)
    assert torch.equal(beam_tokens, tokens)
    torch.testing.assert_close(beam_log_probs, log_probs, atol=1e-4, rtol=0)


def all_outputs(tgt_vocab: d2l.Vocab, num_steps: int) -> list[list[int]]:
    """Every output there can be: ended by <eos> within num_steps, or num_steps long without."""
    eos = tgt_vocab["<eos>"]
    words = [
        i for i in range(len(tgt_vocab)) if i not in tgt_vocab[["<pad>", "<bos>"]] and i != eos
    ]
    outputs = [list(ids) for ids in itertools.product(words, repeat=num_steps)]
    for length in range(num_steps):
        outputs += [[*ids, eos] for ids in itertools.product(words, repeat=length)]
    return outputs


@pytest.mark.parametrize("seed", range(3))
def test_a_beam_that_holds_everything_finds_the_best_output_there_is(seed):
    src_vocab, tgt_vocab = make_vocabs("va !")
    everything = net, *_ = make_net(src_vocab, tgt_vocab, seed), src_vocab, tgt_vocab
    sentences, num_steps = ["go .", "he is calm ."], 3
    outputs = all_outputs(tgt_vocab, num_steps)
    assert len(outputs) == 40  # 27 without <eos>, 1 + 3 + 9 with it
    arguments = (net.eval(), *batch_of(sentences, src_vocab), tgt_vocab, num_steps)
    scores = [[forced_log_prob(everything, text, ids) for ids in outputs] for text in sentences]
    greedy = [plain_greedy(everything, text, num_steps)[0] for text in sentences]
    for penalty in (0, 0.75, 1.5):
        with torch.no_grad():
            tokens, log_probs = d2l.beam_search(*arguments, len(outputs), penalty)
        for i in range(len(sentences)):
            ranks = [
                score / len(ids) ** penalty for score, ids in zip(scores[i], outputs, strict=True)
            ]
            best = ranks.index(max(ranks))
            length = len(outputs[best])
            assert tokens[i, :length].tolist() == outputs[best]
            assert set(tokens[i, length:].tolist()) <= {tgt_vocab["<eos>"]}
            assert float(log_probs[i]) == pytest.approx(scores[i][best], abs=1e-4)
            rank = float(log_probs[i]) / length**penalty
            assert rank >= ranks[outputs.index(greedy[i])] - 1e-4


def test_a_beam_finds_more_probable_outputs_than_greedy_search():
    gains = []
    for seed in range(4):
        greedy, beam = (
            translate(make_all(seed), beam_size=size, length_penalty=0) for size in (1, 4)
        )
        gains += [b.log_prob - a.log_prob for a, b in zip(greedy, beam, strict=True)]
    assert max(gains) > 0.1
    assert sum(gains) > 0


def test_the_length_penalty_makes_longer_outputs_win():
    lengths = [
        sum(
            len(result.tokens)
            for seed in range(3)
            for result in translate(make_all(seed), beam_size=4, length_penalty=penalty)
        )
        for penalty in (0, 0.75, 5)
    ]
    assert lengths[0] <= lengths[1] <= lengths[2]
    assert lengths[0] < lengths[2]


def test_a_beam_wider_than_the_vocabulary_works():
    src_vocab, tgt_vocab = make_vocabs("va !")
    everything = make_net(src_vocab, tgt_vocab), src_vocab, tgt_vocab
    [result] = translate(everything, ["go"], num_steps=2, beam_size=50, length_penalty=0)
    scores = [forced_log_prob(everything, "go", ids) for ids in all_outputs(tgt_vocab, 2)]
    assert result.log_prob == pytest.approx(max(scores), abs=1e-4)


def test_a_beam_step_keeps_the_best_and_leaves_ended_beams_alone():
    beams = d2l.Beams(
        scores=torch.tensor([[-1.0, -2.0]]),
        lengths=torch.tensor([[2.0, 1.0]]),
        finished=torch.tensor([[False, True]]),
    )
    log_probs = torch.tensor([[[-0.5, -3.0, -4.0], [-0.1, -0.1, -0.1]]])
    after, beam, token = d2l.beam_step(beams, log_probs, eos=2, length_penalty=0)
    assert (beam.tolist(), token.tolist()) == ([[0, 1]], [[0, 2]])
    assert after.scores.tolist() == [[-1.5, -2.0]]
    assert after.lengths.tolist() == [[3.0, 1.0]]
    assert after.finished.tolist() == [[False, True]]


# What a result says --------------------------------------------------------------------------


@pytest.mark.parametrize("beam_size", [1, 2, 4])
@pytest.mark.parametrize("seed", range(2))
def test_log_prob_is_what_the_net_gives_to_that_output(beam_size, seed):
    everything = make_all(seed)
    results = translate(everything, beam_size=beam_size)
    for sentence, result in zip(SENTENCES, results, strict=True):
        expected = forced_log_prob(everything, sentence, output_ids(result, everything[2]))
        assert result.log_prob == pytest.approx(expected, abs=1e-4)
        assert type(result.log_prob) is float


@pytest.mark.parametrize("beam_size", [1, 3])
def test_pad_and_bos_are_never_written(beam_size):
    net, src_vocab, tgt_vocab = make_all()
    with torch.no_grad():
        net.decoder.dense.bias[tgt_vocab[["<pad>", "<bos>"]]] = 50
    for result in translate((net, src_vocab, tgt_vocab), beam_size=beam_size):
        assert not {"<pad>", "<bos>", "<eos>"} & set(result.tokens)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_sentence_that_cannot_end_is_marked_as_not_finished(beam_size):
    """F033: no <eos>, and it looks finished."""
    net, src_vocab, tgt_vocab = make_all()
    with torch.no_grad():
        net.decoder.dense.bias[tgt_vocab["<eos>"]] = -1e9
    for result in translate((net, src_vocab, tgt_vocab), beam_size=beam_size):
        assert not result.finished
        assert len(result.tokens) == NUM_STEPS
        assert math.isfinite(result.log_prob)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_sentence_that_ends_at_once_is_empty_and_finished(beam_size):
    net, src_vocab, tgt_vocab = make_all()
    with torch.no_grad():
        net.decoder.dense.bias[tgt_vocab["<eos>"]] = 50
    for result in translate((net, src_vocab, tgt_vocab), beam_size=beam_size):
        assert (result.text, result.tokens, result.finished) == ("", [], True)
        assert result.log_prob == pytest.approx(0, abs=1e-3)


def test_words_that_the_vocabulary_lacks_are_listed_each_time():
    [result, known] = translate(make_all(), ["He yodels, and she yodels!", "Go."])
    assert result.unknown == ["yodels", "yodels"]
    assert known.unknown == []


@pytest.mark.parametrize(("num_words", "truncated"), [(4, False), (5, True), (9, True)])
def test_a_sentence_that_is_too_long_is_cut_with_a_warning(num_words, truncated):
    """F031: a source is cut without a word."""
    everything = make_all()
    sentence = " ".join(["go"] * num_words)
    if truncated:
        with pytest.warns(UserWarning, match=f"sentence 1 has {num_words} tokens, more than the 4"):
            result = translate(everything, ["go .", sentence], num_steps=5)[1]
    else:
        result = translate(everything, ["go .", sentence], num_steps=5)[1]
    assert result.truncated is truncated
    [shorter] = translate(everything, ["go go go go"], num_steps=5)
    assert (result.text, result.truncated) == (shorter.text, truncated)


@pytest.mark.parametrize("sentence", ["Go.", "GO .", "  go  .  ", "go\u00a0.", "Go.\n"])
def test_a_sentence_is_prepared_as_in_training(sentence):
    """F038: what is typed is not prepared as in training."""
    everything = make_all()
    assert translate(everything, [sentence]) == translate(everything, ["go ."])


# What goes in --------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", ["", "   ", "\n"])
def test_an_empty_sentence_is_refused_by_its_number(empty):
    with pytest.raises(ValueError, match="sentence 1 is empty"):
        translate(make_all(), ["go .", empty])


@pytest.mark.parametrize("wrong", ["go .", [1, 2], ["go .", None], b"go ."])
def test_anything_but_a_list_of_strings_is_refused(wrong):
    with pytest.raises(TypeError, match="list of strings"):
        translate(make_all(), wrong)


@pytest.mark.parametrize("given", [tuple, iter])
def test_a_tuple_or_an_iterator_of_sentences_is_as_good_as_a_list(given):
    everything = make_all()
    assert translate(everything, given(SENTENCES)) == translate(everything, SENTENCES)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_no_sentences_give_no_results(beam_size):
    assert translate(make_all(), [], beam_size=beam_size) == []


@pytest.mark.parametrize("name", ["num_steps", "beam_size", "batch_size"])
@pytest.mark.parametrize("number", [0, -1])
def test_numbers_below_one_are_refused_by_name(name, number):
    with pytest.raises(ValueError, match=f"{name} is {number}; it must be 1 or more"):
        translate(make_all(), **{name: number})


@pytest.mark.parametrize("side", [1, 2])
@pytest.mark.parametrize("token", ["<pad>", "<eos>"])
def test_a_vocabulary_without_a_reserved_token_is_refused(side, token):
    everything = list(make_all())
    reserved = [other for other in RESERVED if other != token]
    everything[side] = d2l.Vocab(everything[side].idx_to_token, reserved_tokens=reserved)
    everything[side].token_to_idx.pop(token)
    with pytest.raises(ValueError, match=f"lacks {token}"):
        translate(everything)


def test_a_target_vocabulary_without_bos_is_refused():
    net, src_vocab, tgt_vocab = make_all()
    tgt_vocab.token_to_idx.pop("<bos>")
    with pytest.raises(ValueError, match="tgt_vocab lacks <bos>"):
        translate((net, src_vocab, tgt_vocab))


# What it does to the net ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_translating_ignores_dropout_and_gives_back_the_mode_it_found(mode, beam_size):
    everything = make_all(dropout=0.5)
    expected = translate(make_all(), beam_size=beam_size)
    everything[0].train(mode)
    assert translate(everything, beam_size=beam_size, save_attention_weights=False) == expected
    assert all(module.training is mode for module in everything[0].modules())
    translate(everything, beam_size=beam_size, save_attention_weights=True)
    assert all(module.training is mode for module in everything[0].modules())


@pytest.mark.parametrize("mode", [True, False])
def test_an_error_in_the_middle_gives_back_the_mode_too(mode):
    net, src_vocab, tgt_vocab = make_all()
    net.train(mode)
    net.decoder.dense.register_forward_hook(lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        translate((net, src_vocab, tgt_vocab))
    assert all(module.training is mode for module in net.modules())


def test_translating_leaves_weights_gradients_and_random_numbers_alone():
    net, src_vocab, tgt_vocab = make_all(dropout=0.5)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    random_state = torch.get_rng_state()
    translate((net, src_vocab, tgt_vocab), save_attention_weights=True)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_no_attention_weights_are_kept_where_no_one_looks_at_them():
    everything = make_all()
    net = everything[0].eval()
    for beam_size in (1, 3):
        translate(everything, beam_size=beam_size)
        assert net.encoder.attention_weights == [None, None]
        assert net.decoder.attention_weights == [[None, None], [None, None]]
    net.encoder(torch.tensor([[4, 5]]))
    assert net.encoder.attention_weights[0].shape == (1, 2, 2, 2)  # in eval mode, as before


# Attention maps ------------------------------------------------------------------------------


@pytest.fixture(params=[1, 3])
def mapped(request):
    """A net, its vocabularies and SENTENCES translated with attention maps, by each search."""
    everything = make_all(dropout=0.5)
    everything[0].train()
    return everything, translate(everything, beam_size=request.param, save_attention_weights=True)


def test_maps_have_a_row_for_each_step_and_name_their_words(mapped):
    """F034: maps that grow from step to step, with columns of padding."""
    for sentence, result in zip(SENTENCES, mapped[1], strict=True):
        maps = result.attention
        assert maps.source == [*sentence.lower().split(), "<eos>"]
        assert maps.outputs == result.tokens + ["<eos>"] * result.finished
        assert maps.inputs == ["<bos>", *maps.outputs[:-1]]
        source, target = len(maps.source), len(maps.outputs)
        assert maps.encoder.shape == (2, 2, source, source)
        assert maps.decoder.shape == (2, 2, target, target)
        assert maps.cross.shape == (2, 2, target, source)


def test_rows_of_maps_sum_to_one_and_the_decoder_never_looks_ahead(mapped):
    for result in mapped[1]:
        for weights in result.attention[:3]:
            sums = weights.sum(dim=-1)
            torch.testing.assert_close(sums, torch.ones_like(sums))
        assert torch.equal(result.attention.decoder, result.attention.decoder.tril())


def test_maps_equal_the_weights_recorded_at_each_cached_step(mapped):
    (net, src_vocab, tgt_vocab), results = mapped
    net.eval()
    for sentence, result in zip(SENTENCES, results, strict=True):
        maps, X = result.attention, source_ids(sentence, src_vocab)
        with torch.no_grad(), d2l.keep_attention_weights(net, True):
            state = net.decoder.init_state(net.encoder(X))
            torch.testing.assert_close(maps.encoder, torch.cat(net.encoder.attention_weights))
            for t, word in enumerate(maps.inputs):
                _, state = net.decoder(torch.tensor([[tgt_vocab[word]]]), state)
                own, cross = (torch.cat(layers) for layers in net.decoder.attention_weights)
                torch.testing.assert_close(maps.decoder[:, :, t : t + 1, : t + 1], own)
                torch.testing.assert_close(maps.cross[:, :, t : t + 1], cross)


def test_maps_are_ordinary_tensors_that_a_reader_can_compute_with(mapped):
    """F030: maps that hold on to the graph."""
    for weights in mapped[1][0].attention[:3]:
        assert not weights.requires_grad
        assert not weights.is_inference()
        assert weights.device == CPU
        factor = torch.ones((), requires_grad=True)
        (weights * factor).sum().backward()
        assert float(factor.grad) == pytest.approx(float(weights.sum()))
        weights.mul_(2)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_maps_come_only_where_asked_and_do_not_change_the_translation(beam_size):
    everything = make_all()
    plain = translate(everything, beam_size=beam_size)
    results = translate(everything, beam_size=beam_size, save_attention_weights=True)
    assert [result.attention for result in plain] == [None] * len(SENTENCES)
    assert results == plain
    assert all(result.attention for result in results)


def test_maps_of_a_sentence_that_was_cut_show_what_was_read():
    with pytest.warns(UserWarning, match="the rest was not read"):
        [result] = translate(
            make_all(), ["he yodels and she is calm"], 4, save_attention_weights=True
        )
    assert result.attention.source == ["he", "yodels", "and", "<eos>"]
    assert result.attention.cross.shape[-1] == 4


def test_predict_seq2seq_gives_a_text_and_maps_where_asked():
    net, src_vocab, tgt_vocab = make_all()
    arguments = (net, "Is he calm?", src_vocab, tgt_vocab, NUM_STEPS, CPU)
    [expected] = translate((net, src_vocab, tgt_vocab), ["is he calm ?"])
    assert d2l.predict_seq2seq(*arguments) == (expected.text, None)
    text, maps = d2l.predict_seq2seq(*arguments, save_attention_weights=True)
    assert text == expected.text
    assert maps.source == ["is", "he", "calm", "?", "<eos>"]
    assert maps.cross.shape == (2, 2, len(maps.outputs), 5)


# BLEU ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prediction", "label", "k", "expected"),
    [
        ("va !", "va !", 2, 1),
        ("je je je", "je suis", 1, (1 / 3) ** 0.5),  # a word counts as often as in the label
        ("va", "va a b", 1, math.exp(-2)),  # too short by two words
        ("va a b", "va", 1, (1 / 3) ** 0.5),  # too long costs precision only
        ("A B B C D", "A B C D E F", 2, math.exp(-1 / 5) * (4 / 5) ** 0.5 * (3 / 4) ** 0.25),
        ("va", "va !", 2, math.exp(-1)),  # shorter than k
        ("va !", "va !", 4, 1),
        ("va", "non", 1, 0),
        ("a b", "b a", 2, 0),
        ("", "va !", 2, 0),
        ("", "", 1, 0),
        ("  va   ! ", "va !", 2, 1),
    ],
)
def test_bleu_has_the_value_of_the_book(prediction, label, k, expected):
    """F063, F064, F067: shorter than k; empty; the brevity penalty turned round."""
    assert d2l.bleu(prediction, label, k) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("k", [0, -1])
def test_bleu_refuses_a_k_below_one(k):
    with pytest.raises(ValueError, match=f"k is {k}"):
        d2l.bleu("va !", "va !", k)


def bleu_by_formula(prediction: list[str], label: list[str], k: int) -> float:
    """exp(min(0, 1 - len(label) / len(prediction))) * product of p_n ** (1 / 2 ** n)."""
    log_score = min(0.0, 1 - len(label) / len(prediction))
    for n in range(1, min(k, len(prediction)) + 1):
        left = Counter(zip(*(label[i:] for i in range(n)), strict=False))
        runs = list(zip(*(prediction[i:] for i in range(n)), strict=False))
        hits = 0
        for run in runs:
            if left[run] > 0:
                left[run] -= 1
                hits += 1
        if hits == 0:
            return 0.0
        log_score += math.log(hits / len(runs)) / 2**n
    return math.exp(log_score)


def test_bleu_equals_the_formula_on_random_sentences():
    rng = random.Random(0)
    scores = []
    for _ in range(500):
        prediction, label = (rng.choices("abc", k=rng.randint(1, 9)) for _ in range(2))
        k = rng.randint(1, 4)
        scores.append(d2l.bleu(" ".join(prediction), " ".join(label), k))
        assert scores[-1] == pytest.approx(bleu_by_formula(prediction, label, k))
    assert len(set(scores)) > 100


HYPOTHESES = [
    "je suis chez moi ce soir .",
    "il est très calme .",
    "va maintenant !",
    "elle chante une chanson à la maison .",
]
REFERENCES = [
    ["je suis chez moi ce soir .", "je suis à la maison ce soir ."],
    ["il est vraiment très calme ."],
    ["va !", "vas-y !", "va maintenant !"],
    ["elle chante une belle chanson à la maison .", "elle est chez elle et chante une chanson ."],
]


def by_sacrebleu(hypotheses: list[str], streams: list[list[str | None]]) -> float:
    import sacrebleu

    return sacrebleu.corpus_bleu(hypotheses, streams, tokenize="none", force=True).score


def test_corpus_bleu_equals_sacrebleu_with_one_reference():
    first = [references[0] for references in REFERENCES]
    expected = by_sacrebleu(HYPOTHESES, [first])
    assert 10 < expected < 90
    assert d2l.corpus_bleu(HYPOTHESES, first) == pytest.approx(expected)
    assert d2l.corpus_bleu(HYPOTHESES, [[ref] for ref in first]) == pytest.approx(expected)


def test_corpus_bleu_equals_sacrebleu_with_references_of_different_number():
    streams = [
        [references[i] if i < len(references) else None for references in REFERENCES]
        for i in range(3)
    ]
    expected = by_sacrebleu(HYPOTHESES, streams)
    assert expected > d2l.corpus_bleu(HYPOTHESES, [references[0] for references in REFERENCES])
    assert d2l.corpus_bleu(HYPOTHESES, REFERENCES) == pytest.approx(expected)


def test_corpus_bleu_gives_each_hypothesis_its_own_references():
    """F065: references transposed."""
    one, other = HYPOTHESES[0], HYPOTHESES[3]
    references = [["un autre texte .", one], [other, "un autre texte ."]]
    assert d2l.corpus_bleu([one, other], references) == pytest.approx(100)
    assert d2l.corpus_bleu([one, other], references[::-1]) < 50


def test_corpus_bleu_is_not_the_mean_of_the_sentences():
    sentences = [
        d2l.corpus_bleu([hypothesis], [references])
        for hypothesis, references in zip(HYPOTHESES, REFERENCES, strict=True)
    ]
    mean = sum(sentences) / len(sentences)
    assert abs(d2l.corpus_bleu(HYPOTHESES, REFERENCES) - mean) > 1


def test_corpus_bleu_is_zero_where_no_hypothesis_has_four_tokens():
    """F066: short sentences; the docstring explains it."""
    assert d2l.corpus_bleu(["va maintenant !"], ["va maintenant !"]) == 0
    assert d2l.corpus_bleu(["va a b c"], ["va a b d"]) > 0


def test_corpus_bleu_gives_raw_and_prepared_text_the_same_score():
    raw = ["Je suis chez moi, ce soir.", "L’été est chaud !"]
    prepared = ["je suis chez moi , ce soir .", "l'été est chaud !"]
    others = ["Je suis chez moi ce soir.", "L'été est très chaud !"]
    score = d2l.corpus_bleu(prepared, others)
    assert 10 < score < 90
    assert d2l.corpus_bleu(raw, others) == pytest.approx(score)
    assert d2l.corpus_bleu(raw, prepared) == pytest.approx(100)


def test_corpus_bleu_says_nothing_about_a_long_list_of_prepared_text(caplog, capfd):
    d2l.corpus_bleu(["je suis chez moi ."] * 150, ["je suis chez moi ."] * 150)
    assert caplog.text == ""
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["va !", "non ."], ["va !"], "2 hypotheses and 1 references"),
        (["va !"], ["va !", "non .", "oui ."], "1 hypotheses and 3 references"),
        ([], [], "0 hypotheses and 0 references"),
        (["va !", "non ."], [["va !"], []], "hypothesis 1 has no reference"),
    ],
)
def test_corpus_bleu_names_what_does_not_fit(hypotheses, references, message):
    with pytest.raises(ValueError, match=message):
        d2l.corpus_bleu(hypotheses, references)


def test_more_steps_than_positions_are_refused_at_once():
    with pytest.raises(ValueError, match="num_steps is 1001, but the net knows 1000 positions"):
        translate(make_all(), num_steps=1001)


@pytest.mark.parametrize("length_penalty", [-1, float("nan"), float("inf")])
def test_a_length_penalty_out_of_range_is_refused(length_penalty):
    with pytest.raises(ValueError, match=f"length_penalty must be .* {length_penalty}"):
        translate(make_all(), beam_size=2, length_penalty=length_penalty)


def test_a_net_that_scores_with_nan_says_so():
    everything = make_all()
    everything[0].decoder.dense.bias.data[5] = float("nan")
    with pytest.raises(FloatingPointError, match="NaN"):
        translate(everything)


@pytest.mark.parametrize("hypotheses", ["va !", [make_all]], ids=["one string", "no strings"])
def test_corpus_bleu_wants_a_list_of_strings(hypotheses):
    with pytest.raises(TypeError, match="must be a list of strings"):
        d2l.corpus_bleu(hypotheses, ["va !"])


def test_chrf_is_sacrebleu_s_with_all_references_and_forgives_an_ending():
    from sacrebleu.metrics import CHRF

    texts = ["elle est grand .", "il dort ."]
    references = [["elle est grande .", "elle est haute ."], "il dort ."]
    streams = [["elle est grande .", "il dort ."], ["elle est haute .", None]]
    assert d2l.corpus_chrf(texts, references) == CHRF().corpus_score(texts, streams).score
    assert 80 < d2l.corpus_chrf(texts, references) < 100
    assert d2l.corpus_chrf(["Il dort."], ["il dort ."]) == pytest.approx(100)
    with pytest.raises(ValueError, match="each hypothesis needs its reference"):
        d2l.corpus_chrf(texts, references[:1])


@pytest.mark.parametrize("wrong", [None, "go .", [[1, 2]], torch.ones(2, 3)])
def test_a_search_refuses_what_holds_no_token_ids(wrong):
    net, _, tgt_vocab = make_all()
    with pytest.raises(TypeError, match=r"must be a dense tensor|token ids must be"):
        d2l.greedy_search(net, wrong, None, tgt_vocab, 5)
    with pytest.raises(TypeError, match=r"must be a dense tensor|token ids must be"):
        d2l.beam_search(net, wrong, None, tgt_vocab, 5, 2)


def test_a_gradient_goes_back_through_the_log_probabilities():
    """F009: nothing is changed in place that the backward pass needs."""
    net, src_vocab, tgt_vocab = make_all()
    enc_X = source_ids(SENTENCES[0], src_vocab)
    state = net.decoder.init_state(net.encoder(enc_X))
    token = torch.tensor([[tgt_vocab["<bos>"]]])
    log_probs, _ = d2l.next_log_probs(net, token, state, tgt_vocab)
    log_probs[:, tgt_vocab["va"]].sum().backward()
    assert net.decoder.dense.weight.grad.abs().sum() > 0


def test_a_dictionary_of_references_is_not_scored_by_its_keys():
    for score in (d2l.corpus_bleu, d2l.corpus_chrf):
        with pytest.raises(TypeError, match="references must be a list of sentences"):
            score(["va !"], {"go .": ["va !"]})


def test_another_library_s_transformer_is_refused_by_its_name():
    _, src_vocab, tgt_vocab = make_all()
    net = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    with pytest.raises(TypeError, match="net must be an EncoderDecoder, but is a Transformer"):
        d2l.translate(net, ["go ."], src_vocab, tgt_vocab, 5, "cpu")


def test_searches_add_up_in_float32_whatever_the_default():
    everything = make_all()
    expected = [translate(everything, beam_size=size)[0].log_prob for size in (1, 2)]
    torch.set_default_dtype(torch.bfloat16)
    try:
        found = [translate(everything, beam_size=size)[0].log_prob for size in (1, 2)]
    finally:
        torch.set_default_dtype(torch.float32)
    assert found == expected
