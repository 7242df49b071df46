"""The views of notebook 06: a translation word by word, and the tree of a beam search."""

from __future__ import annotations

import functools
import math

import ipywidgets as widgets
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from d2l_mini.attention import keep_attention_weights
from d2l_mini.checks import check_kind, check_number, check_text
from d2l_mini.data import build_array_nmt, preprocess_nmt
from d2l_mini.explorers.base import Explorer, check_setting, shorten, write_words
from d2l_mini.figures import Tree, draw_beam_tree, trace_back
from d2l_mini.pictures import COLORS, Picture
from d2l_mini.training import Translator, ready_translator
from d2l_mini.transformer import in_mode
from d2l_mini.translation import Beams, Translation, beam_steps, next_log_probs, translate

__all__ = [
    "draw_beams",
    "draw_steps",
    "explore_beams",
    "explore_steps",
    "trace_beams",
    "trace_steps",
]

CANDIDATES = 6


def read_source(translator: Translator, sentence: str) -> tuple[Tensor, Tensor]:
    """The token ids of a sentence, (1, source steps), and how many there are, (1,).

    Raises TypeError if it is no text or the translator is none, ValueError if it has no token, or
    one too many.
    """
    check_kind("the translator", translator, Translator)
    check_text("the sentence", sentence)
    net, src_vocab, _, num_steps = translator
    tokens, most = preprocess_nmt(sentence).split(), num_steps - 1
    if not 0 < len(tokens) <= most:
        raise ValueError(
            f"the sentence has {len(tokens)} tokens, punctuation included; this translator reads "
            f"1 to {most}"
        )
    device = next(net.parameters()).device
    enc_X, enc_valid_lens = build_array_nmt([tokens], src_vocab, len(tokens) + 1)
    return enc_X.to(device), enc_valid_lens.to(device)


def trace_steps(translator: Translator, sentence: str) -> tuple[Translation, Tensor]:
    """Translate one sentence greedily, and keep what each step knew.

    returns  the translation, with its attention maps, and the log-probabilities of all words at
             each step, (steps, vocab), on the CPU

    Raises ValueError if the sentence is empty or too long.
    """
    enc_X, enc_valid_lens = read_source(translator, sentence)
    net, src_vocab, tgt_vocab, num_steps = translator
    vocabs, device = (src_vocab, tgt_vocab), enc_X.device
    [result] = translate(net, [sentence], *vocabs, num_steps, device, save_attention_weights=True)
    rows = []
    with in_mode(net, training=False), torch.inference_mode(), keep_attention_weights(net, False):
        state = net.decoder.init_state(net.encoder(enc_X, enc_valid_lens), enc_valid_lens)
        for word in result.attention.inputs:
            token = torch.tensor([[tgt_vocab[word]]], device=device)
            log_probs, state = next_log_probs(net, token, state, tgt_vocab)
            rows.append(log_probs.cpu())
    return result, torch.cat(rows)


def draw_steps(translator: Translator, sentence: str, step: int, head: int) -> Picture:
    """What a translator knows at a step of a greedy translation, and where it looks.

    step  from 1; past the end, the last one is shown
    head  of the last layer, from 1; 0 = the mean of all

    Raises ValueError if the sentence is empty or too long, or there is no such step or head.
    """
    return draw_step(translator, *trace_steps(translator, sentence), step, head)


def draw_step(
    translator: Translator, result: Translation, log_probs: Tensor, step: int, head: int
) -> Picture:
    """Draw a step of what `trace_steps` kept."""
    maps = result.attention
    num_heads, steps = maps.cross.shape[1], len(maps.outputs)
    step = check_setting("step", step, range(1, translator.num_steps + 1))
    head = check_setting("head", head, range(num_heads + 1))
    now = min(step, steps) - 1
    own, cross = (
        layers[-1].mean(dim=0) if head == 0 else layers[-1, head - 1]
        for layers in (maps.decoder, maps.cross)
    )
    picture = Picture((9.4, 4.35), layout="none")
    places = (0.17, 0.18), (0.515, 0.21), (0.735, 0.21)  # left and width
    bars, left, right = (picture.add_axes((x, 0.42, width, 0.44)) for x, width in places)
    probs, ids = log_probs[now].exp().topk(CANDIDATES)
    words = translator.tgt_vocab.to_tokens(ids)
    draw_candidates(bars, words, probs.tolist())
    still = [""] * (steps - now - 1)
    not_read = torch.ones(steps, steps).triu(1).bool()
    read, written = maps.inputs[: now + 1] + still, maps.outputs[: now + 1] + still
    source = [f"{shorten(w, 7)} (?)" if w in result.unknown else w for w in maps.source]
    draw_rows(left, own.masked_fill(not_read, torch.nan), now, read, written)
    draw_rows(right, cross, now, source, [""] * steps)
    left.set(title="causal self-attention", xlabel="words read", ylabel="words written")
    right.set(title="cross-attention", xlabel="source words")
    bar = picture.add_axes((0.95, 0.42, 0.01, 0.44))
    picture.colorbar(right.images[0], cax=bar, ticks=(0, 0.5, 1))
    line = f"{' '.join(maps.outputs[:now])} ▸ {maps.outputs[now]}"
    line = shorten(line[::-1], 84)[::-1]  # of a long one the end
    picture.text(0.02, 0.96, line, size="large", va="center", parse_math=False)
    picture.description = describe_decoding(result, log_probs, step, words, probs, cross[now])
    return picture


def draw_candidates(axes: Axes, words: list[str], probs: list[float]) -> None:
    """Draw the likeliest next words as bars, the first, which is chosen, in another colour."""
    axes.barh(range(len(words)), probs, color=[COLORS[1], *[COLORS[0]] * (len(words) - 1)])
    for i, (word, prob) in enumerate(zip(words, probs, strict=True)):
        text = f"{shorten(word)}  {prob:.3f}"
        axes.text(-0.03, i, text, ha="right", va="center", parse_math=False)
    axes.set(xlim=(0, 1), ylim=(len(words) - 0.5, -0.5), xticks=(0, 0.5, 1), yticks=[])
    axes.set(xlabel="probability", title="the next word")


def draw_rows(axes: Axes, weights: Tensor, now: int, keys: list[str], queries: list[str]) -> None:
    """Draw the rows of attention weights up to number `now`, and frame that one."""
    shown = weights.clone()
    shown[now + 1 :] = torch.nan
    axes.set_facecolor("0.88")  # which is no red of the scale
    axes.imshow(shown.numpy(), cmap="Reds", vmin=0, vmax=1, aspect="auto")
    frame = (-0.46, now - 0.46), len(keys) - 0.08, 0.92
    axes.add_patch(Rectangle(*frame, fill=False, ec=COLORS[0], linewidth=2))
    write_words(axes, keys, queries)
    axes.xaxis.labelpad, axes.yaxis.labelpad = 76, 75  # beyond the words


def describe_decoding(
    result: Translation,
    log_probs: Tensor,
    step: int,
    words: list[str],
    probs: Tensor,
    looks: Tensor,
) -> str:
    """The picture of `draw_step` in words."""
    maps, steps = result.attention, len(result.attention.outputs)
    now, at = min(step, steps) - 1, int(looks.argmax())
    total = log_probs[: now + 1].max(dim=-1).values.sum().exp()
    said = [
        f"Step {now + 1} of {steps} reads {maps.inputs[now]!r} and writes {maps.outputs[now]!r} "
        f"with probability {probs[0]:.3f}, before {words[1]!r} with {probs[1]:.3f}; the tokens so "
        f"far together have {total:.3f}. It looks most at {maps.source[at]!r}, weight "
        f"{looks[at]:.2f}."
    ]
    if step > steps:
        end = "ended with <eos>" if result.finished else "was cut"
        said.insert(0, f"The translation {end} at step {steps}.")
    return " ".join([*said, *say_unknown(result)])


def explore_steps(
    translator: Translator | None = None, sentence: str = "Marie arrived at the station."
) -> Explorer:
    """A sentence and a step against the next word's candidates and the attention.

    translator  None = `ready_translator()`; what it says is kept, so make the view again after
                more training
    """
    translator = ready_translator() if translator is None else translator
    check_kind("the translator", translator, Translator)
    check_text("the sentence", sentence)
    trace = functools.lru_cache(maxsize=64)(functools.partial(trace_steps, translator))
    num_heads = translator.net.decoder.blks[-1].attention2.num_heads

    def draw(sentence: str, step: int, head: int) -> Picture:
        return draw_step(translator, *trace(sentence), step, head)

    def go(view: Explorer, by: int) -> None:
        control = view.controls["step"]
        steps = len(trace(view.controls["sentence"].value)[1])
        control.value = max(1, min(min(control.value, steps) + by, steps))

    def begin(change) -> None:
        with view.held("step") as step:
            step.value = 1

    text = widgets.Text(sentence, description="sentence")
    text.observe(begin, names="value")  # before the view does, so that it draws the first step
    view = Explorer(
        draw,
        {
            "Next": lambda view: go(view, 1),
            "Back": lambda view: go(view, -1),
            "Reset": lambda view: go(view, -translator.num_steps),
        },
        sentence=text,
        step=widgets.IntSlider(3, 1, translator.num_steps, description="step"),
        head=widgets.Dropdown(
            options=[("mean of all", 0), *((f"{i}", i) for i in range(1, num_heads + 1))],
            value=0,
            description="head, last layer",
        ),
    )
    return view


def trace_beams(
    translator: Translator, sentence: str, beam_size: int, length_penalty: float
) -> tuple[list[list[tuple[int, str, float]]], Beams]:
    """Do what `beam_search` does for one sentence, and keep every step.

    returns  for each step, for each beginning kept: the number of the one before that it goes on
             from, its last token ("" if it had ended before), its log-probability in nats; and the
             beams at the end, (1, beams)

    Raises ValueError if the sentence is empty or too long, beam_size is not in 1 ... the number of
    words that can come next, or length_penalty not in 0 ... 10.
    """
    source = read_source(translator, sentence)
    net, _, tgt_vocab, num_steps = translator
    words = range(1, len(tgt_vocab) - 1)  # that can come next: no <pad>, no <bos>
    beam_size = check_setting("beam_size", beam_size, words)
    length_penalty = check_number("length_penalty", length_penalty, 0, 10)
    with in_mode(net, training=False), torch.inference_mode(), keep_attention_weights(net, False):
        settings = tgt_vocab, num_steps, beam_size, length_penalty
        grown = list(beam_steps(net, *source, *settings))
    steps, ended = [], [False] * beam_size
    for beams, beam, token in grown:
        parents, words = beam[0].tolist(), tgt_vocab.to_tokens(token[0])
        words = ["" if ended[i] else word for i, word in zip(parents, words, strict=True)]
        steps.append(list(zip(parents, words, beams.scores[0].tolist(), strict=True)))
        ended = beams.finished[0].tolist()
    return steps, Beams(*(field.cpu() for field in beams))


def draw_beams(
    translator: Translator, sentence: str, beam_size: int, length_penalty: float
) -> Picture:
    """The tree of a beam search, and the ranking of what it ends with.

    Raises ValueError as `trace_beams`.
    """
    length_penalty = check_number("length_penalty", length_penalty, 0, 10)
    return draw_search(
        trace_steps(translator, sentence)[0],
        *trace_beams(translator, sentence, beam_size, length_penalty),
        length_penalty,
    )


def draw_search(greedy: Translation, steps: Tree, beams: Beams, length_penalty: float) -> Picture:
    """Draw what `trace_beams` kept; the words name what greedy search found."""
    ranks, beam_size = beams.ranks(length_penalty)[0].tolist(), beams.scores.shape[1]
    order = sorted(range(beam_size), key=lambda i: -ranks[i])
    rows, texts = [f"rank  log-prob.  tokens  / tokens^{length_penalty:g}"], []
    for place, i in enumerate(order, start=1):
        score, length = float(beams.scores[0, i]), int(beams.lengths[0, i])
        texts.append(" ".join(t for t in trace_back(steps, i)[1] if t not in ("", "<eos>")))
        numbers = f"{place:4} {score:10.2f} {length:7} {ranks[i]:11.2f}"
        rows.append(f"{numbers}   {shorten(texts[-1], 88)}")
    tree, below = 0.45 * beam_size + 0.4, 0.175 * len(rows) + 0.8  # inches; room for three lines
    high = tree + below + 0.1
    picture = Picture((9.4, high), layout="none")
    axes = picture.add_axes((0, (below + 0.1) / high, 1, tree / high))
    drawn = [[(parent, shorten(token), score) for parent, token, score in step] for step in steps]
    draw_beam_tree(axes, drawn, order[0])
    look = {"family": "monospace", "size": "small", "va": "top", "parse_math": False}
    picture.text(0.02, below / high, "\n".join(rows), **look)
    score, length = float(beams.scores[0, order[0]]), int(beams.lengths[0, order[0]])
    source = " ".join(greedy.attention.source[:-1])
    said = (
        f"{source!r}, beam of {beam_size}, length penalty {length_penalty:g}: {texts[0]!r}, "
        f"probability {math.exp(score):.3f}; log-probability {score:.2f} over {length} tokens to "
        f"the power {length_penalty:g} is {ranks[order[0]]:.2f}. Greedy search: {greedy.text!r}, "
        f"probability {math.exp(greedy.log_prob):.3f}."
    )
    picture.description = " ".join([said, *say_unknown(greedy)])
    return picture


def say_unknown(result: Translation) -> list[str]:
    """A sentence that names the unknown words, if there are any."""
    if not result.unknown:
        return []
    return [f"Unknown, read as <unk>: {', '.join(result.unknown)}."]


def explore_beams(
    translator: Translator | None = None, sentence: str = "I met her yesterday."
) -> Explorer:
    """A sentence, the beam and the length penalty against the tree and the final ranking.

    translator  as for `explore_steps`
    """
    translator = ready_translator() if translator is None else translator
    check_kind("the translator", translator, Translator)
    check_text("the sentence", sentence)
    greedy = functools.lru_cache(maxsize=64)(lambda sentence: trace_steps(translator, sentence)[0])

    def draw(sentence: str, beam_size: int, length_penalty: float) -> Picture:
        search = trace_beams(translator, sentence, beam_size, length_penalty)
        return draw_search(greedy(sentence), *search, length_penalty)

    return Explorer(
        draw,
        sentence=widgets.Text(sentence, description="sentence"),
        beam_size=widgets.IntSlider(3, 1, 6, description="beam"),
        length_penalty=widgets.FloatSlider(
            0.75, min=0, max=2, step=0.25, description="length penalty"
        ),
    )
