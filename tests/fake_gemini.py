"""Speaks Gemini's wire protocol on 127.0.0.1, so that the real client and all of ADK run without a key."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Request = dict[str, Any]
Part = dict[str, Any]


class FakeGemini:
    """A server that answers every request for content with one part.

    Args:
        answer: from the request's body to the part.
    """

    def __init__(self, answer: Callable[[Request], Part]) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def environment(self) -> dict[str, str]:
        """What leads a client here."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return {
            "GOOGLE_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": url,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.requests.append(body)
                content = {"role": "model", "parts": [fake.answer(body)]}
                usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
                reply = {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}
                is_streamed = ":streamGenerateContent" in self.path
                text = json.dumps(reply)
                self._send(f"data: {text}\r\n\r\n" if is_streamed else text, is_streamed)

            def _send(self, text: str, is_streamed: bool) -> None:
                data = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream" if is_streamed else "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        return Handler


def said(request: Request) -> str:
    """The words of the latest content."""
    return " ".join(part.get("text", "") for part in _latest(request))


def responses(request: Request) -> list[dict[str, Any]]:
    """What the tools have answered in the latest content."""
    return [part["functionResponse"] for part in _latest(request) if "functionResponse" in part]


def preloaded(request: Request) -> str:
    """What ``preload_memory`` put into the request."""
    texts = (part.get("text", "") for content in request["contents"] for part in content["parts"])
    return " ".join(text for text in texts if _PRELOADED in text)


_PRELOADED = "<PAST_CONVERSATIONS>"


def _latest(request: Request) -> list[Part]:
    """The parts of the last content but for what ``preload_memory`` put behind a tool's answer."""
    spoken = [one["parts"] for one in request["contents"] if _PRELOADED not in one["parts"][0].get("text", "")]
    return list(spoken[-1])


def call(name: str, **arguments: Any) -> Part:
    """A part that calls a tool."""
    return {"functionCall": {"name": name, "args": arguments}}
