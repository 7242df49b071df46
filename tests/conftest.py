"""What every test relies on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session")
def fra_eng() -> Path:
    """The book's archive of sentence pairs."""
    path = os.environ.get("D2L_MINI_FRA_ENG")
    if path is None:
        reason = "D2L_MINI_FRA_ENG is not set: CONTRIBUTING.md says how to get the book's file"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return Path(path)


torch.set_num_threads(1)  # a tiny net gains nothing from more, and waits where others work


@pytest.fixture(autouse=True)
def own_cache_and_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test touches the user's cache or depends on the test before it."""
    monkeypatch.setenv("D2L_MINI_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(0)
