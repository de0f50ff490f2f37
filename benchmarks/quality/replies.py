"""Measure how well the graph that comes of recorded replies agrees with gold facts.

The gold facts were written from the conversations alone, before any model read them. A gold fact is found where a
fact's text contains every entry of its ``must`` (alternatives are parted by ``|``).
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from adk_graph_memory import GraphMemory
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.adk.importing.chats.conversation import Conversation
from adk_graph_memory.cli.demo import conversation as demo_conversation
from adk_graph_memory.cli.demo import recorded_replies
from adk_graph_memory.cli.demo.recorded_replies import RecordedLlm, Recording
from adk_graph_memory.models.embedder import EmbedderChoice
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.settings import Settings
from benchmarks import machine, server

HERE = Path(__file__).parent
NAMES = ("demo", "mudanza", "clinic", "workshop", "shigoto", "long", "xiangmu", "pairing")
BARS = {"recall": 0.95, "precision": 0.93, "verified": 0.97, "missed changes": 0.05}

FACTS = """
MATCH (f:@Fact {scope: $scope})-[s:SUPPORTED_BY]->(e)
WITH f, collect(e.session_id) AS sessions, collect(s.quote) AS quotes
RETURN f.id AS id, f.text AS text, f.modality AS modality, f.state AS state, sessions, quotes,
       coalesce(f.stale, false) AS stale, f.valid_to.epochSeconds AS until,
       COLLECT { MATCH (f)-[:HAS_REVISION]->(r) RETURN r.text } AS former
ORDER BY f.text
"""


def load_conversation(name: str) -> Conversation:
    """A recorded conversation."""
    return demo_conversation.load_conversation(None if name == "demo" else HERE / "conversations" / f"{name}.json")


def load_gold(name: str) -> dict[str, Any]:
    """Its gold facts, and what must never be held for true."""
    gold_facts: dict[str, Any] = json.loads((HERE / "gold" / f"{name}.json").read_text("utf-8"))
    return gold_facts


def load_recording(name: str) -> Recording:
    """The replies, and what a reader found wrong in them."""
    return recorded_replies.load_recording(None if name == "demo" else HERE / "recordings" / f"{name}.json")


async def remember_conversation(
    settings: Settings, name: str, embedder: EmbedderChoice = None
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """The facts in the graph after the conversation was remembered session by session, and what was dropped."""
    app_name, dropped = f"replies-{uuid.uuid4().hex[:12]}", Counter[str]()
    async with GraphMemory(
        settings=settings, model=RecordedLlm.from_recording(load_recording(name)), embedder=embedder
    ) as memory:
        talk = load_conversation(name)
        for session in talk.sessions:
            turns = memory_codec.make_turns(session.make_events(), zone=talk.zone)
            report = await memory.remember(turns, app_name=app_name, user_id="ada", session_id=session.id)
            dropped.update(report.dropped)
        driver = await memory.connection.get_driver()
        query = FACTS.replace("@", settings.label_prefix)
        records, _, _ = await driver.execute_query(query, scope=Scope(app_name, "ada").key)
    return [dict(record) for record in records], dropped


@dataclass(frozen=True, slots=True)
class Score:
    """How a graph agrees with the gold facts of its conversation."""

    facts: int
    gold: int
    found: int
    wrong: int
    unverified: int
    changes: int
    missed_changes: tuple[str, ...]
    wrong_changes: tuple[str, ...]
    missing: tuple[str, ...]
    forbidden: tuple[str, ...]

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Score)))

    @property
    def recall(self) -> float:
        """Gold facts that the graph holds."""
        return self.found / self.gold

    @property
    def precision(self) -> float:
        """Facts in which a reader of the conversation found nothing wrong."""
        return 1 - self.wrong / self.facts

    @property
    def verified(self) -> float:
        """Facts of the replies whose quote stands in the turns that they name."""
        return self.facts / (self.facts + self.unverified)


def score_facts(name: str, held: Sequence[Mapping[str, Any]], dropped: Mapping[str, int]) -> Score:
    """Compares the facts of a graph with the gold.

    A change is missed where the memory still holds for true what ended: not superseded, nor over by its own words,
    nor stale for resting on what ended. A change is wrong where all that says what is still so has ended; a plan says
    nothing of what is so.
    """
    gold_facts = load_gold(name)
    last = max(
        turn.at
        for session in load_conversation(name).sessions
        for turn in memory_codec.make_turns(session.make_events())
    )
    matches: dict[str, list[Mapping[str, Any]]] = {}
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for gold_fact in gold_facts["facts"]:
        alike_facts = [
            fact for fact in held if any(_says(text, gold_fact["must"]) for text in (fact["text"], *fact["former"]))
        ]
        here = [fact for fact in alike_facts if set(fact["sessions"]) & set(gold_fact["sessions"])]
        alike[gold_fact["id"]], matches[gold_fact["id"]] = alike_facts, here or alike_facts
    ended = [
        gold_fact
        for gold_fact in gold_facts["facts"]
        if gold_fact["state"] in ("superseded", "retracted") and matches[gold_fact["id"]]
    ]
    current = [
        gold_fact for gold_fact in gold_facts["facts"] if gold_fact["state"] == "current" and matches[gold_fact["id"]]
    ]
    asserted = [fact for fact in held if fact["state"] == "current" and fact["modality"] == "asserted"]
    wrong = load_recording(name).wrong
    return Score(
        facts=len(held),
        gold=len(gold_facts["facts"]),
        found=sum(bool(facts) for facts in matches.values()),
        wrong=sum(fact["text"] in wrong for fact in held),
        unverified=dropped.get("quote not in the turns it names", 0),
        changes=len(ended),
        missed_changes=tuple(
            gold_fact["says"]
            for gold_fact in ended
            if all(_holds(fact, last) and not fact["former"] for fact in matches[gold_fact["id"]])
        ),
        wrong_changes=tuple(
            gold_fact["says"]
            for gold_fact in current
            if (
                alike_facts := [
                    fact for fact in alike[gold_fact["id"]] if _is_intent(gold_fact) or not _is_intent(fact)
                ]
            )
            and not any(fact["state"] == "current" or _is_ahead(fact, last) for fact in alike_facts)
        ),
        missing=tuple(gold_fact["says"] for gold_fact in gold_facts["facts"] if not matches[gold_fact["id"]]),
        forbidden=tuple(
            fact["text"] for no in gold_facts["never"] for fact in asserted if _says(fact["text"], no["must"])
        ),
    )


def _make_row(name: str, score: Score) -> list[str]:
    shares = [f"{share:.3f}" for share in (score.recall, score.precision, score.verified)]
    counts = [score.changes, len(score.missed_changes), len(score.wrong_changes)]
    return [name, str(score.facts), str(score.gold), *shares, *map(str, counts)]


def _holds(fact: Mapping[str, Any], now: datetime) -> bool:
    """Whether the memory holds it for true at this time, with no end in sight."""
    is_over = fact["until"] is not None and fact["until"] <= now.timestamp()
    return fact["state"] == "current" and not is_over and not fact["stale"]


def _is_ahead(fact: Mapping[str, Any], now: datetime) -> bool:
    """Whether it ended, but later than this."""
    return fact["state"] == "superseded" and fact["until"] is not None and fact["until"] > now.timestamp()


def _is_intent(fact: Mapping[str, Any]) -> bool:
    return fact["modality"] in ("planned", "hypothetical")


def _says(text: str, must: Sequence[str]) -> bool:
    return all(any(words in text.lower() for words in entry.split("|")) for entry in must)


async def main() -> None:
    table = Table(title="Recorded replies of a language model, against gold facts")
    for column in ("conversation", "facts", "gold", "recall", "precision", "verified", "changes", "missed", "wrong"):
        table.add_column(column, justify="left" if column == "conversation" else "right")
    notes: list[str] = []
    total: Score | None = None
    async with server.serve("Replies") as (settings, which):
        for name in NAMES:
            score = score_facts(name, *await remember_conversation(settings, name))
            table.add_row(*_make_row(name, score))
            total = total + score if total else score
            for kind in ("missing", "missed_changes", "wrong_changes", "forbidden"):
                notes += [f"{name}, {kind.replace('_', ' ')}: {text}" for text in getattr(score, kind)]
            notes += [
                f"{name}: {prompt} changed since it was recorded" for prompt in load_recording(name).stale_prompts
            ]
    table.add_section()
    if total:
        table.add_row(*_make_row("all", total))
    bars = (f"≥ {BARS[bar]:.2f}" for bar in ("recall", "precision", "verified"))
    table.add_row("asked", "", "", *bars, "", f"≤ {BARS['missed changes']:.0%}", "0")
    console = machine.make_console()
    console.print(table)
    for note in notes:
        console.print(note, highlight=False, soft_wrap=True)
    console.print(f"server: {which}; load {machine.read_load()}")


if __name__ == "__main__":
    asyncio.run(main())
