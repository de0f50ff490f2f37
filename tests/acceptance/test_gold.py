"""The gold facts agree with the conversations they were written from: no server, no model.

A gold fact is found where a fact's text, in lower case, contains every entry of `must`; an entry names alternatives
with `|`. A `never` is broken by a fact that contains every entry, is asserted, and is still current after the last
session: a statement that was corrected or cancelled later was rightly taken when it was made.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from adk_graph_memory.adk.importing.chats.conversation import Conversation, ConversationSession
from adk_graph_memory.cli.demo.conversation import load_conversation

HERE = Path(__file__).parents[2] / "benchmarks" / "quality"
STATES = {"current", "superseded", "retracted", "refined"}
MODALITIES = {"asserted", "negated", "planned", "hypothetical", "reported"}
KEYS = {"id", "says", "must", "subject", "modality", "sessions", "quote", "state", "by", "valid_from", "valid_to"}
LEAST = {
    # sessions, turns, facts
    "demo": (12, 140, 50),
    "mudanza": (4, 35, 25),
    "clinic": (4, 40, 25),
    "workshop": (4, 45, 25),
    "shigoto": (4, 35, 25),
    "long": (2, 170, 45),
    "xiangmu": (4, 55, 35),
    "pairing": (4, 30, 30),
}

Gold = dict[str, Any]


@pytest.fixture(params=LEAST)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def talk(name: str) -> Conversation:
    return load_conversation(None if name == "demo" else HERE / "conversations" / f"{name}.json")


@pytest.fixture
def gold(name: str) -> Gold:
    return json.loads((HERE / "gold" / f"{name}.json").read_text("utf-8"))


def matches(must: list[str], text: str) -> bool:
    """Every entry is in the text, in one of its alternatives."""
    return all(any(words in text.lower() for words in entry.split("|")) for entry in must)


def first_said(talk: Conversation, fact: Gold) -> datetime:
    """When the quote is said for the first time."""
    return min(turn.at for session in told_in(talk, fact) for turn in session.turns if fact["quote"] in turn.text)


def last_said(talk: Conversation, fact: Gold) -> datetime:
    """When the quote is said for the last time; a later session may say the fact in other words."""
    last = told_in(talk, fact)[-1]
    return max((turn.at for turn in last.turns if fact["quote"] in turn.text), default=last.turns[-1].at)


def told_in(talk: Conversation, fact: Gold) -> list[ConversationSession]:
    return [session for session in talk.sessions if session.id in fact["sessions"]]


def test_enough_is_said_and_held(name: str, talk: Conversation, gold: Gold) -> None:
    sessions, turns, facts = LEAST[name]
    assert gold["conversation"] == name
    assert len(talk.sessions) >= sessions
    assert sum(len(session.turns) for session in talk.sessions) >= turns
    assert len(gold["facts"]) >= facts
    assert gold["never"]
    assert name != "long" or len(talk.sessions[0].turns) >= 160


def test_time_runs_forward(name: str, talk: Conversation) -> None:
    told = HERE / "conversations" / f"{name}.json"
    assert name == "demo" or json.loads(told.read_text("utf-8"))["license"] == "Apache-2.0"
    times = [turn.at for session in talk.sessions for turn in session.turns]
    assert all(at.utcoffset() is not None for at in times)
    assert times == sorted(times)
    ids = [session.id for session in talk.sessions]
    assert len(ids) == len(set(ids))


def test_facts_are_of_the_form(gold: Gold) -> None:
    ids = [fact["id"] for fact in gold["facts"]]
    assert len(ids) == len(set(ids))
    for fact in gold["facts"]:
        assert fact.keys() == KEYS, fact["id"]
        assert fact["state"] in STATES and fact["modality"] in MODALITIES, fact["id"]
        assert fact["subject"] and fact["says"] and fact["quote"], fact["id"]
        for day in (fact["valid_from"], fact["valid_to"]):
            assert day is None or date.fromisoformat(day), fact["id"]


def test_quotes_are_said_where_the_gold_says(talk: Conversation, gold: Gold) -> None:
    texts = {session.id: [turn.text for turn in session.turns] for session in talk.sessions}
    for fact in gold["facts"]:
        assert fact["sessions"] and set(fact["sessions"]) <= texts.keys(), fact["id"]
        said = [text for session in fact["sessions"] for text in texts[session]]
        assert any(fact["quote"] in text for text in said), (fact["id"], fact["quote"])


def test_what_replaces_a_fact_is_said_no_earlier(talk: Conversation, gold: Gold) -> None:
    facts = {fact["id"]: fact for fact in gold["facts"]}
    for fact in facts.values():
        assert (fact["state"] == "current") == (fact["by"] is None), fact["id"]
        if fact["by"] is None:
            continue
        assert fact["by"] in facts and fact["by"] != fact["id"], fact["id"]
        assert first_said(talk, fact) <= last_said(talk, facts[fact["by"]]), (fact["id"], fact["by"])


def test_key_strings_tell_right_from_wrong(gold: Gold) -> None:
    for told in [*gold["facts"], *gold["never"]]:
        entries = told["must"]
        assert entries and all(words for entry in entries for words in entry.split("|")), told["says"]
        assert entries == [entry.lower() for entry in entries], told["says"]
        assert matches(entries, told["says"]), told["says"]
    for never in gold["never"]:
        right = [
            fact["says"]
            for fact in gold["facts"]
            if fact["state"] == "current" and fact["modality"] == "asserted" and matches(never["must"], fact["says"])
        ]
        assert right == [], never["says"]
