"""Route requests to the methods of a user's memory; a path names the user, and the caller must be allowed to use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from io import TextIOWrapper
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO, Generic, Literal, TypeVar
from unicodedata import category
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from adk_graph_memory import errors
from adk_graph_memory.graph import ingest_queue
from adk_graph_memory.language.text import digest, join_lines
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.memory.recall import FIRST_WAIT
from adk_graph_memory.memory.user_memory import UserMemory
from adk_graph_memory.records.history import EntityHistory, FactHistory, MemoryChange
from adk_graph_memory.records.results import (
    DocumentReport,
    IngestReport,
    ProfileItem,
    Receipt,
    StoredDocument,
    StoredEntity,
    StoredFact,
)
from adk_graph_memory.records.scopes import is_blank
from adk_graph_memory.records.turns import DOCUMENT_SESSION, Role, Turn
from adk_graph_memory.servers.access import find_owner
from adk_graph_memory.servers.json_forms import Limit, SearchResult

T = TypeVar("T")
OWNER_PATH = "/v1/apps/{app_name}/users/{user_id}"
reading, writing = APIRouter(prefix=OWNER_PATH), APIRouter(prefix=OWNER_PATH)
MAX_TURNS, MAX_DEPTH, CHUNK_BYTES = 1_000, 32, 1 << 16
MAX_EXPORTS = 2
"""Exports that may run at a time: each takes a thread of work and a file as large as a memory."""
MANY_EXPORTS = f"{MAX_EXPORTS} exports are running, and no more may: send this request again later."
READ_ONLY = "This service is read-only: start it without --read-only, or make it with write=True, to change memory."
NOT_YOURS = "This request may not use this memory: the token, or your application, opens another."
NO_TURN_ID = "A turn without an id needs the header Idempotency-Key, so that a repeated request stores nothing twice."
KEY_USED = "This Idempotency-Key came with another text, author or role before. Nothing was stored: send a new key."
QUEUED_METADATA = "only turns that are read at once take metadata: leave it out, or leave out queue=true"


def _decode(text: str) -> str:
    return unquote(text, errors="strict")


def _decode_id(text: str) -> str:
    """Decode an id; refuse one that somebody between here and the caller may read as another path."""
    id = _decode(text)
    if id in (".", "..") or is_blank(id) or any(sign in "/\\" or category(sign) in ("Cc", "Cs") for sign in id):
        raise ValueError("an id in a path is neither . nor .. and holds no slash and no control character")
    return id


def _check_words(text: str) -> str:
    if is_blank(text):
        raise ValueError("this says nothing: give words")
    return _check_characters(text)


def _check_characters(text: str) -> str:
    if any(category(sign) == "Cs" for sign in text):
        raise ValueError("this holds half of a character: send whole ones")
    return text


def _check_metadata(value: Any, left: int = MAX_DEPTH) -> Any:
    if not left:
        raise ValueError(f"this is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        _check_characters(value)
    for item in (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_metadata(item, left - 1)
    return value


OwnerId = Annotated[str, AfterValidator(_decode_id)]
Name = Annotated[str, AfterValidator(_decode)]
Words = Annotated[str, AfterValidator(_check_words)]


async def open_user(request: Request, app_name: OwnerId, user_id: OwnerId) -> UserMemory:
    """Open the memory that the path names.

    Raises:
        HTTPException: 403 if the request may not use it, whether or not there is such a user.
    """
    owner = await find_owner(request.app.state.identify, request)
    if owner not in ((app_name, user_id), (app_name, None)):
        raise HTTPException(403, NOT_YOURS)
    memory: GraphMemory = request.app.state.memory
    return memory.user(app_name, owner[1] or user_id)


User = Annotated[UserMemory, Depends(open_user)]


class Form(BaseModel):
    """The body of a request; a field that nobody knows is a mistake."""

    model_config = ConfigDict(extra="forbid")


class Question(Form):
    """What to recall; :meth:`.UserMemory.recall` says what each option means."""

    question: Annotated[Words, Field(max_length=4_000)]
    limit: Annotated[int | None, Field(ge=0, le=200)] = None
    token_budget: Annotated[int | None, Field(ge=0)] = None
    min_score: Annotated[float | None, Field(ge=0, le=1)] = None
    now: AwareDatetime | None = None
    language: str | None = None
    explain: bool = False


class Memories(BaseModel):
    """The memories that fit best, best first; none if nothing fits."""

    memories: list[SearchResult]


class Page(BaseModel, Generic[T]):
    """A page of a list; ``next`` is what to pass as ``after`` for the following one, None on the last."""

    items: list[T]
    next: str | None


class UserProfile(BaseModel):
    """What is always worth knowing about a user: as text for a prompt, and item by item."""

    text: str
    items: list[ProfileItem]


@reading.post("/recall")
async def recall(user: User, body: Question) -> Memories:
    """Return the memories that best fit a question; ``prompt_text`` is the line for a prompt."""
    memories = await user.recall(first_wait=FIRST_WAIT, query=body.question, **body.model_dump(exclude={"question"}))
    return Memories(memories=[SearchResult.model_validate(memory) for memory in memories])


@reading.get("/facts")
async def list_facts(
    user: User, about: str | None = None, past: bool = False, limit: Limit = 50, after: str | None = None
) -> Page[StoredFact]:
    """List facts, newest first; with ``past`` also those that ended, with ``about`` those of one entity."""
    facts = [fact async for fact in user.facts(about=about, past=past, limit=limit + 1, after=after)]
    return Page(items=facts[:limit], next=facts[limit - 1].id if len(facts) > limit else None)


@reading.get("/facts/{id}")
async def get_fact(user: User, id: Name) -> FactHistory:
    """Return a fact with every word that speaks for it and every decision about it."""
    return await user.history(id)


@reading.get("/entities")
async def list_entities(
    user: User, type: str | None = None, limit: Limit = 50, after: str | None = None
) -> Page[StoredEntity]:
    """List the people and things that facts are about, those with most facts first."""
    entities = [entity async for entity in user.entities(type=type, limit=limit + 1, after=after)]
    return Page(items=entities[:limit], next=entities[limit - 1].key if len(entities) > limit else None)


@reading.get("/entities/{name:path}")
async def get_entity(user: User, name: Name) -> EntityHistory:
    """Return an entity by name, alias or key, with the source of each name and the facts that hold."""
    return await user.entity(name)


@reading.get("/documents")
async def list_documents(user: User, limit: Limit = 50, after: str | None = None) -> Page[StoredDocument]:
    """List the documents that are remembered, by title."""
    documents = [document async for document in user.documents(limit=limit + 1, after=after)]
    return Page(items=documents[:limit], next=documents[limit - 1].session_id if len(documents) > limit else None)


@reading.get("/profile")
async def get_profile(user: User) -> UserProfile:
    """Return what is always worth knowing about the user."""
    profile = await user.profile()
    return UserProfile(text=profile.text, items=list(profile.items))


async def open_file(request: Request) -> AsyncIterator[BinaryIO]:
    """Open a file without a name, which is gone once the answer is sent; only some may be open at a time.

    Raises:
        HTTPException: 503 if as many exports run as may.
    """
    slots: asyncio.Semaphore = request.app.state.export_slots
    if slots.locked():
        raise HTTPException(503, MANY_EXPORTS)
    async with slots:
        with TemporaryFile() as file:
            yield file


@reading.get("/export", response_class=StreamingResponse)
async def export(request: Request, user: User, file: Annotated[BinaryIO, Depends(open_file)]) -> StreamingResponse:
    """Return all of it as JSON Lines, for ``adk-graph-memory import --from export``."""
    lines = TextIOWrapper(file, "utf-8", newline="\n")
    try:
        memory: GraphMemory = request.app.state.memory
        report = await memory.export(lines, app_name=user.scope.app_name, user_id=user.scope.user_id)
    finally:
        lines.detach()
    file.seek(0)
    chunks: Iterator[bytes] = iter(partial(file.read, CHUNK_BYTES), b"")
    headers = {"Content-Length": str(report.bytes)}
    return StreamingResponse(chunks, headers=headers, media_type="application/x-ndjson")


class NewTurn(Form):
    """What one author said; without ``at``, it was said now."""

    author: str
    text: Words
    id: str | None = None
    at: AwareDatetime | None = None
    role: Role = "user"


class NewTurns(Form):
    """Turns of one session, in the order they were said, and metadata to store with them."""

    session_id: str
    turns: Annotated[list[NewTurn], Field(min_length=1, max_length=MAX_TURNS)]
    metadata: Annotated[dict[str, Any] | None, AfterValidator(_check_metadata)] = None


class NewDocument(Form):
    """A text, in Markdown or plain, under its title; without ``at``, it says this since now."""

    title: Words
    text: Words
    author: Words | None = None
    at: AwareDatetime | None = None


class QueuedTurns(BaseModel):
    """How many new turns wait to be read."""

    queued: int


class Ruling(Form):
    """Why a fact is changed; with ``preview``, the answer says what would change, and nothing does."""

    reason: str = ""
    preview: bool = False


class Correction(Ruling):
    """What is true, and since when and until when, null if unknown; what is left out stays."""

    text: Words | None = None
    valid_from: AwareDatetime | None = None
    valid_to: AwareDatetime | None = None


class Undoing(Form):
    """An ingest to take back, as a history names it."""

    ingest_id: str
    preview: bool = False


@writing.post("/turns", responses={202: {"model": QueuedTurns}, 409: {"description": KEY_USED}})
async def add_turns(
    user: User,
    body: NewTurns,
    response: Response,
    queue: bool = False,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> IngestReport | QueuedTurns:
    """Store turns and read them; with ``queue``, only store them, for ``adk-graph-memory ingest --pending``.

    A turn that is known by its id costs nothing; with another text, it is an edit.
    """
    key = "request", user.scope.key, idempotency_key
    async with user.connection.locks.hold_lock(key) if idempotency_key else nullcontext():
        turns = await _make_turns(user, body, idempotency_key)
        if not queue:
            return await user.remember(turns, session_id=body.session_id, metadata=body.metadata)
        if body.metadata:
            raise errors.InvalidArgument(reason=QUEUED_METADATA)
        response.status_code = 202
        return QueuedTurns(queued=await user.enqueue(turns, session_id=body.session_id))


@writing.post("/documents")
async def add_document(user: User, body: NewDocument) -> DocumentReport:
    """Remember a document, as evidence; sent again, it costs nothing, and another text replaces the former one."""
    return await user.remember_document(body.text, title=body.title, author=body.author, at=body.at)


@writing.delete("/documents/{title:path}")
async def forget_document(user: User, title: Name) -> Receipt:
    """Forget a document with all that rests on it."""
    receipt = await user.forget_session(f"{DOCUMENT_SESSION}{join_lines(title).strip()}")
    if not receipt.events:
        raise HTTPException(404, "There is no document with this title: GET /documents lists them.")
    return receipt


async def _make_turns(user: UserMemory, body: NewTurns, key: str | None) -> list[Turn]:
    """Make the turns; the ids of those without one follow from the key, so that the same request makes the same.

    Raises:
        HTTPException: 422 without a key, 409 if the key came with other words, or another author or role.
    """
    if key is None and any(turn.id is None for turn in body.turns):
        raise HTTPException(422, NO_TURN_ID)
    now = datetime.now(await user.engine.speakers.find_zone(user.scope))
    turns = [
        Turn(turn.id or digest(f"key {key}", str(place)), turn.author, turn.text, turn.at or now, turn.role)
        for place, turn in enumerate(body.turns)
    ]
    keyed = [turn for turn, given in zip(turns, body.turns, strict=True) if given.id is None]
    stored = await user.engine.redactor.redact_turns(keyed)
    if stored and await ingest_queue.find_edited_turns(user.graph, body.session_id, stored):
        raise HTTPException(409, KEY_USED)
    return turns


@writing.post("/facts/{id}/correct")
async def correct_fact(user: User, id: Name, body: Correction) -> MemoryChange:
    """Replace a wrong fact: it was never true."""
    return await user.correct(id, **body.model_dump(exclude_unset=True))


@writing.post("/facts/{id}/{ruling}")
async def rule_fact(
    user: User, id: Name, ruling: Literal["pin", "unpin", "retract"], body: Ruling | None = None
) -> MemoryChange:
    """Pin a fact, so that no extracted fact ends it; unpin it; or retract it as never true."""
    change: MemoryChange = await getattr(user, ruling)(id, **body.model_dump() if body else {})
    return change


@writing.post("/undo")
async def undo(user: User, body: Undoing) -> Receipt | MemoryChange:
    """Take back everything that one ingest wrote."""
    return await (user.preview_undo if body.preview else user.undo)(body.ingest_id)


@writing.delete("/memories/{id:path}")
async def forget(user: User, id: Name, with_turns: bool = False, preview: bool = False) -> Receipt | MemoryChange:
    """Forget a turn, a fact or a statement as if it had never been said."""
    return await (user.preview_forget if preview else user.forget)(id, with_turns=with_turns)


@writing.delete("")
async def forget_user(
    user: User,
    confirm: Annotated[str, Query(description="The user's id.")],
    sessions: bool = False,
    artifacts: bool = False,
) -> Receipt:
    """Forget everything remembered about the user; on request also their sessions and artifacts."""
    if confirm != user.scope.user_id:
        raise errors.InvalidArgument(reason="confirm does not repeat the user's id, so nothing was forgotten")
    return await user.forget_user(sessions=sessions, artifacts=artifacts)


def make_refusals() -> APIRouter:
    """Make routes that say of each request which would change memory that nothing here does."""
    refusing = APIRouter()

    async def refuse_change() -> None:
        raise HTTPException(403, READ_ONLY)

    for route in writing.routes:
        if isinstance(route, APIRoute):
            refusing.add_api_route(
                route.path, refuse_change, methods=sorted(route.methods or ()), include_in_schema=False
            )
    return refusing
