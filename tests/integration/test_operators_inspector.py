"""The inspector of all users: what operators see, what they may open, and that nobody's words reach them otherwise."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from benchmarks.latency.counting import count_sent
from fastapi import FastAPI, Request
from google.adk.models import LlmResponse
from google.genai import types
from tests.support.inspector_pages import ParsedPage

from adk_graph_memory import GraphMemory, Neo4jSessionService, SharedMemory, Turn, errors
from adk_graph_memory.graph import overview as counts
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.servers.inspector import operators_inspector, overview
from adk_graph_memory.servers.inspector.visits import LocalAccess
from adk_graph_memory.testing import ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
BASE = "/operators"
WORD = "xylophonist"
"""Stands in all that users and models said, and in no page of ours."""
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)//",
    ".",
    "..",
    "../../api/apps",
    "a/b",
    "a%2Fb",
    "/",
    "%00",
    "x&app=other#fragment?search=y;z=1",
    "two  spaces + plus ",
    "名前 🙂 مرحبا \u202e",
    "ana@example.org",
    "l" * 4_000,
)
Owner = dict[str, str]


def answer(text: str = "", *, tokens: tuple[int, int] = (0, 0)) -> LlmResponse:
    """A model's reply with one fact, and the tokens that it cost."""
    user, friend = {"ref": 1, "name": "user", "type": "person"}, {"ref": 2, "name": f"The {WORD}", "type": "person"}
    fact = {"subject": 1, "predicate": "knows", "object": 2, "text": f"The user knows the {WORD}", "quote": text}
    reply = {"entities": [user, friend], "facts": [{**fact, "turns": [0]}] if text else []}
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=tokens[0], candidates_token_count=tokens[1])
    content = types.Content(role="model", parts=[types.Part(text=json.dumps(reply))])
    return LlmResponse(content=content, usage_metadata=usage)


def mount(memory: GraphMemory, *permits: Any, **options: Any) -> FastAPI:
    """An application that has the operators' inspector below a path."""
    app = FastAPI()
    app.mount(BASE, operators_inspector(memory, *permits or [allow], **options))
    return app


def allow(request: Request) -> bool:
    return True


def open_client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:7")


@pytest.fixture
async def memory(neo4j_server: Any) -> AsyncIterator[GraphMemory]:
    settings = neo4j_server.settings(model_retries=0, prices=(("scripted", 10.0, 100.0, 0.0),))
    async with GraphMemory(settings=settings, model=ScriptedLlm.from_replies(), embedder=False) as memory:
        yield memory


@pytest.fixture
async def client(memory: GraphMemory) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of an operator, who sees counts only."""
    async with open_client(mount(memory)) as client:
        yield client


def script(memory: GraphMemory, *replies: Any) -> None:
    model = memory.engine.language_model
    assert isinstance(model, ScriptedLlm)
    model._replies = list(replies)


async def get_page(client: httpx.AsyncClient, path: str, **query: str) -> ParsedPage:
    """Open a page by its path below the base, or by a link to it."""
    path = path.removeprefix(f"{BASE}/")
    address = f"{BASE}/{path}{'?' if query else ''}{urlencode(query)}"
    page = await client.get(address)
    assert page.status_code == 200, (address, page.text)
    parsed = ParsedPage(page.text)
    own_pages = re.match(r"memories/\w+", path)
    parsed.check_inert(f"{BASE}/{own_pages[0]}" if own_pages else BASE)
    return parsed


def list_names(page: ParsedPage) -> list[str]:
    """The names that head the rows of a page's table."""
    return [unescape(name) for name in re.findall(r'<th scope="row">(?:<\w+[^>]*>)?([^<]*)', page.html)]


def list_links(page: ParsedPage, **attributes: str) -> list[str]:
    """Where the links with these attributes lead to."""
    links = (values for tag, values in page.tags if tag == "a")
    return [values["href"] for values in links if values.items() >= attributes.items()]


async def follow_pages(client: httpx.AsyncClient, path: str, **query: str) -> list[ParsedPage]:
    """Open a list's first page and all that follow it."""
    pages = [await get_page(client, path, **query)]
    while links := list_links(pages[-1], rel="next"):
        pages.append(await get_page(client, links[0]))
    return pages


async def get_json(client: httpx.AsyncClient, path: str, **query: str) -> Any:
    reply = await client.get(f"{BASE}/api/{path}", params=query)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def find_app(client: httpx.AsyncClient, app_name: str) -> dict[str, Any]:
    apps = await get_json(client, "apps", after=app_name[:-1])
    [app] = [app for app in apps if app["app_name"] == app_name]
    return dict(app)


async def queue_turn(memory: GraphMemory, app_name: str, user_id: str, text: str = "Hello.") -> None:
    turn = Turn("t1", "ana" if isinstance(user_id, SharedMemory) else "user", text, NOON)
    await memory.user(app_name, user_id).enqueue([turn], session_id="s1")


async def set_day(memory: GraphMemory, owner: Owner, session_id: str, day: str) -> None:
    """Date what was read in a session."""
    text = "MATCH (i:Ingest {scope: $scope, session_id: $session_id}) SET i.done_at = datetime($day + 'T12:00Z')"
    await memory.connection.run_cypher(text, {"scope": Scope(**owner).key, "session_id": session_id, "day": day})


# -- counts -----------------------------------------------------------------------------------------------------


async def test_apps_and_users_are_counted(
    memory: GraphMemory, client: httpx.AsyncClient, owner: Owner, stranger: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "MAX_COUNTED", 10**9)  # whatever other tests have stored
    script(memory, answer("I know her"), RuntimeError("no quota"))
    turns = [Turn("t1", "user", "I know her.", NOON), Turn("t2", "agent", "Good.", NOON, "model")]
    await memory.remember(turns, session_id="s1", **owner)
    with pytest.raises(errors.ModelFailed):
        await memory.remember([Turn("t3", "user", "I know him.", NOON)], session_id="s2", **owner)
    await queue_turn(memory, **stranger)
    async with Neo4jSessionService(settings=memory.connection.settings) as sessions:
        session = await sessions.create_session(**stranger)
    app = await find_app(client, owner["app_name"])
    names = ("users", "sessions", "turns", "facts", "pending", "failed")
    assert [app[name] for name in names] == [2, 1, 4, 1, 2, 1]
    ada, bruno = users = await get_json(client, "users", app=owner["app_name"])
    assert [[user[name] for name in ("user_id", *names[1:])] for user in users] == [
        ["ada", 0, 3, 1, 1, 1],
        ["bruno", 1, 1, 0, 1, 0],
    ]
    assert (ada["is_shared"], ada["key"]) == (False, Scope(**owner).key)
    assert datetime.fromisoformat(bruno["written_at"]).timestamp() == pytest.approx(session.last_update_time, abs=1e-3)
    assert ada["written_at"] is not None
    page = await get_page(client, "users", app=owner["app_name"])
    times = [values["datetime"] for tag, values in page.tags if tag == "time"]
    assert [*map(datetime.fromisoformat, times)] == [datetime.fromisoformat(user["written_at"]) for user in users]
    assert (list_names(page), "counts only" in page.text) == (["ada", "bruno"], True)


@pytest.mark.schema
async def test_an_empty_store_says_so(neo4j_server: Any) -> None:
    settings = neo4j_server.settings(label_prefix=f"Operators{uuid.uuid4().hex[:8]}")
    async with (
        GraphMemory(settings=settings, model="rules", embedder=False) as memory,
        open_client(mount(memory)) as client,
    ):
        assert "Nothing has been stored yet." in (await get_page(client, "")).text
        assert "This app has no users." in (await get_page(client, "users", app="none")).text
        assert "Nothing has been remembered yet." in (await get_page(client, "costs", app="none")).text


async def test_a_store_that_is_too_large_is_not_counted_for_each_app(
    memory: GraphMemory, client: httpx.AsyncClient, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue_turn(memory, **owner)
    script(memory, answer("I know her"))
    await memory.remember([Turn("t1", "user", "I know her.", NOON)], session_id="s2", **owner)
    monkeypatch.setattr(counts, "MAX_COUNTED", 0)
    app = await find_app(client, owner["app_name"])
    assert (app["sessions"], app["turns"], app["facts"], app["pending"]) == (None, None, None, 1)
    assert "too large" in (await get_page(client, "", after=owner["app_name"][:-1])).text
    assert (await get_json(client, "store"))["memories"] >= 2
    [user] = await get_json(client, "users", app=owner["app_name"])
    assert (user["turns"], user["facts"]) == (2, 1)


async def test_pages_hold_every_user_and_app_once(
    memory: GraphMemory, client: httpx.AsyncClient, app_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "PAGE_SIZE", 7)
    ids = sorted(f"user {n}" for n in range(120))
    for user_id in ids:
        await queue_turn(memory, app_name, user_id)
    with count_sent() as sent:
        pages = await follow_pages(client, "users", app=app_name)
    assert [name for page in pages for name in list_names(page)] == ids
    assert sent.statements == len(pages) == 18
    rest = await get_json(client, "users", app=app_name, after=ids[-3])
    assert [user["user_id"] for user in rest] == ids[-2:]
    app_name = f"~{app_name}"  # behind those of other tests
    apps = [f"{app_name} {n}" for n in range(8)]
    for name in apps:
        await queue_turn(memory, name, "ada")
    listed = [name for page in await follow_pages(client, "", after=app_name) for name in list_names(page)]
    assert [name for name in listed if name.startswith(app_name)] == apps
    assert len(listed) == len({*listed})


async def test_users_are_found_by_a_part_of_their_id(
    memory: GraphMemory, client: httpx.AsyncClient, app_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "PAGE_SIZE", 1)
    for user_id in ("Ana@example.org", "bo+ana@example.org", "carl@example.org", "%", "_"):
        await queue_turn(memory, app_name, user_id)
    for search, found in {
        "ANA@": ["Ana@example.org", "bo+ana@example.org"],
        "+ana": ["bo+ana@example.org"],
        "%": ["%"],
        "nobody": [],
    }.items():
        pages = await follow_pages(client, "users", app=app_name, search=search)
        assert [name for page in pages for name in list_names(page)] == found
    assert "No user’s id contains this." in pages[0].text
    assert "This app has no users." in (await get_page(client, "users", app=f"{app_name}?")).text


# -- what each day cost -----------------------------------------------------------------------------------------


async def test_days_are_summed_up_with_their_cost(
    memory: GraphMemory, client: httpx.AsyncClient, owner: Owner, stranger: Owner
) -> None:
    first, second = answer("I know her", tokens=(1_000, 50)), answer("I know him", tokens=(2_000, 70))
    script(memory, RuntimeError("no quota"), first, second, answer(tokens=(5, 5)))
    with pytest.raises(errors.ModelFailed):
        await memory.remember([Turn("t1", "user", "I know her.", NOON)], session_id="s1", **owner)
    await memory.resume(app_name=owner["app_name"])
    await memory.remember([Turn("t1", "user", "I know him.", NOON)], session_id="s1", **stranger)
    await memory.remember([Turn("t1", "user", "Hello.", NOON)], session_id="s2", **owner)
    for whose, session_id, day in (
        (owner, "s1", "2026-03-02"),
        (stranger, "s1", "2026-03-02"),
        (owner, "s2", "2026-03-05"),
    ):
        await set_day(memory, whose, session_id, day)
    costs = await get_json(client, "costs", app=owner["app_name"])
    assert (costs["before"], costs["is_partial"]) == (None, False)
    latest, earliest = costs["days"]
    assert latest.pop("extractor") == earliest.pop("extractor")
    assert earliest == {
        "day": "2026-03-02",
        "requests": 2,
        "sessions": 2,
        "failures": 1,
        "turns": 2,
        "calls": 2,
        "input_tokens": 3_000,
        "output_tokens": 120,
        "cost": pytest.approx(0.042),
    }
    assert (latest["day"], latest["input_tokens"]) == ("2026-03-05", 5)
    page = await get_page(client, "costs", app=owner["app_name"])
    assert list_names(page) == ["2026-03-05", "2026-03-02"]
    assert "3,000" in page.text and "0.0420" in page.text


async def test_a_page_of_costs_ends_with_a_whole_day(
    memory: GraphMemory, client: httpx.AsyncClient, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(memory, *[answer()] * 6)
    days = ["2026-03-01", "2026-03-01", "2026-03-02", "2026-03-02", "2026-03-03", "2026-03-03"]
    for n, day in enumerate(days):
        await memory.remember([Turn("t1", "user", f"Hello {n}.", NOON)], session_id=f"s{n}", **owner)
        await set_day(memory, owner, f"s{n}", day)
    for most, expected in {2: 3, 3: 3, 4: 2, 6: 1}.items():
        monkeypatch.setattr(overview, "MAX_REPORTS", most)
        pages = await follow_pages(client, "costs", app=owner["app_name"])
        assert [day for page in pages for day in list_names(page)] == ["2026-03-03", "2026-03-02", "2026-03-01"]
        assert len(pages) == expected
    monkeypatch.setattr(overview, "MAX_REPORTS", 1)
    costs = await get_json(client, "costs", app=owner["app_name"], before="2026-03-03")
    assert (costs["is_partial"], costs["before"], costs["days"][0]["day"]) == (True, "2026-03-02", "2026-03-02")
    assert "these are its latest requests" in (await get_page(client, "costs", app=owner["app_name"])).text


# -- nobody's words ---------------------------------------------------------------------------------------------


async def remember_words(memory: GraphMemory, owner: Owner) -> None:
    """Put the word into a turn, a fact, a name, an author, a session's id, metadata and the reason of a failure."""
    script(memory, answer(f"my {WORD}"), RuntimeError(f"what of the {WORD}?"))
    said = [Turn("t1", f"{WORD} junior", f"This is my {WORD}.", NOON)]
    await memory.remember(said, session_id=f"{WORD} session", metadata={WORD: WORD}, **owner)
    with pytest.raises(errors.ModelFailed):
        await memory.remember([Turn("t2", "user", f"My {WORD} again.", NOON)], session_id=f"{WORD} 2", **owner)
    await queue_turn(memory, **owner, text=f"A {WORD} waits.")


async def list_answers(client: httpx.AsyncClient, app_name: str) -> dict[str, httpx.Response]:
    """What every route for operators answers, errors too."""
    schema = (await client.get(f"{BASE}/api/openapi.json")).json()
    paths = ["/", "/users", "/costs", "/nowhere", "/static/inspector.css", *schema["paths"]]
    return {path: await client.get(f"{BASE}{path}", params={"app": app_name}) for path in paths}


async def test_without_leave_to_read_no_word_of_anybody_is_shown(
    memory: GraphMemory, client: httpx.AsyncClient, owner: Owner
) -> None:
    await remember_words(memory, owner)
    answers = await list_answers(client, owner["app_name"])
    assert {path for path, reply in answers.items() if reply.status_code != 200} == {"/nowhere"}
    assert "ada" in answers["/users"].text and "ada" in answers["/api/users"].text
    assert [path for path, reply in answers.items() if WORD in reply.text] == []
    key, [fact] = Scope(**owner).key, [fact async for fact in memory.facts(**owner)]
    for path in ("", "sessions", f"facts/{fact.id}", "api/facts", "api/token", "healthz", "static/inspector.css"):
        reply = await client.get(f"{BASE}/memories/{key}/{path}")
        assert (reply.status_code, WORD in reply.text) == (404, False)
    assert not list_links(await get_page(client, "users", app=owner["app_name"]), dir="auto")


async def test_with_leave_to_read_a_users_own_pages_open(memory: GraphMemory, owner: Owner, stranger: Owner) -> None:
    await remember_words(memory, owner)
    await queue_turn(memory, **stranger)
    async with open_client(mount(memory, allow, may_read=allow)) as client:
        ada, bruno = list_links(await get_page(client, "users", app=owner["app_name"]), dir="auto")
        pages = [await get_page(client, f"{ada}{path}") for path in ("", "facts", "sessions", "entities", "review")]
        for page in pages:
            assert "Memory of ada" in page.text and "read-only" in page.text
        assert f"what of the {WORD}?" in pages[2].text
        facts = (await client.get(f"{ada}api/facts")).json()
        assert [fact["text"] for fact in facts] == [f"The user knows the {WORD}"]
        await get_page(client, f"{ada}facts/{facts[0]['id']}")
        assert WORD not in (await get_page(client, f"{bruno}sessions")).text
        assert (await client.get(f"{bruno}facts/{facts[0]['id']}")).status_code == 404
        assert (await client.get(f"{BASE}/memories/{'0' * 32}/")).status_code == 404
        assert (await client.get(f"{ada}api/token")).json()["token"] is None
        forged = await client.delete(f"{ada}api/memories/{facts[0]['id']}")
        assert forged.status_code == 403
    async with open_client(mount(memory, allow, may_read=allow, write=True)) as client:
        token = (await client.get(f"{ada}api/token")).json()
        address, headers = f"api/memories/{facts[0]['id']}", {token["header"]: token["token"]}
        assert (await client.delete(f"{bruno}{address}", headers=headers)).status_code == 403
        assert (await client.delete(f"{ada}{address}", headers=headers)).status_code == 200
    assert [fact async for fact in memory.facts(**owner)] == []


# -- who may see any of it --------------------------------------------------------------------------------------


async def test_who_is_no_operator_gets_nothing_and_nothing_is_counted(memory: GraphMemory, owner: Owner) -> None:
    await queue_turn(memory, **owner)

    async def is_operator(request: Request) -> bool:
        return request.headers.get("X-Role") in ("operator", "auditor")

    def may_read(request: Request) -> bool:
        return request.headers.get("X-Role") in ("auditor", "stranger")

    memories = f"/memories/{Scope(**owner).key}/"
    async with open_client(mount(memory, is_operator, may_read=may_read)) as client:
        for role in ("", "stranger"):
            client.headers["X-Role"] = role
            with count_sent() as sent:
                answers = await list_answers(client, owner["app_name"])
                answers |= {path: await client.get(f"{BASE}{path}") for path in (memories, f"{memories}api/facts")}
            refused = {path: reply for path, reply in answers.items() if reply.status_code == 403}
            assert answers.keys() - refused == {"/nowhere", "/static/inspector.css"}
            assert sent.statements == 0
            assert [path for path, reply in refused.items() if "ada" in reply.text] == []
        client.headers["X-Role"] = "operator"
        assert not list_links(await get_page(client, "users", app=owner["app_name"]), dir="auto")
        assert (await client.get(f"{BASE}{memories}")).status_code == 403
        client.headers["X-Role"] = "auditor"
        assert list_links(await get_page(client, "users", app=owner["app_name"]), dir="auto")
        assert (await client.get(f"{BASE}{memories}")).status_code == 200


@pytest.mark.parametrize("permit", [None, True, "operators"])
async def test_who_may_see_it_has_to_be_said(memory: GraphMemory, permit: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"may_operate=.* is no function"):
        operators_inspector(memory, permit)
    if permit is not None:
        with pytest.raises(errors.InvalidArgument, match=r"may_read=.* is no function"):
            operators_inspector(memory, allow, may_read=permit)


@pytest.mark.parametrize("permit", [lambda request: "no", lambda request: None, lambda request: 1])
async def test_a_permission_is_true_or_false(memory: GraphMemory, owner: Owner, permit: Any, caplog: Any) -> None:
    async with open_client(mount(memory, permit)) as client:
        assert (await client.get(f"{BASE}/users", params={"app": owner["app_name"]})).status_code == 503
    assert "neither True nor False" in caplog.text


async def test_on_the_loopback_interface_the_token_and_the_hosts_name_guard_it(memory: GraphMemory) -> None:
    access = LocalAccess(operators_inspector(memory, allow, may_read=allow), 7)
    async with open_client(access) as browser, open_client(access) as another:
        for path in ("/", "/api/apps", f"/memories/{'0' * 32}/"):
            assert (await browser.get(path)).status_code == 403
        assert (await browser.get(access.address)).status_code == 303
        assert (await browser.get("/")).status_code == 200
        assert (await browser.get("/", headers={"Host": "evil.example:7"})).status_code == 421
        assert (await another.get(access.address)).status_code == 403


async def test_every_answer_forbids_scripts_and_caches(client: httpx.AsyncClient, app_name: str) -> None:
    for path, reply in (await list_answers(client, app_name)).items():
        assert "default-src 'none'; script-src 'self';" in reply.headers["content-security-policy"], path
        assert reply.headers["cache-control"] == ("private, max-age=3600" if "static" in path else "no-store")


# -- ids of any kind --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", range(3), ids=["first", "second", "third"])
async def test_links_of_hostile_ids_lead_to_them(
    memory: GraphMemory, app_name: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    app_name = f"{HOSTILE[place]} {app_name}"
    for n, user_id in enumerate(HOSTILE):
        await queue_turn(memory, app_name, user_id, f"This is number {n}.")
    monkeypatch.setattr(overview, "PAGE_SIZE", 5)
    async with open_client(mount(memory, allow, may_read=allow)) as client:
        pages = await follow_pages(client, "users", app=app_name)
        listed = [name for page in pages for name in list_names(page)]
        assert sorted(listed) == sorted(HOSTILE)
        links = [link for page in pages for link in list_links(page, dir="auto")]
        for user_id, link in zip(listed, links, strict=True):
            page = await get_page(client, f"{link}sessions/s1")
            assert f"This is number {HOSTILE.index(user_id)}." in page.text
        for user_id in HOSTILE:
            found = await follow_pages(client, "users", app=app_name, search=user_id)
            assert user_id in [name for page in found for name in list_names(page)]
        apps = await get_page(client, "", after=app_name[:-1])
        [link] = [
            link for link in list_links(apps, dir="auto") if dict(parse_qsl(urlsplit(link).query))["app"] == app_name
        ]
        assert list_names(await get_page(client, link)) == listed[:5]


async def test_shared_memories_are_named_as_such(memory: GraphMemory, app_name: str) -> None:
    for user_id in (SharedMemory(), SharedMemory("a/b & <i>"), ":app", "ana"):
        await queue_turn(memory, app_name, user_id, f"This is of {user_id}.")
    async with open_client(mount(memory, allow, may_read=allow)) as client:
        users = await get_json(client, "users", app=app_name)
        assert {user["user_id"]: user["is_shared"] for user in users} == {
            ":app": False,
            ":app:": True,
            ":group:a/b & <i>": True,
            "ana": False,
        }
        page = await get_page(client, "users", app=app_name)
        notes = re.findall(r'class="status">([^<]*)', page.html)
        assert notes == ["shared by all users", "shared by the group"]
        for user, link in zip(users, list_links(page, dir="auto"), strict=True):
            shown = await get_page(client, f"{link}sessions/s1")
            assert f"This is of {user['user_id']}." in shown.text
