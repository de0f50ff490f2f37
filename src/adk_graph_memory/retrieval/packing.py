"""Recollections go in, best first; those that fit a model's context come out, each thing said once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adk_graph_memory.records import Recollection, token_count


def packed(
    found: Sequence[Recollection], evidence: Mapping[str, Sequence[str]], *, limit: int, token_budget: int
) -> list[Recollection]:
    """At most ``limit`` recollections of together about ``token_budget`` tokens, but always the first.

    A fact and the turn it rests on count once: whichever stands lower is left out.

    Args:
        found: best first.
        evidence: id of a recollection → ids of the memories whose words it repeats.
        limit: how many at most.
        token_budget: tokens of text at most, by ``token_count``'s count.
    """
    kept: list[Recollection] = []
    told: set[str] = set()
    spent = 0
    for memory in found:
        said = {memory.id, *evidence.get(memory.id, ())} - {""}  # a caller's own retrieval query may return no ids
        if said & told:
            continue
        cost = token_count(memory.text)
        if kept and spent + cost > token_budget:
            continue
        kept.append(memory)
        told |= said
        spent += cost
        if len(kept) == limit:
            break
    return kept
