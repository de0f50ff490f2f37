"""A draft and a model's decisions go in; tenets come out that are told apart, and the runs of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from adk_graph_memory.consolidation import facts
from adk_graph_memory.consolidation.draft import Draft, exclude
from adk_graph_memory.consolidation.tenets import Tenet
from adk_graph_memory.consolidation.timeline import Ending, Exclusion, Run, Strand, runs
from adk_graph_memory.records.plan import Op


@dataclass(frozen=True, slots=True)
class Decision:
    """What a model says of a tenet and others (ids): the operation, and why.

    REINFORCE: it says the same as the target. REFINE: it says the same more exactly. SUPERSEDE: both cannot hold at
    once, the world changed. RETRACT: it says that the targets were never true. NOOP: it is not worth keeping.
    """

    tenet: str
    op: Op
    targets: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decisions:
    """All that a model decided; ``dropped`` counts by reason what it said that could not be used."""

    ops: tuple[Decision, ...] = ()
    dependencies: tuple[tuple[str, str], ...] = ()
    same: Mapping[int, str | None] = field(default_factory=dict)
    """whom a reference in doubt means; None for somebody new"""
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Decisions) -> Decisions:
        return Decisions(
            self.ops + other.ops,
            self.dependencies + other.dependencies,
            {**self.same, **other.same},
            Counter(self.dropped) + Counter(other.dropped),
        )

    def about(self, before: Draft, after: Draft) -> Decisions:
        """The same decisions in the terms of a draft that knows who is who, which these decisions told."""
        keys = {key: after.resolution.keys[ref] for ref, key in before.resolution.keys.items()}
        keys |= after.resolution.absorbed
        ids = {id: _renamed(tenet, keys) for id, tenet in before.tenets.items()}
        ops = tuple(replace(op, tenet=ids[op.tenet], targets=tuple(ids[one] for one in op.targets)) for op in self.ops)
        pairs = tuple((ids[one], ids[base]) for one, base in self.dependencies)
        return replace(self, ops=ops, dependencies=pairs)


def _renamed(tenet: Tenet, keys: Mapping[str, str]) -> str:
    """The tenet's id once its subject and object are the entities that they turned out to be."""
    said = tenet.wordings[0]
    if said.subject not in keys and said.object not in keys:
        return tenet.id
    subject, object = (keys.get(key or "", key) for key in (said.subject, said.object))
    return (
        tenet.id
        if (subject, object) == (said.subject, said.object)
        else replace(said, subject=subject, object=object).signature
    )


class Settled:
    """The tenets after a model's decisions: what is one is merged, what excludes the other is timed.

    Args:
        draft: what rules could tell.
        decisions: what a model added.
    """

    def __init__(self, draft: Draft, decisions: Decisions) -> None:
        self._draft = draft
        self.tenets = dict(draft.tenets)
        self.home = {id: id for id in draft.tenets}
        """id of each tenet of the draft → that of the one it became part of; those left out are missing"""
        self.dropped = Counter(draft.dropped) + Counter(decisions.dropped)
        self.left_out = 0
        self.dependencies = {*draft.dependencies, *decisions.dependencies}
        self._refined: dict[str, list[tuple[str, str]]] = {}
        self._merged: dict[str, str] = {}
        self._ended: dict[tuple[str, str], str] = {}
        exclusions = dict(draft.exclusions)
        for decision in sorted(decisions.ops, key=lambda one: (one.tenet, one.op, one.targets)):
            self._take(decision, exclusions)
        homes = ((self.home.get(a), self.home.get(b), how) for (a, b), how in exclusions.items())
        settled: dict[tuple[str, str], Exclusion] = {(a, b): how for a, b, how in homes if a and b and a != b}
        self.runs: dict[str, list[Run]] = runs(map(self.strand, self.tenets), settled)

    def strand(self, id: str) -> Strand:
        """The tenet with the wording that stands for it."""
        tenet = self.tenets[id]
        return Strand(id, facts.wording(tenet.wordings, self._refined.get(id, ())), tenet.sources)

    def is_vague(self, id: str, text: str) -> bool:
        """Whether a more exact wording of the tenet was found than this."""
        return any(text == less for _, less in self._refined.get(id, ()))

    def is_exact(self, id: str, text: str) -> bool:
        """Whether this wording of the tenet was found to be the more exact one."""
        return any(text == more for more, _ in self._refined.get(id, ()))

    def why_merged(self, id: str) -> str:
        """The model's reason for taking several wordings for this tenet; empty where a rule did."""
        return self._merged.get(id, "")

    def why_ended(self, ended: str, by: str) -> str:
        """The model's reason for letting the one end the other; empty where a rule did."""
        names = {home: [id for id, into in self.home.items() if into == home] for home in (ended, by)}
        pairs = ((a, b) for a in names[ended] for b in names[by])
        return next((self._ended[pair] for pair in pairs if pair in self._ended), "")

    def _take(self, decision: Decision, exclusions: dict[tuple[str, str], Exclusion]) -> None:
        tenet, targets = decision.tenet, decision.targets
        if any(id not in self.home for id in (tenet, *targets)):
            self.dropped["decision about what was left out"] += 1
        elif decision.op == "NOOP":
            if self._draft.tenets[tenet].facts:
                self.dropped["decision to leave out what is known"] += 1
            else:
                self.left_out += 1
                del self.tenets[tenet], self.home[tenet]
        elif decision.op in ("REINFORCE", "REFINE"):
            if all(self._are_of_one(tenet, target) for target in targets):
                self._merge(decision)
            else:
                self.dropped["merger of facts of two subjects"] += 1
        elif decision.op in ("SUPERSEDE", "RETRACT"):
            self._end(decision, exclusions)

    def _are_of_one(self, tenet: str, target: str) -> bool:
        """Whether the two may be wordings of one fact: they are of one subject, or of one pair."""
        one, other = (self._draft.tenets[id].wordings[0] for id in (tenet, target))
        mine, others = {one.subject, one.object}, {other.subject, other.object}
        return one.subject == other.subject or mine == others

    def _end(self, decision: Decision, exclusions: dict[tuple[str, str], Exclusion]) -> None:
        how: Ending = "RETRACT" if decision.op == "RETRACT" else "SUPERSEDE"
        later = self._draft.tenets[decision.tenet].strand
        for earlier in (self._draft.tenets[target].strand for target in decision.targets):
            if not (later.sources and earlier.sources):
                self.dropped["change without words on both sides"] += 1
                continue
            exclude(exclusions, later, earlier, how)
            self._ended[later.id, earlier.id] = self._ended[earlier.id, later.id] = decision.reason

    def _merge(self, decision: Decision) -> None:
        """Makes one tenet of both; never of two that the graph has told apart."""
        for target in decision.targets:
            one, other = self.home[decision.tenet], self.home[target]
            if one == other:
                continue
            if self.tenets[one].facts and self.tenets[other].facts:
                self.dropped["merger of two known facts"] += 1
                continue
            kept, gone = sorted((one, other), key=lambda id: (not self.tenets[id].facts, id))
            self.tenets[kept] = _united(self.tenets[kept], self.tenets.pop(gone))
            refined = [*self._refined.get(kept, ()), *self._refined.pop(gone, ())]
            exact, vague = self._draft.tenets[decision.tenet], self._draft.tenets[target]
            if decision.op == "REFINE" and any(source.is_verified for source in exact.sources):
                refined += [(e.text, v.text) for e in exact.wordings for v in vague.wordings]
            self._refined[kept] = refined
            self.home = {id: kept if home == gone else home for id, home in self.home.items()}
            self._merged[kept] = decision.reason


def _united(into: Tenet, merged: Tenet) -> Tenet:
    return replace(
        into,
        wordings=(*into.wordings, *merged.wordings),
        sources=(*into.sources, *merged.sources),
        new=(*into.new, *merged.new),
    )
