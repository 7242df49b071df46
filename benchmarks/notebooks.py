"""Wall time and memory of each notebook, as the tests measure them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.runner import Case, Settings


def notebooks(settings: Settings) -> Iterator[Case]:
    """Run all notebooks once as tests; the root conftest.py measures them and says what it saw."""
    paths = sorted(settings.notebooks.glob("*.ipynb"))
    for path in paths[:1] if settings.quick else paths:
        cost: dict[str, float] = {}

        def execute(path=path, cost=cost) -> float:
            cost |= cost_of(path)
            return cost["s"]

        yield Case(f"notebook {path.stem}", "s", {"d2l_mini": execute}, warm_up=False, rounds=1)
        if cost:
            yield Case(
                f"notebook {path.stem}, most memory",
                "MB",
                {"d2l_mini": lambda cost=cost: cost["MB"]},
                warm_up=False,
                rounds=1,
            )


def cost_of(path) -> dict[str, float]:
    """The seconds and megabytes that pytest says a notebook took.

    Raises RuntimeError if it says nothing, or the notebook failed.
    """
    command = [sys.executable, "-m", "pytest", "--nbmake", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(path)], cwd=path.parent.parent, capture_output=True, text=True, check=False
    )
    said = re.search(
        rf"^notebook {re.escape(path.name)}: (\d+) s, (\d+) MB$", done.stdout, re.MULTILINE
    )
    if said is None or done.returncode:
        last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:]
        raise RuntimeError(f"{path.name} did not pass: {' '.join(last)}")
    return {"s": float(said[1]), "MB": float(said[2])}
