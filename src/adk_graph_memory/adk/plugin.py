"""An ADK plugin that shows the profile to each model request, and queues and ingests the events of each run."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session
from typing_extensions import override

from adk_graph_memory import errors
from adk_graph_memory.adk import _compat, memory_codec
from adk_graph_memory.adk.memory_service import Neo4jMemoryService
from adk_graph_memory.adk.profile import INSTRUCTION_START, INSTRUCTION_TOKENS, format_instruction
from adk_graph_memory.adk.session_service import Neo4jSessionService
from adk_graph_memory.memory.background import MemoryQueue, SessionKey, SplitTurns
from adk_graph_memory.records.scopes import check_flags

NOT_PRELOADED = "A run goes on without the user's profile"
"""How the line in the log begins if a profile cannot be read."""
MAX_RUNS = 10_000
"""Maximum number of runs whose profile is kept; a cancelled run never says that it ended."""


@dataclass(slots=True)
class _Run:
    """Whose profile a run needs, and its text once it was read; empty if there is none, or none could be read."""

    service: Neo4jMemoryService
    app_name: str
    user_id: str
    instruction: str | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ProfilePreload:
    """Reads a user's profile once per run, at its first model request, and adds it to all of them.

    Args:
        timeout: seconds that the first request waits for it; then the run goes on without.

    Raises:
        errors.InvalidArgument: the timeout is no number above 0.
    """

    def __init__(self, timeout: float) -> None:
        if not (isinstance(timeout, int | float) and timeout > 0):
            raise errors.InvalidArgument(reason=f"profile_timeout={timeout!r} is not a number of seconds above 0")
        self._timeout = timeout
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def start_run(self, invocation_id: str, service: Neo4jMemoryService, app_name: str, user_id: str) -> None:
        """Note whose profile the run needs; a run that goes on after a pause starts again."""
        self._runs[invocation_id] = _Run(service, app_name, user_id)
        while len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)

    def end_run(self, invocation_id: str) -> None:
        """Forget the run."""
        self._runs.pop(invocation_id, None)

    async def add_profile(self, invocation_id: str, request: LlmRequest) -> None:
        """Add the profile to a request's system instruction, unless it is there; never raises."""
        run = self._runs.get(invocation_id)
        instruction = await self._find_instruction(run) if run else ""
        if instruction and INSTRUCTION_START not in str(request.config.system_instruction or ""):
            request.append_instructions([instruction])

    async def _find_instruction(self, run: _Run) -> str:
        async with run.lock:
            if run.instruction is None:
                run.instruction = await self._read_instruction(run)
            return run.instruction

    async def _read_instruction(self, run: _Run) -> str:
        problems = run.service.memory.engine.problems
        try:
            async with asyncio.timeout(self._timeout):
                profile = await run.service.profile(
                    app_name=run.app_name, user_id=run.user_id, token_budget=INSTRUCTION_TOKENS
                )
        except TimeoutError as error:
            reason = f"no profile within {self._timeout:g} s (profile_timeout)"
            problems.report_problem(NOT_PRELOADED, TimeoutError(reason).with_traceback(error.__traceback__))
            return ""
        except Exception as error:  # noqa: BLE001 (a reply without a profile is better than none)
            problems.report_problem(NOT_PRELOADED, error)
            return ""
        problems.clear_problem(NOT_PRELOADED)
        return format_instruction(profile)


logger = logging.getLogger(__name__)

EVALUATION_PREFIX = "adk-eval-session-"
"""Prefix of the session ids that ADK's evaluation generates."""


class GraphMemoryPlugin(BasePlugin):
    """Adds every run to memory, so that you need not call ``add_session_to_memory``.

    Use ``adk web --extra_plugins adk_graph_memory.GraphMemoryPlugin`` or ``App(plugins=[GraphMemoryPlugin()])``.
    It ingests a user's turns when there are enough of them, when the user has been idle for a while, when one of the
    user's sessions is closed (``Neo4jSessionService.close_session``), and when the plugin closes.

    Args:
        name: the plugin's name in ADK.
        memory: the service to fill; by default the Runner's memory service, if that is a ``Neo4jMemoryService``.
        every: the number of a user's queued turns that starts an ingest.
        idle: seconds after a user's last run until an ingest starts, however few turns there are.
        at_once: the number of users to ingest in parallel; each user's turns are ingested in order.
        drain: seconds for which the plugin goes on ingesting when it closes; the rest stays queued. ADK's Runner waits
            for at most five of them, the process for all.
        preload_profile: also put the user's profile into the system instruction of each run.
        profile_timeout: seconds that a run waits for the profile; after that, it goes on without.

    Example:
        agent = LlmAgent(name="companion", model="gemini-flash-latest", tools=[load_memory])
        app = App(name="home", root_agent=agent, plugins=[GraphMemoryPlugin()])
        async with Neo4jSessionService() as sessions, Neo4jMemoryService() as memory:
            async with Runner(app=app, session_service=sessions, memory_service=memory) as runner:
                await runner.run_debug("My dog Rex is afraid of thunder.", user_id="ana", session_id="monday")
            await memory.memory.resume(app_name="home")  # whatever was still queued when the plugin closed
            response = await memory.search_memory(app_name="home", user_id="ana", query="What is Rex afraid of?")
            print(response.memories[0].content.parts[0].text)
    """

    def __init__(
        self,
        name: str = "graph_memory",
        *,
        memory: Neo4jMemoryService | None = None,
        every: int = 20,
        idle: float = 5.0,
        at_once: int = 4,
        drain: float = 4.0,
        preload_profile: bool = False,
        profile_timeout: float = 5.0,
    ) -> None:
        super().__init__(name=name)
        check_flags(preload_profile=preload_profile)
        Neo4jMemoryService.has_plugin = True
        self._memory_service, self._has_warned = memory, False
        self._queue = MemoryQueue(name, every=every, idle=idle, at_once=at_once, drain=drain)
        self._session_services: list[Neo4jSessionService] = []
        self._preload = ProfilePreload(profile_timeout) if preload_profile else None

    @override
    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Note whose profile the run's model requests will get, without reading it."""
        service = self._memory_service or invocation_context.memory_service
        if self._preload and isinstance(service, Neo4jMemoryService) and not _is_agent_tool(invocation_context):
            session = invocation_context.session
            self._preload.start_run(invocation_context.invocation_id, service, session.app_name, session.user_id)

    @override
    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Add the user's profile to the system instruction; if it cannot be read, the request goes on without."""
        if self._preload:
            await self._preload.add_profile(callback_context.invocation_id, llm_request)

    @override
    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Queue the session's new events; returns before they are queued."""
        if self._preload:
            self._preload.end_run(invocation_context.invocation_id)
        try:
            if not _is_agent_tool(invocation_context):
                self._buffer_session(invocation_context, await _load_whole_session(invocation_context))
        except Exception:  # the reply was given, so no error may reach the caller
            logger.exception("A run could not be queued for memory; the session's next run will queue it too.")

    @override
    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """Queue the session's new events, those before the error included."""
        await self.after_run_callback(invocation_context=invocation_context)

    def _buffer_session(self, context: InvocationContext, session: Session) -> None:
        memory = self._find_memory_service(context.memory_service)
        if memory is None or session.id.startswith(EVALUATION_PREFIX):
            return
        sessions = context.session_service
        if isinstance(sessions, Neo4jSessionService) and sessions not in self._session_services:
            self._session_services.append(sessions)
            sessions.on_close_session.append(self._flush_session)
        self._queue.add_session(*describe_session(memory, session))

    def _find_memory_service(self, runner_service: BaseMemoryService | None) -> Neo4jMemoryService | None:
        service = self._memory_service or runner_service
        if not isinstance(service, Neo4jMemoryService):
            reason = f"the Runner's memory service is {type(service).__name__}"
        elif service.memory.connection.is_loop_bound:
            reason = "its memory was given driver=, of which another loop has no use; give it an address instead"
        else:
            return service
        if not self._has_warned:
            self._has_warned = True
            logger.warning("%s remembers nothing: %s.", self.name, reason)
        return None

    def _flush_session(self, session: Session) -> None:
        self._queue.start_ingest(session.app_name, session.user_id)

    @override
    async def close(self) -> None:
        """Ingest the queue until the drain time is over; the rest stays in the graph for ``ingest --pending``."""
        session_services, self._session_services = self._session_services, []
        for sessions in session_services:
            sessions.on_close_session.remove(self._flush_session)
        await self._queue.close()


def describe_session(service: Neo4jMemoryService, session: Session) -> tuple[SessionKey, list[str], SplitTurns]:
    """Describe a session as the queue takes it: its key, its events' ids, and what makes turns of them."""
    key = SessionKey(service.memory.user(session.app_name, session.user_id), session.id)
    zone = service.find_session_zone(session)
    split_turns = partial(memory_codec.split_rewound, session.events, zone=zone, lenient=True)
    return key, [event.id for event in session.events], split_turns


def _is_agent_tool(context: InvocationContext) -> bool:
    """Whether an agent runs as another agent's tool; nothing in such a run is said by a user."""
    return isinstance(context.artifact_service, _compat.ForwardingArtifactService)


async def _load_whole_session(context: InvocationContext) -> Session:
    """Return the run's session; reload it with all its events if a rewind targets one that is not loaded."""
    session = context.session
    if not memory_codec.has_unloaded_rewind(session.events):
        return session
    full_session = await context.session_service.get_session(
        app_name=session.app_name, user_id=session.user_id, session_id=session.id
    )
    return full_session or session
