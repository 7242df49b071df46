"""data.py: text comes in any form, files and networks fail, and the ids stay right."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import random
import socket
import subprocess
import sys
import tarfile
import threading
import time
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import mock_open

import pytest
import requests
import torch

from d2l_mini import data

PAIRS = "Go.\tVa !\nI'm home.\tJe suis chez moi.\nGo on.\tContinue, l'été !\n"
RESERVED = ["<pad>", "<bos>", "<eos>"]
NASTY = [
    "",
    " \t ",
    "\n\n Go.\t\tVa !\t\n",
    "A..B,,3,,5.\t5.,3 :5: 5",
    "“Non…”, dit-il.\t«\u202fOui\xa0!\u202f»",
    "I\u0307I\u0301 \u212b \u037e ΑΣ. ΑΣ\tŒuf \u1e9e",
    "3\u200b,\u200b5\t\u200b \u00ad\ufeff ’‘ʼ'",
    "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\th\r\ni\rj",
]


def zip_of(members: dict[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return buffer.getvalue()


def sha1(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() if path.is_file() else b"" for path in folder.glob("*")}


def vocab_of(lines: list[list[str]], **settings) -> data.Vocab:
    return data.Vocab(lines, reserved_tokens=RESERVED, **settings)


ARCHIVE = zip_of({"pairs/pairs.txt": PAIRS, "pairs/_about.txt": "CC0"})
REPACKED = zip_of({"pairs/pairs.txt": PAIRS}, zipfile.ZIP_STORED)
DAMAGED = ARCHIVE[:60] + bytes([ARCHIVE[60] ^ 255]) + ARCHIVE[61:]


@pytest.fixture
def cache(tmp_path):
    """The cache folder, empty."""
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


@pytest.fixture
def server(monkeypatch):
    """A web server for the dataset "pairs": what it sends can be set, what it was asked is kept."""
    state = SimpleNamespace(status=200, body=ARCHIVE, missing=0, wait=lambda: None, asked=[])
    state.over = threading.Event()

    def do_GET(self):
        state.asked.append(self.path)
        state.wait()
        self.send_response(state.status)
        self.send_header("Content-Length", str(len(state.body) + state.missing))
        self.end_headers()
        self.wfile.write(state.body)

    methods = {"do_GET": do_GET, "log_message": lambda *_: None}
    httpd = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Handler", (BaseHTTPRequestHandler,), methods)
    )
    httpd.handle_error = lambda *_: None  # a client that gave up
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"http://127.0.0.1:{httpd.server_port}/pairs.zip"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    dataset = data.Dataset(state.url, sha1(ARCHIVE), "pairs/pairs.txt", sha1(PAIRS.encode()))
    monkeypatch.setitem(data.DATA_HUB, "pairs", dataset)
    yield state
    state.over.set()
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture(scope="session")
def fra_txt(fra_eng, tmp_path_factory):
    """The book's text, unpacked."""
    with zipfile.ZipFile(fra_eng) as archive:
        return Path(archive.extract("fra-eng/fra.txt", tmp_path_factory.mktemp("book")))


# Preprocessing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Go.\tVa !", "go .\tva !"),
        ("Hi!\tSalut\u202f!", "hi !\tsalut !"),
        ("Ça\xa0va\u2009?", "ça va ?"),
        ("LÈVE-TOI, L'ÉTÉ!", "lève-toi , l'été !"),
        ("  Go  on .  \t  Va \t ", "go on .\tva\t"),
        ("l’été lʼété l‘été l'été", "l'été l'été l'été l'été"),
        ("e\u0301te\u0301 c\u0327a", "été ça"),
        ("3,5 kg.", "3,5 kg ."),
        ("At 10:30, 1.500,5.", "at 10:30 , 1.500,5 ."),
        ("I am 5, you 6.", "i am 5 , you 6 ."),
        ("(etc.)", "( etc . )"),
        ("a;b:c", "a ; b : c"),
        ("Wait... Now…", "wait . . . now …"),
        ('"Go", «va» [“x”]?!', '" go " , « va » [ “ x ” ] ? !'),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg", "a b c d e f g"),
        ("\ufeffGo\u200b.\tV\u00ada\u2060 \u200e!", "go .\tva !"),
        ("a.\tb.\r\nc.\td.\r\n", "a .\tb .\nc .\td .\n"),
        ("a.\tb.\rc.\td.", "a .\tb .\nc .\td ."),
        (" ", ""),
    ],
)
def test_text_comes_into_one_form(text, expected):
    """F040: comma and full stop are split wrongly."""
    assert data.preprocess_nmt(text) == expected


@pytest.mark.parametrize("text", NASTY)
def test_preprocessing_twice_is_preprocessing_once_and_keeps_lines_and_columns(text):
    once = data.preprocess_nmt(text)
    assert data.preprocess_nmt(once) == once
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert [line.count("\t") for line in once.split("\n")] == [line.count("\t") for line in lines]


def test_preprocessing_the_book_twice_is_preprocessing_it_once(fra_txt):
    with open(fra_txt, encoding="utf-8") as file:
        text = "".join(next(file) for _ in range(5000))
    once = data.preprocess_nmt(text)
    assert data.preprocess_nmt(once) == once
    assert (once.count("\n"), once.count("\t")) == (text.count("\n"), text.count("\t"))
    assert once != text


# Tokens


@pytest.mark.parametrize(
    ("num_examples", "kept"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (9, 4), (None, 4)]
)
def test_num_examples_counts_pairs_and_not_lines(num_examples, kept):
    """F036: one pair too many, and 0 is all."""
    text = "a\tA\n\nno tab\n\tB\nb\t \nc\tC\tCC-BY\nd\tD\n \t \ne\tE"
    source, target = data.tokenize_nmt(text, num_examples)
    assert source == [["a"], ["c"], ["d"], ["e"]][:kept]
    assert target == [["A"], ["C"], ["D"], ["E"]][:kept]


def test_tokens_are_what_stands_between_any_spaces():
    assert data.tokenize_nmt("go  . \t va\u2028! ") == ([["go", "."]], [["va", "!"]])


def test_a_negative_number_of_examples_is_refused():
    with pytest.raises(ValueError, match="num_examples is -1; it must be 0 or more"):
        data.tokenize_nmt(PAIRS, -1)


@pytest.mark.parametrize("text", ["", "\n\n", "no tab", "\tVa !", "Go.\t "])
@pytest.mark.parametrize("num_examples", [None, 3])
def test_text_without_pairs_is_refused(text, num_examples):
    with pytest.raises(ValueError, match="no line of the text has two columns"):
        data.tokenize_nmt(text, num_examples)


# The vocabulary


def test_a_vocabulary_numbers_tokens_as_the_book_does():
    vocab = data.Vocab([["b", "a", "b"], ["c", "b", "a"]], min_freq=2, reserved_tokens=["<pad>"])
    assert vocab.idx_to_token == ["<unk>", "<pad>", "b", "a"]
    assert vocab.token_to_idx == {"<unk>": 0, "<pad>": 1, "b": 2, "a": 3}
    assert vocab.token_freqs == [("b", 3), ("a", 2), ("c", 1)]
    assert (len(vocab), vocab.unk, vocab["a"], vocab["c"]) == (4, 0, 3, 0)
    assert vocab[["b", "never"]] == vocab[("b", "never")] == [2, 0]
    assert vocab[[["a"], ["b", "c"]]] == [[3], [2, 0]]
    assert ("a" in vocab, "c" in vocab) == (True, False)


@pytest.mark.parametrize("tokens", [["a", "b", "a"], ("a", "b", "a"), [["a", "b"], [], ["a"]]])
def test_a_vocabulary_takes_tokens_or_lists_of_tokens(tokens):
    assert data.Vocab(tokens).idx_to_token == ["<unk>", "a", "b"]


@pytest.mark.parametrize("tokens", [(), [], [[]], None])
def test_an_empty_vocabulary_knows_only_the_unknown(tokens):
    vocab = data.Vocab(tokens)
    assert vocab.idx_to_token == ["<unk>"]
    assert vocab["a"] == 0


def test_ids_do_not_depend_on_the_order_of_the_text():
    """F045: equal counts are numbered by the order of the text."""
    words = [*"zyxwv", *"zyx", "é"]
    expected = ["<unk>", "x", "y", "z", "v", "w", "é"]
    for seed in range(5):
        random.Random(seed).shuffle(words)
        assert data.Vocab(words).idx_to_token == expected


def test_a_reserved_token_in_the_text_has_one_id():
    vocab = data.Vocab(["<pad>", "<unk>", "a"], reserved_tokens=["<pad>", "<unk>", "<eos>"])
    assert vocab.idx_to_token == ["<unk>", "<pad>", "<eos>", "a"]
    assert [vocab[token] for token in vocab.idx_to_token] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        (1, "a"),
        ([1, 2], ["a", "b"]),
        ((2,), ["b"]),
        ([], []),
        ([[1], [2, 0]], [["a"], ["b", "<unk>"]]),
        (torch.tensor(1), "a"),
        (torch.tensor([1]), ["a"]),
        (torch.tensor([2, 1]), ["b", "a"]),
        ([torch.tensor(2)], ["b"]),
        (torch.tensor([2, 1], dtype=torch.int32).numpy(), ["b", "a"]),
        (torch.tensor([2]).numpy()[0], "b"),
    ],
)
def test_ids_become_tokens_again(indices, expected):
    """F046: ids in a tensor or an array."""
    assert data.Vocab(["a", "b"]).to_tokens(indices) == expected


@pytest.mark.parametrize("index", [-1, 3, 99])
@pytest.mark.parametrize("wrap", [int, lambda i: [0, i], torch.tensor])
def test_an_id_outside_the_vocabulary_is_refused(index, wrap):
    with pytest.raises(IndexError, match=rf"id {index} lies outside 0 \.\.\. 2"):
        data.Vocab(["a", "b"]).to_tokens(wrap(index))


# Arrays and batches


@pytest.mark.parametrize(
    ("line", "expected"),
    [([], [0, 0, 0]), ([7], [7, 0, 0]), ([7, 8, 9], [7, 8, 9]), ([7] * 5, [7] * 3)],
)
def test_a_line_becomes_num_steps_long(line, expected):
    before = list(line)
    assert data.truncate_pad(line, 3, 0) == expected
    assert line == before


def test_each_sentence_ends_in_eos_even_when_it_is_cut():
    """F032: a target that is cut never ends."""
    vocab = vocab_of([["a", "b", "c"]])
    a, b, c, pad, eos = vocab[["a", "b", "c", "<pad>", "<eos>"]]
    lines = [["a"], ["a", "b"], ["a", "b", "c"], ["c", "b", "a", "c"], []]
    array, valid_len = data.build_array_nmt(lines, vocab, 3)
    assert array.tolist() == [
        [a, eos, pad], [a, b, eos], [a, b, eos], [c, b, eos], [eos, pad, pad]
    ]  # fmt: skip
    assert valid_len.tolist() == [2, 3, 3, 3, 1]
    assert array.dtype == valid_len.dtype == torch.int64


def test_no_sentences_make_an_array_without_rows():
    array, valid_len = data.build_array_nmt([], vocab_of([]), 4)
    assert (array.shape, valid_len.shape) == ((0, 4), (0,))
    assert array.dtype == valid_len.dtype == torch.int64


@pytest.mark.parametrize("reserved", [[], ["<pad>"], ["<eos>"]])
def test_a_vocabulary_without_pad_or_eos_is_refused(reserved):
    """F047: a reserved token that is missing is silently <unk>."""
    missing = "<eos>" if "<pad>" in reserved else "<pad>"
    with pytest.raises(ValueError, match=f"the vocabulary lacks {missing}"):
        data.build_array_nmt([["a"]], data.Vocab(["a"], reserved_tokens=reserved), 4)


@pytest.mark.parametrize("num_steps", [0, -1])
def test_a_sentence_needs_a_step(num_steps):
    with pytest.raises(ValueError, match=f"num_steps is {num_steps}; it must be 1 or more"):
        data.build_array_nmt([["a"]], vocab_of([["a"]]), num_steps)


def test_an_epoch_gives_each_row_once_and_keeps_arrays_together():
    rows = torch.arange(10)
    batches = list(data.load_array((rows, rows * rows), 4))
    assert [len(X) for X, _ in batches] == [4, 4, 2]
    assert torch.cat([X for X, _ in batches]).sort().values.tolist() == list(range(10))
    assert all(torch.equal(X * X, squares) for X, squares in batches)


def test_the_order_changes_with_the_epoch_and_follows_the_seed():
    loader = data.load_array((torch.arange(50),), 50)
    torch.manual_seed(1)
    first, second = next(iter(loader))[0], next(iter(loader))[0]
    torch.manual_seed(1)
    assert torch.equal(next(iter(loader))[0], first)
    assert not torch.equal(first, second)


def test_without_training_the_order_is_kept():
    loader = data.load_array((torch.arange(5),), 2, is_train=False)
    for _ in range(2):
        assert [X.tolist() for (X,) in loader] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("arrays", "batch_size", "message"),
    [
        ((torch.zeros(3),), 0, "batch_size is 0; it must be 1 or more"),
        ((torch.zeros(3),), -2, "batch_size is -2; it must be 1 or more"),
        ((torch.zeros(3), torch.zeros(4)), 2, r"same number of rows.*\[3, 4\]"),
        ((torch.zeros(0),), 2, r"at least 1, but have \[0\]"),
        ((), 2, r"at least 1, but have \[\]"),
    ],
)
def test_arrays_that_make_no_batch_are_refused(arrays, batch_size, message):
    with pytest.raises(ValueError, match=message):
        data.load_array(arrays, batch_size)


def test_steps_that_are_padding_in_every_row_are_dropped():
    X = torch.tensor([[5, 3, 1, 1], [5, 6, 3, 1]])
    assert data.trim_padding(X, torch.tensor([2, 3])).tolist() == [[5, 3, 1], [5, 6, 3]]
    assert torch.equal(data.trim_padding(X, torch.tensor([4, 1])), X)


def test_batches_hold_source_and_target_with_their_lengths():
    """F093: workers of a loader cannot find a notebook's classes; there are none."""
    source, target = [["a", "b"], ["a"]], [["x", "y", "x"], ["y"]]
    train_iter, src_vocab, tgt_vocab = data.build_data_nmt(source, target, 2, 5, min_freq=1)
    assert src_vocab.idx_to_token == ["<unk>", *RESERVED, "a", "b"]
    assert tgt_vocab.idx_to_token == ["<unk>", *RESERVED, "x", "y"]
    X, X_valid_len, Y, Y_valid_len = train_iter.dataset.tensors
    assert (X.tolist(), X_valid_len.tolist()) == ([[4, 5, 3, 1, 1], [4, 3, 1, 1, 1]], [3, 2])
    assert (Y.tolist(), Y_valid_len.tolist()) == ([[4, 5, 4, 3, 1], [5, 3, 1, 1, 1]], [4, 2])
    (batch,) = train_iter
    assert [tuple(array.shape) for array in batch] == [(2, 5), (2,), (2, 5), (2,)]
    assert train_iter.num_workers == 0


def test_cut_sentences_are_counted_in_a_warning_and_others_give_none():
    source, target = [["a"] * 3, ["a"] * 4], [["b"] * 4, ["b"] * 5]
    with pytest.warns(UserWarning, match=r"^3 of 4 sentences have more than the 3 tokens .* 4 "):
        data.build_data_nmt(source, target, 2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.build_data_nmt(source, target, 2, 6)


# Held-out sentences


def repeated_pairs() -> tuple[list[list[str]], list[list[str]]]:
    """Ten English sentences with one to three French ones each."""
    pairs = [([f"e{i}", "."], [f"f{i}", str(j)]) for i in range(10) for j in range(1 + i % 3)]
    return [english for english, _ in pairs], [french for _, french in pairs]


@pytest.mark.parametrize(("fraction", "count"), [(0, 0), (0.3, 3), (0.5, 5), (1, 10)])
def test_whole_english_sentences_are_held_out(fraction, count):
    """F042: one English sentence on both sides."""
    source, target = repeated_pairs()
    train, held_out = data.hold_out_nmt(source, target, fraction)
    sides = [{tuple(english) for english in side[0]} for side in (train, held_out)]
    assert sides[0] & sides[1] == set()
    assert [len(side) for side in sides] == [10 - count, count]
    both = [pair for side in (train, held_out) for pair in zip(*side, strict=True)]
    assert sorted(both) == sorted(zip(source, target, strict=True))


def test_the_seed_alone_chooses_what_is_held_out():
    source, target = repeated_pairs()
    expected = data.hold_out_nmt(source, target, 0.5, seed=3)
    random.seed(5)
    assert data.hold_out_nmt(source, target, 0.5, seed=3) == expected
    assert data.hold_out_nmt(source, target, 0.5, seed=2) != expected
    assert {english[0] for english in expected[1][0]} == {"e2", "e3", "e4", "e7", "e8"}
    backwards = data.hold_out_nmt(source[::-1], target[::-1], 0.5, seed=3)
    assert sorted(backwards[1][1]) == sorted(expected[1][1])


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_outside_0_to_1_is_refused(fraction):
    with pytest.raises(ValueError, match=f"fraction must be a number in .* {fraction}"):
        data.hold_out_nmt(*repeated_pairs(), fraction)


def test_all_french_of_a_sentence_is_a_reference():
    """F043: one reference where several are right."""
    source = [["go", "."], ["hi", "!"], ["go", "."]]
    target = [["va", "!"], ["salut", "!"], ["allez", "-", "y", "!"]]
    references = {"go .": ["va !", "allez - y !"], "hi !": ["salut !"]}
    assert data.group_references(source, target) == references
    with pytest.raises(ValueError, match="there are 3 and 2"):
        data.group_references(source, target[:2])


# Reading and loading


@pytest.mark.parametrize(
    "content",
    [
        PAIRS.encode(),
        PAIRS.encode("utf-8-sig"),
        ARCHIVE,
        zip_of({"a.tsv": PAIRS.encode("utf-8-sig"), "__MACOSX/._a.tsv": b"\x00\x05"}),
    ],
    ids=["text", "text with a byte order mark", "zip", "zip made on a Mac"],
)
def test_a_text_file_or_a_zip_is_read(content, tmp_path):
    path = tmp_path / "pairs"
    path.write_bytes(content)
    assert data.read_data_nmt(path) == data.read_data_nmt(str(path)) == PAIRS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pairs.tsv", PAIRS.encode("utf-16"), r"is not UTF-8 text \(byte 0\): save it as UTF-8"),
        ("pairs.tsv", "Hi.\té".encode("latin-1"), r"is not UTF-8 text \(byte 4\): save it"),
        ("pairs.tsv", b"", "is empty; it should hold one sentence pair a line"),
        ("pairs.tsv", b"\xef\xbb\xbf \r\n", "is empty; it should hold"),
        ("pairs.zip", zip_of({"_about.txt": "x", "a.csv": "y"}), "holds 0 text files, not one"),
        ("pairs.zip", zip_of({"a.txt": "x", "b.tsv": "y"}), "holds 2 text files, not one; give"),
        ("pairs.zip", ARCHIVE[:90], "cannot be unpacked .*; fetch it again"),
        ("pairs.zip", b"<html>Not found</html>", "cannot be unpacked .*; fetch it again"),
        ("pairs.zip", DAMAGED, "cannot be unpacked .*; fetch it again"),
    ],
    ids=["UTF-16", "Latin-1", "empty", "blank", "no text", "two texts", "cut", "page", "damaged"],
)
def test_a_file_that_holds_no_text_is_refused_in_one_sentence(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        data.read_data_nmt(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_zip_with_any_byte_changed_is_read_or_refused_in_one_sentence(tmp_path):
    path = tmp_path / "pairs.zip"
    refusals = []
    for place in range(len(ARCHIVE)):
        path.write_bytes(ARCHIVE[:place] + bytes([ARCHIVE[place] ^ 255]) + ARCHIVE[place + 1 :])
        try:
            assert data.read_data_nmt(path) == PAIRS
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert [text for text in refusals if not text.startswith(str(path))] == []


@pytest.mark.parametrize("place", ["nothing", "."])
def test_a_path_without_a_file_is_refused(place, tmp_path):
    with pytest.raises(FileNotFoundError, match=r'there is no file .*; source is "bundled"'):
        data.read_data_nmt(tmp_path / place)


def test_files_are_utf8_whatever_the_system_prefers():
    """F048: files are opened in the system's encoding."""
    program = (
        "from d2l_mini import data; import hashlib; "
        "print(hashlib.sha1(data.read_data_nmt().encode('utf-8')).hexdigest())"
    )
    ascii_only = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    command = [sys.executable, "-c", program]
    environment = os.environ | ascii_only
    root = Path(data.__file__).parent.parent
    digest = subprocess.run(
        command, env=environment, cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    assert digest.stdout.strip() == sha1(data.read_data_nmt().encode("utf-8"))


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_corpus_of_ones_own_becomes_batches(line_end, tmp_path):
    """F037: lines of three columns are dropped."""
    path = tmp_path / "own.tsv"
    lines = ["no tab", "Go!\tVa !\tCC-BY", "Go, go!\tVa, va !", "Stop!\tStop !"]
    path.write_text(line_end.join(lines), encoding="utf-8", newline="")
    train_iter, src_vocab, tgt_vocab = data.load_data_nmt(4, 6, num_examples=2, source=path)
    assert src_vocab.idx_to_token == ["<unk>", *RESERVED, "go", "!"]
    assert tgt_vocab.idx_to_token == ["<unk>", *RESERVED, "va", "!"]
    X, X_valid_len, _, _ = train_iter.dataset.tensors
    assert X.tolist() == [[4, 5, 3, 1, 1, 1], [4, 0, 4, 5, 3, 1]]
    assert X_valid_len.tolist() == [3, 5]


def test_the_bundled_pairs_are_the_default():
    train_iter, src_vocab, tgt_vocab = data.load_data_nmt(batch_size=64, num_steps=10)
    shapes = {tuple(array.shape) for batch in train_iter for array in batch}
    assert shapes == {(64, 10), (64,), (600 % 64, 10), (600 % 64,)}
    X, _, Y, _ = train_iter.dataset.tensors
    assert src_vocab.to_tokens(X[0])[:3] == ["go", ".", "<eos>"]
    assert tgt_vocab.to_tokens(Y[0])[:3] == ["va", "!", "<eos>"]


@pytest.mark.parametrize("form", ["fra_eng", "fra_txt"])
def test_the_book_gives_the_vocabularies_of_600_pairs(form, request):
    source = request.getfixturevalue(form)
    train_iter, src_vocab, tgt_vocab = data.load_data_nmt(64, 10, source=source)
    assert len(train_iter.dataset) == 600
    assert (len(src_vocab), len(tgt_vocab)) == (184, 200)  # the book: 201, with j’ai beside j'ai


def test_a_few_pairs_of_a_large_file_come_fast(fra_txt):
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        data.load_data_nmt(64, 10, 600, fra_txt)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.5


# Downloading


def test_a_dataset_is_fetched_once(server, tmp_path):
    path = data.download("pairs")
    assert path == tmp_path / "cache" / "pairs.zip"
    assert path.read_bytes() == ARCHIVE
    assert data.download("pairs") == path
    assert server.asked == ["/pairs.zip"]
    assert list(files(path.parent)) == ["pairs.zip"]


def test_the_folder_given_is_used_before_that_of_the_environment(server, tmp_path):
    path = data.download("pairs", tmp_path / "mine" / "deep")
    assert path == tmp_path / "mine" / "deep" / "pairs.zip"
    assert not (tmp_path / "cache").exists()


def test_without_the_variable_the_userscache_folder_is_used(server, tmp_path, monkeypatch):
    monkeypatch.delenv("D2L_MINI_CACHE")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda app: str(tmp_path / "user" / app))
    assert data.download("pairs") == tmp_path / "user" / "d2l_mini" / "pairs.zip"


def test_another_archive_of_the_same_text_is_accepted_and_kept(server):
    """F050: the digest of the archive, which another packer changes."""
    server.body = REPACKED
    assert data.download("pairs").read_bytes() == REPACKED
    data.download("pairs")
    assert len(server.asked) == 1


def test_an_entry_may_be_the_books_pair_of_address_and_digest(server, monkeypatch):
    monkeypatch.setitem(data.DATA_HUB, "pairs", (server.url, sha1(ARCHIVE)))
    assert data.download("pairs").read_bytes() == ARCHIVE
    server.body = REPACKED  # without a digest of the text, that of the archive decides
    monkeypatch.setitem(data.DATA_HUB, "pairs", (server.url, sha1(b"")))
    with pytest.raises(OSError, match="damaged or another file"):
        data.download("pairs")


def test_a_damaged_file_in_the_cache_is_replaced(server, cache):
    (cache / "pairs.zip").write_bytes(DAMAGED)
    assert data.download("pairs").read_bytes() == ARCHIVE


def page_of_error(status, server, monkeypatch):
    server.status, server.body = status, b"<html>Sorry</html>"


def sends(body, server, monkeypatch):
    server.body = body


def cut_off(server, monkeypatch):
    server.missing = 1000


def down(server, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/pairs.zip"
    monkeypatch.setitem(data.DATA_HUB, "pairs", data.DATA_HUB["pairs"]._replace(url=url))


def silent(server, monkeypatch):
    get = requests.get

    def get_with_less_patience(url, *, timeout, **settings):
        return get(url, timeout=timeout and 0.1, **settings)

    server.wait = partial(server.over.wait, 5)
    monkeypatch.setattr(requests, "get", get_with_less_patience)


def full_disk(server, monkeypatch):
    file = mock_open()
    file.return_value.write.side_effect = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    real = open
    monkeypatch.setattr(
        data, "open", lambda path, mode: (file if "w" in mode else real)(path, mode), raising=False
    )


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (
            partial(page_of_error, 404),
            r"could not download .* \(the server answered 404\); connect",
        ),
        (
            partial(page_of_error, 503),
            r"could not download .* \(the server answered 503\); connect",
        ),
        (
            partial(sends, b"<html>Log in</html>"),
            r"sent \(19 bytes\) is not pairs: it is damaged or",
        ),
        (partial(sends, DAMAGED), "is not pairs: it is damaged or another file; try again later"),
        (partial(sends, zip_of({"other.txt": PAIRS})), "is not pairs: it is damaged or another"),
        (cut_off, "could not download .*; connect to the network and try again"),
        (down, "could not download .*; connect to the network and try again"),
        (silent, "could not download .*; connect to the network and try again"),
        (full_disk, f"could not write to .*{os.strerror(errno.ENOSPC)}.*; make room"),
    ],
    ids=["404", "503", "page", "damaged", "other", "cut", "down", "silent", "full"],
)
@pytest.mark.parametrize("before", [{}, {"pairs.zip": DAMAGED, "other.zip": b"mine"}])
def test_a_failed_download_says_what_to_do_and_changes_nothing(
    trouble, message, before, server, cache, monkeypatch
):
    """F049, F053: a page of error is kept as the archive; no network, no end of waiting."""
    for name, content in before.items():
        (cache / name).write_bytes(content)
    trouble(server, monkeypatch)
    with pytest.raises(OSError, match=message) as caught:
        data.download("pairs")
    assert 'give the path of a copy of the file as source, or use source="bundled"' in str(
        caught.value
    )
    assert not str(caught.value).startswith("[Errno")
    assert "\n" not in str(caught.value)
    assert files(cache) == before


@pytest.mark.parametrize("place", ["file", "file/folder"])
def test_acache_folder_that_cannot_be_made_is_told(place, server, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match=r"could not write to .*D2L_MINI_CACHE.*bundled"):
        data.download("pairs", tmp_path / place)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_in_the_place_of_the_archive_is_told(server, cache):
    (cache / "pairs.zip").mkdir()
    with pytest.raises(OSError, match=r"could not write to .*bundled"):
        data.download("pairs")


def test_a_name_that_the_hub_lacks_is_refused(server):
    with pytest.raises(ValueError, match="no dataset 'fra'; DATA_HUB has fra-eng, pairs"):
        data.download("fra")


def test_two_downloads_at_once_both_succeed(server, cache):
    server.wait = partial(threading.Barrier(2).wait, 10)  # both are asked before either is answered
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(data.download, ["pairs", "pairs"]))
    assert paths == [cache / "pairs.zip"] * 2
    assert files(cache) == {"pairs.zip": ARCHIVE}


def test_what_is_on_this_computer_is_found_and_nothing_is_fetched(server, tmp_path, monkeypatch):
    monkeypatch.delenv("D2L_MINI_PAIRS", raising=False)
    assert data.find_download("pairs") is None
    kept = data.download("pairs")
    assert data.find_download("pairs") == kept
    given = tmp_path / "given.zip"
    monkeypatch.setenv("D2L_MINI_PAIRS", str(given))
    assert data.find_download("pairs") == kept, "there is nothing at the path of the environment"
    given.write_bytes(ARCHIVE)
    assert data.find_download("pairs") == given
    kept.write_bytes(ARCHIVE[:90])
    assert data.find_download("pairs", kept.parent) == given
    given.unlink()
    assert data.find_download("pairs") is None, "what is kept is damaged"
    assert server.asked == ["/pairs.zip"]
    with pytest.raises(ValueError, match="there is no dataset 'fra'"):
        data.find_download("fra")


def test_the_source_fra_eng_is_downloaded(server, monkeypatch):
    monkeypatch.setitem(data.DATA_HUB, "fra-eng", data.DATA_HUB["pairs"])
    assert data.read_data_nmt("fra-eng") == PAIRS


def test_the_book_is_known_by_its_text(fra_eng, cache, monkeypatch):
    assert data.DATA_HUB["fra-eng"].url.startswith("https://")
    monkeypatch.setattr(requests, "get", None)  # it is there already: nothing is asked
    (cache / "fra-eng.zip").write_bytes(fra_eng.read_bytes())
    assert data.download("fra-eng") == cache / "fra-eng.zip"


# Unpacking


def test_a_dataset_is_unpacked_once_beside_its_archive(server, cache):
    folder = data.download_extract("pairs")
    assert folder == cache / "pairs"
    assert files(folder) == {"pairs.txt": PAIRS.encode(), "_about.txt": b"CC0"}
    (folder / "pairs.txt").write_text("mine")
    assert data.download_extract("pairs") == folder
    assert (folder / "pairs.txt").read_text() == "mine"
    assert sorted(files(cache)) == ["pairs", "pairs.zip"]


def test_the_folder_inside_the_archive_can_be_named(server, cache):
    server.body = zip_of({"pairs/pairs.txt": PAIRS, "more/more.txt": "more"})
    assert files(data.download_extract("pairs", "more")) == {"more.txt": b"more"}
    with pytest.raises(OSError, match=r"could not unpack none from .*bundled"):
        data.download_extract("pairs", "none")
    assert sorted(files(cache)) == ["more", "pairs.zip"]


def test_no_member_of_a_zip_escapes(server, tmp_path):
    server.body = zip_of({"pairs/pairs.txt": PAIRS, "../escaped": "x", "pairs/../../escaped": "x"})
    assert list(files(data.download_extract("pairs"))) == ["pairs.txt"]
    assert list(tmp_path.rglob("escaped")) == []


def test_no_member_of_a_tar_escapes(server, tmp_path, monkeypatch):
    """F051: a member named ../x."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("pairs/pairs.txt"))
        archive.addfile(tarfile.TarInfo("../escaped"))
    server.body = buffer.getvalue()
    url = server.url.replace(".zip", ".tar.gz")
    monkeypatch.setitem(data.DATA_HUB, "pairs", (url, sha1(server.body)))
    with pytest.raises(OSError, match=r"could not unpack .*bundled"):
        data.download_extract("pairs", "pairs")
    assert list(tmp_path.rglob("escaped")) == []


# The device


@pytest.mark.parametrize(
    ("cuda", "mps", "xpu", "i", "expected"),
    [
        (0, False, 0, 0, "cpu"),
        (2, True, 1, 0, "cuda:0"),
        (2, True, 1, 1, "cuda:1"),
        (2, False, 0, 2, "cpu"),
        (0, True, 1, 0, "mps"),
        (0, True, 0, 1, "cpu"),
        (0, False, 2, 1, "xpu:1"),
        (0, False, 1, 1, "cpu"),
    ],
)
def test_the_first_kind_of_gpu_that_is_there_is_taken(cuda, mps, xpu, i, expected, monkeypatch):
    """F090: the GPU of a Mac is never found."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.setattr(torch.xpu, "device_count", lambda: xpu)
    assert data.try_gpu(i) == torch.device(expected)


def test_a_vocabulary_can_be_gone_through():
    assert list(data.Vocab(["b", "a"], reserved_tokens=["<pad>"])) == ["<unk>", "<pad>", "a", "b"]


@pytest.mark.parametrize("token", [3, None, torch.tensor([1]), [["a"], 3]], ids=str)
def test_what_is_no_token_has_no_number(token):
    with pytest.raises(TypeError, match="numbers for tokens"):
        data.Vocab(["a"])[token]


def test_a_string_is_no_list_of_tokens():
    vocab = data.Vocab(["a"], reserved_tokens=["<pad>", "<eos>"])
    with pytest.raises(TypeError, match="split each sentence"):
        data.build_array_nmt(["a ."], vocab, 6)
    with pytest.raises(TypeError, match="must be a list of strings"):
        data.Vocab(["a"], reserved_tokens="<pad>")


@pytest.mark.parametrize("arrays", [torch.zeros(3, 2), [[1, 2]]], ids=["tensor", "lists"])
def test_batches_are_made_of_a_list_of_tensors(arrays):
    with pytest.raises(TypeError, match="must be a list of tensors"):
        data.load_array(arrays, 2)


@pytest.mark.parametrize("apostrophe", "’ʼ‘‛′´`＇ʹ")
def test_every_apostrophe_is_the_same(apostrophe):
    assert data.preprocess_nmt(f"l{apostrophe}été") == "l'été"


@pytest.mark.parametrize("mark", "¡¿„‚‹›—–…«»")
def test_every_mark_stands_alone(mark):
    assert data.preprocess_nmt(f"a{mark}b") == f"a {mark} b"


def test_marks_of_direction_are_dropped():
    assert data.preprocess_nmt("\u202ago\u202c \u2066now\u2069") == "go now"


def test_an_empty_variable_names_nocache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("D2L_MINI_CACHE", "")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / name))
    assert data.cache_folder(None) == tmp_path / "d2l_mini"


@pytest.mark.parametrize("side", ["", " ", "\u200b", "\u00ad \u3000", "\x85\ufeff"])
def test_a_side_without_a_visible_character_makes_no_pair(side):
    text = f"go .\t{side}\n{side}\tva !\ngo .\tva !"
    assert data.tokenize_nmt(text) == ([["go", "."]], [["va", "!"]])


def test_utf_16_without_a_mark_is_not_read_as_letters_and_nuls(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes("Heart.\tCœur.\n".encode("utf-16-le").replace(b"\x53\x01", b"o\0"))
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        data.read_data_nmt(path)


@pytest.mark.parametrize("folder", ["..", "x/fra-eng", "/etc/fra-eng", ".", "", 5])
def test_a_path_is_no_folder_of_an_archive(folder, tmp_path):
    with pytest.raises(ValueError, match=r"folder is .*; it must be the name of one"):
        data.download_extract("fra-eng", folder, tmp_path)
    assert not list(tmp_path.iterdir())


def test_counts_are_no_tokens():
    with pytest.raises(TypeError, match="tokens must be a list, and not a dictionary"):
        data.Vocab({"a": 3, "b": 1}, min_freq=2)


@pytest.mark.parametrize("lengths", [torch.tensor([1.0, 2.0]), torch.tensor([True]), [1, 2]])
def test_lengths_of_rows_are_whole_numbers(lengths):
    with pytest.raises(TypeError, match=r"lengths (are whole numbers|must be a dense tensor)"):
        data.batches_by_length(lengths, 9)


def test_a_variable_that_names_no_one_s_home_is_told(monkeypatch):
    monkeypatch.setenv("D2L_MINI_FRA_ENG", "~nosuchuser/x")
    with pytest.raises(ValueError, match="no file can be named '~nosuchuser/x'"):
        data.find_download("fra-eng")
