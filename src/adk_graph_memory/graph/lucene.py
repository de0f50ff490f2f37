"""A question goes in as people type it, a Lucene query comes out in which nothing they typed is an operator."""

from __future__ import annotations

from collections.abc import Sequence

from adk_graph_memory.graph import words

MOST_TERMS = 128
"""Distinct words that are searched for; Lucene refuses more than 1,024 clauses, and a pasted page needs fewer."""


def terms(question: str) -> list[str]:
    """The question's distinct words, at most :data:`MOST_TERMS`; of more, the longest, which say most."""
    found = list({token.casefold(): token for token in words.tokens(question) if token.strip("_")}.values())
    return sorted(found, key=len, reverse=True)[:MOST_TERMS] if len(found) > MOST_TERMS else found


def scoped(scope: str, found: Sequence[str], fields: Sequence[str]) -> str:
    """A query for nodes of the scope that hold any of the words in any of the fields.

    Args:
        scope: a scope's key.
        found: words of letters, digits and underscores alone, as :func:`terms` gives them.
        fields: names of properties in the index.
    """
    wanted = " ".join(f'{name}:"{term}"' for term in found for name in fields)
    # Where all words are stop words, Lucene would drop an empty group and then find the whole scope.
    return f'+scope:"{scope}" +(scope:"nobody" {wanted})'
