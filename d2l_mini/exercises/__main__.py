"""For a teacher: check a folder of handed-in notebooks.

    python -m d2l_mini.exercises FOLDER [--seconds 300]

Each notebook runs in a kernel of its own, within a time limit; cells that fail are passed over. A
line for each: the notebook, what it solved (✓), what is wrong (✗) and what is not attempted (○).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from d2l_mini.exercises import exercises, record
from d2l_mini.exercises.base import SYMBOLS


def check_notebook(path: Path, seconds: float) -> dict[str, str]:
    """Run a notebook, and say how its exercises came out.

    Raises ValueError if it is no notebook, TimeoutError if it takes longer than `seconds`.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:
        raise ValueError("is not a notebook") from error
    with tempfile.TemporaryDirectory() as folder:
        os.environ["D2L_MINI_PROGRESS"] = folder
        try:
            client = NotebookClient(
                notebook,
                timeout=seconds,
                allow_errors=True,
                kernel_name="python3",
                resources={"metadata": {"path": str(path.parent)}},
            )
            client.execute()
            return record.read_record()
        except CellTimeoutError as error:
            raise TimeoutError(f"a cell takes longer than {seconds:g} seconds") from error
        except DeadKernelError as error:
            raise TimeoutError("its kernel died") from error
        finally:
            del os.environ["D2L_MINI_PROGRESS"]


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 0 = every notebook could be run."""
    parser = argparse.ArgumentParser(
        prog="python -m d2l_mini.exercises",
        description="Check a folder of handed-in notebooks: which exercises are solved.",
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=300, help="for one cell (default: 300)")
    options = parser.parse_args(arguments)
    paths = sorted(options.folder.rglob("*.ipynb"))
    paths = [path for path in paths if ".ipynb_checkpoints" not in path.parts]
    if not paths:
        print(f"{options.folder} holds no notebook", file=sys.stderr)
        return 2
    failed = False
    for path in paths:
        name = path.relative_to(options.folder)
        try:
            states = check_notebook(path, options.seconds)
        except (ValueError, TimeoutError) as error:
            failed = True
            print(f"{name}: {error}", flush=True)
            continue
        chapters = {number.split(".")[0] for number in states} or {name.stem[:2].lstrip("0")}
        marks = [
            f"{SYMBOLS[states.get(number, 'open')]} {number}"
            for number in exercises()
            if number.split(".")[0] in chapters
        ]
        print(f"{name}: {'   '.join(marks) or 'no exercise'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
