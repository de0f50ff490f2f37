"""The inspector: what its pages show, to whom, and what they let a visitor change."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import neo4j
import pytest
from fastapi import FastAPI, Request
from google.adk.cli.fast_api import get_fast_api_app
from tests.support.inspector_pages import ParsedPage, unpack_pages

from adk_graph_memory import GraphMemory, SharedMemory, Turn, errors
from adk_graph_memory.graph import ingest_queue
from adk_graph_memory.memory.pages.renderer import SIGNAL_NAMES
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.servers.inspector.application import inspector
from adk_graph_memory.servers.inspector.changes import ACTIONS
from adk_graph_memory.servers.inspector.visits import LocalAccess
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
USER = {"ref": 1, "name": "user", "type": "person"}
PORTO, FARO = ({"ref": ref, "name": name, "type": "place"} for ref, name in ((2, "Porto"), (3, "Faro")))
SECRET = "Bruno hides gold under the oak"
Owner = dict[str, str]


def make_fact(text: str, quote: str, **fields: Any) -> dict[str, Any]:
    return {"subject": 1, "predicate": "lives_in", "object": None, "text": text, "quote": quote, "turns": [0], **fields}


def make_reply(*facts: dict[str, Any], entities: tuple[dict[str, Any], ...] = (USER,)) -> str:
    return json.dumps({"entities": entities, "facts": facts})


REPLIES = (
    make_reply(make_fact("The user lives in Porto", "I live in Porto", object=2), entities=(USER, PORTO)),
    make_reply(make_fact("The user lives in Faro", "moved to Faro", object=3), entities=(USER, FARO)),
    json.dumps(
        {
            "ops": [
                {
                    "fact": 0,
                    "op": "SUPERSEDE",
                    "targets": [1],
                    "quotes": ["moved to Faro", "I live in Porto"],
                    "reason": "moved",
                }
            ]
        }
    ),
    make_reply(make_fact(SECRET, "gold under the oak", predicate="hides")),
)


def open_client(app: Any, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:7", **options)


@pytest.fixture
async def memory(neo4j_server: Any, owner: Owner, stranger: Owner) -> AsyncIterator[GraphMemory]:
    """Ada lived in Porto and moved to Faro; Bruno has a secret."""
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0)
    async with GraphMemory(
        settings=settings, model=ScriptedLlm.from_replies(*REPLIES), embedder=HashEmbedder()
    ) as memory:
        said = [Turn("t1", "user", "I live in Porto, by the river.", NOON), Turn("t2", "cat", "Lovely.", NOON, "model")]
        await memory.remember(said, session_id="s/1 ü", **owner)
        await memory.remember(
            [Turn("t3", "user", "I moved to Faro.", NOON + timedelta(days=9))], session_id="s2", **owner
        )
        await memory.remember([Turn("b1", "user", "There is gold under the oak.", NOON)], session_id="b", **stranger)
        yield memory


@pytest.fixture
async def client(memory: GraphMemory, owner: Owner) -> AsyncIterator[httpx.AsyncClient]:
    """A browser on Ada's memory, which she may change."""
    app = inspector(memory, lambda request: (owner["app_name"], owner["user_id"]), write=True)
    async with open_client(app) as client:
        token = (await client.get("/api/token")).json()
        client.headers[token["header"]] = token["token"]
        yield client


async def find_fact(memory: GraphMemory, owner: Owner, text: str) -> Any:
    [fact] = [fact async for fact in memory.facts(**owner, past=True) if text in fact.text]
    return fact


async def get_page(client: httpx.AsyncClient, path: str, status_code: int = 200) -> ParsedPage:
    answer = await client.get(path)
    assert answer.status_code == status_code, answer.text
    page = ParsedPage(answer.text)
    page.check_inert()
    return page


# -- what the pages show ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_an_answer_shows_why_it_was_found(client: httpx.AsyncClient) -> None:
    page = await get_page(client, "/?question=Where does the user live?")
    assert "The user lives in Faro" in page.text
    assert re.search(r"previously:\s+The user lives in Porto", page.text)
    assert "Why: score" in page.text
    assert "words in common" in page.text
    assert re.search(r"in \d+ ms", page.text)


async def test_an_answer_as_of_a_day_is_that_of_then(client: httpx.AsyncClient) -> None:
    page = await get_page(client, "/?question=Where does the user live?&as_of=2026-03-03")
    assert "The user lives in Porto" in page.text
    assert "The user lives in Faro" not in page.text
    assert [await get_page(client, address) for address in page.list_addresses() if address.startswith("/facts/")]


async def test_what_users_share_is_shown_as_such_without_a_page_of_its_own(neo4j_server: Any, app_name: str) -> None:
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(
        settings=settings, model="rules", embedder=HashEmbedder(), shared=[SharedMemory()]
    ) as memory:
        turn = Turn("t1", "handbook", "The door code is 1234.", NOON)
        await memory.remember([turn], app_name=app_name, user_id=SharedMemory(), session_id="s1")
        async with open_client(inspector(memory, lambda request: (app_name, "ada"))) as client:
            page = await get_page(client, "/?question=What is the door code?")
    assert "The door code is 1234." in page.text
    assert "shared: :app:" in page.text
    assert not [address for address in page.list_addresses() if "/facts/" in address or "/sessions/" in address]


@pytest.mark.slow
async def test_without_a_question_the_profile_is_shown(client: httpx.AsyncClient) -> None:
    page = await get_page(client, "/")
    assert "What memory always keeps in mind" in page.text
    assert "The user lives in Faro" in page.text


async def test_a_fact_stands_with_its_words_in_their_conversation(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner
) -> None:
    fact = await find_fact(memory, owner, "Porto")
    html = (await client.get(f"/facts/{fact.id}")).text
    assert "<mark>I live in Porto</mark>, by the river." in html
    page = ParsedPage(html)
    assert "Lovely." in page.text
    assert "What replaced it" in page.text
    assert "The user lives in Faro" in page.text
    assert "moved" in page.text
    assert "no longer so" in page.text


@pytest.mark.slow
async def test_an_entity_has_its_names_facts_and_neighbours(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner
) -> None:
    fact = await find_fact(memory, owner, "Faro")
    page = await get_page(client, f"/entities/{fact.subject_key}")
    [elements] = [json.loads(values["data-elements"]) for _, values in page.tags if "data-elements" in values]
    assert {node["data"].get("name") for node in elements} >= {"user", "Porto", "Faro"}
    assert [edge["data"]["label"] for edge in elements if "source" in edge["data"]] == ["lives in", ""]
    rows = [values for tag, values in page.tags if "data-from" in values]
    assert [row["class"] for row in rows] == ["holds", "over"]
    days = (NOON - datetime(1970, 1, 1, tzinfo=UTC)).days
    assert [(row["data-from"], row["data-to"]) for row in rows] == [
        (str(days + 9), "Infinity"),
        (str(days), str(days + 10)),
    ]
    assert "So now" in page.text and "No longer so" in page.text


@pytest.mark.slow
async def test_the_owner_is_called_by_name_on_every_page_and_in_the_file(
    neo4j_server: Any, owner: Owner, stranger: Owner, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = USER | {"aliases": ["Ada", "the user"]}
    reply = make_reply(make_fact("Ada lives in Porto", "live in Porto", object=2), entities=(named, PORTO))
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0)
    async with GraphMemory(settings=settings, model=ScriptedLlm.from_replies(reply), embedder=HashEmbedder()) as memory:
        turn = Turn("t1", "user", "I am Ada, the user of this, and live in Porto.", NOON)
        await memory.remember([turn], session_id="s1", **owner)
        fact = await find_fact(memory, owner, "Porto")
        paths = "/entities", f"/entities/{fact.subject_key}", f"/facts/{fact.id}", "/sessions/s1", "/?question=Porto"
        async with open_client(inspector(memory, lambda request: (owner["app_name"], owner["user_id"]))) as client:
            pages = [(await client.get(path)).text for path in paths]
        pages += [page for page in unpack_pages(await memory.user(**owner).show()).values() if "Porto" in page]
    unnamed = re.compile(r">user<|\buser and\b|\"name\": \"user\"")
    assert [page for page in pages if unnamed.search(unescape(page))] == []
    assert all(">Ada<" in page for page in pages if 'class="entity"' in page or 'class="said"' in page)
    monkeypatch.setenv("ADK_GRAPH_MEMORY_LABEL_PREFIX", "TestHash")
    whose = ("--app", owner["app_name"], "--user", owner["user_id"])
    listed, told = await command("entities", *whose), await command("entity", "user", *whose)
    assert re.search(r"person +Ada *\n", listed.stdout) and told.stdout.startswith("Ada (person)")
    assert json.loads((await command("entities", *whose, "--json")).stdout)[0]["name"] in ("user", "Porto")


async def test_all_facts_are_listed_page_by_page(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adk_graph_memory.servers.inspector.pages.PAGE_SIZE", 1)
    first = await get_page(client, "/facts")
    assert "The user lives in Faro" in first.text and "Porto" not in first.text
    [older] = [address for address in first.list_addresses() if "after=" in address]
    last = await get_page(client, older)
    assert "The user lives in Porto" in last.text and "no longer so" in last.text
    assert [address for address in last.list_addresses() if "after=" in address] == []


async def test_people_and_things_stand_in_the_order_of_the_number_beside_them(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner
) -> None:
    page = (await client.get("/entities")).text
    assert re.findall(r'class="number">(\d+)</td>', page) == ["1", "1", "0", "0"]
    assert re.findall(r'class="entity"[^>]*>([^<]*)</a>', page) == ["Faro", "user", "cat", "Porto"]


@pytest.mark.slow
async def test_a_merged_entity_leads_to_the_one_it_is(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner
) -> None:
    porto = (await find_fact(memory, owner, "Porto")).object_key
    await memory.user(**owner).merge("Faro", "Porto", reason="one town")
    page = await get_page(client, f"/entities/{porto}")
    assert "one town" in page.text
    assert ("h1", {"dir": "auto"}) in page.tags


@pytest.mark.slow
async def test_a_conversation_shows_what_was_read_from_each_turn(client: httpx.AsyncClient) -> None:
    page = await get_page(client, "/sessions")
    [path] = [address for address in page.list_addresses() if "s%2F1" in address]
    page = await get_page(client, path)
    assert "I live in Porto" in page.text
    assert "The user lives in Porto" in page.text
    assert "Lovely." in page.text


@pytest.mark.slow
async def test_a_document_is_shown_as_a_conversation(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner
) -> None:
    memory.engine.language_model._replies.append(make_reply())  # type: ignore[union-attr]
    await memory.user(**owner).remember_document("# Pets\n\nNo dogs.", title="Lease / flat 7", author="Krause GmbH")
    page = await get_page(client, "/sessions")
    [path] = [address for address in page.list_addresses() if "Lease" in address]
    assert "No dogs." in (await get_page(client, path)).text


async def test_what_waits_is_listed_with_its_reason_and_read_again(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner
) -> None:
    await memory.user(**owner).enqueue([Turn("w1", "user", "I like figs.", NOON)], session_id="w")
    page = await get_page(client, "/sessions")
    assert "Waiting to be read" in page.text
    [waiting] = await ingest_queue.fetch_pending_ingests(memory.connection, **owner)
    assert waiting.reason and waiting.reason in page.text
    memory.engine.language_model._replies.append(make_reply())  # type: ignore[union-attr]
    answer = await client.post("/changes/retry")
    assert "Read: 1 turn." in answer.text
    assert "Waiting to be read" not in (await get_page(client, "/sessions")).text


@pytest.mark.slow
async def test_costs_stand_below_the_conversations(client: httpx.AsyncClient) -> None:
    page = await get_page(client, "/sessions")
    assert "What remembering cost" in page.text
    assert "scripted" in page.text


@pytest.mark.slow
async def test_people_and_things_are_found_by_part_of_a_name(client: httpx.AsyncClient) -> None:
    page = await get_page(client, "/entities?name=aR")
    assert "Faro" in page.text and "Porto" not in page.text
    page = await get_page(client, "/entities?name=F%C3%A1r")  # who adds an accent, or leaves one out
    assert "Faro" in page.text and "Porto" not in page.text
    page = await get_page(client, "/entities?name=nobody")
    assert "No name contains this." in page.text


@pytest.mark.slow
async def test_a_long_list_has_pages_and_a_turn_is_found_on_its_own(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner
) -> None:
    turns = [Turn(f"x{n}", "user", f"Line {n:03}", NOON + timedelta(minutes=n)) for n in range(250)]
    await memory.user(**owner).enqueue(turns, session_id="long")
    page = await get_page(client, "/sessions/long")
    assert "Line 099" in page.text and "Line 100" not in page.text
    [following] = [address for address in page.list_addresses() if "page=" in address]
    assert "Line 100" in (await get_page(client, following)).text
    page = await get_page(client, "/sessions/long?turn=x240")
    assert "Line 240" in page.text and "Line 199" not in page.text
    assert not [address for address in page.list_addresses() if "page=4" in address]


async def test_a_fact_with_many_around_it_says_how_many_more_there_are_and_leads_to_them(
    neo4j_server: Any, owner: Owner
) -> None:
    texts = [f"The user keeps jar {number:03}" for number in range(120)]
    base = make_fact("The user owns a cellar", "I own a cellar", predicate="owns", ref=0)
    kept = [
        make_fact(text, f"jar {number:03}", predicate="keeps", ref=number, depends_on=[0])
        for number, text in enumerate(texts, 1)
    ]
    kept = [fact | {"quote": text.removeprefix("The user keeps ")} for fact, text in zip(kept, texts, strict=True)]
    said = "I own a cellar, with " + ", ".join(text.removeprefix("The user keeps ") for text in texts)
    settings, model = neo4j_server.settings(label_prefix="TestHash"), ScriptedLlm.from_replies(make_reply(base, *kept))
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        await memory.remember([Turn("t1", "user", said, NOON)], session_id="s", **owner)
        fact = await find_fact(memory, owner, "cellar")
        async with open_client(inspector(memory, lambda request: (owner["app_name"], owner["user_id"]))) as client:
            address, listed, told = f"/facts/{fact.id}", list[str](), list[str]()
            while address:
                page = await get_page(client, address)
                listed += re.findall(r"The user keeps jar \d+", page.text)
                told += re.findall(r"\d+ more", page.text)
                links = [values for tag, values in page.tags if tag == "a" and values.get("rel") == "next"]
                address = links[0]["href"] if links else ""
        in_file = unpack_pages(await memory.user(**owner).show(limit=None))[f"#/facts/{quote(fact.id, safe='')}"]
    assert (sorted(listed), told) == (texts, ["70 more", "20 more"])
    assert sorted(re.findall(r"The user keeps jar \d+", in_file)) == texts


@pytest.mark.slow
async def test_what_has_expired_is_on_no_page(neo4j_server: Any, owner: Owner) -> None:
    settings, reply = neo4j_server.settings(label_prefix="TestHash"), make_reply(make_fact("Rex barks", "Rex barks"))
    model = ScriptedLlm.from_replies(reply, make_reply())
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        passing = Turn("e1", "user", "Rex barks at Ulf.", NOON, expires_at=tomorrow)
        await memory.remember([passing], session_id="e", **owner)
        await memory.remember([Turn("e2", "user", "Good night.", NOON + timedelta(minutes=1))], session_id="e", **owner)
        fact = await find_fact(memory, owner, "Rex")
        app = inspector(memory, lambda request: (owner["app_name"], owner["user_id"]))
        async with open_client(app) as client:
            paths = ("/sessions/e", f"/facts/{fact.id}", f"/entities/{fact.subject_key}", "/entities", "/?question=Rex")
            assert "Ulf" in (await client.get(paths[0])).text and "Ulf" in (await client.get(paths[1])).text
            expire = "MATCH (n:TestHashMemory {scope: $scope}) WHERE n.expires_at IS NOT NULL SET n.expires_at = 1.0"
            await memory.connection.run_cypher(expire, {"scope": Scope(**owner).key})
            for path in paths:
                text = (await client.get(path)).text
                assert "Ulf" not in text and "Rex barks" not in text, path
            assert "Good night." in (await client.get(paths[0])).text
        view = await memory.user(**owner).show(limit=None)
    assert "Ulf" not in "".join(unpack_pages(view).values())


def test_every_signal_has_a_name() -> None:
    import ast
    import inspect

    from adk_graph_memory.retrieval import scoring

    calls = (node for node in ast.walk(ast.parse(inspect.getsource(scoring))) if isinstance(node, ast.Call))
    shares = (node.args[1] for node in calls if getattr(node.func, "attr", "") == "_add_share")
    signals = {node.value for node in shares if isinstance(node, ast.Constant)} | {
        "text",
        "vector",
        "tokens",
        "fact",
        "entity",
    }
    assert signals == SIGNAL_NAMES.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/", "/?question=Faro", "/facts", "/entities", "/sessions", "/sessions/s2", "/review", "FACT", "ENTITY"]
)
async def test_a_page_takes_at_most_five_statements(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = await find_fact(memory, owner, "Faro")
    path = {"FACT": f"/facts/{fact.id}", "ENTITY": f"/entities/{fact.subject_key}"}.get(path, path)
    await client.get(path)
    counted = Counter[str]()

    def count(kind: type, name: str) -> None:
        method = getattr(kind, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            counted["statements"] += 1
            return method(*arguments, **options)

        monkeypatch.setattr(kind, name, counting)

    count(neo4j.AsyncSession, "run")
    count(neo4j.AsyncTransaction, "run")
    count(neo4j.AsyncDriver, "execute_query")
    count(neo4j.Session, "run")
    await client.get(path)
    assert 0 < counted["statements"] <= 5


# -- to whom ----------------------------------------------------------------------------------------------------


async def test_another_users_ids_show_nothing_in_any_route(
    client: httpx.AsyncClient, memory: GraphMemory, stranger: Owner
) -> None:
    fact = await find_fact(memory, stranger, "gold")
    ids = [fact.id, fact.subject_key, "b", fact.sources[0].turn_id, "event:" + fact.id]
    paths = [
        path.format(quote(id, safe=""))
        for id in ids
        for path in (
            "/facts/{}",
            "/entities/{}",
            "/sessions/{}",
            "/api/facts/{}/history",
            "/?question={}",
            "/api/facts?about={}",
        )
    ]
    for path in (
        *paths,
        "/?question=gold under the oak",
        "/api/search?query=gold under the oak",
        "/entities?name=Bruno",
    ):
        answer = await client.get(path)
        assert answer.status_code < 500, (path, answer.text)
        assert "gold" not in answer.text.replace("gold under the oak", "").replace("gold%20", ""), path
    assert (await client.get(f"/facts/{fact.id}")).status_code == 404


@pytest.mark.slow
async def test_another_users_ids_change_nothing(
    client: httpx.AsyncClient, memory: GraphMemory, stranger: Owner
) -> None:
    fact = await find_fact(memory, stranger, "gold")
    fields = {
        "id": fact.id,
        "ingest": "x",
        "revision": "x",
        "name": fact.subject_key,
        "other": "Bruno",
        "alias": "Bruno",
    }
    for name in ACTIONS:
        for confirmed in ({}, {"confirmed": "yes"}):
            answer = await client.post(f"/changes/{name}", data={**fields, "text": "mine now", **confirmed})
            assert "gold" not in answer.text
    await client.delete(f"/api/memories/{fact.id}")
    assert await find_fact(memory, stranger, "gold") == fact


@pytest.mark.slow
async def test_who_is_nobody_sees_nothing(memory: GraphMemory) -> None:
    async with open_client(inspector(memory, lambda request: None)) as client:
        for path in ("/", "/entities", "/sessions", "/api/facts", "/api/token"):
            answer = await client.get(path)
            assert answer.status_code == 403
            assert "nobody's" in answer.text.replace("&#39;", "'")


async def test_the_applications_own_authorization_decides(memory: GraphMemory, owner: Owner, stranger: Owner) -> None:
    async def identify(request: Request) -> tuple[str, str] | None:
        user_id = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return (owner["app_name"], user_id) if user_id else None

    app = FastAPI()
    app.mount("/memory", inspector(memory, identify))
    async with open_client(app) as client:
        answer = await client.get("/memory/", headers={"Authorization": "Bearer ada"})
        ParsedPage(answer.text).check_inert("/memory")
        assert "Faro" in answer.text and "gold" not in answer.text
        answer = await client.get("/memory/", headers={"Authorization": "Bearer bruno"})
        assert "gold" in answer.text and "Faro" not in answer.text
        assert (await client.get("/memory/")).status_code == 403
        answer = await client.get("/memory/facts/unknown", headers={"Authorization": "Bearer ada"})
        assert answer.status_code == 404
        ParsedPage(answer.text).check_inert("/memory")
        assert (await client.get("/memory/static/inspector.css")).status_code == 200


async def test_without_a_way_to_tell_whose_it_is_nothing_is_shown(memory: GraphMemory, caplog: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="no function"):
        inspector(memory, None)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="bytes"):
        inspector(memory, lambda request: ("app", "ada"), secret="text")  # type: ignore[arg-type]
    for owner in ("ab", ("app",), ("app", ""), ("app", 5), ["app", "ada"]):
        async with open_client(inspector(memory, lambda request, owner=owner: owner)) as client:
            assert (await client.get("/")).status_code == 503
        assert "identify returned" in caplog.text


@pytest.mark.slow
async def test_it_stands_beside_adks_own_server(memory: GraphMemory, owner: Owner, tmp_path: Path) -> None:
    app = get_fast_api_app(agents_dir=str(tmp_path), web=False)
    app.mount("/memory", inspector(memory, lambda request: (owner["app_name"], owner["user_id"])))
    async with open_client(app) as client:
        page = ParsedPage((await client.get("/memory/")).text)
        page.check_inert("/memory")
        assert "Faro" in page.text
        assert (await client.get("/list-apps")).json() == []


@pytest.mark.slow
async def test_only_the_browser_that_opened_the_address_gets_in(memory: GraphMemory, owner: Owner) -> None:
    access = LocalAccess(inspector(memory, lambda request: (owner["app_name"], owner["user_id"])), 7)
    async with open_client(access) as browser, open_client(access) as another:
        assert (await browser.get("/")).status_code == 403
        assert (await browser.get("/?token=guess")).status_code == 403
        answer = await browser.get(access.address)
        assert answer.status_code == 303
        assert "httponly" in answer.headers["set-cookie"].lower()
        assert "token" not in answer.headers["location"]
        assert "Faro" in (await browser.get("/")).text
        assert (await another.get(access.address)).status_code == 403  # it works once
        another.cookies.set("inspector_7", "forged")
        assert (await another.get("/")).status_code == 403
        for path in ("/static/inspector.css", "/api/facts", "/api/openapi.json"):
            assert (await another.get(path)).status_code == 403


@pytest.mark.parametrize("host", ["evil.example:7", "127.0.0.1", "127.0.0.1:8", "127.0.0.1.evil.example:7", ""])
async def test_another_hosts_name_is_refused(memory: GraphMemory, owner: Owner, host: str) -> None:
    access = LocalAccess(inspector(memory, lambda request: (owner["app_name"], owner["user_id"])), 7)
    async with open_client(access) as browser:
        await browser.get(access.address)
        answer = await browser.get("/", headers={"Host": host})
        assert answer.status_code == 421
        assert "Faro" not in answer.text


async def test_a_day_that_is_none_is_refused(client: httpx.AsyncClient) -> None:
    assert "no day such as" in (await get_page(client, "/?question=x&as_of=soon", 400)).text


@pytest.mark.parametrize("confirmed", [{}, {"confirmed": "yes"}], ids=["preview", "confirmed"])
@pytest.mark.parametrize("name", ["correct", "pin", "retract", "accept", "decline", "release", "reject", "undo"])
async def test_what_is_not_there_is_refused_before_anybody_confirms(
    client: httpx.AsyncClient, name: str, confirmed: dict[str, str]
) -> None:
    fields = {"id": "nobody-has-this", "ingest": "nobody-has-this", "text": "It is so"}
    answer = await client.post(f"/changes/{name}", data={**fields, **confirmed})
    assert (answer.status_code, "nobody-has-this" in answer.text) == (404, True)


@pytest.mark.slow
async def test_an_unknown_address_is_answered_with_a_page(client: httpx.AsyncClient) -> None:
    await get_page(client, "/nowhere", 404)
    await get_page(client, "/entities/a%2Fb", 404)


@pytest.mark.slow
async def test_a_database_that_is_away_is_not_described_to_visitors(neo4j_server: Any, caplog: Any) -> None:
    settings = neo4j_server.settings(database_timeout=2).model_copy(update={"uri": "bolt://127.0.0.1:1"})
    async with (
        GraphMemory(settings=settings, model="rules", embedder=False) as memory,
        open_client(inspector(memory, lambda request: ("app", "ada"))) as client,
    ):
        answer = await client.get("/entities")
    assert answer.status_code == 503
    assert "127.0.0.1:1" not in answer.text
    assert "127.0.0.1:1" in caplog.text


async def test_other_cookies_do_not_lock_the_owner_out(memory: GraphMemory, owner: Owner) -> None:
    access = LocalAccess(inspector(memory, lambda request: (owner["app_name"], owner["user_id"])), 7)
    async with open_client(access) as browser:
        answer = await browser.get(access.address)
        own = answer.headers["set-cookie"].split(";")[0]
        browser.cookies.clear()
        odd = 'theme; foo={"a": "b"}; a[b]=1'
        assert (await browser.get("/", headers={"Cookie": f"{odd}; {own}"})).status_code == 200


@pytest.mark.parametrize("path", ["/", "/facts/none", "/nowhere", "/static/inspector.js", "/api/facts", "/changes/pin"])
async def test_every_answer_forbids_foreign_scripts_and_caches(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == ("private, max-age=3600" if "static" in path else "no-store")
    assert answer.headers["x-content-type-options"] == "nosniff"


# -- what they change -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("token", [None, "", "0" * 64])
async def test_without_the_pages_token_nothing_changes(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner, token: str | None
) -> None:
    fact = await find_fact(memory, owner, "Faro")
    del client.headers["X-Inspector-Token"]
    headers = {} if token is None else {"X-Inspector-Token": token}
    confirmed = {"id": fact.id, "confirmed": "yes"}
    for name in (*ACTIONS, "retry"):
        assert (await client.post(f"/changes/{name}", data=confirmed, headers=headers)).status_code == 403
    assert (await client.delete(f"/api/memories/{fact.id}", headers=headers)).status_code == 403
    assert await find_fact(memory, owner, "Faro") == fact


async def test_one_users_token_is_not_anothers(memory: GraphMemory, owner: Owner) -> None:
    def identify(request: Request) -> tuple[str, str]:
        return owner["app_name"], request.headers["X-User"]

    fact = await find_fact(memory, owner, "Faro")
    async with open_client(inspector(memory, identify, write=True)) as client:
        token = (await client.get("/api/token", headers={"X-User": "bruno"})).json()["token"]
        headers = {"X-User": "ada", "X-Inspector-Token": token}
        assert (await client.delete(f"/api/memories/{fact.id}", headers=headers)).status_code == 403


async def test_read_only_pages_have_no_buttons_and_take_no_changes(memory: GraphMemory, owner: Owner) -> None:
    fact = await find_fact(memory, owner, "Faro")
    app = inspector(memory, lambda request: (owner["app_name"], owner["user_id"]))
    async with open_client(app) as client:
        assert (await client.get("/api/token")).json()["token"] is None
        for path in (f"/facts/{fact.id}", f"/entities/{fact.subject_key}", "/sessions"):
            page = await get_page(client, path)
            assert "read-only" in page.text
            assert not [values for _, values in page.tags if "hx-post" in values]
        answer = await client.post("/changes/forget", data={"id": fact.id, "confirmed": "yes"})
        assert answer.status_code == 403
        assert "read-only" in answer.text


async def test_a_correction_is_previewed_made_and_taken_back(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner
) -> None:
    fact = await find_fact(memory, owner, "Faro")
    form = {"id": fact.id, "text": "The user lives in Olhão", "reason": "misheard"}
    preview = ParsedPage((await client.post("/changes/correct", data=form)).text)
    assert "The user lives in Olhão" in preview.text
    assert "The user lives in Faro (taken back)" in preview.text and "never true" not in preview.text
    assert (await find_fact(memory, owner, "Faro")).state == "current"
    [confirm] = [json.loads(values["hx-vals"]) for _, values in preview.tags if "hx-vals" in values]
    receipt = ParsedPage((await client.post("/changes/correct", data=confirm)).text)
    assert (await find_fact(memory, owner, "Faro")).state == "retracted"
    assert "never true" not in (await client.get(f"/facts/{fact.id}")).text
    [undo] = [json.loads(values["hx-vals"]) for _, values in receipt.tags if "hx-vals" in values]
    preview = ParsedPage((await client.post("/changes/undo", data=undo)).text)
    assert "The user lives in Olhão" in preview.text
    await client.post("/changes/undo", data={**undo, "confirmed": "yes"})
    assert await find_fact(memory, owner, "Faro") == fact
    assert not [fact async for fact in memory.facts(**owner, past=True) if "Olhão" in fact.text]


async def test_dates_change_only_if_they_were_changed(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner
) -> None:
    fact = await find_fact(memory, owner, "Faro")
    dates = {"valid_from": "", "valid_from_was": "", "valid_to": "2026-05-31", "valid_to_was": "", "confirmed": "yes"}
    await client.post("/changes/correct", data={"id": fact.id, "text": fact.text, **dates})
    corrected = [one async for one in memory.facts(**owner, past=True) if one.state == "current" and "Faro" in one.text]
    assert [one.valid_to for one in corrected] == [datetime(2026, 6, 1, tzinfo=UTC)]
    page = await get_page(client, f"/facts/{corrected[0].id}")
    assert "until 31 May 2026" in page.text


@pytest.mark.slow
async def test_pin_retract_and_forget_do_what_they_say(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner
) -> None:
    fact = await find_fact(memory, owner, "Faro")
    confirmed = {"id": fact.id, "confirmed": "yes"}
    assert "pinned" in (await client.post("/changes/pin", data={"id": fact.id})).text
    await client.post("/changes/pin", data=confirmed)
    assert (await find_fact(memory, owner, "Faro")).is_pinned
    await client.post("/changes/unpin", data=confirmed)
    await client.post("/changes/retract", data=confirmed)
    assert (await find_fact(memory, owner, "Faro")).state == "retracted"
    preview = await client.post("/changes/forget", data={"id": fact.id})
    assert "This cannot be undone." in preview.text
    assert "I moved to Faro" in preview.text
    assert "with_turns" in preview.text
    ticked = await client.post("/changes/forget", data={"id": fact.id, "with_turns": "yes"})
    assert "1 turn will leave memory" in ticked.text
    assert "checked" in ticked.text
    assert (await find_fact(memory, owner, "Faro")).state == "retracted"
    answer = await client.post("/changes/forget", data=confirmed)
    assert "Gone: 1 fact" in answer.text
    assert (await client.get(f"/facts/{fact.id}")).status_code == 404


async def test_merge_and_split_are_previewed(client: httpx.AsyncClient, memory: GraphMemory, owner: Owner) -> None:
    preview = ParsedPage((await client.post("/changes/merge", data={"name": "Faro", "other": "Porto"})).text)
    assert "Faro, Porto" in preview.text
    await client.post("/changes/merge", data={"name": "Faro", "other": "Porto", "confirmed": "yes"})
    assert [entity.aliases async for entity in memory.user(**owner).entities(type="place")] == [("Porto",)]
    await client.post("/changes/split", data={"alias": "Porto", "confirmed": "yes"})
    assert sorted([entity.name async for entity in memory.user(**owner).entities(type="place")]) == ["Faro", "Porto"]


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("pin", {}, "The field 'id' is missing"),
        ("correct", {"id": "fact:none", "text": "x"}, "fact:none"),
        ("correct", {"id": "FARO", "valid_from": "soon"}, "soon"),
        ("correct", {"id": "FARO"}, "changes nothing"),
        ("undo", {"ingest": "none", "confirmed": "yes"}, "none"),
        ("split", {"alias": "nobody"}, "nobody"),
        ("explode", {}, "explode"),
    ],
)
async def test_what_cannot_be_done_says_why(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner, name: str, fields: dict[str, str], words: str
) -> None:
    faro = (await find_fact(memory, owner, "Faro")).id
    data = {key: faro if value == "FARO" else value for key, value in fields.items()}
    answer = await client.post(f"/changes/{name}", data=data, headers={"HX-Request": "true"})
    assert answer.status_code in (400, 404, 422)
    assert words in ParsedPage(answer.text).text


# -- JSON -------------------------------------------------------------------------------------------------------


async def test_the_same_as_json(client: httpx.AsyncClient, memory: GraphMemory, owner: Owner) -> None:
    facts = (await client.get("/api/facts?past=true")).json()
    assert [fact["text"] for fact in facts] == ["The user lives in Faro", "The user lives in Porto"]
    [found, *_] = (await client.get("/api/search?query=Where does the user live?")).json()
    assert found["text"] == "The user lives in Faro"
    assert found["shares"]
    history = (await client.get(f"/api/facts/{facts[1]['id']}/history")).json()
    assert [entry["kind"] for entry in history["entries"]] == ["said", "ended"]
    entities = (await client.get("/api/entities")).json()
    assert {entity["name"] for entity in entities} == {"user", "cat", "Faro", "Porto"}
    receipt = (await client.delete(f"/api/memories/{facts[0]['id']}")).json()
    assert receipt["facts"] == 1
    assert not [fact async for fact in memory.facts(**owner) if "Faro" in fact.text]


@pytest.mark.slow
async def test_openapi_describes_the_json_routes_alone(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/api/openapi.json")).json()["paths"]
    assert sorted(paths) == [
        "/api/entities",
        "/api/facts",
        "/api/facts/{id}/history",
        "/api/memories/{id}",
        "/api/search",
        "/api/token",
    ]
    assert all(route["description"] for methods in paths.values() for route in methods.values())


@pytest.mark.parametrize(
    "path", ["/api/facts?limit=0", "/api/search", "/api/facts/none/history", "/api/facts?after=none"]
)
async def test_bad_input_gets_a_json_error(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code in (404, 422)
    assert answer.json()["message"]
