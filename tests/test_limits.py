"""The limits that conftest.py sets for notebooks: each one fails a run that breaks it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

CONFTEST = Path(__file__).parent.parent / "conftest.py"


def run(root: Path, cell: str, limits: dict[str, str], *arguments: str, **environment: str):
    """Run pytest in a project that has one notebook of one cell; return what it did and said."""
    text = CONFTEST.read_text(encoding="utf-8")
    for line, other in limits.items():
        assert line in text
        text = text.replace(line, other)
    (root / "conftest.py").write_text(text, encoding="utf-8")
    (root / "notebooks").mkdir()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbformat.write(notebook, root / "notebooks" / "01.ipynb")
    (root / "test_other.py").write_text("def test_other(): pass\n", encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--nbmake", "-p", "no:cacheprovider", *arguments],
        cwd=root,
        env={key: value for key, value in os.environ.items() if key != "CI"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_notebook_within_its_limits_passes_and_its_cost_is_said(tmp_path):
    done = run(tmp_path, "1 + 1", {}, CI="true")
    assert done.returncode == 0, done.stdout
    assert "notebook 01.ipynb: " in done.stdout


@pytest.mark.parametrize(
    ("cell", "limits", "message"),
    [
        (
            "import time; start = time.time()\nwhile time.time() < start + 3: pass",
            {"MAX_SECONDS = 60": "MAX_SECONDS = 2.5"},
            "more than 2.5 s",
        ),
        ("import time; time.sleep(3)", {"MAX_SECONDS = 60": "MAX_SECONDS = 1.5"}, "more than 1.5"),
        ("import time; time.sleep(3)", {'"08_scaling_up.ipynb": 180': '"01.ipynb": 1.5'}, "1.5 s"),
        (
            "import time; x = b'x' * 300_000_000; time.sleep(0.5)",
            {"MAX_MEGABYTES = 900": "MAX_MEGABYTES = 300"},
            "or 300 MB",
        ),
    ],
    ids=["computing", "waiting", "its own limit", "memory"],
)
def test_a_notebook_beyond_a_limit_fails(tmp_path, cell, limits, message):
    done = run(tmp_path, cell, limits)
    assert done.returncode == 1
    assert message in done.stdout


def test_a_notebook_that_may_take_longer_is_one_that_there_is_and_passes(tmp_path):
    text = CONFTEST.read_text(encoding="utf-8")
    [line] = re.findall(r"^LONGER = .*$", text, re.MULTILINE)
    names = re.findall(r'"([^"]+)": \d+', line)
    assert [name for name in names if not (CONFTEST.parent / "notebooks" / name).exists()] == []
    limits = {"MAX_SECONDS = 60": "MAX_SECONDS = 1.5", f'"{names[0]}"': '"01.ipynb"'}
    assert run(tmp_path, "import time; time.sleep(3)", limits).returncode == 0


def test_in_ci_a_notebook_that_did_not_run_is_a_failure(tmp_path):
    done = run(tmp_path, "1 + 1", {}, "test_other.py", CI="true")
    assert done.returncode == 1
    assert "not executed: 01.ipynb" in done.stdout


def test_elsewhere_a_part_of_the_tests_may_run_alone(tmp_path):
    assert run(tmp_path, "1 + 1", {}, "test_other.py").returncode == 0
