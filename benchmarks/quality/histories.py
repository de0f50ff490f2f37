"""Small life histories with what has to be known at their end, in whatever order and portions they are told.

Every turn says one thing, and the scripted replies stand for a model that reads it rightly; so what is tested is all
that comes after: who is who, what repeats, what changed, what was wrong, and since when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Said:
    """One turn, and the fact that a good reader takes from it (none where ``text`` is empty)."""

    day: int
    text: str
    predicate: str = "states"
    object: str | None = None
    subject: str = "user"
    about: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def turn(self) -> str:
        """The words of the turn: unlike any other's."""
        return f"Day {self.day}: {self.text}"


@dataclass(frozen=True, slots=True)
class Held:
    """A fact as the graph has to hold it at the end."""

    text: str
    state: str = "current"
    until: int | None = None
    support: int = 1
    stale: bool = False
    subject: str = "user"


@dataclass(frozen=True, slots=True)
class History:
    """What was said in which session, how facts relate for who judges them, and what is true in the end.

    ``relations``: (text, text) → the operation, the first being what came after, corrects or is more exact.
    ``rests``: a text → the texts without which it would not hold.
    """

    name: str
    sessions: tuple[tuple[Said, ...], ...]
    held: tuple[Held, ...]
    relations: Mapping[tuple[str, str], str] = field(default_factory=dict)
    rests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    functional_predicates: tuple[str, ...] = ()


def _lives(day: int, city: str, **fields: Any) -> Said:
    return Said(day, f"The user lives in {city}.", "lives_in", city, fields=fields)


def _works(day: int, firm: str, **fields: Any) -> Said:
    return Said(day, f"The user works at {firm}.", "works_at", firm, fields=fields)


def _phone(day: int, number: str, **fields: Any) -> Said:
    return Said(day, f"The user's phone number is {number}.", "phone_number", fields=fields)


def _born(day: int, date: str, **fields: Any) -> Said:
    return Said(day, f"The user was born on {date}.", "born_on", fields=fields)


def _says(day: int, text: str, predicate: str, **fields: Any) -> Said:
    return Said(day, text, predicate, fields=fields)


def _each(*statements: Said) -> tuple[tuple[Said, ...], ...]:
    """A session a turn."""
    return tuple((statement,) for statement in statements)


HOME, JOB, PHONE, BORN = "lives_in", "works_at", "phone_number", "born_on"


def histories() -> list[History]:
    """All of them."""
    return [*_changes(), *_judged(), *_corrections(), *_plans(), *_repeats(), *_people(), *_dependencies(), *_rest()]


def _changes() -> list[History]:
    """A value that there is one of at a time, by rule alone."""
    histories = []
    for slot, say, values in (
        (HOME, _lives, ("Lisbon", "Porto", "Braga")),
        (JOB, _works, ("Acme", "Bolt", "Crane")),
        (PHONE, _phone, ("555 0101", "555 0102", "555 0103")),
    ):
        a, b, c = (say(0, value).text for value in values)
        x, y, z = values
        one = (slot,)
        histories += [
            History(
                f"{slot}: one change",
                _each(say(1, x), say(100, y)),
                (Held(a, "superseded", 100), Held(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: two changes",
                _each(say(1, x), say(100, y), say(200, z)),
                (Held(a, "superseded", 100), Held(b, "superseded", 200), Held(c)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: changes and changes back",
                _each(say(1, x), say(100, y), say(200, x)),
                (Held(a, "superseded", 100), Held(b, "superseded", 200), Held(a)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: told again before it changes",
                _each(say(1, x), say(50, x), say(100, y)),
                (Held(a, "superseded", 100, support=2), Held(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: back and told again",
                _each(say(1, x), say(100, y), say(200, x), say(220, x), say(300, z)),
                (
                    Held(a, "superseded", 100),
                    Held(b, "superseded", 200),
                    Held(a, "superseded", 300, support=2),
                    Held(c),
                ),
                functional_predicates=one,
            ),
            History(
                f"{slot}: two on one day, the later stands",
                ((say(1, x), say(1, y)), (say(50, y),)),
                (Held(a, "superseded", 1), Held(b, support=2)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: a change dated before it was told",
                _each(say(1, x), say(100, y, valid_from=80)),
                (Held(a, "superseded", 80), Held(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: a date that contradicts what was said falls back to the time it was said",
                _each(say(1, x), say(90, x), say(100, y, valid_from=50)),
                (Held(a, "superseded", 100, support=2), Held(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: hearsay ends nothing",
                _each(say(1, x), say(100, y, modality="reported")),
                (Held(a), Held(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: what might be ends nothing",
                _each(say(1, x), say(100, y, modality="hypothetical")),
                (Held(a), Held(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: what used to be ends nothing",
                _each(say(50, x), say(100, y, valid_to=100)),
                (Held(a), Held(b, until=100)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: no longer",
                _each(say(1, x), say(100, x, modality="negated")),
                (Held(a, "superseded", 100), Held(a)),
                functional_predicates=one,
            ),
        ]
    return histories


def _judged() -> list[History]:
    """Changes that no rule knows of: a model says which facts cannot both hold."""
    vegan, steak, fish = "The user is a vegan.", "The user eats steak again.", "The user eats fish but no meat."
    histories = [
        History(
            "judged: a change",
            _each(_says(1, vegan, "eats"), _says(100, steak, "eats")),
            (Held(vegan, "superseded", 100), Held(steak)),
            {(steak, vegan): "SUPERSEDE"},
        ),
        History(
            "judged: two changes",
            _each(_says(1, vegan, "eats"), _says(100, fish, "eats"), _says(200, steak, "eats")),
            (Held(vegan, "superseded", 100), Held(fish, "superseded", 200), Held(steak)),
            {(steak, vegan): "SUPERSEDE", (fish, vegan): "SUPERSEDE", (steak, fish): "SUPERSEDE"},
        ),
        History(
            "judged: a change and back",
            _each(_says(1, vegan, "eats"), _says(100, steak, "eats"), _says(200, vegan, "eats")),
            (Held(vegan, "superseded", 100), Held(steak, "superseded", 200), Held(vegan)),
            {(steak, vegan): "SUPERSEDE"},
        ),
        History(
            "judged: an undated change told on one day",
            ((_says(5, vegan, "eats"), _says(5, steak, "eats")),),
            (Held(vegan, "superseded", 5), Held(steak)),
            {(steak, vegan): "SUPERSEDE"},
        ),
    ]
    dropped, ordered = "The user dropped the stairlift.", "The user had ordered a stairlift."
    histories.append(
        History(
            "judged: in one session what came after may be told before",
            ((_says(5, dropped, "stairlift"), _says(5, ordered, "stairlift")),),
            (Held(dropped), Held(ordered, "superseded", 5)),
            {(dropped, ordered): "SUPERSEDE"},
        )
    )
    for one, other in (("tea", "coffee"), ("chess", "go"), ("Bach", "Ravel")):
        a, b = f"The user likes {one}.", f"The user likes {other}."
        histories.append(
            History(
                f"judged: {one} beside {other}",
                _each(Said(1, a, "likes", one), Said(100, b, "likes", other)),
                (Held(a), Held(b)),
            )
        )
    return histories


def _corrections() -> list[History]:
    third, fourth, fifth = "1987-05-03", "1987-05-04", "1987-05-05"
    a, b, c = (_born(0, date).text for date in (third, fourth, fifth))
    nut, no_nut = "The user is allergic to nuts.", "The user never had a nut allergy."
    return [
        History(
            "corrected: a birth date, by rule",
            _each(_born(1, third), _born(50, fourth, correction=True)),
            (Held(a, "retracted", 50), Held(b)),
            functional_predicates=(BORN,),
        ),
        History(
            "corrected: a birth date, by judgement",
            _each(_born(1, third), _born(50, fourth)),
            (Held(a, "retracted", 50), Held(b)),
            {(b, a): "RETRACT"},
        ),
        History(
            "corrected: twice",
            _each(_born(1, third), _born(50, fourth, correction=True), _born(80, fifth, correction=True)),
            (Held(a, "retracted", 50), Held(b, "retracted", 80), Held(c)),
            functional_predicates=(BORN,),
        ),
        History(
            "corrected: in one breath",
            ((_born(1, third), _born(1, fourth, correction=True)),),
            (Held(a, "retracted", 1), Held(b)),
            {(b, a): "RETRACT"},
            functional_predicates=(BORN,),
        ),
        History(
            "corrected: an allergy there never was",
            _each(_says(1, nut, "allergic_to"), _says(50, no_nut, "allergic_to", modality="negated", correction=True)),
            (Held(nut, "retracted", 50), Held(no_nut)),
            {(no_nut, nut): "RETRACT"},
        ),
        History(
            "corrected: the last address, not the one before",
            _each(_lives(1, "Lisbon"), _lives(100, "Porto"), _lives(110, "Braga", correction=True)),
            (
                Held(_lives(0, "Lisbon").text, "superseded", 100),
                Held(_lives(0, "Porto").text, "retracted", 110),
                Held(_lives(0, "Braga").text),
            ),
            functional_predicates=(HOME,),
        ),
    ]


def _plans() -> list[History]:
    berlin = _lives(0, "Berlin").text
    trip, off = "The user plans a trip to Rome in May.", "The user's trip to Rome is off."
    went, later = "The user was in Rome in May.", "The user plans the trip to Rome for July."
    visit, took_place = "The user sees Dr. Lim on day 50.", "The user saw Dr. Lim on day 57."
    return [
        History(
            "planned: came true",
            _each(_lives(1, "Berlin", modality="planned"), _lives(100, "Berlin")),
            (Held(berlin, "superseded", 100), Held(berlin)),
            functional_predicates=(HOME,),
        ),
        History(
            "planned: given up",
            _each(_lives(1, "Berlin", modality="planned"), _lives(100, "Berlin", modality="negated")),
            (Held(berlin, "superseded", 100), Held(berlin)),
            functional_predicates=(HOME,),
        ),
        History(
            "planned: ends nothing that is so",
            _each(_lives(1, "Lisbon"), _lives(50, "Berlin", modality="planned")),
            (Held(_lives(0, "Lisbon").text), Held(berlin)),
            functional_predicates=(HOME,),
        ),
        History(
            "planned: cancelled, by judgement",
            _each(_says(1, trip, "plans_to", modality="planned"), _says(60, off, "plans_to", modality="negated")),
            (Held(trip, "superseded", 60), Held(off)),
            {(off, trip): "SUPERSEDE"},
        ),
        History(
            "planned: a settled change ends what is so on its day",
            _each(_lives(1, "Lisbon"), _lives(50, "Berlin", modality="planned", valid_from=100), _lives(60, "Lisbon")),
            (Held(_lives(0, "Lisbon").text, "superseded", 100, support=2), Held(berlin)),
            {(berlin, _lives(0, "Lisbon").text): "SUPERSEDE"},
        ),
        History(
            "planned: put off to another day",
            _each(
                _says(1, trip, "plans_to", modality="planned", valid_from=90, valid_to=94),
                _says(60, later, "plans_to", modality="planned", valid_from=180, valid_to=184),
            ),
            (Held(trip, "superseded", 60), Held(later, until=184)),
            {(later, trip): "SUPERSEDE"},
        ),
        History(
            "planned: called off before its day",
            _each(
                _says(1, trip, "plans_to", modality="planned", valid_from=90, valid_to=94),
                _says(60, off, "plans_to", modality="negated"),
            ),
            (Held(trip, "superseded", 60), Held(off)),
            {(off, trip): "SUPERSEDE"},
        ),
        History(
            "planned: came true on its day, as was told later",
            _each(_lives(1, "Berlin", modality="planned", valid_from=100), _lives(160, "Berlin", valid_from=100)),
            (Held(berlin, "superseded", 100), Held(berlin)),
            functional_predicates=(HOME,),
        ),
        History(
            "planned: carried out, by judgement",
            _each(_says(1, trip, "travels_to", modality="planned"), _says(160, went, "travels_to")),
            (Held(trip, "superseded", 160), Held(went)),
            {(went, trip): "SUPERSEDE"},
        ),
        History(
            "planned: an appointment that took place on another day",
            _each(
                Said(1, visit, "sees", "Dr. Lim", fields={"modality": "planned", "valid_from": 50, "valid_to": 50}),
                Said(60, took_place, "sees", "Dr. Lim", fields={"valid_from": 57, "valid_to": 57}),
            ),
            (Held(visit, "superseded", 50), Held(took_place, until=57)),
            {(took_place, visit): "SUPERSEDE"},
        ),
        History(
            "planned: a past day that was told wrongly",
            _each(
                _says(9, "The user was in Rome on day 5.", "visited", valid_from=5, valid_to=5),
                _says(20, "The user was in Rome on day 6.", "visited", valid_from=6, valid_to=6),
            ),
            (
                Held("The user was in Rome on day 5.", "retracted", 5),
                Held("The user was in Rome on day 6.", until=6),
            ),
            {("The user was in Rome on day 6.", "The user was in Rome on day 5."): "RETRACT"},
        ),
        History(
            "planned: talked of again after it came true",
            _each(
                _lives(1, "Berlin", modality="planned"),
                _lives(100, "Berlin"),
                _lives(120, "Berlin", modality="planned"),
            ),
            (Held(berlin, "superseded", 100), Held(berlin), Held(berlin)),
            functional_predicates=(HOME,),
        ),
        *_outcomes(),
    ]


def _outcomes() -> list[History]:
    """What a plan was to end, by what came of it."""
    lisbon, berlin, rome = (_lives(0, city).text for city in ("Lisbon", "Berlin", "Rome"))
    off, left = "The move to Berlin is off.", "The user left Lisbon."
    rents = Said(1, "The user rents a flat in Lisbon.", "rents_in", "Lisbon")
    leaves = Said(
        50, "The user leaves Lisbon on day 100.", "leaves", "Lisbon", fields={"modality": "planned", "valid_from": 100}
    )
    went = "The user was in Vigo."
    trip = Said(
        1, "The user goes to Vigo on day 100.", "visits", "Vigo", fields={"modality": "planned", "valid_from": 100}
    )
    left_it = {(left, leaves.text): "SUPERSEDE", (leaves.text, rents.text): "SUPERSEDE"}
    move = _lives(50, "Berlin", modality="planned", valid_from=100)
    ends = {(berlin, lisbon): "SUPERSEDE", (off, berlin): "SUPERSEDE", (rome, berlin): "SUPERSEDE"}
    given_up = Said(60, off, HOME, "Berlin", fields={"modality": "negated"})
    return [
        History(
            "outcome: called off before its day, it ended nothing",
            _each(_lives(1, "Lisbon"), move, given_up),
            (Held(lisbon), Held(berlin, "superseded", 60), Held(off)),
            ends,
        ),
        History(
            "outcome: called off and taken up again",
            _each(_lives(1, "Lisbon"), move, given_up, _lives(70, "Berlin", modality="planned", valid_from=100)),
            (
                Held(lisbon, "superseded", 100),
                Held(berlin, "superseded", 60),
                Held(off),
                Held(berlin),
            ),
            ends,
            functional_predicates=(HOME,),
        ),
        History(
            "outcome: denied once its day was over, it had been kept",
            _each(_lives(1, "Lisbon"), move, _says(160, off, HOME, modality="negated")),
            (Held(lisbon, "superseded", 100), Held(berlin, "superseded", 160), Held(off)),
            ends,
        ),
        History(
            "outcome: heard where it was, and then called off",
            _each(_lives(1, "Lisbon"), move, given_up, _lives(200, "Lisbon")),
            (Held(lisbon, support=2), Held(berlin, "superseded", 60), Held(off)),
            ends,
        ),
        History(
            "outcome: another plan takes its place, with a day of its own",
            _each(_lives(1, "Lisbon"), move, _lives(60, "Rome", modality="planned", valid_from=130)),
            (Held(lisbon, "superseded", 130), Held(berlin, "superseded", 60), Held(rome)),
            ends,
        ),
        History(
            "outcome: the plan in its place was called off too",
            _each(
                _lives(1, "Lisbon"),
                move,
                _lives(60, "Rome", modality="planned", valid_from=130),
                _lives(90, "Rome", modality="negated"),
            ),
            (Held(lisbon), Held(berlin, "superseded", 60), Held(rome, "superseded", 90), Held(rome)),
            ends,
            functional_predicates=(HOME,),
        ),
        History(
            "outcome: carried out later than planned",
            _each(rents, leaves, Said(140, left, "leaves", "Lisbon", fields={"valid_from": 107})),
            (Held(rents.text, "superseded", 107), Held(leaves.text, "superseded", 107), Held(left)),
            left_it,
        ),
        History(
            "outcome: carried out before its day, as was heard",
            _each(rents, leaves, Said(80, left, "leaves", "Lisbon")),
            (Held(rents.text, "superseded", 80), Held(leaves.text, "superseded", 80), Held(left)),
            left_it,
        ),
        History(
            "outcome: carried out, nobody says when",
            _each(rents, leaves, Said(140, left, "leaves", "Lisbon")),
            (Held(rents.text, "superseded", 100), Held(leaves.text, "superseded", 140), Held(left)),
            left_it,
        ),
        History(
            "outcome: what happened once on the day of a plan was the plan, as a rule",
            _each(trip, Said(160, went, "visits", "Vigo", fields={"valid_from": 100, "valid_to": 104})),
            (Held(trip.text, "superseded", 100), Held(went, until=104)),
        ),
        History(
            "outcome: what happened on another day was not the plan, as a rule",
            _each(trip, Said(160, went, "visits", "Vigo", fields={"valid_from": 20, "valid_to": 24})),
            (Held(trip.text), Held(went, until=24)),
        ),
    ]


def _repeats() -> list[History]:
    plays, sundays = "The user plays the cello.", "The user plays the cello on Sundays."
    vet, works = "The user is a vet.", "The user works as a veterinarian."
    bees = "The user keeps bees."
    return [
        History(
            "repeated: word by word",
            _each(_says(1, bees, "keeps"), _says(9, bees, "keeps"), _says(30, bees, "keeps")),
            (Held(bees, support=3),),
        ),
        History(
            "repeated: in other words",
            _each(_says(1, vet, "works_as"), _says(50, works, "works_as")),
            (Held(vet, support=2),),
            {(works, vet): "REINFORCE"},
        ),
        History(
            "repeated: more exactly",
            _each(_says(1, plays, "plays"), _says(50, sundays, "plays")),
            (Held(sundays, support=2),),
            {(sundays, plays): "REFINE"},
        ),
        History(
            "repeated: less exactly",
            _each(_says(1, sundays, "plays"), _says(50, plays, "plays")),
            (Held(sundays, support=2),),
            {(sundays, plays): "REFINE"},
        ),
        History(
            "repeated: other numbers are other facts",
            _each(_says(1, "The user ran 5 km.", "ran"), _says(9, "The user ran 8 km.", "ran")),
            (Held("The user ran 5 km."), Held("The user ran 8 km.")),
        ),
        History(
            "repeated: by another wording that is known already",
            _each(_says(1, vet, "works_as"), _says(50, works, "works_as"), _says(90, works, "works_as")),
            (Held(vet, support=3),),
            {(works, vet): "REINFORCE"},
        ),
    ]


def _people() -> list[History]:
    brother = "Anton, the user's brother, lives in Graz."
    colleague = "Anton, the user's colleague, lives in Linz."
    return [
        History(
            "namesakes: two who live in two towns",
            (
                (
                    Said(1, brother, HOME, "Graz", "Anton", "brother"),
                    Said(1, colleague, HOME, "Linz", "Anton", "colleague"),
                ),
            ),
            (Held(brother, subject="Anton"), Held(colleague, subject="Anton")),
            functional_predicates=(HOME,),
        ),
        History(
            "two people, one street",
            _each(Said(1, "Inés lives in Porto.", HOME, "Porto", "Inés"), _lives(30, "Braga")),
            (Held("Inés lives in Porto.", subject="Inés"), Held(_lives(0, "Braga").text)),
            functional_predicates=(HOME,),
        ),
        History(
            "another's move moves only them",
            _each(
                _lives(1, "Porto"),
                Said(5, "Inés lives in Porto.", HOME, "Porto", "Inés"),
                Said(50, "Inés lives in Faro.", HOME, "Faro", "Inés"),
            ),
            (
                Held(_lives(0, "Porto").text),
                Held("Inés lives in Porto.", "superseded", 50, subject="Inés"),
                Held("Inés lives in Faro.", subject="Inés"),
            ),
            functional_predicates=(HOME,),
        ),
    ]


def _dependencies() -> list[History]:
    commute, train = "The user's commute to Acme takes 40 minutes.", "The user takes the train to Bolt."
    acme, bolt = _works(0, "Acme").text, _works(0, "Bolt").text
    way = Said(20, commute, "commute", "Acme")
    pay = Said(20, "The user will earn 5,000 a month at Bolt.", "earns_at", "Bolt", fields={"modality": "planned"})
    return [
        History(
            "rests: stale once what it rests on has ended",
            ((_works(10, "Acme"), way), (_works(100, "Bolt"),)),
            (Held(acme, "superseded", 100), Held(bolt), Held(commute, stale=True)),
            rests={commute: (acme,)},
            functional_predicates=(JOB,),
        ),
        History(
            "rests: not while it holds",
            ((_works(10, "Acme"), way),),
            (Held(acme), Held(commute)),
            rests={commute: (acme,)},
            functional_predicates=(JOB,),
        ),
        History(
            "rests: heard again after the end, it holds",
            ((_works(10, "Acme"), way), (_works(100, "Bolt"),), (Said(120, commute, "commute", "Acme"),)),
            (Held(acme, "superseded", 100), Held(bolt), Held(commute, support=2)),
            rests={commute: (acme,)},
            functional_predicates=(JOB,),
        ),
        History(
            "rests: what has ended ended no later than what it rested on",
            ((_works(10, "Acme", valid_to=60), way), (_says(100, train, "commute"),)),
            (Held(acme, until=60), Held(commute, "superseded", 60), Held(train)),
            {(train, commute): "SUPERSEDE"},
            {commute: (acme,)},
        ),
        History(
            "rests: heard again after the end of what it rested on, it ended later",
            (
                (_works(10, "Acme", valid_to=60), way),
                (Said(70, commute, "commute", "Acme"), _says(100, train, "commute")),
            ),
            (Held(acme, until=60), Held(commute, "superseded", 100, support=2), Held(train)),
            {(train, commute): "SUPERSEDE"},
            {commute: (acme,)},
        ),
        History(
            "rests: on a plan that came true",
            ((_works(10, "Bolt", modality="planned"), pay), (_works(100, "Bolt"),)),
            (Held(bolt, "superseded", 100), Held(bolt), Held(pay.text)),
            rests={pay.text: (bolt,)},
            functional_predicates=(JOB,),
        ),
        History(
            "rests: on a plan that was given up",
            ((_works(10, "Bolt", modality="planned"), pay), (_works(100, "Bolt", modality="negated"),)),
            (Held(bolt, "superseded", 100), Held(bolt), Held(pay.text, stale=True)),
            rests={pay.text: (bolt,)},
            functional_predicates=(JOB,),
        ),
    ]


def _rest() -> list[History]:
    return [
        History("nothing: sarcasm and small talk leave nothing", _each(Said(1, ""), Said(2, "")), ()),
        History(
            "nothing: small talk between facts changes nothing",
            ((_lives(1, "Lisbon"), Said(1, "")), (Said(2, ""), _lives(100, "Porto"))),
            (Held(_lives(0, "Lisbon").text, "superseded", 100), Held(_lives(0, "Porto").text)),
            functional_predicates=(HOME,),
        ),
    ]


def cuts(history: History) -> dict[str, list[tuple[Said, ...]]]:
    """The same turns in batches of other sizes: by session, all at once, and a batch a turn."""
    statements = [statement for session in history.sessions for statement in session]
    sessions: Sequence[tuple[Said, ...]] = history.sessions
    return {
        "by session": list(sessions),
        "all at once": [tuple(statements)],
        "turn by turn": [(statement,) for statement in statements],
    }
