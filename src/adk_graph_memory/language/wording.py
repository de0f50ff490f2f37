"""Write counts with their nouns, put texts on one line, cut them between words, and find what proves one."""

from __future__ import annotations

from collections.abc import Sequence

from adk_graph_memory.language.spelling import normalize_words


def format_count(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: "1 fact", "2 facts"."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def join_lines(text: str) -> str:
    """Join a text's lines, so that it is one entry in whatever lists it line by line; a single line stays as it is."""
    return text if text.splitlines() == [text] else " ".join(filter(None, map(str.strip, text.splitlines())))


def shorten_text(text: str, most: int) -> str:
    """Cut a text of more than ``most`` characters between two words."""
    return text if len(text) <= most else f"{text[:most].rsplit(' ', 1)[0]} …"


def find_proof(text: str, quotes: Sequence[str]) -> int:
    """Find the quote that proves a text: the index of the first one that says most of its words."""
    words = set(normalize_words(text.casefold()))
    return max(
        range(len(quotes)), key=lambda at: (len(words.intersection(normalize_words(quotes[at].casefold()))), -at)
    )
