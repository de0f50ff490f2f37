"""Fill the fields of a pydantic model from facts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic.fields import FieldInfo

from adk_graph_memory.language.date_finder import find_dates
from adk_graph_memory.language.detection import detect_language
from adk_graph_memory.language.text import fold_text
from adk_graph_memory.memory.profile.concepts import Concept, find_concept, list_concept_stems, stem_text
from adk_graph_memory.memory.profile.selection import place_candidates
from adk_graph_memory.records.extractions import Source
from adk_graph_memory.records.results import FieldEvidence, ProfileCandidate, ProfileForm

_DENIAL = re.compile(r"\b(no|not|never|without|neither|nor|none)\b|n['’]t\b", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[,;:.]|\b(?:and|but)\b", re.IGNORECASE)
_START_STEMS = frozenset(stem_text("since start started begin from"))
"""A date with such a word in its name is that since when a fact holds."""
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATES_AND_TIMES = re.compile(
    rf"\d{{4}}-\d\d(?:-\d\d)?|\d{{1,2}}:\d\d|\b\d{{1,2}}(?:st|nd|rd|th)? (?:{_MONTHS})[a-z]*(?: \d{{4}})?"
    rf"|\b(?:{_MONTHS})[a-z]* (?:\d{{1,2}}(?:st|nd|rd|th)?,? )?(?:19|20)\d\d\b|\b(?:in|since|of) (?:19|20)\d\d\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.])-?\d+(?:\.\d+)?")
_PATTERNS = {
    frozenset(stem_text("phone telephone mobile cell")): re.compile(r"\+?\d[\d ()/-]{3,}\d"),
    frozenset(stem_text("email mail")): re.compile(r"[^\s<>,;]+@[^\s<>,;]+\w"),
}
"""Values whose form tells where they begin and end, by words of the field's name."""
_COMPLEMENT = re.compile(
    r"\b(?:is|are|was|am|called|named|as) (?:(?:a|an|the) )?(?P<value>[^,;:.]{1,60})\.?$", re.IGNORECASE
)
_WORD = re.compile(r"\w+")
_MAX_COMPLEMENT_WORDS = 5


def read_value(kind: Any, candidate: ProfileCandidate, field_stems: Collection[str]) -> Any:
    """The value of a field of this type; None if the fact does not tell it.

    A denial tells a yes-or-no field that it is not so, and no other field anything.
    """
    if kind is bool:
        return _read_truth(candidate, field_stems)
    if candidate.fact.modality == "negated":
        return None
    if get_origin(kind) is Literal:
        return _choose(candidate, {str(choice): choice for choice in get_args(kind)})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choose(candidate, {str(choice.value): choice for choice in kind})
    if kind in (int, float, Decimal):
        return _read_number(kind, candidate)
    if kind in (date, datetime):
        return _read_date(kind, candidate, field_stems)
    return _read_text(candidate, field_stems) if kind in (str, Any) else None


def _read_text(candidate: ProfileCandidate, field_stems: Collection[str]) -> str:
    text = " ".join(candidate.fact.text.split())
    for stems, pattern in _PATTERNS.items():
        if stems.intersection(field_stems) and (match := pattern.search(text)):
            return match[0]
    if candidate.other_name:
        return candidate.other_name
    match = _COMPLEMENT.search(text)
    is_short = match is not None and len(match["value"].split()) <= _MAX_COMPLEMENT_WORDS
    return match["value"] if match and is_short and not _DENIAL.search(match["value"]) else text


def _read_truth(candidate: ProfileCandidate, field_stems: Collection[str]) -> bool | None:
    fact = candidate.fact
    words = stem_text(
        f"{fact.predicate} {fact.object or ''} {fact.topic or ''} {fact.text} {candidate.other_type or ''}"
    )
    if not set(field_stems) <= set(words):
        return None
    if fact.modality == "negated":
        return False
    clauses = [clause for clause in _CLAUSE_END.split(fact.text) if not set(field_stems).isdisjoint(stem_text(clause))]
    return None if any(map(_DENIAL.search, clauses)) else True


def _choose(candidate: ProfileCandidate, choices: dict[str, Any]) -> Any:
    """The only choice that the fact names; None if it names none or several."""
    for text in (candidate.other_name or "", candidate.fact.text):
        words = _space_words(text)
        values = [value for name, value in choices.items() if _space_words(name) in words]
        if len(values) == 1:
            return values[0]
    return None


def _space_words(text: str) -> str:
    """The words of a text between spaces, so that one word is not found within another."""
    return f" {' '.join(_WORD.findall(fold_text(text)))} "


def _read_number(kind: Any, candidate: ProfileCandidate) -> Any:
    """The only number of the object's name or of the text, dates and times aside."""
    for text in (candidate.fact.object or "", candidate.fact.text):
        numbers = {number.replace(",", "") for number in _NUMBER.findall(_DATES_AND_TIMES.sub(" ", text))}
        if len(numbers) == 1:
            [number] = numbers
            return kind(number) if kind is not int or "." not in number else None
    return None


def _read_date(kind: Any, candidate: ProfileCandidate, field_stems: Collection[str]) -> Any:
    fact = candidate.fact
    moment = fact.valid_from if _START_STEMS.intersection(field_stems) else None
    if moment is None or fact.valid_from_precision not in ("day", "time"):
        texts = [text for text in (fact.object, fact.text) if text]
        days = [
            {mention.at for mention in find_dates(text, fact.at, detect_language(text)) if mention.precision == "day"}
            for text in texts
        ]
        moment = next((next(iter(moments)) for moments in days if len(moments) == 1), None)
    return None if moment is None else moment if kind is datetime else moment.date()


_LISTS = (list, set, frozenset, tuple)
_GENERIC_STEMS = frozenset(
    stem_text("a an the of is are has have with for in at on or and their my user person full current main primary")
    + stem_text("number date list all name")
)
"""Words of a field's name that narrow nothing down."""
_PARTICLES = frozenset(stem_text("as to by from about since current currently own owns"))
"""Words of a predicate that make no other relation of it."""


@dataclass(frozen=True, slots=True)
class FormDraft:
    """The values of a form, each with the facts that it was read from; the facts have no sources yet."""

    schema: type[BaseModel]
    values: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, tuple[ProfileCandidate, ...]] = field(default_factory=dict)

    @property
    def fact_ids(self) -> frozenset[str]:
        """The facts whose sources the form needs."""
        return frozenset(one.fact.id for facts in self.facts.values() for one in facts)

    def complete(self, sources: Mapping[str, tuple[Source, ...]]) -> ProfileForm:
        """Make the form, with the quotes of these sources."""
        values, missing = dict(self.values), list[str]()
        instance, wrong_names = _validate(self.schema, values)
        while instance is None and wrong_names & values.keys():
            values = {name: value for name, value in values.items() if name not in wrong_names}
            instance, wrong_names = _validate(self.schema, values)
        if instance is None:
            fields = self.schema.model_fields.items()
            missing = [name for name, info in fields if name not in values and info.is_required()]
            instance = self.schema.model_construct(**dict.fromkeys(missing), **values)
        evidence = {
            name: FieldEvidence(
                tuple(one.fact.id for one in self.facts[name]),
                tuple(dict.fromkeys(s.quote for one in self.facts[name] for s in sources.get(one.fact.id, ()))),
            )
            for name in values
        }
        return ProfileForm(instance, evidence, tuple(missing))


def draft_form(
    schema: type[BaseModel], candidates: Sequence[ProfileCandidate], *, speakers: Collection[str]
) -> FormDraft:
    """Fill each field of a schema with what the facts say that fit it best; a field of which none speaks stays open.

    Args:
        schema: a pydantic model; a field is known by its name, its aliases and its description.
        candidates: the current facts that concern the user.
        speakers: the names of those who speak as the user.
    """
    ranking = [placement.candidate for placement in place_candidates(candidates, speakers, with_denials=True)]
    ranking = [one for one in ranking if one.fact.modality != "reported" and one.place in ("subject", "object")]
    values, facts = dict[str, Any](), dict[str, tuple[ProfileCandidate, ...]]()
    for name, info in schema.model_fields.items():
        request = _FieldRequest.from_field(name, info)
        scores = [(request.score_fact(one), -rank, one) for rank, one in enumerate(ranking)]
        matching_facts = [one for score, _, one in sorted(scores, key=lambda each: each[:2], reverse=True) if score > 0]
        values_and_facts = list(_read_values(request, matching_facts))
        if values_and_facts and request.is_list:
            values[name] = list(dict.fromkeys(value for value, _ in values_and_facts))
            facts[name] = tuple(fact for _, fact in values_and_facts)
        elif values_and_facts:
            values[name], facts[name] = values_and_facts[0][0], (values_and_facts[0][1],)
    return FormDraft(schema, values, facts)


def _read_values(request: _FieldRequest, facts: Sequence[ProfileCandidate]) -> Iterator[tuple[Any, ProfileCandidate]]:
    for candidate in facts:
        value = read_value(request.kind, candidate, request.stems)
        if value is not None:
            yield value, candidate


def _validate(schema: type[BaseModel], values: Mapping[str, Any]) -> tuple[BaseModel | None, set[str]]:
    """The instance, or None and the names of the fields that are wrong or missing."""
    keys = {name: _find_key(name, info) for name, info in schema.model_fields.items()}
    try:
        return schema.model_validate({keys[name]: value for name, value in values.items()}), set()
    except ValidationError as error:
        names = {key: name for name, key in keys.items()}
        places = {str(problem["loc"][0]) for problem in error.errors() if problem["loc"]}
        # A validator of the whole model names no field: nothing that was filled is sure then.
        return None, {names.get(place, place) for place in places} or set(values)


def _find_key(name: str, info: FieldInfo) -> str:
    alias = info.validation_alias or info.alias
    if isinstance(alias, AliasChoices):
        return next((choice for choice in alias.choices if isinstance(choice, str)), name)
    return alias if isinstance(alias, str) else name


@dataclass(frozen=True, slots=True)
class _FieldRequest:
    """What a field asks for."""

    kind: Any
    """the type of its value, or of each of its values"""
    is_list: bool
    stems: frozenset[str]
    """of its name, without words that narrow nothing down; empty if only its description tells what it asks for"""
    concept: Concept | None = None

    @classmethod
    def from_field(cls, name: str, info: FieldInfo) -> _FieldRequest:
        kind = _unwrap(info.annotation)
        is_list = (get_origin(kind) or kind) in _LISTS
        kind = _unwrap(next(iter(get_args(kind)), str)) if is_list else kind
        names = list(dict.fromkeys((name, info.alias or name, _find_key(name, info))))
        for words in (*names, info.title or "", info.description or ""):
            if concept := find_concept(words):
                return cls(kind, is_list, _find_own_stems(words) if words in names else frozenset(), concept)
        return cls(kind, is_list, _find_own_stems(name))

    def score_fact(self, candidate: ProfileCandidate) -> float:
        """How well a fact fits the field; 0 if it does not.

        Every word of the field's name has to be told: of a "work phone" any other phone would be the wrong one.
        """
        fact = candidate.fact
        # Who is "parent of" the user is the user's parent.
        relation_name = fact.predicate.removesuffix("_of") if candidate.place == "object" else fact.predicate
        relation = find_concept(relation_name)
        predicate = set(stem_text(fact.predicate))
        fact_stems = predicate | {*stem_text(fact.topic or ""), *stem_text(candidate.other_type or "")}
        relation_stems = list_concept_stems(relation) if relation else frozenset[str]()
        if relation is not None and relation == self.concept:
            is_plain = predicate <= relation_stems | _GENERIC_STEMS | _PARTICLES  # a job offer is no job
            is_told = self.stems <= fact_stems | relation_stems | set(stem_text(fact.text))
            return 3.0 + len(self.stems & fact_stems) if is_plain and is_told else 0.0
        if relation is not None and self.stems.isdisjoint(relation_stems):
            return 0.0
        own_stems = fact_stems if self.is_list or self.kind is bool or relation is not None else predicate
        return 1.0 if self.stems <= fact_stems | relation_stems and self.stems & own_stems else 0.0


def _find_own_stems(name: str) -> frozenset[str]:
    stems = frozenset(stem_text(name))
    return stems - _GENERIC_STEMS or stems


def _unwrap(annotation: Any) -> Any:
    """The type itself, without what may be None and without annotations."""
    while get_origin(annotation) in (Union, UnionType, Annotated):
        options = [option for option in get_args(annotation) if option is not type(None)]
        annotation = options[0]
    return annotation
