"""The benchmark of answers: what is drawn, what a prompt tells of its systems, and that verdicts find their answers."""

from __future__ import annotations

import json
import re

from benchmarks.quality.answers_read import (
    Given,
    answer_batch,
    compare_systems,
    draw_questions,
    format_questions,
    judge_answers,
    make_batches,
)
from benchmarks.quality.dialogue import Conversation, Question
from google.adk.models.llm_request import LlmRequest

from adk_graph_memory import Limits
from adk_graph_memory.testing import ScriptedLlm

SYSTEMS = ("ours", "words only")
ASKED = [(f"What is {number} called?", f"name {number}") for number in range(6)]
GIVEN = [
    Given(question, gold, system, 256, 1, f"- 2026-05-04 ana: it is {gold} / {system[:1]}")
    for question, gold in ASKED
    for system in SYSTEMS
]


def test_the_same_questions_are_drawn_and_each_stays_with_its_conversation() -> None:
    conversations = [
        Conversation(id, (), tuple(Question(f"{id} {number}?", "x", "k", ("t",)) for number in range(20)))
        for id in ("a", "b")
    ]
    drawn = draw_questions(conversations, 10, seed=1)
    assert drawn == draw_questions(conversations, 10, seed=1) != draw_questions(conversations, 10, seed=2)
    assert sum(len(one.questions) for one in drawn) == 10
    assert all(question.text.startswith(one.id) for one in drawn for question in one.questions)


def test_no_prompt_asks_a_question_twice_or_names_a_system() -> None:
    batches = make_batches(GIVEN, 4, seed=3)
    assert sorted(one for batch in batches for one in batch) == sorted(GIVEN)
    for batch in batches:
        assert len({one.question for one in batch}) == len(batch) <= 4
        assert not [system for system in SYSTEMS if system in format_questions(batch)]


def test_a_text_that_two_systems_give_is_asked_about_once() -> None:
    same = [one._replace(system="another", budget=1_024) for one in GIVEN]
    assert sum(map(len, make_batches([*GIVEN, *same], 4, seed=3))) == len(GIVEN)


async def test_answers_and_verdicts_come_back_to_their_texts() -> None:
    """The model reads the name in the text; of the answers, those of "words only" count as wrong."""

    def answer_prompt(request: LlmRequest) -> str:
        [prompt] = (part.text or "" for part in request.contents[0].parts or ())
        found = re.findall(r"# Question (\d+)\n.*\n.* it is (.*)", prompt)
        return json.dumps({"answers": [{"number": int(number), "answer": name} for number, name in found]})

    def judge_prompt(request: LlmRequest) -> str:
        [prompt] = (part.text or "" for part in request.contents[0].parts or ())
        verdicts = []
        for part in prompt.split("# Question ")[1:]:
            right = [int(place) for place in re.findall(r"^(\d+): .*/ o$", part, re.MULTILINE)]
            verdicts.append({"number": int(part.split()[0]), "right": right})
        return json.dumps({"verdicts": verdicts})

    batches = make_batches(GIVEN, 4, seed=3)
    model, limits = ScriptedLlm.from_replies(*[answer_prompt] * len(batches), judge_prompt, judge_prompt), Limits()
    said = {}
    for batch in batches:
        said |= await answer_batch(model, limits, batch)
    answers = {one: said[one.question, one.text] for one in GIVEN}
    right = await judge_answers(model, limits, answers, 3, seed=3)
    assert right == {one: one.system == "ours" for one in GIVEN}
    assert compare_systems(right, ("ours", 256), ("words only", 256)) == (100.0, 100.0, 100.0)


async def test_an_answer_has_no_more_words_than_are_allowed() -> None:
    model = ScriptedLlm.from_replies(json.dumps({"answers": [{"number": 0, "answer": "one  more " * 9}]}))
    assert set((await answer_batch(model, Limits(), GIVEN[:1])).values()) == {" ".join(["one", "more"] * 7 + ["one"])}


async def test_a_verdict_about_a_number_that_no_prompt_has_counts_for_nothing() -> None:
    """A model may say -1 if none is right."""
    verdicts = [{"number": 0, "right": [-1, 1]}, {"number": -1, "right": [0]}, {"number": 1, "right": [0]}]
    model = ScriptedLlm.from_replies(json.dumps({"verdicts": verdicts}))
    assert not any((await judge_answers(model, Limits(), {GIVEN[0]: "name 0"}, 3, seed=3)).values())


async def test_what_the_model_leaves_out_is_not_known_and_wrong() -> None:
    model = ScriptedLlm.from_replies('{"answers": []}')
    assert set((await answer_batch(model, Limits(), GIVEN[::2])).values()) == {"not known"}
    answers = dict.fromkeys(GIVEN, "not known")
    assert not any((await judge_answers(model, Limits(), answers, 3, seed=3)).values())
