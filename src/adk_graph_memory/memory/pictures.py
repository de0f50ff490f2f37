"""Let a model describe the pictures of a window, wherever their bytes lie: memory itself never stores them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.extraction.pictures import MAX_PICTURE_BYTES, UNDESCRIBED, Picture, PictureDescriber
from adk_graph_memory.graph import artifacts, ingest_queue
from adk_graph_memory.graph.artifacts import ArtifactName
from adk_graph_memory.graph.blobs import BlobStore
from adk_graph_memory.graph.ingest_queue import Lease
from adk_graph_memory.memory.engine import UserContext
from adk_graph_memory.models.llm import Media
from adk_graph_memory.records.extractions import Extraction
from adk_graph_memory.records.turns import ShownPart, Turn

logger = logging.getLogger(__name__)

_USER_NAMESPACE = "user:"
_MODEL_SCHEMES = ("gs://", "https://")
"""Addresses that models open themselves."""


class _Place(NamedTuple):
    """A part of a turn, by their numbers."""

    turn: int
    part: int


async def describe_window(
    user: UserContext, describer: PictureDescriber | None, window: Lease
) -> tuple[Lease, Extraction]:
    """Describe the pictures of a window that no model was asked about; without a describer, nothing changes.

    Returns:
        The window with the descriptions, and an empty extraction with what they cost and how many are missing.

    Raises:
        errors.ModelError: the model cannot be reached.
    """
    places = list(_list_undescribed(window.turns)) if describer else []
    if describer is None or not places:
        return window, Extraction()
    pictures, found, drop_counts = list[Picture](), list[_Place](), Counter[str]()
    for place in places:
        turn = window.turns[place.turn]
        part = turn.shown[place.part]
        media = await _open_picture(user, window.session_id, turn, part)
        if media is None:
            drop_counts[UNDESCRIBED] += 1  # its bytes may be found another time
            continue
        pictures.append(Picture(part.name, turn.author_text, media))
        found.append(place)
    described = await describer.describe_pictures(pictures)
    texts = [await user.engine.redactor.redact_text(text) if text else "" for text in described.texts]
    turns = list(window.turns)
    for place, text in zip(found, texts, strict=True):
        turn = turns[place.turn]
        parts = list(turn.shown)
        parts[place.part] = replace(parts[place.part], description=text, described_by=describer.version)
        turns[place.turn] = turn.show_parts(parts)
    drop_counts += Counter(described.drop_counts)
    return replace(window, turns=tuple(turns)), Extraction(usage=described.usage, drop_counts=drop_counts)


def _list_undescribed(turns: Iterable[Turn]) -> Iterator[_Place]:
    for number, turn in enumerate(turns):
        for place, part in enumerate(turn.shown):
            if part.is_picture and not part.described_by:
                yield _Place(number, place)


async def _open_picture(user: UserContext, session_id: str, turn: Turn, part: ShownPart) -> Media | None:
    """Find the picture's bytes, or an address that a model can open; None if there are none, or too many."""
    content = part.content or user.engine.picture_cache.find_content(part.key)
    if content is None and part.uri.startswith(_MODEL_SCHEMES):
        return Media(part.mime_type, uri=part.uri)
    if content is None:
        content = await _load_from_event(user, session_id, turn, part) or await _load_artifact(user, session_id, part)
    return Media(part.mime_type, content) if content and len(content) <= MAX_PICTURE_BYTES else None


async def _load_from_event(user: UserContext, session_id: str, turn: Turn, part: ShownPart) -> bytes | None:
    """Load the picture from the event as its session holds it, if the session lies in this graph."""
    body = await ingest_queue.fetch_event_body(user.graph, turn.make_memory_id(session_id))
    parts = (json.loads(body).get("content") or {}).get("parts") if body else None
    return next(filter(None, (_decode_content(one, part.key) for one in parts or ())), None)


def _decode_content(part: Any, key: str) -> bytes | None:
    """Decode a part's bytes, if they are those with this key."""
    try:
        data = base64.b64decode(part["inlineData"]["data"], altchars=b"-_")
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    return data if hashlib.sha256(data).hexdigest() == key else None


async def _load_artifact(user: UserContext, session_id: str, part: ShownPart) -> bytes | None:
    """Load the picture from the artifacts in this graph."""
    if not part.name:
        return None
    name = part.name.removeprefix(_USER_NAMESPACE)
    place = ArtifactName(user.scope, session_id if name == part.name else "", name)
    version = await artifacts.fetch_version(user.connection, place, part.version, with_content=True)
    if version is None or version.store is None:
        return version and version.content
    try:
        return await BlobStore(version.store).get_blob(user.scope.key, version.id)
    except (errors.ContentMissing, errors.ArtifactStoreUnusable) as error:
        logger.warning("A picture cannot be described: %s", error)
        return None
