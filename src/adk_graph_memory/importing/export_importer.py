"""Import an export of this package: user by user, and only users that the graph has nothing else of."""

from __future__ import annotations

from collections.abc import Callable

from adk_graph_memory import errors, graph
from adk_graph_memory.checkups import embed_missing_nodes
from adk_graph_memory.graph import vector_slots
from adk_graph_memory.graph.user_import import VectorTarget
from adk_graph_memory.graph_vectors import NOT_EMBEDDED
from adk_graph_memory.importing.export_file import ExportedApp, ExportFile, UserSection
from adk_graph_memory.importing.section_writer import REFUSALS, REFUSED, SectionWriter
from adk_graph_memory.importing.source_records import SkippedRow
from adk_graph_memory.importing.tally import ImportReceipt, Tally
from adk_graph_memory.memory import GraphMemory
from adk_graph_memory.records import Scope
from adk_graph_memory.records.portable_rows import ExportHeader

TAKEN = "of a user who is here already"
"""The kind of users that are left out because the graph has something of them that is not of this file."""


class ExportImporter:
    """Imports one export once.

    Args:
        memory: the graph to write to; None only reads the file.
        app_name, user_id: the names under which a file of one app, or of one user, is imported.
        on_progress: called now and then with what was read so far, in words.
    """

    def __init__(
        self,
        memory: GraphMemory | None,
        app_name: str | None,
        user_id: str | None,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        self._memory, self._app_name, self._user_id = memory, app_name, user_id
        self._on_progress = on_progress or (lambda text: None)
        self.tally, self._target = Tally(), VectorTarget()

    async def import_file(self, source: ExportFile) -> ImportReceipt:
        """Import the file.

        Raises:
            errors.UnreadableTranscript: it is no whole export, or one of a later release; nothing is imported.
            errors.InvalidArgument: it holds several apps or users, and is to be imported as one; likewise.
            errors.DatabaseError: the graph could not be written; the same import goes on from there.
        """
        header = await source.check()
        self._check_names(header)
        if self._memory is not None:
            await graph.prepare_connection(self._memory.connection)
            self._target = await choose_vector_target(self._memory, header)
        for entry in source.iterate_sections():
            if isinstance(entry, SkippedRow):
                self.tally.skip_row(entry)
            elif isinstance(entry, ExportedApp):
                await self._import_app(entry)
            else:
                await self._import_user(entry, header)
        return self.tally.make_receipt("export", is_dry_run=self._memory is None)

    def _check_names(self, header: ExportHeader) -> None:
        has_one_app = header.app_name is not None
        if self._app_name is not None and not has_one_app:
            raise errors.InvalidArgument(reason="--app renames the app of a file that holds one: export it with --app")
        if self._user_id is not None and not (has_one_app and header.user_id is not None):
            reason = "--user renames the user of a file that holds one: export it with --app and --user"
            raise errors.InvalidArgument(reason=reason)
        Scope.from_graph(self._app_name or "app", self._user_id or "user")

    async def _import_app(self, app: ExportedApp) -> None:
        self.tally.count("apps")
        if self._memory is not None:
            properties = {**app.properties, "app_name": self._app_name or app.properties["app_name"]}
            try:
                is_new = await graph.user_import.import_app(self._memory.connection, properties)
            except REFUSALS as error:
                self.tally.skip(app.place, REFUSED, error.reason)
            else:
                self.tally.count("apps", "new" if is_new else "known")

    async def _import_user(self, section: UserSection, header: ExportHeader) -> None:
        properties, count = section.node.properties, self.tally.count
        count("users")
        if self._memory is None:
            self._count_section(section)
            return
        connection = self._memory.connection
        owner = self._app_name or properties["app_name"], self._user_id or properties["user_id"]
        scope = Scope.from_graph(*owner)
        if scope.is_shared and not Scope.from_graph(*owner[:1], properties["user_id"]).is_shared:
            reason = "what a user's memory holds does not go into a shared one as a whole: promote facts of it"
            raise errors.InvalidArgument(reason=reason)
        try:
            outcome, has_tombstones = await graph.user_import.begin_user(connection, scope, header.id, properties)
        except REFUSALS as error:
            self.tally.skip(section.place, REFUSED, error.reason)
            return
        if outcome == "taken":
            self.tally.skip(section.place, TAKEN, _describe_taken(scope))
            return
        if outcome == "done":
            count("users", "known")
            self._count_section(section)
            return
        count("users", "new" if outcome == "new" else "continued")
        count("nodes", "new" if outcome == "new" else "known")
        writer = SectionWriter(self._memory, scope, self.tally, self._target, checks_tombstones=has_tombstones)
        if await writer.write_section(section, self._on_progress):
            if header.recorded_at is not None and self._target.slot is not None:  # other wordings than those of today
                await embed_missing_nodes(connection, self._memory.vectors, scope)
            await graph.user_import.finish_user(connection, scope, header.id)

    def _count_section(self, section: UserSection) -> None:
        """Count what is in a user's lines, and write nothing."""
        how = "read" if self._memory is None else "known"
        edges = len(section.node.edges)
        nodes = 1
        for row in section.iterate_nodes():
            if isinstance(row, SkippedRow):
                self.tally.skip_row(row)
            else:
                nodes, edges = nodes + 1, edges + len(row.node.edges)
        for how_counted in {"read", how}:
            self.tally.count("nodes", how_counted, nodes)
            self.tally.count("relationships", how_counted, edges)
        self._on_progress(self.tally.describe_progress())


async def choose_vector_target(memory: GraphMemory, header: ExportHeader) -> VectorTarget:
    """Choose where the vectors of an export go: into the live slot if it is the same embedder's.

    If no slot is live yet, and the memory has that embedder, one is opened. Else the vectors are dropped, and so they
    are while the embedder cannot be loaded: the next ingest makes them, or ``reembed``.
    """
    embedder = memory.vectors.embedder
    live = (await vector_slots.fetch_schema_state(memory.connection)).live_slot
    if header.embedder is None or header.dimensions is None:
        return VectorTarget(live)
    if live is None and embedder is not None and embedder.name == header.embedder:
        # A file may claim any number of dimensions, and the slot would refuse whatever is embedded later.
        try:
            vector = (await embedder.aembed_question("dimensions")).vector
        except (errors.EmbeddingError, errors.ConfigurationError) as error:
            memory.problems.report_problem(NOT_EMBEDDED, error)
            return VectorTarget(marks_missing=True)
        if len(vector) != header.dimensions:
            return VectorTarget(marks_missing=True)
        live = await vector_slots.open_slot(memory.connection, "a", header.embedder, header.dimensions)
    if live and (live.embedder, live.dimensions) == (header.embedder, header.dimensions):
        return VectorTarget(live)
    return VectorTarget(marks_missing=embedder is not None)


def _describe_taken(scope: Scope) -> str:
    return (
        f"the graph has something of user {scope.user_id!r} of app {scope.app_name!r} that is not of this file, and "
        "two memories cannot become one. Import a file of this user alone under another name (--user), or delete what "
        "is here first: adk-graph-memory forget-user USER --app APP --sessions --artifacts"
    )
