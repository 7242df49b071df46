"""One JupyterLab and one Chromium for all tests here; a picture of the page when a test fails."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "build" / "browser"

shown = pytest.StashKey()  # the page that a test looks at


def skip(reason: str) -> None:
    """Skip the tests; in CI they fail."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@pytest.fixture(scope="session")
def lab():
    """The driver, tools/lab.py."""
    if importlib.util.find_spec("playwright") is None:
        skip("Playwright is missing: pip install playwright")
    spec = importlib.util.spec_from_file_location("lab", ROOT / "tools" / "lab.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.find_chromium() is None:
        skip(f"Chromium is missing: none of the commands {', '.join(module.CHROMIUM)} is there")
    return module


@pytest.fixture(scope="session")
def chromium(lab):
    with lab.chromium(lab.find_chromium()) as browser:
        yield browser


@pytest.fixture(scope="session")
def address(lab, tmp_path_factory) -> Iterator[str]:
    """Where a JupyterLab serves a copy of the notebooks."""
    folder = tmp_path_factory.mktemp("lab") / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder)
    with lab.jupyterlab(folder) as address:
        yield address


@pytest.fixture
def show(request):
    """Tell which page a test looks at."""

    def remember(page):
        request.node.stash[shown] = page
        return page

    return remember


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where a test fails, keep what its page looks like, and say where."""
    report = yield
    if report.failed and shown in item.stash and not item.stash[shown].is_closed():
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{re.sub(r'[^a-z0-9]+', '_', item.name.lower())}.png"
        item.stash[shown].screenshot(path=path)
        report.sections.append(("the page as it was", str(path)))
    return report
