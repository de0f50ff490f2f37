"""All Cypher stands in named, documented, used blocks that keep to one user's data."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from adk_graph_memory.graph.queries import (
    FRAGMENT,
    LABELS,
    TEMPLATE,
    UNBOUNDED,
    CypherBlock,
    CypherStatements,
    load_cypher_files,
)
from adk_graph_memory.settings import Settings

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "adk_graph_memory"
SOURCES = sorted(SRC.rglob("*.py")) + sorted((ROOT / "pipelines").rglob("*.py"))
BLOCKS = [(file, block) for file, blocks in load_cypher_files("cypher").items() for block in blocks]
MIGRATIONS = [(file, block) for file, blocks in load_cypher_files("migrations").items() for block in blocks]
NAMES = {block.name for _, block in BLOCKS}
INCLUDED = {name for _, block in BLOCKS for name in re.findall(r"^// include (\w+)$", block.text, re.MULTILINE)}

NOT_OF_ONE_USER = {
    "pending_ingests": "an operator, or a starting process, takes up what waits for anybody",
    "count_waiting": "an operator sees how much of an app waits",
    "ingest_reports": "an operator asks what remembering cost",
    "list_sessions_of_app": "ADK lists a whole app's sessions when no user is named",
    "session_positions": "the cursor of that listing",
}
"""Blocks that may do without $scope, and why."""
OF_THE_WHOLE_DATABASE = {
    "contents.cypher": "what a store holds for nobody is nobody's; it is told which ids are known, and nothing of them",
    "schema.cypher": "holds nobody's data",
    "reembed.cypher": "a new embedder makes everybody's vectors anew, and returns nobody's data to a user",
}
"""The same for whole files."""

DRIVERS_ARE_OPENED_IN = ("graph", "local_neo4j")
NEO4J_IS_KNOWN_TO = (*DRIVERS_ARE_OPENED_IN, "retrieval", "adk", "memory.py", "recall.py", "testing.py")
"""Rooms that may import neo4j: those behind the last two for the types of what they are handed."""
GRAPHRAG_IS_KNOWN_TO = ("retrieval", "embeddings", "recall.py", "testing.py")
"""The same of neo4j-graphrag."""

KEYWORD = re.compile(r"\b(MATCH|MERGE|CREATE|RETURN)\b")
STATEMENT = re.compile(
    r"\b(MATCH|MERGE|CREATE)\s*\(|\bCREATE\s+(INDEX|CONSTRAINT|VECTOR|FULLTEXT)\b|\bRETURN\s+\w|\bDETACH DELETE\b"
)


def title(case: tuple[str, CypherBlock]) -> str:
    file, block = case
    return f"{file}:{block.name}" + (f"@{block.tag}" if block.tag else "")


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in SOURCES:
        yield path, ast.parse(path.read_text("utf-8"), str(path))


def room(path: Path) -> str:
    return path.relative_to(SRC).parts[0] if path.is_relative_to(SRC) else "pipelines"


def named_in(node: ast.AST) -> Iterator[str]:
    """The block names (as patterns) that ``….run(…)``, ``statements[…]`` or ``fragments[…]`` may mean."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run":
        named = node.args[0] if node.args else None
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith(("statements", "fragments")):
        named = node.slice
    else:
        return
    for branch in [named.body, named.orelse] if isinstance(named, ast.IfExp) else [named]:
        if isinstance(branch, ast.Constant) and re.fullmatch(r"[a-z0-9_]+", str(branch.value)):
            yield str(branch.value)
        elif isinstance(branch, ast.JoinedStr):
            yield pattern(branch)


def pattern(text: ast.JoinedStr) -> str:
    return "".join(re.escape(str(piece.value)) if isinstance(piece, ast.Constant) else r"\w+" for piece in text.values)


def docstrings(tree: ast.Module) -> set[int]:
    """The ids of the constants that are docstrings, also of attributes: statements of their own."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


@pytest.mark.parametrize("case", BLOCKS, ids=title)
def test_block_says_what_it_returns(case: tuple[str, CypherBlock]) -> None:
    # A migration's blocks are single schema commands: their names say it all.
    assert case[1].text.startswith("// ")


@pytest.mark.parametrize("case", BLOCKS + MIGRATIONS, ids=title)
def test_no_block_hides_in_another(case: tuple[str, CypherBlock]) -> None:
    # An empty line ends a block: what follows without a proper header would become part of the one before.
    assert "\n\n" not in case[1].text


@pytest.mark.parametrize("folder", ["cypher", "migrations"])
def test_no_text_stands_before_the_first_header(folder: str) -> None:
    for path in (SRC / "graph" / folder).glob("*.cypher"):
        assert re.match(r"// [a-z0-9_]+( @[\w.]+)?\n", path.read_text("utf-8")), path.name


@pytest.mark.parametrize("blocks", [BLOCKS, MIGRATIONS], ids=["cypher", "migrations"])
def test_names_are_unique_on_each_server_line(blocks: list[tuple[str, CypherBlock]]) -> None:
    lines = Counter(
        (block.name, line)
        for _, block in blocks
        for line in (["2026", "5.26"] if block.tag in (None, UNBOUNDED) else [block.tag])
    )
    assert [name for name, count in lines.items() if count > 1] == []


def test_tags_are_lines_that_we_know() -> None:
    assert {block.tag for _, block in BLOCKS + MIGRATIONS} <= {None, FRAGMENT, TEMPLATE, UNBOUNDED, "2026", "5.26"}


def test_every_block_is_used() -> None:
    used = set(INCLUDED)
    for _, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value in NAMES:
                used.add(str(node.value))
            if isinstance(node, ast.JoinedStr) and re.search(r"[a-z]+_", pattern(node)):
                used |= {name for name in NAMES if re.fullmatch(pattern(node), name)}
    assert sorted(NAMES - used) == []


def test_every_name_used_is_a_block() -> None:
    unknown = [
        f"{path.name}: {mentioned}"
        for path, tree in trees()
        for node in ast.walk(tree)
        for mentioned in named_in(node)
        if not any(re.fullmatch(mentioned, name) for name in NAMES)
    ]
    assert unknown == []


def test_only_fragments_are_included() -> None:
    assert {block.name for _, block in BLOCKS if block.tag == FRAGMENT} >= INCLUDED


@pytest.mark.parametrize(
    "case", [case for case in BLOCKS if case[0] not in OF_THE_WHOLE_DATABASE and case[1].tag != FRAGMENT], ids=title
)
def test_block_names_the_scope(case: tuple[str, CypherBlock]) -> None:
    _, block = case
    whole = CypherStatements(Settings(), block.tag or "2026")[block.name]
    assert ("$given.scope" in whole) != (block.name in NOT_OF_ONE_USER)


@pytest.mark.parametrize("name", NOT_OF_ONE_USER)
def test_blocks_without_scope_name_the_app(name: str) -> None:
    assert "$given.app_name" in CypherStatements(Settings(), "2026")[name]


@pytest.mark.parametrize("case", BLOCKS + MIGRATIONS, ids=title)
def test_labels_and_indexes_are_placeholders(case: tuple[str, CypherBlock]) -> None:
    _, block = case
    code = re.sub(r"//.*", "", block.text)
    assert re.findall(r"\(\w*:(?!@)\w+", code) == []
    assert set(re.findall(r"@([A-Z]\w*)", code)) <= LABELS


def test_no_cypher_is_put_together_from_pieces() -> None:
    found = []
    for path, tree in trees():
        docs = docstrings(tree)
        for node in ast.walk(tree):
            pieces: list[ast.AST] = []
            if isinstance(node, ast.JoinedStr):
                pieces = list(node.values)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.Add):
                pieces = [node.left, node.right]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                pieces = [node.func.value] if node.func.attr == "format" else []
            texts = [p.value for p in pieces if isinstance(p, ast.Constant) and id(p) not in docs]
            if any(isinstance(t, str) and KEYWORD.search(t) for t in texts):
                found.append(f"{path.name}:{node.lineno}")  # type: ignore[attr-defined]
    assert found == []


def test_no_statement_stands_in_python() -> None:
    found = [
        f"{path.name}: {node.value[:60]}"
        for path, tree in trees()
        for docs in [docstrings(tree)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        if STATEMENT.search(node.value)
    ]
    # The local server has no graph yet when it asks whether it is ready.
    assert found == ["server.py: RETURN 1"]


def imported() -> Iterator[tuple[str, str]]:
    """Each room of the package with each module that it imports."""
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((room(path), alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield room(path), node.module or ""


@pytest.mark.parametrize(("package", "rooms"), [("neo4j", NEO4J_IS_KNOWN_TO), ("neo4j_graphrag", GRAPHRAG_IS_KNOWN_TO)])
def test_what_speaks_to_neo4j_is_imported_in_few_rooms(package: str, rooms: tuple[str, ...]) -> None:
    assert {where for where, module in imported() if module.split(".")[0] == package} <= set(rooms)


def test_only_the_graph_and_the_local_server_open_drivers() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in trees()
        if room(path) not in DRIVERS_ARE_OPENED_IN
        for node in ast.walk(tree)
        for name in [getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)]
        if name in ("GraphDatabase", "AsyncGraphDatabase")
    ]
    assert found == []
