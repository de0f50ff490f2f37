"""A memory from which words are forgotten equals one that never heard them."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest
from benchmarks.quality.histories import History, make_histories
from benchmarks.quality.truth import Portion, make_portions
from tests import paper

from adk_graph_memory import consolidation
from adk_graph_memory.records.readings import Reading

EACH = pytest.mark.parametrize("history", make_histories(), ids=lambda history: history.name)
RANDOM_SETS = 500


@EACH
async def test_forgetting_any_turn_or_session_equals_never_having_heard_it(history: History) -> None:
    portions = make_portions(history)["told"]
    readings = await paper.read_portions(history, portions)
    for gone_ids in list_sets(portions):
        await check_forgotten(history, portions, readings, gone_ids)


@pytest.mark.parametrize("order", ["backwards", "turn by turn", "at once"])
@pytest.mark.full
@EACH
async def test_forgetting_equals_never_having_heard_in_any_order(history: History, order: str) -> None:
    portions = make_portions(history)[order]
    readings = await paper.read_portions(history, portions)
    # In one window a reply may word a turn by what a later one says: with that one the fact goes, quote and all.
    may_lose = order == "at once" and history.name.startswith("repeated")
    for gone_ids in list_sets(portions):
        await check_forgotten(history, portions, readings, gone_ids, may_lose=may_lose)


async def test_forgetting_any_set_of_turns_equals_never_having_heard_them() -> None:
    chance, histories = random.Random(19), make_histories()
    for number in range(RANDOM_SETS):
        history = histories[number % len(histories)]
        portions = chance.choice(list(make_portions(history).values()))
        ids = sorted(list_turn_ids(portions))
        gone_ids = chance.sample(ids, chance.randint(1, len(ids)))
        await check_forgotten(history, portions, await paper.read_portions(history, portions), gone_ids)


async def check_forgotten(
    history: History,
    portions: list[Portion],
    readings: list[Reading],
    gone_ids: Collection[str],
    *,
    may_lose: bool = False,
) -> None:
    rest = [replace(portion, turns=tuple(keep_turns(portion, gone_ids))) for portion in portions]
    turns = {turn.make_memory_id(portion.session): turn for portion in portions for turn in portion.turns}
    kept = {id: turn for id, turn in turns.items() if id not in gone_ids}
    removal = consolidation.Removal(
        turn_ids=frozenset(gone_ids),
        authors={id: (turn.author, turn.role) for id, turn in kept.items()},
        words=consolidation.find_lost_words(
            [turns[id].text for id in sorted(gone_ids)],
            [text for turn in kept.values() for text in (turn.author, turn.text)],
        ),
    )
    forgotten = consolidation.replay_readings(consolidation.restrict_readings(readings, removal))
    never_heard = consolidation.replay_readings(await paper.read_portions(history, rest, readings))
    gone = [turns[id].text for id in sorted(gone_ids)]
    if may_lose and len(forgotten.facts) < len(never_heard.facts):
        assert forgotten.facts.keys() < never_heard.facts.keys(), gone
        return
    assert paper.digest_memory(forgotten) == paper.digest_memory(never_heard), gone


def list_sets(portions: list[Portion]) -> Iterator[frozenset[str]]:
    """The ids of each turn alone, and of all turns of each session."""
    sessions: dict[str, set[str]] = {}
    for portion in portions:
        ids = {turn.make_memory_id(portion.session) for turn in portion.turns}
        sessions.setdefault(portion.session, set()).update(ids)
        yield from (frozenset([id]) for id in sorted(ids))
    yield from (frozenset(ids) for ids in sessions.values())


def list_turn_ids(portions: list[Portion]) -> set[str]:
    return set().union(*list_sets(portions))


def keep_turns(portion: Portion, gone_ids: Collection[str]) -> Iterator[object]:
    return (turn for turn in portion.turns if turn.make_memory_id(portion.session) not in gone_ids)
