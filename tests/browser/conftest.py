"""One JupyterLab and one Chromium for all tests here; a picture of the page when a test fails."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

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
    driver = load("lab")
    if driver.find_chromium() is None:
        skip(f"Chromium is missing: none of the commands {', '.join(driver.CHROMIUM)} is there")
    return driver


@pytest.fixture(scope="session")
def expect(lab):
    """Playwright's assertions that wait."""
    from playwright.sync_api import expect

    return expect


@pytest.fixture(scope="session")
def screenshot(lab):
    """The tool that makes the README's picture; it imports the driver."""
    return load("screenshot")


def load(name: str) -> ModuleType:
    """Import a tool from its file."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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


@pytest.fixture(scope="session")
def mathjax() -> str:
    """The option that CONTRIBUTING.md gives for pages without a network."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [(option, path)] = re.findall(r'^`(.*mathjax_url=)"(file:.*)"`', text, re.MULTILINE)
    if not Path(urlsplit(path).path).exists():
        skip("MathJax is missing: it is Debian's package libjs-mathjax")
    return option + path


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
