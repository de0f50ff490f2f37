"""One real Neo4j for the whole run: the controller starts it, every worker uses it, nobody else's is touched."""

from __future__ import annotations

import asyncio
import os
import re
import runpy
import sys
import threading
import uuid
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest
from filelock import FileLock
from typer.testing import CliRunner, Result

from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.graph.local_neo4j.jars import get_cache_folder
from adk_graph_memory.graph.local_neo4j.server import LocalNeo4j
from adk_graph_memory.graph.vector_slots import open_slot
from adk_graph_memory.models import embedder as models_embedder
from adk_graph_memory.models.embedder import EmbedderAdapter
from adk_graph_memory.models.gemini import GeminiEmbedder
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.runtime.settings import Settings, load_settings
from adk_graph_memory.testing import HashEmbedder

hypothesis.settings.register_profile("unhurried", deadline=None)  # no test goes by the clock
hypothesis.settings.load_profile("unhurried")

PURE = ("tests/unit", "tests/house_rules")
ONE_OF_EACH = (
    "tests/integration",
    "tests/acceptance",
    "tests/migrations",
    "tests/contract/test_memory.py",
    "tests/docs/test_docstrings.py",
)
"""Where a test's first case is enough for `make test`: the cases after it are slow."""
GRAPHS = {
    "": (LocalEmbedder(), 384),
    "TestDemo": (LocalEmbedder(), 384),
    "TestHash": (HashEmbedder(), 64),
    "TestGemini": (GeminiEmbedder("gemini-embedding-001"), 64),
}
"""The label prefixes that tests share: whose vectors each graph holds, and their dimensions."""
SLOW_GRAPHS = ("TestGemini",)
"""Those that `make test` does without."""
SLOW_MODULE = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.(slow|full)\b", re.MULTILINE)
EXPORT = Path(__file__).parents[1] / "pipelines" / "export_onnx.py"
KEPT = ("ADK_GRAPH_MEMORY_CACHE", "ADK_GRAPH_MEMORY_NEO4J")
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}
"""Each worker has one core, on which torch's threads would wait for each other; LiteLLM would fetch a list of prices;
and servers of tests stand behind no proxy."""
FOREIGN = (
    "NEO4J_",
    "ADK_GRAPH_MEMORY_",
    "GOOGLE_",
    "GEMINI_",
    "OTEL_",
    "OPENAI_",
    "ANTHROPIC_",
    "AZURE_",
    "RAY_ADDRESS",
)
"""How variables begin that a shell may hold and no test should see."""
UNHURRIED = {
    f"ADK_GRAPH_MEMORY_{name}": "120"
    for name in ("DATABASE_TIMEOUT", "EMBED_TIMEOUT", "MODEL_TIMEOUT", "RERANK_TIMEOUT", "FIRST_SEARCH_WAIT")
}
"""A busy machine may take long to plan a statement or to load a model; tests about waiting name their own limit."""
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1"
"""No server of the tests lives long enough to be worth the time of Java's thorough compiler."""
SERVER_CONF = {
    "dbms.cypher.min_replan_interval": "3h",
    "server.memory.query_cache.per_db_cache_num_entries": "5000",
}
"""Plans last though the store grows under them, and those of all graphs fit."""
SERVER, PREPARATION = pytest.StashKey[LocalNeo4j](), pytest.StashKey[threading.Thread]()
CONSTANTS = pytest.StashKey[list[tuple[ModuleType, str, object]]]()
"""The package's constants before a test."""


@dataclass(frozen=True)
class Server:
    """Where the run's Neo4j is."""

    uri: str
    auth: tuple[str, str]

    def settings(self, **chosen: Any) -> Settings:
        """Settings for this server, whatever the environment says; limits go by their own names."""
        return load_settings(uri=self.uri, username=self.auth[0], password=self.auth[1], **chosen)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=2, help="how often a server is killed in the middle of its work")
    parser.addoption("--pictures", help="the folder that gets pictures of the pages, such as docs/assets")


@pytest.fixture(scope="session")
def minilm_export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default model as a folder for the light embedder, which one worker exports for all."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "minilm"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            runpy.run_path(str(EXPORT))["export_model"]("all-MiniLM-L6-v2", folder)
    return folder


@pytest.fixture
def kills(pytestconfig: pytest.Config) -> int:
    """How often a server is killed in the middle of its work."""
    return int(pytestconfig.getoption("--kills"))


def pytest_configure(config: pytest.Config) -> None:
    """Starts the server before any worker is started; they find it by NEO4J_TEST_URI."""
    os.environ.setdefault("ADK_GRAPH_MEMORY_CACHE", str(get_cache_folder()))
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    is_worker = hasattr(config, "workerinput")
    needs_no_server = bool(config.args) and all(_is_in(config, argument, PURE) for argument in config.args)
    if is_worker or needs_no_server or "NEO4J_TEST_URI" in os.environ or config.option.collectonly:
        return
    server = LocalNeo4j(heap="1g", page_cache="256m", conf=SERVER_CONF).start()
    config.stash[SERVER] = server
    os.environ["NEO4J_TEST_URI"] = server.uri
    os.environ["NEO4J_TEST_USERNAME"], os.environ["NEO4J_TEST_PASSWORD"] = server.auth
    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JAVA)
    prefixes = [prefix for prefix in GRAPHS if prefix not in SLOW_GRAPHS or "not slow" not in config.option.markexpr]
    preparation = _prepare_graphs(Server(server.uri, server.auth), prefixes)
    config.stash[PREPARATION] = threading.Thread(target=asyncio.run, args=[preparation])
    config.stash[PREPARATION].start()


async def _prepare_graphs(server: Server, prefixes: list[str]) -> None:
    """Make all indexes of the shared graphs while the workers start: with each new one the server forgets its plans."""
    for prefix in prefixes:
        embedder, dimensions = GRAPHS[prefix]
        settings = server.settings(label_prefix=prefix, database_timeout=120)
        async with Connection(settings=settings) as connection:
            await connection.prepare()
            await open_slot(connection, "a", EmbedderAdapter(embedder, settings).name, dimensions)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare `make test` the import of modules that are slow as a whole, with the libraries that they alone need."""
    if "not slow" not in config.option.markexpr or not collection_path.match("test_*.py"):
        return None
    return SLOW_MODULE.search(collection_path.read_text("utf-8")) is not None or None


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Groups come late, when the server has compiled what they need; what changes the schema later, for then the server
    plans every statement again; and what needs no server comes last, to keep both workers busy to the end."""
    config.option.loadscopereorder = False
    first_cases: dict[str, str] = {}
    for item in items:
        name, _, case = item.nodeid.partition("[")
        if item.get_closest_marker("slow") or item.get_closest_marker("full"):
            continue
        if _is_in(config, str(item.path), ONE_OF_EACH) and first_cases.setdefault(name, case) != case:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: _place(config, item))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("adk_graph_memory.")]
    item.stash[CONSTANTS] = [
        (module, name, value) for module in modules for name, value in vars(module).items() if name.isupper()
    ]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """A test that leaves a constant of the package changed would decide what later tests of its process see."""
    yield
    changed = [name for module, name, value in item.stash[CONSTANTS] if vars(module).get(name) is not value]
    assert changed == [], "the test leaves constants changed"


def _place(config: pytest.Config, item: pytest.Item) -> tuple[bool, ...]:
    is_pure, changes_schema, is_grouped = (
        _is_in(config, str(item.path), PURE),
        item.get_closest_marker("schema") is not None,
        item.get_closest_marker("xdist_group") is not None,
    )
    return is_pure, changes_schema, is_grouped


def pytest_unconfigure(config: pytest.Config) -> None:
    if server := config.stash.get(SERVER, None):
        config.stash[PREPARATION].join()  # it may outlast a few tests
        server.close()


@cache
def _is_in(config: pytest.Config, argument: str, folders: tuple[str, ...]) -> bool:
    path = (config.invocation_params.dir / argument.partition("::")[0]).resolve()
    return any(path.is_relative_to(config.rootpath / folder) for folder in folders)


@pytest.fixture(scope="session")
def neo4j_server() -> Server:
    """The run's Neo4j; tests share it and keep apart by fresh app names."""
    username = os.environ.get("NEO4J_TEST_USERNAME", "neo4j")
    return Server(os.environ["NEO4J_TEST_URI"], (username, os.environ["NEO4J_TEST_PASSWORD"]))


@pytest.fixture(autouse=True)
def _no_foreign_configuration(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A shell may hold a production database, a paid model's key or a collector of traces: no test sees them."""
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            if name.startswith("NEO4J_TEST_") or name in KEPT:
                continue
            monkeypatch.delenv(name)
    home = tmp_path_factory.getbasetemp() / f"home-{uuid.uuid4().hex}"  # nobody makes it until it is needed
    monkeypatch.setenv("ADK_GRAPH_MEMORY_HOME", str(home))
    if not _is_in(request.config, str(request.path), PURE):
        for name, seconds in UNHURRIED.items():
            monkeypatch.setenv(name, seconds)
        # The default model is the light one, as in `make demo`: PyTorch takes seconds to import, in each worker.
        monkeypatch.setattr(
            models_embedder, "find_spec", lambda name: None if name == "sentence_transformers" else find_spec(name)
        )


@pytest.fixture
def app_name() -> str:
    """An app that no other test knows."""
    return f"app-{uuid.uuid4().hex[:12]}"


Command = Callable[..., Awaitable[Result]]


@pytest.fixture
def command(neo4j_server: Server, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line on the run's Neo4j, 80 columns wide; ``stdin`` is what is typed or piped in."""
    from adk_graph_memory.cli.application import app

    username, password = neo4j_server.auth
    chosen = {"NEO4J_URI": neo4j_server.uri, "NEO4J_USERNAME": username, "NEO4J_PASSWORD": password, "COLUMNS": "80"}
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)

    async def run(*arguments: str, stdin: str | None = None) -> Result:
        runner, name = CliRunner(), "adk-graph-memory"
        return await asyncio.to_thread(runner.invoke, app, list(arguments), input=stdin, prog_name=name)

    return run
