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
SECONDS = 0.4  # from a slider's move to the new picture, median
PRESSES = 4  # of each slider, to and fro
ANYTHING = re.compile(r"\w")
CONTROLS = "[role=slider], select, input, button"
OUTPUT = ".jp-OutputArea-output"

# What the page does, in its own language. Each takes an element; what is wrong comes back as text.
CHANGED = """([view, old, drawn]) => {
    const image = view.querySelector("img"), words = [...view.children].at(-1).textContent
    return jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === "idle"
        && words !== old.words
        && (!drawn || image.src !== old.src && image.complete && image.alt === words)
}"""
ONE_COLOUR = """image => {
    const canvas = new OffscreenCanvas(64, 64), context = canvas.getContext("2d")
    context.drawImage(image, 0, 0, 64, 64)
    const dots = new Uint32Array(context.getImageData(0, 0, 64, 64).data.buffer)
    return dots.every(dot => dot === dots[0])
}"""
CUT = """root => {
    const edge = root.closest(".jp-Notebook").getBoundingClientRect().right
    const cut = element => element.getBoundingClientRect().right > edge
        || getComputedStyle(element).overflowX !== "visible"
        && element.scrollWidth > element.clientWidth + 1
    return [root, ...root.querySelectorAll("*")]
        .filter(element => element.checkVisibility() && element.clientWidth && cut(element))
        .map(element => `${element.tagName}.${element.className}: ${element.textContent.trim()}`)
}"""
PALE = """root => {
    const context = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true})
    const channels = color => {
        context.clearRect(0, 0, 1, 1)
        context.fillStyle = color
        context.fillRect(0, 0, 1, 1)
        const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data
        return [r, g, b, a / 255]
    }
    const over = (top, below) => [0, 1, 2].map(i => top[3] * top[i] + (1 - top[3]) * below[i])
    const background = element => {
        if (!element) return [255, 255, 255]
        const color = channels(getComputedStyle(element).backgroundColor)
        return color[3] === 1 ? color : over(color, background(element.parentElement))
    }
    const light = color => [0, 1, 2].map(i => color[i] / 255)
        .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
        .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0)
    const contrast = element => {
        const below = background(element)
        const text = over(channels(getComputedStyle(element).color), below)
        const [dark, bright] = [light(text), light(below)].sort((a, b) => a - b)
        return (bright + 0.05) / (dark + 0.05)
    }
    const large = element => {
        const {fontSize, fontWeight} = getComputedStyle(element)
        return parseFloat(fontSize) >= (fontWeight >= 700 ? 18.66 : 24)
    }
    const written = element => element.matches("input, select") || [...element.childNodes].some(
        node => node.nodeType === Node.TEXT_NODE && /[^\\s\\u200b]/.test(node.data))
    return [root, ...root.querySelectorAll("*")]
        .filter(element => element.checkVisibility({opacityProperty: true}) && written(element))
        .filter(element => !element.disabled && !element.closest("svg, mjx-assistive-mml, option"))
        .map(element => [element, contrast(element)])
        .filter(([element, ratio]) => ratio < (large(element) ? 3 : 4.5))
        .map(([element, ratio]) => `${ratio.toFixed(1)} ${element.tagName}: ${
            (element.value || element.textContent).trim().slice(0, 60)}`)
}"""


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request) -> Path:
    """The committed notebook."""
    return request.param


@pytest.fixture(scope="module")
def ran(lab, chromium, address, path) -> Iterator:
    """A notebook that has run, in a page."""
    notebook = lab.Notebook(chromium, address, path.name)
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


def committed(path: Path) -> list[list[dict]]:
    """The committed outputs of each cell; none for text."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell.get("outputs", []) for cell in cells]


def test_every_cell_runs_and_shows_what_the_committed_page_shows(notebook, path):
    cells = notebook.page.locator(".jp-Notebook-cell").all()
    shown = committed(path)
    assert len(cells) == len(shown)
    for number, (cell, outputs) in enumerate(zip(cells, shown, strict=True)):
        faulty = cell.locator(f"{OUTPUT}[data-mime-type*=error], {OUTPUT}[data-mime-type*=stderr]")
        assert faulty.all_inner_texts() == [], f"cell {number}"
        assert (cell.locator(OUTPUT).count() > 0) == bool(outputs), f"cell {number}"
        pictures = sum("image/png" in output.get("data", ()) for output in outputs)
        assert cell.locator(f"{OUTPUT} img").count() >= pictures, f"cell {number}"
    sources = [cell["source"] for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    views = sum("".join(source).startswith("explorers.explore_") for source in sources)
    assert len(notebook.views()) >= views


def test_every_picture_shows_something_and_has_words_for_who_cannot_see_it(notebook):
    for image in notebook.page.locator(f"{OUTPUT} img, .jp-RenderedMarkdown img").all():
        assert image.evaluate("image => image.complete && image.naturalWidth > 100")
        assert not image.evaluate(ONE_COLOUR), "an empty picture"
        assert image.get_attribute("alt")


def use(notebook, view, press, redraws: bool = True) -> float:
    """Use a control; return the seconds until the picture and its words were others.

    redraws  False = only the words need to change
    """
    old = view.evaluate(
        "view => ({src: view.querySelector('img').src, "
        "words: [...view.children].at(-1).textContent})"
    )
    outputs = notebook.page.locator(OUTPUT).count()
    start = time.perf_counter()
    press()
    notebook.page.wait_for_function(
        CHANGED, arg=[view.element_handle(), old, redraws], timeout=20_000
    )
    seconds = time.perf_counter() - start
    words = view.locator("> :last-child").inner_text()
    assert "⚠" not in words
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


def test_every_control_changes_the_picture_and_its_words_in_place(notebook):
    keyboard = notebook.page.keyboard
    for view in notebook.views():
        for control in view.locator("input[type=text]").all():
            text = other_text(control.input_value())
            control.focus()
            keyboard.press("Control+a")
            keyboard.type(text)
            use(notebook, view, lambda: keyboard.press("Enter"))
        for control in view.locator("input[type=checkbox]").all():
            control.focus()
            use(notebook, view, lambda: keyboard.press("Space"))
        for control in view.locator("select").all():
            last = control.evaluate("box => box.selectedIndex === box.options.length - 1")
            control.focus()
            keyboard.press("Space")  # opens it: while it is closed, the arrows are JupyterLab's
            keyboard.press("ArrowUp" if last else "ArrowDown")
            use(notebook, view, lambda: keyboard.press("Enter"))
        for control in view.locator("[role=slider]").all():
            control.focus()
            for key in (*(["End"] if is_at_least(control) else []), "Home", "ArrowRight"):
                use(notebook, view, lambda key=key: keyboard.press(key))
        for control in view.locator("button:enabled").all():
            control.focus()
            use(notebook, view, lambda: keyboard.press("Enter"), redraws=False)


def test_a_slider_s_move_is_answered_at_once(notebook):
    keyboard, seconds = notebook.page.keyboard, []
    for view in notebook.views():
        for control in view.locator("[role=slider]").all():
            control.focus()
            if not is_at_least(control):
                use(notebook, view, lambda: keyboard.press("Home"))
            seconds += [
                use(notebook, view, lambda key=key: keyboard.press(key))
                for key in ("ArrowRight", "ArrowLeft") * (PRESSES // 2)
            ]
    if seconds:
        print(f"median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s")
        assert statistics.median(seconds) < SECONDS


def test_every_control_has_a_name_and_tab_reaches_it(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    for view in notebook.views():
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
    assert [line for part in parts for line in part.evaluate(CUT)] == []


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_every_word_stands_out_from_what_is_behind_it(notebook, theme):
    notebook.set_theme(theme)
    parts = notebook.page.locator(f"{OUTPUT}, .jp-RenderedMarkdown").all()
    assert [line for part in parts for line in part.evaluate(PALE)] == []


@pytest.mark.parametrize("path", [NOTEBOOKS[6]], indirect=True, ids=["07_attention_heatmaps"])
def test_the_readme_shows_a_view_as_it_is(notebook, path, screenshot):
    now = screenshot.take_picture(notebook)
    kept = screenshot.PICTURE.read_bytes()
    assert now[:29] == kept[:29], "another size or another kind of file"
    assert max(len(now), len(kept)) < 200_000
    readme = (path.parent.parent / "README.md").read_text(encoding="utf-8")
    [(words, file)] = re.findall(r"!\[([^\]]+)\]\(([^)]+\.png)\)", readme)
    assert path.parent.parent / file == screenshot.PICTURE
    assert "attention" in words
