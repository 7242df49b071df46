"""Training from the command line: the whole corpus, an accelerator, several processes.

python -m d2l_mini.train --help
torchrun --nproc-per-node 2 -m d2l_mini.train
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from d2l_mini.attention import sequence_mask
from d2l_mini.checks import check_count, check_device, check_number, check_path
from d2l_mini.data import (
    batches_by_length,
    build_data_nmt,
    group_references,
    hold_out_nmt,
    preprocess_nmt,
    read_data_nmt,
    tokenize_nmt,
    try_gpu,
)
from d2l_mini.progress import Accumulator, Timer
from d2l_mini.training import (
    MaskedSoftmaxCELoss,
    load_training,
    load_translator,
    rise_and_fall,
    save_translator,
    train_step,
)
from d2l_mini.transformer import EncoderDecoder, TransformerDecoder, TransformerEncoder
from d2l_mini.translation import corpus_bleu, corpus_chrf, translate

__all__ = ["Settings", "Training", "main"]

TIMEOUT = timedelta(minutes=5)  # how long a process waits for the others


def option(default, words: str, **more):
    """A setting, with what `--help` says about it."""
    return field(default=default, metadata={"help": words, **more})


@dataclass(frozen=True)
class Settings:
    """All that a training depends on, its number of processes apart."""

    source: str = option("bundled", "bundled, fra-eng (the book's file), or the path of a file")
    pairs: int | None = option(None, "how many pairs to read; all if left out", type=int)
    hold_out: float = option(0.05, "the share of English sentences to test with")
    test: int = option(1000, "how many of these sentences to translate after each epoch")
    beam_size: int = option(1, "how many translations to keep at each step of a test")
    num_steps: int = option(20, "the longest sentence, in tokens, <eos> included")
    min_freq: int = option(2, "words that occur less often become <unk>")
    hiddens: int = option(128, "hidden units")
    ffn_hiddens: int = option(256, "hidden units of the feed-forward networks")
    heads: int = option(4, "heads of each attention")
    layers: int = option(2, "blocks of the encoder, and of the decoder")
    dropout: float = option(0.1, "the share of units left out in training")
    tied: bool = option(False, "let the output layer share the decoder's embedding")
    epochs: int = option(16, "how often all pairs are learnt from")
    tokens: int = option(1024, "source and target tokens of a batch, over all processes")
    lr: float = option(0.003, "the largest learning rate; it falls evenly to 0 at the end")
    warm_up: int = option(400, "the steps in which it rises evenly before")
    label_smoothing: float = option(0.0, "the share of the target that all words divide evenly")
    precision: str = option("fp32", "fp32, or bf16 by autocast", choices=("fp32", "bf16"))
    compile: bool = option(False, "compile the net (torch.compile)")
    seed: int = option(0, "of weights, order and dropout")
    device: str | None = option(None, "such as cpu or cuda; the fastest if left out", type=str)

    def __post_init__(self):
        check_count("epochs", self.epochs, 0)
        check_count("test", self.test, 0)
        check_count("beam_size", self.beam_size, 1)
        check_count("warm_up", self.warm_up, 0)
        check_count("seed", self.seed, 0, 2**32 - 1)
        check_number("lr", self.lr, 0, 1)
        check_number("label_smoothing", self.label_smoothing, 0, 1)


def read_options(arguments: list[str] | None) -> tuple[Settings, Path, bool]:
    """The settings, the file to write, and whether to go on from it."""
    parser = argparse.ArgumentParser(
        "python -m d2l_mini.train",
        description="Train a translator from English to French and keep it in a file.",
        epilog="On several processes: torchrun --nproc-per-node 2 -m d2l_mini.train ...",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="written after each epoch, and beside it a table, .csv in place of .pt (default "
        "translator.pt)",
    )
    parser.add_argument("--resume", metavar="FILE", help="go on with this file by its own settings")
    for item in fields(Settings):
        more = dict(item.metadata)
        if item.default is False:
            more["action"] = "store_true"
        else:
            more.setdefault("type", type(item.default))
            more.setdefault("metavar", more["type"].__name__.upper())
        if item.default is not None and item.default is not False:
            more["help"] += f" (default {item.default})"
        flag = f"--{item.name.replace('_', '-')}"
        parser.add_argument(flag, default=argparse.SUPPRESS, **more)
    given = vars(parser.parse_args(arguments))
    output, resume = given.pop("output"), given.pop("resume")
    if resume is None:
        try:
            return Settings(**given), check_path(output or "translator.pt"), False
        except ValueError as error:
            parser.error(str(error))
    if output is not None:
        parser.error(f"{resume} is what is written too: leave out output")
    if given:
        parser.error(f"{resume} holds all settings: leave out {', '.join(given)}")
    return Settings(), Path(resume), True


class SmoothedCELoss(nn.Module):
    """`MaskedSoftmaxCELoss` against a target of which all words divide a share (paper, 5.4)."""

    def __init__(self, label_smoothing: float):
        super().__init__()
        self.label_smoothing = label_smoothing

    def forward(self, pred: Tensor, label: Tensor, valid_len: Tensor) -> Tensor:
        """As `MaskedSoftmaxCELoss.forward`."""
        losses = F.cross_entropy(
            pred.float().flatten(0, 1),
            label.flatten(),
            reduction="none",
            label_smoothing=self.label_smoothing,
        )
        return sequence_mask(losses.view(label.shape), valid_len).sum(dim=1)


class Stop:
    """Inside `with`, Ctrl-C and SIGTERM are noted, so that the step going on can be finished."""

    asked = False

    def __enter__(self) -> Stop:
        self.before = {
            number: signal.signal(number, self.ask) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def ask(self, *_) -> None:
        """Note it."""
        self.asked = True


@contextlib.contextmanager
def processes() -> Iterator[tuple[int, int]]:
    """The number of this process and how many there are, connected where torchrun started them."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, 1
        return
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=TIMEOUT)
    try:
        yield dist.get_rank(), dist.get_world_size()
    finally:
        dist.destroy_process_group()


def check_files(path: Path, table: Path, source: str, resume: bool) -> None:
    """Raise OSError where a training could not write its files, ValueError where it should not."""
    for file in (path, table):
        if file.is_dir() or not file.parent.is_dir():
            raise OSError(f"{file} cannot be written: name a file in a folder that is there")
        if file.exists() and Path(source).exists() and file.samefile(source):
            raise ValueError(f"{file} is what is learnt from: name another --output")
    if resume:
        return
    if table.exists() and table.read_bytes()[:11] not in (b"", b"epoch,loss,"):
        raise ValueError(f"{table} is there, and no table of a training: name another --output")
    if path.exists() and path.stat().st_size > 0:
        try:
            load_training(path)
        except ValueError:
            raise ValueError(f"{path} is there, and no translator: name another --output") from None


class Training:
    """One training, or one process's part of it: what it knows, and how far it is.

    path     the file that keeps it
    resume   whether the file is there already, to go on from
    rank     the number of this process, of `world`; the first one speaks, tests and saves
    """

    def __init__(self, settings: Settings, path: Path, resume: bool, rank: int, world: int):
        self.table = path.with_suffix(".csv") if path.suffix == ".pt" else Path(f"{path}.csv")
        check_files(path, self.table, settings.source, resume)  # before hours of training
        kept = load_training(path) if resume else None
        if resume and kept is None:
            raise ValueError(f"{path} was not written by d2l_mini.train, so it cannot go on")
        self.settings = settings = Settings(**kept["settings"]) if kept else settings
        self.path, self.rank, self.world = path, rank, world
        self.device = choose_device(settings.device)
        self.read_pairs()
        torch.manual_seed(settings.seed)
        if kept:
            net, *vocabs, _ = load_translator(path)
            if [vocab.idx_to_token for vocab in vocabs] != [v.idx_to_token for v in self.vocabs]:
                raise ValueError(f"{settings.source} holds other pairs than {path} has learnt from")
            self.net = net
        else:
            self.net = self.make_net()
        if settings.tied:
            self.net.decoder.dense.weight = self.net.decoder.embedding.weight
        self.net.to(self.device)
        self.optimizer = torch.optim.Adam(
            self.net.parameters(), settings.lr, betas=(0.9, 0.98), eps=1e-9, fused=True
        )
        self.epoch, self.step, self.seconds = 0, 0, 0.0
        self.sums = [0.0, 0.0]  # of the loss and of the tokens, so far in this epoch
        if kept:
            self.optimizer.load_state_dict(kept["optimizer"])
            self.epoch, self.step, self.seconds = kept["epoch"], kept["step"], kept["seconds"]
            if rank == 0:
                self.sums = kept["sums"]
        self.model = self.wrap()

    def read_pairs(self) -> None:
        """Read the corpus: what to learn from, what to test with, and the vocabularies."""
        settings = self.settings
        text = preprocess_nmt(read_data_nmt(settings.source))
        train, held_out = hold_out_nmt(
            *tokenize_nmt(text, settings.pairs), settings.hold_out, settings.seed
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loader, *self.vocabs = build_data_nmt(
                *train, batch_size=1, num_steps=settings.num_steps, min_freq=settings.min_freq
            )
        for warning in caught:  # by itself it would be shown with a line of source
            self.say(str(warning.message))
        self.arrays = loader.dataset.tensors
        self.lengths = self.arrays[1] + self.arrays[3]  # (pairs,)
        references = group_references(*held_out)
        step = max(1, len(references) // max(settings.test, 1))
        self.tests = dict(list(references.items())[::step][: settings.test])

    def make_net(self) -> EncoderDecoder:
        """A new net."""
        s, (src_vocab, tgt_vocab) = self.settings, self.vocabs
        sizes = s.hiddens, s.ffn_hiddens, s.heads, s.layers, s.dropout
        net = EncoderDecoder(
            TransformerEncoder(len(src_vocab), *sizes), TransformerDecoder(len(tgt_vocab), *sizes)
        )
        check_count("num_steps", s.num_steps, 1, len(net.decoder.pos_encoding.P))
        return net

    def wrap(self) -> nn.Module:
        """The net as it is trained: by autocast, compiled, in step with the other processes."""
        model: nn.Module = self.net
        if self.settings.precision == "bf16":
            model.forward = torch.autocast(self.device.type, torch.bfloat16)(model.forward)
        if self.settings.compile:
            model.compile()
        if self.world > 1:
            model = nn.parallel.DistributedDataParallel(model)
        return model

    def go(self) -> None:
        """Train to the end, or until someone asks to stop."""
        last = self.settings.epochs
        self.say(
            f"{len(self.lengths):,} pairs to learn from, {len(self.tests):,} sentences to test "
            f"with, {sum(p.numel() for p in self.net.parameters()):,} parameters, on "
            f"{self.world} x {self.device}"
        )
        with Stop() as stop:
            while self.epoch < last:
                ended, asked = self.learn(stop)
                self.sums = self.sum_over_processes(self.sums)
                if ended:
                    self.epoch, self.step = self.epoch + 1, 0
                    self.report()
                    self.sums = [0.0, 0.0]
                self.save()
                if asked and self.epoch < last:
                    self.say(
                        f"stopped after epoch {self.epoch} and {self.step} steps; go on with\n"
                        f"    python -m d2l_mini.train --resume {self.path}"
                    )
                    return
        if self.epoch == 0:  # of no epoch: the net as it starts
            self.save()
        self.say(f"{self.path} holds the translator: d2l.load_translator({str(self.path)!r})")

    def learn(self, stop: Stop) -> tuple[bool, bool]:
        """Take the steps that are left of this epoch.

        returns  whether it came to its end, and whether someone asked to stop
        """
        settings = self.settings
        generator = torch.Generator().manual_seed(settings.seed + self.epoch)
        batches = batches_by_length(self.lengths, settings.tokens, generator, self.world)
        num_steps = settings.epochs * len(batches)
        smoothing = settings.label_smoothing
        loss = SmoothedCELoss(smoothing) if smoothing else MaskedSoftmaxCELoss()
        bar = tqdm(total=len(batches), initial=self.step, leave=False, disable=self.quiet())
        bar.set_description(f"epoch {self.epoch + 1}")
        timer, metric, asked = Timer(), Accumulator(2), False
        metric.add(*self.sums)
        self.net.train()
        for rows in batches[self.step :]:
            batch = [array[rows[self.rank :: self.world]] for array in self.arrays]
            number = self.epoch * len(batches) + self.step
            torch.manual_seed(settings.seed + number * self.world + self.rank)  # for the dropout
            share = rise_and_fall(number, num_steps, min(settings.warm_up, num_steps // 2))
            for group in self.optimizer.param_groups:
                group["lr"] = settings.lr * share
            num_tokens, asked = self.sum_over_processes([float(batch[3].sum()), float(stop.asked)])
            step = train_step(
                self.model,
                batch,
                self.optimizer,
                self.vocabs[1],
                self.device,
                loss,
                num_tokens / self.world,  # gradients are averaged over the processes
            )
            metric.add(*step)
            self.step += 1
            bar.update()
            if asked:
                break
        bar.close()
        self.seconds += timer.stop()
        self.sums = [metric[0], metric[1]]
        return self.step == len(batches), bool(asked)

    def sum_over_processes(self, numbers: list[float]) -> list[float]:
        """Add up what each process has."""
        if self.world == 1:
            return numbers
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def report(self) -> None:
        """Test, say in one line how the epoch went, and add the line to the CSV file."""
        if self.rank != 0:
            return
        loss, num_tokens = self.sums
        line = {
            "epoch": self.epoch,
            "loss": round(loss / num_tokens, 6),
            **self.test(),
            "tokens/s": round(self.epoch * num_tokens / self.seconds),
            "seconds": round(self.seconds, 1),
        }
        self.say("  ".join(f"{name} {value:,}" for name, value in line.items()))
        new = self.epoch == 1 or not self.table.exists()
        with self.table.open("w" if new else "a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, line)
            if new:
                writer.writeheader()
            writer.writerow(line)

    def test(self) -> dict[str, float]:
        """BLEU and chrF of the sentences held out, if there are any."""
        if not self.tests:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of each sentence that is cut; one line says it
            results = translate(
                self.net,
                list(self.tests),
                *self.vocabs,
                self.settings.num_steps,
                self.device,
                self.settings.beam_size,
            )
        cut = sum(result.truncated for result in results)
        if cut and self.epoch == 1:
            self.say(f"{cut} of the {len(results)} sentences to test with were too long and cut")
        texts, references = [result.text for result in results], list(self.tests.values())
        return {
            "BLEU": round(corpus_bleu(texts, references), 2),
            "chrF": round(corpus_chrf(texts, references), 2),
        }

    def save(self) -> None:
        """Write the translator and all that it takes to go on."""
        if self.rank != 0:
            return
        training = {
            "settings": asdict(self.settings),
            "epoch": self.epoch,
            "step": self.step,
            "sums": self.sums,
            "seconds": self.seconds,
            "optimizer": self.optimizer.state_dict(),
        }
        save_translator(self.path, self.net, *self.vocabs, self.settings.num_steps, training)

    def say(self, words: str) -> None:
        """Print, if this is the first process."""
        if self.rank == 0:
            print(words, flush=True)

    def quiet(self) -> bool | None:
        """Whether there is no progress bar; None = only where no one would see it move."""
        return True if self.rank != 0 else None


def choose_device(name: str | None) -> torch.device:
    """The device of this process: each has its own GPU.

    Raises ValueError if there is no such device.
    """
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if name == "cuda":
        name = f"cuda:{rank}"
    device = try_gpu(rank) if name is None else check_device(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def main(arguments: list[str] | None = None) -> int:
    """Train as the command line says; return 0 if it went well, 1 with a sentence if it did not."""
    settings, path, resume = read_options(arguments)
    first = os.environ.get("RANK", "0") == "0"
    try:
        with processes() as (rank, world):
            Training(settings, path, resume, rank, world).go()
    except (ValueError, OSError, FloatingPointError) as error:
        if first:
            print(f"d2l_mini.train: {error}", file=sys.stderr)
        return 1
    except RuntimeError as error:
        if not dist.is_available() or os.environ.get("WORLD_SIZE", "1") == "1":
            raise
        last = str(error).strip().splitlines()[0]
        print(
            f"d2l_mini.train: another process has ended, so this one ends too ({last}); the last "
            f"epoch is kept: torchrun ... -m d2l_mini.train --resume {path}",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
