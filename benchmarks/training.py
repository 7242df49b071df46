"""Steps of training, in target tokens per second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle, islice

import torch
from torch import nn

import d2l_mini as d2l
from benchmarks.contenders import (
    NAMES,
    PAD,
    SMALL,
    WIDE,
    Contender,
    Sizes,
    check_alike,
    make_contenders,
)
from benchmarks.data import batches
from benchmarks.runner import Case, Settings, stopwatch


def trainer(net: Contender, chosen: list, tgt_vocab: d2l.Vocab, device: torch.device):
    """A function that takes a step for each batch and returns target tokens per second."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005, fused=True)
    tokens = sum(int(batch[3].sum()) for batch in chosen)

    def work() -> float:
        net.train()
        return tokens / stopwatch(
            lambda: d2l.train_epoch(net, chosen, optimizer, tgt_vocab, device), device
        )

    return work


def plain_trainer(net: Contender, chosen: list, tgt_vocab: d2l.Vocab, device: torch.device):
    """As `trainer`, as one would write it by hand: no batch trimmed, nothing fused."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    loss = nn.CrossEntropyLoss(ignore_index=PAD)
    tokens = sum(int(batch[3].sum()) for batch in chosen)

    def epoch() -> None:
        for batch in chosen:
            X, X_valid_len, Y, _ = (tensor.to(device) for tensor in batch)
            bos = torch.full_like(Y[:, :1], tgt_vocab["<bos>"])
            logits, _ = net(X, torch.cat([bos, Y[:, :-1]], dim=1), X_valid_len)
            optimizer.zero_grad()
            loss(logits.transpose(1, 2), Y).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1)
            optimizer.step()

    def work() -> float:
        net.train()
        return tokens / stopwatch(epoch, device)

    return work


def training(settings: Settings) -> Iterator[Case]:
    """The small net of the book on 600 pairs, and a wider one on 20,000.

    All take `d2l_mini.train_step`; then the others take the step that their readers write.
    """
    yield case(settings, 600, SMALL, num_steps=10, steps=30)
    yield case(settings, 600, SMALL, num_steps=10, steps=30, others=plain_trainer)
    yield case(settings, 20_000, WIDE, num_steps=20, steps=15)


def case(
    settings: Settings,
    num_examples: int,
    sizes: Sizes,
    num_steps: int,
    steps: int,
    mode: str = "",
    others: Callable = trainer,
) -> Case:
    """Take some steps of training with every contender.

    mode    "" = float32, "bf16" = by autocast, "compiled" = by torch.compile
    others  `trainer`, or what else the peers train by
    """
    source = settings.need_source()
    if settings.quick:
        num_examples, steps = min(num_examples, 600), 2
    data, src_vocab, tgt_vocab = batches(source, num_examples, 64, num_steps)
    nets = make_contenders(len(src_vocab), len(tgt_vocab), sizes, num_steps, settings.device)
    note = check_alike(nets, num_steps)
    chosen = list(islice(cycle(data), steps))
    ways: dict = {}
    for name, net in nets.items():
        if isinstance(net, str):
            ways[name] = net
            continue
        in_mode(net, mode, settings.device)
        make = trainer if name == NAMES[0] else others
        ways[name] = make(net, chosen, tgt_vocab, settings.device)
    pairs = f"{len(data.dataset):,} pairs"
    words = f"train, width {sizes.num_hiddens}, {pairs}" + (f", {mode}" if mode else "")
    if others is plain_trainer:
        words += ", others by a plain loop"
    return Case(words, "tokens/s", ways, more=True, note=note)


def in_mode(net: nn.Module, mode: str, device: torch.device) -> None:
    """Let a net compute as `mode` says."""
    if mode == "bf16":
        net.forward = torch.autocast(device.type, torch.bfloat16)(net.forward)
    if mode == "compiled":
        net.compile()
