"""A prompt and a schema go in; a reply that fits, or an error that says why not, comes out."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.models import registry
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types
from pydantic import BaseModel, model_validator

from adk_graph_memory import Limits, errors
from adk_graph_memory.extraction.reply import ExtractionReply
from adk_graph_memory.models import llm
from adk_graph_memory.records.extractions import Usage
from adk_graph_memory.testing import ScriptedLlm, make_text_response


class Answer(BaseModel):
    number: int
    words: list[str] = []


GOOD = '{"number": 7, "words": ["a"]}'


LIMITS = Limits(model_timeout=5, model_retries=2)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "FIRST_PAUSE", 0.001)


async def ask_model(*replies: Any) -> llm.ModelAnswer[Answer]:
    limits = Limits(model_timeout=5, model_retries=0)
    return await llm.generate_structured(ScriptedLlm.from_replies(*replies), "How many?", Answer, limits)


async def test_a_reply_that_fits_comes_back_as_the_schemas_object() -> None:
    assert (await ask_model(GOOD))[0] == Answer(number=7, words=["a"])


@pytest.mark.parametrize("reply", [GOOD, '{"number": "many"}'])
async def test_a_reply_is_read_beside_the_event_loop(reply: str) -> None:
    threads = set[int]()

    class Watched(Answer):
        @model_validator(mode="before")
        @classmethod
        def note_thread(cls, data: Any) -> Any:
            threads.add(threading.get_ident())
            return data

    await llm.generate_structured(ScriptedLlm.from_replies(reply, GOOD), "How many?", Watched, LIMITS)
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("text", [f"```json\n{GOOD}\n```", f"```\n{GOOD}\n```\n", f"\n  {GOOD}\n\n"])
async def test_a_fence_around_the_json_does_not_matter(text: str) -> None:
    assert (await ask_model(text))[0].number == 7


async def test_a_thought_before_the_json_is_no_part_of_it() -> None:
    thought, answer = types.Part(text="Let me count", thought=True), types.Part(text=GOOD)
    reply = LlmResponse(content=types.Content(role="model", parts=[thought, answer]))
    assert (await ask_model(reply))[0].number == 7


@pytest.mark.parametrize("broken", ["nonsense", "{", '{"number": "many"}', "[]", "null", '{"words": []}', "```"])
async def test_a_reply_that_does_not_fit_is_sent_back_once(broken: str) -> None:
    model = ScriptedLlm.from_replies(broken, GOOD)
    reply, usage, _ = await llm.generate_structured(model, "How many?", Answer, LIMITS)
    assert (reply.number, usage.calls) == (7, 2)
    first, second = model.requests
    assert [content.role for content in second.contents] == ["user", "model", "user"]
    assert len(first.contents) == 1


async def test_the_repair_says_what_was_wrong() -> None:
    model = ScriptedLlm.from_replies('{"number": "many"}', GOOD)
    await llm.generate_structured(model, "How many?", Answer, LIMITS)
    assert "number" in model.requests[1].contents[-1].parts[0].text


async def test_a_reply_that_never_fits_is_unusable() -> None:
    with pytest.raises(errors.ReplyUnusable, match="scripted") as caught:
        await ask_model("{", "{")
    assert isinstance(caught.value, errors.ModelError)


@pytest.mark.parametrize("error", [OSError("no route"), RuntimeError("quota"), ValueError("bad key"), TimeoutError()])
async def test_whatever_a_model_raises_is_a_model_failure(error: Exception) -> None:
    with pytest.raises(errors.ModelFailed):
        await ask_model(error)


async def test_the_reason_of_a_failure_is_in_its_message() -> None:
    with pytest.raises(errors.ModelFailed, match="OSError: no route"):
        await ask_model(OSError("no route"))


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (make_text_response(""), "no reason given"),
        (LlmResponse(), "no reason given"),
        (LlmResponse(error_code="SAFETY"), "SAFETY"),
    ],
)
async def test_an_empty_answer_is_a_failure_with_its_reason(reply: LlmResponse, reason: str) -> None:
    with pytest.raises(errors.ModelFailed, match=reason):
        await ask_model(reply)


@pytest.mark.parametrize("text", [GOOD[:9], None])
async def test_a_cut_reply_is_not_asked_for_again(text: str | None) -> None:
    cut = make_text_response(text) if text else LlmResponse()
    cut.finish_reason = types.FinishReason.MAX_TOKENS
    with pytest.raises(errors.ReplyTruncated) as caught:
        await ask_model(cut)
    assert caught.value.answer is None


class Overloaded(Exception):
    code = 503


@pytest.mark.parametrize("error", [OSError("no route"), Overloaded(), TimeoutError()], ids=repr)
async def test_what_passes_is_tried_again(error: Exception) -> None:
    model = ScriptedLlm.from_replies(error, error, GOOD)
    answer = await llm.generate_structured(model, "How many?", Answer, LIMITS)
    assert (answer.reply.number, len(model.requests)) == (7, 3)


async def test_what_does_not_pass_is_not_tried_again() -> None:
    model = ScriptedLlm.from_replies(ValueError("bad key"), GOOD)
    with pytest.raises(errors.ModelFailed, match="bad key"):
        await llm.generate_structured(model, "How many?", Answer, LIMITS)
    assert len(model.requests) == 1


class Hanging(ScriptedLlm):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        await asyncio.sleep(60)
        yield make_text_response(GOOD)


async def test_a_model_that_hangs_is_given_up_in_time() -> None:
    with pytest.raises(errors.ModelFailed, match="no answer within"):
        await llm.generate_structured(Hanging(), "How many?", Answer, Limits(model_timeout=0.05, model_retries=0))


class Crowded(ScriptedLlm):
    """Counts how many are asked at once."""

    running: int = 0
    most: int = 0

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.005)
        self.running -= 1
        yield make_text_response(GOOD)


async def test_calls_at_a_time_are_bounded_whoever_makes_them() -> None:
    model = Crowded()
    calls = [llm.generate_structured(model, "How many?", Answer, Limits(model_concurrency=3)) for _ in range(12)]
    await asyncio.gather(*calls)
    assert model.most == 3


@pytest.mark.slow
async def test_what_waits_for_its_turn_is_not_late() -> None:
    model = Crowded()
    calls = [
        llm.generate_structured(model, "How many?", Answer, Limits(model_timeout=1.0, model_concurrency=1))
        for _ in range(300)
    ]
    assert len(await asyncio.gather(*calls)) == 300


async def test_a_call_that_failed_keeps_nobody_from_theirs_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "FIRST_PAUSE", 0.2)
    failing = ScriptedLlm.from_replies(OSError("no route"), GOOD)
    waiting = asyncio.create_task(llm.generate_structured(failing, "?", Answer, Limits(model_concurrency=1)))
    await asyncio.sleep(0.01)
    await llm.generate_structured(ScriptedLlm.from_replies(GOOD), "?", Answer, Limits(model_concurrency=1))
    assert not waiting.done()
    assert (await waiting).reply.number == 7


async def test_cancelling_is_not_taken_for_a_failure() -> None:
    asking = asyncio.create_task(llm.generate_structured(Hanging(), "How many?", Answer, LIMITS))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_costs_of_both_attempts_are_added() -> None:
    def costing(text: str) -> LlmResponse:
        reply = make_text_response(text)
        reply.usage_metadata = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=3, thoughts_token_count=2, cached_content_token_count=4
        )
        return reply

    assert (await ask_model(costing("{"), costing(GOOD)))[1] == Usage(2, 20, 10, 8)


async def test_thoughts_that_are_counted_with_the_answer_are_not_counted_twice() -> None:
    reply = make_text_response(GOOD)
    reply.usage_metadata = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=10, candidates_token_count=5, thoughts_token_count=2, total_token_count=15
    )
    assert (await ask_model(reply))[1] == Usage(1, 10, 5, 0)


async def test_a_model_that_refuses_a_temperature_is_asked_without_one() -> None:
    def refusing(request: LlmRequest) -> Any:
        refused = request.config.temperature is not None
        return ValueError("only temperature=1 is supported") if refused else GOOD

    model = ScriptedLlm.from_replies(refusing, refusing)
    assert (await llm.generate_structured(model, "How many?", Answer, LIMITS)).reply.number == 7


async def test_the_schema_goes_with_the_request() -> None:
    model = ScriptedLlm.from_replies(GOOD)
    await llm.generate_structured(model, "How many?", Answer, LIMITS)
    config = model.requests[0].config
    assert (config.response_schema, config.response_mime_type) == (Answer, "application/json")


def test_a_model_is_itself() -> None:
    model = ScriptedLlm()
    assert llm.resolve_model(model) is model


def test_a_name_is_looked_up_in_adks_registry() -> None:
    assert llm.resolve_model("gemini-2.5-flash").model == "gemini-2.5-flash"


def test_an_unknown_name_is_a_configuration_error() -> None:
    with pytest.raises(errors.ConfigurationError, match="no-such-model"):
        llm.resolve_model("no-such-model")


def test_the_reply_schema_is_one_that_gemini_takes() -> None:
    """Its subset knows no tuples, no free-form objects and no unions but with null."""

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            assert "prefixItems" not in node
            assert "additionalProperties" not in node
            assert all(branch.get("type") for branch in node.get("anyOf", []))
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(ExtractionReply.model_json_schema())


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("gemni-flash", "gemni-flash"),
        ("nobody/knows", "pip install litellm"),
        ("openai/gpt-5-mini", "pip install litellm"),
        ("litellm:openai/gpt-5-mini", "pip install litellm"),
        ("claude-sonnet-4", "anthropic"),
    ],
)
def test_an_unknown_model_is_named_with_what_it_needs(name: str, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "find_spec", lambda package: None)
    for package in ("litellm", "anthropic", "google.adk.models.lite_llm", "google.adk.models.anthropic_llm"):
        monkeypatch.setitem(sys.modules, package, None)
    known = dict(registry._llm_registry_dict)  # ADK forgets a name whose package is missing
    for pattern, entry in known.items():
        if isinstance(entry, type) and entry.__module__ in sys.modules and sys.modules[entry.__module__] is None:
            registry._llm_registry_dict[pattern] = entry.__module__, entry.__name__  # as before its first use
    LLMRegistry.resolve.cache_clear()
    try:
        with pytest.raises(errors.ConfigurationError) as raised:
            llm.resolve_model(name)
    finally:
        registry._llm_registry_dict.update(known)
    assert name in str(raised.value)
    assert remedy in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_a_key_that_is_missing_or_refused_is_named() -> None:
    class Refused(Exception):
        code = 403

    for error in (ValueError("No API key was provided."), Refused("PERMISSION_DENIED")):
        with pytest.raises(errors.ModelFailed, match=r"Is the API key set, right"):
            await ask_model(error)
    with pytest.raises(errors.ModelFailed) as raised:
        await ask_model(ValueError("no such model"))
    assert "API key" not in str(raised.value)
