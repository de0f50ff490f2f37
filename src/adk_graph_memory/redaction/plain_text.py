"""Text as a detector should see it: without characters nobody sees, and full-width letters as ordinary ones."""

from __future__ import annotations

import unicodedata

TextSpan = tuple[int, int]


class PlainText:
    """A text in plain characters, which knows the place of each in the original.

    Zero-width characters, direction marks and soft hyphens (Unicode's Cf) are left out; what Unicode calls compatible
    with ASCII (full-width letters and digits, the non-breaking space) is its ASCII.

    Attributes:
        text: the plain text.
    """

    def __init__(self, original: str) -> None:
        self.text = original
        self._positions: list[int] | None = None
        plain = {letter: _simplify_character(letter) for letter in set(original)}
        if any(letter != other for letter, other in plain.items()):
            self.text = "".join(map(plain.__getitem__, original))
            self._positions = [place for place, letter in enumerate(original) for _ in plain[letter]]

    def find_original_span(self, span: TextSpan) -> TextSpan:
        """Where the original says what the plain text says in this span."""
        start, end = span
        if self._positions is None or start == end:
            return span
        return self._positions[start], self._positions[end - 1] + 1


def _simplify_character(letter: str) -> str:
    if letter.isascii():
        return letter
    if unicodedata.category(letter) == "Cf":
        return ""
    compatible = unicodedata.normalize("NFKC", letter)
    return compatible if compatible.isascii() else letter
