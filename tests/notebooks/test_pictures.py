"""Pictures are legible: few things, nothing on top of each other, what has ended faded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_rgb
from notebooks.pictures import compute_interval, draw_changes, draw_graph, draw_hits, draw_timeline, select_facts
from notebooks.pictures.look import BLUE, PALE, RED, TYPE_COLORS, tint

from adk_graph_memory.records.results import StoredEntity, StoredFact

pytestmark = pytest.mark.slow

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
PEOPLE = [f"person {number}" for number in range(40)]
ENTITIES = [StoredEntity(name, name, "person", (), "", 1) for name in ("user", *PEOPLE)] + [
    StoredEntity(name, name, "place", (), "", 1) for name in ("Vigo", "Porto")
]


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def make_fact(subject: str, predicate: str, object: str | None, **changed: object) -> StoredFact:
    values: dict[str, object] = {
        "id": f"{subject} {predicate} {object} {changed}",
        "text": f"{subject} {predicate} {object}.",
        "modality": "asserted",
        "topic": None,
        "author": "user",
        "at": datetime(2025, 2, 1, tzinfo=UTC),
        "valid_from": None,
        "valid_to": None,
        "state": "current",
        "is_stale": False,
        "holds": True,
        "status": "holds",
    }
    return StoredFact(subject=subject, predicate=predicate, object=object, **{**values, **changed})  # type: ignore[arg-type]


def make_ended_fact(subject: str, predicate: str, object: str | None, month: int, **changed: object) -> StoredFact:
    ended = {"state": "superseded", "holds": False, "status": "over", "valid_to": datetime(2025, month, 1, tzinfo=UTC)}
    return make_fact(subject, predicate, object, **{**ended, **changed})


def test_a_part_of_a_large_graph_is_no_hairball() -> None:
    facts = [make_fact("user", "knows", name) for name in PEOPLE]
    facts += [make_fact(one, "knows", other) for one, other in pairwise(PEOPLE[:5])]
    part = select_facts(facts, "user", limit=10)
    names = {name for fact in part for name in (fact.subject, fact.object)}
    assert len(names) == 11
    assert {*PEOPLE[:5], "user"} <= names  # those that most facts connect


def test_a_part_shows_changes_and_neither_plans_nor_denials_nor_strangers() -> None:
    facts = [
        make_ended_fact("user", "lives_in", "Vigo", 8),
        make_fact("user", "lives_in", "Porto"),
        make_fact("user", "knows", PEOPLE[0], modality="negated"),
        make_fact("user", "visits", PEOPLE[1], modality="planned", status="planned"),
        make_fact(PEOPLE[2], "knows", PEOPLE[3]),
        make_fact("user", "likes", None),
    ]
    assert [fact.object for fact in select_facts(facts, "user", limit=10)] == ["Vigo", "Porto"]


def test_no_box_of_a_graph_hides_another_and_what_ended_is_faded() -> None:
    facts = [make_fact("user", "knows", name) for name in PEOPLE[:17]]
    facts += [make_fact(one, "works_with", other) for one, other in pairwise(PEOPLE[:5])]
    facts.append(make_ended_fact("user", "lives_in", "Vigo", 8))
    figure = draw_graph(facts, ENTITIES, "user", title="A graph", captions={"user": "Ana"})
    figure.draw_without_rendering()
    names = {text.get_text(): text for text in figure.axes[0].texts if text.get_text() in {"Ana", "Vigo", *PEOPLE}}
    assert len(names) == 19
    boxes = {name: text.get_bbox_patch().get_window_extent() for name, text in names.items()}
    assert [pair for pair in combinations(boxes, 2) if boxes[pair[0]].overlaps(boxes[pair[1]])] == []
    faces = {name: text.get_bbox_patch().get_facecolor()[:3] for name, text in names.items()}
    assert faces["person 1"] == pytest.approx(tint(TYPE_COLORS["person"]))
    assert min(faces["Vigo"]) > min(tint(TYPE_COLORS["place"]))
    assert names["Vigo"].get_color() == PALE


def test_a_memory_that_knows_nothing_is_drawn_too() -> None:
    assert select_facts([], "user", limit=10) == []
    figure = draw_graph([], [], "user", title="Nothing yet")
    assert [text.get_text() for text in figure.axes[0].texts] == ["user"]


def test_the_bars_of_a_timeline_stand_in_their_order_and_on_no_other() -> None:
    facts = [
        make_ended_fact("user", "lives_in", "Vigo", 8),
        make_fact("user", "lives_in", "Porto", valid_from=datetime(2025, 8, 1, tzinfo=UTC)),
        make_ended_fact("user", "lives_in", "Porto", 8, modality="planned", at=datetime(2025, 6, 1, tzinfo=UTC)),
        make_ended_fact("user", "fears", "cats", 6, state="retracted"),
        make_fact("user", "fears", "dogs", modality="negated"),
    ]
    rows = [("user", "lives_in"), ("user", "fears"), ("user", "eats")]
    figure = draw_timeline(facts, ENTITIES, rows, title="A timeline", until=NEW_YEAR)
    [axes] = figure.axes
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["Vigo", "Porto", "Porto (planned)", "cats (never true)"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["user · lives in", "user · fears"]
    vigo, porto, plan, cats = axes.patches
    assert vigo.get_x() + vigo.get_width() == porto.get_x()
    assert vigo.get_y() == porto.get_y() < plan.get_y() < cats.get_y()
    assert min(vigo.get_facecolor()[:3]) > min(porto.get_facecolor()[:3])
    assert cats.get_hatch()


def test_what_changed_stands_beside_what_took_its_place() -> None:
    vigo, porto = make_ended_fact("user", "lives_in", "Vigo", 8), make_fact("user", "lives_in", "Porto")
    cats = make_ended_fact("user", "fears", "cats", 6, state="retracted")
    changes = {("user", "lives_in"): ([vigo], [porto]), ("user", "fears"): ([cats], [])}
    june = datetime(2025, 6, 1, tzinfo=UTC)
    figure = draw_changes(changes, ENTITIES, (june, NEW_YEAR), title="Changes", captions={"user": "Ana"})
    texts = {text.get_text(): text for text in figure.axes[0].texts}
    assert texts["Ana · lives in"].get_position()[1] == texts["Vigo"].get_position()[1]
    assert texts["Vigo"].get_position()[0] < texts["Porto"].get_position()[0]
    assert texts["cats (never true)"].get_bbox_patch().get_edgecolor()[:3] == pytest.approx(to_rgb(RED))
    assert {"1 June 2025", "1 January 2026"} <= texts.keys()


def test_a_bar_says_how_many_of_how_many_and_ours_is_in_color() -> None:
    figure = draw_hits({"words": (5, 9), "ours": (12, 13)}, 15, title="Hits", ours="ours")
    [axes] = figure.axes
    assert [text.get_text() for text in axes.texts] == ["5 · 9", "12 · 13"]
    assert [patch.get_width() for patch in axes.patches] == [9, 5, 13, 12]
    assert axes.patches[3].get_facecolor()[:3] == pytest.approx(tint(BLUE, 0.8))


@pytest.mark.parametrize(("hits", "questions", "low", "high"), [(12, 15, 0.548, 0.930), (0, 10, 0.0, 0.278)])
def test_an_interval_is_wilson_s(hits: int, questions: int, low: float, high: float) -> None:
    assert compute_interval(hits, questions) == pytest.approx((low, high), abs=0.001)
