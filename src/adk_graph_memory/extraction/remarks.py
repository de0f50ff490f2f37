"""Apply a reply's remarks: mark turns that are not their author's own words, and drop turns to forget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from adk_graph_memory.extraction.reply_schema import ExtractionReply, ForgetReply
from adk_graph_memory.records import ExtractedFact, Extraction, Remark, Turn

_BORROWED_KINDS = ("pasted", "quoted")


def apply_remarks(
    extraction: Extraction, reply: ExtractionReply, turns: Sequence[Turn], context: Sequence[Turn] = ()
) -> Extraction:
    """Add the reply's remarks to the extraction and drop what somebody asked to forget.

    Args:
        extraction: the entities and facts of the reply.
        reply: the model's reply.
        turns: the turns of the window, numbered from 0.
        context: the turns before the window, with negative numbers; a request to forget may cover them.
    """
    turns_by_number = dict(enumerate((*context, *turns), start=-len(context)))
    drop_counts = Counter(extraction.drop_counts)
    remarks = {turns_by_number[remark.turn].id: remark for remark in reply.turns if 0 <= remark.turn < len(turns)}
    drop_counts["remark on no turn of the window"] += len(reply.turns) - len(remarks)
    extraction = replace(
        extraction,
        remarks=tuple(Remark(id, remark.kind, remark.origin.strip()) for id, remark in sorted(remarks.items())),
    )
    borrowed_ids = {id for id, remark in remarks.items() if remark.kind in _BORROWED_KINDS}
    forget: set[str] = set()
    for request in reply.forget:
        ids = set(_collect_forget_ids(request, turns_by_number, borrowed_ids))
        drop_counts["request to forget that its author may not make"] += not ids
        forget |= ids
    return drop_forgotten_turns(extraction, frozenset(forget), drop_counts)


def _collect_forget_ids(
    request: ForgetReply, turns_by_number: dict[int, Turn], borrowed_ids: set[str]
) -> Iterator[str]:
    """Ids of the turns that a request covers: those of the person who asks, and an agent's answers.

    A request in a turn of borrowed words may not be its author's, so it covers that turn only.
    """
    asking_turn = turns_by_number.get(request.request)
    if asking_turn is None or asking_turn.role != "user":
        return
    for turn in (asking_turn, *(turns_by_number[number] for number in request.turns if number in turns_by_number)):
        may_forget = turn.author == asking_turn.author or turn.role == "model"
        if turn is asking_turn or (may_forget and asking_turn.id not in borrowed_ids):
            yield turn.id


def drop_forgotten_turns(extraction: Extraction, forget: frozenset[str], drop_counts: Counter[str]) -> Extraction:
    """Drop all that rests on the turns with these ids, then facts without sources and entities nothing refers to."""
    if not forget:
        return replace(extraction, drop_counts=+drop_counts)
    facts: list[ExtractedFact] = []
    for fact in extraction.facts:
        sources = tuple(source for source in fact.sources if source.turn_id not in forget)
        if sources:
            facts.append(replace(fact, sources=sources))
    drop_counts["fact that somebody asked not to remember"] += len(extraction.facts) - len(facts)
    mentions = tuple(mention for mention in extraction.mentions if mention[0] not in forget)
    used_refs = {ref for fact in facts for ref in (fact.subject, fact.object)} | {ref for _, ref in mentions}
    return replace(
        extraction,
        entities=tuple(entity for entity in extraction.entities if entity.ref in used_refs),
        facts=tuple(facts),
        mentions=mentions,
        drop_counts=+drop_counts,
        remarks=tuple(remark for remark in extraction.remarks if remark.turn_id not in forget),
        forget_turn_ids=tuple(sorted(forget)),
    )
