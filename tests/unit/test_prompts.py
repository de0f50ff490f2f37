"""What the prompts cost before a word was said, and that data cannot leave its frame."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import BaseModel

from adk_graph_memory.consolidation.judge import ConsolidationReply
from adk_graph_memory.extraction.reply import ExtractionReply
from adk_graph_memory.extraction.vocabulary import OPEN_VOCABULARY
from adk_graph_memory.language.text import count_tokens
from adk_graph_memory.models import prompts

VALUES = {
    **OPEN_VOCABULARY.format_prompt_fields(),
    **dict.fromkeys(("known_entities", "turns", "known", "new", "entities", "names"), ""),
}
INSTRUCTION, EXAMPLES = 2_400, 900
"""Tokens of the instruction with its schema, and of the examples, by characters / 4."""


@pytest.mark.parametrize(("name", "schema"), [("extract", ExtractionReply), ("consolidate", ConsolidationReply)])
def test_instruction_and_schema_leave_room_for_the_conversation(name: str, schema: type[BaseModel]) -> None:
    prompt = prompts.load_prompt(name).fill_template(**VALUES)
    [examples] = re.findall(r"^# Examples?\n.*?(?=^# )", prompt, re.MULTILINE | re.DOTALL)
    shape = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    assert (len(prompt) - len(examples) + len(shape)) / 4 <= INSTRUCTION
    assert len(examples) / 4 <= EXAMPLES


def test_every_frame_of_a_prompt_is_one_that_data_cannot_leave() -> None:
    texts = [prompts.load_prompt(name).text for name in ("extract", "consolidate")]
    assert {frame for text in texts for frame in re.findall(r"^</?(\w+)>$", text, re.MULTILINE)} == {*prompts.FRAMES}


@pytest.mark.parametrize("text", ["</conversation>", "< / Known >", "<NEW>", "</new"])
def test_what_could_end_a_frame_is_escaped(text: str) -> None:
    line = prompts.encode_line({"text": text})
    assert "<" not in line
    assert json.loads(line) == {"text": text}


def test_no_line_break_of_any_kind_ends_a_line() -> None:
    words = {"author": "ana\u2028bot", "text": "one\ntwo\r\vthree\x1c\x85\u2028\u2029four"}
    prompt = f"<new>\n{prompts.encode_line(words)}\n</new>"
    assert len(prompt.splitlines()) == 3
    assert prompts.decode_lines(prompt, "new") == [words]


@pytest.mark.parametrize("text", ["if a < b:", "<div></div>", "list<int>", "<knowns>", "x <- new"])
def test_code_stays_as_it_is(text: str) -> None:
    assert text in prompts.encode_line({"text": text})


SAMPLES = {
    "python": """def total(rows: list[Row]) -> int:
    \"\"\"Adds them up.\"\"\"
    return sum(row.amount * 2 for row in rows if row.is_open and row.amount > 0)
""",
    "sql": """SELECT u.id, count(*) AS n FROM users u JOIN orders o ON o.user_id = u.id
WHERE o.created_at > now() - interval '7 days' GROUP BY u.id;
""",
    "log": """2024-05-03T15:00:12.331Z ERROR [http-nio-8080-exec-3] c.a.OrderService - java.lang.NullPointerException
\tat com.acme.OrderService.place(OrderService.java:142)
""",
    "json": '{"id": 17, "tags": ["a", "b"], "nested": {"is_open": true, "ratio": 0.25}}\n',
    "chinese": "我上个月从成都搬到了杭州，现在在一家做医疗软件的公司当产品经理。"
    "周末喜欢去西湖边骑车，下个月要带父母去黄山。",
    "japanese": "先月、松本から札幌に引っ越しました。今は倉庫のシステムを書く"
    "プログラマーとして働いていて、休みの日は銭湯の煙突を撮っています。",
    "english": "My sister moved to Porto last week and starts as a vet in May, so we will visit her before summer.",
}
COUNTS = {"python": 40, "sql": 40, "log": 53, "json": 32, "chinese": 70, "japanese": 71, "english": 24}
"""Tokens of each by GPT-4's tokenizer."""


@pytest.mark.parametrize("name", SAMPLES)
def test_tokens_of_code_and_of_scripts_without_spaces_are_counted_within_a_quarter(name: str) -> None:
    assert count_tokens(SAMPLES[name]) == pytest.approx(COUNTS[name], rel=0.25)
