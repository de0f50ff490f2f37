"""Text goes in, the words that full text would miss come out: parts of tokens that mix Latin with other scripts.

Lucene's tokeniser keeps ``Pythonで`` or ``wifiи`` whole in some scripts; whoever asks for ``Python`` should find it.
"""

from __future__ import annotations

import itertools
import re
import unicodedata

_TOKEN = re.compile(r"\w+")


def tokens(text: str) -> list[str]:
    """The words of a text, and the single-script parts of those that mix Latin with others, each once."""
    found: dict[str, None] = {}
    for token in _TOKEN.findall(unicodedata.normalize("NFC", text)):
        found.update(dict.fromkeys([token, *_parts(token)]))
    return list(found)


def mixed(text: str) -> str | None:
    """The parts of the text's mixed-script words, to be indexed beside the text; None if it has none."""
    parts = [part for token in dict.fromkeys(_TOKEN.findall(text)) for part in _parts(token)]
    return " ".join(parts) or None


def _parts(token: str) -> list[str]:
    if token.isascii():
        return []
    parts = ["".join(run) for _, run in itertools.groupby(token, _is_latin)]
    return parts if len(parts) > 1 else []


def _is_latin(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character == "_"
    return unicodedata.name(character, "").startswith("LATIN")
