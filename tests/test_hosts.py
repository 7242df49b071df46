"""The hosts: each notebook on Binder, on Colab, in VS Code, on GitHub, and on three systems."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import nbformat
import psutil
import pytest
import requests
import torch
import yaml
from IPython.core.formatters import DisplayFormatter
from ipywidgets import VBox
from jupyter_client import BlockingKernelClient
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from d2l_mini import explorers

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDRESS = "https://github.com/ada/d2l-mini"
BINDER_BYTES = 2e9


def load_tool(name: str) -> ModuleType:
    """Import one of the tools from its file."""
    spec = importlib.util.spec_from_file_location(f"{name}_tool", ROOT / "tools" / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def need(there: object, reason: str) -> None:
    """Skip the test without what it needs; in CI, fail it."""
    if not there:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def requirements(path: Path) -> list[Requirement]:
    """The packages that a file of requirements asks for; neither options nor comments."""
    lines = [line.partition(" #")[0] for line in path.read_text(encoding="utf-8").splitlines()]
    return [Requirement(line) for line in lines if line and line[0] not in "-#"]


def closure(names: Iterable[str]) -> set[str]:
    """The installed packages among these, and all that they ask for in turn."""
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(name) for name in names]
    while waiting:
        one = waiting.pop()
        key = canonicalize_name(one.name), frozenset({"", *one.extras})
        with contextlib.suppress(PackageNotFoundError):
            wanted = distribution(one.name).requires or [] if key not in found else []
            found.add(key)
            waiting += [
                other
                for other in map(Requirement, wanted)
                if not other.marker or any(other.marker.evaluate({"extra": x}) for x in key[1])
            ]
    return {name for name, _ in found}


def copy_project(folder: Path, address: str | None = None) -> Path:
    """A copy of what is published, with or without a public address, put in order by the tool."""
    for name in "d2l_mini", "notebooks", "README.md", "CONTRIBUTING.md", "LICENSE":
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    line = '# Repository = "https://github.com/OWNER/NAME"'
    assert text.count(line) == 1
    if address:
        text = text.replace(line, f'Repository = "{address}"')
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    assert load_tool("notebooks").main([], folder) == 0
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project as it is before it has a public address."""
    (tmp_path / "project").mkdir()
    return copy_project(tmp_path / "project")


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The project after README's steps to publish it."""
    (tmp_path / "published").mkdir()
    return copy_project(tmp_path / "published", ADDRESS)


def set_up(path: Path) -> nbformat.NotebookNode:
    """The one cell of a notebook that imports what it needs."""
    cells = nbformat.read(path, as_version=4).cells
    [cell] = [cell for cell in cells if "setup" in cell.metadata.get("tags", [])]
    return cell


# Binder --------------------------------------------------------------------------------------


def test_binder_asks_for_the_cpu_build_that_the_tests_have_seen():
    binder, tested = (
        {line.name: line.specifier for line in requirements(ROOT / folder / "requirements.txt")}
        for folder in ("binder", ".")
    )
    [pin] = binder["torch"]
    assert pin.operator == "=="
    assert pin.version.endswith("+cpu")  # no other index has a release of this name
    assert pin.version in tested["torch"]
    text = (ROOT / "binder/requirements.txt").read_text(encoding="utf-8")
    assert "--extra-index-url https://download.pytorch.org/whl/cpu\n" in text


def test_binder_finds_its_files_and_a_python_that_the_package_allows():
    files = {path.name for path in (ROOT / "binder").iterdir()}
    assert files == {"requirements.txt", "runtime.txt", "postBuild"}
    runtime = (ROOT / "binder/runtime.txt").read_text(encoding="utf-8").strip()
    name, version = runtime.split("-")
    assert name == "python"
    assert version in SpecifierSet(PROJECT["requires-python"])
    script = (ROOT / "binder/postBuild").read_text(encoding="utf-8")
    assert script.startswith("#!/bin/bash\n")
    assert "pip install --no-cache-dir .\n" in script


def test_what_binder_installs_takes_less_than_2_gb():
    need(torch.version.cuda is None, "the installed torch is built for CUDA, Binder's is not")
    asked = requirements(ROOT / "binder/requirements.txt")
    asked += [Requirement(line) for line in PROJECT["dependencies"]]
    names = closure([line.name for line in asked])
    assert names >= {line.name for line in asked}
    paths = [file.locate() for name in names for file in distribution(name).files]
    size = sum(path.stat().st_size for path in paths if path.exists())
    print(f"Binder installs {len(names)} packages, {size / 1e6:.0f} MB")
    assert not {name for name in names if name.startswith(("nvidia", "triton"))}
    assert size < BINDER_BYTES


class Server:
    """A JupyterLab as Binder runs it: in the project's folder, without a browser.

    `peak` is the most memory that it and its kernels held together, in bytes. What a kernel may
    reserve says little: torch maps several times what it uses. So this adds up what each process
    has in memory, twenty times a second; what two share counts twice.
    """

    token = "reader"

    def __init__(self, root: Path, runtime: Path):
        self.runtime = runtime
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
        options = ["--ServerApp.port=0", f"--IdentityProvider.token={self.token}"]
        self.process = subprocess.Popen(
            [*command, *options],
            cwd=root,
            env=os.environ | {"JUPYTER_RUNTIME_DIR": str(runtime)},
            stderr=subprocess.DEVNULL,
        )
        self.peak = 0
        self.done = threading.Event()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()

    def watch(self) -> None:
        """Keep the peak, from the start to the end."""
        while not self.done.wait(0.05):
            self.peak = max(self.peak, self.held())

    def held(self) -> int:
        """What the server and its kernels hold now, in bytes."""
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(self.process.pid)
            return sum(map(resident, [top, *top.children(recursive=True)]))
        return 0

    def ask(self, method: str, path: str, about: dict | None = None) -> requests.Response:
        """Send a request to the server, once it is there."""
        while not list(self.runtime.glob("jpserver-*-open.html")):  # the last that it writes
            assert self.process.poll() is None, "JupyterLab did not start"
            self.done.wait(0.1)
        [about_it] = self.runtime.glob("jpserver-*.json")
        url = json.loads(about_it.read_text(encoding="utf-8"))["url"] + path
        header = {"Authorization": f"token {self.token}"}
        answer = requests.request(method, url, headers=header, json=about, timeout=60)
        answer.raise_for_status()
        return answer

    def open(self, path: str) -> BlockingKernelClient:
        """A kernel for a notebook, in the notebook's folder."""
        about = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
        session = self.ask("POST", "api/sessions", about).json()
        file = self.runtime / f"kernel-{session['kernel']['id']}.json"
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        return client

    def close(self) -> None:
        """End the server, and its kernels with it."""
        self.done.set()
        self.watcher.join()
        top = psutil.Process(self.process.pid)
        for process in [*top.children(recursive=True), top]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()


def resident(process: psutil.Process) -> int:
    """The bytes that a process has in memory; 0 once it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.memory_info().rss
    return 0


def run(client: BlockingKernelClient, source: str) -> None:
    """Run a cell; an error of the cell is one here."""
    answer = client.execute_interactive(source, timeout=120, output_hook=lambda message: None)
    assert answer["content"]["status"] == "ok", answer["content"]


@pytest.fixture
def server(published: Path, tmp_path: Path) -> Iterator[Server]:
    """A JupyterLab in the published project."""
    server = Server(published, tmp_path / "runtime")
    try:
        yield server
    finally:
        server.close()


def test_a_notebook_and_its_server_stay_below_2_gb(server):
    path = "notebooks/01_attention.ipynb"  # takes the most
    cells = nbformat.read(ROOT / path, as_version=4).cells
    client = server.open(path)
    alone = server.peak
    try:
        for cell in cells:
            if cell.cell_type == "code":
                run(client, cell.source)
                assert server.peak < BINDER_BYTES, f"{server.peak / 1e6:.0f} MB after {cell.id}"
        print(f"{alone / 1e6:.0f} MB before the first cell, {server.peak / 1e6:.0f} MB at most")
        before = server.held()
        run(client, "x = b'x' * 300_000_000")
        assert server.held() > before + 250e6  # what a kernel takes does count
    finally:
        client.stop_channels()

    # conftest.py fails each notebook whose kernel takes more than this: there is room for two
    limit = re.search(r"^MAX_MEGABYTES = (\d+)", (ROOT / "conftest.py").read_text("utf-8"), re.M)
    kernel = 60e6  # of the one that had run nothing yet
    assert alone - kernel + 2 * 1e6 * int(limit[1]) < BINDER_BYTES


def test_the_link_to_binder_opens_notebook_01_in_jupyterlab(server, published):
    text = (published / "README.md").read_text(encoding="utf-8")
    link = r"\]\(https://mybinder\.org/v2/gh/ada/d2l-mini/HEAD\?labpath=(.*)\)"
    [target] = re.findall(link, text)
    path = unquote(target)
    assert path == f"notebooks/{NOTEBOOKS[0].name}"
    assert "JupyterLab" in server.ask("GET", f"lab/tree/{path}").text
    assert server.ask("GET", f"api/contents/{path}").json()["type"] == "notebook"


# Colab ---------------------------------------------------------------------------------------


PRESENT = ["torch", "matplotlib", "ipywidgets", "requests", "ipykernel", "pip"]


@pytest.fixture
def colab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new virtual environment with what Colab has, and the kernel `colab` in it.

    What is there already is linked from this environment; what pip may fetch waits in a folder.
    """
    base = str(tmp_path / "colab")
    venv.create(base, symlinks=os.name != "nt")
    paths = sysconfig.get_paths("venv", {"base": base, "platbase": base})
    packages = Path(paths["purelib"])
    present = closure(PRESENT)
    for name in present:
        for file in distribution(name).files:
            link = packages / file.parts[0]
            if file.parts[0] not in ("..", "__pycache__") and not link.exists():
                link.symlink_to(distribution(name).locate_file(file.parts[0]))
    missing = closure(["sacrebleu", "tqdm", "platformdirs", "setuptools"])
    for name in missing:
        pack(name, tmp_path / "wheels")
    kernel = tmp_path / "share/kernels/colab/kernel.json"
    kernel.parent.mkdir(parents=True)
    command = [f"{paths['scripts']}/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {"argv": command, "display_name": "Colab", "language": "python"}
    kernel.write_text(json.dumps(about), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return packages


def pack(name: str, folder: Path) -> None:
    """Make a wheel of an installed package."""
    package = distribution(name)
    *_, tag = re.findall(r"^Tag: (.*)$", package.read_text("WHEEL"), re.M)
    folder.mkdir(exist_ok=True)
    wheel = f"{name.replace('-', '_')}-{package.version}-{tag}.whl"
    with zipfile.ZipFile(folder / wheel, "w") as archive:
        for file in package.files:
            if ".." not in file.parts and file.suffix != ".pyc":
                archive.write(file.locate(), file.as_posix())


def installed(packages: Path) -> set[str]:
    """The names of the packages in a folder that are no links."""
    return {
        canonicalize_name(path.name.partition("-")[0])
        for path in packages.glob("*.dist-info")
        if not path.is_symlink()
    }


def test_without_an_address_a_notebook_opened_alone_says_in_a_sentence_what_to_do(
    colab, project, tmp_path
):
    cells = [set_up(path) for path in sorted((project / "notebooks").glob("*.ipynb"))]
    (tmp_path / "alone").mkdir()
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(notebook, kernel_name="colab", allow_errors=True)
    client.execute(cwd=str(tmp_path / "alone"))
    assert len(cells) == len(NOTEBOOKS)
    for cell in cells:
        [output] = cell.outputs
        assert output.ename == "ModuleNotFoundError"
        sentence = r"d2l_mini is missing: [^.]* `%pip install -e \.\.`, [^.]*"
        assert re.fullmatch(sentence, output.evalue)


def test_with_an_address_a_notebook_opened_alone_installs_the_package_and_leaves_torch_alone(
    colab, published, tmp_path, monkeypatch
):
    need(shutil.which("git"), "there is no git, by which Colab's pip fetches the package")
    for command in ["init", "-q"], ["add", "."], ["commit", "-q", "-m", "published"]:
        who = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", *who, *command], cwd=published, check=True)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")  # to git, the address is the folder's
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{published.as_uri()}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", ADDRESS)

    first, *others = sorted((published / "notebooks").glob("*.ipynb"))
    notebook = nbformat.read(first, as_version=4)
    notebook.cells += [set_up(path) for path in others]
    (tmp_path / "alone").mkdir()
    client = NotebookClient(notebook, kernel_name="colab", timeout=120)
    try:
        client.execute(cwd=str(tmp_path / "alone"))
    except CellExecutionError as error:
        pytest.fail(str(error))

    new = closure(["sacrebleu", "tqdm"]) - closure(PRESENT)
    assert installed(colab) == {"d2l-mini"} | new
    assert (colab / "torch").is_symlink()
    models = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    assert len(models) > 10  # all of them Colab knows without a manager of its own
    assert {model["model_module"] for model in models.values()} <= {
        "@jupyter-widgets/base",
        "@jupyter-widgets/controls",
        "@jupyter-widgets/output",
    }


def test_a_view_shows_its_picture_where_widgets_show_themselves(monkeypatch):
    """As those of ipywidgets 7 do, and Colab has no other."""
    monkeypatch.setattr(VBox, "_ipython_display_", lambda self: None, raising=False)
    data, _ = DisplayFormatter().format(explorers.explore_softmax())
    assert set(data) >= {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}


def test_the_package_imports_only_what_it_asks_for():
    """And asks for little: nothing that Colab would have to replace."""
    declared = {Requirement(line).name for line in PROJECT["dependencies"]}
    small = {"torch", "matplotlib", "ipywidgets", "requests", "platformdirs", "sacrebleu", "tqdm"}
    assert declared == small
    comes_along = {"IPython", "numpy", "PIL"}  # with ipywidgets and matplotlib
    for path in sources("d2l_mini"):
        if path.name == "__main__.py":
            continue  # a teacher's command, at home with JupyterLab
        names = {name.partition(".")[0] for name in imported(path)}
        assert names <= sys.stdlib_module_names | declared | comes_along | {"d2l_mini"}, path


# VS Code and GitHub --------------------------------------------------------------------------


def as_colab_saves(notebook: nbformat.NotebookNode) -> None:
    """Put in what Colab leaves in a file."""
    widgets = {"abc": {"model_module": "@jupyter-widgets/controls", "model_name": "HTMLModel"}}
    notebook.metadata = nbformat.from_dict(
        {
            "colab": {"provenance": [], "gpuType": "T4"},
            "accelerator": "GPU",
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
            "widgets": {"application/vnd.jupyter.widget-state+json": widgets},
        }
    )
    for cell in notebook.cells:
        cell.metadata |= {"id": "aBc"}
        if cell.cell_type == "code":
            cell.metadata |= {"outputId": "1", "colab": {"base_uri": "https://localhost:8080/"}}
        for output in cell.get("outputs", []):
            if output.output_type != "stream":
                output.metadata |= {"needs_background": "light"}


def as_vs_code_saves(notebook: nbformat.NotebookNode) -> None:
    """Put in what VS Code leaves in a file."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"name": "python3", "language": "python", "display_name": ".venv (3.12)"},
            "language_info": {"name": "python", "version": "3.12.1", "file_extension": ".py"},
            "vscode": {"interpreter": {"hash": "31f2ae"}},
        }
    )
    for cell in notebook.cells:
        cell.metadata |= {"vscode": {"languageId": cell.cell_type}}


@pytest.mark.parametrize("change", [as_colab_saves, as_vs_code_saves])
def test_a_notebook_that_another_host_saved_is_put_in_order(project, change):
    path = project / "notebooks" / NOTEBOOKS[0].name
    before = path.read_bytes()
    notebook = nbformat.read(path, as_version=4)
    change(notebook)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert load_tool("notebooks").main([], project) == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_host_finds_the_kernel_and_shows_the_file(path):
    """By the usual names, in the present format, with nothing that needs a live kernel."""
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.kernelspec.language == notebook.metadata.language_info.name == "python"
    assert "widgets" not in notebook.metadata
    assert set_up(path).execution_count == 1
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        shown = set(output.get("data", ()))
        assert not {mime for mime in shown if "widget" in mime or "javascript" in mime}
        assert not shown or shown & {"text/plain", "text/html", "image/png", "image/svg+xml"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_cell_asks_for_typed_input(path):
    """A notebook that runs as a test, or for a teacher, has no one to answer."""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert not re.search(r"(?<![\w.])input\(", cell.source), cell.id


# Three systems -------------------------------------------------------------------------------


def sources(*folders: str) -> list[Path]:
    """The Python files of folders."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    """The names of all that a file imports, but for relative imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module)
    return names


SOURCES = [*sources("d2l_mini", "tools"), ROOT / "conftest.py"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_text_file_is_read_and_written_in_a_stated_encoding(path):
    """Windows takes another one unless told."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            stated = {keyword.arg for keyword in node.keywords}
            match node.func:
                case ast.Attribute(attr="read_text" | "write_text"):
                    text = True
                case ast.Name(id="open"):
                    modes = [getattr(mode, "value", "") for mode in node.args[1:2]]
                    text = "b" not in "".join(modes)
                case _:
                    text = {"text", "capture_output"} <= stated  # what a command prints
            assert not text or "encoding" in stated, f"line {node.lineno}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_asks_for_what_only_some_systems_have(path):
    """Neither a module nor a function nor a place of files."""
    assert not imported(path) & {"fcntl", "grp", "pty", "pwd", "resource", "termios", "winreg"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("fork", "getuid", "geteuid", "killpg", "SIGKILL", "SIGALRM")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            place = re.match(r"/(dev|etc|home|opt|proc|root|tmp|usr|var)/[\w.]", node.value)
            assert not place, f"line {node.lineno}"


def test_windows_can_hold_every_file():
    folders = ["binder", "d2l_mini", "notebooks", "tests", "tools"]
    names = [str(path.relative_to(ROOT)) for name in folders for path in (ROOT / name).rglob("*")]
    parts = {part for name in names for part in Path(name).parts}
    bad = r'[<>:"|?*\\]|[. ]$|^(aux|con|nul|prn)(\.|$)'
    assert not [part for part in parts if re.search(bad, part, re.I)]
    assert len({name.lower() for name in names}) == len(names)


# Both ends of the dependencies ---------------------------------------------------------------


def test_the_oldest_releases_are_those_of_the_two_files():
    pins = dict(pin.split("==") for pin in load_tool("oldest").oldest(ROOT))
    asked = [Requirement(line) for line in PROJECT["dependencies"]]
    asked += requirements(ROOT / "requirements.txt")
    assert set(pins) == {line.name for line in asked if ">=" in str(line.specifier)}
    assert set(pins) >= {"torch", "matplotlib", "jupyterlab", "nbmake"}
    for line in asked:
        assert line.name not in pins or pins[line.name] in line.specifier


def workflow() -> dict:
    """What CI does, as GitHub reads it."""
    text = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def test_ci_meets_each_system_both_pythons_and_both_ends_of_the_dependencies_weekly():
    whole = workflow()
    [weekly] = whole[True]["schedule"]  # to YAML, `on` is a truth value
    assert re.fullmatch(r"\d+ \d+ \* \* \d", weekly["cron"])
    test, elsewhere = (whole["jobs"][name]["strategy"]["matrix"] for name in ("test", "elsewhere"))
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert test["python"] == elsewhere["python"] == [oldest, "3.13"]
    systems = {*elsewhere["os"], *(one["os"] for one in elsewhere["include"])}
    assert systems == {"ubuntu-latest", "macos-latest", "windows-latest"}
    ends = {one["dependencies"]: one["python"] for one in elsewhere["include"]}
    assert ends == {"oldest": oldest, "newest": "3.13"}
    for job in whole["jobs"].values():
        names = set(job["strategy"]["matrix"]) - {"include"}
        assert set(re.findall(r"matrix\.(\w+)", str(job))) <= names


def test_ci_runs_the_commands_that_contributing_names():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    ran = {step.get("run") for job in workflow()["jobs"].values() for step in job["steps"]}
    for command in "python tools/oldest.py", "python -m pytest", "bash .ci/run":
        assert command in ran
        assert re.search(rf"^{re.escape(command)} ", text, re.M)
