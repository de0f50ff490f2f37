"""Read turns again that another extractor read: another model, or another version of the prompt.

What is read now counts instead of what was read before, in one transaction for each window. The former reading stays
for history: ``as_of`` a time before shows it, and ``undo`` returns to it. What the owner ruled on and what was added
directly is never read again.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.consolidation.replay import list_known_entities, replay_readings, select_candidates
from adk_graph_memory.graph import ingest_queue, lucene, rereads, snapshots, writing
from adk_graph_memory.graph.ingest_queue import MAX_KNOWN_ENTITIES, Lease, LeasedWindows
from adk_graph_memory.graph.rereads import OutdatedSession, OutdatedTurns
from adk_graph_memory.graph.vector_slots import EmbeddingBatch
from adk_graph_memory.graph.writing import Rereading, WindowPlan
from adk_graph_memory.memory.changes import describe_change
from adk_graph_memory.memory.engine import Engine, UserContext
from adk_graph_memory.memory.ingestion import Ingestion
from adk_graph_memory.memory.rewriting import list_readings_without
from adk_graph_memory.records.extractions import Extraction, Remark
from adk_graph_memory.records.facts import Candidates
from adk_graph_memory.records.history import MemoryChange
from adk_graph_memory.records.memory import DerivedMemory
from adk_graph_memory.records.readings import Reading
from adk_graph_memory.records.results import IngestReport
from adk_graph_memory.records.scopes import SharedMemory, check_flags
from adk_graph_memory.records.turns import Turn
from adk_graph_memory.runtime import telemetry


@dataclass(frozen=True, slots=True)
class ReextractReport:
    """The outcome of rereading a session; pass the id to ``undo`` to take it back."""

    ingest_id: str
    session_id: str
    report: IngestReport
    changes: tuple[MemoryChange, ...]
    """what each window changes"""


class Rereader(Ingestion):
    """Reads the turns of one session again, with what an ingestion has; made for one session."""

    _is_preview = False

    async def reread_session(
        self, session: OutdatedSession, *, is_forced: bool, since: float | None, is_preview: bool
    ) -> ReextractReport:
        """Read the outdated turns of a session again.

        Args:
            session: the session.
            is_forced: whether all of its turns count as outdated.
            since: only turns said since this time, in epoch seconds.
            is_preview: whether nothing is written.

        Raises:
            errors.ModelError: the model failed; windows that it has read are kept, the others are as they were.
            errors.WriteConflict: others kept writing to the user; likewise.
            errors.EmbeddingError, errors.EmbedderMismatch: no vector would fit the graph's; nothing is changed.
        """
        self._is_preview, self._changes = is_preview, list[MemoryChange]()
        start_time, request_id = time.monotonic(), uuid.uuid4().hex
        await self._vectors.check_embedder()
        version = None if is_forced else self._extractor.version
        groups = await rereads.fetch_outdated_turns(self._graph, session.session_id, version, since)
        windows = await self._prepare_windows(session.session_id, request_id, groups)
        report = IngestReport(extractor=self._extractor.version)
        for self._group in groups:
            leases = LeasedWindows(tuple(window for window in windows if window.turns[0] in self._group.turns))
            extractor = self._extractor.restrict_topics(self._group.topics)
            report += await self._ingest_windows(leases, extractor, start_time)
        return ReextractReport(request_id, session.session_id, report, tuple(self._changes))

    async def _prepare_windows(self, session_id: str, request_id: str, groups: Sequence[OutdatedTurns]) -> list[Lease]:
        parts = [tuple(part) for group in groups for part in self._extractor.split_turns(group.turns)]
        ids = [request_id] if len(parts) == 1 else [f"{request_id}/{number}" for number in range(1, len(parts) + 1)]
        windows = [
            Lease(id, request_id, session_id, part, edited_turn_ids=frozenset(turn.id for turn in part))
            for id, part in zip(ids, parts, strict=True)
        ]
        contexts = await rereads.fetch_contexts(self._graph, windows)
        snapshot = await snapshots.fetch_snapshot(self._graph)
        turn_ids = {id for window in windows for id in window.memory_ids.values()}
        readings = await asyncio.to_thread(list_readings_without, snapshot, turn_ids)
        memory = await asyncio.to_thread(replay_readings, readings)
        entities = list_known_entities(memory, MAX_KNOWN_ENTITIES)  # whom only these turns name is not known yet
        return [
            replace(window, context=contexts.get(window.ingest_id, ()), known_entities=entities) for window in windows
        ]

    async def _forget_on_request(self, window: Lease, result: Extraction) -> None:
        if not self._is_preview:
            await super()._forget_on_request(window, result)

    async def _fetch_candidates(
        self, window: Lease, result: Extraction, batch: EmbeddingBatch
    ) -> tuple[Candidates, int]:
        """Fetch what the extraction may be about if the window's turns had not been read yet."""
        found, _ = await super()._fetch_candidates(window, result, batch)
        snapshot = await snapshots.fetch_snapshot(self._graph)
        self._snapshot = snapshot
        near_ids = {*found.recent_ids, *(id for ids in found.similar_ids.values() for id in ids)}
        reopened_ids = set[str]()

        def choose_ids(memory: DerivedMemory) -> set[str]:
            """Choose what the graph finds near, and what only words of the window had ended."""
            current = {id for id, fact in memory.facts.items() if fact.standing.state == "current"}
            stored = snapshot.stored.facts
            reopened_ids.update(id for id in current if id not in stored or stored[id].standing.state != "current")
            return near_ids | reopened_ids

        def select() -> Candidates:
            readings = list_readings_without(snapshot, window.memory_ids.values())
            predicates = self._extractor.functional_predicates
            return select_candidates(readings, result, predicates, choose_ids)

        candidates = await asyncio.to_thread(select)
        if self._judge is None:
            return replace(candidates, forgotten_turn_ids=found.forgotten_turn_ids), snapshot.writes
        ids = {fact.id for fact in candidates.facts}
        texts = {fact.text: found.similar_ids.get(fact.text, ()) for fact in result.facts}
        return replace(
            candidates,
            similar_ids={text: _join_ids(near, reopened_ids, ids) for text, near in texts.items()},
            recent_ids=_join_ids(found.recent_ids, reopened_ids, ids),
            forgotten_turn_ids=found.forgotten_turn_ids,
        ), snapshot.writes

    async def _store_plan(self, window: Lease, planned: WindowPlan, batch: EmbeddingBatch) -> writing.WriteOutcome:
        turns = [turn for turn in window.turns if turn.id not in planned.forget_turn_ids]
        if not turns:
            return "written"  # their author asked to forget them all, and they are forgotten
        heard_ids, remarks = [window.memory_ids[turn.id] for turn in turns], planned.remarks
        reading = replace(planned.reading, is_rereading=True, at=datetime.now(UTC), heard_turn_ids=tuple(heard_ids))
        rereading = Rereading(
            reading,
            json.dumps(asdict(planned.report)),
            self._extractor.model_name,
            self._group.topics,
            [self._encode_reread_turn(turn, window, reading, remarks) for turn in turns],
        )
        outcome, rewrite = await self._user.rewriter.replace_reading(
            rereading, self._snapshot, is_preview=self._is_preview
        )
        if outcome == "written":
            self._changes.append(describe_change(reading.id, rewrite))
        return outcome

    def _encode_reread_turn(
        self, turn: Turn, window: Lease, reading: Reading, remarks: Sequence[Remark]
    ) -> dict[str, Any]:
        remark = next((one for one in remarks if one.turn_id == turn.id), None)
        return {
            "memory_id": window.memory_ids[turn.id],
            "ingest": self._group.ingest_ids[turn.id],
            "extracted": f"{reading.extractor}:{turn.text_key}",
            "text": turn.text,
            "words": lucene.extract_word_parts(turn.text),
            **ingest_queue.encode_shown_columns(turn),
            "manner": remark and remark.manner,
            "writer": (remark and remark.writer) or None,
        }


def _join_ids(near_ids: Iterable[str], further_ids: Iterable[str], kept_ids: Collection[str]) -> tuple[str, ...]:
    return tuple(id for id in dict.fromkeys((*near_ids, *sorted(further_ids))) if id in kept_ids)


async def iterate_outdated_sessions(
    engine: Engine,
    *,
    app_name: str | None = None,
    user_id: str | None = None,
    since: float | None = None,
    force: bool = False,
) -> AsyncIterator[OutdatedSession]:
    """List the sessions that another extractor has read; :meth:`.GraphMemory.outdated_sessions` says which."""
    SharedMemory.check_user_id(user_id)
    _check_since(since)
    check_flags(force=force)
    version = None if force else engine.extractor.version
    async for session in rereads.iterate_outdated_sessions(
        engine.connection, version, app_name=app_name, user_id=user_id, since=since
    ):
        yield session


@telemetry.trace_operation("upsert_memory")
async def reread_session(
    engine: Engine,
    session: OutdatedSession,
    *,
    since: float | None = None,
    force: bool = False,
    preview: bool = False,
) -> ReextractReport:
    """Read a session again; :meth:`.GraphMemory.reextract` says how."""
    check_flags(force=force, preview=preview)
    if not isinstance(session, OutdatedSession):
        raise errors.InvalidArgument(reason=f"{session!r} is no session of outdated_sessions")
    _check_since(since)
    rereader = Rereader(UserContext(engine, session.scope), engine.choose_readers(), engine.guard)
    return await rereader.reread_session(session, is_forced=force, since=since, is_preview=preview)


def _check_since(since: object) -> None:
    if since is not None and (isinstance(since, bool) or not isinstance(since, int | float)):
        raise errors.InvalidArgument(reason=f"since={since!r} is no time in epoch seconds")
