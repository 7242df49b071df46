"""Measure, and write down what was measured. `python -m benchmarks --help` lists the jobs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import torch

from benchmarks import report
from benchmarks.accelerator import accelerator
from benchmarks.attention import attention
from benchmarks.loading import loading
from benchmarks.notebooks import notebooks
from benchmarks.quality import quality, translator
from benchmarks.runner import Settings, Unavailable, run
from benchmarks.training import training
from benchmarks.translating import translating
from benchmarks.views import views

FOLDER = Path(__file__).parent
JOBS = {
    job.__name__: job
    for job in (
        loading,
        training,
        translating,
        attention,
        views,
        quality,
        translator,
        notebooks,
        accelerator,
    )
}


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        description="Measure this package beside its peers; keep the figures in results.json, draw "
        "them in results.png, and rewrite the README's section from them.",
        epilog="Jobs: " + "; ".join(f"{n}: {j.__doc__.splitlines()[0]}" for n, j in JOBS.items()),
    )
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="which to run; all if left out")
    parser.add_argument(
        "--source",
        default=os.environ.get("D2L_MINI_FRA_ENG"),
        help="the book's file (default: what D2L_MINI_FRA_ENG says)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds, at least 1 (default 5)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    parser.add_argument("--quick", action="store_true", help="only see that it runs, in small")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="write results.json and results.png there, and leave the README alone",
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.jobs if name not in JOBS]
    if unknown:
        parser.error(f"there is no job {', '.join(unknown)}; there are {', '.join(JOBS)}")
    for name in ("rounds", "threads"):
        if getattr(options, name) < 1:
            parser.error(f"{name} is {getattr(options, name)}; it must be 1 or more")
    if options.quick and options.output is None:
        parser.error("the figures of a quick run mean nothing: name an --output for them")
    return options


def say(record: dict) -> None:
    """Print a case when it is done."""
    print(f"  {record['name']}, {record['unit']}")
    if record["note"]:
        print(f"    {record['note']}")
    for name, result in record["results"].items():
        more = result.get("skipped") or result.get("failed")
        print(f"    {name:15} {report.cell(result)}{': ' + more if more else ''}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the jobs; return 0, or 1 if something failed (what did not is written down)."""
    options = read_options(arguments)
    torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # for the notebooks' kernels
    settings = Settings(options.source, 1 if options.quick else options.rounds, options.quick)
    folder = options.output or FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    results, failed = report.read(folder / "results.json"), []
    for name in options.jobs or JOBS:
        print(f"{name}: {JOBS[name].__doc__.splitlines()[0]}", flush=True)
        start = time.perf_counter()
        try:
            outcome = {"machine": report.machine(settings), "cases": run(JOBS[name], settings, say)}
        except Unavailable as error:
            outcome = {"skipped": str(error)}
            print(f"  skipped: {error}", flush=True)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
            print(f"  failed: {type(error).__name__}: {error}", flush=True)
            continue
        print(f"  {time.perf_counter() - start:.0f} s", flush=True)
        failed += [
            f"{case['name']}: {who}: {result['failed']}"
            for case in outcome.get("cases", ())
            for who, result in case["results"].items()
            if "failed" in result
        ]
        results = report.merge(results, name, outcome)
        order = [job for job in JOBS if job in results]
        results = {job: results[job] for job in order}
        report.write(results, folder / "results.json")  # after each job: an hour is not lost
    print(f"\n{report.section(results)}")
    (folder / "results.png").write_bytes(report.draw(results).png())
    if options.output is None:
        report.update_readme(results, FOLDER.parent / "README.md")
    for words in failed:
        print(f"failed: {words}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
