"""Every error says what happened and what to do, from its template and its data, under ``python -OO`` too."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from string import Formatter
from typing import get_type_hints

import pytest

from adk_graph_memory import errors

SRC = Path(errors.__file__).parent
CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.GraphMemoryError)]


def fields(kind: type[errors.GraphMemoryError]) -> set[str]:
    """What the class's message is filled with."""
    return {field for _, field, _, _ in Formatter().parse(kind.template) if field}


def made(kind: type[errors.GraphMemoryError]) -> errors.GraphMemoryError:
    return kind(**{field: f"<{field}>" for field in fields(kind)})


def test_the_messages_hold_all_data() -> None:
    for kind in CLASSES:
        message = str(made(kind))
        assert [field for field in fields(kind) if f"<{field}>" not in message] == [], kind
        assert not re.search(r"[{}]|  |\n ", message), kind


def test_the_data_are_attributes() -> None:
    for kind in CLASSES:
        error = made(kind)
        assert [field for field in fields(kind) if getattr(error, field) != f"<{field}>"] == [], kind
        with pytest.raises(AttributeError, match="no_such_field"):
            _ = error.no_such_field


def test_each_message_is_its_own_and_the_docstring() -> None:
    assert [kind for kind in CLASSES if "template" not in vars(kind)] == []
    differing = {kind for kind in CLASSES if kind.__doc__ != kind.template}
    assert differing <= {errors.GraphMemoryError}


def test_the_type_of_each_field_is_declared() -> None:
    assert [kind for kind in CLASSES if not fields(kind) <= get_type_hints(kind).keys()] == []


def test_messages_survive_python_without_docstrings() -> None:
    script = "from adk_graph_memory import errors; print(errors.__doc__, errors.PortTaken(port=7687))"
    process = subprocess.run([sys.executable, "-OO", "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout == f"None {errors.PortTaken(port=7687)}\n"


@pytest.mark.parametrize("through", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"])  # noqa: S301
def test_they_survive_the_way_to_another_process(through) -> None:  # type: ignore[no-untyped-def]
    for kind in CLASSES:
        error = through(made(kind))
        assert (type(error), str(error), vars(error)) == (kind, str(made(kind)), vars(made(kind)))


def test_braces_in_the_data_are_left_alone() -> None:
    assert "{reason}" in str(errors.DatabaseError(reason="MATCH (n {reason}) failed"))


def test_a_message_of_ones_own_is_kept() -> None:
    assert str(errors.DatabaseError("just this", reason="that")) == "just this"


@pytest.mark.parametrize("id", ["x" * 9_000, "x y " * 3_000, "漢字" * 3_000], ids=["a word", "words", "no spaces"])
def test_what_an_error_names_is_cut_in_its_message_alone(id: str) -> None:
    what = f"fact {id!r} of this user"
    for error in (errors.NotFound(what=what, where="`facts`"), errors.NotFound(f"There is no {what}.", what=what)):
        assert len(str(error)) < 1_100
        assert re.search(r"There is no fact '.{50}.* … .*' of this user", str(error))
        assert error.what == what
        assert str(error.add_sentence("Look again.")).endswith(". Look again.")
    lines = "\n".join(["a line of a log that is short enough"] * 100)
    assert lines in str(errors.ServerStartFailed(code=1, log="log", tail=lines))


def drawn() -> dict[str, str]:
    """Class → parent, as the module's docstring draws it."""
    # inspect.getdoc, because from Python 3.13 on docstrings lose their indentation anyway.
    _, root, drawing = (inspect.getdoc(errors) or "").partition("GraphMemoryError")
    lines = drawing.strip("\n").splitlines()
    parents, parent = {root: ""}, ""
    for line in lines:
        names = re.findall(r"\w+", line)
        if "─" in line:
            parent, *names = names
            parents.setdefault(parent, root)
        parents |= dict.fromkeys(names, parent)
    return parents


def test_the_drawing_shows_exactly_the_classes() -> None:
    assert sorted(drawn()) == sorted(kind.__name__ for kind in CLASSES)


def test_the_drawing_shows_whose_child_each_is() -> None:
    real = {kind.__name__: kind.__bases__[0].__name__ for kind in CLASSES if kind is not errors.GraphMemoryError}
    assert {name: parent for name, parent in drawn().items() if parent} == real


def calls() -> list[tuple[str, ast.Call]]:
    """Every ``errors.Something(…)`` in the source."""
    return [
        (f"{path.relative_to(SRC)}:{node.lineno}", node)
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and re.fullmatch(r"errors\.[A-Z]\w+", ast.unparse(node.func))
    ]


def test_every_error_is_raised_with_what_its_message_needs() -> None:
    lacking = {}
    for place, call in calls():
        given = {keyword.arg for keyword in call.keywords}
        if not call.args and None not in given:
            kind = getattr(errors, ast.unparse(call.func).removeprefix("errors."))
            lacking[place] = fields(kind) - given
    assert {place: names for place, names in lacking.items() if names} == {}


def test_no_error_is_raised_with_what_it_does_not_declare() -> None:
    unknown = {}
    for place, call in calls():
        kind = getattr(errors, ast.unparse(call.func).removeprefix("errors."))
        unknown[place] = {keyword.arg for keyword in call.keywords if keyword.arg} - get_type_hints(kind).keys()
    assert {place: names for place, names in unknown.items() if names} == {}


def test_no_error_is_raised_bare_that_needs_data() -> None:
    bare = [
        (f"{path.name}:{node.lineno}", ast.unparse(node.exc).removeprefix("errors."))
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Attribute)
        if ast.unparse(node.exc).startswith("errors.")
    ]
    assert [(place, name) for place, name in bare if fields(getattr(errors, name))] == []


def test_an_embedder_of_ours_is_called_by_its_model() -> None:
    ours, theirs = "adk_graph_memory.embeddings.LocalEmbedder:all-MiniLM-L6-v2", "mine.Embedder:hash-64"
    sizes = {"stored_dimensions": 384, "configured_size": "64 numbers each"}
    error = errors.EmbedderMismatch(stored=ours, configured=theirs, **sizes)
    assert "vectors of all-MiniLM-L6-v2 (384" in str(error) and "but mine.Embedder:hash-64 (64" in str(error)
    assert error.stored == ours
