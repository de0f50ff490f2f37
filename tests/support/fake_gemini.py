"""Speaks Gemini's wire protocol on 127.0.0.1, so that the real client and all of ADK run without a key."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self

from adk_graph_memory.testing import HashEmbedder

Request = dict[str, Any]
Part = dict[str, Any]
Scripted = tuple[int, dict[str, Any] | bytes] | Literal["hang"]

HANG: Literal["hang"] = "hang"
"""A request that is answered only when the test is over."""


class FakeGemini:
    """A server that answers every request for content with one part, and every request for vectors by the words.

    What is known of the service's own limits it keeps to: of an embedding too many are refused that it would refuse.

    Args:
        answer: from the request's body to the part.
        keeps_alive: leave connections open, which ADK's client never closes, so that a test would complain of them.
    """

    def __init__(
        self, answer: Callable[[Request], Part] = lambda request: {"text": "hello"}, *, keeps_alive: bool = True
    ) -> None:
        self.answer, self.keeps_alive = answer, keeps_alive
        self.requests: list[Request] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.script: list[Scripted] = []
        """what the next requests are answered with instead, each a status and a body"""
        self.broken: dict[str, Scripted] = {}
        """what every request of a verb is answered with for now"""
        self._is_over = threading.Event()
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
        threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._server.shutdown()
        self._server.server_close()

    def _reply(self, path: str, body: Request) -> tuple[int, Any]:
        verb = path.partition("?")[0].rpartition(":")[2]
        scripted = self.script.pop(0) if self.script else self.broken.get(verb)
        if scripted == HANG:
            self._is_over.wait()
        elif scripted:
            return scripted
        embed = {"batchEmbedContents": _many, "predict": _predicted, "embedContent": _one}.get(verb)
        return embed(path, body) if embed else (200, generated(self.answer(body)))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.requests.append(body)
                fake.paths.append(self.path)
                fake.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, reply = fake._reply(self.path, body)
                text = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                is_streamed = ":streamGenerateContent" in self.path and status == 200
                self._send(status, b"data: %b\r\n\r\n" % text if is_streamed else text, is_streamed)

            def _send(self, status: int, data: bytes, is_streamed: bool) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "text/event-stream" if is_streamed else "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Connection", "keep-alive" if fake.keeps_alive else "close")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        return Handler


def generated(*parts: Part, finish: str = "STOP") -> dict[str, Any]:
    """A reply with these parts."""
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {"candidates": [content | {"finishReason": finish}], "usageMetadata": usage}


def refused(status: int, name: str, message: str = "boom") -> tuple[int, dict[str, Any]]:
    """An error of the service."""
    return status, {"error": {"code": status, "status": name, "message": message}}


# -- vectors --------------------------------------------------------------------------------------------------------


def vector(text: str, dimensions: int) -> list[float]:
    """By the words alone, and of length two: the service leaves what it shortens as it comes."""
    return [2 * number for number in HashEmbedder(dimensions).embed_query(text)]


def _many(path: str, body: Request) -> tuple[int, dict[str, Any]]:
    requests = body.get("requests", [])
    if len(requests) > 100:
        return refused(400, "INVALID_ARGUMENT", "at most 100 requests can be in one batch")
    texts = [" ".join(part.get("text", "") for part in request["content"]["parts"]) for request in requests]
    if not all(text.strip() for text in texts):
        return refused(400, "INVALID_ARGUMENT", "EmbedContentRequest.content contains an empty Part.")
    sizes = [request.get("outputDimensionality", 3072) for request in requests]
    return 200, {"embeddings": [{"values": vector(*one)} for one in zip(texts, sizes, strict=True)]}


def _predicted(path: str, body: Request) -> tuple[int, dict[str, Any]]:
    texts = [instance["content"] for instance in body.get("instances", [])]
    most = 1 if "/gemini-embedding" in path else 250
    if len(texts) > most:
        return refused(400, "INVALID_ARGUMENT", f"batchSize must be {most} but the entered value was {len(texts)}")
    size = body["parameters"].get("outputDimensionality", 768)
    made = [{"values": vector(text, size), "statistics": {"token_count": len(text.split())}} for text in texts]
    return 200, {"predictions": [{"embeddings": one} for one in made]}


def _one(path: str, body: Request) -> tuple[int, dict[str, Any]]:
    text = " ".join(part["text"] for part in body["content"]["parts"])
    size = body.get("embedContentConfig", {}).get("outputDimensionality", 3072)
    usage = {"promptTokenCount": len(text.split())}
    return 200, {"embedding": {"values": vector(text, size)}, "usageMetadata": usage}


def embedded(request: Request) -> list[str]:
    """The texts of a request for vectors."""
    contents = [one["content"] for one in request.get("requests", []) or request.get("instances", [])]
    contents += [request["content"]] if "content" in request else []
    return [one if isinstance(one, str) else " ".join(part["text"] for part in one["parts"]) for one in contents]


# -- what an agent's model is asked ---------------------------------------------------------------------------------


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
