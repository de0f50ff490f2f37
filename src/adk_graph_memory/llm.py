"""A prompt and a schema go in, a validated reply and its cost come out; the model is any that ADK knows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin

from google.adk.models.base_llm import BaseLlm as BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from adk_graph_memory import calls, errors, telemetry
from adk_graph_memory.records import Usage
from adk_graph_memory.settings import Settings

Reply = TypeVar("Reply", bound=BaseModel)

_REPAIR_PROMPT = (
    "That was not the JSON I asked for: {reason}\n"
    "Answer the same request again with one JSON object that fits the schema, and nothing else."
)


def resolve_model(model: str | BaseLlm) -> BaseLlm:
    """The model itself, or the one that ADK's registry knows by this name.

    Raises:
        errors.ConfigurationError: the registry knows no such name.
    """
    if isinstance(model, BaseLlm):
        return model
    try:
        return LLMRegistry.new_llm(model)
    except (ValueError, ImportError) as error:
        raise errors.ConfigurationError(reason=f"ADK knows no model named {model!r} ({error})") from error


class ModelAnswer(NamedTuple, Generic[Reply]):
    """A reply as the schema wants it, what it cost, and what of it could not be used, counted by reason."""

    reply: Reply
    usage: Usage
    dropped: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a call may take, and how often one that failed by the way is made again.

    Args:
        seconds: for one call.
        retries: after an error that passes: too many requests, an overloaded server, a lost connection, no answer.
        pause: seconds before the first of them; doubled for each further one.
        at_once: calls that may run at a time, of all users of this process.
    """

    timeout: float
    retries: int = 0
    backoff: float = 1.0
    concurrency: int = 4

    @classmethod
    def from_settings(cls, settings: Settings) -> RetryPolicy:
        """As the settings say."""
        return cls(settings.model_timeout, settings.model_retries, concurrency=settings.model_concurrency)


async def generate_structured(
    model: BaseLlm, prompt: str, schema: type[Reply], patience: RetryPolicy
) -> ModelAnswer[Reply]:
    """The model's reply to the prompt, as the schema wants it.

    One that does not fit is sent back once to be repaired; of one that does not fit then either, the items that do
    are kept and the others counted.

    Raises:
        errors.ModelFailed: the model raised, took too long, refused, or answered nothing.
        errors.ReplyTruncated: the reply was longer than the model may answer; ask for less.
        errors.ReplyUnusable: nothing in the repaired reply fits the schema.
    """
    conversation = [_make_content("user", prompt)]
    usage = Usage()
    for is_last in (False, True):
        with telemetry.trace_model_call(_find_provider(model), model.model) as spent:
            text, cost, is_cut_off = await _request_reply(model, conversation, schema, patience)
            spent(cost)
        usage += cost
        try:
            return ModelAnswer(await asyncio.to_thread(schema.model_validate_json, _strip_fence(text)), usage, {})
        except ValidationError as error:
            problem = await asyncio.to_thread(_describe_problem, error)
            if is_cut_off:
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
    """The first five things that are wrong, and where."""
    wrong = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return "; ".join(": ".join(filter(None, (".".join(map(str, one["loc"])), one["msg"]))) for one in wrong)


def _salvage_items(text: str, schema: type[Reply], usage: Usage) -> ModelAnswer[Reply] | None:
    """What fits of a reply that does not fit as a whole, item by item; None if that is nothing."""
    try:
        data = from_json(_strip_fence(text), allow_partial=True)
    except ValueError:
        return None
    kept: dict[str, Any] = {}
    dropped = 0
    for name, field in schema.model_fields.items():
        items = data.get(name) if isinstance(data, dict) else None
        if get_origin(field.annotation) is not list or not isinstance(items, list):
            continue
        [kind] = get_args(field.annotation)
        adapter = TypeAdapter(kind)
        kept[name] = [item for item in items if _is_valid_item(adapter, item)]
        dropped += len(items) - len(kept[name])
    if not any(kept.values()):
        return None
    try:
        return ModelAnswer(
            schema.model_validate(kept), usage, {"not as the schema wants it": dropped} if dropped else {}
        )
    except ValidationError:
        return None


def _is_valid_item(adapter: TypeAdapter[Any], item: object) -> bool:
    try:
        adapter.validate_python(item)
    except ValidationError:
        return False
    return True


async def _request_reply(
    model: BaseLlm, conversation: list[types.Content], schema: type[BaseModel], patience: RetryPolicy
) -> tuple[str, Usage, bool]:
    """The text of one answer, what it cost, and whether it was cut off at the model's limit."""
    request = LlmRequest(
        model=model.model, contents=list(conversation), config=types.GenerateContentConfig(temperature=0.0)
    )
    request.set_output_schema(schema)
    for failures, pause in enumerate(calls.generate_backoff_delays(patience.backoff)):
        try:
            async with calls.get_shared_throttle(patience.concurrency).hold_permit(), asyncio.timeout(patience.timeout):
                responses = [response async for response in model.generate_content_async(request)]
            break
        except Exception as error:  # every provider raises its own kinds, and none of them may lose the session
            if request.config.temperature is not None and "temperature" in str(error):
                request.config.temperature = None  # models that reason know only their own
                continue
            if failures >= patience.retries or not calls.is_transient(error):
                reason = str(error) and f": {error}"
                late = f"no answer within {patience.timeout:g} s" if isinstance(error, TimeoutError) else ""
                reason = late or f"{type(error).__name__}{reason}"
                raise errors.ModelFailed(model=model.model, reason=reason) from error
        await asyncio.sleep(pause)
    whole = [response for response in responses if not response.partial]
    text = "".join(_join_text(response) for response in whole)
    endings = {str(getattr(ending, "value", ending)) for r in whole for ending in (r.finish_reason, r.error_code)}
    is_cut_off = "MAX_TOKENS" in endings
    if not text and not is_cut_off:
        reason = ", ".join(sorted(endings - {"None", "STOP"})) or "no reason given"
        raise errors.ModelFailed(model=model.model, reason=f"an empty answer ({reason})")
    return text, sum((_read_usage(response) for response in responses), Usage(calls=1)), is_cut_off


def _find_provider(model: BaseLlm) -> str:
    """Who serves the model, in the words of the GenAI conventions, as far as its name tells."""
    name = model.model.rpartition("/")[2]
    known = {"gemini": "gcp.gen_ai", "claude": "anthropic"}
    named = next((provider for start, provider in known.items() if name.startswith(start)), None)
    return named or (model.model.partition("/")[0] if "/" in model.model else type(model).__name__)


def _make_content(role: str, text: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])


def _join_text(response: LlmResponse) -> str:
    parts = (response.content.parts if response.content else None) or []
    return "".join(part.text for part in parts if part.text and not part.thought)


def _read_usage(response: LlmResponse) -> Usage:
    counted = response.usage_metadata
    if counted is None:
        return Usage()
    prompt, total = counted.prompt_token_count or 0, counted.total_token_count
    answered, thought = counted.candidates_token_count or 0, counted.thoughts_token_count or 0
    if total:  # Gemini counts thoughts beside the answer, OpenAI's kin within
        thought = min(thought, max(total - prompt - answered, 0))
    return Usage(
        input_tokens=prompt, output_tokens=answered + thought, cached_tokens=counted.cached_content_token_count or 0
    )


def _strip_fence(text: str) -> str:
    """The JSON in a reply that wraps it in a Markdown fence, as small models like to do."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.partition("\n")[2].rpartition("```")[0]
    return stripped
