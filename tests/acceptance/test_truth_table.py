"""Life histories end as they must in whatever order and portions they are told: on paper in all, on a graph in some."""

from __future__ import annotations

from itertools import permutations

import pytest
from benchmarks.quality.histories import History, make_histories
from benchmarks.quality.truth import Portion, list_expected_facts, make_portions, remember_portions
from tests.support import paper

from adk_graph_memory.consolidation.replay import replay_readings
from adk_graph_memory.records.memory import DerivedMemory

pytestmark = pytest.mark.slow

EACH = pytest.mark.parametrize("history", make_histories(), ids=lambda history: history.name)
MOST_ORDERS = 24


async def remember_on_paper(history: History, portions: list[Portion]) -> DerivedMemory:
    reader = paper.tell_history(history, portions).make_reader()
    return replay_readings(await paper.read_portions(reader, portions))


def test_there_are_enough_histories() -> None:
    assert len(make_histories()) >= 60
    assert len({history.name for history in make_histories()}) == len(make_histories())


@EACH
async def test_on_paper_every_order_ends_the_same(history: History) -> None:
    told = make_portions(history)["told"]
    for order in list(permutations(told))[:MOST_ORDERS]:
        memory = await remember_on_paper(history, list(order))
        assert paper.list_held(memory) == list_expected_facts(history), [portion.session for portion in order]


@EACH
@pytest.mark.parametrize("way", ["turn by turn", "at once"])
async def test_on_paper_every_portion_ends_the_same(history: History, way: str) -> None:
    memory = await remember_on_paper(history, make_portions(history)[way])
    assert paper.list_held(memory) == list_expected_facts(history)


@EACH
@pytest.mark.parametrize("way", [pytest.param("told", marks=pytest.mark.full), "shuffled"])
async def test_the_graph_ends_as_it_must(neo4j_server, app_name: str, history: History, way: str) -> None:
    settings = neo4j_server.settings(label_prefix="TestHash")
    assert await remember_portions(settings, history, make_portions(history)[way], app_name) == list_expected_facts(
        history
    )
