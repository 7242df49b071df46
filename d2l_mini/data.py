"""Data: a corpus of sentence pairs, from a file to batches of token ids.

A corpus is text, one pair a line: English, a tab, French; further columns are ignored.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import re
import shutil
import sys
import tempfile
import unicodedata
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)

from d2l_mini.checks import (
    as_plain,
    check_count,
    check_kind,
    check_number,
    check_path,
    check_tensor,
    check_text,
    check_texts,
    check_whole,
    in_line,
)

__all__ = [
    "DATA_HUB",
    "DATA_URL",
    "Dataset",
    "HeldOut",
    "Vocab",
    "batches_by_length",
    "build_array_nmt",
    "build_data_nmt",
    "cache_folder",
    "download",
    "download_extract",
    "find_download",
    "group_references",
    "hold_out_nmt",
    "load_array",
    "load_data_nmt",
    "preprocess_nmt",
    "read_data_nmt",
    "read_held_out",
    "tokenize_nmt",
    "trim_padding",
    "truncate_pad",
    "try_gpu",
]


def try_gpu(i: int = 0) -> torch.device:
    """The i-th GPU if there is one (CUDA, then Apple's MPS, then Intel's XPU), else the CPU.

    Raises ValueError if i is negative, TypeError if it is no whole number.
    """
    i = check_count("i", i, 0)
    if i < torch.cuda.device_count():
        return torch.device("cuda", i)
    if i == 0 and torch.backends.mps.is_available():
        return torch.device("mps")
    if i < torch.xpu.device_count():
        return torch.device("xpu", i)
    return torch.device("cpu")


_CORPUS = Path(__file__).parent / "corpus"


# From the network to a file -------------------------------------------------------------------


class Dataset(NamedTuple):
    """Where an archive is, and how to know that it is whole.

    Archives of one text differ with the program that packed them, so where `member_sha1` is given,
    the digest of that file inside decides; else that of the archive.
    """

    url: str
    sha1: str
    member: str | None = None
    member_sha1: str | None = None


DATA_URL = "https://d2l-data.s3-accelerate.amazonaws.com/"
DATA_HUB = {
    "fra-eng": Dataset(
        DATA_URL + "fra-eng.zip",
        "94646ad1522d915e7b0f9296181140edcf86a4f5",
        "fra-eng/fra.txt",
        "c43f99dce27311d3afd4d3e0716848194cfcc103",
    )
}


def cache_folder(cache_dir: str | os.PathLike | None = None) -> Path:
    """Where files are kept: `cache_dir`, else D2L_MINI_CACHE, else the user's cache folder."""
    if cache_dir is None:
        cache_dir = os.environ.get("D2L_MINI_CACHE") or None
    if cache_dir is None:
        import platformdirs

        cache_dir = platformdirs.user_cache_dir("d2l_mini")
    return check_path(cache_dir)


def _dataset(name: str) -> Dataset:
    check_text("name", name)
    if name not in DATA_HUB:
        raise ValueError(
            f"there is no dataset {name!r}; DATA_HUB has {', '.join(sorted(DATA_HUB))}"
        )
    return Dataset(*DATA_HUB[name])


def _is_whole(path: Path, dataset: Dataset) -> bool:
    """Whether the archive at `path` holds what the dataset promises."""
    try:
        with open(path, "rb") as file:
            if hashlib.file_digest(file, "sha1").hexdigest() == dataset.sha1:
                return True
        if dataset.member is None:
            return False
        with zipfile.ZipFile(path) as archive, archive.open(dataset.member) as file:
            return hashlib.file_digest(file, "sha1").hexdigest() == dataset.member_sha1
    except Exception:  # zipfile raises a dozen kinds for a damaged archive
        return False


_WAY_OUT = 'or give the path of a copy of the file as source, or use source="bundled"'


def download(name: str, cache_dir: str | os.PathLike | None = None) -> Path:
    """Fetch a dataset of DATA_HUB once, over HTTPS, and return the path of its archive.

    The archive comes into the cache folder (`cache_dir`, else D2L_MINI_CACHE, else the user's own)
    under a temporary name and is renamed once it is whole: no failure touches what was there.

    Raises ValueError if DATA_HUB lacks the name, OSError if the archive cannot be had.
    """
    dataset = _dataset(name)
    folder = cache_folder(cache_dir)
    path = folder / dataset.url.rsplit("/", 1)[-1]
    if _is_whole(path, dataset):
        return path
    import requests

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as temporary:
            part = Path(temporary) / path.name
            _fetch(dataset.url, part)
            size, whole = part.stat().st_size, _is_whole(part, dataset)
            if whole:
                os.replace(part, path)
    except requests.RequestException as error:
        reason = type(error).__name__
        if error.response is not None:
            reason = f"the server answered {error.response.status_code}"
        raise OSError(
            f"could not download {dataset.url} ({reason}); connect to the network and try again, "
            f"{_WAY_OUT}"
        ) from None  # the libraries' own account runs over pages
    except OSError as error:
        raise OSError(
            f"could not write to {folder} ({error.strerror}); make room, or name another folder "
            f"in D2L_MINI_CACHE, {_WAY_OUT}"
        ) from error
    if not whole:
        raise OSError(
            f"what {dataset.url} sent ({size} bytes) is not {name}: it is damaged or another "
            f"file; try again later, {_WAY_OUT}"
        )
    return path


def find_download(name: str, cache_dir: str | os.PathLike | None = None) -> Path | None:
    """The archive of a dataset where it is on this computer already, else None; nothing is fetched.

    It is looked for where `download` keeps it, and before at the path in an environment variable,
    D2L_MINI_FRA_ENG for "fra-eng". Raises ValueError if DATA_HUB lacks the name.
    """
    dataset = _dataset(name)
    given = os.environ.get(f"D2L_MINI_{name.upper().replace('-', '_')}")
    kept = cache_folder(cache_dir) / dataset.url.rsplit("/", 1)[-1]
    paths = [check_path(given), kept] if given else [kept]
    return next((path for path in paths if _is_whole(path, dataset)), None)


def _fetch(url: str, path: Path) -> None:
    """Write what `url` sends to `path`."""
    import requests

    print(f"downloading {url}")
    with requests.get(url, stream=True, timeout=(10, 30)) as response, open(path, "wb") as file:
        response.raise_for_status()
        for block in response.iter_content(1 << 20):
            file.write(block)


def download_extract(
    name: str, folder: str | None = None, cache_dir: str | os.PathLike | None = None
) -> Path:
    """Fetch a dataset as `download` does, unpack it beside its archive, and return the folder.

    folder   the folder inside the archive that is wanted; None = the one named like the archive

    Of a folder that is there already, files that are missing or were cut off are put in; the
    others stay as they are. Raises as `download`, ValueError if folder is a path, and OSError if
    the archive cannot be unpacked.
    """
    named = isinstance(folder, str) and Path(folder).name == folder not in ("", "..")
    if folder is not None and not named:
        raise ValueError(f"folder is {in_line(folder)}; it must be the name of one in the archive")
    archive = download(name, cache_dir)
    target = archive.parent / (folder or archive.stem)
    # A zip takes no filter, and needs none: unpacking skips its names with "..".
    safe = {} if zipfile.is_zipfile(archive) else {"filter": "data"}
    try:
        with tempfile.TemporaryDirectory(dir=archive.parent, ignore_cleanup_errors=True) as new:
            shutil.unpack_archive(archive, new, **safe)
            files = [file for file in (Path(new) / target.name).rglob("*") if file.is_file()]
            if not files:
                raise LookupError("it has no such folder")
            for file in files:
                path = archive.parent / file.relative_to(new)
                if _is_cut(path, file):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(file, path)  # whole at once: another kernel may be reading
    except Exception as error:
        raise OSError(
            f"could not unpack {target.name} from {archive} ({error}); {_WAY_OUT[3:]}"
        ) from error
    return target


def _is_cut(path: Path, whole: Path) -> bool:
    """Whether nothing, or only the beginning of a whole file, stands at `path`."""
    if not path.is_file():
        return True
    size, whole_size = path.stat().st_size, whole.stat().st_size
    return size < whole_size and whole.read_bytes().startswith(path.read_bytes())


# From a file to text --------------------------------------------------------------------------


def read_data_nmt(source: str | os.PathLike = "bundled") -> str:
    """The text of a corpus, one sentence pair a line.

    source   "bundled", the project's own pairs (CC0); "fra-eng", the book's file from Tatoeba
             (CC BY 2.0), downloaded once; or the path of a text file or of a zip that holds one

    Raises OSError if the file cannot be had, ValueError if it is not UTF-8 text or empty.
    """
    if not isinstance(source, str):
        path = check_path(source)
    elif source == "bundled":
        path = _CORPUS / "english-french.tsv"
    elif source == "fra-eng":
        path = download("fra-eng")
    else:
        path = check_path(source)
    if not path.is_file():
        raise FileNotFoundError(
            f'there is no file {path}; source is "bundled", "fra-eng" or the path of a file'
        )
    is_zip = path.suffix == ".zip" or zipfile.is_zipfile(path)  # a cut zip is known by its name
    content = _unzip_text(path) if is_zip else path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8, one pair a line"
        ) from error
    if text.count("\0") > len(text) // 4:  # as UTF-16 reads
        raise ValueError(f"{path} is not UTF-8 text (it is full of NULs): save it as UTF-8")
    if not text.strip():
        raise ValueError(f"{path} is empty; it should hold one sentence pair a line")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unzip_text(path: Path) -> bytes:
    """The one text file in a zip; names that start with an underscore or a dot tell about it."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [
                name
                for name in archive.namelist()
                if name.lower().endswith((".txt", ".tsv"))
                and not Path(name).name.startswith(("_", "."))
            ]
            content = archive.read(names[0]) if len(names) == 1 else b""
    except Exception as error:  # zipfile raises a dozen kinds for a damaged archive
        raise ValueError(
            f"{path} cannot be unpacked ({error}); fetch it again, or give the path of a text file"
        ) from error
    if len(names) != 1:
        raise ValueError(
            f"{path} holds {len(names)} text files, not one; give the path of one of them"
        )
    return content


class HeldOut(NamedTuple):
    """A sentence to test with, its one right translation, and what makes it hard."""

    english: str
    french: str
    phenomenon: str


def read_held_out() -> list[HeldOut]:
    """Sentences that the bundled pairs lack, of the same kinds and made of words that they have."""
    lines = (_CORPUS / "held-out.tsv").read_text(encoding="utf-8").splitlines()
    return [HeldOut(*line.split("\t")) for line in lines]


# From text to tokens --------------------------------------------------------------------------

_APOSTROPHE = re.compile("[’‘‛′‵´`ʹʻʼʽˈˊˋ΄՚׳᾽᾿ꞌ❛❜＇｀]")
# What Unicode says to ignore where it cannot be shown (a soft hyphen, marks of direction, a BOM),
# control characters that are no space, and half characters (lone surrogates).
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
_VISIBLE = re.compile(rf"[^\s{_INVISIBLE.pattern[1:]}")  # what is neither space nor these
_MARK = re.compile(r"""(?<!\d)[.,:]|[.,:](?!\d)|[!?;…¡¿"“”„‚«»‹›<>()\[\]—–]""")


def preprocess_nmt(text: str) -> str:
    """Bring text into one form, with a space on both sides of every punctuation mark.

    Lower case, composed accents (NFC), straight apostrophes, single plain spaces. A full stop,
    comma or colon between two digits stays ("3,5"), as apostrophes and hyphens do in a word.
    A typed "<eos>" falls into three tokens, so that text never holds a reserved one. Training and
    translation use the same function; applied twice it changes nothing more.
    """
    check_text("text", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = unicodedata.normalize("NFC", _INVISIBLE.sub("", text).lower())
    text = _APOSTROPHE.sub("'", text)  # some come about by NFC
    text = _MARK.sub(lambda mark: f" {mark[0]} ", text)
    lines = (line.split("\t") for line in text.split("\n"))
    return "\n".join("\t".join(" ".join(part.split()) for part in line) for line in lines)


def _first_pairs(text: str, num_examples: int | None) -> Iterator[str]:
    """The first `num_examples` lines (None = all) whose first two columns both hold a word."""
    check_text("text", text)
    if num_examples is not None:
        num_examples = min(check_count("num_examples", num_examples, 0, math.inf), sys.maxsize)
    return islice(_lines_with_pairs(text), num_examples)


def _lines_with_pairs(text: str) -> Iterator[str]:
    """Lazily, so that a few pairs of a large file cost little."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        columns = line.split("\t")
        if len(columns) >= 2 and all(_VISIBLE.search(side) for side in columns[:2]):
            yield line
        start = end + 1


def tokenize_nmt(
    text: str, num_examples: int | None = None
) -> tuple[list[list[str]], list[list[str]]]:
    """Split preprocessed text into the tokens of its pairs.

    num_examples  how many pairs to keep at most; None = all
    returns       source, target: a list of tokens for each pair

    Raises ValueError if no line has two columns, or num_examples is negative, TypeError if it is
    no whole number.
    """
    source, target = [], []
    for line in _first_pairs(text, num_examples):
        english, french = line.split("\t")[:2]
        source.append(english.split())
        target.append(french.split())
    if not source and num_examples != 0:
        raise ValueError(
            "no line of the text has two columns, English and French, with a tab between"
        )
    return source, target


def as_lines(lines: Iterable[Iterable[str]]) -> list[list[str]]:
    """Sentences as lists of tokens; TypeError where one is a string, or holds what is none."""
    try:
        lines = [line if isinstance(line, (list, str)) else list(line) for line in lines]
        for line in lines:
            "".join(line)  # in a file of many sentences, the fastest way to ask for strings
    except TypeError:
        lines = [""]
    if any(isinstance(line, str) for line in lines):
        raise TypeError("lines must be lists of tokens: split each sentence first")
    return lines


def check_pairs(source: Iterable, target: Iterable) -> tuple[list[list[str]], list[list[str]]]:
    """Both sides as `as_lines` gives them; ValueError where there are more sentences on one."""
    source, target = as_lines(source), as_lines(target)
    if len(source) != len(target):
        raise ValueError(
            f"each sentence needs its translation, but there are {len(source)} and {len(target)}"
        )
    return source, target


def group_references(
    source: Sequence[Sequence[str]], target: Sequence[Sequence[str]]
) -> dict[str, list[str]]:
    """All the French of each English sentence, in the order they come; tokens joined by spaces.

    Raises ValueError if there are more sentences on one side.
    """
    source, target = check_pairs(source, target)
    references: dict[str, list[str]] = {}
    for english, french in zip(source, target, strict=True):
        references.setdefault(" ".join(english), []).append(" ".join(french))
    return references


def hold_out_nmt(source: list[list[str]], target: list[list[str]], fraction: float, seed: int = 0):
    """Keep whole English sentences, with all their French, apart for evaluation.

    fraction  of the distinct English sentences, 0 ... 1
    returns   (train source, train target), (held-out source, held-out target); no English
              sentence is on both sides, and the same seed chooses the same ones

    Raises ValueError if fraction lies outside 0 ... 1 or there are more sentences on one side.
    """
    source, target = check_pairs(source, target)
    seed = check_count("seed", seed, 0)
    fraction = check_number("fraction", fraction, 0, 1)
    sentences = sorted({" ".join(english) for english in source})
    chosen = set(random.Random(seed).sample(sentences, round(fraction * len(sentences))))
    train, held_out = ([], []), ([], [])
    for english, french in zip(source, target, strict=True):
        side = held_out if " ".join(english) in chosen else train
        side[0].append(english)
        side[1].append(french)
    return train, held_out


class Vocab:
    """A number for each token: 0 is <unk>, then the reserved ones, then the rest by frequency.

    tokens           a list of tokens, or a list of such lists
    min_freq         tokens seen less often become <unk>
    reserved_tokens  such as "<pad>"

    Tokens of equal frequency are in alphabetical order, so ids do not depend on the order of the
    text. `vocab[token]` gives an id and `vocab[tokens]` a list; `to_tokens` is the way back.
    """

    def __init__(self, tokens=(), min_freq: int = 0, reserved_tokens: Sequence[str] = ()):
        tokens = () if tokens is None else tokens
        if isinstance(tokens, Mapping):  # of counts, which would be lost
            raise TypeError("tokens must be a list, and not a dictionary")
        if isinstance(tokens, Iterable) and not isinstance(tokens, (str, Tensor)):
            tokens = [*tokens]
            if tokens and not isinstance(tokens[0], str):
                tokens = [token for line in as_lines(tokens) for token in line]
        tokens = check_texts("tokens", tokens)
        reserved_tokens = () if reserved_tokens is None else reserved_tokens
        reserved_tokens = check_texts("reserved_tokens", reserved_tokens)
        min_freq = check_count("min_freq", min_freq, 0)
        self.token_freqs = sorted(Counter(tokens).items(), key=lambda item: (-item[1], item[0]))
        frequent = (token for token, freq in self.token_freqs if freq >= min_freq)
        self.idx_to_token = list(dict.fromkeys(["<unk>", *reserved_tokens, *frequent]))
        self.token_to_idx = {token: idx for idx, token in enumerate(self.idx_to_token)}

    @property
    def unk(self) -> int:
        """The id of every token that the vocabulary lacks."""
        return 0

    def __len__(self) -> int:
        return len(self.idx_to_token)

    def __contains__(self, token: str) -> bool:
        return token in self.token_to_idx

    def __iter__(self) -> Iterator[str]:
        return iter(self.idx_to_token)

    def __getitem__(self, tokens):
        get, unk = self.token_to_idx.get, self.unk
        if isinstance(tokens, str):
            return get(tokens, unk)
        if isinstance(tokens, (list, tuple)):
            return [get(t, unk) if isinstance(t, str) else self[t] for t in tokens]
        raise TypeError(f"a vocabulary has numbers for tokens, not for a {type(tokens).__name__}")

    def to_tokens(self, indices):
        """An id -> a token; a list, tensor or array of ids -> a list of tokens.

        Raises IndexError if an id lies outside 0 ... len - 1, TypeError if it is not whole.
        """
        indices = as_plain("ids", indices)
        if isinstance(indices, (list, tuple)):
            return [self.to_tokens(index) for index in indices]
        index = check_count("an id", indices, -math.inf)
        if not 0 <= index < len(self):
            raise IndexError(f"id {index} lies outside 0 ... {len(self) - 1}, the vocabulary")
        return self.idx_to_token[index]


def check_vocab(name: str, vocab: Vocab, *reserved: str) -> None:
    """Raise TypeError where something is no vocabulary, ValueError where it lacks a token."""
    check_kind(name, vocab, Vocab)
    for token in reserved:
        if token not in vocab:
            raise ValueError(f"{name} lacks {token}: give it as one of its reserved_tokens")


# From tokens to batches -----------------------------------------------------------------------


def check_line(line: list) -> None:
    """Raise TypeError where something is no sequence that can be cut."""
    try:
        [*line[:0]]
    except (IndexError, KeyError, RuntimeError, TypeError):  # no order; one number; sparse
        raise TypeError(f"line must be a list of tokens or ids, but is {in_line(line)}") from None


def truncate_pad(line: list, num_steps: int, padding_token) -> list:
    """Make a list num_steps long: cut it, or fill it up with padding_token.

    Raises TypeError if line is no list, or num_steps no whole number, ValueError if it is negative.
    """
    check_line(line)
    num_steps = check_count("num_steps", num_steps, 0)
    return [*line[:num_steps], *[padding_token] * (num_steps - len(line))]


def build_array_nmt(
    lines: Sequence[Sequence[str]], vocab: Vocab, num_steps: int
) -> tuple[Tensor, Tensor]:
    """Turn sentences into one array of ids, each ended by <eos> and padded to num_steps.

    returns  array (batch, num_steps) and valid_len (batch,), which counts <eos>; a sentence that is
             too long is cut, and still ends in <eos>

    Raises ValueError if num_steps is below 1 or the vocabulary lacks <pad> or <eos>, TypeError if
    num_steps is no whole number, a line is a string or the vocabulary something else.
    """
    lines = as_lines(lines)
    check_vocab("the vocabulary", vocab, "<pad>", "<eos>")
    num_steps = check_count("num_steps", num_steps, 1)  # for <eos>
    pad, eos = vocab["<pad>"], vocab["<eos>"]
    ids = [[*vocab[line[: num_steps - 1]], eos] for line in lines]
    padded = [truncate_pad(line, num_steps, pad) for line in ids]
    array = torch.tensor(padded, dtype=torch.int64).reshape(len(ids), num_steps)
    valid_len = torch.tensor([len(line) for line in ids], dtype=torch.int64)
    return array, valid_len


def load_array(arrays: Sequence[Tensor], batch_size: int, is_train: bool = True) -> DataLoader:
    """Iterate over the rows of `arrays` in batches; if is_train, in a new order each epoch.

    arrays   tensors with the same first dimension

    The order follows `torch.manual_seed`. Raises ValueError if there is no row, or batch_size < 1,
    TypeError if it is no whole number.
    """
    batch_size = min(check_count("batch_size", batch_size, 1, math.inf), sys.maxsize)
    arrays = [None] if isinstance(arrays, Tensor) or not isinstance(arrays, Iterable) else [*arrays]
    if not all(isinstance(array, Tensor) and array.layout == torch.strided for array in arrays):
        raise TypeError("arrays must be a list of tensors")
    if any(array.dim() == 0 for array in arrays):
        raise ValueError("arrays must have rows, but one is a single number")
    if not arrays or len({len(array) for array in arrays}) != 1 or len(arrays[0]) == 0:
        raise ValueError(
            f"arrays must have the same number of rows, at least 1, but have "
            f"{[len(array) for array in arrays]}"
        )
    dataset = TensorDataset(*arrays)
    order = RandomSampler(dataset) if is_train else SequentialSampler(dataset)
    # A batch is one indexing of each tensor, not a list of examples to be stacked.
    return DataLoader(
        dataset, sampler=BatchSampler(order, batch_size, drop_last=False), batch_size=None
    )


def batches_by_length(
    lengths: Tensor, num_tokens: int, generator: torch.Generator | None = None, min_rows: int = 1
) -> list[Tensor]:
    """Group rows that are alike in length, in a new order each time.

    lengths     (rows,), how many tokens each row has
    num_tokens  a batch holds at most so many, the padding up to its longest row included
    min_rows    fewer at the end join the batch before, which may then hold more tokens
    returns     for each batch the numbers of its rows; batches of all lengths take turns

    Raises ValueError if there is no row, or num_tokens is too little for `min_rows` of the longest.
    """
    check_whole(lengths, "lengths")
    if lengths.dim() != 1 or lengths.is_meta:
        raise TypeError("lengths must be a tensor (rows,)")
    lengths = lengths.long()  # unsigned types lack half of the operations
    num_tokens = check_count("num_tokens", num_tokens, 1)
    min_rows = check_count("min_rows", min_rows, 1)
    if generator is not None:
        check_kind("generator", generator, torch.Generator)
    if len(lengths) == 0 or num_tokens < min_rows * int(lengths.max()):
        raise ValueError(
            f"batches of at most {num_tokens} tokens cannot hold {min_rows} of {len(lengths)} rows "
            f"of up to {int(lengths.max()) if len(lengths) else 0} tokens"
        )
    order = torch.randperm(len(lengths), generator=generator)  # rows of one length in any order
    order = order[lengths[order].argsort(stable=True)]
    starts = [0]
    for place, longest in enumerate(lengths[order].tolist()):
        if (place + 1 - starts[-1]) * longest > num_tokens:
            starts.append(place)
    if len(lengths) - starts[-1] < min_rows and len(starts) > 1:
        starts.pop()
    batches = order.tensor_split(starts[1:])
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]


def trim_padding(X: Tensor, valid_len: Tensor) -> Tensor:
    """Drop the last steps of X (batch, steps) that are padding in every row.

    Raises TypeError if one is no tensor of its kind, ValueError if their shapes do not fit or a
    length lies outside 0 ... steps.
    """
    check_tensor(X, "X")
    check_whole(valid_len, "valid lengths")
    if valid_len.is_meta:
        raise ValueError("the valid lengths are on the meta device, which holds no numbers")
    if X.dim() < 2 or valid_len.shape != X.shape[:1]:
        raise ValueError(
            "X must be (batch, steps) and valid_len (batch,), but they have shapes "
            f"{tuple(X.shape)} and {tuple(valid_len.shape)}"
        )
    lens, steps = valid_len.tolist() or [0], X.shape[1]
    shortest, longest = min(lens), max(lens)
    if shortest < 0 or longest > steps:
        raise ValueError(f"valid_len is {shortest} to {longest}, outside 0 ... {steps}, the steps")
    return X[:, :longest]


def build_data_nmt(
    source: list[list[str]],
    target: list[list[str]],
    batch_size: int,
    num_steps: int,
    min_freq: int = 2,
) -> tuple[DataLoader, Vocab, Vocab]:
    """From tokens to batches of (X, X_valid_len, Y, Y_valid_len) and the two vocabularies.

    X, Y                      (batch, num_steps), ids of the source and of the target
    X_valid_len, Y_valid_len  (batch,), how many of them count, <eos> included

    Warns if sentences are longer than num_steps and are cut. Raises ValueError if there is no pair.
    """
    source, target = check_pairs(source, target)
    if not source:
        raise ValueError("there is no sentence pair, so there is nothing to learn from")
    arrays, vocabs = [], []
    for lines in (source, target):
        vocab = Vocab(lines, min_freq, reserved_tokens=["<pad>", "<bos>", "<eos>"])
        arrays += build_array_nmt(lines, vocab, num_steps)
        vocabs.append(vocab)
    too_long = sum(len(line) >= num_steps for lines in (source, target) for line in lines)
    if too_long:
        warnings.warn(
            f"{too_long} of {2 * len(source)} sentences have more than the {num_steps - 1} tokens "
            f"that num_steps {num_steps} leaves beside <eos>, and were cut",
            stacklevel=2,
        )
    return load_array(arrays, batch_size), *vocabs


def load_data_nmt(
    batch_size: int, num_steps: int, num_examples: int | None = 600, source="bundled"
) -> tuple[DataLoader, Vocab, Vocab]:
    """Read the first `num_examples` pairs of a corpus; return train_iter, src_vocab, tgt_vocab.

    source   as for `read_data_nmt`; the batches are those of `build_data_nmt`

    Words seen only once become <unk>. Raises as the functions that it calls.
    """
    lines = _first_pairs(read_data_nmt(source), num_examples)
    tokens = tokenize_nmt(preprocess_nmt("\n".join(lines)), num_examples)
    return build_data_nmt(*tokens, batch_size, num_steps)
