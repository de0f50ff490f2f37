"""The input of memory: the turns of a session, statements added directly, and passages to embed."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from adk_graph_memory import errors
from adk_graph_memory.language.dates import apply_fixed_offset
from adk_graph_memory.language.text import digest, join_lines
from adk_graph_memory.records.scopes import check_flags, check_id, check_name, check_text

MemoryKind = Literal["fact", "event"]
Role = Literal["user", "model"]
Origin = Literal["owner", "user", "import", "document", "picture", "agent", "tool"]
"""Whose word it is, the strongest first: that of the memory's owner about the memory, a person's, imported from where a
model or nobody known worded it, a document's, a model's description of a picture, an agent's, a tool's."""
IMPERSONAL_ORIGINS: frozenset[Origin] = frozenset(("document", "picture", "agent", "tool"))
"""Those of words that nobody says to an agent: they end nothing that a person said."""
_ORIGINS_BY_ROLE: Mapping[str, Origin] = {"user": "user", "model": "agent"}

PICTURE_TYPES = frozenset(f"image/{kind}" for kind in ("png", "jpeg", "webp", "gif", "heic", "heif"))
"""The types of pictures that models read."""
ROUND_BRACKETS = str.maketrans("[]", "()")
"""What is shown does not end its own line."""
RULES = "rules"
"""Stands for no model in its place."""
NO_SESSION = ":no-session:"
"""The session of a user's turns that came without a session id."""
OWNER_SESSION = ":owner:"
"""The session of what the owner of a memory said about it."""
STATEMENT_SESSION = ":statements:"
"""The session of statements that are consolidated with what memory holds."""
PROMOTED_SESSION = ":promoted:"
"""How the session of a fact's quotes begins in a shared memory; the fact's id follows."""
DOCUMENT_SESSION = ":document:"
"""How the session of a document's passages begins; the document's title follows."""


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A picture or a file that a turn shows: a reference to it, and what a model saw in it.

    Memory never stores the bytes. ``key`` is a digest of them, or of the place where they are.
    """

    key: str
    mime_type: str
    name: str = ""
    """of the artifact, or of the file"""
    version: int | None = None
    """of the artifact, if it is one"""
    uri: str = ""
    description: str = ""
    described_by: str = ""
    """the model that was asked to describe it, even if it did not"""
    content: bytes | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def make_artifact_key(name: str) -> str:
        """Make the key of a part of which only an artifact's name is known."""
        return digest("artifact", name)

    @property
    def is_artifact(self) -> bool:
        """Whether only an artifact's name is known of it."""
        return self.key == self.make_artifact_key(self.name)

    @property
    def is_picture(self) -> bool:
        """Whether a model can be asked what it shows."""
        return self.mime_type in PICTURE_TYPES

    @property
    def line(self) -> str:
        """The line that stands for it in the text of its turn."""
        kind = self.mime_type.partition("/")[0]
        title = " ".join(filter(None, ("file" if kind in ("application", "text", "") else kind, self.name)))
        title = title.translate(ROUND_BRACKETS)
        return join_lines(f"[{title}: {self.description}]" if self.description else f"[{title}]")


@dataclass(frozen=True, slots=True)
class Turn:
    """What one author said at one time; ``at`` is aware and has the offset of the place where it was said.

    ``seq`` is the turn's position in its session; it orders turns of the same time. ``seq`` and ``session_id`` are
    filled in when the turn is leased. The default ``origin`` follows from the role. After ``expires_at``, nobody finds
    the turn or anything that rests on it alone; after ``revisions_expire_at``, nobody sees what the facts that it
    changed were before. ``show_parts`` adds what the turn shows: ``text`` then ends with a line for each part.
    """

    id: str
    author: str
    text: str
    at: datetime
    role: Role = "user"
    seq: int = 0
    session_id: str = ""
    expires_at: datetime | None = None
    revisions_expire_at: datetime | None = None
    origin: Origin | None = None
    shown: tuple[ShownPart, ...] = ()
    own_text: str | None = None
    """the author's own words, if the text has more than these"""

    def __post_init__(self) -> None:
        check_text("a turn's id", self.id)
        check_id("a turn's id", self.id)
        check_name(f"the author of turn {self.id!r}", self.author)
        if self.role not in get_args(Role):
            raise errors.InvalidArgument(reason=f"{self.role!r} is no role of a turn: give 'user' or 'model'")
        object.__setattr__(self, "origin", check_origin(self.origin or _ORIGINS_BY_ROLE[self.role]))
        for moment in (self.at, *filter(None, (self.expires_at, self.revisions_expire_at))):
            check_timezone_aware(moment)
        object.__setattr__(self, "at", apply_fixed_offset(self.at))
        object.__setattr__(self, "text", _normalize_unicode(self.text))

    @property
    def text_key(self) -> str:
        """A digest of what was said and shown; it changes when the turn is edited, and not when a part is described."""
        return digest(self.author_text, *(part.key for part in self.shown))

    @property
    def author_text(self) -> str:
        """The author's own words: the text without the lines of what is shown."""
        return self.text if self.own_text is None else self.own_text

    def show_parts(self, parts: Iterable[ShownPart]) -> Turn:
        """Return a copy of this turn that shows these parts."""
        shown = tuple(parts)
        if not shown:
            return replace(self, text=self.author_text, own_text=None, shown=())
        text = "\n".join(filter(None, (self.author_text, *(part.line for part in shown))))
        return replace(self, text=text, own_text=self.author_text, shown=shown)

    def make_memory_id(self, session_id: str) -> str:
        """The memory id of this turn in that session."""
        return make_memory_id(session_id, self.id)


@dataclass(frozen=True, slots=True)
class Statement:
    """A text to remember that nobody said in a session.

    If a statement with this id is known, its metadata is merged, or replaced if ``replaces_metadata`` is set. The
    default ``origin`` is ``user`` if the author is ``user``, and ``import`` otherwise.
    """

    text: str
    at: datetime
    author: str | None = None
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    replaces_metadata: bool = False
    topic: str = ""
    expires_at: datetime | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "origin", check_origin(self.origin or ("user" if self.author == "user" else "import")))
        for moment in (self.at, *filter(None, (self.expires_at,))):
            check_timezone_aware(moment)
        for name in ("id", "topic"):
            if (value := getattr(self, name)) is not None:
                check_text(f"a statement's {name}", value)
        check_flags(replaces_metadata=self.replaces_metadata)
        if self.id is not None:
            check_id("a statement's id", self.id)
        object.__setattr__(self, "at", apply_fixed_offset(self.at))
        object.__setattr__(self, "text", _normalize_unicode(self.text))
        if self.author is not None:
            check_name(f"the author of the statement {self.text!r}", self.author)


class Passage(NamedTuple):
    """A text to embed, and what was said just before it: alone, "Yes, since May" means little."""

    text: str
    preceding_text: str = ""


class Embedding(NamedTuple):
    """A passage's vector and, if the embedder provides them, its token vectors, packed by a ``Projection``."""

    vector: list[float]
    tokens: bytes | None = None


def is_evidence(session_id: str) -> bool:
    """Whether a session's turns are evidence alone: a search finds the facts that rest on them, and not the turns."""
    return session_id == STATEMENT_SESSION or session_id.startswith(PROMOTED_SESSION)


def is_document(session_id: str) -> bool:
    """Whether a session holds the passages of a document."""
    return session_id.startswith(DOCUMENT_SESSION)


def check_session_id(session_id: object) -> None:
    """Refuse an id of a session that is none, or that memory keeps for what is not said in a session.

    Raises:
        errors.InvalidArgument: it is no text, too long, or such an id.
    """
    check_text("session_id", session_id)
    check_id("session_id", str(session_id))
    if session_id == OWNER_SESSION or is_evidence(str(session_id)) or is_document(str(session_id)):
        raise errors.InvalidArgument(reason=f"memory itself uses the session id {session_id!r}: choose another")


def make_memory_id(session_id: str, turn_id: str) -> str:
    """The memory id of a session's turn."""
    return f"event:{digest(session_id, turn_id)}"


def _normalize_unicode(text: str) -> str:
    if not isinstance(text, str):
        raise errors.InvalidArgument(reason=f"the text {text!r} is no text")
    return unicodedata.normalize("NFC", text)


def find_word_origin(origin: Origin, own_text: str | None, end: int) -> Origin:
    """Find whose word it is that ends at this place of a turn's text: the turn's, or that of what it shows."""
    return "picture" if own_text is not None and end > len(own_text) else origin


def check_origin(value: Any) -> Origin:
    """Return the origin.

    Raises:
        errors.InvalidArgument: there is no such origin.
    """
    if value not in get_args(Origin):
        raise errors.InvalidArgument(reason=f"the origin {value!r} is none of {', '.join(get_args(Origin))}")
    origin: Origin = value
    return origin


def find_strongest_origin(origins: Iterable[Origin]) -> Origin | None:
    """Return the strongest of these origins, or None if there are none."""
    return min(origins, key=get_args(Origin).index, default=None)


def check_timezone_aware(moment: datetime) -> None:
    """Refuse a time without an offset, since its meaning depends on the machine that reads it.

    Raises:
        errors.InvalidArgument: it is no datetime, has no offset, or is not between the years 2 and 9998.
    """
    if not isinstance(moment, datetime):
        raise errors.InvalidArgument(reason=f"{moment!r} is no datetime")
    if moment.tzinfo is None:
        raise errors.InvalidArgument(reason=f"{moment!r} has no time zone; use datetime.now(UTC) or the like")
    if not 1 < moment.year < 9999:
        raise errors.InvalidArgument(reason=f"{moment.isoformat()} is not between the years 2 and 9998")
