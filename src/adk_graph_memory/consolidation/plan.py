"""A draft and a model's decisions go in; everything that changes in the graph comes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from adk_graph_memory.consolidation import facts
from adk_graph_memory.consolidation.decisions import Decisions, Settled
from adk_graph_memory.consolidation.draft import Draft
from adk_graph_memory.consolidation.tenets import Tenet
from adk_graph_memory.consolidation.timeline import Run, run_at
from adk_graph_memory.records import (
    KnownFact,
    Link,
    Plan,
    PlannedFact,
    PlannedRevision,
    Proposition,
    Source,
    Standing,
    digest,
)
from adk_graph_memory.records.plan import Change, Op

NOTHING_DECIDED = Decisions()


def reconcile(draft: Draft, decisions: Decisions = NOTHING_DECIDED) -> Plan:
    """What changes in the graph: tenets are merged and timed, and what differs from the graph is the plan.

    Every part is sorted, so that writers take their locks in one order.
    """
    settled = Settled(draft, decisions)
    ids = {id: _ids(settled.tenets[id], found) for id, found in settled.runs.items()}
    changed: list[PlannedFact] = []
    revisions: list[PlannedRevision] = []
    links: list[Link] = []
    for id, found in settled.runs.items():
        known = {fact.id: fact for fact in settled.tenets[id].facts}
        for run, name in zip(found, ids[id], strict=True):
            changed += _changed(settled, name, run, known.get(name))
            revisions += _revised(settled, name, run, known.get(name))
            links += _links(settled, name, run, ids)
        changed += [_emptied(fact) for fact in known.values() if fact.id not in ids[id] and fact.sources]
    was = {_key(link) for link in draft.candidates.links}
    return Plan(
        entities=draft.resolution.planned,
        facts=tuple(sorted(changed, key=lambda fact: fact.id)),
        revisions=tuple(sorted(revisions, key=lambda revision: (revision.fact, revision.op, revision.text))),
        links=tuple(sorted((link for link in links if _key(link) not in was), key=_key)),
        dependencies=tuple(sorted(_dependencies(settled, ids))),
        mentions=draft.mentions,
        remarks=draft.remarks,
        forget=draft.forget,
        dropped=dict(settled.dropped),
        ops=dict(_ops(draft, settled, ids)),
    )


# -- one run, one fact ------------------------------------------------------------------------------------------


def _ids(tenet: Tenet, found: Sequence[Run]) -> list[str]:
    """The fact of each run: the graph's that shares most words, else one whose turns were edited, else a new one."""
    free = {fact.id: fact for fact in tenet.facts}
    names: list[str | None] = []
    for run in found:
        shared = {id: len(_keys(run.sources) & _keys(fact.sources)) for id, fact in free.items()}
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


def _said(settled: Settled, run: Run) -> Proposition:
    """What the run says, in the wording that stands for it, as of when that was said first."""
    return replace(settled.strand(run.strand).proposition, at=min(source.at for source in run.sources))


def _standing(run: Run, known: KnownFact | None) -> Standing:
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
        return run.standing if run.called_off and known.is_complete else known.standing
    return run.standing if known.is_complete or known.standing.state == "current" else known.standing


def _changed(settled: Settled, name: str, run: Run, known: KnownFact | None) -> Iterator[PlannedFact]:
    said, standing = _said(settled, run), _standing(run, known)
    if known is None:
        yield PlannedFact(name, said, sources=run.sources, standing=standing)
        return
    is_reworded = said.text != known.proposition.text
    new, moved = _without(run.sources, known.sources), _without(known.sources, run.sources)
    if new or moved or is_reworded or standing != known.standing:
        said = said if is_reworded else replace(known.proposition, at=said.at)
        yield PlannedFact(name, said, False, is_reworded, new, moved, standing)


def _emptied(fact: KnownFact) -> PlannedFact:
    """A fact whose words have all become another's."""
    return PlannedFact(fact.id, fact.proposition, is_new=False, moved=fact.sources, standing=fact.standing)


# -- what a fact was before -------------------------------------------------------------------------------------


def _revised(settled: Settled, name: str, run: Run, known: KnownFact | None) -> Iterator[PlannedRevision]:
    said, tenet = _said(settled, run), settled.tenets[run.strand]
    why = settled.why_merged(run.strand)
    added = _keys(tenet.new)
    new = tuple(source for source in run.sources if source.key in added)
    told = [said]
    if known is not None and said.text != known.proposition.text:
        told.append(known.proposition)
        yield _revision(name, known.proposition, "REFINE", run.standing, why, new)
    if run is settled.runs[run.strand][0]:
        for other in tenet.wordings:
            is_within = other.signature == said.signature and facts.is_contained(other, told)
            if other.words not in {one.words for one in told} and not is_within:
                op: Op = "REFINE" if settled.is_vague(run.strand, other.text) else "REINFORCE"
                yield _revision(name, other, op, run.standing, why, new)
    before, after = known.standing if known else None, _standing(run, known)
    is_reopened = before is not None and before.state != "current" and after.state == "current"
    if (run.ended or is_reopened) and after != before:
        change: Change = "REOPEN" if is_reopened else "RETRACT" if after.state == "retracted" else "SUPERSEDE"
        by = run.called_off if is_reopened else run.ended
        whys = dict.fromkeys(settled.why_ended(run.strand, ended.strand) for ended in by)
        was = known.proposition if known else said
        evidence = dict.fromkeys(source for ended in by for source in (ended.source, ended.outcome) if source)
        standing = before or Standing(valid_to=was.valid_to)
        yield _revision(name, was, change, standing, "; ".join(filter(None, whys)), tuple(evidence))


def _revision(
    name: str, was: Proposition, op: Change, standing: Standing, reason: str, evidence: tuple[Source, ...]
) -> PlannedRevision:
    return PlannedRevision(name, op, was.text, was.signature, standing, reason, evidence, by_model=bool(reason))


# -- what lies between facts ------------------------------------------------------------------------------------


def _links(settled: Settled, name: str, run: Run, ids: Mapping[str, Sequence[str]]) -> Iterator[Link]:
    """What ended the run; and what would have, but was called off, for it may be taken up again."""
    ends: dict[str, Link] = {}
    for ended in (*run.ended, *run.called_off):
        named = zip(ids[ended.strand], settled.runs[ended.strand], strict=True)
        later = next(id for id, other in named if ended.source in other.sources)
        why = settled.why_ended(run.strand, ended.strand)
        ends.setdefault(later, Link(later, name, ended.how, why, is_void=ended not in run.ended))
    yield from ends.values()


def _dependencies(settled: Settled, ids: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """For each dependency of tenets that of facts: the run that was said, on the run that held when it was."""
    for one, base in settled.dependencies:
        dependent, on = settled.home.get(one), settled.home.get(base)
        if dependent is None or on is None or dependent == on or not settled.runs[on]:
            continue
        for run, name in zip(settled.runs[dependent], ids[dependent], strict=True):
            if not _keys(settled.tenets[dependent].new).isdisjoint(_keys(run.sources)):
                held = settled.runs[on].index(run_at(settled.runs[on], run.sources[0].at))
                yield name, ids[on][held]


# -- the account ------------------------------------------------------------------------------------------------


def _ops(draft: Draft, settled: Settled, ids: Mapping[str, Sequence[str]]) -> Counter[str]:
    """What became of each tenet that was read, and how many facts ended by it."""
    ops: Counter[str] = Counter()
    for id, tenet in draft.tenets.items():
        home, texts = settled.home[id], [one.text for one in tenet.wordings]
        if tenet.facts:
            ops["REINFORCE"] += bool(tenet.new)
        elif settled.tenets[home].facts or home != id:
            is_exact = any(settled.is_exact(home, text) for text in texts)
            is_vague = any(settled.is_vague(home, text) for text in texts)
            ops["REFINE" if is_exact else "ALREADY_KNOWN" if is_vague else "REINFORCE"] += 1
        else:
            ops["ADD"] += 1
    for id, found in settled.runs.items():
        known = {fact.id: fact for fact in settled.tenets[id].facts}
        for run, name in zip(found, ids[id], strict=True):
            state = _standing(run, known.get(name)).state
            if state != "current" and (name not in known or known[name].standing.state != state):
                ops["RETRACT" if state == "retracted" else "SUPERSEDE"] += 1
    return +ops


def _keys(sources: Iterable[Source]) -> set[tuple[str, str]]:
    return {source.key for source in sources}


def _without(sources: Iterable[Source], others: Iterable[Source]) -> tuple[Source, ...]:
    """Those of the one that are none of the others."""
    keys = _keys(others)
    return tuple(source for source in sources if source.key not in keys)


def _key(link: Link) -> tuple[str, str, str, bool]:
    return link.later, link.earlier, link.op, link.is_void
