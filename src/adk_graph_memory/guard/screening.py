"""Ask a guard about each fact of an extraction, and about each statement that is added directly."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from adk_graph_memory import consolidation, errors
from adk_graph_memory.guard.rules import apply_rules
from adk_graph_memory.records import (
    Candidates,
    ExtractedFact,
    Extraction,
    KnownEntity,
    Scope,
    Statement,
    Turn,
    WritePlan,
    fold_text,
)
from adk_graph_memory.records.guard import GuardCandidate, GuardVerdict
from adk_graph_memory.records.readings import WithheldFact
from adk_graph_memory.records.turns import find_strongest_origin
from adk_graph_memory.redaction import secrets

Guard = Callable[[GuardCandidate], GuardVerdict | None]
GuardOption = Guard | Literal["rules"] | None


def choose_guard(choice: GuardOption) -> Guard | None:
    """Choose the guard that an argument or a setting names; None is none.

    Raises:
        errors.RedactorMissing: the libraries by which ``"rules"`` finds secrets are not installed.
        errors.InvalidArgument: it is neither a function nor ``"rules"``.
    """
    if choice == "rules":
        secrets.load_detectors()
        return apply_rules
    if isinstance(choice, str) or not (choice is None or callable(choice)):
        raise errors.InvalidArgument(reason=f'guard={choice!r} is neither "rules" nor a function of a candidate')
    return choice


def _ask_guard(guard: Guard, candidates: Sequence[GuardCandidate]) -> list[GuardVerdict]:
    try:
        verdicts = [guard(candidate) or GuardVerdict("keep") for candidate in candidates]
    except Exception as error:
        # The error's message may quote what was said, and ours may end up in a log: name only its type.
        reason = f"the guard raised {type(error).__name__}; nothing is written, and turns stay pending"
        raise errors.ConfigurationError(reason=reason) from error
    if any(not isinstance(verdict, GuardVerdict) for verdict in verdicts):
        raise errors.ConfigurationError(reason="the guard returned what is no GuardVerdict; nothing is written")
    return verdicts


class Screening:
    """What a guard says of one extraction.

    Args:
        guard: the guard; None keeps all.
        extraction: what was extracted.
        turns: the turns of the window and those before it.
        scope: whose memory it is.
        known_entities: stored entities; they tell other names of speakers.
    """

    def __init__(
        self,
        guard: Guard | None,
        extraction: Extraction,
        turns: Sequence[Turn],
        scope: Scope,
        known_entities: Sequence[KnownEntity] = (),
    ) -> None:
        self._guard, self._extraction, self._scope = guard, extraction, scope
        self._turns = {turn.id: turn for turn in turns}
        self._turn_texts: dict[tuple[str, ...], str] = {}
        self._names = {entity.ref: entity.name for entity in extraction.entities}
        self._speakers = tuple(_list_speakers(turns, extraction, known_entities))
        self._verdicts: dict[int, GuardVerdict] = {}

    @property
    def withheld(self) -> tuple[WithheldFact, ...]:
        """What is held for review."""
        held = ((ref, verdict) for ref, verdict in sorted(self._verdicts.items()) if verdict.action == "hold")
        return tuple(WithheldFact(ref, verdict.rule, verdict.reason) for ref, verdict in held)

    @property
    def remembered(self) -> Extraction:
        """The extraction without what is dropped; what is dropped or held is counted."""
        dropped = {ref for ref, verdict in self._verdicts.items() if verdict.action == "drop"}
        counts = Counter(
            f"{'held' if verdict.action == 'hold' else 'dropped'} by the guard: {verdict.rule}"
            for verdict in self._verdicts.values()
            if verdict.action != "keep"
        )
        extraction = consolidation.withhold_facts(self._extraction, dropped)
        return replace(extraction, drop_counts=Counter(extraction.drop_counts) + counts)

    @property
    def kept(self) -> Extraction:
        """The extraction without what is dropped or held."""
        return consolidation.withhold_facts(self.remembered, {fact.ref for fact in self.withheld})

    async def check_facts(self) -> None:
        """Ask about every fact.

        Raises:
            errors.ConfigurationError: the guard raised, or returned no verdict.
        """
        await self._ask({fact.ref: () for fact in self._extraction.facts})

    async def check_changes(self, plan: WritePlan, candidates: Candidates) -> bool:
        """Ask again about facts that would change a pinned one; return whether any of them is withheld now.

        Raises:
            errors.ConfigurationError: the guard raised, or returned no verdict.
        """
        if self._guard is None:
            return False
        return await self._ask(await asyncio.to_thread(self._find_pinned_texts, plan, candidates))

    def _find_pinned_texts(self, plan: WritePlan, candidates: Candidates) -> dict[int, tuple[str, ...]]:
        """The pinned facts that the plan changes, by the facts that change them."""
        pinned = {fact.id: fact.proposition.text for fact in candidates.facts if fact.ruling.is_pinned}
        texts_by_id: dict[str, list[str]] = {}
        for link in plan.links:
            if link.earlier in pinned:
                texts_by_id.setdefault(link.later, []).append(pinned[link.earlier])
        texts_by_source = {
            (fact.proposition.predicate, source.key): tuple(texts_by_id[fact.id])
            for fact in plan.facts
            if fact.id in texts_by_id
            for source in fact.sources
        }
        if not texts_by_source:
            return {}
        return {
            fact.ref: texts
            for fact in self.kept.facts
            for source in fact.sources
            if (texts := texts_by_source.get((fact.predicate, source.key)))
        }

    async def _ask(self, pinned_texts: Mapping[int, tuple[str, ...]]) -> bool:
        if self._guard is None or not pinned_texts:
            return False
        facts = [fact for fact in self._extraction.facts if fact.ref in pinned_texts]
        guard = self._guard

        def ask() -> list[GuardVerdict]:
            return _ask_guard(guard, [self._make_candidate(fact, pinned_texts[fact.ref]) for fact in facts])

        verdicts = await asyncio.to_thread(ask)
        self._verdicts |= {fact.ref: verdict for fact, verdict in zip(facts, verdicts, strict=True)}
        return any(verdict.action != "keep" for verdict in verdicts)

    def _make_candidate(self, fact: ExtractedFact, pinned_texts: tuple[str, ...]) -> GuardCandidate:
        turn_ids = tuple(dict.fromkeys(source.turn_id for source in fact.sources))
        if turn_ids not in self._turn_texts:
            self._turn_texts[turn_ids] = "\n\n".join(self._turns[id].text for id in turn_ids if id in self._turns)
        return GuardCandidate(
            text=fact.text,
            quotes=tuple(source.quote for source in fact.sources),
            origin=find_strongest_origin(source.origin for source in fact.sources) or "import",
            author=fact.sources[0].author,
            turn_text=self._turn_texts[turn_ids],
            app_name=self._scope.app_name,
            user_id=self._scope.user_id,
            subject=self._names.get(fact.subject, ""),
            speakers=self._speakers,
            pinned_texts=pinned_texts,
        )


def _list_speakers(
    turns: Iterable[Turn], extraction: Extraction, known_entities: Iterable[KnownEntity]
) -> Iterable[tuple[str, ...]]:
    """List the people who speak, each with the names that they are known by."""
    named = [(entity.name, *entity.aliases) for entity in known_entities]
    named += [(entity.name, *entity.aliases) for entity in extraction.entities]
    for author in sorted({turn.author for turn in turns if turn.origin == "user"}):
        folded = fold_text(author)
        own = (names for names in named if folded in map(fold_text, names))
        yield tuple(dict.fromkeys((author, *(name for names in own for name in names))))


async def screen_statements(
    guard: Guard | None, statements: Sequence[Statement], scope: Scope, *, holds: bool
) -> tuple[list[Statement], Mapping[str, int], Guard | None]:
    """Ask about statements that are added directly.

    With ``holds``, a statement that is to be held goes on. Without, it is refused like one that is to be dropped.

    Returns:
        The statements to go on with, counts of the others by rule, and the guard to ask about what is read in these
        statements: it holds whatever is read in one that is to be held.

    Raises:
        errors.ConfigurationError: the guard raised, or returned no verdict; nothing is written.
    """
    if guard is None:
        return list(statements), {}, None
    candidates = [
        GuardCandidate(
            text=statement.text,
            quotes=(statement.text,),
            origin=statement.origin or "import",
            author=statement.author or "",
            turn_text=statement.text,
            app_name=scope.app_name,
            user_id=scope.user_id,
        )
        for statement in statements
    ]
    verdicts = await asyncio.to_thread(_ask_guard, guard, candidates)
    passing = ("keep", "hold") if holds else ("keep",)
    counts = Counter(f"refused by the guard: {verdict.rule}" for verdict in verdicts if verdict.action not in passing)
    kept = [item for item, verdict in zip(statements, verdicts, strict=True) if verdict.action in passing]
    held = {item.text: verdict for item, verdict in zip(statements, verdicts, strict=True) if verdict.action == "hold"}

    def ask_guard(candidate: GuardCandidate) -> GuardVerdict | None:
        texts = (candidate.turn_text, *candidate.turn_text.split("\n\n"))
        return next((held[text] for text in texts if text in held), None) or guard(candidate)

    return kept, counts, ask_guard if held else guard
