"""Neo4j's own jars: a version goes in, the checked files of its lock come out, fetched where they are missing."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import util
from pathlib import Path
from typing import NamedTuple

from adk_graph_memory import errors
from adk_graph_memory.local_neo4j import folders

ProgressCallback = Callable[[int, int], None]
"""Called with the bytes fetched so far and the bytes to fetch in all."""

LOCK_FOLDER = Path(__file__).parent / "locks"
DOWNLOAD_ATTEMPTS = 3
DOWNLOAD_THREADS = 8


class Jar(NamedTuple):
    """One line of a lock: Maven's name for a jar, its size in bytes and its SHA-256."""

    group: str
    artifact: str
    version: str
    classifier: str
    size: int
    sha256: str

    @property
    def repository_path(self) -> Path:
        """Its place inside a Maven repository."""
        name = "-".join(filter(None, (self.artifact, self.version, self.classifier)))
        return Path(*self.group.split("."), self.artifact, self.version, f"{name}.jar")

    def is_in(self, folder: Path) -> bool:
        """Whether the folder holds this jar, whole and unaltered."""
        try:
            data = (folder / self.repository_path).read_bytes()
        except FileNotFoundError:
            return False
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256


def is_line_5(version: str) -> bool:
    """Whether a version belongs to the 5.26 line."""
    return version.startswith("5.")


def get_lock_path(full_version: str) -> Path:
    """Where the lock of a version is, or would be."""
    return LOCK_FOLDER / f"neo4j-{full_version}.lock.json"


def resolve_version(asked: str | None = None) -> str:
    """The full version for "2026", "5.26" or a full version; None asks ADK_GRAPH_MEMORY_NEO4J, then takes 2026.

    Raises:
        errors.ConfigurationError: there is no lock for it.
    """
    asked = asked or os.environ.get("ADK_GRAPH_MEMORY_NEO4J") or "2026"
    known = [path.name.removeprefix("neo4j-").removesuffix(".lock.json") for path in LOCK_FOLDER.glob("*.lock.json")]
    known.sort(key=lambda full: [int(number) for number in full.split(".")])
    fitting = [full for full in known if f"{full}.".startswith(f"{asked}.")]
    if not fitting:
        raise errors.ConfigurationError(
            reason=f"Neo4j {asked!r} cannot be started here, only {' and '.join(known)} "
            "(argument version=, or ADK_GRAPH_MEMORY_NEO4J)"
        )
    return fitting[-1]


def load_locked_jars(full_version: str) -> list[Jar]:
    """The jars of one version, as its lock names them."""
    return [Jar(*row) for row in json.loads(get_lock_path(full_version).read_text("utf-8"))["jars"]]


def fetch_jars(jars: Sequence[Jar], progress: ProgressCallback | None = None) -> list[Path]:
    """Check the size and the hash of every jar in the cache, and fetch those that are missing or broken.

    A second process waits here until the first has fetched them.

    Raises:
        errors.JarsMissing: some are missing and cannot be fetched.
        errors.DiskFull: they do not fit.
    """
    folder = folders.get_cache_folder() / "jars"
    with folders.translate_disk_full(folder, needed="200 MB"), folders.lock_folder(folder):
        with ThreadPoolExecutor(DOWNLOAD_THREADS) as pool:
            present = list(pool.map(lambda jar: jar.is_in(folder), jars))
        missing = [jar for jar, is_there in zip(jars, present, strict=True) if not is_there]
        if missing:
            _download_jars(missing, folder, progress or (lambda done, total: None))
    return [folder / jar.repository_path for jar in jars]


def _download_jars(missing: Sequence[Jar], folder: Path, progress: ProgressCallback) -> None:
    if not util.find_spec("jgo"):
        reason = 'jgo, which fetches them, is not installed: pip install "adk-graph-memory[local]"'
        raise errors.JarsMissing(count=len(missing), reason=reason, cache=folder)
    done, total = 0, sum(jar.size for jar in missing)
    progress(done, total)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as part:
        pool = ThreadPoolExecutor(DOWNLOAD_THREADS)
        try:
            for fetched in pool.map(lambda jar: _download_jar(jar, Path(part), folder), missing):
                done += fetched.size
                progress(done, total)
        except (RuntimeError, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            left = sum(not jar.is_in(folder) for jar in missing)
            raise errors.JarsMissing(count=left, reason=str(error), cache=folder) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _download_jar(jar: Jar, part: Path, folder: Path) -> Jar:
    from jgo import constants, maven

    context = maven.MavenContext(repo_cache=part, remote_repos={"central": constants.MAVEN_CENTRAL_URL})
    artifact = context.project(jar.group, jar.artifact).at_version(jar.version).artifact(jar.classifier)
    for attempt in range(1, DOWNLOAD_ATTEMPTS + 1):
        try:
            artifact.resolve()
            if not jar.is_in(part):
                raise RuntimeError(f"what came as {jar.repository_path.name} is not the file that the lock names")
            break
        except (RuntimeError, OSError) as error:
            (part / jar.repository_path).unlink(missing_ok=True)
            if attempt == DOWNLOAD_ATTEMPTS or (isinstance(error, OSError) and error.errno):
                raise
            time.sleep(attempt)
    (folder / jar.repository_path).parent.mkdir(parents=True, exist_ok=True)
    (part / jar.repository_path).replace(folder / jar.repository_path)
    return jar
