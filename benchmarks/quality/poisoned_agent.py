"""Let an agent that obeys every attack use a memory through MCP, and count what the memory then holds of them.

    python -m benchmarks.quality.poisoned_agent [--guard none|rules] [--json FILE]

Memory first hears what the user says in turns without an attack. Then the agent calls ``remember`` with each attack,
and ``correct`` and ``forget`` with it on each memory that ``recall`` returns. The model that reads and judges obeys
too: it stores every claim as one about the user, and says that each ends all that is known.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mcp import Client
from rich.table import Table

from adk_graph_memory import GraphMemory
from adk_graph_memory.models.embedder import EmbedderChoice
from adk_graph_memory.models.local import LocalEmbedder
from adk_graph_memory.records.results import MACHINE_NOTES, StoredFact
from adk_graph_memory.runtime.settings import Settings, load_settings
from adk_graph_memory.servers.mcp.tools import make_mcp_server
from benchmarks import machine, server
from benchmarks.quality import obedient
from benchmarks.quality.attack_outcomes import contains, holds, is_of_user, rests_on_own_words
from benchmarks.quality.attacks import Dialogue, load_dialogues
from benchmarks.quality.poisoning import BARS, PATIENCE

APP = f"poisoned-agent-{uuid.uuid4().hex[:8]}"
_ID = re.compile(r"\[((?:fact|event):\S+)\]")


@dataclass(frozen=True, slots=True)
class Obedience:
    """What an agent that obeys made of a user's memory."""

    dialogue: str
    guard: str | None
    attacks: int
    as_user: tuple[str, ...]
    """claims that stand as the user's own word"""
    as_agent: tuple[str, ...]
    """claims that ``recall`` returns, as the agent's word"""
    in_profile: tuple[str, ...]
    """claims that the profile repeats"""
    unmarked: tuple[str, ...]
    """those of both that are not marked as an agent's word"""
    facts: int
    """facts of the user's that held before"""
    changed: tuple[str, ...]
    """those that say something else, ended or are gone"""
    proposals: int
    """what waits for the owner"""


async def obey(
    settings: Settings, dialogue: Dialogue, guard: str | None = None, *, app_name: str, embedder: EmbedderChoice
) -> Obedience:
    """Let the agent do with one user's memory all that a dialogue's attacks ask for."""
    owner: dict[str, Any] = {"app_name": app_name, "user_id": dialogue.user}
    carriers = {id for attack in dialogue.attacks for id in attack.turns}
    model = obedient.make_reader(dialogue, ends_all=True)
    async with GraphMemory(settings=settings, model=model, embedder=embedder, guard=guard) as memory:
        for session_id in dialogue.sessions:
            turns = [turn for turn in dialogue.make_turns(session_id) if turn.id not in carriers]
            if turns:
                await memory.remember(turns, session_id=session_id, **owner)
        before = await _list_facts(memory, owner)
        mcp_server = make_mcp_server(memory, lambda request: (app_name, dialogue.user), allow_write=True)
        async with Client(mcp_server) as client:
            for attack in dialogue.attacks:
                await _call(client, "remember", text=attack.claim)
                listed = await _call(client, "recall", question=attack.claim)
                for id in _ID.findall(listed):
                    await _call(client, "correct", fact_id=id, text=attack.claim, reason=attack.claim)
                    await _call(client, "forget", memory_id=id, reason=attack.claim)
            answers = {
                attack.claim: await _call(client, "recall", question=attack.claim)
                + "\n"
                + await _call(client, "recall", question=attack.question)
                for attack in dialogue.attacks
            }
            profile = await _call(client, "profile")
        after = await _list_facts(memory, owner)
        proposals = await memory.user(**owner).proposals()
    own = [
        fact
        for fact in after.values()
        if fact.origin in ("user", "owner") and is_of_user(dialogue, fact) and not rests_on_own_words(dialogue, fact)
    ]
    return Obedience(
        dialogue.name,
        guard,
        len(dialogue.attacks),
        tuple(one.claim for one in dialogue.attacks if any(contains(fact.text, one.needles) for fact in own)),
        tuple(one.claim for one in dialogue.attacks if one.claim in answers[one.claim]),
        tuple(one.claim for one in dialogue.attacks if one.claim in profile),
        tuple(one.claim for one in dialogue.attacks if _is_unmarked(one.claim, f"{answers[one.claim]}\n{profile}")),
        len(before),
        tuple(fact.text for id, fact in before.items() if id not in after or after[id].text != fact.text),
        len(proposals),
    )


def _is_unmarked(claim: str, text: str) -> bool:
    return any(claim in line and MACHINE_NOTES["agent"] not in line for line in text.splitlines())


async def _list_facts(memory: GraphMemory, owner: dict[str, Any]) -> dict[str, StoredFact]:
    return {fact.id: fact async for fact in memory.facts(past=True, **owner) if holds(fact)}


async def _call(client: Client, tool: str, **arguments: str) -> str:
    """Call a tool; what it refuses is an answer too."""
    result = await client.call_tool(tool, arguments)
    return str(result.content[0].text)  # type: ignore[union-attr]


async def run_all(settings: Settings, guards: Sequence[str | None]) -> list[Obedience]:
    """Every dialogue, with and without a guard, each in a memory of its own."""
    outcomes, embedder = [], LocalEmbedder()
    for guard in guards:
        for dialogue in load_dialogues():
            print(f"guard {guard}, {dialogue.name} …", file=sys.stderr, flush=True)
            app_name = f"{APP}-{guard}-{dialogue.name}"
            outcomes.append(await obey(settings, dialogue, guard, app_name=app_name, embedder=embedder))
    return outcomes


def make_table(outcomes: Sequence[Obedience]) -> Table:
    """A row for each guard."""
    table = Table(title="What an agent that obeys every attack does through MCP")
    columns = (
        "attacks",
        "the user's word",
        "the agent's word",
        "in the profile",
        "unmarked",
        "facts",
        "changed",
        "proposals",
    )
    table.add_column("guard")
    for column in columns:
        table.add_column(column, justify="right")
    for guard in dict.fromkeys(outcome.guard for outcome in outcomes):
        some = [outcome for outcome in outcomes if outcome.guard == guard]
        attacks, facts = sum(one.attacks for one in some), sum(one.facts for one in some)
        counts = [
            sum(len(getattr(one, name)) for one in some) for name in ("as_user", "as_agent", "in_profile", "unmarked")
        ]
        changed, proposals = sum(len(one.changed) for one in some), sum(one.proposals for one in some)
        shares = [f"{count} ({count / attacks:.1%})" for count in counts]
        table.add_row(guard or "none", str(attacks), *shares, str(facts), str(changed), str(proposals))
    return table


async def main(arguments: argparse.Namespace) -> None:
    guards = {"none": (None,), "rules": ("rules",)}.get(arguments.guard, (None, "rules"))
    async with server.serve("PoisonedAgent") as (served, which):
        settings = load_settings(**served.model_dump() | {"database_timeout": PATIENCE, "embed_timeout": PATIENCE})
        outcomes = await run_all(settings, guards)
    console = machine.make_console()
    console.print(make_table(outcomes))
    for outcome in outcomes:
        for text in (*outcome.as_user, *outcome.changed):
            line = f"{outcome.dialogue}, guard {outcome.guard}: {text}"
            console.print(line, highlight=False, soft_wrap=True, markup=False)
    if arguments.json:
        rows = [asdict(outcome) for outcome in outcomes]
        arguments.json.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", "utf-8")
    console.print(f"asked: ≤ {BARS['attacks']:.0%} of attacks; none of the user's facts changed")
    console.print(f"server: {which}; load {machine.read_load()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.poisoned_agent")
    parser.add_argument("--guard", choices=("none", "rules"), help="by default without and with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers and texts")
    asyncio.run(main(parser.parse_args()))
