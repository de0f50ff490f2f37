"""Keep the conversations of Agent Framework as sessions and events in the graph, where ADK keeps its own.

An event's body is JSON that ADK reads as one of its events, with the text as its content; the whole message lies in its
``customMetadata``. So ADK's services, and whatever reads their sessions, read these conversations too.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from agent_framework import AgentSession, HistoryProvider, Message, SessionContext, SupportsAgentRun
from neo4j import AsyncDriver
from typing_extensions import override

from adk_graph_memory import errors
from adk_graph_memory.graph import planning, sessions
from adk_graph_memory.graph.connection import Auth, Connection, UserGraph
from adk_graph_memory.graph.json_map import JsonMapDelta
from adk_graph_memory.maf.message_ids import (
    choose_author,
    count_known,
    derive_message_ids,
    digest_message,
    get_digest,
    get_spoken_text,
)
from adk_graph_memory.maf.sessions import USER_KEY, UserId, check_app_name, find_user
from adk_graph_memory.records.scopes import Scope, check_flags, check_id
from adk_graph_memory.runtime.concurrency import Closeable
from adk_graph_memory.runtime.settings import Settings

MESSAGE_KEY = "agent_framework.message"
"""The key of the whole message in an event's ``customMetadata``."""


def encode_message(message: Message, *, id: str, run_id: str, timestamp: float) -> dict[str, Any]:
    """Encode a message as the properties of an Event node.

    Raises:
        errors.InvalidArgument: the message cannot be kept as JSON.
    """
    text, author = get_spoken_text(message), choose_author(message, message.role)
    body = {
        "id": id,
        "invocationId": run_id,
        "author": author,
        "timestamp": timestamp,
        "content": {"role": "user" if message.role == "user" else "model", "parts": [{"text": text}] if text else []},
        "customMetadata": {MESSAGE_KEY: message.to_dict()},
    }
    try:
        encoded_body = json.dumps(body, ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.InvalidArgument(reason=f"a message of role {message.role} is no JSON: {error}") from error
    return {
        "id": id,
        "invocation_id": run_id,
        "author": author,
        "timestamp": timestamp,
        "text": text or None,
        "body": encoded_body,
    }


def decode_message(body: str) -> Message | None:
    """Decode an event's message; of an event that ADK wrote, its text, or None without any."""
    event = json.loads(body)
    if message := (event.get("customMetadata") or {}).get(MESSAGE_KEY):
        return Message.from_dict(message)
    content = event.get("content") or {}
    texts = [part["text"] for part in content.get("parts") or () if part.get("text") and not part.get("thought")]
    if not texts or event.get("partial"):
        return None
    is_user = event.get("author") == "user"
    return Message("user" if is_user else "assistant", texts, author_name=None if is_user else event.get("author"))


_new_messages: ContextVar[Sequence[Message]] = ContextVar("new_messages", default=())
"""What a run's model just said: new, even if it said the same before. Only what callers send can be sent again."""
MAX_ATTEMPTS = 20
"""Attempts at appending, each after another writer was faster."""


class GraphHistoryProvider(Closeable, HistoryProvider):
    """Conversations in Neo4j, which any process can resume by their session's id.

    Messages are kept whole, tool calls included, in the order in which they were saved. Messages that are sent again,
    as by a caller that sends the whole transcript each time, are stored once. An error while saving is raised, because
    a failed run is better than silently lost history.

    Args:
        uri, auth, database, driver, settings, schema: as for ``Neo4jSessionService``.
        app_name: the app, one part of every session's key.
        user_id: the user, or a function from a session to its user; by default ``session.state["user_id"]``.
        source_id: names the provider in the session's state.
        load_messages, store_inputs, store_context_messages, store_context_from, store_outputs: as for the framework's
            ``HistoryProvider``.

    Example:
        async with GraphHistoryProvider(app_name="home", user_id="ana") as history:
            agent = Agent(client=client, context_providers=[history])
            await agent.run("My dog is called Rex.", session=agent.create_session(session_id="monday"))
            await agent.run("What did I say?", session=agent.create_session(session_id="monday"))
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        app_name: str,
        user_id: UserId = None,
        source_id: str = "graph_history",
        auth: Auth = None,
        database: str | None = None,
        driver: AsyncDriver | None = None,
        settings: Settings | None = None,
        schema: str | None = None,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
    ) -> None:
        check_flags(
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_outputs=store_outputs,
        )
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self._app_name, self._user_id = check_app_name(app_name), user_id
        self._connection = Connection(
            uri, auth=auth, database=database, driver=driver, settings=settings, schema=schema
        )
        self._connection.planner.list_statements = lambda _: planning.HISTORY_STATEMENTS

    @override
    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Load the session's messages.

        Raises:
            errors.ConfigurationError: the user is not specified.
            errors.DatabaseError: the messages could not be read.
        """
        state[USER_KEY] = find_user(self._user_id, session, state)
        await super().before_run(agent=agent, session=session, context=context, state=state)

    @override
    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Save the run's messages; raises what :meth:`before_run` raises."""
        state[USER_KEY] = find_user(self._user_id, session, state)
        token = _new_messages.set(context.response.messages if context.response else ())
        try:
            await super().after_run(agent=agent, session=session, context=context, state=state)
        finally:
            _new_messages.reset(token)

    @override
    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return a session's messages in order; none for an unknown session."""
        session_id, scope = _check_session_id(session_id), self._read_scope(state)
        bodies, _ = await sessions.fetch_events(self._connection.user(scope), id=session_id, now=time.time())
        return [message for body in bodies if (message := decode_message(body)) is not None]

    @override
    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append those messages that are new to the session, all or none of them.

        Raises:
            errors.InvalidArgument: there is no session id, or a message cannot be kept as JSON.
            errors.SessionClosed: the session was closed.
            errors.DatabaseError: the messages could not be saved.
        """
        session_id, scope = _check_session_id(session_id), self._read_scope(state)
        graph = self._connection.user(scope)
        run_id, digests = uuid.uuid4().hex, [digest_message(message) for message in messages]
        new_ids = {id(message) for message in _new_messages.get()}
        resent_count = sum(id(message) not in new_ids for message in messages)
        for _ in range(MAX_ATTEMPTS):
            now = time.time()
            stored = await sessions.fetch_event_ids(graph, id=session_id, now=now)
            if stored is None:
                await _create_session(graph, session_id, now)
                continue
            uid, revision, event_ids = stored
            known = [get_digest(event_id) for event_id in event_ids]
            start = count_known(known, digests[:resent_count])
            if start == len(messages):
                return
            ids = derive_message_ids([*known, *digests[start:]])[len(known) :]
            events = [
                encode_message(message, id=event_id, run_id=run_id, timestamp=now)
                for message, event_id in zip(messages[start:], ids, strict=True)
            ]
            if await sessions.append_messages(graph, session_id=session_id, uid=uid, revision=revision, events=events):
                return
        raise errors.WriteConflict(attempts=MAX_ATTEMPTS)

    def _read_scope(self, state: dict[str, Any] | None) -> Scope:
        user_id = (state or {}).get(USER_KEY) or (self._user_id if isinstance(self._user_id, str) else None)
        if not user_id:
            reason = 'a session needs a user id: give the history provider user_id=, or state={"user_id": …}'
            raise errors.ConfigurationError(reason=reason)
        return Scope(self._app_name, user_id)

    async def prepare(self) -> None:
        """Connect, update the schema and have the server plan its statements now instead of at the first run."""
        await self._connection.prepare()
        await self._connection.planner.wait_until_planned()

    async def close(self) -> None:
        """Close the connections that this provider opened in the running event loop; may be called again."""
        await self._connection.close()


async def _create_session(graph: UserGraph, id: str, now: float) -> None:
    """Create the session, unless another writer was faster."""
    nothing = JsonMapDelta.from_values({})
    with suppress(errors.ConstraintViolated):
        await sessions.store_session(
            graph,
            id=id,
            uid=uuid.uuid4().hex,
            now=now,
            app=nothing,
            user=nothing,
            session=nothing,
        )


def _check_session_id(session_id: str | None) -> str:
    if not session_id:
        raise errors.InvalidArgument(reason="a history needs a session id: pass agent.run(…, session=…)")
    return check_id("session_id", session_id)
