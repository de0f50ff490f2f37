"""Put the user's profile into the system instruction of each model request of a run."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from google.adk.models.llm_request import LlmRequest

from adk_graph_memory import errors
from adk_graph_memory.adk import profile_codec
from adk_graph_memory.adk.memory_service import Neo4jMemoryService

NOT_PRELOADED = "A run goes on without the user's profile"
"""How the line in the log begins if a profile cannot be read."""
MAX_RUNS = 10_000
"""Runs of which the profile is kept; one that was cancelled never says that it ended."""


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
        if instruction and profile_codec.INSTRUCTION_START not in str(request.config.system_instruction or ""):
            request.append_instructions([instruction])

    async def _find_instruction(self, run: _Run) -> str:
        async with run.lock:
            if run.instruction is None:
                run.instruction = await self._read_instruction(run)
            return run.instruction

    async def _read_instruction(self, run: _Run) -> str:
        problems = run.service.memory.problems
        try:
            async with asyncio.timeout(self._timeout):
                profile = await run.service.profile(
                    app_name=run.app_name, user_id=run.user_id, token_budget=profile_codec.INSTRUCTION_TOKENS
                )
        except TimeoutError as error:
            reason = f"no profile within {self._timeout:g} s (profile_timeout)"
            problems.report_problem(NOT_PRELOADED, TimeoutError(reason).with_traceback(error.__traceback__))
            return ""
        except Exception as error:  # noqa: BLE001 (a reply without a profile is better than none)
            problems.report_problem(NOT_PRELOADED, error)
            return ""
        problems.clear_problem(NOT_PRELOADED)
        return profile_codec.make_instruction(profile)
