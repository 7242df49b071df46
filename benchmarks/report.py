"""What becomes of the figures: a file, a table, a picture, and the README's section."""

from __future__ import annotations

import json
import os
import platform
from datetime import date
from pathlib import Path

import torch

from benchmarks.contenders import NAMES

__all__ = ["draw", "machine", "merge", "read", "section", "table", "update_readme", "write"]

BEGIN, END = "<!-- benchmarks -->", "<!-- /benchmarks -->"


def machine(settings) -> dict:
    """What the figures depend on, beyond the code."""
    found = {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": date.today().isoformat(),
        "rounds": settings.rounds,
        "quick": settings.quick,
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name(0)
    return found


def cpu_model() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def read(path: Path) -> dict:
    """The results of earlier runs: for each job {"machine", "cases"} or {"skipped"}."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def merge(results: dict, job: str, outcome: dict) -> dict:
    """Put a job's outcome in place of its last; figures that were measured outlive a skip."""
    if "skipped" in outcome and "cases" in results.get(job, {}):
        return results
    return {**results, job: outcome}


def write(results: dict, path: Path) -> None:
    """Write the file, whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(part, path)


def number(value: float | None) -> str:
    """Three digits that count, 12,300 or 0.0123; None is a goal that was not reached."""
    if value is None:
        return "not reached"
    if abs(value) >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    text = f"{value:#.3g}"
    return text if "e" not in text else f"{value:.2e}"


def cell(result: dict | None) -> str:
    """The median, with the lowest and the highest where there were several rounds."""
    if result is None or "skipped" in result:
        return "–"
    if "failed" in result:
        return "failed"
    if len(result["values"]) < 2:
        return number(result["median"])
    return f"{number(result['median'])} ({number(result['low'])}–{number(result['high'])})"


def best(case: dict) -> str | None:
    """The contender with the best median, if there are several."""
    medians = {
        name: result["median"]
        for name, result in case["results"].items()
        if result.get("median") is not None
    }
    if case["more"] is None or len(medians) < 2:
        return None
    return (max if case["more"] else min)(medians, key=medians.get)


def table(outcome: dict) -> list[str]:
    """The lines of a job's table in Markdown, without its head; points of a curve are left out."""
    lines = []
    for case in outcome.get("cases", ()):
        if case["point"] is not None:
            continue
        first = best(case)
        cells = [
            f"**{cell(case['results'].get(name))}**"
            if name == first
            else cell(case["results"].get(name))
            for name in NAMES
        ]
        lines.append(f"| {case['name']} | {case['unit']} | {' | '.join(cells)} |")
    return lines


def reasons(results: dict) -> list[str]:
    """Why cells are empty, and which jobs were skipped, each once."""
    skipped: dict[str, dict[str, None]] = {}
    said: dict[str, None] = {}
    for job, outcome in results.items():
        if "skipped" in outcome:
            said[f"{job} was skipped: {outcome['skipped']}"] = None
        for case in outcome.get("cases", ()):
            for name, result in case["results"].items():
                if "skipped" in result:
                    skipped.setdefault(result["skipped"], {})[name] = None
                if "failed" in result:
                    said[f"{name} failed in “{case['name']}”: {result['failed']}"] = None
    return [f"{', '.join(names)}, –: {why}" for why, names in skipped.items()] + list(said)


def conditions(machine: dict) -> str:
    """Where and when, in one sentence."""
    where = f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} in use"
    if "gpu" in machine:
        where = f"{machine['gpu']}; {where}"
    quick = "; a quick run, its figures mean nothing" if machine["quick"] else ""
    return f"{where}, torch {machine['torch']}, {machine['date']}{quick}"


def section(results: dict) -> str:
    """All results in Markdown."""
    head = f"| | in | {' | '.join(NAMES)} |\n|---|---|{'---|' * len(NAMES)}"
    places: dict[str, list[str]] = {}
    for outcome in results.values():
        if outcome.get("cases"):
            places.setdefault(conditions(outcome["machine"]), []).extend(table(outcome))
    parts = ["Medians, with the lowest and highest of the rounds; the best in bold."] * bool(places)
    parts += [f"{place}:\n\n" + "\n".join([head, *lines]) for place, lines in places.items()]
    if places:
        parts.append("![each speed beside that of d2l_mini](benchmarks/results.png)")
    parts.append("\n".join(f"- {reason}" for reason in reasons(results)))
    return "\n\n".join(part for part in parts if part)


def update_readme(results: dict, path: Path) -> None:
    """Rewrite what stands between the two markers; raise ValueError if they are not there."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} lacks the markers {BEGIN} and {END}")
    path.write_text(f"{before}{begin}\n{section(results)}\n{end}{after}", encoding="utf-8")


def draw(results: dict):
    """Every speed beside this package's, and attention against the number of steps."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from d2l_mini.pictures import COLORS, MARKS, STROKES, Picture

    cases = [case for outcome in results.values() for case in outcome.get("cases", ())]
    lines = [case for case in cases if case["point"] is None and comparable(case)]
    curves = curves_of(cases)
    picture = Picture((11, max(4.5, 0.3 * len(lines) + 1.5)))
    left, right = picture.subplots(1, 2, width_ratios=(1.5, 1))
    looks = list(zip(NAMES, COLORS, MARKS, strict=False))
    for name, color, mark in looks:
        points = [
            (share(case, name, "median"), share(case, name, "low"), share(case, name, "high"), row)
            for row, case in enumerate(lines)
            if case["results"].get(name, {}).get("median")
        ]
        for middle, low, high, row in points:
            left.plot(middle, row, mark, color=color)
            left.plot([low, high], [row, row], color=color, linewidth=2, alpha=0.5)
        left.plot([], [], mark, color=color, label=name)
    left.axvline(1, color="0.6", linewidth=1)
    left.set_yticks(range(len(lines)), [case["name"] for case in lines], parse_math=False)
    left.set(ylim=(len(lines) - 0.5, -0.5), xscale="log")
    left.set(xlabel="times as fast as d2l_mini: to the right is faster")
    left.grid(axis="x", alpha=0.4)
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(NAMES), frameon=False)
    for (kind, name), points in curves.items():
        look = {one: rest for one, *rest in looks}[name]
        stroke = STROKES[0] if "fused" in kind else STROKES[1]
        right.plot(*zip(*sorted(points), strict=True), stroke, color=look[0], marker=look[1])
    right.set(xscale="log", yscale="log", xlabel="steps", ylabel="ms, forward and backward")
    right.set_title("attention\n— fused   - - explicit", size="medium")
    right.grid(alpha=0.4)
    for axis in (left.xaxis, right.xaxis, right.yaxis):
        axis.set_major_locator(LogLocator(base=10 if axis is right.yaxis else 2))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    left.tick_params(axis="x", which="minor", length=0)
    right.tick_params(axis="x", which="minor", length=0)
    picture.description = f"{len(lines)} tasks, each speed beside that of d2l_mini"
    return picture


def comparable(case: dict) -> bool:
    """Whether a case measures speed, for this package and another."""
    done = [name for name, result in case["results"].items() if result.get("median")]
    return case["unit"] in ("s", "ms", "tokens/s") and "d2l_mini" in done and len(done) > 1


def share(case: dict, name: str, which: str) -> float:
    """How many times as fast as this package's median."""
    ours, theirs = case["results"]["d2l_mini"]["median"], case["results"][name][which]
    if theirs is None:  # a goal that one of the rounds did not reach
        theirs = case["results"][name]["median"]
    return theirs / ours if case["more"] else ours / theirs


def curves_of(cases: list[dict]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """The times of attention on the CPU: for each kind and contender, (steps, ms)."""
    curves: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for case in cases:
        kind, _, words = case["name"].partition(" steps, forward and backward")
        if words or not _ or "cuda" in kind:
            continue
        kind, _, steps = kind.rpartition(", ")
        for name, result in case["results"].items():
            if result.get("median"):
                point = float(steps.replace(",", "")), result["median"]
                curves.setdefault((kind, name), []).append(point)
    return curves
