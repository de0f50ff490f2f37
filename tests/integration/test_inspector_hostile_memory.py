"""Whatever memory holds, a page shows it as text: 50 payloads in every field that somebody else can fill."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.support.inspector_pages import ParsedPage, strip_scripts, unpack_pages

from adk_graph_memory import GraphMemory, Statement, Turn
from adk_graph_memory.servers.inspector.application import inspector
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

pytestmark = pytest.mark.slow

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
ELEMENTS = [
    "img src=x",
    "svg",
    "body",
    "video src=x",
    "details open",
    "input autofocus",
    "marquee",
    "iframe",
    "object data=x",
]
HANDLERS = ["onerror", "onload", "ontoggle", "onfocus"]
PAYLOADS = [
    *(f"<{element} {handler}=alert(1)>" for element in ELEMENTS for handler in HANDLERS),
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    '"><script>alert(1)</script>',
    "'><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "' onmouseover='alert(1)",
    "'}' hx-on:load='alert(1)",
    'x" hx-get="/changes/forget" hx-trigger="load',
    "<a href=javascript:alert(1)>x</a>",
    "javascript:alert(1)//",
    "<!--><script>alert(1)</script>-->",
    "{{ 7 * 7 }}{% raw %}",
]
"""50 texts that run a script where they are not escaped."""


@pytest.fixture
def owner(app_name: str) -> dict[str, str]:
    return {"app_name": app_name, "user_id": '"><script>alert(1)</script>'}


@pytest.fixture
async def memory(neo4j_server: Any, owner: dict[str, str]) -> AsyncIterator[GraphMemory]:
    """A memory in which every name, text, quote, author, session, label and reason is a payload."""
    entities = [{"ref": 0, "name": "user", "type": "person"}]
    entities += [
        {"ref": ref, "name": payload, "type": payload, "aliases": [f"{payload} too"], "about": payload}
        for ref, payload in enumerate(PAYLOADS, 1)
    ]
    facts = [
        {
            "subject": 0,
            "predicate": payload,
            "object": ref,
            "text": payload,
            "quote": payload,
            "turns": [ref - 1],
            "topic": payload,
        }
        for ref, payload in enumerate(PAYLOADS, 1)
    ]
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0, window_tokens=100_000)
    model = ScriptedLlm.from_replies(json.dumps({"entities": entities, "facts": facts}), *['{"ops": []}'] * 3)
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        turns = [
            Turn(payload, payload, f"{payload} too, she said", NOON + timedelta(minutes=minute))
            for minute, payload in enumerate(PAYLOADS)
        ]
        await memory.remember(
            turns, session_id=PAYLOADS[36], metadata={payload: payload for payload in PAYLOADS}, **owner
        )
        statements = [Statement(payload, NOON, author=payload, metadata={payload: payload}) for payload in PAYLOADS]
        await memory.user(**owner).add_statements(statements)
        await memory.user(**owner).enqueue([Turn(PAYLOADS[0], PAYLOADS[1], PAYLOADS[2], NOON)], session_id=PAYLOADS[40])
        for fact, payload in zip([fact async for fact in memory.facts(limit=50, **owner)], PAYLOADS, strict=True):
            await memory.user(**owner).propose_forgetting(fact.id, reason=payload, by=payload)
        yield memory


@pytest.fixture
async def client(memory: GraphMemory, owner: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    app = inspector(memory, lambda request: (owner["app_name"], owner["user_id"]), write=True)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:7") as client:
        token = (await client.get("/api/token")).json()
        client.headers[token["header"]] = token["token"]
        yield client


async def test_no_payload_becomes_markup_on_any_page(
    client: httpx.AsyncClient, memory: GraphMemory, owner: dict[str, str]
) -> None:
    assert len(PAYLOADS) == 50
    facts = [fact async for fact in memory.facts(**owner, past=True)]
    assert {fact.text for fact in facts} >= {*PAYLOADS}
    paths = [
        "/",
        "/entities",
        "/sessions",
        "/review",
        *(f"/?question={quote(payload)}" for payload in PAYLOADS[-5:]),
    ]
    paths += [f"/facts/{fact.id}" for fact in facts]
    paths += [f"/entities/{key}" for key in {fact.object_key or fact.subject_key for fact in facts} if key]
    paths += [
        address
        for address in ParsedPage((await client.get("/sessions")).text).list_addresses()
        if "/sessions/" in address
    ]
    shown = ""
    for path in paths:
        answer = await client.get(path)
        assert answer.status_code == 200, (path, answer.text)
        page = ParsedPage(answer.text)
        page.check_inert()
        shown += page.text
    for payload in PAYLOADS:
        assert payload in shown, payload


async def test_no_payload_becomes_markup_in_a_file(memory: GraphMemory, owner: dict[str, str]) -> None:
    view = await memory.user(**owner).show(limit=None, question=PAYLOADS[0])
    for html in unpack_pages(view).values():
        ParsedPage(html).check_inert("#")
    shell = ParsedPage(strip_scripts(view))
    shell.check_inert("#")
    assert owner["user_id"] in shell.text
    assert view.html.count("<script") - strip_scripts(view).count("<script") == 4


async def test_no_payload_becomes_markup_in_the_dialog(
    client: httpx.AsyncClient, memory: GraphMemory, owner: dict[str, str]
) -> None:
    facts = [fact async for fact in memory.facts(**owner, past=True) if fact.object]
    for fact, payload in zip(facts[::5], PAYLOADS[::5], strict=False):
        for name, fields in (
            ("correct", {"id": fact.id, "text": payload + "!", "reason": payload}),
            ("forget", {"id": fact.id}),
            ("merge", {"name": fact.object_key, "other": "user"}),
            ("split", {"alias": payload}),
            ("rollback", {"id": fact.id, "revision": payload}),
            (payload, {}),
        ):
            answer = await client.post(f"/changes/{quote(name)}", data=fields, headers={"HX-Request": "true"})
            ParsedPage(answer.text).check_inert()


async def test_no_payload_in_an_address_becomes_markup(client: httpx.AsyncClient) -> None:
    for payload in PAYLOADS:
        for path in ("facts", "entities", "sessions", "changes", ""):
            answer = await client.get(f"/{path}/{quote(payload)}")
            assert answer.status_code < 500
            if answer.headers["content-type"].startswith("text/html"):
                ParsedPage(answer.text).check_inert()
        for parameters in ({"question": payload}, {"as_of": payload, "question": "x"}):
            ParsedPage((await client.get("/", params=parameters)).text).check_inert()
        ParsedPage((await client.get("/entities", params={"name": payload})).text).check_inert()
