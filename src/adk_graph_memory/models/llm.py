"""Call any model that ADK knows and return a reply that fits a schema, with its token usage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin

from google.adk.models.base_llm import BaseLlm as BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.auth.exceptions import DefaultCredentialsError
from google.genai import types
from pydantic import BaseModel, OnErrorOmit, TypeAdapter, ValidationError
from pydantic_core import from_json

from adk_graph_memory import errors
from adk_graph_memory.records.extractions import Usage
from adk_graph_memory.runtime import concurrency, telemetry
from adk_graph_memory.runtime.settings import Limits

Reply = TypeVar("Reply", bound=BaseModel)

FIRST_PAUSE = 1.0
"""Seconds before the first retry of a call; about twice as long before each further one."""

_REPAIR_PROMPT = (
    "That was not the JSON I asked for: {reason}\n"
    "Answer the same request again with one JSON object that fits the schema, and nothing else."
)


def resolve_model(model: str | BaseLlm) -> BaseLlm:
    """Return the model itself, or look its name up in ADK's registry.

    Raises:
        errors.ConfigurationError: the registry does not know the name, or a package of the model's is not installed.
    """
    if isinstance(model, BaseLlm):
        return model
    if not isinstance(model, str):
        reason = f"model={model!r} is neither the name of a model that ADK knows nor a BaseLlm"
        raise errors.InvalidArgument(reason=reason)
    try:
        return LLMRegistry.new_llm(model)
    except (ValueError, ImportError) as error:
        provider, slash, _ = model.rpartition(":")[2].partition("/")
        if slash and find_spec("litellm") is None:
            reason = f"the model {model!r} needs LiteLLM: `pip install litellm`"
        elif slash:
            reason = f"neither ADK nor LiteLLM knows the provider {provider!r} of the model {model!r}"
        else:
            reason = f"ADK knows no model named {model!r}. ADK says: {' '.join(str(error).split())}"
        raise errors.ConfigurationError(reason=reason) from error


def resolve_queued_model(name: str) -> BaseLlm:
    """Look up the model that a pending request was queued for.

    Raises:
        errors.QueuedModelMissing: it cannot be used here.
    """
    try:
        return resolve_model(name)
    except errors.ConfigurationError as error:
        raise errors.QueuedModelMissing(model=name, reason=str(error.__cause__)) from error


async def check_model(model: BaseLlm) -> None:
    """Check that a Gemini model has credentials, without calling it.

    Raises:
        errors.ConfigurationError: it has none.
    """
    try:
        await asyncio.to_thread(_prepare_client, model)
    except (ValueError, DefaultCredentialsError) as error:
        reason = f"the model {model.model!r} has no credentials. {concurrency.describe_failure(error)}"
        raise errors.ConfigurationError(reason=reason) from error


class ModelAnswer(NamedTuple, Generic[Reply]):
    """A reply that fits the schema, its token usage, and the number of dropped items by reason."""

    reply: Reply
    usage: Usage
    dropped: Mapping[str, int]


class Media(NamedTuple):
    """A picture that a model is shown: its bytes, or a URI that the model can open."""

    mime_type: str
    content: bytes | None = None
    uri: str = ""


async def generate_structured(
    model: BaseLlm, prompt: str, schema: type[Reply], limits: Limits, media: Sequence[Media] = ()
) -> ModelAnswer[Reply]:
    """Ask the model, which also sees the media, and validate its reply against the schema.

    A reply that does not fit is sent back once for repair. If the repaired reply does not fit either, its valid items
    are kept and the others counted.

    Raises:
        errors.ModelFailed: the model raised an error or timed out.
        errors.ModelRefused: the model refused this request, or answered nothing.
        errors.ReplyTruncated: the reply hit the model's output limit; ask for less.
        errors.ReplyUnusable: nothing in the repaired reply fits the schema.
    """
    question = _make_content("user", prompt)
    question.parts = [*(question.parts or ()), *map(_make_media_part, media)]
    conversation = [question]
    usage = Usage()
    for is_last in (False, True):
        with telemetry.trace_model_call(_find_provider(model), model.model) as record_usage:
            text, call_usage, is_truncated = await _request_reply(model, conversation, schema, limits)
            record_usage(call_usage)
        usage += call_usage
        try:
            return ModelAnswer(await asyncio.to_thread(schema.model_validate_json, _strip_fence(text)), usage, {})
        except ValidationError as error:
            problem = await asyncio.to_thread(_describe_problem, error)
            if is_truncated:
                answer = await asyncio.to_thread(_salvage_items, text, schema, usage)
                raise errors.ReplyTruncated(model=model.model, answer=answer, usage=usage) from error
            if is_last:
                answer = await asyncio.to_thread(_salvage_items, text, schema, usage)
                if answer is None:
                    raise errors.ReplyUnusable(model=model.model, reason=problem) from error
                return answer
            conversation += [_make_content("model", text), _make_content("user", _REPAIR_PROMPT.format(reason=problem))]
    raise AssertionError("unreachable")


def _describe_problem(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return "; ".join(": ".join(filter(None, (".".join(map(str, item["loc"])), item["msg"]))) for item in details)


def _salvage_items(text: str, schema: type[Reply], usage: Usage) -> ModelAnswer[Reply] | None:
    """Keep the valid items of a reply's lists; None if there is none."""
    try:
        data = from_json(_strip_fence(text), allow_partial=True)
    except ValueError:
        return None
    valid_items: dict[str, Any] = {}
    dropped_count = 0
    for name, field in schema.model_fields.items():
        items = data.get(name) if isinstance(data, dict) else None
        if get_origin(field.annotation) is not list or not isinstance(items, list):
            continue
        [item_type] = get_args(field.annotation)
        valid_items[name] = TypeAdapter(list[OnErrorOmit[item_type]]).validate_python(items)  # type: ignore[valid-type]
        dropped_count += len(items) - len(valid_items[name])
    if not any(valid_items.values()):
        return None
    dropped = {"not as the schema wants it": dropped_count} if dropped_count else {}
    try:
        return ModelAnswer(schema.model_validate(valid_items), usage, dropped)
    except ValidationError:
        return None


async def _request_reply(
    model: BaseLlm, conversation: list[types.Content], schema: type[BaseModel], limits: Limits
) -> tuple[str, Usage, bool]:
    """Return the text of one answer, its usage, and whether it was truncated at the model's output limit."""
    request = LlmRequest(
        model=model.model, contents=list(conversation), config=types.GenerateContentConfig(temperature=0.0)
    )
    request.set_output_schema(schema)
    for failures, pause in enumerate(concurrency.generate_backoff_delays(FIRST_PAUSE)):
        try:
            await asyncio.to_thread(_prepare_client, model)
            throttle = concurrency.get_shared_throttle(limits.model_concurrency)
            async with throttle.hold_permit(), asyncio.timeout(limits.model_timeout):
                responses = [response async for response in model.generate_content_async(request)]
            break
        except Exception as error:  # providers raise errors of any class, and none may lose the session
            if request.config.temperature is not None and "temperature" in str(error):
                request.config.temperature = None  # reasoning models accept only their default
                continue
            if failures >= limits.model_retries or not concurrency.is_transient(error):
                is_timeout = isinstance(error, TimeoutError)
                reason = (
                    f"no answer within {limits.model_timeout:g} s"
                    if is_timeout
                    else concurrency.describe_failure(error)
                )
                kind = errors.ModelRefused if concurrency.is_refusal(error) else errors.ModelFailed
                raise kind(model=model.model, reason=reason) from error
        await asyncio.sleep(pause)
    complete = [response for response in responses if not response.partial]
    parts = [part for response in complete if response.content for part in response.content.parts or ()]
    text = "".join(part.text for part in parts if part.text and not part.thought)
    codes = {str(getattr(code, "value", code)) for r in complete for code in (r.finish_reason, r.error_code)}
    is_truncated = "MAX_TOKENS" in codes
    if not text and not is_truncated:
        reason = ", ".join(sorted(codes - {"None", "STOP"})) or "no reason given"
        raise errors.ModelRefused(model=model.model, reason=f"an empty answer ({reason})")
    return text, sum((_read_usage(response) for response in responses), Usage(calls=1)), is_truncated


def _prepare_client(model: BaseLlm) -> None:
    """Prepare Gemini's client in a thread: a client without a key logs errors if an event loop's thread frees it."""
    try:
        getattr(model, "api_client", None)
    except ValueError as error:
        raise error.with_traceback(None) from None


def _find_provider(model: BaseLlm) -> str:
    """Guess the provider from the model's name; the values are those of the GenAI conventions where they have one."""
    name = model.model.rpartition("/")[2]
    for prefix, provider in {"gemini": "gcp.gen_ai", "claude": "anthropic"}.items():
        if name.startswith(prefix):
            return provider
    return model.model.partition("/")[0] if "/" in model.model else type(model).__name__


def _make_content(role: str, text: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])


def _make_media_part(media: Media) -> types.Part:
    if media.content is not None:
        return types.Part(inline_data=types.Blob(mime_type=media.mime_type, data=media.content))
    return types.Part(file_data=types.FileData(mime_type=media.mime_type, file_uri=media.uri))


def _read_usage(response: LlmResponse) -> Usage:
    counts = response.usage_metadata
    if counts is None:
        return Usage()
    prompt, total = counts.prompt_token_count or 0, counts.total_token_count
    answer, thoughts = counts.candidates_token_count or 0, counts.thoughts_token_count or 0
    if total:  # Gemini counts thoughts in addition to the answer, OpenAI-like APIs as part of it
        thoughts = min(thoughts, max(total - prompt - answer, 0))
    return Usage(
        input_tokens=prompt, output_tokens=answer + thoughts, cached_tokens=counts.cached_content_token_count or 0
    )


def _strip_fence(text: str) -> str:
    """Remove the Markdown fence in which small models like to wrap their JSON."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.partition("\n")[2].rpartition("```")[0]
    return stripped
