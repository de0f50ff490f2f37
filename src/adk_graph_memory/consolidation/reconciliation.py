"""Plan all changes to the graph from a comparison and a model's decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from adk_graph_memory.consolidation import fact_rules
from adk_graph_memory.consolidation.claims import ClaimGroup
from adk_graph_memory.consolidation.comparison import Comparison
from adk_graph_memory.consolidation.decisions import JudgeDecisions, ReconciledClaims
from adk_graph_memory.consolidation.timeline import Period, find_period_at
from adk_graph_memory.language.text import digest
from adk_graph_memory.records.extractions import Extraction, Source
from adk_graph_memory.records.facts import (
    Delta,
    Fact,
    FactLink,
    FactOperation,
    FactWrite,
    Proposition,
    Revision,
    RevisionOperation,
    Ruling,
    Standing,
)
from adk_graph_memory.records.readings import Reading

NO_DECISIONS = JudgeDecisions()
NO_READING = Reading("", "", Extraction())


def reconcile_claims(
    comparison: Comparison, decisions: JudgeDecisions = NO_DECISIONS, reading: Reading = NO_READING
) -> Delta:
    """Merge and time the claims, and plan a write for everything that then differs from the graph.

    Every part of the delta is sorted, so that all writers take their locks in one order.

    Args:
        comparison: what rules decided.
        decisions: what a model decided of what they left open.
        reading: who extracted, who decided, and when it was written; None lets the database set the time.
    """
    claims = ReconciledClaims(comparison, decisions)
    taken_ids = {fact.id for fact in comparison.candidates.facts}
    ids = {id: _assign_fact_ids(claims.claim_groups[id], periods, taken_ids) for id, periods in claims.periods.items()}
    facts: list[FactWrite] = []
    revisions: list[Revision] = []
    links: list[FactLink] = []
    for id, periods in claims.periods.items():
        known_facts = {fact.id: fact for fact in claims.claim_groups[id].facts}
        for period, fact_id in zip(periods, ids[id], strict=True):
            proposition = _get_period_proposition(claims, period)
            facts += _plan_fact_write(claims, fact_id, period, proposition, known_facts.get(fact_id), reading)
            revisions += _plan_revisions(claims, fact_id, period, proposition, known_facts.get(fact_id))
            links += _plan_links(claims, fact_id, period, ids)
        facts += [
            FactWrite(replace(fact, sources=()), is_new=False, removed_sources=fact.sources)
            for fact in known_facts.values()
            if fact.id not in ids[id] and fact.sources
        ]
    known_links = {_get_link_key(link) for link in comparison.candidates.links}
    judge, at = reading.judge, reading.at
    return Delta(
        entities=tuple(replace(entity, merged_by=judge) for entity in comparison.resolution.planned_entities),
        facts=tuple(sorted(facts, key=lambda write: write.fact.id)),
        revisions=tuple(
            replace(revision, judge=judge, recorded_at=at)
            for revision in sorted(revisions, key=lambda revision: (revision.fact_id, revision.op, revision.text))
        ),
        links=tuple(
            replace(link, recorded_at=at)
            for link in sorted(links, key=_get_link_key)
            if _get_link_key(link) not in known_links
        ),
        dependencies=tuple(sorted(_plan_dependencies(claims, ids))),
        mentions=dict.fromkeys(comparison.mentions),
        drop_counts=dict(claims.drop_counts),
        operation_counts=dict(_count_operations(comparison, claims, ids)),
    )


def _assign_fact_ids(group: ClaimGroup, periods: Sequence[Period], taken_ids: Set[str]) -> list[str]:
    """Choose the fact of each period: the known one with most sources in common, else one whose turns were edited.

    ``taken_ids`` are those of all known facts: one may have the id of a wording that it no longer has.
    """
    free = {fact.id: fact for fact in group.facts}
    known_ids: list[str | None] = []
    for period in periods:
        keys = _collect_source_keys(period.sources)
        shared = {id: len(keys & _collect_source_keys(fact.sources)) for id, fact in free.items()}
        best = max(sorted(shared), key=lambda id: (shared[id], not free[id].sources), default=None)
        known_ids.append(best if best is not None and (shared[best] or not free[best].sources) else None)
        free.pop(known_ids[-1] or "", None)
    used_ids, ids = set(taken_ids), list[str]()
    for period, known_id in zip(periods, known_ids, strict=True):
        first = period.sources[0]
        new_id = group.id
        if group.id in used_ids:
            new_id = digest("again", group.id, first.at.isoformat(), first.quote_key)
        ids.append(known_id or new_id)
        used_ids.add(ids[-1])
    return ids


def _get_period_proposition(claims: ReconciledClaims, period: Period) -> Proposition:
    """Return the claim in its standing wording, dated to the first source of the period."""
    proposition, at = claims.claims[period.claim_id].proposition, min(source.at for source in period.sources)
    return proposition if proposition.at == at else replace(proposition, at=at)


def _decide_standing(period: Period, known_fact: Fact | None) -> Standing:
    """Return the period's standing, or the known one if too little of the fact's history is known to replace it.

    A fact that plans had ended reopens if they were called off, or if the owner upholds it, and its whole history is
    known. A fact said to hold after its given end ends when it was last said.
    """
    if known_fact is None or period.standing == known_fact.standing or known_fact.standing == Standing():
        return period.standing
    before, until = known_fact.standing, period.standing.valid_to
    last_said = max(source.at for source in period.sources)
    if until and before.valid_to and before.state == "current" and before.valid_to < until == last_said:
        return period.standing
    if period.standing.state == "current":
        is_reopened = period.void_causes or known_fact.ruling.is_pinned or known_fact.ruling.upheld_until
        return period.standing if is_reopened and known_fact.is_history_complete else before
    return period.standing if known_fact.is_history_complete or before.state == "current" else before


def _plan_fact_write(
    claims: ReconciledClaims,
    fact_id: str,
    period: Period,
    proposition: Proposition,
    known_fact: Fact | None,
    reading: Reading,
) -> Iterator[FactWrite]:
    ruling = _find_ruling(claims.claim_groups[period.claim_id].facts, period)
    fact = known_fact or Fact(fact_id, proposition, ruling=ruling, recorded_at=reading.at)
    standing = _decide_standing(period, known_fact)
    is_reworded = proposition.text != fact.proposition.text
    new, moved = _subtract_sources(period.sources, fact.sources), _subtract_sources(fact.sources, period.sources)
    if new or moved or is_reworded or standing != fact.standing:
        old = fact.proposition
        new_proposition = proposition if is_reworded else replace(old, at=proposition.at)
        former_keys = dict(zip((old.subject, old.object), fact.former_entity_keys, strict=True))
        written = replace(
            fact,
            proposition=new_proposition,
            sources=(*(_subtract_sources(fact.sources, moved) if moved else fact.sources), *new),
            standing=standing,
            # Other words may name subject and object the other way round.
            former_entity_keys=(former_keys.get(new_proposition.subject), former_keys.get(new_proposition.object)),
            extractor=reading.extractor,
            retired_at=(fact.retired_at or reading.at) if standing.state == "retracted" else None,
        )
        yield FactWrite(written, known_fact is None, is_reworded, new, moved)


def _find_ruling(facts: Iterable[Fact], period: Period) -> Ruling:
    """Find the ruling about a fact that some of the period's words supported."""
    keys = _collect_source_keys(period.sources)
    ruled = (fact.ruling for fact in facts if not keys.isdisjoint(_collect_source_keys(fact.sources)))
    return next((ruling for ruling in ruled if ruling != Ruling()), Ruling())


def _plan_revisions(
    claims: ReconciledClaims, fact_id: str, period: Period, proposition: Proposition, known_fact: Fact | None
) -> Iterator[Revision]:
    claim_id, group = period.claim_id, claims.claim_groups[period.claim_id]
    reason = claims.merge_reasons.get(claim_id, "")
    new_keys = _collect_source_keys(group.new_sources)
    new = tuple(source for source in period.sources if source.key in new_keys)
    wordings = [proposition]
    if known_fact is not None and proposition.text != known_fact.proposition.text:
        wordings.append(known_fact.proposition)
        yield _plan_revision(fact_id, known_fact.proposition, "REFINE", period.standing, reason, new)
    if period is claims.periods[claim_id][0]:
        texts = {wording.comparison_text for wording in wordings}
        vague_texts = {vague for _, vague in claims.refinements[claim_id]}
        for other in group.wordings:
            if other.comparison_text in texts:
                continue
            is_contained = other.signature == proposition.signature and fact_rules.is_wording_contained(other, wordings)
            if not is_contained:
                op: FactOperation = "REFINE" if other.text in vague_texts else "REINFORCE"
                yield _plan_revision(fact_id, other, op, period.standing, reason, new)
    before, after = known_fact.standing if known_fact else None, _decide_standing(period, known_fact)
    is_reopened = before is not None and before.state != "current" and after.state == "current"
    if (period.end_causes or is_reopened or period.is_retracted) and after != before:
        change: RevisionOperation = (
            "REOPEN" if is_reopened else "RETRACT" if after.state == "retracted" else "SUPERSEDE"
        )
        causes = period.void_causes if is_reopened else period.end_causes
        former = known_fact.proposition if known_fact else proposition
        reasons = dict.fromkeys(claims.get_end_reason(claim_id, cause.claim_id) for cause in causes)
        if known_fact and known_fact.ruling.reason and (is_reopened or period.is_retracted):
            reasons = {known_fact.ruling.reason: None}
        evidence = dict.fromkeys(source for cause in causes for source in (cause.source, cause.outcome) if source)
        standing = before or Standing(valid_to=former.valid_to)
        yield _plan_revision(fact_id, former, change, standing, "; ".join(filter(None, reasons)), tuple(evidence))


def _plan_revision(
    fact_id: str, old: Proposition, op: RevisionOperation, standing: Standing, reason: str, evidence: tuple[Source, ...]
) -> Revision:
    return Revision(fact_id, op, old.text, old.signature, standing, reason, evidence, is_by_model=bool(reason))


def _plan_links(
    claims: ReconciledClaims, fact_id: str, period: Period, ids: Mapping[str, Sequence[str]]
) -> Iterator[FactLink]:
    """Link the period to the facts that ended it, and to plans that were called off, for they may be resumed."""
    links: dict[str, FactLink] = {}
    for cause in (*period.end_causes, *period.void_causes):
        candidates = zip(ids[cause.claim_id], claims.periods[cause.claim_id], strict=True)
        later = next(id for id, other in candidates if cause.source in other.sources)
        reason = claims.get_end_reason(period.claim_id, cause.claim_id)
        links.setdefault(later, FactLink(later, fact_id, cause.op, reason, is_void=cause not in period.end_causes))
    yield from links.values()


def _plan_dependencies(claims: ReconciledClaims, ids: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Turn dependencies of claims into dependencies of facts: each new period rests on the period that then held."""
    for id, base in claims.dependencies:
        new_keys = _collect_source_keys(claims.claim_groups[id].new_sources)
        bases = claims.periods[base]
        for period, fact_id in zip(claims.periods[id], ids[id], strict=True):
            if bases and not new_keys.isdisjoint(_collect_source_keys(period.sources)):
                yield fact_id, ids[base][bases.index(find_period_at(bases, period.sources[0].at))]


def _count_operations(
    comparison: Comparison, claims: ReconciledClaims, ids: Mapping[str, Sequence[str]]
) -> Counter[str]:
    """Count what became of each extracted claim, and the facts that ended."""
    ops: Counter[str] = Counter()
    for id, group in comparison.claim_groups.items():
        canonical_id, texts = claims.canonical_ids[id], [wording.text for wording in group.wordings]
        if group.facts:
            ops["REINFORCE"] += bool(group.new_sources)
        elif claims.claim_groups[canonical_id].facts or canonical_id != id:
            is_exact = any(exact in texts for exact, _ in claims.refinements[canonical_id])
            is_vague = any(vague in texts for _, vague in claims.refinements[canonical_id])
            ops["REFINE" if is_exact else "ALREADY_KNOWN" if is_vague else "REINFORCE"] += 1
        else:
            ops["ADD"] += 1
    for id, periods in claims.periods.items():
        known_facts = {fact.id: fact for fact in claims.claim_groups[id].facts}
        for period, fact_id in zip(periods, ids[id], strict=True):
            state = _decide_standing(period, known_facts.get(fact_id)).state
            if state != "current" and (fact_id not in known_facts or known_facts[fact_id].standing.state != state):
                ops["RETRACT" if state == "retracted" else "SUPERSEDE"] += 1
    return +ops


def _collect_source_keys(sources: Iterable[Source]) -> set[tuple[str, str]]:
    return {source.key for source in sources}


def _subtract_sources(sources: Iterable[Source], others: Iterable[Source]) -> tuple[Source, ...]:
    """List the sources that are not among the others, each once: several wordings may rest on the same words."""
    other_keys, left = _collect_source_keys(others), dict[tuple[str, str], Source]()
    for source in sources:
        if source.key not in other_keys:
            left.setdefault(source.key, source)
    return tuple(left.values())


def _get_link_key(link: FactLink) -> tuple[str, str, str, bool]:
    return link.later, link.earlier, link.op, link.is_void
