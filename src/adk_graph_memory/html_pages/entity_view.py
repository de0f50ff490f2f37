"""Arrange what is known of an entity: facts by kind, along one axis of time, and as a graph to draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from adk_graph_memory.html_pages.filters import STATUS_TEXTS, classify_status, classify_type, count_days, get_days
from adk_graph_memory.html_pages.filters import separate_words as word_predicate
from adk_graph_memory.records import StoredEntity, StoredFact
from adk_graph_memory.records.inspection import InspectedEntity

_RINGS = ((11, 270, 130), (20, 480, 230), (28, 690, 330))
"""For each ring how many boxes it holds, and half its width and height; a box is at most 150 wide and 50 high."""
_LAST_DAY = 9_999_999
_LINK_PREFIXES: Mapping[str, str] = {
    "negated": "not ",
    "planned": "planned: ",
    "hypothetical": "maybe ",
    "reported": "hearsay: ",
}


@dataclass(frozen=True, slots=True)
class TimeScale:
    """An axis of days, counted from 1970, from the first day of some facts to today or the last day that is planned."""

    first: int
    last: int
    today: int

    @classmethod
    def from_facts(cls, facts: Iterable[StoredFact]) -> TimeScale:
        """Make the axis on which all of these facts have a place."""
        today = count_days(datetime.now(UTC))
        periods = [get_days(fact) for fact in facts]
        first = min((int(start) for start, _ in periods), default=today)
        starts = max((int(start) for start, _ in periods), default=today)
        return cls(min(first, today), max(starts, today), today)

    @property
    def has_width(self) -> bool:
        """Whether there is more than one day to choose from."""
        return self.last > self.first

    def place(self, fact: StoredFact) -> tuple[float, float]:
        """Place a fact on the axis: from where to where, in percent."""
        width = max(self.last - self.first, 1)
        start, end = (100 * (min(day, self.last) - self.first) / width for day in get_days(fact))
        return min(start, 99.0), end


def group_facts(facts: Sequence[StoredFact]) -> list[tuple[str, list[StoredFact]]]:
    """Group facts by whether they are so now; in a group, those of one subject and predicate stand in order of time."""
    groups = []
    for status, title in STATUS_TEXTS.items():
        group = [fact for fact in facts if classify_status(fact) == status]
        latest: dict[tuple[str, str], float] = {}
        for fact in group:
            slot = fact.subject_key or "", fact.predicate
            latest[slot] = max(latest.get(slot, float("-inf")), get_days(fact)[0])
        group.sort(key=lambda fact: _rank_fact(fact, latest))
        if group:
            groups.append((f"{title[:1].upper()}{title[1:]}", group))
    return groups


def _rank_fact(fact: StoredFact, latest: dict[tuple[str, str], float]) -> tuple[float, str, str, float]:
    slot = fact.subject_key or "", fact.predicate
    return -latest[slot], *slot, -get_days(fact)[0]


def make_graph_elements(details: InspectedEntity, make_url: Callable[..., str]) -> list[dict[str, Any]]:
    """Make what Cytoscape draws: a node for each entity, and an arrow for all facts from one of them to another."""
    center = details.entity.key
    places = _place_in_rings(details.neighbours)
    nodes = [
        {
            "data": {
                "id": entity.key,
                "name": entity.display_name,
                "type": classify_type(entity.type),
                "path": make_url("entities", entity.key) if entity.key != center else None,
            },
            "classes": "center" if entity.key == center else "",
            "position": {"x": x, "y": y},
        }
        for entity, (x, y) in ((details.entity, (0.0, 0.0)), *places)
    ]
    known = {center, *(entity.key for entity in details.neighbours)}
    arrows: dict[tuple[str, str], list[StoredFact]] = {}
    for fact in details.links:
        source, target = fact.subject_key, fact.object_key
        if source in known and target in known and source and target and source != target:
            arrows.setdefault((source, target), []).append(fact)
    return nodes + [_make_arrow(*ends, facts, make_url) for ends, facts in arrows.items()]


def _place_in_rings(entities: Sequence[StoredEntity]) -> list[tuple[StoredEntity, tuple[float, float]]]:
    """Place entities on ellipses around a center, so wide that no two boxes touch, those of one type side by side."""
    places, rest = list[tuple[StoredEntity, tuple[float, float]]](), list(entities)
    for number, (size, width, height) in enumerate(_RINGS):
        ring, rest = rest[:size], rest[size:]
        ring.sort(key=lambda entity: (classify_type(entity.type), entity.name))
        for place, entity in enumerate(ring):
            angle = 2 * math.pi * (place + number / 2) / len(ring)
            places.append((entity, (round(width * math.sin(angle), 1), round(-height * math.cos(angle), 1))))
    return places


def _make_arrow(source: str, target: str, facts: Sequence[StoredFact], make_url: Callable[..., str]) -> dict[str, Any]:
    """Make an arrow that says what its facts say, each from one day until another; dashed if none of them is so."""
    periods = [(word_link(fact), *map(_limit_day, get_days(fact)), fact.modality == "asserted") for fact in facts]
    return {
        "data": {
            "id": f"{source} {target}",
            "source": source,
            "target": target,
            "periods": periods,
            "label": ", ".join(dict.fromkeys(word_link(fact) for fact in facts if fact.holds)),
            "path": make_url("facts", facts[0].id) if len(facts) == 1 else None,
        },
        "classes": _classify_arrow(facts),
    }


def _classify_arrow(facts: Iterable[StoredFact]) -> str:
    modalities = {fact.modality for fact in facts if fact.holds}
    return "over" if not modalities else "" if "asserted" in modalities else "unreal"


def word_link(fact: StoredFact) -> str:
    """Word what a fact says of its subject and object, such as "not allergic to": a drawing shows no sentence."""
    return f"{_LINK_PREFIXES.get(fact.modality, '')}{word_predicate(fact.predicate)}"


def _limit_day(day: float) -> float:
    """A day that JSON can hold: it knows no infinity."""
    return min(day, _LAST_DAY)


def list_types(details: InspectedEntity) -> list[str]:
    """List the kinds of entities in the drawing."""
    return sorted({classify_type(entity.type) for entity in (details.entity, *details.neighbours)})
