"""A draft's open questions go to a model, all in one call; its decisions come back as data of ours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, Field

from adk_graph_memory import llm, prompts
from adk_graph_memory.consolidation.decisions import Decision, Decisions
from adk_graph_memory.consolidation.draft import Draft
from adk_graph_memory.consolidation.tenets import Tenet
from adk_graph_memory.records import KnownEntity, PlannedEntity, Usage

MOST_SAID = 5
"""Facts that are shown with an entity to tell who it is."""


class OpReply(BaseModel):
    """How a fact relates to others of the same question."""

    fact: int = Field(description="number of a fact")
    op: Literal["ADD", "REINFORCE", "REFINE", "SUPERSEDE", "RETRACT", "NOOP"]
    targets: list[int] = Field(default=[], description="numbers of facts of the same question")
    reason: str = Field(default="", description="one short sentence")


class DependencyReply(BaseModel):
    """A new fact that would not hold without others."""

    fact: int = Field(description="number of a new fact")
    on: list[int] = Field(description="numbers of facts of the same question")


class SameReply(BaseModel):
    """Whom a name means."""

    name: int = Field(description="number of a name in doubt")
    known: int | None = Field(default=None, description="number of the known entity that it means, null for another")


class ConsolidationReply(BaseModel):
    """What became of the questions."""

    ops: list[OpReply] = []
    depends: list[DependencyReply] = []
    same: list[SameReply] = []


class Judge:
    """A language model that decides what rules cannot.

    Args:
        model: any ADK model.
        patience: with the model.
    """

    def __init__(self, model: llm.BaseLlm, patience: llm.Patience) -> None:
        self._model, self._patience = model, patience
        self._prompt = prompts.load("consolidate")
        self.version = f"{model.model} {self._prompt.version}"

    async def decide(self, draft: Draft) -> tuple[Decisions, Usage]:
        """The model's decisions on all that is open; whatever it says of other facts is left out and counted.

        Raises:
            errors.ModelError: the model failed; nothing was decided.
        """
        asked = list(dict.fromkeys(id for question in draft.open for id in (question.new, *question.targets)))
        numbers = {id: number for number, id in enumerate(asked)}
        doubts = draft.resolution.doubts
        keys = list(dict.fromkeys(key for doubt in doubts for key in doubt.keys))
        prompt = self._prompt.filled(
            facts="\n".join(_fact_line(numbers[id], draft.tenets[id]) for id in asked) or "(none)",
            questions="\n".join(
                f"Question: {numbers[question.new]} beside {', '.join(str(numbers[id]) for id in question.targets)}"
                for question in draft.open
            )
            or "(none)",
            known="\n".join(_entity_line(number, key, draft) for number, key in enumerate(keys)) or "(none)",
            names="\n".join(
                f"{_entity_line(number, draft.resolution.keys[doubt.ref], draft)}, perhaps "
                + " or ".join(str(keys.index(key)) for key in doubt.keys)
                for number, doubt in enumerate(doubts)
            )
            or "(none)",
        )
        answer = await llm.structured(self._model, prompt, ConsolidationReply, self._patience)
        decisions = understood(answer.reply, draft, asked, keys)
        return replace(decisions, dropped=Counter(decisions.dropped) + Counter(answer.dropped)), answer.usage


def _entity_line(number: int, key: str, draft: Draft) -> str:
    """An entity with what is said of it."""
    held: dict[str, KnownEntity | PlannedEntity] = {one.key: one for one in draft.resolution.planned}
    held |= {one.key: one for one in draft.candidates.entities}
    said = [tenet.strand.proposition for tenet in draft.tenets.values()]
    entity = held[key]
    line = {
        "number": number,
        "names": [entity.name, *entity.aliases],
        "type": entity.type,
        **({"about": entity.about} if entity.about else {}),
        "facts": sorted(one.text for one in said if key in (one.subject, one.object))[:MOST_SAID],
    }
    return _framed(line)


def _fact_line(number: int, tenet: Tenet) -> str:
    """One line of JSON without angle brackets, which the prompt's own frame is made of."""
    said, sources = tenet.strand.proposition, tenet.sources
    dates = {"valid_from": said.valid_from, "valid_to": said.valid_to}
    line = {
        "number": number,
        "new": not tenet.facts,
        "said": sorted({source.at.date().isoformat() for source in sources})[-1] if sources else "",
        "text": said.text,
        "quote": sources[-1].quote if sources else "",
        "modality": said.modality,
        **{name: moment.date().isoformat() for name, moment in dates.items() if moment},
        **({"correction": True} if said.correction else {}),
    }
    return _framed(line)


def _framed(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False).replace("<", "\\u003c")


def understood(reply: ConsolidationReply, draft: Draft, asked: Sequence[str], keys: Sequence[str]) -> Decisions:
    """The reply with our ids for its numbers; only pairs that were asked about count."""
    ids = dict(enumerate(asked))
    beside = {frozenset((question.new, target)) for question in draft.open for target in question.targets}
    new = {question.new for question in draft.open}
    dropped: Counter[str] = Counter()
    ops = []
    for op in reply.ops:
        fact, targets = ids.get(op.fact, ""), tuple(ids.get(target, "") for target in op.targets)
        meant = tuple(target for target in targets if frozenset((fact, target)) in beside)
        dropped["decision about facts that were not asked about"] += len(targets) - len(meant)
        if op.op in ("ADD", "NOOP") and fact in new:
            ops.append(Decision(fact, op.op, (), op.reason))
        elif op.op not in ("ADD", "NOOP") and meant:
            ops.append(Decision(fact, op.op, meant, op.reason))
    pairs = {(ids.get(one.fact, ""), ids.get(base, "")) for one in reply.depends for base in one.on}
    doubts = dict(enumerate(draft.resolution.doubts))
    known = dict(enumerate(keys))
    return Decisions(
        tuple(ops),
        tuple(sorted(pair for pair in pairs if frozenset(pair) in beside)),
        {
            doubts[one.name].ref: known.get(one.known) if one.known is not None else None
            for one in reply.same
            if one.name in doubts
        },
        +dropped,
    )
