"""Turns go in; what rules can tell without any model comes out: statements with their speaker, and names.

It is honest about being rules: a statement stays in its speaker's own words, nothing is inferred from it, and where
a sentence only asks, greets or is too short to say anything, no fact is made of it.
"""

from __future__ import annotations

import calendar
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from adk_graph_memory.records import (
    ExtractedEntity,
    ExtractedFact,
    Extraction,
    KnownEntity,
    Source,
    Turn,
)

_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?](?=\S)[^.!?。！？\n]*)*[.!?。！？]*")
_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CALENDAR = {name for names in (calendar.day_name, calendar.month_name, calendar.day_abbr) for name in names}
_SHORTEST = 4
"""Words (or, in scripts without spaces, characters) below which a sentence is taken for small talk."""


class RuleExtractor:
    """The extractor for when no model is configured."""

    version = "rules@1"
    functional: frozenset[str] = frozenset()

    def split(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """All in one window: rules have no limit."""
        return [turns]

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[KnownEntity], context: Sequence[Turn] = ()
    ) -> Extraction:
        """A fact for each statement a person makes, about its speaker, and an entity for each name used."""
        names = _names(turns)
        refs = {name: ref for ref, name in enumerate(dict.fromkeys([*(turn.author for turn in turns), *names]))}
        authors = {turn.author for turn in turns}
        facts, mentions, dropped = [], set(), Counter[str]()
        for turn in turns:
            mentions |= {(turn.id, refs[name]) for name in names if _says(turn.text, name)}
            for start, end in _sentences(turn.text):
                sentence = turn.text[start:end]
                if reason := _unfit(sentence, turn):
                    dropped[reason] += 1
                    continue
                named = next((name for name in names if _says(sentence, name) and name != turn.author), None)
                facts.append(
                    ExtractedFact(
                        subject=refs[turn.author],
                        predicate="states",
                        object=refs[named] if named else None,
                        text=sentence,
                        sources=(Source.of(turn, start, end),),
                        speaker=turn.author,
                        at=turn.at,
                    )
                )
        entities = tuple(
            ExtractedEntity(ref, name, "person" if name in authors else "name") for name, ref in refs.items()
        )
        return Extraction(entities, tuple(facts), tuple(sorted(mentions)), dict(dropped))


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    for match in _SENTENCE.finditer(text):
        words = match[0].strip()
        if words:
            start = match.start() + match[0].index(words)
            yield start, start + len(words)


def _unfit(sentence: str, turn: Turn) -> str | None:
    """Why no fact is made of this sentence, or None."""
    if turn.role == "model":
        return "said by an agent"
    if sentence.endswith(("?", "？")):
        return "a question"
    if len(_WORD.findall(sentence)) + len(_WIDE.findall(sentence)) < _SHORTEST:
        return "too short to say anything"
    return None


def _names(turns: Sequence[Turn]) -> list[str]:
    """Runs of capitalised words inside sentences; a sentence's first word counts only if it is also used inside."""
    inside, first = Counter[str](), Counter[str]()
    for turn in turns:
        for start, end in _sentences(turn.text):
            for name, opens in _runs(turn.text[start:end]):
                (first if opens else inside)[name] += 1
    return [name for name in [*inside, *first] if name in inside or len(name.split()) > 1]


def _runs(sentence: str) -> Iterator[tuple[str, bool]]:
    run: list[str] = []
    opens, end = True, 0
    for i, match in enumerate(_WORD.finditer(sentence)):
        word = match[0]
        joined = sentence[end : match.start()] == " "
        if run and not joined:
            yield " ".join(run), opens
            run = []
        if word[0].isupper() and not _is_ordinary(word):
            opens = opens and bool(run) if run else i == 0
            run.append(word)
        elif run:
            yield " ".join(run), opens
            run = []
        end = match.end()
    if run:
        yield " ".join(run), opens


def _is_ordinary(word: str) -> bool:
    """Words that English writes with a capital without naming anybody: I, I'm, months and days."""
    return len(word) == 1 or word[:2] in ("I'", "I’") or word in _CALENDAR or (word.isupper() and len(word) > 5)


def _says(text: str, name: str) -> bool:
    return name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
