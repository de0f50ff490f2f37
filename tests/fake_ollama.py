"""Speaks Ollama's wire protocol on 127.0.0.1, as LiteLLM asks it: one small local model, for ``/api/chat``."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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

    def reply(self, path: str, request: Request) -> dict[str, Any]:
        if path == "/api/show":
            return {"template": "{{ .Tools }}", "model_info": {"general.context_length": 8192}}
        assert path == "/api/chat"
        self.requests.append(request)
        message = {"role": "assistant", **self._make_message(request)}
        usage = {"prompt_eval_count": 10, "eval_count": 5}
        return {"model": request["model"], "message": message, "done": True, "done_reason": "stop", **usage}

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


@contextmanager
def serve_ollama(fake: FakeOllama) -> Iterator[str]:
    """Serve the fake until the block ends, at this address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            data = json.dumps(fake.reply(self.path, request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
