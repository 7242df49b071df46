"""Ablation: a Transformer with one part taken out, to see what the part is for."""

from __future__ import annotations

import math

from torch import Tensor

from d2l_mini.attention import DotProductAttention, MultiHeadAttention
from d2l_mini.transformer import AddNorm, EncoderDecoder

__all__ = ["PARTS", "leave_out"]

PARTS = ("positions", "causal mask", "scaling", "residuals")


class Unscaled(DotProductAttention):
    """Score by q . k, without the root."""

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens=None) -> Tensor:
        """Take the division back beforehand, so that the fused way can be gone too."""
        return super().forward(math.sqrt(queries.shape[-1]) * queries, keys, values, valid_lens)


class Unmasked(MultiHeadAttention):
    """Let every query use every key."""

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, valid_lens=None) -> Tensor:
        """As `MultiHeadAttention.attend` without lengths."""
        return super().attend(queries, keys, values)


class NormOnly(AddNorm):
    """Forget what went into the sublayer."""

    def forward(self, X: Tensor, Y: Tensor) -> Tensor:
        """As `AddNorm.forward` without X."""
        return self.ln(self.dropout(Y))


def leave_out(net: EncoderDecoder, part: str | None) -> None:
    """Take one of PARTS out of the net, which keeps its weights; None leaves it whole.

    Raises ValueError for another part.
    """
    if part not in (None, *PARTS):
        raise ValueError(f"part is {part!r}; it must be None or one of {', '.join(PARTS)}")
    if part == "positions":
        for half in (net.encoder, net.decoder):
            half.pos_encoding.P.zero_()
    if part == "causal mask":
        for blk in net.decoder.blks:
            blk.attention1.__class__ = Unmasked
    for module in list(net.modules()):
        if part == "scaling" and type(module) is DotProductAttention:
            module.__class__ = Unscaled
        if part == "residuals" and type(module) is AddNorm:
            module.__class__ = NormOnly
