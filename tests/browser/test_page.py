"""The notebooks as pages: what nbconvert makes of them, on the screen and on paper."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
WIDTHS = [  # in dots; the margins of paper take an inch
    ("print", round(96 * 7.27)),  # A4
    ("print", round(96 * 7.5)),  # Letter
    ("screen", 800),
]


def convert(folder: Path, notebooks: list[Path], *options: str) -> Path:
    """Make notebooks into pages, by the command that CONTRIBUTING.md gives."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [command] = re.findall(r"^jupyter (nbconvert .*) notebooks/\*\.ipynb$", text, re.MULTILINE)
    subprocess.run(
        [sys.executable, "-m", *command.split(), "--output-dir", folder, *options, *notebooks],
        cwd=ROOT,
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """The folder of all notebooks as pages."""
    return convert(tmp_path_factory.mktemp("pages"), NOTEBOOKS)


@pytest.fixture(scope="module")
def paper(lab, chromium):
    """A page without Jupyter; other hosts are refused."""
    page = chromium.new_page()
    page.route(lab.is_elsewhere, lambda route: route.abort())
    yield page
    page.close()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_line_of_code_and_no_picture_is_cut_at_the_right(paper, show, pages, notebook):
    show(paper)
    paper.goto((pages / f"{notebook.stem}.html").as_uri())
    paper.add_script_tag(path=Path(__file__).with_name("page.js"))
    for media, width in WIDTHS:
        paper.emulate_media(media=media)
        paper.set_viewport_size({"width": width, "height": 1000})
        assert paper.evaluate("cutOnPage()") == [], f"{media}, {width} dots"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_prints_on_several_pages(paper, show, pages, notebook):
    show(paper)
    paper.goto((pages / f"{notebook.stem}.html").as_uri())
    pdf = paper.pdf(format="A4", print_background=True)
    assert 5 <= len(re.findall(rb"/Type /Page\b", pdf)) <= 40


def test_a_copy_of_mathjax_sets_the_formulas_without_a_network(paper, show, mathjax, tmp_path):
    show(paper)
    [notebook] = ROOT.glob("notebooks/03_*.ipynb")
    convert(tmp_path, [notebook], mathjax)
    paper.goto((tmp_path / f"{notebook.stem}.html").as_uri())
    paper.evaluate("new Promise(done => MathJax.Hub.Queue(done))")
    formulas = [cell.count("$") // 2 for cell in markdown(notebook)]
    assert paper.locator(".MathJax_CHTML").count() >= sum(formulas) / 2
    assert not [text for text in paper.locator("p").all_inner_texts() if "$" in text]


def markdown(path: Path) -> list[str]:
    """The text of a notebook's markdown cells."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
