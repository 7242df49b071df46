"""The benchmarks: how they measure, and what becomes of the figures. How fast is not asked here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.runner import Case, Settings, Unavailable, measure, run

ROOT = Path(__file__).parent.parent


def contender(name: str, figures, calls: list[str]):
    """A function that notes its call and returns the next figure."""
    figures = iter(figures)

    def work() -> float:
        calls.append(name)
        return next(figures)

    return work


def test_contenders_take_turns_and_each_round_begins_with_the_next():
    calls: list[str] = []
    ways = {name: contender(name, range(10), calls) for name in "abc"}
    measure(Case("task", "s", ways), rounds=4)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab" + "abc"  # the first is the warm-up


def test_the_median_and_the_spread_leave_the_warm_up_out():
    work = contender("a", [99, 3, 1, 2], [])
    result = measure(Case("task", "s", {"a": work}), rounds=3)["results"]["a"]
    assert result == {"median": 2, "low": 1, "high": 3, "values": [3, 1, 2]}


def test_a_goal_that_was_not_reached_is_none_and_counts_as_the_longest():
    work = contender("a", [float("inf"), 5, 7], [])
    result = measure(Case("task", "s", {"a": work}, warm_up=False), rounds=3)["results"]["a"]
    assert result == {"median": 7, "low": 5, "high": None, "values": [None, 5, 7]}
    assert report.cell(result) == "7.00 (5.00–not reached)"


def test_one_contender_s_fault_or_absence_does_not_end_the_others():
    def absent() -> float:
        raise Unavailable("it is not installed")

    ways = {"a": lambda: 1 / 0, "b": absent, "c": "it cannot", "d": lambda: 4}
    record = measure(Case("task", "s", ways), rounds=2)
    assert record["results"] == {
        "a": {"failed": "ZeroDivisionError: division by zero"},
        "b": {"skipped": "it is not installed"},
        "c": {"skipped": "it cannot"},
        "d": {"median": 4, "low": 4, "high": 4, "values": [4, 4]},
    }


def test_a_job_is_told_what_was_measured():
    seen = []

    def job(settings):
        record = yield Case("first", "s", {"a": lambda: 2})
        seen.append(record["results"]["a"]["median"])
        yield Case("second", "s", {"a": lambda: 3})

    records = run(job, Settings(rounds=1), say=lambda record: None)
    assert [record["name"] for record in records] == ["first", "second"]
    assert seen == [2]


PLACE = {"cpu": "X", "cores": 2, "threads": 1, "torch": "2", "date": "2026-01-01", "quick": False}


def results_of(**medians: float) -> dict:
    """Results of one job with one case."""
    results = {
        name: {"median": m, "low": m / 2, "high": 2 * m, "values": [m, m / 2, 2 * m]}
        for name, m in medians.items()
    }
    results["transformers"] = {"skipped": "it is not installed"}
    case = {"name": "train", "unit": "tokens/s", "more": True, "point": None, "results": results}
    return {"training": {"machine": PLACE, "cases": [case]}, "views": {"skipped": "no file"}}


def test_the_section_says_median_spread_the_best_and_what_was_skipped():
    lines = report.section(results_of(**{"d2l_mini": 12345, "torch.nn": 0.5})).splitlines()
    assert "| train | tokens/s | **12,300 (6,170–24,700)** | 0.500 (0.250–1.00) | – | – |" in lines
    assert "- transformers, –: it is not installed" in lines
    assert "- views was skipped: no file" in lines


def test_figures_that_were_measured_outlive_a_later_skip():
    results = results_of(d2l_mini=1)
    assert report.merge(results, "training", {"skipped": "no file"}) == results
    assert report.merge(results, "views", {"skipped": "why"})["views"] == {"skipped": "why"}


def test_only_what_stands_between_the_markers_is_rewritten(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", encoding="utf-8")
    results = results_of(d2l_mini=1)
    report.update_readme(results, readme)
    assert readme.read_text(encoding="utf-8") == (
        f"before\n{report.BEGIN}\n{report.section(results)}\n{report.END}\nafter\n"
    )
    readme.write_text("no markers", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the markers"):
        report.update_readme(results, readme)


def test_the_readme_s_section_is_what_the_results_give():
    """Nobody types a figure."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition(report.BEGIN)[2].partition(report.END)[0].strip()
    results = report.read(ROOT / "benchmarks" / "results.json")
    assert section == report.section(results).strip()


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run the benchmarks where no peer is installed and no book's file is known."""
    hidden = folder / "hidden"
    hidden.mkdir()
    for name in ("x_transformers", "transformers", "tokenizers"):
        (hidden / f"{name}.py").write_text("raise ImportError", encoding="utf-8")
    path = os.pathsep.join([str(hidden), str(ROOT)])
    environment = {key: value for key, value in os.environ.items() if key != "D2L_MINI_FRA_ENG"}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_quick_run_writes_the_figures_and_the_picture_and_says_what_it_skipped(tmp_path):
    readme = (ROOT / "README.md").read_bytes()
    jobs = ("training", "attention", "accelerator")
    source = ROOT / "d2l_mini" / "corpus" / "english-french.tsv"
    options = ("--quick", "--source", str(source), "--output", str(tmp_path / "out"))
    done = command(tmp_path, *jobs, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert (tmp_path / "out" / "results.png").read_bytes()[:4] == b"\x89PNG"
    assert list(results) == list(jobs)
    assert results["training"]["machine"]["quick"]
    for case in results["training"]["cases"]:
        assert case["results"]["d2l_mini"]["median"] > 0
        assert case["results"]["torch.nn"]["median"] > 0
        assert case["note"].startswith("parameters: d2l_mini ")
        assert "is not installed" in case["results"]["x-transformers"]["skipped"]
    exponents = [c for c in results["attention"]["cases"] if "grows" in c["name"]]
    assert len(exponents) == 4  # fused and explicit, time and memory
    assert report.section(results) in done.stdout
    assert "- x-transformers, –: x-transformers is not installed" in done.stdout
    assert (ROOT / "README.md").read_bytes() == readme


def test_a_job_without_the_book_s_file_says_so_and_is_skipped(tmp_path):
    done = command(tmp_path, "loading", "--quick", "--output", str(tmp_path / "out"))
    assert done.returncode == 0
    assert "skipped: it needs the book's file: give its path as --source" in done.stdout
