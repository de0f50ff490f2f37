"""What the services do can be followed in spans and metrics, and nobody's words or name are in them unasked."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions.session import Session
from google.genai import types
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from adk_graph_memory import Neo4jArtifactService, Neo4jMemoryService, Neo4jSessionService, errors
from adk_graph_memory.adk.plugin import describe_session
from adk_graph_memory.graph import ingest_queue
from adk_graph_memory.memory.background import BackgroundLoop, IngestWorker, TurnBuffer
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import Turn
from adk_graph_memory.runtime import telemetry
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm

PREFIX = "TestHash"
"""Vectors are a database's own: under this prefix they are all HashEmbedder's."""
SWITCH = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
USER = "ada-lovelace"
SECRET = "periwinkle"
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


class Seen:
    """What a provider of this test's own takes in."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(), MeterProvider([self._reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def clear(self) -> None:
        self._exporter.clear()

    def named(self, name: str, kind: SpanKind = SpanKind.INTERNAL) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name and span.kind is kind]

    def one(self, name: str, kind: SpanKind = SpanKind.INTERNAL) -> ReadableSpan:
        [span] = self.named(name, kind)
        return span

    def under(self, parent: ReadableSpan) -> list[ReadableSpan]:
        return [span for span in self.spans if span.parent and span.parent.span_id == parent.context.span_id]

    def points(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self._reader.get_metrics_data()
        scopes = [scope for resource in (data.resource_metrics if data else ()) for scope in resource.scope_metrics]
        metrics = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        return [point for metric in metrics for point in metric.data.data_points]

    def everything(self) -> str:
        """All that an operator would get to read."""
        data = self._reader.get_metrics_data()
        return "\n".join([*(span.to_json() for span in self.spans), data.to_json() if data else ""])


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    # A process has one global provider for good, so what is swapped here is what stands before it.
    made = Seen()
    monkeypatch.setattr(telemetry, "tracer", made.tracers.get_tracer("test"))
    monkeypatch.setattr(telemetry, "active_instruments", telemetry.Instruments(made.meters.get_meter("test")))
    yield made
    made.meters.shutdown()


class World:
    """One fresh app on our three services."""

    def __init__(self, server: Any, app_name: str) -> None:
        self.app_name, self._settings = app_name, server.settings(label_prefix=PREFIX, model_retries=0)
        self.server = (server.uri, self._settings.database)
        self.memory = self.reading("rules")
        self.sessions = Neo4jSessionService(settings=self._settings)
        self.artifacts = Neo4jArtifactService(settings=self._settings)

    def reading(self, model: Any, **chosen: Any) -> Neo4jMemoryService:
        return Neo4jMemoryService(settings=self._settings, embedder=HashEmbedder(), model=model, **chosen)

    @property
    def owner(self) -> dict[str, str]:
        return {"app_name": self.app_name, "user_id": USER}

    def session(self, *texts: str, id: str = "monday", user_id: str = USER) -> Session:
        return Session(id=id, app_name=self.app_name, user_id=user_id, events=[said(text) for text in texts])

    async def prepare(self) -> None:
        await self.memory.prepare()
        await self.sessions.prepare()
        await self.artifacts.prepare()


@pytest.fixture
async def world(neo4j_server: Any, app_name: str, seen: Seen) -> AsyncIterator[World]:
    made = World(neo4j_server, app_name)
    async with made.memory, made.sessions, made.artifacts:
        await made.prepare()
        seen.clear()
        yield made


def said(text: str) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", invocation_id="i", content=content, timestamp=NOON.timestamp())


def told(text: str) -> MemoryEntry:
    return MemoryEntry(content=types.Content(role="user", parts=[types.Part(text=text)]))


def answered(*facts: str) -> LlmResponse:
    """A model's reply that holds these facts, and what it cost."""
    listed = [
        {"ref": n, "subject": 1, "predicate": "says", "turns": [0], "text": fact, "quote": fact}
        for n, fact in enumerate(facts)
    ]
    text = json.dumps({"entities": [{"ref": 1, "name": "user"}], "facts": listed})
    return LlmResponse(
        content=types.Content(role="model", parts=[types.Part(text=text)]),
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=100, candidates_token_count=20, cached_content_token_count=64
        ),
    )


# -- spans of operations ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_search_is_a_span_that_says_how_much_was_found(world: World, seen: Seen) -> None:
    await world.memory.add_session_to_memory(world.session("My dog is called Rex."))
    answer = await world.memory.search_memory(query="What is my dog called?", **world.owner)
    span = seen.one("search_memory")
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.memory.store.id": f"neo4j/{PREFIX}",
        "gen_ai.memory.record.count": len(answer.memories),
    }
    assert len(answer.memories) > 0


@pytest.mark.slow
async def test_the_statements_of_a_search_stand_below_it_though_threads_run_them(world: World, seen: Seen) -> None:
    await world.memory.add_session_to_memory(world.session("My dog is called Rex."))
    seen.clear()
    await world.memory.search_memory(query="What is my dog called?", **world.owner)
    below = [span.name for span in seen.under(seen.one("search_memory"))]
    assert below[-1] == "results"
    assert below[-2].startswith("candidates_")
    assert len(below) == len(seen.spans) - 1


@pytest.mark.slow
async def test_remembering_a_session_is_an_upsert_that_names_the_session(world: World, seen: Seen) -> None:
    await world.memory.add_session_to_memory(world.session("My dog is called Rex.", "He is three."))
    span = seen.one("upsert_memory")
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "upsert_memory",
        "gen_ai.memory.store.id": f"neo4j/{PREFIX}",
        "gen_ai.conversation.id": "monday",
        "gen_ai.memory.record.count": 2,
    }
    below = {one.name for one in seen.under(span)}
    assert below >= {"unread_turns", "claim_turns", "finish_ingest", "write_events", "write_facts"}
    assert len(seen.spans) == len(seen.under(span)) + 1


@pytest.mark.slow
async def test_events_without_a_session_name_none(world: World, seen: Seen) -> None:
    await world.memory.add_events_to_memory(events=[said("My dog is called Rex.")], **world.owner)
    assert "gen_ai.conversation.id" not in (seen.one("upsert_memory").attributes or {})


async def test_a_memory_that_is_told_is_created_and_a_forgotten_one_deleted_by_its_id(world: World, seen: Seen) -> None:
    await world.memory.add_memory(memories=[told("Ada keeps bees.")], **world.owner)
    [entry] = (await world.memory.search_memory(query="bees", **world.owner)).memories
    await world.memory.delete_memory(memory_id=entry.id, **world.owner)
    assert (seen.one("create_memory").attributes or {})["gen_ai.memory.record.count"] == 1
    deleted = dict(seen.one("delete_memory").attributes or {})
    assert (deleted["gen_ai.memory.record.id"], deleted["gen_ai.memory.record.count"]) == (entry.id, 1)
    assert "erase_statements" in [span.name for span in seen.under(seen.one("delete_memory"))]


@pytest.mark.slow
async def test_each_method_of_the_session_service_is_a_span_of_its_name_and_session(world: World, seen: Seen) -> None:
    session = await world.sessions.create_session(**world.owner)
    await world.sessions.append_event(session, said("Hello."))
    named = {**world.owner, "session_id": session.id}
    await world.sessions.get_session(**named)
    await world.sessions.list_events(**named)
    await world.sessions.delete_state_keys(session, ["mood"])
    await world.sessions.close_session(session=session)
    await world.sessions.delete_session(**named)
    tops = [span for span in seen.spans if span.parent is None]
    assert [span.name for span in tops] == [
        "create_session",
        "append_event",
        "get_session",
        "list_events",
        "delete_state_keys",
        "close_session",
        "delete_session",
    ]
    for span in tops:
        assert span.attributes == {"gen_ai.operation.name": span.name, "gen_ai.conversation.id": session.id}
        assert seen.under(span)


@pytest.mark.slow
async def test_appends_that_share_a_transaction_are_linked_to_its_trace(world: World, seen: Seen) -> None:
    users = [{**world.owner, "user_id": name} for name in ("ann", "bob", "cleo")]
    sessions = [await world.sessions.create_session(**user) for user in users]
    seen.clear()
    await asyncio.gather(*(world.sessions.append_event(session, said("Hello.")) for session in sessions))
    shared, first, *others = seen.one("append_together"), *seen.named("append_event")
    assert [span.name for span in seen.under(first)] == ["append_events"]
    assert [span.name for span in seen.under(shared)] == ["append_events"]
    assert shared.parent is None
    assert {link.context.span_id for link in shared.links} == {span.context.span_id for span in others}


async def test_what_is_about_no_session_names_none(world: World, seen: Seen) -> None:
    await world.sessions.create_session(session_id="monday", **world.owner)
    seen.clear()
    await world.sessions.list_sessions(**world.owner)
    await world.sessions.get_user_state(**world.owner)
    assert [span.name for span in seen.spans if span.parent is None] == ["list_sessions", "get_user_state"]
    assert "gen_ai.conversation.id" not in seen.everything()


async def test_artifacts_are_saved_and_loaded_in_spans(world: World, seen: Seen) -> None:
    named = {**world.owner, "session_id": "monday", "filename": "bees.txt"}
    await world.artifacts.save_artifact(artifact=types.Part.from_text(text="About bees."), **named)
    await world.artifacts.load_artifact(**named)
    await world.artifacts.load_artifact(**{**named, "session_id": None, "filename": "user:bees.txt"})
    saved, loaded, of_user = (span for span in seen.spans if span.parent is None)
    assert (saved.name, loaded.name, of_user.name) == ("save_artifact", "load_artifact", "load_artifact")
    assert saved.attributes == {"gen_ai.operation.name": "save_artifact", "gen_ai.conversation.id": "monday"}
    assert of_user.attributes == {"gen_ai.operation.name": "load_artifact"}
    assert all(seen.under(span) for span in (saved, loaded, of_user))
    assert "bees" not in seen.everything()


@pytest.mark.parametrize("service", [Neo4jSessionService, Neo4jArtifactService])
def test_whoever_asks_sees_each_methods_own_parameters(service: type) -> None:
    # ADK's API server passes on the options that a method's signature takes.
    for name, method in inspect.getmembers(service, inspect.iscoroutinefunction):
        assert "self" in inspect.signature(method).parameters, name
    assert "ttl" in inspect.signature(Neo4jSessionService.create_session).parameters


@pytest.mark.slow
async def test_the_model_that_reads_is_a_span_with_what_it_cost(world: World, seen: Seen) -> None:
    memory = world.reading(ScriptedLlm.from_replies(answered("I keep bees")))
    async with memory:
        await memory.add_session_to_memory(world.session("I keep bees"))
    span = seen.one("chat scripted", SpanKind.CLIENT)
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "ScriptedLlm",
        "gen_ai.request.model": "scripted",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 64,
    }
    assert span in seen.under(seen.one("upsert_memory"))


# -- statements -------------------------------------------------------------------------------------------------


async def test_a_statement_is_a_client_span_by_the_name_of_its_block(world: World, seen: Seen) -> None:
    await world.sessions.create_session(session_id="monday", **world.owner)
    span, *_ = seen.under(seen.one("create_session"))
    uri, database = world.server
    host, _, port = uri.rpartition("/")[2].partition(":")
    assert span.kind is SpanKind.CLIENT
    assert dict(span.attributes or {}) == {
        "db.system.name": "neo4j",
        "db.namespace": database,
        "db.query.summary": span.name,
        "server.address": host,
        "server.port": int(port),
    }
    assert span.name in world.sessions._connection.statements


async def test_a_callers_own_driver_has_no_address_that_we_know(world: World, seen: Seen) -> None:
    driver = await world.sessions._connection.get_driver()
    service = Neo4jSessionService(driver=driver, settings=world._settings)
    await service.get_user_state(**world.owner)
    statements = [span.attributes or {} for span in seen.spans if span.kind is SpanKind.CLIENT]
    assert statements
    assert not any("server.address" in attributes for attributes in statements)


# -- errors -----------------------------------------------------------------------------------------------------


async def test_an_error_marks_the_operation_and_the_statement_that_it_comes_from(world: World, seen: Seen) -> None:
    await world.sessions.create_session(session_id=SECRET, **world.owner)
    seen.clear()
    with pytest.raises(AlreadyExistsError):
        await world.sessions.create_session(session_id=SECRET, **world.owner)
    operation = seen.one("create_session")
    assert (operation.attributes or {})["error.type"] == "AlreadyExistsError"
    [statement] = [span for span in seen.under(operation) if not span.status.is_ok]
    code = "Neo.ClientError.Schema.ConstraintValidationFailed"
    attributes = statement.attributes or {}
    assert (attributes["error.type"], attributes["db.response.status_code"]) == (code, code)
    for span in (operation, statement):
        assert (span.status.status_code, span.status.description, span.events) == (StatusCode.ERROR, None, ())


async def test_a_refused_statement_has_the_servers_code_though_callers_get_our_error(world: World, seen: Seen) -> None:
    with pytest.raises(errors.QueryFailed):
        await world.sessions._connection.run_cypher("This is no Cypher")
    assert (seen.one("schema", SpanKind.CLIENT).attributes or {})[
        "error.type"
    ] == "Neo.ClientError.Statement.SyntaxError"


async def test_a_server_that_is_away_is_an_error_of_the_operation(seen: Seen) -> None:
    memory = Neo4jMemoryService("bolt://127.0.0.1:9", embedder=False)
    async with memory:
        memory.memory.connection._overrides |= {"database_timeout": 0.5}
        with pytest.raises(errors.DatabaseUnavailable):
            await memory.search_memory(app_name="a", user_id=USER, query="bees")
    span = seen.one("search_memory")
    assert (span.attributes or {})["error.type"] == "DatabaseUnavailable"
    [point] = seen.points("gen_ai.client.operation.duration")
    assert point.attributes["error.type"] == "DatabaseUnavailable"


async def test_a_missing_configuration_is_an_error_of_the_operation_too(seen: Seen) -> None:
    async with Neo4jMemoryService(embedder=False) as memory:
        with pytest.raises(errors.NoDatabaseConfigured):
            await memory.search_memory(app_name="a", user_id=USER, query="bees")
    assert (seen.one("search_memory").attributes or {})["error.type"] == "NoDatabaseConfigured"


# -- whose words ------------------------------------------------------------------------------------------------


async def everything_is_done(world: World, text: str) -> None:
    memory = world.reading(ScriptedLlm.from_replies(answered(text), answered(text), RuntimeError(text)))
    async with memory:
        session = await world.sessions.create_session(state={"user:mood": text}, **world.owner)
        await world.sessions.append_event(session, said(text))
        await memory.add_session_to_memory(session)
        await memory.add_memory(memories=[told(text)], **world.owner)
        found = (await memory.search_memory(query=text, **world.owner)).memories
        await memory.delete_memory(memory_id=found[0].id, **world.owner)
        with pytest.raises(errors.ModelFailed, match=text):
            await memory.add_session_to_memory(world.session(text, id="tuesday"))
        await world.artifacts.save_artifact(filename="f", artifact=types.Part.from_text(text=text), **world.owner)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [None, "", "NO_CONTENT", "EVENT_ONLY", "true", "nonsense"])
async def test_nobodys_words_and_no_users_name_are_told_unasked(
    world: World, seen: Seen, monkeypatch: pytest.MonkeyPatch, mode: str | None
) -> None:
    if mode is not None:
        monkeypatch.setenv(SWITCH, mode)
    await everything_is_done(world, SECRET)
    everything = seen.everything()
    assert "search_memory" in everything
    assert "gen_ai.client.token.usage" in everything
    for word in (SECRET, USER, world.app_name, Scope(world.app_name, USER).key):
        assert word not in everything


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["SPAN_ONLY", "span_and_event "])
async def test_on_the_switch_spans_hold_the_question_and_the_memories(
    world: World, seen: Seen, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv(SWITCH, mode)
    await world.memory.add_session_to_memory(world.session("My dog is called Rex."))
    await world.memory.search_memory(query="Who is Rex?", **world.owner)
    attributes = seen.one("search_memory").attributes or {}
    assert attributes["gen_ai.memory.query.text"] == "Who is Rex?"
    best = json.loads(str(attributes["gen_ai.memory.records"]))[0]
    assert best["content"] == "My dog is called Rex."
    assert 0 < best["score"] <= 1
    assert best["id"]
    stored = json.loads(str((seen.one("upsert_memory").attributes or {})["gen_ai.memory.records"]))
    assert [(one["content"], one["metadata"]) for one in stored] == [("My dog is called Rex.", {"author": "user"})]
    assert USER not in seen.everything()


async def test_what_is_redacted_is_redacted_in_spans_too(
    world: World, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "SPAN_ONLY")
    async with world.reading("rules", redact=lambda text: text.replace(SECRET, "[gone]")) as memory:
        await memory.add_session_to_memory(world.session(f"The word is {SECRET}."))
        await memory.add_memory(memories=[told(f"It is {SECRET}.")], **world.owner)
        await memory.search_memory(query=f"What is {SECRET}?", **world.owner)
    assert (seen.one("search_memory").attributes or {})["gen_ai.memory.query.text"] == "What is [gone]?"
    assert SECRET not in seen.everything()


@pytest.mark.slow
async def test_users_at_the_same_time_do_not_mix(world: World, seen: Seen) -> None:
    users = [f"user{number}" for number in range(8)]

    async def talk(user_id: str) -> None:
        await world.memory.add_session_to_memory(world.session("I keep bees.", id=f"of-{user_id}", user_id=user_id))
        await world.memory.search_memory(app_name=world.app_name, user_id=user_id, query="bees")

    await asyncio.gather(*map(talk, users))
    upserts, searches = seen.named("upsert_memory"), seen.named("search_memory")
    assert {(span.attributes or {})["gen_ai.conversation.id"] for span in upserts} == {f"of-{user}" for user in users}
    for span in (*upserts, *searches):
        below = seen.under(span)
        assert {one.context.trace_id for one in below} == {span.context.trace_id}
        assert sum(one.name in ("results", "finish_ingest") for one in below) == 1
    tops = {span.context.span_id for span in (*upserts, *searches)}
    assert {span.parent.span_id for span in seen.spans if span.parent} == tops


# -- metrics ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_searches_and_statements_are_timed(world: World, seen: Seen) -> None:
    await world.memory.search_memory(query="bees", **world.owner)
    [search] = seen.points("gen_ai.client.operation.duration")
    assert (search.attributes, search.count) == ({"gen_ai.operation.name": "search_memory"}, 1)
    assert search.explicit_bounds[:2] == (0.01, 0.02)
    statements = {point.attributes["db.query.summary"]: point for point in seen.points("db.client.operation.duration")}
    [candidates] = [point for name, point in statements.items() if name.startswith("candidates_")]
    assert (candidates.count, candidates.attributes["db.system.name"]) == (1, "neo4j")
    assert 0 < candidates.sum < search.sum


async def test_sessions_do_not_count_among_operations_on_memory(world: World, seen: Seen) -> None:
    await world.sessions.create_session(**world.owner)
    assert seen.points("gen_ai.client.operation.duration") == []


@pytest.mark.slow
async def test_facts_are_counted_by_operation_and_tokens_by_direction(world: World, seen: Seen) -> None:
    async with world.reading(
        ScriptedLlm.from_replies(answered("I keep bees", "I like tea"), answered("I keep bees"))
    ) as memory:
        await memory.add_session_to_memory(world.session("I keep bees. I like tea."))
        await memory.add_session_to_memory(world.session("I keep bees", id="tuesday"))
    await world.memory.add_memory(memories=[told("Ada has a horse.")], **world.owner)
    facts = {point.attributes["adk_graph_memory.op"]: point.value for point in seen.points("adk_graph_memory.facts")}
    assert facts == {"ADD": 3, "REINFORCE": 1}
    tokens = seen.points("gen_ai.client.token.usage")
    assert {point.attributes["gen_ai.token.type"]: (point.count, point.sum) for point in tokens} == {
        "input": (2, 200),
        "output": (2, 40),
    }


@pytest.mark.slow
async def test_nothing_new_adds_nothing_to_the_counts(world: World, seen: Seen) -> None:
    session = world.session("My dog is called Rex.")
    await world.memory.add_session_to_memory(session)
    before = [point.value for point in seen.points("adk_graph_memory.facts")]
    await world.memory.add_session_to_memory(session)
    assert [point.value for point in seen.points("adk_graph_memory.facts")] == before
    assert [point.count for point in seen.points("adk_graph_memory.ingest.lag")] == [1]


@pytest.mark.slow
async def test_the_lag_goes_from_the_request_to_the_commit_however_long_it_was_queued(world: World, seen: Seen) -> None:
    memory = world.memory.memory
    for number in range(2):  # two requests of one session are read as one
        turn = Turn(f"t{number}", "user", f"I keep {number} bees.", NOON)
        await memory.user(**world.owner).enqueue([turn], session_id="monday")
        await asyncio.sleep(0.4)
    assert seen.points("adk_graph_memory.ingest.lag") == []
    await memory.resume(app_name=world.app_name)
    [lag] = seen.points("adk_graph_memory.ingest.lag")
    assert lag.count == 1
    assert lag.min >= 0.75


@pytest.mark.slow
async def test_what_waits_of_an_app_is_counted(world: World, seen: Seen) -> None:
    memory = world.memory.memory
    for number in range(3):
        turn = Turn(f"t{number}", "user", f"I keep {number} bees.", NOON)
        await memory.user(world.app_name, f"user{number}").enqueue([turn], session_id="s")
    await memory.resume(app_name=world.app_name, user_id="user0")
    await ingest_queue.record_waiting_ingests(memory.connection, world.app_name)
    [point] = seen.points("adk_graph_memory.ingest.pending")
    assert (point.value, dict(point.attributes)) == (2, {"adk_graph_memory.app_name": world.app_name})
    await memory.resume(app_name=world.app_name)
    await ingest_queue.record_waiting_ingests(memory.connection, world.app_name)
    assert [point.value for point in seen.points("adk_graph_memory.ingest.pending")] == [0]


# -- in the background ------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_what_goes_on_in_the_background_is_linked_to_the_runs_it_comes_from(world: World, seen: Seen) -> None:
    outbox = TurnBuffer()
    reader = IngestWorker(outbox, every=100, idle=60, at_once=4, drain=60)
    background = BackgroundLoop("test", reader.drain_queue)
    session = Session(id="monday", app_name=world.app_name, user_id=USER)
    tracer = seen.tracers.get_tracer("the application's")
    for number in range(2):
        content = types.Content(role="user", parts=[types.Part(text=f"I keep {number} bees.")])
        session.events.append(Event(id=f"e{number}", author="user", content=content))
        with tracer.start_as_current_span("run"):
            key, event_ids, split_turns = describe_session(world.memory, session)
            assert outbox.add_session(key, event_ids, split_turns)
        await asyncio.wrap_future(background.submit(reader.enqueue_session(key)))
    await asyncio.wrap_future(background.stop_loop())
    runs = {run.context.span_id: run for run in seen.named("run")}
    queued = seen.named("queue_said")
    assert {link.context.span_id for span in queued for link in span.links} == set(runs)
    for span in queued:
        assert span.parent is None
        [queuing] = seen.under(span)
        assert (queuing.name, (queuing.attributes or {})["gen_ai.conversation.id"]) == ("queue_memory", "monday")
    read = seen.one("read_queued")
    assert read.parent is None
    assert {link.context.span_id for link in read.links} == set(runs)
    assert [span.name for span in seen.under(read)] == ["upsert_memory"]
    for sweep in seen.named("sweep_queued"):
        assert (sweep.parent, sweep.links) == (None, ())
