"""A memory in one file, or in a notebook: all of it, nothing else, and nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.inspector_pages import ParsedPage, strip_scripts, unpack_pages

from adk_graph_memory import GraphMemory, Turn, errors
from adk_graph_memory.memory.pages.document import MemoryView
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
USER = {"ref": 1, "name": "user", "type": "person"}
Owner = dict[str, str]


def make_reply(text: str, quote: str, place: str) -> str:
    entities = [USER, {"ref": 2, "name": place, "type": "place"}]
    fact = {"subject": 1, "predicate": "lives_in", "object": 2, "text": text, "quote": quote, "turns": [0]}
    return json.dumps({"entities": entities, "facts": [fact]})


@pytest.fixture
async def memory(neo4j_server: Any, owner: Owner) -> AsyncIterator[GraphMemory]:
    """Ada lives in Porto and likes Faro; Bruno has a secret."""
    replies = (
        make_reply("The user lives in Porto", "I live in Porto", "Porto"),
        make_reply("The user likes Faro", "I like Faro", "Faro"),
        '{"ops": []}',
        make_reply("Bruno hides gold", "gold", "oak"),
    )
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0)
    model, later = ScriptedLlm.from_replies(*replies), NOON + timedelta(days=9)
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        await memory.remember([Turn("t1", "user", "I live in Porto.", NOON)], session_id="s1", **owner)
        await memory.remember([Turn("t2", "user", "I like Faro.", later)], session_id="s2", **owner)
        bruno = {**owner, "user_id": "bruno"}
        await memory.remember([Turn("b1", "user", "There is gold here.", NOON)], session_id="b", **bruno)
        yield memory


@pytest.mark.slow
async def test_it_holds_every_page_and_each_link_leads_to_one(memory: GraphMemory, owner: Owner) -> None:
    pages = unpack_pages(await memory.user(**owner).show(limit=None))
    facts = [fact async for fact in memory.facts(**owner, past=True)]
    assert sum(address.startswith("#/facts/") for address in pages) == len(facts) == 2
    assert sum(address.startswith("#/entities/") for address in pages) == 3
    assert sum(address.startswith("#/sessions/") for address in pages) == 2
    assert "<mark>I live in Porto</mark>" in pages[f"#/facts/{facts[1].id.replace(':', '%3A')}"]
    for address, html in pages.items():
        page = ParsedPage(html)
        page.check_inert("#")
        for link in page.list_addresses():
            assert "#" + link.split("#")[1] in pages, (address, link)


async def test_it_holds_nothing_of_another_user_and_no_vector(memory: GraphMemory, owner: Owner) -> None:
    view = await memory.user(**owner).show(limit=None, question="Where is the gold?")
    text = (strip_scripts(view) + "".join(unpack_pages(view).values())).replace("Where is the gold?", "")
    assert "gold" not in text and "bruno" not in text.lower()
    assert "embedding" not in "".join(unpack_pages(view).values())


@pytest.mark.slow
async def test_it_loads_nothing_from_elsewhere(memory: GraphMemory, owner: Owner) -> None:
    html = (await memory.user(**owner).show()).html
    assert not re.search(r'\b(src|href)="(?!#|data:,")', html)
    assert not re.search(r"@import|url\(", html)
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy.replace("&#39;", "'").startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


@pytest.mark.slow
async def test_a_question_is_shown_first(memory: GraphMemory, owner: Owner) -> None:
    view = await memory.user(**owner).show(question="Where does the user live?")
    assert 'data-start="#/answer"' in view.html
    assert "The user lives in Porto" in unpack_pages(view)["#/answer"]


async def test_a_part_says_that_it_is_one(memory: GraphMemory, owner: Owner) -> None:
    view = await memory.user(**owner).show(limit=1)
    assert "a part of it, 1 fact" in view.html
    assert "Porto" not in "".join(unpack_pages(view).values())
    assert "#/" not in unpack_pages(view)
    assert [address for address in unpack_pages(view) if address.startswith("#/sessions/")] == ["#/sessions/s2"]
    view = await memory.user(**owner).show(about="Porto")
    assert sum(address.startswith("#/facts/") for address in unpack_pages(view)) == 1
    assert 'data-start="#/facts"' in view.html
    with pytest.raises(errors.NotFound, match="about 'nobody'"):
        await memory.user(**owner).show(about="nobody")


@pytest.mark.slow
async def test_a_part_holds_no_other_turn_fact_or_name(memory: GraphMemory, owner: Owner) -> None:
    turns = [Turn(f"n{n}", "user", f"Filler {n}.", NOON + timedelta(minutes=n)) for n in range(1, 9)]
    await memory.user(**owner).enqueue(turns, session_id="s1")
    text = "".join(unpack_pages(await memory.user(**owner).show(about="Porto")).values())
    assert "I live in Porto." in text and "Filler 1." in text
    assert "Filler 8." not in text and "Faro" not in text


@pytest.mark.parametrize("options", [{"limit": -1}, {"limit": "x"}, {"question": 5}, {"about": 5}])
async def test_options_that_are_none_are_refused(memory: GraphMemory, owner: Owner, options: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgument):
        await memory.user(**owner).show(**options)


@pytest.mark.slow
async def test_a_notebook_shows_it_in_a_frame_of_its_own(memory: GraphMemory, owner: Owner) -> None:
    frame = (await memory.user(**owner).show())._repr_html_()
    [(tag, values)] = ParsedPage(frame).tags
    assert tag == "iframe"
    assert values["sandbox"] == "allow-scripts"
    assert values["srcdoc"].startswith("<!doctype html>")


@pytest.mark.slow
async def test_who_is_unknown_has_an_empty_file(memory: GraphMemory, owner: Owner) -> None:
    pages = unpack_pages(await memory.user(owner["app_name"], "nobody").show())
    assert sorted(pages) == ["#/", "#/entities", "#/facts", "#/sessions"]


@pytest.mark.slow
async def test_the_command_writes_the_file(
    memory: GraphMemory, owner: Owner, command: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "TestHash")
    monkeypatch.setenv("ADK_GRAPH_MEMORY_EMBEDDER", "none-is-asked")
    monkeypatch.chdir(tmp_path)
    file = Path("ada.html")
    options = ("--app", owner["app_name"], "--output", str(file))
    result = await command("export-html", "--user", "ada", *options)
    assert result.exit_code == 0, result.output
    assert re.search(r"Written: ada\.html \(0\.\d MB\)", result.output)
    assert file.stat().st_mode & 0o777 == 0o600
    assert "The user lives in Porto" in "".join(unpack_pages(MemoryView(file.read_text("utf-8"))).values())
    result = await command("export-html", "--user", "nobody", *options)
    assert result.exit_code == 1
    assert "nobody" in result.stderr
    result = await command("export-html", "--user", "ada", "--app", owner["app_name"], "--output", "none/ada.html")
    assert result.exit_code == 2
    assert "no folder none" in " ".join(result.stderr.split())
