"""Services take what they pass on, and pass on what they take."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from adk_graph_memory import (
    GraphMemory,
    IndexRetrieval,
    Neo4jArtifactService,
    Neo4jMemoryService,
    Neo4jSessionService,
)
from adk_graph_memory.adk import graph_service, memory_service
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.memory import graph_memory
from adk_graph_memory.memory.graph_memory import MemoryOptions
from adk_graph_memory.retrieval.own_index.search import IndexOptions

ONLY_FOR_RETRIEVAL = {"sync_driver", "timezone", "timeout"}


def parameters(kind: type) -> dict[str, inspect.Parameter]:
    return {
        name: parameter
        for name, parameter in inspect.signature(kind, eval_str=True).parameters.items()
        if name != "agents_dir"
    }


@pytest.mark.parametrize("service", [Neo4jSessionService, Neo4jArtifactService])
def test_the_other_services_take_what_the_connection_takes(service: type) -> None:
    assert parameters(service).keys() == parameters(Connection).keys() - ONLY_FOR_RETRIEVAL


@pytest.mark.parametrize(("kind", "options"), [(IndexRetrieval, IndexOptions), (GraphMemory, MemoryOptions)])
def test_the_options_of_a_class_are_all_its_arguments(kind: type, options: type) -> None:
    types = {name: parameter.annotation for name, parameter in parameters(kind).items() if name != "uri"}
    assert types == get_type_hints(options)


@pytest.mark.parametrize("memory", [None, GraphMemory("neo4j://localhost")])
def test_the_memory_service_refuses_an_argument_that_there_is_not(memory: GraphMemory | None) -> None:
    with pytest.raises(TypeError, match="'modell'"):
        Neo4jMemoryService(memory=memory, modell="rules")  # type: ignore[call-arg]


def recorded(monkeypatch: pytest.MonkeyPatch, place: object, name: str) -> dict[str, Any]:
    """What the class at this place is made with from now on."""
    arguments: dict[str, Any] = {}
    real = getattr(place, name)

    def record(uri: str | None = None, **options: Any) -> Any:
        arguments.update(uri=uri, **options)
        return real()

    monkeypatch.setattr(place, name, record)
    return arguments


def test_the_memory_gets_each_argument_of_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {name: object() for name in parameters(GraphMemory)}
    arguments = recorded(monkeypatch, memory_service, "GraphMemory")
    Neo4jMemoryService(**given, agents_dir="agents")
    assert arguments == given


@pytest.mark.parametrize("kind", [GraphMemory, Neo4jSessionService, Neo4jArtifactService])
def test_the_connection_gets_each_argument_about_it(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    names = parameters(kind).keys() & parameters(Connection).keys()
    given: dict[str, Any] = {name: object() for name in names}
    place = graph_memory if kind is GraphMemory else graph_service
    arguments = recorded(monkeypatch, place, "Connection")
    kind(**given)
    assert arguments == given
