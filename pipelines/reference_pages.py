"""Write the generated parts of the documentation: settings, graph schema, commands, public names.

    python pipelines/reference_pages.py

Each page in ``docs/`` keeps its prose. Only the text between ``<!-- generated: NAME -->`` and ``<!-- end -->`` is
replaced. A test fails if a page is stale.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

import adk_graph_memory
from adk_graph_memory.cli.application import app
from adk_graph_memory.graph.schema import render_migration_script
from adk_graph_memory.graph.statements import LABELS, load_cypher_files
from adk_graph_memory.retrieval.own_index.search import IndexSettings
from adk_graph_memory.runtime.settings import Settings

DOCS = Path(__file__).parents[1] / "docs"

LABEL_MEANINGS = {
    "App": "One app and its `app:` state.",
    "User": "One user of one app: `user:` state, time zone offset, and the `scope` that everything else carries.",
    "Session": "One ADK session: state, revision, expiry, display name, labels.",
    "Event": "One ADK event, with its whole JSON in `body`. Once remembered it is also a `Memory`.",
    "Memory": "A second label of every remembered event and of every fact. Both search indexes are on this label.",
    "Fact": "One statement that held, without a break, for one period.",
    "Entity": "A person, place, organization or thing: `name`, `type`, `aliases`, `about`.",
    "Revision": "What a fact said before a change, with the operation, the reason and who decided.",
    "Ingest": (
        "One request to remember one window of turns: `pending`, `claimed`, `done` or `superseded`; `reading` holds "
        "what was extracted and decided, as JSON."
    ),
    "Tombstone": "Blocks a forgotten turn, or facts extracted from it: a keyed digest of the turn's id, without words.",
    "Artifact": "One named file of a user or of a session.",
    "ArtifactVersion": "One version of an artifact: its content, or the store that holds it.",
    "Meta": "One node: schema version and checksum, live vector slot, embedders, analyzers.",
    "Migration": "One applied migration: its number, name, time and checksum.",
}
RELATIONSHIP_MEANINGS = {
    "HAS_SESSION": ("User", "Session", ""),
    "HAS_EVENT": ("Session", "Event", ""),
    "NEXT": ("Event", "Event", "the event that follows in the same session"),
    "SUPPORTED_BY": (
        "Fact",
        "Event",
        "`quote`, `start`, `end`, `verified`: the words that the fact rests on; `origin`, if a picture shows them",
    ),
    "SUBJECT": ("Fact", "Entity", ""),
    "OBJECT": ("Fact", "Entity", ""),
    "MENTIONS": ("Event", "Entity", ""),
    "MERGED_INTO": ("Entity", "Entity", "two names turned out to be one; `at`, `by`"),
    "SUPERSEDES": ("Fact", "Fact", "the later fact ended the earlier one; `op`, `reason`"),
    "WOULD_SUPERSEDE": ("Fact", "Fact", "a plan that was called off would have ended the fact"),
    "DEPENDS_ON": ("Fact", "Fact", "if the base fact ends, this fact is stale"),
    "HAS_REVISION": ("Fact", "Revision", ""),
    "BECAUSE_OF": ("Revision", "Event", "the words that support the change"),
    "READS": ("Ingest", "Event", ""),
    "HAS_ARTIFACT": ("User, Session", "Artifact", ""),
    "HAS_VERSION": ("Artifact", "ArtifactVersion", ""),
}

_RELATIONSHIP = re.compile(r"\[\w*:([A-Z_|]+)")
_SCHEMA_COMMAND = re.compile(
    r"(?:CREATE) (?P<kind>CONSTRAINT|(?:FULLTEXT |VECTOR )?INDEX) (?P<name>\S+) IF NOT EXISTS "
    r"FOR \(n:(?P<label>\w+)\) (?P<rest>[^\n;]+)"
)


def make_settings_tables(settings: type[BaseModel]) -> str:
    """Table of every setting: variable, default, meaning; a nested group of settings gets a table of its own."""
    tables = []
    for title, fields in _group_fields(settings):
        rows = [
            (f"`{_name_variable(name, field)}`", _show_default(field), _describe(name, field)) for name, field in fields
        ]
        tables.append((f"### {title}\n\n" if title else "") + _make_table(("variable", "default", "meaning"), rows))
    return "\n\n".join(tables)


def _group_fields(settings: type[BaseModel]) -> Iterator[tuple[str, list[tuple[str, FieldInfo]]]]:
    plain, groups = [], []
    for name, field in settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            groups.append((name.replace("_", " ").capitalize(), list(field.annotation.model_fields.items())))
        else:
            plain.append((name, field))
    yield "", plain
    yield from groups


def _name_variable(name: str, field: FieldInfo) -> str:
    return str(field.validation_alias or f"ADK_GRAPH_MEMORY_{name.upper()}")


def _show_default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value == "" or isinstance(value, SecretStr):
        return "–"
    if isinstance(value, bool | tuple):
        return f"`{json.dumps(value)}`"
    if isinstance(value, float) and value.is_integer():
        return f"`{value:.0f}`"
    return f"`{value}`"


def _describe(name: str, field: FieldInfo) -> str:
    if not field.description:
        raise LookupError(f"the setting {name} has no description")
    return field.description[0].upper() + field.description[1:].removesuffix(".") + "."


def make_label_table() -> str:
    """Table of every label that the package writes."""
    return _make_table(
        ("label", "meaning"), [(f"`{label}`", LABEL_MEANINGS[label]) for label in _sort_like(LABEL_MEANINGS, LABELS)]
    )


def make_relationship_table() -> str:
    """Table of every relationship type that a statement names."""
    texts = "".join(block.text for blocks in load_cypher_files("cypher").values() for block in blocks)
    types = {name for names in _RELATIONSHIP.findall(texts) for name in names.split("|") if name}
    rows = [(f"`{name}`", *RELATIONSHIP_MEANINGS[name]) for name in _sort_like(RELATIONSHIP_MEANINGS, types)]
    return _make_table(("type", "from", "to", "meaning and properties"), rows)


def make_index_table() -> str:
    """Table of every constraint and index of the schema on Neo4j 2026.x."""
    script = render_migration_script(Settings(uri="neo4j://localhost"), dimensions=384)
    rows = []
    for command in _SCHEMA_COMMAND.finditer(script):
        kind = command["kind"].lower().replace("constraint", "unique")
        properties = command["rest"].partition(" OPTIONS")[0].replace("n.", "").replace("WITH", "filtered by")
        properties = re.sub(r"REQUIRE|IS UNIQUE|ON EACH|\bON\b|[()\[\]]", "", properties)
        name = command["name"].strip("`")
        rows.append((f"`{name}`", kind, f"`{command['label']}`", " ".join(properties.split())))
    return _make_table(("name", "kind", "label", "properties"), rows)


def make_command_tables() -> str:
    """A section for each command: what it does, and a table of its arguments and options."""
    commands = typer.main.get_group(app).commands
    return "\n\n".join(_make_command_section(name, command) for name, command in sorted(commands.items()))


def _make_command_section(name: str, command: Any) -> str:
    rows = []
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        names = parameter.opts if is_option else [parameter.metavar or parameter.name]  # as `--help` prints them
        default = parameter.default
        shown = (
            "required"
            if parameter.required
            else ""
            if default in (None, False, "") or callable(default)
            else f"`{default}`"
        )
        rows.append((", ".join(f"`{name}`" for name in names), shown, " ".join(parameter.help.split())))
    text = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    return f"### `{name}`\n\n{text}\n\n" + _make_table(("option", "default", "meaning"), rows)


def make_name_table() -> str:
    """Table of the public names, each with the first sentence of its docstring."""
    rows = []
    for name in adk_graph_memory.__all__:
        if name != "__version__":
            docstring = inspect.getdoc(getattr(adk_graph_memory, name)) or ""
            rows.append((f"`{name}`", " ".join(docstring.partition("\n\n")[0].split()).replace("``", "`")))
    return _make_table(("name", "what it is"), rows)


def _sort_like(order: Iterable[str], names: Iterable[str]) -> list[str]:
    """Sort names by a given order; a name without a place there is a KeyError for the caller."""
    places = list(order)
    return sorted(names, key=lambda name: places.index(name) if name in places else -1)


def _make_table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


SECTIONS: dict[str, Callable[[], str]] = {
    "settings": lambda: make_settings_tables(Settings),
    "index_settings": lambda: make_settings_tables(IndexSettings),
    "labels": make_label_table,
    "relationships": make_relationship_table,
    "indexes": make_index_table,
    "commands": make_command_tables,
    "names": make_name_table,
}
_SECTION = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill_sections(page: str) -> str:
    """Replace every generated part of a page's text with what the code says now."""
    return _SECTION.sub(lambda section: f"{section[1]}\n{SECTIONS[section[2]]()}\n\n{section[3]}", page)


def main(
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if a page is stale.")] = False,
) -> None:
    """Rewrite the generated parts of every page in docs/, and name the pages that changed."""
    stale_pages = []
    for path in sorted(DOCS.rglob("*.md")):
        page = path.read_text("utf-8")
        if (filled := fill_sections(page)) != page:
            stale_pages.append(path)
            if not check:
                path.write_text(filled, "utf-8")
    for path in stale_pages:
        typer.echo(path.relative_to(DOCS.parent))
    raise typer.Exit(1 if check and stale_pages else 0)


if __name__ == "__main__":
    typer.run(main)
