"""ADK's own Gemini class against a server that fails in every way it knows; each ends in a reply, or says why not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from tests.support.fake_gemini import HANG, FakeGemini, Scripted, generated, refused

from adk_graph_memory import Limits, errors
from adk_graph_memory.models import llm
from adk_graph_memory.records.extractions import Usage


class Answer(BaseModel):
    number: int
    words: list[str] = []


GOOD = {"text": '{"number": 7, "words": ["a"]}'}


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGemini]:
    with FakeGemini(lambda request: GOOD, keeps_alive=False) as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        yield fake


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "FIRST_PAUSE", 0.001)


async def ask_model(*, seconds: float = 30.0, retries: int = 2) -> llm.ModelAnswer[Answer]:
    limits = Limits(model_timeout=seconds, model_retries=retries)
    return await llm.generate_structured(llm.resolve_model("gemini-2.5-flash"), "How many?", Answer, limits)


async def test_a_name_prompt_and_schema_are_all_it_takes(gemini: FakeGemini) -> None:
    assert await ask_model() == (Answer(number=7, words=["a"]), Usage(1, 10, 5, 0), {})
    [request] = gemini.requests
    assert gemini.paths == ["/v1beta/models/gemini-2.5-flash:generateContent"]
    assert request["contents"] == [{"parts": [{"text": "How many?"}], "role": "user"}]
    assert request["generationConfig"]["responseMimeType"] == "application/json"
    properties = request["generationConfig"]["responseSchema"]["properties"]
    assert {name: schema["type"] for name, schema in properties.items()} == {"number": "INTEGER", "words": "ARRAY"}


async def test_vertex_ai_takes_the_same(gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "1")
    assert (await ask_model()).reply.number == 7
    assert gemini.paths == ["/v1beta1/publishers/google/models/gemini-2.5-flash:generateContent"]


def test_one_model_serves_many_event_loops(gemini: FakeGemini) -> None:
    model, gemini.keeps_alive = llm.resolve_model("gemini-2.5-flash"), True

    async def once() -> int:
        answer = await llm.generate_structured(model, "How many?", Answer, Limits())
        await model.api_client.aio.aclose()
        return answer.reply.number

    assert [asyncio.run(once()) for _ in range(3)] == [7, 7, 7]


@pytest.mark.parametrize(
    "failure",
    [refused(429, "RESOURCE_EXHAUSTED"), refused(503, "UNAVAILABLE"), (502, b"<html>"), (200, b'{"candidates": [')],
    ids=["too many", "overloaded", "a proxy's page", "half a reply"],
)
async def test_what_passes_is_asked_again(gemini: FakeGemini, failure: Scripted) -> None:
    gemini.script = [failure, failure]
    assert (await ask_model()).reply.number == 7
    assert len(gemini.requests) == 3


async def test_asking_again_has_an_end_and_the_reason_is_told(gemini: FakeGemini) -> None:
    gemini.script = [refused(429, "RESOURCE_EXHAUSTED", "quota exceeded")] * 9
    with pytest.raises(errors.ModelFailed, match="quota exceeded"):
        await ask_model()
    assert len(gemini.requests) == 3


async def test_what_does_not_pass_is_not_asked_again(gemini: FakeGemini) -> None:
    gemini.script = [refused(400, "INVALID_ARGUMENT", "API key not valid")]
    with pytest.raises(errors.ModelFailed, match="API key not valid"):
        await ask_model()
    assert len(gemini.requests) == 1


@pytest.mark.slow
async def test_a_model_that_hangs_is_given_up_and_asked_again(gemini: FakeGemini) -> None:
    gemini.script = [HANG, HANG]
    with pytest.raises(errors.ModelFailed, match=r"no answer within 2 s"):
        await ask_model(seconds=2, retries=1)
    assert len(gemini.requests) == 2


@pytest.mark.parametrize("parts", [[{"text": '{"number": 7, "words": ["a", "b'}], []], ids=["a part", "nothing"])
async def test_a_reply_at_the_models_limit_is_cut_off(gemini: FakeGemini, parts: list[Any]) -> None:
    gemini.script = [(200, generated(*parts, finish="MAX_TOKENS"))]
    with pytest.raises(errors.ReplyTruncated):
        await ask_model()
    assert len(gemini.requests) == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (generated(finish="SAFETY"), "SAFETY"),
        (generated(finish="RECITATION"), "RECITATION"),
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "PROHIBITED_CONTENT"),
        (generated(), "no reason given"),
        ({"candidates": []}, "no reason given"),
        ({}, "no reason given"),
        (b"", "no reason given"),
        ({"error": {"code": 500, "message": "inside"}}, "no reason given"),
    ],
    ids=["safety", "recitation", "blocked prompt", "no content", "no candidate", "{}", "no body", "an error with 200"],
)
async def test_a_reply_without_words_is_a_failure_with_its_reason(gemini: FakeGemini, body: Any, reason: str) -> None:
    gemini.script = [(200, body)]
    with pytest.raises(errors.ModelFailed, match=rf"an empty answer \({reason}\)"):
        await ask_model()


async def test_thoughts_are_paid_for_and_not_read(gemini: FakeGemini) -> None:
    reply = generated({"text": "Seven, I think.", "thought": True}, GOOD)
    reply["usageMetadata"] |= {"thoughtsTokenCount": 30, "cachedContentTokenCount": 4, "totalTokenCount": 45}
    gemini.script = [(200, reply)]
    assert await ask_model() == (Answer(number=7, words=["a"]), Usage(1, 10, 35, 4), {})


async def test_without_a_key_the_model_fails_at_once(gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")
    with pytest.raises(errors.ModelFailed, match="No API key was provided"):
        await ask_model()


async def test_words_that_do_not_fit_are_sent_back_with_the_reason(gemini: FakeGemini) -> None:
    gemini.script = [(200, generated({"text": json.dumps({"number": "many"})}))]
    answer = await ask_model()
    assert (answer.reply.number, answer.usage.calls) == (7, 2)
    assert "number" in gemini.requests[1]["contents"][-1]["parts"][0]["text"]
