"""Write counts with their nouns, and cut texts between words."""

from __future__ import annotations


def format_count(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: "1 fact", "2 facts"."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def shorten_text(text: str, most: int) -> str:
    """Cut a text of more than ``most`` characters between two words."""
    return text if len(text) <= most else f"{text[:most].rsplit(' ', 1)[0]} …"
