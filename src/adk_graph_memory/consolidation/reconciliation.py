"""A draft and a model's decisions go in; everything that changes in the graph comes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from adk_graph_memory.consolidation import fact_rules
from adk_graph_memory.consolidation.claim_groups import ClaimGroup
from adk_graph_memory.consolidation.comparison import Comparison
from adk_graph_memory.consolidation.decisions import JudgeDecisions, ReconciledClaims
from adk_graph_memory.consolidation.timeline import Period, find_period_at
from adk_graph_memory.records import (
    FactLink,
    KnownFact,
    PlannedFact,
    PlannedRevision,
    Proposition,
    Source,
    Standing,
    WritePlan,
    digest,
)
from adk_graph_memory.records.write_plan import FactOperation, RevisionOperation

NO_DECISIONS = JudgeDecisions()


def reconcile_claims(draft: Comparison, decisions: JudgeDecisions = NO_DECISIONS) -> WritePlan:
    """What changes in the graph: tenets are merged and timed, and what differs from the graph is the plan.

    Every part is sorted, so that writers take their locks in one order.
    """
    settled = ReconciledClaims(draft, decisions)
    ids = {id: _assign_fact_ids(settled.claim_groups[id], found) for id, found in settled.periods.items()}
    changed: list[PlannedFact] = []
    revisions: list[PlannedRevision] = []
    links: list[FactLink] = []
    for id, found in settled.periods.items():
        known = {fact.id: fact for fact in settled.claim_groups[id].facts}
        for run, name in zip(found, ids[id], strict=True):
            changed += _plan_fact_change(settled, name, run, known.get(name))
            revisions += _plan_revisions(settled, name, run, known.get(name))
            links += _plan_links(settled, name, run, ids)
        changed += [_plan_emptied_fact(fact) for fact in known.values() if fact.id not in ids[id] and fact.sources]
    was = {_get_link_key(link) for link in draft.candidates.links}
    return WritePlan(
        entities=draft.resolution.planned_entities,
        facts=tuple(sorted(changed, key=lambda fact: fact.id)),
        revisions=tuple(sorted(revisions, key=lambda revision: (revision.fact_id, revision.op, revision.text))),
        links=tuple(sorted((link for link in links if _get_link_key(link) not in was), key=_get_link_key)),
        dependencies=tuple(sorted(_plan_dependencies(settled, ids))),
        mentions=draft.mentions,
        remarks=draft.remarks,
        forget_turn_ids=draft.forget_turn_ids,
        drop_counts=dict(settled.dropped),
        operation_counts=dict(_count_operations(draft, settled, ids)),
    )


# -- one run, one fact ------------------------------------------------------------------------------------------


def _assign_fact_ids(tenet: ClaimGroup, found: Sequence[Period]) -> list[str]:
    """The fact of each run: the graph's that shares most words, else one whose turns were edited, else a new one."""
    free = {fact.id: fact for fact in tenet.facts}
    names: list[str | None] = []
    for run in found:
        shared = {
            id: len(_collect_source_keys(run.sources) & _collect_source_keys(fact.sources)) for id, fact in free.items()
        }
        best = max(sorted(shared), key=lambda id: (shared[id], not free[id].sources), default=None)
        names.append(best if best is not None and (shared[best] or not free[best].sources) else None)
        free.pop(names[-1] or "", None)
    taken = {fact.id for fact in tenet.facts}
    ids: list[str] = []
    for run, name in zip(found, names, strict=True):
        first = run.sources[0]
        again = digest("again", tenet.id, first.at.isoformat(), first.quote_key)
        ids.append(name or (again if tenet.id in taken else tenet.id))
        taken.add(ids[-1])
    return ids


def _get_period_proposition(settled: ReconciledClaims, run: Period) -> Proposition:
    """What the run says, in the wording that stands for it, as of when that was said first."""
    return replace(settled.make_claim(run.claim_id).proposition, at=min(source.at for source in run.sources))


def _decide_standing(run: Period, known: KnownFact | None) -> Standing:
    """The run's standing; but what has ended is not retimed by half of what is known of it, nor opened again.

    Where plans had ended it that were called off, and all else is known, it is open again. What was said to be so
    after the end that it was given ends when it was said last.
    """
    if known is None or run.standing == known.standing or known.standing == Standing():
        return run.standing
    was, until = known.standing, run.standing.valid_to
    if until and was.valid_to and was.state == "current" and was.valid_to < until == max(s.at for s in run.sources):
        return run.standing
    if run.standing.state == "current":
        return run.standing if run.void_causes and known.is_history_complete else known.standing
    return run.standing if known.is_history_complete or known.standing.state == "current" else known.standing


def _plan_fact_change(
    settled: ReconciledClaims, name: str, run: Period, known: KnownFact | None
) -> Iterator[PlannedFact]:
    said, standing = _get_period_proposition(settled, run), _decide_standing(run, known)
    if known is None:
        yield PlannedFact(name, said, sources=run.sources, standing=standing)
        return
    is_reworded = said.text != known.proposition.text
    new, moved = _subtract_sources(run.sources, known.sources), _subtract_sources(known.sources, run.sources)
    if new or moved or is_reworded or standing != known.standing:
        said = said if is_reworded else replace(known.proposition, at=said.at)
        yield PlannedFact(name, said, False, is_reworded, new, moved, standing)


def _plan_emptied_fact(fact: KnownFact) -> PlannedFact:
    """A fact whose words have all become another's."""
    return PlannedFact(fact.id, fact.proposition, is_new=False, moved_sources=fact.sources, standing=fact.standing)


# -- what a fact was before -------------------------------------------------------------------------------------


def _plan_revisions(
    settled: ReconciledClaims, name: str, run: Period, known: KnownFact | None
) -> Iterator[PlannedRevision]:
    said, tenet = _get_period_proposition(settled, run), settled.claim_groups[run.claim_id]
    why = settled.get_merge_reason(run.claim_id)
    added = _collect_source_keys(tenet.new_sources)
    new = tuple(source for source in run.sources if source.key in added)
    told = [said]
    if known is not None and said.text != known.proposition.text:
        told.append(known.proposition)
        yield _make_revision(name, known.proposition, "REFINE", run.standing, why, new)
    if run is settled.periods[run.claim_id][0]:
        for other in tenet.wordings:
            is_within = other.signature == said.signature and fact_rules.is_wording_contained(other, told)
            if other.comparison_text not in {one.comparison_text for one in told} and not is_within:
                op: FactOperation = "REFINE" if settled.is_vague_wording(run.claim_id, other.text) else "REINFORCE"
                yield _make_revision(name, other, op, run.standing, why, new)
    before, after = known.standing if known else None, _decide_standing(run, known)
    is_reopened = before is not None and before.state != "current" and after.state == "current"
    if (run.end_causes or is_reopened) and after != before:
        change: RevisionOperation = (
            "REOPEN" if is_reopened else "RETRACT" if after.state == "retracted" else "SUPERSEDE"
        )
        by = run.void_causes if is_reopened else run.end_causes
        whys = dict.fromkeys(settled.get_end_reason(run.claim_id, ended.claim_id) for ended in by)
        was = known.proposition if known else said
        evidence = dict.fromkeys(source for ended in by for source in (ended.source, ended.outcome) if source)
        standing = before or Standing(valid_to=was.valid_to)
        yield _make_revision(name, was, change, standing, "; ".join(filter(None, whys)), tuple(evidence))


def _make_revision(
    name: str, was: Proposition, op: RevisionOperation, standing: Standing, reason: str, evidence: tuple[Source, ...]
) -> PlannedRevision:
    return PlannedRevision(name, op, was.text, was.signature, standing, reason, evidence, is_by_model=bool(reason))


# -- what lies between facts ------------------------------------------------------------------------------------


def _plan_links(
    settled: ReconciledClaims, name: str, run: Period, ids: Mapping[str, Sequence[str]]
) -> Iterator[FactLink]:
    """What ended the run; and what would have, but was called off, for it may be taken up again."""
    ends: dict[str, FactLink] = {}
    for ended in (*run.end_causes, *run.void_causes):
        named = zip(ids[ended.claim_id], settled.periods[ended.claim_id], strict=True)
        later = next(id for id, other in named if ended.source in other.sources)
        why = settled.get_end_reason(run.claim_id, ended.claim_id)
        ends.setdefault(later, FactLink(later, name, ended.op, why, is_void=ended not in run.end_causes))
    yield from ends.values()


def _plan_dependencies(settled: ReconciledClaims, ids: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """For each dependency of tenets that of facts: the run that was said, on the run that held when it was."""
    for one, base in settled.dependencies:
        dependent, on = settled.canonical_ids.get(one), settled.canonical_ids.get(base)
        if dependent is None or on is None or dependent == on or not settled.periods[on]:
            continue
        for run, name in zip(settled.periods[dependent], ids[dependent], strict=True):
            if not _collect_source_keys(settled.claim_groups[dependent].new_sources).isdisjoint(
                _collect_source_keys(run.sources)
            ):
                held = settled.periods[on].index(find_period_at(settled.periods[on], run.sources[0].at))
                yield name, ids[on][held]


# -- the account ------------------------------------------------------------------------------------------------


def _count_operations(draft: Comparison, settled: ReconciledClaims, ids: Mapping[str, Sequence[str]]) -> Counter[str]:
    """What became of each tenet that was read, and how many facts ended by it."""
    ops: Counter[str] = Counter()
    for id, tenet in draft.claim_groups.items():
        home, texts = settled.canonical_ids[id], [one.text for one in tenet.wordings]
        if tenet.facts:
            ops["REINFORCE"] += bool(tenet.new_sources)
        elif settled.claim_groups[home].facts or home != id:
            is_exact = any(settled.is_exact_wording(home, text) for text in texts)
            is_vague = any(settled.is_vague_wording(home, text) for text in texts)
            ops["REFINE" if is_exact else "ALREADY_KNOWN" if is_vague else "REINFORCE"] += 1
        else:
            ops["ADD"] += 1
    for id, found in settled.periods.items():
        known = {fact.id: fact for fact in settled.claim_groups[id].facts}
        for run, name in zip(found, ids[id], strict=True):
            state = _decide_standing(run, known.get(name)).state
            if state != "current" and (name not in known or known[name].standing.state != state):
                ops["RETRACT" if state == "retracted" else "SUPERSEDE"] += 1
    return +ops


def _collect_source_keys(sources: Iterable[Source]) -> set[tuple[str, str]]:
    return {source.key for source in sources}


def _subtract_sources(sources: Iterable[Source], others: Iterable[Source]) -> tuple[Source, ...]:
    """Those of the one that are none of the others."""
    keys = _collect_source_keys(others)
    return tuple(source for source in sources if source.key not in keys)


def _get_link_key(link: FactLink) -> tuple[str, str, str, bool]:
    return link.later, link.earlier, link.op, link.is_void
