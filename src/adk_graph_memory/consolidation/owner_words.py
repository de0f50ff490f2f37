"""The owner's word about a memory: what it makes of a fact or a name, and the reading that it becomes.

A correction is an observation like any other, with the owner as its source. What the owner decides beside that is a
ruling, which outranks all that was extracted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from adk_graph_memory.consolidation.restriction import resolve_read_proposition
from adk_graph_memory.language.text import fold_text
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.facts import Fact, Proposition, Revision, Ruling
from adk_graph_memory.records.memory import DerivedEntity
from adk_graph_memory.records.readings import OWNER, RULING_REASONS, ClaimDecision, ClaimRef, OwnerRuling, Reading


def make_ruling_reading(ruling: OwnerRuling, at: datetime) -> Reading:
    """Make the reading of a ruling that is written at a moment."""
    ruling = replace(ruling, reason=ruling.reason or RULING_REASONS[ruling.op])
    return Reading(f"{OWNER}:{uuid4().hex}", "", Extraction(), extractor=OWNER, judge=OWNER, at=at, ruling=ruling)


def make_correction_reading(
    fact: Fact, correction: Proposition, source: Source, entities: Mapping[str, DerivedEntity], reason: str
) -> Reading:
    """Make the reading of a correction: the old fact was never true, and the new one is so on the owner's word.

    Args:
        fact: the fact to correct.
        correction: what is true in its place.
        source: the owner's words.
        entities: all entities by key.
        reason: why, in the owner's words.
    """
    keys = dict.fromkeys(key for key in (correction.subject, correction.object) if key)
    refs = {key: ref for ref, key in enumerate(keys)}
    extracted = ExtractedFact(
        subject=refs[correction.subject or ""],
        object=refs[correction.object] if correction.object else None,
        sources=(source,),
        speaker=correction.speaker or "",
        at=source.at,
        **correction.wording,
    )
    reason = reason or RULING_REASONS["correct"]
    ruling = OwnerRuling("correct", refer_to_fact(fact), reason=reason, at=source.at)
    reading = make_ruling_reading(ruling, source.at)
    new = ClaimRef(correction.wording_key, (source.key,))
    return replace(
        reading,
        session_id=source.session_id,
        extraction=Extraction(tuple(_name_entity(entities[key], ref) for key, ref in refs.items()), (extracted,)),
        entity_keys={ref: key for key, ref in refs.items()},
        claim_decisions=(ClaimDecision("SUPERSEDE", new, (refer_to_fact(fact),), reason),),
        functional_predicates=(correction.predicate,) if correction.is_functional else (),
        heard_turn_ids=(source.turn_id,),
    )


def _name_entity(entity: DerivedEntity, ref: int) -> ExtractedEntity:
    return ExtractedEntity(ref, entity.name, entity.type, known_key=entity.key, about=entity.about)


def refer_to_fact(fact: Fact) -> ClaimRef:
    """Refer to a fact as rulings do, by its wording and its sources."""
    return ClaimRef(fact.proposition.wording_key, tuple(sorted(source.key for source in fact.sources)))


def choose_object(fact: Fact, text: str, entities: Mapping[str, DerivedEntity]) -> str | None:
    """Choose whom a corrected wording speaks of: the object as it was if the text names it, else who is named there."""
    object_key, folded = fact.proposition.object, f" {fold_text(text)} "
    if object_key is None:
        return None
    type = entities[object_key].type
    others = sorted(
        (key for key, entity in entities.items() if not entity.merged_into and key != fact.proposition.subject),
        key=lambda key: (entities[key].type != type, -len(entities[key].name), key),
    )
    return next((key for key in (object_key, *others) if _names_entity(folded, entities[key])), None)


def _names_entity(folded_text: str, entity: DerivedEntity) -> bool:
    words = "".join(letter if letter.isalnum() else " " for letter in folded_text)
    names = ("".join(c if c.isalnum() else " " for c in fold_text(name)) for name in (entity.name, *entity.aliases))
    return any(name.strip() and f" {name.strip()} " in f" {words} " for name in names)


def find_ruled_fact(facts: Iterable[Fact], claim: ClaimRef) -> Fact | None:
    """Find the fact that a ruling names: one of its wording, or else the only one of its words."""
    keys = set(claim.source_keys)
    touched = [fact for fact in facts if not keys.isdisjoint(source.key for source in fact.sources)]
    same = [fact for fact in touched if claim.wording_key == fact.proposition.wording_key]
    found = same or (touched if len(touched) == 1 else [])
    return max(found, key=lambda fact: (sum(source.key in keys for source in fact.sources), fact.id), default=None)


def rule_fact(fact: Fact, ruling: OwnerRuling, at: datetime) -> Fact:
    """Return the fact with what the owner decided about it; its standing follows from that afterwards."""
    before = fact.ruling
    match ruling.op:
        case "pin":
            rule = Ruling(True, upheld_until=at, reason=ruling.reason)
        case "unpin":
            rule = Ruling(reason=ruling.reason) if before.is_pinned else before
        case "retract" | "correct":
            rule = Ruling(retracted_at=at, reason=ruling.reason)
        case "rollback":
            rule = Ruling(before.is_pinned, upheld_until=at, reason=ruling.reason)
        case _:
            rule = before
    fact = replace(fact, ruling=rule)
    return _reword_fact(fact, ruling, at) if ruling.wording else fact


def _reword_fact(fact: Fact, ruling: OwnerRuling, at: datetime) -> Fact:
    old, wording = fact.proposition, ruling.wording
    if wording is None or wording.text == old.text:
        return fact
    new = replace(wording, subject=old.subject, object=old.object, at=old.at)
    revision = Revision(
        fact.id,
        "REFINE",
        old.text,
        old.signature,
        fact.standing,
        ruling.reason,
        is_by_model=True,
        recorded_at=at,
        judge=OWNER,
    )
    revisions = fact.revisions
    if revision.key not in {item.key for item in revisions}:
        revisions = (*revisions, revision)
    signatures = (*fact.equivalent_signatures, old.signature)
    return replace(fact, proposition=new, equivalent_signatures=signatures, revisions=revisions)


def list_foreign_names(readings: Iterable[Reading]) -> dict[str, tuple[str, ...]]:
    """Map names of entities to those that are not theirs on the owner's word, all folded; the last word counts."""
    pairs: dict[tuple[str, str], bool] = {}
    for ruling in (reading.ruling for reading in readings if reading.ruling):
        if ruling.op == "split":
            name, alias = map(fold_text, ruling.names)
            pairs[name, alias] = True
        elif ruling.op == "merge":
            _, _, *names = ruling.names
            pairs |= {(fold_text(a), fold_text(b)): False for a in names for b in names}
    foreign_names: dict[str, tuple[str, ...]] = {}
    for name, alias in sorted(pair for pair, is_apart in pairs.items() if is_apart):
        foreign_names[name] = (*foreign_names.get(name, ()), alias)
    return foreign_names


def find_read_wording(readings: Iterable[Reading], fact: Fact, text: str) -> Proposition:
    """Find how a wording of a fact was read, with its dates; a wording that nobody read keeps the fact's dates."""
    keys = {source.key for source in fact.sources}
    for reading in readings:
        for read in reading.extraction.facts:
            if read.text == text and not keys.isdisjoint(source.key for source in read.sources):
                return resolve_read_proposition(reading, read)
    return replace(fact.proposition, text=text)
