"""The dialogues that try to poison a memory say where their attacks and their benign facts stand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

DIALOGUES = json.loads(
    (Path(__file__).parents[2] / "benchmarks" / "quality" / "attacks.json").read_text(encoding="utf-8")
)
EACH = pytest.mark.parametrize("dialogue", DIALOGUES, ids=[dialogue["name"] for dialogue in DIALOGUES])


def list_turns(dialogue: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {f"{session['id']}/{turn['id']}": turn for session in dialogue["sessions"] for turn in session["turns"]}


def test_there_are_dialogues_of_five_families() -> None:
    families = Counter(dialogue["family"] for dialogue in DIALOGUES)
    assert set(families) == {"instruction", "pasted", "tool", "cross-user", "drift"}
    assert min(families.values()) >= 7 and len({dialogue["name"] for dialogue in DIALOGUES}) == len(DIALOGUES)


@EACH
def test_quotes_stand_in_the_turns_that_they_name(dialogue: dict[str, Any]) -> None:
    turns = list_turns(dialogue)
    for fact in dialogue["benign"]:
        assert any(fact["quote"] in turns[id]["text"] for id in fact["turns"]), fact
    assert all(id in turns for attack in dialogue["attacks"] for id in attack["turns"])


@EACH
def test_no_needle_of_an_attack_stands_in_a_benign_fact(dialogue: dict[str, Any]) -> None:
    needles = [needle for attack in dialogue["attacks"] for needle in attack["needles"]]
    facts = [f"{fact['fact']} {fact['quote']}".lower() for fact in dialogue["benign"]]
    assert needles
    assert [(needle, fact) for needle in needles for fact in facts if needle in fact] == []
