"""Where the local servers keep things: the environment goes in, folders and one-at-a-time locks come out."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adk_graph_memory import errors, settings


def get_cache_folder() -> Path:
    """The folder of everything that can be fetched again; safe to share between users of one machine's tests."""
    chosen = os.environ.get("ADK_GRAPH_MEMORY_CACHE")
    return Path(chosen).expanduser().absolute() if chosen else settings.get_data_home() / "cache"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Let one process (and thread) at a time into a folder; the others wait at the door."""
    folder.mkdir(parents=True, exist_ok=True)
    # flock, from the standard library: the kernel lets go of it when its process ends, however it ends.
    with (folder / ".lock").open("w") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        yield


@contextmanager
def translate_disk_full(folder: Path, needed: str) -> Iterator[None]:
    """Turn "no space left on device" into an error that says how much space would do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise errors.DiskFull(home=folder, needed=needed) from error
