"""The exercises of notebook 04."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from d2l_mini.exercises.base import FunctionExercise, ValueExercise
from d2l_mini.transformer import DecoderBlock

# 4.1 Causal and padding lengths ---------------------------------------------------------------


def both_lens(valid_lens: Tensor, steps: int) -> Tensor:
    """How many keys each query may use: valid_lens (batch,) -> (batch, steps)."""
    causal = torch.arange(1, steps + 1)
    return torch.minimum(causal, valid_lens[:, None])


def without_its_own_key(valid_lens, steps):
    """One too few: a query may use its own key too, so the first query has one key, not none."""
    return torch.minimum(torch.arange(steps), valid_lens[:, None])


def with_the_next_key(valid_lens, steps):
    """One too many: the first query may use one key, its own, and nothing that comes later."""
    return torch.minimum(torch.arange(2, steps + 2), valid_lens[:, None])


def causal_alone(valid_lens, steps):
    """This is the causal length alone: padded keys are hidden by the valid length, in every row."""
    return torch.arange(1, steps + 1).repeat(len(valid_lens), 1)


def padding_alone(valid_lens, steps):
    """This hides the padding alone: now each query sees every real word, later ones included."""
    return valid_lens[:, None].repeat(1, steps)


def the_larger_one(valid_lens, steps):
    """Both must allow a key, so the smaller of the two lengths counts, and not the larger one."""
    return torch.maximum(torch.arange(1, steps + 1), valid_lens[:, None])


def nothing_for_padding(valid_lens, steps):
    """Padded queries may use no key here. Masks hide keys, not queries: nobody reads such a row."""
    causal = torch.arange(1, steps + 1)
    return causal * (causal <= valid_lens[:, None])


def lengths_and_steps(generator: torch.Generator) -> Iterator[tuple]:
    """Valid lengths, in each call one without padding and one with, and the number of steps."""
    for batch, steps in ((2, 4), (3, 5), (5, 9)):
        lens = torch.randint(1, steps + 1, (batch,), generator=generator)
        lens[0] = steps
        lens[-1] = torch.randint(1, steps, (), generator=generator)
        yield lens, steps


# 4.2 Add and norm -----------------------------------------------------------------------------


def add_norm(X: Tensor, Y: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    """LN(X + Y): X and Y (batch, steps, hiddens), gamma and beta (hiddens,) -> as X."""
    total = X + Y
    deviation = total - total.mean(dim=-1, keepdim=True)
    variance = deviation.pow(2).mean(dim=-1, keepdim=True)
    return gamma * deviation / torch.sqrt(variance + eps) + beta


def normalised(total, dims, eps):
    """As `add_norm`, before gamma and beta, with mean and variance over other dimensions."""
    variance, mean = torch.var_mean(total, dims, correction=0, keepdim=True)
    return (total - mean) / torch.sqrt(variance + eps)


def unbiased(X, Y, gamma, beta, eps):
    """The variance is divided by d - 1, as Tensor.var and Tensor.std do: the norm divides by d."""
    total = X + Y
    variance, mean = torch.var_mean(total, -1, keepdim=True)
    return gamma * (total - mean) / torch.sqrt(variance + eps) + beta


def outside_the_root(X, Y, gamma, beta, eps):
    """eps stands outside the root: it belongs to the variance, inside."""
    total = X + Y
    deviation = total - total.mean(-1, keepdim=True)
    return gamma * deviation / (total.std(-1, correction=0, keepdim=True) + eps) + beta


def as_annotated(X, Y, gamma, beta, eps):
    """This is the layer of The Annotated Transformer: here the variance divides by d, not by d - 1,
    and eps stands inside the root."""
    total = X + Y
    deviation = total - total.mean(-1, keepdim=True)
    return gamma * deviation / (total.std(-1, keepdim=True) + eps) + beta


def over_the_steps(X, Y, gamma, beta, eps):
    """Mean and variance run over the steps; each step has its own, over its hidden units, dim=-1.
    Otherwise a step would see the others, later ones included."""
    return gamma * normalised(X + Y, 1, eps) + beta


def over_the_sentence(X, Y, gamma, beta, eps):
    """Mean and variance run over all numbers of a sentence; each step has its own."""
    return gamma * normalised(X + Y, (1, 2), eps) + beta


def over_the_batch(X, Y, gamma, beta, eps):
    """This is batch normalisation, over all steps of all sentences; each step has its own mean."""
    return gamma * normalised(X + Y, (0, 1), eps) + beta


def over_everything(X, Y, gamma, beta, eps):
    """There is one mean and one variance for all numbers; each step has its own, dim=-1."""
    total = X + Y
    return gamma * (total - total.mean()) / torch.sqrt(total.var() + eps) + beta


def no_residual(X, Y, gamma, beta, eps):
    """This normalises Y alone: the residual connection adds X to it before."""
    return gamma * normalised(Y, -1, eps) + beta


def added_afterwards(X, Y, gamma, beta, eps):
    """X is added after the norm; in post-norm the sum itself is normalised."""
    return X + gamma * normalised(Y, -1, eps) + beta


def no_root_of_variance(X, Y, gamma, beta, eps):
    """The variance itself divides; take its root, or the result is not of size 1."""
    total = X + Y
    variance, mean = torch.var_mean(total, -1, correction=0, keepdim=True)
    return gamma * (total - mean) / (variance + eps) + beta


def no_eps(X, Y, gamma, beta, eps):
    """eps is left out: a vector of equal numbers would be divided by 0."""
    return gamma * normalised(X + Y, -1, 0) + beta


def no_gamma_and_beta(X, Y, gamma, beta, eps):
    """Mean 0 and variance 1 are right, but gamma and beta are still to come."""
    return normalised(X + Y, -1, eps)


def what_a_sublayer_saw(generator: torch.Generator) -> Iterator[tuple]:
    """What went into a sublayer, what came out, and the norm's own numbers."""
    for shape, eps in (((1, 2, 3), 0.1), ((2, 3, 4), 0.5), ((3, 5, 7), 1e-5)):
        X, Y = torch.randn(2, *shape, generator=generator)
        gamma, beta = torch.randn(2, shape[-1], generator=generator)
        yield X, Y, gamma, beta, eps


# 4.3 A repair ---------------------------------------------------------------------------------


def causal_attention(X: Tensor, keys: Tensor, values: Tensor, training: bool) -> Tensor:
    """Attend from the new steps X (steps, size) to the earlier ones, (earlier, size), and to X."""
    keys, values = torch.cat([keys, X]), torch.cat([values, X])
    scores = X @ keys.T / math.sqrt(X.shape[1])
    earlier = len(keys) - len(X)
    later = torch.ones_like(scores).triu(earlier + 1).bool()
    return torch.softmax(scores.masked_fill(later, -torch.inf), dim=1) @ values


def masked_above(diagonal, X, keys, values):
    """As `causal_attention`, with all that lies above a diagonal masked; None = no mask."""
    keys, values = torch.cat([keys, X]), torch.cat([values, X])
    scores = X @ keys.T / math.sqrt(X.shape[1])
    if diagonal is not None:
        later = torch.ones_like(scores).triu(diagonal + 1).bool()
        scores = scores.masked_fill(later, -torch.inf)
    return torch.softmax(scores, dim=1) @ values


def broken_causal_attention(X, keys, values, training):
    """What the notebook gives to repair."""
    return masked_above(0 if training else None, X, keys, values)


def still_only_in_training(X, keys, values, training):
    """The mask still depends on the mode: in eval mode, a step of a whole sentence sees those after
    it."""
    return masked_above(len(keys) if training else None, X, keys, values)


def still_from_the_first_key(X, keys, values, training):
    """The mask still begins at the first key: with n earlier steps, the first new query may use
    n + 1 keys, and not one."""
    return masked_above(0, X, keys, values)


def no_mask_at_all(X, keys, values, training):
    """Now nothing is masked: one step alone needs no mask, but several at once do, in any mode."""
    return masked_above(None, X, keys, values)


def no_mask_with_a_cache(X, keys, values, training):
    """There is no mask once there are earlier steps. For one new step that is right, but of several
    new ones the first must not see the last."""
    return masked_above(None if len(keys) else 0, X, keys, values)


def no_mask_for_one_step(X, keys, values, training):
    """One step alone is right now. But with n earlier steps, the first of several new ones may use
    n + 1 keys, and not one."""
    return masked_above(0 if len(X) > 1 else None, X, keys, values)


def only_the_earlier_steps(X, keys, values, training):
    """One key too few: a step may use its own key too, not only the earlier ones."""
    return masked_above(len(keys) - 1, X, keys, values)


def one_step_ahead(X, keys, values, training):
    """One key too many: each step sees the one after it, which is its answer."""
    return masked_above(len(keys) + 1, X, keys, values)


def new_and_earlier_steps(generator: torch.Generator) -> Iterator[tuple]:
    """Several new steps or one, with earlier ones or none, in both modes."""
    for steps, earlier, size, training in (
        (1, 2, 2, True), (3, 0, 2, False), (2, 2, 3, False), (2, 3, 4, True),
        (4, 0, 5, True), (1, 4, 3, False), (3, 2, 6, False),
    ):  # fmt: skip
        keys, values = torch.randn(2, earlier, size, generator=generator)
        yield torch.randn(steps, size, generator=generator), keys, values, training


# 4.4 A prediction -----------------------------------------------------------------------------


def parameters_and_shape() -> tuple[int, tuple[int, ...]]:
    """The paper's decoder block, 2 * 4 d² + (2 d f + f + d) + 3 * 2 d, and its cross-attention."""
    with torch.device("meta"):  # shapes without numbers
        block = DecoderBlock(512, 2048, 8).eval()
        target, source = torch.empty(2, 6, 512), torch.empty(2, 5, 512)
    block(target, block.init_state(source))
    weights = block.attention2.attention_weights
    return sum(p.numel() for p in block.parameters()), tuple(weights.shape)


ATTENTION, FFN, NORM = 4 * 512**2, 2 * 512 * 2048 + 2048 + 512, 2 * 512
COUNTS = [
    (2 * ATTENTION + FFN + 3 * NORM, "The number is right."),
    (ATTENTION + FFN + 2 * NORM, "That number is an encoder block's: one attention is missing."),
    (ATTENTION + FFN + 3 * NORM, "A decoder block has two attentions, each with its own weights."),
    (2 * ATTENTION + FFN + 2 * NORM, "Three sublayers, so three norms."),
    (2 * ATTENTION + FFN, "The number lacks the norms: each of the three has its gamma and beta."),
    (2 * ATTENTION + FFN + 3 * 512, "A norm has a beta beside its gamma, 512 numbers each."),
    (
        2 * (ATTENTION + 4 * 512) + FFN + 3 * NORM,
        "The number counts biases in the attentions, which have none (bias=False).",
    ),
    (
        2 * 3 * 512**2 + FFN + 3 * NORM,
        "The number lacks W_o: an attention has four matrices, W_q, W_k, W_v and W_o.",
    ),
    (
        2 * ATTENTION + 2 * 512 * 2048 + 3 * NORM,
        "The number lacks the biases of the feed-forward network, 2048 and 512.",
    ),
    (
        2 * 8 * ATTENTION + FFN + 3 * NORM,
        "The number gives each head four matrices of 512 by 512: the heads share them, 64 columns "
        "each.",
    ),
]
SHAPES = [
    ((2, 8, 6, 5), "The shape is right."),
    (
        (2, 8, 5, 6),
        "Six target words ask, five source words are looked at: queries come before keys.",
    ),
    ((2, 8, 6, 6), "That shape is self-attention's; in cross-attention the source gives the keys."),
    ((2, 8, 5, 5), "That shape is the encoder's self-attention's; here six target words ask."),
    ((2, 6, 5), "The shape lacks the heads: each of the 8 has weights of its own."),
    ((8, 6, 5), "The shape lacks the batch, 2."),
    (
        (2, 6, 512),
        "That shape is what the block returns, one vector a step; weights have one number a key.",
    ),
    ((2, 8, 6, 64), "That shape is the split queries'; a weight belongs to a query and a key."),
]


# 4.5 A measurement ----------------------------------------------------------------------------


def share_that_arrives() -> float:
    """How much of a random gradient gets from LN(X + Y) to X, of its length."""
    generator = torch.Generator().manual_seed(0)
    X, Y, G = torch.randn(3, 1000, 512, generator=generator)
    X.requires_grad_()
    F.layer_norm(X + Y, (512,)).backward(G)
    return float(X.grad.norm() / G.norm())


EXERCISES = [
    FunctionExercise(
        "4.1",
        "a key must be allowed by both; only rows of padded queries feel the padding",
        5,
        both_lens,
        (
            "Query t, counted from 1, may use t keys, but not more than the valid length.",
            "torch.minimum of torch.arange(1, steps + 1) and valid_lens[:, None].",
        ),
        mistakes=[
            without_its_own_key,
            with_the_next_key,
            causal_alone,
            padding_alone,
            the_larger_one,
            nothing_for_padding,
        ],
        inputs=lengths_and_steps,
    ),
    FunctionExercise(
        "4.2",
        "x + 3 and 5x give y again, and -x gives -y, as long as the variance is large beside eps",
        10,
        add_norm,
        (
            "Add first. Then mean and variance over the last dimension, with keepdim=True.",
            "The variance is deviation.pow(2).mean(dim=-1, keepdim=True); its root includes eps.",
        ),
        mistakes=[
            unbiased,
            outside_the_root,
            as_annotated,
            over_the_steps,
            over_the_sentence,
            over_the_batch,
            over_everything,
            no_residual,
            added_afterwards,
            no_root_of_variance,
            no_eps,
            no_gamma_and_beta,
        ],
        inputs=what_a_sublayer_saw,
    ),
    FunctionExercise(
        "4.3",
        "two faults found: a mask that hangs on the mode, and one that forgets the earlier steps",
        15,
        causal_attention,
        (
            "Two faults. Which keys does a single new step see in training? And which keys does "
            "the first of several steps see in eval mode?",
            "Mask in both modes. With n earlier steps, new step i (from 0) may use n + i + 1 keys, "
            "so the diagonal of triu moves right by n.",
        ),
        mistakes=[
            still_only_in_training,
            still_from_the_first_key,
            no_mask_at_all,
            no_mask_with_a_cache,
            no_mask_for_one_step,
            only_the_earlier_steps,
            one_step_ahead,
        ],
        broken=broken_causal_attention,
        inputs=new_and_earlier_steps,
    ),
    ValueExercise(
        "4.4",
        "half of the 4,199,936 parameters are the feed-forward network's, nearly all others the "
        "attentions'",
        10,
        parameters_and_shape,
        (
            "Two attentions, a feed-forward network, three norms. A weight belongs to a sentence, "
            "a head, a query and a key.",
            "2 * 4 * 512**2 + (2 * 512 * 2048 + 2048 + 512) + 3 * 2 * 512; the shape is (batch, "
            "heads, queries, keys).",
        ),
        mistakes=[
            *(
                ((count, shape), f"{said} {also}")
                for i, (count, said) in enumerate(COUNTS)
                for j, (shape, also) in enumerate(SHAPES)
                if i or j
            ),
            (COUNTS[0][0], "The number is right. Hand in a pair: the number and the shape."),
            (SHAPES[0][0], "The shape is right. Hand in a pair: the number and the shape."),
        ],
        tolerance=1e-9,
    ),
    ValueExercise(
        "4.5",
        "the norm divides by the size of the sum, root 2, so 0.71 arrives; after 12 sublayers 1/64 "
        "is left",
        15,
        share_that_arrives,
        (
            "F.layer_norm(X + Y, (hiddens,)).backward(G), and the lengths of X.grad and G.",
            "The sum lets the gradient through as it is. What does the norm divide the sum by, and "
            "so its gradient too?",
        ),
        mistakes=[
            (
                1.0,
                "The residual alone lets all of it through. But then comes the norm, which divides "
                "the sum by its size, and the gradient too.",
            ),
            (
                0.0,
                "A gradient of equal numbers, as that of .sum(), does not get through: the norm "
                "takes the mean out, so that sum never changes. Send a random gradient.",
            ),
            (0.5, "That is the share of the squared length; take the root."),
            (math.sqrt(2), "That is what the norm divides by; the gradient gets shorter."),
            (2.0, "That is the variance of the sum; its root divides, and the gradient shrinks."),
        ],
        tolerance=0.05,
    ),
]
