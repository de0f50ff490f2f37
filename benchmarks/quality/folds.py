"""``python -m benchmarks.quality.folds --locomo PATH``: weights for each conversation, chosen without it.

What a search weighs is recorded once; then many weights, the shipped ones with some of them changed at random, rank the
same candidates. For each conversation those are taken that answer the others best, be they read by rules (LoCoMo) or by
a model's recorded replies (the eight, and with ``--read FOLDER`` those of LoCoMo that have a recording in it), each set
as much as another, among such as leave chats and updates no worse than the shipped ones do. What they give on the
conversation that was left out is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from rich.table import Table

from adk_graph_memory import GraphMemory, Neo4jMemoryService, Neo4jSessionService, Weights
from adk_graph_memory.runtime.settings import Settings
from benchmarks import machine, server
from benchmarks.quality import changes, chats, ingest, locomo, recorded, replies, updates
from benchmarks.quality.cases import (
    Case,
    answer_case,
    average_qualities,
    format_percent,
    make_ablation_table,
    record_cases,
)
from benchmarks.quality.dialogue import Conversation

APP = "folds"
TRIES = 60
"""Weights that are tried."""
FACTORS = (0.0, 0.5, 0.75, 1.25, 1.5, 2.0)
"""What a weight is changed by."""
GUARDED = ("chats", "updates")
"""Sets that chosen weights must leave as good as they are."""
SLACK = 0.002
"""What chats and updates may lose: less than one answer."""


def vary_weights(count: int) -> Iterator[Weights]:
    """The shipped weights, then others, always the same."""
    chance, shipped = random.Random(0), Weights()
    yield shipped
    for _ in range(count):
        names = chance.sample([field.name for field in fields(Weights)], chance.randint(1, 4))
        yield replace(shipped, **{name: chance.choice(FACTORS) * getattr(shipped, name) for name in names})


async def remember_sets(settings: Settings, data_sets: Mapping[str, Sequence[Conversation]]) -> dict[str, list[Case]]:
    """Tell memory each set, and record its questions."""
    recorded_sets = {}
    for name, conversations in data_sets.items():
        print(f"{name} …", file=sys.stderr, flush=True)
        model = changes.make_reader(conversations) if name == "updates" else "rules"
        memory = GraphMemory(settings=settings, model=model)
        async with Neo4jSessionService(settings=settings) as sessions, memory:
            service = Neo4jMemoryService(memory=memory)
            for conversation in conversations:
                await ingest.remember(conversation, sessions, service, app_name=name)
            recorded_sets[name] = await record_cases(memory, conversations, name)
    return recorded_sets


def make_fold_table(recorded_sets: Mapping[str, Sequence[Case]]) -> Table:
    """A line for each conversation as it was read, and the mean of each set."""
    table = Table(title="Weights chosen without the conversation that they are measured on, percent")
    for column in ("left out", "questions", "R", "nDCG", "R shipped", "nDCG shipped", "changed"):
        table.add_column(column, justify="left" if column in ("left out", "changed") else "right")
    tried = list(vary_weights(TRIES))
    answers = {
        name: [[answer_case(case, weights) for case in cases] for weights in tried]
        for name, cases in recorded_sets.items()
    }
    allowed = [
        number
        for number in range(len(tried))
        if all(
            now >= shipped - SLACK
            for name in GUARDED
            for now, shipped in zip(*(average_qualities(answers[name][one]) for one in (number, 0)), strict=True)
        )
    ]
    fitted = {name: cases for name, cases in recorded_sets.items() if name not in GUARDED}

    def score_others(number: int, left_out: str) -> float:
        others = [
            [one for one, case in zip(answers[name][number], cases, strict=True) if case.conversation != left_out]
            for name, cases in fitted.items()
        ]
        qualities = [average_qualities(rest) for rest in others if rest]
        return statistics.fmean(quality.recall + quality.ndcg for quality in qualities)

    names = dict.fromkeys(case.conversation for cases in fitted.values() for case in cases)
    best = {name: max(allowed, key=lambda number: score_others(number, name)) for name in names}
    for name, cases in fitted.items():
        left = []
        for conversation in dict.fromkeys(case.conversation for case in cases):
            indexes = [index for index, case in enumerate(cases) if case.conversation == conversation]
            got = [answers[name][best[conversation]][index] for index in indexes]
            shipped = [answers[name][0][index] for index in indexes]
            left += zip(got, shipped, strict=True)
            table.add_row(
                conversation,
                str(len(indexes)),
                *format_percent(average_qualities(got)),
                *format_percent(average_qualities(shipped)),
                _list_changes(tried[best[conversation]]),
            )
        all_got, all_shipped = map(average_qualities, zip(*left, strict=True))
        table.add_row(f"all: {name}", str(len(left)), *format_percent(all_got), *format_percent(all_shipped), "")
        table.add_section()
    return table


def _list_changes(weights: Weights) -> str:
    shipped = Weights()
    names = (field.name for field in fields(Weights) if getattr(weights, field.name) != getattr(shipped, field.name))
    return ", ".join(f"{name} {getattr(weights, name):g}" for name in names)


async def main(arguments: argparse.Namespace) -> None:
    before = machine.read_load()
    async with server.serve("Folds") as (settings, which):
        single = tuple(map(changes.name_predicate, range(300)))
        data_sets = {"locomo": locomo.load(arguments.locomo), "chats": chats.load(), "updates": updates.load()}
        recorded_sets = await remember_sets(settings.model_copy(update={"functional_predicates": single}), data_sets)
        asked = {"recorded": [await recorded.ask_recorded(settings, name) for name in replies.NAMES]}
        if arguments.read:
            asked["locomo, read by a model"] = await recorded.ask_read(settings, arguments.locomo, arguments.read)
    recorded_sets |= {name: [case for one in told for case in one.cases] for name, told in asked.items()}
    console = machine.make_console()
    console.print(make_fold_table(recorded_sets))
    console.print(make_ablation_table(recorded_sets["locomo"]))
    machine.print_about(console, {"load before": before, "load after": machine.read_load(), "server": which})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.folds", description=__doc__)
    parser.add_argument("--locomo", type=Path, metavar="PATH", required=True, help="a file in LoCoMo's JSON format")
    parser.add_argument("--read", type=Path, metavar="FOLDER", help="recordings of its conversations, by their names")
    asyncio.run(main(parser.parse_args()))
