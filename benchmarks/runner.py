"""How a case is measured: every contender in turn, round after round; the median and the spread."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import torch

__all__ = ["Case", "Settings", "Unavailable", "measure", "run", "seconds", "stopwatch"]


class Unavailable(Exception):
    """Why a job, or one contender's part in it, cannot be done here: a sentence for the reader."""


CPU = torch.device("cpu")


@dataclass(frozen=True)
class Settings:
    """What the command line asks for.

    source  the corpus, as for `d2l_mini.read_data_nmt`; None = there is none
    rounds  how often each contender does each case
    quick   whether everything is made as small as it can be, only to see that it runs
    device  where the nets are
    """

    source: str | None = None
    rounds: int = 5
    quick: bool = False
    device: torch.device = CPU
    notebooks: Path = Path(__file__).parent.parent / "notebooks"

    def need_source(self) -> str:
        """The corpus; raise Unavailable where there is none."""
        if self.source is None:
            raise Unavailable(
                "it needs the book's file: give its path as --source, or in D2L_MINI_FRA_ENG"
            )
        return self.source

    def least(self) -> float:
        """How many seconds to go on with something that is over sooner, for a steady figure."""
        return 0.0 if self.quick else 0.3


@dataclass(frozen=True)
class Case:
    """One line of the table: a task, and for each contender how to do it.

    name        of the task
    unit        of the figures
    contenders  for each name a function that does the task once and returns its figure, or a
                sentence that says why it cannot
    more        whether a larger figure is better; None = neither is
    warm_up     whether each does it once before, which does not count
    rounds      at most so many, for what takes minutes
    point       where on the axis of a curve the figures belong; None = they are a line of the table
    note        what else there is to know
    """

    name: str
    unit: str
    contenders: dict[str, Callable[[], float] | str]
    more: bool | None = False
    warm_up: bool = True
    rounds: int = 1000
    point: float | None = None
    note: str = ""


Job = Callable[[Settings], Generator[Case, dict, None]]


def stopwatch(work: Callable[[], object], device: torch.device | None = None) -> float:
    """Do it once; return the seconds it took, to the end of what a GPU still had to do."""
    gpu = device is not None and device.type == "cuda"
    if gpu:
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    work()
    if gpu:
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def seconds(work: Callable[[], object], settings: Settings) -> float:
    """Do it until `settings.least()` seconds are over; return the mean of one time."""
    total, times = 0.0, 0
    while times == 0 or total < settings.least():
        total += stopwatch(work, settings.device)
        times += 1
    return total / times


def measure(case: Case, rounds: int) -> dict:
    """Let the contenders do a case in turn; each round begins with the next one of them.

    returns  the case as the results keep it: for each contender {"values": one a round, "median",
             "low", "high"}, infinity being None, or {"skipped": why}, or {"failed": what happened}

    Round number k of every contender starts from seed k.
    """
    results = {
        name: {"skipped": why} for name, why in case.contenders.items() if isinstance(why, str)
    }
    values = {name: [] for name in case.contenders if name not in results}

    def attempt(name: str, seed: int) -> None:
        gc.collect()
        torch.manual_seed(seed)
        try:
            values[name].append(float(case.contenders[name]()))
        except Unavailable as error:
            results[name] = {"skipped": str(error)}
        except Exception as error:  # one contender's fault does not end the others' hour
            results[name] = {"failed": f"{type(error).__name__}: {str(error).strip()[:300]}"}
        if name in results:
            del values[name]

    if case.warm_up:
        for name in list(values):
            attempt(name, 0)
        for done in values.values():
            done.clear()
    for number in range(min(rounds, case.rounds)):
        names = list(values)
        first = number % len(names) if names else 0
        for name in names[first:] + names[:first]:
            attempt(name, number)
    results |= {name: summary(done) for name, done in values.items()}
    return {
        "name": case.name,
        "unit": case.unit,
        "more": case.more,
        "point": case.point,
        "note": case.note,
        "results": {name: results[name] for name in case.contenders},
    }


def summary(values: list[float]) -> dict:
    """The median and the spread; infinity, which JSON does not know, is None."""
    figures = {"median": statistics.median(values), "low": min(values), "high": max(values)}
    finite = {name: value if value < float("inf") else None for name, value in figures.items()}
    return {**finite, "values": [value if value < float("inf") else None for value in values]}


def run(job: Job, settings: Settings, say: Callable[[dict], None]) -> list[dict]:
    """Measure all cases of a job; each is told, by `say` and to the job, when it is done.

    Raises Unavailable where the job cannot be done here.
    """
    records: list[dict] = []
    cases = job(settings)
    try:
        case = next(cases)
        while True:
            records.append(measure(case, settings.rounds))
            say(records[-1])
            case = cases.send(records[-1])
    except StopIteration:
        return records
