"""What an import or a checkup reports: counts, problems with their places, and findings in plain words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row that is left out: its place in the source, what kind of problem it has, and which exactly."""

    place: str
    kind: str
    reason: str


MAX_PROBLEMS = 100
"""Skipped rows whose places are kept; beyond, they are only counted."""
LOOSE = "without one of its nodes"
"""The kind of an export's relationships with a node that was written while the export ran."""
SYSTEM_LINE, MEDIA, SUPERSEDED_ANSWER = "of the service itself", "without words", "replaced by another answer"
"""Kinds of a chat's rows that are no message: notices and tools; pictures and recordings; branches that were left."""
EARLIER = "dated before the message above it"
"""The kind of a chat's line that is probably a quote: it is named, and nobody has to mend it."""
HARMLESS_KINDS = frozenset(
    ("of another app or user", "expired", "without a fact", LOOSE, SYSTEM_LINE, MEDIA, SUPERSEDED_ANSWER)
)
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
    """the first of those that somebody has to mend, or to look at"""
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
    speakers: dict[str, int] = field(default_factory=dict)
    """messages of each speaker of a chat"""
    period: tuple[datetime, datetime] | None = None
    """times of a chat's first and last message"""

    @property
    def has_problems(self) -> bool:
        """Whether something was left out that somebody has to mend."""
        return not {*HARMLESS_KINDS, EARLIER}.issuperset(self.skipped)


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

    def copy_counts(self) -> Counter[tuple[str, str]]:
        """Copy what was counted so far, for :meth:`restore_counts`."""
        return self._counts.copy()

    def restore_counts(self, counts: Counter[tuple[str, str]]) -> None:
        """Count as if nothing had been read since; what was left out meanwhile stays named."""
        self._counts = counts

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


Invariant = Literal[
    "edges_across_users",
    "unsupported_facts",
    "unheard_quotes",
    "malformed_intervals",
    "wrong_flags",
    "foreign_vectors",
    "malformed_memories",
    "overdue_leases",
    "unreadable_readings",
    "underivable",
    "missing_indexes",
    "offline_indexes",
    "ownerless_nodes",
]

_MEND = "`adk-graph-memory doctor --mend` mends it."
_DESCRIPTIONS: dict[Invariant, tuple[str, str]] = {
    "edges_across_users": ("edges that lead to another user's memory", _MEND),
    "unsupported_facts": ("facts that no quote supports and no owner stated", _MEND),
    "unheard_quotes": ("edges to words that memory does not hold", _MEND),
    "malformed_intervals": (
        "facts with an impossible state or interval",
        f"{_MEND} A statement of impossible dates stays: forget it and add it again.",
    ),
    "wrong_flags": ("facts that miscount their quotes or their state", _MEND),
    "foreign_vectors": ("vectors that are not of their slot's embedder", _MEND),
    "malformed_memories": (
        "turns and facts that are nobody's word, or were said at no time",
        f"{_MEND} They then count as imported, and as said when a fact of them was, or else now.",
    ),
    "overdue_leases": ("requests that are held for longer than a lease", _MEND),
    "unreadable_readings": (
        "readings that cannot be read",
        f"{_MEND} Their facts then stand for what was read. Former wordings, facts that a guard held, and the owner's "
        "word on who is who are lost with them.",
    ),
    "underivable": (
        "memory that cannot be derived, so that nothing of it can be forgotten singly",
        "It is a bug: please report the traceback of the log. `adk-graph-memory forget-user` still works.",
    ),
    "missing_indexes": (
        "indexes or constraints that are missing",
        f"{_MEND} If the settings forbid schema changes, run the output of `adk-graph-memory migrate --print`. Drop "
        "another index of the same name, or of the same label and properties, first.",
    ),
    "offline_indexes": ("indexes that are not ONLINE", f"{_MEND} One that is being built needs time."),
    "ownerless_nodes": (
        "nodes of a user whom the graph does not know",
        "The user is known again once anything is written for them; then `doctor` checks them.",
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """An invariant that was broken ``count`` times, and whether that is mended."""

    invariant: Invariant
    count: int
    is_mended: bool
    text: str
    """what is wrong, in plain words"""
    way_out: str
    """what to do about it; empty once it is mended"""
    details: tuple[str, ...] = ()
    """names of indexes, ids of requests, or the reason why it could not be mended"""

    @classmethod
    def make(
        cls, invariant: Invariant, count: int, *, is_mended: bool = False, details: tuple[str, ...] = ()
    ) -> Finding:
        """Make a finding with the words of its invariant."""
        text, way_out = _DESCRIPTIONS[invariant]
        return cls(invariant, count, is_mended, text, "" if is_mended else way_out, details)
