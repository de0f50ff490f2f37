"""A draft's open questions go to a model, all in one call; its decisions come back as data of ours."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pydantic import BaseModel, Field

from adk_graph_memory import errors, llm, prompts
from adk_graph_memory.consolidation.decisions import Decision, Decisions
from adk_graph_memory.consolidation.draft import Draft
from adk_graph_memory.consolidation.tenets import Tenet
from adk_graph_memory.records import KnownEntity, PlannedEntity, Usage, folded
from adk_graph_memory.records.dates import brief, day_and_hour
from adk_graph_memory.records.plan import Op

_EDGES = " .,;:!?…。！？،؟।\"'“”‘’«»„"
MOST_SAID = 5
"""Facts that are shown with an entity to tell who it is."""


class OpReply(BaseModel):
    """How a fact relates to others."""

    fact: int = Field(description="number of a fact")
    op: Op
    targets: list[int] = Field(default=[], description="numbers of the facts that it touches")
    quotes: list[str] = Field(default=[], description="of the fact and of each target that ends")
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
        shown = await asyncio.to_thread(_shown, draft, asked, keys)
        prompt = self._prompt.filled(**shown)
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
        decisions = await asyncio.to_thread(parse_decisions, answer.reply, draft, asked, keys)
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
    ends = {id: [numbers[one] for one in draft.replaced.get(id, ()) if one in numbers] for id in alike}
    lines = {id: _fact_line(number, draft.tenets[id], alike.get(id), ends.get(id)) for id, number in numbers.items()}
    places, everybody = {key: number for number, key in enumerate(keys)}, _everybody(draft)
    names = (
        f"{_entity_line(number, everybody[draft.resolution.keys[doubt.ref]], doubt.quotes)}, perhaps "
        + " or ".join(str(places[key]) for key in doubt.keys)
        for number, doubt in enumerate(draft.resolution.doubts)
    )
    said = {
        "known": [line for id, line in lines.items() if id not in alike],
        "new": [line for id, line in lines.items() if id in alike],
        "entities": [_entity_line(number, everybody[key]) for number, key in enumerate(keys)],
        "names": list(names),
    }
    return {name: "\n".join(told) or "(none)" for name, told in said.items()}


class _Somebody(NamedTuple):
    """An entity, as it is known and as it is planned, and what is said of it."""

    entities: list[KnownEntity | PlannedEntity]
    facts: list[str]


def _everybody(draft: Draft) -> dict[str, _Somebody]:
    """Those in doubt and those who may be meant, by key; entities and facts are gone through once, not for each."""
    resolution = draft.resolution
    found = {key: _Somebody([], []) for one in resolution.doubts for key in (resolution.keys[one.ref], *one.keys)}
    listed: list[KnownEntity | PlannedEntity] = [*draft.candidates.entities, *resolution.planned]
    for entity in listed:
        if entity.key in found:
            found[entity.key].entities.append(entity)
    for tenet in draft.tenets.values() if found else ():
        said = tenet.strand.proposition
        for key in found.keys() & {said.subject or "", said.object or ""}:
            found[key].facts.append(said.text)
    return found


def _entity_line(number: int, somebody: _Somebody, quotes: Sequence[str] = ()) -> str:
    """An entity with what is said of it, and words that name it."""
    entity, *_ = somebody.entities
    names = dict.fromkeys(name for one in somebody.entities for name in (one.name, *one.aliases))
    return prompts.line(
        {
            "number": number,
            "names": list(names),
            "type": entity.type,
            **({"about": entity.about} if entity.about else {}),
            "facts": sorted(somebody.facts)[:MOST_SAID],
            **({"quotes": quotes[:MOST_SAID]} if quotes else {}),
        }
    )


def _fact_line(number: int, tenet: Tenet, alike: Sequence[int] | None, replaces: Sequence[int] | None) -> str:
    """A fact with the words that it was last told in, and since when it is no longer so, if it is not."""
    said, sources = tenet.strand.proposition, tenet.sources
    states = {fact.standing.state: fact.standing for fact in tenet.facts}
    over = None if "current" in states else next((one for _, one in sorted(states.items())), None)
    dates = {
        "valid_from": brief(said.valid_from, said.valid_from_precision),
        "valid_to": brief(said.valid_to, said.valid_to_precision, is_end=True),
        "ended": over and over.valid_to != said.valid_to and brief(over.valid_to, over.valid_to_precision),
    }
    return prompts.line(
        {
            "number": number,
            "said": day_and_hour(sources[-1].at) if sources else "",
            **({"speaker": said.speaker} if said.speaker else {}),
            "text": said.text,
            "quote": sources[-1].quote if sources else "",
            "modality": said.modality,
            **{name: date for name, date in dates.items() if date},
            **({"correction": True} if said.correction else {}),
            **({"replaces": list(replaces)} if replaces else {}),
            **({"alike": list(alike)} if alike else {}),
        }
    )


def _are_quoted(quotes: Sequence[str], *tenets: Tenet) -> bool:
    """Whether each of them is quoted: the words that it rests on, its text, or the greater part of either."""
    given = [folded(quote).strip(_EDGES) for quote in quotes]
    for tenet in tenets:
        texts = [*(source.quote for source in tenet.sources), *(one.text for one in tenet.wordings)]
        said = [folded(text).strip(_EDGES) for text in texts]
        if not any(one and _is_most(*sorted((one, other), key=len)) for one in given for other in said):
            return False
    return True


def _is_most(short: str, long: str) -> bool:
    return short in long and 2 * len(short) >= len(long)


def parse_decisions(reply: ConsolidationReply, draft: Draft, asked: Sequence[str], keys: Sequence[str]) -> Decisions:
    """The reply with our ids for its numbers; only what it says of new facts counts.

    A number is easily one off: an ending counts only where the reply quotes the fact and the target, too.
    """
    ids = dict(enumerate(asked))
    new = {question.new for question in draft.open}
    dropped: Counter[str] = Counter()
    ops = []
    for op in reply.ops:
        fact, targets = ids.get(op.fact), [ids.get(target) for target in op.targets]
        meant = tuple(id for id in targets if id and fact and id != fact and {id, fact} & new)
        dropped["decision about facts that were not asked about"] += len(targets) - len(meant)
        if op.op in ("SUPERSEDE", "RETRACT") and meant and fact:
            told = [id for id in meant if _are_quoted(op.quotes, draft.tenets[fact], draft.tenets[id])]
            dropped["ending without the words of both facts"] += len(meant) - len(told)
            meant = tuple(told)
        if op.op != "ADD" and meant and fact:
            ops.append(Decision(fact, op.op, meant, op.reason))
        elif op.op == "ALREADY_KNOWN":
            dropped["already known, but no fact that says it"] += 1
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
