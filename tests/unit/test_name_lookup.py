"""Whoever types a name means the one who is called exactly so, and need not know the accents."""

from __future__ import annotations

import pytest

from adk_graph_memory import errors
from adk_graph_memory.language.spelling import choose_named, fold_name, list_named
from adk_graph_memory.records.results import StoredEntity

NAMES = {
    "k1": ("Anton Reiß", "Anton"),
    "k2": ("Anton",),
    "k3": ("Łukasz",),
    "k4": ("Krümel", "Mia"),
    "k5": ("Mia Weber", "Mia"),
}
KNOWN = [StoredEntity(key, name, "person", tuple(aliases), "", 1) for key, (name, *aliases) in NAMES.items()]


@pytest.mark.parametrize(
    ("name", "key"), [("anton", "k2"), ("k1", "k1"), ("Lukasz", "k3"), ("KRUMEL", "k4"), ("Krümel", "k4")]
)
def test_an_exact_name_wins_and_accents_are_no_matter(name: str, key: str) -> None:
    assert choose_named(KNOWN, name).key == key


@pytest.mark.parametrize(
    ("name", "keys"),
    [("anton", ["k1", "k2"]), ("k1", ["k1"]), ("KRUMEL", ["k4"]), ("Kru\u0308mel", ["k4"]), ("Lukas", []), ("", [])],
)
def test_all_of_one_name_are_listed_and_accents_are_no_matter(name: str, keys: list[str]) -> None:
    assert [entity.key for entity in list_named(KNOWN, name)] == keys


@pytest.mark.parametrize(
    ("part", "keys"), [("lukas", ["k3"]), ("KRU\u0308M", ["k4"]), ("reiss", ["k1"]), ("M", ["k4", "k5"])]
)
def test_a_part_of_a_name_is_found_in_any_spelling(part: str, keys: list[str]) -> None:
    found = [one.key for one in KNOWN if any(fold_name(part) in fold_name(name) for name in (one.name, *one.aliases))]
    assert found == keys


def test_several_of_one_name_are_listed() -> None:
    with pytest.raises(errors.InvalidArgument, match=r"k4 \(Krümel\), k5 \(Mia Weber\)"):
        choose_named(KNOWN, "Mia")


def test_the_nearest_names_are_suggested() -> None:
    with pytest.raises(errors.NotFound, match=r"the nearest names are Łukasz\)"):
        choose_named(KNOWN, "Lukas")
    with pytest.raises(errors.NotFound, match=r"see `adk-graph-memory entities`\.$"):
        choose_named([], "Zoe")
