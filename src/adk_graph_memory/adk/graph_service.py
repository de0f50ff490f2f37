"""Connect an ADK service to the graph, once the agent's ``.env`` file is read by ADK's own rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from neo4j import AsyncDriver

from adk_graph_memory.graph.connection import Auth, Connection
from adk_graph_memory.graph.planning import PlannedStatement
from adk_graph_memory.runtime import telemetry
from adk_graph_memory.runtime.concurrency import Closeable
from adk_graph_memory.runtime.settings import Settings

_AGENT_NAME = re.compile(r"\w[\w-]*(\.\w[\w-]*)*")
"""A folder of ``agents_dir``; a nested one is written with dots. Clients may send other names, which are not loaded."""


def load_agent_dotenv(agents_dir: str | None, app_name: str, connection: Connection) -> None:
    """Read the ``.env`` file of an agent before the connection is prepared.

    ADK reads it only when it loads the agent, but a page or a client may ask for sessions before that.
    """
    if agents_dir is None or connection.is_prepared:
        return
    from google.adk.cli.utils import envs  # slow: imports ADK's whole command line

    envs.load_dotenv_for_agent(app_name.replace(".", "/") if _AGENT_NAME.fullmatch(app_name) else "", agents_dir)


@telemetry.trace_methods
class GraphService(Closeable):
    """Base class of the services that keep what ADK gives them; they say what the arguments are."""

    planned_statements: ClassVar[Sequence[PlannedStatement]] = ()
    """What a conversation asks of the service, which the server plans in the background from the first call on."""

    def __init__(
        self,
        uri: str | None = None,
        *,
        auth: Auth = None,
        database: str | None = None,
        driver: AsyncDriver | None = None,
        settings: Settings | None = None,
        schema: str | None = None,
        agents_dir: str | None = None,
    ) -> None:
        self._connection = Connection(
            uri, auth=auth, database=database, driver=driver, settings=settings, schema=schema
        )
        self._agents_dir = agents_dir
        if self.planned_statements:
            self._connection.planner.list_statements = lambda _: self.planned_statements

    async def prepare(self) -> None:
        """Connect, update the schema and have the server plan its statements now instead of at the first request."""
        await self._connection.prepare()
        await self._connection.planner.wait_until_planned()

    async def _connect(self, app_name: str) -> Connection:
        load_agent_dotenv(self._agents_dir, app_name, self._connection)
        return self._connection

    async def close(self) -> None:
        """Close the connections that this service opened in the running event loop; may be called again."""
        await self._connection.close()
