"""What several jobs read from the corpus, read once."""

from __future__ import annotations

import functools
import warnings

from torch.utils.data import DataLoader

import d2l_mini as d2l

__all__ = ["batches", "count_pairs", "pairs"]


@functools.cache
def pairs(source: str, num_examples: int | None) -> tuple[list[list[str]], list[list[str]]]:
    """The tokens of the first pairs of a corpus."""
    lines = d2l.read_data_nmt(source).splitlines()
    text = "\n".join(lines if num_examples is None else lines[: 2 * num_examples])
    return d2l.tokenize_nmt(d2l.preprocess_nmt(text), num_examples)


@functools.cache
def count_pairs(source: str) -> int:
    """How many pairs a corpus has."""
    return sum("\t" in line for line in d2l.read_data_nmt(source).splitlines())


def batches(
    source: str, num_examples: int, batch_size: int, num_steps: int
) -> tuple[DataLoader, d2l.Vocab, d2l.Vocab]:
    """As `load_data_nmt`, without its warning of sentences that are cut."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return d2l.build_data_nmt(*pairs(source, num_examples), batch_size, num_steps)
