"""A chat client for Agent Framework that answers from a script, calls tools, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
)

Reply = str | Content | BaseException | Callable[[Sequence[Message]], Any]


class _ScriptedClient(BaseChatClient):
    """Each reply is a text, a tool call, an error, or a function from the request to one of these."""

    def __init__(self, replies: Sequence[Reply] = (), default: Reply = "I see.") -> None:
        super().__init__()
        self.replies, self.default = list(replies), default
        self.requests: list[list[Message]] = []
        self.options: list[dict[str, Any]] = []

    def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, options: Any, **_: Any) -> Any:
        self.requests.append(list(messages))
        self.options.append(dict(options or {}))
        reply = self.replies.pop(0) if self.replies else self.default

        async def answer() -> Content:
            chosen: Any = reply(messages) if callable(reply) else reply
            if isinstance(chosen, Awaitable):
                chosen = await chosen
            if isinstance(chosen, BaseException):
                raise chosen
            return Content.from_text(chosen) if isinstance(chosen, str) else chosen

        async def respond() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", [await answer()])])

        async def update() -> AsyncIterator[ChatResponseUpdate]:
            content = await answer()
            words = content.text.split(" ") if content.type == "text" and content.text else []
            for number, word in enumerate(words):
                yield ChatResponseUpdate(
                    role="assistant", contents=[Content.from_text(word if not number else f" {word}")]
                )
            if not words:
                yield ChatResponseUpdate(role="assistant", contents=[content])

        return self._build_response_stream(update()) if stream else respond()


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, _ScriptedClient):
    """The same, with the framework's layers that run tools and middleware."""

    def __init__(self, *replies: Reply, default: Reply = "I see.") -> None:
        super().__init__(replies=replies, default=default)

    def texts(self, number: int = -1) -> list[str]:
        """What a request said, message by message."""
        return [message.text for message in self.requests[number]]
