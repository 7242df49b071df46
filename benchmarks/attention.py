"""Attention forward and backward against the number of steps: time, memory, and how they grow."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import sys
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

import d2l_mini as d2l
from benchmarks.contenders import copy_attention, load
from benchmarks.runner import Case, Settings, Unavailable, seconds

HIDDENS, HEADS = 64, 4
NO_PART = "its attention is a part of its models, not for use alone"


def attention(settings: Settings) -> Iterator[Case]:
    """16 to 2,048 steps, with the fused kernel and with weights that are kept."""
    steps = [16, 32] if settings.quick else [2**n for n in range(4, 12)]
    yield from cases(settings, steps)


def cases(
    settings: Settings, steps: list[int], hiddens: int = HIDDENS, words: str = "", dtype=None
) -> Iterator[Case]:
    """Time and memory at each number of steps; then, if there are several, how they grow."""
    for fused in (True, False):
        kind = f"attention, {'fused' if fused else 'explicit'}{words}"
        modules = make_modules(hiddens, fused, settings.device)
        times, memories = [], []
        for number in steps:
            X = torch.randn(1, number, hiddens, device=settings.device)
            runs = {
                name: run if isinstance(run, str) else bind(run, X, dtype)
                for name, run in modules.items()
            }
            last = None if number == steps[-1] else number
            times.append(
                (
                    yield Case(
                        f"{kind}, {number:,} steps, forward and backward",
                        "ms",
                        {name: clocked(run, settings) for name, run in runs.items()},
                        point=last,
                    )
                )
            )
            memories.append(
                (
                    yield Case(
                        f"{kind}, {number:,} steps, most memory",
                        "MB",
                        {name: weighed(run, settings) for name, run in runs.items()},
                        point=last,
                        rounds=1,
                        warm_up=False,
                    )
                )
            )
        if len(steps) > 1:
            half = steps[len(steps) // 2 :] if len(steps) > 3 else steps
            for records, what in ((times, "time"), (memories, "memory")):
                yield Case(
                    f"{kind}, {what} grows from {half[0]:,} to {half[-1]:,} steps",
                    "power of the steps",
                    growth(half, records[-len(half) :]),
                    more=None,
                    warm_up=False,
                    rounds=len(next(iter(records[0]["results"].values())).get("values", [0])),
                )


def bind(run: Callable, X: Tensor, dtype) -> Callable[[], None]:
    """A function that goes forward and backward once."""

    def work() -> None:
        Y = X.clone().requires_grad_()
        with torch.autocast(X.device.type, dtype, enabled=dtype is not None):
            output = run(Y)
        output.sum().backward()

    return work


def clocked(run: Callable | str, settings: Settings):
    """A function that returns milliseconds."""
    return run if isinstance(run, str) else lambda: 1000 * seconds(run, settings)


def weighed(run: Callable | str, settings: Settings):
    """A function that returns megabytes."""
    return run if isinstance(run, str) else lambda: most_memory(run, settings.device) / 1e6


def make_modules(hiddens: int, fused: bool, device: torch.device) -> dict[str, Callable | str]:
    """Self-attention of each contender.

    Raises ValueError if `torch.nn`, with copied weights, gives something else than this package.
    """
    own = d2l.MultiHeadAttention(hiddens, HEADS).to(device)
    own.attention.keep_weights = not fused
    other = nn.MultiheadAttention(hiddens, HEADS, bias=False, batch_first=True).to(device)
    copy_attention(own, other)

    def run_other(X: Tensor) -> Tensor:
        return other(X, X, X, need_weights=not fused, average_attn_weights=False)[0]

    modules: dict[str, Callable | str] = {
        "d2l_mini": lambda X: own(X, X, X),
        "torch.nn": run_other,
        "transformers": NO_PART,
    }
    try:
        theirs = load("x_transformers.x_transformers").Attention(
            hiddens, dim_head=hiddens // HEADS, heads=HEADS, flash=fused
        )
        modules["x-transformers"] = theirs.to(device)
    except Unavailable as error:
        modules["x-transformers"] = str(error)
    X = torch.randn(1, 16, hiddens, device=device)
    apart = float((modules["d2l_mini"](X) - run_other(X)).detach().abs().max())
    if not apart < (1e-5 if device.type == "cpu" else 1e-2):
        raise ValueError(f"with the same weights nn.MultiheadAttention is {apart:.1e} apart")
    return modules


def most_memory(work: Callable[[], object], device: torch.device) -> int:
    """The most bytes of tensors that were there at once, beyond those there before."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    activities = [torch.profiler.ProfilerActivity.CPU]
    with quiet(), torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        work()
    now = most = 0
    events = profile.profiler.kineto_results.events()
    for event in sorted(
        (event for event in events if event.name() == "[memory]"), key=lambda e: e.start_ns()
    ):
        now += event.nbytes()
        most = max(most, now)
    return most


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Inside `with`, what the profiler's C++ writes to standard error goes nowhere."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def growth(steps: list[int], records: list[dict]) -> dict[str, Callable[[], float] | str]:
    """For each contender a function that returns, round after round, the fitted exponent."""
    fits: dict[str, Callable[[], float] | str] = {}
    for name, first in records[0]["results"].items():
        results = [record["results"][name] for record in records]
        if any("values" not in result for result in results):
            fits[name] = first.get("skipped") or first.get("failed") or "one of its sizes failed"
            continue
        exponents = [
            statistics.linear_regression(map_log(steps), map_log(values)).slope
            for values in zip(*(result["values"] for result in results), strict=True)
        ]
        fits[name] = iter(exponents).__next__
    return fits


def map_log(numbers) -> list[float]:
    """The logarithm of each."""
    return [math.log(number) for number in numbers]
