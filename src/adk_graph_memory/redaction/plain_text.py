"""Normalize text for secret detectors and map their matches back to the original."""

from __future__ import annotations

import unicodedata

TextSpan = tuple[int, int]


class PlainText:
    """A text in plain characters that keeps the position of each one in the original.

    Invisible characters (Unicode category Cf: zero-width, direction marks, soft hyphens) are left out. Characters
    compatible with ASCII (full-width letters and digits, the non-breaking space) become ASCII.

    Attributes:
        text: the plain text.
    """

    def __init__(self, original: str) -> None:
        self.text = original
        self._positions: list[int] | None = None
        plain = {character: _simplify_character(character) for character in set(original)}
        if any(character != simplified for character, simplified in plain.items()):
            self.text = "".join(map(plain.__getitem__, original))
            self._positions = [position for position, character in enumerate(original) for _ in plain[character]]

    def find_original_span(self, span: TextSpan) -> TextSpan:
        """The span of the original that a span of the plain text came from."""
        start, end = span
        if self._positions is None or start == end:
            return span
        return self._positions[start], self._positions[end - 1] + 1


def _simplify_character(character: str) -> str:
    if character.isascii():
        return character
    if unicodedata.category(character) == "Cf":
        return ""
    compatible = unicodedata.normalize("NFKC", character)
    return compatible if compatible.isascii() else character
