"""What each notebook must keep to when it runs as a test: time, memory, and that it did run."""

import os
import threading
import time
from pathlib import Path

import psutil
import pytest

MAX_SECONDS = 60  # on two CPU cores
MAX_MEGABYTES = 900  # of the kernel; Binder gives 2 GB in all
NOTEBOOKS = Path(__file__).parent / "notebooks"

executed: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if item.path.suffix != ".ipynb":
        return (yield)
    done = threading.Event()
    peak = [0]

    def watch():
        while not done.wait(0.1):
            for kernel in psutil.Process().children():
                try:
                    peak[0] = max(peak[0], kernel.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue

    watcher = threading.Thread(target=watch)
    start = time.perf_counter()
    watcher.start()
    try:
        result = yield
    finally:
        done.set()
        watcher.join()
    seconds, megabytes = time.perf_counter() - start, peak[0] / 1e6
    item.add_report_section("call", "cost", f"{seconds:.0f} s, {megabytes:.0f} MB")
    item.user_properties.append(("cost", f"{item.path.name}: {seconds:.0f} s, {megabytes:.0f} MB"))
    executed.add(item.path.name)
    assert seconds <= MAX_SECONDS, f"took {seconds:.0f} s, more than {MAX_SECONDS}"
    assert megabytes <= MAX_MEGABYTES, f"took {megabytes:.0f} MB, more than {MAX_MEGABYTES}"
    return result


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
