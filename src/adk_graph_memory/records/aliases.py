"""Tell which aliases of a name somebody has said: only those may stand for it later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adk_graph_memory.language.spelling import is_same_word, normalize_words
from adk_graph_memory.records.text_keys import fold_text, has_wide_character

_MIN_STEM_LETTERS, _ENDING_LETTERS = 3, 3
"""Letters of a word that tell it apart at least, and those that its endings may take at most."""


def select_said_aliases(
    name: str, aliases: Iterable[str], authors: Iterable[str], texts: Sequence[str]
) -> tuple[str, ...]:
    """Select the aliases that are spellings of a name, or that a text ties to it: one that says both.

    An author speaks as "I", so it is enough that somebody says the author's other name.
    """
    folded_name, folded_texts = fold_text(name), [fold_text(text) for text in texts]
    folded_authors = set(map(fold_text, authors))

    def is_said(alias: str) -> bool:
        names = [one for one in (folded_name, alias) if one not in folded_authors]
        return bool(names) and any(all(_has_words_like(text, one) for one in names) for text in folded_texts)

    folded_aliases = {alias: fold_text(alias) for alias in aliases}
    return tuple(
        alias for alias, folded in folded_aliases.items() if _is_short_form(folded, folded_name) or is_said(folded)
    )


def _has_words_like(text: str, name: str) -> bool:
    """Whether a folded text has all words of a folded name, whatever their endings."""
    if has_wide_character(name):
        return name in text
    words = normalize_words(text)
    stems = [word[: max(len(word) - (2 if len(word) > 5 else 1), _MIN_STEM_LETTERS)] for word in normalize_words(name)]
    return bool(stems) and all(
        any(word.startswith(stem) and len(word) - len(stem) <= _ENDING_LETTERS for word in words) for stem in stems
    )


def _is_short_form(alias: str, name: str) -> bool:
    """Whether an alias is a part of a name, shortened or spelled otherwise: "Mel" or "M. Lang" for Melanie Lang."""
    if has_wide_character(name):
        return alias in name or name in alias
    words = normalize_words(name)
    return all(
        any(word.startswith(short) or is_same_word(word, short) for word in words) for short in normalize_words(alias)
    )
