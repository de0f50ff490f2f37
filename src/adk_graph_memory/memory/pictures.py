"""Let a model describe the pictures of a window, wherever their bytes lie: memory itself never stores them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import replace

from adk_graph_memory import errors
from adk_graph_memory.extraction.pictures import (
    MAX_PICTURE_BYTES,
    MAX_PICTURES,
    UNDESCRIBED,
    Descriptions,
    Picture,
    PictureDescriber,
)
from adk_graph_memory.graph import artifacts, ingest_queue
from adk_graph_memory.graph.artifacts import ArtifactName
from adk_graph_memory.graph.blobs import BlobStore
from adk_graph_memory.graph.ingest_queue import Lease
from adk_graph_memory.memory.engine import UserContext
from adk_graph_memory.models.llm import Media
from adk_graph_memory.records.extractions import Extraction
from adk_graph_memory.records.turns import PICTURE_TYPES, ShownPart, Turn

logger = logging.getLogger(__name__)

_USER_NAMESPACE = "user:"
_MODEL_SCHEMES = ("gs://", "https://")
"""Addresses that models open themselves."""


async def describe_window(
    user: UserContext, describer: PictureDescriber | None, window: Lease
) -> tuple[Lease, Extraction]:
    """Describe the pictures of a window that this describer was not asked about; without one, nothing changes.

    Returns:
        The window with the descriptions, and an extraction of what they cost, how many are missing, and which turns the
        model could not be asked about.
    """
    if describer is None:
        return window, Extraction()
    places = [
        (number, place)
        for number, turn in enumerate(window.turns)
        for place, part in enumerate(turn.shown)
        if (part.is_picture or part.is_artifact) and not part.description and part.described_by != describer.version
    ]
    turns, described, unread = list(window.turns), Descriptions(), dict[str, str]()
    for start in range(0, len(places), MAX_PICTURES):  # so that few pictures are in memory at a time
        pictures, found = list[Picture](), list[tuple[int, int]]()
        opener = _PictureOpener(user, window.session_id)
        for number, place in places[start : start + MAX_PICTURES]:
            part, media = await opener.open_picture(turns[number], turns[number].shown[place])
            turns[number] = _replace_part(turns[number], place, part)
            if media is not None:
                pictures.append(Picture(part.name, turns[number].author_text, media))
                found.append((number, place))
            elif part.is_picture:  # its bytes may be found another time
                described += Descriptions(drop_counts={UNDESCRIBED: 1})
        answer = await describer.describe_pictures(pictures)
        for (number, place), text in zip(found, answer.texts, strict=True):
            if text is None:
                unread[turns[number].id] = answer.problem
                continue
            text = await user.engine.redactor.redact_text(text) if text else text
            part = turns[number].shown[place]
            part = replace(part, description=text, described_by=describer.version)
            turns[number] = _replace_part(turns[number], place, part)
        described += answer
    extraction = Extraction(usage=described.usage, drop_counts=described.drop_counts, unread=unread)
    return replace(window, turns=tuple(turns)), extraction


def _replace_part(turn: Turn, place: int, part: ShownPart) -> Turn:
    return turn.show_parts((*turn.shown[:place], part, *turn.shown[place + 1 :]))


class _PictureOpener:
    """Finds the bytes of pictures that the turns of a session show.

    Args:
        user: whose session it is.
        session_id: the session.
    """

    def __init__(self, user: UserContext, session_id: str) -> None:
        self._user, self._session_id = user, session_id
        self._contents: dict[str, Mapping[str, bytes]] = {}

    async def open_picture(self, turn: Turn, part: ShownPart) -> tuple[ShownPart, Media | None]:
        """Find a picture's bytes, or an address that a model can open.

        Returns:
            The part, with the type and version of the artifact that it is; and None if there are no bytes, or too many.
        """
        content = part.content or self._user.engine.picture_cache.find_content(part.key)
        if content is None and part.uri.startswith(_MODEL_SCHEMES):
            return part, Media(part.mime_type, uri=part.uri)
        if content is None and not part.is_artifact:
            content = (await self._load_event(turn)).get(part.key)
        if content is None and part.name:
            part, content = await self._load_artifact(part)
        is_right = content is not None and part.is_picture and len(content) <= MAX_PICTURE_BYTES
        return part, Media(part.mime_type, content) if is_right else None

    async def _load_event(self, turn: Turn) -> Mapping[str, bytes]:
        """Load the bytes in the turn's event, by their keys, if its session lies in this graph."""
        if turn.id not in self._contents:
            body = await ingest_queue.fetch_event_body(self._user.graph, turn.make_memory_id(self._session_id))
            self._contents = {turn.id: await asyncio.to_thread(_decode_contents, body) if body else {}}
        return self._contents[turn.id]

    async def _load_artifact(self, part: ShownPart) -> tuple[ShownPart, bytes | None]:
        """Load the artifact with the part's name from this graph, if it has the part's bytes or the part names it."""
        name = part.name.removeprefix(_USER_NAMESPACE)
        place = ArtifactName(self._user.scope, self._session_id if name == part.name else "", name)
        connection = self._user.connection
        stored = await artifacts.fetch_version(connection, place, part.version, with_content=False)
        if stored is None or stored.mime_type not in PICTURE_TYPES:
            return part, None
        stored = await artifacts.fetch_version(connection, place, stored.version, with_content=True)
        content = stored.content if stored else None
        if stored and stored.store:
            try:
                content = await BlobStore(stored.store).get_blob(self._user.scope.key, stored.id)
            except (errors.ContentMissing, errors.ArtifactStoreUnusable) as error:
                logger.warning("A picture cannot be described: %s", error)
        if stored is None or content is None:
            return part, None
        if part.is_artifact:
            return replace(part, mime_type=stored.mime_type or part.mime_type, version=stored.version), content
        return part, content if await asyncio.to_thread(_digest_content, content) == part.key else None


def _digest_content(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _decode_contents(body: str) -> dict[str, bytes]:
    """Decode the bytes in an event's JSON, by their digests."""
    contents = {}
    for part in (json.loads(body).get("content") or {}).get("parts") or ():
        try:
            data = base64.b64decode(part["inlineData"]["data"], altchars=b"-_")
        except (KeyError, TypeError, ValueError, binascii.Error):
            continue
        contents[_digest_content(data)] = data
    return contents
