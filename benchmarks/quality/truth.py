"""Remember histories in many orders and portions, and count how many end as they must."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from neo4j import Record
from rich.table import Table

from adk_graph_memory import GraphMemory
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import Turn
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.testing import HashEmbedder
from benchmarks import machine, server
from benchmarks.quality.histories import History, make_histories
from benchmarks.quality.reader import get_moment, make_reader, make_turns, number_turns

Fact = tuple[str, str, str, str, int, bool]
"""Subject, text, state, end, support, whether it is stale."""

END_STATE = """
MATCH (f:@Fact {scope: $scope})-[:SUBJECT]->(s)
RETURN s.name AS subject, f.text AS text, f.state AS state, f.valid_to AS until, f.support AS support,
       coalesce(f.stale, false) AS stale
"""


@dataclass(frozen=True, slots=True)
class Portion:
    """Turns that are given to memory in one call, as of one session."""

    session: str
    turns: tuple[Turn, ...]


def make_portions(history: History) -> dict[str, list[Portion]]:
    """The history as it was told, backwards, shuffled, turn by turn and all at once."""
    place = number_turns(history)
    told = [Portion(f"s{n}", tuple(make_turns(statements, place))) for n, statements in enumerate(history.sessions)]
    shuffled = random.Random(len(history.name)).sample(told, len(told))
    single = [Portion(portion.session, (turn,)) for portion in told for turn in portion.turns]
    whole = [Portion("all", tuple(turn for portion in told for turn in portion.turns))]
    return {"told": told, "backwards": told[::-1], "shuffled": shuffled, "turn by turn": single, "at once": whole}


def list_expected_facts(history: History) -> list[Fact]:
    """The facts that the graph has to hold, sorted."""
    facts = []
    for held in history.held:
        until = get_moment(held.until).date().isoformat() if held.until is not None else ""
        facts.append((held.subject, held.text, held.state, until, held.support, held.stale))
    return sorted(facts)


async def remember_portions(
    settings: Settings, history: History, session_portions: Sequence[Portion], app_name: str
) -> list[Fact]:
    """What the graph holds after these portions were remembered one after the other."""
    chosen = settings.model_copy(update={"functional_predicates": history.functional_predicates})
    owner = {"app_name": app_name, "user_id": "ada"}
    async with GraphMemory(settings=chosen, model=make_reader(history), embedder=HashEmbedder()) as memory:
        for portion in session_portions:
            await memory.remember(portion.turns, session_id=portion.session, **owner)
        driver = await memory.connection.get_driver()
        query = END_STATE.replace("@", chosen.label_prefix)
        records, _, _ = await driver.execute_query(query, scope=Scope(app_name, "ada").key)
    return sorted(map(_make_fact, records))


def _make_fact(row: Record) -> Fact:
    until = row["until"].to_native().date().isoformat() if row["until"] else ""
    return row["subject"], row["text"], row["state"], until, row["support"], row["stale"]


def list_cases() -> Iterator[tuple[History, str, list[Portion]]]:
    """Every history in every order and portion."""
    for history in make_histories():
        for way, session_portions in make_portions(history).items():
            yield history, way, session_portions


async def main() -> None:
    right: dict[str, int] = {}
    wrong: list[str] = []
    async with server.serve("Truth") as (settings, which):
        for history, way, session_portions in list_cases():
            facts = await remember_portions(settings, history, session_portions, f"truth-{uuid.uuid4().hex[:12]}")
            right[way] = right.get(way, 0) + (facts == list_expected_facts(history))
            if facts != list_expected_facts(history):
                wrong.append(f"{history.name} ({way}): {facts}")
    table = Table(title=f"Truth table: {len(make_histories())} life histories with scripted replies")
    for column in ("told", "right", "of"):
        table.add_column(column, justify="left" if column == "told" else "right")
    for way, count in right.items():
        table.add_row(way, str(count), str(len(make_histories())))
    console = machine.make_console()
    console.print(table)
    for line in wrong:
        console.print(line)
    console.print(f"server: {which}; load {machine.read_load()}")


if __name__ == "__main__":
    asyncio.run(main())
