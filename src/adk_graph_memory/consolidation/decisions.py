"""A draft and a model's decisions go in; tenets come out that are told apart, and the runs of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from adk_graph_memory.consolidation import facts
from adk_graph_memory.consolidation.draft import Draft, exclude
from adk_graph_memory.consolidation.strands import Ending, Exclusion, Strand
from adk_graph_memory.consolidation.tenets import Tenet
from adk_graph_memory.consolidation.timeline import Run, runs
from adk_graph_memory.records import KnownEntity, PlannedEntity, Proposition
from adk_graph_memory.records.plan import Op


@dataclass(frozen=True, slots=True)
class Decision:
    """What a model says of a tenet and others (ids): the operation, and why.

    REINFORCE: it says the same as the target. REFINE: it says the same more exactly. ALREADY_KNOWN: the target says all
    of it and more. SUPERSEDE: both cannot hold at once, the world changed. RETRACT: it says that the targets were never
    true. Whatever is refused leaves both facts as they are, side by side.
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

    Refused and counted are mergers of facts that differ in subject, object, a day, a number or a denial, or that have
    nothing but the subject in common, and retractions of what has as little in common with the correction: a wrong
    number does not unmake what else a fact says. Put right are a retraction by what was read as no correction, which
    counts as a change, and a change by what was said before its target: time says which of two states ended the other
    (see :func:`~adk_graph_memory.consolidation.draft.exclude`); where one of them is a plan the change does nothing.

    Args:
        draft: what rules could tell.
        decisions: what a model added.
    """

    def __init__(self, draft: Draft, decisions: Decisions) -> None:
        self._draft = draft
        self.tenets = dict(draft.tenets)
        self.home = {id: id for id in draft.tenets}
        """id of each tenet of the draft → that of the one it became part of"""
        self.dropped = Counter(draft.dropped) + Counter(decisions.dropped)
        self.dependencies = {*draft.dependencies, *decisions.dependencies}
        self._names: dict[str, list[str]] = defaultdict(list)
        known: tuple[KnownEntity | PlannedEntity, ...] = (*draft.candidates.entities, *draft.resolution.planned)
        for entity in known:
            self._names[entity.key] += [entity.name, *entity.aliases]
        self._refined: dict[str, list[tuple[str, str]]] = {}
        self._merged: dict[str, str] = {}
        self._ended: dict[tuple[str, str], str] = {}
        exclusions = dict(draft.exclusions)
        for decision in sorted(decisions.ops, key=lambda one: (one.tenet, one.op, one.targets)):
            self._take(decision, exclusions)
        homes = ((self.home[a], self.home[b], how) for (a, b), how in exclusions.items())
        settled: dict[tuple[str, str], Exclusion] = {(a, b): how for a, b, how in homes if a != b}
        self.runs: dict[str, list[Run]] = runs(map(self.strand, self.tenets), settled, self._rests())

    def _rests(self) -> set[tuple[str, str]]:
        """What rests on what by these decisions, and by those that the graph remembers."""
        held = {fact.id: id for id, tenet in self.tenets.items() for fact in tenet.facts}
        known = {(held.get(one), held.get(base)) for one, base in self._draft.candidates.dependencies}
        new = {(self.home.get(one), self.home.get(base)) for one, base in self.dependencies}
        return {(one, base) for one, base in known | new if one and base and one != base}

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
        for target in decision.targets:
            if not {decision.tenet, target} <= self.home.keys():
                self.dropped["decision about a fact that became another"] += 1
            elif decision.op in ("SUPERSEDE", "RETRACT"):
                self._end(decision, target, exclusions)
            elif decision.op == "ALREADY_KNOWN":
                self._merge(target, decision.tenet, decision)
            elif decision.op in ("REINFORCE", "REFINE"):
                self._merge(decision.tenet, target, decision)

    def _end(self, decision: Decision, target: str, exclusions: dict[tuple[str, str], Exclusion]) -> None:
        later, earlier = self._draft.tenets[decision.tenet], self._draft.tenets[target]
        if not (later.sources and earlier.sources):
            self.dropped["change without words on both sides"] += 1
            return
        how: Ending = "RETRACT" if decision.op == "RETRACT" else "SUPERSEDE"
        if how == "RETRACT" and not self._speak_of_one_thing(later.wordings[0], earlier.wordings[0]):
            self.dropped["retraction of what says something else"] += 1
            return
        if how == "RETRACT" and not any(wording.correction for wording in later.wordings):
            self.dropped["retraction by what corrects nothing"] += 1
            how = "SUPERSEDE"
        exclude(exclusions, later.strand, earlier.strand, how)
        self._ended[later.id, earlier.id] = self._ended[earlier.id, later.id] = decision.reason

    def _merge(self, exact: str, vague: str, decision: Decision) -> None:
        """Makes one tenet of both; never of two that the graph has told apart, nor of two that differ."""
        one, other = self.home[exact], self.home[vague]
        if one == other:
            return
        if reason := self._against(exact, vague, decision.op):
            self.dropped[reason] += 1
            return
        kept, gone = sorted((one, other), key=lambda id: (not self.tenets[id].facts, id))
        self.tenets[kept] = _united(self.tenets[kept], self.tenets.pop(gone))
        self._refined[kept] = [
            *self._refined.get(kept, ()),
            *self._refined.pop(gone, ()),
            *self._more_exact(exact, vague, decision.op),
        ]
        self.home = {id: kept if home == gone else home for id, home in self.home.items()}
        self._merged[kept] = decision.reason

    def _speak_of_one_thing(self, one: Proposition, other: Proposition) -> bool:
        is_of_one_slot = (one.subject, one.predicate) == (other.subject, other.predicate)
        return is_of_one_slot or self._are_close(one, other)

    def _are_close(self, one: Proposition, other: Proposition) -> bool:
        names = [name for key in {one.subject, other.subject} for name in self._names.get(key or "", ())]
        return facts.are_close(one, other, names)

    def _against(self, exact: str, vague: str, op: Op) -> str | None:
        """Why the two are not one, whatever the model says."""
        one, other = (self._draft.tenets[id].wordings[0] for id in (exact, vague))
        both = self.tenets[self.home[exact]], self.tenets[self.home[vague]]
        if not facts.are_of_one(one, other):
            return "merger of facts of two subjects"
        if not self._are_close(one, other):
            return "merger of facts that have little in common"
        if not (facts.says_all_of(one, other) or (op == "REINFORCE" and facts.says_all_of(other, one))) or any(
            facts.differ(mine, theirs) for mine in both[0].wordings for theirs in both[1].wordings
        ):
            return "merger of facts that differ"
        return "merger of two known facts" if both[0].facts and both[1].facts else None

    def _more_exact(self, exact: str, vague: str, op: Op) -> list[tuple[str, str]]:
        """Pairs of wordings of which the one is more exact; of two that say the same, by their days and numbers."""
        one, other = self._draft.tenets[exact], self._draft.tenets[vague]
        if op == "REINFORCE" and not facts.says_all_of(one.wordings[0], other.wordings[0]):
            one, other = other, one
        elif op == "REINFORCE" and facts.says_all_of(other.wordings[0], one.wordings[0]):
            return []
        if not any(source.is_verified for source in one.sources):
            return []
        return [(e.text, v.text) for e in one.wordings for v in other.wordings]


def _united(into: Tenet, merged: Tenet) -> Tenet:
    return replace(
        into,
        wordings=(*into.wordings, *merged.wordings),
        sources=(*into.sources, *merged.sources),
        new=(*into.new, *merged.new),
    )
