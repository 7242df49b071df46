"""The exercises of notebook 05."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from d2l_mini.exercises.base import FunctionExercise, ValueExercise

# 5.1 A sentence of a fixed length -------------------------------------------------------------


def end_and_pad(ids: list[int], num_steps: int, eos: int, pad: int) -> tuple[list[int], int]:
    """End a sentence by eos, make it num_steps long; return it and its valid length."""
    ids = [*ids[: num_steps - 1], eos]
    return ids + [pad] * (num_steps - len(ids)), len(ids)


def eos_cut_off(ids, num_steps, eos, pad):
    """A long sentence loses its eos: cut first, to one less, or the model learns that long
    sentences never end."""
    ids = [*ids, eos][:num_steps]
    return ids + [pad] * (num_steps - len(ids)), len(ids)


def eos_only_where_cut(ids, num_steps, eos, pad):
    """A short sentence has no eos: each sentence ends in one, before its padding."""
    ids = [*ids[: num_steps - 1], eos] if len(ids) >= num_steps else ids
    return ids + [pad] * (num_steps - len(ids)), len(ids)


def eos_after_padding(ids, num_steps, eos, pad):
    """eos stands after the padding: it comes right after the last word."""
    ids = ids[: num_steps - 1]
    return ids + [pad] * (num_steps - 1 - len(ids)) + [eos], len(ids) + 1


def length_without_eos(ids, num_steps, eos, pad):
    """The valid length does not count eos: the model must learn to say it, so it counts."""
    row, length = end_and_pad(ids, num_steps, eos, pad)
    return row, length - 1


def length_before_cutting(ids, num_steps, eos, pad):
    """The valid length is that of the sentence before it was cut: no row has more than num_steps
    real tokens."""
    return end_and_pad(ids, num_steps, eos, pad)[0], len(ids) + 1


def length_of_the_row(ids, num_steps, eos, pad):
    """The valid length is that of the row, padding included; only real tokens count."""
    return end_and_pad(ids, num_steps, eos, pad)[0], num_steps


def never_cut(ids, num_steps, eos, pad):
    """Long sentences stay long: a batch is a rectangle, so each row must have num_steps ids."""
    ids = [*ids, eos]
    return ids + [pad] * (num_steps - len(ids)), len(ids)


def row_alone(ids, num_steps, eos, pad):
    """The row is right; return the pair of the row and its valid length."""
    return end_and_pad(ids, num_steps, eos, pad)[0]


def short_and_long_sentences(generator: torch.Generator) -> Iterator[tuple]:
    """Sentences that are too short, that just fit, and that are too long by one and by more."""
    for words, num_steps in ((2, 5), (3, 4), (4, 4), (7, 5), (9, 12)):
        ids = torch.randint(10, 100, (words,), generator=generator).tolist()
        eos, pad = torch.randperm(10, generator=generator)[:2].tolist()
        yield ids, num_steps, eos, pad


# 5.2 A repair ---------------------------------------------------------------------------------


def nats_per_token(losses: Tensor, valid_lens: Tensor) -> Tensor:
    """The mean loss of a real token: losses (batch, steps), valid_lens (batch,) -> one number."""
    real = torch.arange(losses.shape[1]) < valid_lens[:, None]
    return (losses * real).sum() / valid_lens.sum()


def kept(losses, valid_lens):
    """The losses of real tokens, 0 elsewhere."""
    return losses * (torch.arange(losses.shape[1]) < valid_lens[:, None])


def broken_nats_per_token(losses, valid_lens):
    """What the notebook gives to repair."""
    real = torch.arange(losses.shape[1]) <= valid_lens[:, None]
    return (losses * real).mean(dim=1).sum() / valid_lens.sum()


def still_counts_a_pad(losses, valid_lens):
    """The first pad of each sentence still counts: real steps are 0 ... length - 1."""
    real = torch.arange(losses.shape[1]) <= valid_lens[:, None]
    return (losses * real).sum() / valid_lens.sum()


def still_divides_twice(losses, valid_lens):
    """It still divides twice, by the number of steps and by that of the tokens: with longer padding
    the loss would look smaller."""
    return kept(losses, valid_lens).mean(dim=1).sum() / valid_lens.sum()


def over_all_steps(losses, valid_lens):
    """It divides by the number of all steps, padding included: divide by that of real tokens."""
    return kept(losses, valid_lens).mean()


def mean_of_means(losses, valid_lens):
    """This is the mean of the sentences' means, in which a word of a short sentence weighs more
    than one of a long sentence."""
    return (kept(losses, valid_lens).sum(dim=1) / valid_lens).mean()


def for_each_sentence(losses, valid_lens):
    """This is the loss of a sentence: divide by the number of real tokens, not of sentences."""
    return kept(losses, valid_lens).sum() / len(losses)


def padding_in_the_sum(losses, valid_lens):
    """The mask is gone: the sum must not hold the losses at padding."""
    return losses.sum() / valid_lens.sum()


def plain_mean(losses, valid_lens):
    """This is the mean over all steps, padding included, above and below."""
    return losses.mean()


def half_mended(losses, valid_lens):
    """The losses with the first pad of each sentence still among them."""
    return losses * (torch.arange(losses.shape[1]) <= valid_lens[:, None])


def pad_counts_in_both(losses, valid_lens):
    """The first pad of each sentence still counts, in the sum and in the number you divide by: real
    steps are 0 ... length - 1."""
    real = torch.arange(losses.shape[1]) <= valid_lens[:, None]
    return (losses * real).sum() / real.sum()


def pad_counts_in_the_mean(losses, valid_lens):
    """The first pad of each sentence still counts: real steps are 0 ... length - 1. And the mean is
    over all steps, padding included: divide by the number of real tokens."""
    return half_mended(losses, valid_lens).mean()


def pad_counts_in_the_means(losses, valid_lens):
    """The first pad of each sentence still counts: real steps are 0 ... length - 1. And a mean of
    the sentences' means gives a word of a short sentence more weight: divide once, at the end."""
    return (half_mended(losses, valid_lens).sum(dim=1) / valid_lens).mean()


def losses_and_lengths(generator: torch.Generator) -> Iterator[tuple]:
    """Losses of every step, padding included, and the valid lengths."""
    for lens, steps in (([1, 3], 4), ([5, 2, 4], 5), ([3, 1, 6, 7], 9)):
        losses = torch.rand(len(lens), steps, generator=generator) + 0.5
        order = torch.randperm(len(lens), generator=generator)
        yield losses, torch.tensor(lens)[order]


# 5.3 Label smoothing --------------------------------------------------------------------------


def smoothed_loss(logits: Tensor, labels: Tensor, valid_lens: Tensor, eps: float) -> Tensor:
    """Sum each sentence's smoothed cross-entropy over its real tokens, in nats.

    logits (batch, steps, vocab), labels (batch, steps), valid_lens (batch,) -> (batch,)
    """
    logs = torch.log_softmax(logits, dim=2)
    right = logs.gather(2, labels[:, :, None])[:, :, 0]
    others = (logs.sum(dim=2) - right) / (logits.shape[2] - 1)
    losses = -(1 - eps) * right - eps * others
    real = torch.arange(labels.shape[1]) < valid_lens[:, None]
    return (losses * real).sum(dim=1)


def step_losses(logits, labels, for_right, for_others):
    """The cross-entropy of each step against a target with these two probabilities."""
    target = torch.full_like(logits, for_others).scatter(2, labels[:, :, None], for_right)
    return -(target * torch.log_softmax(logits, dim=2)).sum(dim=2)


def target_below_one(logits, labels, valid_lens, eps):
    """The probabilities of the target do not sum to 1: where the right word keeps 1 - eps, the
    others share eps, and they are V - 1, not V."""
    losses = step_losses(logits, labels, 1 - eps, eps / logits.shape[2])
    return kept(losses, valid_lens).sum(dim=1)


def target_above_one(logits, labels, valid_lens, eps):
    """The probabilities of the target do not sum to 1: each of the other words gets all of eps
    here, but they share it."""
    return kept(step_losses(logits, labels, 1 - eps, eps), valid_lens).sum(dim=1)


def share_for_the_right_word(logits, labels, valid_lens, eps):
    """The right word gets a share of eps too, as with label_smoothing in PyTorch: here the other
    words alone share it."""
    share = eps / logits.shape[2]
    return kept(step_losses(logits, labels, 1 - eps + share, share), valid_lens).sum(dim=1)


def not_smoothed(logits, labels, valid_lens, eps):
    """This is the loss without smoothing: all of the target is on the right word."""
    return kept(step_losses(logits, labels, 1.0, 0.0), valid_lens).sum(dim=1)


def right_word_kept_whole(logits, labels, valid_lens, eps):
    """The right word keeps 1, so the target sums to 1 + eps: what the others get comes from it."""
    losses = step_losses(logits, labels, 1.0, eps / (logits.shape[2] - 1))
    return kept(losses, valid_lens).sum(dim=1)


def padding_counted(logits, labels, valid_lens, eps):
    """Padding is counted: mask the losses of the steps before the sum."""
    return step_losses(logits, labels, 1 - eps, eps / (logits.shape[2] - 1)).sum(dim=1)


def mean_over_tokens(logits, labels, valid_lens, eps):
    """This is the mean over the real tokens of each sentence; its sum is asked for."""
    return smoothed_loss(logits, labels, valid_lens, eps) / valid_lens


def mean_over_steps(logits, labels, valid_lens, eps):
    """This is the mean over all steps, padding included; the sum is asked for, as longer padding
    must change nothing."""
    return smoothed_loss(logits, labels, valid_lens, eps) / labels.shape[1]


def all_in_one(logits, labels, valid_lens, eps):
    """This is the sum over the whole batch; one number for each sentence is asked for."""
    return smoothed_loss(logits, labels, valid_lens, eps).sum()


def smoothed_target(logits, labels, eps):
    """What the loss is against, (batch, steps, vocab)."""
    share = eps / (logits.shape[2] - 1)
    return torch.full_like(logits, share).scatter(2, labels[:, :, None], 1 - eps)


def probabilities_without_logarithm(logits, labels, valid_lens, eps):
    """This weighs the probabilities p; the loss weighs ln p: take log_softmax."""
    products = smoothed_target(logits, labels, eps) * torch.softmax(logits, dim=2)
    return -kept(products.sum(dim=2), valid_lens).sum(dim=1)


def sign_lost(logits, labels, valid_lens, eps):
    """The sign is wrong: ln p is never above 0, so a loss is never below."""
    return -smoothed_loss(logits, labels, valid_lens, eps)


def raw_logits(logits, labels, valid_lens, eps):
    """These are logits where ln p is meant: take log_softmax over the words first."""
    losses = -(smoothed_target(logits, labels, eps) * logits).sum(dim=2)
    return kept(losses, valid_lens).sum(dim=1)


def softmax_over_steps(logits, labels, valid_lens, eps):
    """The softmax runs over the steps: it must run over the words, dim=2."""
    logs = torch.log_softmax(logits, dim=1)
    losses = -(smoothed_target(logits, labels, eps) * logs).sum(dim=2)
    return kept(losses, valid_lens).sum(dim=1)


def logits_and_labels(generator: torch.Generator) -> Iterator[tuple]:
    """Logits and labels of padded batches."""
    for lens, steps, vocab, eps in (([2], 3, 4, 0.2), ([4, 2, 1], 4, 5, 0.1), ([3, 6], 7, 9, 0.3)):
        logits = torch.randn(len(lens), steps, vocab, generator=generator)
        labels = torch.randint(vocab, (len(lens), steps), generator=generator)
        yield logits, labels, torch.tensor(lens), eps


# 5.4 A measurement ----------------------------------------------------------------------------


def least_smoothed_loss() -> float:
    """What gradient descent reaches for one step: 0.9 on the right word, 0.01 on each of ten."""
    target = torch.tensor([0.9] + [0.01] * 10)
    logits = torch.zeros(11, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.1)
    for _ in range(500):
        loss = F.cross_entropy(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


# 5.5 A schedule -------------------------------------------------------------------------------


def learning_rates(steps: Tensor, num_hiddens: int, warmup: int) -> Tensor:
    """The paper's learning rate after `steps` (steps,) steps, counted from 0 -> (steps,)."""
    s = steps + 1.0  # as the paper counts
    return num_hiddens**-0.5 * torch.minimum(s**-0.5, s * warmup**-1.5)


def counted_from_zero(steps, num_hiddens, warmup):
    """The first step has s = 1, and here it is 0: the rate is then 0, so that step is lost. s is
    one more than the count."""
    return learning_rates(steps - 1, num_hiddens, warmup)


def divided_by_zero(steps, num_hiddens, warmup):
    """The first step has s = 1; here it is 0, and 0 to the power of -0.5 does not exist. s is one
    more than the count."""
    rates = [min(s**-0.5, s * warmup**-1.5) for s in steps.tolist()]
    return num_hiddens**-0.5 * torch.tensor(rates)


def zero_taken_for_one(steps, num_hiddens, warmup):
    """Only the first step is mended: all the others are still counted from 0, one step late. s is
    one more than the count, always."""
    return learning_rates((steps - 1).clamp(min=0), num_hiddens, warmup)


def decay_alone(steps, num_hiddens, warmup):
    """There is no warm-up: the rate falls from the first step on, where it is largest. Take the
    smaller of both terms."""
    return num_hiddens**-0.5 * (steps + 1.0) ** -0.5


def rise_alone(steps, num_hiddens, warmup):
    """The rate rises for ever. Is the falling term there, and is its exponent -0.5? After the
    warm-up it is the smaller of both terms."""
    return num_hiddens**-0.5 * (steps + 1.0) * warmup**-1.5


def larger_term(steps, num_hiddens, warmup):
    """This takes the larger of both terms, which falls first and rises later: take the smaller."""
    s = steps + 1.0
    return num_hiddens**-0.5 * torch.maximum(s**-0.5, s * warmup**-1.5)


def wrong_exponent(steps, num_hiddens, warmup):
    """The exponent of warmup is -1.5: only then do both terms meet at s = warmup, where the rate
    turns; with -0.5 it turns too early."""
    s = steps + 1.0
    return num_hiddens**-0.5 * torch.minimum(s**-0.5, s * warmup**-0.5)


def grows_with_width(steps, num_hiddens, warmup):
    """It multiplies by the root of num_hiddens: the exponent is -0.5, a wider model takes smaller
    steps."""
    return num_hiddens * learning_rates(steps, num_hiddens, warmup)


def without_width(steps, num_hiddens, warmup):
    """The factor of num_hiddens, to the power of -0.5, is missing."""
    return num_hiddens**0.5 * learning_rates(steps, num_hiddens, warmup)


def steps_of_a_run(generator: torch.Generator) -> Iterator[tuple]:
    """Steps at the beginning, in the warm-up and after it, in a random order after the first."""
    for during, after, num_hiddens, warmup in ((1, 1, 4, 5), (2, 3, 16, 9), (4, 4, 64, 25)):
        rising = torch.randint(1, warmup - 1, (during,), generator=generator)
        falling = torch.randint(2 * warmup, 4 * warmup, (after,), generator=generator)
        yield torch.cat([torch.tensor([0]), rising, falling]), num_hiddens, warmup


EXERCISES = [
    FunctionExercise(
        "5.1",
        "cut to one less, then eos, then padding, and the valid length counts eos",
        10,
        end_and_pad,
        (
            "Make room for eos before you add it. The length is what you have before the padding.",
            "ids[: num_steps - 1] + [eos] is never too long; fill it up from there.",
        ),
        mistakes=[
            eos_cut_off,
            eos_only_where_cut,
            eos_after_padding,
            length_without_eos,
            length_before_cutting,
            length_of_the_row,
            never_cut,
            row_alone,
        ],
        inputs=short_and_long_sentences,
    ),
    FunctionExercise(
        "5.2",
        "two faults found: a pad that counts, and a division by the padded length",
        10,
        nats_per_token,
        (
            "Two faults. Set the losses of padding to 100, then add a column of padding.",
            "Step t is real where t < length. Sum over everything, and divide once.",
        ),
        mistakes=[
            still_counts_a_pad,
            still_divides_twice,
            over_all_steps,
            mean_of_means,
            for_each_sentence,
            padding_in_the_sum,
            plain_mean,
            pad_counts_in_both,
            pad_counts_in_the_mean,
            pad_counts_in_the_means,
        ],
        broken=broken_nats_per_token,
        inputs=losses_and_lengths,
    ),
    FunctionExercise(
        "5.3",
        "the smoothed target sums to 1, and padding does not count",
        20,
        smoothed_loss,
        (
            "Start from torch.log_softmax(logits, dim=2). How much does the target give to the "
            "right word, how much to each other one?",
            "target = torch.full_like(logits, eps / (V - 1)).scatter(2, labels[:, :, None], 1 - "
            "eps); the loss of a step is -(target * logs).sum(dim=2). Mask, then sum over dim=1.",
        ),
        mistakes=[
            target_below_one,
            target_above_one,
            share_for_the_right_word,
            not_smoothed,
            right_word_kept_whole,
            padding_counted,
            mean_over_tokens,
            mean_over_steps,
            all_in_one,
            probabilities_without_logarithm,
            sign_lost,
            raw_logits,
            softmax_over_steps,
        ],
        inputs=logits_and_labels,
    ),
    ValueExercise(
        "5.4",
        "the least loss is the entropy of the target itself, -0.9 ln 0.9 - 0.1 ln 0.01 = 0.555, so "
        "a loss with smoothing must not be compared with one without",
        15,
        least_smoothed_loss,
        (
            "Which probabilities does the model end with? Print torch.softmax(logits, dim=0).",
            "The best model says 0.9 and ten times 0.01, as the target does: what is its loss?",
        ),
        mistakes=[
            (
                0.0,
                "That is the least loss without smoothing, and the least KL divergence with it. "
                "Here a model that is certain pays -0.01 ln p for each other word, p near 0.",
            ),
            (
                0.1,
                "That is the right word's part alone: the ten others, 0.01 each, cost more.",
            ),
            (
                -0.1 * math.log(0.01),
                "That is the part of the ten other words; add the right one's.",
            ),
            (
                -(10 / 11) * math.log(10 / 11) - (1 / 11) * math.log(0.1 / 11),
                "That is the least loss by PyTorch's label_smoothing, where the right word gets a "
                "share of eps too.",
            ),
            (
                math.log(11),
                "That is the loss where all 11 words are equally likely: a model can do better.",
            ),
            (0.5553 / math.log(2), "That is right in bits; a nat is larger, use ln and not log2."),
            (math.exp(0.5553), "That is exp of the least loss, its perplexity; give the nats."),
        ],
        tolerance=0.003,
    ),
    FunctionExercise(
        "5.5",
        "the rate rises evenly, is largest at the end of the warm-up, then falls like 1 / root s",
        15,
        learning_rates,
        (
            "Which s has the first step? And which of both terms is the smaller one before the end "
            "of the warm-up?",
            "s = steps + 1; then num_hiddens**-0.5 * torch.minimum(s**-0.5, s * warmup**-1.5).",
        ),
        mistakes=[
            counted_from_zero,
            divided_by_zero,
            zero_taken_for_one,
            decay_alone,
            rise_alone,
            larger_term,
            wrong_exponent,
            grows_with_width,
            without_width,
        ],
        inputs=steps_of_a_run,
        tolerance=1e-5,
    ),
]
