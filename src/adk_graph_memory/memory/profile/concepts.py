"""The table that says where in a profile a predicate, a topic or a field of a schema belongs.

Predicates are English by the extraction prompt. A phrase matches if all its words are among those looked up, by their
stems; of several that match, the one with most words counts, then the one that ends last, where English has its noun.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from adk_graph_memory.records.results import Section

_ROWS: tuple[tuple[Section, str], ...] = (
    ("who", "name, called, nickname, surname"),
    ("who", "allergy, allergic, allergen, intolerant, intolerance"),
    ("who", "health, illness, disease, suffers, diagnosis, diagnosed, disability, medical, pregnant, pain, surgery"),
    ("who", "medication, medicine, pill, tablet, drug, dosage, dose, prescription"),
    ("who", "blood, pressure"),
    ("who", "age, old, years old"),
    ("who", "birthday, birth, born, birthdate"),
    ("who", "gender, sex, pronoun"),
    ("who", "nationality, citizen, citizenship, passport"),
    ("who", "comes from, origin, native, hometown, home town, grew up"),
    ("who", "language, speaks, tongue, fluent"),
    ("who", "religion, faith, belief"),
    ("who", "phone, telephone, mobile, cell"),
    ("who", "email, mail, email address, mail address"),
    ("who", "timezone, time zone"),
    ("who", "personal, identity, contact, handed, appearance, size, height, weight, measurement"),
    ("home", "lives in, lives at, living in, lives, resides, residence, home, city, town, location, based in"),
    ("home", "address, street, postcode, zip"),
    ("home", "flat, apartment, house, housing, rents, rent, room, floor, garden, neighbourhood, household"),
    ("work", "works at, works for, employer, employed, company, workplace"),
    ("work", "works as, job, occupation, profession, title, role, position"),
    ("work", "studies, student, studies at, school, university, college, degree, course, education"),
    ("work", "work, career, business, office, client, colleagues, salary, earns, shift"),
    ("people", "married, spouse, wife, husband, partner, engaged, fiance, fiancee, girlfriend, boyfriend, wedding"),
    ("people", "children, child, kid, parent of, mother of, father of, son, daughter, baby"),
    ("people", "parent, mother, father, mum, mom, dad, child of, son of, daughter of"),
    ("people", "sibling, brother, sister"),
    ("people", "grandparent, grandmother, grandfather, grandchild, aunt, uncle, cousin, niece, nephew, law, relative"),
    ("people", "family"),
    ("people", "pet, dog, cat, kitten, puppy, animal, horse"),
    ("people", "friend, relationship"),
    ("people", "boss, manager, supervisor, reports to"),
    ("people", "colleague, team, teammate"),
    ("people", "flatmate, roommate, housemate, lives with"),
    ("people", "neighbour, doctor, gp, dentist, teacher, carer, lawyer, therapist"),
    ("preferences", "diet, dietary, vegetarian, vegan, restriction"),
    ("preferences", "dislikes, hates, avoids, afraid, fear, aversion"),
    ("preferences", "likes, loves, enjoys, prefers, favourite, preference, wants, fond, interested, fan"),
    ("preferences", "food, eats, dish, meal, cuisine"),
    ("preferences", "drink, coffee, tea, drinks"),
    ("preferences", "hobby, interest, pastime, sport, plays, collects, leisure, music"),
    ("instructions", "instruction, instructs, instruct, explicit, rule, guideline, request, asks, wish"),
    ("instructions", "answer, reply, respond, response, addressed, tone, style, format, remind, assistant"),
)
"""A row for each kind of thing: its section, and the phrases that name it; earlier rows of a section matter more."""


@dataclass(frozen=True, slots=True)
class Concept:
    """A kind of thing that a profile tells, and how much it matters within its section: 1 is the most."""

    section: Section
    row: int
    weight: float


_GENERIC_STEMS = frozenset({"name"})
"""Stems that count only if no other concept is named: the name of a spouse tells of the spouse."""
_WORD = re.compile(r"[^\W_]+")
_DOUBLE_CONSONANT = re.compile(r"([bdfgmnprt])\1$")


@cache
def stem_word(word: str) -> str:
    """Reduce an English word to a stem that its forms share: "lives", "living" and "lived" are "liv"."""
    word = word.casefold().replace("our", "or")  # British and American spelling
    if len(word) > 4 and word.endswith(("ies", "ied")):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 2 and word.endswith(ending) and not word.endswith("eed"):
            word = _DOUBLE_CONSONANT.sub(r"\1", word.removesuffix(ending))
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def stem_text(text: str) -> tuple[str, ...]:
    """The stems of a text's words, in order; ``snake_case`` and ``camelCase`` count as several words."""
    text = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    return tuple(map(stem_word, _WORD.findall(text)))


def find_concept(words: str) -> Concept | None:
    """The concept that a predicate, a topic or a field's name tells of; None if the table has none."""
    stems = stem_text(words)
    best: tuple[tuple[bool, int, int], Concept] | None = None
    for phrase, concept in _load_phrases():
        if not all(stem in stems for stem in phrase):
            continue
        end = max(len(stems) - 1 - stems[::-1].index(stem) for stem in phrase)
        rank = not _GENERIC_STEMS.issuperset(phrase), len(phrase), end
        if best is None or rank > best[0]:
            best = rank, concept
    return best and best[1]


def list_concept_stems(concept: Concept) -> frozenset[str]:
    """The stems of all phrases that name the concept."""
    return frozenset(stem for phrase, other in _load_phrases() if other == concept for stem in phrase)


@cache
def _load_phrases() -> Sequence[tuple[tuple[str, ...], Concept]]:
    sizes = {section: sum(section == other for other, _ in _ROWS) for section, _ in _ROWS}
    phrases, places = [], dict.fromkeys(sizes, 0)
    for row, (section, names) in enumerate(_ROWS):
        concept = Concept(section, row, 1 - places[section] / sizes[section])
        places[section] += 1
        phrases += [(stem_text(name), concept) for name in names.split(", ")]
    return phrases
