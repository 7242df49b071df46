"""Attention: from scores to weights to a weighted sum of values, with one head and with many.

Shapes use one vocabulary everywhere: batch, queries, keys, steps, heads, hiddens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from d2l_mini.checks import (
    NUMBERS,
    check_count,
    check_floats,
    check_kind,
    check_number,
    check_shape,
    check_sizes,
    check_tensor,
    check_whole,
    count_to,
    find_outside,
    in_line,
)

__all__ = [
    "AdditiveAttention",
    "Attention",
    "DotProductAttention",
    "MultiHeadAttention",
    "attention_mask",
    "keep_attention_weights",
    "masked_softmax",
    "merge_heads",
    "sequence_mask",
    "softmax_over_keys",
    "split_heads",
]


def sequence_mask(X: Tensor, valid_len: Tensor, value: float = 0) -> Tensor:
    """Replace what lies beyond each sequence's length by `value`, in a new tensor.

    X          (batch, steps, ...)
    valid_len  (batch,): how many leading steps stay
    returns    as X

    Raises ValueError if the shapes do not fit, a length lies outside 0 ... steps, or `value` does
    not fit the type of X.
    """
    check_tensor(X, "X")
    if X.dim() < 2:
        raise ValueError(f"X must be (batch, steps, ...), but it has shape {tuple(X.shape)}")
    valid_len = whole_lens(valid_len, X.shape[1], X.device)
    if valid_len.shape != X.shape[:1]:
        raise ValueError(
            f"valid_len must be (batch,) = ({X.shape[0]},), but it has shape "
            f"{tuple(valid_len.shape)}"
        )
    value = as_fill(value, X.dtype)
    steps = count_to(X.shape[1], X.device)
    keep = steps < valid_len[:, None]  # (batch, steps)
    return X.masked_fill(~keep.reshape(keep.shape + (1,) * (X.dim() - 2)), value)


def as_fill(value: float, dtype: torch.dtype) -> float | int | bool:
    """Return `value` as a number of this type; infinity and NaN fit a float type.

    Raises ValueError where the type cannot hold it, TypeError where one of the two is none.
    """
    if not isinstance(value, Real):
        raise TypeError(f"value is {in_line(value)}; it must be a number")
    if dtype == torch.bool:
        return bool(value)
    if dtype not in NUMBERS:
        raise TypeError(f"X must be of one of the usual types of numbers, but its type is {dtype}")
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    if dtype.is_floating_point and (abs(value) == math.inf or value != value):
        return float(value)
    if not info.min <= value <= info.max or (not dtype.is_floating_point and value % 1):
        raise ValueError(
            f"value {in_line(value)} does not fit {dtype}, which holds {info.min} to {info.max}"
        )
    return float(value) if dtype.is_floating_point else int(value)


def whole_lens(lens: Tensor, longest: int, device: torch.device) -> Tensor:
    """Check that all lengths are whole numbers in 0 ... longest, and return them on `device`.

    On a GPU, where reading them would mean waiting, a length too long counts as all, below 0 as 0.
    Raises ValueError if one lies outside 0 ... longest, TypeError if they are of another type.
    """
    try:
        lens = torch.as_tensor(lens).to_dense()
    except (TypeError, ValueError, RuntimeError) as error:  # a ragged list, or one of other things
        given = in_line(lens)
        raise TypeError(f"valid lengths are whole numbers, but were given as {given}") from error
    if lens.numel() > 0:  # an empty list is a tensor of floats
        check_whole(lens, "valid lengths")
    lens = lens.long()  # unsigned types lack half of the operations
    wrong = find_outside(lens, longest)
    if wrong is not None:
        raise ValueError(f"a valid length of {wrong} lies outside 0 ... {longest}, the steps")
    if lens.is_meta and torch.device(device).type != "meta":
        raise ValueError("the valid lengths are on the meta device, which holds no numbers")
    return lens.to(device)


def attention_mask(shape: torch.Size, valid_lens: Tensor, device: torch.device) -> Tensor:
    """Say which keys each query may use: True = keep.

    shape       of the scores, (batch, [heads,] queries, keys)
    valid_lens  (batch,) or (batch, queries): how many leading keys count
    returns     (batch, [1,] queries or 1, keys), bool, to be broadcast over the scores

    Raises ValueError if the shapes do not fit or a length lies outside 0 ... keys.
    """
    if not isinstance(shape, (tuple, list)) or len(shape) not in (3, 4):
        raise ValueError(
            f"scores must be (batch, [heads,] queries, keys), but have shape {in_line(shape)}"
        )
    batch, queries, keys = shape[0], shape[-2], shape[-1]
    steps = count_to(keys, device)  # 0, 1, 2, ...
    valid_lens = whole_lens(valid_lens, keys, steps.device)
    if valid_lens.shape not in ((batch,), (batch, queries)):
        raise ValueError(
            f"valid_lens must be (batch,) = ({batch},) or (batch, queries) = ({batch}, {queries}), "
            f"but it has shape {tuple(valid_lens.shape)}"
        )
    lens = valid_lens.reshape(batch, -1 if batch else queries, 1)
    if len(shape) == 4:
        lens = lens.unsqueeze(1)  # the same in all heads
    return steps < lens


def masked_softmax(scores: Tensor, valid_lens: Tensor | None = None) -> Tensor:
    """Softmax over the keys that gives no weight to padding.

    scores      (batch, [heads,] queries, keys), any float type
    valid_lens  (batch,) or (batch, queries): how many leading keys count; None = all
    returns     as scores; each row sums to 1, or is 0 where its length is 0

    Raises ValueError if the shapes do not fit or a length lies outside 0 ... keys, TypeError if
    the scores are no floats or the lengths no whole numbers.
    """
    check_floats(scores, "scores")
    if valid_lens is not None:
        keep = attention_mask(scores.shape, valid_lens, scores.device)
        scores = scores.masked_fill(~keep, -torch.inf)
    return softmax_over_keys(scores)


def softmax_over_keys(scores: Tensor) -> Tensor:
    """Softmax over the last dimension; a row of nothing but -inf gives zeros, not NaN.

    scores   (..., queries, keys), any float type
    returns  as scores

    Raises TypeError if the scores are no floats.
    """
    check_floats(scores, "scores")
    if scores.numel() == 0:
        return scores
    empty = scores.amax(dim=-1, keepdim=True) == -torch.inf
    if scores.device.type != "cpu" or empty.any():  # a look at numbers is free on a CPU only
        return torch.softmax(scores.masked_fill(empty, 0), dim=-1).masked_fill(empty, 0)
    if scores.dim() > 1 and scores.shape[-1] < 16:  # PyTorch is slow at such short rows
        return torch.softmax(scores.mT, dim=-2).mT.contiguous()
    return torch.softmax(scores, dim=-1)


def check_together(queries: Tensor, keys: Tensor, values: Tensor) -> None:
    """Raise ValueError or TypeError where queries, keys and values cannot belong together."""
    for tensor, name in ((queries, "queries"), (keys, "keys"), (values, "values")):
        check_floats(tensor, name)
        if tensor.dtype != queries.dtype or tensor.device != queries.device:
            raise TypeError(
                "queries, keys and values must have one type and one device, but have "
                f"{queries.dtype} on {queries.device}, and {tensor.dtype} on {tensor.device}"
            )
    if not queries.shape[:-2] == keys.shape[:-2] == values.shape[:-2] or queries.dim() < 3:
        raise ValueError(
            "queries, keys and values must be (batch, [heads,] steps, size) with the same "
            f"batch and heads, but have shapes {tuple(queries.shape)}, {tuple(keys.shape)} and "
            f"{tuple(values.shape)}"
        )
    if keys.shape[-2] != values.shape[-2]:
        raise ValueError(
            f"each key needs one value, but there are {keys.shape[-2]} keys and "
            f"{values.shape[-2]} values"
        )


def check_one_size(queries: Tensor, keys: Tensor) -> None:
    """Raise ValueError where no dot product can be taken of a query and a key."""
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"queries and keys must have one size, but have {queries.shape[-1]} and "
            f"{keys.shape[-1]}"
        )


class Attention(nn.Module):
    """What both forms of attention share: score, weigh, sum; and remember the weights.

    A subclass says how a query and a key are scored. `attention_weights` holds the weights of the
    last call, detached and before dropout, or None where they were not kept. `keep_weights` says
    when they are: None = in eval mode, True = always, False = never.
    """

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.dropout = nn.Dropout(check_number("dropout", dropout, 0, 1))
        self.keep_weights: bool | None = None
        self.attention_weights: Tensor | None = None

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., queries, size) and (..., keys, size) -> (..., queries, keys)."""
        raise NotImplementedError

    def forward(
        self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None
    ) -> Tensor:
        """Return for each query the sum of the values, weighted by the softmax of its scores.

        queries     (batch, [heads,] queries, size)
        keys        (batch, [heads,] keys, size)
        values      (batch, [heads,] keys, value size)
        valid_lens  (batch,) or (batch, queries): how many leading keys count; None = all
        returns     (batch, [heads,] queries, value size)

        Raises ValueError if the shapes do not fit or a length lies outside 0 ... keys.
        """
        check_together(queries, keys, values)
        weights = masked_softmax(self.score(queries, keys), valid_lens)
        self.attention_weights = weights.detach() if self.will_keep_weights else None
        return self.dropout(weights) @ values

    @property
    def will_keep_weights(self) -> bool:
        """Whether a call made now would keep its weights."""
        return not self.training if self.keep_weights is None else self.keep_weights


class AdditiveAttention(Attention):
    """Score by a network with one hidden layer: w_v tanh(W_q q + W_k k) (book, section 11.3.4).

    Queries and keys may differ in size; both sizes are taken from the first call.
    """

    def __init__(self, num_hiddens: int, dropout: float = 0.0):
        super().__init__(dropout)
        check_sizes(num_hiddens=num_hiddens)
        self.W_q = nn.LazyLinear(num_hiddens, bias=False)
        self.W_k = nn.LazyLinear(num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Compare every query with every key: the sum has a dimension for each."""
        check_width(queries, self.W_q, "queries")
        check_width(keys, self.W_k, "keys")
        features = self.W_q(queries).unsqueeze(-2) + self.W_k(keys).unsqueeze(-3)
        return self.w_v(torch.tanh(features)).squeeze(-1)  # (..., queries, keys)


class DotProductAttention(Attention):
    """Score by the dot product over the root of the size: q . k / sqrt(d) (paper, section 3.2.1).

    Where no one looks at the weights, PyTorch's fused kernel gives the same sums of finite numbers
    in less time; on a CPU it has none with dropout. In float16 a score beyond 65,504 is infinite.
    """

    def forward(
        self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None
    ) -> Tensor:
        """As `Attention.forward`."""
        check_floats(queries, "queries")
        # PyTorch's kernel does not know a score or a dropout of a reader's own.
        fits = type(self).score is DotProductAttention.score and type(self.dropout) is nn.Dropout
        dropout = self.dropout.p if fits and self.dropout.training else 0.0
        if not fits or self.will_keep_weights or (dropout and queries.device.type == "cpu"):
            return super().forward(queries, keys, values, valid_lens)
        self.attention_weights = None
        return fused_attention(queries, keys, values, valid_lens, dropout)

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Queries and keys of one size -> (..., queries, keys)."""
        check_one_size(queries, keys)
        return queries / math.sqrt(queries.shape[-1]) @ keys.transpose(-2, -1)


def fused_attention(
    queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None, dropout: float
) -> Tensor:
    """Return what `DotProductAttention` does, by PyTorch's kernel, which never stores the weights.

    `dropout` is the share of weights to drop; the rest is as in `Attention.forward`.
    """
    check_together(queries, keys, values)
    check_one_size(queries, keys)
    if valid_lens is None:
        return F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout)
    scores_shape = (*queries.shape[:-1], keys.shape[-2])
    keep = attention_mask(scores_shape, valid_lens, queries.device)
    empty = ~keep.any(dim=-1, keepdim=True)  # kernels disagree on these rows: ours are zeros
    output = F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=keep | empty, dropout_p=dropout
    )
    if output.device.type == "cpu" and not empty.any():  # a look at numbers is free on a CPU only
        return output
    return output.masked_fill(empty, 0)


def check_heads(num_heads: int, num_hiddens: int) -> int:
    """Return num_heads; raise ValueError where it does not divide num_hiddens."""
    num_heads = check_count("num_heads", num_heads, 1)
    if check_count("num_hiddens", num_hiddens, 1) % num_heads:
        raise ValueError(f"num_heads {num_heads} does not divide num_hiddens {num_hiddens}")
    return num_heads


def check_width(X: Tensor, layer: nn.Module, name: str) -> None:
    """Raise ValueError where a layer takes vectors of another size.

    Raises TypeError where they are of another type, or on another device.
    """
    check_floats(X, name)
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor):
        return  # what a reader put in the layer's place takes what it takes
    if not is_lazy(weight) and X.shape[-1:] != weight.shape[-1:]:
        raise ValueError(
            f"{name} must be (..., {weight.shape[-1]}), but they have shape {tuple(X.shape)}"
        )
    fixed = X.is_meta or torch.float64 in (X.dtype, weight.dtype)  # what autocast leaves alone
    if X.dtype != weight.dtype and (fixed or not torch.is_autocast_enabled(X.device.type)):
        raise TypeError(
            f"{name} must have the type of the layer's weights, {weight.dtype}, but have {X.dtype}"
        )
    if X.device != weight.device:
        raise TypeError(
            f"{name} must be where the layer's weights are, on {weight.device}, but are on "
            f"{X.device}"
        )


def split_heads(X: Tensor, num_heads: int) -> Tensor:
    """Give each head its slice of the hidden units; the book's `transpose_qkv`.

    X        (batch, steps, hiddens)
    returns  (batch, heads, steps, hiddens / heads)

    Raises ValueError if X has another shape or num_heads does not divide hiddens.
    """
    check_shape(X, "batch, steps, hiddens")
    num_heads = check_heads(num_heads, X.shape[-1])
    return X.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(X: Tensor) -> Tensor:
    """Put the heads' slices side by side again; the book's `transpose_output`.

    X        (batch, heads, steps, hiddens / heads)
    returns  (batch, steps, hiddens)

    Raises ValueError if X has another shape.
    """
    check_shape(X, "batch, heads, steps, hiddens / heads")
    return X.transpose(1, 2).flatten(-2)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each on its own projection (paper, section 3.2.2).

    Raises ValueError if num_heads does not divide num_hiddens.
    """

    def __init__(self, num_hiddens: int, num_heads: int, dropout: float = 0.0, bias: bool = False):
        super().__init__()
        self.num_heads = check_heads(num_heads, num_hiddens)
        self.attention = DotProductAttention(dropout)
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_k = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_v = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=bias)

    @property
    def attention_weights(self) -> Tensor | None:
        """(batch, heads, queries, keys) of the last call, or None where they were not kept."""
        return self.attention.attention_weights

    def forward(
        self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None
    ) -> Tensor:
        """Let every query attend to the keys, in all heads at once.

        queries       (batch, queries, hiddens)
        keys, values  (batch, keys, hiddens)
        valid_lens    (batch,) or (batch, queries): how many leading keys count; None = all
        returns       (batch, queries, hiddens)
        """
        return self.attend(queries, *self.project(keys, values), valid_lens)

    def project(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, keys, hiddens) each -> (batch, heads, keys, hiddens / heads) each."""
        check_width(keys, self.W_k, "keys")
        check_width(values, self.W_v, "values")
        return (
            split_heads(self.W_k(keys), self.num_heads),
            split_heads(self.W_v(values), self.num_heads),
        )

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor | None = None
    ) -> Tensor:
        """As `forward`, for keys and values that are projected already: what a cache holds."""
        check_width(queries, self.W_q, "queries")
        queries = split_heads(self.W_q(queries), self.num_heads)
        return self.W_o(merge_heads(self.attention(queries, keys, values, valid_lens)))


@contextmanager
def keep_attention_weights(net: nn.Module, keep: bool | None) -> Iterator[None]:
    """Inside `with`, keep the weights of every attention in `net`: True, False, or None = in eval.

    Kept weights cost the fused kernel; afterwards each attention is as it was.
    """
    check_kind("net", net, nn.Module)
    # By its attribute, not its class: a reader's own copy of the class counts too.
    attentions = [module for module in net.modules() if "keep_weights" in vars(module)]
    before = [attention.keep_weights for attention in attentions]
    for attention in attentions:
        attention.keep_weights = keep
    try:
        yield
    finally:
        for attention, kept in zip(attentions, before, strict=True):
            attention.keep_weights = kept
