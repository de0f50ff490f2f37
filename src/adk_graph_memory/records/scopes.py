"""Whose memory it is, and which ids can be stored."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from adk_graph_memory import errors
from adk_graph_memory.language.text import digest

T = TypeVar("T")

_INVISIBLE = frozenset(("Cc", "Cf", "Zl", "Zp", "Zs"))
"""The categories of characters that show nothing."""

MAX_KEY_BYTES = 8_000
"""Bytes (UTF-8) of what is indexed together: Neo4j refuses an index key above 8,167 bytes, our own part included."""

OWNER_NAME = "user"
"""What the owner of a memory is called in it: the author of their turns, and the entity that they are."""


class SharedMemory(str):
    """Takes the place of a user's id for a memory that users share: a group's or, without a group, the app's.

    Commands and settings refer to it by its text, ``:app:`` or ``:group:NAME``. No user can have such an id.
    """

    __slots__ = ()
    _APP, _GROUP = ":app:", ":group:"

    def __new__(cls, group: str | None = None) -> Self:
        """Raises :class:`errors.InvalidArgument` if the group is not a string or is empty."""
        if group is not None and not (isinstance(group, str) and group.strip()):
            raise errors.InvalidArgument(reason=f"the group {group!r} is no name")
        return super().__new__(cls, cls._APP if group is None else f"{cls._GROUP}{group}")

    def __getnewargs__(self) -> tuple[str | None]:  # type: ignore[override]  # copies are made from the group
        return (self.group,)

    @property
    def group(self) -> str | None:
        """The name of the group; None for the app's memory."""
        return None if self == self._APP else self.removeprefix(self._GROUP)

    @classmethod
    def parse(cls, id: str) -> str:
        """Return the shared memory that an id names, or else the id, which is a user's.

        For ids that come from an operator or the graph, never from a user, who could choose such a name.
        """
        if id == cls._APP:
            return cls()
        return cls(id.removeprefix(cls._GROUP)) if cls.is_reserved(id) else id

    @classmethod
    def is_reserved(cls, id: str) -> bool:
        """Whether a text looks like a shared memory but is not one."""
        is_group = id.startswith(cls._GROUP) and bool(id.removeprefix(cls._GROUP).strip())
        return not isinstance(id, cls) and (id == cls._APP or is_group)

    @classmethod
    def check_user_id(cls, id: str | None) -> None:
        """Refuse a text that looks like a shared memory where a user's id or None is expected.

        Raises:
            errors.InvalidArgument: it looks like one but is not one.
        """
        if id is not None and cls.is_reserved(id):
            reason = f"{id!r} cannot be a user's id; for a memory that users share give SharedMemory(…)"
            raise errors.InvalidArgument(reason=reason)


@dataclass(frozen=True, slots=True)
class Scope:
    """One user of one app, or a memory that users share; everything stored belongs to exactly one scope."""

    app_name: str
    user_id: str

    def __post_init__(self) -> None:
        check_text("app_name", self.app_name)
        check_text("user_id", self.user_id)
        check_id("app_name", self.app_name)
        check_id("user_id", self.user_id)
        SharedMemory.check_user_id(self.user_id)

    @classmethod
    def from_graph(cls, app_name: str, user_id: str) -> Self:
        """The scope of a user or a shared memory that the graph holds."""
        return cls(app_name, SharedMemory.parse(user_id))

    @property
    def is_shared(self) -> bool:
        """Whether it is a memory that users share."""
        return isinstance(self.user_id, SharedMemory)

    @property
    def owner_name(self) -> str:
        """Who is meant where nobody is named: the user, the group or the app."""
        return self.user_id.group or self.app_name if isinstance(self.user_id, SharedMemory) else OWNER_NAME

    @property
    def key(self) -> str:
        """The scope as nodes store it: 32 hex characters, whatever the ids' length and script."""
        return digest(self.app_name, self.user_id, *(["shared"] if self.is_shared else []))

    def check_authors(self, authors: Iterable[str | None]) -> None:
        """Refuse words for a shared memory that do not tell who says them; None stands for nobody known.

        Raises:
            errors.InvalidArgument: an author is ``user``.
        """
        if self.is_shared and any(author is not None and author.strip() == OWNER_NAME for author in authors):
            reason = (
                f"several people share this memory, so author {OWNER_NAME!r} could be any of them: give the person's "
                f"name"
            )
            raise errors.InvalidArgument(reason=reason)


def check_text(what: str, value: object) -> None:
    """Refuse what is no text.

    Raises:
        errors.InvalidArgument: it is none.
    """
    if not isinstance(value, str):
        raise errors.InvalidArgument(reason=f"{what} is {value!r}, not a text")


def check_name(what: str, value: object) -> None:
    """Refuse what is no name of anybody: no text, or a text that shows nothing.

    Raises:
        errors.InvalidArgument: it is none.
    """
    check_text(what, value)
    if is_blank(str(value)):
        raise errors.InvalidArgument(reason=f"{what} is {value!r}, which names nobody: give a name")


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: it is empty, or all of it is white space or invisible."""
    return all(unicodedata.category(character) in _INVISIBLE for character in text)


def check_count(name: str, value: object) -> None:
    """Refuse what is no whole number of at least 0.

    Raises:
        errors.InvalidArgument: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise errors.InvalidArgument(reason=f"{name}={value!r} is not a whole number of at least 0")


def check_flags(**flags: object) -> None:
    """Refuse what is neither True nor False: a text such as ``no`` would count as true.

    Raises:
        errors.InvalidArgument: one of the arguments with these names is neither.
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise errors.InvalidArgument(reason=f"{name}={value!r} is neither True nor False")


def check_items(what: str, items: Iterable[T], kind: type[Any]) -> list[T]:
    """List the items, or raise an error that calls them ``what``.

    Raises:
        errors.InvalidArgument: they are no list, or hold something of another kind.
    """
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping | type):
        raise errors.InvalidArgument(reason=f"{what} are {items!r}: give a list of them")
    listed = list(items)
    if others := [item for item in listed if not isinstance(item, kind)]:
        raise errors.InvalidArgument(reason=f"{what} hold {others[0]!r}, which is no {kind.__name__}")
    return listed


def check_id(name: str, value: str, *others: str) -> str:
    """Return the id, or raise an error that calls it, and the others that are indexed with it, ``name``.

    Raises:
        errors.InvalidArgument: they have more than ``MAX_KEY_BYTES`` bytes.
    """
    size = sum(len(part.encode(errors="surrogatepass")) for part in (value, *others))
    if size > MAX_KEY_BYTES:
        reason = f"{name} has {size:,} bytes, and Neo4j indexes at most {MAX_KEY_BYTES:,}; shorten it, or use a digest"
        raise errors.InvalidArgument(reason=reason)
    return value
