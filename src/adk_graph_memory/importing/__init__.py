"""Import our own exports, and what other services stored: ADK's sessions and memories, Mem0's and Memory Bank's.

A source yields one record at a time, and what the graph has already is left as it is. So an import needs little memory,
may be repeated, and goes on where it was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable

from adk_graph_memory import errors
from adk_graph_memory.importing.export_file import ExportFile
from adk_graph_memory.importing.export_importer import ExportImporter
from adk_graph_memory.importing.importer import Importer, ImportOptions
from adk_graph_memory.importing.session_tables import SessionTables
from adk_graph_memory.importing.sources import (
    ADK_DATABASE,
    ADK_SQLITE,
    ADK_SQLITE_MEMORY,
    EXPORT,
    MEM0,
    MEMORY_BANK,
    Source,
    open_source,
)
from adk_graph_memory.importing.tally import ImportReceipt
from adk_graph_memory.memory import GraphMemory

__all__ = [
    "ADK_DATABASE",
    "ADK_SQLITE",
    "ADK_SQLITE_MEMORY",
    "EXPORT",
    "MEM0",
    "MEMORY_BANK",
    "ImportOptions",
    "ImportReceipt",
    "Importer",
    "Source",
    "import_source",
    "open_source",
]

GOES_ON = "What was imported so far stays, and the same import goes on from there."


async def import_source(
    memory: GraphMemory | None,
    location: str,
    options: ImportOptions,
    on_progress: Callable[[str], None] | None = None,
) -> ImportReceipt:
    """Import the source at a path or URL; without a memory it is only read.

    Raises:
        errors.GraphMemoryError: as :func:`open_source` and the methods of :class:`Importer` do.
    """
    importer = Importer(memory, options, on_progress)
    async with open_source(options.source, location) as source:
        try:
            if isinstance(source, ExportFile):
                return await ExportImporter(memory, options.app_name, options.user_id, on_progress).import_file(source)
            if isinstance(source, SessionTables):
                return await importer.import_sessions(source)
            return await importer.import_memories(source)
        except (errors.DatabaseUnavailable, errors.EmbeddingError) as error:
            raise error.add_sentence(GOES_ON) from error.__cause__
