"""The exercises of notebook 02."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from d2l_mini.attention import DotProductAttention, MultiHeadAttention, merge_heads, split_heads
from d2l_mini.exercises.base import FunctionExercise, ValueExercise

# 2.1 A prediction -----------------------------------------------------------------------------


def weights_and_parameters() -> tuple[tuple[int, ...], int]:
    """A map of queries by keys for each sequence and head; four matrices of 12 by 12."""
    with torch.device("meta"):  # shapes alone: no number is drawn, none is computed
        attention = MultiHeadAttention(num_hiddens=12, num_heads=3).eval()
        queries, keys = torch.empty(2, 5, 12), torch.empty(2, 7, 12)
    attention(queries, keys, keys)
    parameters = sum(p.numel() for p in attention.parameters())
    return tuple(attention.attention_weights.shape), parameters


WRONG_SHAPES = {
    (2, 5, 7): "Each head has a map of its own, so the shape has a dimension for the heads.",
    (6, 5, 7): "The book folds the heads into the batch; here they have a dimension of their own.",
    (2, 3, 7, 5): "A row of weights belongs to a query: the queries come before the keys.",
    (2, 5, 3, 7): "The heads come before the queries, so that each head is an item of a batch.",
    (2, 3, 5, 5): "There are 7 keys here: they come from another text.",
    (2, 3, 5, 4): "That is the shape of the split queries; a weight is for a query and a key.",
    (2, 5, 12): "That is the shape of the output; a weight is for a query and a key.",
}
WRONG_PARAMETERS = {
    432: "There is a fourth matrix, W_o.",
    1728: "Heads are slices of the same matrices: more heads need no more numbers.",
    192: "All three heads count: that is the share of one.",
    624: "This layer has no biases unless it is asked for them.",
}


def wrong_pairs() -> Iterator[tuple[object, str]]:
    """Pairs in which the shape is wrong, the number, or both, with what to say."""
    shape, parameters = (2, 3, 5, 7), 576
    for wrong, words in WRONG_SHAPES.items():
        yield (wrong, parameters), f"The parameters are right. {words}"
        for number, more in WRONG_PARAMETERS.items():
            yield (wrong, number), f"{words} As for the parameters: {more}"
    for number, words in WRONG_PARAMETERS.items():
        yield (shape, number), f"The shape is right. {words}"


# 2.2 Merging heads ----------------------------------------------------------------------------


def merge(heads: Tensor) -> Tensor:
    """Put the heads side by side: (batch, heads, steps, size) -> (batch, steps, heads * size)."""
    return heads.transpose(1, 2).flatten(2)


def merged_without_transpose(heads):
    """A reshape alone deals the numbers out in the order of memory: a row of the result then holds
    several steps of one head. Bring heads and size next to each other first."""
    return heads.reshape(len(heads), heads.shape[2], -1)


def merged_by_view(heads):
    """After `transpose` the numbers are no longer in the order of memory, and `view`, which moves
    none, cannot join the dimensions: `reshape` and `flatten` copy where they must."""
    return heads.transpose(1, 2).view(len(heads), heads.shape[2], -1)


def not_joined(heads):
    """The heads stand next to their size now; the two dimensions are still to be made one."""
    return heads.transpose(1, 2)


def units_before_heads(heads):
    """The size came before the heads, so the units are dealt out in turn: first unit 0 of each
    head, then unit 1. A head's units must stay together."""
    return heads.permute(0, 2, 3, 1).flatten(2)


def steps_and_size_swapped(heads):
    """Steps and size were swapped: those to swap are heads and steps."""
    return heads.transpose(2, 3).reshape(len(heads), heads.shape[2], -1)


def one_below_the_other(heads):
    """The heads stand one below the other, as if they were more steps; put them side by side."""
    return heads.flatten(1, 2)


def heads_added(heads):
    """The heads were added up. Side by side they keep what each has found; W_o mixes them later."""
    return heads.sum(dim=1)


def several_heads(generator: torch.Generator) -> Iterator[tuple]:
    """Split tensors of several shapes; with a single step there is nothing to swap."""
    for shape in ((1, 2, 2, 2), (2, 3, 5, 4), (3, 2, 4, 7), (2, 3, 1, 5)):
        yield (torch.randn(*shape, generator=generator),)


# 2.3 A repair ---------------------------------------------------------------------------------


def attend_in_heads(
    queries: Tensor, keys: Tensor, values: Tensor, valid_lens: Tensor, num_heads: int
) -> Tensor:
    """Attention in heads, without projections; all but valid_lens are (batch, steps, hiddens)."""
    heads = [split_heads(X, num_heads) for X in (queries, keys, values)]
    keep = torch.arange(keys.shape[1]) < valid_lens[:, None]  # (batch, keys)
    output = F.scaled_dot_product_attention(*heads, attn_mask=keep[:, None, None])
    return merge_heads(output)


def broken_attend_in_heads(queries, keys, values, valid_lens, num_heads):
    """What the notebook gives to repair."""
    batch, steps, hiddens = queries.shape
    heads = [X.reshape(batch, num_heads, steps, -1) for X in (queries, keys, values)]
    padding = torch.arange(steps) >= valid_lens[:, None]
    output = F.scaled_dot_product_attention(*heads, attn_mask=padding[:, None, None])
    return output.transpose(1, 2).reshape(batch, steps, hiddens)


def still_reshaped(queries, keys, values, valid_lens, num_heads):
    """The mask is right now. But the split still deals the numbers out in the order of memory: a
    row of a head is not a slice of one step."""
    heads = [X.reshape(len(X), num_heads, X.shape[1], -1) for X in (queries, keys, values)]
    return merge_heads(DotProductAttention()(*heads, valid_lens))


def reshaped_both_ways(queries, keys, values, valid_lens, num_heads):
    """The mask is right now. But split and merge are both a bare reshape: they undo each other,
    and in between each head sees steps that are made of pieces of others."""
    heads = [X.reshape(len(X), num_heads, X.shape[1], -1) for X in (queries, keys, values)]
    return DotProductAttention()(*heads, valid_lens).reshape(queries.shape)


def still_uses_the_padding(queries, keys, values, valid_lens, num_heads):
    """The split is right now. But the queries still use the padding, and it alone: in this function
    True means "may be used"."""
    heads = [split_heads(X, num_heads) for X in (queries, keys, values)]
    padding = torch.arange(keys.shape[1]) >= valid_lens[:, None]
    return merge_heads(F.scaled_dot_product_attention(*heads, attn_mask=padding[:, None, None]))


def zeros_and_ones_added(queries, keys, values, valid_lens, num_heads):
    """The split is right now. But a mask of numbers is added to the scores, and 0 and 1 leave the
    padding its weight: the mask must be of the type bool."""
    heads = [split_heads(X, num_heads) for X in (queries, keys, values)]
    keep = (torch.arange(keys.shape[1]) < valid_lens[:, None]).to(queries)
    return merge_heads(F.scaled_dot_product_attention(*heads, attn_mask=keep[:, None, None]))


def queries_masked(queries, keys, values, valid_lens, num_heads):
    """The split is right now. But the mask lies along the queries: it must lie along the keys, the
    last dimension of the scores."""
    heads = [split_heads(X, num_heads) for X in (queries, keys, values)]
    keep = torch.arange(keys.shape[1]) < valid_lens[:, None]
    return merge_heads(F.scaled_dot_product_attention(*heads, attn_mask=keep[:, None, :, None]))


def mask_gone(queries, keys, values, valid_lens, num_heads):
    """The split is right now. But without a mask the padding gets its share of the weights."""
    heads = [split_heads(X, num_heads) for X in (queries, keys, values)]
    return merge_heads(DotProductAttention()(*heads))


def scaled_by_the_whole_width(queries, keys, values, valid_lens, num_heads):
    """Split and mask are right now. But the root must be that of the size of a head, which the
    function takes by itself, and not that of the whole width."""
    heads = split_heads(queries / math.sqrt(num_heads), num_heads)
    others = (split_heads(X, num_heads) for X in (keys, values))
    return merge_heads(DotProductAttention()(heads, *others, valid_lens))


def sequences_with_padding(generator: torch.Generator) -> Iterator[tuple]:
    """Queries, keys and values, lengths of two or more that leave some padding, heads."""
    for batch, steps, hiddens, num_heads in (
        (1, 3, 2, 2),
        (2, 5, 6, 3),
        (3, 6, 8, 2),
        (2, 7, 9, 3),
    ):
        three = [torch.randn(batch, steps, hiddens, generator=generator) for _ in range(3)]
        yield *three, 2 + torch.randperm(steps - 2, generator=generator)[:batch], num_heads


# 2.4 A count ----------------------------------------------------------------------------------


def multiplications_of_one_query() -> int:
    """2 d² for W_q and W_o, 2 n d for the scores and the sum: no key is projected again."""
    with torch.device("meta"):
        layer = MultiHeadAttention(64, 8).eval()
        query, kept = torch.empty(1, 1, 64), torch.empty(1, 8, 100, 8)
    with FlopCounterMode(display=False) as counter:
        layer.attend(query, kept, kept)
    return counter.get_total_flops() // 2


# 2.5 A measurement ----------------------------------------------------------------------------


def share_of_pairs() -> float:
    """How often two random rows can single out each of four places."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(4000, 2, 4, generator=generator).softmax(dim=-1)  # (pairs, rows, places)
    angles = torch.arange(360) * 2 * math.pi / 360
    directions = torch.stack([torch.cos(angles), torch.sin(angles)], dim=1)  # (directions, rows)
    best = (directions @ rows).max(dim=-1)  # (pairs, directions)
    first = best.indices.masked_fill(best.values <= 0, 4)  # 4: another letter comes first
    singled_out = [(first == place).any(dim=1) for place in range(4)]
    return float(torch.stack(singled_out).all(dim=0).float().mean())


EXERCISES = [
    ValueExercise(
        "2.1",
        "3 maps of 5 by 7 for each of 2 sequences, and 4 matrices of 144 numbers",
        5,
        weights_and_parameters,
        (
            "A map of queries by keys for each head of each sequence. And how many matrices?",
            "(batch, heads, queries, keys), and 4 d² whatever the number of heads.",
        ),
        mistakes=list(wrong_pairs()),
    ),
    FunctionExercise(
        "2.2",
        "heads merged",
        10,
        merge,
        (
            "To become one dimension, heads and size must first stand next to each other.",
            "heads.transpose(1, 2) is (batch, steps, heads, size): make one of the last two.",
        ),
        mistakes=[
            merged_without_transpose,
            merged_by_view,
            not_joined,
            units_before_heads,
            steps_and_size_swapped,
            one_below_the_other,
            heads_added,
        ],
        inputs=several_heads,
    ),
    FunctionExercise(
        "2.3",
        "two faults found: the split that mixed steps with units, and the sense of the mask",
        15,
        attend_in_heads,
        (
            "Print heads[1] for keys that say where they are. What does True in attn_mask mean?",
            "split_heads cuts and swaps; scaled_dot_product_attention uses the keys marked True.",
        ),
        mistakes=[
            still_reshaped,
            reshaped_both_ways,
            still_uses_the_padding,
            zeros_and_ones_added,
            queries_masked,
            mask_gone,
            scaled_by_the_whole_width,
        ],
        broken=broken_attend_in_heads,
        inputs=sequences_with_padding,
    ),
    ValueExercise(
        "2.4",
        "2 d² for W_q and W_o, and 2 n d, which is the larger part as soon as n exceeds d = 64",
        15,
        multiplications_of_one_query,
        (
            "Of the four matrices, which does this query meet? Then 100 scores, then a sum of 100.",
            "W_q and W_o take d² each; the scores of all heads together n d, the sums n d.",
        ),
        mistakes=[
            (41984, "FlopCounterMode counts an addition with each multiplication: halve it."),
            (29184, "W_k and W_v are not used: keys and values are kept projected."),
            (12800, "Those are scores and sums; the query meets two of the matrices as well."),
            (16896, "Two matrices are used: W_q before the attention, and W_o after it."),
            (14592, "The scores take n d, and the weighted sums of the values n d more."),
            (110592, "A head has 64 / 8 units, so all heads together take no more than one would."),
            (840192, "That is the whole of forward, which projects the 100 keys and values again."),
            (
                2918400,
                "That is self-attention of 100 steps; here one query meets 100 kept keys.",
            ),
            (
                8192,
                "Those are W_q and W_o. In training mode on a CPU the counter misses the fused "
                "kernel: count in eval mode, or on the device meta.",
            ),
        ],
        tolerance=1e-6,
    ),
    ValueExercise(
        "2.5",
        "about one pair in eight: those whose four points and the origin make a convex pentagon",
        30,
        share_of_pairs,
        (
            "For each pair and direction note which place is first, if its value is above 0.",
            "scores = directions @ rows is (pairs, directions, places): argmax over the places.",
        ),
        mistakes=[
            (0.64, "Here a place has to beat 0 too, the value of a letter at none of the places."),
            (
                0.69,
                "That is the share of places that can be singled out, on average; count the pairs "
                "in which all four can.",
            ),
            (0.88, "Those are the pairs in which some place cannot be singled out."),
            (0.76, "That is the share for three rows; here there are two."),
            (
                0.0,
                "With one row, or with factors above 0 alone, it is next to never: draw two rows, "
                "and let the directions go all the way round.",
            ),
            (
                1.0,
                "Two rows do not make four: draw a pair as four points, and look for one inside.",
            ),
        ],
        tolerance=0.03,
    ),
]
