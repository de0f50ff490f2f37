"""What differs between releases of agent-framework-core, and what it keeps to itself: checked here alone."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from agent_framework import ContextProvider, Message, SessionContext

LOOP_KEY = "_agent_loop_iteration"
"""The option by which ``AgentLoopMiddleware`` marks the runs of one loop (``agent_framework._agents``).

If that changes, ``test_a_loop_is_one_turn_and_its_nudges_are_nobody_s_words`` fails.
"""
HAS_ORIGINS = "origin_session_ids" in inspect.signature(SessionContext.extend_messages).parameters
"""Whether messages can be attributed to other sessions, as since 1.13."""


def extend_messages(
    context: SessionContext, provider: ContextProvider, messages: Sequence[Message], session_ids: Sequence[str]
) -> None:
    """Add a provider's messages, attributed to the sessions they come from where the framework keeps that."""
    if HAS_ORIGINS:
        context.extend_messages(provider, messages, origin_session_ids=session_ids or None)
    else:
        context.extend_messages(provider, messages)


def get_loop(context: SessionContext) -> object | None:
    """What is the same object for all runs of a loop; None outside of loops."""
    return context.options.get(LOOP_KEY)
