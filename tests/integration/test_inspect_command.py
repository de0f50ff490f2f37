"""The command ``inspect`` as an operator runs it: it serves until it is interrupted."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from adk_graph_memory import GraphMemory, Turn
from adk_graph_memory.records.scopes import Scope

pytestmark = pytest.mark.slow

RUN = "from adk_graph_memory.cli import app; app()"
LONG_AGO = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
async def life(neo4j_server: Any, app_name: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    username, password = neo4j_server.auth
    for name, value in {"URI": neo4j_server.uri, "USERNAME": username, "PASSWORD": password}.items():
        monkeypatch.setenv(f"NEO4J_{name}", value)
    async with GraphMemory(settings=neo4j_server.settings(), model="rules", embedder=False) as memory:
        turn = Turn("t1", "user", "I live in Porto.", LONG_AGO)
        await memory.remember([turn], app_name=app_name, user_id="ada", session_id="s1")
        yield app_name


async def start(*arguments: str) -> tuple[asyncio.subprocess.Process, str]:
    """Start the command; return the address that it prints, or what it says instead."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-c", RUN),
        *("inspect", "--port", "0", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout
    lines = ""
    while line := (await process.stdout.readline()).decode():
        lines += line
        if line.startswith("http"):
            return process, line.strip()
    await process.wait()
    return process, " ".join(lines.split())


async def test_it_serves_the_memory_of_the_only_user_until_interrupted(life: str) -> None:
    process, address = await start("--app", life, "--no-browser")
    assert address.startswith("http://127.0.0.1:"), address
    async with httpx.AsyncClient(follow_redirects=True) as browser:
        assert "I live in Porto." in (await browser.get(address)).text
    async with httpx.AsyncClient(follow_redirects=True) as another:
        assert (await another.get(address)).status_code == 403
    process.send_signal(signal.SIGINT)
    assert process.stdout
    assert (await process.stdout.read()).decode().split()[-1] == "Stopped."
    assert await process.wait() == 0


@pytest.mark.parametrize(("arguments", "opens"), [((), 404), (("--show-content",), 200)], ids=["counts", "content"])
async def test_it_shows_an_operator_all_users(life: str, arguments: tuple[str, ...], opens: int) -> None:
    process, address = await start("--all-users", "--no-browser", *arguments)
    assert address.startswith("http://127.0.0.1:"), address
    async with httpx.AsyncClient(follow_redirects=True, base_url=address.partition("?")[0]) as browser:
        assert (await browser.get("/users", params={"app": life})).status_code == 403
        assert "turns and facts" in (await browser.get(address)).text
        page = (await browser.get("/users", params={"app": life})).text
        assert "ada" in page and "Porto" not in page
        memory = await browser.get(f"/memories/{Scope(life, 'ada').key}/")
        assert (memory.status_code, "I live in Porto." in memory.text) == (opens, opens == 200)
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("--app", "APP", "--user", "nobody"), "user 'nobody'", 1),
        (("--app", "none-such"), "There is no user in this database", 1),
        (("--all-users", "--app", "APP"), "leave out --app and --user", 2),
        (("--all-users", "--write"), "--write needs --show-content", 2),
        (("--app", "APP", "--show-content"), "--show-content needs --all-users", 2),
    ],
)
async def test_who_is_not_there_is_named(life: str, arguments: tuple[str, ...], words: str, code: int) -> None:
    process, text = await start(*(life if one == "APP" else one for one in arguments))
    assert words in text
    assert process.returncode == code


async def test_of_several_users_one_has_to_be_named(neo4j_server: Any, life: str) -> None:
    async with GraphMemory(settings=neo4j_server.settings(), model="rules", embedder=False) as memory:
        turn = Turn("t1", "user", "I live in Faro.", LONG_AGO)
        await memory.remember([turn], app_name=life, user_id="bruno", session_id="s1")
    process, text = await start("--app", life)
    assert "there are several users ('ada', 'bruno'" in text.replace("There", "there").replace("│ ", "")
    assert process.returncode == 2


async def test_without_jinja_it_names_the_extra(life: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jinja2.py").write_text("raise ImportError('No module named jinja2')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    process, text = await start("--app", life)
    assert 'pip install "adk-graph-memory[inspect]"' in text
    assert process.returncode == 1
