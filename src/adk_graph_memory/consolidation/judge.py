"""A draft's open questions go to a model, all in one call; its decisions come back as data of ours."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pydantic import BaseModel, Field

from adk_graph_memory import errors, llm, prompts
from adk_graph_memory.consolidation.claim_groups import ClaimGroup
from adk_graph_memory.consolidation.comparison import Comparison
from adk_graph_memory.consolidation.decisions import Decision, JudgeDecisions
from adk_graph_memory.records import KnownEntity, PlannedEntity, Usage, fold_text
from adk_graph_memory.records.dates import format_short_date, format_weekday_date
from adk_graph_memory.records.write_plan import FactOperation

_EDGE_PUNCTUATION = " .,;:!?…。！？،؟।\"'“”‘’«»„"
MAX_ENTITY_FACTS = 5
"""Facts that are shown with an entity to tell who it is."""


class OpReply(BaseModel):
    """How a fact relates to others."""

    fact: int = Field(description="number of a fact")
    op: FactOperation
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

    def __init__(self, model: llm.BaseLlm, patience: llm.RetryPolicy) -> None:
        self._model, self._retry_policy = model, patience
        self._prompt = prompts.load_prompt("consolidate")
        self.version = f"{model.model} {self._prompt.version}"

    async def decide(self, draft: Comparison) -> tuple[JudgeDecisions, Usage]:
        """The model's decisions on all that is open; whatever it says of other facts is left out and counted.

        Questions too many for one reply are asked in halves.

        Raises:
            errors.ModelError: the model failed; nothing was decided.
        """
        asked, keys = _list_prompt_ids(draft)
        shown = await asyncio.to_thread(_make_question_fields, draft, asked, keys)
        prompt = self._prompt.fill_template(**shown)
        try:
            answer = await llm.generate_structured(self._model, prompt, ConsolidationReply, self._retry_policy)
        except errors.ReplyTruncated as error:
            if len(draft.open_questions) > 1:
                middle = len(draft.open_questions) // 2
                first, cost = await self.decide(replace(draft, open_questions=draft.open_questions[:middle]))
                certain = replace(draft.resolution, doubts=())
                rest, more = await self.decide(
                    replace(draft, open_questions=draft.open_questions[middle:], resolution=certain)
                )
                return first + rest, error.usage + cost + more
            if error.answer is None:
                raise
            answer = error.answer
        decisions = await asyncio.to_thread(parse_decisions, answer.reply, draft, asked, keys)
        return replace(decisions, dropped=Counter(decisions.dropped) + Counter(answer.dropped)), answer.usage


def _list_prompt_ids(draft: Comparison) -> tuple[list[str], list[str]]:
    """The tenets that a model is shown, those that are new first, and the entities that a name may mean; ids."""
    new = [question.claim_id for question in draft.open_questions]
    known = (*(id for question in draft.open_questions for id in question.similar_ids), *draft.recent_ids)
    keys = dict.fromkeys(key for doubt in draft.resolution.doubts for key in doubt.candidate_keys)
    return list(dict.fromkeys((*new, *known))), list(keys)


def _make_question_fields(draft: Comparison, asked: Sequence[str], keys: Sequence[str]) -> dict[str, str]:
    """What the prompt says, by the names in its template."""
    numbers = {id: number for number, id in enumerate(asked)}
    alike = {question.claim_id: [numbers[id] for id in question.similar_ids] for question in draft.open_questions}
    ends = {id: [numbers[one] for one in draft.replacements.get(id, ()) if one in numbers] for id in alike}
    lines = {
        id: _format_claim(number, draft.claim_groups[id], alike.get(id), ends.get(id)) for id, number in numbers.items()
    }
    places, everybody = {key: number for number, key in enumerate(keys)}, _collect_entity_profiles(draft)
    names = (
        f"{_format_entity(number, everybody[draft.resolution.keys_by_ref[doubt.ref]], doubt.quotes)}, perhaps "
        + " or ".join(str(places[key]) for key in doubt.candidate_keys)
        for number, doubt in enumerate(draft.resolution.doubts)
    )
    said = {
        "known": [line for id, line in lines.items() if id not in alike],
        "new": [line for id, line in lines.items() if id in alike],
        "entities": [_format_entity(number, everybody[key]) for number, key in enumerate(keys)],
        "names": list(names),
    }
    return {name: "\n".join(told) or "(none)" for name, told in said.items()}


class _EntityProfile(NamedTuple):
    """An entity, as it is known and as it is planned, and what is said of it."""

    entities: list[KnownEntity | PlannedEntity]
    facts: list[str]


def _collect_entity_profiles(draft: Comparison) -> dict[str, _EntityProfile]:
    """Those in doubt and those who may be meant, by key; entities and facts are gone through once, not for each."""
    resolution = draft.resolution
    found = {
        key: _EntityProfile([], [])
        for one in resolution.doubts
        for key in (resolution.keys_by_ref[one.ref], *one.candidate_keys)
    }
    listed: list[KnownEntity | PlannedEntity] = [*draft.candidates.entities, *resolution.planned_entities]
    for entity in listed:
        if entity.key in found:
            found[entity.key].entities.append(entity)
    for tenet in draft.claim_groups.values() if found else ():
        said = tenet.claim.proposition
        for key in found.keys() & {said.subject or "", said.object or ""}:
            found[key].facts.append(said.text)
    return found


def _format_entity(number: int, somebody: _EntityProfile, quotes: Sequence[str] = ()) -> str:
    """An entity with what is said of it, and words that name it."""
    entity, *_ = somebody.entities
    names = dict.fromkeys(name for one in somebody.entities for name in (one.name, *one.aliases))
    return prompts.encode_line(
        {
            "number": number,
            "names": list(names),
            "type": entity.type,
            **({"about": entity.about} if entity.about else {}),
            "facts": sorted(somebody.facts)[:MAX_ENTITY_FACTS],
            **({"quotes": quotes[:MAX_ENTITY_FACTS]} if quotes else {}),
        }
    )


def _format_claim(number: int, tenet: ClaimGroup, alike: Sequence[int] | None, replaces: Sequence[int] | None) -> str:
    """A fact with the words that it was last told in, and since when it is no longer so, if it is not."""
    said, sources = tenet.claim.proposition, tenet.sources
    states = {fact.standing.state: fact.standing for fact in tenet.facts}
    over = None if "current" in states else next((one for _, one in sorted(states.items())), None)
    dates = {
        "valid_from": format_short_date(said.valid_from, said.valid_from_precision),
        "valid_to": format_short_date(said.valid_to, said.valid_to_precision, is_end=True),
        "ended": over and over.valid_to != said.valid_to and format_short_date(over.valid_to, over.valid_to_precision),
    }
    return prompts.encode_line(
        {
            "number": number,
            "said": format_weekday_date(sources[-1].at) if sources else "",
            **({"speaker": said.speaker} if said.speaker else {}),
            "text": said.text,
            "quote": sources[-1].quote if sources else "",
            "modality": said.modality,
            **{name: date for name, date in dates.items() if date},
            **({"correction": True} if said.is_correction else {}),
            **({"replaces": list(replaces)} if replaces else {}),
            **({"alike": list(alike)} if alike else {}),
        }
    )


def _has_every_quote(quotes: Sequence[str], *tenets: ClaimGroup) -> bool:
    """Whether each of them is quoted: the words that it rests on, its text, or the greater part of either."""
    given = [fold_text(quote).strip(_EDGE_PUNCTUATION) for quote in quotes]
    for tenet in tenets:
        texts = [*(source.quote for source in tenet.sources), *(one.text for one in tenet.wordings)]
        said = [fold_text(text).strip(_EDGE_PUNCTUATION) for text in texts]
        if not any(one and _is_major_part(*sorted((one, other), key=len)) for one in given for other in said):
            return False
    return True


def _is_major_part(short: str, long: str) -> bool:
    return short in long and 2 * len(short) >= len(long)


def parse_decisions(
    reply: ConsolidationReply, draft: Comparison, asked: Sequence[str], keys: Sequence[str]
) -> JudgeDecisions:
    """The reply with our ids for its numbers; only what it says of new facts counts.

    A number is easily one off: an ending counts only where the reply quotes the fact and the target, too.
    """
    ids = dict(enumerate(asked))
    new = {question.claim_id for question in draft.open_questions}
    dropped: Counter[str] = Counter()
    ops = []
    for op in reply.ops:
        fact, targets = ids.get(op.fact), [ids.get(target) for target in op.targets]
        meant = tuple(id for id in targets if id and fact and id != fact and {id, fact} & new)
        dropped["decision about facts that were not asked about"] += len(targets) - len(meant)
        if op.op in ("SUPERSEDE", "RETRACT") and meant and fact:
            told = [id for id in meant if _has_every_quote(op.quotes, draft.claim_groups[fact], draft.claim_groups[id])]
            dropped["ending without the words of both facts"] += len(meant) - len(told)
            meant = tuple(told)
        if op.op != "ADD" and meant and fact:
            ops.append(Decision(fact, op.op, meant, op.reason))
        elif op.op == "ALREADY_KNOWN":
            dropped["already known, but no fact that says it"] += 1
    pairs = {(ids.get(one.fact, ""), ids.get(base, "")) for one in reply.depends for base in one.on}
    doubts = dict(enumerate(draft.resolution.doubts))
    known = dict(enumerate(keys))
    return JudgeDecisions(
        tuple(ops),
        tuple(sorted((one, base) for one, base in pairs if one in new and base and one != base)),
        {
            doubts[one.name].ref: known.get(one.known) if one.known is not None else None
            for one in reply.same
            if one.name in doubts
        },
        +dropped,
    )
