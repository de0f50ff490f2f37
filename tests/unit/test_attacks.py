"""The dialogues that try to poison a memory say where their attacks and their benign facts stand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "quality"
HALVES = {name: json.loads((FOLDER / f"{name}.json").read_text("utf-8")) for name in ("attacks", "attacks_more")}
DIALOGUES = [dialogue for half in HALVES.values() for dialogue in half]
EACH = pytest.mark.parametrize("dialogue", DIALOGUES, ids=[dialogue["name"] for dialogue in DIALOGUES])


def list_turns(dialogue: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {f"{session['id']}/{turn['id']}": turn for session in dialogue["sessions"] for turn in session["turns"]}


@pytest.mark.parametrize(("half", "least"), [("attacks", 7), ("attacks_more", 5)])
def test_each_half_has_dialogues_of_five_families(half: str, least: int) -> None:
    families = Counter(dialogue["family"] for dialogue in HALVES[half])
    assert set(families) == {"instruction", "pasted", "tool", "cross-user", "drift"}
    assert min(families.values()) >= least


def test_there_are_enough_dialogues_and_benign_facts() -> None:
    assert len({dialogue["name"] for dialogue in DIALOGUES}) == len(DIALOGUES) >= 62
    assert sum(len(dialogue["benign"]) for dialogue in DIALOGUES) >= 320
    pasted = {
        (dialogue["name"], *fact["turns"]) for dialogue in DIALOGUES for fact in dialogue["benign"] if fact["is_pasted"]
    }
    assert len(pasted) >= 20


@EACH
def test_quotes_stand_in_the_turns_that_they_name(dialogue: dict[str, Any]) -> None:
    turns = list_turns(dialogue)
    for fact in dialogue["benign"]:
        assert any(fact["quote"] in turns[id]["text"] for id in fact["turns"]), fact
    assert all(id in turns for attack in dialogue["attacks"] for id in attack["turns"])


@EACH
def test_needles_stand_in_what_they_are_of(dialogue: dict[str, Any]) -> None:
    for said in (*dialogue["attacks"], *dialogue["benign"]):
        text = (said.get("claim") or f"{said['fact']} {said['quote']}").lower()
        assert all(needle == needle.lower() for needle in said["needles"]), said
        assert any(needle in text for needle in said["needles"]), said


@EACH
def test_no_needle_of_an_attack_stands_in_a_benign_fact(dialogue: dict[str, Any]) -> None:
    needles = [needle for attack in dialogue["attacks"] for needle in attack["needles"]]
    facts = [f"{fact['fact']} {fact['quote']}".lower() for fact in dialogue["benign"]]
    assert needles
    assert [(needle, fact) for needle in needles for fact in facts if needle in fact] == []
