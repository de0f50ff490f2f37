"""``python -m benchmarks.quality.folds --locomo PATH``: weights for each conversation, chosen without it.

What a search weighs is recorded once; then many weights, the shipped ones with some of them changed at random, rank the
same candidates. For each of LoCoMo's conversations those are taken that answer the others best, among such as leave
chats and updates no worse than the shipped ones do; what they give on the conversation that was left out is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService, Weights
from adk_graph_memory.language.text import digest
from adk_graph_memory.retrieval.ranking import Ranking
from adk_graph_memory.runtime.settings import Settings
from benchmarks import machine, server
from benchmarks.quality import changes, chats, ingest, locomo, scores, updates
from benchmarks.quality.dialogue import Conversation, Question

APP = "folds"
TRIES = 60
"""Weights that are tried."""
FACTORS = (0.0, 0.5, 0.75, 1.25, 1.5, 2.0)
"""What a weight is changed by."""
DEPTH = 10
SLACK = 0.002
"""What chats and updates may lose: less than one answer."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question with all that a search weighs for it; ``turns`` are those that each memory rests on."""

    conversation: str
    question: Question
    ranking: Ranking
    turns: Mapping[str, Sequence[str]]


class Quality(NamedTuple):
    """Recall and nDCG, each between 0 and 1, and the share of changes whose right answer stands first."""

    recall: float
    ndcg: float
    first: float


async def record(memory: GraphMemory, conversations: Sequence[Conversation], app_name: str) -> list[Case]:
    """A case for each question that has an answer."""
    cases = []
    for conversation in conversations:
        ids = {
            f"event:{digest(session.id, turn.id)}": turn.id
            for session in conversation.sessions
            for turn in session.turns
        }
        retriever = await memory.user(app_name, conversation.id).make_retriever()
        for question in (question for question in conversation.questions if question.evidence):
            parsed_question = retriever.parse_question(question.text)
            embedding, retriever.slot, _ = await memory.engine.vectors.embed_question(
                parsed_question.first_person_text, parsed_question.typed_text
            )
            ranking, _ = await asyncio.to_thread(retriever.find_candidates, question.text, parsed_question, embedding)
            turns = {
                candidate.id: [ids[id] for id in candidate.turn_ids or (candidate.id,)]
                for candidate in ranking.candidates
            }
            cases.append(Case(conversation.id, question, ranking, turns))
    return cases


def answer(case: Case, weights: Weights) -> Quality:
    """How well a question is answered with these weights."""
    return measure(case, [one.id for one in case.ranking.rank_candidates(weights, datetime.now(UTC).timestamp())])


def measure(case: Case, ranked: Sequence[str]) -> Quality:
    """How well a question is answered by memories in this order."""
    turns = list(dict.fromkeys(turn for id in ranked[: 2 * DEPTH] for turn in case.turns[id]))
    evidence = case.question.evidence
    return Quality(
        scores.measure_recall(turns[:DEPTH], evidence),
        scores.measure_ndcg(turns[:DEPTH], evidence, DEPTH),
        float(scores.find_place(turns, evidence) == 0),
    )


def average(answers: Sequence[Quality]) -> Quality:
    """Of all questions."""
    return Quality(*map(statistics.fmean, zip(*answers, strict=True)))


def vary_weights(count: int) -> Iterator[Weights]:
    """The shipped weights, then others, always the same."""
    chance, shipped = random.Random(0), Weights()
    yield shipped
    for _ in range(count):
        names = chance.sample([field.name for field in fields(Weights)], chance.randint(1, 4))
        yield replace(shipped, **{name: chance.choice(FACTORS) * getattr(shipped, name) for name in names})


async def record_cases(settings: Settings, data_sets: Mapping[str, Sequence[Conversation]]) -> dict[str, list[Case]]:
    """Tells memory each set, and records its questions."""
    recorded = {}
    for name, conversations in data_sets.items():
        print(f"{name} …", file=sys.stderr, flush=True)
        model = changes.make_reader(conversations) if name == "updates" else "rules"
        memory = GraphMemory(settings=settings, model=model)
        async with Neo4jSessionService(settings=settings) as sessions, memory:
            service = Neo4jMemoryService(memory=memory)
            for conversation in conversations:
                await ingest.remember(conversation, sessions, service, app_name=name)
            recorded[name] = await record(memory, conversations, name)
    return recorded


def make_fold_table(recorded: Mapping[str, Sequence[Case]]) -> Table:
    """A line for each of LoCoMo's conversations, and their mean."""
    table = Table(title="Weights chosen without the conversation that they are measured on, percent")
    for column in ("left out", "questions", "R", "nDCG", "R shipped", "nDCG shipped", "changed"):
        table.add_column(column, justify="left" if column in ("left out", "changed") else "right")
    tried = list(vary_weights(TRIES))
    answers = {
        name: [[answer(case, weights) for case in cases] for weights in tried] for name, cases in recorded.items()
    }
    others = {name: list(map(average, lists)) for name, lists in answers.items() if name != "locomo"}
    allowed = [
        number
        for number in range(len(tried))
        if all(
            now >= shipped - SLACK
            for of_set in others.values()
            for now, shipped in zip(of_set[number], of_set[0], strict=True)
        )
    ]
    cases, left = recorded["locomo"], list[tuple[Quality, Quality]]()
    for name in dict.fromkeys(case.conversation for case in cases):
        is_in = [case.conversation == name for case in cases]
        without = {
            n: average([one for one, out in zip(answers["locomo"][n], is_in, strict=True) if not out]) for n in allowed
        }
        best = max(allowed, key=lambda n: without[n].recall + without[n].ndcg)
        got, shipped = ([one for one, out in zip(answers["locomo"][n], is_in, strict=True) if out] for n in (best, 0))
        left += zip(got, shipped, strict=True)
        table.add_row(
            name,
            str(len(got)),
            *format_percent(average(got)),
            *format_percent(average(shipped)),
            _list_changes(tried[best]),
        )
    table.add_section()
    chosen, shipped = zip(*left, strict=True)
    table.add_row("all", str(len(left)), *format_percent(average(chosen)), *format_percent(average(shipped)), "")
    return table


def make_ablation_table(cases: Sequence[Case]) -> Table:
    """A line for each weight: what is found without it."""
    table = Table(title="Without each signal, percent")
    for column in ("without", "R", "nDCG"):
        table.add_column(column, justify="left" if column == "without" else "right")
    for field in fields(Weights):
        without = replace(Weights(), **{field.name: 0.0})
        table.add_row(field.name, *format_percent(average([answer(case, without) for case in cases])))
    return table


def format_percent(quality: Quality) -> list[str]:
    """Recall and nDCG, as a table shows them."""
    return [f"{100 * quality.recall:.1f}", f"{100 * quality.ndcg:.1f}"]


def _list_changes(weights: Weights) -> str:
    shipped = Weights()
    names = (field.name for field in fields(Weights) if getattr(weights, field.name) != getattr(shipped, field.name))
    return ", ".join(f"{name} {getattr(weights, name):g}" for name in names)


async def main(arguments: argparse.Namespace) -> None:
    before = machine.read_load()
    async with server.serve("Folds") as (settings, which):
        single = tuple(map(changes.name_predicate, range(300)))
        data_sets = {"locomo": locomo.load(arguments.locomo), "chats": chats.load(), "updates": updates.load()}
        recorded = await record_cases(settings.model_copy(update={"functional_predicates": single}), data_sets)
    console = machine.make_console()
    console.print(make_fold_table(recorded))
    console.print(make_ablation_table(recorded["locomo"]))
    machine.print_about(console, {"load before": before, "load after": machine.read_load(), "server": which})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.folds", description=__doc__)
    parser.add_argument("--locomo", type=Path, metavar="PATH", required=True, help="a file in LoCoMo's JSON format")
    asyncio.run(main(parser.parse_args()))
