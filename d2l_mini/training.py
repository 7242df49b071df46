"""Training: the loss, the clipping, the loop, and a file that keeps what was learnt."""

from __future__ import annotations

import errno
import hashlib
import inspect
import io
import math
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from d2l_mini.attention import sequence_mask
from d2l_mini.checks import (
    as_float,
    check_count,
    check_device,
    check_floats,
    check_kind,
    check_number,
    check_path,
    check_tensor,
    find_outside,
    in_line,
)
from d2l_mini.data import (
    Vocab,
    build_data_nmt,
    cache_folder,
    check_vocab,
    hold_out_nmt,
    preprocess_nmt,
    read_data_nmt,
    tokenize_nmt,
    trim_padding,
    try_gpu,
)
from d2l_mini.progress import Accumulator, Animator, Timer
from d2l_mini.transformer import (
    EncoderDecoder,
    TransformerDecoder,
    TransformerEncoder,
    check_halves,
    in_mode,
)

__all__ = [
    "History",
    "MaskedSoftmaxCELoss",
    "Translator",
    "grad_clipping",
    "load_training",
    "load_translator",
    "ready_translator",
    "rise_and_fall",
    "save_translator",
    "train_epoch",
    "train_seq2seq",
    "train_step",
]


def check_labels(pred: Tensor, label: Tensor) -> None:
    """Raise ValueError where the shapes of logits and ids do not fit, TypeError for their types."""
    check_floats(pred, "pred")
    check_tensor(label, "label")
    if label.dtype != torch.int64:
        raise TypeError(f"label must hold token ids, int64, but its type is {label.dtype}")
    if pred.dim() != 3 or pred.shape[:2] != label.shape:
        raise ValueError(
            "pred must be (batch, steps, vocab) and label (batch, steps), but they have "
            f"shapes {tuple(pred.shape)} and {tuple(label.shape)}"
        )
    if pred.device != label.device:
        raise TypeError(
            f"pred and label must be on one device, but are on {pred.device} and {label.device}"
        )
    wrong = find_outside(label, pred.shape[2] - 1)
    if wrong is not None:
        raise ValueError(
            f"label holds the id {wrong}, but pred has scores for 0 ... {pred.shape[2] - 1}"
        )


class MaskedSoftmaxCELoss(nn.Module):
    """Cross-entropy that counts real tokens only."""

    def forward(self, pred: Tensor, label: Tensor, valid_len: Tensor) -> Tensor:
        """Sum the cross-entropy of each sequence over its real tokens, in nats.

        pred       (batch, steps, vocab), logits
        label      (batch, steps), token ids
        valid_len  (batch,): how many steps count
        returns    (batch,)

        Raises ValueError if the shapes do not fit, TypeError if the types do not.
        """
        check_labels(pred, label)
        pred = pred.to(torch.promote_types(pred.dtype, torch.float32))  # sums of halves overflow
        losses = F.cross_entropy(pred.flatten(0, 1), label.flatten(), reduction="none")
        return sequence_mask(losses.view(label.shape), valid_len).sum(dim=1)


def check_theta(theta: float) -> float:
    """Return theta as a float; raise ValueError where it is no number above 0."""
    number = as_float(theta)
    if number is None or not number > 0:
        raise ValueError(f"theta is {in_line(theta)}; it must be a number greater than 0")
    return number


def grad_clipping(net: nn.Module, theta: float) -> Tensor:
    """Shrink the gradient of `net` to norm `theta` where it is longer (book, section 9.5).

    returns  the norm before clipping

    Raises ValueError if theta is not positive, FloatingPointError if the norm is not finite: the
    gradient is then left as it is, and no step should be taken.
    """
    check_kind("net", net, nn.Module)
    theta = check_theta(theta)
    learning = [parameter for parameter in net.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in learning])
    length = norm.item()  # one look, for which a GPU has to be waited for
    if not math.isfinite(length):
        raise FloatingPointError(f"the norm of the gradient is {norm}: try a smaller learning rate")
    if length > theta:
        torch.nn.utils.clip_grads_with_norm_(learning, theta, norm)
    return norm


def rise_and_fall(step: int, num_steps: int, warm_up: int) -> float:
    """The share of the full learning rate at a step: evenly up, then evenly down to 0.

    step     counted from 0, of num_steps
    warm_up  in how many steps it rises; 0 = it only falls

    Raises ValueError if there is no such step, or the warm-up is negative or takes all steps.
    """
    num_steps = check_count("num_steps", num_steps, 1)
    step = check_count("step", step, 0, num_steps)
    warm_up = check_count("warm_up", warm_up, 0, num_steps - 1)
    rising = (step + 1) / warm_up if warm_up else 1
    return min(rising, (num_steps - step) / (num_steps - warm_up))


@dataclass
class History:
    """What a training run measured, and the optimizer it used, so that another call can go on.

    loss            of each epoch, in nats per real token
    num_tokens      real target tokens seen
    seconds         of training, without drawing
    """

    loss: list[float] = field(default_factory=list)
    num_tokens: float = 0
    seconds: float = 0
    optimizer: torch.optim.Optimizer | None = field(default=None, repr=False)

    @property
    def tokens_per_second(self) -> float:
        """Real target tokens per second of training, over all epochs."""
        return self.num_tokens / self.seconds if self.seconds else 0.0


def check_batches(data_iter: Iterable) -> None:
    """Raise TypeError where something gives no batches."""
    check_kind("data_iter", data_iter, Iterable)
    if isinstance(data_iter, Tensor):
        raise TypeError("data_iter must give batches, but is a tensor")


def check_step(net, batch, optimizer, tgt_vocab, device, loss, num_tokens) -> None:
    """Raise TypeError or ValueError where one of what `train_step` needs is something else."""
    check_kind("net", net, nn.Module)
    check_kind("optimizer", optimizer, torch.optim.Optimizer)
    check_vocab("tgt_vocab", tgt_vocab, "<bos>")
    check_device(device)
    if loss is not None and not callable(loss):
        raise TypeError(f"loss must be a function or a module, but is {in_line(loss)}")
    if not isinstance(num_tokens, Tensor):
        tells = num_tokens is None or isinstance(num_tokens, (int, float))
        check_number("num_tokens", 1 if num_tokens is None else num_tokens, 1e-9, 1e18)
    else:
        tells = num_tokens.numel() == 1 and not num_tokens.is_complex()
    if not tells:
        raise TypeError(f"num_tokens must be one number, but is {in_line(num_tokens)}")
    if not torch.is_grad_enabled():
        raise ValueError("gradients are off, by no_grad or inference_mode: nothing can be learnt")
    if not isinstance(batch, (tuple, list)) or len(batch) != 4:
        raise ValueError("a batch must be (X, X_valid_len, Y, Y_valid_len)")


def train_step(
    net: nn.Module,
    batch: Sequence[Tensor],
    optimizer: torch.optim.Optimizer,
    tgt_vocab: Vocab,
    device: torch.device,
    loss: nn.Module | None = None,
    num_tokens: Tensor | float | None = None,
) -> tuple[Tensor, Tensor]:
    """Take one step of the optimizer, by teacher forcing.

    batch       (X, X_valid_len, Y, Y_valid_len)
    loss        None = `MaskedSoftmaxCELoss`
    num_tokens  what the summed loss is divided by for its gradient; None = the real tokens of Y
    returns     the summed loss in nats, and how many real tokens it is the sum of

    Raises ValueError if the batch has other parts or there is no such device, TypeError if one of
    these is something else, FloatingPointError if the gradient is not finite.
    """
    check_step(net, batch, optimizer, tgt_vocab, device, loss, num_tokens)
    X, X_valid_len, Y, Y_valid_len = batch
    X, Y = trim_padding(X, X_valid_len), trim_padding(Y, Y_valid_len)
    X, X_valid_len, Y, Y_valid_len = (
        tensor.to(device) for tensor in (X, X_valid_len, Y, Y_valid_len)
    )
    bos = torch.full_like(Y[:, :1], tgt_vocab["<bos>"])
    dec_X = torch.cat([bos, Y[:, :-1]], dim=1)  # the true words, one step late
    logits, _ = net(X, dec_X, X_valid_len)
    losses = (loss or MaskedSoftmaxCELoss())(logits, Y, Y_valid_len).sum()
    real = Y_valid_len.sum()
    optimizer.zero_grad()
    (losses / (real if num_tokens is None else num_tokens)).backward()
    grad_clipping(net, 1)
    optimizer.step()
    return losses.detach(), real


def train_epoch(
    net: nn.Module,
    data_iter: Iterable,
    optimizer: torch.optim.Optimizer,
    tgt_vocab: Vocab,
    device: torch.device,
) -> Accumulator:
    """Take one step for each batch; return the summed loss and how many tokens it is the sum of."""
    check_batches(data_iter)
    metric = Accumulator(2)
    for batch in data_iter:
        metric.add(*train_step(net, batch, optimizer, tgt_vocab, device))
    return metric


def train_seq2seq(
    net: EncoderDecoder,
    data_iter: Iterable,
    lr: float,
    num_epochs: int,
    tgt_vocab: Vocab,
    device: torch.device,
    history: History | None = None,
) -> History:
    """Train by Adam, with a live plot of the loss in nats per real token (book, section 10.7).

    data_iter  batches of (X, X_valid_len, Y, Y_valid_len), as from `load_data_nmt`
    history    what an earlier call returned: go on with its optimizer and its curve
    returns    the history; the same object if one was given

    The weights are never started anew. Interrupting the kernel (or Ctrl-C) ends the training and
    keeps what `net` has learnt. Raises ValueError if there is no batch or no <bos>, num_epochs is
    negative, a number is wrong for Adam, or the vocabulary or the history is that of another net;
    TypeError if one of these is something else; FloatingPointError if the gradient is not finite.
    """
    num_epochs = check_count("num_epochs", num_epochs, 0)
    lr = check_number("lr", lr, 0, 1e9)
    device = check_device(device)
    check_halves(net)
    check_batches(data_iter)
    check_vocab("tgt_vocab", tgt_vocab, "<bos>")
    if history is not None:
        check_kind("history", history, History)
    learning = [parameter for parameter in net.parameters() if parameter.requires_grad]
    if not learning:
        raise ValueError("no parameter of the net requires a gradient, so none can learn")
    if any(parameter.dtype == torch.float16 for parameter in learning):
        raise ValueError("float16 is too narrow to learn in: use float32 or bfloat16 (net.float())")
    net.check_vocab_sizes(None, len(tgt_vocab))
    net.to(device)
    history = history or History()
    if history.optimizer is None:
        history.optimizer = torch.optim.Adam(net.parameters(), lr=lr, fused=True)
    optimized = {id(p) for group in history.optimizer.param_groups for p in group["params"]}
    if not optimized <= {id(p) for p in net.parameters()}:
        raise ValueError("history is that of another net: start without one")
    if not {id(p) for p in learning} <= optimized:
        raise ValueError("the net has parts that the optimizer of history does not know")
    history.optimizer.load_state_dict(history.optimizer.state_dict())  # to where the net is now
    for group in history.optimizer.param_groups:
        group["lr"] = lr
    first = len(history.loss) + 1
    animator = Animator("epoch", "nats per token", xlim=[1, max(first + num_epochs - 1, 2)])
    try:
        for epoch, loss in enumerate(history.loss, start=1):
            animator.add(epoch, loss)
        for epoch in range(first, first + num_epochs):
            timer = Timer()
            with in_mode(net, training=True):
                metric = train_epoch(net, data_iter, history.optimizer, tgt_vocab, device)
            history.seconds += timer.stop()
            if metric[1] == 0:
                raise ValueError("data_iter gave no batch, so there is nothing to learn from")
            history.num_tokens += metric[1]
            history.loss.append(metric[0] / metric[1])
            animator.add(epoch, history.loss[-1])
    except KeyboardInterrupt:
        print(f"stopped in epoch {len(history.loss) + 1}; the net keeps what it has learnt")
    finally:
        animator.close()
    if history.loss:
        print(
            f"loss {history.loss[-1]:.3f} nats per token, "
            f"{history.tokens_per_second:.0f} tokens/s on {device}"
        )
    return history


class Translator(NamedTuple):
    """All that translating needs: the model, both vocabularies, and the longest sentence."""

    net: EncoderDecoder
    src_vocab: Vocab
    tgt_vocab: Vocab
    num_steps: int


def save_translator(
    path: str | os.PathLike,
    net: EncoderDecoder,
    src_vocab: Vocab,
    tgt_vocab: Vocab,
    num_steps: int,
    training: dict | None = None,
) -> None:
    """Keep a translator in one file: weights, vocabularies, sizes.

    training  what a later training needs to go on, plain values and tensors; `load_training` gives
              it back

    The file is written under a temporary name and renamed, so an older one survives a failure.
    Raises ValueError if the vocabularies are not those of the net, num_steps is below 1 or the net
    is not what its sizes say (a part or a setting was exchanged), TypeError if one of them is
    something else, OSError if writing fails.
    """
    check_halves(net)
    check_vocab("src_vocab", src_vocab)
    check_vocab("tgt_vocab", tgt_vocab)
    num_steps = check_count("num_steps", num_steps, 1)
    net.check_vocab_sizes(len(src_vocab), len(tgt_vocab))
    _check_plain(training)
    weights = {name: tensor.cpu() for name, tensor in net.state_dict().items()}
    file = io.BytesIO()  # on a full disk torch.save speaks of positions, write_bytes of the disk
    try:
        content = {
            "encoder": _plain(net.encoder.sizes),
            "decoder": _plain(net.decoder.sizes),
            "src_tokens": [str(token) for token in src_vocab],  # of NumPy's strings too
            "tgt_tokens": [str(token) for token in tgt_vocab],
            "num_steps": num_steps,
            "weights": weights,
            "training": training,
        }
        torch.save(content, file)
        built = _build_translator(_read_content(file)).net
        for there, here in zip(built.modules(), net.modules(), strict=True):
            if _differ(there, here):
                raise ValueError(f"{type(here).__name__} would become {type(there).__name__}")
    except OSError:
        raise
    except Exception as error:
        raise ValueError(
            "this net cannot be built again from its sizes, so nothing was saved: keep its "
            "state_dict by torch.save instead"
        ) from error
    path = Path(os.path.realpath(check_path(path)))  # a link goes on to lead there
    if path.exists() and not path.is_file():  # a folder; or a device, which must not be replaced
        raise OSError(errno.EEXIST, f"could not write {path}: it is there, and no file")
    try:
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "it may not be written")
        with tempfile.TemporaryDirectory(dir=path.parent, ignore_cleanup_errors=True) as temporary:
            part = Path(temporary) / path.name
            part.write_bytes(file.getbuffer())
            if path.exists():
                shutil.copymode(path, part)
            os.replace(part, path)
    except OSError as error:
        raise OSError(error.errno, f"could not write {path}: {error.strerror}") from error


def _check_plain(training: dict | None) -> None:
    """Raise TypeError where something is more than a file without programs can hold."""
    file = io.BytesIO()
    try:
        if training is not None:
            torch.save(training, file)
            file.seek(0)
            torch.load(file, weights_only=True)
    except OSError:
        raise
    except Exception as error:
        raise TypeError("training must hold plain values and tensors alone") from error


def _differ(there: nn.Module, here: nn.Module) -> bool:
    """Whether two modules differ beside their weights: in name, a number, the size of a buffer."""
    if type(there).__name__ != type(here).__name__:
        return True
    sizes = [[buffer.shape for buffer in module.buffers(recurse=False)] for module in (there, here)]
    names = vars(there).keys() & vars(here).keys() - {"training"}
    numbers = [(as_float(vars(there)[name]), as_float(vars(here)[name])) for name in names]
    return sizes[0] != sizes[1] or any(a != b for a, b in numbers if None not in (a, b))


def _plain(sizes: tuple) -> tuple:
    """Sizes as Python's own numbers: of NumPy's, a file without programs holds none."""
    *counts, dropout = sizes
    return *map(int, counts), float(dropout)


def load_translator(path: str | os.PathLike) -> Translator:
    """Read what `save_translator` wrote: the net, in eval mode on the CPU, and what goes with it.

    Raises OSError if the file cannot be opened, ValueError if it is damaged or something else.
    """
    return _read(path, lambda file: _build_translator(_read_content(file)))


def load_training(path: str | os.PathLike) -> dict | None:
    """Read what `save_translator` was given as `training`; raise as `load_translator`."""
    return _read(path, lambda file: _read_content(file).get("training"))


def _read(path: str | os.PathLike, read: Callable[[BinaryIO], object]):
    """Read a file that `save_translator` wrote; raise as `load_translator`."""
    path = check_path(path)
    if path.exists() and not path.is_file() and not path.is_dir():  # a device gives without end
        raise ValueError(f"{path} is no file")
    with open(path, "rb") as file:
        try:
            return read(file)
        except Exception as error:  # what a stray file sets off inside torch.load is of any kind
            raise ValueError(
                f"{path} is not a translator that save_translator wrote, or it is damaged"
            ) from error


@contextmanager
def set_apart(seed: int, device: torch.device) -> Iterator[None]:
    """Inside `with`, all is as in a new program with this seed and one CPU thread.

    Gradients are on and new weights are float32. Afterwards the random numbers of the CPU and of
    `device`, the threads and the type go on as if it had not been.
    """
    num_threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)  # a second one only costs time in a model this small
    torch.set_default_dtype(torch.float32)
    try:
        devices = [device] if device.type == "cuda" else []
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.random.fork_rng(devices=devices),
        ):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(num_threads)
        torch.set_default_dtype(dtype)


def _read_content(file: BinaryIO) -> dict:
    """What `save_translator` put into a file; anything else sets off an exception of any kind."""
    with zipfile.ZipFile(file) as archive:  # torch.load does not compare the checksums
        if archive.testzip() is not None:
            raise ValueError("a checksum is wrong")
    file.seek(0)
    return torch.load(file, map_location="cpu", weights_only=True)


def _build_translator(content: dict) -> Translator:
    """Build a translator again; what is not one sets off an exception of any kind."""
    src_vocab = Vocab(reserved_tokens=content["src_tokens"][1:])
    tgt_vocab = Vocab(reserved_tokens=content["tgt_tokens"][1:])
    with torch.random.fork_rng(devices=[]):  # every new net begins with random numbers
        net = EncoderDecoder(
            TransformerEncoder(*content["encoder"]), TransformerDecoder(*content["decoder"])
        )
    net.check_vocab_sizes(len(src_vocab), len(tgt_vocab))
    net.to(content["weights"]["decoder.dense.weight"].dtype)
    net.load_state_dict(content["weights"])
    return Translator(net.eval(), src_vocab, tgt_vocab, content["num_steps"])


SIZES = {"num_hiddens": 64, "ffn_num_hiddens": 128, "num_heads": 4, "num_layers": 2, "dropout": 0.1}
LEARNING_RATES = (0.004, 0.004, 0.004, 0.004, 0.004, 0.001)  # of each epoch


def ready_translator(
    epoch: int = len(LEARNING_RATES),
    cache_dir: str | os.PathLike | None = None,
    device: torch.device | str | None = None,
) -> Translator:
    """Return the translator that notebook 05 trains; where there is none yet, train and keep it.

    epoch      after how many epochs: 0 = untrained, 6 = the end
    cache_dir  where the files are kept; None = see `cache_folder`
    device     to train on; None = `try_gpu()`

    Training takes less than a minute, on one CPU thread or the GPU, shows its curve, and leaves
    the random numbers of the notebook alone. Raises ValueError for an epoch that there is not,
    OSError if the files cannot be written.
    """
    epoch = check_count("epoch", epoch, 0, len(LEARNING_RATES))
    device = try_gpu() if device is None else check_device(device)
    text = read_data_nmt()
    recipe = f"{text}{SIZES}{LEARNING_RATES}{inspect.getsource(_train_ready_translator)}"
    folder = cache_folder(cache_dir) / hashlib.sha1(recipe.encode()).hexdigest()[:10]
    path = folder / f"translator-{epoch}.pt"
    try:
        return load_translator(path)
    except (OSError, ValueError):  # none yet, or a damaged one
        with set_apart(0, device):
            _train_ready_translator(text, folder, device)
    return load_translator(path)


def _train_ready_translator(text: str, folder: Path, device: torch.device) -> None:
    """Train as notebook 05 does, and keep the translator as it is after each epoch."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            error.errno, f"{folder} cannot be made: set D2L_MINI_CACHE to a folder of yours"
        ) from error
    train, _ = hold_out_nmt(*tokenize_nmt(preprocess_nmt(text)), fraction=0.05)
    train_iter, *vocabs = build_data_nmt(*train, batch_size=128, num_steps=10)
    src_vocab, tgt_vocab = vocabs
    net = EncoderDecoder(
        TransformerEncoder(len(src_vocab), **SIZES), TransformerDecoder(len(tgt_vocab), **SIZES)
    ).to(device)
    save_translator(folder / "translator-0.pt", net, *vocabs, num_steps=10)
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    animator = Animator("epoch", "nats per token", xlim=[1, len(LEARNING_RATES)])
    try:
        for epoch, lr in enumerate(LEARNING_RATES, start=1):
            optimizer.param_groups[0]["lr"] = lr
            metric = train_epoch(net, train_iter, optimizer, tgt_vocab, device)
            animator.add(epoch, metric[0] / metric[1])
            save_translator(folder / f"translator-{epoch}.pt", net, *vocabs, num_steps=10)
    finally:
        animator.close()
