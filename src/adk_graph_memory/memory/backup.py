"""Back up a whole graph into one file, and restore it into an empty one.

A backup is an export of everybody that also holds the content of artifacts and the secret of the tombstones, so that
what was forgotten stays forgotten. The digest in its last line tells whether a file, or a graph, is the same.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from adk_graph_memory import errors
from adk_graph_memory.graph import transfer
from adk_graph_memory.memory.engine import Engine
from adk_graph_memory.memory.export import Export
from adk_graph_memory.memory.imports import CheckedFile, ExportFile, ExportImporter
from adk_graph_memory.records.portable import ExportReport, RestoreReport
from adk_graph_memory.runtime import telemetry
from adk_graph_memory.runtime.private_files import open_private_file


class _DiscardedLines(io.StringIO):
    """A file that keeps nothing: an export into it is made for its digest alone."""

    def write(self, text: str) -> int:
        return len(text)

    def seekable(self) -> bool:
        return False


@telemetry.trace_operation("export_memory")
async def back_up_graph(engine: Engine, path: str | Path) -> ExportReport:
    """Write the whole graph into a file; :meth:`.GraphMemory.back_up` says what."""
    with open_private_file(_check_path(path)) as file:
        return await Export(engine.connection, file, is_backup=True).write_lines()


async def restore_graph(
    engine: Engine, path: str | Path, on_progress: Callable[[str], None] | None = None
) -> RestoreReport:
    """Make the graph of a backup again; :meth:`.GraphMemory.restore` says how."""
    source = ExportFile(_check_path(path), "backup")
    checked = await source.check()
    key = _check_backup(source.path, checked)
    connection = engine.connection
    await connection.prepare()
    if not await transfer.begin_restore(connection, checked.header.id, key):
        raise errors.GraphNotEmpty(database=connection.store_id)
    receipt = await ExportImporter(engine, on_progress=on_progress, restores=True).import_file(source, checked)
    await transfer.finish_restore(connection)
    if on_progress:
        on_progress("comparing the graph with the file")
    now = await Export(connection, _DiscardedLines(), is_backup=True).write_lines()
    return RestoreReport(receipt, now.sha256 == checked.sha256, checked.footer.get("changed_users", 0))


def _check_path(path: object) -> Path:
    if not isinstance(path, str | Path):
        raise errors.InvalidArgument(reason=f"{path!r} is no path of a backup")
    return Path(path)


def _check_backup(path: Path, checked: CheckedFile) -> str:
    """Return the secret of the tombstones in a backup that is as it was written."""
    if checked.header.tombstone_key is None:
        reason = "it is an export and no backup: `adk-graph-memory import --from export` imports it"
    elif checked.sha256 != checked.footer.get("sha256"):
        reason = "it is not as it was written: its digest differs from the one in its last line. Take another copy"
    else:
        return checked.header.tombstone_key
    raise errors.UnreadableTranscript(f"{path} cannot be restored: {reason}.", place=str(path), reason=reason)
