"""Sentences go in; what an installed spaCy model tells of them comes out: names with their kinds, and nouns.

spaCy is the extra ``spacy``; a model of a language is installed beside it (``spacy download en_core_web_sm``).
Without either there is nothing here, and the names are told by how they are written.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

from adk_graph_memory.extraction.names import Found

_KINDS = {
    "PERSON": "person",
    "PER": "person",
    "ORG": "organization",
    "GPE": "place",
    "LOC": "place",
    "FAC": "place",
    "EVENT": "event",
    "PRODUCT": "object",
    "WORK_OF_ART": "object",
    "MISC": "name",
}
_SIZES = ("sm", "md", "lg", "trf")
_ONE_AT_A_TIME = threading.Lock()


@cache
def installed_models() -> tuple[str, ...]:
    """The spaCy models that are installed, one a language: its most able one."""
    if importlib.util.find_spec("spacy") is None:
        return ()
    import spacy.util

    by_language: dict[str, str] = {}
    for name in sorted(spacy.util.get_installed_models(), key=_size):
        by_language[name.partition("_")[0]] = name
    return tuple(sorted(by_language.values()))


def _size(name: str) -> tuple[int, str]:
    size = name.rpartition("_")[2]
    return (_SIZES.index(size) if size in _SIZES else -1), name


@cache
def _loaded(model: str) -> Any:
    import spacy

    return spacy.load(model)


class Annotations:
    """What the models tell of some sentences; of a language without a model nothing."""

    def __init__(self, turns: Sequence[Sequence[tuple[str, str]]], models: Sequence[str]) -> None:
        by_language = {model.partition("_")[0]: model for model in models}
        self.read = frozenset(by_language)
        self.names: dict[str, Found] = {}
        seen: dict[str, int] = {}
        for sentences in turns:
            here: set[str] = set()
            for sentence, language in sentences:
                if language in by_language:
                    with _ONE_AT_A_TIME:
                        self._add(_loaded(by_language[language])(sentence), here)
            for phrase in sorted(here):
                seen[phrase] = seen.get(phrase, 0) + 1
        self.phrases = [Found(phrase, "thing") for phrase, count in seen.items() if count > 1]

    def _add(self, doc: Any, phrases: set[str]) -> None:
        for entity in doc.ents:
            tokens = [token for token in entity if token.pos_ not in ("DET", "PART", "PUNCT")]
            if entity.label_ in _KINDS and tokens and any(token.pos_ == "PROPN" for token in tokens):
                name = doc[tokens[0].i : tokens[-1].i + 1].text
                self.names.setdefault(name, Found(name, _KINDS[entity.label_]))
        nouns = [token for token in doc if token.pos_ == "NOUN" and token.is_alpha and len(token) > 2]
        phrases.update(token.lemma_.lower() for token in nouns if not token.is_stop and not token.ent_type_)
