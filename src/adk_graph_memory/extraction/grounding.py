"""A quote and a turn go in; where the turn says it comes out, or nothing: no fact is kept on words nobody said."""

from __future__ import annotations

import unicodedata

from adk_graph_memory.records import Source, Turn

_SAME = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u00b4\u0060", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        "\u2026": "...",
    }
)
_EDGES = " .,;:!?\"'-"


def located(quote: str, turn: Turn) -> Source | None:
    """The place in the turn that says the quote, whatever its case, spacing and typographic marks; or None."""
    wanted = _folded(quote)[0].strip(_EDGES)
    said, places = _folded(turn.text)
    start = said.find(wanted) if wanted else -1
    if start < 0:
        return None
    first, last = places[start], places[start + len(wanted) - 1]
    return Source.of(turn, first, last + 1)


def _folded(text: str) -> tuple[str, list[int]]:
    """The text as it is compared, and for each of its characters the place in the original."""
    characters: list[str] = []
    places: list[int] = []
    for place, original in enumerate(text):
        for character in unicodedata.normalize("NFKC", original.translate(_SAME)).casefold():
            blank = character.isspace()
            if blank and (not characters or characters[-1] == " "):
                continue
            characters.append(" " if blank else character)
            places.append(place)
    return "".join(characters), places
