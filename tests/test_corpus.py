"""The bundled pairs: a file that anyone can read, and that trains well as it is."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from d2l_mini import data

FILE = Path(data.__file__).parent / "corpus" / "english-french.tsv"


def pairs() -> list[list[str]]:
    return [line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines()]


def test_the_file_is_composed_utf8_with_plain_line_ends():
    content = FILE.read_bytes()
    text = content.decode("utf-8")
    assert not text.startswith("\ufeff")
    assert text == unicodedata.normalize("NFC", text)
    assert "\r" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_each_line_is_english_and_french_without_spare_spaces():
    bad = [
        pair for pair in pairs() if len(pair) != 2 or any(s != " ".join(s.split()) for s in pair)
    ]
    assert bad == []
    assert all(english and french for english, french in pairs())


def test_apostrophes_are_straight():
    assert set("’ʼ‘`´") & set(FILE.read_text(encoding="utf-8")) == set()


def test_no_english_sentence_comes_twice():
    english = [pair[0].lower() for pair in pairs()]
    assert sorted(english) == sorted(set(english))


def test_short_sentences_come_first_then_the_alphabet():
    english = [pair[0] for pair in pairs()]
    assert english == sorted(english, key=lambda sentence: (len(sentence), sentence))


def test_there_are_enough_pairs_and_none_is_long():
    source, target = data.tokenize_nmt(data.preprocess_nmt(data.read_data_nmt()))
    assert len(source) == len(pairs()) >= 600
    assert [line for line in source + target if len(line) > 9] == []


@pytest.mark.parametrize(
    "line",
    [
        "Go.\tVa !",
        "I lost.\tJ'ai perdu.",
        "He's calm.\tIl est calme.",
        "I'm home.\tJe suis chez moi.",
    ],
)
def test_the_sentences_of_the_book_are_there(line):
    assert line in FILE.read_text(encoding="utf-8").splitlines()


def test_the_default_pairs_leave_no_token_unknown():
    train_iter, src_vocab, tgt_vocab = data.load_data_nmt(batch_size=64, num_steps=10)
    X, _, Y, _ = train_iter.dataset.tensors
    assert len(X) == 600
    assert src_vocab.unk not in X.unique().tolist()
    assert tgt_vocab.unk not in Y.unique().tolist()
