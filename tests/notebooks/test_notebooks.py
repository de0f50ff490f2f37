"""Every notebook runs from top to bottom for a stranger, on a server of its own, and is kept without output."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from matplotlib import image
from nbclient import NotebookClient

from adk_graph_memory.cli.demo.conversation import load_conversation

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
SECONDS_A_CELL = 300


@dataclass(frozen=True)
class Output:
    """What a notebook has to print, in this order, and how many pictures it has to draw."""

    patterns: tuple[str, ...]
    pictures: int


OUTPUTS = {
    "01_remember_and_recall": Output(
        (
            r"allergic to anything\?\n +event +I am allergic to peanuts",
            r"my sister move\?\n +event +My sister Clara moved to Lisbon",
            r"book a table\?\n +event +I booked a table at Tasca",
            r"user on 04 May 2026: “I am allergic to peanuts",
            r"\d\d nodes, \d\d relationships",
            r"book a table\?\n(?!.*booked a table)",
            r"\['My sister Clara moved to Lisbon in March\.', (?!.*booked a table)",
            r"\{'Ada': 1, 'Ben': 1\} \{'without words': 1\}",
            r"dog afraid of\?\n +\w+ +My dog Rex is afraid of thunder",
        ),
        pictures=1,
    ),
    "02_look_at_the_graph": Output(
        (
            r"2025-12-16-twelve-months +14 turns",
            r"\d\d\d facts: \{.*'over': \d\d",
            r"\d\d entities: \{.*'person': \d\d",
            r"Franzi lives in Berlin, in Moabit\. \(superseded, until 08 August 2025\)",
            r"said +“I live in Berlin, in Moabit”",
            r"ended .*“The flat is in Russafa”",
            r"\d+ facts ended, \d+ began, \d+ held all the time",
            r"user phone_number +\['\+49 152 2881 7386'\] -> \['\+34 555 010 177'\]",
            r"user allergic_to +\['penicillin'\] -> \['ibuprofen'\]",
            r"user works_at +\['Tarnow & Pell'\] -> \['Velasorda'\]",
            r"user lives_in +\['Moabit'\] -> \['Valencia'\]",
        ),
        pictures=3,
    ),
    "03_measure": Output(
        (
            r"14 sessions, 196 turns, 15 questions",
            r"place +\d+, ADK's +(\d+|-) +current value +What is Franzi's current phone number\?",
            r"ADK's InMemoryMemoryService +\d+ and +\d+ of 15; 95 % interval of the first: \d\d% to \d\d%",
            r"full text alone +\d+ and +\d+ of 15",
            r"vectors alone +\d+ and +\d+ of 15",
            r"all signals +1\d and +1\d of 15",
        ),
        pictures=3,
    ),
}

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == list(OUTPUTS)


@each_notebook
def test_it_runs_and_shows_what_it_promises(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)  # what is executed is this copy; the file stays stripped
    place = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=SECONDS_A_CELL, kernel_name="python3", resources=place).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert [output.evalue for output in outputs if output.output_type == "error"] == []
    text = "".join(output.text for output in outputs if output.get("name") == "stdout")
    for pattern in OUTPUTS[path.stem].patterns:
        found = re.search(pattern, text)
        assert found, f"{pattern} is not in what follows:\n{text}"
        text = text[found.end() :]
    pictures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", ())]
    assert len(pictures) == OUTPUTS[path.stem].pictures
    for picture in pictures:
        assert_is_drawn(base64.b64decode(picture))


def assert_is_drawn(png: bytes) -> None:
    """A picture is wide enough to be read, mostly paper, and has ink and colors on it."""
    pixels = image.imread(io.BytesIO(png), format="png")[:, :, :3]
    assert pixels.shape[1] >= 1_000
    is_paper, is_colored = (pixels == 1.0).all(axis=2), pixels.max(axis=2) - pixels.min(axis=2) > 0.15
    assert 0.4 < is_paper.mean() < 0.98
    assert is_colored.mean() > 0.001
    assert (pixels.max(axis=2) < 0.3).mean() > 0.001


def test_a_conversation_of_one_s_own_may_look_as_the_notebook_says(tmp_path: Path) -> None:
    [notebook] = [path for path in NOTEBOOKS if path.stem == "03_measure"]
    text = "".join(cell.source for cell in nbformat.read(notebook, as_version=4).cells)
    [example] = re.findall(r"```json\n(.+?)```", text, re.DOTALL)
    path = tmp_path / "rex.json"
    path.write_text(example, "utf-8")
    conversation = load_conversation(path)
    event_ids = [event.id for session in conversation.sessions for event in session.make_events()]
    assert [question.evidence for question in conversation.questions] == [event_ids[:1]]


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
