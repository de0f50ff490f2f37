"""``python -m benchmarks.quality.answers_read``: what a language model answers from a search's results alone.

``collect FILE --locomo PATH --read FOLDER`` adds to a file what each system finds for questions drawn from these
conversations; run in a checkout of another commit, with ``--label``, it adds that commit's. ``ask FILE --model NAME``
has a model answer each question from one system's text at a time, then judge all answers to a question at once, not
knowing whose they are. With ``--folder FOLDER`` in place of a model, prompts are laid down there and replies awaited.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, get_args

from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from pydantic import BaseModel
from rich.table import Table

from adk_graph_memory import Filters, GraphMemory, Limits, Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.cli.demo.recorded_replies import RecordedLlm, load_recording
from adk_graph_memory.language.text import count_tokens
from adk_graph_memory.memory.user_memory import UserMemory
from adk_graph_memory.models import llm
from adk_graph_memory.records.results import Recollection
from adk_graph_memory.records.turns import MemoryKind
from adk_graph_memory.retrieval.packing import pack_recollections
from adk_graph_memory.runtime.settings import Settings
from benchmarks import machine, server
from benchmarks.quality import ingest, locomo, scores
from benchmarks.quality.cases import Case, record_cases
from benchmarks.quality.dialogue import Conversation
from benchmarks.quality.record import PATIENCE, AskingLlm

APP = "answers"
BUDGETS = (256, 384, 1_024)
ALONE = {"words only": "text_score", "vectors only": "vector_score"}
"""What ranks facts and turns by itself: BM25, and the cosine."""
EVERYTHING = 100_000
"""More memories, and more tokens, than a conversation has."""
RESAMPLES = 2_000
MOST_WORDS = 15
ANSWERING = f"""\
Answer each question from the notes given with it and from nothing else, in at most {MOST_WORDS} words. What you may
know otherwise, and the notes of other questions, do not count. A note begins with the day on which it was said and with
whose word it is. If the notes do not say it, the answer is "not known". Reply with JSON:
{{"answers": [{{"number": 0, "answer": "…"}}]}}
"""
JUDGING = """\
Judge answers to questions by the right answer. An answer is right if it says the same, in whatever words; a date may be
as precise as the right one or more, and more than was asked does no harm unless it contradicts. Reply with JSON, for
each question the numbers of its right answers: {"verdicts": [{"number": 0, "right": [0, 2]}]}
"""


class Given(NamedTuple):
    """What a system gives for a question within a budget of tokens; ``lines`` are how many memories."""

    question: str
    gold: str
    system: str
    budget: int
    lines: int
    text: str


class AnswerReply(BaseModel):
    number: int
    answer: str


class AnswersReply(BaseModel):
    answers: list[AnswerReply] = []


class VerdictReply(BaseModel):
    number: int
    right: list[int] = []


class VerdictsReply(BaseModel):
    verdicts: list[VerdictReply] = []


def draw_questions(conversations: Sequence[Conversation], count: int, seed: int) -> list[Conversation]:
    """The conversations, each with those of its questions that are drawn."""
    asked = [(one.id, question) for one in conversations for question in one.questions]
    drawn = random.Random(seed).sample(asked, min(count, len(asked)))
    return [replace(one, questions=tuple(question for id, question in drawn if id == one.id)) for one in conversations]


def format_entry(entry: MemoryEntry) -> str:
    """A line as an agent reads it: the day, whose word it is, the text."""
    text = " ".join(part.text or "" for part in entry.content.parts or ())
    return f"- {(entry.timestamp or '')[:10]} {entry.author}: {text}"


async def search_plainly(user: UserMemory, case: Case) -> dict[str, list[MemoryEntry]]:
    """What words or vectors find by themselves, worded and cut as our own search does.

    Facts that ended and turns that say nothing are left out, as there; a fact whose turn is found too is not.
    """
    question, memories = case.question.text, dict[str, Recollection]()
    for kind in get_args(MemoryKind):  # together, a fact would take its turn's place
        everything = await user.recall(question, limit=EVERYTHING, token_budget=EVERYTHING, filters=Filters(kind=kind))
        memories |= {memory.id: memory for memory in everything}
    settings, found = user.engine.connection.settings, dict[str, list[MemoryEntry]]()
    for system, field in ALONE.items():
        scored = {one.id: getattr(one, field) for one in case.ranking.candidates if one.id in memories}
        ranked = sorted((id for id in scored if scored[id] is not None), key=lambda id: (-scored[id], id))
        packed = pack_recollections(
            [memories[id] for id in ranked],
            query=question,
            limit=settings.memory_max_results,
            token_budget=settings.token_budget,
        )
        found[system] = [memory_codec.make_memory_entry(memory) for memory in packed]
    return found


async def collect_texts(settings: Settings, conversation: Conversation, recording: Path) -> list[Given]:
    """What an agent finds, what the same search finds uncut, and what words or vectors find by themselves."""
    given: list[Given] = []
    model = RecordedLlm.from_recording(load_recording(recording))
    async with (
        Neo4jSessionService(settings=settings) as sessions,
        GraphMemory(settings=settings, model=model) as memory,
    ):
        service = Neo4jMemoryService(memory=memory)
        await ingest.remember(conversation, sessions, service, app_name=APP)
        user = memory.user(APP, conversation.id)
        for case in await record_cases(memory, [conversation], APP):
            question = case.question
            cut = (await service.search_memory(app_name=APP, user_id=conversation.id, query=question.text)).memories
            uncut = [memory_codec.make_memory_entry(one) for one in await user.recall(question.text)]
            found = {"ours": cut, "ours, uncut": uncut, **await search_plainly(user, case)}
            for system, entries in found.items():
                for budget in BUDGETS:
                    kept = scores.take_within(entries, budget)
                    text = "\n".join(map(format_entry, kept))
                    given.append(Given(question.text, question.answer, system, budget, len(kept), text))
    return given


def make_batches(given: Sequence[Given], size: int, seed: int) -> list[list[Given]]:
    """Each text once, shuffled, in batches in which no question stands twice and nothing tells whose text it is.

    Where two systems give the same, or a budget is not used up, a second answer would differ by chance alone.
    """
    batches: list[list[Given]] = []
    distinct = list({(one.question, one.text): one for one in given}.values())
    for one in random.Random(seed).sample(distinct, len(distinct)):
        room = (
            batch for batch in batches if len(batch) < size and all(one.question != other.question for other in batch)
        )
        if (batch := next(room, None)) is None:
            batches.append(batch := [])
        batch.append(one)
    return batches


def format_questions(batch: Sequence[Given]) -> str:
    """The prompt that a model answers."""
    parts = (f"# Question {number}\n{one.question}\n{one.text or '(no notes)'}" for number, one in enumerate(batch))
    return "\n\n".join([ANSWERING, *parts])


def format_answers(batch: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    """The prompt that a model judges by; of each question its text, the right answer and what was answered."""
    lines = [JUDGING]
    for number, (question, gold, answers) in enumerate(batch):
        lines.append(f"\n# Question {number}\n{question}\nRight: {gold}")
        lines += [f"{place}: {answer}" for place, answer in enumerate(answers)]
    return "\n".join(lines)


async def answer_batch(model: BaseLlm, limits: Limits, batch: Sequence[Given]) -> dict[tuple[str, str], str]:
    """What the model answers to each question from each text; "not known" where it leaves an answer out."""
    reply = (await llm.generate_structured(model, format_questions(batch), AnswersReply, limits)).reply
    said = {one.number: " ".join(one.answer.split()[:MOST_WORDS]) for one in reply.answers}
    return {(one.question, one.text): said.get(number, "not known") for number, one in enumerate(batch)}


async def judge_answers(
    model: BaseLlm, limits: Limits, answers: Mapping[Given, str], size: int, seed: int
) -> dict[Given, bool]:
    """Whether each answer is right; equal answers to a question are judged once, all others side by side."""
    chance = random.Random(seed)
    distinct: dict[tuple[str, str], list[str]] = {}
    for one, said in answers.items():
        if said.lower().strip(". ") != "not known":
            known = distinct.setdefault((one.question, one.gold), [])
            known += [] if said in known else [said]
    asked = [(*question, chance.sample(said, len(said))) for question, said in distinct.items()]
    batches = [asked[start : start + size] for start in range(0, len(asked), size)]
    replies = await asyncio.gather(
        *(llm.generate_structured(model, format_answers(batch), VerdictsReply, limits) for batch in batches)
    )
    right = {
        (batch[verdict.number][0], batch[verdict.number][2][place])
        for batch, reply in zip(batches, replies, strict=True)
        for verdict in reply.reply.verdicts
        for place in verdict.right
        if 0 <= verdict.number < len(batch) and 0 <= place < len(batch[verdict.number][2])
    }
    return {one: (one.question, said) in right for one, said in answers.items()}


def compare_systems(
    right: Mapping[Given, bool], first: tuple[str, int], second: tuple[str, int]
) -> tuple[float, float, float]:
    """How much more of the questions the first system answers, in percent, with a 95 % interval."""
    shares = [
        {one.question: ok for one, ok in right.items() if (one.system, one.budget) == which}
        for which in (first, second)
    ]
    gains = [100.0 * (shares[0][question] - ok) for question, ok in shares[1].items() if question in shares[0]]
    chance = random.Random(0)
    means = sorted(statistics.fmean(chance.choices(gains, k=len(gains))) for _ in range(RESAMPLES))
    return statistics.fmean(gains), means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]


def list_pairs(systems: Sequence[tuple[str, int]]) -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """Ours with every other system of its budget, and ours with few tokens and with many."""
    for budget in BUDGETS:
        if ("ours", budget) in systems:
            yield from ((("ours", budget), other) for other in systems if other[1] == budget and other[0] != "ours")
            if budget != BUDGETS[-1]:
                yield ("ours", budget), ("ours", BUDGETS[-1])


def make_tables(right: Mapping[Given, bool], answers: Mapping[Given, str]) -> list[Table]:
    """A line for each system and budget, and one for each pair that is compared.

    A budget counts the memories' text; the last column is the median of all tokens that the model reads.
    """
    shares = Table(title="Answered right, percent")
    for column in ("system", "tokens", "n", "right", "not known", "memories, median", "with days and names"):
        shares.add_column(column, justify="left" if column == "system" else "right")
    systems = sorted({(one.system, one.budget) for one in right})
    for system, budget in systems:
        own = [one for one in right if (one.system, one.budget) == (system, budget)]
        unknown = [answers[one].lower().startswith("not known") for one in own]
        sizes = [one.lines for one in own], [count_tokens(one.text) for one in own]
        percent = [f"{100 * statistics.fmean(some):.1f}" for some in ([right[one] for one in own], unknown)]
        medians = [f"{statistics.median(some):.0f}" for some in sizes]
        shares.add_row(system, f"{budget:,}", str(len(own)), *percent, *medians)
    pairs = Table(title="Paired difference, percent points")
    for column in ("first", "second", "difference", "95 %"):
        pairs.add_column(column, justify="left" if column in ("first", "second") else "right")
    for first, second in list_pairs(systems):
        mean, low, high = compare_systems(right, first, second)
        names = (f"{system}, {budget:,}" for system, budget in (first, second))
        pairs.add_row(*names, f"{mean:+.1f}", f"{low:+.1f} to {high:+.1f}")
    return [shares, pairs]


async def run_collect(arguments: argparse.Namespace) -> None:
    recordings = {path.stem: path for path in sorted(arguments.read.glob("*.json"))}
    conversations = [one for one in locomo.load(arguments.locomo) if one.id in recordings]
    if not conversations:
        raise SystemExit(f"no conversation of {arguments.locomo} has a recording of its name in {arguments.read}")
    rows: list[Given] = []
    async with server.serve_own("Answers") as (settings, _):  # another commit's schema may differ
        for conversation in draw_questions(conversations, arguments.questions, arguments.seed):
            given = await collect_texts(settings, conversation, recordings[conversation.id])
            rows += [one._replace(system=f"{one.system}{arguments.label}") for one in given]
    earlier = map(Given._make, json.loads(arguments.file.read_text("utf-8")) if arguments.file.exists() else ())
    collected = {one.system for one in rows}
    kept = [one for one in earlier if one.system not in collected]
    arguments.file.write_text(json.dumps([*kept, *rows], ensure_ascii=False, indent=0), "utf-8")


async def run_ask(arguments: argparse.Namespace) -> None:
    given = [Given(*row) for row in json.loads(arguments.file.read_text("utf-8"))]
    chosen = [one for one in given if not arguments.only or f"{one.system}/{one.budget}" in arguments.only]
    if not chosen:
        known = ", ".join(sorted({f"{one.system}/{one.budget}" for one in given}))
        raise SystemExit(f"{arguments.file} has none of the systems to ask; it has {known or 'no texts'}")
    batches = make_batches(chosen, arguments.batch, arguments.seed)
    model: BaseLlm
    if arguments.folder:  # all prompts lie there at once
        limits = Limits(model_timeout=PATIENCE, model_concurrency=len(batches))
        model = AskingLlm.from_folder(arguments.folder)
    else:
        model, limits = llm.resolve_model(arguments.model), Limits()
    parts = await asyncio.gather(*(answer_batch(model, limits, batch) for batch in batches))
    said = {key: text for part in parts for key, text in part.items()}
    answers = {one: said[one.question, one.text] for one in chosen}
    right = await judge_answers(model, limits, answers, 2 * arguments.batch, arguments.seed)
    console = machine.make_console()
    for table in make_tables(right, answers):
        console.print(table)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.answers_read", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting, asking = commands.add_parser("collect"), commands.add_parser("ask")
    for one in (collecting, asking):
        one.add_argument("file", type=Path, help="where the systems' texts are")
        one.add_argument("--seed", type=int, default=41)
    collecting.add_argument("--locomo", type=Path, required=True, help="a file in LoCoMo's JSON format")
    collecting.add_argument("--read", type=Path, required=True, help="recordings of its conversations, by their names")
    collecting.add_argument("--questions", type=int, default=150)
    collecting.add_argument("--label", default="", help="what the systems' names end with, such as ', before'")
    model = asking.add_mutually_exclusive_group(required=True)
    model.add_argument("--model", help="a model's name, as ADK knows it")
    model.add_argument("--folder", type=Path, help="where prompts are laid down and replies awaited")
    asking.add_argument("--batch", type=int, default=15, help="questions in a prompt")
    asking.add_argument("--only", nargs="*", help="systems and budgets, such as 'ours/384'")
    given = parser.parse_args()
    if given.command == "collect" and (not given.read.is_dir() or given.questions < 1):
        parser.error("collect needs --read FOLDER, a folder of recordings, and at least one question")
    if given.command == "ask" and (not given.file.is_file() or given.batch < 1):
        parser.error("ask needs the file that collect wrote, and at least one question in a prompt")
    return given


if __name__ == "__main__":
    given_arguments = parse_arguments()
    asyncio.run((run_collect if given_arguments.command == "collect" else run_ask)(given_arguments))
