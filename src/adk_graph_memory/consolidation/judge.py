"""Ask a model all open questions of a comparison in one call, and parse its decisions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pydantic import BaseModel, Field

from adk_graph_memory import errors
from adk_graph_memory.consolidation.claims import ClaimGroup
from adk_graph_memory.consolidation.comparison import Comparison
from adk_graph_memory.consolidation.decisions import Decision, JudgeDecisions
from adk_graph_memory.language.dates import format_short_date, format_weekday_date
from adk_graph_memory.language.text import count_tokens, find_proof, fold_text
from adk_graph_memory.models import llm, prompts
from adk_graph_memory.records.extractions import Usage
from adk_graph_memory.records.facts import EntityWrite, FactOperation, KnownEntity
from adk_graph_memory.runtime.settings import Limits

_EDGE_PUNCTUATION = " .,;:!?…。！？،؟।\"'“”‘’«»„"
MAX_ENTITY_FACTS = 5
"""How many facts and quotes the prompt shows with an entity to identify it."""
PROMPT_WINDOWS = 2
"""The longest prompt, in windows of an extraction: it shows facts beside the words they rest on."""


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
        limits: how often, how long and how many at a time to call it.
    """

    def __init__(self, model: llm.BaseLlm, limits: Limits) -> None:
        self._model, self._limits = model, limits
        self._prompt = prompts.load_prompt("consolidate")
        self.version = f"{model.model} {self._prompt.version}"

    async def decide(self, comparison: Comparison) -> tuple[JudgeDecisions, Usage]:
        """Ask the model about everything that is open. Decisions about other facts are dropped and counted.

        If the prompt is too long, or the reply truncated, the questions are asked in two halves. If the model refuses
        them, because of a word in them perhaps, they stay open and are counted.

        Raises:
            errors.ModelError: the model failed; nothing was decided.
        """
        claim_ids, entity_keys = _list_prompt_ids(comparison)
        fields = await asyncio.to_thread(_format_question_fields, comparison, claim_ids, entity_keys)
        prompt, is_divisible = self._prompt.fill_template(**fields), len(comparison.open_questions) > 1
        max_tokens = PROMPT_WINDOWS * self._limits.window_tokens
        if is_divisible and await asyncio.to_thread(count_tokens, prompt) > max_tokens:
            return await self._decide_halves(comparison)
        try:
            answer = await llm.generate_structured(self._model, prompt, ConsolidationReply, self._limits)
        except errors.ReplyTruncated as error:
            if is_divisible:
                decisions, usage = await self._decide_halves(comparison)
                return decisions, error.usage + usage
            if error.answer is None:
                raise
            answer = error.answer
        except errors.ModelRefused:
            refused = {"question that the model refused": len(comparison.open_questions)}
            return JudgeDecisions(drop_counts=refused), Usage(calls=1)
        decisions = await asyncio.to_thread(parse_decisions, answer.reply, comparison, claim_ids, entity_keys)
        return replace(decisions, drop_counts=Counter(decisions.drop_counts) + Counter(answer.dropped)), answer.usage

    async def _decide_halves(self, comparison: Comparison) -> tuple[JudgeDecisions, Usage]:
        questions = comparison.open_questions
        middle = len(questions) // 2
        first, usage = await self.decide(replace(comparison, open_questions=questions[:middle]))
        resolution = replace(comparison.resolution, doubts=())  # the first half has asked about them
        rest = replace(comparison, open_questions=questions[middle:], resolution=resolution)
        second, more_usage = await self.decide(rest)
        return first + second, usage + more_usage


def _list_prompt_ids(comparison: Comparison) -> tuple[list[str], list[str]]:
    """List the ids of the claims to show, new ones first, and the keys of the entities that a name may mean."""
    questions = comparison.open_questions
    new_ids = [question.claim_id for question in questions]
    known_ids = (*(id for question in questions for id in question.similar_ids), *comparison.recent_ids)
    keys = dict.fromkeys(key for doubt in comparison.resolution.doubts for key in doubt.candidate_keys)
    return list(dict.fromkeys((*new_ids, *known_ids))), list(keys)


def _format_question_fields(
    comparison: Comparison, claim_ids: Sequence[str], entity_keys: Sequence[str]
) -> dict[str, str]:
    numbers = {id: number for number, id in enumerate(claim_ids)}
    questions, replacements = comparison.open_questions, comparison.replacements
    similar = {question.claim_id: [numbers[id] for id in question.similar_ids] for question in questions}
    replaced = {id: [numbers[other] for other in replacements.get(id, ()) if other in numbers] for id in similar}
    lines = {
        id: _format_claim(number, comparison.claim_groups[id], similar.get(id), replaced.get(id))
        for id, number in numbers.items()
    }
    numbers_by_key = {key: number for number, key in enumerate(entity_keys)}
    profiles, keys_by_ref = _collect_entity_profiles(comparison), comparison.resolution.keys_by_ref
    names = (
        f"{_format_entity(number, profiles[keys_by_ref[doubt.ref]], doubt.quotes)}, perhaps "
        + " or ".join(str(numbers_by_key[key]) for key in doubt.candidate_keys)
        for number, doubt in enumerate(comparison.resolution.doubts)
    )
    fields = {
        "known": [line for id, line in lines.items() if id not in similar],
        "new": [line for id, line in lines.items() if id in similar],
        "entities": [_format_entity(number, profiles[key]) for number, key in enumerate(entity_keys)],
        "names": list(names),
    }
    return {field: "\n".join(field_lines) or "(none)" for field, field_lines in fields.items()}


class _EntityProfile(NamedTuple):
    """An entity as known and as planned, and the facts about it."""

    entities: list[KnownEntity | EntityWrite]
    facts: list[str]


def _collect_entity_profiles(comparison: Comparison) -> dict[str, _EntityProfile]:
    """Collect the entities in doubt and their candidates by key, in one pass over entities and facts."""
    resolution = comparison.resolution
    profiles = {
        key: _EntityProfile([], [])
        for doubt in resolution.doubts
        for key in (resolution.keys_by_ref[doubt.ref], *doubt.candidate_keys)
    }
    entities: list[KnownEntity | EntityWrite] = [*comparison.candidates.entities, *resolution.planned_entities]
    for entity in entities:
        if entity.key in profiles:
            profiles[entity.key].entities.append(entity)
    for group in comparison.claim_groups.values() if profiles else ():
        proposition = group.claim.proposition
        for key in profiles.keys() & {proposition.subject or "", proposition.object or ""}:
            profiles[key].facts.append(proposition.text)
    return profiles


def _format_entity(number: int, profile: _EntityProfile, quotes: Sequence[str] = ()) -> str:
    first = profile.entities[0]
    names = dict.fromkeys(name for entity in profile.entities for name in (entity.name, *entity.aliases))
    return prompts.encode_line(
        {
            "number": number,
            "names": list(names),
            "type": first.type,
            **({"about": first.about} if first.about else {}),
            "facts": sorted(profile.facts)[:MAX_ENTITY_FACTS],
            **({"quotes": quotes[:MAX_ENTITY_FACTS]} if quotes else {}),
        }
    )


def _format_claim(
    number: int, group: ClaimGroup, similar: Sequence[int] | None, replaced_numbers: Sequence[int] | None
) -> str:
    """Format a claim with the quote that proves its text, the latest one and, if it no longer holds, when it ended."""
    proposition, sources = group.claim.proposition, group.sources
    quotes = [source.quote for source in sources]
    quote = quotes[find_proof(proposition.text, quotes)] if quotes else ""
    standings = {fact.standing.state: fact.standing for fact in group.facts}
    end = None if "current" in standings else next((standing for _, standing in sorted(standings.items())), None)
    dates = {
        "valid_from": format_short_date(proposition.valid_from, proposition.valid_from_precision),
        "valid_to": format_short_date(proposition.valid_to, proposition.valid_to_precision, is_end=True),
        "ended": end
        and end.valid_to != proposition.valid_to
        and format_short_date(end.valid_to, end.valid_to_precision),
    }
    return prompts.encode_line(
        {
            "number": number,
            "said": format_weekday_date(sources[-1].at) if sources else "",
            **({"speaker": proposition.speaker} if proposition.speaker else {}),
            "text": proposition.text,
            "quote": quote,
            **({"latest_quote": quotes[-1]} if quotes and quotes[-1] != quote else {}),
            "modality": proposition.modality,
            **{name: date for name, date in dates.items() if date},
            **({"correction": True} if proposition.is_correction else {}),
            **({"replaces": list(replaced_numbers)} if replaced_numbers else {}),
            **({"alike": list(similar)} if similar else {}),
        }
    )


def _has_every_quote(quotes: Sequence[str], *groups: ClaimGroup) -> bool:
    """Whether each group is quoted: one of its quotes or texts, or the greater part of one."""
    folded_quotes = [fold_text(quote).strip(_EDGE_PUNCTUATION) for quote in quotes]
    for group in groups:
        texts = [*(source.quote for source in group.sources), *(wording.text for wording in group.wordings)]
        folded_texts = [fold_text(text).strip(_EDGE_PUNCTUATION) for text in texts]
        pairs = (sorted((quote, text), key=len) for quote in folded_quotes if quote for text in folded_texts)
        if not any(short in long and 2 * len(short) >= len(long) for short, long in pairs):
            return False
    return True


def parse_decisions(
    reply: ConsolidationReply, comparison: Comparison, claim_ids: Sequence[str], entity_keys: Sequence[str]
) -> JudgeDecisions:
    """Replace the numbers of a reply by ids; only decisions that involve a new fact count.

    Models easily get a number wrong, so an ending counts only if the reply also quotes the fact and its target.
    The numbers are positions in ``claim_ids`` and ``entity_keys``.
    """
    ids = dict(enumerate(claim_ids))
    new_ids = {question.claim_id for question in comparison.open_questions}
    groups = comparison.claim_groups
    dropped: Counter[str] = Counter()
    decisions = []
    for op in reply.ops:
        fact, all_targets = ids.get(op.fact), [ids.get(target) for target in op.targets]
        targets = tuple(id for id in all_targets if id and fact and id != fact and {id, fact} & new_ids)
        dropped["decision about facts that were not asked about"] += len(all_targets) - len(targets)
        if op.op in ("SUPERSEDE", "RETRACT") and targets and fact:
            quoted_targets = tuple(id for id in targets if _has_every_quote(op.quotes, groups[fact], groups[id]))
            dropped["ending without the words of both facts"] += len(targets) - len(quoted_targets)
            targets = quoted_targets
        if op.op != "ADD" and targets and fact:
            decisions.append(Decision(fact, op.op, targets, op.reason))
        elif op.op == "ALREADY_KNOWN":
            dropped["already known, but no fact that says it"] += 1
    pairs = {(ids.get(item.fact, ""), ids.get(base, "")) for item in reply.depends for base in item.on}
    doubts = dict(enumerate(comparison.resolution.doubts))
    keys = dict(enumerate(entity_keys))
    return JudgeDecisions(
        tuple(decisions),
        tuple(sorted((id, base) for id, base in pairs if id in new_ids and base and id != base)),
        {
            doubts[answer.name].ref: keys.get(answer.known) if answer.known is not None else None
            for answer in reply.same
            if answer.name in doubts
        },
        +dropped,
    )
