"""New names of somebody known, and false ones: is the fact of the second session told of the one of the first?

Each case of ``links.json`` is two sessions of a user of its own. The reply to the second gives the number of the known
entity; where memory asks a judge, the judge answers as the case says. A link is true where ``same`` is; of the others a
judge says no, or, careless, yes, though the kind is another or no quote holds the name.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from google.adk.models.llm_request import LlmRequest

from adk_graph_memory import GraphMemory, Turn
from adk_graph_memory.models import prompts
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.testing import HashEmbedder, ScriptedLlm
from benchmarks.quality.careless import answer_doubts, parse_known_entities
from benchmarks.quality.harm import Graph
from benchmarks.quality.perturbations import Reply

PATH = Path(__file__).with_suffix(".json")
FIRST = datetime(2025, 3, 3, 9, tzinfo=UTC)
LATER = timedelta(days=9)
MOST_CALLS = 10
AT_ONCE = 4

Link = Mapping[str, Any]


def load(path: Path = PATH) -> list[Link]:
    """The cases."""
    cases: list[Link] = json.loads(path.read_text("utf-8"))
    return cases


async def check_links(settings: Settings, cases: Sequence[Link]) -> list[bool]:
    """Of each case whether the new name was taken for the known one."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def check_case(case: Link) -> bool:
        async with gate:
            return await _check_link(settings, case)

    return list(await asyncio.gather(*map(check_case, cases)))


async def _check_link(settings: Settings, case: Link) -> bool:
    owner = {"app_name": f"links-{uuid.uuid4().hex[:12]}", "user_id": "ada"}
    introduction = " ".join(known["said"] for known in case["known"])
    turns = [Turn("before", "user", introduction, FIRST), Turn("after", "user", case["turn"], FIRST + LATER)]
    model = ScriptedLlm.from_replies(*[lambda request: json.dumps(_make_reply(case, request))] * MOST_CALLS)
    async with GraphMemory(settings=settings, model=model, embedder=HashEmbedder()) as memory:
        for turn in turns:
            await memory.remember([turn], session_id=turn.id, **owner)
        graph = await Graph.fetch(memory, **owner)
    subjects = {fact["text"]: fact["subjects"] for fact in graph.facts}
    return subjects.get(case["turn"]) == subjects[case["known"][0]["said"]]


def _make_reply(case: Link, request: LlmRequest) -> Reply:
    [prompt] = (part.text or "" for part in request.contents[0].parts or ())
    name = case["known"][0]["name"]
    if "<conversation>" not in prompt:
        same = answer_doubts(prompt, lambda _: name if case["judge"] else None)
        return {"ops": [], "depends": [], "same": same}
    [turn] = (line["text"] for line in prompts.decode_lines(prompt, "conversation") if line.get("turn", -1) >= 0)
    if turn != case["turn"]:
        facts = [_make_fact(ref, known["said"], known["said"]) for ref, known in enumerate(case["known"])]
        return {"entities": [{"ref": ref, **known} for ref, known in enumerate(case["known"])], "facts": facts}
    number = next(number for number, (known, _) in parse_known_entities(prompt).items() if known == name)
    entity = {"ref": 0, **case["mention"], "known_id": number}
    return {"entities": [entity], "facts": [_make_fact(0, turn, case["quote"])]}


def _make_fact(ref: int, text: str, quote: str) -> Reply:
    return {"ref": ref, "subject": ref, "predicate": f"states_{ref}", "text": text, "quote": quote, "turns": [0]}
