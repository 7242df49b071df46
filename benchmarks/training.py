"""Steps of training, in target tokens per second."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

import torch
from torch import nn

import d2l_mini as d2l
from benchmarks.contenders import SMALL, WIDE, Contender, Sizes, check_alike, make_contenders
from benchmarks.data import batches
from benchmarks.runner import Case, Settings, stopwatch


def training(settings: Settings) -> Iterator[Case]:
    """The small net of the book on 600 pairs, and a wider one on 20,000."""
    yield case(settings, 600, SMALL, num_steps=10, steps=30)
    yield case(settings, 20_000, WIDE, num_steps=20, steps=15)


def case(
    settings: Settings, num_examples: int, sizes: Sizes, num_steps: int, steps: int, mode: str = ""
) -> Case:
    """Take some steps of training with every contender.

    mode  "" = float32, "bf16" = by autocast, "compiled" = by torch.compile
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
        ways[name] = trainer(net, chosen, tgt_vocab, settings.device)
    pairs = f"{len(data.dataset):,} pairs"
    words = f"train, width {sizes.num_hiddens}, {pairs}" + (f", {mode}" if mode else "")
    return Case(words, "tokens/s", ways, more=True, note=note)


def in_mode(net: nn.Module, mode: str, device: torch.device) -> None:
    """Let a net compute as `mode` says."""
    if mode == "bf16":
        net.forward = torch.autocast(device.type, torch.bfloat16)(net.forward)
    if mode == "compiled":
        net.compile()


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
