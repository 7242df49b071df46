"""Training from the command line: what it writes, how it stops and goes on, several processes."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from torch import nn

import d2l_mini as d2l
from d2l_mini import train, training

ROOT = Path(__file__).resolve().parent.parent
SMALL = ["--hiddens", "16", "--ffn-hiddens", "16", "--heads", "2", "--layers", "1"]
SMALL += ["--device", "cpu", "--hold-out", "0.1"]
# For the comparison of several processes with one: each has dropout of its own, so there is none.
WHOLE = [*SMALL, "--pairs", "120", "--dropout", "0", "--tokens", "100000", "--warm-up", "1"]


def run(path: Path, *options: str) -> list[dict[str, str]]:
    """Train in this process; return the lines of the CSV file."""
    assert train.main(["--output", str(path), *SMALL, *options]) == 0
    return read_lines(path)


def read_lines(path: Path) -> list[dict[str, str]]:
    with path.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def losses(lines: list[dict[str, str]]) -> list[float]:
    return [float(line["loss"]) for line in lines]


def command(*options: str, processes: int = 1) -> list[str]:
    """The command line, for one process or for several."""
    many = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    start = many if processes > 1 else []
    return [sys.executable, *start, "-m", "d2l_mini.train", *options]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


# Batches -------------------------------------------------------------------------------------


def test_each_row_is_in_one_batch_with_rows_of_its_length():
    lengths = torch.randint(2, 30, (500,))
    batches = d2l.batches_by_length(lengths, 120)
    assert sorted(torch.cat(batches).tolist()) == list(range(500))
    sizes = [len(rows) * int(lengths[rows].max()) for rows in batches]
    assert max(sizes) <= 120
    assert sum(sizes) < 1.06 * int(lengths.sum())
    longest = [int(lengths[rows].max()) for rows in batches]
    assert longest != sorted(longest)


def test_the_order_is_that_of_the_generator():
    lengths = torch.randint(2, 30, (100,))
    one, same, other = (
        d2l.batches_by_length(lengths, 60, torch.Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    )
    assert all(map(torch.equal, one, same))
    assert len(one) == len(other)
    assert not all(map(torch.equal, one, other))


def test_a_rest_that_is_too_small_joins_the_batch_before():
    lengths = torch.full((7,), 10)
    sizes = [len(rows) for rows in d2l.batches_by_length(lengths, 30, min_rows=2)]
    assert sorted(sizes) == [3, 4]


@pytest.mark.parametrize(("rows", "num_tokens", "min_rows"), [(0, 10, 1), (3, 9, 1), (3, 19, 2)])
def test_batches_that_cannot_be_are_refused(rows, num_tokens, min_rows):
    with pytest.raises(ValueError, match=f"at most {num_tokens} tokens cannot hold {min_rows} of"):
        d2l.batches_by_length(torch.full((rows,), 10), num_tokens, min_rows=min_rows)


# One process ---------------------------------------------------------------------------------


def test_a_training_writes_a_translator_and_a_line_for_each_epoch(tmp_path, capsys):
    path = tmp_path / "a.pt"
    lines = run(path, "--pairs", "200", "--epochs", "3")
    assert [line["epoch"] for line in lines] == ["1", "2", "3"]
    assert losses(lines)[2] < losses(lines)[0]
    assert set(lines[0]) == {"epoch", "loss", "BLEU", "chrF", "tokens/s", "seconds"}
    translator = d2l.load_translator(path)
    assert translator.num_steps == 20
    said = capsys.readouterr().out
    assert "180 pairs to learn from, 20 sentences to test with" in said
    assert f"epoch 3  loss {losses(lines)[2]:,}" in said


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_figures_are_those_of_the_translator_and_of_whole_sentences(tmp_path, beam_size):
    """Nothing is tested that was learnt from, and all French of a sentence counts."""
    path, beam = tmp_path / "a.pt", ["--beam-size", str(beam_size)]
    [line] = run(path, "--pairs", "300", "--epochs", "1", "--lr", "0.02", *beam)
    net, *vocabs, num_steps = d2l.load_translator(path)
    text = d2l.preprocess_nmt(d2l.read_data_nmt())
    learnt, held_out = d2l.hold_out_nmt(*d2l.tokenize_nmt(text, 300), 0.1)
    references = d2l.group_references(*held_out)
    results = d2l.translate(net, list(references), *vocabs, num_steps, "cpu", beam_size)
    texts = [result.text for result in results]
    assert float(line["BLEU"]) == round(d2l.corpus_bleu(texts, list(references.values())), 2)
    assert float(line["chrF"]) == round(d2l.corpus_chrf(texts, list(references.values())), 2)
    assert not {" ".join(words) for words in learnt[0]} & {*references}


def test_an_interrupted_training_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch, capsys):
    options = ["--pairs", "300", "--epochs", "3", "--tokens", "600", "--dropout", "0.2", "--tied"]
    whole = run(tmp_path / "whole.pt", *options)
    taken = []

    def step(*args):
        taken.append(1)
        if len(taken) == 7:  # in the second epoch or later
            os.kill(os.getpid(), signal.SIGTERM)
        return training.train_step(*args)

    monkeypatch.setattr(train, "train_step", step)
    path = tmp_path / "part.pt"
    assert train.main(["--output", str(path), *SMALL, *options]) == 0
    assert f"go on with\n    python -m d2l_mini.train --resume {path}" in capsys.readouterr().out
    assert len(taken) in (7, 8)
    assert len(read_lines(path)) < 3
    assert train.main(["--resume", str(path)]) == 0
    assert losses(read_lines(path)) == pytest.approx(losses(whole), abs=1e-6)
    one, other = (d2l.load_translator(tmp_path / f"{name}.pt").net for name in ("whole", "part"))
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_tied_embeddings_stay_one_and_the_file_translates_the_same(tmp_path):
    path = tmp_path / "a.pt"
    run(path, "--pairs", "100", "--epochs", "1", "--tied")
    net = d2l.load_translator(path).net
    assert torch.equal(net.decoder.dense.weight, net.decoder.embedding.weight)
    again = train.Training(train.Settings(), path, True, 0, 1)
    assert again.net.decoder.dense.weight is again.net.decoder.embedding.weight


def test_smoothed_loss_is_against_a_target_that_all_words_share():
    logits, labels = torch.randn(2, 3, 5), torch.randint(5, (2, 3))
    valid_lens = torch.tensor([3, 1])
    target = 0.9 * nn.functional.one_hot(labels, 5) + 0.1 / 5
    expected = -(target * logits.log_softmax(dim=2)).sum(dim=2)  # (batch, steps)
    losses = train.SmoothedCELoss(0.1)(logits, labels, valid_lens)
    torch.testing.assert_close(losses, torch.stack([expected[0].sum(), expected[1, 0]]))


def test_the_learning_rate_rises_and_falls_over_all_epochs(tmp_path, monkeypatch):
    rates = []

    def step(net, batch, optimizer, *args):
        rates.append(optimizer.param_groups[0]["lr"])
        return training.train_step(net, batch, optimizer, *args)

    monkeypatch.setattr(train, "train_step", step)
    options = ["--pairs", "300", "--tokens", "600", "--epochs", "2", "--warm-up", "3"]
    run(tmp_path / "a.pt", *options, "--lr", "0.01")
    expected = [0.01 * d2l.rise_and_fall(i, len(rates), 3) for i in range(len(rates))]
    assert len(rates) > 6
    assert rates == pytest.approx(expected)


def test_bf16_gives_nearly_the_loss_of_fp32(tmp_path):
    options = [
        "--epochs",
        "1",
        "--hiddens",
        "32",
        "--heads",
        "4",
        "--test",
        "10",
        "--num-steps",
        "10",
    ]
    full, half = (
        losses(run(tmp_path / f"{kind}.pt", *options, "--precision", kind))[0]
        for kind in ("fp32", "bf16")
    )
    assert full != half
    assert half == pytest.approx(full, rel=0.02)


def test_a_compiled_net_learns_the_same(tmp_path, monkeypatch):
    """Without a C++ compiler it still has to be asked for."""
    asked = []
    monkeypatch.setattr(nn.Module, "compile", lambda self: asked.append(type(self)))
    run(tmp_path / "a.pt", "--pairs", "100", "--epochs", "1", "--compile")
    assert asked == [d2l.EncoderDecoder]


# Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source", "nowhere.txt"], "nowhere.txt"),
        (["--heads", "3"], "num_heads 3 does not divide num_hiddens 16"),
        (["--tokens", "10"], "batches of at most 10 tokens cannot hold 1 of"),
        (["--epochs", "-1"], "epochs is -1; it must be 0 or more"),
        (["--test", "-1"], "test is -1; it must be 0 or more"),
        (["--warm-up", "-1"], "warm_up is -1; it must be 0 or more"),
        (["--seed", "99999999999"], "seed is 99999999999; it must lie in 0 ... 4294967295"),
        (["--lr", "inf"], "lr must be a number in 0 ... 1, but is inf"),
        (["--label-smoothing", "nan"], "label_smoothing must be a number in 0 ... 1, but is nan"),
        (["--dropout", "nan"], "dropout must be a number in 0 ... 1, but is nan"),
        (["--hiddens", "-16"], "num_hiddens is -16; it must be 1 or more"),
        (["--device", "quick"], "device is 'quick'; there is none of this name here"),
        (["--device", "meta"], "device is 'meta'; there is none of this name here"),
        (["--output", "."], ". cannot be written: name a file in a folder that is there"),
        (["--output", "no/a.pt"], "a.pt cannot be written: name a file in a folder that is there"),
        (["--resume-from-nothing"], "unrecognized arguments"),
        (["--precision", "fp16"], "invalid choice: 'fp16'"),
        (["--resume", "a.pt", "--lr", "1"], "a.pt holds all settings: leave out lr"),
        (["--resume", "nothing.pt"], "nothing.pt"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_said_in_one_sentence(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = [] if options[0].startswith("--resume") else SMALL
    with contextlib.suppress(SystemExit):  # what argparse does
        assert train.main([*small, *options]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_sentences_that_are_cut_are_told_in_a_line_each_without_source(tmp_path, capfd):
    run(tmp_path / "a.pt", "--pairs", "60", "--epochs", "2", "--num-steps", "4")
    said = capfd.readouterr()
    assert said.err == ""
    told = [line for line in said.out.splitlines() if line.endswith("cut")]
    assert told == [
        "42 of 108 sentences have more than the 3 tokens that num_steps 4 leaves beside <eos>, "
        "and were cut",
        "1 of the 6 sentences to test with were too long and cut",
    ]


def test_the_name_of_a_kind_of_gpu_means_that_of_the_process(monkeypatch):
    chosen = []
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch, "empty", lambda *size, device: torch.ones(size))
    assert train.choose_device("cuda") == torch.device("cuda", 2)
    assert train.choose_device("cuda:0") == torch.device("cuda", 0)
    assert chosen == [torch.device("cuda", 2), torch.device("cuda", 0)]


def test_a_translator_of_another_kind_or_another_corpus_cannot_go_on(tmp_path, capsys):
    path = tmp_path / "a.pt"
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("go .\tva !\nrun .\tcours !\n" * 20, encoding="utf-8")
    run(path, "--source", str(pairs), "--hold-out", "0", "--epochs", "1")
    pairs.write_text("go .\tva !\nsit .\tassieds-toi !\n" * 20, encoding="utf-8")
    assert train.main(["--resume", str(path)]) == 1
    assert "holds other pairs than" in capsys.readouterr().err
    net, *vocabs, num_steps = d2l.load_translator(path)
    d2l.save_translator(path, net, *vocabs, num_steps)
    assert train.main(["--resume", str(path)]) == 1
    assert "was not written by d2l_mini.train" in capsys.readouterr().err


def test_every_setting_is_explained_by_help(capsys):
    with pytest.raises(SystemExit):
        train.main(["--help"])
    said = capsys.readouterr().out
    for name in train.Settings.__dataclass_fields__:
        assert f"--{name.replace('_', '-')}" in said


# Several processes ---------------------------------------------------------------------------


def test_two_processes_with_half_the_batch_each_give_the_losses_of_one(tmp_path):
    found = []
    for processes in (1, 2):
        path = tmp_path / f"{processes}.pt"
        done = subprocess.run(
            command("--output", str(path), *WHOLE, "--epochs", "20", processes=processes),
            env=environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert f"on {processes} x cpu" in done.stdout
        assert done.stdout.count("epoch 20 ") == 1
        found.append(losses(read_lines(path)))
    assert len(found[0]) == 20  # an epoch is one step
    assert found[1] == pytest.approx(found[0], abs=1e-4)


@pytest.fixture
def start():
    """Start a training of many epochs, and wait for the first; what still runs is ended."""
    running = []

    def run(*options: str, processes: int, path: Path) -> subprocess.Popen:
        running.append(launch(*options, processes=processes, path=path))
        end = time.monotonic() + 120
        while not path.exists():
            assert running[-1].poll() is None, path.with_suffix(".log").read_text()
            assert time.monotonic() < end
            time.sleep(0.1)
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.wait()


def launch(*options: str, processes: int, path: Path) -> subprocess.Popen:
    """A training of many epochs; what it says goes into a file."""
    line = command(
        "--output", str(path), *SMALL, "--pairs", "300", *options, "--epochs", "100000",
        processes=processes,
    )  # fmt: skip
    with path.with_suffix(".log").open("w") as log:
        return subprocess.Popen(line, env=environment(), stdout=log, stderr=log, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_training_after_its_step_and_the_file_is_whole(tmp_path, number, start):
    path = tmp_path / "a.pt"
    running = start(processes=1, path=path)
    running.send_signal(number)
    assert running.wait(60) == 0
    said = path.with_suffix(".log").read_text()
    assert f"python -m d2l_mini.train --resume {path}" in said
    assert "Traceback" not in said
    assert d2l.load_training(path)["epoch"] >= 1


def test_a_process_that_dies_ends_the_run_with_one_message(tmp_path, start):
    path = tmp_path / "a.pt"
    running = start(processes=2, path=path)
    workers = [
        child
        for child in psutil.Process(running.pid).children()
        if "d2l_mini.train" in " ".join(child.cmdline())
    ]
    assert len(workers) == 2
    workers[1].kill()
    assert running.wait(90) != 0
    said = path.with_suffix(".log").read_text()
    ours = [line for line in said.splitlines() if line.startswith("d2l_mini.train: ")]
    assert len(ours) == 1, said
    assert re.search("another process has ended", ours[0])
    assert d2l.load_translator(path).num_steps == 20


# The whole file ------------------------------------------------------------------------------

WHOLE_FILE = """
import sys, time, psutil, threading, torch
from d2l_mini import train
from d2l_mini.data import batches_by_length
peak, done = [0], threading.Event()
def watch():
    while not done.wait(0.05):
        peak[0] = max(peak[0], psutil.Process().memory_info().rss)
threading.Thread(target=watch, daemon=True).start()
start = time.process_time()
settings = train.Settings(source=sys.argv[1], num_steps=30, device="cpu")
training = train.Training.__new__(train.Training)
training.settings, training.rank = settings, 1
training.read_pairs()
batches = batches_by_length(training.lengths, 8192)
seconds = time.process_time() - start
done.set()
print(len(training.lengths), len(training.tests), len(batches), seconds, peak[0] / 1e9)
"""


def test_the_whole_file_becomes_batches_in_ten_seconds_and_little_memory(fra_eng):
    done = subprocess.run(
        [sys.executable, "-c", WHOLE_FILE, str(fra_eng)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    pairs, tests, batches, seconds, gigabytes = map(float, done.stdout.split())
    print(done.stdout)
    assert pairs > 150_000
    assert tests == 1000
    assert 200 < batches < 1000
    assert seconds < 10
    assert gigabytes < 1.5


# Files that are there already ------------------------------------------------------------------

LEARNT = "go .\tva !\nrun .\tcours !\n" * 20


@pytest.mark.parametrize(
    ("there", "source", "output", "said"),
    [
        ("pairs.csv", "pairs.csv", "pairs.pt", "is what is learnt from: name another --output"),
        ("mine.tsv", "mine.tsv", "mine.tsv", "is what is learnt from: name another --output"),
        ("a.csv", "bundled", "a.pt", "is there, and no table of a training"),
        ("letter.pt", "bundled", "letter.pt", "is there, and no translator"),
    ],
)
def test_no_file_of_a_reader_s_is_written_over(
    tmp_path, monkeypatch, capsys, there, source, output, said
):
    monkeypatch.chdir(tmp_path)
    Path(there).write_text(LEARNT, encoding="utf-8")
    options = ["--source", source, "--output", output, *SMALL, "--epochs", "1"]
    assert train.main(options) == 1
    assert f"{there} {said}" in capsys.readouterr().err
    assert Path(there).read_text(encoding="utf-8") == LEARNT


def test_a_training_may_write_over_an_older_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for epochs in ("2", "1"):
        lines = run(Path("a.pt"), "--pairs", "60", "--epochs", epochs)
    assert len(lines) == 1


def test_each_translator_has_a_table_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("m.v1", "m.v2", "log.csv"):
        options = ["--pairs", "60", "--epochs", "1"]
        assert train.main(["--output", name, *SMALL, *options]) == 0
        assert d2l.load_translator(name).num_steps == 20
        assert Path(f"{name}.csv").read_text(encoding="utf-8").startswith("epoch,loss,")


def test_a_training_of_no_epoch_keeps_the_net_as_it_starts(tmp_path):
    path = tmp_path / "a.pt"
    assert train.main(["--output", str(path), *SMALL, "--pairs", "60", "--epochs", "0"]) == 0
    assert d2l.load_translator(path).num_steps == 20


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--num-steps", "1500"], "num_steps is 1500; it must lie in 1 ... 1000"),
        (["--output", "folder.pt"], "folder.csv cannot be written"),
    ],
)
def test_what_could_not_be_kept_is_told_before_the_training(
    tmp_path, monkeypatch, capsys, options, said
):
    monkeypatch.chdir(tmp_path)
    Path("folder.csv").mkdir()
    monkeypatch.setattr(train, "train_step", None)
    assert train.main([*SMALL, "--pairs", "60", *options]) == 1
    assert said in capsys.readouterr().err


def test_another_file_to_write_is_refused_where_a_training_goes_on(tmp_path, capsys):
    path = tmp_path / "a.pt"
    run(path, "--pairs", "60", "--epochs", "1")
    with pytest.raises(SystemExit):
        train.main(["--resume", str(path), "--output", "b.pt"])
    assert "a.pt is what is written too: leave out output" in capsys.readouterr().err
