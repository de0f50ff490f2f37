"""Prompts, statements and all other data are found however the package was installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "adk_graph_memory"

# Whatever is read at run time, as a stranger's process reads it.
READS = """
import json
import adk_graph_memory
from adk_graph_memory.graph import schema, statements
from adk_graph_memory.graph.local_neo4j import jars
from adk_graph_memory.models import prompts
from adk_graph_memory.runtime.settings import Settings
blocks = statements.CypherStatements(Settings(), "2026")
print(json.dumps({
    "package": adk_graph_memory.__file__,
    "prompt": prompts.load_prompt("extract").text,
    "statement": blocks["append_events"],
    "version": schema.get_schema_version(),
    "jars": len(jars.load_locked_jars(jars.resolve_version("2026"))),
}))
"""


pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]  # one worker builds and installs it for all


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    if importlib.util.find_spec("hatchling"):
        build.append("--no-isolation")
    built = subprocess.run(build, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content, as pip puts it there."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    return target


def read_in(folder: Path, path: Path | None = None) -> dict[str, object]:
    """What a process reads that runs in this folder and finds the package on this path, or where it is installed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path:
        environment["PYTHONPATH"] = str(path)
    ran = subprocess.run([sys.executable, "-c", READS], cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_wheel_finds_its_data(installed: Path, tmp_path: Path) -> None:
    read = read_in(tmp_path, installed)
    assert Path(str(read["package"])).is_relative_to(installed)
    assert read["prompt"] == (ROOT / "prompts" / "extract.md").read_text("utf-8")
    assert "MATCH" in str(read["statement"])


def test_an_editable_install_finds_the_same_data(installed: Path, tmp_path: Path) -> None:
    editable, from_wheel = read_in(tmp_path), read_in(tmp_path, installed)
    assert Path(str(editable.pop("package"))).is_relative_to(PACKAGE)
    from_wheel.pop("package")
    assert editable == from_wheel


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    ours = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    prompts = {f"adk_graph_memory/_prompts/{path.name}" for path in (ROOT / "prompts").iterdir()}
    assert ours | prompts <= packed


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert tops == {"adk_graph_memory", f"adk_graph_memory-{version}.dist-info"}


def test_the_wheel_says_that_it_is_typed(wheel: Path) -> None:
    assert "adk_graph_memory/py.typed" in zipfile.ZipFile(wheel).namelist()
