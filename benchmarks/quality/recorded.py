"""``python -m benchmarks.quality.recorded``: questions to a memory that a language model has read, by recorded replies.

What rules read names nobody but who speaks; here facts are a model's, with entities, so that every signal can show what
it earns. The questions (``recorded.json``) were written from the conversations and their gold facts by somebody who
knew nothing of how they are searched; a gold fact's evidence are the turns that hold its quote.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

from rich.table import Table

from adk_graph_memory import GraphMemory, Weights
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.cli.demo.recorded_replies import RecordedLlm
from adk_graph_memory.runtime.settings import Settings
from benchmarks import machine, server
from benchmarks.quality import folds, replies
from benchmarks.quality.dialogue import Conversation, Question, Session, Turn

APP = "recorded"


def load(name: str) -> Conversation:
    """A recorded conversation with what is asked of it."""
    talk = replies.load_conversation(name)
    sessions = tuple(
        Session(
            session.id,
            tuple(
                Turn(event.id, spoken.author, spoken.text, spoken.at)
                for event, spoken in zip(session.make_events(), session.turns, strict=True)
            ),
        )
        for session in talk.sessions
    )
    asked = (
        Question(question.question, question.answer, question.kind, tuple(question.evidence))
        for question in talk.questions
        if question.evidence
    )
    return Conversation(name, sessions, tuple(asked) or tuple(_load_questions(name, sessions)))


def _load_questions(name: str, sessions: tuple[Session, ...]) -> Iterator[Question]:
    gold = {fact["id"]: fact for fact in replies.load_gold(name)["facts"]}
    for one in json.loads((replies.HERE / "recorded.json").read_text("utf-8"))["questions"][name]:
        facts = [gold[id] for id in one["gold"]]
        evidence = dict.fromkeys(
            turn.id
            for fact in facts
            for session in sessions
            for turn in session.turns
            if session.id in fact["sessions"] and fact["quote"] in turn.text
        )
        kind = f"{one['kind']}, {'names' if one['names'] else 'no name'}"
        yield Question(one["question"], one["answer"], kind, tuple(evidence))


async def record(settings: Settings, name: str) -> list[folds.Case]:
    """What a search weighs for each question, once the conversation is remembered session by session."""
    conversation, talk = load(name), replies.load_conversation(name)
    async with GraphMemory(settings=settings, model=RecordedLlm.from_recording(replies.load_recording(name))) as memory:
        for session in talk.sessions:
            turns = memory_codec.make_turns(session.make_events(), zone=talk.zone)
            await memory.remember(turns, app_name=APP, user_id=name, session_id=session.id)
        return await folds.record(memory, [conversation], APP)


async def main() -> None:
    before = machine.read_load()
    async with server.serve("Recorded") as (settings, which):
        cases = [case for name in replies.NAMES for case in await record(settings, name)]
    table = Table(title="Evidence found where a language model has read, percent")
    for column in ("questions", "n", "R", "nDCG"):
        table.add_column(column, justify="left" if column == "questions" else "right")
    kinds = {case.question.kind for case in cases if case.conversation != "demo"}
    some = {name: [case for case in cases if case.conversation == name] for name in replies.NAMES}
    some |= {kind: [case for case in cases if case.question.kind == kind] for kind in sorted(kinds)}
    for what, asked in (some | {"all": cases}).items():
        table.add_row(
            what,
            str(len(asked)),
            *folds.format_percent(folds.average([folds.answer(case, Weights()) for case in asked])),
        )
    console = machine.make_console()
    console.print(table)
    console.print(folds.make_ablation_table(cases))
    machine.print_about(console, {"load before": before, "load after": machine.read_load(), "server": which})


if __name__ == "__main__":
    asyncio.run(main())
