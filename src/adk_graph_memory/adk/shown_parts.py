"""Find the pictures and files that an event shows, and tell them from its words."""

from __future__ import annotations

import hashlib
import mimetypes
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit, urlunsplit

from google.adk.events.event import Event
from google.genai import types

from adk_graph_memory.adk import session_codec
from adk_graph_memory.language.text import digest, join_lines
from adk_graph_memory.records.turns import ShownPart

_PLACEHOLDER = re.compile(r'\[Uploaded Artifact: "(?P<name>.+)"\]')
"""What ADK's SaveFilesAsArtifactsPlugin puts in place of a file that it saves as an artifact."""
_MAX_NAME_CHARACTERS = 200
_UNKNOWN_TYPE = "application/octet-stream"


def collect_artifact_versions(events: Iterable[Event]) -> dict[tuple[str, str], int]:
    """Collect the first version of each artifact that an invocation saved, by invocation and name.

    ADK saves what a user sends before all else, and says so in a later event.
    """
    versions: dict[tuple[str, str], int] = {}
    for event in events:
        for name, version in event.actions.artifact_delta.items():
            versions.setdefault((event.invocation_id, name), version)
    return versions


def split_shown_parts(event: Event, versions: Mapping[tuple[str, str], int]) -> tuple[str, list[ShownPart]]:
    """Split an event into its words and the parts that it shows.

    Args:
        event: the event.
        versions: as :func:`collect_artifact_versions` returns them.
    """
    parts: Sequence[types.Part] = (event.content.parts if event.content else None) or ()
    shown = [one for part in parts if (one := _read_part(part)) is not None]
    names = {one.name for one in shown if one.uri}  # the placeholder's file follows it, if a model can open it
    shown = [one for one in shown if not (one.is_artifact and one.name in names)]
    if not shown:
        return session_codec.get_event_text(event), []
    words = [part for part in parts if part.text and not _PLACEHOLDER.fullmatch(part.text)]
    said = event.model_copy(update={"content": types.Content(parts=words)})
    return session_codec.get_event_text(said), [_find_version(one, event, versions) for one in shown]


def _read_part(part: types.Part) -> ShownPart | None:
    """Read a part that is no text; None if it is another one."""
    media = part.inline_data or part.file_data
    if part.thought or (media and (media.mime_type or "").startswith("audio/")):
        return None  # what was spoken is transcribed
    if part.text and (saved := _PLACEHOLDER.fullmatch(part.text)):
        name = _clean_name(saved["name"])
        return ShownPart(ShownPart.make_artifact_key(name), _guess_type(name), name)
    if (blob := part.inline_data) and blob.data:
        name = _clean_name(blob.display_name)
        return ShownPart(hashlib.sha256(blob.data).hexdigest(), _clean_type(blob.mime_type), name, content=blob.data)
    if (file := part.file_data) and file.file_uri:
        name = _clean_name(file.display_name or unquote(PurePosixPath(urlsplit(file.file_uri).path).name))
        return ShownPart(
            digest(file.file_uri),
            _clean_type(file.mime_type or _guess_type(name)),
            name,
            uri=_hide_secrets(file.file_uri),
        )
    return None


def _find_version(part: ShownPart, event: Event, versions: Mapping[tuple[str, str], int]) -> ShownPart:
    version = versions.get((event.invocation_id, part.name)) if part.name else None
    return replace(part, version=version)


def _clean_name(name: str | None) -> str:
    text = unicodedata.normalize("NFC", (name or "").encode("utf-8", "replace").decode())
    return join_lines(text).strip()[:_MAX_NAME_CHARACTERS]


def _hide_secrets(uri: str) -> str:
    """Leave out of a link what may let somebody in: user, password and query."""
    address = urlsplit(uri)
    return urlunsplit((address.scheme, address.netloc.rpartition("@")[2], address.path, "", ""))


def _clean_type(mime_type: str | None) -> str:
    return (mime_type or _UNKNOWN_TYPE).partition(";")[0].strip().lower()


def _guess_type(name: str) -> str:
    return mimetypes.guess_type(name, strict=False)[0] or _UNKNOWN_TYPE
