"""``GraphMemory``: the memory of many users in one graph, and the work of those who operate it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TextIO, TypedDict, Unpack

from neo4j import AsyncDriver, Driver
from pydantic import BaseModel

from adk_graph_memory.extraction.vocabulary import Topic
from adk_graph_memory.graph.connection import Auth, Connection
from adk_graph_memory.graph.rereads import OutdatedSession
from adk_graph_memory.memory import backup, ingestion, listings, maintenance, reextraction
from adk_graph_memory.memory.engine import Engine, SharedOption
from adk_graph_memory.memory.export import export_memory
from adk_graph_memory.memory.guard import GuardOption
from adk_graph_memory.memory.health import check_health
from adk_graph_memory.memory.profile.profiles import PROFILE_TOKENS
from adk_graph_memory.memory.recall import RecallOptions, list_planned_statements
from adk_graph_memory.memory.redaction import RedactOption
from adk_graph_memory.memory.reextraction import ReextractReport
from adk_graph_memory.memory.user_memory import UserMemory
from adk_graph_memory.models import llm
from adk_graph_memory.models.embedder import EmbedderChoice
from adk_graph_memory.records.facts import AsOf
from adk_graph_memory.records.health import Health
from adk_graph_memory.records.portable import ExportReport, RestoreReport
from adk_graph_memory.records.reports import Finding
from adk_graph_memory.records.results import (
    AppSummary,
    Checkup,
    IngestReport,
    Profile,
    PruneKind,
    PruneReport,
    Receipt,
    Recollection,
    StoredFact,
    UserSummary,
)
from adk_graph_memory.records.scopes import Scope, check_flags
from adk_graph_memory.records.turns import Turn
from adk_graph_memory.retrieval.reranking import Reranker
from adk_graph_memory.retrieval.weights import Weights
from adk_graph_memory.runtime.concurrency import Closeable
from adk_graph_memory.runtime.settings import Settings


class MemoryOptions(TypedDict, total=False):
    """The arguments of :class:`GraphMemory` but the address, for what makes one."""

    auth: Auth
    database: str | None
    driver: AsyncDriver | None
    sync_driver: Driver | None
    settings: Settings | None
    schema: str | None
    timezone: str | None
    model: str | llm.BaseLlm | None
    embedder: EmbedderChoice
    retrieval_query: str | None
    redact: RedactOption
    topics: Sequence[Topic | str] | None
    weights: Weights | None
    reranker: Reranker | None
    guard: GuardOption
    shared: SharedOption | None


class GraphMemory(Closeable):
    """The memory of many users in one graph.

    :meth:`user` returns the memory of one of them.

    Args:
        uri: a Neo4j address, which may also contain settings (``settings.parse_address``). Defaults to NEO4J_URI, or
            else to the server that ``adk-graph-memory up`` started.
        auth, database: default to NEO4J_USERNAME and NEO4J_PASSWORD, and to NEO4J_DATABASE or ``neo4j``.
        driver, sync_driver: your own async and sync drivers (graphrag's retrievers are sync); never closed here.
        settings: all settings, instead of the environment's.
        schema: ``auto`` (migrate at first use), ``check`` (refuse an unfit schema) or ``off``.
        timezone: IANA name of the time zone for users whose own is unknown; it decides which day "yesterday" is.
        model: what extracts entities and facts: the name of any model that ADK supports, a ``BaseLlm``, or ``"rules"``.
            Defaults to ADK_GRAPH_MEMORY_MODEL, or else to rules.
        embedder: a neo4j-graphrag ``Embedder``, a function from text to a vector, a Gemini model's name, the name or
            path of a sentence-transformers model (None: all-MiniLM-L6-v2), or False to search by full text alone.
        retrieval_query: your own Cypher traversal, as for neo4j-graphrag's retrievers: it continues from ``node``,
            ``score`` and ``$scope``, and returns at least ``text`` and ``score``.
        redact: applied to every question, and to every text before it is stored, sent or embedded: a pure function
            from text to text, or ``"secrets"`` (the extra ``privacy``). Defaults to ADK_GRAPH_MEMORY_REDACT.
        topics: the model keeps only facts on these topics: :class:`Topic` objects, or labels of Memory Bank's topics
            (``USER_PREFERENCES`` …). Without topics, it keeps whatever matters.
        weights: the weight of each signal in a memory's score.
        guard: decides before a fact or statement is written whether to keep, hold or drop it: a function from
            :class:`GuardCandidate` to :class:`GuardVerdict` or None, or ``"rules"`` (see ``memory.guard``; the extra
            ``privacy``). Defaults to ADK_GRAPH_MEMORY_GUARD, or else to none.
        shared: the shared memories that a user's searches read in addition to the user's own: the same for all users,
            or a function of app_name and user_id, which may be async. Defaults to ADK_GRAPH_MEMORY_SHARED, or else to
            none.
        reranker: reorders the best fifty memories, if it finishes within the setting ``rerank_timeout``.

    Example:
        async with GraphMemory() as memory:
            turn = Turn("t1", author="user", text="My sister Inés moved to Porto.", at=datetime.now(UTC))
            await memory.remember([turn], app_name="home", user_id="ana", session_id="call")
            for recollection in await memory.recall("Where does Inés live?", app_name="home", user_id="ana"):
                print(recollection.prompt_text)
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        auth: Auth = None,
        database: str | None = None,
        driver: AsyncDriver | None = None,
        sync_driver: Driver | None = None,
        settings: Settings | None = None,
        schema: str | None = None,
        timezone: str | None = None,
        model: str | llm.BaseLlm | None = None,
        embedder: EmbedderChoice = None,
        retrieval_query: str | None = None,
        redact: RedactOption = None,
        topics: Sequence[Topic | str] | None = None,
        weights: Weights | None = None,
        reranker: Reranker | None = None,
        guard: GuardOption = None,
        shared: SharedOption | None = None,
    ) -> None:
        connection = Connection(
            uri,
            auth=auth,
            database=database,
            driver=driver,
            sync_driver=sync_driver,
            settings=settings,
            schema=schema,
            timezone=timezone,
        )
        self.engine = Engine(
            connection,
            model=model,
            embedder=embedder,
            retrieval_query=retrieval_query,
            redact=redact,
            topics=topics,
            weights=weights,
            reranker=reranker,
            guard=guard,
            shared=shared,
        )

    @property
    def connection(self) -> Connection:
        """The connection to the graph, for statements of your own."""
        return self.engine.connection

    def user(self, app_name: str, user_id: str) -> UserMemory:
        """Return one user's memory, or that of a :class:`SharedMemory`; this asks nothing of the database.

        Raises:
            errors.InvalidArgument: an id is no text, too long, or looks like a shared memory but is not one.
        """
        return UserMemory(self.engine, Scope(app_name, user_id))

    # -- what is done most, in one call: the methods of :class:`UserMemory` with the user beside their arguments ----

    async def remember(
        self,
        turns: Sequence[Turn],
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        **options: Unpack[ingestion.RememberOptions],
    ) -> IngestReport:
        """Extract entities and facts from the new turns and store them, as :meth:`UserMemory.remember` does."""
        return await self.user(app_name, user_id).remember(turns, session_id=session_id, **options)

    async def recall(
        self, query: str, *, app_name: str, user_id: str, **options: Unpack[RecallOptions]
    ) -> list[Recollection]:
        """Return the memories that best fit the question, as :meth:`UserMemory.recall` does."""
        return await self.user(app_name, user_id).recall(query, **options)

    async def forget(
        self, ids: str | Sequence[str], *, app_name: str, user_id: str, with_turns: bool = False
    ) -> Receipt:
        """Forget memories for good, as :meth:`UserMemory.forget` does."""
        return await self.user(app_name, user_id).forget(ids, with_turns=with_turns)

    def facts(
        self, *, app_name: str, user_id: str, **options: Unpack[listings.FactsOptions]
    ) -> AsyncIterator[StoredFact]:
        """Yield the facts, newest first, as :meth:`UserMemory.facts` does."""
        return self.user(app_name, user_id).facts(**options)

    async def profile(
        self,
        *,
        app_name: str,
        user_id: str,
        schema: type[BaseModel] | None = None,
        token_budget: int = PROFILE_TOKENS,
    ) -> Profile:
        """Return what is always worth knowing about the user, as :meth:`UserMemory.profile` does."""
        return await self.user(app_name, user_id).profile(schema=schema, token_budget=token_budget)

    # -- many users ---------------------------------------------------------------------------------------------

    def users(self, *, app_name: str, limit: int | None = None, after: str | None = None) -> AsyncIterator[UserSummary]:
        """Yield an app's users in the order of their ids, with counts of what is stored for each.

        Args:
            app_name: the app.
            limit: the maximum number of users.
            after: the id of the user to continue after.
        """
        return listings.iterate_users(self.connection, app_name, limit=limit, after=after)

    def apps(self, *, limit: int | None = None, after: str | None = None) -> AsyncIterator[AppSummary]:
        """Yield the apps of this database in the order of their names, with counts of what is stored for each.

        Args:
            limit: the maximum number of apps.
            after: the name of the app to continue after.
        """
        return listings.iterate_apps(self.connection, limit=limit, after=after)

    async def resume(
        self,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        before: float | None = None,
        max_attempts: int | None = None,
        queued_for: str | None = None,
    ) -> list[IngestReport]:
        """Ingest the pending requests: those that were queued, or whose process died or model failed.

        Args:
            app_name: only this app's requests.
            user_id: only this user's requests.
            before: only requests made before this time, in epoch seconds.
            max_attempts: only requests with fewer attempts.
            queued_for: only requests for the model with this name (``rules`` for no model); that model, not this
                memory's own, extracts from them.

        Raises:
            errors.InvalidArgument: ``user_id`` looks like a shared memory, and is none.
            errors.QueuedModelMissing: ADK has no model with this name.
            errors.DatabaseUnavailable: the requests not yet ingested stay pending.
            Exception: the first error of a request that stays pending; the other requests were still ingested.
        """
        return await ingestion.resume_ingests(
            self.engine,
            app_name=app_name,
            user_id=user_id,
            before=before,
            max_attempts=max_attempts,
            queued_for=queued_for,
        )

    def outdated_sessions(
        self,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        since: float | None = None,
        force: bool = False,
    ) -> AsyncIterator[OutdatedSession]:
        """List the sessions that an extractor other than this memory's has read, user by user, oldest first.

        Args:
            app_name: of this app only.
            user_id: of this user only.
            since: only turns said since this time, in epoch seconds.
            force: all sessions, whatever has read them.

        Raises:
            errors.InvalidArgument: ``user_id`` looks like a shared memory, and is none; or ``since`` is no number.
            errors.DatabaseError: the graph could not be read.
        """
        return reextraction.iterate_outdated_sessions(
            self.engine, app_name=app_name, user_id=user_id, since=since, force=force
        )

    async def reextract(
        self, session: OutdatedSession, *, since: float | None = None, force: bool = False, preview: bool = False
    ) -> ReextractReport:
        """Read a session again with this memory's model; the new reading replaces the old one.

        Facts that only the old reading supported are deleted; others lose its support. Meanwhile, a search sees each
        window either as it was read before or as it is read now. ``undo`` with the report's id restores the old
        reading.

        Args:
            session: one from :meth:`outdated_sessions`.
            since, force: as for :meth:`outdated_sessions`.
            preview: read, but write nothing.

        Raises:
            errors.InvalidArgument: the session is not from :meth:`outdated_sessions`, or ``since`` is not a number.
            errors.ModelError: the model failed; windows that it has read are kept, the others are as they were.
            errors.WriteConflict: others kept writing to the user; likewise.
            errors.EmbeddingError, errors.EmbedderMismatch: no vector would fit the graph's; nothing is changed.
            errors.DatabaseError: the graph could not be written.
        """
        return await reextraction.reread_session(self.engine, session, since=since, force=force, preview=preview)

    def check_memories(
        self, *, app_name: str | None = None, user_id: str | None = None, mend: bool = False
    ) -> AsyncIterator[Checkup]:
        """Check one user after another.

        Derives each user's facts, names, endings and revisions again from the readings, and compares them with the
        graph. Also checks every invariant of the user's nodes. A user who cannot be checked does not hold up the
        others.

        Args:
            app_name: of this app only.
            user_id: of this user only.
            mend: also write the differences, mend whatever can be mended, and embed texts that lack a vector.

        Raises:
            errors.InvalidArgument: ``user_id`` looks like a shared memory, and is none.
        """
        check_flags(mend=mend)
        return maintenance.iterate_checkups(self.engine, app_name=app_name, user_id=user_id, mend=mend)

    async def check_store(self, *, mend: bool = False, owners: bool = True) -> list[Finding]:
        """Check what belongs to no user: the indexes and constraints of our labels, and nodes of unknown users.

        Args:
            mend: also create whatever is missing, unless the settings forbid schema changes.
            owners: also look for nodes of unknown users, which reads the whole graph.
        """
        check_flags(mend=mend, owners=owners)
        return await maintenance.check_store(self.connection, mend=mend, owners=owners)

    async def health(self) -> Health:
        """Say whether this memory can be used, and what is wrong, each with what to do about it.

        Looks at the database, its schema, the embedder and the queue. It takes a few short statements, and at most
        ``database_timeout`` seconds. It changes nothing: a schema that the first use would make is no problem, and
        neither is an embedder that is loaded when it is first needed. Problems are returned, not raised.
        """
        return await check_health(self.engine)

    async def prune(
        self,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        older_than: float | str | timedelta | None = None,
        only: Sequence[PruneKind] = (),
        dry_run: bool = False,
    ) -> PruneReport:
        """Delete expired data for good; nobody sees it any more, but it still takes up space.

        This runs in short transactions with pauses between them, so that agents can go on. It can be interrupted at any
        time and run again. Memories are forgotten as :meth:`UserMemory.forget` does it.

        Args:
            app_name: of this app only.
            user_id: of this user only.
            older_than: also anything older, whatever its own expiry: seconds, a timedelta, or a text such as ``90d``.
            only: only these kinds; all kinds if empty.
            dry_run: only count.

        Returns:
            How much of each kind was deleted, or would be.

        Raises:
            errors.InvalidArgument: there is no such kind, ``older_than`` is not a length of time, or ``user_id`` looks
                like a shared memory but is not one.
        """
        check_flags(dry_run=dry_run)
        return await maintenance.prune(
            self.engine, app_name=app_name, user_id=user_id, older_than=older_than, only=only, dry_run=dry_run
        )

    async def export(
        self,
        target: str | Path | TextIO,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        as_of: AsOf | None = None,
    ) -> ExportReport:
        """Write sessions, memory, and the artifacts in the graph into a file of JSON Lines.

        This needs little RAM, whatever the size of the graph. ``adk-graph-memory import --from export`` reads the file.
        Locks, leases and secrets are not exported, and neither is artifact content in a store.

        Args:
            target: a path, where the file appears once it is complete, or an open text file.
            app_name: only this app.
            user_id: only this user.
            as_of: write what had been said and read by then; the import derives the facts from it. This takes RAM in
                proportion to one user's memory. Anything forgotten since stays forgotten. Sessions, events and
                artifacts count by their own times. State that was written later is left out; an app's state always is.

        Raises:
            errors.InvalidArgument: ``as_of`` has a ``valid`` time, ``user_id`` looks like a shared memory but is not
                one, or the file cannot be written.
            errors.NotFound: there is no such app or user; no file is written.
            errors.DatabaseError: the graph could not be read to the end.
        """
        return await export_memory(self.engine, target, app_name=app_name, user_id=user_id, as_of=as_of)

    async def back_up(self, path: str | Path) -> ExportReport:
        """Write everything into a file from which :meth:`restore` makes the same graph, while agents go on.

        An export of everybody that also holds the content of artifacts, and the secret that keeps forgotten words
        forgotten. Whatever was acknowledged before the call is in it. A user to whom somebody writes meanwhile is read
        again, so that each user is as at one moment; the report names those who were never quiet.

        Raises:
            errors.InvalidArgument: the file cannot be written.
            errors.ArtifactStoreUnusable: the content of an artifact cannot be read; no file is written.
            errors.DatabaseError: the graph could not be read to the end; likewise.
        """
        return await backup.back_up_graph(self.engine, path)

    async def restore(self, path: str | Path, *, on_progress: Callable[[str], None] | None = None) -> RestoreReport:
        """Make the graph of a backup again, in a database without users; vectors come with it.

        After an interruption, the same call continues. In the end, the graph is compared with the file.

        Args:
            path: a file that :meth:`back_up` wrote.
            on_progress: called now and then with what was restored so far, in words.

        Raises:
            errors.NotFound: there is no such file.
            errors.UnreadableTranscript: it is no backup, or not as it was written; nothing is restored.
            errors.GraphNotEmpty: the graph has users who are not from this file; likewise.
            errors.ArtifactStoreUnusable: the content of an artifact cannot be stored.
            errors.DatabaseError: the graph could not be written.
        """
        return await backup.restore_graph(self.engine, path, on_progress)

    # -- this process -------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Check everything that a conversation needs, so that the first one meets no error and no delay.

        Checks redaction, topics, the model's name and credentials, and the embedder; migrates or checks the schema. The
        server then plans the statements of a conversation, which takes seconds if it has just started, else
        milliseconds.

        Raises:
            errors.ConfigurationError, errors.RedactorMissing: a setting cannot be used, or its libraries are missing.
            errors.DatabaseError, errors.SchemaError: the graph cannot be used.
            errors.EmbeddingError, errors.EmbedderMismatch: the embedder cannot be used, or not with this graph.
        """
        engine = self.engine
        _ = engine.redactor, engine.guard, engine.extractor
        if engine.language_model:
            await llm.check_model(engine.language_model)
        engine.vectors.start_loading()
        with self.connection.planner.paused():  # the server drops its plans when the vectors' indexes are made
            await self.connection.prepare()
            await engine.vectors.prepare_embedder()
        self.plan_ahead()
        await self.connection.planner.wait_until_planned()

    def plan_ahead(self) -> None:
        """From the first statement on, have the server plan the statements of a conversation in the background."""
        self.connection.planner.list_statements = partial(list_planned_statements, self.engine)

    async def close(self) -> None:
        """Close the connections opened in the running event loop; may be called again."""
        self.engine.vectors.report_loading_failure()
        await self.connection.close()
