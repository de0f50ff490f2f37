"""Which modules a fresh process has loaded after some Python, or after some commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

_RUN_COMMANDS = """
import sys
from adk_graph_memory.cli import app

for arguments in {commands!r}:
    try:
        app(arguments)
    except SystemExit as end:
        if end.code:
            sys.exit(f"{{arguments}}: exit code {{end.code}}")
"""


def list_loaded(script: str) -> set[str]:
    """List the modules that a fresh process has loaded after the script."""
    script += "\nimport json, sys; print(json.dumps(list(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return set(json.loads(process.stdout.splitlines()[-1]))


def list_loaded_by_commands(commands: Sequence[Sequence[str]]) -> set[str]:
    """List the modules that a fresh process has loaded after the commands; fail if a command does."""
    return list_loaded(_RUN_COMMANDS.format(commands=commands))


def list_foreign_packages(modules: set[str], *, brought_by: str) -> set[str]:
    """List the packages among the modules that are neither ours nor what importing these (a, b, c) loads anyway."""
    known = {module.partition(".")[0] for module in list_loaded(f"import {brought_by}")} | sys.stdlib_module_names
    return {module.partition(".")[0] for module in modules} - known - {"adk_graph_memory"}


def list_own_parts(modules: set[str]) -> set[str]:
    """List the packages and modules directly in ours that are among the modules."""
    return {module.split(".")[1] for module in modules if module.startswith("adk_graph_memory.")}
