"""The package imports on Windows and under ``python -OO``, and keeps its data where each platform expects it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest
from platformdirs.macos import MacOS
from platformdirs.unix import Unix

from adk_graph_memory.runtime.environment import get_data_home

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

IMPORT_ALL = """
import importlib, pkgutil, sys

def import_all():
    import adk_graph_memory
    names = [found.name for found in pkgutil.walk_packages(adk_graph_memory.__path__, "adk_graph_memory.")]
    for name in names:
        importlib.import_module(name)
    return names
"""

# Other packages are imported as they are here, for those that differ on Windows would look for its modules.
AS_ON_WINDOWS = (
    IMPORT_ALL
    + """
import os, signal

POSIX_ONLY = {"curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}

class NoPosix:
    def find_spec(self, name, path=None, target=None):
        if name in POSIX_ONLY:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

import_all()
for name in [name for name in sys.modules if name.startswith("adk_graph_memory") or name in POSIX_ONLY]:
    del sys.modules[name]
sys.meta_path.insert(0, NoPosix())
for name in ("fork", "getuid", "geteuid", "getsid", "setsid", "killpg"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP"):
    delattr(signal, name)
sys.platform = "win32"
imported = import_all()
assert len(imported) > 100, imported
"""
)


def run_python(script: str, *options: str) -> str:
    process = subprocess.run([sys.executable, *options, "-c", script], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_on_windows_every_module_imports_and_the_local_server_is_refused() -> None:
    use = """
from adk_graph_memory import LocalNeo4j, errors
from adk_graph_memory.graph.local_neo4j.persistent import find_running_server, start_server, stop_server
print(find_running_server())
for call in (LocalNeo4j().start, start_server, stop_server):
    try:
        call()
    except errors.UnsupportedPlatform as error:
        print(error)
"""
    running, *refusals = run_python(AS_ON_WINDOWS + use).splitlines()
    assert running == "None"
    assert len(refusals) == 3
    assert all(line.startswith("The local Neo4j server does not run on Windows.") for line in refusals)
    assert all("set NEO4J_URI" in line for line in refusals)


def test_the_package_works_without_docstrings() -> None:
    use = """
import_all()
import asyncio
from datetime import UTC, datetime
from adk_graph_memory import Turn, errors
from adk_graph_memory.cli import app
from adk_graph_memory.extraction.rules import RuleExtractor
from adk_graph_memory.models import prompts
from typer.testing import CliRunner

print(CliRunner().invoke(app, ["--help"]).exit_code, CliRunner().invoke(app, ["facts"]).exit_code)
print(len(prompts.load_prompt("extract").text) > 1000)
turn = Turn(id="1", author="user", text="My dog is called Rex.", at=datetime(2026, 1, 1, tzinfo=UTC), role="user")
print([fact.text for fact in asyncio.run(RuleExtractor().extract([turn], [])).facts])
print(errors.UnknownTimezone(name="Mars"))
"""
    assert run_python(IMPORT_ALL + use, "-OO").splitlines() == run_python(IMPORT_ALL + use).splitlines()


@pytest.mark.parametrize(
    ("platform", "xdg", "folder"),
    [
        (Unix, None, ".local/share/adk-graph-memory"),
        (Unix, "elsewhere", "elsewhere/adk-graph-memory"),
        (MacOS, None, "Library/Application Support/adk-graph-memory"),
    ],
)
def test_data_lie_where_the_platform_keeps_them(
    platform: type, xdg: str | None, folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(platformdirs, "PlatformDirs", platform)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ADK_GRAPH_MEMORY_HOME")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    if xdg:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / xdg))
    assert get_data_home() == tmp_path / folder


def test_a_variable_names_another_place_for_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ADK_GRAPH_MEMORY_HOME", "~/memory")
    assert get_data_home() == tmp_path / "memory"
