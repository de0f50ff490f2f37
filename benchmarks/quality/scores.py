"""Score what a search returned by what it should have found, from 0 to 1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from google.adk.memory.memory_entry import MemoryEntry

from adk_graph_memory.language.text import count_tokens


def list_event_ids(memories: Iterable[MemoryEntry]) -> list[str]:
    """The ids of the events that the memories rest on, entry by entry, each once; else the memories' own."""
    ids: Iterator[str] = (id for memory in memories for id in _list_sources(memory))
    return list(dict.fromkeys(ids))


def _list_sources(memory: MemoryEntry) -> list[str]:
    return (memory.custom_metadata or {}).get("source_event_ids") or [memory.id or ""]


def take_within(memories: Sequence[MemoryEntry], tokens: int) -> list[MemoryEntry]:
    """The first memories that together have at most so many tokens of text."""
    kept, spent = [], 0
    for memory in memories:
        spent += sum(count_tokens(part.text or "") for part in memory.content.parts or ())
        if spent > tokens:
            break
        kept.append(memory)
    return kept


def measure_recall(ids: Sequence[str], evidence: Sequence[str]) -> float:
    """The share of the wanted ids among the found."""
    return len(set(evidence) & set(ids)) / len(evidence)


def find_place(ids: Sequence[str], evidence: Sequence[str]) -> float:
    """Where the first of the wanted ids stands; behind everything if none was found."""
    return min((place for place, id in enumerate(ids) if id in evidence), default=math.inf)


def misleads(entries: Sequence[MemoryEntry], evidence: Sequence[str], outdated: Sequence[str]) -> bool:
    """Whether a memory of outdated words does not say that they are, or stands before any of the wanted."""
    is_known = False
    for memory in entries:
        about, sources = memory.custom_metadata or {}, _list_sources(memory)
        is_known = is_known or not set(evidence).isdisjoint(sources)
        is_marked = about.get("current") is False or bool(about.get("superseded_by"))
        if not set(outdated).isdisjoint(sources) and not (is_known and is_marked):
            return True
    return False


def measure_ndcg(ids: Sequence[str], evidence: Sequence[str], depth: int) -> float:
    """Discounted gain of the wanted ids where they stand among the first, to that of all of them standing in front."""
    gain = sum(_discount(place) for place, id in enumerate(ids[:depth]) if id in evidence)
    return gain / sum(_discount(place) for place in range(min(len(evidence), depth)))


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)
