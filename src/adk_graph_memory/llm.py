"""A prompt and a schema go in, a validated reply and its cost come out; the model is any that ADK knows."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from google.adk.models.base_llm import BaseLlm as BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types
from pydantic import BaseModel, ValidationError

from adk_graph_memory import errors
from adk_graph_memory.records import Usage

Reply = TypeVar("Reply", bound=BaseModel)

_REPAIR = (
    "That was not the JSON I asked for: {reason}\n"
    "Answer the same request again with one JSON object that fits the schema, and nothing else."
)


def resolved(model: str | BaseLlm) -> BaseLlm:
    """The model itself, or the one that ADK's registry knows by this name.

    Raises:
        errors.ConfigurationError: the registry knows no such name.
    """
    if isinstance(model, BaseLlm):
        return model
    try:
        return LLMRegistry.new_llm(model)
    except ValueError as error:
        raise errors.ConfigurationError(reason=f"ADK knows no model named {model!r} ({error})") from error


async def structured(model: BaseLlm, prompt: str, schema: type[Reply], *, seconds: float) -> tuple[Reply, Usage]:
    """The model's reply to the prompt, as the schema wants it; an unfit one is sent back once to be repaired.

    Raises:
        errors.ModelFailed: the model raised, took longer than ``seconds``, or answered nothing.
        errors.ReplyUnusable: the repaired reply does not fit the schema either.
    """
    conversation = [_content("user", prompt)]
    usage = Usage()
    for attempt in ("first", "repaired"):
        text, cost = await _asked(model, conversation, schema, seconds)
        usage += cost
        try:
            return schema.model_validate_json(_unfenced(text)), usage
        except ValidationError as error:
            problem = "; ".join(
                ": ".join(filter(None, (".".join(map(str, e["loc"])), e["msg"]))) for e in error.errors()[:5]
            )
            if attempt == "repaired":
                raise errors.ReplyUnusable(model=model.model, reason=problem) from error
            conversation += [_content("model", text), _content("user", _REPAIR.format(reason=problem))]
    raise AssertionError("unreachable")


async def _asked(
    model: BaseLlm, conversation: list[types.Content], schema: type[BaseModel], seconds: float
) -> tuple[str, Usage]:
    request = LlmRequest(
        model=model.model, contents=list(conversation), config=types.GenerateContentConfig(temperature=0.0)
    )
    request.set_output_schema(schema)
    try:
        async with asyncio.timeout(seconds):
            responses = [response async for response in model.generate_content_async(request)]
    except TimeoutError as error:
        raise errors.ModelFailed(model=model.model, reason=f"no answer within {seconds:g} s") from error
    except Exception as error:  # every provider raises its own kinds, and none of them may lose the session
        raise errors.ModelFailed(model=model.model, reason=f"{type(error).__name__}: {error}") from error
    text = "".join(_text(response) for response in responses if not response.partial)
    if not text:
        reason = next((r.error_code or r.finish_reason for r in responses if r.error_code or r.finish_reason), None)
        raise errors.ModelFailed(model=model.model, reason=f"an empty answer ({reason or 'no reason given'})")
    return text, sum((_cost(response) for response in responses), Usage(calls=1))


def _content(role: str, text: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])


def _text(response: LlmResponse) -> str:
    parts = (response.content.parts if response.content else None) or []
    return "".join(part.text for part in parts if part.text and not part.thought)


def _cost(response: LlmResponse) -> Usage:
    counted = response.usage_metadata
    if counted is None:
        return Usage()
    return Usage(
        input_tokens=counted.prompt_token_count or 0,
        output_tokens=(counted.candidates_token_count or 0) + (counted.thoughts_token_count or 0),
        cached_tokens=counted.cached_content_token_count or 0,
    )


def _unfenced(text: str) -> str:
    """The JSON in a reply that wraps it in a Markdown fence, as small models like to do."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.partition("\n")[2].rpartition("```")[0]
    return stripped
