"""Every argument of every public function, odd in twenty ways: one clear error of ours, or none."""

from __future__ import annotations

import inspect
import math
import re
import traceback
from fractions import Fraction
from pathlib import Path
from types import GeneratorType

import numpy as np
import pytest
import torch
from torch import nn

import d2l_mini as d2l
from d2l_mini import training

CPU = torch.device("cpu")
PACKAGE = str(Path(d2l.__file__).parent)
RESERVED = ["<pad>", "<bos>", "<eos>"]

ODD = {
    "None": None,
    "5": 5,
    "-1": -1,
    "2.5": 2.5,
    "NaN": math.nan,
    "huge": 10**400,
    "True": True,
    "text": "foo",
    "bytes": b"x",
    "empty": (),
    "list": [],
    "dictionary": {},
    "three": (1, 2, 3),
    "words": ["a", "b"],
    "object": object(),
    "function": len,
    "fraction": Fraction(1, 2),
    "complex": 1j,
    "a number": torch.tensor(5),
    "meta": torch.zeros(2, 3, 8, device="meta"),
    "sparse": torch.zeros(2, 3).to_sparse(),
    "array": np.zeros((2, 3)),
}

# Records, interfaces and constants: they take what they are given.
PLAIN = {
    *("AttentionMaps", "Beams", "Dataset", "DecoderState", "HeldOut", "History", "ShortRun"),
    *("Translation", "Translator", "AttentionDecoder", "Decoder", "Encoder"),
    *("DATA_HUB", "DATA_URL", "PARTS", "torch"),
}


def make_vocab() -> d2l.Vocab:
    return d2l.Vocab(["go", "run"], reserved_tokens=RESERVED)


def make_net() -> d2l.EncoderDecoder:
    sizes = (len(make_vocab()), 8, 16, 2, 1)
    return d2l.EncoderDecoder(d2l.TransformerEncoder(*sizes), d2l.TransformerDecoder(*sizes))


def make_state() -> d2l.DecoderState:
    return d2l.DecoderBlock(8, 16, 2).init_state(X())


def make_batch() -> tuple:
    return ids(), lens(), ids(), lens()


def ids() -> torch.Tensor:
    return torch.tensor([[4, 5, 3], [4, 3, 1]])


def lens() -> torch.Tensor:
    return torch.tensor([3, 2])


def X() -> torch.Tensor:
    return torch.randn(2, 3, 8)


def weights() -> torch.Tensor:
    return torch.rand(1, 2, 3, 3)


def make_beams() -> d2l.Beams:
    return d2l.Beams(torch.zeros(2, 2), torch.ones(2, 2), torch.zeros(2, 2, dtype=torch.bool))


def make_translator() -> d2l.Translator:
    return d2l.Translator(make_net().eval(), make_vocab(), make_vocab(), 9)


def draw_nothing() -> d2l.Picture:
    return d2l.Picture()


def make_step() -> dict:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return {"net": net, "batch": make_batch(), "optimizer": optimizer, "tgt_vocab": make_vocab()}


PARTS = dict.fromkeys(("embedding", "attention", "addnorm1", "dense"), ((2, 3, 8), 5))
SIZES = {"num_hiddens": 8, "ffn_num_hiddens": 16, "num_heads": 2, "dropout": 0.1}
STACK = {"vocab_size": 6, **SIZES, "num_layers": 1}
SEARCH = {"tgt_vocab": make_vocab, "num_steps": 5}
VOCABS = {"src_vocab": make_vocab, "tgt_vocab": make_vocab}
INPUT = {"net": make_net, "enc_X": ids, "enc_valid_lens": lens}
QKV = {"queries": X, "keys": X, "values": X, "valid_lens": lens}
PAIRS = {"source": [["go"]] * 3, "target": [["va"]] * 3}
LABELS = {"xlabel": "x", "ylabel": "y"}
TRAINING = {"net": make_net, "data_iter": lambda: [make_batch()], "tgt_vocab": make_vocab}

# For each public name what it is called with where nothing is odd; functions are called for it.
CALLS = {
    "Accumulator": {"n": 2},
    "Accumulator.add": {"self": lambda: d2l.Accumulator(1), "value": 5.0},
    "Accumulator.__getitem__": {"self": lambda: d2l.Accumulator(1), "idx": 0},
    "AddNorm": {"num_hiddens": 8, "dropout": 0.1},
    "AddNorm.__call__": {"self": lambda: d2l.AddNorm(8), "X": X, "Y": X},
    "AdditiveAttention": {"num_hiddens": 8, "dropout": 0.1},
    "AdditiveAttention.__call__": {"self": lambda: d2l.AdditiveAttention(8), **QKV},
    "Animator": {
        **LABELS,
        **{"legend": ["a"], "xlim": (0, 1), "ylim": (1, 2), "xscale": "linear", "yscale": "log"},
        **{"fmts": ["-"], "nrows": 1, "ncols": 2, "figsize": (3, 2)},
    },
    "Animator.add": {"self": d2l.Animator, "x": 1, "y": 2.0, "panel": 0},
    "Attention": {"dropout": 0.1},
    "DecoderBlock": SIZES,
    "DecoderBlock.__call__": {
        "self": lambda: d2l.DecoderBlock(8, 16, 2),
        "X": X,
        "state": make_state,
    },
    "DecoderBlock.init_state": {
        "self": lambda: d2l.DecoderBlock(8, 16, 2),
        "enc_outputs": X,
    },
    "DecoderState.select": {"self": make_state, "rows": lambda: torch.tensor([0, 0, 1])},
    "DecoderState.reorder": {"self": make_state, "rows": lambda: torch.tensor([1, 0])},
    "DotProductAttention": {"dropout": 0.1},
    "DotProductAttention.__call__": {"self": d2l.DotProductAttention, **QKV},
    "EncoderBlock": SIZES,
    "EncoderBlock.__call__": {
        "self": lambda: d2l.EncoderBlock(8, 16, 2),
        "X": X,
        "valid_lens": lens,
    },
    "EncoderDecoder": {
        "encoder": lambda: make_net().encoder,
        "decoder": lambda: make_net().decoder,
    },
    "EncoderDecoder.__call__": {
        "self": make_net,
        "enc_X": ids,
        "dec_X": ids,
        "enc_valid_lens": lens,
    },
    "MaskedSoftmaxCELoss.__call__": {
        "self": d2l.MaskedSoftmaxCELoss,
        "pred": X,
        "label": ids,
        "valid_len": lens,
    },
    "MultiHeadAttention": {"num_hiddens": 8, "num_heads": 2, "dropout": 0.1},
    "MultiHeadAttention.__call__": {"self": lambda: d2l.MultiHeadAttention(8, 2), **QKV},
    "Picture": {"figsize": None, "default": (3, 2), "description": "a"},
    "PositionWiseFFN": {"num_hiddens": 8, "ffn_num_hiddens": 16},
    "PositionWiseFFN.__call__": {"self": lambda: d2l.PositionWiseFFN(8, 16), "X": X},
    "PositionalEncoding": {"num_hiddens": 8, "dropout": 0.1, "max_len": 10},
    "PositionalEncoding.__call__": {
        "self": lambda: d2l.PositionalEncoding(8),
        "X": X,
        "offset": 2,
    },
    "TransformerDecoder": STACK,
    "TransformerDecoder.__call__": {
        "self": lambda: make_net().decoder,
        "X": ids,
        "state": lambda: [make_state()],
    },
    "TransformerDecoder.init_state": {"self": lambda: make_net().decoder, "enc_outputs": X},
    "TransformerEncoder": STACK,
    "TransformerEncoder.__call__": {
        "self": lambda: make_net().encoder,
        "X": ids,
        "valid_lens": lens,
    },
    "Vocab": {"tokens": ["a"], "min_freq": 0, "reserved_tokens": RESERVED},
    "Vocab.__getitem__": {"self": make_vocab, "tokens": "go"},
    "Vocab.to_tokens": {"self": make_vocab, "indices": 4},
    "attention_maps": {"net": make_net, "enc_X": ids, "dec_X": ids},
    "attention_mask": {"shape": (2, 3, 3), "valid_lens": lens, "device": CPU},
    "batches_by_length": {
        "lengths": lens,
        "num_tokens": 6,
        "generator": torch.Generator,
        "min_rows": 1,
    },
    "beam_search": {**INPUT, **SEARCH, "beam_size": 2, "length_penalty": 0.75},
    "beam_step": {
        "beams": make_beams,
        "log_probs": lambda: torch.zeros(2, 2, 6),
        "eos": 3,
        "length_penalty": 0.75,
    },
    "beam_steps": {**INPUT, **SEARCH, "beam_size": 2, "length_penalty": 0.75},
    "bleu": {"pred_seq": "a b", "label_seq": "a b", "k": 2},
    "build_array_nmt": {"lines": [["go"]], "vocab": make_vocab, "num_steps": 5},
    "build_data_nmt": {**PAIRS, "batch_size": 2, "num_steps": 5, "min_freq": 1},
    "cache_folder": {"cache_dir": None},
    "causal_lens": {"batch": 2, "steps": 3, "offset": 1, "device": CPU},
    "corpus_bleu": {"hypotheses": ["a b c d"], "references": ["a b c d"]},
    "corpus_chrf": {"hypotheses": ["a b c d"], "references": ["a b c d"]},
    "download": {"name": "foo", "cache_dir": None},
    "download_extract": {"name": "foo", "folder": None, "cache_dir": None},
    "find_download": {"name": "fra-eng", "cache_dir": None},
    "grad_clipping": {"net": make_net, "theta": 1},
    "greedy_search": {**INPUT, **SEARCH},
    "group_references": PAIRS,
    "hold_out_nmt": {**PAIRS, "fraction": 0.5, "seed": 0},
    "in_mode": {"net": make_net, "training": True},
    "init_weights": {"module": lambda: nn.Linear(2, 2)},
    "keep_attention_weights": {"net": make_net, "keep": True},
    "leave_out": {"net": make_net, "part": "scaling"},
    "load_array": {"arrays": lambda: [torch.zeros(3)], "batch_size": 2, "is_train": True},
    "load_data_nmt": {"batch_size": 2, "num_steps": 5, "num_examples": 9, "source": "bundled"},
    "load_training": {"path": "no.pt"},
    "load_translator": {"path": "no.pt"},
    "masked_softmax": {"scores": X, "valid_lens": lens},
    "merge_heads": {"X": lambda: torch.zeros(2, 2, 3, 4)},
    "next_log_probs": {
        "net": make_net,
        "token": lambda: torch.tensor([[4], [4]]),
        "state": lambda: [make_state()],
        "tgt_vocab": make_vocab,
    },
    "predict_seq2seq": {
        "net": make_net,
        "src_sentence": "go .",
        **VOCABS,
        **{"num_steps": 5, "device": CPU, "save_attention_weights": True},
    },
    "preprocess_nmt": {"text": "go"},
    "read_data_nmt": {"source": "bundled"},
    "ready_translator": {"epoch": 0, "cache_dir": None, "device": None},
    "rise_and_fall": {"step": 1, "num_steps": 9, "warm_up": 2},
    "save_translator": {"path": "a.pt", "net": make_net, **VOCABS, "num_steps": 5},
    "sequence_mask": {"X": X, "valid_len": lens, "value": 0},
    "show_attention": {
        "blocks": lambda: {"a": (weights(), "abc", "def")},
        **{"rows": ["a"], "columns": ["a", "b"], "cell": 0.15, "cmap": "Reds"},
    },
    "show_bars": {
        "heights": [[1, 2]],
        **LABELS,
        **{"titles": ["a"], "xticks": ["a", "b"], "figsize": (3, 2)},
    },
    "show_beam_tree": {"steps": [[(0, "a", -1.0)]], "best": 0, "figsize": (3, 2)},
    "show_clocks": {
        "hands": lambda: torch.zeros(1, 2, 2),
        **LABELS,
        **{"xticks": ["a", "b"], "yticks": ["a"], "figsize": (3, 2)},
    },
    "show_curves": {
        **{"x": [1, 2], "curves": {"a": [1, 2]}},
        **LABELS,
        **{"xscale": "linear", "yscale": "log", "figsize": (3, 2)},
    },
    "show_heatmaps": {
        "matrices": weights,
        **LABELS,
        **{"titles": ["a", "b"], "figsize": (3, 2), "cmap": "Reds", "fmt": ".2f"},
        **{"xticks": ["a", "b", "c"], "yticks": ["a", "b", "c"]},
    },
    "show_links": {
        "weights": lambda: [weights()[0, 0]],
        **{"queries": ["abc"], "keys": ["abc"], "least": 0.1, "figsize": (3, 2)},
    },
    "show_points": {"groups": {"a": ([1], [2])}, **LABELS, "figsize": (3, 2)},
    "show_transformer": {
        **{"encoder": PARTS, "decoder": PARTS, "num_layers": 1, "inputs": ("a", "b")},
        "figsize": (8, 7),
    },
    "softmax_over_keys": {"scores": X},
    "split_heads": {"X": X, "num_heads": 2},
    "tokenize_nmt": {"text": "a\tb", "num_examples": 1},
    "train_epoch": {**TRAINING, "optimizer": lambda: make_step()["optimizer"], "device": CPU},
    "train_seq2seq": {**TRAINING, "lr": 0.1, "num_epochs": 1, "device": CPU, "history": None},
    "train_short": {"part": "scaling", "lr": 0.01, "warm": True, "seed": 0, "watch": None},
    "train_step": {
        **{name: lambda name=name: make_step()[name] for name in make_step()},
        **{"device": CPU, "loss": None, "num_tokens": None},
    },
    "translate": {
        "net": make_net,
        "sentences": ["go ."],
        **VOCABS,
        **{"num_steps": 5, "device": CPU, "beam_size": 2, "length_penalty": 0.75},
        **{"save_attention_weights": True, "batch_size": 2},
    },
    "trim_padding": {"X": ids, "valid_len": lens},
    "explorers.Explorer": {"draw": lambda: draw_nothing, "buttons": None},
    "explorers.draw_attention": {
        **{
            "translator": make_translator,
            "sentence": "go .",
            "kind": "cross-attention",
            "layer": 1,
        },
        **{"head": 1, "step": 1, "line": "row", "word": 1},
    },
    "explorers.draw_beams": {
        **{"translator": make_translator, "sentence": "go .", "beam_size": 2},
        "length_penalty": 0.75,
    },
    "explorers.draw_decoder": {"step": 1, "way": "all at once", "source_len": 3},
    "explorers.draw_epochs": {
        **{"translators": lambda: [make_translator()], "sentence": "go .", "epoch": 0},
        **{"layer": 1, "head": 1},
    },
    "explorers.draw_masks": {
        **{"source": "3, 5", "target": "2, 4", "sentence": 1, "decoder_mask": "causal"},
    },
    "explorers.draw_positions": {"position": 3, "other": 9, "width": 32, "base": 10000.0},
    "explorers.draw_shapes": {"batch": 2, "steps": 5, "width": 8, "heads": 2},
    "explorers.draw_softmax": {"width": 8, "temperature": 1.0, "scaled": True},
    "explorers.draw_steps": {
        **{"translator": make_translator, "sentence": "go .", "step": 1, "head": 1},
    },
    "explorers.draw_training": {"part": None, "lr": 0.01, "warm": True},
    "explorers.explore_attention": {"translator": make_translator},
    "explorers.explore_beams": {"translator": make_translator, "sentence": "go ."},
    "explorers.explore_epochs": {"translators": lambda: [make_translator()]},
    "explorers.explore_steps": {"translator": make_translator, "sentence": "go ."},
    "explorers.trace_beams": {
        **{"translator": make_translator, "sentence": "go .", "beam_size": 2},
        "length_penalty": 0.75,
    },
    "explorers.trace_steps": {"translator": make_translator, "sentence": "go ."},
    "exercises.exercise": {"number": "1.1"},
    "truncate_pad": {"line": [4, 5], "num_steps": 3, "padding_token": 1},
    "try_gpu": {"i": 0},
}

# Arguments that take what they are given, and errors of another kind that a docstring names.
ANYTHING = {"self", "bias", "is_train", "keep", "padding_token", "save_attention_weights", "scaled"}
ANYTHING |= {"warm", "training"}  # of `in_mode` whether, of `save_translator` plain values
OTHER_ERRORS = {
    **dict.fromkeys(("Accumulator.__getitem__", "Vocab.to_tokens"), (IndexError,)),
    **dict.fromkeys(("load_data_nmt", "load_training", "load_translator"), (OSError,)),
    **dict.fromkeys(("read_data_nmt", "save_translator"), (OSError,)),
    "train_step": (FloatingPointError,),
}
WITHOUT_NETWORK = {"download", "download_extract", "load_training", "load_translator"}


def make_arguments(name: str) -> dict:
    return {
        key: value() if callable(value) and not isinstance(value, type(CPU)) else value
        for key, value in CALLS[name].items()
    }


def find(name: str):
    """A function, class or method by its name."""
    found = d2l
    for part in name.split("."):
        found = getattr(found, part)
    return found


def call(name: str, arguments: dict) -> None:
    """Call a public function, class or method by its name, and use up what it returns."""
    function = find(name)
    if "self" in arguments or name == "explorers.Explorer":  # by place
        function(*arguments.values())
        return
    result = function(**arguments)
    if isinstance(result, GeneratorType):
        list(result)
    if name in ("in_mode", "keep_attention_weights"):
        with result:
            pass


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Files of no one else, and a translator that is ready soon."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("D2L_MINI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(training, "read_data_nmt", lambda: "go .\tva !\nrun .\tcours !\n" * 20)
    monkeypatch.setattr(training, "LEARNING_RATES", (0.01, 0.001))


def test_every_argument_of_every_public_name_is_tried():
    missing, names = [], sorted(set(d2l.__all__) - PLAIN)
    for part in ("explorers", "exercises"):
        names += [f"{part}.{name}" for name in getattr(d2l, part).__all__]
    for name in names:
        known = CALLS.get(name, {})
        parameters = inspect.signature(find(name)).parameters.values()
        named = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        missing += [f"{name}({p})" for p in named if p not in known and p not in ANYTHING]
    assert missing == []


@pytest.mark.parametrize("name", sorted(set(CALLS) - WITHOUT_NETWORK))
def test_what_is_not_odd_is_taken(name):
    """Else the odd arguments would not be what is refused."""
    call(name, make_arguments(name))


def find_fault(error: Exception) -> str | None:
    """What is wrong with an error: not ours, or not one clear sentence."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if not last.filename.startswith(PACKAGE) or not last.line.startswith("raise "):
        return f"from {last.filename}, line {last.lineno}"
    if "\n" in str(error) or len(str(error)) > 400:
        return "several lines, or a long one"
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, key) for name, given in CALLS.items() for key in given if key not in ANYTHING],
)
def test_an_odd_argument_gives_a_result_or_one_clear_error_of_ours(name, parameter):
    faults = {}
    for said, odd in ODD.items():
        if callable(odd) and parameter in ("loss", "draw"):
            continue  # what a reader's own function raises is the reader's
        arguments = make_arguments(name) | {parameter: odd}
        try:
            call(name, arguments)
        except (ValueError, TypeError, *OTHER_ERRORS.get(name, ())) as error:
            other = isinstance(error, OTHER_ERRORS.get(name, ()))
            if not other and (fault := find_fault(error)):
                faults[said] = f"{error!r}, {fault}"
        except Exception as error:
            faults[said] = repr(error)
    assert faults == {}


REFUSED = {
    "row 5 lies outside 0 ... 1, the batch": lambda: make_state().select(torch.tensor([0, 5])),
    "row -1 lies outside 0 ... 1, the batch": lambda: make_state().reorder(torch.tensor([-1])),
    "rows must be (rows,), whole numbers, but have shape (2,) and type torch.bool": (
        lambda: make_state().select(torch.tensor([True, False]))
    ),
    "X has 1 sentences, but the state is that of 2": (
        lambda: d2l.DecoderBlock(8, 16, 2)(X()[:1], make_state())
    ),
    "state is one of 2 blocks, but here are 1": (
        lambda: make_net().decoder(ids(), [make_state(), make_state()])
    ),
    "state must be what init_state returns, but holds a list": (
        lambda: make_net().decoder(ids(), [[]])
    ),
    "batch is -1; it must be 0 or more": lambda: d2l.causal_lens(-1, 2, 0, CPU),
    "a number of steps is -2; it must be 0 or more": lambda: d2l.causal_lens(1, -2, 0, CPU),
    "offset is -1; it must be 0 or more": lambda: d2l.causal_lens(1, 2, -1, CPU),
    "device is 'foo'; there is none of this name here": lambda: d2l.causal_lens(1, 2, 0, "foo"),
    "valid_len is -1 to 2, outside 0 ... 3, the steps": (
        lambda: d2l.trim_padding(ids(), torch.tensor([2, -1]))
    ),
    "valid_len is 2 to 4, outside 0 ... 3, the steps": (
        lambda: d2l.trim_padding(ids(), torch.tensor([4, 2]))
    ),
    "the valid lengths are on the meta device, which holds no numbers": (
        lambda: d2l.trim_padding(ids(), lens().to("meta"))
    ),
    "X must be where the layer's weights are, on cpu, but are on meta": (
        lambda: d2l.PositionWiseFFN(8, 16)(X().to("meta"))
    ),
    "token ids must be where the net is, on cpu, but are on meta": (
        lambda: make_net().encoder(ids().to("meta"))
    ),
    "log_probs must be (batch, beams, vocab) for (2, 2) beams, but have shape (2, 3, 6)": (
        lambda: d2l.beam_step(make_beams(), torch.zeros(2, 3, 6), 3, 0.75)
    ),
    "eos is 6; it must lie in 0 ... 5": (
        lambda: d2l.beam_step(make_beams(), torch.zeros(2, 2, 6), 6, 0.75)
    ),
    "tgt_vocab lacks <bos>: give it as one of its reserved_tokens": (
        lambda: d2l.train_step(**make_step() | {"tgt_vocab": d2l.Vocab(["go"])}, device=CPU)
    ),
    "fmts holds 'purple?', which is no format of a line": lambda: d2l.Animator(fmts=["purple?"]),
    "xlim must be (from, to), but is 5": lambda: d2l.Animator(xlim=5),
    "cmap is 'Rot'; it must be a colour map, such as 'Reds'": (
        lambda: d2l.show_heatmaps(weights(), "x", "y", cmap="Rot")
    ),
    "figsize must be (width, height) in inches, but is 5": (
        lambda: d2l.show_bars([[1, 2]], "x", "y", figsize=5)
    ),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_refused_is_named_with_its_numbers(said):
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        REFUSED[said]()


def test_a_fraction_is_a_number():
    assert d2l.DotProductAttention(Fraction(1, 2)).dropout.p == 0.5
    assert d2l.sequence_mask(X(), lens(), Fraction(1, 2))[1, 2].tolist() == [0.5] * 8
    assert d2l.sequence_mask(ids(), lens(), Fraction(4))[1, 2] == 4


def test_a_batch_of_more_rows_than_there_are_is_all_of_them():
    [[batch]] = d2l.load_array([torch.zeros(3)], 10**30)
    assert len(batch) == 3


def test_an_end_of_an_axis_and_an_array_of_sizes_are_taken():
    animator = d2l.Animator(xlim=(0, None), ylim=np.array([1.0, 2.0]), figsize=np.array([4, 3]))
    assert animator.axes[0].get_xlim()[0] == 0
    assert animator.axes[0].get_ylim() == (1, 2)
    assert animator.fig.get_size_inches().tolist() == [4, 3]
