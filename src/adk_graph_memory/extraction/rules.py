"""Turns go in; what rules can tell without a language model comes out: statements with their speaker, names, dates.

It is honest about being rules: a statement stays in its speaker's own words and nothing is inferred from it. Only
where a sentence says outright where somebody lives or works, what their number is and the like does its fact name it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from adk_graph_memory import errors
from adk_graph_memory.extraction import contacts, modality, names, slots, spacy_names, validity
from adk_graph_memory.extraction.entities import Entities
from adk_graph_memory.extraction.sentences import Passage, is_question, passages, sentences
from adk_graph_memory.language.words import WIDE_CHARACTER, WORD, language_of, ordinary_words
from adk_graph_memory.records import ExtractedFact, Extraction, KnownEntity, Modality, Source, Turn

_SHORTEST = 4
"""Words (or, in scripts without spaces, characters) below which a sentence is taken for small talk."""
_FIRST_PERSON = frozenset({"i", "i'm", "i’m", "we", "my", "we're", "we’re", "ich", "yo", "я"})


@dataclass(frozen=True, slots=True)
class _Said:
    """A turn, the language it is in, and its sentences."""

    turn: Turn
    language: str
    passages: tuple[Passage, ...]
    sentences: tuple[str, ...]


class RuleExtractor:
    """The extractor for when no language model is configured.

    Args:
        models: spaCy models that tell names and nouns of their language; those installed, if not given. ``version``
            names them: without one, names are told by how they are written.
    """

    functional = slots.FUNCTIONAL
    """Predicates that have one value at a time."""
    topics: tuple[str, ...] = ()

    def __init__(self, models: Sequence[str] | None = None) -> None:
        self._models = tuple(spacy_names.installed_models() if models is None else models)
        self.version = " ".join(("rules@2", *self._models))

    def keeping_to(self, topics: Collection[str]) -> RuleExtractor:
        """Itself.

        Raises:
            errors.ConfigurationError: topics are asked for, which rules cannot tell.
        """
        if topics:
            reason = f"rules cannot tell what belongs to {', '.join(sorted(topics))}; topics need a model"
            raise errors.ConfigurationError(reason=reason)
        return self

    def split(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """All in one window: rules have no limit."""
        return [turns]

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[KnownEntity], context: Sequence[Turn] = ()
    ) -> Extraction:
        """A fact for each statement a person makes, about its speaker, and an entity for each name used."""
        return await asyncio.to_thread(self._read, tuple(turns), tuple(known)) if turns else Extraction()

    def _read(self, turns: Sequence[Turn], known: Sequence[KnownEntity]) -> Extraction:
        said = _said(turns)
        entities = Entities([turn.author for turn in turns], known)
        for one in said:
            if one.turn.role == "user":
                _introduce(one, entities)
        _address(said, entities)
        for found in self._names(said):
            entities.add(found.name, found.type)
        _learn_kinds(said, entities)
        reading = _Reading(entities)
        for one in said:
            reading.read(one)
        return entities.extraction(reading.facts, reading.mentions, reading.dropped)

    def _names(self, said: Sequence[_Said]) -> Iterable[names.Found]:
        turns = [[(sentence, one.language) for sentence in one.sentences] for one in said]
        told = spacy_names.Annotations(turns, self._models)
        yield from told.names.values()
        yield from names.names([sentence for sentences in turns for sentence in sentences])
        yield from told.phrases
        yield from names.phrases([[one for one in turn if one[1] not in told.read] for turn in turns])


def _said(turns: Sequence[Turn]) -> list[_Said]:
    """The turns with their languages; a short one counts as being in the language that most of them are in."""
    usual = Counter(language_of(turn.text) for turn in turns).most_common(1)[0][0]
    found = []
    for turn in turns:
        language = language_of(turn.text, usual)
        parts = tuple(turn.text[start:end] for start, end in sentences(turn.text, language))
        found.append(_Said(turn, language, tuple(passages(turn.text, language)), parts))
    return found


def _introduce(one: _Said, entities: Entities) -> None:
    """Takes the name that somebody gives themselves for theirs."""
    for sentence in one.sentences:
        for place in () if is_question(sentence) else contacts.own_names(sentence):
            entities.rename(one.turn.author, sentence[slice(*place)])


def _address(said: Sequence[_Said], entities: Entities) -> None:
    """Takes the name by which one of two speakers greets the other, or thanks them twice, for the other's."""
    authors = list(dict.fromkeys(one.turn.author for one in said))
    if len(authors) != 2:
        return
    heard: dict[str, Counter[str]] = {author: Counter() for author in authors}
    for one in said:
        other = authors[one.turn.author == authors[0]]
        for name, is_greeting in filter(None, map(contacts.addressed, one.sentences)):
            heard[other][name] += 2 if is_greeting else 1
    for author, other in (authors, authors[::-1]):
        for name, count in heard[author].items():
            if count > 1 and name not in heard[other]:
                entities.rename(author, name)


def _learn_kinds(said: Sequence[_Said], entities: Entities) -> None:
    """What the claims of all turns say their objects are, before any is believed: whom one works for is no place."""
    for one in said:
        for passage in one.passages:
            first = one.turn.text[passage.start : passage.first_end]
            if one.turn.role == "user" and not is_question(first):
                for claim in slots.claims(first, entities.find(first), one.language, entities.kinds):
                    if claim.object is not None:
                        entities.tell_kind(claim.object, claim.kind)


class _Reading:
    """What has been read so far."""

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self.facts: list[ExtractedFact] = []
        self.mentions: set[tuple[str, int]] = set()
        self.dropped = Counter[str]()
        self._corrects = False

    def read(self, one: _Said) -> None:
        self._corrects = False
        for passage in one.passages:
            spans = self._entities.find(one.turn.text[passage.start : passage.end])
            self.mentions |= {(one.turn.id, ref) for _, _, ref in spans}
            self._read(one, passage, spans)

    def _read(self, one: _Said, passage: Passage, spans: list[slots.Span]) -> None:
        turn, text = one.turn, one.turn.text[passage.start : passage.end]
        if turn.role == "model":
            self.dropped["said by an agent"] += 1
            return
        first = turn.text[passage.start : passage.first_end]
        author = self._entities.author(turn.author)
        is_marker = modality.is_correction(first) or modality.is_correction(turn.text[passage.last : passage.end])
        corrects, self._corrects = self._corrects or is_marker, is_marker
        if is_question(text):
            self.dropped["a question"] += 1
            return
        claims = slots.claims(first, spans, one.language, self._entities.kinds)
        claims += [slots.Claim(predicate, clause=(0, len(text))) for predicate in contacts.told(text)]
        if any(contacts.own_names(first)):
            claims.append(slots.Claim("named", clause=(0, 0)))
        if not claims and _says_little(text, one.language, names_somebody=any(span[2] != author for span in spans)):
            self.dropped["too short to say anything"] += 1
            return
        if corrects and not is_marker:
            self._corrects = False
        source = Source.of(turn, passage.start, passage.end)
        for fact in self._facts(one, text, first, claims, spans, is_marker):
            self.facts.append(_told(fact, turn, text, source, corrects=corrects, ref=len(self.facts)))

    def _facts(
        self, one: _Said, text: str, first: str, claims: list[slots.Claim], spans: list[slots.Span], corrects: bool
    ) -> list[_Stated]:
        author, at = self._entities.author(one.turn.author), one.turn.at
        if claims:
            found = []
            for claim in claims:
                subject = author if claim.subject is None else claim.subject
                about = self._entities.add(claim.phrase, claim.kind) if claim.phrase else claim.object
                if about is not None:
                    self.mentions.add((one.turn.id, about))
                when = validity.of_claim(claim, text, at, one.language)
                found.append(_Stated(subject, claim.predicate, about, claim.modality, when))
            return list(dict.fromkeys(found))
        way = modality.modality_of(first)
        if way == "asserted" and validity.is_ahead(first, at, one.language):
            way = "planned"
        when = (None, None) if corrects else validity.of_statement(first, way, at, one.language)
        kinds, others = self._entities.kinds, [ref for _, _, ref in spans if ref != author]
        names_first = sorted(others, key=lambda ref: kinds[ref] == "thing")
        named = names_first[0] if names_first else None
        return [_Stated(author, "states", named, way, when)]


@dataclass(frozen=True, slots=True)
class _Stated:
    """What a fact says, without the words it rests on."""

    subject: int
    predicate: str
    object: int | None
    modality: Modality
    validity: validity.Validity


def _told(fact: _Stated, turn: Turn, text: str, source: Source, *, corrects: bool, ref: int) -> ExtractedFact:
    return ExtractedFact(
        subject=fact.subject,
        predicate=fact.predicate,
        object=fact.object if fact.object != fact.subject else None,
        text=text,
        sources=(source,),
        speaker=turn.author,
        at=turn.at,
        modality=fact.modality,
        valid_from=fact.validity[0],
        valid_to=fact.validity[1],
        ref=ref,
        correction=corrects,
    )


def _says_little(text: str, language: str, *, names_somebody: bool) -> bool:
    """Whether it is too short to say anything; "I'm vegetarian" is not."""
    words = [match[0].casefold() for match in WORD.finditer(text)]
    if len(words) + len(WIDE_CHARACTER.findall(text)) >= _SHORTEST:
        return False
    content = [word for word in words[1:] if len(word) > 3 and word not in ordinary_words(language)]
    return not (words and words[0] in _FIRST_PERSON and (content or names_somebody))
