"""Every code block and command of the README and the docs runs, and every generated part says what the code says."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import socket
import subprocess
import sys
import tomllib
import uuid
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from click import Command
from google.adk.cli import cli_tools_click, service_registry
from google.adk.events import Event
from google.genai import types
from tests.support.documents import ROOT, Block, blocks, run_block
from tests.support.import_sources import (
    make_bank_export,
    make_mem0_export,
    write_database_sessions,
    write_sqlite_memory,
    write_sqlite_sessions,
)
from typer.testing import CliRunner

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService, Turn
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.cli.application import app
from adk_graph_memory.records.extractions import Manner, Modality
from adk_graph_memory.records.history import GuardVerdict
from adk_graph_memory.records.results import Recollection
from adk_graph_memory.records.scopes import SharedMemory
from adk_graph_memory.records.turns import ShownPart

PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text("utf-8")
FIRST_PAGES = ("README.md", "docs/quickstarts/runner.md", "docs/quickstarts/adk-web.md", "docs/quickstarts/mcp.md")
SHELL = ("", "bash")
"""Languages of blocks with commands; a block without a language may also hold a tree of files."""


class Example(NamedTuple):
    """A Python block, and what the page says it prints."""

    page: str
    code: str
    output: str | None


def list_examples() -> Iterator[Example]:
    """All Python blocks but the samples, which have tests of their own."""
    for page in PAGES:
        if page != "docs/samples.md":
            for block, following in pairwise([*blocks(page), Block("", "", "")]):
                if block.language == "python":
                    yield Example(page, block.text, following.text if following.language == "text" else None)


def mark(example: Example) -> Any:
    marks = [pytest.mark.schema, pytest.mark.slow] if "label_prefix" in example.code else []
    marks += [pytest.mark.slow] if example.page not in FIRST_PAGES else []
    if example.page == "docs/quickstarts/existing-graph.md":  # its first block makes an index for the others
        marks += [pytest.mark.schema, pytest.mark.xdist_group("existing_graph_page")]
    marks += [pytest.mark.full] if "LocalNeo4j" in example.code else []  # each starts a server of its own
    return pytest.param(example, id=example.page, marks=marks)


EXAMPLES = list(list_examples())


@pytest.mark.parametrize("example", [mark(example) for example in EXAMPLES])
def test_the_example_prints_what_the_page_shows(
    example: Example, at_the_test_server: None, gemini: Any, app_name: str, capsys: Any, monkeypatch: Any, request: Any
) -> None:
    if "agent_framework.openai" in example.code:
        request.getfixturevalue("openai")
    if "lite_llm" in example.code:
        pytest.importorskip("litellm", reason="the group that has LiteLLM is not installed")
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    names = run_block(example.code, app_name)
    for name in [name for name in names if name.startswith("test_")]:
        asyncio.run(names[name]())
    if example.output is not None:
        assert capsys.readouterr().out == example.output
    if "register()" in example.code:
        assert isinstance(service_registry.get_service_registry().create_memory_service("neo4j://"), Neo4jMemoryService)


@pytest.mark.parametrize(
    "example",
    [pytest.param(one, id=one.page) for one in EXAMPLES if one.page in ("README.md", "docs/quickstarts/runner.md")],
)
def test_without_a_key_a_quickstart_says_in_a_line_what_to_set(
    example: Example, at_the_test_server: None, app_name: str, monkeypatch: Any
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    with pytest.raises(SystemExit, match=r"^Set GOOGLE_API_KEY: .*\.$"):
        run_block(example.code, app_name)


def list_shell_lines() -> Iterator[str]:
    for page in ["docs/command-line.md", *PAGES]:
        for block in blocks(page):
            if block.language in SHELL and not re.search(r"^\w+/$", block.text, re.MULTILINE):
                yield from filter(None, (line.partition("  #")[0].strip() for line in block.text.splitlines()))


SHELL_LINES = list(dict.fromkeys(list_shell_lines()))
OWN_COMMANDS = [shlex.split(line)[1:] for line in SHELL_LINES if line.startswith("adk-graph-memory ")]


@pytest.mark.slow
@pytest.mark.schema
def test_the_commands_run(at_the_test_server, monkeypatch, tmp_path):
    """All that need no server or embedder of their own, in a graph of their own."""
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", f"Commands{uuid.uuid4().hex[:8]}")
    monkeypatch.chdir(tmp_path)
    asyncio.run(store_monday_and_friday(tmp_path))
    asyncio.run(store_elsewhere(tmp_path))
    for arguments in OWN_COMMANDS:
        if arguments[0] not in ("up", "status", "reembed", "demo", "down"):
            run_command(arguments)


@pytest.mark.full
def test_the_commands_run_as_a_reader_types_them(monkeypatch, tmp_path):
    monkeypatch.setenv("ADK_GRAPH_MEMORY_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    for arguments in sorted(OWN_COMMANDS, key=lambda arguments: arguments == ["down"]):
        run_command(arguments, *(["--port", str(free_port())] if arguments == ["up"] else []))
        if arguments == ["up"]:
            asyncio.run(store_monday_and_friday(tmp_path))
            asyncio.run(store_elsewhere(tmp_path))
    assert {"up", "down"} <= {arguments[0] for arguments in OWN_COMMANDS}


def run_command(arguments: list[str], *options: str) -> None:
    if "a-memory-id" in arguments:
        facts = CliRunner().invoke(app, ["facts", "--app", "home", "--user", "ana", "--json"])
        arguments = [json.loads(facts.stdout)[0]["id"] if word == "a-memory-id" else word for word in arguments]
    if "an-ingest-id" in arguments:
        owner = ["--app", "home", "--user", "ana", "--json"]
        id = json.loads(CliRunner().invoke(app, ["facts", *owner]).stdout)[0]["id"]
        [entry, *_] = json.loads(CliRunner().invoke(app, ["history", id, *owner]).stdout)["entries"]
        arguments = [entry["ingest_id"] if word == "an-ingest-id" else word for word in arguments]
    if "a-held-id" in arguments:
        arguments = [asyncio.run(hold_fact()) if word == "a-held-id" else word for word in arguments]
    if "a-proposal-id" in arguments:
        arguments = [asyncio.run(propose_forgetting()) if word == "a-proposal-id" else word for word in arguments]
    if "a-revision" in arguments:
        arguments[1:3] = find_revision()
    # What is restored needs a graph without users.
    env = {"ADK_GRAPH_MEMORY_LABEL_PREFIX": f"Restored{uuid.uuid4().hex[:8]}"} if arguments[0] == "restore" else None
    result = CliRunner().invoke(app, [*arguments, *options], env=env)
    assert result.exit_code == 0, f"{arguments}: {result.output}"
    if arguments[0] in ("recall", "facts"):
        assert "thunder" in result.output


async def hold_fact() -> str:
    """Let a guard hold a fact of Ana's; return its id."""
    owner = {"app_name": "home", "user_id": "ana"}
    turn = Turn(uuid.uuid4().hex, "user", "My cat Tom is afraid of thunder.", datetime.now(UTC))
    verdict = GuardVerdict("hold", "all", "nothing is trusted")
    async with GraphMemory(embedder=False, model="rules", guard=lambda candidate: verdict) as memory:
        await memory.remember([turn], session_id=turn.id, **owner)
        return (await memory.user(**owner).held_facts())[0].id


async def propose_forgetting() -> str:
    """Let an agent propose to forget a turn of Ana's; return the proposal's id."""
    owner = {"app_name": "home", "user_id": "ana"}
    turn = Turn(uuid.uuid4().hex, "user", "My cat Tom is afraid of rain.", datetime.now(UTC))
    async with GraphMemory(embedder=False, model="rules") as memory:
        await memory.remember([turn], session_id=turn.id, **owner)
        return (await memory.user(**owner).propose_forgetting(turn.make_memory_id(turn.id))).id


def find_revision() -> tuple[str, str]:
    """A fact of Ana's that changed, and a revision of it."""
    owner = ["--app", "home", "--user", "ana", "--json"]
    for fact in json.loads(CliRunner().invoke(app, ["facts", *owner, "--all"]).stdout):
        for entry in json.loads(CliRunner().invoke(app, ["history", fact["id"], *owner]).stdout)["entries"]:
            if entry["revision"]:
                return fact["id"], entry["revision"]
    pytest.fail("no fact has changed")


async def store_monday_and_friday(folder: Path) -> None:
    """What the commands speak of: a session that is stored, and one that was saved to a file."""
    said = "My dog is called Rex and Rex is afraid of thunder. My friend Rexy barks at thunder."
    async with Neo4jSessionService() as sessions:
        for id in ("monday", "friday"):
            session = await sessions.create_session(app_name="home", user_id="ana", session_id=id)
            content = types.Content(role="user", parts=[types.Part(text=said)])
            await sessions.append_event(session, Event(author="user", content=content))
            (folder / f"{id}.session.json").write_text(session.model_dump_json(by_alias=True), encoding="utf-8")
        await sessions.delete_session(app_name="home", user_id="ana", session_id="friday")


async def store_elsewhere(folder: Path) -> None:
    """What the commands import: files of other services."""
    (folder / "lease.md").write_text("# Rent\n\nThe rent is 900 euros a month.\n")
    sessions = await write_sqlite_sessions(folder / "session.db", "elsewhere")
    write_database_sessions(folder / "sessions.db", sessions)
    await write_sqlite_memory(folder / "memory.db", "elsewhere")
    (folder / "mem0.json").write_text(json.dumps(make_mem0_export()), encoding="utf-8")
    (folder / "memories.json").write_text(json.dumps(make_bank_export("elsewhere")), encoding="utf-8")
    store_chats(folder)


def store_chats(folder: Path) -> None:
    """The chats that the quickstart imports: what the page shows of them, and archives that no page can show."""
    shown = [block.text for block in blocks("docs/quickstarts/your-conversations.md") if block.language != "bash"]
    names = ("chat.txt", "messages.json", "chat.csv", "conversation.json")
    for name, text in zip(names, shown, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    messages = json.loads((folder / "messages.json").read_text("utf-8"))
    (folder / "messages.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in messages), encoding="utf-8")
    text = "Rex hides from thunder."
    message = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": [text]}}
    sent = {"sender": "human", "text": text, "created_at": "2025-03-14T15:07:00Z"}
    archives = {
        "export.zip": {"conversations.json": [{"create_time": 1.7e9, "mapping": {"m1": {"message": message}}}]},
        "claude.zip": {"conversations.json": [{"uuid": "c1", "chat_messages": [sent]}]},
        "slack.zip": {
            "users.json": [{"id": "U1", "name": "Ana Pinto"}],
            "general/2025-03-14.json": [{"user": "U1", "text": text, "ts": "1741950420.1"}],
        },
    }
    for archive_name, files in archives.items():
        with zipfile.ZipFile(folder / archive_name, "w") as archive:
            for name, value in files.items():
                archive.writestr(name, json.dumps(value))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_other_commands_can_be_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents").mkdir()
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project, drawing = pyproject["project"], pyproject["dependency-groups"]["notebooks"]
    known = {project["name"], "litellm", "agent-framework-openai"} | {re.split("[<>=]", name)[0] for name in drawing}
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for line in SHELL_LINES:
        words = shlex.split(line)
        match words:
            case ["adk-graph-memory", *_] | ["export", _] | ["ollama", "pull", _]:
                pass
            case ["make", target, *_]:
                assert target in targets, line
            case ["pip", "install", *requirements]:
                for name, _, extras in (requirement.rstrip("]").partition("[") for requirement in requirements):
                    assert name in known, line
                    assert set(filter(None, extras.split(","))) <= project["optional-dependencies"].keys(), line
            case ["adk", name, *arguments]:
                command: Command = cli_tools_click.main.commands[name]
                command.make_context(name, arguments)
            case ["echo", code, ">", "agents/services.py"]:
                monkeypatch.setattr(service_registry, "_service_registry_instance", None)
                run_block(code, "home")
                assert service_registry.get_service_registry().create_memory_service("neo4j://")
            case ["python", path, *_]:
                assert (ROOT / path).is_file(), line
            case [assignment, *_] if re.match(r"[A-Z0-9_]+=", assignment):
                pass
            case _:
                pytest.fail(f"nobody checks this command: {line}")


@pytest.mark.slow
def test_no_generated_part_is_stale():
    stale = subprocess.run(
        [sys.executable, ROOT / "pipelines" / "reference_pages.py", "--check"], capture_output=True, text=True
    )
    assert stale.returncode == 0, f"run python pipelines/reference_pages.py\n{stale.stdout}{stale.stderr}"


def test_the_page_of_memory_entries_lists_every_key_and_value():
    page = (ROOT / "docs" / "memory-entries.md").read_text("utf-8").partition("## Keys of")[2].partition("```")[0]
    cells = re.findall(r"^\| (`[^|]+`) \|", page, re.MULTILINE)
    day = datetime(2026, 5, 4, tzinfo=UTC)
    memory = Recollection(
        id="fact:1",
        kind="fact",
        text="Rex is afraid of thunder.",
        score=0.5,
        at=day,
        session_id="monday",
        source_event_ids=("e1",),
        quote="afraid of thunder",
        valid_from=day,
        valid_to=day,
        is_stale=True,
        is_disputed=True,
        is_doubtful=True,
        is_verified=False,
        is_current=False,
        ending="replaced",
        superseded_by=("Rex is brave.",),
        modality="asserted",
        manner="pasted",
        writer="Jo",
        origin="user",
        shown=(ShownPart("digest", "image/png", "rex.png", 0, "gs://pictures/rex.png", described_by="model"),),
        previously=("Rex is shy.",),
        degraded="no embedder",
        shared=SharedMemory(group="night shift"),
    )
    listed = {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}
    assert listed == memory_codec.make_memory_entry(memory).custom_metadata.keys()
    assert [value for value in get_args(Modality) + get_args(Manner) if f"`{value}`" not in page] == []


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150


def test_every_figure_of_the_readme_stands_in_the_results():
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
    table = README.partition("| measured |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]
    assert len(rows) >= 4
    for what, ours, theirs, command in rows:
        assert command in results, what
        section = results.partition(command)[2].partition("\n## ")[0]
        for figure in re.findall(r"\d[\d.,]*", f"{ours} {theirs}"):
            assert figure == "0" or figure in section, f"{what}: {figure}"


def test_every_figure_of_the_readmes_comparison_stands_in_its_results():
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
    section = results.partition("`make compare`, which runs")[2].partition("\n## ")[0]
    heading, table = README.partition("| `make compare`,")[2].partition("\n\n")[0].split("\n", 1)
    figures = re.findall(r"\d[\d.,]*\d|\d", f"{heading}\n{table}")
    assert len(figures) >= 25
    assert [figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]*\d)", section)] == []


@pytest.mark.parametrize("page", [*PAGES, *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("notebooks/*.ipynb"))])
def test_no_sample_pins_a_model_that_will_be_retired(page):
    assert re.findall(r"gemini-\d[\w.-]*", (ROOT / page).read_text("utf-8")) == []
