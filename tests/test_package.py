"""The package: what importing it costs, which names it gives, who imports whom, the book's cell."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import d2l_mini as d2l

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "d2l_mini"
IMPORTS = {  # what each module may import of the others; all may import `checks`
    "attention": set(),
    "transformer": {"attention"},
    "data": set(),
    "ablation": {"attention", "transformer", "data", "training", "translation"},
    "train": {"attention", "transformer", "data", "training", "translation", "progress"},
    "training": {"attention", "transformer", "data", "progress"},
    "translation": {"attention", "transformer", "data"},
    "progress": {"pictures"},
    "pictures": set(),
    "figures": {"pictures"},
}
BOOK_CELL = """\
num_hiddens, num_layers, dropout, batch_size, num_steps = 32, 2, 0.1, 64, 10
lr, num_epochs, device = 0.005, 200, torch.device('cuda:0') if torch.cuda.device_count() >= 1 else torch.device('cpu')
ffn_num_hiddens, num_heads = 64, 4

train_iter, src_vocab, tgt_vocab = d2l.load_data_nmt(batch_size, num_steps)

encoder = TransformerEncoder(
    len(src_vocab), num_hiddens, ffn_num_hiddens, num_heads, num_layers,
    dropout)
decoder = TransformerDecoder(
    len(tgt_vocab), num_hiddens, ffn_num_hiddens, num_heads, num_layers,
    dropout)
net = EncoderDecoder(encoder, decoder)
train_seq2seq(net, train_iter, lr, num_epochs, tgt_vocab, device)
"""  # noqa: E501


def run(program: str, *options: str) -> subprocess.CompletedProcess:
    """Run a program in a fresh Python."""
    result = subprocess.run(
        [sys.executable, *options, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result


# What importing costs ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fresh_import() -> subprocess.CompletedProcess:
    program = "import sys, torch, d2l_mini; print(*sys.modules, sep='\\n')"
    return run(program, "-X", "importtime")


@pytest.mark.parametrize("name", ["matplotlib", "IPython", "ipywidgets", "requests", "sacrebleu"])
def test_importing_does_not_load_what_is_only_needed_later(name, fresh_import):
    modules = fresh_import.stdout.split()
    assert "d2l_mini.training" in modules
    assert name not in modules


def test_importing_costs_at_most_a_tenth_more_than_torch(fresh_import):
    line = re.compile(r"import time: +\d+ \| +(\d+) \| +(\S+)$", re.MULTILINE)
    cumulative = {name: int(time) for time, name in line.findall(fresh_import.stderr)}
    assert cumulative["d2l_mini"] <= 0.1 * cumulative["torch"]


# Names ---------------------------------------------------------------------------------------


def test_every_public_name_is_there_once_and_listed():
    assert len(d2l.__all__) == len(set(d2l.__all__))
    for name in d2l.__all__:
        assert getattr(d2l, name) is not None
    assert set(d2l.__all__) <= set(dir(d2l))


@pytest.mark.parametrize("module", sorted(IMPORTS.keys() - {"train"}))  # which is a command
def test_the_package_gives_all_that_a_module_makes_public(module):
    names = importlib.import_module(f"d2l_mini.{module}").__all__
    assert set(names) <= set(d2l.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        d2l.no_such_name  # noqa: B018


def public_objects() -> dict[str, object]:
    """Every public class and function of the package, and every public method."""
    objects = {}
    for name in d2l.__all__:
        value = getattr(d2l, name)
        if not getattr(value, "__module__", "").startswith("d2l_mini"):
            continue  # torch, and constants
        objects[name] = value
        for method, inner in vars(value).items() if inspect.isclass(value) else ():
            if isinstance(inner, staticmethod | classmethod):
                inner = inner.__func__
            if not method.startswith("_") and (
                inspect.isfunction(inner) or isinstance(inner, property)
            ):
                objects[f"{name}.{method}"] = inner
    return objects


def test_every_public_class_function_and_method_says_what_it_does():
    objects = public_objects()
    assert {"masked_softmax", "Timer.stop", "History.tokens_per_second"} <= set(objects)
    without = [
        name
        for name, value in objects.items()
        if not value.__doc__ or value.__doc__.startswith(f"{name}(")  # what a dataclass makes up
    ]
    assert without == []


# Who imports whom ----------------------------------------------------------------------------


def imported(path: Path) -> set[str]:
    """The modules of the package that a file imports, at the top or inside a function."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.level or node.module == "d2l_mini"):
            names |= {(node.module or alias.name).split(".")[-1] for alias in node.names}
            if node.module == "d2l_mini":
                names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("d2l_mini."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            parts = [alias.name.split(".") for alias in node.names]
            names |= {part[1] for part in parts if part[0] == "d2l_mini" and len(part) > 1}
    return names - {"d2l_mini"}


@pytest.mark.parametrize("module", IMPORTS)
def test_a_module_imports_only_what_the_design_allows(module):
    assert imported(PACKAGE / f"{module}.py") - {"checks"} <= IMPORTS[module]
    assert imported(PACKAGE / "checks.py") == set()


def test_only_a_notebook_imports_the_explorers_and_the_exercises():
    for path in PACKAGE.glob("*.py"):
        if path.name not in ("__init__.py",):
            assert not imported(path) & {"explorers", "exercises"}, path.name


# The book's cell -----------------------------------------------------------------------------


def test_the_cell_of_the_book_runs_as_it_is():
    """F026: the last cell of the book's chapter, with 2 epochs for 200 and nothing else changed."""
    assert BOOK_CELL.count(" 200,") == 1
    cell = BOOK_CELL.replace(" 200,", " 2,")
    result = run(f"import d2l_mini as d2l\nfrom d2l_mini import *\n{cell}", "-W", "error")
    assert re.search(
        r"^loss \d\.\d{3} nats per token, \d+ tokens/s on", result.stdout, re.MULTILINE
    )
