"""Test doubles for your own tests: a model with scripted replies, and an embedder that needs no model."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from neo4j_graphrag.embeddings.base import Embedder
from pydantic import BaseModel, PrivateAttr
from typing_extensions import override

ScriptedReply = str | BaseModel | LlmResponse | BaseException | Callable[[LlmRequest], Any]


class ScriptedLlm(BaseLlm):
    """An ADK model that gives scripted replies in order and records its requests.

    A reply is text, a pydantic model (sent as JSON), an ``LlmResponse``, an exception (raised), or a function that
    takes the request and returns one of these. If no reply is left, a request raises an AssertionError.

    Example:
        model = ScriptedLlm.from_replies('{"entities": [], "facts": []}')
        memory = GraphMemory(model=model)
    """

    model: str = "scripted"
    _replies: list[ScriptedReply] = PrivateAttr(default_factory=list)
    _requests: list[LlmRequest] = PrivateAttr(default_factory=list)

    @classmethod
    def from_replies(cls, *replies: ScriptedReply) -> ScriptedLlm:
        """Create a model with these replies."""
        model = cls()
        model._replies = list(replies)
        return model

    @property
    def requests(self) -> Sequence[LlmRequest]:
        """All requests so far, in order."""
        return self._requests

    @override
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self._requests.append(llm_request)
        if not self._replies:
            raise AssertionError(f"no reply is left for request number {len(self._requests)}")
        reply: Any = self._replies.pop(0)
        if callable(reply) and not isinstance(reply, BaseException):
            reply = reply(llm_request)
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, BaseModel) and not isinstance(reply, LlmResponse):
            reply = reply.model_dump_json()
        yield reply if isinstance(reply, LlmResponse) else make_text_response(reply)


def make_text_response(text: str) -> LlmResponse:
    """Make a model response with this text."""
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


def make_tool_call(tool: str, **arguments: Any) -> LlmResponse:
    """Make a model response that calls a tool with these arguments."""
    part = types.Part.from_function_call(name=tool, args=arguments)
    return LlmResponse(content=types.Content(role="model", parts=[part]))


class HashEmbedder(Embedder):
    """An embedder that hashes words: texts that share words get similar vectors, and equal texts get equal vectors.

    Args:
        dimensions: the length of a vector.
    """

    def __init__(self, dimensions: int = 64) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.model = f"hash-{dimensions}"
        self.calls = 0

    @override
    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a unit vector for each text, in order."""
        self.calls += 1
        return [self._hash_words(text) for text in texts]

    def _hash_words(self, text: str) -> list[float]:
        vector = [1e-6] * self.dimensions
        for word in re.findall(r"\w+", text.casefold()):
            index = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest()) % self.dimensions
            vector[index] += 1.0
        length = math.sqrt(sum(number * number for number in vector))
        return [number / length for number in vector]
