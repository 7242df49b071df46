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
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType

import nbformat
import psutil
import pytest
import requests
import torch
import yaml
from jupyter_client import BlockingKernelClient
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

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


def closure(names: list[str]) -> set[str]:
    """The installed packages among these, and all that they ask for in turn."""
    found: set[str] = set()
    waiting = [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        with contextlib.suppress(PackageNotFoundError):
            wanted = [] if name in found else map(Requirement, distribution(name).requires or [])
            found.add(distribution(name) and name)
            waiting += [
                canonicalize_name(other.name)
                for other in wanted
                if other.marker is None or other.marker.evaluate({"extra": ""})
            ]
    return found


def copy_project(folder: Path, address: str | None = None) -> Path:
    """A copy of what is published, with or without a public address, put in order by the tool."""
    for name in "d2l_mini", "notebooks", "README.md", "CONTRIBUTING.md", "LICENSE":
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert text.count(line := '# Repository = "https://github.com/OWNER/NAME"') == 1
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
    [torch_] = [
        line for line in requirements(ROOT / "binder/requirements.txt") if "torch" in line.name
    ]
    [ours] = [line for line in requirements(ROOT / "requirements.txt") if line.name == "torch"]
    [pin] = torch_.specifier
    assert pin.operator == "=="
    assert pin.version.endswith("+cpu")  # no other index has a release of this name
    assert pin.version in ours.specifier
    option = (ROOT / "binder/requirements.txt").read_text(encoding="utf-8")
    assert "--extra-index-url https://download.pytorch.org/whl/cpu\n" in option


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
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
            + ["--ServerApp.port=0", f"--IdentityProvider.token={self.token}"],
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
            with contextlib.suppress(psutil.NoSuchProcess):
                top = psutil.Process(self.process.pid)
                self.peak = max(self.peak, sum(map(resident, [top, *top.children(True)])))

    def ask(self, method: str, path: str, about: dict | None = None) -> requests.Response:
        """Send a request to the server, once it is there."""
        while not (found := list(self.runtime.glob("jpserver-*.json"))):
            assert self.process.poll() is None, "JupyterLab did not start"
            self.done.wait(0.1)
        url = json.loads(found[0].read_text(encoding="utf-8"))["url"] + path
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
        try:
            self.ask("POST", "api/shutdown")
            self.process.wait(timeout=30)
        finally:
            self.process.kill()


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
        server.peak = 0
        run(client, "import time; time.sleep(0.5)")
        before = server.peak
        run(client, "x = b'x' * 300_000_000; time.sleep(0.5)")
        assert server.peak > before + 250e6  # the watch does see what a kernel takes
    finally:
        client.stop_channels()

    # conftest.py fails each notebook whose kernel takes more than this: there is room for two
    limit = re.search(r"^MAX_MEGABYTES = (\d+)", (ROOT / "conftest.py").read_text("utf-8"), re.M)
    kernel = 60e6  # of the one that had run nothing yet
    assert alone - kernel + 2 * 1e6 * int(limit[1]) < BINDER_BYTES


def test_the_link_to_binder_opens_notebook_01_in_jupyterlab(server, published):
    text = (published / "README.md").read_text(encoding="utf-8")
    [target] = re.findall(
        r"\]\(https://mybinder\.org/v2/gh/ada/d2l-mini/HEAD\?labpath=(.*)\)", text
    )
    path = requests.utils.unquote(target)
    assert path == f"notebooks/{NOTEBOOKS[0].name}"
    assert "JupyterLab" in server.ask("GET", f"lab/tree/{path}").text
    assert server.ask("GET", f"api/contents/{path}").json()["type"] == "notebook"


# Colab ---------------------------------------------------------------------------------------


PRESENT = ["torch", "matplotlib", "ipywidgets", "requests", "ipykernel", "pip"]


@pytest.fixture
def colab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new virtual environment as Colab is, and the kernel `colab` in it: neither project nor path.

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
    missing = closure(["sacrebleu", "platformdirs", "setuptools"])
    for name in missing:
        pack(name, tmp_path / "wheels")
    kernel = tmp_path / "share/kernels/colab/kernel.json"
    kernel.parent.mkdir(parents=True)
    command = [
        str(Path(paths["scripts"], "python")),
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
    ]
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
    cells = [set_up(path) for path in sorted((project / "notebooks").iterdir())]
    (tmp_path / "alone").mkdir()
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(notebook, kernel_name="colab", allow_errors=True)
    client.execute(cwd=str(tmp_path / "alone"))
    assert len(cells) == len(NOTEBOOKS)
    for cell in cells:
        [output] = cell.outputs
        assert output.ename == "ModuleNotFoundError"
        assert re.fullmatch(
            r"d2l_mini is missing: [^.]* `%pip install -e \.\.`, [^.]*", output.evalue
        )


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

    first, *others = sorted((published / "notebooks").iterdir())
    notebook = nbformat.read(first, as_version=4)
    notebook.cells += [set_up(path) for path in others]
    (tmp_path / "alone").mkdir()
    client = NotebookClient(notebook, kernel_name="colab", timeout=120)
    try:
        client.execute(cwd=str(tmp_path / "alone"))
    except CellExecutionError as error:
        pytest.fail(str(error))

    assert installed(colab) == {"d2l-mini"} | closure(["sacrebleu"]) - closure(PRESENT)
    assert (colab / "torch").is_symlink()
    models = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    assert len(models) > 10  # all of them Colab knows without a manager of its own
    assert {model["model_module"] for model in models.values()} <= {
        "@jupyter-widgets/base",
        "@jupyter-widgets/controls",
        "@jupyter-widgets/output",
    }
