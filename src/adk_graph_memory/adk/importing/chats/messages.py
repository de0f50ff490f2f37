"""A message of an exported chat, whoever's, and what a chat's file may not say itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.adk.importing.records import check_text, parse_moment
from adk_graph_memory.records.reports import MEDIA, SkippedRow

USER_AUTHOR, AGENT_AUTHOR = "user", "assistant"


class Message(NamedTuple):
    """What somebody said; ``session_id`` is None where the chat is one, which is then parted by days.

    Ids and days rest on ``written``: the time as the file has it, whatever zone it is said to be of.
    """

    place: str
    author: str
    text: str
    at: datetime
    written: datetime
    is_agent: bool = False
    session_id: str | None = None
    id: str | None = None


Row = Message | SkippedRow


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What a chat's file may not say itself.

    Args:
        zone: of times without an offset.
        date_order: ``dmy``, ``mdy`` or ``ymd``; by default the whole file tells.
        columns: of a CSV file: the name of the column for ``text``, ``author``, ``time`` and ``session``.
        at: the time of messages that have none.
        me: which of the speakers is the user; by default the one who has the user's id.
        sets_zone: whether the zone becomes the user's, if they have none: not one that is only a default.
    """

    zone: tzinfo
    date_order: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    at: datetime | None = None
    me: str | None = None
    sets_zone: bool = True


def make_message(
    place: str,
    author: object,
    text: object,
    at: object,
    options: ChatOptions,
    *,
    is_agent: bool = False,
    session_id: str | None = None,
    id: str | None = None,
) -> Row:
    """Make a message of what stands in a file, or say what it is instead of one."""
    if text is None or (isinstance(text, str) and not text.strip()):
        return SkippedRow(place, MEDIA, "a message without words")
    try:
        said, speaker = check_text(text, "text"), check_text(author, "author")
        moment = parse_moment(at, options.zone, "time") or options.at
        written = parse_moment(at, UTC, "time") or (moment and read_clock(moment))
    except errors.InvalidArgument as error:
        return SkippedRow(place, "unreadable", error.reason)
    if moment is None or written is None:
        return SkippedRow(place, "without a time", "it has no time: give --at, a day or a time for all of them")
    return Message(place, speaker, said, moment, written, is_agent, session_id, id)


def read_clock(moment: datetime) -> datetime:
    """What a clock shows at a moment, as if it were of UTC."""
    return moment.replace(tzinfo=UTC)
