"""Progress: the stopwatch, the sums, and the plot: in a script, in a terminal, in a real kernel."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.image
import matplotlib.pyplot as plt
import nbclient
import nbformat
import pytest
import torch
from nbformat import NotebookNode

import d2l_mini as d2l

ROOT = Path(__file__).resolve().parent.parent


def points(animator: d2l.Animator, panel: int = 0) -> list[list[tuple[float, float]]]:
    """The points of every line of a panel."""
    lines = animator.axes[panel].lines
    return [list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in lines]


def colored_dots(png: bytes) -> int:
    """How many dots of a picture are blue, as the first line is."""
    image = matplotlib.image.imread(io.BytesIO(png), format="png")
    return int((image[..., 2] - image[..., 0] > 0.3).sum())


# Timer ---------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets, and a record of what was asked of it and of the accelerator."""
    record = []
    now = {"seconds": 0.0, "record": record}
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: record.append("synchronize"))
    monkeypatch.setattr(time, "perf_counter", lambda: (record.append("read"), now["seconds"])[1])
    return now


def test_timer_records_the_time_between_start_and_stop(clock):
    timer = d2l.Timer()
    clock["seconds"] = 2.0
    assert timer.stop() == 2
    clock["seconds"] = 10.0
    timer.start()
    clock["seconds"] = 14.0
    assert timer.stop() == 4
    assert timer.times == [2, 4]
    assert (timer.sum(), timer.avg(), timer.cumsum()) == (6, 3, [2, 6])


def test_timer_waits_for_the_accelerator_before_it_reads_the_clock(clock):
    d2l.Timer().stop()
    assert clock["record"] == ["synchronize", "read"] * 2


def test_timer_does_not_ask_for_an_accelerator_that_is_not_there(clock, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    d2l.Timer().stop()
    assert clock["record"] == ["read"] * 2


def test_timer_measures_seconds():
    timer = d2l.Timer()
    time.sleep(0.05)
    assert 0.05 <= timer.stop() < 1


# Accumulator ---------------------------------------------------------------------------------


def test_accumulator_adds_numbers_and_tensors():
    metric = d2l.Accumulator(3)
    metric.add(1, 2.5, torch.tensor(3))
    metric.add(torch.tensor(1.5, requires_grad=True), True, torch.tensor(4))
    assert [metric[i] for i in range(3)] == [2.5, 3.5, 7]
    assert all(type(metric[i]) is float for i in range(3))
    metric.reset()
    assert [metric[i] for i in range(3)] == [0, 0, 0]


def test_accumulator_adds_tensors_without_reading_them():
    metric = d2l.Accumulator(1)
    for _ in range(3):
        metric.add(torch.ones((), device="meta"))  # a tensor without values: reading it fails
    with pytest.raises(RuntimeError, match="meta"):
        metric[0]


def test_accumulator_keeps_no_graph():
    metric = d2l.Accumulator(1)
    metric.add(2 * torch.ones((), requires_grad=True))
    assert metric.data[0].grad_fn is None


@pytest.mark.parametrize("values", [(), (1,), (1, 2, 3)])
def test_accumulator_refuses_another_number_of_values(values):
    with pytest.raises(ValueError, match=f"has 2 sums, but was given {len(values)}"):
        d2l.Accumulator(2).add(*values)


# Animator in a script ------------------------------------------------------------------------


def test_every_series_gets_a_line_also_with_more_series_than_formats():
    """F072: a fifth curve is dropped."""
    animator = d2l.Animator("epoch", legend=[f"series {i}" for i in range(6)])
    for epoch in (1, 2):
        animator.add(epoch, [epoch * i for i in range(6)])
    assert points(animator) == [[(1, i), (2, 2 * i)] for i in range(6)]
    lines = animator.axes[0].lines
    assert [line.get_label() for line in lines] == [f"series {i}" for i in range(6)]
    assert [line.get_linestyle() for line in lines] == ["-", "--", "-.", ":", "-", "--"]
    texts = animator.axes[0].get_legend().get_texts()
    assert [text.get_text() for text in texts] == [f"series {i}" for i in range(6)]


def test_a_value_of_none_gives_no_point():
    animator = d2l.Animator()
    animator.add(1, (5, None))
    animator.add((2, None), (6, 7))
    animator.add(3, (None, 8))
    assert points(animator) == [[(1, 5), (2, 6)], [(3, 8)]]


def test_a_line_may_begin_late():
    animator = d2l.Animator()
    animator.add(1, 5)
    animator.add(2, (6, 7))
    assert points(animator) == [[(1, 5), (2, 6)], [(2, 7)]]


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (torch.tensor(1), torch.tensor(5.0, requires_grad=True)),
        (torch.tensor([1.0]), [torch.tensor(5.0)]),
        ((1,), torch.tensor([5.0])),
    ],
)
def test_tensors_are_as_good_as_numbers(x, y):
    animator = d2l.Animator()
    animator.add(x, y)
    assert points(animator) == [[(1, 5)]]


@pytest.mark.parametrize(("x", "y"), [((1, 2), (3,)), ((1,), (3, 4)), ((1, 2), 3)])
def test_x_and_y_of_different_length_are_refused(x, y):
    animator = d2l.Animator()
    numbers = f"{len(x)} values of x for {len(y) if isinstance(y, tuple) else 1} of y"
    with pytest.raises(ValueError, match=numbers):
        animator.add(x, y)


def test_a_grid_has_a_panel_for_each_cell():
    """F073: only the first panel is drawn."""
    animator = d2l.Animator("epoch", nrows=2, ncols=3, figsize=(2, 1))
    assert len(animator.axes) == 6
    assert animator.fig.get_size_inches().tolist() == [6, 2]
    for panel in range(6):
        animator.add(1, panel, panel=panel)
    assert [points(animator, panel) for panel in range(6)] == [[[(1, i)]] for i in range(6)]


def test_settings_reach_the_axes():
    animator = d2l.Animator("epoch", "loss", xlim=[1, 20], ylim=[0.1, 9], yscale="log")
    [axes] = animator.axes
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("epoch", "loss", "log")
    assert (axes.get_xlim(), axes.get_ylim()) == ((1, 20), (0.1, 9))


def test_in_a_script_the_last_values_are_said_once(capsys):
    animator = d2l.Animator("epoch", "loss", legend=["train", "test"])
    for epoch in range(1, 41):
        animator.add(epoch, (1 / epoch, 2 / epoch))
    assert capsys.readouterr() == ("", "")
    animator.close()
    assert capsys.readouterr() == ("epoch 40: train 0.025, epoch 40: test 0.05\n", "")
    animator.close()
    assert capsys.readouterr() == ("", "")


def test_without_points_nothing_is_said(capsys):
    d2l.Animator("epoch").close()
    assert capsys.readouterr() == ("", "")


def test_points_after_the_close_are_said_by_the_next_one(capsys):
    animator = d2l.Animator("epoch", "loss")
    for epoch in (1, 2):
        animator.add(epoch, epoch / 2)
        animator.close()
    assert capsys.readouterr().out == "epoch 1: loss 0.5\nepoch 2: loss 1\n"


def test_a_terminal_has_one_line_that_is_rewritten(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    animator = d2l.Animator("epoch", "loss")
    for epoch in (1, 2, 3, 4):
        animator.next_time = 0.0 if epoch in (1, 3) else float("inf")  # 2 and 4 come too soon
        animator.add(epoch, epoch / 2)
    animator.close()
    lines = [
        f"\r\x1b[Kepoch {epoch}: loss {value}" for epoch, value in ((1, 0.5), (3, 1.5), (4, 2))
    ]
    assert capsys.readouterr().out == "".join(lines) + "\n"


def test_no_figure_stays_open_in_pyplot():
    before = plt.get_fignums()
    animator = d2l.Animator()
    animator.add(1, 2)
    animator.close()
    d2l.show_heatmaps(torch.eye(2)[None, None], "keys", "queries")
    assert plt.get_fignums() == before


def test_plots_do_without_pyplot():
    """F070, F071: an import that is gone; plt.pause."""
    program = (
        "import sys, torch, d2l_mini as d2l\n"
        "animator = d2l.Animator('epoch', 'loss')\n"
        "animator.add(1, 2)\n"
        "animator.close()\n"
        "picture = d2l.show_heatmaps(torch.eye(2)[None, None], 'keys', 'queries')\n"
        "picture._repr_mimebundle_()\n"
        "print('matplotlib.figure' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.stdout == "epoch 1: loss 2\nTrue False\n", run.stderr


# Animator in a notebook ----------------------------------------------------------------------

CELLS = {
    "setup": """
        import signal, time, torch, d2l_mini as d2l
        drawings, draw = [], d2l.Animator._draw
        def timed(self):
            start = time.perf_counter()
            draw(self)
            drawings.append(time.perf_counter() - start)
        d2l.Animator._draw = timed
    """,
    "thirty": """
        print("before")
        animator = d2l.Animator("epoch", "loss")
        for epoch in range(1, 31):
            animator.add(epoch, 1 / epoch)
            if epoch == 1:
                print("between")
                time.sleep(0.01)
        print("after")
    """,
    "more": """
        animator.add(31, 0.5)
        animator.add(32, 0.25)
    """,
    "one": """
        animator = d2l.Animator("epoch", "loss", xlim=[1, 2])
        animator.add(1, 0.5)
    """,
    "three": """
        animator = d2l.Animator("epoch", "loss", xlim=[1, 3])
        for epoch in (1, 2, 3):
            animator.add(epoch, epoch)
    """,
    "two": """
        for name in ("first", "second"):
            animator = d2l.Animator("epoch", name)
            animator.add(1, 0.5)
            animator.add(2, 0.5)
    """,
    "closed": """
        animator = d2l.Animator("epoch", "loss")
        animator.add(1, 0.5)
        animator.add(2, 0.25)
        animator.close()
        animator.close()
    """,
    "error": """
        animator = d2l.Animator("epoch", "loss")
        for epoch in range(1, 10):
            animator.add(epoch, epoch)
            if epoch == 7:
                raise ValueError("no more")
    """,
    "interrupt": """
        animator = d2l.Animator("epoch", "loss")
        for epoch in range(1, 10):
            animator.add(epoch, epoch)
            if epoch == 7:
                signal.raise_signal(signal.SIGINT)
    """,
    "many": """
        drawings.clear()
        animator = d2l.Animator("step", "loss")
        start = time.perf_counter()
        for step in range(2000):
            animator.add(step, step % 7)
        print(time.perf_counter() - start, len(drawings))
    """,
    "slow": """
        drawings.clear()
        animator = d2l.Animator("step", "loss")
        animator.add(0, 0)
        first = drawings.pop()
        start = time.perf_counter()
        while time.perf_counter() < start + 2.5:
            animator.add(time.perf_counter() - start, 1)
            time.sleep(0.005)
        print(sum(drawings) / (time.perf_counter() - start), len(drawings))
    """,
    "train": """
        sentences = [["go", "."], ["run", "."]]
        train_iter, src_vocab, tgt_vocab = d2l.build_data_nmt(sentences, sentences, 2, 4, 1)
        net = d2l.EncoderDecoder(
            d2l.TransformerEncoder(len(src_vocab), 8, 8, 2, 1),
            d2l.TransformerDecoder(len(tgt_vocab), 8, 8, 2, 1),
        )
        device = torch.device("cpu")
        history = d2l.train_seq2seq(net, train_iter, 0.01, 3, tgt_vocab, device)
    """,
    "stopped training": """
        def load(batch):
            if len(history.loss) == 5:
                signal.raise_signal(signal.SIGINT)
            return batch
        data = torch.utils.data.DataLoader(list(train_iter), batch_size=None, collate_fn=load)
        history = d2l.train_seq2seq(net, data, 0.01, 30, tgt_vocab, device, history)
        print(len(history.loss))
    """,
}


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[NotebookNode]]:
    """Run CELLS in one kernel; the outputs of each."""
    sources = [nbformat.v4.new_code_cell(_dedent(source)) for source in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=sources)
    nbclient.NotebookClient(
        notebook, timeout=60, allow_errors=True, resources={"metadata": {"path": str(ROOT)}}
    ).execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def _dedent(source: str) -> str:
    return "\n".join(line[8:] for line in source.strip("\n").splitlines())


def said(outputs: list[NotebookNode]) -> str:
    return "".join(output.text for output in outputs if output.output_type == "stream")


def pictures(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The data of all outputs that are neither print nor error: they should be pictures."""
    return [output.data for output in outputs if output.output_type not in ("stream", "error")]


def test_the_setup_of_the_notebook_works(outputs):
    assert outputs["setup"] == []


def test_thirty_points_make_one_picture_that_is_updated_in_place(outputs):
    """F068: a figure for each update."""
    [picture] = pictures(outputs["thirty"])
    assert picture["text/plain"] == "epoch 30: loss 0.03333"  # the first drawing had epoch 1
    assert base64.b64decode(picture["image/png"]).startswith(b"\x89PNG")
    assert set(picture) == {"image/png", "text/html", "text/plain"}


def test_what_was_printed_stays(outputs):
    """F069: clear_output wipes what was printed."""
    assert said(outputs["thirty"]) == "before\nbetween\nafter\n"


def test_a_later_cell_makes_one_picture_of_its_own_with_all_points(outputs):
    [picture] = pictures(outputs["more"])
    assert picture["text/plain"] == "epoch 32: loss 0.25"
    assert "epoch 30" in pictures(outputs["thirty"])[0]["text/plain"]


@pytest.mark.parametrize("cell", ["one", "three"])
def test_a_few_points_are_seen(cell, outputs):
    """F074: fewer than ten epochs give an empty plot."""
    [picture] = pictures(outputs[cell])
    assert colored_dots(base64.b64decode(picture["image/png"])) > 20


def test_two_plots_in_a_cell_are_two_pictures(outputs):
    texts = [picture["text/plain"] for picture in pictures(outputs["two"])]
    assert texts == ["epoch 2: first 0.5", "epoch 2: second 0.5"]


def test_close_shows_the_last_state_and_only_once(outputs):
    [picture] = pictures(outputs["closed"])
    assert picture["text/plain"] == "epoch 2: loss 0.25"


@pytest.mark.parametrize(
    ("cell", "name"), [("error", "ValueError"), ("interrupt", "KeyboardInterrupt")]
)
def test_a_cell_that_breaks_off_still_shows_the_last_state(cell, name, outputs):
    [picture] = pictures(outputs[cell])
    assert picture["text/plain"] == "epoch 7: loss 7"
    assert [output.ename for output in outputs[cell] if output.output_type == "error"] == [name]


def test_two_thousand_quick_points_cost_little(outputs):
    seconds, drawings = map(float, said(outputs["many"]).split())
    assert drawings <= 1 + seconds / 0.2
    assert seconds < 3


def test_drawing_takes_a_small_share_of_the_time(outputs):
    share, drawings = map(float, said(outputs["slow"]).split())
    assert drawings >= 1
    assert share < 0.2


def test_training_shows_one_picture_and_says_the_loss(outputs):
    [picture] = pictures(outputs["train"])
    assert picture["text/plain"].startswith("epoch 3: nats per token ")
    assert said(outputs["train"]).startswith("loss ")
    assert said(outputs["train"]).count("\n") == 1


def test_interrupting_the_kernel_ends_training_and_keeps_the_history(outputs):
    [picture] = pictures(outputs["stopped training"])
    assert picture["text/plain"].startswith("epoch 5: nats per token ")
    assert "stopped in epoch 6; the net keeps what it has learnt" in said(
        outputs["stopped training"]
    )
    assert said(outputs["stopped training"]).endswith("\n5\n")


def test_sums_of_counts_are_exact():
    accumulator = d2l.Accumulator(1)
    for count in (2**24, 1, 1):
        accumulator.add(torch.tensor(count))
    assert accumulator[0] == 2**24 + 2


def test_a_stopwatch_without_a_time_has_no_mean():
    with pytest.raises(ValueError, match="no time is recorded yet"):
        d2l.Timer().avg()


@pytest.mark.parametrize("value", [None, "3", 1j, [], torch.zeros(2)], ids=repr)
def test_what_is_no_number_is_not_added(value):
    sums = d2l.Accumulator(2)
    with pytest.raises(TypeError, match="a number is asked for, but"):
        sums.add(1, value)
    assert sums.data == [0, 0]


@pytest.mark.parametrize("panel", [1, -1, 0.0, None])
def test_a_panel_that_is_not_there_is_named(panel):
    with pytest.raises((ValueError, TypeError), match=f"panel is {panel}; it must "):
        d2l.Animator().add(1, 2, panel)


def test_a_point_that_is_no_number_leaves_every_line_as_it_was():
    animator = d2l.Animator()
    with pytest.raises(TypeError, match="a number is asked for, but 'x' is none"):
        animator.add(1, (1, "x"))
    assert [len(line.get_xdata()) for line in animator.axes[0].lines] == []


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([torch.tensor(200, dtype=torch.uint8)] * 2, 400),
        ([torch.tensor(100, dtype=torch.int8)] * 2, 200),
        ([torch.tensor(2**31 - 1, dtype=torch.int32), 1], 2**31),
        ([torch.tensor(2.0**24)] + [torch.tensor(1.0)] * 3, 2**24 + 3),
        ([torch.tensor(True)] * 3, 3),
    ],
    ids=["uint8", "int8", "int32", "float32", "bool"],
)
def test_a_sum_is_larger_than_what_its_parts_can_hold(values, total):
    accumulator = d2l.Accumulator(1)
    for value in values:
        accumulator.add(value)
    assert accumulator[0] == total


@pytest.mark.parametrize("odd", [torch.tensor(1j), torch.ones(1).to_sparse(), torch.ones(2)])
def test_what_is_not_one_number_is_not_added(odd):
    with pytest.raises(TypeError, match="a number is asked for"):
        d2l.Accumulator(1).add(odd)
