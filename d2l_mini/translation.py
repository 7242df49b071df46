"""Translation: from a sentence to a sentence, greedily or by beam search, and how good it is."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from d2l_mini.attention import keep_attention_weights
from d2l_mini.checks import (
    check_count,
    check_device,
    check_floats,
    check_number,
    check_text,
    check_texts,
)
from d2l_mini.data import Vocab, build_array_nmt, check_vocab, preprocess_nmt, trim_padding
from d2l_mini.transformer import EncoderDecoder, check_halves, in_mode

__all__ = [
    "AttentionMaps",
    "Beams",
    "Translation",
    "attention_maps",
    "beam_search",
    "beam_step",
    "beam_steps",
    "bleu",
    "corpus_bleu",
    "corpus_chrf",
    "greedy_search",
    "next_log_probs",
    "predict_seq2seq",
    "translate",
]


class AttentionMaps(NamedTuple):
    """What each step of one translation looked at, with the words of every row and column.

    encoder  (layers, heads, source, source): rows and columns are `source`
    decoder  (layers, heads, target, target): rows write `outputs`, columns are `inputs`
    cross    (layers, heads, target, source): rows write `outputs`, columns are `source`
    source   the tokens that the encoder read, <eos> last; unknown words as they were typed
    inputs   the tokens that the decoder read, <bos> first
    outputs  the tokens that it wrote, one for each input; <eos> last if it came to an end
    """

    encoder: Tensor
    decoder: Tensor
    cross: Tensor
    source: list[str]
    inputs: list[str]
    outputs: list[str]


@dataclass(frozen=True)
class Translation:
    """One sentence's translation.

    text       the tokens joined by spaces
    tokens     without <eos>
    log_prob   of all tokens, <eos> included if it came, in nats
    finished   whether <eos> came within num_steps
    unknown    the source words that the vocabulary lacks, each time they occur
    truncated  whether the source was longer than num_steps and was cut
    attention  the maps, or None if they were not asked for
    """

    text: str
    tokens: list[str]
    log_prob: float
    finished: bool
    unknown: list[str] = field(default_factory=list)
    truncated: bool = False
    attention: AttentionMaps | None = field(default=None, repr=False, compare=False)


def check_search(net: EncoderDecoder, tgt_vocab: Vocab) -> None:
    """Raise TypeError or ValueError where a search cannot go by this net and this vocabulary."""
    check_halves(net)
    check_vocab("tgt_vocab", tgt_vocab, "<pad>", "<bos>", "<eos>")


def greedy_search(
    net: EncoderDecoder,
    enc_X: Tensor,
    enc_valid_lens: Tensor | None,
    tgt_vocab: Vocab,
    num_steps: int,
) -> tuple[Tensor, Tensor]:
    """Choose the most probable next word, again and again, for all sentences of a batch at once.

    enc_X           (batch, source steps), token ids
    enc_valid_lens  (batch,): how many source steps count; None = all
    returns         tokens (batch, steps), filled up with <eos>, and log_probs (batch,) in nats
    """
    check_search(net, tgt_vocab)
    num_steps = check_count("num_steps", num_steps, 1)
    eos = tgt_vocab["<eos>"]
    state = net.decoder.init_state(net.encoder(enc_X, enc_valid_lens), enc_valid_lens)
    token = enc_X.new_full((len(enc_X), 1), tgt_vocab["<bos>"])  # (sentences not ended, 1)
    rows = torch.arange(len(enc_X), device=enc_X.device)  # where these stand in the batch
    tokens = torch.full((len(enc_X), num_steps), eos, device=enc_X.device)
    total = torch.zeros(len(enc_X), dtype=torch.float32, device=enc_X.device)
    for step in range(num_steps):
        log_probs, state = next_log_probs(net, token, state, tgt_vocab)
        best, token = log_probs.max(dim=-1, keepdim=True)
        tokens[rows, step] = token.squeeze(1)
        total[rows] += best.squeeze(1)
        go_on = (token.squeeze(1) != eos).nonzero().squeeze(1)
        if len(go_on) == 0:
            break
        if len(go_on) < len(rows):  # what has ended leaves the batch
            rows, token = rows[go_on], token[go_on]
            state = [blk_state.select(go_on) for blk_state in state]
    return tokens[:, : step + 1], total


def next_log_probs(net: EncoderDecoder, token: Tensor, state: list, tgt_vocab: Vocab):
    """Feed one token a sentence, (batch, 1), to the decoder.

    returns  log-probabilities of the next one (batch, vocab), and the state after it; <pad> and
             <bos> never come next
    """
    check_search(net, tgt_vocab)
    logits, state = net.decoder(token, state)
    log_probs = torch.log_softmax(logits[:, -1].float(), dim=-1)
    never = torch.tensor(tgt_vocab[["<pad>", "<bos>"]], device=token.device)
    return log_probs.index_fill(1, never, -torch.inf), state


class Beams(NamedTuple):
    """The beginnings kept for each sentence of a batch; all fields are (batch, beams).

    scores    log-probability so far, in nats
    lengths   tokens so far, <eos> included
    finished  whether <eos> has come
    """

    scores: Tensor
    lengths: Tensor
    finished: Tensor

    def ranks(self, length_penalty: float) -> Tensor:
        """What the beams are compared by: log-probability over length ** length_penalty.

        Raises ValueError if length_penalty is no number in 0 ... 10.
        """
        length_penalty = check_number("length_penalty", length_penalty, 0, 10)
        return self.scores / self.lengths**length_penalty


def check_beams(beams: Beams, log_probs: Tensor) -> None:
    """Raise TypeError or ValueError where beams cannot go on by these log-probabilities."""
    if not hasattr(beams, "finished"):  # a reader's own class will do
        raise TypeError(f"beams must be Beams, but are a {type(beams).__name__}")
    check_floats(log_probs, "log_probs")
    if log_probs.dim() != 3 or log_probs.shape[:2] != beams.finished.shape:
        raise ValueError(
            f"log_probs must be (batch, beams, vocab) for {tuple(beams.finished.shape)} beams, but "
            f"have shape {tuple(log_probs.shape)}"
        )
    if log_probs.device != beams.finished.device:
        raise TypeError(
            f"log_probs must be where the beams are, on {beams.finished.device}, but are on "
            f"{log_probs.device}"
        )


def beam_step(
    beams: Beams, log_probs: Tensor, eos: int, length_penalty: float
) -> tuple[Beams, Tensor, Tensor]:
    """Go on from every beam by every word, and keep the best.

    log_probs  (batch, beams, vocab), of the next word
    returns    the next beams; which beam each goes on from, and by which token: (batch, beams)

    Raises ValueError if the shapes do not fit or a number lies outside, TypeError if one of these
    is something else.
    """
    check_beams(beams, log_probs)
    _, width, vocab = log_probs.shape
    eos = check_count("eos", eos, 0, vocab - 1)
    ended = beams.finished[..., None]  # a beam that has ended stays as it is: <eos>, at no cost
    log_probs = log_probs.masked_fill(ended, -torch.inf)
    log_probs[..., eos] = log_probs[..., eos].masked_fill(beams.finished, 0)
    scores = beams.scores[..., None] + log_probs  # (batch, beams, vocab)
    lengths = beams.lengths + ~beams.finished  # the same for all words that a beam goes on by
    ranks = Beams(scores, lengths[..., None], ended).ranks(length_penalty)
    best = ranks.flatten(1).topk(width, dim=1).indices  # (batch, beams)
    beam, token = best // vocab, best % vocab
    scores = scores.flatten(1).gather(1, best)
    lengths, finished = lengths.gather(1, beam), beams.finished.gather(1, beam)
    return Beams(scores, lengths, finished | (token == eos)), beam, token


def beam_steps(
    net: EncoderDecoder,
    enc_X: Tensor,
    enc_valid_lens: Tensor | None,
    tgt_vocab: Vocab,
    num_steps: int,
    beam_size: int,
    length_penalty: float,
) -> Iterator[tuple[Beams, Tensor, Tensor]]:
    """Let the beams of every sentence of a batch grow, and give what `beam_step` does each time."""
    check_search(net, tgt_vocab)
    num_steps = check_count("num_steps", num_steps, 1)
    beam_size = check_count("beam_size", beam_size, 1)
    state = net.decoder.init_state(net.encoder(enc_X, enc_valid_lens), enc_valid_lens)
    batch, device = len(enc_X), enc_X.device
    first_row = torch.arange(batch, device=device)[:, None] * beam_size  # (batch, 1)
    rows = torch.arange(batch, device=device).repeat_interleave(beam_size)
    state = [blk_state.select(rows) for blk_state in state]
    scores = torch.full((batch, beam_size), -torch.inf, dtype=torch.float32, device=device)
    scores[:, 0] = 0  # at first all beams are alike: go on from one of them
    beams = Beams(scores, torch.zeros_like(scores), torch.zeros_like(scores, dtype=torch.bool))
    token = enc_X.new_full((batch, beam_size), tgt_vocab["<bos>"])
    for _ in range(num_steps):
        log_probs, state = next_log_probs(net, token.reshape(-1, 1), state, tgt_vocab)
        log_probs = log_probs.unflatten(0, (batch, beam_size))
        beams, beam, token = beam_step(beams, log_probs, tgt_vocab["<eos>"], length_penalty)
        yield beams, beam, token
        if beams.finished.all():
            break
        rows = (first_row + beam).flatten()
        state = [blk_state.reorder(rows) for blk_state in state]


def beam_search(
    net: EncoderDecoder,
    enc_X: Tensor,
    enc_valid_lens: Tensor | None,
    tgt_vocab: Vocab,
    num_steps: int,
    beam_size: int,
    length_penalty: float = 0.75,
) -> tuple[Tensor, Tensor]:
    """Keep the `beam_size` best beginnings of each sentence at every step (book, section 10.8).

    A beginning is ranked by its log-probability over its length to the power `length_penalty`; one
    that has ended stays as it is and competes on.

    returns  as `greedy_search`, for the best of each sentence
    """
    search = (net, enc_X, enc_valid_lens, tgt_vocab, num_steps, beam_size, length_penalty)
    steps = list(beam_steps(*search))
    beams, *_ = steps[-1]
    best = beams.ranks(length_penalty).argmax(dim=1, keepdim=True)  # (batch, 1)
    total = beams.scores.gather(1, best)
    tokens = []
    for _, beam, token in reversed(steps):  # from the last token back to the first
        tokens.insert(0, token.gather(1, best))
        best = beam.gather(1, best)
    return torch.cat(tokens, dim=1), total.squeeze(1)


def attention_maps(net: EncoderDecoder, enc_X: Tensor, dec_X: Tensor) -> list[Tensor]:
    """The encoder's, the decoder's and the cross-attention weights of one sentence.

    One pass over a finished translation sees at each step what decoding step by step saw.

    enc_X    (1, source), token ids without padding
    dec_X    (1, target), token ids, <bos> first
    returns  (layers, heads, queries, keys) each, on the CPU
    """
    with torch.no_grad(), keep_attention_weights(net, True):
        net(enc_X, dec_X)
    kinds = [net.encoder.attention_weights, *net.decoder.attention_weights]
    return [torch.cat(layers).cpu() for layers in kinds]


def translate(
    net: EncoderDecoder,
    sentences: Sequence[str],
    src_vocab: Vocab,
    tgt_vocab: Vocab,
    num_steps: int,
    device: torch.device,
    beam_size: int = 1,
    *,
    length_penalty: float = 0.75,
    save_attention_weights: bool = False,
    batch_size: int = 256,
) -> list[Translation]:
    """Translate a list of sentences: greedily, or by beam search if `beam_size` is over 1.

    num_steps  how many tokens, <eos> included, are read and written at most; a longer sentence is
               cut, with a warning
    returns    a `Translation` for each sentence, in their order

    The net goes to `device` and keeps the mode it was in. Raises ValueError if a sentence is empty,
    a number is out of range, a vocabulary is that of another net or lacks <pad>, <bos> or <eos>;
    TypeError if `sentences` is not a list of strings, a number is not whole, the net or a
    vocabulary is something else; FloatingPointError if the net gives NaN.
    """
    check_search(net, tgt_vocab)
    check_vocab("src_vocab", src_vocab)
    sentences = check_texts("sentences", sentences)
    num_steps = check_count("num_steps", num_steps, 1)
    beam_size = check_count("beam_size", beam_size, 1)
    batch_size = check_count("batch_size", batch_size, 1)
    max_len = net.decoder.pos_encoding.P.shape[0]
    if num_steps > max_len:
        raise ValueError(f"num_steps is {num_steps}, but the net knows {max_len} positions")
    length_penalty = check_number("length_penalty", length_penalty, 0, 10)
    device = check_device(device)
    net.check_vocab_sizes(len(src_vocab), len(tgt_vocab))
    lines = []
    for i, sentence in enumerate(sentences):  # in a comprehension a warning would point at it
        lines.append(_source_tokens(sentence, i, num_steps))
    order = sorted(range(len(lines)), key=lambda i: len(lines[i]))  # little padding in a batch
    results: dict[int, Translation] = {}
    if any(parameter.device != device for parameter in net.parameters()):  # asking costs less
        net.to(device)
    with in_mode(net, training=False):
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            enc_X, enc_valid_lens = build_array_nmt(
                [lines[i] for i in chosen], src_vocab, num_steps
            )
            enc_X = trim_padding(enc_X, enc_valid_lens).to(device)
            padded = bool((enc_valid_lens < enc_X.shape[1]).any())  # else no mask is needed
            enc_valid_lens = enc_valid_lens.to(device) if padded else None
            search = (net, enc_X, enc_valid_lens, tgt_vocab, num_steps)
            with torch.inference_mode(), keep_attention_weights(net, False):
                if beam_size == 1:
                    ids, log_probs = greedy_search(*search)
                else:
                    ids, log_probs = beam_search(*search, beam_size, length_penalty)
            if log_probs.isnan().any():
                raise FloatingPointError("the net scores with NaN: its training went wrong")
            for i, row, log_prob in zip(chosen, ids.tolist(), log_probs.tolist(), strict=True):
                results[i] = _translation(lines[i], row, log_prob, src_vocab, tgt_vocab, num_steps)
        if save_attention_weights:
            for i, result in results.items():
                maps = _labelled_maps(
                    net, lines[i], result, src_vocab, tgt_vocab, num_steps, device
                )
                results[i] = replace(result, attention=maps)
    return [results[i] for i in range(len(lines))]


def _source_tokens(sentence: str, i: int, num_steps: int) -> list[str]:
    """The tokens of sentence number i, prepared as for training."""
    tokens = preprocess_nmt(sentence).split()
    if not tokens:
        raise ValueError(f"sentence {i} is empty: there is nothing to translate")
    if len(tokens) >= num_steps:
        warnings.warn(
            f"sentence {i} has {len(tokens)} tokens, more than the {num_steps - 1} that num_steps "
            f"{num_steps} leaves beside <eos>; the rest was not read",
            stacklevel=3,
        )
    return tokens


def _translation(
    source: list[str],
    ids: list[int],
    log_prob: float,
    src_vocab: Vocab,
    tgt_vocab: Vocab,
    num_steps: int,
) -> Translation:
    """What is known of one sentence once its token ids are there."""
    eos = tgt_vocab["<eos>"]
    finished = eos in ids
    tokens = tgt_vocab.to_tokens(ids[: ids.index(eos)] if finished else ids)
    return Translation(
        text=" ".join(tokens),
        tokens=tokens,
        log_prob=log_prob,
        finished=finished,
        unknown=[token for token in source if token not in src_vocab],
        truncated=len(source) >= num_steps,
    )


def _labelled_maps(
    net: EncoderDecoder,
    source: list[str],
    result: Translation,
    src_vocab: Vocab,
    tgt_vocab: Vocab,
    num_steps: int,
    device: torch.device,
) -> AttentionMaps:
    """The attention maps of a finished translation, with the words on their axes."""
    source = [*source[: num_steps - 1], "<eos>"]
    outputs = result.tokens + ["<eos>"] * result.finished
    inputs = ["<bos>", *outputs[:-1]]
    enc_X = torch.tensor([src_vocab[source]], device=device)
    dec_X = torch.tensor([tgt_vocab[inputs]], device=device)
    return AttentionMaps(*attention_maps(net, enc_X, dec_X), source, inputs, outputs)


def predict_seq2seq(
    net: EncoderDecoder,
    src_sentence: str,
    src_vocab: Vocab,
    tgt_vocab: Vocab,
    num_steps: int,
    device: torch.device,
    save_attention_weights: bool = False,
) -> tuple[str, AttentionMaps | None]:
    """Translate one sentence greedily: the book's call (section 10.7). See `translate`.

    returns  the text, and the attention maps if they are asked for, else None
    """
    [result] = translate(
        net,
        [src_sentence],
        src_vocab,
        tgt_vocab,
        num_steps,
        device,
        save_attention_weights=save_attention_weights,
    )
    return result.text, result.attention


def bleu(pred_seq: str, label_seq: str, k: int) -> float:
    """BLEU of one sentence as the book defines it (section 10.7), from 0 to 1.

    pred_seq, label_seq  tokens separated by spaces
    k                    the longest n-grams that count; n-grams longer than the prediction do not

    An empty prediction scores 0. Raises ValueError if k is below 1, TypeError if it is not whole or
    one of the sentences is no string.
    """
    check_text("pred_seq", pred_seq)
    check_text("label_seq", label_seq)
    k = check_count("k", k, 1)
    pred, label = pred_seq.split(), label_seq.split()
    if not pred:
        return 0.0
    score = math.exp(min(0, 1 - len(label) / len(pred)))
    for n in range(1, min(k, len(pred)) + 1):
        pred_grams, label_grams = (
            Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
            for tokens in (pred, label)
        )
        matches = (pred_grams & label_grams).total()
        score *= (matches / pred_grams.total()) ** (0.5**n)
    return score


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    """BLEU of a whole list of translations, by sacrebleu, from 0 to 100.

    references  for each hypothesis one sentence, or a list of sentences that are all right

    Both sides are brought into one form by `preprocess_nmt`; its tokens are what is compared. It
    counts runs of up to four tokens over the whole list, so it is 0 where no hypothesis has four.
    Runs of a length of which none matches count a little all the same (exponential smoothing).
    Raises ValueError if there is nothing to score or a hypothesis has no reference, TypeError if
    the hypotheses are not a list of strings.
    """
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize="none", force=True)
    return metric.corpus_score(*_streams(hypotheses, references)).score


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    """chrF of a whole list of translations, by sacrebleu, from 0 to 100.

    It compares runs of up to six letters, so a word that is nearly right counts for something.
    Arguments and errors are those of `corpus_bleu`.
    """
    from sacrebleu.metrics import CHRF

    return CHRF().corpus_score(*_streams(hypotheses, references)).score


def _streams(
    hypotheses: Sequence[str], references: Sequence[str | Sequence[str]]
) -> tuple[list[str], list[list[str | None]]]:
    """Both sides as sacrebleu wants them: the first reference of all, then the second, ..."""
    hypotheses = check_texts("hypotheses", hypotheses)
    if isinstance(references, (str, Tensor, Mapping, Set)) or not isinstance(references, Iterable):
        raise TypeError("references must be a list of sentences, or of lists of sentences")
    references = [*references]
    if not hypotheses or len(hypotheses) != len(references):
        raise ValueError(
            f"each hypothesis needs its reference, but there are {len(hypotheses)} hypotheses and "
            f"{len(references)} references"
        )
    alternatives = [
        [ref] if isinstance(ref, str) else check_texts("several references", ref)
        for ref in references
    ]
    if not all(alternatives):
        raise ValueError(f"hypothesis {alternatives.index([])} has no reference")
    streams = [
        [_prepared(ref) if ref is not None else None for ref in stream]
        for stream in zip_longest(*alternatives)
    ]
    return [_prepared(hypothesis) for hypothesis in hypotheses], streams


def _prepared(text: str) -> str:
    """As `preprocess_nmt`, where a word that a model did not know stays one word."""
    return preprocess_nmt(text.replace("<unk>", "\ufffd"))
