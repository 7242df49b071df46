"""The notebooks as pages of paper: what `jupyter nbconvert --to html` makes, printed by Chromium."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
PAPER = {"A4": 8.27, "Letter": 8.5}  # inches of width, of which each margin takes a half
CUT = """() => [...document.querySelectorAll("pre, img, table")].flatMap(element => {
    const range = document.createRange()
    range.selectNode(element)
    const right = Math.max(...[...range.getClientRects()].map(box => box.right))
    return right <= innerWidth ? [] : [element.alt ?? element.textContent]
})"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """The folder with all notebooks as HTML, made by the command that CONTRIBUTING.md gives."""
    folder = tmp_path_factory.mktemp("pages")
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [command] = re.findall(r"^jupyter (nbconvert --to html .*?) *(?:#.*)?$", text, re.MULTILINE)
    arguments = [arg for arg in command.split() if not arg.startswith("notebooks/")]
    subprocess.run(
        [sys.executable, "-m", *arguments, "--output-dir", str(folder), *map(str, NOTEBOOKS)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def paper(lab, chromium):
    """A page as it is laid out for the printer; other hosts are refused."""
    page = chromium.new_page()
    page.emulate_media(media="print")
    page.route(lab.is_elsewhere, lambda route: route.abort())
    yield page
    page.close()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_line_of_code_and_no_picture_is_cut_at_the_edge_of_the_paper(
    paper, show, pages, notebook
):
    show(paper)
    for name, width in PAPER.items():
        paper.set_viewport_size({"width": round(96 * (width - 1)), "height": 1000})
        paper.goto((pages / f"{notebook.stem}.html").as_uri())
        assert paper.evaluate(CUT) == [], name


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_prints_on_several_pages(paper, show, pages, notebook):
    show(paper)
    paper.goto((pages / f"{notebook.stem}.html").as_uri())
    pdf = paper.pdf(format="A4", print_background=True)
    assert 5 <= len(re.findall(rb"/Type /Page\b", pdf)) <= 40
