"""Implement ADK's memory service on a graph memory.

Unlike ADK's own services, it stores an event that is added twice only once, keeps forgotten memories forgotten, and
quotes the source of every fact.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import ClassVar, Unpack

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from pydantic import BaseModel
from typing_extensions import override

from adk_graph_memory.adk import memory_codec
from adk_graph_memory.adk.graph_service import load_agent_dotenv
from adk_graph_memory.adk.profile import MemoryProfile, convert_profile
from adk_graph_memory.graph import listings
from adk_graph_memory.language.dates import read_state_zone
from adk_graph_memory.memory.graph_memory import GraphMemory, MemoryOptions
from adk_graph_memory.memory.profile.profiles import PROFILE_TOKENS
from adk_graph_memory.memory.user_memory import UserMemory
from adk_graph_memory.records.results import IngestReport, Profile, Receipt
from adk_graph_memory.records.turns import NO_SESSION
from adk_graph_memory.runtime.concurrency import Closeable

logger = logging.getLogger(__name__)


PATIENT_SEARCHES = 10
"""Searches of a memory that nobody fills until that is logged; a user's second session is enough where it is known."""


class Neo4jMemoryService(Closeable, BaseMemoryService):
    """Long-term memory for the agents of a Runner: entities, facts and turns in Neo4j.

    Args:
        uri: Neo4j's address, which may contain settings; else NEO4J_URI, or the server that ``adk-graph-memory up``
            started.
        memory: a memory to use instead of one made from the other arguments.
        profile_schemas: pydantic models; :meth:`retrieve_profiles` returns a profile for each.
        agents_dir: the agents' folder, whose ``.env`` files are read; ADK's command line passes it.
        options: as :class:`adk_graph_memory.GraphMemory` takes them.

    Example:
        agent = LlmAgent(name="companion", model="gemini-flash-latest", tools=[load_memory])
        async with Neo4jSessionService() as sessions, Neo4jMemoryService() as memory:
            runner = Runner(app_name="home", agent=agent, session_service=sessions, memory_service=memory)
            await runner.run_debug("My dog Rex is afraid of thunder.", user_id="ana", session_id="monday")
            session = await sessions.get_session(app_name="home", user_id="ana", session_id="monday")
            await memory.add_session_to_memory(session)
            response = await memory.search_memory(app_name="home", user_id="ana", query="What is Rex afraid of?")
            print(response.memories[0].content.parts[0].text)
    """

    has_plugin: ClassVar[bool] = False
    """Whether this process has created a plugin, which fills memories."""

    def __init__(
        self,
        uri: str | None = None,
        *,
        memory: GraphMemory | None = None,
        profile_schemas: Sequence[type[BaseModel]] = (),
        agents_dir: str | None = None,
        **options: Unpack[MemoryOptions],
    ) -> None:
        if unknown := options.keys() - MemoryOptions.__annotations__.keys():  # beside ``memory``, nobody else looks
            raise TypeError(f"Neo4jMemoryService takes no argument {min(unknown)!r}")
        self.memory = memory or GraphMemory(uri, **options)
        self.memory.plan_ahead()
        self._agents_dir, self._profile_schemas = agents_dir, tuple(profile_schemas)
        self._is_filled, self._empty_searches = False, 0
        if agents_dir is None:
            self.memory.engine.vectors.start_loading()

    async def prepare(self) -> None:
        """Connect, update the schema, load and check the embedder, check model and topics, and plan all statements."""
        await self.memory.prepare()

    @override
    async def add_session_to_memory(self, session: Session) -> None:
        """Remember the session's new events; adding an unchanged session again costs one statement.

        Rewound events are not remembered; if they already were, they are forgotten.

        Raises:
            errors.ModelError: the model failed; the turns are stored and pending.
        """
        await self.remember(session)

    async def remember(self, session: Session) -> IngestReport:
        """Do what :meth:`add_session_to_memory` does and return the report."""
        user, self._is_filled = self._open_user(session.app_name, session.user_id), True
        turns, rewound_turns = memory_codec.split_rewound(session.events, zone=self.find_session_zone(session))
        if rewound_turns:
            await user.forget([turn.make_memory_id(session.id) for turn in rewound_turns])
        return await user.remember(turns, session_id=session.id)

    @override
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember those events that are new; searches return ``custom_metadata`` with them.

        Memory Bank's keys in it take effect: ``allowed_topics`` restricts extraction to topics with these labels,
        ``ttl`` or ``expire_time`` says when the turns and the facts extracted from them expire, ``revision_ttl`` how
        long the facts' revisions are kept, and ``metadata_merge_strategy`` whether ``metadata`` replaces the metadata
        of known turns.

        Raises:
            InputValidationError: such a key cannot have this value.
        """
        options = memory_codec.read_options(custom_metadata)
        if options.memory_id is not None:
            raise InputValidationError("memory_id is the id of one memory; give it to add_memory.")
        user, self._is_filled = self._open_user(app_name, user_id), True
        zone = await user.engine.speakers.find_zone(user.scope)
        await user.remember(
            memory_codec.apply_expiry(memory_codec.split_rewound(events, zone=zone)[0], options),
            session_id=session_id or NO_SESSION,
            metadata=options.metadata,
            replace_metadata=options.replaces_metadata,
            allowed_topics=options.topics,
        )

    @override
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember entries, consolidated with existing memories; the call's metadata wins over an entry's.

        An entry is read like something its author said, by the model if there is one. With ``disable_consolidation``,
        or an id of its own, it is stored as it is. Memory Bank's other keys work as they do there, and an entry's win
        over the call's: ``ttl`` or ``expire_time``, ``memory_id``, ``topics`` (one), ``metadata``,
        ``metadata_merge_strategy``.

        Raises:
            InputValidationError: such a key cannot have this value.
        """
        user, self._is_filled = self._open_user(app_name, user_id), True
        zone = await user.engine.speakers.find_zone(user.scope)
        statements = memory_codec.make_statements(memories, custom_metadata, zone)
        for consolidate in (False, True):
            chosen = [statement for statement, is_consolidated in statements if is_consolidated is consolidate]
            if chosen:
                await user.add_statements(chosen, consolidate=consolidate)

    @override
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the user's memories that may answer the query, best first and few enough for a prompt, or none.

        An agent's first search waits at most ``first_search_wait`` seconds for the embedder. Without the embedder, or
        if the server has just started and is still busy, it searches by full text alone, marks its memories with
        ``custom_metadata["degraded"]``, and logs the reason once.
        """
        user = self._open_user(app_name, user_id)
        wait = self.memory.connection.settings.limits.first_search_wait
        recollections = await user.recall(query, first_wait=wait)
        if not recollections:
            await self._warn_if_unfilled(user)
        return SearchMemoryResponse(memories=[memory_codec.make_memory_entry(memory) for memory in recollections])

    async def retrieve_profiles(self, *, app_name: str, user_id: str) -> list[MemoryProfile]:
        """Return the user's profiles in Memory Bank's format: what is known for each registered schema.

        Without ``profile_schemas``, it returns one profile, with a list of facts under each heading.
        """
        profile, forms = await self._open_user(app_name, user_id).fill_forms(self._profile_schemas)
        return convert_profile(profile, self._profile_schemas, forms)

    async def profile(
        self,
        *,
        app_name: str,
        user_id: str,
        schema: type[BaseModel] | None = None,
        token_budget: int = PROFILE_TOKENS,
    ) -> Profile:
        """Return what :meth:`adk_graph_memory.UserMemory.profile` does."""
        return await self._open_user(app_name, user_id).profile(schema=schema, token_budget=token_budget)

    @override
    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget the entry with this id for good; ignores an id that is unknown, None or another user's."""
        if memory_id:
            await self._open_user(app_name, user_id).forget([memory_id])

    async def delete_memories(self, *, app_name: str, user_id: str, memory_ids: Sequence[str]) -> Receipt:
        """Forget the entries with these ids for good, in one transaction; unknown ids are ignored."""
        return await self._open_user(app_name, user_id).forget(list(memory_ids))

    async def delete_session_memory(self, *, app_name: str, user_id: str, session_id: str) -> Receipt:
        """Forget everything said in a session, as if it had never been said; the session itself stays."""
        return await self._open_user(app_name, user_id).forget_session(session_id)

    async def delete_user_memory(self, *, app_name: str, user_id: str) -> Receipt:
        """Forget everything remembered about a user; their sessions and artifacts stay."""
        return await self._open_user(app_name, user_id).forget_user()

    def find_session_zone(self, session: Session) -> tzinfo:
        """Return the time zone of a session's turns: its state's ``user:timezone``, or else the setting."""
        self._load_environment(session.app_name)
        return read_state_zone(session.state) or self.memory.connection.settings.timezone

    async def _warn_if_unfilled(self, user: UserMemory) -> None:
        """Log once that nothing in this process fills the memory, if the app has none though its users talk."""
        if self._is_filled or self.has_plugin:
            return
        self._empty_searches += 1
        has_memories, session_count = await listings.fetch_filling(user.graph)
        if not has_memories and session_count < 2 and self._empty_searches < PATIENT_SEARCHES:
            return
        self._is_filled = True  # or that was logged
        if not has_memories:
            logger.warning(
                "The memory of app %r is empty, and nothing in this process has filled it so far. Let the plugin do it "
                "(App(plugins=[GraphMemoryPlugin()]), or adk web --extra_plugins "
                "adk_graph_memory.GraphMemoryPlugin), or call add_session_to_memory when a session is over.",
                user.scope.app_name,
            )

    def _open_user(self, app_name: str, user_id: str) -> UserMemory:
        self._load_environment(app_name)
        return self.memory.user(app_name, user_id)

    def _load_environment(self, app_name: str) -> None:
        load_agent_dotenv(self._agents_dir, app_name, self.memory.connection)
        self.memory.engine.vectors.start_loading()

    async def close(self) -> None:
        """Close the connections that this service opened in the running event loop; may be called again."""
        await self.memory.close()
