"""What each notebook must keep to when it runs as a test: time, memory, and that it did run."""

import contextlib
import os
import threading
import time
from pathlib import Path

import psutil
import pytest

MAX_SECONDS = 60  # on two CPU cores; where others keep them busy, of computing, and twice in all
LONGER = {"08_scaling_up.ipynb": 180}  # those that train more
MAX_MEGABYTES = 900  # of the kernel; Binder gives 2 GB in all
NOTEBOOKS = Path(__file__).parent / "notebooks"

executed: set[str] = set()
cost = pytest.StashKey[tuple[float, float, float]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Measure what a notebook costs: seconds, those of computing, the most memory of its kernel."""
    if item.path.suffix != ".ipynb":
        return (yield)
    done = threading.Event()
    peak, computing = [0], [0.0]

    def watch():
        while not done.wait(0.1):
            for kernel in psutil.Process().children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    peak[0] = max(peak[0], kernel.memory_info().rss)
                    computing[0] = sum(kernel.cpu_times()[:2])  # in it, and in the system for it

    watcher = threading.Thread(target=watch)
    start = time.perf_counter()
    watcher.start()
    try:
        return (yield)
    finally:
        done.set()
        watcher.join()
        item.stash[cost] = time.perf_counter() - start, computing[0], peak[0] / 1e6
        executed.add(item.path.name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Say the cost, and fail a notebook that ran well but cost too much."""
    report = yield
    if call.when == "call" and cost in item.stash:
        seconds, computing, megabytes = item.stash[cost]
        said = f"{item.path.name}: {seconds:.0f} s, {megabytes:.0f} MB"
        report.user_properties.append(("cost", said))
        limit = LONGER.get(item.path.name, MAX_SECONDS)
        slow = max(min(seconds, computing), seconds / 2) > limit
        if report.passed and (slow or megabytes > MAX_MEGABYTES):
            report.outcome = "failed"
            report.longrepr = f"{said}: more than {limit} s or {MAX_MEGABYTES} MB"
    return report


def pytest_terminal_summary(terminalreporter):
    costs = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "cost"
    ]
    for cost in sorted(set(costs)):
        terminalreporter.write_line(f"notebook {cost}")


def pytest_sessionfinish(session):
    """In CI, a notebook that did not run is a failure, whatever the reason."""
    missing = {path.name for path in NOTEBOOKS.glob("*.ipynb")} - executed
    if os.environ.get("CI") and missing:
        session.config.get_terminal_writer().line(f"\nnot executed: {', '.join(sorted(missing))}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
