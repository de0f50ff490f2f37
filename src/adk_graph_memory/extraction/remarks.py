"""Heed what a reply remarks on turns: which are not their author's own word, and which are not to be remembered."""

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
    """The extraction with the reply's remarks, and without what somebody asked not to be remembered.

    Args:
        extraction: what was read of the reply's entities and facts.
        reply: as the model gave it.
        turns: those that it read, numbered from 0.
        context: those read before, with negative numbers; a request may cover them.
    """
    numbered = dict(enumerate((*context, *turns), start=-len(context)))
    dropped = Counter(extraction.drop_counts)
    remarks = {numbered[one.turn].id: one for one in reply.turns if 0 <= one.turn < len(turns)}
    dropped["remark on no turn of the window"] += len(reply.turns) - len(remarks)
    extraction = replace(
        extraction, remarks=tuple(Remark(id, one.kind, one.origin.strip()) for id, one in sorted(remarks.items()))
    )
    forget: set[str] = set()
    for request in reply.forget:
        covered = set(
            _collect_forget_ids(request, numbered, {id for id, one in remarks.items() if one.kind in _BORROWED_KINDS})
        )
        dropped["request to forget that its author may not make"] += not covered
        forget |= covered
    return drop_forgotten_turns(extraction, frozenset(forget), dropped)


def _collect_forget_ids(request: ForgetReply, numbered: dict[int, Turn], pasted: set[str]) -> Iterator[str]:
    """Ids of the turns that a person's request takes away: that person's own, and what an agent answered to them.

    A request in a turn that holds somebody else's words may be theirs: it takes away no other turn.
    """
    asking = numbered.get(request.request)
    if asking is None or asking.role != "user":
        return
    for turn in (asking, *(numbered[number] for number in request.turns if number in numbered)):
        is_theirs = turn.author == asking.author or turn.role == "model"
        if turn is asking or (is_theirs and asking.id not in pasted):
            yield turn.id


def drop_forgotten_turns(extraction: Extraction, forget: frozenset[str], dropped: Counter[str]) -> Extraction:
    """What rests on other words than these, and those entities alone of which something is still said."""
    if not forget:
        return replace(extraction, drop_counts=+dropped)
    facts: list[ExtractedFact] = []
    for fact in extraction.facts:
        sources = tuple(source for source in fact.sources if source.turn_id not in forget)
        if sources:
            facts.append(replace(fact, sources=sources))
    dropped["fact that somebody asked not to remember"] += len(extraction.facts) - len(facts)
    mentions = tuple(one for one in extraction.mentions if one[0] not in forget)
    spoken_of = {ref for fact in facts for ref in (fact.subject, fact.object)} | {ref for _, ref in mentions}
    return replace(
        extraction,
        entities=tuple(entity for entity in extraction.entities if entity.ref in spoken_of),
        facts=tuple(facts),
        mentions=mentions,
        drop_counts=+dropped,
        remarks=tuple(remark for remark in extraction.remarks if remark.turn_id not in forget),
        forget_turn_ids=tuple(sorted(forget)),
    )
