"""The HTTP service: what each operation does, for whom, and what it makes of requests that nobody should send."""

from __future__ import annotations

import asyncio
import io
import json
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from benchmarks.wire import Wire
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import FastAPI
from google.adk.cli.fast_api import get_fast_api_app
from tests.support.served_memory import RUN, serve

from adk_graph_memory import GraphMemory, Turn, errors
from adk_graph_memory.adk.importing.importer import ImportOptions, import_source
from adk_graph_memory.servers.hosts import HostCheck
from adk_graph_memory.servers.http import application, make_http_app
from adk_graph_memory.servers.http.routes import MAX_DEPTH, MAX_EXPORTS
from adk_graph_memory.servers.json_forms import UNAVAILABLE
from adk_graph_memory.servers.tokens import BearerAccess, JwtVerifier, SecretVerifier, get_owner
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECRET = "s" * 40
REX = {"session_id": "s1", "turns": [{"id": "t1", "author": "user", "text": "My dog Rex is afraid of thunder."}]}
Owner = dict[str, str]


@pytest.fixture
async def memory(neo4j_server: Any) -> AsyncIterator[GraphMemory]:
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as memory:
        yield memory


@asynccontextmanager
async def connect(app: Any, token: str | None = None, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx.ASGITransport(app, **options)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7690", headers=headers) as client:
        yield client


@pytest.fixture
async def client(memory: GraphMemory, owner: Owner) -> AsyncIterator[httpx.AsyncClient]:
    """An application's backend, at Ada's memory."""
    async with connect(make_http_app(memory, lambda request: (owner["app_name"], None))) as client:
        client.base_url = httpx.URL(f"http://127.0.0.1:7690/v1/apps/{owner['app_name']}/users/{owner['user_id']}")
        yield client


def check_problem(answer: httpx.Response, status: int, words: str = "") -> None:
    """Check that a request was refused, and that the answer says what is wrong and nothing else."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert {"type", "title", "status", "detail"} <= problem.keys() <= {"type", "title", "status", "detail", "error"}
    assert problem["status"] == status
    assert words in problem["detail"]
    assert "Traceback" not in answer.text


async def read_json(answer: Awaitable[httpx.Response]) -> Any:
    response = await answer
    assert response.is_success, response.text
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    return response.json()


# -- what the operations do -------------------------------------------------------------------------------------


async def test_words_become_facts_that_a_question_finds(client: httpx.AsyncClient) -> None:
    report = await read_json(client.post("/turns", json=REX | {"metadata": {"channel": "phone"}}))
    assert (report["turns"], report["facts"]) == (1, {"ADD": 1})
    [first, *_] = (await read_json(client.post("/recall", json={"question": "What is Rex afraid of?"})))["memories"]
    assert first["prompt_text"].startswith("My dog Rex is afraid of thunder.")
    assert first["metadata"]["channel"] == "phone"
    assert first["shares"] == []
    options = {"limit": 1, "token_budget": 500, "min_score": 0.1, "language": "en", "explain": True}
    question = {"question": "What is Rex afraid of?", "now": datetime.now(UTC).isoformat(), **options}
    [explained] = (await read_json(client.post("/recall", json=question)))["memories"]
    assert explained["shares"]
    assert await read_json(client.post("/recall", json=question | {"now": NOON.isoformat()})) == {"memories": []}


async def test_lists_go_on_where_a_page_ended(client: httpx.AsyncClient) -> None:
    texts = [f"My friend Bo{number} lives in Porto{number}." for number in range(5)]
    turns = [{"id": f"t{number}", "author": "user", "text": text} for number, text in enumerate(texts)]
    await read_json(client.post("/turns", json={"session_id": "s1", "turns": turns}))
    seen, after = list[str](), None
    for size in (2, 2, 1):
        page = await read_json(client.get("/facts", params={"limit": 2} | ({"after": after} if after else {})))
        assert len(page["items"]) == size
        seen, after = seen + [fact["text"] for fact in page["items"]], page["next"]
    assert (sorted(seen), after) == (sorted(texts), None)
    everybody = await read_json(client.get("/entities"))
    assert everybody["items"]
    assert everybody["next"] is None
    name = everybody["items"][0]["name"]
    about = await read_json(client.get("/facts", params={"about": name, "past": True}))
    assert {fact["id"] for fact in about["items"]} <= {
        fact["id"] for fact in (await read_json(client.get("/facts", params={"limit": 200})))["items"]
    }
    assert (await read_json(client.get(f"/entities/{name}")))["entity"]["name"] == name
    check_problem(await client.get("/facts", params={"after": "fact:none"}), 404)
    check_problem(await client.get("/facts", params={"limit": 201}), 422, "limit")


async def test_the_owner_corrects_pins_retracts_and_undoes(client: httpx.AsyncClient) -> None:
    await read_json(client.post("/turns", json=REX))
    [fact] = (await read_json(client.get("/facts")))["items"]
    history = await read_json(client.get(f"/facts/{fact['id']}"))
    assert history["entries"][0]["quote"] == "My dog Rex is afraid of thunder."
    correction = {"text": "My dog Rex is afraid of fireworks.", "valid_from": "2026-01-01T00:00:00Z", "reason": "typo"}
    preview = await read_json(client.post(f"/facts/{fact['id']}/correct", json=correction | {"preview": True}))
    assert (await read_json(client.get("/facts")))["items"] == [fact]
    change = await read_json(client.post(f"/facts/{fact['id']}/correct", json=correction))
    assert [one["id"] for one in change["facts"]] == [one["id"] for one in preview["facts"]]
    [corrected] = (await read_json(client.get("/facts")))["items"]
    assert (corrected["text"], corrected["valid_from"][:10]) == (correction["text"], "2026-01-01")
    await read_json(client.post(f"/facts/{corrected['id']}/pin"))
    assert [one["is_pinned"] for one in (await read_json(client.get("/facts")))["items"]] == [True]
    await read_json(client.post(f"/facts/{corrected['id']}/unpin", json={"reason": "enough"}))
    await read_json(client.post(f"/facts/{corrected['id']}/retract", json={"preview": True}))
    assert (await read_json(client.get("/profile")))["text"]
    await read_json(client.post(f"/facts/{corrected['id']}/retract"))
    assert (await read_json(client.get("/facts")))["items"] == []
    undone = {"ingest_id": change["ingest_id"]}
    assert (await read_json(client.post("/undo", json=undone | {"preview": True})))["facts"]
    await read_json(client.post("/undo", json=undone))
    assert [one["text"] for one in (await read_json(client.get("/facts")))["items"]] == [fact["text"]]
    check_problem(await client.post("/facts/fact:none/pin"), 404, "There is no fact")
    check_problem(await client.post(f"/facts/{fact['id']}/correct", json={}), 400)
    check_problem(await client.post(f"/facts/{fact['id']}/forgive"), 422, "pin")


async def test_a_document_is_sent_listed_and_forgotten(client: httpx.AsyncClient) -> None:
    lease = {"title": "Lease / flat 7", "text": "# Pets\n\nNo dogs.", "author": "Krause GmbH", "at": NOON.isoformat()}
    for new in (1, 0):
        report = await read_json(client.post("/documents", json=lease))
        assert (report["passages"], report["ingest"]["turns"]) == (1, new)
    await read_json(client.post("/documents", json={"title": "Rules", "text": "Shoes stay outside."}))
    page = await read_json(client.get("/documents", params={"limit": 1}))
    [listed] = page["items"]
    assert (listed["title"], listed["passages"], listed["author"]) == ("Lease / flat 7", 1, "Krause GmbH")
    rest = await read_json(client.get("/documents", params={"after": page["next"]}))
    assert ([one["title"] for one in rest["items"]], rest["next"]) == (["Rules"], None)
    receipt = await read_json(client.delete("/documents/Lease%20%2F%20flat%207"))
    assert receipt["events"] == 1
    assert [one["title"] for one in (await read_json(client.get("/documents")))["items"]] == ["Rules"]
    check_problem(await client.post("/documents", json={"title": "Empty", "text": "# Title"}), 400, "no text")
    check_problem(await client.post("/documents", json={"title": " ", "text": "So."}), 422, "title")
    check_problem(await client.get("/documents", params={"after": "nothing"}), 404, "place")


async def test_only_some_exports_run_at_a_time(memory: GraphMemory, owner: Owner) -> None:
    await memory.remember([Turn("t1", "user", "My dog Rex is afraid of thunder.", NOON)], session_id="s1", **owner)
    app = make_http_app(memory, lambda request: (owner["app_name"], None))
    async with connect(app) as client:
        for _ in range(MAX_EXPORTS):
            await app.state.export_slots.acquire()
        answer = await client.get(make_path(owner, "/export"))
        check_problem(answer, 503, "later")
        assert answer.headers["retry-after"] == "5"
        app.state.export_slots.release()
        for _ in range(2):  # each makes room for the next
            assert (await client.get(make_path(owner, "/export"))).status_code == 200


async def test_a_memory_and_a_user_are_forgotten(client: httpx.AsyncClient, owner: Owner) -> None:
    await read_json(client.post("/turns", json=REX))
    [fact] = (await read_json(client.get("/facts")))["items"]
    preview = await read_json(client.delete(f"/memories/{fact['id']}", params={"preview": True, "with_turns": True}))
    assert (preview["turns"], len(preview["facts"])) == (1, 1)
    receipt = await read_json(client.delete(f"/memories/{fact['id']}"))
    assert (receipt["events"], receipt["facts"]) == (0, 1)
    address = str(client.base_url).rstrip("/")
    check_problem(await client.delete(address), 422, "confirm")
    check_problem(await client.delete(address, params={"confirm": "bruno"}), 400, "confirm")
    receipt = await read_json(client.delete(address, params={"confirm": owner["user_id"]}))
    assert receipt["events"] == 1
    assert await read_json(client.post("/recall", json={"question": "thunder"})) == {"memories": []}


async def test_an_export_is_streamed_and_can_be_imported(
    client: httpx.AsyncClient, memory: GraphMemory, owner: Owner, tmp_path: Path
) -> None:
    check_problem(await client.get("/export"), 404, "user 'ada'")
    await read_json(client.post("/turns", json=REX))
    async with client.stream("GET", "/export") as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        body = b"".join([chunk async for chunk in answer.aiter_raw()])
    assert len(body) == int(answer.headers["content-length"])
    here = io.StringIO()
    await memory.export(here, **owner)
    assert [json.loads(line).keys() for line in body.splitlines()] == [
        json.loads(line).keys() for line in here.getvalue().splitlines()
    ]
    (tmp_path / "ada.jsonl").write_bytes(body)
    bea = owner | {"user_id": "bea"}
    await import_source(memory, str(tmp_path / "ada.jsonl"), ImportOptions("export", *bea.values()))
    assert [fact.text async for fact in memory.facts(**bea)] == ["My dog Rex is afraid of thunder."]


async def test_queued_turns_wait_for_a_worker(client: httpx.AsyncClient, memory: GraphMemory, owner: Owner) -> None:
    answer = await client.post("/turns", params={"queue": True}, json=REX)
    assert (answer.status_code, answer.json()) == (202, {"queued": 1})
    assert (await read_json(client.get("/facts")))["items"] == []
    [report] = await memory.resume(**owner)
    assert report.turns == 1
    assert len((await read_json(client.get("/facts")))["items"]) == 1
    check_problem(await client.post("/turns", params={"queue": True}, json=REX | {"metadata": {"a": 1}}), 400, "queue")


# -- the same request again -------------------------------------------------------------------------------------


async def test_a_repeated_request_stores_nothing_twice(client: httpx.AsyncClient) -> None:
    texts = ["My dog Rex is afraid of thunder.", "My cat Tom lives in Porto."]
    said = {"session_id": "s1", "turns": [{"author": "user", "text": text} for text in texts]}
    check_problem(await client.post("/turns", json=said), 422, "Idempotency-Key")
    key = {"Idempotency-Key": "request-1"}
    assert (await read_json(client.post("/turns", json=said, headers=key)))["turns"] == 2
    assert (await read_json(client.post("/turns", json=said, headers=key)))["turns"] == 0
    other = {"session_id": "s1", "turns": [{"author": "user", "text": "My horse Bo lives in Faro."}]}
    check_problem(await client.post("/turns", json=other, headers=key), 409, "Idempotency-Key")
    check_problem(await client.post("/turns", params={"queue": True}, json=other, headers=key), 409)
    assert (await read_json(client.post("/turns", json=other, headers={"Idempotency-Key": "request-2"})))["turns"] == 1
    facts = (await read_json(client.get("/facts")))["items"]
    assert sorted(fact["text"] for fact in facts) == sorted([*texts, "My horse Bo lives in Faro."])


async def test_a_key_is_good_for_one_request_at_a_time_and_for_one_speaker(client: httpx.AsyncClient) -> None:
    key, texts = {"Idempotency-Key": "request-1"}, ["My dog Rex is afraid of thunder.", "My cat Tom lives in Porto."]
    bodies = [{"session_id": "s1", "turns": [{"author": "user", "text": text}]} for text in texts]
    answers = await asyncio.gather(*(client.post("/turns", json=body, headers=key) for body in bodies * 2))
    assert sorted(answer.status_code for answer in answers) == [200, 200, 409, 409]
    assert sum(answer.json().get("turns", 0) for answer in answers) == 1
    [fact] = (await read_json(client.get("/facts")))["items"]
    for other in ({"author": "Bo"}, {"role": "model"}):
        said = {"session_id": "s1", "turns": [{"author": "user", "text": fact["text"]} | other]}
        check_problem(await client.post("/turns", json=said, headers=key), 409, "author")
    assert (await read_json(client.get("/facts")))["items"] == [fact]


async def test_a_known_id_with_other_words_is_an_edit(client: httpx.AsyncClient) -> None:
    await read_json(client.post("/turns", json=REX))
    edited = {"session_id": "s1", "turns": [{"id": "t1", "author": "user", "text": "My dog Rex likes thunder."}]}
    await read_json(client.post("/turns", json=edited))
    assert [fact["text"] for fact in (await read_json(client.get("/facts")))["items"]] == ["My dog Rex likes thunder."]


async def test_what_an_agent_said_is_the_agents_word(client: httpx.AsyncClient) -> None:
    turn = {"id": "t1", "author": "companion", "role": "model", "text": "Your dog Rex likes carrots."}
    await read_json(client.post("/turns", json={"session_id": "s1", "turns": [turn]}))
    [memory, *_] = (await read_json(client.post("/recall", json={"question": "What does Rex like?"})))["memories"]
    assert memory["origin"] == "agent"


# -- for whom ---------------------------------------------------------------------------------------------------


def make_path(owner: Owner, rest: str = "/profile") -> str:
    return f"/v1/apps/{owner['app_name']}/users/{owner['user_id']}{rest}"


async def test_a_token_opens_one_user_or_all_of_an_app(memory: GraphMemory, owner: Owner, stranger: Owner) -> None:
    app = make_http_app(memory, get_owner)
    foreign = owner | {"app_name": "another"}
    for user_id, opened in ((owner["user_id"], [owner]), (None, [owner, stranger])):
        guarded = BearerAccess(app, SecretVerifier(SECRET, (owner["app_name"], user_id)))
        async with connect(guarded, SECRET) as client:
            for whose in (owner, stranger, foreign):
                answer = await client.get(make_path(whose))
                if whose in opened:
                    assert answer.status_code == 200
                else:
                    check_problem(answer, 403, "may not use this memory")
            nobody = await client.get(make_path(owner | {"app_name": "another", "user_id": "nobody"}))
            assert nobody.content == (await client.get(make_path(foreign))).content
    async with connect(BearerAccess(app, SecretVerifier(SECRET, (owner["app_name"], None)))) as client:
        for value in (None, "Bearer", f"Basic {SECRET}", "Bearer no", SECRET):
            answer = await client.get(make_path(owner), headers={"Authorization": value} if value else {})
            check_problem(answer, 401, "Authorization: Bearer")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_text_that_looks_like_a_shared_memory_opens_none(memory: GraphMemory, owner: Owner) -> None:
    async with connect(make_http_app(memory, lambda request: (owner["app_name"], None))) as client:
        for user_id in (":app:", ":group:family"):
            check_problem(await client.get(make_path(owner | {"user_id": user_id})), 400, "cannot be a user's id")


async def test_a_signed_token_opens_its_subjects_memory_alone(
    memory: GraphMemory, owner: Owner, stranger: Owner, tmp_path: Path
) -> None:
    private, file = ec.generate_private_key(ec.SECP256R1()), tmp_path / "key.pem"
    file.write_bytes(
        private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    verifier = JwtVerifier(owner["app_name"], str(file), audience="memory")
    claims = {"sub": owner["user_id"], "aud": "memory", "exp": datetime.now(UTC) + timedelta(minutes=5)}
    async with connect(BearerAccess(make_http_app(memory, get_owner), verifier)) as client:

        async def ask(path: str, **changed: Any) -> httpx.Response:
            token = jwt.encode(claims | changed, private, algorithm="ES256")
            return await client.get(path, headers={"Authorization": f"Bearer {token}"})

        assert (await ask(make_path(owner))).status_code == 200
        check_problem(await ask(make_path(stranger)), 403)
        check_problem(await ask(make_path(owner), exp=datetime.now(UTC) - timedelta(minutes=5)), 401)
        check_problem(await ask(make_path(owner), aud="others"), 401)


async def test_only_the_servers_own_names_are_answered(memory: GraphMemory, owner: Owner) -> None:
    app = HostCheck(make_http_app(memory, lambda request: (owner["app_name"], None)), "Memory.example.org")
    async with connect(app) as client:
        for host, status in (
            *((name, 200) for name in ("localhost", "127.0.0.1:80", "memory.example.org", "MEMORY.example.org:443")),
            *((name, 421) for name in ("evil.example", "localhost.evil.example", "evil.example:7690", "localhost:x")),
        ):
            assert (await client.get(make_path(owner), headers={"Host": host})).status_code == status, host
        for origin, status in (
            *((name, 200) for name in ("http://localhost:3000", "https://memory.example.org")),
            *((name, 403) for name in ("https://evil.example", "null", "file://localhost", "http://localhost@evil")),
        ):
            answer = await client.get(make_path(owner), headers={"Origin": origin})
            assert answer.status_code == status, origin
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_no_cookie_is_read_or_set(memory: GraphMemory, owner: Owner) -> None:
    app = BearerAccess(make_http_app(memory, get_owner), SecretVerifier(SECRET, (owner["app_name"], None)))
    async with connect(app) as client:
        answer = await client.get(make_path(owner), headers={"Cookie": f"Authorization={SECRET}; token={SECRET}"})
        check_problem(answer, 401)
        answer = await client.get(make_path(owner), headers={"Authorization": f"Bearer {SECRET}"})
        assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)


async def test_without_write_memory_can_only_be_read(memory: GraphMemory, owner: Owner) -> None:
    await memory.remember([Turn("t1", "user", "My dog Rex is afraid of thunder.", NOON)], session_id="s1", **owner)
    async with connect(make_http_app(memory, lambda request: (owner["app_name"], None), write=False)) as client:
        assert "Rex" in (await client.post(make_path(owner, "/recall"), json={"question": "Rex?"})).text
        for method, rest in (("POST", "/turns"), ("POST", "/undo"), ("DELETE", "/memories/x"), ("DELETE", "")):
            answer = await client.request(method, make_path(owner, rest), json={} if method == "POST" else None)
            check_problem(answer, 403, "read-only")
        check_problem(await client.post(make_path(owner, "/nothing"), json={}), 404, "/openapi.json")
        routes = (await client.get("/openapi.json")).json()["paths"]
        assert {method for route in routes.values() for method in route} == {"get", "post"}
        assert [name for name, route in routes.items() if "post" in route] == [
            "/v1/apps/{app_name}/users/{user_id}/recall"
        ]


async def test_it_is_mounted_beside_adks_own_application(memory: GraphMemory, owner: Owner, tmp_path: Path) -> None:
    app: FastAPI = get_fast_api_app(agents_dir=str(tmp_path), web=False)

    async def identify(request: Any) -> tuple[str, str] | None:
        name = request.headers.get("X-Authenticated-User")
        return (owner["app_name"], name) if name else None

    app.mount("/memory", make_http_app(memory, identify))
    async with connect(app) as client:
        as_ada = {"X-Authenticated-User": owner["user_id"]}
        answer = await client.post(f"/memory{make_path(owner, '/turns')}", json=REX, headers=as_ada)
        assert answer.status_code == 200, answer.text
        check_problem(await client.get(f"/memory{make_path(owner)}"), 403)
        check_problem(await client.get(f"/memory{make_path(owner | {'user_id': 'x%2Fy'})}", headers=as_ada), 422)
        assert (await client.get("/memory/openapi.json")).status_code == 200


def test_who_is_asking_has_to_be_told(memory: GraphMemory) -> None:
    with pytest.raises(errors.InvalidArgument, match="no function"):
        make_http_app(memory, None)  # type: ignore[arg-type]


# -- requests that nobody should send ---------------------------------------------------------------------------


ODD_IDS = [".", "..", "%2e%2e", "x%2Fy", "ada%2Fmemories%2Ft1", "..%2f..%2fopenapi.json", "a%5Cb"]
ODD_IDS += ["%00", "a%0Ab", "%20", "%ED%A0%80", "%FF", "\xff"]


@pytest.mark.parametrize("id", ODD_IDS)
async def test_ids_that_lead_elsewhere_are_refused(memory: GraphMemory, owner: Owner, id: str) -> None:
    app = make_http_app(memory, lambda request: (owner["app_name"], None))
    for path in (make_path(owner | {"user_id": id}), make_path(owner | {"app_name": id})):
        status, body = await send_raw(app, "DELETE", path.removesuffix("/profile"), b"confirm=x")
        assert (status, json.loads(body)["status"]) == (422, 422), (path, body)


async def send_raw(app: Any, method: str, raw_path: str, query: bytes = b"") -> tuple[int, bytes]:
    """Send a path that no client would send, as a server hands it on."""
    sent: list[Any] = []
    scope = {"type": "http", "method": method, "path": httpx.URL(f"http://x{raw_path}").path, "headers": []}
    scope |= {"raw_path": raw_path.encode("latin-1"), "query_string": query, "root_path": "", "http_version": "1.1"}

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope | {"scheme": "http", "server": ("127.0.0.1", 7690), "client": None}, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


async def test_odd_ids_are_ids(memory: GraphMemory, owner: Owner) -> None:
    async with connect(make_http_app(memory, lambda request: (owner["app_name"], None))) as client:
        for user_id in ("José%20ü", "a%252Fb", "100%25", "a+b@c", "..."):
            path = make_path(owner | {"user_id": user_id}, "/turns")
            assert (await client.post(path, json=REX)).status_code == 200, user_id
        users = {user.user_id async for user in memory.users(app_name=owner["app_name"])}
        assert users == {"José ü", "a%2Fb", "100%", "a+b@c", "..."}
        check_problem(await client.get(make_path(owner | {"user_id": "x" * 9_000})), 400, "bytes")
        check_problem(await client.get(make_path(owner, "/entities/AC%2FDC")), 404, "AC/DC")


def make_turn(**fields: Any) -> dict[str, Any]:
    return {"session_id": "s1", "turns": [{"id": "t1", "author": "user", "text": "I live in Porto."} | fields]}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 422, "session_id"),
        ({"session_id": "s", "turns": []}, 422, "turns"),
        ({"session_id": "s", "turns": [{"id": "t", "author": "user", "text": " \u200b"}]}, 422, "turns.0.text"),
        (
            {"session_id": "s", "turns": [{"id": "t", "author": "user", "text": "x", "user_id": "bruno"}]},
            422,
            "user_id",
        ),
        ({"session_id": "s", "turns": [{"id": "t", "author": " ", "text": "x"}]}, 400, "names nobody"),
        (
            {"session_id": "s", "turns": [{"id": "t", "author": "user", "text": "x", "at": "2026-03-02T12:00"}]},
            422,
            "at",
        ),
        ({"session_id": ":owner:", "turns": [{"id": "t", "author": "user", "text": "x"}]}, 400, "session id"),
        ({"session_id": "s", "turns": [{"id": "t", "author": "user", "text": "\ud800"}]}, 422, "half of a character"),
        (REX | {"metadata": {"k": "\ud83d"}}, 422, "half of a character"),
        (REX | {"session_id": "x" * 9_000}, 400, "bytes"),
        (REX | {"metadata": json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)}, 422, "metadata"),
        (REX | {"metadata": {"a": json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)}}, 422, "nested deeper"),
    ],
)
async def test_what_cannot_be_stored_is_named(
    client: httpx.AsyncClient, body: dict[str, Any], status: int, words: str
) -> None:
    check_problem(await client.post("/turns", content=json.dumps(body), headers=JSON), status, words)
    assert (await read_json(client.get("/facts")))["items"] == []


JSON = {"Content-Type": "application/json"}


async def test_a_body_is_bounded_in_size_and_depth(client: httpx.AsyncClient) -> None:
    large = b'{"question": "' + b"x" * application.MAX_BODY_BYTES + b'"}'

    async def send_chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 1 << 16):
            yield large[start : start + (1 << 16)]

    for content in (large, send_chunks()):
        check_problem(await client.post("/recall", content=content, headers=JSON), 413, "fewer turns")
    for length in ("-1", "9" * 5_000):
        check_problem(await client.post("/recall", content=b"{}", headers=JSON | {"Content-Length": length}), 413)
    for deep in (b"[" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000):
        check_problem(await client.post("/recall", content=deep, headers=JSON), 400, "not nested deeply")
    for content, status in ((b"{", 422), (b"\xff", 400), (b"9" * 10_000, 400), (b"", 422), (b'"text"', 422)):
        check_problem(await client.post("/recall", content=content, headers=JSON), status)
    check_problem(await client.post("/recall", json={"question": " "}), 422, "question")
    check_problem(await client.post("/recall", json={"question": "x" * 5_000}), 422, "4000")
    check_problem(await client.post("/nothing", json={}), 404, "/openapi.json")
    check_problem(await client.put("/facts", json={}), 405, "/openapi.json")


async def test_a_database_or_a_model_that_fails_is_said_without_its_name(neo4j_server: Any, owner: Owner) -> None:
    settings = neo4j_server.settings(label_prefix="TestHash", model_retries=0)
    model = ScriptedLlm.from_replies("no JSON", "no JSON", "no JSON")
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        await check_unavailable(memory, owner)
    settings = neo4j_server.settings(database_timeout=2).model_copy(update={"uri": "bolt://127.0.0.1:1"})
    async with GraphMemory(settings=settings, model="rules", embedder=False) as memory:
        await check_unavailable(memory, owner)


async def check_unavailable(memory: GraphMemory, owner: Owner) -> None:
    async with connect(make_http_app(memory, lambda request: (owner["app_name"], owner["user_id"]))) as client:
        answer = await client.post(make_path(owner, "/turns"), json=REX)
    check_problem(answer, 503)
    assert (answer.json()["detail"], answer.headers["retry-after"]) == (UNAVAILABLE, "5")
    assert "error" not in answer.json()


@pytest.mark.slow
async def test_a_stopped_database_is_said_soon_and_logged_once_an_outage(
    neo4j_server: Any, owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    path, question = make_path(owner, "/recall"), {"question": "What is Rex afraid of?"}
    with Wire(neo4j_server.uri) as wire:
        settings = neo4j_server.settings(label_prefix="TestHash", database_timeout=60)
        settings = settings.model_copy(update={"uri": wire.uri})
        async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as memory:
            app = make_http_app(memory, lambda request: (owner["app_name"], owner["user_id"]))
            async with connect(app) as client:
                for _ in range(2):
                    wire.mend()
                    await read_json(client.post(path, json=question))
                    wire.refuse()
                    async with asyncio.timeout(30):  # and not the minute that a silent server has
                        for _ in range(2):
                            answer = await client.post(path, json=question)
                            check_problem(answer, 503)
                            assert (answer.json()["detail"], answer.headers["retry-after"]) == (UNAVAILABLE, "5")
    lines = [record for record in caplog.records if record.name.startswith("adk_graph_memory")]
    assert ["cannot be reached" in record.message for record in lines] == [True, True], caplog.text
    assert not any(record.exc_info for record in lines)


# -- the command ------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_running_request_ends_before_the_server_does(
    neo4j_server: Any, owner: Owner, tmp_path: Path, memory: GraphMemory
) -> None:
    async with serve(neo4j_server, owner["app_name"], tmp_path / "token") as (process, client):
        assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
        host, port = client.base_url.host, client.base_url.port
        reader, writer = await asyncio.open_connection(host, port)
        body = json.dumps(REX).encode()
        head = f"POST {make_path(owner, '/turns')} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n"
        head += f"Authorization: {client.headers['authorization']}\r\nExpect: 100-continue\r\n"
        writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode())
        assert b"100" in await reader.readuntil(b"\r\n\r\n")  # the request runs, and waits for its body
        process.send_signal(signal.SIGTERM)
        while await can_connect(host, port):
            pass
        writer.write(body)
        assert b"200 OK" in await reader.read()
        writer.close()
        assert await process.wait() == -signal.SIGTERM
    async with GraphMemory(settings=neo4j_server.settings(), model="rules", embedder=False) as graph:
        assert [fact.text async for fact in graph.facts(**owner)] == [REX["turns"][0]["text"]]  # type: ignore[index]


HANGING = f"""
import asyncio
from adk_graph_memory.cli import serving_commands
from adk_graph_memory.extraction.rules import RuleExtractor

async def hang(*_):
    print("reading")
    await asyncio.sleep(600)

serving_commands.GRACE_SECONDS = 1
RuleExtractor.extract = hang
{RUN}
"""


@pytest.mark.slow
async def test_turns_of_a_request_that_is_cut_off_need_not_wait_for_their_lease(
    neo4j_server: Any, owner: Owner, tmp_path: Path
) -> None:
    async with serve(neo4j_server, owner["app_name"], tmp_path / "token", code=HANGING) as (process, client):
        request = asyncio.create_task(client.post(make_path(owner, "/turns"), json=REX))
        assert process.stdout
        assert await process.stdout.readline() == b"reading\n"
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == -signal.SIGTERM
        await asyncio.gather(request, return_exceptions=True)
    async with GraphMemory(settings=neo4j_server.settings(), model="rules", embedder=False) as graph:
        assert [report.turns for report in await graph.resume(**owner)] == [1]


async def can_connect(host: str, port: int | None) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


@pytest.mark.slow
@pytest.mark.parametrize(("clients", "requests"), [(50, 40)])
async def test_clients_side_by_side_each_get_their_users_words(
    neo4j_server: Any, app_name: str, tmp_path: Path, clients: int, requests: int
) -> None:
    users = [f"user-{number}" for number in range(10)]

    async def use_memory(client: httpx.AsyncClient, number: int) -> None:
        draw, user = random.Random(number), users[number % len(users)]
        path = make_path({"app_name": app_name, "user_id": user}, "")
        for turn in range(requests):
            said = {"id": f"{number}-{turn}", "author": "user", "text": f"Cat {number}-{turn} lives in {user}-marker."}
            method, rest, body = draw.choice(
                [("POST", "/recall", {"question": "Where does my cat live?"})] * 6
                + [("GET", "/facts", None), ("GET", "/profile", None)]
                + [("POST", "/turns", {"session_id": f"s{number}", "turns": [said]})] * (turn % 10 == 0)
            )
            answer = await client.request(method, path + rest, json=body)
            assert answer.status_code == 200, answer.text
            assert not [other for other in users if other != user and f"{other}-marker" in answer.text]
            assert f"{user}-marker" in answer.text or rest in ("/turns", "/profile")

    async with serve(neo4j_server, app_name, tmp_path / "token") as (_, client):
        for user in users:
            said = {"id": "first", "author": "user", "text": f"My cat Tom lives in {user}-marker."}
            path = make_path({"app_name": app_name, "user_id": user}, "/turns")
            await read_json(client.post(path, json={"session_id": "s", "turns": [said]}))
        await asyncio.gather(*(use_memory(client, number) for number in range(clients)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "Name a file for the token"),
        (("--jwt-key", "no.pem"), "--jwt-audience"),
        (("--jwt-key", "no.pem", "--jwt-audience", "x", "--user", "ada"), "no --user"),
        (("--token-file", "token", "--host", "256.0.0.1"), "of 256.0.0.1 cannot be used"),
    ],
)
async def test_wrong_options_are_named(
    command: Callable[..., Awaitable[Any]],
    options: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = await command("serve", "--app", "home", *options)
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())
