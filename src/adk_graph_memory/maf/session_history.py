"""Find the messages that a session's history providers add to a run."""

from __future__ import annotations

from agent_framework import (
    AgentSession,
    HistoryProvider,
    InMemoryHistoryProvider,
    Message,
    SessionContext,
    SupportsAgentRun,
)


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
