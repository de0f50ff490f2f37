"""Every notebook runs from top to bottom for a stranger, on a server of its own, and is kept without output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
SECONDS_A_CELL = 300

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@each_notebook
def test_it_runs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)  # what is executed is this copy; the file stays stripped
    place = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=SECONDS_A_CELL, kernel_name="python3", resources=place).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert [output.evalue for output in outputs if output.output_type == "error"] == []
    assert any("image/png" in output.get("data", ()) for output in outputs)


@each_notebook
def test_it_is_kept_without_output(path: Path) -> None:
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.source for cell in code if cell.outputs or cell.execution_count is not None] == []


@each_notebook
def test_it_is_short_and_says_first_what_it_is_about(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    assert cells[0].cell_type == "markdown"
    assert sum(cell.cell_type == "code" for cell in cells) <= 10


@each_notebook
@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=["check", "format"])
def test_its_code_is_in_order(path: Path, command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "ruff", *command, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
