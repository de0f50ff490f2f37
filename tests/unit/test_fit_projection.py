"""``pipelines/fit_projection.py`` writes what the setting ``token_projection`` reads, and says what stops it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from adk_graph_memory.models.projection import Projection

pytestmark = pytest.mark.slow

sys.path.append(str(Path(__file__).parents[2] / "pipelines"))
pipeline = importlib.import_module("fit_projection")


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., Result]:
    """Runs the command over so many short texts."""
    app = typer.Typer()
    app.command()(pipeline.main)

    def fit_texts(count: int, *more: str) -> Result:
        texts = tmp_path / "texts.txt"
        texts.write_text("\n".join(f"Bee {number} lives on roof {number % 7}" for number in range(count)), "utf-8")
        return CliRunner().invoke(app, ["--texts", str(texts), "--out", str(tmp_path / "mine"), *more])

    return fit_texts


def test_it_writes_the_file_that_it_names(fit: Callable[..., Result], tmp_path: Path) -> None:
    done = fit(1_000)
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{tmp_path / 'mine'}: 384 numbers a token to 96")
    assert Projection.from_file(tmp_path / "mine", 384).matrix.shape == (384, 96)


@pytest.mark.parametrize(
    ("count", "more", "reason"),
    [
        (999, (), "999 different texts are too few; give at least 1,000"),
        (1_000, ("--texts", "/nowhere.txt"), "/nowhere.txt"),
        (1_000, ("--out", "/nowhere/mine"), "/nowhere/mine"),
        (1_000, ("--embedder", "/nowhere/model"), "/nowhere/model"),
    ],
)
def test_what_stops_it_is_named(
    fit: Callable[..., Result], tmp_path: Path, count: int, more: tuple, reason: str
) -> None:
    done = fit(count, *more)
    assert done.exit_code == 2
    assert reason in done.output
    assert not (tmp_path / "mine").exists()
