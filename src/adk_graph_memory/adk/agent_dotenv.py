"""An agent's name goes in; what its ``.env`` says is in the environment, by ADK's own rules."""

from __future__ import annotations

import re

from adk_graph_memory import graph

_AGENT_NAME = re.compile(r"\w[\w-]*(\.\w[\w-]*)*")
"""The name of a folder of ``agents_dir``, of a nested one with dots; a client may send anything else."""


def load_agent_dotenv(agents_dir: str | None, app_name: str, connection: graph.Connection) -> None:
    """Reads it before the first request; ADK itself reads it when it loads the agent, which may be later.

    A page that is opened again, or a client that makes a session, asks for sessions before any agent is loaded.
    """
    if agents_dir is None or connection.is_prepared:
        return
    from google.adk.cli.utils import envs  # brings all of ADK's command line with it

    envs.load_dotenv_for_agent(app_name.replace(".", "/") if _AGENT_NAME.fullmatch(app_name) else "", agents_dir)
