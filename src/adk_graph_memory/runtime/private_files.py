"""Write what people said, and passwords, into files that only their owner may read."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from adk_graph_memory import errors


def check_file_path(path: Path) -> None:
    """Check that a file may have this path, before anything is made for it.

    Raises:
        errors.InvalidArgument: its folder is missing, or it is a folder itself.
    """
    if path.is_dir():
        raise errors.InvalidArgument(reason=f"{path} cannot be written: it is a folder; name a file in it")
    if not path.parent.is_dir():
        raise errors.InvalidArgument(
            reason=f"{path} cannot be written: there is no folder {path.parent}; make it, or name another file"
        )


@contextmanager
def open_private_file(path: Path) -> Iterator[TextIO]:
    """Open a text file for writing that takes its place only when it is complete.

    Raises:
        errors.InvalidArgument: the file cannot be written.
    """
    check_file_path(path)
    try:
        with _replace_file(path) as file:
            yield file
    except OSError as error:
        reason = f"{path} cannot be written ({error.strerror or error}); name another file"
        raise errors.InvalidArgument(reason=reason) from error


def write_private_file(path: Path, text: str) -> None:
    """Write a file, replacing an older one only when it is complete."""
    with _replace_file(path) as file:
        file.write(text)


@contextmanager
def _replace_file(path: Path) -> Iterator[TextIO]:
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        partial.touch(mode=0o600, exist_ok=False)
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
