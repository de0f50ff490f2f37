"""The input and output of an embedder."""

from __future__ import annotations

from typing import NamedTuple


class Passage(NamedTuple):
    """A text to embed, and what was said just before it: alone, "Yes, since May" means little."""

    text: str
    preceding_text: str = ""


class Embedding(NamedTuple):
    """A passage's vector and, if the embedder provides them, its token vectors, packed by a ``Projection``."""

    vector: list[float]
    tokens: bytes | None = None
