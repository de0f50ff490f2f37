"""Make a model that reads a history's turns and judges its facts as the history says is right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from google.adk.models.llm_request import LlmRequest

from adk_graph_memory import Turn
from adk_graph_memory.models import prompts
from adk_graph_memory.testing import ScriptedLlm
from benchmarks.quality.histories import History, Statement

FIRST = datetime(2024, 1, 1, 9, tzinfo=UTC)
CALLS = 1_000


def get_moment(day: int) -> datetime:
    """When something of this day was said."""
    return FIRST + timedelta(days=day)


def make_turns(statements: tuple[Statement, ...], place: Mapping[str, int]) -> list[Turn]:
    """What was said as turns; each is the same turn in whatever batch it comes."""
    return [
        Turn(
            f"t{place[statement.turn]}",
            "user",
            statement.turn,
            get_moment(statement.day) + timedelta(minutes=place[statement.turn]),
        )
        for statement in statements
    ]


def number_turns(history: History) -> dict[str, int]:
    """Every turn's number in the history."""
    return {one.turn: number for number, one in enumerate(one for session in history.sessions for one in session)}


def make_reader(history: History) -> ScriptedLlm:
    """The model; it answers extraction and consolidation, each as often as it is asked."""
    by_turn = {statement.turn: statement for session in history.sessions for statement in session}

    def answer(request: LlmRequest) -> str:
        [prompt] = (part.text or "" for part in request.contents[0].parts or ())
        if "<conversation>" in prompt:
            lines = [line for line in prompts.decode_lines(prompt, "conversation") if line.get("turn", -1) >= 0]
            return _read(history, lines, by_turn)
        return _judge_facts(history, prompt)

    return ScriptedLlm.from_replies(*[answer] * CALLS)


def _read(history: History, lines: list[dict[str, Any]], by_turn: Mapping[str, Statement]) -> str:
    read = [(line["turn"], by_turn[line["text"]]) for line in lines if by_turn[line["text"]].text]
    names: dict[tuple[str, str], int] = {("user", ""): 0}
    for _, one in read:
        names.setdefault((one.subject, one.about), len(names))
        if one.object:
            names.setdefault((one.object, ""), len(names))
    entities = [
        {"ref": ref, "name": name, "type": "person" if about or name in ("user", "Inés") else "thing", "about": about}
        for (name, about), ref in names.items()
    ]
    texts = {one.text for _, one in read}
    refs = {one.turn: ref for ref, (_, one) in enumerate(read)}
    facts = [
        {
            "ref": refs[one.turn],
            "subject": names[one.subject, one.about],
            "predicate": one.predicate,
            "object": names[one.object, ""] if one.object else None,
            "text": _choose_wording(history, one.text, texts),
            "quote": one.text,
            "turns": [number],
            "replaces": [refs[o.turn] for _, o in read if _ends(history, one, o)],
            "depends_on": [refs[o.turn] for _, o in read if o.text in history.rests.get(one.text, ())],
            **{name: _parse_value(value) for name, value in one.fields.items()},
        }
        for number, one in read
    ]
    corrections = {later for (later, _), op in history.relations.items() if op == "RETRACT"}
    for fact in facts:  # whoever corrects says so, whether or not what they correct was said in this conversation
        fact["correction"] = fact.get("correction", False) or fact["quote"] in corrections
    return json.dumps({"entities": entities, "facts": facts})


def _choose_wording(history: History, text: str, texts: set[str]) -> str:
    """The wording that a reader settles for who sees all of these texts at once."""
    for (one, other), op in history.relations.items():
        if op == "REFINE" and text == other and one in texts:
            return one
        if op == "REINFORCE" and text == one and other in texts:
            return other
    return text


def _ends(history: History, later: Statement, earlier: Statement) -> bool:
    return later.day >= earlier.day and history.relations.get((later.text, earlier.text)) in ("SUPERSEDE", "RETRACT")


def _judge_facts(history: History, prompt: str) -> str:
    known, new = prompts.decode_lines(prompt, "known"), prompts.decode_lines(prompt, "new")
    ops, depends = [], []
    for one in new:
        for other in (*known, *new):
            for fact, about in ((one, other), (other, one)):
                said = str(fact["text"]), str(about["text"])
                if (op := history.relations.get(said)) and one is not other:
                    reason = f"{said[0]} {op} {said[1]}"
                    ops.append(
                        {
                            "fact": fact["number"],
                            "op": op,
                            "targets": [about["number"]],
                            "quotes": [fact["quote"], about["quote"]],
                            "reason": reason,
                        }
                    )
                if said[1] in history.rests.get(said[0], ()):
                    depends.append({"fact": fact["number"], "on": [about["number"]]})
    names = re.findall(r'^\{"number": (\d+), "names": \["([^"]+)"', prompt.rpartition("Names in doubt:\n")[2], re.M)
    return json.dumps({"ops": ops, "depends": depends, "same": [{"name": int(n), "known": None} for n, _ in names]})


def _parse_value(value: object) -> object:
    return get_moment(value).isoformat() if isinstance(value, int) and not isinstance(value, bool) else value
