"""All Cypher stands in named, documented, used blocks that keep to one user's data."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from adk_graph_memory.graph.statements import (
    DATABASE,
    FRAGMENT,
    LABELS,
    OPERATOR,
    SCHEMA,
    TEMPLATE,
    UNBOUNDED,
    CypherBlock,
    CypherStatements,
    load_cypher_files,
)
from adk_graph_memory.runtime.settings import Settings

pytestmark = pytest.mark.xdist_group("modules")  # one worker parses them

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "adk_graph_memory"
SOURCES = sorted(SRC.rglob("*.py")) + sorted((ROOT / "pipelines").rglob("*.py"))
BLOCKS = [(file, block) for file, blocks in load_cypher_files("cypher").items() for block in blocks]
MIGRATIONS = [(file, block) for file, blocks in load_cypher_files("migrations").items() for block in blocks]
NAMES = {block.name for _, block in BLOCKS}
INCLUDED = {name for _, block in BLOCKS for name in re.findall(r"^// include (\w+)$", block.text, re.MULTILINE)}

OF_EVERYBODY = {block.name: tag for _, block in BLOCKS for tag in block.tags & {OPERATOR, DATABASE, SCHEMA}}
"""The blocks that are not about one user, by their tags."""
OF_NO_USER = {"App", "Meta"}
"""Labels of nodes that belong to an app or to the whole deployment."""
NODE = re.compile(r"\((?P<name>\w*)(?::(?P<label>\w+)[^(){}]*)?\s*(?P<map>\{[^{}]*\})?")
IN_SCOPE = re.compile(r"\bscope: (?:\$given|(?P<of>\w+))\.scope\b")
PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
PATH = rf"{PARENTHESES}(?:(?:<?-(?:\[[^\]]*\])?->?|\{{\d+,\d+\}})?{PARENTHESES})*"
STEP = re.compile(
    rf"\b(?P<clause>MATCH|MERGE|CREATE)\s*(?P<paths>{PATH}(?:\s*,\s*{PATH})*)"
    r"(?P<search>\s*SEARCH (\w+) IN \(VECTOR INDEX \w+ FOR \S+ WHERE \4\.scope = \$given\.scope\b)?"
    r"|\bYIELD (?P<hit>\w+)(?: AS (?P<renamed>\w+))?(?:, score)?(?P<filter>\s+WHERE \w+\.scope = \$given\.scope\b)?"
    r"|\bAS (?P<named>\w+)|\bFOREACH \((?P<each>\w+) IN\b"
)
"""What brings nodes in: paths, the hits of an index, and names for what others brought in."""

DRIVERS_ARE_OPENED_IN = ("graph",)
NEO4J_IS_KNOWN_TO = (*DRIVERS_ARE_OPENED_IN, "retrieval", "adk", "maf", "memory", "testing.py")
"""Rooms that may import neo4j: those behind the last two for the types of what they are handed."""
GRAPHRAG_IS_KNOWN_TO = ("retrieval", "models", "memory", "testing.py")
"""The same of neo4j-graphrag."""

KEYWORD = re.compile(r"\b(MATCH|MERGE|CREATE|RETURN)\b")
STATEMENT = re.compile(
    r"\b(MATCH|MERGE|CREATE)\s*\(|\bCREATE\s+(INDEX|CONSTRAINT|VECTOR|FULLTEXT)\b|\bRETURN\s+\w|\bDETACH DELETE\b"
)


def title(case: tuple[str, CypherBlock]) -> str:
    file, block = case
    return "@".join((f"{file}:{block.name}", *sorted(block.tags)))


@cache
def parse_modules() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text("utf-8"), str(path))) for path in SOURCES]


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


def test_blocks_say_what_they_return() -> None:
    # A migration's blocks are single schema commands: their names say it all.
    assert [title(case) for case in BLOCKS if not case[1].text.startswith("// ")] == []


def test_no_block_hides_in_another() -> None:
    # An empty line ends a block: what follows without a proper header would become part of the one before.
    assert [title(case) for case in BLOCKS + MIGRATIONS if "\n\n" in case[1].text] == []


@pytest.mark.parametrize("folder", ["cypher", "migrations"])
def test_no_text_stands_before_the_first_header(folder: str) -> None:
    for path in (SRC / "graph" / folder).glob("*.cypher"):
        assert re.match(r"// [a-z0-9_]+( @[\w.]+)*\n", path.read_text("utf-8")), path.name


@pytest.mark.parametrize("blocks", [BLOCKS, MIGRATIONS], ids=["cypher", "migrations"])
def test_names_are_unique_on_each_server_line(blocks: list[tuple[str, CypherBlock]]) -> None:
    lines = Counter(
        (block.name, line)
        for _, block in blocks
        for line in (block.tags & {"2026", "5.26", FRAGMENT, TEMPLATE} or ("2026", "5.26"))
    )
    assert [name for name, count in lines.items() if count > 1] == []


def test_tags_are_lines_that_we_know() -> None:
    known = {FRAGMENT, TEMPLATE, UNBOUNDED, OPERATOR, DATABASE, SCHEMA, "2026", "5.26"}
    assert {tag for _, block in BLOCKS + MIGRATIONS for tag in block.tags} <= known


def test_every_block_is_used() -> None:
    used = set(INCLUDED)
    for _, tree in parse_modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value in NAMES:
                used.add(str(node.value))
            if isinstance(node, ast.JoinedStr) and re.search(r"[a-z]+_", pattern(node)):
                used |= {name for name in NAMES if re.fullmatch(pattern(node), name)}
    assert sorted(NAMES - used) == []


def test_every_name_used_is_a_block() -> None:
    unknown = [
        f"{path.name}: {mentioned}"
        for path, tree in parse_modules()
        for node in ast.walk(tree)
        for mentioned in named_in(node)
        if not any(re.fullmatch(mentioned, name) for name in NAMES)
    ]
    assert unknown == []


def test_only_fragments_are_included() -> None:
    assert {block.name for _, block in BLOCKS if FRAGMENT in block.tags} >= INCLUDED


@pytest.mark.parametrize("line", ["2026", "5.26"])
def test_every_pattern_begins_in_the_scope(line: str) -> None:
    # No runner can see from outside whether a statement that is given a scope keeps to it.
    statements = CypherStatements(Settings(), line)
    unscoped = {name: find_unscoped_patterns(statements[name]) for name in statements if name not in OF_EVERYBODY}
    assert {name for name, patterns in unscoped.items() if patterns} == {"filling"}  # it returns a yes or no of the app
    appends = statements["append_events"].replace("append.scope", "$given.scope")  # several users' rows
    assert find_unscoped_patterns(appends) == []


def find_unscoped_patterns(statement: str) -> list[str]:
    """The paths whose first labelled node is not of the scope, and that no node found before leads into.

    Whatever is created with a label has to name the scope, wherever the path begins.
    """
    bound, matched, unscoped = set[str](), set[str](), list[str]()
    for step in STEP.finditer(re.sub(r"//.*", "", statement)):
        if name := step["named"] or step["each"]:
            bound.add(name)
        elif step["hit"]:
            (bound.add if step["filter"] else unscoped.append)(step["renamed"] or step["hit"])
        for path in re.findall(PATH, step["paths"] or ""):
            nodes = list(NODE.finditer(path))
            labelled = [node for node in nodes if node["label"]]
            is_led_to = step["search"] or any(node["name"] in bound for node in nodes if not node["label"])
            wanted = labelled if step["clause"] in ("CREATE", "MERGE") else labelled[: not is_led_to]
            scopes = [IN_SCOPE.search(node["map"] or "") for node in wanted if node["label"] not in OF_NO_USER]
            is_scoped = all(scope and (scope["of"] is None or scope["of"] in matched) for scope in scopes)
            if is_scoped and (labelled or is_led_to):
                bound |= {node["name"] for node in nodes} - {""}
                matched |= {node["name"] for node in nodes}
            else:
                unscoped.append(path)
    return unscoped


@pytest.mark.parametrize(
    "statement",
    [
        "MATCH (f:Fact {id: $given.id}) // {scope: $given.scope}\nRETURN f",
        "MATCH (u:User {scope: $given.scope}) MATCH (f:Fact) RETURN f",
        "MATCH (u:User {scope: $given.scope}), (f:Fact {id: $given.id}) RETURN f",
        "MATCH (f:Fact {id: $given.scope}) RETURN f",
        "MATCH (u:User {scope: $given.scope})--() MATCH ()-->(f:Fact) RETURN f",
        "MATCH (f) WHERE f.scope <> $given.scope RETURN f",
        "MATCH (f:Fact)-[:SUBJECT]->(n:Entity {scope: $given.scope}) RETURN f",
        "UNWIND $given.rows AS row MERGE (f:Fact {id: row.id}) SET f.scope = $given.scope",
        "FOREACH (key IN $given.keys | CREATE (n:Entity {key: key}))",
        "MATCH (u:User {scope: $given.scope}) CREATE (u)-[:HAS_SESSION]->(s:Session {id: 1})",
        "MATCH (u:User {scope: $given.scope}) MERGE (u)-[:HAS_SESSION]->(s:Session {id: 1})",
        "UNWIND $given.rows AS row MATCH (f:Fact {scope: row.scope}) RETURN f",
        "MATCH (f:Fact {scope: $given.scope}) RETURN f UNION MATCH (f:Fact {id: 1}) RETURN f",
        "RETURN COLLECT { MATCH (n:Entity {key: 1}) RETURN n } AS all",
        "CALL db.index.fulltext.queryNodes('i', $given.query) YIELD node AS found RETURN found",
    ],
)
def test_the_rule_would_find(statement: str) -> None:
    assert find_unscoped_patterns(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "MATCH (f:Fact {scope: $given.scope, id: 1})-[:SUPPORTED_BY]->(e:Event) MATCH (e)<-[:READS]-(i) RETURN i",
        "MATCH (a:App {name: 1}), (u:User {scope: $given.scope}) MERGE (u)-[:HAS]->(s:Session {scope: u.scope})",
        "CALL db.index.fulltext.queryNodes('i', 1) YIELD node AS f\nWHERE f.scope = $given.scope MATCH (f)--(n:Entity)",
        "MATCH (u:User {scope: $given.scope}) RETURN COUNT { (u)-[:HAS]->(:Session) }",
    ],
)
def test_the_rule_leaves_alone(statement: str) -> None:
    assert find_unscoped_patterns(statement) == []


@pytest.mark.parametrize("name", sorted(name for name, tag in OF_EVERYBODY.items() if tag == OPERATOR))
def test_an_operators_block_says_why_and_names_no_scope(name: str) -> None:
    [text] = {block.text for _, block in BLOCKS if block.name == name}
    assert "\n// of several users: " in text
    assert "$scope" not in text


def test_no_function_takes_a_connection_beside_a_scope() -> None:
    # Then one could be another user's than the other: a UserGraph, or its transaction, knows whose it is.
    found = [
        f"{path.name}:{node.name}"
        for path, tree in parse_modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for arguments in [[*node.args.args, *node.args.kwonlyargs]]
        for types in [{ast.unparse(each.annotation) for each in arguments if each.annotation}]
        if types & {"Connection", "Transaction", "Connection | Transaction"} and "Scope" in types
    ]
    assert found == []


def test_what_makes_the_schema_waits_for_none() -> None:
    # A statement that needs the schema, run while it is made, would wait for itself.
    [tree] = (tree for path, tree in parse_modules() if path.name == "schema.py")
    named = {name for node in ast.walk(tree) if isinstance(node, ast.Call) for name in run_names(node)}
    assert named and {name for name in named if OF_EVERYBODY.get(name) != SCHEMA} == set()


def run_names(call: ast.Call) -> Iterator[str]:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "run_statement" and call.args:
        yield from (str(node.value) for node in ast.walk(call.args[0]) if isinstance(node, ast.Constant))


def test_only_a_users_graph_says_whose_statement_it_runs() -> None:
    found = [
        f"{path.name}:{node.lineno}"
        for path, tree in parse_modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("run_statement", "transact", "bind_parameters")
        if any(word.arg == "scope" for word in node.keywords) or len(node.args) == 4
    ]
    assert [place.partition(":")[0] for place in found] == ["connection.py"] * 2  # UserGraph's two methods


def test_labels_and_indexes_are_placeholders() -> None:
    code = {title(case): re.sub(r"//.*", "", case[1].text) for case in BLOCKS + MIGRATIONS}
    assert {name: labels for name, text in code.items() if (labels := re.findall(r"\(\w*:(?!@)\w+", text))} == {}
    assert {name for text in code.values() for name in re.findall(r"@([A-Z]\w*)", text)} <= LABELS


def test_no_cypher_is_put_together_from_pieces() -> None:
    found = []
    for path, tree in parse_modules():
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
        for path, tree in parse_modules()
        for docs in [docstrings(tree)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        if STATEMENT.search(node.value)
    ]
    # The local server has no graph yet when it asks whether it is ready.
    assert found == ["server.py: RETURN 1"]


def imported() -> Iterator[tuple[str, str]]:
    """Each room of the package with each module that it imports."""
    for path, tree in parse_modules():
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
        for path, tree in parse_modules()
        if room(path) not in DRIVERS_ARE_OPENED_IN
        for node in ast.walk(tree)
        for name in [getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)]
        if name in ("GraphDatabase", "AsyncGraphDatabase")
    ]
    assert found == []
