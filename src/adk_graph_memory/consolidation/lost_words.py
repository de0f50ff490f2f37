"""Collect the words of texts and labels, and find those that only forgotten turns said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from adk_graph_memory.language.detection import WIDE_RUN, detect_languages, load_stop_words
from adk_graph_memory.language.quantities import normalize_quantities
from adk_graph_memory.language.spelling import normalize_words
from adk_graph_memory.records import Extraction, fold_text

_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b")
_GRAMMAR = re.compile(r"[\u3040-\u309f・]")


def find_lost_words(forgotten_texts: Sequence[str], kept_texts: Iterable[str]) -> frozenset[str]:
    """Find the words that only the forgotten texts say, without those that are ordinary in their languages."""
    words = collect_words(forgotten_texts)
    for text in kept_texts:
        if not words:
            break
        words -= collect_words([text])
    stop_words = {word for language in ("en", *detect_languages(forgotten_texts)) for word in load_stop_words(language)}
    return frozenset(words - collect_words(stop_words))


def list_labels(extraction: Extraction) -> list[str]:
    """List the predicates, topics and types that a model chose; the prompt shows it the types of known entities."""
    labels = [label for fact in extraction.facts for label in (fact.predicate, fact.topic)]
    return labels + [entity.type for entity in extraction.entities if entity.known_key is None]


def collect_label_words(labels: Iterable[str]) -> set[str]:
    """Collect the words of labels, which may be in snake_case."""
    return collect_words(label.replace("_", " ") for label in labels)


def collect_words(texts: Iterable[str]) -> set[str]:
    """Collect the words and numbers of texts; of text written without spaces, each pair of characters.

    Pairs with hiragana are left out: they are grammar. Katakana writes words and names.
    """
    words = set[str]()
    for text in texts:
        folded = _POSSESSIVE.sub("", fold_text(text))
        for run in WIDE_RUN.findall(folded):
            pairs = (run[place : place + 2] for place in range(max(1, len(run) - 1)))
            words.update(pair for pair in pairs if not _GRAMMAR.search(pair))
        for word in normalize_words(WIDE_RUN.sub(" ", folded)):
            words |= {word, word.strip("#&@%*")} - {""}  # who is mentioned as @Ana is Ana
        words.update(quantity.number for quantity in normalize_quantities(folded).quantities)
    return words
