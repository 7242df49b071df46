"""The notebooks beyond what running them as they are shows; pytest --nbmake does that."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
from nbclient import NotebookClient

import d2l_mini as d2l

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def test_one_word_takes_the_training_notebook_to_the_book_s_file(fra_eng, tmp_path, monkeypatch):
    """The file is where a download would have put it: nothing is fetched."""
    shutil.copy(fra_eng, tmp_path / "fra-eng.zip")
    monkeypatch.setenv("D2L_MINI_CACHE", str(tmp_path))
    notebook = nbformat.read(NOTEBOOKS / "05_training.ipynb", as_version=4)
    [cell] = [cell for cell in notebook.cells if 'source = "bundled"' in cell.source]
    cell.source = cell.source.replace('"bundled"', '"fra-eng"')
    NotebookClient(notebook, timeout=300).execute(cwd=str(tmp_path))
    printed = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ())
    )
    assert "downloading" not in printed
    assert "held out" in printed


def test_the_translator_of_the_training_notebook_is_the_ready_one(tmp_path, monkeypatch):
    """Up to the cell that compares them: on one machine they agree to the last bit."""
    monkeypatch.setenv("D2L_MINI_CACHE", str(tmp_path))
    d2l.ready_translator()
    notebook = nbformat.read(NOTEBOOKS / "05_training.ipynb", as_version=4)
    last = next(
        i
        for i, cell in enumerate(notebook.cells)
        if "ready_translator()" in cell.source and cell.cell_type == "code"
    )
    notebook.cells = notebook.cells[: last + 1]
    NotebookClient(notebook, timeout=300).execute(cwd=str(tmp_path))
    printed = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    assert "largest difference 0\n" in printed
