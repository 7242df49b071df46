"""On a GPU: the same tasks in float32, bfloat16 and compiled, and how near they come to its limits.

No step can be faster than its operations over the rate of matrix products, nor than the bytes that
have to move over the bandwidth; both rates are measured on the spot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch.utils.flop_counter import FlopCounterMode

import d2l_mini as d2l
from benchmarks import attention, training, translating
from benchmarks.contenders import NAMES, SMALL, WIDE, Sizes, make_contenders
from benchmarks.data import batches
from benchmarks.runner import Case, Settings, Unavailable, stopwatch

MODES = ("float32", "bf16", "compiled")
BASE = Sizes(512, 2048, 8, 6, 0.1)  # the paper's base model
ADAM_BYTES = 40  # a float32 parameter: read twice, its gradient written and read, Adam's 3 r, 3 w


def accelerator(settings: Settings) -> Iterator[Case]:
    """All that trains, translates and attends, on the first CUDA device."""
    if not torch.cuda.is_available():
        raise Unavailable("it needs a GPU that torch.cuda finds, and there is none here")
    yield from on_device(replace(settings, device=torch.device("cuda", 0)))


def on_device(settings: Settings) -> Iterator[Case]:
    """The cases, on any device."""
    shapes = [(600, SMALL, 10, 30), (20_000, WIDE, 20, 15), (20_000, BASE, 20, 10)]
    for num_examples, sizes, num_steps, steps in shapes[:1] if settings.quick else shapes:
        for mode in MODES:
            case = training.case(
                settings, num_examples, sizes, num_steps, steps, mode.replace("float32", "")
            )
            record = yield replace(case, name=f"{case.name}, {settings.device.type}")
            dtype = torch.bfloat16 if mode == "bf16" else torch.float32
            floor = floor_of(settings, num_examples, sizes, num_steps, dtype)
            yield Case(
                f"{case.name}, {settings.device.type}: share of the floor",
                "%",
                shares(record, floor),
                more=True,
                warm_up=False,
                rounds=1,
            )
    numbers = (20,) if settings.quick else (1, 1000)
    device = f", {settings.device.type}"
    yield from translating.cases(settings, SMALL, numbers, words=device)
    steps = [16, 32] if settings.quick else [2**n for n in range(7, 14)]
    for dtype in (None, torch.bfloat16):
        words = ("" if dtype is None else ", bf16") + device
        yield from attention.cases(settings, steps, words=words, dtype=dtype)


def floor_of(
    settings: Settings, num_examples: int, sizes: Sizes, num_steps: int, dtype: torch.dtype
) -> float:
    """The most target tokens per second that this package's training could do here."""
    data, src_vocab, tgt_vocab = batches(settings.need_source(), num_examples, 64, num_steps)
    nets = make_contenders(len(src_vocab), len(tgt_vocab), sizes, num_steps, settings.device)
    net = nets["d2l_mini"].train()
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    batch = next(iter(data))
    with FlopCounterMode(display=False) as counter:
        d2l.train_step(net, batch, optimizer, tgt_vocab, settings.device)
    moved = ADAM_BYTES * sum(parameter.numel() for parameter in net.parameters())
    rate, bandwidth = limits(settings, dtype)
    return int(batch[3].sum()) / max(counter.get_total_flops() / rate, moved / bandwidth)


def limits(settings: Settings, dtype: torch.dtype) -> tuple[float, float]:
    """Operations per second in the product of two large matrices; bytes per second in a copy."""
    size = 256 if settings.quick else 8192
    X = torch.randn(size, size, device=settings.device, dtype=dtype)
    Y = torch.empty(size, size, device=settings.device)
    product = [stopwatch(lambda: X @ X, settings.device) for _ in range(6)][1:]
    copy = [stopwatch(Y.clone, settings.device) for _ in range(6)][1:]
    return 2 * size**3 / min(product), 2 * Y.nbytes / min(copy)


def shares(record: dict, floor: float) -> dict:
    """For each contender a function that returns its share of the floor, in percent."""
    ways = {}
    for name in NAMES:
        result = record["results"][name]
        if "median" in result:
            ways[name] = lambda result=result: 100 * result["median"] / floor
        else:
            ways[name] = result.get("skipped") or result["failed"]
    return ways
