"""A draft's open questions go to a model, all in one call; its decisions come back as data of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from pydantic import BaseModel, Field

from adk_graph_memory import errors, llm, prompts
from adk_graph_memory.consolidation.decisions import Decision, Decisions
from adk_graph_memory.consolidation.draft import Draft
from adk_graph_memory.consolidation.tenets import Tenet
from adk_graph_memory.records import KnownEntity, PlannedEntity, Usage

MOST_SAID = 5
"""Facts that are shown with an entity to tell who it is."""


class OpReply(BaseModel):
    """How a fact relates to others."""

    fact: int = Field(description="number of a fact")
    op: Literal["ADD", "REINFORCE", "REFINE", "SUPERSEDE", "RETRACT", "NOOP"]
    targets: list[int] = Field(default=[], description="numbers of the facts that it touches")
    reason: str = Field(default="", description="one short sentence")


class DependencyReply(BaseModel):
    """A new fact that would not hold without others."""

    fact: int = Field(description="number of a new fact")
    on: list[int] = Field(description="numbers of the facts that it rests on")


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

        Questions too many for one reply are asked in halves.

        Raises:
            errors.ModelError: the model failed; nothing was decided.
        """
        asked, keys = _asked(draft)
        prompt = self._prompt.filled(**_shown(draft, asked, keys))
        try:
            answer = await llm.structured(self._model, prompt, ConsolidationReply, self._patience)
        except errors.ReplyCutOff as error:
            if len(draft.open) > 1:
                middle = len(draft.open) // 2
                first, cost = await self.decide(replace(draft, open=draft.open[:middle]))
                certain = replace(draft.resolution, doubts=())
                rest, more = await self.decide(replace(draft, open=draft.open[middle:], resolution=certain))
                return first + rest, error.usage + cost + more
            if error.answer is None:
                raise
            answer = error.answer
        decisions = understood(answer.reply, draft, asked, keys)
        return replace(decisions, dropped=Counter(decisions.dropped) + Counter(answer.dropped)), answer.usage


def _asked(draft: Draft) -> tuple[list[str], list[str]]:
    """The tenets that a model is shown, those that are new first, and the entities that a name may mean; ids."""
    new = [question.new for question in draft.open]
    known = (*(id for question in draft.open for id in question.alike), *draft.around)
    keys = dict.fromkeys(key for doubt in draft.resolution.doubts for key in doubt.keys)
    return list(dict.fromkeys((*new, *known))), list(keys)


def _shown(draft: Draft, asked: Sequence[str], keys: Sequence[str]) -> dict[str, str]:
    """What the prompt says, by the names in its template."""
    numbers = {id: number for number, id in enumerate(asked)}
    alike = {question.new: [numbers[id] for id in question.alike] for question in draft.open}
    lines = {id: _fact_line(number, draft.tenets[id], alike.get(id)) for id, number in numbers.items()}
    names = (
        f"{_entity_line(number, draft.resolution.keys[doubt.ref], draft)}, perhaps "
        + " or ".join(str(keys.index(key)) for key in doubt.keys)
        for number, doubt in enumerate(draft.resolution.doubts)
    )
    said = {
        "known": [line for id, line in lines.items() if id not in alike],
        "new": [line for id, line in lines.items() if id in alike],
        "entities": [_entity_line(number, key, draft) for number, key in enumerate(keys)],
        "names": list(names),
    }
    return {name: "\n".join(told) or "(none)" for name, told in said.items()}


def _entity_line(number: int, key: str, draft: Draft) -> str:
    """An entity with what is said of it."""
    told: list[KnownEntity | PlannedEntity] = [*draft.candidates.entities, *draft.resolution.planned]
    entity, *more = [one for one in told if one.key == key]
    names = dict.fromkeys(name for one in (entity, *more) for name in (one.name, *one.aliases))
    said = [tenet.strand.proposition for tenet in draft.tenets.values()]
    return prompts.line(
        {
            "number": number,
            "names": list(names),
            "type": entity.type,
            **({"about": entity.about} if entity.about else {}),
            "facts": sorted(one.text for one in said if key in (one.subject, one.object))[:MOST_SAID],
        }
    )


def _fact_line(number: int, tenet: Tenet, alike: Sequence[int] | None = None) -> str:
    """A fact with the words that it was last told in, and since when it is no longer so, if it is not."""
    said, sources = tenet.strand.proposition, tenet.sources
    states = {fact.standing.state: fact.standing for fact in tenet.facts}
    over = None if "current" in states else next((one for _, one in sorted(states.items())), None)
    moments = {"valid_from": said.valid_from, "valid_to": _last(said.valid_to), "ended": over and over.valid_to}
    return prompts.line(
        {
            "number": number,
            "said": sources[-1].at.date().isoformat() if sources else "",
            "text": said.text,
            "quote": sources[-1].quote if sources else "",
            "modality": said.modality,
            **{name: moment.date().isoformat() for name, moment in moments.items() if moment},
            **({"correction": True} if said.correction else {}),
            **({"alike": list(alike)} if alike else {}),
        }
    )


def _last(end: datetime | None) -> datetime | None:
    """The last moment before an end: of what ends with a day that is the day itself, as it was given."""
    return end and end - timedelta(microseconds=1)


def understood(reply: ConsolidationReply, draft: Draft, asked: Sequence[str], keys: Sequence[str]) -> Decisions:
    """The reply with our ids for its numbers; only what it says of new facts counts."""
    ids = dict(enumerate(asked))
    new = {question.new for question in draft.open}
    dropped: Counter[str] = Counter()
    ops = []
    for op in reply.ops:
        fact, targets = ids.get(op.fact), [ids.get(target) for target in op.targets]
        meant = tuple(id for id in targets if id and fact and id != fact and {id, fact} & new)
        dropped["decision about facts that were not asked about"] += len(targets) - len(meant)
        if op.op in ("ADD", "NOOP") and fact in new:
            ops.append(Decision(fact, op.op, (), op.reason))
        elif op.op not in ("ADD", "NOOP") and fact and meant:
            ops.append(Decision(fact, op.op, meant, op.reason))
    pairs = {(ids.get(one.fact, ""), ids.get(base, "")) for one in reply.depends for base in one.on}
    doubts = dict(enumerate(draft.resolution.doubts))
    known = dict(enumerate(keys))
    return Decisions(
        tuple(ops),
        tuple(sorted((one, base) for one, base in pairs if one in new and base and one != base)),
        {
            doubts[one.name].ref: known.get(one.known) if one.known is not None else None
            for one in reply.same
            if one.name in doubts
        },
        +dropped,
    )
