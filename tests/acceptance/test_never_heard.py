"""A memory from which words are forgotten equals one that never heard them."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import pytest
from benchmarks.quality.histories import History, make_histories
from benchmarks.quality.truth import Portion, make_portions
from tests.support import paper, recorded

from adk_graph_memory import Turn
from adk_graph_memory.consolidation.replay import replay_readings
from adk_graph_memory.consolidation.restriction import Removal, find_lost_words, restrict_readings
from adk_graph_memory.language.detection import detect_languages, load_stop_words
from adk_graph_memory.records.memory import DerivedMemory
from adk_graph_memory.records.readings import Reading

pytestmark = pytest.mark.slow

EACH = pytest.mark.parametrize("history", make_histories(), ids=lambda history: history.name)
RANDOM_SETS = 500
WORD = re.compile(r"(?:(?![\u3040-\u309f])[^\W_]){2,}")
"""Without hiragana, which writes grammar, and single letters, which belong to it."""
IN_SHORT = "pairing"
CONVERSATIONS = [pytest.param(name, marks=() if name == IN_SHORT else pytest.mark.full) for name in recorded.NAMES]


@EACH
async def test_forgetting_any_turn_or_session_equals_never_having_heard_it(history: History) -> None:
    await check_each(paper.tell_history(history, make_portions(history)["told"]))


@pytest.mark.parametrize("order", ["backwards", "turn by turn", "at once"])
@pytest.mark.full
@EACH
async def test_forgetting_equals_never_having_heard_in_any_order(history: History, order: str) -> None:
    # In one window a reply may word a turn by what a later one says: with that one the fact goes, quote and all.
    may_lose = order == "at once" and history.name.startswith("repeated")
    await check_each(paper.tell_history(history, make_portions(history)[order]), may_lose=may_lose)


async def test_forgetting_any_set_of_turns_equals_never_having_heard_them() -> None:
    chance, histories = random.Random(19), make_histories()
    for number in range(RANDOM_SETS):
        history = histories[number % len(histories)]
        portions = chance.choice(list(make_portions(history).values()))
        ids = sorted(list_turn_ids(portions))
        gone_ids = chance.sample(ids, chance.randint(1, len(ids)))
        told = paper.tell_history(history, portions)
        await check_forgotten(told, await paper.read_portions(told.make_reader(), portions), gone_ids)


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_of_what_a_model_replied_nothing_is_left_that_it_took_from_what_is_forgotten(name: str) -> None:
    await check_each(recorded.load_conversation(name))


async def check_each(told: paper.Conversation, *, may_lose: bool = False) -> None:
    """Forget each turn alone, and each session, but the turns that are gone because their author asked for it."""
    readings = await paper.read_portions(told.make_reader(), told.portions)
    for gone_ids in list_sets(told.portions):
        if not gone_ids <= list_refused_ids(readings):
            await check_forgotten(told, readings, gone_ids, may_lose=may_lose)


def list_refused_ids(readings: list[Reading]) -> frozenset[str]:
    return frozenset(id for reading in readings for id in reading.extraction.forget_turn_ids)


async def check_forgotten(
    told: paper.Conversation, readings: list[Reading], gone_ids: Collection[str], *, may_lose: bool = False
) -> None:
    rest = [replace(portion, turns=tuple(keep_turns(portion, gone_ids))) for portion in told.portions]
    turns = {turn.make_memory_id(portion.session): turn for portion in told.portions for turn in portion.turns}
    kept = {id: turn for id, turn in turns.items() if id not in {*gone_ids, *list_refused_ids(readings)}}
    gone = [turns[id].text for id in sorted(gone_ids)]
    removal = Removal(
        turn_ids=frozenset(gone_ids),
        authors={id: (turn.author, turn.role) for id, turn in kept.items()},
        texts={id: turn.text for id, turn in kept.items()},
        takes_words=True,
        words=find_lost_words(gone, [text for turn in kept.values() for text in (turn.author, turn.text)]),
    )
    forgotten = replay_readings(restrict_readings(readings, removal))
    assert find_traces(forgotten, gone, kept.values()) == {}, gone
    rereader = told.make_rereader(readings, removal.words)
    never_heard = replay_readings(await paper.read_portions(rereader, rest))
    if may_lose and len(forgotten.facts) < len(never_heard.facts):
        assert forgotten.facts.keys() < never_heard.facts.keys(), gone
        return
    assert paper.digest_memory(forgotten) == paper.digest_memory(never_heard), gone


def find_traces(memory: DerivedMemory, gone: Collection[str], kept: Iterable[Turn]) -> dict[str, str]:
    """The words of what is gone that no turn says any more, and a text of the memory that does; but no grammar."""
    said = "\n".join(text for turn in kept for text in (turn.author, turn.text)).casefold()
    words = {word for text in gone for word in WORD.findall(text.casefold()) if word not in said}
    ordinary = [word for language in ("en", *detect_languages(list(gone))) for word in load_stop_words(language)]
    words -= {part for word in ordinary for part in WORD.findall(word)}
    return {word: text for text in list_texts(memory) for word in words.intersection(WORD.findall(text.casefold()))}


def list_texts(memory: DerivedMemory) -> Iterator[str]:
    """All that a memory says in words."""
    for entity in memory.entities.values():
        yield from (entity.name, *entity.aliases, entity.about, entity.merge_reason)
    for fact in memory.facts.values():
        yield from (fact.proposition.text, *(source.quote for source in fact.sources))
        yield from (text for revision in fact.revisions for text in (revision.text, revision.reason))
    yield from (link.reason for link in memory.links.values())


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
