"""What an embedder is given, and what it makes of it."""

from __future__ import annotations

from typing import NamedTuple


class Passage(NamedTuple):
    """A text to embed; ``before`` is what was said just before it, without which "Yes, since May" means little."""

    text: str
    preceding_text: str = ""


class Embedding(NamedTuple):
    """A passage's vector and, of an embedder that shows them, its token vectors, packed by a ``Projection``."""

    vector: list[float]
    tokens: bytes | None = None
