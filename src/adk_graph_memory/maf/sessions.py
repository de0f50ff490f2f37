"""Find whose session a run belongs to, what its history adds, and which errors somebody has to fix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent_framework import (
    AgentSession,
    HistoryProvider,
    InMemoryHistoryProvider,
    Message,
    SessionContext,
    SupportsAgentRun,
)

from adk_graph_memory import errors

UserId = str | Callable[[AgentSession], str] | None
"""A user for all sessions of an agent, or a function that knows a session's; None: the session's state names it."""
USER_KEY = "user_id"
"""The key of the user in a session's state, or in a provider's part of it, which comes first."""


def find_user(user_id: UserId, session: AgentSession, state: Mapping[str, Any]) -> str:
    """Return the id of a session's user.

    Args:
        user_id: what the provider was given.
        session: the session.
        state: the provider's part of the session's state.

    Raises:
        errors.ConfigurationError: nothing names the user. There is no pool for all: it would leak from one to another.
    """
    if user_id is None:
        user = state.get(USER_KEY) or session.state.get(USER_KEY)
    else:
        user = user_id(session) if callable(user_id) else user_id
    if not isinstance(user, str) or not user:
        raise errors.ConfigurationError(
            reason=f"session {session.session_id!r} needs a user id, a text, and has {user!r}; give the provider "
            'user_id=, a text or a function of the session, or set session.state["user_id"]'
        )
    return user


def check_app_name(app_name: str) -> str:
    """Return the app's name if it is one.

    Raises:
        errors.InvalidArgument: it is no text, or empty.
    """
    if not isinstance(app_name, str) or not app_name:
        raise errors.InvalidArgument(reason=f"app_name={app_name!r} is no name of an app")
    return app_name


async def load_history(agent: SupportsAgentRun, session: AgentSession, context: SessionContext) -> list[Message]:
    """The history that the agent's providers loaded, or that the framework's own will load after this one.

    What other providers added, such as memories, is no part of it.
    """
    providers = [
        provider for provider in getattr(agent, "context_providers", ()) if isinstance(provider, HistoryProvider)
    ]
    if history := context.get_messages(sources={provider.source_id for provider in providers}):
        return history
    for provider in providers:
        if isinstance(provider, InMemoryHistoryProvider):
            state = session.state.get(provider.source_id, {})
            return await provider.get_messages(session.session_id, state=state)
    return []


MISCONFIGURATIONS = (
    errors.ConfigurationError,
    errors.SchemaError,
    errors.RedactorMissing,
    errors.AuthenticationFailed,
    errors.PermissionDenied,
    errors.DatabaseMissing,
    errors.UnsupportedServer,
    errors.DriverClosed,
)
"""Errors that no waiting mends, so they reach whoever runs the agent."""
