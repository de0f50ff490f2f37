"""What a checkup finds: invariants that are broken, in plain words, and the way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
