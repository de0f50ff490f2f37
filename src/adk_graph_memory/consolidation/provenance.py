"""Trace a fact or an entity of a derived memory back to the readings that made it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from adk_graph_memory.consolidation import fact_rules, owner_words
from adk_graph_memory.consolidation.replay import find_root_key
from adk_graph_memory.consolidation.restriction import find_read_facts
from adk_graph_memory.records.extractions import Source
from adk_graph_memory.records.facts import Fact, RevisionOperation
from adk_graph_memory.records.history import HistoryEntry, HistoryKind
from adk_graph_memory.records.memory import DerivedMemory
from adk_graph_memory.records.readings import OWNER, Reading, RulingOperation

_KINDS_BY_OPERATION: dict[RevisionOperation, HistoryKind] = {
    "REFINE": "reworded",
    "REINFORCE": "confirmed",
    "SUPERSEDE": "ended",
    "RETRACT": "retracted",
    "REOPEN": "reopened",
}
_KINDS_BY_RULING: dict[RulingOperation, HistoryKind] = {
    "correct": "retracted",
    "retract": "retracted",
    "pin": "pinned",
    "unpin": "unpinned",
    "rollback": "rolled back",
}
_BEGINNING = datetime.min.replace(tzinfo=UTC)


def trace_fact(readings: Sequence[Reading], memory: DerivedMemory, fact_id: str) -> tuple[HistoryEntry, ...]:
    """Trace a fact: each quote with its own wording, each change, and what it replaced."""
    fact = memory.facts[fact_id]
    entries = [*_trace_words(readings, fact), *_trace_revisions(fact), *_trace_links(memory, fact_id)]
    entries += _trace_rulings(readings, fact)
    return tuple(sorted(entries, key=_compute_entry_sort_key))


def _trace_words(readings: Sequence[Reading], fact: Fact) -> Iterator[HistoryEntry]:
    source_keys = {source.key for source in fact.sources}
    behind = find_read_facts(readings, fact)
    for reading in readings:
        for read in reading.extraction.facts:
            if (reading.id, read.ref) in behind:
                for source in (source for source in read.sources if source.key in source_keys):
                    yield _make_entry("said", read.text, reading, source)


def _make_entry(kind: HistoryKind, text: str, reading: Reading, source: Source) -> HistoryEntry:
    return HistoryEntry(
        kind,
        text,
        reading.at,
        by=reading.extractor,
        quote=source.quote,
        said_at=source.at,
        session_id=source.session_id,
        source_event_id=source.turn_id,
        ingest_id=reading.id,
        origin=source.origin,
    )


def _trace_revisions(fact: Fact) -> Iterator[HistoryEntry]:
    for revision in fact.revisions:
        if revision.judge == OWNER:
            continue  # the ruling says so
        evidence = revision.evidence[0] if revision.evidence else None
        yield HistoryEntry(
            _KINDS_BY_OPERATION[revision.op],
            revision.text,
            revision.recorded_at,
            by=revision.judge if revision.is_by_model else "rules",
            reason=revision.reason,
            quote=evidence.quote if evidence else "",
            said_at=evidence.at if evidence else None,
            session_id=evidence.session_id if evidence else "",
            source_event_id=evidence.turn_id if evidence else "",
            origin=evidence.origin if evidence else None,
            revision=revision.key,
        )


def _trace_rulings(readings: Iterable[Reading], fact: Fact) -> Iterator[HistoryEntry]:
    for reading in readings:
        ruling = reading.ruling
        if ruling and ruling.claim and owner_words.find_ruled_fact([fact], ruling.claim):
            kind, text = _KINDS_BY_RULING[ruling.op], fact.proposition.text
            changes = (item.key for item in fact.revisions if item.recorded_at == reading.at)
            entry = HistoryEntry(kind, text, reading.at, by=OWNER, reason=ruling.reason, ingest_id=reading.id)
            yield replace(entry, revision=next(changes, ""))


def _trace_links(memory: DerivedMemory, fact_id: str) -> Iterator[HistoryEntry]:
    for (later, earlier), link in sorted(memory.links.items()):
        if later == fact_id and not link.is_void:
            ending, ended = (memory.facts[id].proposition for id in (later, earlier))
            reason = link.reason or fact_rules.explain_ending(ending, ended)
            yield HistoryEntry("replaced", ended.text, link.recorded_at, by="", reason=reason)


def trace_entity(readings: Sequence[Reading], memory: DerivedMemory, key: str) -> tuple[HistoryEntry, ...]:
    """Trace an entity: each name with the words that hold it, and whom it was merged with or kept apart from."""
    entries = [entry for reading in readings for entry in _trace_names(reading, memory, key)]
    entries += [
        HistoryEntry("merged", entity.name, None, by=entity.merged_by, reason=entity.merge_reason)
        for entity in memory.entities.values()
        if entity.merged_into and entity.merged_by != OWNER and find_root_key(memory.entities, entity.key) == key
    ]
    name = memory.entities[key].name
    entries += [entry for reading in readings if (entry := _trace_name_ruling(reading, memory, key, name))]
    return tuple(sorted(entries, key=_compute_entry_sort_key))


def _trace_name_ruling(reading: Reading, memory: DerivedMemory, key: str, name: str) -> HistoryEntry | None:
    """Trace what the owner said of who is who, for the entity of this key and name."""
    ruling = reading.ruling
    if ruling is None or ruling.op not in ("merge", "split"):
        return None
    others: Sequence[str] = ()
    if ruling.op == "split" and name in ruling.names:
        others = [other for other in ruling.names if other != name]
    elif ruling.op == "merge" and key in (find_root_key(memory.entities, old) for old in ruling.names[:2]):
        others = [other for other in ruling.names[2:] if other != name]
    kind: HistoryKind = "merged" if ruling.op == "merge" else "kept apart"
    text, by = ", ".join(others), OWNER
    return HistoryEntry(kind, text, reading.at, by=by, reason=ruling.reason, ingest_id=reading.id) if others else None


def _trace_names(reading: Reading, memory: DerivedMemory, key: str) -> Iterator[HistoryEntry]:
    for entity in reading.extraction.entities:
        read_key = memory.entity_keys.get((reading.id, entity.ref))
        if read_key is None or find_root_key(memory.entities, read_key) != key:
            continue
        facts = (fact for fact in reading.extraction.facts if entity.ref in (fact.subject, fact.object))
        sources = [source for fact in facts for source in fact.sources]
        for name in dict.fromkeys((entity.name, *entity.aliases)):
            naming = [source for source in sources if name.casefold() in source.quote.casefold()] or sources
            text = f"{name} ({entity.about})" if entity.about else name
            if naming:
                yield _make_entry("named", text, reading, naming[0])
            else:
                yield HistoryEntry("named", text, reading.at, by=reading.extractor, ingest_id=reading.id)
        if entity.ref in reading.doubt_answers and reading.doubt_answers[entity.ref] is None:
            yield HistoryEntry("kept apart", entity.name, reading.at, by=reading.judge, ingest_id=reading.id)


def _compute_entry_sort_key(entry: HistoryEntry) -> tuple[datetime, bool, datetime, str]:
    """Order by when memory recorded it; of one time, the words come before what was made of them."""
    return entry.at or _BEGINNING, entry.kind not in ("said", "named"), entry.said_at or _BEGINNING, entry.text
