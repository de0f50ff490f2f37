"""Load an agent's ``.env`` file into the environment by ADK's own rules."""

from __future__ import annotations

import re

from adk_graph_memory import graph

_AGENT_NAME = re.compile(r"\w[\w-]*(\.\w[\w-]*)*")
"""A folder of ``agents_dir``; a nested one is written with dots. Clients may send other names, which are not loaded."""


def load_agent_dotenv(agents_dir: str | None, app_name: str, connection: graph.Connection) -> None:
    """Read the ``.env`` file of an agent before the connection is prepared.

    ADK reads it only when it loads the agent, but a page or a client may ask for sessions before that.
    """
    if agents_dir is None or connection.is_prepared:
        return
    from google.adk.cli.utils import envs  # slow: imports ADK's whole command line

    envs.load_dotenv_for_agent(app_name.replace(".", "/") if _AGENT_NAME.fullmatch(app_name) else "", agents_dir)
