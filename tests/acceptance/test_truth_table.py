"""Life histories end as they must in whatever order and portions they are told: on paper in all, on a graph in some."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import permutations

import pytest
from benchmarks.quality.histories import History, make_histories
from benchmarks.quality.reader import make_reader
from benchmarks.quality.truth import Fact, Portion, list_expected_facts, make_portions, remember_portions

from adk_graph_memory import Limits, consolidation, extraction
from adk_graph_memory.records import Candidates, FactLink, KnownEntity, KnownFact, WritePlan

EACH = pytest.mark.parametrize("history", make_histories(), ids=lambda history: history.name)
MOST_ORDERS = 24


class Paper:
    """What a graph holds, as far as consolidation asks: plans are written down and read back."""

    def __init__(self) -> None:
        self.facts: dict[str, KnownFact] = {}
        self.links: dict[tuple[str, str], FactLink] = {}
        self.rests: set[tuple[str, str]] = set()
        self.entities: dict[str, KnownEntity] = {}
        self.wordings: dict[str, set[str]] = {}

    def candidates(self, wanted: consolidation.GraphLookup) -> Candidates:
        known = tuple(self.entities.values())
        near: dict[str, tuple[str, ...]] = {}
        for said in wanted.make_propositions(known):
            same = [f.id for f in self.facts.values() if said.object and _pair(f) == (said.subject, said.object)]
            near[said.text] = (*near.get(said.text, ()), *sorted(same))
        facts, links = tuple(self.facts.values()), tuple(self.links.values())
        return Candidates(known, facts, links, near, dependencies=tuple(sorted(self.rests)))

    def write(self, plan: WritePlan) -> None:
        for entity in plan.entities:
            self.entities[entity.key] = KnownEntity(entity.key, entity.name, entity.type, entity.aliases, entity.about)
        for revision in plan.revisions:
            if revision.op in ("REFINE", "REINFORCE"):
                self.wordings.setdefault(revision.fact_id, set()).add(revision.signature)
        for fact in plan.facts:
            before = self.facts[fact.id].sources if fact.id in self.facts else ()
            sources = tuple(source for source in before if source not in fact.moved_sources) + fact.sources
            absorbed = tuple(sorted(self.wordings.get(fact.id, ())))
            self.facts[fact.id] = KnownFact(fact.id, fact.proposition, sources, fact.standing, absorbed)
            if not sources:
                del self.facts[fact.id]
        links = self.links | {(link.later, link.earlier): link for link in plan.links}
        self.links = {pair: link for pair, link in links.items() if set(pair) <= self.facts.keys()}
        self.rests |= set(plan.dependencies)

    def held(self) -> list[Fact]:
        names = {entity.key: entity.name for entity in self.entities.values()}
        return sorted(
            (
                names[fact.proposition.subject or ""],
                fact.proposition.text,
                fact.standing.state,
                fact.standing.valid_to.date().isoformat() if fact.standing.valid_to else "",
                len(fact.sources),
                self._is_stale(fact),
            )
            for fact in self.facts.values()
        )

    def _is_stale(self, fact: KnownFact) -> bool:
        heard = max(source.at for source in fact.sources)
        bases = [self.facts[base] for one, base in self.rests if one == fact.id]
        return any(self._is_gone(base, heard) for base in bases)

    def _is_gone(self, base: KnownFact, heard: datetime) -> bool:
        ends = (link.later for link in self.links.values() if link.earlier == base.id and not link.is_void)
        later = {self.facts[by].proposition.modality for by in ends}
        came_true = base.proposition.modality == "planned" and later == {"asserted"}
        standing = base.standing
        ended = standing.state == "superseded" and standing.valid_to is not None and standing.valid_to > heard
        return standing.state == "retracted" or (ended and not came_true)


def _pair(fact: KnownFact) -> tuple[str | None, str | None]:
    return fact.proposition.subject, fact.proposition.object


async def on_paper(history: History, told: list[Portion]) -> list[Fact]:
    paper, model = Paper(), make_reader(history)
    vocabulary = extraction.Vocabulary(functional_predicates=frozenset(history.functional_predicates))
    extractor = extraction.ModelExtractor(model, limits=Limits(), vocabulary=vocabulary)
    judge = consolidation.Judge(model, Limits())
    for portion in told:
        turns = [replace(turn, session_id=portion.session) for turn in portion.turns]
        read = await extractor.extract(turns, tuple(paper.entities.values()))
        candidates = paper.candidates(consolidation.GraphLookup(read, history.functional_predicates))
        draft = consolidation.compare_extraction(read, candidates, functional_predicates=history.functional_predicates)
        decisions = (await judge.decide(draft))[0] if draft.has_open_questions else consolidation.JudgeDecisions()
        settled = consolidation.compare_extraction(
            read, candidates, functional_predicates=history.functional_predicates, doubt_answers=decisions.doubt_answers
        )
        paper.write(consolidation.reconcile_claims(settled, decisions.remap_ids(draft, settled)))
    return paper.held()


def test_there_are_enough_histories() -> None:
    assert len(make_histories()) >= 60
    assert len({history.name for history in make_histories()}) == len(make_histories())


@EACH
async def test_on_paper_every_order_ends_the_same(history: History) -> None:
    told = make_portions(history)["told"]
    for order in list(permutations(told))[:MOST_ORDERS]:
        assert await on_paper(history, list(order)) == list_expected_facts(history), [
            portion.session for portion in order
        ]


@EACH
@pytest.mark.parametrize("way", ["turn by turn", "at once"])
async def test_on_paper_every_portion_ends_the_same(history: History, way: str) -> None:
    assert await on_paper(history, make_portions(history)[way]) == list_expected_facts(history)


@EACH
@pytest.mark.parametrize("way", [pytest.param("told", marks=pytest.mark.full), "shuffled"])
async def test_the_graph_ends_as_it_must(neo4j_server, app_name: str, history: History, way: str) -> None:
    settings = neo4j_server.settings(label_prefix="TestHash")
    assert await remember_portions(settings, history, make_portions(history)[way], app_name) == list_expected_facts(
        history
    )
