"""Locate and lock the folders of the local servers."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock

from adk_graph_memory import environment, errors


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
