"""Modules are short, say what they are for, and keep the outside world in its rooms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "adk_graph_memory"
MODULES = sorted(SRC.rglob("*.py")) + sorted((ROOT / "pipelines").rglob("*.py"))

MEANINGLESS = {"utils", "util", "helpers", "helper", "base", "manager", "factory", "common", "misc"}

MAX_LINES = 400

MAX_FUNCTION, USUAL_FUNCTION = 60, 40
LONG_FUNCTIONS = {
    "adk/memory_service.py:__init__": "nothing but its signature, and each parameter passed on",
    "graph/ingest_queue.py:lease_turns": "one transaction, told in its order",
    "graph/ingest_queue.py:work": "the same, as its inner part",
    "graph/sessions.py:store_session": "a third of it is the signature",
}
"""Functions above the usual length, and why."""

CATCH_ALL = {
    "retrieval": "a failing embedder must not fail a search",
    "embeddings": "an embedder of the caller's may raise anything",
    "llm.py": "so may a model",
    "redaction": "and a redaction",
    "ingest.py": "a request that cannot be read, for whatever reason, holds up no other",
}
"""Rooms besides adk/ where everything may be caught, and why."""

ENVIRONMENT = {
    "settings.py": "the one place",
    "local_neo4j/folders.py": "where jars are kept is no setting of a service",
    "local_neo4j/jars.py": "which server line to start, for tests and make",
    "local_neo4j/java.py": "JAVA_HOME belongs to Java",
}
"""Modules that may look at the environment, and why."""

PRIVATE_NAMES = {"adk/_compat.py": "ADK's, so that one module changes when ADK moves them"}
"""Modules that may use private names of other packages, and why."""

POSIX_ONLY = {"crypt", "curses", "fcntl", "grp", "nis", "ossaudiodev", "posix", "pty", "pwd", "readline", "resource"}
POSIX_ONLY |= {"spwd", "syslog", "termios", "tty"}
"""Modules of the standard library that Windows lacks."""

GOOGLE = ("adk/", "llm.py", "embeddings/gemini.py", "testing.py", "cli/", "demo/")


def title(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def place(path: Path) -> str:
    return path.relative_to(SRC if path.is_relative_to(SRC) else ROOT).as_posix()


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text("utf-8"), str(path)))


def code_lines(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end without docstring, comments and empty ones."""
    lines = path.read_text("utf-8").splitlines()
    counted = set(range(function.lineno, (function.end_lineno or 0) + 1))
    if ast.get_docstring(function, clean=False) is not None:
        counted -= set(range(function.body[0].lineno, (function.body[0].end_lineno or 0) + 1))
    return sum(1 for number in counted if lines[number - 1].strip() and lines[number - 1].strip()[0] != "#")


each_module = pytest.mark.parametrize("path", MODULES, ids=title)


@each_module
def test_module_opens_with_a_sentence(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    first_paragraph = docstring.partition("\n\n")[0]
    assert re.match(r"\S.*?\.(\s|$)", first_paragraph, re.DOTALL)


@each_module
def test_module_name_means_something(path: Path) -> None:
    assert path.stem.strip("_") not in MEANINGLESS
    assert path.parent.name not in MEANINGLESS


@each_module
def test_module_is_not_too_long(path: Path) -> None:
    length = len(path.read_text("utf-8").splitlines())
    assert length <= MAX_LINES


@each_module
def test_functions_are_not_too_long(path: Path) -> None:
    found = [
        f"{node.name}: {length}"
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for length in [code_lines(path, node)]
        if length > (MAX_FUNCTION if f"{place(path)}:{node.name}" in LONG_FUNCTIONS else USUAL_FUNCTION)
    ]
    assert found == []


@each_module
def test_not_everything_is_caught(path: Path) -> None:
    if place(path).startswith("adk/") or place(path).startswith(tuple(CATCH_ALL)):
        return
    found = [
        node.lineno
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler) and catches_all(node) and not raises_again(node)
    ]
    assert found == []


@each_module
def test_not_everything_is_suppressed(path: Path) -> None:
    assert [node.lineno for node in nodes(path) if suppresses_all(node)] == []


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


@each_module
def test_the_environment_is_read_in_its_place(path: Path) -> None:
    if place(path) in ENVIRONMENT:
        return
    found = [
        node.lineno
        for node in nodes(path)
        if (isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv", "os.environb"))
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and {alias.name for alias in node.names} & {"environ", "getenv"}
        )
    ]
    assert found == []


@each_module
def test_google_types_stay_at_the_front_door(path: Path) -> None:
    if place(path).startswith(GOOGLE):
        return
    imported = [name for node in nodes(path) for name in imported_modules(node)]
    assert [name for name in imported if name.split(".")[0] == "google"] == []


@each_module
def test_only_telemetry_knows_opentelemetry_and_nothing_of_it_but_the_api(path: Path) -> None:
    # Who sets a provider is the application: it can be set once, so a library that did would take it from all others.
    imported = [name for node in nodes(path) for name in imported_modules(node)]
    foreign = [name for name in imported if name.split(".")[0] == "opentelemetry"]
    assert foreign == [] or place(path) == "telemetry.py"
    assert [name for name in foreign if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))] == []


def test_private_names_of_other_packages_stay_in_one_module() -> None:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in MODULES}
    own = {"_asdict", "_fields", "_make", "_replace"}  # a NamedTuple's public methods
    for path, node in ((path, node) for path, tree in trees.items() for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            own.add(node.attr)
        elif isinstance(node, ast.Constant) and place(path) in PRIVATE_NAMES:
            own.add(str(node.value))  # what we inherit: this module checks that it is there
    found = [
        f"{place(path)}:{node.lineno}: {name}"  # type: ignore[attr-defined]
        for path, tree in trees.items()
        if place(path) not in PRIVATE_NAMES
        for node in ast.walk(tree)
        for name in private_names(node)
        if name not in own
    ]
    assert found == []


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


@each_module
def test_no_module_needs_posix_to_be_imported(path: Path) -> None:
    pending: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    imported = []
    while pending:
        node = pending.pop()
        imported += imported_modules(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += ast.iter_child_nodes(node)
    assert [name for name in imported if name.partition(".")[0] in POSIX_ONLY] == []


def imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


@pytest.mark.parametrize("listed", [CATCH_ALL, ENVIRONMENT, PRIVATE_NAMES], ids=["catch-all", "environment", "private"])
def test_listed_exceptions_exist(listed: dict[str, str]) -> None:
    assert [name for name in listed if not (SRC / name).exists()] == []


def test_listed_functions_exist_and_are_still_long() -> None:
    long = {
        f"{place(path)}:{node.name}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and code_lines(path, node) > USUAL_FUNCTION
    }
    assert set(LONG_FUNCTIONS) <= long
