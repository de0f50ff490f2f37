"""List what waits for the owner: facts that a guard holds back, and changes that agents propose."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.graph import fact_rows
from adk_graph_memory.graph.connection import Transaction, UserGraph
from adk_graph_memory.records.history import HeldFact, Proposal
from adk_graph_memory.records.readings import Reading, attribute_words, decode_reading


async def fetch_held_facts(graph: UserGraph) -> list[HeldFact]:
    """List the facts held of a user, in the order in which they were read."""
    rows = await graph.run_statement("held_readings")
    facts = []
    for row in rows:
        authors = {turn["memory_id"]: turn for turn in row["turns"]}
        reading = decode_reading(row["reading"], fact_rows.convert_datetime(row["at"]), authors.keys())
        facts += _list_held_facts(attribute_words(reading, authors))
    return facts


def format_held_id(reading_id: str, ref: int) -> str:
    """Format the id of a held fact."""
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
                    id=format_held_id(reading.id, held.ref),
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


PREFIX = "proposal_"
"""What the names of its properties begin with."""


async def fetch_proposals(graph: UserGraph | Transaction, *, closed: bool = False) -> list[Proposal]:
    """List what agents propose to this user, oldest first; with ``closed`` also what can no longer be done."""
    rows = await graph.run_statement("proposals")
    return [_read_proposal(row) for row in rows if closed or row["is_open"]]


async def fetch_target(graph: UserGraph, memory_id: str) -> Mapping[str, Any]:
    """Read what somebody proposes to change.

    Raises:
        errors.NotFound: this user's memory holds nothing of this id.
    """
    rows = await graph.run_statement("proposable_memory", memory_id=memory_id)
    if not rows:
        raise _make_error(memory_id)
    return rows[0]


async def write_proposal(graph: UserGraph, proposal: Proposal) -> None:
    """Write a proposal in the place of an earlier one about the same memory.

    Raises:
        errors.NotFound: this user's memory holds nothing of its id any more.
    """
    if not await graph.run_statement("write_proposal", asdict(proposal)):
        raise _make_error(proposal.memory_id)


async def withdraw_proposals(graph: UserGraph | Transaction, ids: Collection[str]) -> None:
    """Withdraw proposals; those that are not there are left out."""
    if ids:
        await graph.run_statement("withdraw_proposals", rows=sorted(ids))


def _make_error(memory_id: str) -> errors.NotFound:
    return errors.NotFound(what=f"memory {memory_id!r} of this user", where="what `recall` returns")


def _read_proposal(row: Mapping[str, Any]) -> Proposal:
    return Proposal(
        id=row["id"],
        action=row["action"],
        memory_id=row["memory_id"],
        memory_text=row["memory_text"],
        text=row["text"],
        reason=row["reason"],
        by=row["by"],
        at=row["at"].to_native(),
        is_pinned=row["is_pinned"],
    )
