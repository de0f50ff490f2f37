"""A tool by which a model reads the user's profile, as ADK's ``load_memory`` searches memory."""

from __future__ import annotations

from typing import Any

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from typing_extensions import override

from adk_graph_memory import errors
from adk_graph_memory.adk import _compat

_INSTRUCTION = """
You know the user from earlier conversations. If an answer depends on who they are, where they live, what they do, whom
they know or what they prefer, call load_profile.
"""


class LoadProfileTool(FunctionTool):
    """Loads the profile of the user who speaks; the user is no argument that a model could choose.

    Args:
        memory_service: whose profiles to load, if not those of the Runner's memory service.
    """

    def __init__(self, memory_service: BaseMemoryService | None = None) -> None:
        super().__init__(self.load_profile)
        self._memory_service = memory_service

    async def load_profile(self, tool_context: ToolContext) -> dict[str, Any]:
        """Loads what is always worth knowing about the current user: who they are, home, work, people, preferences."""
        service = self._memory_service or _compat.get_memory_service(tool_context)
        retrieve_profiles = getattr(service, "retrieve_profiles", None)
        if retrieve_profiles is None:
            reason = f"{type(service).__name__} has no profiles; load_profile needs a Neo4jMemoryService"
            raise errors.ConfigurationError(reason=reason)
        profiles = await retrieve_profiles(app_name=tool_context.session.app_name, user_id=tool_context.user_id)
        return {"profiles": [profile.profile for profile in profiles if profile.profile]}

    @override
    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)
        llm_request.append_instructions([_INSTRUCTION])


load_profile = LoadProfileTool()
"""The tool for the Runner's memory service."""
