"""Tell from a web request whose memory it may use."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from adk_graph_memory import errors
from adk_graph_memory.memory.graph_memory import GraphMemory
from adk_graph_memory.memory.user_memory import UserMemory

R = TypeVar("R")
Owner = tuple[str, str | None]
"""An app's name and a user's id, or None for every user of the app, which only the HTTP service serves."""
Identify = Callable[[R], Owner | Awaitable[Owner | None] | None]
"""Tells the app and the user whose memory a request may use, or None if it may use nobody's."""
Permit = Callable[[R], bool | Awaitable[bool]]
"""Tells whether a request may do something."""
LOOPBACK_NAMES = ("127.0.0.1", "localhost")
"""Names by which a program on this machine reaches a server; another name may be a trick of a web page."""


def is_allowed_host(host: str, names: Collection[str]) -> bool:
    """Whether a request's header ``Host``, or the host of a page's origin, is this machine or one of these names."""
    name, _, port = host.partition(":")
    return name.lower() in {*LOOPBACK_NAMES, *map(str.lower, names)} and (not port or port.isdecimal())


def check_identify(identify: object) -> None:
    """Refuse what tells nobody's memory: without it, a request may see nothing.

    Raises:
        errors.InvalidArgument: it is no function.
    """
    if not callable(identify):
        reason = f"identify={identify!r} is no function that tells from a request the app name and the user's id"
        raise errors.InvalidArgument(reason=reason)


async def is_permitted(permit: Permit[R], request: R) -> bool:
    """Whether a request may do something.

    Raises:
        errors.ConfigurationError: ``permit`` returned neither True nor False.
    """
    answer = permit(request)
    answer = await answer if inspect.isawaitable(answer) else answer
    if not isinstance(answer, bool):
        raise errors.ConfigurationError(reason=f"a permission is {answer!r}, neither True nor False")
    return answer


async def find_owner(identify: Identify[R], request: R) -> Owner | None:
    """Find whose memory a request may use; None if it may use nobody's.

    Raises:
        errors.ConfigurationError: ``identify`` returned something else than an app name and a user's id.
    """
    owner = identify(request)
    owner = await owner if inspect.isawaitable(owner) else owner
    is_owner = isinstance(owner, tuple) and len(owner) == 2 and owner[0] and isinstance(owner[0], str)
    if owner is not None and not (is_owner and (owner[1] is None or (owner[1] and isinstance(owner[1], str)))):
        raise errors.ConfigurationError(reason=f"identify returned {owner!r}, not a tuple of app name and user's id")
    return owner


async def find_memory(memory: GraphMemory, identify: Identify[R], request: R) -> UserMemory | None:
    """Find the memory of one user that a request may use; None if it may use nobody's.

    Raises:
        errors.ConfigurationError: ``identify`` returned something else than an app name and a user's id.
    """
    owner = await find_owner(identify, request)
    if owner is None:
        return None
    app_name, user_id = owner
    if user_id is None:
        raise errors.ConfigurationError(reason=f"identify returned {owner!r}, which names no user")
    return memory.user(app_name, user_id)
