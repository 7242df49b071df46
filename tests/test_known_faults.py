"""Faults that people met in code of this kind, and that no test of a module names.

The ids are those of a list of 95; `grep -rn F0 tests` finds where each of them is held off.
"""

from __future__ import annotations

import io
import re
import threading
import unicodedata
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha1
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import d2l_mini as d2l
from d2l_mini import data

ROOT = Path(__file__).parent.parent
CPU = torch.device("cpu")
RESERVED = ["<pad>", "<bos>", "<eos>"]
VOCAB, HIDDENS = 11, 8
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def make_net(source: int = VOCAB, target: int = VOCAB, keep: bool | None = None):
    torch.manual_seed(0)
    sizes = (HIDDENS, 16, 2, 2)
    net = d2l.EncoderDecoder(
        d2l.TransformerEncoder(source, *sizes), d2l.TransformerDecoder(target, *sizes)
    )
    for module in net.modules():
        if isinstance(module, d2l.Attention):
            module.keep_weights = keep
    return net


def test_each_fault_has_its_test_or_its_line():
    """A row that no test can reach is named in the table of CONTRIBUTING.md."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    texts.append((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    named = set(re.findall(r"\bF0\d\d\b", "\n".join(texts)))
    assert sorted({f"F{number:03}" for number in range(1, 96)} - named) == []


# Masks and attention -------------------------------------------------------------------------


@pytest.fixture
def kernel_calls(monkeypatch) -> list[dict]:
    """What PyTorch's kernel is asked for."""
    calls, kernel = [], F.scaled_dot_product_attention

    def noted(query, key, value, **settings):
        calls.append(settings)
        return kernel(query, key, value, **settings)

    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    return calls


@pytest.mark.parametrize("training", [True, False])
def test_no_kernel_sees_a_row_without_a_key(kernel_calls, training):
    """F006: what a kernel makes of such a row differs by release and by device."""
    net = make_net(keep=False).train(training)
    logits, _ = net(torch.ones(2, 5).long(), torch.ones(2, 3).long(), torch.tensor([0, 2]))
    assert logits.isfinite().all()
    masks = [call["attn_mask"] for call in kernel_calls]
    assert len(masks) == 6
    assert all(mask.dtype == torch.bool and mask.any(dim=-1).all() for mask in masks)


def test_no_kernel_is_told_is_causal(kernel_calls):
    """F015: in some layers that is a hint only, and beside a cache it means another mask."""
    net = make_net(keep=False).eval()
    state = net.decoder.init_state(net.encoder(torch.ones(1, 4).long()))
    for steps in (3, 1, 2):
        _, state = net.decoder(torch.ones(1, steps).long(), state)
    assert len(kernel_calls) == 2 + 3 * 4
    assert not any(call.get("is_causal") for call in kernel_calls)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.int8], ids=str)
@pytest.mark.parametrize("form", [Tensor.numpy, Tensor.tolist, tuple, Tensor.clone])
def test_whole_lengths_of_any_form_are_taken(dtype, form):
    scores = torch.randn(2, 3, 200)  # more keys than an int8 can count
    lens = form(torch.tensor([1, 100]).to(dtype))
    assert d2l.masked_softmax(scores, lens).equal(
        d2l.masked_softmax(scores, torch.tensor([1, 100]))
    )


@pytest.mark.parametrize(
    "lens", [["2", "3"], [None, 1], [[1], [1, 2]], [1.5, 2], torch.zeros(2, dtype=torch.complex64)]
)
def test_lengths_that_are_none_are_refused_at_once(lens):
    """F010: lengths of a wrong form fail far from the cause."""
    for mask in (d2l.masked_softmax, lambda X, lens: d2l.sequence_mask(X[:, 0], lens)):
        with pytest.raises(TypeError, match="valid lengths are whole numbers, but"):
            mask(torch.zeros(2, 3, 4), lens)


def test_padding_of_the_target_needs_no_mask_of_its_own():
    """F011: keys are masked, and padded queries are left to the loss, never masked themselves."""
    lens, loss = torch.tensor([2, 4]), d2l.MaskedSoftmaxCELoss()
    enc_X, Y = torch.randint(VOCAB, (2, 5)), torch.randint(VOCAB, (2, 5))
    gradients = []
    for padding in (0, 7):
        net, dec_X = make_net().train(), d2l.sequence_mask(Y, lens, padding)
        loss(net(enc_X, dec_X)[0], Y, lens).sum().backward()
        gradients.append([parameter.grad for parameter in net.parameters()])
    torch.testing.assert_close(*gradients)
    both = torch.minimum(torch.arange(1, 6), lens[:, None])  # causal and padding at once
    assert both.tolist() == [[1, 2, 2, 2, 2], [1, 2, 3, 4, 4]]
    weights = d2l.masked_softmax(torch.randn(2, 5, 5), both)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5))


def test_true_in_a_mask_is_to_keep():
    """F012: one of PyTorch's functions keeps where a mask is True, another one drops."""
    keep = d2l.attention_mask(torch.Size((1, 1, 4)), torch.tensor([2]), CPU)
    assert keep.tolist() == [[[True, True, False, False]]]
    X, values = torch.zeros(1, 4, 4), torch.eye(4)[None]
    kept = F.scaled_dot_product_attention(X[:, :1], X, values, attn_mask=keep)
    assert kept.tolist() == [[[0.5, 0.5, 0, 0]]]
    assert d2l.DotProductAttention()(X[:, :1], X, values, torch.tensor([2])).equal(kept)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.bool], ids=str)
def test_a_mask_is_not_taken_for_lengths(dtype):
    """F013: a mask of zeros and ones is added to the scores."""
    mask = torch.tensor([[1, 1, 0, 0]]).to(dtype)
    for lens in (mask, mask[None], mask[:, 0]):
        with pytest.raises(TypeError, match=f"valid lengths are whole numbers.*{dtype}"):
            d2l.masked_softmax(torch.zeros(1, 4, 4), lens)


@pytest.mark.parametrize("keep", [True, False], ids=["weights-kept", "fused"])
def test_the_encoder_gives_the_same_in_both_modes_where_a_step_is_padding_in_every_row(keep):
    """F016: PyTorch's own has a fast path in eval mode that cuts them off, or makes them 0."""
    encoder = make_net(keep=keep).encoder
    X, lens = torch.randint(VOCAB, (2, 6)), torch.tensor([3, 4])
    trained, evaluated = encoder.train()(X, lens), encoder.eval()(X, lens)
    assert evaluated.shape == (2, 6, HIDDENS)
    assert evaluated[:, 4:].any(dim=-1).all()
    torch.testing.assert_close(evaluated, trained)


def test_each_side_may_have_its_own_id_for_padding():
    """F019: the target is masked by the id that pads the source."""
    lines = [["a", "b"], ["a"]]
    plain = d2l.Vocab(lines, reserved_tokens=RESERVED)
    other = d2l.Vocab(lines, reserved_tokens=["<eos>", "<bos>", "<more>", "<pad>"])
    assert plain["<pad>"] != other["<pad>"]
    X, X_len = d2l.build_array_nmt(lines, plain, 6)
    Y, Y_len = d2l.build_array_nmt(lines, other, 6)
    net, loss = make_net(len(plain), len(other)), d2l.MaskedSoftmaxCELoss()
    losses = []
    for source_id, target_id in ((plain["<pad>"], other["<pad>"]), (5, 1), (0, 6)):
        X, Y = d2l.sequence_mask(X, X_len, source_id), d2l.sequence_mask(Y, Y_len, target_id)
        losses.append(loss(net(X, Y, X_len)[0], Y, Y_len))
    torch.testing.assert_close(losses[1:], losses[:1] * 2)


def test_no_mask_is_an_assignment_to_an_index():
    """F091: X[~mask] = value is slow, and wrong on some devices (F089)."""
    seen = set()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.add(function.overloadpacket.__name__.rstrip("_"))
            return function(*args, **(kwargs or {}))

    lens = torch.tensor([0, 3])
    with Watch():
        d2l.sequence_mask(torch.ones(2, 4), lens)
        for keep in (True, False):
            logits, _ = make_net(keep=keep)(torch.ones(2, 5).long(), torch.ones(2, 4).long(), lens)
            d2l.MaskedSoftmaxCELoss()(logits, torch.ones(2, 4).long(), lens).sum().backward()
    assert "masked_fill" in seen
    assert seen & {"index_put", "nonzero", "masked_select", "masked_scatter"} == set()


# The loss ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_loss_without_padding_and_with_certain_logits_is_finite(dtype):
    """F062: no padding in the batch, or the log of 0."""
    pred = torch.tensor([[[3e4, -3e4], [3e4, -3e4]]], dtype=dtype)
    losses = d2l.MaskedSoftmaxCELoss()(pred, torch.tensor([[0, 1]]), torch.tensor([2]))
    assert losses.tolist() == pytest.approx([6e4], rel=1e-2)


# Text ----------------------------------------------------------------------------------------

# Each of these is a space to Python; U+200B and its like are none, and take no room.
SPACES = [chr(code) for code in range(0x3001) if chr(code).isspace()]
INVISIBLE = "\0\x1b\x7f\x9f\xad\u034f\u061c\u115f\u180e\u200b\u200c\u200d\u200f\u202e\u2060\u2066"
INVISIBLE += "\u2069\u3164\ufe0f\ufeff\uffa0\ufff9\U0001d173\U000e0041"
APOSTROPHES = "'’‘‛′‵´`ʹʻʼʽˈˊˋ΄՚׳᾽᾿ꞌ❛❜＇｀" + "\u0374\u1fef\u1ffd"  # by NFC, three turn into one


def test_any_space_parts_words_and_none_is_a_word():
    """F039: double, trailing and special spaces become <unk>."""
    assert len(SPACES) >= 25
    for space in SPACES:
        text = f"{space}Go{space * 2}on{space}.{space}"
        assert d2l.preprocess_nmt(text).split() == ["go", "on", "."]
        assert set("".join(d2l.preprocess_nmt(text).split(" "))) <= set("goon.\t\n")


@pytest.mark.parametrize("sentence", [*SPACES, *INVISIBLE, f"\u200b{' ' * 3}\ufeff"], ids=ascii)
def test_a_sentence_without_a_word_is_refused(sentence):
    src_vocab = d2l.Vocab(["go"], reserved_tokens=RESERVED)
    net = make_net(len(src_vocab), len(src_vocab))
    with pytest.raises(ValueError, match="sentence 1 is empty"):
        d2l.translate(net, ["go", sentence], src_vocab, src_vocab, 5, CPU)


@pytest.mark.parametrize("mark", INVISIBLE, ids=ascii)
def test_what_no_one_sees_changes_nothing(mark):
    assert d2l.preprocess_nmt(f"{mark}L'e{mark}\u0301t\u0301e {mark}.") == "l'ét́e ."


@pytest.mark.parametrize("apostrophe", APOSTROPHES, ids=ascii)
def test_any_apostrophe_is_the_straight_one(apostrophe):
    """F041: the typographic one makes another word."""
    text = f"L{apostrophe}ÉTÉ."
    for form in (text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)):
        assert d2l.preprocess_nmt(form) == "l'été ."


@pytest.mark.parametrize("token", ["<unk>", *RESERVED])
@pytest.mark.parametrize("form", ["{}", "a{}b", "{}{}", "{} a", "<{}>"])
def test_a_reserved_token_in_a_text_is_text(token, form):
    """Typed by a reader, <eos> would end the sentence."""
    text = d2l.preprocess_nmt(form.format(token, token))
    assert not set(text.split()) & {"<unk>", *RESERVED}
    assert d2l.preprocess_nmt(text) == text
    src_vocab = d2l.Vocab(["a", "b"], reserved_tokens=RESERVED)
    net = make_net(len(src_vocab), len(src_vocab))
    [result] = d2l.translate(net, [form.format(token, token)], src_vocab, src_vocab, 20, CPU)
    assert token.strip("<>") in result.unknown


def test_a_word_that_a_model_did_not_know_counts_as_one():
    assert d2l.corpus_bleu(["a b <unk> d e f"], ["a b c d e f"]) == pytest.approx(
        d2l.corpus_bleu(["a b x d e f"], ["a b c d e f"])
    )


@pytest.mark.parametrize("blank", ["", " ", "\u200b", "\ufeff \u200e", "\x0b\x00", "\u3164"])
@pytest.mark.parametrize("line", ["{}\tVa !", "Go.\t{}", "{}\t{}"])
def test_a_side_that_shows_nothing_makes_no_pair(blank, line, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{line.format(blank, blank)}\nHi.\tSalut.\nOui.\tYes.\n", encoding="utf-8")
    train_iter, *_ = d2l.load_data_nmt(2, 5, num_examples=2, source=path)
    assert len(train_iter.dataset) == 2
    assert d2l.tokenize_nmt(path.read_text(encoding="utf-8"), 1)[0] == [["Hi."]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\r\n", "\r\r"], ids=ascii)
def test_any_end_of_line_ends_a_line(end, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(end.join(["Go.\tVa !", "Hi.\tSalut.", "Yes.\tOui.", ""]).encode())
    for num_examples in (1, 2, 3):
        train_iter, *_ = d2l.load_data_nmt(2, 5, num_examples, path)
        assert len(train_iter.dataset) == num_examples


def test_a_line_that_a_lone_return_cuts_is_no_pair(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"Go\r\tVa\nHi.\tSalut.\nYes.\tOui.\n")
    train_iter, *_ = d2l.load_data_nmt(2, 5, num_examples=2, source=path)
    assert len(train_iter.dataset) == 2


# Counts --------------------------------------------------------------------------------------


def make_translator() -> tuple:
    vocab = d2l.Vocab(["a"], reserved_tokens=RESERVED)
    return make_net(len(vocab), len(vocab)), vocab, vocab


def train_with(num_epochs) -> d2l.History:
    net, _, vocab = make_translator()
    X, lens = torch.zeros(1, 2).long(), torch.tensor([2])
    return d2l.train_seq2seq(net, [(X, lens, X, lens)], 0.01, num_epochs, vocab, CPU)


def translate_with(**settings):
    net, vocab, _ = make_translator()
    return d2l.translate(net, ["a"], vocab, vocab, **{"num_steps": 5, "device": CPU} | settings)


COUNTS: dict[str, list[Callable]] = {
    "num_epochs": [lambda number: train_with(num_epochs=number)],
    "num_examples": [
        lambda number: d2l.tokenize_nmt("a\tb", number),
        lambda number: d2l.load_data_nmt(2, 5, number),
    ],
    "num_steps": [
        lambda number: d2l.build_array_nmt([], d2l.Vocab(reserved_tokens=RESERVED), number),
        lambda number: d2l.load_data_nmt(2, number),
        lambda number: translate_with(num_steps=number),
        lambda number: d2l.save_translator("never", *make_translator(), number),
        lambda number: d2l.rise_and_fall(0, number, 0),
    ],
    "step": [lambda number: d2l.rise_and_fall(number, 9, 0)],
    "warm_up": [lambda number: d2l.rise_and_fall(0, 9, number)],
    "epoch": [d2l.ready_translator],
    "offset": [lambda number: d2l.PositionalEncoding(8)(torch.zeros(1, 1, 8), number)],
    "batch_size": [
        lambda number: d2l.load_array([torch.zeros(3)], number),
        lambda number: d2l.load_data_nmt(number, 20),
        lambda number: translate_with(batch_size=number),
    ],
    "beam_size": [lambda number: translate_with(beam_size=number)],
    "num_layers": [
        lambda number: d2l.TransformerEncoder(VOCAB, 8, 8, 2, number),
        lambda number: d2l.TransformerDecoder(VOCAB, 8, 8, 2, number),
    ],
    "vocab_size": [
        lambda number: d2l.TransformerEncoder(number, 8, 8, 2, 1),
        lambda number: d2l.TransformerDecoder(number, 8, 8, 2, 1),
    ],
    "num_hiddens": [
        lambda number: d2l.TransformerEncoder(VOCAB, number, 8, 2, 1),
        lambda number: d2l.TransformerDecoder(VOCAB, number, 8, 2, 1),
        lambda number: d2l.MultiHeadAttention(number, 2),
        lambda number: d2l.AdditiveAttention(number),
        lambda number: d2l.PositionalEncoding(number),
        lambda number: d2l.PositionWiseFFN(number, 8),
        lambda number: d2l.AddNorm(number),
    ],
    "ffn_num_hiddens": [
        lambda number: d2l.PositionWiseFFN(8, number),
        lambda number: d2l.EncoderBlock(8, number, 2),
    ],
    "num_heads": [
        lambda number: d2l.MultiHeadAttention(8, number),
        lambda number: d2l.split_heads(torch.zeros(1, 2, 8), number),
    ],
    "max_len": [lambda number: d2l.PositionalEncoding(8, 0.0, number)],
    "k": [lambda number: d2l.bleu("a", "a", number)],
    "i": [d2l.try_gpu],
}


@pytest.mark.parametrize(
    "number", [10.0, 2.5, float("nan"), -1, -2.0, True, "2", None, np.float32(2), 1j], ids=repr
)
@pytest.mark.parametrize(
    ("name", "call"), [(name, call) for name, calls in COUNTS.items() for call in calls]
)
def test_a_number_that_counts_nothing_is_named(name, call, number):
    if name == "num_examples" and number is None:
        return  # which means all
    said = re.escape(f"{name} is {number!r}; ")
    with pytest.raises((TypeError, ValueError), match=said) as caught:
        call(number)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make", [lambda n: torch.tensor(n), lambda n: torch.tensor([n]).numpy()[0]]
)
def test_a_whole_number_of_any_type_counts(make, tmp_path):
    assert d2l.tokenize_nmt("a\tb\nc\td", make(1)) == ([["a"]], [["b"]])
    assert len(d2l.load_array([torch.zeros(3)], make(2))) == 2
    assert d2l.build_array_nmt([["a"]], d2l.Vocab(["a"], 0, RESERVED), make(3))[0].shape == (1, 3)
    assert len(translate_with(num_steps=make(3), batch_size=make(1), beam_size=make(2))) == 1
    assert len(train_with(make(2)).loss) == 2
    assert d2l.rise_and_fall(make(1), make(4), make(2)) == 1
    assert d2l.bleu("a b", "a b", make(2)) == 1
    net = d2l.EncoderDecoder(
        d2l.TransformerEncoder(5, *map(make, (8, 16, 2, 1))),
        d2l.TransformerDecoder(5, *map(make, (8, 16, 2, 1))),
    )
    d2l.save_translator(tmp_path / "a.pt", net, *make_translator()[1:], make(3))
    assert d2l.load_translator(tmp_path / "a.pt").net.encoder.sizes == (5, 8, 16, 2, 1, 0.0)


# Files ---------------------------------------------------------------------------------------

MEMBERS = {
    "pairs/pairs.txt": "Go.\tVa !\n" * 50,
    "pairs/deep/more.txt": "Hi.\tSalut.\n" * 50,
    "pairs/empty.txt": "",
}


@pytest.fixture
def unpacked(tmp_path, monkeypatch) -> Path:
    """Where "pairs" will be unpacked; its archive is in the cache already."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in MEMBERS.items():
            archive.writestr(name, text)
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "pairs.zip").write_bytes(buffer.getvalue())
    entry = ("https://example.org/pairs.zip", sha1(buffer.getvalue()).hexdigest())
    monkeypatch.setitem(data.DATA_HUB, "pairs", entry)
    return cache / "pairs"


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder.parent).as_posix(): path.read_bytes().decode() for path in files
    }


@pytest.mark.parametrize(
    "there",
    [
        {},
        {"pairs/pairs.txt": MEMBERS["pairs/pairs.txt"]},
        {"pairs/pairs.txt": MEMBERS["pairs/pairs.txt"][:100]},
        MEMBERS | {"pairs/deep/more.txt": ""},
        MEMBERS,
    ],
    ids=["empty", "files missing", "a file cut", "a file empty", "whole"],
)
def test_a_folder_that_an_interruption_left_is_made_whole(there, unpacked):
    unpacked.mkdir()
    for name, text in there.items():
        path = unpacked.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    (unpacked / "notes.txt").write_bytes(b"mine")
    assert contents(data.download_extract("pairs")) == MEMBERS | {"pairs/notes.txt": "mine"}
    assert {path.name for path in unpacked.parent.iterdir()} == {"pairs", "pairs.zip"}


def test_unpacking_that_is_interrupted_is_taken_up_again(unpacked, monkeypatch):
    replace, count = data.os.replace, iter(range(9))

    def interrupted(*paths):
        if next(count) == 1:
            raise KeyboardInterrupt
        replace(*paths)

    monkeypatch.setattr(data.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        data.download_extract("pairs")
    assert contents(data.download_extract("pairs")) == MEMBERS
    assert {path.name for path in unpacked.parent.iterdir()} == {"pairs", "pairs.zip"}


def test_two_may_unpack_at_once(unpacked, monkeypatch):
    unpack, both = data.shutil.unpack_archive, threading.Barrier(2)

    def together(*args, **settings):
        unpack(*args, **settings)
        both.wait(10)

    monkeypatch.setattr(data.shutil, "unpack_archive", together)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(data.download_extract, ["pairs"] * 2)) == [unpacked] * 2
    assert contents(unpacked) == MEMBERS


def test_a_download_that_is_interrupted_leaves_nothing(unpacked, monkeypatch):
    archive = unpacked.with_suffix(".zip")
    whole = archive.read_bytes()
    archive.unlink()

    def interrupted(url: str, path: Path) -> None:
        path.write_bytes(whole[:40])
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "_fetch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        data.download("pairs")
    assert list(archive.parent.iterdir()) == []
    monkeypatch.setattr(data, "_fetch", lambda url, path: path.write_bytes(whole))
    assert data.download("pairs").read_bytes() == whole


def test_files_lie_in_one_place_wherever_a_notebook_runs(tmp_path, monkeypatch):
    """F052: a relative "./data" makes a download for each folder."""
    monkeypatch.delenv("D2L_MINI_CACHE")
    places, texts = set(), set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        places.add(data.cache_folder())
        texts.add(data.read_data_nmt())
    assert len(places) == len(texts) == 1
    assert places.pop().is_absolute()


@pytest.mark.parametrize("name", ["FRA.TXT", "Pairs.Tsv"])
def test_the_text_in_a_zip_is_found_in_capitals_too(name, tmp_path):
    with zipfile.ZipFile(tmp_path / "PAIRS.ZIP", "w") as archive:
        archive.writestr(name, "Go.\tVa !\n")
    assert data.read_data_nmt(tmp_path / "PAIRS.ZIP") == "Go.\tVa !\n"


# Other things than asked for ----------------------------------------------------------------

IDS = torch.zeros(1, 2).long()
NO_TEXTS = [None, 3, 2.5, b"go", ["go"], torch.tensor(1), np.array(["go"])]
NO_LISTS = [3, "go", b"go", [3], [None], ["go", 3], torch.ones(2), {"go": 1}.values(), print]


@pytest.mark.parametrize("odd", NO_TEXTS, ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        d2l.preprocess_nmt,
        d2l.tokenize_nmt,
        lambda text: d2l.bleu(text, "a", 1),
        lambda text: d2l.bleu("a", text, 1),
    ],
)
def test_what_is_no_text_is_refused_by_its_name(call, odd):
    with pytest.raises(TypeError, match=r"(text|pred_seq|label_seq) must be a string, but is a "):
        call(odd)


@pytest.mark.parametrize("odd", NO_LISTS, ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda texts: d2l.translate(*make_translator()[:1], texts, *make_translator()[1:], 5, CPU),
        lambda texts: d2l.corpus_bleu(texts, ["a"]),
        lambda tokens: d2l.Vocab((), 0, tokens),
    ],
    ids=["sentences", "hypotheses", "reserved_tokens"],
)
def test_what_is_no_list_of_texts_is_refused_by_its_name(call, odd):
    with pytest.raises(TypeError, match="must be a list of strings; put a single one in brackets"):
        call(odd)


@pytest.mark.parametrize("odd", [3, "go", [3], [None], [["go", None]], torch.ones(1)], ids=repr)
def test_what_are_no_references_is_refused(odd):
    """None among them would be taken for one that is missing."""
    with pytest.raises(TypeError, match=r"references must be a list of (strings|sentences)"):
        d2l.corpus_bleu(["a"], odd)


@pytest.mark.parametrize("odd", [*NO_LISTS, [["a"], "b"], [["a"], None], [["a", 3]]], ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda lines: d2l.build_array_nmt(lines, make_translator()[1], 5),
        lambda lines: d2l.group_references(lines, [["a"]]),
        lambda lines: d2l.hold_out_nmt([["a"]], lines, 0.5),
        d2l.Vocab,
    ],
    ids=["build_array_nmt", "group_references", "hold_out_nmt", "Vocab"],
)
def test_what_are_no_lists_of_tokens_are_refused(call, odd):
    with pytest.raises(TypeError, match=r"must be (lists of tokens|a list of strings)"):
        call(odd)


def test_what_can_be_read_once_is_read_whole():
    """A check that reads an iterator would leave nothing of it."""
    vocab = d2l.Vocab(iter([["a"], ["b"]]), reserved_tokens=iter(RESERVED))
    assert vocab.idx_to_token == ["<unk>", *RESERVED, "a", "b"]
    assert d2l.build_array_nmt(iter([iter(["a", "b"])]), vocab, 4)[0].tolist() == [[4, 5, 3, 1]]
    assert d2l.group_references(iter([["a"]]), iter([["b"]])) == {"a": ["b"]}
    assert len(d2l.load_array(iter([torch.zeros(3)]), 2)) == 2
    assert d2l.corpus_bleu(iter(["a b c d"]), iter([iter(["a b c d"])])) == pytest.approx(100)


@pytest.mark.parametrize("sides", [(2, 3), (3, 2)])
@pytest.mark.parametrize(
    "call",
    [d2l.group_references, lambda source, target: d2l.hold_out_nmt(source, target, 0.5)],
)
def test_a_sentence_without_its_translation_is_told_with_both_numbers(call, sides):
    with pytest.raises(ValueError, match=f"there are {sides[0]} and {sides[1]}"):
        call(*([["a"]] * number for number in sides))


@pytest.mark.parametrize(
    ("line", "expected"),
    [([1, 2, 3], [1, 2]), ((1,), [1, 0]), (np.array([1, 2, 3]), [1, 2]), ("abc", ["a", "b"])],
    ids=repr,
)
def test_any_sequence_becomes_a_list_as_long_as_asked_for(line, expected):
    """An array would be added to, number by number."""
    assert d2l.truncate_pad(line, 2, 0) == expected
    with pytest.raises(ValueError, match="num_steps is -1"):
        d2l.truncate_pad(line, -1, 0)


@pytest.mark.parametrize(
    "odd", ["1", 1.0, True, None, [1.0], torch.tensor([1.0]), [[True]]], ids=repr
)
def test_what_is_no_id_is_no_token(odd):
    with pytest.raises(TypeError, match=r"an id is .*; it must be a whole number"):
        make_translator()[1].to_tokens(odd)


@pytest.mark.parametrize("odd", [0, 1, -1, True, 2.5, b"a.pt", [], None], ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        d2l.load_translator,
        d2l.load_training,
        d2l.read_data_nmt,
        lambda path: d2l.save_translator(path, *make_translator(), 5),
        lambda path: d2l.cache_folder(path if path is not None else 0),
    ],
)
def test_a_number_is_no_path(call, odd):
    """Opened, it would be what the notebook prints to, and then closed."""
    with pytest.raises(TypeError, match="a path must be a string or a Path, but is"):
        call(odd)


@pytest.mark.parametrize("odd", ["a\0b", "~no-such-user/a", "\ud800" * (data.os.name == "posix")])
@pytest.mark.parametrize("call", [d2l.load_translator, d2l.read_data_nmt, d2l.cache_folder])
def test_a_path_that_no_file_can_have_is_refused(call, odd):
    with pytest.raises((ValueError, OSError), match="no file"):
        call(odd)


@pytest.mark.parametrize("odd", ["quick", "meta", None, 99, 2.5, "cuda:99"], ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda device: translate_with(device=device),
        lambda device: d2l.train_seq2seq(
            make_translator()[0], [], 0.01, 1, make_translator()[1], device
        ),
    ],
    ids=["translate", "train_seq2seq"],
)
def test_a_device_that_is_not_there_is_named(call, odd):
    """On the meta device, a net would lose its weights."""
    with pytest.raises(ValueError, match=f"device is '{odd}'; there is none of this name here"):
        call(odd)


@pytest.mark.parametrize(
    "odd",
    [None, [[[1.0]]], np.ones((1, 1, 1)), torch.ones(1, 1, 1).to_sparse(), "a"],
    ids=["None", "lists", "array", "sparse", "text"],
)
@pytest.mark.parametrize(
    "call",
    [
        d2l.masked_softmax,
        lambda X: d2l.sequence_mask(X, torch.tensor([1])),
        lambda X: d2l.DotProductAttention()(X, X, X),
        lambda X: d2l.MultiHeadAttention(1, 1)(X, X, X),
        lambda X: d2l.split_heads(X, 1),
        d2l.merge_heads,
        d2l.PositionalEncoding(1),
        d2l.PositionWiseFFN(1, 1),
        lambda X: make_net()(X, IDS),
        lambda X: d2l.MaskedSoftmaxCELoss()(X, IDS, torch.tensor([2])),
    ],
)
def test_what_is_no_dense_tensor_is_refused_at_once(call, odd):
    with pytest.raises(TypeError, match="must be a dense tensor, but is a"):
        call(odd)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.complex64, torch.int64], ids=str)
def test_scores_of_another_type_are_refused(dtype):
    with pytest.raises(TypeError, match=f"scores must be floating-point numbers, .* {dtype}"):
        d2l.masked_softmax(torch.zeros(1, 1, 2, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("side", [0, 1])
def test_token_ids_of_another_type_are_refused(dtype, side):
    both = [IDS, IDS]
    both[side] = IDS.to(dtype)
    with pytest.raises(TypeError, match=f"token ids must be int64 or int32, .* {dtype}"):
        make_net()(*both)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("other", [{"dtype": torch.float64}, {"device": "meta"}], ids=str)
def test_vectors_of_two_types_or_devices_are_refused(other, keep):
    attention, X = d2l.DotProductAttention(), torch.zeros(1, 2, 4)
    attention.keep_weights = keep
    for vectors in ([X.to(**other), X, X], [X, X.to(**other), X], [X, X, X.to(**other)]):
        with pytest.raises(TypeError, match="must have one type and one device, but have"):
            attention(*vectors)


@pytest.mark.parametrize("name", ["queries", "keys", "values"])
def test_vectors_of_another_width_are_told_with_both_numbers(name):
    vectors = {part: torch.zeros(1, 2, 8) for part in ("queries", "keys", "values")}
    vectors[name] = torch.zeros(1, 2, 6)
    with pytest.raises(ValueError, match=rf"{name} must be \(\.\.\., 8\), .* \(1, 2, 6\)"):
        d2l.MultiHeadAttention(8, 2)(**vectors)


def test_lengths_that_hold_no_numbers_are_refused():
    """F020: on another device than the scores."""
    lens = torch.ones(2, device="meta").long()
    for mask in (d2l.masked_softmax, lambda X, lens: d2l.sequence_mask(X[:, 0], lens)):
        with pytest.raises(ValueError, match="meta device, which holds no numbers"):
            mask(torch.zeros(2, 3, 4), lens)


def test_sparse_lengths_are_lengths():
    scores, lens = torch.randn(2, 3, 4), torch.tensor([0, 3])
    assert d2l.masked_softmax(scores, lens.to_sparse()).equal(d2l.masked_softmax(scores, lens))


@pytest.mark.parametrize("value", ["0", None, 1j, torch.tensor(0.0)], ids=repr)
def test_a_value_that_is_no_number_fills_nothing(value):
    with pytest.raises(TypeError, match=r"value is .*; it must be a number"):
        d2l.sequence_mask(torch.zeros(1, 2), torch.tensor([1]), value)


@pytest.mark.parametrize("dropout", [float("nan"), -0.1, 1.1, "0", None, True], ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        d2l.DotProductAttention,
        lambda dropout: d2l.AdditiveAttention(8, dropout),
        lambda dropout: d2l.MultiHeadAttention(8, 2, dropout),
        lambda dropout: d2l.PositionalEncoding(8, dropout),
        lambda dropout: d2l.AddNorm(8, dropout),
        lambda dropout: d2l.TransformerEncoder(VOCAB, 8, 8, 2, 1, dropout),
        lambda dropout: d2l.TransformerDecoder(VOCAB, 8, 8, 2, 1, dropout),
    ],
)
def test_a_dropout_that_is_no_share_is_refused(make, dropout):
    with pytest.raises(ValueError, match=r"dropout must be a number in 0 \.\.\. 1, but is "):
        make(dropout)


@pytest.mark.parametrize("num_steps", [0, -1])
@pytest.mark.parametrize("search", [d2l.greedy_search, d2l.beam_search])
def test_a_search_without_a_step_is_refused(search, num_steps):
    net, vocab, _ = make_translator()
    more = (2,) if search is d2l.beam_search else ()
    with pytest.raises(ValueError, match=f"num_steps is {num_steps}"):
        search(net.eval(), IDS, torch.tensor([2]), vocab, num_steps, *more)


def test_more_pairs_than_any_file_has_are_all():
    assert d2l.tokenize_nmt("a\tb", 10**30) == ([["a"]], [["b"]])


def test_half_a_character_is_no_part_of_a_text():
    """A lone surrogate can neither be printed nor written to a file."""
    assert d2l.preprocess_nmt("\ud800Go\udfff on\ud83d .") == "go on ."
