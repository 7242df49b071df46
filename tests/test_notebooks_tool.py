"""tools/notebooks.py on small projects: a good one stays as it is, each fault gets its sentence."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from nbformat import NotebookNode, from_dict, v4

TOOL = Path(__file__).resolve().parent.parent / "tools" / "notebooks.py"
MENDS = ": run `python tools/notebooks.py`"
WIDGET = "application/vnd.jupyter.widget-view+json"
PIXEL = "iVBORw0KGgo="

ATTENTION = '''"""Attention."""

import math

__all__ = ["SCALES", "Attention", "scale", "twice"]

SCALES: dict[str, float] = {"one": 1.0}  # by name


@staticmethod
def scale(x):
    """Halve."""
    return x / 2  # (batch, steps)


class Attention:
    """Attend."""

    def forward(self, x):
        return scale(x)


def twice(x):
    return 2 * x


def helper(x):
    return x
'''
SCALE = '@staticmethod\ndef scale(x):\n    """Halve."""\n    return x / 2  # (batch, steps)'
SCALES = 'SCALES: dict[str, float] = {"one": 1.0}  # by name'
DATA = "limit = 3\n_hidden = 4\n\n\ndef twice(x):\n    return x + x\n"

# Places of the cells of a good notebook, once the row of links is in
TITLE, ROW, SETUP, QUOTE, TEXT, PICTURE, VARIANT = range(7)


def load_tool() -> ModuleType:
    """Import the tool from its file."""
    spec = importlib.util.spec_from_file_location("notebooks_tool", TOOL)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = load_tool()


def code(
    source: str, count: int, *outputs: NotebookNode, tags: tuple[str, ...] = ()
) -> NotebookNode:
    """A code cell that ran."""
    cell = v4.new_code_cell(source, execution_count=count, outputs=list(outputs))
    if tags:
        cell.metadata.tags = list(tags)
    return cell


def stream(text: str, name: str = "stdout") -> NotebookNode:
    """An output to stdout or stderr."""
    return v4.new_output("stream", name=name, text=text)


def display(metadata: dict | None = None, **data: object) -> NotebookNode:
    """A shown object; the keywords name its types, as in `text_plain`."""
    bundle = {mime.replace("_", "/", 1): value for mime, value in data.items()}
    return v4.new_output("display_data", data=bundle, metadata=metadata or {})


def good_notebook(title: str) -> NotebookNode:
    """A notebook of 24 cells that lacks the row of links alone."""
    size = {"image/png": {"width": 640, "height": 480, "alt": "a line"}}
    cells = [
        v4.new_markdown_cell(f"# {title}\n\n```\n# a comment, no title\n#### nor this\n```"),
        code("import math", 1, stream("ready\n")),
        code(SCALE, 2, tags=("quote",)),
        v4.new_markdown_cell(
            "## Why `scale`?\n\n[up](#Why-scale?) [GitHub's](#why-scale) "
            "[read](../README.md#how-to) ![drawn](attachment:a%20b.png) <img src='../README.md'> [paper](https://arxiv.org/a_(b))"
            "\n\n`[not](a-link)` and `http://localhost:8888` and $f[i](j)$ [list]\n\n"
            "[list]: 02_decode.ipynb#Why-scale?\n\n"
            "- ~~~\n  [a list](of-code)\n  ~~~\n",
            attachments={"a b.png": {"image/png": PIXEL}},
        ),
        code("math.pi", 3, display(size, image_png=PIXEL, text_plain="<Figure>")),
        code("def twice(x):\n    return 3 * x", 4, tags=("variant",)),
        *(v4.new_markdown_cell(f"Paragraph {n}. See https://d2l.ai/content/x") for n in range(18)),
    ]
    for place, cell in enumerate(cells):
        cell.id = f"c{place}"
    return v4.new_notebook(cells=cells, metadata=from_dict(tool.METADATA))


@pytest.fixture
def root(tmp_path: Path, capsys: pytest.CaptureFixture) -> Path:
    """A project of three notebooks in order."""
    root = tmp_path / "project"
    files = {
        "README.md": "# Read me\n\n## How to\n",
        "pyproject.toml": '[project]\nname = "d2l-mini"\n',
        "d2l_mini/__init__.py": "from .attention import *\n\n\ndef __getattr__(name): ...\n",
        "d2l_mini/attention.py": ATTENTION,
        "d2l_mini/data.py": DATA,
    }
    for name, title in (
        ("01_attend", "1. Attend"),
        ("02_decode", "02 Decode"),
        ("03_train", "Train"),
    ):
        files[f"notebooks/{name}.ipynb"] = v4.writes(good_notebook(title))
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8", newline="\n")
    assert tool.main([], root) == 0
    capsys.readouterr()
    return root


def edit(root: Path, change: Callable[[NotebookNode], object], name: str = "02_decode") -> Path:
    """Change a notebook's file."""
    path = root / "notebooks" / f"{name}.ipynb"
    notebook = v4.reads(path.read_text(encoding="utf-8"))
    change(notebook)
    path.write_text(v4.writes(notebook) + "\n", encoding="utf-8", newline="\n")
    return path


def run(root: Path, capsys: pytest.CaptureFixture, *arguments: str) -> tuple[int, list[str]]:
    """Run the tool; return its exit status and the lines it printed."""
    status = tool.main(list(arguments), root)
    printed = capsys.readouterr()
    return status, (printed.out + printed.err).splitlines()


def contents(root: Path) -> dict[Path, bytes]:
    """All files of the notebooks' folder, so that a left-over temporary file shows."""
    return {path: path.read_bytes() for path in (root / "notebooks").iterdir()}


# Changes to a notebook


def put(place: int, **fields: object) -> Callable[[NotebookNode], None]:
    """Set fields of the cell at a place."""
    return lambda notebook: notebook.cells[place].update(from_dict(fields))


def add(place: int, text: str) -> Callable[[NotebookNode], None]:
    """Add a paragraph to the cell at a place."""
    return lambda notebook: notebook.cells[place].update(
        source=f"{notebook.cells[place].source}\n\n{text}"
    )


def show(*outputs: NotebookNode) -> Callable[[NotebookNode], None]:
    """Replace the outputs of the setup cell."""
    return put(SETUP, outputs=list(outputs))


def tag(place: int, *tags: str) -> Callable[[NotebookNode], None]:
    """Replace the tags of the cell at a place."""
    return put(place, metadata={"tags": list(tags)} if tags else {})


def both(*changes: Callable[[NotebookNode], object]) -> Callable[[NotebookNode], None]:
    """Make one change after another."""
    return lambda notebook: [change(notebook) for change in changes]


def drop(place: int) -> Callable[[NotebookNode], object]:
    """Remove the cell at a place."""
    return lambda notebook: notebook.cells.pop(place)


# A good project


def test_good_project_is_in_order_and_left_alone(root, capsys):
    """Neither command touches what is in order."""
    before = contents(root)
    assert run(root, capsys, "--check") == (0, ["3 notebooks in order"])
    assert run(root, capsys) == (0, [])
    assert contents(root) == before


def test_only_the_named_notebooks_are_looked_at(root, capsys):
    """Paths restrict both commands."""
    other = edit(root, add(TEXT, "#### Deep"), "01_attend")
    path = edit(root, put(ROW, source="old"))
    assert run(root, capsys, "--check", str(root / "notebooks" / "03_train.ipynb")) == (
        0,
        ["1 notebook in order"],
    )
    before = other.read_bytes()
    assert run(root, capsys, str(path)) == (0, ["notebooks/02_decode.ipynb: put in order"])
    assert other.read_bytes() == before


def test_runs_as_a_command_on_its_own_project_without_torch(root):
    """The file's place names the project; neither torch nor the package is imported."""
    copy = root / "tools" / "notebooks.py"
    copy.parent.mkdir()
    copy.write_bytes(TOOL.read_bytes())
    for package in "torch", "d2l_mini":
        (copy.parent / f"{package}.py").write_text("raise ImportError('must not be imported')")
    start = time.perf_counter()
    done = subprocess.run([sys.executable, copy, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "3 notebooks in order\n"), done.stderr
    assert time.perf_counter() - start < 10


# Faults that the tool mends


MENDED = {
    "a quote that differs": (
        put(QUOTE, source="def scale(x):\n    return x"),
        ", cell 4: the quote differs from d2l_mini",
    ),
    "a quote without its comment": (
        put(QUOTE, source=SCALE.replace("  # (batch, steps)", "")),
        ", cell 4: the quote differs from d2l_mini",
    ),
    "quotes joined by one blank line": (
        put(QUOTE, source=f"{SCALES}\n\n{SCALE}"),
        ", cell 4: the quote differs from d2l_mini",
    ),
    "a row of links with the wrong text": (
        put(ROW, source="[next](03_train.ipynb)"),
        ", cell 2: the row of links after the title is missing or outdated",
    ),
    "a row of links that lost its tag": (
        tag(ROW),
        ", cell 2: the row of links after the title is missing or outdated",
    ),
    "a row of links in another place": (
        lambda notebook: notebook.cells.insert(3, notebook.cells.pop(ROW)),
        ", cell 4: the row of links after the title is missing or outdated",
    ),
    "no row of links": (
        drop(ROW),
        ": the row of links after the title is missing or outdated",
    ),
    "two rows of links": (
        lambda notebook: notebook.cells.append(
            v4.new_markdown_cell("old", id="old", metadata={"tags": ["navigation"]})
        ),
        ", cell 2: the row of links after the title is missing or outdated",
    ),
    "widget state": (
        lambda notebook: notebook.metadata.update(widgets={}),
        ": the metadata are not just those of a Python 3 notebook",
    ),
    "another version of Python": (
        lambda notebook: notebook.metadata.language_info.update(version="3.11.7"),
        ": the metadata are not just those of a Python 3 notebook",
    ),
    "times of execution": (
        put(SETUP, metadata={"execution": {"iopub.execute_input": "2024-01-01"}}),
        ", cell 3: the cell has metadata beside its tags",
    ),
    "metadata of a markdown cell": (
        put(TEXT, metadata={"id": "aBc"}),
        ", cell 5: the cell has metadata beside its tags",
    ),
    "metadata beside a tag": (
        put(QUOTE, metadata={"tags": ["quote"], "collapsed": False}),
        ", cell 4: the cell has metadata beside its tags",
    ),
    "an empty list of tags": (
        put(SETUP, metadata={"tags": []}),
        ", cell 3: the cell has metadata beside its tags",
    ),
    "metadata of an output": (
        show(display({"needs_background": "light"}, text_plain="1")),
        ", cell 3: an output has metadata beside an image's size and words",
    ),
    "empty metadata of an image": (
        show(display({"image/png": {}}, image_png=PIXEL)),
        ", cell 3: an output has metadata beside an image's size and words",
    ),
    "a widget beside its picture": (
        show(display(image_png=PIXEL, **{WIDGET: {"model_id": "1"}})),
        ", cell 3: an output has a widget, which is blank without its kernel",
    ),
    "a picture beside itself as HTML": (
        show(display(image_png=PIXEL, text_html="<img>")),
        ", cell 3: an output has its picture twice",
    ),
    "a stream in pieces": (
        show(stream("a"), stream("b\n")),
        ", cell 3: a stream comes in pieces",
    ),
    "a set-up that never looks for the package": (
        put(SETUP, source="import math", metadata={"tags": ["setup"]}),
        ", cell 3: the set-up does not get the package as it should",
    ),
    "a set-up that installs another package": (
        put(
            SETUP,
            source=f"{tool.MISSING}    %pip install other\nimport math",
            metadata={"tags": ["setup"]},
        ),
        ", cell 3: the set-up does not get the package as it should",
    ),
    "an id used twice": (
        put(TEXT, id="c1"),
        ", cell 5: the cell has the id of an earlier one",
    ),
    "an older format": (
        lambda notebook: [
            notebook.update(nbformat_minor=4),
            *(cell.pop("id") for cell in notebook.cells),
        ],
        ": the file is not in the form that nbformat 4.5 writes",
    ),
}


@pytest.mark.parametrize(("change", "fault"), MENDED.values(), ids=MENDED)
def test_check_reports_and_refresh_mends(root, capsys, change, fault):
    """One sentence, one file rewritten, and then nothing more to do."""
    path = edit(root, change)
    before = contents(root)
    assert run(root, capsys, "--check") == (1, [f"notebooks/02_decode.ipynb{fault}{MENDS}"])
    assert contents(root) == before

    assert run(root, capsys) == (0, ["notebooks/02_decode.ipynb: put in order"])
    assert {other for other in before if other.read_bytes() != before[other]} == {path}
    assert run(root, capsys, "--check") == (0, ["3 notebooks in order"])

    mended = contents(root)
    assert run(root, capsys) == (0, [])
    assert contents(root) == mended


FORMS = {
    "no newline at the end": lambda data: data.rstrip(b"\n"),
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "another indent": lambda data: data.replace(b"\n ", b"\n  "),
    "escaped characters": lambda data: data.replace("é".encode(), b"\\u00e9"),
    "a trusted cell": lambda data: data.replace(
        b'"metadata": {}', b'"metadata": {"trusted": true}'
    ),
}


@pytest.mark.parametrize("change", FORMS.values(), ids=FORMS)
def test_file_has_the_form_that_nbformat_writes(root, capsys, change):
    """Another spelling of the same notebook becomes the usual one."""
    path = edit(root, add(TEXT, "café"))
    good = path.read_bytes()
    path.write_bytes(change(good))
    assert path.read_bytes() != good
    fault = "the file is not in the form that nbformat 4.5 writes"
    assert run(root, capsys, "--check") == (1, [f"notebooks/02_decode.ipynb: {fault}{MENDS}"])
    assert run(root, capsys) == (0, ["notebooks/02_decode.ipynb: put in order"])
    assert path.read_bytes() == good


def test_a_mended_cell_keeps_the_rest(root):
    """The size of an image, tags, ids, outputs and attachments stay."""
    path = edit(root, put(QUOTE, source="scale = 1", outputs=[stream("kept\n")]))
    edit(root, lambda notebook: notebook.cells[PICTURE].outputs[0].metadata.update(a=1))
    tool.main([], root)
    cells = v4.reads(path.read_text(encoding="utf-8")).cells
    assert cells[QUOTE].outputs == [stream("kept\n")]
    assert cells[QUOTE].metadata == {"tags": ["quote"]}
    assert cells[PICTURE].outputs[0].metadata == {
        "image/png": {"width": 640, "height": 480, "alt": "a line"}
    }
    assert cells[TEXT].attachments
    assert [cell.id for cell in cells[:4]] == ["c0", "navigation", "c1", "c2"]


def test_exercises_do_not_count_as_cells(root, capsys):
    """From the first cell with the tag on, a notebook may be as long as it needs."""
    path = root / "notebooks" / "02_decode.ipynb"
    tag = {"tags": ["exercise"]}

    def append(notebook):
        count = len(notebook.cells)
        more = [v4.new_markdown_cell("more", id=f"m{i}") for i in range(45 - count)]
        last = [v4.new_markdown_cell("last", id=f"l{i}", metadata=tag) for i in range(3)]
        notebook.cells += [*more, *last, v4.new_markdown_cell("end", id="end")]

    edit(root, append)
    assert run(root, capsys, "--check") == (0, ["3 notebooks in order"])
    edit(root, lambda notebook: [cell.metadata.pop("tags", 0) for cell in notebook.cells[-4:]])
    status, lines = run(root, capsys, "--check")
    assert status == 1
    assert "has 49 cells, not 25 to 45" in " ".join(lines)
    assert path.exists()


def test_quote_takes_the_text_of_the_source(root):
    """Decorators, comments and annotations come along; two blank lines join."""
    path = edit(root, put(QUOTE, source="SCALES = {}\ndef scale(): ...\nlimit = 0"))
    tool.main([], root)
    cells = v4.reads(path.read_text(encoding="utf-8")).cells
    assert cells[QUOTE].source == f"{SCALES}\n\n\n{SCALE}\n\n\nlimit = 3"


def test_quote_has_lf_endings_whatever_the_source_has(root, capsys):
    """A checkout with CRLF gives the same quotes."""
    source = root / "d2l_mini" / "attention.py"
    source.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))
    assert run(root, capsys, "--check") == (0, ["3 notebooks in order"])


def test_a_stream_is_joined_with_its_own_kind_only(root):
    """Other outputs keep pieces apart."""
    pieces = [stream("a"), stream("b", "stderr"), stream("c"), display(text_plain="1"), stream("d")]
    path = edit(root, show(*pieces))
    tool.main([], root)
    assert v4.reads(path.read_text(encoding="utf-8")).cells[SETUP].outputs == pieces


# The row of links


def row(root: Path, name: str) -> str:
    """The row of links of a notebook."""
    return (
        v4.reads((root / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")).cells[1].source
    )


def test_row_links_the_neighbours_by_their_titles(root):
    """The ends of the collection have one neighbour; numbers stay out of titles."""
    assert row(root, "01_attend") == "[Contents](../README.md) | Next: [Decode](02_decode.ipynb)"
    assert row(root, "02_decode") == (
        "Previous: [Attend](01_attend.ipynb) | [Contents](../README.md)"
        " | Next: [Train](03_train.ipynb)"
    )
    assert row(root, "03_train") == "Previous: [Decode](02_decode.ipynb) | [Contents](../README.md)"


def test_row_follows_a_new_title(root, capsys):
    """A renamed notebook outdates its neighbours' rows."""
    edit(root, put(TITLE, source="# 2. Translate"))
    fault = "the row of links after the title is missing or outdated"
    assert run(root, capsys, "--check")[1] == [
        f"notebooks/{name}.ipynb, cell 2: {fault}{MENDS}" for name in ("01_attend", "03_train")
    ]
    tool.main([], root)
    assert "Next: [Translate](02_decode.ipynb)" in row(root, "01_attend")


def test_a_text_with_the_id_of_the_row_is_not_written_over(root):
    """A converter may give the row's id to another cell: its text stays."""
    path = edit(root, lambda notebook: notebook.cells.pop(1))
    edit(root, lambda notebook: notebook.cells[1].update(id="navigation"))
    before = v4.reads(path.read_text(encoding="utf-8")).cells
    tool.main([], root)
    after = v4.reads(path.read_text(encoding="utf-8")).cells
    assert [cell.source for cell in after if "Contents" not in cell.source] == [
        cell.source for cell in before
    ]
    assert row(root, "02_decode").startswith("Previous: ")
    assert len({cell.id for cell in after}) == len(after)


def publish(root: Path, address: str = "https://github.com/ada/d2l-mini") -> None:
    """Write the public address of the project."""
    text = f'[project.urls]\nRepository = "{address}"\n'
    (root / "pyproject.toml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("end", ["", "/", ".git"])
def test_badges_appear_with_the_public_address(root, capsys, end):
    """Each notebook's badges open that notebook."""
    publish(root, f"https://github.com/ada/d2l-mini{end}")
    assert run(root, capsys, "--check")[0] == 1
    assert run(root, capsys)[0] == 0
    assert row(root, "03_train").split("\n\n")[1] == (
        "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
        "(https://colab.research.google.com/github/ada/d2l-mini/blob/main/notebooks/03_train.ipynb)\n"
        "[![Open in Binder](https://mybinder.org/badge_logo.svg)]"
        "(https://mybinder.org/v2/gh/ada/d2l-mini/HEAD?labpath=notebooks%2F03_train.ipynb)"
    )
    assert run(root, capsys, "--check") == (0, ["3 notebooks in order"])


def test_readme_gets_the_badges_of_the_first_notebook_below_its_title(root, capsys):
    """Whoever comes by the front page begins at the beginning."""
    publish(root)
    fault = "README.md: the badges are missing or outdated"
    assert f"{fault}{MENDS}" in run(root, capsys, "--check")[1]
    assert "README.md: put in order" in run(root, capsys)[1]
    title, badges, rest = (root / "README.md").read_text(encoding="utf-8").split("\n\n", 2)
    assert (title, rest) == ("# Read me", "## How to\n")
    assert badges == row(root, "01_attend").split("\n\n")[1]
    assert run(root, capsys, "--check")[0] == 0


def test_without_the_address_all_is_as_it_was(root, capsys):
    """To publish can be taken back, and another address takes the place of the first."""
    path = edit(root, put(SETUP, metadata={"tags": ["setup"]}))
    run(root, capsys)
    files = [root / "README.md", root / "pyproject.toml", *contents(root)]
    before = [file.read_bytes() for file in files]
    for name in "ada", "bob":
        publish(root, f"https://github.com/{name}/d2l-mini")
        assert run(root, capsys)[0] == 0
        written = "".join(file.read_text(encoding="utf-8") for file in files[:1] + files[2:])
        # 2 badges in README.md and in each notebook, and what the set-up installs
        assert written.count(f"{name}/d2l-mini") == 2 * 4 + 1
        assert f"git+https://github.com/{name}/d2l-mini" in path.read_text(encoding="utf-8")
    files[1].write_bytes(before[1])
    assert run(root, capsys, "--check")[0] == 1
    assert run(root, capsys)[0] == 0
    assert [file.read_bytes() for file in files] == before


# The set-up


@pytest.mark.parametrize("first", ["", "from __future__ import annotations\n\n"])
def test_set_up_without_an_address_says_in_a_sentence_what_to_do(root, capsys, monkeypatch, first):
    """Only where the package is missing; and what must stand first does."""
    imports = "import math\n\nimport string"
    path = edit(root, put(SETUP, source=first + imports, metadata={"tags": ["setup"]}))
    run(root, capsys)
    source = v4.reads(path.read_text(encoding="utf-8")).cells[SETUP].source
    assert source.startswith(first)
    assert source.endswith(imports)
    for found in None, "the package":
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, found=found: found)
        names: dict[str, object] = {}
        if found:
            exec(source, names)
            assert "string" in names
        else:
            with pytest.raises(ModuleNotFoundError, match=r"^d2l_mini is missing: .* kernel$"):
                exec(source, names)


# Faults that only a person can mend


def lines_of(count: int) -> str:
    """Code of so many lines."""
    return "\n".join(f"x = {n}" for n in range(count))


ERROR = v4.new_output("error", ename="ValueError", evalue="no", traceback=["ValueError: no"])
PLACES = [
    "/home/ada/x.py",
    "/root/x",
    "/Users/ada/x",
    "C:\\Users\\ada",
    "/tmp/x",
    "/content/x",
    "/work/x",
]

LEFT = {
    "a quote that does not parse": (
        put(QUOTE, source="def scale(:"),
        ", cell 4: is tagged `quote` but line 1 is not Python: mend it",
    ),
    "a quote with a call": (
        put(QUOTE, source=f"{SCALE}\n\n\nscale(1)"),
        ", cell 4: is tagged `quote` but holds more or less than definitions: split it",
    ),
    "a quote with an import": (
        put(QUOTE, source=f"import math\n\n\n{SCALE}"),
        ", cell 4: is tagged `quote` but holds more or less than definitions: split it",
    ),
    "a quote with two targets": (
        put(QUOTE, source="limit, scale = 1, 2"),
        ", cell 4: is tagged `quote` but holds more or less than definitions: split it",
    ),
    "a quote of comments": (
        put(QUOTE, source="# scale"),
        ", cell 4: is tagged `quote` but holds more or less than definitions: split it",
    ),
    "a quote of a private name": (
        put(QUOTE, source="_hidden = 4"),
        ", cell 4: quotes _hidden, which d2l_mini lacks: define it there first",
    ),
    "a quote of a name that is not listed": (
        put(QUOTE, source="def helper(x):\n    return x"),
        ", cell 4: quotes helper, which d2l_mini lacks: define it there first",
    ),
    "a quote of a name in two modules": (
        put(QUOTE, source="def twice(x):\n    return 2 * x"),
        ", cell 4: quotes twice, which d2l_mini defines 2 times: keep one",
    ),
    "a definition by hand": (
        put(SETUP, source="%matplotlib inline\nclass Attention:\n    pass"),
        ", cell 3: repeats d2l_mini.Attention by hand: tag the cell `quote`",
    ),
    "a variant without its tag": (
        tag(VARIANT),
        ", cell 7: repeats d2l_mini.twice by hand: tag the cell `quote`",
    ),
    "an error": (show(ERROR), ", cell 3: ends in ValueError: mend the code and run all cells"),
    "a warning": (
        show(stream("careful\n", "stderr")),
        ", cell 3: prints to stderr: remove the cause of the warning and run all cells",
    ),
    "a widget alone": (
        show(display(**{WIDGET: {"model_id": "1"}})),
        ", cell 3: shows a widget alone, blank on GitHub: show a picture beside it",
    ),
    "a widget beside its name alone": (
        show(display(text_plain="VBox(children=(Output(),\n))", **{WIDGET: {"model_id": "1"}})),
        ", cell 3: shows a widget alone, blank on GitHub: show a picture beside it",
    ),
    "two warnings": (
        show(stream("a\n", "stderr"), stream("b\n"), stream("c\n", "stderr")),
        ", cell 3: prints to stderr: remove the cause of the warning and run all cells",
    ),
    "a heading below code on one line": (
        add(TEXT, "```x``` and\n\n#### Deep"),
        ", cell 5: has the heading 'Deep' below ###: use at most three marks",
    ),
    **{
        f"{place} in a stream": (
            show(stream(f"read from {place}\n")),
            f", cell 3: shows {place}, a path of one machine: write or print a relative path",
        )
        for place in PLACES
    },
    "a path in a result": (
        show(display(text_html="<b>/home/ada/x</b>")),
        ", cell 3: shows /home/ada/x, a path of one machine: write or print a relative path",
    ),
    "a path in a drawing": (
        show(display(**{"image_svg+xml": "<svg><text>/home/ada/x</text></svg>"})),
        ", cell 3: shows /home/ada/x, a path of one machine: write or print a relative path",
    ),
    "a path in code": (
        put(SETUP, source="open('/home/ada/x')"),
        ", cell 3: shows /home/ada/x, a path of one machine: write or print a relative path",
    ),
    "a path in prose": (
        add(TEXT, "See `C:/Users/ada`."),
        ", cell 5: shows C:/Users/ada, a path of one machine: write or print a relative path",
    ),
    "an empty code cell": (
        put(VARIANT, source="\n", execution_count=None),
        ", cell 7: is empty: delete it",
    ),
    "a cell that did not run": (
        put(SETUP, execution_count=None),
        ", cell 3: did not run but is code cell 1: restart the kernel and run all cells",
    ),
    "a cell run twice": (
        put(VARIANT, execution_count=5),
        ", cell 7: ran as number 5 but is code cell 4: restart the kernel and run all cells",
    ),
    "cells run out of order": (
        both(put(QUOTE, execution_count=3), put(PICTURE, execution_count=2)),
        ", cell 4: ran as number 3 but is code cell 2: restart the kernel and run all cells",
    ),
    "too many bytes": (
        show(stream("x" * 500_000)),
        ": has {size} bytes, more than 500000: make its outputs smaller",
    ),
    "24 cells": (drop(-1), ": has 24 cells, not 25 to 45: join, split or move some"),
    "46 cells": (
        lambda notebook: notebook.cells.extend(v4.new_markdown_cell("x") for _ in range(21)),
        ": has 46 cells, not 25 to 45: join, split or move some",
    ),
    "a long cell": (
        put(SETUP, source=lines_of(16)),
        ", cell 3: has 16 lines of code, more than 15: split it",
    ),
    "no title": (
        put(TITLE, source="Attend"),
        ", cell 1: is not the title: begin the notebook with a markdown cell `# Title`",
    ),
    "a title in a code cell": (
        lambda notebook: notebook.cells.__setitem__(0, v4.new_raw_cell("# Title", id="c0")),
        ", cell 1: is not the title: begin the notebook with a markdown cell `# Title`",
    ),
    "a second title": (
        add(TEXT, "# Again"),
        ", cell 5: has a second title, 'Again': make it `## Again`",
    ),
    "a deep heading": (
        add(TEXT, "#### Deep"),
        ", cell 5: has the heading 'Deep' below ###: use at most three marks",
    ),
    "plain http": (
        add(TEXT, "[book](http://d2l.ai)"),
        ", cell 5: links to http://d2l.ai: write https://",
    ),
    "plain http without brackets": (
        add(TEXT, "See http://d2l.ai"),
        ", cell 5: links to http://d2l.ai: write https://",
    ),
    **{
        f"a dead link {markdown}": (
            add(TEXT, markdown),
            f", cell 5: links to {target!r}, which is no file of the project: mend the link",
        )
        for markdown, target in {
            "[x](04_gone.ipynb)": "04_gone.ipynb",
            "![x](gone.png 'title')": "gone.png",
            "[![x](https://a.org/b.svg)](gone.md)": "gone.md",
            "[x](<no file.md>)": "no file.md",
            "[x](no%20file.md#a)": "no%20file.md#a",
            "[x](gone_(1).md)": "gone_(1).md",
            "[x](/README.md)": "/README.md",
            "[x](../../outside)": "../../outside",
            "[x]()": "",
            '<img width="3" src="gone.png">': "gone.png",
            "[x]: gone.md": "gone.md",
        }.items()
    },
    **{
        f"a dead anchor {target}": (
            add(TEXT, f"[x]({target})"),
            f", cell 5: links to {target!r}, a heading that is not there: mend the link",
        )
        for target in ("#gone", "../README.md#gone", "03_train.ipynb#a-comment,-no-title")
    },
    "an attachment that is lost": (
        add(TEXT, "![x](attachment:gone.png)"),
        ", cell 5: links to 'attachment:gone.png', which the cell lacks: attach the picture again",
    ),
}


@pytest.mark.parametrize(("change", "fault"), LEFT.values(), ids=LEFT)
def test_check_reports_what_a_person_must_mend(root, capsys, change, fault):
    """One sentence, which a refresh does not silence."""
    (root.parent / "outside").touch()
    path = edit(root, change)
    tool.main([], root)  # a lost title changes the neighbours' links
    capsys.readouterr()
    fault = fault.format(size=path.stat().st_size)
    assert run(root, capsys, "--check") == (1, [f"notebooks/02_decode.ipynb{fault}"])


FINE = {
    "a long quote": put(QUOTE, source="class Long: ..."),
    "code on one line": add(TEXT, "```x``` and\n\n### more"),
    "text beside a widget": show(display(text_plain="five (5)", **{WIDGET: {"model_id": "1"}})),
    "a cell of 15 lines": put(SETUP, source=lines_of(15)),
    "45 cells": lambda notebook: notebook.cells.extend(
        v4.new_markdown_cell("x") for _ in range(20)
    ),
    "a heading ###": add(TEXT, "### Fine"),
    "a relative path": show(stream("../work/x and ./tmp/x and a/home/b\n")),
    "a public name assigned": put(SETUP, source="limit = 4"),
    "a link to a folder": add(TEXT, "[all](../notebooks/) [mail](mailto:ada@example.org)"),
    "an HTML result": show(display(text_html="<b>1</b>", text_plain="1")),
}


@pytest.mark.parametrize("change", FINE.values(), ids=FINE)
def test_check_lets_pass(root, capsys, change):
    """What looks like a fault but is none stays unreported."""
    long = "class Long:\n" + "\n".join(f"    a{n} = {n}" for n in range(20))
    (root / "d2l_mini" / "long.py").write_text(f"{long}\n")
    edit(root, change)
    tool.main([], root)
    capsys.readouterr()
    assert run(root, capsys, "--check") == (0, ["3 notebooks in order"])


def test_refresh_names_a_quote_it_cannot_find_and_mends_the_rest(root, capsys):
    """A lost quote does not hold up the other mends."""
    edit(root, both(put(QUOTE, source="gone = 1"), put(ROW, source="old")))
    fault = "quotes gone, which d2l_mini lacks: define it there first"
    lost = f"notebooks/02_decode.ipynb, cell 4: {fault}"
    assert run(root, capsys) == (1, ["notebooks/02_decode.ipynb: put in order", lost])
    assert run(root, capsys, "--check") == (1, [lost])


def test_each_problem_has_its_line(root, capsys):
    """The lines come notebook by notebook."""
    edit(root, both(add(TEXT, "#### Deep"), put(SETUP, execution_count=9)), "01_attend")
    edit(root, put(ROW, source="old"), "03_train")
    status, lines = run(root, capsys, "--check")
    assert status == 1
    assert [line.partition(":")[0] for line in lines] == [
        "notebooks/01_attend.ipynb, cell 3",
        "notebooks/01_attend.ipynb, cell 5",
        "notebooks/03_train.ipynb, cell 2",
    ]


# Input that is no project


BAD_FILES = {
    "broken JSON": ("notebooks/02_decode.ipynb", "{", "is not a notebook of format 4"),
    "a list": ("notebooks/02_decode.ipynb", "[]", "is not a notebook of format 4"),
    "no cells": ("notebooks/02_decode.ipynb", '{"metadata": {}}', "is not a notebook of format 4"),
    "format 3": (
        "notebooks/02_decode.ipynb",
        '{"metadata": {}, "nbformat": 3, "nbformat_minor": 0, "cells": []}',
        "is not a notebook of format 4",
    ),
    "a cell without source": (
        "notebooks/02_decode.ipynb",
        '{"metadata": {}, "nbformat": 4, "nbformat_minor": 5, '
        '"cells": [{"cell_type": "raw", "metadata": {}}]}',
        "is not a notebook of format 4",
    ),
    "no UTF-8": ("notebooks/02_decode.ipynb", b"\xff", "cannot be read as UTF-8 text"),
    "a module that does not parse": ("d2l_mini/data.py", "def (", "invalid syntax"),
    "an address that is a number": (
        "pyproject.toml",
        "[project.urls]\nRepository = 3",
        "write it as https://github.com/owner/name",
    ),
    "a pyproject that is no TOML": ("pyproject.toml", "[", "is not TOML"),
    "an address elsewhere": (
        "pyproject.toml",
        '[project.urls]\nRepository = "https://example.org/ada"',
        "write it as https://github.com/owner/name",
    ),
    "an address without its name": (
        "pyproject.toml",
        '[project.urls]\nRepository = "https://github.com/ada"',
        "write it as https://github.com/owner/name",
    ),
}


@pytest.mark.parametrize("arguments", [[], ["--check"]], ids=["refresh", "check"])
@pytest.mark.parametrize(("name", "data", "sentence"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_input_gets_one_sentence_and_nothing_is_written(
    root, capsys, name, data, sentence, arguments
):
    """The sentence names the file."""
    edit(root, put(ROW, source="old"), "01_attend")
    (root / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    before = contents(root)
    status, lines = run(root, capsys, *arguments)
    assert (status, len(lines)) == (1, 1)
    assert lines[0].startswith(str(root / name))
    assert sentence in lines[0]
    assert contents(root) == before


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("notebooks", "holds no notebook: restore them from git"),
        ("d2l_mini", "no such folder: restore it from git"),
        ("pyproject.toml", "cannot be read as UTF-8 text"),
    ],
)
def test_a_missing_part_is_named(root, capsys, missing, sentence):
    """Outside a complete checkout the tool says what is missing."""
    (root / missing).rename(root / "away")
    status, lines = run(root, capsys)
    assert (status, len(lines)) == (1, 1)
    assert lines[0].startswith(f"{root / missing}: {sentence}")


def test_a_stranger_among_the_arguments_is_named(root, capsys):
    """Only the project's notebooks can be asked for."""
    assert run(root, capsys, str(root / "README.md")) == (
        1,
        [f"{root / 'README.md'}: is not one of the notebooks: name files of notebooks/"],
    )


def test_a_cut_write_leaves_the_file_as_it_was(root, capsys, monkeypatch):
    """A full disk costs nothing but the change."""
    edit(root, put(ROW, source="old"))
    before = contents(root)

    def full_disk(*paths: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tool.os, "replace", full_disk)
    assert run(root, capsys) == (
        1,
        [f"{root}/notebooks/02_decode.ipynb: cannot be written (No space left on device)"],
    )
    assert contents(root) == before


def test_outside_the_environment_it_says_where_to_run():
    """-S leaves out the installed packages."""
    done = subprocess.run([sys.executable, "-S", TOOL], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("nbformat is missing: run this with the environment")
    assert done.stderr.count("\n") == 1
