"""The exercises of notebook 08."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from d2l_mini.exercises.base import FunctionExercise, ValueExercise

# 8.1 A measurement ----------------------------------------------------------------------------


def weight_after_steps() -> float:
    """A weight of 1 in bfloat16 after a thousand steps of 0.001."""
    weight = torch.tensor(1.0, dtype=torch.bfloat16)
    for _ in range(1000):
        weight += 0.001
    return weight.item()


# 8.2 The share of padding ---------------------------------------------------------------------


def padded_share(lengths: Tensor, batch_size: int) -> float:
    """The share of padding where rows are batched as they come: lengths (rows,) -> one number."""
    cells = sum(len(batch) * int(batch.max()) for batch in lengths.split(batch_size))
    return 1 - int(lengths.sum()) / cells


def all_to_the_longest(lengths, batch_size):
    """This pads every row to the longest of all rows: a batch needs only the longest of its own."""
    return 1 - float(lengths.sum()) / (len(lengths) * int(lengths.max()))


def real_share(lengths, batch_size):
    """This is the share of the real tokens: padding is what is left."""
    return 1 - padded_share(lengths, batch_size)


def padding_over_real(lengths, batch_size):
    """This divides the padding by the real tokens: divide by all that the rectangles hold."""
    share = padded_share(lengths, batch_size)
    return share / (1 - share)


def mean_of_shares(lengths, batch_size):
    """This is the mean of the batches' shares, in which a small batch counts as much as a large
    one: add up the tokens of all batches first, and divide once."""
    batches = lengths.split(batch_size)
    return sum(padded_share(batch, batch_size) for batch in batches) / len(batches)


def last_batch_dropped(lengths, batch_size):
    """The last batch is missing: it is smaller than the others, and counts all the same."""
    return padded_share(lengths[: len(lengths) // batch_size * batch_size], batch_size)


def sorted_first(lengths, batch_size):
    """This sorts the rows by length first: here they are batched in the order in which they
    come."""
    return padded_share(lengths.sort().values, batch_size)


def last_batch_filled(lengths, batch_size):
    """This counts the last batch as if it were full: it has only the rows that are left."""
    cells = sum(batch_size * int(batch.max()) for batch in lengths.split(batch_size))
    return 1 - int(lengths.sum()) / cells


def number_of_pads(lengths, batch_size):
    """This is the number of padded tokens: divide it by all that the rectangles hold."""
    share = padded_share(lengths, batch_size)
    return share / (1 - share) * int(lengths.sum())


def in_percent(lengths, batch_size):
    """This is the share in percent: a share lies between 0 and 1."""
    return 100 * padded_share(lengths, batch_size)


def rows_in_any_order(generator: torch.Generator) -> Iterator[tuple]:
    """Lengths whose last batch is smaller, or full, and where sorting saves padding."""
    for rows, batch_size in ((5, 2), (11, 4), (12, 3), (23, 5)):
        lengths = 2 * torch.arange(1, rows + 1)[torch.randperm(rows, generator=generator)]
        longest = int(lengths.argmax())  # not in the last batch
        lengths[[longest, 0]] = lengths[[0, longest]]
        lengths[1] = 1  # beside the longest, so that sorting would save something
        yield lengths, batch_size


# 8.3 Parameters -------------------------------------------------------------------------------


def num_parameters(
    source: int, target: int, hiddens: int, ffn_hiddens: list[int], tied: bool
) -> int:
    """The parameters of an encoder-decoder of this package, from its sizes.

    ffn_hiddens has a number for each layer, the same in both halves.
    """
    attention, norm = 4 * hiddens**2, 2 * hiddens
    total = (source + target) * hiddens  # the embeddings
    for ffn_size in ffn_hiddens:
        ffn = 2 * hiddens * ffn_size + ffn_size + hiddens
        total += attention + ffn + 2 * norm  # a block of the encoder
        total += 2 * attention + ffn + 3 * norm  # and one of the decoder
    output = target if tied else target * hiddens + target
    return total + output


def one_attention_in_the_decoder(source, target, hiddens, ffn_hiddens, tied):
    """A decoder block has two attentions: its own, and the cross-attention. One is missing."""
    all_parts = num_parameters(source, target, hiddens, ffn_hiddens, tied)
    return all_parts - len(ffn_hiddens) * 4 * hiddens**2


def two_norms_in_the_decoder(source, target, hiddens, ffn_hiddens, tied):
    """A decoder block has three sublayers and a norm after each: one norm is missing."""
    all_parts = num_parameters(source, target, hiddens, ffn_hiddens, tied)
    return all_parts - len(ffn_hiddens) * 2 * hiddens


def no_norms(source, target, hiddens, ffn_hiddens, tied):
    """The norms are missing: each has a gain and a bias for every hidden unit, and a layer of both
    halves has five."""
    all_parts = num_parameters(source, target, hiddens, ffn_hiddens, tied)
    return all_parts - len(ffn_hiddens) * 10 * hiddens


def half_norms(source, target, hiddens, ffn_hiddens, tied):
    """A norm has two numbers for each hidden unit, a gain and a bias: one of them is missing."""
    return num_parameters(source, target, hiddens, ffn_hiddens, tied) - 5 * hiddens * len(
        ffn_hiddens
    )


def no_output_layer(source, target, hiddens, ffn_hiddens, tied):
    """The output layer is missing: it has a score for each word of the target, and a bias each."""
    return num_parameters(source, target, hiddens, ffn_hiddens, True) - target


def biased_projections(source, target, hiddens, ffn_hiddens, tied):
    """The projections of the attention have no bias here, as in the paper."""
    all_parts = num_parameters(source, target, hiddens, ffn_hiddens, tied)
    return all_parts + len(ffn_hiddens) * 12 * hiddens


def three_projections(source, target, hiddens, ffn_hiddens, tied):
    """Of the four matrices of an attention one is missing: those of queries, keys and values, and
    the output projection."""
    all_parts = num_parameters(source, target, hiddens, ffn_hiddens, tied)
    return all_parts - len(ffn_hiddens) * 3 * hiddens**2


def no_ffn_biases(source, target, hiddens, ffn_hiddens, tied):
    """Both layers of a feed-forward network have biases: a number for each unit that comes out."""
    all_parts = num_parameters(source, target, hiddens, ffn_hiddens, tied)
    return all_parts - 2 * sum(ffn_hiddens) - 2 * len(ffn_hiddens) * hiddens


def no_output_bias(source, target, hiddens, ffn_hiddens, tied):
    """The output layer has a bias for each word of the target, tied or not: only its matrix is
    shared."""
    return num_parameters(source, target, hiddens, ffn_hiddens, tied) - target


def tying_ignored(source, target, hiddens, ffn_hiddens, tied):
    """It does not look at `tied`: where it is true, output layer and target embedding are one
    matrix, which counts once."""
    return num_parameters(source, target, hiddens, ffn_hiddens, False)


def tied_with_the_source(source, target, hiddens, ffn_hiddens, tied):
    """Where it is tied, this saves the source embedding too; that is a matrix of its own, for other
    words."""
    all_parts = num_parameters(source, target, hiddens, ffn_hiddens, tied)
    return all_parts - tied * source * hiddens


def tied_to_nothing(source, target, hiddens, ffn_hiddens, tied):
    """Where it is tied, this saves the matrix twice: one is left, which both use."""
    all_parts = num_parameters(source, target, hiddens, ffn_hiddens, tied)
    return all_parts - tied * target * hiddens


def one_layer(source, target, hiddens, ffn_hiddens, tied):
    """Only the first layer is counted: ffn_hiddens has a number for each."""
    return num_parameters(source, target, hiddens, ffn_hiddens[:1], tied)


def sizes_of_models(generator: torch.Generator) -> Iterator[tuple]:
    """Sizes of which no two are alike, tied and not."""
    for layers, tied in ((2, False), (3, True), (5, False), (4, True)):
        source = int(torch.randint(100, 200, (1,), generator=generator))
        target = int(torch.randint(301, 400, (1,), generator=generator))
        hiddens = 2 * int(torch.randint(5, 12, (1,), generator=generator))
        ffn_hiddens = torch.randint(30, 60, (layers,), generator=generator).tolist()
        yield source, target, hiddens, ffn_hiddens, tied


# 8.4 A repair ---------------------------------------------------------------------------------


def attend_in_blocks(query: Tensor, keys: Tensor, values: Tensor, size: int) -> Tensor:
    """Attention of one query that sees `size` keys at a time: query (d,), keys, values (n, d)."""
    highest, total, output = -torch.inf, 0.0, torch.zeros_like(query)
    for K, V in zip(keys.split(size), values.split(size), strict=True):
        scores = K @ query / len(query) ** 0.5
        higher = max(highest, scores.max().item())
        weights = torch.exp(scores - higher)
        shrink = torch.exp(torch.tensor(highest - higher))
        total = total * shrink + weights.sum()
        output = output * shrink + weights @ V
        highest = higher
    return output / total


def blocks(query, keys, values, size, rescale_total, rescale_output, divide_late, root):
    """Attention in blocks with a part left out."""
    highest, total, output = torch.tensor(-torch.inf), torch.tensor(0.0), torch.zeros_like(query)
    for K, V in zip(keys.split(size), values.split(size), strict=True):
        scores = K @ query / (len(query) ** 0.5 if root else 1)
        higher = torch.maximum(highest, scores.max())
        weights, shrink = torch.exp(scores - higher), torch.exp(highest - higher)
        total = total * (shrink if rescale_total else 1) + weights.sum()
        part = weights @ V if divide_late else weights @ V / weights.sum()
        output = output * (shrink if rescale_output else 1) + part
        highest = higher
    return output / total if divide_late else output


def broken_blocks(query, keys, values, size):
    """What the notebook gives to repair."""
    return blocks(query, keys, values, size, False, False, True, True)


def output_not_rescaled(query, keys, values, size):
    """The total is rescaled when a larger score comes, the output is not: both are sums of
    exp(score - highest) for the highest score so far."""
    return blocks(query, keys, values, size, True, False, True, True)


def total_not_rescaled(query, keys, values, size):
    """The output is rescaled when a larger score comes, the total is not: both are sums of
    exp(score - highest) for the highest score so far."""
    return blocks(query, keys, values, size, False, True, True, True)


def divided_in_each_block(query, keys, values, size):
    """It divides in each block, so each block gets a whole softmax of its own: divide once, at the
    end."""
    return blocks(query, keys, values, size, False, False, False, True)


def root_lost(query, keys, values, size):
    """The root of the query's size is lost."""
    return blocks(query, keys, values, size, True, True, True, False)


def never_divided(query, keys, values, size):
    """It does not divide by the total at the end."""
    highest = (keys @ query / len(query) ** 0.5).max()
    return torch.exp(keys @ query / len(query) ** 0.5 - highest) @ values


def last_block_only(query, keys, values, size):
    """Only the last block is in the output: what came before has to be added, rescaled."""
    last = len(keys) - (len(keys) - 1) % size - 1
    return attend_in_blocks(query, keys[last:], values[last:], size)


def shrunk_with_the_new_block(query, keys, values, size):
    """It shrinks the sums after the new block was added to them: only what came before was counted
    from a lower score, so shrink first, and then add."""
    highest, total, output = torch.tensor(-torch.inf), torch.tensor(0.0), torch.zeros_like(query)
    for K, V in zip(keys.split(size), values.split(size), strict=True):
        scores = K @ query / len(query) ** 0.5
        higher = torch.maximum(highest, scores.max())
        weights, shrink = torch.exp(scores - higher), torch.exp(highest - higher)
        total, output = (total + weights.sum()) * shrink, (output + weights @ V) * shrink
        highest = higher
    return output / total


def infinite_at_the_first_block(query, keys, values, size):
    """What comes out is no number. At the first block the highest score so far is -inf, so that
    exp(higher - highest) and exp(scores - highest) are infinite. The sums shrink by exp(highest -
    higher), which is 0 there, and the new scores are counted from the higher one."""
    highest, total, output = torch.tensor(-torch.inf), torch.tensor(0.0), torch.zeros_like(query)
    for K, V in zip(keys.split(size), values.split(size), strict=True):
        scores = K @ query / len(query) ** 0.5
        higher = torch.maximum(highest, scores.max())
        weights, growth = torch.exp(scores - higher), torch.exp(higher - highest)
        total, output = total * growth + weights.sum(), output * growth + weights @ V
        highest = higher
    return output / total


def rising_scores(generator: torch.Generator) -> Iterator[tuple]:
    """Keys whose score rises from block to block, so that the highest one keeps changing; then some
    whose score falls, and some whose exponential is more than a number can be."""
    for hiddens, steps, size, last in ((2, 3, 2, 2), (4, 7, 3, 2), (5, 13, 4, 2), (3, 8, 3, -4)):
        query = torch.rand(hiddens, generator=generator) + 0.5
        keys = torch.rand(steps, hiddens, generator=generator)
        keys += torch.linspace(0, last, steps)[:, None]
        yield query, keys, torch.randn(steps, hiddens, generator=generator), size
    for last in (300.0, -300.0):
        keys = torch.linspace(-last, last, 6)[:, None] + torch.rand(6, 2, generator=generator)
        yield torch.full((2,), 0.5), keys, torch.randn(6, 2, generator=generator), 2


# 8.5 Several processes ------------------------------------------------------------------------


def mean_gradient(gradients: Tensor, num_tokens: Tensor) -> Tensor:
    """The gradient of the mean loss of all tokens, from those of each process's own mean loss.

    gradients (processes, parameters), num_tokens (processes,) -> (parameters,)
    """
    return num_tokens / num_tokens.sum() @ gradients


def mean_of_means(gradients, num_tokens):
    """This is the mean of the processes: a token counts for more where there are few. Weigh each
    process by its tokens."""
    return gradients.mean(dim=0)


def summed(gradients, num_tokens):
    """This is the sum over the processes: it grows with their number, as if the rate did."""
    return gradients.sum(dim=0)


def summed_over_tokens(gradients, num_tokens):
    """This is the gradient of the summed loss: divide by the number of all tokens."""
    return num_tokens.float() @ gradients


def divided_by_processes_too(gradients, num_tokens):
    """It divides by the number of processes once too often: the weights sum to 1 already."""
    return mean_gradient(gradients, num_tokens) / len(num_tokens)


def weighed_the_wrong_way(gradients, num_tokens):
    """The weights are upside down: the more tokens a process has, the more its mean counts."""
    weights = 1 / num_tokens
    return weights / weights.sum() @ gradients


def taken_for_sums(gradients, num_tokens):
    """This takes the gradients for those of summed losses; they are those of means, so multiply
    each by its tokens first."""
    return gradients.sum(dim=0) / num_tokens.sum()


def divided_by_processes_only(gradients, num_tokens):
    """It weighs by the tokens, but divides by the number of processes: divide by all tokens."""
    return (num_tokens[:, None] * gradients).mean(dim=0)


def largest_process_only(gradients, num_tokens):
    """This is the gradient of the process with most tokens alone: the others' count too."""
    return gradients[num_tokens.argmax()]


def processes_and_tokens(generator: torch.Generator) -> Iterator[tuple]:
    """Gradients of processes with unequal numbers of tokens."""
    for world, size in ((2, 3), (3, 2), (4, 9)):
        num_tokens = torch.arange(1, world + 1)[torch.randperm(world, generator=generator)] * 30
        num_tokens += torch.randint(1, 20, (world,), generator=generator)
        yield torch.randn(world, size, generator=generator) + 1, num_tokens


EXERCISES = [
    ValueExercise(
        "8.1",
        "between 1 and 2 the numbers of bfloat16 lie 1/128 apart, and a step of less than half of "
        "that is rounded away, each time; so autocast keeps the weights themselves in float32",
        5,
        weight_after_steps,
        (
            "Print the weight after the first step. torch.finfo(torch.bfloat16).eps is how far the "
            "next number after 1 lies.",
            "1.001 lies between 1 and 1.0078125, nearer to 1. And the next step begins at 1 again.",
        ),
        mistakes=[
            (2.0, "That is what real numbers give, and nearly what float32 gives: measure it."),
            (1.001, "That is one step in real numbers; in bfloat16 there is no such number."),
            (1.9765625, "That is float16, whose numbers lie closer, but which ends at 65,504."),
            (1.0078125, "That is the next number after 1; a step of 0.001 does not reach it."),
        ],
        tolerance=1e-4,
    ),
    FunctionExercise(
        "8.2",
        "each batch is padded to its own longest row, and all rectangles are added up first",
        10,
        padded_share,
        (
            "How many tokens does the rectangle of a batch hold? lengths.split gives all batches.",
            "Add len(batch) * batch.max() over the batches: lengths.sum() of these are real.",
        ),
        mistakes=[
            all_to_the_longest,
            real_share,
            padding_over_real,
            mean_of_shares,
            last_batch_dropped,
            last_batch_filled,
            sorted_first,
            number_of_pads,
            in_percent,
        ],
        inputs=rows_in_any_order,
    ),
    FunctionExercise(
        "8.3",
        "every matrix, bias and norm is counted, and the shared matrix once",
        15,
        num_parameters,
        (
            "A layer of both halves has three attentions, two feed-forward networks and five "
            "norms. Which of them have biases?",
            "attention 4 h², feed-forward 2 h f + f + h, norm 2 h, embeddings (S + T) h, output "
            "T h + T, or T alone where it is tied.",
        ),
        mistakes=[
            one_attention_in_the_decoder,
            two_norms_in_the_decoder,
            no_norms,
            half_norms,
            no_output_layer,
            biased_projections,
            three_projections,
            no_ffn_biases,
            no_output_bias,
            tying_ignored,
            tied_with_the_source,
            tied_to_nothing,
            one_layer,
        ],
        inputs=sizes_of_models,
        tolerance=0,
    ),
    FunctionExercise(
        "8.4",
        "whenever a larger score comes, all that was added up before shrinks, total and output",
        15,
        attend_in_blocks,
        (
            "With one block that holds all keys it is right. What changes in the second block, and "
            "what should then happen to the sums of the first?",
            "exp(s - old) * exp(old - new) = exp(s - new): multiply both sums by exp(highest - "
            "higher) before you add the block.",
        ),
        mistakes=[
            output_not_rescaled,
            total_not_rescaled,
            divided_in_each_block,
            root_lost,
            never_divided,
            last_block_only,
            shrunk_with_the_new_block,
            infinite_at_the_first_block,
        ],
        broken=broken_blocks,
        inputs=rising_scores,
    ),
    FunctionExercise(
        "8.5",
        "a process counts by its tokens, so that each token counts alike",
        10,
        mean_gradient,
        (
            "Multiplied by its number of tokens, the gradient of a mean is that of a sum. Sums may "
            "be added.",
            "(num_tokens[:, None] * gradients).sum(dim=0) / num_tokens.sum()",
        ),
        mistakes=[
            mean_of_means,
            summed,
            summed_over_tokens,
            divided_by_processes_too,
            weighed_the_wrong_way,
            taken_for_sums,
            largest_process_only,
            divided_by_processes_only,
        ],
        inputs=processes_and_tokens,
    ),
]
