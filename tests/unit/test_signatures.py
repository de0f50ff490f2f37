"""Services take what they pass on, and pass on what they take."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, get_type_hints

import pytest

import adk_graph_memory
from adk_graph_memory import (
    GraphMemory,
    GraphMemoryPlugin,
    IndexRetrieval,
    Limits,
    LocalNeo4j,
    Neo4jArtifactService,
    Neo4jIndexService,
    Neo4jMemoryService,
    Neo4jSessionService,
    Settings,
    Statement,
    errors,
    maf,
)
from adk_graph_memory.adk import graph_service, memory_service
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.memory import graph_memory
from adk_graph_memory.memory.graph_memory import MemoryOptions
from adk_graph_memory.retrieval.own_index.search import IndexOptions
from adk_graph_memory.servers.http import make_http_app
from adk_graph_memory.servers.inspector import inspector, operators_inspector
from adk_graph_memory.servers.mcp.tools import make_mcp_server

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


URI = "neo4j://localhost"
MEMORY = GraphMemory(URI)
ANN = MEMORY.user("home", "ann")
WHOSE: dict[str, str] = {"app_name": "home", "user_id": "ann"}
SETTLED = frozenset({Limits, Settings})
"""Whose flags pydantic reads, as it does everywhere else."""
FLAGS: dict[str, Callable[[Any], Any]] = {
    "GraphMemory.check_memories mend": lambda flag: MEMORY.check_memories(mend=flag),
    "GraphMemory.check_store mend": lambda flag: MEMORY.check_store(mend=flag),
    "GraphMemory.check_store owners": lambda flag: MEMORY.check_store(owners=flag),
    "GraphMemory.facts past": lambda flag: MEMORY.facts(**WHOSE, past=flag),
    "GraphMemory.forget with_turns": lambda flag: MEMORY.forget("x", **WHOSE, with_turns=flag),
    "GraphMemory.outdated_sessions force": lambda flag: MEMORY.outdated_sessions(force=flag),
    "GraphMemory.prune dry_run": lambda flag: MEMORY.prune(dry_run=flag),
    "GraphMemory.recall explain": lambda flag: MEMORY.recall("x", **WHOSE, explain=flag),
    "GraphMemory.reextract force": lambda flag: MEMORY.reextract(None, force=flag),  # type: ignore[arg-type]
    "GraphMemory.reextract preview": lambda flag: MEMORY.reextract(None, preview=flag),  # type: ignore[arg-type]
    "GraphMemory.remember replace_metadata": lambda flag: MEMORY.remember(
        [], **WHOSE, session_id="s", replace_metadata=flag
    ),
    "UserMemory.accept_proposal preview": lambda flag: ANN.accept_proposal("x", preview=flag),
    "UserMemory.add_statements consolidate": lambda flag: ANN.add_statements([], consolidate=flag),
    "UserMemory.correct preview": lambda flag: ANN.correct("x", preview=flag),
    "UserMemory.facts past": lambda flag: ANN.facts(past=flag),
    "UserMemory.forget with_turns": lambda flag: ANN.forget("x", with_turns=flag),
    "UserMemory.forget_user artifacts": lambda flag: ANN.forget_user(artifacts=flag),
    "UserMemory.forget_user sessions": lambda flag: ANN.forget_user(sessions=flag),
    "UserMemory.merge preview": lambda flag: ANN.merge("x", "y", preview=flag),
    "UserMemory.pin preview": lambda flag: ANN.pin("x", preview=flag),
    "UserMemory.preview_forget with_turns": lambda flag: ANN.preview_forget("x", with_turns=flag),
    "UserMemory.recall explain": lambda flag: ANN.recall("x", explain=flag),
    "UserMemory.remember replace_metadata": lambda flag: ANN.remember([], session_id="s", replace_metadata=flag),
    "UserMemory.retract preview": lambda flag: ANN.retract("x", preview=flag),
    "UserMemory.rollback preview": lambda flag: ANN.rollback("x", "y", preview=flag),
    "UserMemory.split preview": lambda flag: ANN.split("x", preview=flag),
    "UserMemory.unpin preview": lambda flag: ANN.unpin("x", preview=flag),
    "Statement replaces_metadata": lambda flag: Statement("x", datetime.now(UTC), replaces_metadata=flag),
    **{
        f"{kind.__name__} filter_stop_words": lambda flag, kind=kind: kind(  # type: ignore[misc]
            URI, index_name="i", embedder=lambda text: [1.0], filter_stop_words=flag
        )
        for kind in (IndexRetrieval, Neo4jIndexService, maf.Neo4jContextProvider)
    },
    "LocalNeo4j.start outlive": lambda flag: LocalNeo4j().start(outlive=flag),
    "Neo4jArtifactService.list_orphans delete": lambda flag: Neo4jArtifactService(URI).list_orphans(delete=flag),
    "Neo4jSessionService.delete_session forget_memory": lambda flag: Neo4jSessionService(URI).delete_session(
        **WHOSE, session_id="s", forget_memory=flag
    ),
    "Neo4jSessionService.list_sessions include_state": lambda flag: Neo4jSessionService(URI).list_sessions(
        app_name="home", include_state=flag
    ),
    "Neo4jSessionService.list_sessions newest_first": lambda flag: Neo4jSessionService(URI).list_sessions(
        app_name="home", newest_first=flag
    ),
    "GraphMemoryPlugin preload_profile": lambda flag: GraphMemoryPlugin(preload_profile=flag),
    "GraphMemoryProvider remember": lambda flag: maf.GraphMemoryProvider(app_name="home", memory=MEMORY, remember=flag),
    **{
        f"GraphHistoryProvider {name}": lambda flag, name=name: maf.GraphHistoryProvider(  # type: ignore[misc]
            URI, app_name="home", **{name: flag}
        )
        for name in ("load_messages", "store_context_messages", "store_inputs", "store_outputs")
    },
    "make_http_app write": lambda flag: make_http_app(MEMORY, lambda _: None, write=flag),
    "make_mcp_server allow_write": lambda flag: make_mcp_server(MEMORY, lambda _: None, allow_write=flag),
    "make_mcp_server speaks_for_user": lambda flag: make_mcp_server(MEMORY, lambda _: None, speaks_for_user=flag),
    "inspector write": lambda flag: inspector(MEMORY, lambda _: None, write=flag),
    "operators_inspector write": lambda flag: operators_inspector(MEMORY, lambda _: True, write=flag),
}
"""What takes a flag, and a call that gives it one."""


def iterate_flags(call: Callable[..., Any]) -> Iterator[str]:
    """The names of a call's arguments that are True or False, those of its options too."""
    for parameter in inspect.signature(call).parameters.values():
        if options := re.fullmatch(r"Unpack\[([\w.]+)\]", str(parameter.annotation)):
            kind = eval(options[1], vars(sys.modules[call.__module__]))
            annotations = {name: getattr(one, "__forward_arg__", one) for name, one in kind.__annotations__.items()}
            yield from (name for name, annotation in annotations.items() if re.search(r"\bbool\b", str(annotation)))
        elif re.search(r"\bbool\b", str(parameter.annotation)):
            yield parameter.name


def iterate_public_flags() -> Iterator[str]:
    kinds = [getattr(adk_graph_memory, name) for name in adk_graph_memory.__all__]
    kinds += [getattr(maf, name) for name in maf.__all__]
    for kind in kinds:
        if not isinstance(kind, type) or kind in SETTLED or not kind.__module__.startswith("adk_graph_memory"):
            continue
        is_result = hasattr(kind, "__dataclass_fields__") and kind is not Statement  # what only we make
        yield from () if is_result else (f"{kind.__name__} {name}" for name in iterate_flags(kind))
        methods = {name: method for name, method in vars(kind).items() if inspect.isfunction(method)}
        for name, method in methods.items():
            if not name.startswith("_"):
                yield from (f"{kind.__name__}.{name} {flag}" for flag in iterate_flags(method))
    for function in (make_http_app, make_mcp_server, inspector, operators_inspector):
        yield from (f"{function.__name__} {name}" for name in iterate_flags(function))


def test_each_public_flag_is_asked() -> None:
    assert set(iterate_public_flags()) == set(FLAGS)


@pytest.mark.parametrize("name", FLAGS)
async def test_a_flag_is_true_or_false(name: str) -> None:
    for value in ("no", 0, 1, []):
        with pytest.raises(errors.InvalidArgument, match=re.escape(f"{name.split()[1]}={value!r} is neither")):
            outcome = FLAGS[name](value)
            await (anext(outcome) if hasattr(outcome, "__anext__") else outcome)
