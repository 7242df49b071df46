"""Ablation: a Transformer with one part taken out, to see what the part is for."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from d2l_mini.attention import DotProductAttention, MultiHeadAttention
from d2l_mini.checks import check_count, check_number, in_line
from d2l_mini.data import (
    build_data_nmt,
    group_references,
    hold_out_nmt,
    preprocess_nmt,
    read_data_nmt,
    tokenize_nmt,
)
from d2l_mini.training import Translator, rise_and_fall, set_apart, train_epoch
from d2l_mini.transformer import (
    AddNorm,
    EncoderDecoder,
    PositionalEncoding,
    TransformerDecoder,
    TransformerEncoder,
    check_halves,
)
from d2l_mini.translation import translate

__all__ = ["PARTS", "ShortRun", "leave_out", "train_short"]


class NoPositions(PositionalEncoding):
    """Add nothing: no step knows where it is."""

    def forward(self, X: Tensor, offset: int = 0) -> Tensor:
        """As `PositionalEncoding.forward` without P."""
        return self.dropout(X)


class Unscaled(DotProductAttention):
    """Score by q . k, without the root."""

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens=None) -> Tensor:
        """Take the division back beforehand, so that the fused way can be gone too."""
        return super().forward(math.sqrt(queries.shape[-1]) * queries, keys, values, valid_lens)


class Unmasked(MultiHeadAttention):
    """Let every query use every key."""

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens=None) -> Tensor:
        """As `MultiHeadAttention.attend` without lengths."""
        return super().attend(queries, keys, values)


class NormOnly(AddNorm):
    """Forget what went into the sublayer."""

    def forward(self, X: Tensor, Y: Tensor) -> Tensor:
        """As `AddNorm.forward` without X."""
        return self.ln(self.dropout(Y))


# What takes the place of the class that it is made from.
PARTS = {
    "positions": NoPositions,
    "causal mask": Unmasked,
    "scaling": Unscaled,
    "residuals": NormOnly,
}


def check_part(part: str) -> None:
    """Raise ValueError where a part is none of PARTS."""
    if not isinstance(part, str) or part not in PARTS:
        raise ValueError(f"part is {in_line(part)}; it must be None or one of {', '.join(PARTS)}")


def leave_out(net: EncoderDecoder, part: str | None) -> None:
    """Take one of PARTS out of the net, which keeps its weights; None leaves it whole.

    Raises ValueError for another part, and where the net has none of the package's modules for it.
    """
    if part is None:
        return
    check_part(part)
    check_halves(net)
    new, old = PARTS[part], PARTS[part].__base__
    causal = [blk.attention1 for blk in net.decoder.blks]
    places = causal if part == "causal mask" else net.modules()
    found = [module for module in places if isinstance(module, old)]
    if not found:
        raise ValueError(f"{part} cannot be left out: the net has no {old.__name__} of d2l_mini")
    for module in found:
        if type(module) not in (old, new):
            own = type(module).__name__
            raise ValueError(f"{part} cannot be left out of {own}, which is not d2l_mini's")
    for module in found:
        module.__class__ = new


SHORT_SIZES = {"num_hiddens": 64, "ffn_num_hiddens": 128, "num_heads": 4, "num_layers": 1}
SHORT_EPOCHS, SHORT_BATCH, RISING_STEPS = 6, 32, 80
WORDS = 120
CPU = torch.device("cpu")  # nets this small gain nothing from a GPU


class ShortRun(NamedTuple):
    """What a short training gave.

    loss            of each epoch, in nats per real token
    seen, held_out  the share of sentences that are translated word for word as the corpus does
    translator      the net and what goes with it
    """

    loss: list[float]
    seen: float
    held_out: float
    translator: Translator


@functools.cache
def short_corpus() -> tuple:
    """The pairs whose English is made of common words only, a tenth of them held out.

    returns  (train source, train target), (held-out source, held-out target)
    """
    source, target = tokenize_nmt(preprocess_nmt(read_data_nmt()))
    counts = Counter(token for line in source for token in line)
    common = {token for token, _ in counts.most_common(WORDS)}
    pairs = [pair for pair in zip(source, target, strict=True) if common.issuperset(pair[0])]
    return hold_out_nmt(*map(list, zip(*pairs, strict=True)), fraction=0.1)


def train_short(
    part: str | None = None,
    lr: float = 0.01,
    warm: bool = True,
    seed: int = 0,
    watch: Callable[[list[float]], None] | None = None,
) -> ShortRun:
    """Train a Transformer of one layer for about two seconds, on the CPU; what is known is kept.

    part   what is left out, one of PARTS; None = nothing
    lr     the largest learning rate, from which it falls evenly to 0 at the last step
    warm   whether it rises to it evenly, in the first 80 of its 162 steps
    watch  is called after each epoch of a run that is not known yet, with the losses so far

    The random numbers of the notebook stay as they are. Raises ValueError for another part or a
    learning rate outside 0 ... 1, FloatingPointError if the gradient is not finite.
    """
    if part is not None:
        check_part(part)
    lr = check_number("lr", lr, 1e-12, 1)
    if watch is not None and not callable(watch):
        raise TypeError(f"watch must be a function, but is {in_line(watch)}")
    settings = part, lr, bool(warm), check_count("seed", seed, 0)
    if settings not in _known:
        _known[settings] = _train_short(*settings, watch)
    run = _known[settings]
    return run._replace(loss=[*run.loss])  # what a caller does with it changes nothing


_known: dict[tuple, ShortRun] = {}


def _train_short(part, lr, warm, seed, watch) -> ShortRun:
    """Train, and measure on the held-out sentences and on as many others."""
    train, held_out = short_corpus()
    with set_apart(seed, CPU):
        train_iter, *vocabs = build_data_nmt(*train, SHORT_BATCH, num_steps=10, min_freq=1)
        net = EncoderDecoder(
            TransformerEncoder(len(vocabs[0]), **SHORT_SIZES),
            TransformerDecoder(len(vocabs[1]), **SHORT_SIZES),
        )
        leave_out(net, part)
        optimizer = torch.optim.Adam(net.parameters(), lr=lr, fused=True)
        num_steps, rising = SHORT_EPOCHS * len(train_iter), RISING_STEPS if warm else 0
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: rise_and_fall(step, num_steps, rising)
        )
        optimizer.register_step_post_hook(lambda *_: schedule.step())
        losses: list[float] = []
        for _ in range(SHORT_EPOCHS):
            loss, num_tokens = train_epoch(net, train_iter, optimizer, vocabs[1], CPU)
            losses.append(loss / num_tokens)
            if watch:
                watch(losses)
        translator = Translator(net.eval(), *vocabs, 10)
        every = len(train[0]) // len(held_out[0])
        seen = _share_right(translator, [lines[::every] for lines in train])
        return ShortRun(losses, seen, _share_right(translator, held_out), translator)


def _share_right(translator: Translator, pairs) -> float:
    """The share of the sentences whose translation is one that the corpus gives."""
    references = group_references(*pairs)
    results = translate(translator.net, list(references), *translator[1:], CPU)
    right = [r.text in french for r, french in zip(results, references.values(), strict=True)]
    return sum(right) / len(right)
