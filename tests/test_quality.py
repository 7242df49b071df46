"""What a minute of training on the bundled corpus has to give, whatever the seed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import d2l_mini as d2l

CPU = torch.device("cpu")
NUM_STEPS = 10
# An English noun phrase, its adjective and noun, and the two French words that swap places.
SWAPS = [
    ("I have a red hat.", "red", "hat", "rouge", "chapeau"),
    ("I have a black cat.", "black", "cat", "noir", "chat"),
    ("She has a white dog.", "white", "dog", "blanc", "chien"),
    ("We have a blue car.", "blue", "car", "bleue", "voiture"),
    ("He has a green bag.", "green", "bag", "vert", "sac"),
    ("You have a black dog.", "black", "dog", "noir", "chien"),
    ("It's a blue door.", "blue", "door", "bleue", "porte"),
    ("It's a red car.", "red", "car", "rouge", "voiture"),
    ("He wants a green hat.", "green", "hat", "vert", "chapeau"),
    ("They have a white cat.", "white", "cat", "blanc", "chat"),
]


class Trained(NamedTuple):
    net: d2l.EncoderDecoder
    src_vocab: d2l.Vocab
    tgt_vocab: d2l.Vocab
    seconds: float


@pytest.fixture(scope="module", params=[0, 1, 2], ids="seed {}".format)
def trained(request):
    """The model and the settings of notebook 05, trained on all bundled pairs."""
    torch.manual_seed(request.param)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    train_iter, *vocabs = d2l.load_data_nmt(batch_size=128, num_steps=NUM_STEPS, num_examples=None)
    sizes = (64, 128, 4, 2, 0.1)
    net = d2l.EncoderDecoder(
        d2l.TransformerEncoder(len(vocabs[0]), *sizes),
        d2l.TransformerDecoder(len(vocabs[1]), *sizes),
    )
    history = d2l.train_seq2seq(net, train_iter, 0.004, 5, vocabs[1], CPU)
    d2l.train_seq2seq(net, train_iter, 0.001, 1, vocabs[1], CPU, history=history)
    torch.set_num_threads(threads)
    return Trained(net, *vocabs, history.seconds)


def translate(trained: Trained, sentences: list[str], **settings) -> list[d2l.Translation]:
    vocabs = trained.src_vocab, trained.tgt_vocab
    return d2l.translate(trained.net, sentences, *vocabs, NUM_STEPS, CPU, **settings)


def test_a_minute_of_training_translates_sentences_it_has_not_seen(trained):
    """F035: a low loss is not a good translation: this measures translations."""
    held_out = d2l.read_held_out()
    texts = [result.text for result in translate(trained, [pair.english for pair in held_out])]
    references = [d2l.preprocess_nmt(pair.french) for pair in held_out]
    exact = sum(text == ref for text, ref in zip(texts, references, strict=True)) / len(texts)
    bleu = d2l.corpus_bleu(texts, references)
    print(f"BLEU {bleu:.1f}, exactly right {exact:.1%}, {trained.seconds:.0f} s of training")
    assert bleu >= 80
    assert exact >= 0.65
    assert trained.seconds < 60


def crosses_over(maps: d2l.AttentionMaps, adjective, noun, adjectif, nom) -> torch.Tensor:
    """(layers, heads): whether each French word of the two looks most at its English one."""
    looked_at = maps.cross.argmax(dim=-1)  # (layers, heads, target)
    by_adjective = looked_at[..., maps.outputs.index(adjectif)] == maps.source.index(adjective)
    by_noun = looked_at[..., maps.outputs.index(nom)] == maps.source.index(noun)
    return by_adjective & by_noun


def test_a_head_shows_how_adjective_and_noun_swap_places(trained):
    sentences = [swap[0] for swap in SWAPS]
    results = translate(trained, sentences, save_attention_weights=True)
    assert all(
        f"{nom} {adjectif}" in result.text
        for result, (*_, adjectif, nom) in zip(results, SWAPS, strict=True)
    )
    crossings = torch.stack(
        [
            crosses_over(result.attention, *words)
            for result, (_, *words) in zip(results, SWAPS, strict=True)
        ]
    )  # (sentences, layers, heads)
    best = crossings.sum(dim=0).max()
    print(f"the best head shows it in {best} of {len(SWAPS)} sentences")
    assert best >= 9


def test_the_readme_s_example_says_what_it_prints(capsys):
    """Run it as it stands; its last line states the translation."""
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.splitlines()[-1] == example.strip().rpartition("# ")[2]
