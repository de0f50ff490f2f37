"""Modules are short, say what they are for, and keep the outside world in its rooms."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("modules")  # one worker parses them

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "adk_graph_memory"
MODULES = sorted(SRC.rglob("*.py")) + sorted((ROOT / "pipelines").rglob("*.py"))

MEANINGLESS = {"utils", "util", "helpers", "helper", "base", "manager", "factory", "common", "misc"}

ENTRIES = [
    "__init__.py",
    "adk",
    "cli",
    "consolidation",
    "errors.py",
    "extraction",
    "graph",
    "language",
    "maf",
    "memory",
]
ENTRIES += ["models", "py.typed", "records", "retrieval", "runtime", "servers", "testing.py"]
"""What a newcomer finds at the top of the package."""

EXPORTING = ["", "cli", "maf", "servers/http", "servers/inspector", "servers/mcp"]
"""Packages whose ``__init__`` gives names; the others import nothing, so a module costs only what it needs."""

CATCH_ALL = {
    "retrieval": "a failing embedder must not fail a search",
    "models": "an embedder or a model of the caller's may raise anything",
    "maf/": "the answer was given, so no error of memory may cost it",
    "memory/background.py": "what cannot be queued or ingested waits, and its reason is logged",
    "memory/guard.py": "a guard of a caller may raise anything",
    "memory/ingestion.py": "a request that cannot be read, for whatever reason, holds up no other",
    "memory/jobs/ray_engine.py": "what an actor raises, Ray drops or retries for ever",
    "memory/maintenance.py": "a user whose memory cannot be derived is reported and holds up no other",
    "memory/redaction.py": "a redaction of a caller may raise anything",
}
"""Rooms besides adk/ where everything may be caught, and why."""

ENVIRONMENT = {
    "runtime/environment.py": "the one place, beside what pydantic reads for the settings",
    "memory/jobs/ray_engine.py": "a cluster reports its use to Ray's makers, unless a variable forbids it",
    "graph/local_neo4j/jars.py": "where jars and Java are, and which server line to start, is no setting of a service",
    "pipelines/install.py": "pip and uv are told things there",
}
"""Modules that may look at the environment, and why."""

PRIVATE_NAMES = {"adk/_compat.py": "ADK's, so that one module changes when ADK moves them"}
"""Modules that may use private names of other packages, and why."""

POSIX_ONLY = {"crypt", "curses", "fcntl", "grp", "nis", "ossaudiodev", "posix", "pty", "pwd", "readline", "resource"}
POSIX_ONLY |= {"spwd", "syslog", "termios", "tty"}
"""Modules of the standard library that Windows lacks."""

GOOGLE = ("adk/", "models/llm.py", "models/gemini.py", "testing.py", "cli/")


def place(path: Path) -> str:
    return path.relative_to(SRC if path.is_relative_to(SRC) else ROOT).as_posix()


TEXTS = {place(path): path.read_text("utf-8") for path in MODULES}


@cache
def parse_modules() -> dict[str, ast.Module]:
    return {name: ast.parse(text, name) for name, text in TEXTS.items()}


@cache
def list_nodes() -> dict[str, list[ast.AST]]:
    return {name: list(ast.walk(tree)) for name, tree in parse_modules().items()}


@cache
def list_imports() -> dict[str, list[str]]:
    return {
        name: [module for node in nodes for module in imported_modules(node)] for name, nodes in list_nodes().items()
    }


def imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_modules_open_with_a_sentence() -> None:
    first_paragraphs = {
        name: (ast.get_docstring(tree) or "").partition("\n\n")[0] for name, tree in parse_modules().items()
    }
    assert [name for name, text in first_paragraphs.items() if not re.match(r"\S.*?\.(\s|$)", text, re.DOTALL)] == []


def test_module_names_mean_something() -> None:
    words = {path: {path.stem.strip("_"), path.parent.name} for path in MODULES}
    assert [path for path in MODULES if words[path] & MEANINGLESS] == []


def test_the_top_of_the_package_can_be_held_in_a_head() -> None:
    assert sorted(path.name for path in SRC.iterdir() if path.name != "__pycache__") == ENTRIES


def test_packages_import_nothing_for_their_modules() -> None:
    importing = [
        name.removesuffix("__init__.py").strip("/")
        for name, modules in list_imports().items()
        if name.endswith("__init__.py") and modules
    ]
    assert sorted(importing) == EXPORTING


def test_not_everything_is_caught() -> None:
    assert [
        f"{name}:{node.lineno}"
        for name, nodes in list_nodes().items()
        if not name.startswith(("adk/", *CATCH_ALL))
        for node in nodes
        if isinstance(node, ast.ExceptHandler) and catches_all(node) and not raises_again(node)
    ] == []


def test_not_everything_is_suppressed() -> None:
    assert [
        f"{name}:{node.lineno}" for name, nodes in list_nodes().items() for node in nodes if suppresses_all(node)
    ] == []


def catches_all(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or ast.unparse(kind) in ("Exception", "BaseException") for kind in kinds)


def suppresses_all(node: ast.AST) -> bool:
    """Whether this is ``suppress(Exception)``: unlike an ``except`` it has no place to log what it swallows."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "suppress"
        and any(ast.unparse(kind).rpartition(".")[2] in ("Exception", "BaseException") for kind in node.args)
    )


@pytest.mark.parametrize("code", ["contextlib.suppress(Exception)", "suppress(KeyError, BaseException)"])
def test_the_rule_would_find(code: str) -> None:
    assert any(map(suppresses_all, ast.walk(ast.parse(f"with {code}: pass"))))


def raises_again(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None


def test_the_environment_is_read_in_its_place() -> None:
    assert [
        f"{name}:{node.lineno}"
        for name, nodes in list_nodes().items()
        if name not in ENVIRONMENT
        for node in nodes
        if (isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv", "os.environb"))
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and {alias.name for alias in node.names} & {"environ", "getenv"}
        )
    ] == []


def test_google_types_stay_at_the_front_door() -> None:
    rooms = {
        name for name, modules in list_imports().items() if any(module.split(".")[0] == "google" for module in modules)
    }
    assert [name for name in rooms if not name.startswith(GOOGLE)] == []


def test_only_telemetry_knows_opentelemetry_and_nothing_of_it_but_the_api() -> None:
    # Who sets a provider is the application: it can be set once, so a library that did would take it from all others.
    foreign = {
        (name, module)
        for name, modules in list_imports().items()
        for module in modules
        if module.split(".")[0] == "opentelemetry"
    }
    assert [name for name, _ in foreign if name != "runtime/telemetry.py"] == []
    assert [module for _, module in foreign if module.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))] == []


def test_private_names_of_other_packages_stay_in_one_module() -> None:
    own = {"_asdict", "_fields", "_make", "_replace"}  # a NamedTuple's public methods
    for name, node in ((name, node) for name, nodes in list_nodes().items() for node in nodes):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            own.add(node.attr)
        elif isinstance(node, ast.Constant) and name in PRIVATE_NAMES:
            own.add(str(node.value))  # what we inherit: this module checks that it is there
    assert [
        f"{name}:{node.lineno}: {private}"  # type: ignore[attr-defined]
        for name, nodes in list_nodes().items()
        if name not in PRIVATE_NAMES
        for node in nodes
        for private in private_names(node)
        if private not in own
    ] == []


def private_names(node: ast.AST) -> list[str]:
    """The names with a leading underscore that an import or an attribute access uses."""
    names: list[str] = []
    if isinstance(node, ast.ImportFrom):
        names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
    elif isinstance(node, ast.Import):
        names = [part for alias in node.names for part in alias.name.split(".")]
    elif isinstance(node, ast.Attribute):
        names = [node.attr]
    return [name for name in names if re.match(r"_[a-zA-Z]", name) and name != "_compat"]


def test_no_module_needs_posix_to_be_imported() -> None:
    imported = {name: modules_imported_at_once(tree) for name, tree in parse_modules().items()}
    assert [name for name, modules in imported.items() if {one.partition(".")[0] for one in modules} & POSIX_ONLY] == []


def modules_imported_at_once(tree: ast.Module) -> list[str]:
    """What importing this module imports: everything but what its functions do later."""
    pending: list[ast.AST] = [tree]
    imported = []
    while pending:
        node = pending.pop()
        imported += imported_modules(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += ast.iter_child_nodes(node)
    return imported


@pytest.mark.parametrize("listed", [CATCH_ALL, ENVIRONMENT, PRIVATE_NAMES], ids=["catch-all", "environment", "private"])
def test_listed_exceptions_exist(listed: dict[str, str]) -> None:
    assert [name for name in listed if not ((SRC / name).exists() or (ROOT / name).exists())] == []
