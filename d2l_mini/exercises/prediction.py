"""The exercises of notebook 06."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor

from d2l_mini.exercises.base import FunctionExercise, ValueExercise
from d2l_mini.translation import bleu

# 6.1 A prediction -----------------------------------------------------------------------------


def bleu_of_a_stutter() -> float:
    """e^(1 - 5/4) for brevity, p_1 = 3/4 as one `voit` counts, p_2 = 1/3: `elle voit` alone."""
    return bleu("elle voit voit .", "elle voit le chien .", k=2)


BREVITY = math.exp(1 - 5 / 4)

# 6.2 A step of beam search --------------------------------------------------------------------


def one_step(scores: Tensor, log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Go on from every beam by every word, and keep as many as there were, the best first.

    scores (beams,), log_probs (beams, vocab) -> beams, tokens, scores, (beams,) each
    """
    totals = scores[:, None] + log_probs
    best = totals.flatten().topk(len(scores))
    vocab = log_probs.shape[1]
    return best.indices // vocab, best.indices % vocab, best.values


def best_of(ranks, totals):
    """Where the highest ranks are, as beam and token, and what `totals` has there."""
    best = ranks.flatten().topk(len(ranks)).indices
    vocab = ranks.shape[1]
    return best // vocab, best % vocab, totals.flatten()[best]


def a_word_for_each_beam(scores, log_probs):
    """Each beam goes on by its own best word only: two of the best may come from one beam, and then
    another beam ends here."""
    best, tokens = log_probs.max(dim=1)
    totals, beams = (scores + best).sort(descending=True)
    return beams, tokens[beams], totals


def a_word_for_each_beam_in_order(scores, log_probs):
    """Each beam goes on by its own best word only, and in its old place: all beams and words
    compete with each other, and the best comes first."""
    best, tokens = log_probs.max(dim=1)
    return torch.arange(len(scores)), tokens, scores + best


def old_scores_forgotten(scores, log_probs):
    """The old scores are forgotten: a beginning counts by all its words, not by the last alone."""
    return best_of(log_probs, log_probs)


def old_scores_too_late(scores, log_probs):
    """The old scores come in after the choice: add them before, or the best last word wins from
    whatever beginning."""
    return best_of(log_probs, scores[:, None] + log_probs)


def logs_multiplied(scores, log_probs):
    """Logarithms are multiplied. Probabilities multiply, their logarithms add; the product of two
    numbers below 0 even puts the worst first."""
    products = scores[:, None] * log_probs
    return best_of(products, products)


def probability_times_log(scores, log_probs):
    """A probability, exp of the score, is multiplied by a log-probability: take both as logarithms
    and add."""
    products = scores[:, None].exp() * log_probs
    return best_of(products, products)


def as_probabilities(scores, log_probs):
    """The choice is right; the scores are probabilities here, and must stay logarithms, as they
    came in."""
    beams, tokens, totals = one_step(scores, log_probs)
    return beams, tokens, totals.exp()


def exchanged(scores, log_probs):
    """Beam and token are exchanged: in a row of beams times vocab, `//` by the size of the
    vocabulary gives the beam, and `%` the token."""
    beams, tokens, totals = one_step(scores, log_probs)
    return tokens, beams, totals


def divided_by_beams(scores, log_probs):
    """The place is divided by the number of beams: each beam has as many places as the vocabulary
    has words, so divide by that."""
    best = (scores[:, None] + log_probs).flatten().topk(len(scores))
    return best.indices // len(scores), best.indices % len(scores), best.values


def worst_first(scores, log_probs):
    """These are the right ones, but the best comes last here: it must come first."""
    return tuple(part.flip(0) for part in one_step(scores, log_probs))


def only_the_best(scores, log_probs):
    """This is the best one alone, as in greedy search: keep as many as there were beams."""
    return tuple(part[:1] for part in one_step(scores, log_probs))


def scores_and_words(generator: torch.Generator) -> Iterator[tuple]:
    """One beam that leads and wavers between words; the others are behind, and sure of one."""
    for beams, vocab in ((2, 3), (3, 5), (2, 7), (5, 9)):
        scores = -4 - torch.rand(beams, generator=generator)
        logits = torch.randn(beams, vocab, generator=generator)
        words = torch.randint(vocab, (beams, 1), generator=generator)
        logits.scatter_(1, words, 4.0)
        leads = beams - 1 if vocab == 7 else torch.randint(beams, (), generator=generator)
        scores[leads] += 3
        logits[leads] = torch.rand(vocab, generator=generator)
        yield scores, torch.log_softmax(logits, dim=1)


# 6.3 A repair ---------------------------------------------------------------------------------


def normalised(log_probs: Tensor, lengths: Tensor, alpha: float) -> Tensor:
    """The log-probability of each translation over a power of its length.

    log_probs (beams, steps) of its tokens, 0 after its end, lengths (beams,) -> (beams,)
    """
    return log_probs.sum(dim=1) / lengths**alpha


def broken_normalised(log_probs, lengths, alpha):
    """What the notebook gives to repair."""
    return log_probs.exp().prod(dim=1).log() / log_probs.shape[1] ** alpha


def still_a_product(log_probs, lengths, alpha):
    """The probability itself is still computed: of a long translation it is smaller than any float,
    so it becomes 0 and its logarithm -inf. Add the logarithms."""
    return log_probs.exp().prod(dim=1).log() / lengths**alpha


def product_in_double(log_probs, lengths, alpha):
    """Double precision only puts it off: after some hundred tokens the probability is 0 there too.
    Add the logarithms, and no probability is needed."""
    return log_probs.double().exp().prod(dim=1).log() / lengths**alpha


def still_all_steps(log_probs, lengths, alpha):
    """It still divides by a power of the number of steps, the same for all beams, and so changes no
    order: each beam has its own length."""
    return log_probs.sum(dim=1) / log_probs.shape[1] ** alpha


def length_ignored(log_probs, lengths, alpha):
    """Now nothing is divided: without normalisation, what leaves something out has an advantage."""
    return log_probs.sum(dim=1)


def alpha_ignored(log_probs, lengths, alpha):
    """This is the mean, as if alpha were 1: the length is to be raised to the power alpha."""
    return log_probs.sum(dim=1) / lengths


def alpha_as_factor(log_probs, lengths, alpha):
    """alpha is a factor of the length here, which changes no order: it is a power."""
    return log_probs.sum(dim=1) / (lengths * alpha)


def multiplied_by_length(log_probs, lengths, alpha):
    """It multiplies by the power of the length, so long translations lose twice: divide by it."""
    return log_probs.sum(dim=1) * lengths**alpha


def end_as_probability(log_probs, lengths, alpha):
    """The probabilities are added, the 1 of each step after the end too: add the logarithms."""
    return log_probs.exp().sum(dim=1) / lengths**alpha


def short_and_long(generator: torch.Generator) -> Iterator[tuple]:
    """Beams that ended early, one call where none did, and two that are very long."""
    for lens, steps in (
        ([2, 4], 5),
        ([3, 1, 6], 6),
        ([5, 5], 5),
        ([60, 50], 61),
        ([290, 300], 300),
    ):
        lengths = torch.tensor(lens)[torch.randperm(len(lens), generator=generator)]
        log_probs = -0.1 - 2 * torch.rand(len(lens), steps, generator=generator)
        log_probs -= 3 * (steps > 50)
        alpha = 0.5 + 0.4 * float(torch.rand((), generator=generator))
        yield log_probs.masked_fill(torch.arange(steps) >= lengths[:, None], 0), lengths, alpha


# 6.4 Clipped counts ---------------------------------------------------------------------------


def counted(words: list[str], references: list[list[str]], n: int) -> tuple[int, int]:
    """How many runs of n words some reference confirms, clipped, and how many there are."""

    def runs(line):
        return Counter(tuple(line[i : i + n]) for i in range(len(line) - n + 1))

    allowed = Counter()
    for reference in references:
        allowed |= runs(reference)  # of two counts the larger one
    found = runs(words)
    return (found & allowed).total(), found.total()


def runs_of(line, n):
    """The runs of n words of a line, with their counts."""
    return Counter(tuple(line[i : i + n]) for i in range(len(line) - n + 1))


def not_clipped(words, references, n):
    """The counts are not clipped: a run counts at most as often as a reference has it, however
    often it is said."""
    found = runs_of(words, n)
    known = {run for reference in references for run in runs_of(reference, n)}
    return sum(found[run] for run in known), found.total()


def clipped_by_one(words, references, n):
    """Each run counts once at most, as in a set: what a reference has twice counts twice."""
    found = runs_of(words, n)
    known = {run for reference in references for run in runs_of(reference, n)}
    return len(known & found.keys()), found.total()


def references_added(words, references, n):
    """The references' counts are added up, so with many references next to nothing is clipped: the
    largest count in any single one is the limit."""
    allowed = sum((runs_of(reference, n) for reference in references), Counter())
    found = runs_of(words, n)
    return (found & allowed).total(), found.total()


def first_reference_only(words, references, n):
    """Only the first reference is used: what any of them has is right."""
    return counted(words, references[:1], n)


def one_reference_for_all(words, references, n):
    """This takes the one reference that fits best for all runs: each run has the reference that has
    it most often, so that a mixture of two good translations is not punished."""
    return max(counted(words, [reference], n) for reference in references)


def over_the_references(words, references, n):
    """The second number counts the runs of the references, which makes the share a recall: BLEU
    asks how much of the translation is right, and leaves the rest to the brevity penalty."""
    total = sum(runs_of(reference, n).total() for reference in references)
    return counted(words, references, n)[0], total


def different_runs(words, references, n):
    """The second number counts different runs: a run that is said three times is three runs."""
    return counted(words, references, n)[0], len(runs_of(words, n))


def last_run_missing(words, references, n):
    """The last run of each line is missing: m words have m - n + 1 runs, as range(m - n + 1)."""
    return counted(words[:-1], [reference[:-1] for reference in references], n)


def shorter_runs_too(words, references, n):
    """The shorter runs are counted too: runs of exactly n words are asked for."""
    pairs = [counted(words, references, length) for length in range(1, n + 1)]
    return tuple(map(sum, zip(*pairs, strict=True)))


def share_alone(words, references, n):
    """This is the share, and a line of fewer than n words has none. Return its two numbers, which
    are added up over a whole list before they are divided."""
    matches, total = counted(words, references, n)
    return matches / total


def share_or_nothing(words, references, n):
    """This is the share. Return its two numbers, 0 and 0 for a line of fewer than n words: over a
    whole list they are added up before they are divided."""
    matches, total = counted(words, references, n)
    return matches / max(total, 1)


FRENCH = ["le", "la", "un", "chat", "chien", "lit", "noir", "dort", "voit", "mange", "sur", "et"]


def lines_of_words(generator: torch.Generator) -> Iterator[tuple]:
    """A translation and its references: patterns that tell the mistakes apart, in other words each
    time, and random ones."""
    for line, references, n in (
        ("aaaabbcee", ["abb", "aaace"], 1),
        ("ababacba", ["abcab", "baba"], 2),
        ("abcabcd", ["abcd", "cabceab"], 3),
        ("abc", ["abcd", "ab"], 4),
        ("a", ["abcd", "ab"], 4),
    ):
        order = torch.randperm(len(FRENCH), generator=generator).tolist()
        names = {letter: FRENCH[i] for letter, i in zip("abcde", order, strict=False)}
        yield [names[x] for x in line], [[names[x] for x in ref] for ref in references], n
    for sizes, n in (((9, 8, 10, 7), 1), ((12, 11, 9), 2)):
        line, *references = (
            [FRENCH[i] for i in torch.randint(4, (size,), generator=generator)] for size in sizes
        )
        yield line, references, n


# 6.5 A measurement ----------------------------------------------------------------------------


def share_found_greedily() -> float:
    """In how many random languages of two steps and ten words greedy search finds the best."""
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(10_000, 10, generator=generator).log_softmax(dim=1)
    second = torch.randn(10_000, 10, 10, generator=generator).log_softmax(dim=2)
    totals = first[:, :, None] + second  # (languages, first word, second word)
    begun = totals[range(10_000), first.argmax(dim=1)]  # what goes on from the best first word
    return float((begun.amax(dim=1) == totals.amax(dim=(1, 2))).float().mean())


EXERCISES = [
    ValueExercise(
        "6.1",
        "0.78 for brevity, times the root of 3/4, times the fourth root of 1/3",
        5,
        bleu_of_a_stutter,
        (
            "Three factors: the brevity penalty, p_1 to the power 1/2, p_2 to the power 1/4.",
            "exp(1 - 5/4) * (3/4) ** (1/2) * (1/3) ** (1/4): of the two `voit` one counts, and of "
            "the three runs of two only `elle voit`.",
        ),
        mistakes=[
            (
                BREVITY * (1 / 3) ** (1 / 4),
                "The second `voit` counts here: the reference has one, so clip to one.",
            ),
            (
                (3 / 4) ** (1 / 2) * (1 / 3) ** (1 / 4),
                "The brevity penalty is missing: four tokens against five.",
            ),
            (
                math.exp(1 - 4 / 5) * (3 / 4) ** (1 / 2) * (1 / 3) ** (1 / 4),
                "The brevity penalty is the wrong way round: being short would be rewarded. The "
                "length of the reference is divided by that of the translation.",
            ),
            (
                4 / 5 * (3 / 4) ** (1 / 2) * (1 / 3) ** (1 / 4),
                "The brevity penalty is not the ratio of the lengths: it is exp(1 - 5/4).",
            ),
            (
                BREVITY * (3 / 4 * 1 / 3) ** (1 / 2),
                "Both have the exponent 1/2 here: that of p_2 is 1/4 in the book's variant.",
            ),
            (
                BREVITY * (3 / 4 * 1 / 3) ** (1 / 4),
                "Both have the exponent 1/4 here: that of p_1 is 1/2 in the book's variant.",
            ),
            (BREVITY * 3 / 4 * 1 / 3, "The exponents are missing: 1/2 for p_1 and 1/4 for p_2."),
            (
                BREVITY * (3 / 4) ** (1 / 2) * (1 / 4) ** (1 / 4),
                "Four tokens have three runs of two.",
            ),
            (
                math.exp(1 - 4 / 3) * (2 / 3) ** (1 / 2) * (1 / 2) ** (1 / 4),
                "The full stop is a token: four against five.",
            ),
            (
                BREVITY * (3 / 5) ** (1 / 2) * (1 / 4) ** (1 / 4),
                "The runs of the reference are counted below, five and four: it is those of the "
                "translation, four and three.",
            ),
            (BREVITY * (3 / 4) ** (1 / 2), "That is for k = 1: runs of two are missing."),
            (
                100 * BREVITY * (3 / 4) ** (1 / 2) * (1 / 3) ** (1 / 4),
                "The book's variant goes from 0 to 1: that is in hundredths.",
            ),
            (0.0, "No factor is 0: of the runs of two, `elle voit` is in the reference."),
        ],
        tolerance=0.005,
    ),
    FunctionExercise(
        "6.2",
        "all beams and all words compete, by the sum of the old score and the new",
        10,
        one_step,
        (
            "A candidate is a beam and a word, beams times vocab of them. What is its score?",
            "(scores[:, None] + log_probs).flatten().topk(len(scores)); `//` and `%` by "
            "log_probs.shape[1] give beam and token.",
        ),
        mistakes=[
            a_word_for_each_beam,
            a_word_for_each_beam_in_order,
            old_scores_forgotten,
            old_scores_too_late,
            logs_multiplied,
            probability_times_log,
            as_probabilities,
            exchanged,
            divided_by_beams,
            worst_first,
            only_the_best,
        ],
        inputs=scores_and_words,
    ),
    FunctionExercise(
        "6.3",
        "two faults found: a product that underflows, and one length for all beams",
        10,
        normalised,
        (
            "Two faults. Try 60 tokens of log-probability -4. And which length divides a beam that "
            "ended early?",
            "The logarithm of a product is the sum of the logarithms; lengths has each beam's own "
            "length.",
        ),
        mistakes=[
            still_a_product,
            product_in_double,
            still_all_steps,
            length_ignored,
            alpha_ignored,
            alpha_as_factor,
            multiplied_by_length,
            end_as_probability,
        ],
        broken=broken_normalised,
        inputs=short_and_long,
    ),
    FunctionExercise(
        "6.4",
        "each run counts as often as the most generous reference has it, and no more. Two numbers, "
        "because a list adds them up before it divides. And a mixture gets 1, for runs of one and "
        "of two: `mon ami est fatiguée .` against `mon ami est fatigué .` and `mon amie est "
        "fatiguée .`",
        15,
        counted,
        (
            "Count the runs of the translation, and for each run how often a reference has it at "
            "most; the smaller of the two counts.",
            "Of two Counters, a | b keeps the larger counts, a & b the smaller ones; .total() adds "
            "them up.",
        ),
        mistakes=[
            not_clipped,
            clipped_by_one,
            references_added,
            first_reference_only,
            one_reference_for_all,
            over_the_references,
            different_runs,
            last_run_missing,
            shorter_runs_too,
            share_alone,
            share_or_nothing,
        ],
        inputs=lines_of_words,
    ),
    ValueExercise(
        "6.5",
        "three of four; elsewhere a less probable first word has so probable a second one that "
        "together they win. With logits four times as large it is more than nine of ten",
        20,
        share_found_greedily,
        (
            "Two calls of log_softmax; the sum of the two for all 100 pairs of words is a tensor "
            "(languages, 10, 10).",
            "Compare totals.amax(dim=(1, 2)) with the largest of the row of totals that belongs to "
            "the best first word, first.argmax(dim=1).",
        ),
        mistakes=[
            (
                1.0,
                "Not always: does the second word's distribution depend on the first word? It is "
                "another random one for each.",
            ),
            (0.26, "That is the share in which greedy search misses the best."),
            (
                0.575,
                "Logits were added, as they are: only after a softmax can the second words of "
                "different beginnings be compared.",
            ),
            (
                0.925,
                "So much is found with logits four times as large, or by a beam of 2: hand in the "
                "share of greedy search, with standard normal logits.",
            ),
            (
                0.669,
                "The second softmax runs over the first words: after each first word, the ten "
                "second words sum to 1, which is the last dimension.",
            ),
            (74.0, "That is in hundredths: hand in a share, from 0 to 1."),
            (
                0.1,
                "That is chance for the first word. The best one gives its pairs an advantage; or "
                "is its logit left out of the sum?",
            ),
            (0.01, "That is blind chance, one pair of 100: greedy search is better than that."),
        ],
        tolerance=0.02,
    ),
]
