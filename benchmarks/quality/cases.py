"""Questions with all that a search weighs for them, recorded once, so that other weights can rank the same memories."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import NamedTuple

from rich.table import Table

from adk_graph_memory import GraphMemory, Weights
from adk_graph_memory.language.text import digest
from adk_graph_memory.retrieval.ranking import Ranking
from benchmarks.quality import scores
from benchmarks.quality.dialogue import Conversation, Question

DEPTH = 10


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


async def record_cases(memory: GraphMemory, conversations: Sequence[Conversation], app_name: str) -> list[Case]:
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


def answer_case(case: Case, weights: Weights) -> Quality:
    """How well a question is answered with these weights."""
    return measure_ranked(
        case, [one.id for one in case.ranking.rank_candidates(weights, datetime.now(UTC).timestamp())]
    )


def measure_ranked(case: Case, ranked: Sequence[str]) -> Quality:
    """How well a question is answered by memories in this order."""
    turns = list(dict.fromkeys(turn for id in ranked[: 2 * DEPTH] for turn in case.turns[id]))
    evidence = case.question.evidence
    return Quality(
        scores.measure_recall(turns[:DEPTH], evidence),
        scores.measure_ndcg(turns[:DEPTH], evidence, DEPTH),
        float(scores.find_place(turns, evidence) == 0),
    )


def average_qualities(answers: Sequence[Quality]) -> Quality:
    """Of all questions."""
    return Quality(*map(statistics.fmean, zip(*answers, strict=True)))


def format_percent(quality: Quality) -> list[str]:
    """Recall and nDCG, as a table shows them."""
    return [f"{100 * quality.recall:.1f}", f"{100 * quality.ndcg:.1f}"]


def make_ablation_table(cases: Sequence[Case]) -> Table:
    """A line for each weight: what is found without it."""
    table = Table(title="Without each signal, percent")
    for column in ("without", "R", "nDCG"):
        table.add_column(column, justify="left" if column == "without" else "right")
    for field in fields(Weights):
        without = replace(Weights(), **{field.name: 0.0})
        table.add_row(field.name, *format_percent(average_qualities([answer_case(case, without) for case in cases])))
    return table
