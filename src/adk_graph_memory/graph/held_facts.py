"""List the facts that a guard holds back until somebody reviews them."""

from __future__ import annotations

from adk_graph_memory.graph import fact_rows
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.records import Scope
from adk_graph_memory.records.guard import HeldFact
from adk_graph_memory.records.readings import Reading, attribute_words, decode_reading


async def fetch_held_facts(connection: Connection, scope: Scope) -> list[HeldFact]:
    """List the facts held of a user, in the order in which they were read."""
    rows = await connection.run_statement("held_readings", scope=scope.key)
    facts = []
    for row in rows:
        authors = {turn["memory_id"]: (turn["author"], turn["origin"]) for turn in row["turns"]}
        reading = decode_reading(row["reading"], fact_rows.convert_datetime(row["at"]), authors.keys())
        facts += _list_held_facts(attribute_words(reading, authors))
    return facts


def make_held_id(reading_id: str, ref: int) -> str:
    """Make the id of a held fact."""
    return f"held:{reading_id}:{ref}"


def _list_held_facts(reading: Reading) -> list[HeldFact]:
    by_ref, facts = {fact.ref: fact for fact in reading.extraction.facts}, []
    for held in reading.held:
        fact = by_ref.get(held.ref)
        sources = [source for source in fact.sources if source.turn_id not in reading.outdated_turn_ids] if fact else []
        if fact and sources:
            first = sources[0]
            facts.append(
                HeldFact(
                    id=make_held_id(reading.id, held.ref),
                    text=fact.text,
                    quotes=tuple(source.quote for source in sources),
                    author=first.author,
                    origin=first.origin,
                    rule=held.rule,
                    reason=held.reason,
                    said_at=first.at,
                    session_id=first.session_id,
                )
            )
    return facts
