"""Apply a model's decisions to a comparison: merge claims that say the same, and time those that exclude each other."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from adk_graph_memory.consolidation import fact_rules
from adk_graph_memory.consolidation.claims import Claim, ClaimGroup, Exclusion
from adk_graph_memory.consolidation.comparison import Comparison, add_exclusion
from adk_graph_memory.consolidation.fact_rules import EndOperation
from adk_graph_memory.consolidation.timeline import Period, compute_periods
from adk_graph_memory.records.facts import EntityWrite, FactOperation, KnownEntity, Proposition


@dataclass(frozen=True, slots=True)
class Decision:
    """A model's decision about a claim and its target claims: the operation and the reason.

    REINFORCE: it says the same as the target. REFINE: it says the same more exactly. ALREADY_KNOWN: the target says all
    of it and more. SUPERSEDE: the world changed, both cannot hold at once. RETRACT: the targets were never true. If a
    decision is refused, both facts stay as they are.
    """

    claim_id: str
    op: FactOperation
    targets: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JudgeDecisions:
    """All decisions of a model; ``dropped`` counts the unusable ones by reason."""

    claim_decisions: tuple[Decision, ...] = ()
    dependencies: tuple[tuple[str, str], ...] = ()
    doubt_answers: Mapping[int, str | None] = field(default_factory=dict)
    """reference in doubt → key of the entity it means, or None for a new entity"""
    drop_counts: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: JudgeDecisions) -> JudgeDecisions:
        return JudgeDecisions(
            self.claim_decisions + other.claim_decisions,
            self.dependencies + other.dependencies,
            {**self.doubt_answers, **other.doubt_answers},
            Counter(self.drop_counts) + Counter(other.drop_counts),
        )

    def remap_ids(self, before: Comparison, after: Comparison) -> JudgeDecisions:
        """Translate the claim ids to those of the comparison made after these decisions resolved the entities."""
        keys = {key: after.resolution.keys_by_ref[ref] for ref, key in before.resolution.keys_by_ref.items()}
        keys |= after.resolution.merge_targets
        ids = {id: _remap_claim_id(group, keys) for id, group in before.claim_groups.items()}
        decisions = tuple(
            replace(decision, claim_id=ids[decision.claim_id], targets=tuple(ids[id] for id in decision.targets))
            for decision in self.claim_decisions
        )
        dependencies = tuple((ids[id], ids[base]) for id, base in self.dependencies)
        return replace(self, claim_decisions=decisions, dependencies=dependencies)


def _remap_claim_id(group: ClaimGroup, keys: Mapping[str, str]) -> str:
    """Return the group's id once its subject and object are replaced by the entities they turned out to be."""
    wording = group.wordings[0]
    subject, object = (keys.get(key or "", key) for key in (wording.subject, wording.object))
    return replace(wording, subject=subject, object=object).signature


class ReconciledClaims:
    """The claim groups after a model's decisions, and the periods of each.

    Three kinds of decision are refused and counted:

    - a merger of facts that differ in subject, object, a day, a number or a denial, or share only the subject; of a
      person's fact with an agent's that says more; and of a document's fact with anybody's;
    - a retraction of a fact that shares as little with the correction: a wrong number does not undo what else it says;
    - a change of a person's fact by words that are only an agent's, a tool's or a document's.

    Two kinds are adjusted. A retraction by a fact that corrects nothing becomes a change. For a change by a fact that
    was said before its target, time decides which of two states ended the other (see
    :func:`~.comparison.add_exclusion`); where one of them is a plan, the change has no effect.

    Args:
        comparison: what rules decided.
        decisions: what a model added.
    """

    def __init__(self, comparison: Comparison, decisions: JudgeDecisions) -> None:
        self._comparison = comparison
        self.claim_groups = dict(comparison.claim_groups)
        self.canonical_ids = {id: id for id in comparison.claim_groups}
        """claim id in the comparison → id of the claim it was merged into"""
        self.drop_counts = Counter(comparison.drop_counts) + Counter(decisions.drop_counts)
        self._names_by_key: dict[str, list[str]] = defaultdict(list)
        planned_entities = comparison.resolution.planned_entities
        entities: list[KnownEntity | EntityWrite] = [*comparison.candidates.entities, *planned_entities]
        for entity in entities:
            self._names_by_key[entity.key] += [entity.name, *entity.aliases]
        self.refinements: dict[str, list[tuple[str, str]]] = defaultdict(list)
        """claim id → texts of an exact and of a vaguer wording"""
        self.merge_reasons: dict[str, str] = {}
        """claim id → the model's reason for merging wordings into it"""
        self._end_reasons: dict[tuple[str, str], str] = {}
        exclusions = dict(comparison.exclusions)
        for decision in sorted(decisions.claim_decisions, key=lambda item: (item.claim_id, item.op, item.targets)):
            self._apply_decision(decision, exclusions)
        remapped = ((self.canonical_ids[a], self.canonical_ids[b], how) for (a, b), how in exclusions.items())
        exclusions_by_pair: dict[tuple[str, str], Exclusion] = {(a, b): how for a, b, how in remapped if a != b}
        self.dependencies = _remap_pairs((*comparison.dependencies, *decisions.dependencies), self.canonical_ids)
        """pairs of a claim and one that it rests on, by the extraction and the decisions"""
        claim_ids = {fact.id: id for id, group in self.claim_groups.items() for fact in group.facts}
        dependencies = self.dependencies | _remap_pairs(comparison.candidates.dependencies, claim_ids)
        groups = comparison.claim_groups
        self.claims: dict[str, Claim] = {
            id: comparison.claims[id] if group is groups[id] else group.build_claim(self.refinements[id])
            for id, group in self.claim_groups.items()
        }
        """each group as one claim, in the wording that stands for it"""
        self.periods: dict[str, list[Period]] = compute_periods(self.claims.values(), exclusions_by_pair, dependencies)

    def get_end_reason(self, ended_id: str, by: str) -> str:
        """Return the model's reason for letting claim ``by`` end claim ``ended_id``; empty if a rule ended it."""
        original_ids = (
            [id for id, home in self.canonical_ids.items() if home == claim_id] for claim_id in (ended_id, by)
        )
        pairs = itertools.product(*original_ids)
        return next((self._end_reasons[pair] for pair in pairs if pair in self._end_reasons), "")

    def _apply_decision(self, decision: Decision, exclusions: dict[tuple[str, str], Exclusion]) -> None:
        for target in decision.targets:
            if not {decision.claim_id, target} <= self.canonical_ids.keys():
                self.drop_counts["decision about a fact that became another"] += 1
            elif decision.op in ("SUPERSEDE", "RETRACT"):
                self._apply_ending(decision, target, exclusions)
            elif decision.op == "ALREADY_KNOWN":
                self._merge_claims(target, decision.claim_id, decision)
            elif decision.op in ("REINFORCE", "REFINE"):
                self._merge_claims(decision.claim_id, target, decision)

    def _apply_ending(self, decision: Decision, target: str, exclusions: dict[tuple[str, str], Exclusion]) -> None:
        later, earlier = self._comparison.claim_groups[decision.claim_id], self._comparison.claim_groups[target]
        if not (later.sources and earlier.sources):
            self.drop_counts["change without words on both sides"] += 1
            return
        claims = self._comparison.claims
        # Later, the two may become one with what a person said, who may end it.
        if fact_rules.is_machine_said(later.sources) and all(map(claims[earlier.id].withstands, later.sources)):
            self.drop_counts["change of a person's words by an agent's, a tool's or a document's"] += 1
            return
        op: EndOperation = "RETRACT" if decision.op == "RETRACT" else "SUPERSEDE"
        if op == "RETRACT" and not self._is_related(later.wordings[0], earlier.wordings[0]):
            self.drop_counts["retraction of what says something else"] += 1
            return
        if op == "RETRACT" and not any(wording.is_correction for wording in later.wordings):
            self.drop_counts["retraction by what corrects nothing"] += 1
            op = "SUPERSEDE"
        add_exclusion(exclusions, claims[later.id], claims[earlier.id], op)
        self._end_reasons[later.id, earlier.id] = self._end_reasons[earlier.id, later.id] = decision.reason

    def _merge_claims(self, exact: str, vague: str, decision: Decision) -> None:
        """Merge two claims unless they differ or the graph holds facts of both."""
        exact_home, vague_home = self.canonical_ids[exact], self.canonical_ids[vague]
        if exact_home == vague_home:
            return
        if reason := self._find_merge_objection(exact, vague, decision.op):
            self.drop_counts[reason] += 1
            return
        kept, gone = sorted((exact_home, vague_home), key=lambda id: (not self.claim_groups[id].facts, id))
        self.claim_groups[kept] = _merge_claim_groups(self.claim_groups[kept], self.claim_groups.pop(gone))
        self.refinements[kept] += [
            *self.refinements.pop(gone, ()),
            *self._list_refinements(exact, vague, decision.op),
        ]
        self.canonical_ids = {id: kept if target == gone else target for id, target in self.canonical_ids.items()}
        self.merge_reasons[kept] = decision.reason

    def _is_related(self, proposition: Proposition, other: Proposition) -> bool:
        is_same_slot = (proposition.subject, proposition.predicate) == (other.subject, other.predicate)
        return is_same_slot or fact_rules.has_common_object(proposition, other) or self._share_words(proposition, other)

    def _share_words(self, proposition: Proposition, other: Proposition) -> bool:
        names = [name for key in {proposition.subject, other.subject} for name in self._names_by_key.get(key or "", ())]
        return fact_rules.has_common_words(proposition, other, names)

    def _find_merge_objection(self, exact: str, vague: str, op: FactOperation) -> str | None:
        """Return why the two must not be merged whatever the model says, or None."""
        proposition, other = (self._comparison.claim_groups[id].wordings[0] for id in (exact, vague))
        group, other_group = self.claim_groups[self.canonical_ids[exact]], self.claim_groups[self.canonical_ids[vague]]
        if not fact_rules.has_same_subject(proposition, other):
            return "merger of facts of two subjects"
        # Who likes somebody may also teach them: with two predicates, the one they speak of is not enough.
        is_one_object = proposition.predicate == other.predicate and fact_rules.has_common_object(proposition, other)
        if not is_one_object and not self._share_words(proposition, other):
            return "merger of facts that have little in common"
        has_details = fact_rules.has_all_details(proposition, other) or (
            op == "REINFORCE" and fact_rules.has_all_details(other, proposition)
        )
        if not has_details or any(
            fact_rules.is_different_fact(mine, theirs) for mine in group.wordings for theirs in other_group.wordings
        ):
            return "merger of facts that differ"
        is_said = [fact_rules.is_machine_said(one.sources) for one in (group, other_group)]
        is_laundered = is_said == [True, False]
        if is_laundered and not (op == "REINFORCE" and fact_rules.has_all_details(other, proposition)):
            return "merger of a person's words with an agent's that say more"
        unsaid = [{source.origin for source in one.sources} <= {"document", "picture"} for one in (group, other_group)]
        if unsaid[0] != unsaid[1]:
            return "merger of a document's or a picture's words with somebody's"
        return "merger of two known facts" if group.facts and other_group.facts else None

    def _list_refinements(self, exact: str, vague: str, op: FactOperation) -> list[tuple[str, str]]:
        """List (exact text, vague text) pairs; with REINFORCE, days and numbers tell which of the two is more exact."""
        group, other = self._comparison.claim_groups[exact], self._comparison.claim_groups[vague]
        if op == "REINFORCE" and not fact_rules.has_all_details(group.wordings[0], other.wordings[0]):
            group, other = other, group
        elif op == "REINFORCE" and fact_rules.has_all_details(other.wordings[0], group.wordings[0]):
            return []
        if not any(source.is_verified for source in group.sources):
            group, other = other, group  # words that nobody is known to have said never stand for others
        return [(wording.text, less.text) for wording in group.wordings for less in other.wordings]


def _remap_pairs(pairs: Iterable[tuple[str, str]], ids: Mapping[str, str]) -> set[tuple[str, str]]:
    """Translate the ids of each pair; a pair with an unknown id, or of one and the same, is left out."""
    remapped = ((ids.get(id), ids.get(other)) for id, other in pairs)
    return {(id, other) for id, other in remapped if id and other and id != other}


def _merge_claim_groups(group: ClaimGroup, other: ClaimGroup) -> ClaimGroup:
    return replace(
        group,
        wordings=(*group.wordings, *other.wordings),
        sources=(*group.sources, *other.sources),
        machine_texts=(group.machine_texts | other.machine_texts) - group.person_texts - other.person_texts,
        new_sources=(*group.new_sources, *other.new_sources),
    )
