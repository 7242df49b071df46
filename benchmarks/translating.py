"""From sentences to sentences: greedily and by beam search, on a cache and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

import d2l_mini as d2l
from benchmarks.contenders import EOS, SMALL, Contender, Sizes, check_alike, make_contenders
from benchmarks.data import batches, pairs
from benchmarks.runner import Case, Settings, seconds

NUM_STEPS = 10


def translating(settings: Settings) -> Iterator[Case]:
    """One sentence and 1,000; no net ends a sentence, so all write NUM_STEPS tokens."""
    yield from cases(settings, SMALL, (1, 20 if settings.quick else 1000))


def cases(
    settings: Settings,
    sizes: Sizes,
    numbers: Sequence[int],
    beams: Sequence[int] = (1, 4),
    ways: Sequence[bool] = (True, False),
    words: str = "",
) -> Iterator[Case]:
    """Translate the first so many distinct sentences of the corpus.

    ways  whether on a cache
    """
    source = settings.need_source()
    num_examples = 600 if settings.quick else 4000
    _, *vocabs = batches(source, num_examples, 64, NUM_STEPS)
    distinct = list(dict.fromkeys(" ".join(line) for line in pairs(source, num_examples)[0]))
    nets = make_contenders(*map(len, vocabs), sizes, NUM_STEPS, settings.device)
    note = check_alike(nets, NUM_STEPS)
    for net in nets.values():
        if not isinstance(net, str):
            net.eval().never_end()
    check_searches(nets, distinct[:20], vocabs)
    for number in numbers:
        sentences = distinct[:number]
        plural = "sentence" if len(sentences) == 1 else "sentences"
        for beam_size in beams:
            for cached in ways:
                search = "greedily" if beam_size == 1 else f"beam {beam_size}"
                yield Case(
                    f"translate {len(sentences):,} {plural}, {search}, "
                    f"{'cached' if cached else 'recomputed'}{words}",
                    "ms",
                    {
                        name: net
                        if isinstance(net, str)
                        else timed(net, sentences, vocabs, beam_size, cached, settings)
                        for name, net in nets.items()
                    },
                    note=note,
                )
                note = ""  # once is enough


def timed(net: Contender, sentences, vocabs, beam_size: int, cached: bool, settings: Settings):
    """A function that translates, and returns the milliseconds it took."""

    def work() -> float:
        def once() -> list[str]:
            return translate(net, sentences, vocabs, NUM_STEPS, beam_size, cached)

        return 1000 * seconds(once, settings)

    return work


@torch.inference_mode()
def translate(
    net: Contender,
    sentences: Sequence[str],
    vocabs: Sequence[d2l.Vocab],
    num_steps: int,
    beam_size: int = 1,
    cached: bool = True,
    batch_size: int = 256,
) -> list[str]:
    """Text to text, with all around the search the same for every contender.

    It does what `d2l_mini.translate` does: sentences alike in length share a batch.
    """
    device = next(net.parameters()).device
    src_vocab, tgt_vocab = vocabs
    lines = [d2l.preprocess_nmt(sentence).split() for sentence in sentences]
    order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
    texts = {}
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        enc_X, lens = d2l.build_array_nmt([lines[i] for i in chosen], src_vocab, num_steps)
        enc_X = d2l.trim_padding(enc_X, lens).to(device)
        ids = net.search(enc_X, lens.to(device), num_steps, beam_size, cached)
        for i, row in zip(chosen, ids.tolist(), strict=True):
            row = row[: row.index(EOS)] if EOS in row else row
            texts[i] = " ".join(tgt_vocab.to_tokens(row))
    return [texts[i] for i in range(len(lines))]


def check_searches(nets: dict, sentences: Sequence[str], vocabs: Sequence[d2l.Vocab]) -> None:
    """Check that with the same weights it makes no difference who searches, nor how.

    Raises ValueError where `torch.nn`, or this package without its cache, says something else in
    over one sentence of 20: between two words that are equally likely, rounding decides.
    """
    own, other = nets["d2l_mini"], nets["torch.nn"]
    for beam_size in (1, 4):
        said = d2l.translate(
            own.net, sentences, *vocabs, NUM_STEPS, next(own.parameters()).device, beam_size
        )
        for net, cached in ((own, True), (own, False), (other, False)):
            texts = translate(net, sentences, vocabs, NUM_STEPS, beam_size, cached)
            same = sum(a.text == b for a, b in zip(said, texts, strict=True))
            if same < 0.95 * len(sentences):
                raise ValueError(
                    f"{type(net).__name__}, beam {beam_size}, cached {cached}, says the same as "
                    f"translate in {same} of {len(sentences)} sentences only"
                )
