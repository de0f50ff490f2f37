"""Turns and windows of any size: what is cut and where, what a model refuses, and that nothing else changes."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from hypothesis import given
from hypothesis import strategies as st
from pydantic import PrivateAttr

from adk_graph_memory import Limits, errors
from adk_graph_memory.extraction import pieces
from adk_graph_memory.extraction.extractor import ModelExtractor, join_extractions
from adk_graph_memory.language.text import count_tokens
from adk_graph_memory.models import prompts
from adk_graph_memory.records.extractions import Extraction, Remark
from adk_graph_memory.records.facts import KnownEntity
from adk_graph_memory.records.turns import Turn
from adk_graph_memory.testing import make_text_response

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def turn(text: str, *, id: str = "t0") -> Turn:
    return Turn(id, "user", text, NOON)


class KeepReader(BaseLlm):
    """Says that somebody keeps whatever a turn says that they keep; refuses some prompts."""

    model: str = "keeps"
    refused: str = "(never)"
    _prompts: list[list[Any]] = PrivateAttr(default_factory=list)

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[LlmResponse]:
        prompt = llm_request.contents[0].parts[0].text
        lines = [line for line in prompts.decode_lines(prompt, "conversation") if "turn" in line]
        self._prompts.append(lines)
        if re.search(self.refused, prompt[prompt.index("# Known entities") :]):
            yield LlmResponse(error_code="SAFETY")
            return
        facts = [
            {"subject": 1, "predicate": "keeps", "text": said, "quote": said, "turns": [line["turn"]]}
            for line in lines
            if line["turn"] >= 0
            for said in re.findall(r"I keep \w+", line["text"])
        ]
        yield make_text_response(json.dumps({"entities": [{"ref": 1, "name": "user"}], "facts": facts}))


def make_reader(*, tokens: int = 500, refused: str = "(never)") -> tuple[ModelExtractor, KeepReader]:
    model = KeepReader(refused=refused)
    return ModelExtractor(model, limits=Limits(window_tokens=tokens, model_retries=0)), model


PASTE = "\n\n".join(
    " ".join(
        f"On day {day} I keep animal{day}x{n}, he wrote, and the rest of that line is of no use." for n in range(8)
    )
    for day in range(20)
)


async def test_a_turn_too_long_for_a_prompt_is_read_in_pieces_and_quotes_are_found_in_the_whole_turn() -> None:
    model_extractor, model = make_reader()
    source_turn = turn(PASTE)
    result = await model_extractor.extract([source_turn], [])
    assert [fact.text for fact in result.facts] == re.findall(r"I keep \w+", PASTE)
    for [source] in (fact.sources for fact in result.facts):
        assert source_turn.text[source.start : source.end] == source.quote
    assert result.usage.calls == len(model._prompts) > 5
    assert all(sum(count_tokens(line["text"]) for line in lines if line["turn"] >= 0) < 510 for lines in model._prompts)
    assert {entity.window for entity in result.entities} == set(range(len(model._prompts)))


async def test_a_piece_ends_with_a_paragraph_and_is_marked_where_words_are_missing() -> None:
    model_extractor, model = make_reader()
    await model_extractor.extract([turn(PASTE)], [])
    texts = [line["text"] for lines in model._prompts for line in lines if line["turn"] == 0]
    texts.sort(key=lambda text: PASTE.index(text.strip("… ")))  # windows are read side by side
    assert texts[0].startswith("On day 0") and all(text.startswith("… On day") for text in texts[1:])
    assert texts[-1].endswith("use.") and all(text.endswith("use. …") for text in texts[:-1])
    assert " ".join(text.strip("… ") for text in texts).split() == PASTE.split()


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("One two. " * 100, "two. "),
        ("一二三。" * 100, "。"),
        ("word " * 100, "word "),
        ("line one\n" * 100, "\n"),
        ("a.b" * 100, ""),
        ("word" + " " * 5_000, ""),
        ("٣" * 300, ""),
    ],
)
def test_the_pieces_of_a_text_are_the_text(text: str, end: str) -> None:
    windows = pieces.pack_pieces([turn(text)], size=50)
    assert "".join(piece.turn.text for window in windows for piece in window) == text
    assert all(piece.turn.text.endswith(end) for window in windows for piece in window)
    starts = [piece.start for window in windows for piece in window]
    assert [text[start:][:5] for start in starts] == [piece.turn.text[:5] for window in windows for piece in window]


@given(st.text(max_size=2_000), st.integers(1, 60))
def test_any_text_is_cut_without_loss(text: str, size: int) -> None:
    source_turn = turn(text)
    windows = pieces.pack_pieces([source_turn], size=size)
    assert "".join(piece.turn.text for window in windows for piece in window) == source_turn.text
    # A blank rest stays with the words before it, however long it is.
    assert all(sum(count_tokens(piece.turn.text.rstrip()) for piece in window) <= size for window in windows)


@given(st.lists(st.text(max_size=500), max_size=4), st.integers(20, 300))
def test_what_was_said_before_is_as_long_as_it_may_be(texts: list[str], size: int) -> None:
    context = [pieces.Piece(turn(text)) for text in texts]
    shown = pieces.shorten_context(context, max_tokens=size)
    assert sum(map(count_tokens, shown)) <= size + 2 * len(texts)  # the marks
    whole = [piece.turn.text for piece in context]
    assert shown == whole or sum(map(count_tokens, whole)) > size


async def test_of_a_long_turn_before_a_window_both_ends_are_shown() -> None:
    model_extractor, model = make_reader()
    before = [turn("I keep bees", id="t0"), turn(PASTE, id="t1")]
    await model_extractor.extract([turn("I keep geese", id="t2")], [], before)
    [[first, paste, now]] = model._prompts
    assert (first["text"], now["text"], now["turn"]) == ("I keep bees", "I keep geese", 0)
    assert count_tokens(paste["text"]) <= 1_001
    beginning, end = paste["text"].split(" … ")
    assert PASTE.startswith(beginning) and PASTE.endswith(end)


async def test_a_turn_that_a_model_refuses_takes_nothing_from_its_neighbours() -> None:
    model_extractor, model = make_reader(tokens=16_000, refused="poison")
    source_turns = [turn(f"I keep pet{n}", id=f"t{n}") for n in range(16)]
    source_turns[5] = turn("This is poison", id="t5")
    result = await model_extractor.extract(source_turns, [])
    assert [fact.text for fact in result.facts] == [f"I keep pet{n}" for n in range(16) if n != 5]
    assert list(result.unread) == ["t5"] and "SAFETY" in result.unread["t5"]
    assert result.drop_counts == {"text that the model could not read": 1}
    assert len(model._prompts) < 16


async def test_what_a_model_refuses_before_a_window_is_left_out() -> None:
    model_extractor, _ = make_reader(refused="poison")
    result = await model_extractor.extract([turn("I keep bees", id="t1")], [], [turn("This is poison", id="t0")])
    assert ([fact.text for fact in result.facts], result.unread) == (["I keep bees"], {})


async def test_known_entities_that_a_model_refuses_are_no_longer_shown() -> None:
    model_extractor, model = make_reader(refused="poison")
    source_turns = [turn(f"I keep pet{n}", id=f"t{n}") for n in range(8)]
    result = await model_extractor.extract(source_turns, [KnownEntity("k0", "poison", "thing")])
    assert ([fact.text for fact in result.facts], result.unread) == ([f"I keep pet{n}" for n in range(8)], {})
    assert len(model._prompts) == 4


async def test_of_a_long_turn_only_the_words_around_what_is_refused_are_not_read() -> None:
    model_extractor, _ = make_reader(tokens=16_000, refused="animal7x3")
    result = await model_extractor.extract([turn(PASTE)], [])
    assert list(result.unread) == ["t0"]
    kept = {fact.text for fact in result.facts}
    assert {f"I keep animal{day}x{n}" for day in range(20) if day != 7 for n in range(8)} <= kept


async def test_a_model_that_refuses_everything_is_asked_twice_and_nothing_counts_as_unreadable() -> None:
    model_extractor, model = make_reader(refused="")
    with pytest.raises(errors.ModelRefused, match="SAFETY"):
        await model_extractor.extract([turn("I keep bees", id=f"t{n}") for n in range(8)], [])
    assert len(model._prompts) == 2


async def test_of_pieces_with_a_remark_each_the_first_one_counts() -> None:
    parts = [
        Extraction(remarks=(Remark("t0", "pasted", "Ben"),)),
        Extraction(remarks=(Remark("t0", "quoted"), Remark("t1", "joking"))),
    ]
    assert join_extractions(parts).remarks == (Remark("t0", "pasted", "Ben"), Remark("t1", "joking"))
