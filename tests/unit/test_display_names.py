"""The owner of a memory, whom it knows as ``user``, and who was only described at first, have names on pages."""

from __future__ import annotations

import pytest

from adk_graph_memory.records.results import StoredEntity


@pytest.mark.parametrize(
    ("name", "aliases", "shown", "others"),
    [
        ("user", ("Ada", "the user"), "Ada", ("the user",)),
        ("user", ("I", "me", "User", "anna@example.org", "42", "Anna"), "Anna", None),
        ("user", ("van Gogh",), "van Gogh", ()),
        ("user", ("安娜",), "安娜", ()),
        ("user", ("me",), "user", ("me",)),
        ("Ada", ("user", "Countess"), "Ada", ("Countess",)),
        ("Ada's dog", ("A dog", "Rex", "the dog"), "Rex", ("Ada's dog", "A dog", "the dog")),
        ("my brother’s boss", ("Mr Ng", "boss"), "Mr Ng", None),
        ("dog", ("Ada's Dog", "the dog"), "dog", None),
        ("school of Faro", ("Faro",), "school of Faro", None),
        ("rooibos", ("Rooibos",), "rooibos", None),
    ],
)
def test_an_entity_is_called_by_its_first_proper_name(
    name: str, aliases: tuple[str, ...], shown: str, others: tuple[str, ...] | None
) -> None:
    entity = StoredEntity("key", name, "person", aliases, "", 0)
    assert entity.display_name == shown
    if others is not None:
        assert entity.other_names == others
