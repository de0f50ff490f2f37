"""Write what people said into files that only their owner may read."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from adk_graph_memory import errors


@contextmanager
def write_private_file(path: Path) -> Iterator[TextIO]:
    """Open a text file for writing that takes its place only when it is complete.

    Raises:
        errors.ConfigurationError: the file cannot be written.
    """
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        partial.touch(mode=0o600, exist_ok=False)
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        reason = f"{path} cannot be written ({error.strerror or error})"
        raise errors.ConfigurationError(reason=reason) from error
    finally:
        partial.unlink(missing_ok=True)
