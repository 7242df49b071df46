"""The exercises of notebook 07."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from d2l_mini.exercises.base import FunctionExercise, ValueExercise

# 7.1 A prediction -----------------------------------------------------------------------------


def spread_of_a_mean() -> float:
    """The spread of the mean row, one half and three sixths: the root of 12."""
    heads = torch.tensor([[1, 0, 0, 0], [0, 1 / 3, 1 / 3, 1 / 3]])
    return float(torch.special.entr(heads.mean(dim=0)).sum().exp())


# 7.2 The entropy of a head --------------------------------------------------------------------


def head_entropies(weights: Tensor, length: int) -> Tensor:
    """The mean entropy of a head's rows, in nats: (heads, queries, keys) -> (heads,).

    length  how many of the queries are real; the others are padding
    """
    real = weights[:, :length]
    logs = torch.log(real.masked_fill(real == 0, 1))  # 0 where the weight is 0, so its term is 0
    return -(real * logs).sum(dim=2).mean(dim=1)


def log_of_zero(weights, length):
    """log(0) is -inf, and 0 times -inf is nan: the term of a weight 0 is 0, and masked keys have
    such weights."""
    real = weights[:, :length]
    return -(real * real.log()).sum(dim=2).mean(dim=1)


def in_bits(weights, length):
    """This is in bits, by log2; nats are asked for, by the natural logarithm."""
    return head_entropies(weights, length) / math.log(2)


def sign_lost(weights, length):
    """The sign is lost: logarithms of weights are below 0, so the sum needs a minus."""
    return -head_entropies(weights, length)


def padding_too(weights, length):
    """The rows of padding are in the mean: only the first `length` queries are real."""
    return head_entropies(weights, weights.shape[1])


def divided_by_all_rows(weights, length):
    """The sum is over the real rows, but it is divided by the number of all: divide by `length`."""
    return head_entropies(weights, length) * length / weights.shape[1]


def sum_over_queries(weights, length):
    """Each column is summed, and the mean is over the keys. An entropy belongs to a row, to all the
    keys of one query: sum over the last dimension first."""
    return torch.special.entr(weights[:, :length]).sum(dim=1).mean(dim=1)


def mean_over_keys(weights, length):
    """Within a row the mean is taken, and not the sum: the more keys, the smaller it would be."""
    return torch.special.entr(weights[:, :length]).mean(dim=2).mean(dim=1)


def sum_of_rows(weights, length):
    """The rows are added up: their mean is asked for, or longer sentences look more diffuse."""
    return head_entropies(weights, length) * length


def entropy_of_the_mean(weights, length):
    """This is the entropy of the mean row. Rows that each look at one word, but not at the same
    one, have a mean that is spread: take the entropy of each row first."""
    return torch.special.entr(weights[:, :length].mean(dim=1)).sum(dim=1)


def as_spread(weights, length):
    """This is the spread, the number of words that exp makes of it; the entropy is asked for."""
    return head_entropies(weights, length).exp()


def one_for_all_heads(weights, length):
    """This is one number for all heads: they differ, so give each its own."""
    return head_entropies(weights, length).mean()


def heads_averaged_first(weights, length):
    """The heads are averaged, and then there is one entropy of their mean: the mean of narrow heads
    that look elsewhere is wide. Keep a number for each head."""
    return head_entropies(weights.mean(dim=0, keepdim=True), length)


def keys_cut_too(weights, length):
    """The keys are cut at `length` too: it counts queries. Each row keeps all its keys."""
    return head_entropies(weights[:, :, :length], length)


def not_averaged(weights, length):
    """These are the entropies of all the rows: one number for each head is asked for, the mean of
    its rows."""
    return torch.special.entr(weights[:, :length]).sum(dim=2)


def heads_with_padding(generator: torch.Generator) -> Iterator[tuple]:
    """Heads with some weights of 0, and queries of padding."""
    for shape, length in (((1, 3, 4), 2), ((2, 5, 6), 4), ((3, 6, 5), 3), ((4, 9, 10), 7)):
        logits = 2 * torch.randn(shape, generator=generator)
        for head in logits:
            queries = torch.randperm(length, generator=generator)[:2]
            keys = torch.randint(shape[2], (2,), generator=generator)
            head[queries, keys] = -torch.inf
        yield torch.softmax(logits, dim=2), length


# 7.3 A repair ---------------------------------------------------------------------------------


def looked_at(
    word: str, own: Tensor, cross: Tensor, source: list, inputs: list, outputs: list
) -> tuple[list, list]:
    """What the step that writes a word looked at, with its words, in both attentions.

    own (target, target), cross (target, source) -> two lists of pairs, (word, weight)
    """
    t = outputs.index(word)
    pairs = zip(inputs, own[t].tolist(), strict=True)
    return list(pairs), list(zip(source, cross[t].tolist(), strict=True))


def paired(words, weights):
    """Pairs of words and weights."""
    return list(zip(words, weights.tolist(), strict=False))


def broken_looked_at(word, own, cross, source, inputs, outputs):
    """What the notebook gives to repair."""
    t = inputs.index(word)
    return paired(outputs, own[t]), paired(source, cross[t])


def still_the_step_that_reads(word, own, cross, source, inputs, outputs):
    """It is still the step that reads the word, one too late: the step that writes it is its place
    in `outputs`."""
    t = inputs.index(word)
    return paired(inputs, own[t]), paired(source, cross[t])


def only_own_row_mended(word, own, cross, source, inputs, outputs):
    """The row of the decoder's own map is right, that of the cross-attention is still one step too
    late: both rows belong to the step that writes the word."""
    t = outputs.index(word)
    return paired(inputs, own[t]), paired(source, cross[inputs.index(word)])


def only_cross_row_mended(word, own, cross, source, inputs, outputs):
    """The row of the cross-attention is right, that of the decoder's own map is still one step too
    late: both rows belong to the step that writes the word."""
    t = outputs.index(word)
    return paired(inputs, own[inputs.index(word)]), paired(source, cross[t])


def still_named_after_outputs(word, own, cross, source, inputs, outputs):
    """The columns of the decoder's own map are still named after the words that are written: what a
    step can look at is what was read, `<bos>` first."""
    t = outputs.index(word)
    return paired(outputs, own[t]), paired(source, cross[t])


def named_after_the_source(word, own, cross, source, inputs, outputs):
    """The decoder's own map has the words of the source on it, as on some well-known pages: it
    looks at what the decoder has read."""
    t = outputs.index(word)
    return paired(source, own[t]), paired(source, cross[t])


def columns_of_the_word(word, own, cross, source, inputs, outputs):
    """These are columns, which say who looked at the word: what its own step looked at is a row."""
    t = inputs.index(word)
    return paired(outputs, own[:, t]), paired(source, cross[outputs.index(word)])


def own_column(word, own, cross, source, inputs, outputs):
    """Of the decoder's own map this is a column; rows are queries, so take row t."""
    t = outputs.index(word)
    return paired(inputs, own[:, t]), paired(source, cross[t])


def without_the_hidden(word, own, cross, source, inputs, outputs):
    """The words that the mask hides are left out: give them too, with their weight, 0."""
    t = outputs.index(word)
    return paired(inputs, own[t])[: t + 1], paired(source, cross[t])


def one_step_too_early(word, own, cross, source, inputs, outputs):
    """One step too early: the place of the word in `outputs` is the step that writes it, or its
    place in `inputs` less one, but not both."""
    t = outputs.index(word) - 1
    return paired(inputs, own[t]), paired(source, cross[t])


def exchanged(word, own, cross, source, inputs, outputs):
    """The two are right, but exchanged: the decoder's own attention comes first."""
    return looked_at(word, own, cross, source, inputs, outputs)[::-1]


TRANSLATIONS = [  # no word twice in a sentence, so that each has its place
    ("he sees the red car . <eos>", "il voit la voiture rouge . <eos>"),
    ("we're tired . <eos>", "nous sommes fatigués . <eos>"),
    ("our cat doesn't see the dog . <eos>", "notre chat ne voit pas le chien . <eos>"),
]


def in_hundredths(logits: Tensor) -> Tensor:
    """A softmax to two places, for weights that can be read; a masked one stays 0."""
    return (torch.softmax(logits, dim=-1).double() * 100).round() / 100


def maps_with_words(generator: torch.Generator) -> Iterator[tuple]:
    """Both maps of a translation, their words, and one of the words written."""
    for english, french in (("she sleeps <eos>", "elle dort <eos>"), *TRANSLATIONS):
        source, outputs = english.split(), french.split()
        n = len(outputs)
        later = torch.ones(n, n).triu(1).bool()
        own = torch.randn(n, n, generator=generator).masked_fill(later, -torch.inf)
        cross = torch.randn(n, len(source), generator=generator)
        t = int(torch.randint(n - 1, (), generator=generator))
        yield (
            outputs[t], in_hundredths(own), in_hundredths(cross), source, ["<bos>", *outputs[:-1]],
            outputs,
        )  # fmt: skip


# 7.4 Alignment --------------------------------------------------------------------------------


def align(cross: Tensor, source: list[str], outputs: list[str]) -> list[tuple[str, str]]:
    """For each word written, <eos> left out, the source word with most weight in the mean head.

    cross  (heads, target, source)
    """
    best = cross.mean(dim=0).argmax(dim=1).tolist()
    return [(word, source[k]) for word, k in zip(outputs, best, strict=True) if word != "<eos>"]


def over_the_written_words(cross, source, outputs):
    """The largest weight is searched in each column: that asks who looks at an English word. Search
    in each row, over the source."""
    best = cross.mean(dim=0).argmax(dim=0).tolist()
    return [(outputs[q], word) for q, word in zip(best, source, strict=True) if word != "<eos>"]


def named_after_the_read(cross, source, outputs):
    """Each word has the row after its own, the one of the step that reads it: row t belongs to word
    t of `outputs`, the one that the step writes."""
    best = cross.mean(dim=0).argmax(dim=1).tolist()
    return [(word, source[k]) for word, k in zip(outputs, best[1:], strict=False)]


def with_bos(cross, source, outputs):
    """The rows are named after what the steps read, `<bos>` first: row t belongs to word t of
    `outputs`."""
    return align(cross, source, ["<bos>", *outputs[:-1]])


def first_head_alone(cross, source, outputs):
    """This is the first head alone: take the mean of all of them."""
    return align(cross[:1], source, outputs)


def largest_of_any_head(cross, source, outputs):
    """This takes the largest weight that any head has, so that the most extreme head decides: take
    the mean of the heads first."""
    return align(cross.amax(dim=0, keepdim=True), source, outputs)


def votes(cross, source, outputs):
    """This lets each head vote for one word: take the mean of the weights, in which a head that is
    undecided counts for less than one that is sure."""
    chosen = torch.nn.functional.one_hot(cross.argmax(dim=2), cross.shape[2]).float()
    return align(chosen, source, outputs)


def eos_written_too(cross, source, outputs):
    """The row of `<eos>` is still in: leave it out, it is no word and has no partner."""
    best = cross.mean(dim=0).argmax(dim=1).tolist()
    return [(word, source[k]) for word, k in zip(outputs, best, strict=True)]


def eos_never_found(cross, source, outputs):
    """The column of `<eos>` was left out, so a word that leans on it gets another partner: only the
    row of `<eos>` is to be left out."""
    return align(cross[:, :, :-1], source, outputs)


def places(cross, source, outputs):
    """These are places; give words, as pairs of the word written and the source word."""
    return cross.mean(dim=0).argmax(dim=1).tolist()[:-1]


def as_dict(cross, source, outputs):
    """This is a dict: a word that is written twice would have one place in it. Return a list of
    pairs."""
    return dict(align(cross, source, outputs))


def places_in_outputs(cross, source, outputs):
    """The largest weight is searched in each column, so the places that come out are places in
    `outputs`, and here they are taken for places in `source`: search in each row."""
    best = cross.mean(dim=0).argmax(dim=0).tolist()
    return [(word, source[k]) for word, k in zip(outputs[:-1], best, strict=False)]


def english_first(cross, source, outputs):
    """The pairs are right, but turned round: the word written comes first."""
    return [(e, f) for f, e in align(cross, source, outputs)]


MISALIGNED = [
    over_the_written_words,
    named_after_the_read,
    with_bos,
    first_head_alone,
    largest_of_any_head,
    votes,
    eos_written_too,
    eos_never_found,
    places,
    as_dict,
    english_first,
]


TWICE = ("he waits and he sleeps . <eos>", "il attend et il dort . <eos>")


def repeated_word_lost(cross, source, outputs):
    """A word that is written twice has its place twice, one for each time: go through the places of
    the words, not through the words."""
    best = cross.mean(dim=0).argmax(dim=1).tolist()
    return [(word, source[best[outputs.index(word)]]) for word in outputs if word != "<eos>"]


def cross_attention_maps(generator: torch.Generator) -> Iterator[tuple]:
    """Cross-attention of several heads, drawn again where a mistake would make no difference."""
    yield (
        torch.softmax(torch.randn(2, 3, 2, generator=generator), 2),
        ["sleep", "<eos>"],
        ["dors", "!", "<eos>"],
    )
    for (english, french), heads in zip((*TRANSLATIONS, TWICE), (3, 5, 4, 2), strict=True):
        source, outputs = english.split(), french.split()
        found = []
        while any(a == b for i, a in enumerate(found) for b in found[:i]) or not found:
            logits = 2 * torch.randn(heads, len(outputs), len(source), generator=generator)
            call = torch.softmax(logits, dim=2), source, outputs
            mistakes = [*MISALIGNED, *[repeated_word_lost] * (french == TWICE[1])]
            found = [align(*call), *(mistake(*call) for mistake in mistakes)]
        yield call


# 7.5 Mean weight by distance ------------------------------------------------------------------


def mean_by_distance(weights: Tensor) -> Tensor:
    """The mean weight of all pairs of a query and a key that are equally far apart, for each head.

    weights (heads, queries, keys) -> (heads, queries + keys - 1), of key minus query from
    1 - queries to keys - 1
    """
    _, queries, keys = weights.shape
    means = [weights.diagonal(d, 1, 2).mean(dim=1) for d in range(1 - queries, keys)]
    return torch.stack(means, dim=1)


def query_minus_key(weights):
    """This goes by query minus key. Of key minus query, 1 - queries comes first: it is far back, in
    the lower left corner of the map."""
    return mean_by_distance(weights).flip(1)


def summed(weights):
    """These are sums: there are few pairs far apart, so their sums are small whatever the weights.
    Divide each by its number of pairs."""
    _, queries, keys = weights.shape
    sums = [weights.diagonal(d, 1, 2).sum(dim=1) for d in range(1 - queries, keys)]
    return torch.stack(sums, dim=1)


def by_number_of_queries(weights):
    """All sums are divided by the number of queries: but few queries have a key so far away. Divide
    each by its own number of pairs."""
    return summed(weights) / weights.shape[1]


def by_number_of_cells(weights):
    """All sums are divided by the number of cells of the map: divide each by its own number of
    pairs."""
    return summed(weights) / (weights.shape[1] * weights.shape[2])


def both_ways_together(weights):
    """Before and after are thrown together: a key one step before a query is another matter than
    one step after it, so keep the sign."""
    _, queries, keys = weights.shape
    distances = (torch.arange(keys) - torch.arange(queries)[:, None]).abs()
    means = [weights[:, distances == d].mean(dim=1) for d in range(max(queries, keys))]
    return torch.stack(means, dim=1)


def heads_together(weights):
    """The heads are averaged: one that looks back and one that looks ahead would look like none, so
    give each its own row."""
    return mean_by_distance(weights).mean(dim=0)


def distances_first(weights):
    """The two dimensions are exchanged: the heads come first, so stack along dim=1."""
    return mean_by_distance(weights).T


def diagonals_of_heads(weights):
    """These diagonals run through heads and queries, the first two dimensions, which `diagonal`
    takes if none are named: name those of queries and keys, 1 and 2."""
    _, queries, keys = weights.shape
    means = [weights.diagonal(d).mean(dim=1) for d in range(1 - queries, keys)]
    return torch.stack(means, dim=1)


def only_backwards(weights):
    """Only keys up to the query's own step are there: without a causal mask it sees later ones too,
    up to keys - 1."""
    return mean_by_distance(weights)[:, : weights.shape[1]]


def several_maps(generator: torch.Generator) -> Iterator[tuple]:
    """Maps of several heads, square ones and others."""
    for shape in ((2, 2, 3), (3, 4, 4), (1, 5, 3), (2, 6, 9)):
        yield (torch.softmax(torch.randn(shape, generator=generator), dim=2),)


EXERCISES = [
    ValueExercise(
        "7.1",
        "the root of 12, more than either head has; a mean of narrow heads looks diffuse",
        5,
        spread_of_a_mean,
        (
            "The mean of the rows is 1/2, 1/6, 1/6, 1/6. Take its entropy, then exp.",
            "The entropy is 1/2 ln 2 + 1/2 ln 6, half of ln 12.",
        ),
        mistakes=[
            (2.0, "That is the mean of the two spreads, 1 and 3: average the rows first."),
            (
                math.sqrt(3),
                "That is exp of the mean of the two entropies: average the rows first.",
            ),
            (
                math.log(12) / 2,
                "That is the entropy, in nats: exp makes a number of words of it.",
            ),
            (math.log2(12) / 2, "That is the entropy, in bits: 2 to this power is the spread."),
            (6.0, "An entropy in bits belongs to 2 as its base, one in nats to e."),
            (2 ** (math.log(12) / 2), "An entropy in nats belongs to e as its base, not to 2."),
            (
                4.0,
                "Four words have some weight; it would be 4 if all had the same, but one has half "
                "of it.",
            ),
            (
                3.0,
                "That is the spread of the second head, or 1 over the sum of the squares of the "
                "mean row, another measure.",
            ),
        ],
        tolerance=0.01,
    ),
    FunctionExercise(
        "7.2",
        "a sum over the keys, a mean over the real queries, and nothing where a weight is 0; it "
        "lies between 0, each row on one key, and ln n, all n keys alike",
        10,
        head_entropies,
        (
            "Which dimension is summed, which is averaged, and what is 0 times log(0)?",
            "Cut to weights[:, :length]. torch.special.entr(w) is -w ln w, and 0 where w is 0; sum "
            "over dim=2, mean over dim=1.",
        ),
        mistakes=[
            log_of_zero,
            in_bits,
            sign_lost,
            padding_too,
            divided_by_all_rows,
            sum_over_queries,
            mean_over_keys,
            sum_of_rows,
            entropy_of_the_mean,
            as_spread,
            one_for_all_heads,
            heads_averaged_first,
            keys_cut_too,
            not_averaged,
        ],
        inputs=heads_with_padding,
    ),
    FunctionExercise(
        "7.3",
        "two faults found: the row is that of the step that writes, the columns are what was read",
        10,
        looked_at,
        (
            "Two faults. At which step is `word` written? And what can a step look at that has not "
            "written anything yet?",
            "Rows write `outputs`, so the row is outputs.index(word); the columns of the decoder's "
            "own map are `inputs`.",
        ),
        mistakes=[
            still_the_step_that_reads,
            only_own_row_mended,
            only_cross_row_mended,
            still_named_after_outputs,
            named_after_the_source,
            columns_of_the_word,
            own_column,
            without_the_hidden,
            one_step_too_early,
            exchanged,
        ],
        broken=broken_looked_at,
        inputs=maps_with_words,
    ),
    FunctionExercise(
        "7.4",
        "mean of the heads first, then the largest weight of each row",
        10,
        align,
        (
            "Three steps: one map of all heads, the place of the largest weight in each row, words "
            "for rows and places.",
            "cross.mean(dim=0).argmax(dim=1) has a place in the source for each of `outputs`.",
        ),
        mistakes=[*MISALIGNED, places_in_outputs, repeated_word_lost],
        inputs=cross_attention_maps,
    ),
    FunctionExercise(
        "7.5",
        "a diagonal for each distance. The even rows have a stripe too, 0.34 at 0 and 0.125 at -7: "
        "pairs far apart come from long rows, whose even weights are small",
        15,
        mean_by_distance,
        (
            "Pairs that are equally far apart lie on a diagonal; that of distance 0 begins in the "
            "upper left corner.",
            "weights.diagonal(d, 1, 2) is (heads, pairs), for d from 1 - queries to keys - 1.",
        ),
        mistakes=[
            query_minus_key,
            summed,
            by_number_of_queries,
            by_number_of_cells,
            both_ways_together,
            heads_together,
            distances_first,
            diagonals_of_heads,
            only_backwards,
        ],
        inputs=several_maps,
    ),
]
