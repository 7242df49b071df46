"""The Transformer: positions, the two kinds of block, the two stacks, and both of them together.

A decoder's `state` is what it remembers between steps: one `DecoderState` a block. No call changes
the state it is given; it returns the next one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from d2l_mini.attention import MultiHeadAttention, check_width, whole_lens
from d2l_mini.checks import (
    check_count,
    check_floats,
    check_kind,
    check_number,
    check_shape,
    check_sizes,
    check_tensor,
    count_to,
    find_outside,
)

__all__ = [
    "AddNorm",
    "AttentionDecoder",
    "Decoder",
    "DecoderBlock",
    "DecoderState",
    "Encoder",
    "EncoderBlock",
    "EncoderDecoder",
    "PositionWiseFFN",
    "PositionalEncoding",
    "TransformerDecoder",
    "TransformerEncoder",
    "causal_lens",
    "in_mode",
    "init_weights",
]


class PositionalEncoding(nn.Module):
    """Add to each step a vector of sines and cosines that says where it is (paper, section 3.5).

    P[i, 2j] = sin(i / 10000^(2j / hiddens)), P[i, 2j + 1] = cos of the same angle.
    """

    def __init__(self, num_hiddens: int, dropout: float = 0.0, max_len: int = 1000):
        super().__init__()
        check_sizes(num_hiddens=num_hiddens, max_len=max_len)
        self.dropout = nn.Dropout(check_number("dropout", dropout, 0, 1))
        positions = torch.arange(max_len, dtype=torch.float32)[:, None]
        exponents = torch.arange(0, num_hiddens, 2, dtype=torch.float32) / num_hiddens
        angles = positions / 10000**exponents  # (max_len, hiddens / 2, rounded up)
        P = torch.zeros(max_len, num_hiddens)
        P[:, 0::2] = torch.sin(angles)
        P[:, 1::2] = torch.cos(angles[:, : num_hiddens // 2])
        self.register_buffer("P", P, persistent=False)

    def forward(self, X: Tensor, offset: int = 0) -> Tensor:
        """Encode the positions offset, offset + 1, ...

        X        (batch, steps, hiddens)
        offset   how many steps came before X
        returns  as X

        Raises ValueError if X has another width or a position lies past max_len.
        """
        check_floats(X, "X")
        if X.dim() != 3 or X.shape[2] != self.P.shape[1]:
            raise ValueError(
                f"X must be (batch, steps, {self.P.shape[1]}), but it has shape {tuple(X.shape)}"
            )
        offset = check_count("offset", offset, 0)
        end, max_len = offset + X.shape[1], self.P.shape[0]
        if end > max_len:
            raise ValueError(
                f"position {end - 1} lies outside 0 ... {max_len - 1} (max_len {max_len})"
            )
        return self.dropout(X + self.P[offset:end].to(X))


class PositionWiseFFN(nn.Module):
    """Two linear layers with a ReLU between them, the same at every step (paper, section 3.3)."""

    def __init__(self, num_hiddens: int, ffn_num_hiddens: int):
        super().__init__()
        check_sizes(num_hiddens=num_hiddens, ffn_num_hiddens=ffn_num_hiddens)
        self.dense1 = nn.Linear(num_hiddens, ffn_num_hiddens)
        self.relu = nn.ReLU()
        self.dense2 = nn.Linear(ffn_num_hiddens, num_hiddens)

    def forward(self, X: Tensor) -> Tensor:
        """(..., hiddens) -> (..., hiddens)."""
        check_width(X, self.dense1, "X")
        return self.dense2(self.relu(self.dense1(X)))


class AddNorm(nn.Module):
    """Residual connection, then layer normalisation: "post-norm", as in the paper (section 3.1)."""

    def __init__(self, num_hiddens: int, dropout: float = 0.0):
        super().__init__()
        check_sizes(num_hiddens=num_hiddens)
        self.dropout = nn.Dropout(check_number("dropout", dropout, 0, 1))
        self.ln = nn.LayerNorm(int(num_hiddens))

    def forward(self, X: Tensor, Y: Tensor) -> Tensor:
        """X, what went into a sublayer, and Y, what came out: (..., hiddens) -> (..., hiddens).

        Raises ValueError if they differ in shape or have another size than the layer, TypeError
        if they are no floats or of another type.
        """
        check_width(X, self.ln, "X")
        check_width(Y, self.ln, "Y")
        if X.shape != Y.shape:  # the sum would repeat one of them
            shapes = f"{tuple(X.shape)} and {tuple(Y.shape)}"
            raise ValueError(f"X and Y must have one shape, but have {shapes}")
        return self.ln(X + self.dropout(Y))


def encoder_lens(valid_lens: Tensor | None, X: Tensor) -> Tensor | None:
    """Lengths (batch,) of the source as a tensor where X (batch, steps, ...) is; None stays None.

    Raises ValueError where there is not one a sentence: a mask of 0 and 1 would be taken for them.
    """
    if valid_lens is None:
        return None
    check_tensor(X, "X")
    lens = whole_lens(valid_lens, X.shape[1], X.device)
    if lens.shape != X.shape[:1]:
        raise ValueError(
            f"valid_lens must be (batch,) = ({len(X)},), but it has shape {tuple(lens.shape)}"
        )
    return lens


class EncoderBlock(nn.Module):
    """Self-attention, then the feed-forward network, each with its residual and norm."""

    def __init__(
        self,
        num_hiddens: int,
        ffn_num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
    ):
        super().__init__()
        self.attention = MultiHeadAttention(num_hiddens, num_heads, dropout, bias)
        self.addnorm1 = AddNorm(num_hiddens, dropout)
        self.ffn = PositionWiseFFN(num_hiddens, ffn_num_hiddens)
        self.addnorm2 = AddNorm(num_hiddens, dropout)

    def forward(self, X: Tensor, valid_lens: Tensor | None = None) -> Tensor:
        """X (batch, steps, hiddens), valid_lens (batch,) -> as X."""
        Y = self.addnorm1(X, self.attention(X, X, X, valid_lens))
        return self.addnorm2(Y, self.ffn(Y))


class DecoderState(NamedTuple):
    """What one decoder block remembers: keys and values, projected once and split into heads.

    enc_keys, enc_values  (batch, heads, source steps, hiddens / heads), from the encoder
    enc_valid_lens        (batch,): how many source steps count; None = all
    keys, values          (batch, heads, steps, hiddens / heads), of the steps so far; none at first
    """

    enc_keys: Tensor
    enc_values: Tensor
    enc_valid_lens: Tensor | None
    keys: Tensor
    values: Tensor

    @property
    def num_steps(self) -> int:
        """How many steps the block has seen."""
        return self.keys.shape[2]

    def select(self, rows: Tensor) -> DecoderState:
        """The state of these rows of the batch, in this order; a row may come more than once.

        Raises ValueError if the batch has no such row, TypeError if rows are no whole numbers.
        """
        check_rows(rows, len(self.keys))
        return DecoderState(*(field if field is None else field[rows] for field in self))

    def reorder(self, rows: Tensor) -> DecoderState:
        """As `select`, where every row stays with its source sentence: half of the copying."""
        check_rows(rows, len(self.keys))
        return self._replace(keys=self.keys[rows], values=self.values[rows])


def check_states(states: list[DecoderState], blocks: int) -> None:
    """Raise TypeError where something is no list of states, ValueError without one a block."""
    if not isinstance(states, (list, tuple)):
        raise TypeError(f"state must be a list, one a block, but is a {type(states).__name__}")
    if len(states) != blocks:
        raise ValueError(f"state is one of {len(states)} blocks, but here are {blocks}")
    for state in states:
        if not hasattr(state, "enc_keys"):  # a reader's own class will do
            kind = type(state).__name__
            raise TypeError(f"state must be what init_state returns, but holds a {kind}")


def check_state(X: Tensor, state: DecoderState) -> None:
    """Raise TypeError or ValueError where a block cannot go on from a state by the steps in X."""
    check_shape(X, "batch, steps, hiddens")
    check_states([state], 1)
    if len(X) != len(state.keys):
        raise ValueError(f"X has {len(X)} sentences, but the state is that of {len(state.keys)}")


def check_rows(rows: Tensor, batch: int) -> None:
    """Raise TypeError where rows are no tensor (rows,) of whole numbers, ValueError for none."""
    check_tensor(rows, "rows")
    if rows.dim() != 1 or rows.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            "rows must be (rows,), whole numbers, but have shape "
            f"{tuple(rows.shape)} and type {rows.dtype}"
        )
    wrong = find_outside(rows, batch - 1)
    if wrong is not None:
        raise ValueError(f"row {wrong} lies outside 0 ... {batch - 1}, the batch")


def causal_lens(batch: int, steps: int, offset: int, device: torch.device) -> Tensor:
    """How many keys each query may use when it sees itself and what came before: (batch, steps).

    offset  how many steps came before

    Raises ValueError if a number is negative, TypeError if one is not whole.
    """
    batch, offset = check_count("batch", batch, 0), check_count("offset", offset, 0)
    lens = count_to(steps, device) + offset + 1  # 1, 2, 3, ... after no step
    return lens.expand(batch, steps)


class DecoderBlock(nn.Module):
    """Causal self-attention, attention to the encoder, then the feed-forward network."""

    def __init__(
        self,
        num_hiddens: int,
        ffn_num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
    ):
        super().__init__()
        self.attention1 = MultiHeadAttention(num_hiddens, num_heads, dropout, bias)
        self.addnorm1 = AddNorm(num_hiddens, dropout)
        self.attention2 = MultiHeadAttention(num_hiddens, num_heads, dropout, bias)
        self.addnorm2 = AddNorm(num_hiddens, dropout)
        self.ffn = PositionWiseFFN(num_hiddens, ffn_num_hiddens)
        self.addnorm3 = AddNorm(num_hiddens, dropout)

    def init_state(self, enc_outputs: Tensor, enc_valid_lens: Tensor | None = None) -> DecoderState:
        """enc_outputs (batch, source steps, hiddens), enc_valid_lens (batch,) -> a first state."""
        enc_valid_lens = encoder_lens(enc_valid_lens, enc_outputs)
        enc_keys, enc_values = self.attention2.project(enc_outputs, enc_outputs)
        none_yet = torch.empty_like(enc_keys[:, :, :0])
        return DecoderState(enc_keys, enc_values, enc_valid_lens, none_yet, none_yet)

    def forward(self, X: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Go on by the steps in X: all of a sentence at once in training, one in prediction.

        X        (batch, steps, hiddens)
        returns  as X, and the state after these steps
        """
        check_state(X, state)
        keys, values = self.attention1.project(X, X)
        keys = torch.cat([state.keys, keys], dim=2)
        values = torch.cat([state.values, values], dim=2)
        if X.shape[1] == 1:
            valid_lens = None  # the last step sees all
        else:
            valid_lens = causal_lens(X.shape[0], X.shape[1], state.num_steps, X.device)
        Y = self.addnorm1(X, self.attention1.attend(X, keys, values, valid_lens))
        Z = self.addnorm2(
            Y, self.attention2.attend(Y, state.enc_keys, state.enc_values, state.enc_valid_lens)
        )
        return self.addnorm3(Z, self.ffn(Z)), state._replace(keys=keys, values=values)


class Encoder(nn.Module):
    """The interface of an encoder (book, section 10.6)."""

    def forward(self, X: Tensor, *args) -> Tensor:
        """Token ids (batch, steps) -> (batch, steps, hiddens)."""
        raise NotImplementedError


class Decoder(nn.Module):
    """The interface of a decoder (book, section 10.6)."""

    def init_state(self, enc_outputs: Tensor, *args):
        """Make the state before the first step out of what the encoder returned."""
        raise NotImplementedError

    def forward(self, X: Tensor, state):
        """Token ids (batch, steps), state -> logits (batch, steps, vocab), the next state."""
        raise NotImplementedError


class AttentionDecoder(Decoder):
    """The interface of a decoder whose attention can be looked at (book, section 11.4)."""

    @property
    def attention_weights(self):
        """The attention weights of the last call."""
        raise NotImplementedError


def check_ids(X: Tensor, embedding: nn.Embedding) -> None:
    """Raise TypeError where X holds no token ids, ValueError where one has no embedding.

    The ids are looked at on the CPU only, where that is free.
    """
    check_shape(X, "batch, steps")
    if X.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"token ids must be int64 or int32, but their type is {X.dtype}")
    wrong = find_outside(X, embedding.num_embeddings - 1)
    if wrong is not None:
        raise ValueError(
            f"token id {wrong} lies outside 0 ... {embedding.num_embeddings - 1}: the net was made "
            "for another vocabulary"
        )
    if X.device != embedding.weight.device:
        raise TypeError(
            f"token ids must be where the net is, on {embedding.weight.device}, but are on "
            f"{X.device}"
        )


def check_halves(net: nn.Module) -> None:
    """Raise TypeError where something is no module with an encoder and a decoder."""
    halves = (getattr(net, half, None) for half in ("encoder", "decoder"))
    if not all(isinstance(h, nn.Module) for h in halves) or not hasattr(net, "check_vocab_sizes"):
        raise TypeError(f"net must be an EncoderDecoder, but is a {type(net).__name__}")


@contextmanager
def in_mode(net: nn.Module, training: bool) -> Iterator[None]:
    """Inside `with`, `net` is in train or in eval mode; afterwards every part is as it was."""
    check_kind("net", net, nn.Module)
    modes = [(module, module.training) for module in net.modules()]
    if not all(was is training for _, was in modes):
        net.train(training)
    try:
        yield
    finally:
        for module, was in modes:
            if module.training is not was:  # asking costs less than telling
                module.training = was


def init_weights(module: nn.Module) -> None:
    """Start linear layers by Xavier's rule, as the book does, embeddings at the size of positions.

    Use as `net.apply(init_weights)`. An embedding of standard deviation 1 / sqrt(hiddens), times
    the sqrt(hiddens) of the model, has the size of the positional encoding that is added to it.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)


class TransformerEncoder(Encoder):
    """Embedding, positions, then `num_layers` encoder blocks."""

    def __init__(
        self,
        vocab_size: int,
        num_hiddens: int,
        ffn_num_hiddens: int,
        num_heads: int,
        num_layers: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_sizes(vocab_size=vocab_size, num_hiddens=num_hiddens, num_layers=num_layers)
        # What it takes to build this stack again: `save_translator` keeps it.
        self.sizes = (vocab_size, num_hiddens, ffn_num_hiddens, num_heads, num_layers, dropout)
        self.num_hiddens = num_hiddens
        self.embedding = nn.Embedding(vocab_size, num_hiddens)
        self.pos_encoding = PositionalEncoding(num_hiddens, dropout)
        self.blks = nn.ModuleList(
            EncoderBlock(num_hiddens, ffn_num_hiddens, num_heads, dropout)
            for _ in range(num_layers)
        )
        self.apply(init_weights)

    @property
    def attention_weights(self) -> list[Tensor | None]:
        """Of the last call, one (batch, heads, queries, keys) a layer."""
        return [blk.attention.attention_weights for blk in self.blks]

    def forward(self, X: Tensor, valid_lens: Tensor | None = None) -> Tensor:
        """Token ids X (batch, steps), valid_lens (batch,) -> (batch, steps, hiddens)."""
        check_ids(X, self.embedding)
        valid_lens = encoder_lens(valid_lens, X)
        X = self.pos_encoding(self.embedding(X) * math.sqrt(self.num_hiddens))
        for blk in self.blks:
            X = blk(X, valid_lens)
        return X


class TransformerDecoder(AttentionDecoder):
    """Embedding, positions, `num_layers` decoder blocks, and a score for each word."""

    def __init__(
        self,
        vocab_size: int,
        num_hiddens: int,
        ffn_num_hiddens: int,
        num_heads: int,
        num_layers: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_sizes(vocab_size=vocab_size, num_hiddens=num_hiddens, num_layers=num_layers)
        # What it takes to build this stack again: `save_translator` keeps it.
        self.sizes = (vocab_size, num_hiddens, ffn_num_hiddens, num_heads, num_layers, dropout)
        self.num_hiddens = num_hiddens
        self.embedding = nn.Embedding(vocab_size, num_hiddens)
        self.pos_encoding = PositionalEncoding(num_hiddens, dropout)
        self.blks = nn.ModuleList(
            DecoderBlock(num_hiddens, ffn_num_hiddens, num_heads, dropout)
            for _ in range(num_layers)
        )
        self.dense = nn.Linear(num_hiddens, vocab_size)
        self.apply(init_weights)

    @property
    def attention_weights(self) -> list[list[Tensor | None]]:
        """Of the last call: [self-attention, attention to the encoder], each with one a layer."""
        return [
            [blk.attention1.attention_weights for blk in self.blks],
            [blk.attention2.attention_weights for blk in self.blks],
        ]

    def init_state(
        self, enc_outputs: Tensor, enc_valid_lens: Tensor | None = None
    ) -> list[DecoderState]:
        """enc_outputs (batch, source steps, hiddens), enc_valid_lens (batch,) -> one state each."""
        return [blk.init_state(enc_outputs, enc_valid_lens) for blk in self.blks]

    def forward(self, X: Tensor, state: list[DecoderState]) -> tuple[Tensor, list[DecoderState]]:
        """Token ids X (batch, steps) -> logits (batch, steps, vocab), and the state after them."""
        check_ids(X, self.embedding)
        check_states(state, len(self.blks))
        X = self.embedding(X) * math.sqrt(self.num_hiddens)
        X = self.pos_encoding(X, offset=state[0].num_steps)
        next_state = []
        for blk, blk_state in zip(self.blks, state, strict=True):
            X, blk_state = blk(X, blk_state)
            next_state.append(blk_state)
        return self.dense(X), next_state


class EncoderDecoder(nn.Module):
    """Both halves: the encoder reads the source, the decoder writes the target."""

    def __init__(self, encoder: Encoder, decoder: Decoder):
        super().__init__()
        check_kind("encoder", encoder, nn.Module)
        check_kind("decoder", decoder, nn.Module)
        self.encoder = encoder
        self.decoder = decoder

    def check_vocab_sizes(self, source: int | None, target: int | None) -> None:
        """Raise ValueError where the net was made for vocabularies of other sizes; None = any."""
        for half, size in ((self.encoder, source), (self.decoder, target)):
            known = half.embedding.num_embeddings
            if size not in (None, known):
                raise ValueError(
                    f"the {type(half).__name__} was made for {known} words, but its vocabulary has "
                    f"{size}: make a net for these vocabularies"
                )

    def forward(self, enc_X: Tensor, dec_X: Tensor, enc_valid_lens: Tensor | None = None):
        """Score every next word of dec_X, given the source and the words before it.

        enc_X           (batch, source steps), token ids
        dec_X           (batch, target steps), token ids, <bos> first
        enc_valid_lens  (batch,): how many source steps count; None = all
        returns         logits (batch, target steps, vocab), and the decoder's state
        """
        enc_outputs = self.encoder(enc_X, enc_valid_lens)
        return self.decoder(dec_X, self.decoder.init_state(enc_outputs, enc_valid_lens))
