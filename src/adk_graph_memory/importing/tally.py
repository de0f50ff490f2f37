"""Count what an import does, and name the places of what it leaves out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from adk_graph_memory.importing.source_records import SkippedRow

MAX_PROBLEMS = 100
"""Skipped rows whose places are kept; beyond, they are only counted."""
LOOSE = "without one of its nodes"
"""The kind of an export's relationships with a node that was written while the export ran."""
HARMLESS_KINDS = frozenset(("of another app or user", "expired", "without a fact", LOOSE))
"""Kinds of skipped rows that nobody has to mend."""


@dataclass(frozen=True, slots=True)
class ImportReceipt:
    """What an import read, what of it the graph lacked, and what was left out."""

    source: str
    is_dry_run: bool
    sessions: dict[str, int]
    events: dict[str, int]
    memories: dict[str, int]
    state_keys: int
    """keys of apps' and users' states that were added"""
    waiting_turns: int
    """turns of these sessions that wait in memory's queue"""
    skipped: dict[str, int]
    """how many rows were left out, by kind of problem"""
    problems: tuple[SkippedRow, ...]
    """the first of those that somebody has to mend"""
    apps: dict[str, int] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    relationships: dict[str, int] = field(default_factory=dict)
    dropped_vectors: int = 0
    """memories of an export without their vectors, which are another embedder's than those of the graph"""
    outside_contents: int = 0
    """versions of artifacts of an export whose content lies in a store, and not in the file"""
    refused_turns: int = 0
    """turns of an export that stay forgotten, because they were forgotten here"""
    foreign_tombstones: int = 0
    """tombstones of an export for turns that it does not hold: they refuse nothing outside the graph they come from"""

    @property
    def has_problems(self) -> bool:
        """Whether something was left out that somebody has to mend."""
        return not HARMLESS_KINDS.issuperset(self.skipped)


class Tally:
    """The counts of a running import."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._skipped: Counter[str] = Counter()
        self._problems: list[SkippedRow] = []

    def count(self, what: str, how: str = "read", number: int = 1) -> None:
        """Count rows: ``what`` is one of sessions, events, memories, state_keys and turns; of an
        export also apps, users, nodes, relationships, vectors, contents and tombstones."""
        self._counts[what, how] += number

    def skip(self, place: str, kind: str, reason: str) -> None:
        """Count a row that is left out."""
        self.skip_row(SkippedRow(place, kind, reason))

    def skip_row(self, row: SkippedRow) -> None:
        """Count a row that is left out."""
        self._skipped[row.kind] += 1
        if row.kind not in HARMLESS_KINDS and len(self._problems) < MAX_PROBLEMS:
            self._problems.append(row)

    def describe_progress(self) -> str:
        """What was read so far."""
        names = [what for what in ("sessions", "events", "memories", "users", "nodes") if self._counts[what, "read"]]
        return ", ".join(f"{self._counts[what, 'read']:,} {what}" for what in names) or "nothing yet"

    def make_receipt(self, source: str, *, is_dry_run: bool) -> ImportReceipt:
        """Make the receipt of what was counted so far."""

        def collect(what: str) -> dict[str, int]:
            return {how: number for (name, how), number in sorted(self._counts.items()) if name == what and number}

        return ImportReceipt(
            source,
            is_dry_run,
            collect("sessions"),
            collect("events"),
            collect("memories"),
            self._counts["state_keys", "added"],
            self._counts["turns", "waiting"],
            dict(sorted(self._skipped.items())),
            tuple(self._problems),
            collect("apps"),
            collect("users"),
            collect("nodes"),
            collect("relationships"),
            self._counts["vectors", "dropped"],
            self._counts["contents", "outside"],
            self._counts["turns", "refused"],
            max(self._counts["tombstones", "foreign"], 0),
        )
