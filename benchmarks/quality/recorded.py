"""``python -m benchmarks.quality.recorded``: questions to a memory that a language model has read, by recorded replies.

What rules read names nobody but who speaks; here facts are a model's, with entities, so that every signal can show what
it earns. The questions (``recorded.json``) were written from the conversations and their gold facts by somebody who
knew nothing of how they are searched; a gold fact's evidence are the turns that hold its quote. ``--locomo PATH --read
FOLDER`` adds those conversations of LoCoMo whose recording is in the folder, in a file with the conversation's name.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from google.adk.memory.memory_entry import MemoryEntry
from rich.table import Table

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.cli.demo.recorded_replies import RecordedLlm, load_recording
from adk_graph_memory.retrieval.candidates import SearchCandidate
from adk_graph_memory.runtime.settings import Settings
from benchmarks import machine, server
from benchmarks.quality import ingest, locomo, replies
from benchmarks.quality.answers import Answer, ask_questions
from benchmarks.quality.cases import (
    DEPTH,
    Case,
    Quality,
    average_qualities,
    format_percent,
    make_ablation_table,
    measure_ranked,
    record_cases,
)
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


class Asked(NamedTuple):
    """The answers to a conversation's questions, and what a search weighed for each."""

    name: str
    answers: Sequence[Answer]
    cases: Sequence[Case]


async def ask(memory: GraphMemory, conversation: Conversation) -> Asked:
    """Ask a conversation's questions, once it is remembered."""

    async def search(user_id: str, query: str) -> list[MemoryEntry]:
        memories = await memory.recall(query, app_name=APP, user_id=user_id)
        return [memory_codec.make_memory_entry(one) for one in memories]

    answers = await ask_questions(search, [conversation], first=DEPTH)
    return Asked(conversation.id, answers, await record_cases(memory, [conversation], APP))


async def ask_recorded(settings: Settings, name: str) -> Asked:
    """Remember a recorded conversation session by session, and ask."""
    talk = replies.load_conversation(name)
    async with GraphMemory(settings=settings, model=RecordedLlm.from_recording(replies.load_recording(name))) as memory:
        for session in talk.sessions:
            turns = memory_codec.make_turns(session.make_events(), zone=talk.zone)
            await memory.remember(turns, app_name=APP, user_id=name, session_id=session.id)
        return await ask(memory, load(name))


async def ask_locomo(settings: Settings, conversation: Conversation, recording: Path) -> Asked:
    """Tell a conversation of LoCoMo to the services, read by a recording, and ask."""
    model = RecordedLlm.from_recording(load_recording(recording))
    async with (
        Neo4jSessionService(settings=settings) as sessions,
        GraphMemory(settings=settings, model=model) as memory,
    ):
        await ingest.remember(conversation, sessions, Neo4jMemoryService(memory=memory), app_name=APP)
        return await ask(memory, conversation)


async def ask_read(settings: Settings, path: Path, folder: Path) -> list[Asked]:
    """Ask the conversations of a file in LoCoMo's format that have a recording in the folder."""
    recordings = _list_recordings(folder)
    return [
        await ask_locomo(settings, conversation, recordings[conversation.id])
        for conversation in locomo.load(path)
        if conversation.id in recordings
    ]


def _list_recordings(folder: Path) -> dict[str, Path]:
    return {recording.stem: recording for recording in folder.glob("*.json")}


def score_facts(candidate: SearchCandidate) -> float | None:
    """By cosine, over facts alone."""
    return candidate.vector_score if candidate.kind == "fact" else None


def score_both(candidate: SearchCandidate) -> float | None:
    """By cosine and BM25, over facts and turns."""
    return None if candidate.vector_score is None else candidate.vector_score + 0.03 * (candidate.text_score or 0.0)


def answer_plainly(case: Case, score: Callable[[SearchCandidate], float | None]) -> Quality:
    """How well a question is answered by this score alone, each turn counting once."""
    scores = {one.id: points for one in case.ranking.candidates if (points := score(one)) is not None}
    return measure_ranked(case, sorted(scores, key=lambda id: -scores[id]))


def make_row(what: str, answers: Sequence[Answer]) -> list[str]:
    """n, then R, nDCG, R within 384 and 1,024 tokens and how often the first memory answers, in percent."""
    shares = (
        [answer.recall for answer in answers],
        [answer.ndcg for answer in answers],
        [answer.recall_in_few_tokens for answer in answers],
        [answer.recall_in_tokens for answer in answers],
        [float(answer.place == 0) for answer in answers],
    )
    return [what, str(len(answers)), *(f"{100 * statistics.fmean(share):.1f}" for share in shares)]


def make_table(asked: Sequence[Asked], kinds: Mapping[str, Sequence[Answer]]) -> Table:
    """A line for each conversation and each kind of question, and two ways to search that need no graph."""
    table = Table(title="Evidence found where a language model has read, percent")
    for column in ("questions", "n", "R", "nDCG", "in 384", "in 1,024", "first"):
        table.add_column(column, justify="left" if column == "questions" else "right")
    for one in asked:
        table.add_row(*make_row(one.name, one.answers))
    table.add_section()
    for kind, answers in kinds.items():
        table.add_row(*make_row(kind, answers))
    table.add_section()
    cases = [case for one in asked for case in one.cases]
    for what, score in (("cosine over facts", score_facts), ("cosine + .03 BM25 over both", score_both)):
        quality = average_qualities([answer_plainly(case, score) for case in cases])
        first = f"{100 * quality.first:.1f}"
        table.add_row(f"all, {what}", str(len(cases)), *format_percent(quality), "", "", first)
    return table


async def main(arguments: argparse.Namespace) -> None:
    before = machine.read_load()
    async with server.serve("Recorded") as (settings, which):
        asked = [await ask_recorded(settings, name) for name in replies.NAMES]
        told = await ask_read(settings, arguments.locomo, arguments.read) if arguments.read else []
    kinds: dict[str, list[Answer]] = {}
    for answer in (answer for one in asked for answer in one.answers):
        kinds.setdefault(answer.kind if "," in answer.kind else "the demo's", []).append(answer)
    kinds["all"] = [answer for one in asked for answer in one.answers]
    console = machine.make_console()
    console.print(make_table(asked, kinds))
    if told:
        console.print(make_table(told, {"all of LoCoMo": [answer for one in told for answer in one.answers]}))
    console.print(make_ablation_table([case for one in (*asked, *told) for case in one.cases]))
    machine.print_about(console, {"load before": before, "load after": machine.read_load(), "server": which})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.recorded", description=__doc__)
    parser.add_argument("--locomo", type=Path, metavar="PATH", help="a file in LoCoMo's JSON format")
    parser.add_argument("--read", type=Path, metavar="FOLDER", help="recordings of its conversations, by their names")
    given = parser.parse_args()
    if (given.locomo is None) != (given.read is None) or (given.read and not given.read.is_dir()):
        parser.error("--locomo PATH needs --read FOLDER, a folder of recordings, and --read needs --locomo")
    asyncio.run(main(given))
