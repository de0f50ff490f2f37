"""Make sessions of an exported chat, which says nothing of apps, users and sessions."""

from __future__ import annotations

import asyncio
import unicodedata
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from google.adk.events.event import Event
from google.genai import types

from adk_graph_memory import errors
from adk_graph_memory.adk.importing.chats.files import ChatFiles
from adk_graph_memory.adk.importing.chats.forms import FORMS
from adk_graph_memory.adk.importing.chats.messages import USER_AUTHOR, ChatOptions, Message, Row
from adk_graph_memory.adk.importing.records import SourceEvent, SourceSession, SourceState, check_text
from adk_graph_memory.language.dates import TIMEZONE_KEY
from adk_graph_memory.language.text import digest
from adk_graph_memory.records.reports import SkippedRow

PAGE_SIZE = 100
"""Events that are yielded together."""


class ChatSource:
    """The sessions of an exported chat, once it is read; a chat that names none has one for each day.

    Its ids depend on what was said alone, so a later export of the same chat brings what came since.

    Args:
        path: a file, a folder, or a ZIP archive.
        form: a name of :data:`FORMS`.
        app_name: whose sessions they become.
        user_id: likewise.
        options: what the file does not say itself.
    """

    def __init__(self, path: Path, form: str, app_name: str, user_id: str, options: ChatOptions) -> None:
        self._path, self._form, self._options = path, form, options
        self._app_name, self._user_id = app_name, user_id
        self._skipped = list[SkippedRow]()
        self._sessions = dict[str, list[Message]]()
        self._days = dict[str, str]()
        self.speakers: Counter[str] = Counter()
        """messages of each speaker, by the name in the file"""
        self.period: tuple[datetime, datetime] | None = None
        """the times of the first and of the last message"""

    async def read_chat(self) -> None:
        """Read the whole chat.

        Raises:
            errors.NotFound: there is no such file.
            errors.UnreadableTranscript: it is of another form.
            errors.InvalidArgument: what the options do not say cannot be told from it.
        """
        await asyncio.to_thread(self._read_rows)

    def _read_rows(self) -> None:
        with closing(ChatFiles(self._path)) as files:
            rows = [_check_names(row) for row in FORMS[self._form].read(files, self._options)]
        self._skipped = [row for row in rows if isinstance(row, SkippedRow)]
        messages = [row for row in rows if isinstance(row, Message)]
        self.speakers = Counter(message.author for message in messages)
        if not messages:
            return
        times = [message.at for message in messages]
        self.period = min(times), max(times)
        me = self._find_user(dict.fromkeys(message.author for message in messages if not message.is_agent))
        for message in messages:
            id = message.session_id
            if id is None:
                day = f"{self._form}-{message.written.date().isoformat()}-"
                id = self._days.setdefault(day, f"{day}{_identify_message(message)[:8]}")
            is_namesake = message.author.casefold() == USER_AUTHOR
            is_me = message.author == me and not message.is_agent
            author = USER_AUTHOR if is_me else "another user" if is_namesake else message.author
            self._sessions.setdefault(id, []).append(message._replace(author=author))

    def _find_user(self, people: Collection[str]) -> str | None:
        """Find which of the people is the user; None if nobody but an assistant speaks.

        Raises:
            errors.InvalidArgument: that is not clear.
        """
        wanted = self._options.me or self._user_id
        alike = [name for name in people if _fold_name(name) == _fold_name(wanted)]
        found = [wanted] if wanted in people else alike
        if not found and not self._options.me:
            found = [name for name in people if name == USER_AUTHOR]
        if len(found) == 1 or not people:
            return next(iter(found), None)
        names = ", ".join(sorted(found or people)[:12])
        asked = f"{self._options.me!r} says nothing in it" if self._options.me else "it does not say who the user is"
        asked = f"{wanted!r} may be several of its speakers" if found else asked
        raise errors.InvalidArgument(reason=f"{self._path}: {asked}. Give --me with one of its speakers: {names}")

    async def iterate_states(self) -> AsyncIterator[SourceState | SkippedRow]:
        """Iterate over what is no message, and the user's time zone."""
        for row in self._skipped:
            yield row
        if self._options.sets_zone and (zone := getattr(self._options.zone, "key", None)):
            key = TIMEZONE_KEY.removeprefix("user:")
            yield SourceState(f"{self._path}, time zone", self._app_name, self._user_id, {key: zone})

    async def iterate_sessions(self) -> AsyncIterator[SourceSession | SkippedRow]:
        """Iterate over the sessions in the order of the file."""
        days = {id: day for day, id in self._days.items()}
        for id, messages in self._sessions.items():
            place = f"{self._path}, session {id}"
            times = [message.at.timestamp() for message in messages]
            session = SourceSession(place, self._app_name, self._user_id, id, {}, min(times), max(times))
            if id in days:
                authors = {event_id: message.author for event_id, message in _identify_messages(messages)}
                session = replace(session, id_prefix=days[id], authors=authors)
            yield session

    async def iterate_event_pages(self, session: SourceSession) -> AsyncIterator[Sequence[SourceEvent | SkippedRow]]:
        """Iterate over a session's messages as events."""
        events = [
            SourceEvent(message.place, _make_event(message, id).model_dump_json(exclude_none=True))
            for id, message in _identify_messages(self._sessions[session.id])
        ]
        for start in range(0, len(events), PAGE_SIZE):
            yield events[start : start + PAGE_SIZE]


def _identify_message(message: Message) -> str:
    return digest(message.author, message.written.isoformat(), message.text)


def _identify_messages(messages: Iterable[Message]) -> Iterator[tuple[str, Message]]:
    """Give each of a session's messages an id: its own, or one of what was said, by whom and when."""
    seen = Counter[str]()
    for message in messages:
        id = message.id or _identify_message(message)
        seen[id] += 1
        yield id if seen[id] == 1 else f"{id}-{seen[id]}", message


def _fold_name(name: str) -> str:
    """A name as somebody types it: without invisible marks, in any case."""
    visible = (letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf")
    return " ".join("".join(visible).casefold().split())


def _check_names(row: Row) -> Row:
    """Leave out a message whose author or id cannot be kept."""
    if isinstance(row, SkippedRow):
        return row
    try:
        for name, value in (("author", row.author), ("id", row.id), ("session", row.session_id)):
            if value is not None:
                check_text(value, name)
    except errors.InvalidArgument as error:
        return SkippedRow(row.place, "unreadable", error.reason)
    return row


def _make_event(message: Message, id: str) -> Event:
    role = "model" if message.is_agent else "user"
    content = types.Content(role=role, parts=[types.Part(text=message.text)])
    timestamp = message.at.timestamp()
    return Event(id=id, invocation_id=id, author=message.author, timestamp=timestamp, content=content)
