"""An alias counts if a text ties it to the name, or if it is a spelling of that."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from adk_graph_memory.extraction.reply import ExtractionReply, parse_reply
from adk_graph_memory.records.extractions import select_said_aliases
from adk_graph_memory.records.turns import Turn

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "alias", "text", "is_said"),
    [
        ("Petra Lang", "Sabine", "Petra Lang is my boss.", False),
        ("Petra Lang", "Sabine", "Sabine got fired.", False),
        ("Petra Lang", "Sabine", "Petra Lang, whom we call Sabine, is my boss.", True),
        ("Petra Lang", "Petra", "Petra Lang is my boss.", True),
        ("Petra Lang", "P. Lang", "Petra Lang is my boss.", True),
        ("Melanie", "Mel", "Melanie paints.", True),
        ("Zoë Adams", "Zoe", "Zoë Adams paints.", True),
        ("Sabrina", "Sabine", "Sabrina paints.", False),
        ("Александра", "Саша", "С Сашей, то есть с Александрой, мы соседи.", True),
        ("Александра", "Саша", "Александра рисует.", False),
        ("田中太郎", "太郎", "田中太郎は絵を描く。", True),
        ("田中太郎", "花子", "田中太郎は絵を描く。", False),
        ("user", "Ana", "Thanks, Ana!", True),
        ("user", "Ana", "Thanks!", False),
        ("Petra", "Sabine", "Sabine has a pet.", False),
        ("Marta", "Sabine", "Sabine is married.", False),
        ("Al", "Sabine", "Sabine always paints.", False),
        ("user", "assistant", "Hi.", False),
        ("Petra Lang", "...", "Petra Lang is my boss.", False),
        ("Petra Lang", "P", "Petra Lang is my boss.", False),
        ("田中太郎", "田", "田中太郎は絵を描く。", False),
        ("田中", "田中花子", "田中は絵を描く。", False),
        ("דנה לוי", "דני", "אמרתי לדנה לוי, שקוראים לה דני, שלום", True),
        ("ליאור כהן", "דני", "אמרתי לליאור כהן, שקוראים לדני, שלום", True),
        ("كريم", "أبو علي", "قلت لكريم، وهو أبو علي، مرحبا", True),
    ],
)
def test_an_alias_is_tied_or_spelled(name: str, alias: str, text: str, is_said: bool) -> None:
    assert select_said_aliases(name, (alias,), ("user", "assistant"), (text,)) == ((alias,) if is_said else ())


def test_two_turns_that_say_one_name_each_tie_nothing() -> None:
    texts = ("Petra Lang is my boss.", "Sabine got fired.")
    assert select_said_aliases("Petra Lang", ("Sabine",), ("user",), texts) == ()


def test_what_a_reply_adds_to_a_name_is_dropped_and_counted() -> None:
    entity = {"ref": 1, "name": "Petra Lang", "type": "person", "aliases": ["Sabine", "Petra"]}
    fact = {
        "subject": 1,
        "predicate": "works_as",
        "text": "Petra Lang is the boss.",
        "quote": "Petra Lang is my boss",
        "turns": [0],
    }
    reply = ExtractionReply.model_validate_json(json.dumps({"entities": [entity], "facts": [fact]}))
    extraction = parse_reply(reply, [Turn("t", "user", "Petra Lang is my boss.", NOON)], ())
    assert extraction.entities[0].aliases == ("Petra",)
    assert extraction.drop_counts == {"alias that nobody said": 1}
