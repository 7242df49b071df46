"""The exercises of notebook 01."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from d2l_mini.exercises.base import FunctionExercise, ValueExercise

# 1.1 One query's weights ---------------------------------------------------------------------


def query_weights(query: Tensor, keys: Tensor) -> Tensor:
    """Weigh the keys: query (size,) and keys (keys, size) -> weights (keys,)."""
    scores = keys @ query / math.sqrt(len(query))
    exps = torch.exp(scores - scores.max())
    return exps / exps.sum()


def without_root(query, keys):
    """The scores are not divided by the root of the size."""
    return torch.softmax(keys @ query, dim=0)


def divided_by_size(query, keys):
    """The scores are divided by the size itself, not by its root."""
    return torch.softmax(keys @ query / len(query), dim=0)


def root_of_keys(query, keys):
    """The root is that of the number of keys; it must be that of the size of a query."""
    return torch.softmax(keys @ query / math.sqrt(len(keys)), dim=0)


def scores_over_sum(query, keys):
    """Scores may be negative, so dividing them by their sum gives no weights: take exp first."""
    scores = keys @ query / math.sqrt(len(query))
    return scores / scores.sum()


def scores_alone(query, keys):
    """These are the scores; the weights are their softmax."""
    return keys @ query / math.sqrt(len(query))


def queries_and_keys(generator: torch.Generator) -> Iterator[tuple]:
    """A query and keys, of several numbers and sizes."""
    for keys, size in ((2, 2), (5, 4), (7, 9), (3, 5)):
        query = torch.randn(size, generator=generator)
        yield query, torch.randn(keys, size, generator=generator)


# 1.2 A causal softmax -------------------------------------------------------------------------


def causal_softmax(scores: Tensor) -> Tensor:
    """Weigh the keys up to the query's own step: scores (steps, steps) -> weights, as scores."""
    later = torch.ones_like(scores).triu(1).bool()
    return torch.softmax(scores.masked_fill(later, -torch.inf), dim=1)


def masked_afterwards(scores):
    """The mask was applied after the softmax: the masked keys had their share, rows sum to less."""
    return torch.softmax(scores, dim=1).tril()


def masked_by_zero(scores):
    """A score of 0 is not masked, for exp(0) is 1: masked scores must be minus infinity."""
    return torch.softmax(scores.tril(), dim=1)


def without_itself(scores):
    """A query may use its own key too: mask what comes after it, and not the step itself."""
    return torch.softmax(scores.masked_fill(torch.ones_like(scores).triu().bool(), -torch.inf), 1)


def the_wrong_way_round(scores):
    """The mask is the wrong way round: a query may use what came before, not what comes after."""
    earlier = torch.ones_like(scores).tril(-1).bool()
    return torch.softmax(scores.masked_fill(earlier, -torch.inf), dim=1)


def over_the_queries(scores):
    """The softmax runs over the queries: each row must sum to 1, not each column."""
    later = torch.ones_like(scores).triu(1).bool()
    return torch.softmax(scores.masked_fill(later, -torch.inf), dim=0)


def square_scores(generator: torch.Generator) -> Iterator[tuple]:
    """Scores of several numbers of steps; at last such that even a small leak shows."""
    for steps in (2, 3, 1, 6):
        yield (torch.randn(steps, steps, generator=generator),)
    yield (torch.randn(5, 5, generator=generator) + 20 * torch.ones(5, 5).triu(1),)


# 1.3 A repair ---------------------------------------------------------------------------------


def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Scaled dot-product attention, one example: (queries, size), (keys, size), (keys, units)."""
    weights = torch.softmax(queries @ keys.T / math.sqrt(queries.shape[1]), dim=1)
    return weights @ values


def broken_attend(queries, keys, values):
    """What the notebook gives to repair."""
    weights = torch.softmax(queries @ keys.T / math.sqrt(len(queries)), dim=0)
    return weights @ values


def still_over_queries(queries, keys, values):
    """The softmax still runs over the queries, so a query's weights do not sum to 1."""
    return torch.softmax(queries @ keys.T / math.sqrt(queries.shape[1]), dim=0) @ values


def still_root_of_steps(queries, keys, values):
    """The root is still that of a number of steps; it must be that of the size of a vector."""
    return torch.softmax(queries @ keys.T / math.sqrt(len(queries)), dim=1) @ values


def no_root_at_all(queries, keys, values):
    """Now nothing divides the scores: the root belongs there, but that of the size."""
    return torch.softmax(queries @ keys.T, dim=1) @ values


def scaled_after_softmax(queries, keys, values):
    """The root divides the weights; it must divide the scores, before the softmax."""
    return torch.softmax(queries @ keys.T, dim=1) / math.sqrt(queries.shape[1]) @ values


def all_three(generator: torch.Generator) -> Iterator[tuple]:
    """Queries, keys and values of several numbers and sizes."""
    for steps, keys, size, units in ((2, 2, 3, 1), (3, 5, 4, 2), (5, 4, 7, 3)):
        shapes = (steps, size), (keys, size), (keys, units)
        yield tuple(torch.randn(*shape, generator=generator) for shape in shapes)


# 1.4 A prediction -----------------------------------------------------------------------------


def weight_of_two() -> float:
    """The weight of a key that scores 2, beside four keys that score 0."""
    return math.exp(2) / (math.exp(2) + 4 * math.exp(0))


# 1.5 A measurement ----------------------------------------------------------------------------


def variance_of_alike() -> float:
    """The variance of q . k over d, where k is q plus standard normal noise."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(20_000, 64, generator=generator)
    k = q + torch.randn(20_000, 64, generator=generator)
    return float((q * k).sum(dim=1).var() / 64)


EXERCISES = [
    FunctionExercise(
        "1.1",
        "the weights of one query",
        5,
        query_weights,
        (
            "Three steps: a dot product with each key, the division, the softmax.",
            "The scores are keys @ query / math.sqrt(len(query)); torch.softmax does the rest.",
        ),
        mistakes=[without_root, divided_by_size, root_of_keys, scores_over_sum, scores_alone],
        inputs=queries_and_keys,
    ),
    FunctionExercise(
        "1.2",
        "a causal softmax",
        10,
        causal_softmax,
        (
            "Put minus infinity where the column is right of the diagonal, before the softmax.",
            "scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf) masks them.",
        ),
        mistakes=[
            masked_afterwards,
            masked_by_zero,
            without_itself,
            the_wrong_way_round,
            over_the_queries,
        ],
        inputs=square_scores,
    ),
    FunctionExercise(
        "1.3",
        "two faults found: the dimension of the softmax, and the root",
        10,
        attend,
        (
            "Two faults. Print weights.sum(dim=1), and change the number of queries.",
            "A row of weights belongs to a query, so dim=1; d is queries.shape[1].",
        ),
        mistakes=[still_over_queries, still_root_of_steps, no_root_at_all, scaled_after_softmax],
        broken=broken_attend,
        inputs=all_three,
    ),
    ValueExercise(
        "1.4",
        "exp(2) is 7.39, and 7.39 over 11.39 is 0.65",
        5,
        weight_of_two,
        ("The softmax needs exp(2) and exp(0).", "exp(2) / (exp(2) + 4 exp(0))."),
        mistakes=[
            (1.0, "While the other scores are finite, no weight is 1."),
            (2 / 6, "Scores are no shares: take exp of each of them first."),
            (
                math.exp(2) / (math.exp(2) + 1),
                "All four other keys are in the sum below, each with exp(0) = 1.",
            ),
            (
                math.exp(2) / (math.exp(2) + 5),
                "The sum below has five terms: the key itself, and four others.",
            ),
        ],
        tolerance=0.01,
    ),
    ValueExercise(
        "1.5",
        "the variance is 3 d, so the scaled score has variance 3, around a mean of root d",
        20,
        variance_of_alike,
        (
            "q . k is |q|² plus q . noise: take the variance of one term of each sum.",
            "For a standard normal number the variance of its square is 2, of q times noise 1.",
        ),
        mistakes=[
            (1.0, "That holds for independent vectors; here the key contains the query."),
            (2.0, "That is the part of the noise and a square of variance 1; it has variance 2."),
            (math.sqrt(3), "That is the standard deviation over its root; take the variance."),
            (192.0, "Divide the variance by d."),
        ],
        tolerance=0.1,
    ),
]
