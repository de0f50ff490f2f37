"""The examples in the docstrings of the services run as they stand."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import pytest
from tests.support.documents import run_block

import adk_graph_memory
from adk_graph_memory.retrieval.retriever import GraphMemoryRetriever

IMPORTS = """
import asyncio
from datetime import UTC, datetime
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.tools import load_memory
from google.genai import types
from adk_graph_memory import *
"""
CASES = {
    adk_graph_memory.GraphMemory: "My sister Inés moved to Porto.",
    adk_graph_memory.GraphMemoryPlugin: "My dog Rex is afraid of thunder.",
    adk_graph_memory.Neo4jArtifactService: "['rex.txt']",
    adk_graph_memory.Neo4jMemoryService: "My dog Rex is afraid of thunder.",
    adk_graph_memory.Neo4jSessionService: "Hello.",
    adk_graph_memory.Neo4jIndexService: "['load_memory', 'search_knowledge']",
    GraphMemoryRetriever: "My sister Inés moved to Porto.",
}
"""What each example prints, among other things."""


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_the_example_of_a_docstring_runs(
    kind: type, at_the_test_server: None, gemini: Any, app_name: str, capsys: Any
) -> None:
    example = textwrap.dedent((inspect.getdoc(kind) or "").partition("Example:\n")[2])
    run_block(f"{IMPORTS}\nasync def main():\n{textwrap.indent(example, '    ')}\nasyncio.run(main())", app_name)
    assert CASES[kind] in capsys.readouterr().out
