"""The views of notebook 07: every attention map of a translation, and how maps come about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

import ipywidgets as widgets
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from d2l_mini.checks import check_kind, in_line
from d2l_mini.explorers.base import (
    Explorer,
    captioned,
    check_setting,
    panels,
    shorten,
    write_words,
)
from d2l_mini.explorers.prediction import read_source
from d2l_mini.pictures import COLORS, Picture
from d2l_mini.training import LEARNING_RATES, Translator, ready_translator
from d2l_mini.transformer import in_mode
from d2l_mini.translation import Translation, attention_maps, translate

__all__ = ["draw_attention", "draw_epochs", "explore_attention", "explore_epochs"]


MEAN = "mean"
# For each kind of attention: its field of AttentionMaps, the words of its rows and of its columns,
# and what these words are.
MAPS = {
    "cross-attention": (
        "cross",
        "outputs",
        "source",
        "rows: words written",
        "columns: English words read",
    ),
    "decoder self-attention": (
        "decoder",
        "outputs",
        "inputs",
        "rows: words written",
        "columns: words read before",
    ),
    "encoder self-attention": (
        "encoder",
        "source",
        "source",
        "rows: words read",
        "columns: words read",
    ),
}


def draw_attention(
    translator: Translator,
    sentence: str,
    kind: str,
    layer: int,
    head: int | str,
    step: int,
    line: str,
    word: int,
) -> Picture:
    """What a head looks at while a sentence is translated, and one row or column in numbers.

    sentence  English
    kind      one of MAPS
    layer     from 1
    head      from 1, or "mean" of all
    step      how many words are written: the decoder's later rows are not there yet
    line      "row" or "column": which of the two is framed
    word      the number of that row or column, from 1

    Raises ValueError if the sentence is empty or too long, or there is no such kind, layer, head,
    step, line or word.
    """
    result = read_sentence(translator, sentence)
    step = check_setting("step", step, range(1, translator.num_steps + 1))
    return draw_map(result, kind, layer, head, step, line, word)


def read_sentence(translator: Translator, sentence: str) -> Translation:
    """Translate a sentence, and keep what was looked at.

    Raises ValueError if the sentence is empty or longer than the translator reads.
    """
    device = read_source(translator, sentence)[0].device
    net, *settings = translator
    [result] = translate(net, [sentence], *settings, device, save_attention_weights=True)
    return result


def draw_map(
    result: Translation,
    kind: str,
    layer: int,
    head: int | str,
    step: int,
    line: str,
    word: int,
) -> Picture:
    """As `draw_attention`, for a sentence that is translated already."""
    kind = check_setting("kind", kind, list(MAPS))
    line = check_setting("line", line, ("row", "column"))
    field, rows, columns, *captions = MAPS[kind]
    rows, columns = getattr(result.attention, rows), getattr(result.attention, columns)
    weights = choose_head(getattr(result.attention, field), layer, head)
    words, others = (rows, columns) if line == "row" else (columns, rows)
    word = check_setting(f"the {line}", word, range(1, len(words) + 1))
    if field != "encoder":
        weights[step:] = torch.nan
    if field == "decoder":
        weights[torch.ones_like(weights).triu(1).bool()] = torch.nan
    numbers = weights[word - 1] if line == "row" else weights[:, word - 1]
    picture, (left, right) = panels(
        2, 2.6, 2.6, wspace=1.75, left=1.45, right=0.55, bottom=1.75, top=0.35
    )
    draw_heat(left, weights, rows, columns, captions)
    corner = (-0.5, word - 1.5) if line == "row" else (word - 1.5, -0.5)
    size = (len(columns), 1) if line == "row" else (1, len(rows))
    left.add_patch(Rectangle(corner, *size, fill=False, ec=COLORS[0], lw=2.5, clip_on=False))
    draw_numbers(right, numbers, others)
    title = f"{line} {word}: {shorten(words[word - 1])}"
    right.set_title(title, size="medium", parse_math=False)
    unknown = f" Unknown to the model: {', '.join(result.unknown)}." if result.unknown else ""
    picture.description = (
        f"Translation: '{result.text}'. {kind.capitalize()}, layer {layer}, {name_head(head)}: "
        f"{say_numbers(line, word, words[word - 1], others, numbers, step)}{unknown}"
    )
    return picture


def choose_head(weights: Tensor, layer: int, head: int | str) -> Tensor:
    """A copy of one map, or the mean of a layer's: (layers, heads, queries, keys) -> two of these.

    Raises ValueError where there is no such layer or head.
    """
    layers, heads = weights.shape[:2]
    layer = check_setting("layer", layer, range(1, layers + 1))
    head = check_setting("head", head, [MEAN, *range(1, heads + 1)])
    if head == MEAN:
        return weights[layer - 1].mean(dim=0)
    return weights[layer - 1, head - 1].clone()


def name_head(head: int | str) -> str:
    """A head, or the mean of all, in words."""
    return "mean of the heads" if head == MEAN else f"head {head}"


def draw_heat(
    axes: Axes,
    weights: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    captions: Sequence[str],
) -> None:
    """Draw a map with its words and its scale; what is NaN is grey, with a dot."""
    axes.set_facecolor("0.88")
    image = axes.imshow(weights.numpy(), cmap="Reds", vmin=0, vmax=1, aspect="auto")
    y, x = weights.isnan().nonzero().T.tolist()
    axes.scatter(x, y, s=9, marker=".", color="0.45")
    write_words(axes, columns, rows)
    picture, (x, y, wide, high) = axes.figure, axes.get_position().bounds
    width = picture.get_figwidth()
    picture.text(0.14 / width, y + high / 2, captions[0], rotation=90, ha="center", va="center")
    axes.set_title(captions[1], size="medium")
    bar = picture.add_axes((x + wide + 0.08 / width, y, 0.1 / width, high))
    picture.colorbar(image, cax=bar, ticks=(0, 0.5, 1))


def draw_numbers(axes: Axes, numbers: Tensor, words: Sequence[str]) -> None:
    """Draw weights as bars beside their words, each with its value; a NaN has neither."""
    axes.barh(range(len(words)), numbers.nan_to_num(0).tolist(), color=COLORS[0])
    axes.set(xlim=(0, 1), ylim=(len(words) - 0.5, -0.5), yticks=[], xticks=(0, 0.5, 1))
    axes.set_xlabel("weight")
    for i, (number, word) in enumerate(zip(numbers.tolist(), words, strict=True)):
        axes.text(-0.03, i, shorten(word), ha="right", va="center_baseline", parse_math=False)
        if number == number:  # not NaN
            axes.text(1.03, i, f"{number:.2f}", va="center_baseline")


def say_numbers(
    line: str, place: int, word: str, others: Sequence[str], numbers: Tensor, step: int
) -> str:
    """One row or column of a map in words."""
    there = [f"{w} {x:.2f}" for w, x in zip(others, numbers.tolist(), strict=True) if x == x]
    if there:
        return f"{word} {'looks at' if line == 'row' else 'is seen by'} {', '.join(there)}."
    if line == "row":
        return f"the row of {word} comes at step {place}, and {step} is the last so far."
    return f"{word} is read at step {place}, and {step} is the last so far."


def free_path(name: str) -> Path:
    """A PNG of this name in the working folder, or with -2, -3 ... where there is one already."""
    numbered = (Path(f"{name}-{number}.png") for number in count(2))
    return next(path for path in chain([Path(f"{name}.png")], numbered) if not path.exists())


def save_picture(view: Explorer) -> None:
    """Write the picture and its line as a PNG into the working folder, and say how it is named."""
    shown = view.settings  # which the controls are not, after a mistake
    kind = shown.get("kind", "cross-attention").replace(" ", "-")
    path = free_path(f"{kind}-layer-{shown['layer']}-head-{shown['head']}")
    try:
        with captioned(view.picture) as picture:
            path.write_bytes(picture.png())
    except OSError as error:
        view.words.value = (
            f"<b>⚠ {path} could not be written ({error.strerror}): start Jupyter in a folder that "
            "is yours.</b>"
        )
    else:
        view.words.value = f"Saved beside the notebook as <b>{path}</b>."


def explore_attention(translator: Translator | None = None) -> Explorer:
    """A sentence of the reader's against every map of its translation, word by word.

    translator  whose attention is shown; None = `ready_translator()`
    """
    translator = ready_translator() if translator is None else translator
    check_kind("the translator", translator, Translator)
    read = lru_cache(maxsize=16)(partial(read_sentence, translator))  # a sentence, once

    def draw(sentence, kind, layer, head, step, line, word) -> Picture:
        return draw_map(read(sentence), kind, layer, head, step, line, word)

    blks, num_steps = translator.net.encoder.blks, translator.num_steps
    heads = [MEAN, *range(1, blks[0].attention.num_heads + 1)]
    layers = [*range(1, len(blks) + 1)]
    controls = {
        "sentence": widgets.Text(
            "We're buying a blue car.", description="English", layout={"width": "24em"}
        ),
        "kind": widgets.Dropdown(options=list(MAPS), description="kind"),
        "layer": widgets.Dropdown(options=layers, value=layers[-1], description="layer"),
        "head": widgets.Dropdown(options=heads, description="head"),
        "step": widgets.IntSlider(num_steps, 1, num_steps, description="words written"),
        "line": widgets.Dropdown(options=["row", "column"], description="show"),
        "word": widgets.Dropdown(options=[1], description="of"),  # its words come below
    }
    step, word = controls["step"], controls["word"]

    def offer(change) -> None:
        with view.held("step"), view.held("word"):
            offer_words(controls, read)
            if change["owner"] is not controls["line"]:
                step.value = step.max

    for name in ("sentence", "kind", "line"):
        controls[name].observe(offer, names="value")  # before the view does: it finds the words
    offer_words(controls, read)
    word.index = min(3, len(word.options) - 1)
    view = Explorer(draw, {"save as PNG": save_picture}, **controls)
    return view


def offer_words(
    controls: Mapping[str, widgets.ValueWidget], read: Callable[[str], Translation]
) -> None:
    """Let the reader choose among the rows or the columns of the map, from the same place on.

    There are as many steps as words are written; the encoder has none.
    """
    try:
        maps = read(controls["sentence"].value).attention
    except ValueError:  # the view says it
        return
    field, rows, columns, *_ = MAPS[controls["kind"].value]
    controls["step"].max = len(maps.outputs)
    controls["step"].disabled = field == "encoder"
    words = getattr(maps, rows if controls["line"].value == "row" else columns)
    place = controls["word"].index
    controls["word"].options = [(f"{i} {word}", i) for i, word in enumerate(words, start=1)]
    controls["word"].index = min(place, len(words) - 1)


class Course(NamedTuple):
    """A sentence and its translation, as the translators of all epochs see it.

    texts    what each of them makes of it
    weights  (epochs, layers, heads, target, source), while each writes the last one's translation
    source   the tokens that they read
    outputs  the tokens that the last one wrote
    """

    texts: list[str]
    weights: Tensor
    source: list[str]
    outputs: list[str]


def draw_epochs(
    translators: Sequence[Translator], sentence: str, epoch: int, layer: int, head: int | str
) -> Picture:
    """The cross-attention after an epoch of training, and how far its rows spread after each.

    translators  after 0, 1, 2 ... epochs
    sentence     English; all write the translation that the last of them makes
    epoch        whose map is shown, from 0
    layer, head  from 1; a head may be "mean"

    Raises ValueError if the sentence is empty or too long, or there is no such epoch, layer or
    head.
    """
    return draw_course(follow_sentence(translators, sentence), epoch, layer, head)


def check_translators(translators: Sequence[Translator]) -> Sequence[Translator]:
    """Return translators; raise TypeError where they are no list, ValueError where it is empty."""
    if not isinstance(translators, (list, tuple)):
        raise TypeError(f"translators must be a list, but are {in_line(translators)}")
    if not translators:
        raise ValueError("there are 0 translators, but it takes 1 or more to follow a sentence")
    for translator in translators:
        check_kind("the translator", translator, Translator)
    return translators


def follow_sentence(translators: Sequence[Translator], sentence: str) -> Course:
    """Translate a sentence after each epoch, and keep the cross-attention.

    Raises as `read_sentence` and `check_translators`.
    """
    translators = check_translators(translators)
    results = [read_sentence(translator, sentence) for translator in translators]
    source, inputs, outputs = results[-1].attention[3:]
    weights = []
    for net, src_vocab, tgt_vocab, _ in translators:
        device = next(net.parameters()).device
        enc_X = torch.tensor([src_vocab[source]], device=device)  # (1, source)
        dec_X = torch.tensor([tgt_vocab[inputs]], device=device)  # (1, target)
        with in_mode(net, training=False):
            weights.append(attention_maps(net, enc_X, dec_X)[2])
    return Course([result.text for result in results], torch.stack(weights), source, outputs)


def draw_course(course: Course, epoch: int, layer: int, head: int | str) -> Picture:
    """As `draw_epochs`, for a sentence that was followed already."""
    last = len(course.weights) - 1
    epoch = check_setting("epoch", epoch, range(last + 1))
    maps = torch.stack([choose_head(weights, layer, head) for weights in course.weights])
    spread = torch.special.entr(maps).sum(dim=-1).exp().mean(dim=1)  # (epochs,)
    weights = maps[epoch]
    picture, (left, right) = panels(
        2, 2.6, 2.6, wspace=1.3, left=1.45, right=0.3, bottom=1.75, top=0.35
    )
    draw_heat(left, weights, course.outputs, course.source, MAPS["cross-attention"][3:])
    best = weights.argmax(dim=1).tolist()
    left.scatter(best, range(len(best)), s=30, marker="D", color=COLORS[0], edgecolor="white")
    right.plot(spread.numpy(), color=COLORS[0], marker="o")
    right.plot([epoch], [spread[epoch]], "s", color=COLORS[1], markersize=9)
    right.set(xlabel="epoch", ylabel="words a row spreads over", xticks=(0, last))
    right.set(ylim=(0.8, len(course.source) + 0.2), yticks=(1, len(course.source)))
    right.grid(alpha=0.4)
    most = (f"{word} → {course.source[k]}" for word, k in zip(course.outputs, best, strict=True))
    picture.description = (
        f"After epoch {epoch}: '{course.texts[epoch]}'. Layer {layer}, {name_head(head)}, "
        f"{spread[epoch]:.1f} of {len(course.source)} words a row; most weight: {', '.join(most)}."
    )
    return picture


def explore_epochs(translators: Sequence[Translator] | None = None) -> Explorer:
    """The epoch, the layer and the head against the cross-attention of a sentence.

    translators  after 0, 1, 2 ... epochs; None = those of `ready_translator`
    """
    if translators is None:
        translators = [ready_translator(epoch) for epoch in range(len(LEARNING_RATES) + 1)]
    translators = check_translators(translators)
    follow = lru_cache(maxsize=16)(partial(follow_sentence, translators))

    def draw(sentence, epoch, layer, head) -> Picture:
        return draw_course(follow(sentence), epoch, layer, head)

    blks, last = translators[0].net.decoder.blks, len(translators) - 1
    layers = [*range(1, len(blks) + 1)]
    return Explorer(
        draw,
        sentence=widgets.Text(
            "We're buying a blue car.", description="English", layout={"width": "24em"}
        ),
        epoch=widgets.IntSlider(last, 0, last, description="epoch"),
        layer=widgets.Dropdown(options=layers, value=layers[-1], description="layer"),
        head=widgets.Dropdown(
            options=[MEAN, *range(1, blks[0].attention2.num_heads + 1)], description="head"
        ),
    )
