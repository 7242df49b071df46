"""Make the README's picture: the attention explorer of notebook 07, live in JupyterLab.

python tools/screenshot.py
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from lab import Notebook, chromium, find_chromium, jupyterlab
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "07_attention_heatmaps.ipynb"
PICTURE = ROOT / "docs" / "attention_explorer.png"
VIEW = "explorers.explore_attention("


def take_picture(notebook: Notebook) -> bytes:
    """Return a PNG file of JupyterLab, scrolled to the view of a notebook that has run."""
    notebook.set_theme("JupyterLab Light")
    notebook.set_size(960, 800)
    view = notebook.page.locator(".widget-vbox")
    cell = notebook.page.locator(".jp-Notebook-cell", has_text=VIEW).filter(has=view)
    cell.evaluate("cell => cell.scrollIntoView({block: 'start'})")
    image = Image.open(io.BytesIO(notebook.page.screenshot()))
    file = io.BytesIO()
    image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def main() -> None:
    """Run the notebook from a copy, and write the picture."""
    path = find_chromium()
    if path is None:
        sys.exit("Chromium is missing: install it, as in Debian's package chromium")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(NOTEBOOK, folder)
        with jupyterlab(Path(folder)) as address, chromium(path) as browser:
            notebook = Notebook(browser, address, NOTEBOOK.name)
            notebook.run()
            PICTURE.parent.mkdir(exist_ok=True)
            PICTURE.write_bytes(take_picture(notebook))
            notebook.close()
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
