"""The exercises of notebook 03."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from d2l_mini.attention import MultiHeadAttention
from d2l_mini.exercises.base import FunctionExercise, ValueExercise
from d2l_mini.transformer import init_weights

# 3.1 A position by hand -----------------------------------------------------------------------


def position_two() -> list[float]:
    """Position 2 for six units: the hands turn by 1, 10000^(-1/3) and 10000^(-2/3) a step."""
    numbers = []
    for j in range(3):
        angle = 2 * 10000 ** (-2 * j / 6)
        numbers += [math.sin(angle), math.cos(angle)]
    return numbers


def pairs(angles: list[float]) -> list[float]:
    """Sine and cosine of each angle, one after the other."""
    return [part for angle in angles for part in (math.sin(angle), math.cos(angle))]


SIX = pairs([2 * 10000 ** (-2 * j / 6) for j in range(3)])  # to make the mistakes from
SIX_OF_UNITS = pairs([2 * 10000 ** (-unit / 6) for unit in range(6)])

# 3.2 A rotation -------------------------------------------------------------------------------


def move_on(position: Tensor, k: int) -> Tensor:
    """Turn each hand by k times its frequency: (hiddens,) of some i -> (hiddens,) of i + k."""
    angles = k * 10000 ** (-torch.arange(0, len(position), 2) / len(position))  # (hiddens / 2,)
    sin, cos = torch.sin(angles), torch.cos(angles)
    right, up = position[0::2], position[1::2]
    return torch.stack([cos * right + sin * up, -sin * right + cos * up], dim=1).flatten()


def turned(position: Tensor, angles: Tensor) -> Tensor:
    """Turn hand j by angles[j], which a mistake has got wrong."""
    sin, cos = torch.sin(angles), torch.cos(angles)
    right, up = position[0::2], position[1::2]
    return torch.stack([cos * right + sin * up, -sin * right + cos * up], dim=1).flatten()


def moved_back(position, k):
    """This turns the hands back, to i - k: the two sines have each other's sign."""
    return move_on(position, -k)


def by_one_angle(position, k):
    """All hands turn by the same angle, k: each pair has a frequency of its own."""
    return turned(position, torch.full((len(position) // 2,), float(k)))


def by_half_the_exponent(position, k):
    """The exponent is j / d: pair j has the frequency 10000^(-2j / d), since it begins at unit
    2j."""
    return turned(position, k * 10000 ** (-torch.arange(len(position) // 2) / len(position)))


def one_frequency_a_unit(position, k):
    """Sine and cosine of a pair turn at two speeds here. They are the two coordinates of one hand,
    and share its frequency."""
    angles = k * 10000 ** (-torch.arange(len(position)) / len(position))
    even, odd = turned(position, angles[0::2]), turned(position, angles[1::2])
    return torch.stack([even[0::2], odd[1::2]], dim=1).flatten()


def frequencies_from_pair_one(position, k):
    """The pairs are counted from 1: the first has j = 0, and so the frequency 1."""
    return turned(position, k * 10000 ** (-(torch.arange(0, len(position), 2) + 2) / len(position)))


def in_degrees(position, k):
    """The angles are taken for degrees: the frequencies are in radians a step."""
    return move_on(position, math.radians(k))


def halves_for_pairs(position, k):
    """The first half is taken for the sines, the second for the cosines. Here they alternate: units
    2j and 2j + 1 are a pair."""
    half = len(position) // 2
    paired = torch.stack([position[:half], position[half:]], dim=1).flatten()
    return move_on(paired, k).unflatten(0, (-1, 2)).T.flatten()


def position_k_added(position, k):
    """Position k was added to position i. To go k steps on is to turn the hands; the sum of two
    hands is no hand, for its length is not 1."""
    at_zero = torch.tensor([0.0, 1.0]).repeat(len(position) // 2)
    return position + move_on(at_zero, k)


def some_positions(generator: torch.Generator) -> Iterator[tuple]:
    """Positions for several widths, and a number of steps."""
    for num_hiddens in (4, 6, 10, 16):
        i, k = torch.randint(1, 300, (2,), generator=generator).tolist()
        angles = i * 10000.0 ** (-torch.arange(0, num_hiddens, 2).double() / num_hiddens)
        yield torch.stack([angles.sin(), angles.cos()], dim=1).flatten().float(), k % 40 + 1


# 3.3 A repair ---------------------------------------------------------------------------------


def encode(X: Tensor, offset: int) -> Tensor:
    """Add the positions offset, offset + 1, ... to X (batch, steps, hiddens)."""
    steps, d = X.shape[1:]
    unit = torch.arange(d)
    positions = torch.arange(offset, offset + steps)[:, None]
    angles = positions / 10000 ** ((unit - unit % 2) / d)  # (steps, hiddens)
    return X + torch.where(unit % 2 == 0, angles.sin(), angles.cos())


def broken_encode(X, offset):
    """What the notebook gives to repair."""
    steps, d = X.shape[1:]
    unit = torch.arange(d)
    angles = torch.arange(steps)[:, None] / 10000 ** (unit / d)
    return X + torch.where(unit % 2 == 0, angles.sin(), angles.cos())


def added(X: Tensor, positions: Tensor, exponents: Tensor) -> Tensor:
    """X plus sines at the even units, cosines at the odd ones."""
    angles = positions[:, None] / 10000**exponents
    return X + torch.where(torch.arange(X.shape[2]) % 2 == 0, angles.sin(), angles.cos())


def right_exponents(num_hiddens: int) -> Tensor:
    """For each unit, that of its pair."""
    return torch.arange(num_hiddens) // 2 * 2 / num_hiddens


def still_from_zero(X, offset):
    """Now sine and cosine share a frequency. But each call still begins at position 0, whatever
    came before: a decoder that writes word by word would take each for the first."""
    return added(X, torch.arange(X.shape[1]), right_exponents(X.shape[2]))


def still_one_a_unit(X, offset):
    """The positions are right now. But each unit still has its own frequency: sine and cosine of a
    pair must share one to be the two coordinates of one hand."""
    positions = torch.arange(offset, offset + X.shape[1])
    return added(X, positions, torch.arange(X.shape[2]) / X.shape[2])


def one_too_far(X, offset):
    """One step too far: with `offset` words before it, the first of X is at position `offset`,
    because positions begin at 0."""
    return added(X, torch.arange(offset, offset + X.shape[1]) + 1, right_exponents(X.shape[2]))


def pair_over_width(X, offset):
    """The positions are right now, and a pair shares a frequency. But its exponent is j / d, and
    should be 2j / d, that of its first unit."""
    positions = torch.arange(offset, offset + X.shape[1])
    return added(X, positions, torch.arange(X.shape[2]) // 2 / X.shape[2])


def offset_in_every_angle(X, offset):
    """The offset was added to the angles. It counts steps, and so belongs to the position, before
    the frequency: one step turns each hand by another angle."""
    steps, d = X.shape[1:]
    angles = torch.arange(steps)[:, None] / 10000 ** right_exponents(d) + offset
    return X + torch.where(torch.arange(d) % 2 == 0, angles.sin(), angles.cos())


def next_even_unit(X, offset):
    """The positions are right now, and a pair shares a frequency. But it is that of the next pair:
    the first must have 1."""
    positions = torch.arange(offset, offset + X.shape[1])
    return added(X, positions, right_exponents(X.shape[2]) + 2 / X.shape[2])


def later_steps(generator: torch.Generator) -> Iterator[tuple]:
    """Steps of several widths, one of them odd, and how many came before."""
    for shape in ((1, 2, 4), (2, 2, 6), (2, 5, 7), (1, 3, 10)):
        offset = int(torch.randint(2, 40, (), generator=generator))
        yield torch.randn(*shape, generator=generator), offset


# 3.4 A prediction -----------------------------------------------------------------------------


def longest_wavelength() -> float:
    """Of 16 units: the last pair has j = 7, so the frequency 10000^(-14/16)."""
    return 2 * math.pi / 10000 ** (-14 / 16)


# 3.5 A measurement ----------------------------------------------------------------------------


def deviation_of_scores() -> float:
    """Of the scores of one head of 256 units, for standard normal words times sqrt(256)."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        X = torch.randn(1, 200, 256) * math.sqrt(256)  # (batch, steps, hiddens)
        attention = MultiHeadAttention(256, num_heads=1).apply(init_weights)
        scores = attention.W_q(X) @ attention.W_k(X).transpose(1, 2) / math.sqrt(256)
        return float(scores.std())


EXERCISES = [
    ValueExercise(
        "3.1",
        "the first pair has the frequency 1 at every width, the others depend on d",
        5,
        position_two,
        (
            "The frequencies are 10000^0, 10000^(-1/3) and 10000^(-2/3).",
            "Radians: the sine and the cosine of 2, of 0.0928 and of 0.0043, in this order.",
        ),
        mistakes=[
            (
                pairs([math.radians(2 * 10000 ** (-2 * j / 6)) for j in range(3)]),
                "The calculator is set to degrees; the angles are in radians.",
            ),
            (SIX[0::2] + SIX[1::2], "The units alternate: sine, cosine, sine, cosine, ..."),
            (
                [part for j in range(3) for part in (SIX[2 * j + 1], SIX[2 * j])],
                "In each pair the sine comes first.",
            ),
            (
                pairs([2 * 10000 ** (-j / 6) for j in range(3)]),
                "The exponent of pair j is 2j / d, not j / d.",
            ),
            (
                [SIX_OF_UNITS[2 * unit + unit % 2] for unit in range(6)],
                "Sine and cosine of a pair share a frequency, that of the even unit.",
            ),
            (
                pairs([10000 ** (-2 * j / 6) for j in range(3)]),
                "That is position 1: the positions begin at 0, and 2 is asked for.",
            ),
            (
                pairs([2 * 10000 ** (-2 * j / 4) for j in range(3)]),
                "Those are the frequencies of d = 4; here d is 6.",
            ),
        ],
        tolerance=0.006,
    ),
    FunctionExercise(
        "3.2",
        "k steps on from anywhere",
        15,
        move_on,
        (
            "Hand j turns clockwise by k times its frequency, 10000^(-2j / d).",
            "New sine: cos * sine + sin * cosine; new cosine: cos * cosine - sin * sine.",
        ),
        mistakes=[
            moved_back,
            by_one_angle,
            by_half_the_exponent,
            one_frequency_a_unit,
            frequencies_from_pair_one,
            in_degrees,
            halves_for_pairs,
            position_k_added,
        ],
        inputs=some_positions,
    ),
    FunctionExercise(
        "3.3",
        "two faults found: every call began at position 0, and each unit had its own frequency",
        15,
        encode,
        (
            "What is never used? And which two units must have the same frequency?",
            "Count from offset to offset + steps; units 2j and 2j + 1 both have exponent 2j / d.",
        ),
        mistakes=[
            still_from_zero,
            still_one_a_unit,
            one_too_far,
            pair_over_width,
            offset_in_every_angle,
            next_even_unit,
        ],
        broken=broken_encode,
        inputs=later_steps,
    ),
    ValueExercise(
        "3.4",
        "the frequency is 10000^(-14/16), so the slowest hand takes 19869 steps to come round",
        5,
        longest_wavelength,
        (
            "Which j has the last of the 8 pairs? Its hand turns by its frequency at each step.",
            "2 pi / 10000^(-14/16).",
        ),
        mistakes=[
            (
                2 * math.pi * 10000,
                "That is the limit for large d: the last pair has j = 7, and 2j = 14 is below 16.",
            ),
            (10000 ** (14 / 16), "That is 1 over the frequency: to come round is 2 pi."),
            (2 * math.pi * 10000 ** (7 / 16), "The exponent is 2j / d, with j = 7."),
            (
                2 * math.pi * 10000 ** (15 / 16),
                "Unit 15 has the frequency of its pair, with the exponent 14 / 16.",
            ),
            (2 * math.pi, "That is the shortest: the hand of the first pair comes round so soon."),
            (360 * 10000 ** (14 / 16), "Angles are in radians: once round is 2 pi, not 360."),
        ],
        tolerance=0.01,
    ),
    ValueExercise(
        "3.5",
        "about d, which is 256: the factor is in the query and in the key, root d times root d",
        20,
        deviation_of_scores,
        (
            "Without the factor it is about 1. How often does the factor enter a score?",
            "W_q(X) @ W_k(X).transpose(1, 2) / 16, from X = 16 * torch.randn(1, 200, 256).",
        ),
        mistakes=[
            (1.0, "That is without the factor sqrt(d), or with the package's own small start."),
            (16.0, "The factor is in the query and in the key, so it enters a score twice."),
            (4096.0, "These scores are not divided by sqrt(d) yet."),
            (65536.0, "That is the variance; take its root."),
        ],
        tolerance=0.1,
    ),
]
