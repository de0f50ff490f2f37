"""The inspector in a browser: an owner asks, sees why, corrects, undoes and forgets; nobody else sees any of it."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from rich.console import Console
from tests.support.browser import Page, needs_browser, open_browser

from adk_graph_memory import GraphMemory, Neo4jSessionService, Turn
from adk_graph_memory.cli.demo.conversation import load_conversation
from adk_graph_memory.cli.demo.playback import play_conversation
from adk_graph_memory.cli.demo.recorded_replies import choose_model
from adk_graph_memory.servers.inspector.application import inspector
from adk_graph_memory.servers.inspector.visits import LocalAccess
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

pytestmark = [pytest.mark.slow, needs_browser, pytest.mark.xdist_group("demo")]
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
USER = {"ref": 1, "name": "user", "type": "person"}
Owner = dict[str, str]
MOVE_SLIDER = """
const slider = document.querySelector("#moment");
slider.value = slider.min;
slider.dispatchEvent(new Event("input", {bubbles: true}));
"""
LIST_ARROWS = """
const arrows = document.querySelector(".picture").graph.edges();
return arrows.map((arrow) => [arrow.data("label"), arrow.hasClass("not-then")]);
"""


@contextmanager
def serve(memory: GraphMemory, owner: Owner, *, write: bool = True) -> Iterator[str]:
    """Serve a user's memory; yield the address that works once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = inspector(memory, lambda request: (owner["app_name"], owner["user_id"]), write=write)
        access = LocalAccess(app, listener.getsockname()[1])
        server = uvicorn.Server(uvicorn.Config(access, log_level="warning"))

        async def serve_then_close() -> None:
            await server.serve(sockets=[listener])
            await memory.close()

        thread = threading.Thread(target=asyncio.run, args=[serve_then_close()])
        thread.start()
        try:
            yield access.address
        finally:
            server.should_exit = True
            thread.join()


def make_reply(text: str, quote: str, place: str) -> str:
    entities = [USER, {"ref": 2, "name": place, "type": "place"}]
    fact = {"subject": 1, "predicate": "lives_in", "object": 2, "text": text, "quote": quote, "turns": [0]}
    return json.dumps({"entities": entities, "facts": [fact]})


@pytest.fixture
async def memory(neo4j_server: Any, app_name: str) -> AsyncIterator[GraphMemory]:
    """Ada moved from Porto to Faro; a helper proposes to forget Porto."""
    moved = {
        "fact": 0,
        "op": "SUPERSEDE",
        "targets": [1],
        "quotes": ["moved to Faro", "I live in Porto"],
        "reason": "moved",
    }
    replies = (
        make_reply("The user lives in Porto", "I live in Porto", "Porto"),
        make_reply("The user lives in Faro", "moved to Faro", "Faro"),
        json.dumps({"ops": [moved]}),
    )
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0)
    async with GraphMemory(
        settings=settings, model=ScriptedLlm.from_replies(*replies), embedder=HashEmbedder()
    ) as memory:
        owner = {"app_name": app_name, "user_id": "ada"}
        await memory.remember([Turn("t1", "user", "I live in Porto, by the river.", NOON)], session_id="s1", **owner)
        await memory.remember(
            [Turn("t2", "user", "I moved to Faro.", NOON + timedelta(days=9))], session_id="s2", **owner
        )
        [porto] = [fact async for fact in memory.facts(past=True, **owner) if "Porto" in fact.text]
        await memory.user(**owner).propose_forgetting(porto.id, reason="it is over", by="helper")
        yield memory


async def test_an_owner_asks_looks_corrects_undoes_and_forgets(memory: GraphMemory, app_name: str) -> None:
    with serve(memory, {"app_name": app_name, "user_id": "ada"}) as address, open_browser() as page:
        await asyncio.to_thread(use_every_view, page, address)
    with serve(memory, {"app_name": app_name, "user_id": "bruno"}) as address, open_browser() as page:
        await asyncio.to_thread(see_nothing, page, address)


def use_every_view(page: Page, address: str) -> None:
    page.driver.get(address)
    assert "token" not in page.driver.current_url
    page.fill("#question", "Where does the user live?")
    page.click("Ask", "form")
    page.see("previously: The user lives in Porto")
    assert page.list_barriers() == []

    page.click("The user lives in Faro")
    page.see("The words it rests on")
    assert page.read_text("mark") == "moved to Faro"
    assert page.list_barriers() == []

    page.click("user")
    page.see("What is known")
    page.driver.execute_script(MOVE_SLIDER)
    assert page.read_text("output") == "2 March 2026"
    assert page.read_text("#known") == "So on 2 March 2026"
    assert "Porto" in page.read_text("tr[data-from]:not([hidden])")
    assert sorted(page.driver.execute_script(LIST_ARROWS)) == [["", True], ["lives in", False]]
    assert page.list_barriers() == []

    page.driver.refresh()  # the slider is at today again, when Faro is so
    page.click("The user lives in Faro")
    page.click("Correct")
    page.fill("#text", "The user lives in Olhão")
    page.click("Preview")
    page.see("The user lives in Olhão", "dialog")
    assert page.list_barriers() == []
    page.click("Correct", "dialog")
    page.see("Done", "dialog")
    page.click("Undo", "dialog")
    page.click("Take it back", "dialog")
    page.see("Gone: ", "dialog")
    page.click("Done", "dialog")
    page.see("so now")

    page.click("Forget")
    page.see("This cannot be undone.", "dialog")
    page.click("Forget it", "dialog")
    page.see("Gone: 1 fact", "dialog")
    page.click("Done", "dialog")
    page.see("What memory always keeps in mind")
    page.click("To decide")
    page.see("it is over")
    assert page.list_barriers() == []
    page.click("Accept")
    page.see("This cannot be undone.", "dialog")
    assert page.list_barriers() == []
    page.click("Accept", "dialog")
    page.see("Done", "dialog")
    page.click("Done", "dialog")
    page.see("Nothing waits for you.")
    page.click("Conversations")
    page.click("s1")
    page.see("I live in Porto, by the river.")
    assert page.list_barriers() == []
    assert [complaint for complaint in page.list_complaints() if "404" not in complaint] == []


def see_nothing(page: Page, address: str) -> None:
    page.driver.get(address)
    page.see("Nothing yet.")
    page.fill("#question", "Where does the user live?")
    page.click("Ask", "form")
    page.see("Nothing in memory fits this question.")
    page.click("People and things")
    page.see("Memory knows nobody and nothing yet.")
    page.click("To decide")
    page.see("Nothing waits for you.")
    page.click("Conversations")
    page.see("No conversation has been stored yet.")
    assert "Porto" not in page.driver.page_source


@pytest.mark.full
async def test_the_demos_memory_is_legible_and_drawn(
    neo4j_server: Any, app_name: str, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    folder = Path(pytestconfig.getoption("--pictures") or tmp_path)
    settings = neo4j_server.settings(label_prefix="TestDemo", embed_timeout=60)
    told = load_conversation()
    if not pytestconfig.getoption("--pictures"):  # which are to show the demo's own name
        told.app_name = app_name
    async with (
        Neo4jSessionService(settings=settings) as sessions,
        GraphMemory(settings=settings, model=choose_model(None, has_key=False, is_own=True)) as memory,
    ):
        console = Console(file=io.StringIO())
        result = await play_conversation(told, sessions=sessions, memory=memory, console=console, questions=0)
        owner = {"app_name": result.app_name, "user_id": told.user_id}
        facts = [fact async for fact in memory.facts(limit=2, **owner)]
        text = f"{facts[0].text} – or so she said"
        await memory.user(**owner).propose_correction(
            facts[0].id, text=text, reason="She put it differently.", by="helper"
        )
        await memory.user(**owner).propose_forgetting(facts[1].id, reason="She asked for it.", by="helper")
        for width, scheme in ((1200, "light"), (1200, "dark"), (400, "light")):
            with serve(memory, owner, write=False) as address, open_browser(width) as page:
                page.set_colors(scheme)
                await asyncio.to_thread(look_at_every_view, page, address, folder, f"{scheme}-{width}")


def look_at_every_view(page: Page, address: str, folder: Path, name: str) -> None:
    page.driver.get(address)
    page.fill("#question", "Where does Franzi live?")
    page.click("Ask", "form")
    page.see("Franzi vive en Valencia")
    page.driver.execute_script("document.querySelector('details').open = true")
    views = {"ask": page.driver.current_url}
    for view, link in (
        ("fact", ".memories a"),
        ("entity", ".triple a"),
        ("sessions", "nav a:nth-child(4)"),
        ("session", "th a"),
    ):
        page.driver.get([*views.values()][-1])
        views[view] = page.find(link).get_attribute("href") or ""
    for view, link in (
        ("facts", "nav a:nth-child(2)"),
        ("entities", "nav a:nth-child(3)"),
        ("review", "nav a:last-child"),
    ):
        views[view] = page.find(link).get_attribute("href") or ""
    for view, url in views.items():
        page.driver.get(url)
        page.driver.execute_script("document.querySelectorAll('details').forEach((one, i) => { one.open = !i; })")
        if view == "entity":
            page.find(".picture canvas")
            page.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        page.take_picture(folder / f"inspector-{view}-{name}.png", 1000)
        assert page.list_barriers() == [], view
        width = page.driver.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert width[0] <= width[1], (view, width)
    assert page.list_complaints() == []
