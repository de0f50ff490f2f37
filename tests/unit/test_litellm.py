"""Any model that LiteLLM knows, through ADK's wrapper and against a server on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from tests.support.fake_server import serve_json

from adk_graph_memory import Limits, errors
from adk_graph_memory.models import llm
from adk_graph_memory.records.extractions import Usage

pytestmark = pytest.mark.slow


class Answer(BaseModel):
    number: int
    words: list[str] = []


class OpenAi:
    """Answers like OpenAI's chat completions: with what the script says, or else with the same answer."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.script: list[tuple[int, dict[str, Any]]] = []

    def reply(self, _: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.requests.append(request)
        if self.script:
            return self.script.pop(0)
        message = {"role": "assistant", "content": '{"number": 7, "words": ["a"]}'}
        usage = {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        }
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        kind = {"id": "1", "object": "chat.completion", "created": 1, "model": request["model"]}
        return 200, {**kind, "choices": [choice], "usage": usage}


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAi]:
    fake = OpenAi()
    with serve_json(fake.reply) as address:
        for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
            monkeypatch.setenv(name, f"{address}/v1")
        for name, value in {"OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        yield fake


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "FIRST_PAUSE", 0.001)


async def ask_model(name: str) -> llm.ModelAnswer[Answer]:
    return await llm.generate_structured(llm.resolve_model(name), "How many?", Answer, Limits())


@pytest.mark.parametrize("name", ["openai/gpt-4o-mini", "litellm:openai/gpt-4o-mini", "openai/a-model-of-ones-own"])
async def test_a_name_is_enough_and_the_schema_goes_with_it(openai: OpenAi, name: str) -> None:
    assert await ask_model(name) == (Answer(number=7, words=["a"]), Usage(1, 10, 5, 4), {})
    [request] = openai.requests
    assert request["model"] == name.rpartition("/")[2]
    assert request["messages"] == [{"role": "user", "content": "How many?"}]
    schema = request["response_format"]["json_schema"]
    assert (schema["name"], schema["strict"], set(schema["schema"]["properties"])) == (
        "Answer",
        True,
        {"number", "words"},
    )


@pytest.mark.parametrize("name", ["openai/gpt-5-mini", "openai/o3-mini"])
async def test_a_model_that_reasons_is_asked_without_a_temperature(openai: OpenAi, name: str) -> None:
    assert (await ask_model(name)).reply.number == 7
    assert "temperature" not in openai.requests[-1]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_passes_is_asked_again(openai: OpenAi, status: int) -> None:
    openai.script = [(status, {"error": {"message": "slow down"}})] * 3
    assert (await ask_model("openai/gpt-4o-mini")).reply.number == 7


async def test_what_does_not_pass_is_not_asked_again(openai: OpenAi) -> None:
    openai.script = [(401, {"error": {"message": "no such key"}})] * 3
    with pytest.raises(errors.ModelFailed, match="no such key"):
        await ask_model("openai/gpt-4o-mini")
    assert len(openai.requests) == 1


def test_a_provider_that_nobody_knows_is_a_configuration_error() -> None:
    with pytest.raises(errors.ConfigurationError, match="nobody/knows"):
        llm.resolve_model("nobody/knows")
