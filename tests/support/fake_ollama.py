"""Speaks Ollama's wire protocol on 127.0.0.1, as LiteLLM asks it: one small local model, for ``/api/chat``."""

from __future__ import annotations

import json
from typing import Any

Request = dict[str, Any]


class FakeOllama:
    """A local model that answers a question from what ``preload_memory`` found, and reads facts as JSON.

    Args:
        extraction: what it answers where a JSON schema is asked for.
    """

    def __init__(self, extraction: dict[str, Any]) -> None:
        self.extraction = extraction
        self.requests: list[Request] = []

    def reply(self, path: str, request: Request) -> tuple[int, dict[str, Any]]:
        if path == "/api/show":
            return 200, {"template": "{{ .Tools }}", "model_info": {"general.context_length": 8192}}
        assert path == "/api/chat"
        self.requests.append(request)
        message = {"role": "assistant", **self._make_message(request)}
        usage = {"prompt_eval_count": 10, "eval_count": 5}
        return 200, {"model": request["model"], "message": message, "done": True, "done_reason": "stop", **usage}

    def _make_message(self, request: Request) -> dict[str, Any]:
        if request.get("format"):
            return {"content": json.dumps(self.extraction)}
        texts = [message["content"] for message in request["messages"] if message["role"] == "user"]
        memories = [line for text in texts if _PRELOADED in text for line in text.splitlines() if ": " in line]
        if not any(text.endswith("?") for text in texts):
            return {"content": "I will remember that."}
        said = next(line.partition(": ")[2] for line in memories if not line.startswith("Time: "))
        return {"content": f"You said: “{said}”"}


_PRELOADED = "<PAST_CONVERSATIONS>"
