"""Run the tests on the oldest releases that the project allows.

    python tools/oldest.py [--newest NAME ...] [PYTEST OPTION ...]

Makes the environment .venv-oldest anew with the Python that runs this file: of each package that
pyproject.toml or requirements.txt asks for by `>=`, the release named there. `--newest torch`
takes the newest torch instead, where no build of the oldest suits the machine. What follows is
handed to pytest; without it, all tests and all notebooks run.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ".venv-oldest"


def oldest(root: Path) -> list[str]:
    """Return `name==release` for each lower bound of the two files, by name."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (root / "requirements.txt").read_text(encoding="utf-8").splitlines()
    bounds = [re.match(r"([\w.-]+)>=([\w.]+)", line) for line in lines + project["dependencies"]]
    return sorted({f"{bound[1]}=={bound[2]}" for bound in bounds if bound})


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Make the environment and run pytest in it; return the exit status."""
    parser = argparse.ArgumentParser(description="Run the tests on the oldest releases.")
    parser.add_argument("--newest", action="append", default=[], metavar="NAME")
    options, chosen = parser.parse_known_args(arguments)
    folder = root / FOLDER
    if folder.exists():
        shutil.rmtree(folder)
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    pins = [pin for pin in oldest(root) if pin.partition("==")[0] not in options.newest]
    pins.append("pyparsing<3.3")  # later ones warn of what matplotlib calls, in new processes too
    print(*pins, flush=True)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins), encoding="utf-8")
    install = ["pip", "install", "--quiet", "-r", "requirements.txt", "-c", constraints]
    quiet = ["-W", "ignore::DeprecationWarning"]  # an old release calls what others have renamed
    for command in install, ["pytest", *quiet, *chosen]:
        status = subprocess.run([python, "-m", *command], cwd=root, check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
