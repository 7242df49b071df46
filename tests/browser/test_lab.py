"""Every notebook in a real JupyterLab: run, looked at, and used as a reader does, by keyboard."""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

NOTEBOOKS = sorted(Path(__file__).parents[2].glob("notebooks/*.ipynb"))
SECONDS = 0.4  # from a slider's move to the new picture, where nothing else runs; the median
PATIENCE = 30  # seconds for a view to change at all
ANYTHING = re.compile(r"\w")
CONTROLS = "[role=slider], select, input, button, [contenteditable=true]"
OUTPUT = ".jp-OutputArea-output"


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request) -> Path:
    """The committed notebook."""
    return request.param


@pytest.fixture(scope="module")
def ran(lab, chromium, address, path) -> Iterator:
    """A notebook that has run, in a page."""
    notebook = lab.Notebook(chromium, address, path.name)
    notebook.page.add_script_tag(path=Path(__file__).with_name("page.js"))
    notebook.run()
    yield notebook
    notebook.close()


@pytest.fixture
def notebook(ran, show) -> Iterator:
    """The notebook that has run; whatever goes wrong during a test is its failure."""
    show(ran.page)
    yield ran
    faults, ran.faults[:] = list(ran.faults), []
    assert faults == []


def test_every_cell_runs_and_shows_what_the_committed_page_shows(notebook, path, expect):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    views = sum("explorers.explore_" in "".join(cell["source"]) for cell in cells)
    expect(notebook.views).to_have_count(views)
    places = notebook.page.locator(".jp-Notebook-cell").all()
    assert len(places) == len(cells)
    for place, cell in zip(places, cells, strict=True):
        said = f"the cell that begins with {''.join(cell['source'])[:60]!r}"
        faulty = place.locator(f"{OUTPUT}[data-mime-type*=error], {OUTPUT}[data-mime-type*=stderr]")
        assert faulty.all_inner_texts() == [], said
        outputs = cell.get("outputs", [])
        assert (place.locator(OUTPUT).count() > 0) == bool(outputs), said
        pictures = sum("image/png" in output.get("data", ()) for output in outputs)
        assert place.locator(f"{OUTPUT} img").count() >= pictures, said


def test_every_picture_shows_something_and_has_words_for_who_cannot_see_it(notebook):
    for image in notebook.page.locator(f"{OUTPUT} img, .jp-RenderedMarkdown img").all():
        assert image.evaluate("image => image.complete && image.naturalWidth > 100")
        assert not image.evaluate("image => oneColour(image)"), "an empty picture"
        assert image.get_attribute("alt")


def draws_at_once(view) -> bool:
    """Whether a control draws; where it takes a training, it only says what would be trained."""
    return view.get_by_role("button", name="Train").count() == 0


def use(notebook, view, press, redraws: bool = True) -> float:
    """Use a control; return the seconds until the picture and its words were others.

    redraws  False = only the words need to change
    """
    old = view.evaluate("view => state(view)")
    outputs = notebook.page.locator(OUTPUT).count()
    start = time.perf_counter()
    press()
    notebook.page.wait_for_function(
        "([view, old, redrawn]) => changed(view, old, redrawn)",
        arg=[view.element_handle(), old, redraws],
        timeout=1000 * PATIENCE,
    )
    seconds = time.perf_counter() - start
    words = view.locator("> :last-child").inner_text()
    assert not words.startswith("⚠"), words
    assert view.locator("img").count() == 1, "the new picture stands beside the old"
    assert notebook.page.locator(OUTPUT).count() == outputs, "there is another output"
    return seconds


def is_at_least(slider) -> bool:
    """Whether a slider stands at its lower end."""
    return slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemin")


def other_text(text: str) -> str:
    """Something else that fits: the numbers in another order, or another sentence."""
    if text.replace(",", "").replace(" ", "").isdecimal():
        first, *others = text.split(", ")
        return ", ".join([*others, first])
    return "He wants a green hat."


def test_every_control_changes_the_picture_and_its_words_in_place(notebook, expect):
    keyboard = notebook.page.keyboard
    for view in notebook.views.all():
        at_once = draws_at_once(view)
        for control in view.locator("input[type=text]").all():
            text = other_text(control.input_value())
            control.focus()
            keyboard.press("Control+a")
            keyboard.type(text)
            use(notebook, view, lambda: keyboard.press("Enter"), at_once)
        for control in view.locator("input[type=checkbox]").all():
            control.focus()
            use(notebook, view, lambda: keyboard.press("Space"), at_once)
        for control in view.locator("select:has(option + option)").all():  # there is a choice
            last = control.evaluate("box => box.selectedIndex === box.options.length - 1")
            control.focus()
            keyboard.press("Space")  # opens it: while it is closed, the arrows are JupyterLab's
            keyboard.press("ArrowUp" if last else "ArrowDown")
            use(notebook, view, lambda: keyboard.press("Enter"), at_once)
        for control in view.locator("[role=slider]").all():
            control.focus()
            for key in (*(["End"] if is_at_least(control) else []), "Home", "ArrowRight"):
                use(notebook, view, lambda key=key: keyboard.press(key), at_once)
            value = control.locator("xpath=ancestor::*[contains(@class, 'widget-slider')]")
            expect(control).to_have_attribute(
                "aria-valuetext", value.locator(".widget-readout").inner_text()
            )
        for control in view.locator("button:enabled").all():
            control.focus()
            use(notebook, view, lambda: keyboard.press("Enter"), redraws=False)
        if not at_once:
            expect(view.locator("img")).to_have_attribute("alt", re.compile("Before: "))


def share_of_a_processor() -> float:
    """How much of one other processes leave, from 0 to 1."""
    start, used = time.perf_counter(), time.process_time()
    while time.process_time() < used + 0.05:
        pass
    return 0.05 / (time.perf_counter() - start)


def test_a_slider_s_move_is_answered_at_once(notebook):
    keyboard, seconds = notebook.page.keyboard, []
    for view in filter(draws_at_once, notebook.views.all()):
        for control in view.locator("[role=slider]").all():
            control.focus()
            if not is_at_least(control):
                use(notebook, view, lambda: keyboard.press("Home"))
            for key in ("ArrowRight", "ArrowLeft") * 2:
                share = share_of_a_processor()
                seconds.append(share * use(notebook, view, lambda key=key: keyboard.press(key)))
    if seconds:
        print(f"median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s")
        assert statistics.median(seconds) < SECONDS


def test_every_control_has_a_name_and_tab_reaches_it(notebook, expect):
    page = notebook.page
    for view in notebook.views.all():
        controls = [control for control in view.locator(CONTROLS).all() if control.is_enabled()]
        for control in controls:
            expect(control).to_have_accessible_name(ANYTHING)
        controls[0].focus()
        page.keyboard.press("Shift+Tab")
        reached = page.evaluate_handle("new Set()")
        for _ in range(2 * len(controls)):
            page.keyboard.press("Tab")
            reached.evaluate("reached => reached.add(document.activeElement)")
        for control in controls:
            assert reached.evaluate("(reached, c) => reached.has(c)", control.element_handle())


@pytest.mark.parametrize(
    ("width", "parts"),  # in a narrow window a long formula has to be scrolled
    [(1280, f"{OUTPUT}, .jp-RenderedMarkdown"), (800, OUTPUT)],
    ids=["1280", "800"],
)
def test_nothing_is_cut_off_at_the_right(notebook, width, parts):
    notebook.set_size(width, 1000)
    parts = notebook.page.locator(parts).all()
    assert [fault for part in parts for fault in part.evaluate("part => cut(part)")] == []


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_every_word_stands_out_from_what_is_behind_it(notebook, theme):
    notebook.set_theme(theme)
    parts = notebook.page.locator(f"{OUTPUT}, .jp-RenderedMarkdown").all()
    assert [fault for part in parts for fault in part.evaluate("part => pale(part)")] == []


@pytest.mark.parametrize("path", [NOTEBOOKS[6]], indirect=True, ids=["07_attention_heatmaps"])
def test_the_readme_shows_a_view_as_it_is(notebook, path, screenshot):
    now = screenshot.take_picture(notebook)
    kept = screenshot.PICTURE.read_bytes()
    assert now[:29] == kept[:29], "another size or another kind of file"
    assert max(len(now), len(kept)) < 200_000
    readme = (path.parent.parent / "README.md").read_text(encoding="utf-8")
    (words, file), *_ = re.findall(r"!\[([^\]]+)\]\(([^)]+\.png)\)", readme)
    assert path.parent.parent / file == screenshot.PICTURE
    assert "attention" in words
