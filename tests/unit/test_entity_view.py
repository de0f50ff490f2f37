"""What the drawing of an entity says is what its facts say."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from adk_graph_memory.memory.pages.renderer import STATIC_FOLDER, build_graph_elements
from adk_graph_memory.records.inspection import InspectedEntity
from adk_graph_memory.records.results import StoredEntity, StoredFact

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def make_fact(modality: Any, *, holds: bool = True, predicate: str = "allergic_to") -> StoredFact:
    return StoredFact(
        id=f"{modality} {predicate}",
        text="",
        subject="user",
        predicate=predicate,
        object="penicillin",
        modality=modality,
        topic=None,
        author="user",
        at=NOON,
        valid_from=None,
        valid_to=None,
        state="current" if holds else "superseded",
        is_stale=False,
        holds=holds,
        status="holds" if holds else "over",
        subject_key="user",
        object_key="penicillin",
    )


def draw(*facts: StoredFact) -> tuple[str, str]:
    """The label and the classes of the only arrow."""
    user, penicillin = (StoredEntity(name, name, "thing", (), "", 1) for name in ("user", "penicillin"))
    details = InspectedEntity(user, (), (), facts, (penicillin,), facts, len(facts))
    [arrow] = [
        item for item in build_graph_elements(details, lambda *parts: "/".join(parts)) if "source" in item["data"]
    ]
    return arrow["data"]["label"], arrow["classes"]


@pytest.mark.parametrize(
    ("modality", "label", "classes"),
    [
        ("asserted", "allergic to", ""),
        ("negated", "not allergic to", "unreal"),
        ("planned", "planned: allergic to", "unreal"),
        ("hypothetical", "maybe allergic to", "unreal"),
        ("reported", "hearsay: allergic to", "unreal"),
    ],
)
def test_an_arrow_never_asserts_what_its_fact_does_not(modality: str, label: str, classes: str) -> None:
    assert draw(make_fact(modality)) == (label, classes)


def test_an_arrow_of_several_facts_is_solid_if_one_of_them_is_so_now() -> None:
    treated = make_fact("asserted", predicate="treated_with")
    assert draw(make_fact("negated"), treated) == ("not allergic to, treated with", "")
    assert draw(make_fact("negated"), make_fact("asserted", holds=False)) == ("not allergic to", "unreal")
    assert draw(make_fact("asserted", holds=False)) == ("", "over")


def test_the_legend_explains_each_kind_of_arrow_by_its_own_line() -> None:
    pages = STATIC_FOLDER.parent
    script = (STATIC_FOLDER / "inspector.js").read_text("utf-8")
    drawn = dict(re.findall(r'"edge\.(\w+)", style: \{ "line-style": "(\w+)"', script))
    explained = dict(
        re.findall(
            r"\.legend \.(\w+) \{ border-bottom: 2px (\w+)", (STATIC_FOLDER / "inspector.css").read_text("utf-8")
        )
    )
    assert explained == drawn == {"unreal": "dotted", "over": "dashed"}
    [legend] = re.findall(r'<ul class="legend">.*</ul', (pages / "templates" / "entity.html").read_text("utf-8"))
    assert dict(re.findall(r'<span class="(\w+)">([^<{]+)</span>', legend)) == {
        "unreal": "denied, planned, possible or hearsay",
        "over": "is over, or was never so",
    }
