"""Quality for time: how long until a small net is good, and how good a larger one is in time."""

from __future__ import annotations

import contextlib
import io
import math
import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

import d2l_mini as d2l
from benchmarks.contenders import NAMES, SMALL, check_alike, make_contenders
from benchmarks.data import batches, pairs
from benchmarks.runner import Case, Settings, stopwatch
from benchmarks.translating import translate
from d2l_mini.train import Settings as TrainSettings
from d2l_mini.train import Stop, Training

NUM_STEPS = 10
SHARE = 0.86  # of 331 sentences; 24 of them differ from another in unknown words alone
MAX_EPOCHS = 400
EVERY = 5  # epochs between two checks
SECONDS = 180


def quality(settings: Settings) -> Iterator[Case]:
    """Seconds of training until 86 % of the sentences learnt from are translated as the file does.

    Each round is another seed. The book's settings: 600 pairs, batches of 64, Adam at 0.005.
    """
    source = settings.need_source()
    _, *vocabs = batches(source, 600, 64, NUM_STEPS)
    net_sizes = (*map(len, vocabs), SMALL, NUM_STEPS, settings.device)
    nets = make_contenders(*net_sizes)
    yield Case(
        f"train until {SHARE:.0%} are right, {len(pairs(source, 600)[0]):,} pairs",
        "s",
        {
            name: nets[name]
            if isinstance(nets[name], str)
            else lambda name=name: seconds_until_right(name, net_sizes, settings)
            for name in NAMES
        },
        warm_up=False,
        rounds=3,
        note=check_alike(nets, NUM_STEPS),
    )


def seconds_until_right(name: str, net_sizes: tuple, settings: Settings) -> float:
    """Train a new net; return the seconds of training, checks not counted, or infinity."""
    data, *vocabs = batches(settings.need_source(), 600, 64, NUM_STEPS)
    references = own_translations(settings.need_source(), vocabs)
    net = make_contenders(*net_sizes)[name]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005, fused=True)
    total = 0.0
    for epoch in range(1, 3 if settings.quick else MAX_EPOCHS + 1):
        net.train()
        total += stopwatch(
            lambda: d2l.train_epoch(net, data, optimizer, vocabs[1], settings.device),
            settings.device,
        )
        if epoch % EVERY == 0 or settings.quick:
            net.eval()
            said = translate(net, list(references), vocabs, NUM_STEPS, cached=net.has_cache)
            both = zip(said, references.values(), strict=True)
            if sum(text in known for text, known in both) >= SHARE * len(references):
                return total
    return math.inf


def own_translations(source: str, vocabs: list[d2l.Vocab]) -> dict[str, set[str]]:
    """For each English sentence of the first 600 pairs all its French in the file.

    French words outside the vocabulary are <unk>, as the net reads the English ones.
    """
    known = d2l.group_references(*pairs(source, 1200))
    sentences = dict.fromkeys(" ".join(english) for english in pairs(source, 600)[0])
    return {
        english: {
            " ".join(word if word in vocabs[1] else "<unk>" for word in french.split())
            for french in known[english]
        }
        for english in sentences
    }


def translator(settings: Settings) -> Iterator[Case]:
    """BLEU on sentences held out, after three minutes of training on the book's first 20,000 pairs.

    Whole English sentences are held out, 5 % of them, with all their French as references.
    """
    source = settings.need_source()
    limit = 1 if settings.quick else SECONDS
    found: dict[str, float] = {}

    def bleu() -> float:
        found.update(train_for(limit, source, count, settings))
        return found["BLEU"]

    count = 600 if settings.quick else 20_000
    kind = f"after {limit} s on {os.cpu_count()} cores, {len(pairs(source, count)[0]):,} pairs"
    once = {"warm_up": False, "rounds": 1}
    ways = dict.fromkeys(NAMES[1:], "it comes without a training of its own")
    yield Case(f"BLEU {kind}", "of 100", {"d2l_mini": bleu, **ways}, more=True, **once)
    for name, unit in (("chrF", "of 100"), ("epochs", "epochs"), ("seconds", "s")):
        if found:
            words = f"{name} {kind}"
            yield Case(words, unit, {"d2l_mini": lambda name=name: found[name]}, more=None, **once)


def train_for(limit: float, source: str, count: int, settings: Settings) -> dict[str, float]:
    """Train by `d2l_mini.train` for at most `limit` seconds, and test on all that is held out.

    The learning rate falls to 0 at the end, so the end must be known before: one epoch tells how
    long each takes. All cores take part: this net is large enough for more than one.
    """
    threads = torch.get_num_threads()
    asked = TrainSettings(
        source=source,
        pairs=count,
        test=10**9,
        tied=True,
        precision="bf16",
        device=str(settings.device),
        epochs=1,
    )
    try:
        torch.set_num_threads(os.cpu_count())
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a few sentences are cut
            path = Path(folder) / "translator.pt"
            trial = Training(asked, path, False, 0, 1)
            learn(trial)
            epochs = max(1, int(0.97 * limit / trial.seconds))
            training = Training(replace(asked, epochs=epochs), path, False, 0, 1)
            while training.epoch < epochs and training.seconds < limit:
                learn(training)
            return {**training.test(), "epochs": training.epoch, "seconds": training.seconds}
    finally:
        torch.set_num_threads(threads)


def learn(training: Training) -> None:
    """Take one epoch, with no file and no test after it."""
    with Stop() as stop, contextlib.redirect_stderr(io.StringIO()):
        _, asked = training.learn(stop)
    if asked:
        raise KeyboardInterrupt
    training.epoch, training.step, training.sums = training.epoch + 1, 0, [0.0, 0.0]
