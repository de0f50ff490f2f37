"""Ask questions whose evidence is known, and measure how well a search answers them."""

from __future__ import annotations

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from google.adk.memory.memory_entry import MemoryEntry

from benchmarks.percentile import compute_percentile
from benchmarks.quality import scores
from benchmarks.quality.dialogue import Conversation, Question

Search = Callable[[str, str], Awaitable[Sequence[MemoryEntry]]]
"""From a user's id and a question to what is found, best first."""
TOKENS, FEW_TOKENS = 1_024, 384


@dataclass(frozen=True, slots=True)
class Answer:
    """How well one question was answered, and how fast; without evidence there is only the first score and the doubt.

    ``place`` is that of the first evidence, from 0; ``misleads`` tells whether an outdated turn stands among the first
    without saying so, or before what took its place.
    """

    kind: str
    recall: float
    ndcg: float
    recall_in_tokens: float
    recall_in_few_tokens: float
    is_in_order: bool | None
    misleads: bool | None
    place: float
    score: float
    milliseconds: float
    is_doubted: bool
    """whether nothing was found, or each memory says that it may not answer"""


async def ask_questions(search: Search, conversations: Sequence[Conversation], *, first: int) -> list[Answer]:
    """An answer for each question, the conversation's id being its user's."""
    return [
        await _ask_question(search, conversation.id, question, first)
        for conversation in conversations
        for question in conversation.questions
    ]


async def _ask_question(search: Search, user_id: str, question: Question, first: int) -> Answer:
    start = time.perf_counter()
    memories = await search(user_id, question.text)
    milliseconds = (time.perf_counter() - start) * 1_000
    ids = scores.list_event_ids(memories)
    affordable, few = (scores.list_event_ids(scores.take_within(memories, size)) for size in (TOKENS, FEW_TOKENS))
    about_first = (memories[0].custom_metadata or {}) if memories else {}
    score, is_doubted = float(about_first.get("score", 0.0)), not memories or bool(about_first.get("doubtful"))
    if not (evidence := question.evidence):
        return Answer(question.kind, 0.0, 0.0, 0.0, 0.0, None, None, math.inf, score, milliseconds, is_doubted)
    return Answer(
        question.kind,
        scores.measure_recall(ids[:first], evidence),
        scores.measure_ndcg(ids[:first], evidence, first),
        scores.measure_recall(affordable, evidence),
        scores.measure_recall(few, evidence),
        scores.find_place(ids, evidence) < scores.find_place(ids, question.outdated) if question.outdated else None,
        scores.misleads(memories[:first], evidence, question.outdated) if question.outdated else None,
        scores.find_place(ids, evidence),
        score,
        milliseconds,
        is_doubted,
    )


def format_cells(answers: Sequence[Answer]) -> list[str]:
    """n, recall, nDCG and recall within the tokens in percent, p50 and p95 in milliseconds."""
    shares = [statistics.fmean(getattr(a, name) for a in answers) for name in ("recall", "ndcg", "recall_in_tokens")]
    times = [compute_percentile([answer.milliseconds for answer in answers], share) for share in (0.50, 0.95)]
    return [str(len(answers)), *(f"{100 * share:.1f}" for share in shares), *(f"{value:.1f}" for value in times)]


def group_by_kind(answers: Sequence[Answer]) -> Mapping[str, list[Answer]]:
    """All of them, then those of each kind."""
    kinds: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        kinds["all"].append(answer)
        kinds[answer.kind].append(answer)
    return kinds if len(kinds) > 2 else {"all": kinds["all"]}


def measure_order(answers: Sequence[Answer]) -> float:
    """The share of changes whose current statement stands before the outdated one."""
    return statistics.fmean(answer.is_in_order for answer in answers if answer.is_in_order is not None)


def list_misled(answers: Sequence[Answer]) -> list[bool]:
    """Of each change whether an outdated turn passes for what is so."""
    return [answer.misleads for answer in answers if answer.misleads is not None]


def measure_first(answers: Sequence[Answer]) -> float:
    """The share of changes whose current statement stands first of all."""
    return statistics.fmean(answer.place == 0 for answer in answers if answer.is_in_order is not None)


def count_fallen(before: Sequence[Answer], after: Sequence[Answer]) -> int:
    """How many answers stand more than one place lower than before."""
    pairs = zip(before, after, strict=True)
    return sum(new.place > old.place + 1 for old, new in pairs if math.isfinite(old.place))


def measure_recognition(answers: Sequence[Answer], *, unanswerable: str, false_alarms: float) -> float:
    """The share of unanswerable questions below the score that leaves out this share of the others."""
    good = sorted(answer.score for answer in answers if answer.kind != unanswerable)
    least = good[int(false_alarms * len(good))]
    bad = [answer.score for answer in answers if answer.kind == unanswerable]
    return sum(score < least for score in bad) / len(bad)
