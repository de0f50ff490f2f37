"""Convert Agent Framework's messages to events of the graph, and back.

An event's body is JSON that ADK reads as one of its events, with the text as its content; the whole message lies in its
``customMetadata``. So ADK's services, and whatever reads their sessions, read these conversations too.
"""

from __future__ import annotations

import json
from typing import Any

from agent_framework import Message

from adk_graph_memory import errors
from adk_graph_memory.maf.message_ids import get_spoken_text

MESSAGE_KEY = "agent_framework.message"
"""The key of the whole message in an event's ``customMetadata``."""


def encode_message(message: Message, *, id: str, run_id: str, timestamp: float) -> dict[str, Any]:
    """Encode a message as the properties of an Event node.

    Raises:
        errors.InvalidArgument: the message cannot be kept as JSON.
    """
    text, author = get_spoken_text(message), "user" if message.role == "user" else message.author_name or message.role
    body = {
        "id": id,
        "invocationId": run_id,
        "author": author,
        "timestamp": timestamp,
        "content": {"role": "user" if message.role == "user" else "model", "parts": [{"text": text}] if text else []},
        "customMetadata": {MESSAGE_KEY: message.to_dict()},
    }
    try:
        encoded_body = json.dumps(body, ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.InvalidArgument(reason=f"a message of role {message.role} is no JSON: {error}") from error
    return {
        "id": id,
        "invocation_id": run_id,
        "author": author,
        "timestamp": timestamp,
        "text": text or None,
        "body": encoded_body,
    }


def decode_message(body: str) -> Message | None:
    """Decode an event's message; of an event that ADK wrote, its text, or None without any."""
    event = json.loads(body)
    if message := (event.get("customMetadata") or {}).get(MESSAGE_KEY):
        return Message.from_dict(message)
    content = event.get("content") or {}
    texts = [part["text"] for part in content.get("parts") or () if part.get("text") and not part.get("thought")]
    if not texts or event.get("partial"):
        return None
    is_user = event.get("author") == "user"
    return Message("user" if is_user else "assistant", texts, author_name=None if is_user else event.get("author"))
