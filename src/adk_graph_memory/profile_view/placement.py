"""Place each current fact in a section of the profile, and score it against the others there."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log2

from adk_graph_memory.profile_view.concepts import find_concept, stem_text
from adk_graph_memory.records import Modality, ProfileCandidate, Section

MODALITY_WEIGHTS: Mapping[Modality, float] = {"asserted": 1.0, "negated": 0.5, "reported": 0.0}
"""How much a fact counts by its modality; those of other modalities are plans and guesses, and in no profile."""
_SECTIONS_OF_DENIALS: frozenset[Section] = frozenset({"preferences", "instructions", "other"})
"""Sections where a denial tells something by itself; elsewhere mostly that something is no longer so."""
_LIVING_TYPES = frozenset({"person", "animal"})
_DUTY_STEMS = frozenset(stem_text("should must shall may always never"))
"""Of whom somebody says this to an agent about itself, that one instructs it."""
_INSTRUCTION_CUE = re.compile(r"\b(please|always|never|from now on|call me|don['’]t (ever )?call me)\b", re.IGNORECASE)
_PERSONAL_CUE = re.compile(r"\b(i|i['’]m|i['’]ve|my)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Placement:
    """A candidate with its section and its score there; the higher, the earlier it is told."""

    candidate: ProfileCandidate
    section: Section
    score: float


def place_candidates(
    candidates: Sequence[ProfileCandidate], speakers: Collection[str], *, with_denials: bool = False
) -> list[Placement]:
    """Place the candidates that belong into a profile, best first.

    Args:
        candidates: in any order.
        speakers: the names of those who speak as the user; only they instruct an agent.
        with_denials: also what is denied in sections where a denial mostly tells what is no longer so.
    """
    by_age = sorted(candidates, key=lambda candidate: (candidate.fact.at, candidate.fact.id))
    placements = []
    for rank, candidate in enumerate(by_age, 1):
        section, fit = _find_section(candidate, speakers)
        modality = candidate.fact.modality
        if section is None or modality not in MODALITY_WEIGHTS:
            continue
        if modality == "negated" and not with_denials and section not in _SECTIONS_OF_DENIALS:
            continue
        support = min(1.0, log2(1 + candidate.support) / 4)
        score = fit + MODALITY_WEIGHTS[modality] + support + rank / (3 * len(by_age))
        placements.append(Placement(candidate, section, score))
    return sorted(placements, key=lambda one: (-one.score, one.candidate.fact.id))


def _find_section(candidate: ProfileCandidate, speakers: Collection[str]) -> tuple[Section | None, float]:
    """Where a fact belongs, if anywhere, and how well it fits there."""
    fact, is_own_word = candidate.fact, candidate.fact.author in speakers and candidate.fact.modality != "reported"
    if candidate.is_statement:
        is_wish = is_own_word and _INSTRUCTION_CUE.search(fact.text) is not None
        return "other", 1.0 if is_wish else 0.5 if _PERSONAL_CUE.search(fact.text) else 0.0
    concept, topic = find_concept(fact.predicate), find_concept(fact.topic or "")
    if candidate.place == "agent":
        is_instruction = not _DUTY_STEMS.isdisjoint(stem_text(fact.predicate)) or any(
            one is not None and one.section in ("instructions", "preferences") for one in (concept, topic)
        )
        return ("instructions", 1.0) if is_own_word and is_instruction else (None, 0.0)
    if topic is not None and topic.section == "instructions":
        concept = topic
    if concept is not None and concept.section == "instructions" and not is_own_word:
        concept = None
    is_living = candidate.other_type in _LIVING_TYPES
    if candidate.place == "object":
        is_relation = concept is not None and concept.section == "people"
        return ("people", 2 * concept.weight) if concept and is_relation else ("people" if is_living else "other", -0.5)
    if concept is not None:
        return concept.section, 1 + 2 * concept.weight
    if topic is not None and topic.section != "instructions" and not is_living:
        return topic.section, topic.weight
    return ("people" if is_living else "other"), 0.0
