"""A draft and a model's decisions go in; tenets come out that are told apart, and the runs of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from adk_graph_memory.consolidation import fact_rules
from adk_graph_memory.consolidation.claim_groups import ClaimGroup
from adk_graph_memory.consolidation.claims import Claim, EndOperation, Exclusion
from adk_graph_memory.consolidation.comparison import Comparison, add_exclusion
from adk_graph_memory.consolidation.timeline import Period, make_periods
from adk_graph_memory.records import KnownEntity, PlannedEntity, Proposition
from adk_graph_memory.records.write_plan import FactOperation


@dataclass(frozen=True, slots=True)
class Decision:
    """What a model says of a tenet and others (ids): the operation, and why.

    REINFORCE: it says the same as the target. REFINE: it says the same more exactly. ALREADY_KNOWN: the target says all
    of it and more. SUPERSEDE: both cannot hold at once, the world changed. RETRACT: it says that the targets were never
    true. Whatever is refused leaves both facts as they are, side by side.
    """

    claim_id: str
    op: FactOperation
    targets: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JudgeDecisions:
    """All that a model decided; ``dropped`` counts by reason what it said that could not be used."""

    claim_decisions: tuple[Decision, ...] = ()
    dependencies: tuple[tuple[str, str], ...] = ()
    doubt_answers: Mapping[int, str | None] = field(default_factory=dict)
    """whom a reference in doubt means; None for somebody new"""
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: JudgeDecisions) -> JudgeDecisions:
        return JudgeDecisions(
            self.claim_decisions + other.claim_decisions,
            self.dependencies + other.dependencies,
            {**self.doubt_answers, **other.doubt_answers},
            Counter(self.dropped) + Counter(other.dropped),
        )

    def remap_ids(self, before: Comparison, after: Comparison) -> JudgeDecisions:
        """The same decisions in the terms of a draft that knows who is who, which these decisions told."""
        keys = {key: after.resolution.keys_by_ref[ref] for ref, key in before.resolution.keys_by_ref.items()}
        keys |= after.resolution.merge_targets
        ids = {id: _remap_claim_id(tenet, keys) for id, tenet in before.claim_groups.items()}
        ops = tuple(
            replace(op, claim_id=ids[op.claim_id], targets=tuple(ids[one] for one in op.targets))
            for op in self.claim_decisions
        )
        pairs = tuple((ids[one], ids[base]) for one, base in self.dependencies)
        return replace(self, claim_decisions=ops, dependencies=pairs)


def _remap_claim_id(tenet: ClaimGroup, keys: Mapping[str, str]) -> str:
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


class ReconciledClaims:
    """The tenets after a model's decisions: what is one is merged, what excludes the other is timed.

    Refused and counted are mergers of facts that differ in subject, object, a day, a number or a denial, or that have
    nothing but the subject in common, and retractions of what has as little in common with the correction: a wrong
    number does not unmake what else a fact says. Put right are a retraction by what was read as no correction, which
    counts as a change, and a change by what was said before its target: time says which of two states ended the other
    (see :func:`~.comparison.add_exclusion`); where one of them is a plan the change does nothing.

    Args:
        draft: what rules could tell.
        decisions: what a model added.
    """

    def __init__(self, draft: Comparison, decisions: JudgeDecisions) -> None:
        self._comparison = draft
        self.claim_groups = dict(draft.claim_groups)
        self.canonical_ids = {id: id for id in draft.claim_groups}
        """id of each tenet of the draft → that of the one it became part of"""
        self.dropped = Counter(draft.dropped) + Counter(decisions.dropped)
        self.dependencies = {*draft.dependencies, *decisions.dependencies}
        self._names_by_key: dict[str, list[str]] = defaultdict(list)
        known: tuple[KnownEntity | PlannedEntity, ...] = (
            *draft.candidates.entities,
            *draft.resolution.planned_entities,
        )
        for entity in known:
            self._names_by_key[entity.key] += [entity.name, *entity.aliases]
        self._refinements: dict[str, list[tuple[str, str]]] = {}
        self._merge_reasons: dict[str, str] = {}
        self._end_reasons: dict[tuple[str, str], str] = {}
        exclusions = dict(draft.exclusions)
        for decision in sorted(decisions.claim_decisions, key=lambda one: (one.claim_id, one.op, one.targets)):
            self._apply_decision(decision, exclusions)
        homes = ((self.canonical_ids[a], self.canonical_ids[b], how) for (a, b), how in exclusions.items())
        settled: dict[tuple[str, str], Exclusion] = {(a, b): how for a, b, how in homes if a != b}
        self.periods: dict[str, list[Period]] = make_periods(
            map(self.make_claim, self.claim_groups), settled, self._collect_dependencies()
        )

    def _collect_dependencies(self) -> set[tuple[str, str]]:
        """What rests on what by these decisions, and by those that the graph remembers."""
        held = {fact.id: id for id, tenet in self.claim_groups.items() for fact in tenet.facts}
        known = {(held.get(one), held.get(base)) for one, base in self._comparison.candidates.dependencies}
        new = {(self.canonical_ids.get(one), self.canonical_ids.get(base)) for one, base in self.dependencies}
        return {(one, base) for one, base in known | new if one and base and one != base}

    def make_claim(self, id: str) -> Claim:
        """The tenet with the wording that stands for it."""
        tenet = self.claim_groups[id]
        return Claim(id, fact_rules.select_wording(tenet.wordings, self._refinements.get(id, ())), tenet.sources)

    def is_vague_wording(self, id: str, text: str) -> bool:
        """Whether a more exact wording of the tenet was found than this."""
        return any(text == less for _, less in self._refinements.get(id, ()))

    def is_exact_wording(self, id: str, text: str) -> bool:
        """Whether this wording of the tenet was found to be the more exact one."""
        return any(text == more for more, _ in self._refinements.get(id, ()))

    def get_merge_reason(self, id: str) -> str:
        """The model's reason for taking several wordings for this tenet; empty where a rule did."""
        return self._merge_reasons.get(id, "")

    def get_end_reason(self, ended: str, by: str) -> str:
        """The model's reason for letting the one end the other; empty where a rule did."""
        names = {home: [id for id, into in self.canonical_ids.items() if into == home] for home in (ended, by)}
        pairs = ((a, b) for a in names[ended] for b in names[by])
        return next((self._end_reasons[pair] for pair in pairs if pair in self._end_reasons), "")

    def _apply_decision(self, decision: Decision, exclusions: dict[tuple[str, str], Exclusion]) -> None:
        for target in decision.targets:
            if not {decision.claim_id, target} <= self.canonical_ids.keys():
                self.dropped["decision about a fact that became another"] += 1
            elif decision.op in ("SUPERSEDE", "RETRACT"):
                self._apply_ending(decision, target, exclusions)
            elif decision.op == "ALREADY_KNOWN":
                self._merge_claims(target, decision.claim_id, decision)
            elif decision.op in ("REINFORCE", "REFINE"):
                self._merge_claims(decision.claim_id, target, decision)

    def _apply_ending(self, decision: Decision, target: str, exclusions: dict[tuple[str, str], Exclusion]) -> None:
        later, earlier = self._comparison.claim_groups[decision.claim_id], self._comparison.claim_groups[target]
        if not (later.sources and earlier.sources):
            self.dropped["change without words on both sides"] += 1
            return
        how: EndOperation = "RETRACT" if decision.op == "RETRACT" else "SUPERSEDE"
        if how == "RETRACT" and not self._is_related(later.wordings[0], earlier.wordings[0]):
            self.dropped["retraction of what says something else"] += 1
            return
        if how == "RETRACT" and not any(wording.is_correction for wording in later.wordings):
            self.dropped["retraction by what corrects nothing"] += 1
            how = "SUPERSEDE"
        add_exclusion(exclusions, later.claim, earlier.claim, how)
        self._end_reasons[later.id, earlier.id] = self._end_reasons[earlier.id, later.id] = decision.reason

    def _merge_claims(self, exact: str, vague: str, decision: Decision) -> None:
        """Makes one tenet of both; never of two that the graph has told apart, nor of two that differ."""
        one, other = self.canonical_ids[exact], self.canonical_ids[vague]
        if one == other:
            return
        if reason := self._find_merge_objection(exact, vague, decision.op):
            self.dropped[reason] += 1
            return
        kept, gone = sorted((one, other), key=lambda id: (not self.claim_groups[id].facts, id))
        self.claim_groups[kept] = _merge_claim_groups(self.claim_groups[kept], self.claim_groups.pop(gone))
        self._refinements[kept] = [
            *self._refinements.get(kept, ()),
            *self._refinements.pop(gone, ()),
            *self._list_refinements(exact, vague, decision.op),
        ]
        self.canonical_ids = {id: kept if home == gone else home for id, home in self.canonical_ids.items()}
        self._merge_reasons[kept] = decision.reason

    def _is_related(self, one: Proposition, other: Proposition) -> bool:
        is_of_one_slot = (one.subject, one.predicate) == (other.subject, other.predicate)
        return is_of_one_slot or self._has_common_content(one, other)

    def _has_common_content(self, one: Proposition, other: Proposition) -> bool:
        names = [name for key in {one.subject, other.subject} for name in self._names_by_key.get(key or "", ())]
        return fact_rules.has_common_content(one, other, names)

    def _find_merge_objection(self, exact: str, vague: str, op: FactOperation) -> str | None:
        """Why the two are not one, whatever the model says."""
        one, other = (self._comparison.claim_groups[id].wordings[0] for id in (exact, vague))
        both = self.claim_groups[self.canonical_ids[exact]], self.claim_groups[self.canonical_ids[vague]]
        if not fact_rules.has_same_subject(one, other):
            return "merger of facts of two subjects"
        if not self._has_common_content(one, other):
            return "merger of facts that have little in common"
        if not (
            fact_rules.has_all_details(one, other) or (op == "REINFORCE" and fact_rules.has_all_details(other, one))
        ) or any(
            fact_rules.is_different_fact(mine, theirs) for mine in both[0].wordings for theirs in both[1].wordings
        ):
            return "merger of facts that differ"
        return "merger of two known facts" if both[0].facts and both[1].facts else None

    def _list_refinements(self, exact: str, vague: str, op: FactOperation) -> list[tuple[str, str]]:
        """Pairs of wordings of which the one is more exact; of two that say the same, by their days and numbers."""
        one, other = self._comparison.claim_groups[exact], self._comparison.claim_groups[vague]
        if op == "REINFORCE" and not fact_rules.has_all_details(one.wordings[0], other.wordings[0]):
            one, other = other, one
        elif op == "REINFORCE" and fact_rules.has_all_details(other.wordings[0], one.wordings[0]):
            return []
        if not any(source.is_verified for source in one.sources):
            return []
        return [(e.text, v.text) for e in one.wordings for v in other.wordings]


def _merge_claim_groups(into: ClaimGroup, merged: ClaimGroup) -> ClaimGroup:
    return replace(
        into,
        wordings=(*into.wordings, *merged.wordings),
        sources=(*into.sources, *merged.sources),
        new_sources=(*into.new_sources, *merged.new_sources),
    )
