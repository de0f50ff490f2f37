"""Tell which aliases of a name somebody has said: only those may stand for it later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adk_graph_memory.language.spelling import is_same_word, normalize_words
from adk_graph_memory.records.text_keys import fold_text, has_wide_character

_MIN_STEM_LETTERS, _ENDING_LETTERS, _PREFIX_LETTERS = 3, 3, 3
"""Letters of a word that tell it apart at least, and those that its endings and prefixes may take at most."""


def select_said_aliases(
    name: str, aliases: Iterable[str], authors: Iterable[str], texts: Sequence[str]
) -> tuple[str, ...]:
    """Select the aliases that are spellings of a name, or that a text ties to it: one that says both.

    An author speaks as "I", so it is enough that somebody says the author's other name. A single letter is no alias: it
    could be anybody's.
    """
    folded_name, folded_texts = fold_text(name), [fold_text(text) for text in texts]
    folded_authors = set(map(fold_text, authors))

    def is_said(alias: str) -> bool:
        names = [one for one in (folded_name, alias) if one not in folded_authors]
        return bool(names) and any(all(_says_name(text, one) for one in names) for text in folded_texts)

    folded_aliases = {alias: folded for alias in aliases if len(folded := fold_text(alias)) > 1}
    return tuple(
        alias for alias, folded in folded_aliases.items() if _is_short_form(folded, folded_name) or is_said(folded)
    )


def _says_name(text: str, name: str) -> bool:
    """Whether a folded text says a folded name: it has all its words, whatever their endings."""
    if has_wide_character(name):
        return name in text
    words = normalize_words(text)
    stems = [word[: max(len(word) - (2 if len(word) > 5 else 1), _MIN_STEM_LETTERS)] for word in normalize_words(name)]
    return bool(stems) and all(any(_has_stem(word, stem) for word in words) for stem in stems)


def _has_stem(word: str, stem: str) -> bool:
    """Whether a word is a stem with an ending; Hebrew and Arabic also write "and", "to" and "the" in front of it."""
    prefix = word.find(stem)
    longest_prefix = _PREFIX_LETTERS if "\u0590" <= stem < "\u0700" else 0
    return 0 <= prefix <= longest_prefix and len(word) - prefix - len(stem) <= _ENDING_LETTERS


def _is_short_form(alias: str, name: str) -> bool:
    """Whether an alias is a part of a name, shortened or spelled otherwise: "Mel" or "M. Lang" for Melanie Lang."""
    if has_wide_character(name):
        return alias in name
    words, shorts = normalize_words(name), normalize_words(alias)
    return bool(shorts) and all(
        any(word.startswith(short) or is_same_word(word, short) for word in words) for short in shorts
    )
