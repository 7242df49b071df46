"""The committed notebooks as pages: what a reader without Jupyter sees, and one who cannot see."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup  # nbconvert's own dependency
from nbconvert import HTMLExporter

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request) -> nbformat.NotebookNode:
    return nbformat.read(request.param, as_version=4)


@pytest.fixture(scope="module")
def page(notebook) -> BeautifulSoup:
    """The notebook as `jupyter nbconvert --to html` makes it with the project's template."""
    exporter = HTMLExporter(template_file=str(ROOT / "tools" / "page.html.j2"))
    return BeautifulSoup(exporter.from_notebook_node(notebook)[0], "html.parser")


def test_every_output_has_its_place_in_the_page(notebook, page):
    kept = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = page.select(".jp-OutputArea-output")
    assert len(shown) == len(kept)
    for place in shown:
        assert place.find("img") or re.search(r"\w", place.get_text())


def test_every_view_is_its_picture(notebook, page):
    views = [
        cell.outputs[-1]
        for cell in notebook.cells
        if cell.cell_type == "code" and "explorers.explore_" in cell.source
    ]
    pictures = {image["alt"]: image["src"] for image in page.select(".jp-OutputArea-output img")}
    for view in views:
        picture = pictures[view.metadata["image/png"].alt]
        assert picture.endswith(view.data["image/png"].strip())
    assert not page.select("script[type*=widget]")


def test_every_image_says_what_it_shows(page):
    for image in page.select("img"):
        words = image.get("alt", "")
        assert re.search(r"\w", words)
        assert not words.startswith(("No description", "<"))


def test_the_page_fetches_nothing_but_mathjax(page):
    linked = [tag["src"] for tag in page.select("[src]") if not tag["src"].startswith("data:")]
    linked += [tag["href"] for tag in page.select("link[href]")]
    assert [re.search("mathjax", address) is not None for address in linked] == [True]
    assert not page.select("script[type=module]")
