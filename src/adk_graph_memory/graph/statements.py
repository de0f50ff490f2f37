"""Load Cypher statements from ``.cypher`` files, fill in this deployment's identifiers, and bind what has expired.

A block starts, at the top of a file or after an empty line, with ``// name`` and its tags; the comment under it says
what it returns. It is about one user, whose scope it is given, unless it is tagged ``@operator`` (of an app, or of
anybody), ``@database`` (of the whole deployment) or ``@schema`` (it makes or describes the schema, so it needs none).
``@2026`` keeps it to one server line. ``@Session`` in a text is a label and ``@memory_text`` an index, named by the
settings. A block with ``SLOT`` in its name stands for two, one for each slot of vectors, ``a`` and ``b``. ``// include
name`` stands for a fragment; ``// include name from row`` takes its parameters from a map of that name.

All values are parameters, passed in one map. Neo4j plans a statement again, for up to a second, for each new
combination of parameter types, and lists and texts of another order of magnitude in length count as another type.
A map is one type, whatever it holds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Settings

RETENTION = "retention"
"""The parameter that says what has expired; statements get it without being given it."""
PERIODS = ("session_ttl", "event_ttl", "memory_ttl", "revision_ttl", "artifact_ttl", "user_state_ttl")


def compute_retention(settings: Settings, older_than: float | None = None) -> dict[str, Any]:
    """Compute the value of ``$retention``: the time now (epoch seconds) and the settings' periods, None for no end.

    Args:
        settings: the deployment's settings.
        older_than: seconds; for pruning alone: what is older has expired too, whatever its own expiry.
    """
    periods = {name: getattr(settings, name) for name in PERIODS}
    return {"now": time.time(), "older_than": older_than, **periods}


LABELS = frozenset(
    ("App", "User", "Session", "Event", "Memory", "Entity", "Fact", "Revision", "Ingest", "Tombstone")
) | {"Artifact", "ArtifactVersion", "Meta", "Migration"}
"""Every label we write."""
OPERATOR, DATABASE, SCHEMA = "operator", "database", "schema"
"""The tags of blocks that are not about one user."""
FRAGMENT = "fragment"
"""The tag of a block that other blocks include with ``// include name``."""
TEMPLATE = "template"
"""The tag of a block with placeholders in braces that have to be filled in."""
UNBOUNDED = "unbounded"
"""The tag of a block that takes as long as the whole graph is large."""

ROWS_PER_STATEMENT = 250
"""Maximum rows per statement: the driver packs all rows at once and blocks the event loop meanwhile."""

PARAMETER_MAP = "given"
"""The one parameter of our statements: a map of all values. ``$scope`` in a file becomes ``$given.scope``."""

SLOT_NAMES = "ab"
"""The names of the two slots for vectors."""

_SLOT = "SLOT"
_HEADER = re.compile(r"(?:\A|\n\n)// ([a-z0-9_]+(?:SLOT)?)((?: @[\w.]+)*)\n")
_INCLUDE = re.compile(r"^// include (\w+)(?: from (\w+))?$", re.MULTILINE)
_IDENTIFIER = re.compile(r"@(\w+)")
_PARAMETER = re.compile(r"(?<!OPTIONS )\$(?=[a-z])")  # a new index takes its options from no map
_MAPPED_PARAMETER = re.compile(rf"\${PARAMETER_MAP}\.(\w+)")
_PARAMETER_OF_CALLER = re.compile(rf"\${PARAMETER_MAP}\.(?!{RETENTION}\b)")
_LIMIT, _LIST = (re.compile(rf"\b{word} \${PARAMETER_MAP}\.(\w+)") for word in ("LIMIT", "IN"))
_TYPES = re.compile(r"\[\w*:([A-Z_|]+)")
_PROPERTY_KEY = re.compile(r"(?:(?<![\w.$])[a-z]\w*\.|[{,]\s*\.)([a-z]\w*)(?![\w.]*\()|[{,]\s*([a-z]\w*):")
_NO_CODE = re.compile(r"//.*|'[^'\n]*'")


@dataclass(frozen=True, slots=True)
class CypherBlock:
    """A named block of a ``.cypher`` file."""

    name: str
    tags: frozenset[str]
    text: str


def parse_blocks(source: str) -> list[CypherBlock]:
    """Parse the text of a ``.cypher`` file into its blocks, in order."""
    _, *pieces = _HEADER.split(source)
    return [
        CypherBlock(
            name.replace(_SLOT, slot),
            frozenset(re.findall(r"[\w.]+", tags)),
            text.strip().removesuffix(";").replace(_SLOT, slot),
        )
        for name, tags, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
        for slot in (SLOT_NAMES if _SLOT in name else [_SLOT])
    ]


@cache
def load_cypher_files(folder: str) -> dict[str, tuple[CypherBlock, ...]]:
    """Load the ``.cypher`` files of a folder of this package: blocks by file name, sorted by name."""
    paths = (resources.files(__package__) / folder).iterdir()
    files = sorted((path for path in paths if path.name.endswith(".cypher")), key=lambda path: path.name)
    return {file.name: tuple(parse_blocks(file.read_text(encoding="utf-8"))) for file in files}


def parse_schema_version(file_name: str) -> int:
    """The schema version that a migration file makes: 101 for ``0001_schema.cypher``.

    Checkouts from before the first release counted theirs from 1. Neither they nor we take one schema for the other.
    """
    return 100 + int(file_name.partition("_")[0])


def fill_identifiers(text: str, settings: Settings) -> str:
    """Replace every ``@Identifier`` in a text with this deployment's name for it."""

    def fill_identifier(match: re.Match[str]) -> str:
        word = match[1]
        if word in LABELS:
            return f"{settings.label_prefix}{word}"
        if word == "analyzer":
            return settings.analyzers[0]
        return name_index(word, settings)

    return _IDENTIFIER.sub(fill_identifier, text)


def name_index(word: str, settings: Settings) -> str:
    """This deployment's name for an index or constraint.

    Two names are never equal: a word has no capitals, so the first ones are those of ``_OF_``, before the label prefix.
    """
    return f"adk_{word}_OF_{settings.label_prefix}" if settings.label_prefix else f"adk_{word}"


class CypherStatements:
    """The statements of one deployment and server line (``2026``, ``5.26``): ``statements["append_events"]``."""

    def __init__(self, settings: Settings, line: str) -> None:
        self._settings = settings
        blocks = [block for blocks in load_cypher_files("cypher").values() for block in blocks]
        texts = {
            block: _PARAMETER.sub(f"${PARAMETER_MAP}.", fill_identifiers(block.text, settings)) for block in blocks
        }
        self.fragments = {block.name: text for block, text in texts.items() if FRAGMENT in block.tags}
        self.fragments = {name: self._expand_includes(text) for name, text in self.fragments.items()}
        # The others are pieces of blocks, or for another line of servers.
        own_tags = {line, UNBOUNDED, OPERATOR, DATABASE, SCHEMA}
        self._texts = {
            block.name: self._expand_includes(text) for block, text in texts.items() if block.tags <= own_tags
        }
        self._unbounded_names = {block.name for block in blocks if UNBOUNDED in block.tags}
        self._user_names = {block.name for block in blocks if not block.tags & {OPERATOR, DATABASE, SCHEMA}}
        self._schema_names = {block.name for block in blocks if SCHEMA in block.tags}
        self._parameter_names = {name: frozenset(_MAPPED_PARAMETER.findall(text)) for name, text in self._texts.items()}

    def _expand_includes(self, text: str) -> str:
        def expand_include(include: re.Match[str]) -> str:
            fragment = self._expand_includes(self.fragments[include[1]])
            return _PARAMETER_OF_CALLER.sub(f"{include[2]}.", fragment) if include[2] else fragment

        return _INCLUDE.sub(expand_include, text)

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def bind_parameters(
        self, name: str, parameters: Mapping[str, Any], scope: Scope | None = None
    ) -> tuple[str, dict[str, Any]]:
        """The text of a statement and its parameters, as the driver takes them; ``$retention`` is filled in.

        Args:
            name: the statement.
            parameters: its parameters.
            scope: the user whom it is about; None for an operator's statement.

        Raises:
            errors.ScopeError: the statement is about one user and no scope is given, or the other way round.
            KeyError: a parameter is missing. Inside a map, Cypher would read it as null.
        """
        bound, needed = dict(parameters), self._parameter_names[name]
        if (name in self._user_names) != (scope is not None):
            raise errors.ScopeError(name=name, reason="is about one user" if scope is None else "is not about one user")
        if scope is not None:
            owner = {"scope": scope.key, "app_name": scope.app_name, "user_id": scope.user_id}
            if taken := owner.keys() & bound.keys():
                raise errors.ScopeError(name=name, reason=f"was given {', '.join(sorted(taken))} beside its scope")
            bound |= {key: owner[key] for key in owner.keys() & needed}  # logs of the database need no more names
        if RETENTION in needed:
            bound.setdefault(RETENTION, compute_retention(self._settings))
        if missing := needed - bound.keys():
            raise KeyError(f"{name} needs {', '.join(sorted(missing))}")
        return self._texts[name], {PARAMETER_MAP: bound}

    def bind_placeholders(self, name: str, parameters: Mapping[str, Any], owner: Scope) -> tuple[str, dict[str, Any]]:
        """The same for a statement that is only to be planned: missing parameters are null, no list and no limit is.

        ``owner`` is whom a statement about one user is planned for.
        """
        scope = owner if name in self._user_names else None
        of_owner = {"scope", "app_name", "user_id"} if scope else set()
        placeholders = dict.fromkeys(self._parameter_names[name] - {RETENTION} - of_owner)
        placeholders |= dict.fromkeys(_LIMIT.findall(self._texts[name]), 0)
        placeholders |= dict.fromkeys(_LIST.findall(self._texts[name]), ())
        return self.bind_parameters(name, {**placeholders, **parameters}, scope)

    def list_names(self) -> dict[str, list[str]]:
        """List the names in all statements: labels, relationship types, and property keys, those of maps included."""
        code = _NO_CODE.sub("", "\n".join(self._texts.values()))
        types = {type for types in _TYPES.findall(code) for type in types.split("|")}
        keys = {key for keys in _PROPERTY_KEY.findall(code) for key in keys if key}
        labels = sorted(f"{self._settings.label_prefix}{label}" for label in LABELS)
        return {"labels": labels, "types": sorted(types), "keys": sorted(keys)}

    def is_unbounded(self, name: str) -> bool:
        """Whether a statement takes as long as the whole graph is large, so that no timeout fits it."""
        return name in self._unbounded_names

    def needs_schema(self, name: str) -> bool:
        """Whether a statement runs only once the schema is there; those that make it do not."""
        return name not in self._schema_names

    def has_label(self, label: str) -> bool:
        """Whether any statement names this label or relationship type."""
        pattern = re.compile(rf"[:|]{re.escape(label)}\b")
        return any(pattern.search(text) for text in self._texts.values())

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    @classmethod
    @lru_cache(maxsize=32)
    def from_settings(cls, settings: Settings, line: str) -> CypherStatements:
        """The statements of a deployment; the same settings and line share one instance."""
        return cls(settings, line)
