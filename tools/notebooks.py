"""Keep the notebooks in order.

    python tools/notebooks.py [NOTEBOOK ...]           mend them, printing each file that changes
    python tools/notebooks.py --check [NOTEBOOK ...]   change nothing, print each problem

Mended, and reported by --check:
    quotes      a code cell tagged `quote` holds definitions of d2l_mini, text for text
    metadata    the kernel, the language and the cells' tags stay; of an output, what an image shows
    outputs     no widget beside another representation, no picture twice; neighbouring pieces of a
                stream are one
    navigation  the second cell links previous, contents and next
    set-up      the cell tagged `setup` says what to do where the package is missing
    publishing  once pyproject.toml has [project.urls] Repository, the second cell and README.md
                carry the badges of Colab and Binder, and the set-up installs the package from there
    ids         no two cells share an id
    file        JSON as nbformat 4.5 writes it, in UTF-8 with LF endings

Reported, for a person to mend:
    quotes      a `quote` cell that holds anything else; an untagged cell that repeats a definition
                (the tag `variant` marks a version that differs on purpose)
    outputs     errors, stderr, a widget alone, a path of one machine, over 500 kB
    run         each code cell has run, counted 1 ... n
    form        a title first, headings to ###, code up to 15 lines unless quoted, 25 to 45 cells
                before the first one tagged `exercise`
    links       https only; a relative link finds its file and heading, a picture its attachment
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from urllib.parse import quote, unquote

try:
    from nbformat import NotebookNode, from_dict, v4, validator
except ModuleNotFoundError:
    sys.exit("nbformat is missing: run this with the environment that CONTRIBUTING.md activates")

ROOT = Path(__file__).resolve().parent.parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
WIDGET = "application/vnd.jupyter.widget-view+json"
CELLS = range(25, 46)
MAX_LINES = 15
MAX_BYTES = 500_000

FENCED_CODE = re.compile(r"^[\s>*+\-\d.]*(`{3,}|~{3,})[^`\n]*\n.*?(?:^[\s>]*\1|\Z)", re.M | re.S)
CODE_OR_MATH = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)|\$\$.+?\$\$|\$[^$\n]+\$", re.S)
HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$", re.M)
SETUP = re.compile(
    r"""(from\ __future__\ [^\n]*\n\s*)?               # must stay first
        (?:from\ importlib[^\n]*\nif\ not\ find_spec[^\n]*\n(?:\ [^\n]*\n)+)?
        (.*)                                           # what the notebook imports
    """,
    re.S | re.X,
)
MISSING = """\
from importlib.util import find_spec
if not find_spec("d2l_mini"):
"""
EXPLAIN = """\
    raise ModuleNotFoundError("d2l_mini is missing: open this notebook in the whole project, "
                              "run `%pip install -e ..`, and restart the kernel")
"""
INSTALL = "    %pip install --quiet git+https://github.com/{repository}\n"
BADGES = re.compile(r"(?:^\[!\[Open in .*\n)+\n?", re.M)
LINK = re.compile(
    r"""\]\(\s*<([^>]*)>                                # [text](<target>)
      | \]\(\s*((?:[^()<>\s]|\([^()\s]*\))*)            # [text](target), ![text](target)
      | ^\ {0,3}\[[^\]^]+\]:\s*<?([^\s>]+)              # [text]: target
      | <(?:a|img)\s[^>]*?(?:href|src)\s*=\s*["']([^"']*)   # HTML
    """,
    re.M | re.X,
)
MACHINE_PATH = re.compile(
    r"(?<![\w.~)}\]-])(?:/(?:home|Users|root|tmp|content|work)/|[A-Za-z]:[\\/]+Users[\\/])"
    r"[^\s'\"`<>(),;]*"
)


class NotebookError(Exception):
    """What is wrong and how to mend it, in one sentence."""


@dataclass
class Page:
    """A notebook, and the file's text as it was found."""

    path: Path
    notebook: NotebookNode
    text: str

    @property
    def name(self) -> str:
        """The path from the project's root."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def markdown(self) -> list[NotebookNode]:
        """The markdown cells."""
        return [cell for cell in self.notebook.cells if cell.cell_type == "markdown"]

    @property
    def code(self) -> list[NotebookNode]:
        """The code cells."""
        return [cell for cell in self.notebook.cells if cell.cell_type == "code"]

    @property
    def link(self) -> str:
        """A markdown link by the title, its number left out."""
        titles = [text for cell in self.markdown for level, text in headings(cell) if level == 1]
        title = re.sub(r"^\d+[.:)]?\s+", "", titles[0]) if titles else self.path.stem
        return f"[{title}]({quote(self.path.name)})"


@dataclass
class Project:
    """What a notebook is measured against.

    pages        every notebook, by its path, in reading order
    definitions  the texts that the package has for each public name; more than one is a mistake
    repository   owner/name on GitHub, or None
    """

    root: Path
    pages: dict[Path, Page]
    definitions: dict[str, list[str]]
    repository: str | None


Finding = tuple[NotebookNode | None, str]  # the cell, or None for the whole file; what is wrong
Step = Callable[[Page, Project], Iterator[Finding]]


# Reading


def read_text(path: Path) -> str:
    """Read UTF-8, line endings untouched."""
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise NotebookError(f"{path}: cannot be read as UTF-8 text ({error})") from error


def read_page(path: Path) -> Page:
    """Read a notebook of format 4; a cell without an id gets one."""
    text = read_text(path)
    try:
        notebook = v4.reads(text)
        notebook.nbformat_minor = 5
        for cell in notebook.cells:
            cell.setdefault("id", v4.nbbase.random_cell_id())
        for error in validator.iter_validate(notebook, version=4, version_minor=5):
            raise ValueError(error.message[:80])
    except (AttributeError, TypeError, ValueError) as error:
        raise NotebookError(
            f"{path}: is not a notebook of format 4 ({error}): restore it, or save it in JupyterLab"
        ) from error
    return Page(path, notebook, text)


def defined_name(node: ast.stmt) -> str | None:
    """The name that a def, a class or a plain assignment defines; None for anything else."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return None


def read_definitions(package: Path) -> dict[str, list[str]]:
    """Read the text of each public definition of the package, decorators and comments included.

    Public is what a module lists in `__all__`; without that list, what has no leading underscore.
    """
    if not package.is_dir():
        raise NotebookError(f"{package}: no such folder: restore it from git")
    definitions: dict[str, list[str]] = {}
    for module in sorted(package.glob("*.py")):
        text = read_text(module)
        try:
            nodes = [(defined_name(node), node) for node in ast.parse(text).body]
        except SyntaxError as error:
            raise NotebookError(f"{module}, line {error.lineno}: {error.msg}: mend it") from error
        lists = [node for name, node in nodes if name == "__all__"]
        items = [item for node in lists for item in ast.walk(node)]
        listed = {item.value for item in items if isinstance(item, ast.Constant)}
        for name, node in nodes:
            if name and (name in listed if lists else not name.startswith("_")):
                first, *_ = (*getattr(node, "decorator_list", ()), node)
                lines = re.split("\r?\n", text)[first.lineno - 1 : node.end_lineno]
                definitions.setdefault(name, []).append("\n".join(lines))
    return definitions


def read_repository(pyproject: Path) -> str | None:
    """Read owner/name from [project.urls] Repository; None without that key."""
    try:
        settings = tomllib.loads(read_text(pyproject))
    except tomllib.TOMLDecodeError as error:
        raise NotebookError(f"{pyproject}: is not TOML ({error}): mend it") from error
    match settings:
        case {"project": {"urls": {"Repository": url}}}:
            if found := re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(\.git)?/?", str(url)):
                return found[1]
            raise NotebookError(
                f"{pyproject}: Repository is {url!r}: write it as https://github.com/owner/name"
            )
    return None


def read_project(root: Path) -> Project:
    """Read all that the notebooks are measured against."""
    paths = sorted((root / "notebooks").glob("*.ipynb"))
    if not paths:
        raise NotebookError(f"{root / 'notebooks'}: holds no notebook: restore them from git")
    return Project(
        root,
        {path: read_page(path) for path in paths},
        read_definitions(root / "d2l_mini"),
        read_repository(root / "pyproject.toml"),
    )


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


def headings(cell: NotebookNode) -> list[tuple[int, str]]:
    """The headings of a markdown cell outside code, each with its level."""
    found = HEADING.findall(FENCED_CODE.sub("", cell.source))
    return [(len(marks), text) for marks, text in found]


# Mending: each step changes the notebook and yields what was wrong


def quotation(source: str, project: Project) -> str:
    """The definitions that a quote cell names, as the package has them."""
    try:
        names = [defined_name(node) for node in ast.parse(source).body]
    except SyntaxError as error:
        raise NotebookError(
            f"is tagged `quote` but line {error.lineno} is not Python: mend it"
        ) from error
    if not names or None in names:
        raise NotebookError("is tagged `quote` but holds more or less than definitions: split it")
    for name in names:
        if name not in project.definitions:
            raise NotebookError(f"quotes {name}, which d2l_mini lacks: define it there first")
        if (count := len(project.definitions[name])) > 1:
            raise NotebookError(f"quotes {name}, which d2l_mini defines {count} times: keep one")
    return "\n\n\n".join(project.definitions[name][0] for name in names)


def mend_quotes(page: Page, project: Project) -> Iterator[Finding]:
    """Give each quote cell the package's text, as far as it can be found."""
    for cell in page.code:
        if "quote" in tags(cell):
            try:
                text = quotation(cell.source, project)
            except NotebookError:
                continue  # reported by check_quotes
            if cell.source != text:
                cell.source = text
                yield cell, "the quote differs from d2l_mini"


def mend_metadata(page: Page, project: Project) -> Iterator[Finding]:
    """Keep the kernel, the language, the tags of cells and the size of images; drop the rest."""
    if page.notebook.metadata != METADATA:
        page.notebook.metadata = from_dict(METADATA)
        yield None, "the metadata are not just those of a Python 3 notebook"
    for cell in page.notebook.cells:
        kept = {"tags": tags(cell)} if tags(cell) else {}
        if cell.metadata != kept:
            cell.metadata = from_dict(kept)
            yield cell, "the cell has metadata beside its tags"
        for output in cell.get("outputs", []):
            kept = image_sizes(output)
            if output.get("metadata", {}) != kept:
                output.metadata = from_dict(kept)
                yield cell, "an output has metadata beside an image's size and words"


def image_sizes(output: NotebookNode) -> dict[str, dict[str, int]]:
    """The width, height and words of each image of an output, where they are stated."""
    sizes = {
        mime: {key: value for key, value in about.items() if key in ("width", "height", "alt")}
        for mime, about in output.get("metadata", {}).items()
        if mime in output.data and isinstance(about, dict)
    }
    return {mime: size for mime, size in sizes.items() if size}


def mend_outputs(page: Page, project: Project) -> Iterator[Finding]:
    """Drop what a picture says better, and join neighbouring pieces of a stream."""
    for cell in page.code:
        joined: list[NotebookNode] = []
        for output in cell.outputs:
            if WIDGET in output.get("data", {}) and not shows_widget_alone(output):
                del output.data[WIDGET]
                yield cell, "an output has a widget, which is blank without its kernel"
            if {"text/html", "image/png"} <= set(output.get("data", ())):
                del output.data["text/html"]
                yield cell, "an output has its picture twice"
            if joined and output.get("name", "") == joined[-1].get("name"):
                joined[-1].text += output.text
            else:
                joined.append(output)
        if len(joined) < len(cell.outputs):
            cell.outputs = joined
            yield cell, "a stream comes in pieces"


def shows_widget_alone(output: NotebookNode) -> bool:
    """Whether a widget has nothing beside it, or its own name alone, as in `Output()`."""
    others = {mime: text for mime, text in output.data.items() if mime != WIDGET}
    return not others or (
        set(others) == {"text/plain"}
        and re.fullmatch(r"\w+\(.*\)", others["text/plain"], re.S) is not None
    )


def mend_navigation(page: Page, project: Project) -> Iterator[Finding]:
    """Make the second cell the row of links: the one with its tag, or with its id and its links."""
    before = deepcopy(page.notebook.cells)
    rows = [
        cell
        for cell in page.markdown
        if "navigation" in tags(cell)
        or (cell.id == "navigation" and "](../README.md)" in cell.source)  # its tag is lost
    ]
    others = [cell for cell in page.notebook.cells if cell not in rows]
    row = rows[0] if rows else v4.new_markdown_cell(id="navigation")
    row.source = "\n".join([*links(page, project), *badges(page, project)])
    row.metadata = from_dict({"tags": ["navigation"]})
    page.notebook.cells = [*others[:1], row, *others[1:]]
    if page.notebook.cells != before:
        yield (row if rows else None), "the row of links after the title is missing or outdated"


def links(page: Page, project: Project) -> Iterator[str]:
    """The line of links: the previous notebook, the contents, the next one."""
    pages = list(project.pages.values())
    place = list(project.pages).index(page.path)
    previous = [f"Previous: {other.link}" for other in pages[:place][-1:]]
    following = [f"Next: {other.link}" for other in pages[place + 1 :][:1]]
    yield " | ".join([*previous, "[Contents](../README.md)", *following])


def badges(page: Page, project: Project) -> Iterator[str]:
    """The lines that open a notebook in Colab and in Binder; none without a public address."""
    if project.repository:
        name = quote(page.path.name)
        colab = "https://colab.research.google.com"
        github = f"{colab}/github/{project.repository}/blob/main/notebooks/{name}"
        binder = "https://mybinder.org"
        labpath = f"{binder}/v2/gh/{project.repository}/HEAD?labpath=notebooks%2F{name}"
        yield f"\n[![Open in Colab]({colab}/assets/colab-badge.svg)]({github})"
        yield f"[![Open in Binder]({binder}/badge_logo.svg)]({labpath})"


def mend_setup(page: Page, project: Project) -> Iterator[Finding]:
    """Let the set-up begin with what to do where the package is missing."""
    lines = INSTALL.format(repository=project.repository) if project.repository else EXPLAIN
    for cell in page.code:
        if "setup" in tags(cell):
            first, imports = SETUP.fullmatch(cell.source).groups("")
            source = f"{first}{MISSING}{lines}{imports}"
            if cell.source != source:
                cell.source = source
                yield cell, "the set-up does not get the package as it should"


def mend_ids(page: Page, project: Project) -> Iterator[Finding]:
    """Give a cell whose id is taken by an earlier one an id of its own."""
    taken = set()
    for cell in page.notebook.cells:
        if cell.id in taken:
            cell.id = v4.nbbase.random_cell_id()
            yield cell, "the cell has the id of an earlier one"
        taken.add(cell.id)


# Checking: each step yields what a person has to mend


def check_quotes(page: Page, project: Project) -> Iterator[Finding]:
    """A quote cell holds definitions of the package and nothing else."""
    for cell in page.code:
        if "quote" in tags(cell):
            try:
                quotation(cell.source, project)
            except NotebookError as error:
                yield cell, str(error)


def check_repeats(page: Page, project: Project) -> Iterator[Finding]:
    """No cell repeats a definition of the package unless it is tagged."""
    for cell in page.code:
        if not {"quote", "variant"} & set(tags(cell)):
            for name in re.findall(r"^(?:async def|def|class) +(\w+)", cell.source, re.M):
                if name in project.definitions:
                    yield cell, f"repeats d2l_mini.{name} by hand: tag the cell `quote`"


def check_outputs(page: Page, project: Project) -> Iterator[Finding]:
    """The outputs show no error, no warning and no blank."""
    for cell in page.code:
        for output in cell.outputs:
            if output.output_type == "error":
                yield cell, f"ends in {output.ename}: mend the code and run all cells"
            if output.get("name") == "stderr":
                yield cell, "prints to stderr: remove the cause of the warning and run all cells"
            if WIDGET in output.get("data", {}) and shows_widget_alone(output):
                yield cell, "shows a widget alone, blank on GitHub: show a picture beside it"


def check_paths(page: Page, project: Project) -> Iterator[Finding]:
    """No source and no output shows where one machine keeps its files."""
    for cell in page.notebook.cells:
        if found := MACHINE_PATH.search("\n".join(texts(cell))):
            yield cell, f"shows {found[0]}, a path of one machine: write or print a relative path"


def texts(cell: NotebookNode) -> Iterator[str]:
    """The source of a cell and all text of its outputs."""
    yield cell.source
    for output in cell.get("outputs", []):
        yield from (output.get("text", ""), *output.get("traceback", []))
        for mime, value in output.get("data", {}).items():
            if not mime.startswith("image/") or mime == "image/svg+xml":
                yield str(value)


def check_run(page: Page, project: Project) -> Iterator[Finding]:
    """The code cells ran once each, from the first to the last; the first that did not is named."""
    yield from ((cell, "is empty: delete it") for cell in page.code if not cell.source.strip())
    for place, cell in enumerate((cell for cell in page.code if cell.source.strip()), 1):
        if cell.execution_count != place:
            ran = f"ran as number {cell.execution_count}" if cell.execution_count else "did not run"
            yield cell, f"{ran} but is code cell {place}: restart the kernel and run all cells"
            return


def check_size(page: Page, project: Project) -> Iterator[Finding]:
    """The notebook is small, with few cells, and little code in each."""
    if (size := len(written(page).encode())) > MAX_BYTES:
        yield None, f"has {size} bytes, more than {MAX_BYTES}: make its outputs smaller"
    count = len(list(takewhile(lambda cell: "exercise" not in tags(cell), page.notebook.cells)))
    if count not in CELLS:
        yield None, f"has {count} cells, not {CELLS[0]} to {CELLS[-1]}: join, split or move some"
    for cell in page.code:
        lines = len(cell.source.splitlines())
        if lines > MAX_LINES and "quote" not in tags(cell):
            yield cell, f"has {lines} lines of code, more than {MAX_LINES}: split it"


def check_headings(page: Page, project: Project) -> Iterator[Finding]:
    """One title, in the first cell, and no heading below ###."""
    first = page.notebook.cells[0]
    if first.cell_type != "markdown" or not first.source.startswith("# "):
        yield first, "is not the title: begin the notebook with a markdown cell `# Title`"
    found = [(cell, *heading) for cell in page.markdown for heading in headings(cell)]
    for cell, _, text in [heading for heading in found if heading[1] == 1][1:]:
        yield cell, f"has a second title, {text!r}: make it `## {text}`"
    for cell, level, text in found:
        if level > 3:
            yield cell, f"has the heading {text!r} below ###: use at most three marks"


def check_links(page: Page, project: Project) -> Iterator[Finding]:
    """Every link leads somewhere, and none goes by plain http."""
    for cell in page.markdown:
        prose = CODE_OR_MATH.sub("", FENCED_CODE.sub("", cell.source))
        for address in re.findall(r"http://[^\s<>()\"']*", prose):
            yield cell, f"links to {address}: write https://"
        for target in ("".join(groups) for groups in LINK.findall(prose)):
            if wrong := link_problem(target, cell, page, project):
                yield cell, f"links to {target!r}, {wrong}"


def link_problem(target: str, cell: NotebookNode, page: Page, project: Project) -> str | None:
    """Say what is wrong with a link inside the project; None if nothing is."""
    address, _, anchor = target.partition("#")
    scheme, colon, name = address.partition(":")
    if colon:
        lost = scheme == "attachment" and unquote(name) not in cell.get("attachments", {})
        return "which the cell lacks: attach the picture again" if lost else None
    path = (page.path.parent / unquote(address)).resolve() if address else page.path
    if not target or not path.is_relative_to(project.root) or not path.exists():
        return "which is no file of the project: mend the link"
    if anchor and path.suffix in (".ipynb", ".md"):
        known = anchors(path)
        return None if unquote(anchor) in known else "a heading that is not there: mend the link"
    return None


def anchors(path: Path) -> set[str]:
    """The names of a file's headings, as JupyterLab and as GitHub form them."""
    if path.suffix == ".ipynb":
        cells = read_page(path).markdown
    else:
        cells = [v4.new_markdown_cell(read_text(path))]
    found = [text for cell in cells for _, text in headings(cell)]
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", text) for text in found]
    github = {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in plain}
    return github | {text.replace(" ", "-") for text in plain}


MENDING: list[Step] = [
    mend_quotes,
    mend_metadata,
    mend_outputs,
    mend_navigation,
    mend_setup,
    mend_ids,
]
CHECKING: list[Step] = [
    check_quotes,
    check_repeats,
    check_outputs,
    check_paths,
    check_run,
    check_size,
    check_headings,
    check_links,
]


# The two commands


def written(page: Page) -> str:
    """The notebook as its file should hold it."""
    return v4.writes(page.notebook) + "\n"


def write(path: Path, text: str) -> None:
    """Write a file whole, or leave it as it was."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(text.encode())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise NotebookError(f"{path}: cannot be written ({error.strerror})") from error


def inspect(page: Page, project: Project, checking: list[Step]) -> tuple[list[str], list[str]]:
    """Mend the notebook in memory; return a line for each mend, and for each thing left to mend."""
    places = {id(cell): f", cell {place}" for place, cell in enumerate(page.notebook.cells, 1)}

    def lines(steps: list[Step]) -> list[str]:
        found = [finding for step in steps for finding in step(page, project)]
        said = [f"{page.name}{places.get(id(cell), '')}: {text}" for cell, text in found]
        return list(dict.fromkeys(said))  # once, however many outputs of a cell have the fault

    mended = lines(MENDING)
    if not mended and written(page) != page.text:
        mended = [f"{page.name}: the file is not in the form that nbformat 4.5 writes"]
    return [f"{line}: run `python tools/notebooks.py`" for line in mended], lines(checking)


def check(page: Page, project: Project) -> list[str]:
    """Say all that is wrong with a notebook, a line each."""
    mended, left = inspect(page, project, CHECKING)
    return mended + left


def refresh(page: Page, project: Project) -> list[str]:
    """Mend a notebook's file; return the quotes that could not be mended, a line each."""
    _, left = inspect(page, project, [check_quotes])
    if written(page) != page.text:
        write(page.path, written(page))
        print(f"{page.name}: put in order")
    return left


def readme(project: Project) -> tuple[Path, str, str]:
    """The file, its text, and the text with the first notebook's badges below the title."""
    path = project.root / "README.md"
    text = read_text(path)
    title, *rest = BADGES.sub("", text).split("\n\n", 1)
    row = "\n".join(badges(next(iter(project.pages.values())), project)).lstrip()
    return path, text, "\n\n".join([title, *filter(None, [row]), *rest])


def check_readme(project: Project) -> list[str]:
    """Say whether README.md has its badges."""
    path, text, mended = readme(project)
    fault = "the badges are missing or outdated: run `python tools/notebooks.py`"
    return [f"{path.name}: {fault}"] if text != mended else []


def refresh_readme(project: Project) -> list[str]:
    """Give README.md its badges."""
    path, text, mended = readme(project)
    if text != mended:
        write(path, mended)
        print(f"{path.name}: put in order")
    return []


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the tool on the project in `root`; return the exit status."""
    parser = argparse.ArgumentParser(description="Keep the notebooks in order.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="only these; all if none is given")
    parser.add_argument("--check", action="store_true", help="change nothing, report problems")
    options = parser.parse_args(arguments)
    try:
        project = read_project(root.resolve())
        chosen = {path.resolve() for path in options.notebooks} or set(project.pages)
        for path in chosen - set(project.pages):
            raise NotebookError(f"{path}: is not one of the notebooks: name files of notebooks/")
        pages = [page for path, page in project.pages.items() if path in chosen]
        work = check if options.check else refresh
        problems = [problem for page in pages for problem in work(page, project)]
        if not options.notebooks:
            problems += (check_readme if options.check else refresh_readme)(project)
    except NotebookError as error:
        print(error, file=sys.stderr)
        return 1
    for problem in problems:
        print(problem)
    if options.check and not problems:
        print(f"{len(pages)} notebook{'s' if len(pages) > 1 else ''} in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
