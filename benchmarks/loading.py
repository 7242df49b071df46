"""From the book's file to arrays of ids and two vocabularies."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch

import d2l_mini as d2l
from benchmarks.contenders import load
from benchmarks.data import count_pairs
from benchmarks.runner import Case, Settings, seconds

NUM_STEPS = 10


def loading(settings: Settings) -> Iterator[Case]:
    """Load the first 600 pairs, and all."""
    source = settings.need_source()
    for num_examples in (600, 30 if settings.quick else None):
        count = min(num_examples or 10**9, count_pairs(source))
        ways = {
            "d2l_mini": lambda n=num_examples: seconds(lambda: by_d2l_mini(source, n), settings),
            "torch.nn": "it reads no text",
            "x-transformers": "it reads no text",
            "transformers": lambda n=num_examples: seconds(
                lambda: by_tokenizers(source, n), settings
            ),
        }
        yield Case(f"load {count:,} pairs", "s", ways)


def by_d2l_mini(source: str, num_examples: int | None):
    """As notebook 05; that long sentences are cut is known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return d2l.load_data_nmt(64, NUM_STEPS, num_examples, source=source)


def by_tokenizers(source: str, num_examples: int | None) -> list[torch.Tensor]:
    """The same by tokenizers, which comes with transformers: words, lower case, seen twice."""
    tokenizers = load("tokenizers")
    lines = d2l.read_data_nmt(source).splitlines()[:num_examples]
    arrays = []
    for column in (0, 1):
        texts = [line.split("\t")[column] for line in lines]
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="<unk>"))
        tokenizer.normalizer = tokenizers.normalizers.Sequence(
            [tokenizers.normalizers.NFC(), tokenizers.normalizers.Lowercase()]
        )
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        trainer = tokenizers.trainers.WordLevelTrainer(
            vocab_size=10**6,
            min_frequency=2,
            show_progress=False,
            special_tokens=["<unk>", "<pad>", "<bos>", "<eos>"],
        )
        tokenizer.train_from_iterator(texts, trainer)
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="$A <eos>", special_tokens=[("<eos>", 3)]
        )
        tokenizer.enable_truncation(NUM_STEPS)
        tokenizer.enable_padding(pad_id=1, pad_token="<pad>", length=NUM_STEPS)
        encoded = tokenizer.encode_batch(texts)
        arrays.append(torch.tensor([line.ids for line in encoded]))
    return arrays
