"""A memory of 5,000 facts in one file: small enough to send, and it opens without a network."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from benchmarks.latency.scopes import Topics, open_store
from tests.support.browser import Page, needs_browser, open_browser

from adk_graph_memory import GraphMemory

pytestmark = [pytest.mark.full, needs_browser, pytest.mark.schema]
FACTS, LARGEST = 5_000, 3_000_000
USER_ID = "ada"


async def test_five_thousand_facts_open_offline(neo4j_server: Any, app_name: str, tmp_path: Path) -> None:
    settings = neo4j_server.settings(label_prefix="TestFile")
    async with GraphMemory(settings=settings, model="rules", embedder=Topics()) as memory:
        store = await open_store(memory, app_name)
        await store.fill(USER_ID, 2 * FACTS, 2 * FACTS + 2_000, 2_000)
        view = await memory.user(app_name, USER_ID).show(limit=None)
        facts = [fact async for fact in memory.facts(app_name=app_name, user_id=USER_ID)]
        others = [fact async for fact in memory.facts(app_name=app_name, user_id="other-0", limit=50)]
    file = view.save(tmp_path / "ada.html")
    assert file.stat().st_size <= LARGEST
    with open_browser() as page:
        await asyncio.to_thread(read_offline, page, file, facts, {fact.text for fact in others})


def read_offline(page: Page, file: Path, facts: list[Any], foreign_texts: set[str]) -> None:
    page.driver.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    page.driver.get(file.as_uri())
    page.see("What memory always keeps in mind")
    page.click("Facts", "nav")
    page.see(facts[0].text)
    assert not {text for text in foreign_texts if text in page.driver.page_source}
    page.fill("#filter", facts[-1].text)
    page.click(facts[-1].text)
    page.see("The words it rests on")
    page.click(facts[-1].subject, ".triple")
    page.see("What is known")
    assert page.list_barriers() == []
    assert page.list_complaints() == []
