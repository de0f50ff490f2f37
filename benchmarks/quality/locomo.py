"""Read the conversations of a LoCoMo file, or convert the first of them to the demo's form.

LoCoMo (Maharana et al., 2024, snap-research/locomo) is licensed CC BY-NC 4.0: it is read where it lies, never copied.
``python -m benchmarks.quality.locomo PATH > converted.json`` prints the demo's form.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.quality.dialogue import Conversation, Question, Session, Turn

KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
"""Of the questions that have an answer; those of the fifth kind have none, and are left out."""

_TURN_ID = re.compile(r"D(\d+):(\d+)")


def load(path: Path | str) -> list[Conversation]:
    """The conversations of the file, in its order, with the questions whose answer was said in a turn that exists."""
    return [_make_conversation(sample) for sample in json.loads(Path(path).read_text("utf-8"))]


def convert_to_demo(path: Path | str) -> dict[str, Any]:
    """The first conversation in the form of ``demo/conversation.json``: evidence is ``session id#place``."""
    first = load(path)[0]
    authors = dict.fromkeys(turn.author for session in first.sessions for turn in session.turns)
    places = {turn.id: f"{session.id}#{i}" for session in first.sessions for i, turn in enumerate(session.turns)}
    return {
        "title": f"LoCoMo {first.id}: {' and '.join(authors)}",
        "app_name": "locomo",
        "user_id": first.id,
        "sessions": [
            {
                "id": session.id,
                "turns": [
                    # Both are people: without the role, whoever is not called "user" would be taken for an agent.
                    {"author": turn.author, "at": turn.at.isoformat(), "text": turn.text, "role": "user"}
                    for turn in session.turns
                ],
            }
            for session in first.sessions
        ],
        "questions": [
            {
                "question": question.text,
                "answer": question.answer,
                "evidence": [places[id] for id in question.evidence],
                "kind": question.kind,
            }
            for question in first.questions
        ],
    }


def _make_conversation(sample: Mapping[str, Any]) -> Conversation:
    sessions = tuple(_iterate_sessions(sample["conversation"]))
    known = {turn.id for session in sessions for turn in session.turns}
    return Conversation(
        id=sample["sample_id"],
        sessions=sessions,
        questions=tuple(
            question
            for row in sample["qa"]
            if row["category"] in KINDS and (question := _make_question(row, known)).evidence
        ),
    )


def _iterate_sessions(sample: Mapping[str, Any]) -> Iterator[Session]:
    """Those that have turns: some files date sessions that they do not hold."""
    numbers = sorted(int(key.removeprefix("session_")) for key in sample if re.fullmatch(r"session_\d+", key))
    for id in (f"session_{number}" for number in numbers):
        at = datetime.strptime(sample[f"{id}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        yield Session(id, tuple(_make_turn(turn, at) for turn in sample[id]))


def _make_turn(turn: Mapping[str, Any], at: datetime) -> Turn:
    caption = turn.get("blip_caption")
    text = f"{turn['text']} [{caption}]" if caption else turn["text"]
    return Turn(turn["dia_id"], turn["speaker"], text.strip(), at)


def _make_question(row: Mapping[str, Any], known: set[str]) -> Question:
    """Evidence may be several ids in one string, padded with zeros, or an id that no turn has."""
    named = [f"D{int(day)}:{int(place)}" for day, place in _TURN_ID.findall(" ".join(row["evidence"]))]
    evidence = tuple(id for id in dict.fromkeys(named) if id in known)
    return Question(row["question"], str(row.get("answer", "")), KINDS[row["category"]], evidence)


if __name__ == "__main__":
    json.dump(convert_to_demo(sys.argv[1]), sys.stdout, ensure_ascii=False, indent=1)
    print()
