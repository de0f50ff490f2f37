"""Small life histories with what has to be known at their end, in whatever order and portions they are told.

Every turn says one thing, and the scripted replies stand for a model that reads it rightly; so what is tested is all
that comes after: who is who, what repeats, what changed, what was wrong, and since when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Statement:
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
class Truth:
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
    sessions: tuple[tuple[Statement, ...], ...]
    held: tuple[Truth, ...]
    relations: Mapping[tuple[str, str], str] = field(default_factory=dict)
    rests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    functional_predicates: tuple[str, ...] = ()


def _state_home(day: int, city: str, **fields: Any) -> Statement:
    return Statement(day, f"The user lives in {city}.", "lives_in", city, fields=fields)


def _state_job(day: int, firm: str, **fields: Any) -> Statement:
    return Statement(day, f"The user works at {firm}.", "works_at", firm, fields=fields)


def _state_phone(day: int, number: str, **fields: Any) -> Statement:
    return Statement(day, f"The user's phone number is {number}.", "phone_number", fields=fields)


def _state_birthday(day: int, date: str, **fields: Any) -> Statement:
    return Statement(day, f"The user was born on {date}.", "born_on", fields=fields)


def _state(day: int, text: str, predicate: str, **fields: Any) -> Statement:
    return Statement(day, text, predicate, fields=fields)


def _make_sessions(*statements: Statement) -> tuple[tuple[Statement, ...], ...]:
    """A session a turn."""
    return tuple((statement,) for statement in statements)


HOME, JOB, PHONE, BORN = "lives_in", "works_at", "phone_number", "born_on"


def make_histories() -> list[History]:
    """All of them."""
    return [
        *_make_changes(),
        *_make_judged_changes(),
        *_make_corrections(),
        *_make_plans(),
        *_make_repeats(),
        *_make_people(),
        *_make_dependencies(),
        *_make_rest(),
    ]


def _make_changes() -> list[History]:
    """A value that there is one of at a time, by rule alone."""
    histories = []
    for slot, say, values in (
        (HOME, _state_home, ("Lisbon", "Porto", "Braga")),
        (JOB, _state_job, ("Acme", "Bolt", "Crane")),
        (PHONE, _state_phone, ("555 0101", "555 0102", "555 0103")),
    ):
        a, b, c = (say(0, value).text for value in values)
        x, y, z = values
        one = (slot,)
        histories += [
            History(
                f"{slot}: one change",
                _make_sessions(say(1, x), say(100, y)),
                (Truth(a, "superseded", 100), Truth(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: two changes",
                _make_sessions(say(1, x), say(100, y), say(200, z)),
                (Truth(a, "superseded", 100), Truth(b, "superseded", 200), Truth(c)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: changes and changes back",
                _make_sessions(say(1, x), say(100, y), say(200, x)),
                (Truth(a, "superseded", 100), Truth(b, "superseded", 200), Truth(a)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: told again before it changes",
                _make_sessions(say(1, x), say(50, x), say(100, y)),
                (Truth(a, "superseded", 100, support=2), Truth(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: back and told again",
                _make_sessions(say(1, x), say(100, y), say(200, x), say(220, x), say(300, z)),
                (
                    Truth(a, "superseded", 100),
                    Truth(b, "superseded", 200),
                    Truth(a, "superseded", 300, support=2),
                    Truth(c),
                ),
                functional_predicates=one,
            ),
            History(
                f"{slot}: two on one day, the later stands",
                ((say(1, x), say(1, y)), (say(50, y),)),
                (Truth(a, "superseded", 1), Truth(b, support=2)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: a change dated before it was told",
                _make_sessions(say(1, x), say(100, y, valid_from=80)),
                (Truth(a, "superseded", 80), Truth(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: a date that contradicts what was said falls back to the time it was said",
                _make_sessions(say(1, x), say(90, x), say(100, y, valid_from=50)),
                (Truth(a, "superseded", 100, support=2), Truth(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: hearsay ends nothing",
                _make_sessions(say(1, x), say(100, y, modality="reported")),
                (Truth(a), Truth(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: what might be ends nothing",
                _make_sessions(say(1, x), say(100, y, modality="hypothetical")),
                (Truth(a), Truth(b)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: what used to be ends nothing",
                _make_sessions(say(50, x), say(100, y, valid_to=100)),
                (Truth(a), Truth(b, until=100)),
                functional_predicates=one,
            ),
            History(
                f"{slot}: no longer",
                _make_sessions(say(1, x), say(100, x, modality="negated")),
                (Truth(a, "superseded", 100), Truth(a)),
                functional_predicates=one,
            ),
        ]
    return histories


def _make_judged_changes() -> list[History]:
    """Changes that no rule knows of: a model says which facts cannot both hold."""
    vegan, steak, fish = "The user is a vegan.", "The user eats steak again.", "The user eats fish but no meat."
    histories = [
        History(
            "judged: a change",
            _make_sessions(_state(1, vegan, "eats"), _state(100, steak, "eats")),
            (Truth(vegan, "superseded", 100), Truth(steak)),
            {(steak, vegan): "SUPERSEDE"},
        ),
        History(
            "judged: two changes",
            _make_sessions(_state(1, vegan, "eats"), _state(100, fish, "eats"), _state(200, steak, "eats")),
            (Truth(vegan, "superseded", 100), Truth(fish, "superseded", 200), Truth(steak)),
            {(steak, vegan): "SUPERSEDE", (fish, vegan): "SUPERSEDE", (steak, fish): "SUPERSEDE"},
        ),
        History(
            "judged: a change and back",
            _make_sessions(_state(1, vegan, "eats"), _state(100, steak, "eats"), _state(200, vegan, "eats")),
            (Truth(vegan, "superseded", 100), Truth(steak, "superseded", 200), Truth(vegan)),
            {(steak, vegan): "SUPERSEDE"},
        ),
        History(
            "judged: an undated change told on one day",
            ((_state(5, vegan, "eats"), _state(5, steak, "eats")),),
            (Truth(vegan, "superseded", 5), Truth(steak)),
            {(steak, vegan): "SUPERSEDE"},
        ),
    ]
    dropped, ordered = "The user dropped the stairlift.", "The user had ordered a stairlift."
    histories.append(
        History(
            "judged: in one session what came after may be told before",
            ((_state(5, dropped, "stairlift"), _state(5, ordered, "stairlift")),),
            (Truth(dropped), Truth(ordered, "superseded", 5)),
            {(dropped, ordered): "SUPERSEDE"},
        )
    )
    for one, other in (("tea", "coffee"), ("chess", "go"), ("Bach", "Ravel")):
        a, b = f"The user likes {one}.", f"The user likes {other}."
        histories.append(
            History(
                f"judged: {one} beside {other}",
                _make_sessions(Statement(1, a, "likes", one), Statement(100, b, "likes", other)),
                (Truth(a), Truth(b)),
            )
        )
    return histories


def _make_corrections() -> list[History]:
    third, fourth, fifth = "1987-05-03", "1987-05-04", "1987-05-05"
    a, b, c = (_state_birthday(0, date).text for date in (third, fourth, fifth))
    nut, no_nut = "The user is allergic to nuts.", "The user never had a nut allergy."
    return [
        History(
            "corrected: a birth date, by rule",
            _make_sessions(_state_birthday(1, third), _state_birthday(50, fourth, correction=True)),
            (Truth(a, "retracted", 50), Truth(b)),
            functional_predicates=(BORN,),
        ),
        History(
            "corrected: a birth date, by judgement",
            _make_sessions(_state_birthday(1, third), _state_birthday(50, fourth)),
            (Truth(a, "retracted", 50), Truth(b)),
            {(b, a): "RETRACT"},
        ),
        History(
            "corrected: twice",
            _make_sessions(
                _state_birthday(1, third),
                _state_birthday(50, fourth, correction=True),
                _state_birthday(80, fifth, correction=True),
            ),
            (Truth(a, "retracted", 50), Truth(b, "retracted", 80), Truth(c)),
            functional_predicates=(BORN,),
        ),
        History(
            "corrected: in one breath",
            ((_state_birthday(1, third), _state_birthday(1, fourth, correction=True)),),
            (Truth(a, "retracted", 1), Truth(b)),
            {(b, a): "RETRACT"},
            functional_predicates=(BORN,),
        ),
        History(
            "corrected: an allergy there never was",
            _make_sessions(
                _state(1, nut, "allergic_to"), _state(50, no_nut, "allergic_to", modality="negated", correction=True)
            ),
            (Truth(nut, "retracted", 50), Truth(no_nut)),
            {(no_nut, nut): "RETRACT"},
        ),
        History(
            "corrected: the last address, not the one before",
            _make_sessions(
                _state_home(1, "Lisbon"), _state_home(100, "Porto"), _state_home(110, "Braga", correction=True)
            ),
            (
                Truth(_state_home(0, "Lisbon").text, "superseded", 100),
                Truth(_state_home(0, "Porto").text, "retracted", 110),
                Truth(_state_home(0, "Braga").text),
            ),
            functional_predicates=(HOME,),
        ),
    ]


def _make_plans() -> list[History]:
    berlin = _state_home(0, "Berlin").text
    trip, off = "The user plans a trip to Rome in May.", "The user's trip to Rome is off."
    went, later = "The user was in Rome in May.", "The user plans the trip to Rome for July."
    visit, took_place = "The user sees Dr. Lim on day 50.", "The user saw Dr. Lim on day 57."
    return [
        History(
            "planned: came true",
            _make_sessions(_state_home(1, "Berlin", modality="planned"), _state_home(100, "Berlin")),
            (Truth(berlin, "superseded", 100), Truth(berlin)),
            functional_predicates=(HOME,),
        ),
        History(
            "planned: given up",
            _make_sessions(
                _state_home(1, "Berlin", modality="planned"), _state_home(100, "Berlin", modality="negated")
            ),
            (Truth(berlin, "superseded", 100), Truth(berlin)),
            functional_predicates=(HOME,),
        ),
        History(
            "planned: ends nothing that is so",
            _make_sessions(_state_home(1, "Lisbon"), _state_home(50, "Berlin", modality="planned")),
            (Truth(_state_home(0, "Lisbon").text), Truth(berlin)),
            functional_predicates=(HOME,),
        ),
        History(
            "planned: cancelled, by judgement",
            _make_sessions(
                _state(1, trip, "plans_to", modality="planned"), _state(60, off, "plans_to", modality="negated")
            ),
            (Truth(trip, "superseded", 60), Truth(off)),
            {(off, trip): "SUPERSEDE"},
        ),
        History(
            "planned: a settled change ends what is so on its day",
            _make_sessions(
                _state_home(1, "Lisbon"),
                _state_home(50, "Berlin", modality="planned", valid_from=100),
                _state_home(60, "Lisbon"),
            ),
            (Truth(_state_home(0, "Lisbon").text, "superseded", 100, support=2), Truth(berlin)),
            {(berlin, _state_home(0, "Lisbon").text): "SUPERSEDE"},
        ),
        History(
            "planned: put off to another day",
            _make_sessions(
                _state(1, trip, "plans_to", modality="planned", valid_from=90, valid_to=94),
                _state(60, later, "plans_to", modality="planned", valid_from=180, valid_to=184),
            ),
            (Truth(trip, "superseded", 60), Truth(later, until=184)),
            {(later, trip): "SUPERSEDE"},
        ),
        History(
            "planned: called off before its day",
            _make_sessions(
                _state(1, trip, "plans_to", modality="planned", valid_from=90, valid_to=94),
                _state(60, off, "plans_to", modality="negated"),
            ),
            (Truth(trip, "superseded", 60), Truth(off)),
            {(off, trip): "SUPERSEDE"},
        ),
        History(
            "planned: came true on its day, as was told later",
            _make_sessions(
                _state_home(1, "Berlin", modality="planned", valid_from=100), _state_home(160, "Berlin", valid_from=100)
            ),
            (Truth(berlin, "superseded", 100), Truth(berlin)),
            functional_predicates=(HOME,),
        ),
        History(
            "planned: carried out, by judgement",
            _make_sessions(_state(1, trip, "travels_to", modality="planned"), _state(160, went, "travels_to")),
            (Truth(trip, "superseded", 160), Truth(went)),
            {(went, trip): "SUPERSEDE"},
        ),
        History(
            "planned: an appointment that took place on another day",
            _make_sessions(
                Statement(
                    1, visit, "sees", "Dr. Lim", fields={"modality": "planned", "valid_from": 50, "valid_to": 50}
                ),
                Statement(60, took_place, "sees", "Dr. Lim", fields={"valid_from": 57, "valid_to": 57}),
            ),
            (Truth(visit, "superseded", 50), Truth(took_place, until=57)),
            {(took_place, visit): "SUPERSEDE"},
        ),
        History(
            "planned: a past day that was told wrongly",
            _make_sessions(
                _state(9, "The user was in Rome on day 5.", "visited", valid_from=5, valid_to=5),
                _state(20, "The user was in Rome on day 6.", "visited", valid_from=6, valid_to=6),
            ),
            (
                Truth("The user was in Rome on day 5.", "retracted", 5),
                Truth("The user was in Rome on day 6.", until=6),
            ),
            {("The user was in Rome on day 6.", "The user was in Rome on day 5."): "RETRACT"},
        ),
        History(
            "planned: talked of again after it came true",
            _make_sessions(
                _state_home(1, "Berlin", modality="planned"),
                _state_home(100, "Berlin"),
                _state_home(120, "Berlin", modality="planned"),
            ),
            (Truth(berlin, "superseded", 100), Truth(berlin), Truth(berlin)),
            functional_predicates=(HOME,),
        ),
        *_make_outcomes(),
    ]


def _make_outcomes() -> list[History]:
    """What a plan was to end, by what came of it."""
    lisbon, berlin, rome = (_state_home(0, city).text for city in ("Lisbon", "Berlin", "Rome"))
    off, left = "The move to Berlin is off.", "The user left Lisbon."
    rents = Statement(1, "The user rents a flat in Lisbon.", "rents_in", "Lisbon")
    leaves = Statement(
        50, "The user leaves Lisbon on day 100.", "leaves", "Lisbon", fields={"modality": "planned", "valid_from": 100}
    )
    went = "The user was in Vigo."
    trip = Statement(
        1, "The user goes to Vigo on day 100.", "visits", "Vigo", fields={"modality": "planned", "valid_from": 100}
    )
    left_it = {(left, leaves.text): "SUPERSEDE", (leaves.text, rents.text): "SUPERSEDE"}
    move = _state_home(50, "Berlin", modality="planned", valid_from=100)
    ends = {(berlin, lisbon): "SUPERSEDE", (off, berlin): "SUPERSEDE", (rome, berlin): "SUPERSEDE"}
    given_up = Statement(60, off, HOME, "Berlin", fields={"modality": "negated"})
    return [
        History(
            "outcome: called off before its day, it ended nothing",
            _make_sessions(_state_home(1, "Lisbon"), move, given_up),
            (Truth(lisbon), Truth(berlin, "superseded", 60), Truth(off)),
            ends,
        ),
        History(
            "outcome: called off and taken up again",
            _make_sessions(
                _state_home(1, "Lisbon"), move, given_up, _state_home(70, "Berlin", modality="planned", valid_from=100)
            ),
            (
                Truth(lisbon, "superseded", 100),
                Truth(berlin, "superseded", 60),
                Truth(off),
                Truth(berlin),
            ),
            ends,
            functional_predicates=(HOME,),
        ),
        History(
            "outcome: denied once its day was over, it had been kept",
            _make_sessions(_state_home(1, "Lisbon"), move, _state(160, off, HOME, modality="negated")),
            (Truth(lisbon, "superseded", 100), Truth(berlin, "superseded", 160), Truth(off)),
            ends,
        ),
        History(
            "outcome: heard where it was, and then called off",
            _make_sessions(_state_home(1, "Lisbon"), move, given_up, _state_home(200, "Lisbon")),
            (Truth(lisbon, support=2), Truth(berlin, "superseded", 60), Truth(off)),
            ends,
        ),
        History(
            "outcome: another plan takes its place, with a day of its own",
            _make_sessions(_state_home(1, "Lisbon"), move, _state_home(60, "Rome", modality="planned", valid_from=130)),
            (Truth(lisbon, "superseded", 130), Truth(berlin, "superseded", 60), Truth(rome)),
            ends,
        ),
        History(
            "outcome: the plan in its place was called off too",
            _make_sessions(
                _state_home(1, "Lisbon"),
                move,
                _state_home(60, "Rome", modality="planned", valid_from=130),
                _state_home(90, "Rome", modality="negated"),
            ),
            (Truth(lisbon), Truth(berlin, "superseded", 60), Truth(rome, "superseded", 90), Truth(rome)),
            ends,
            functional_predicates=(HOME,),
        ),
        History(
            "outcome: carried out later than planned",
            _make_sessions(rents, leaves, Statement(140, left, "leaves", "Lisbon", fields={"valid_from": 107})),
            (Truth(rents.text, "superseded", 107), Truth(leaves.text, "superseded", 107), Truth(left)),
            left_it,
        ),
        History(
            "outcome: carried out before its day, as was heard",
            _make_sessions(rents, leaves, Statement(80, left, "leaves", "Lisbon")),
            (Truth(rents.text, "superseded", 80), Truth(leaves.text, "superseded", 80), Truth(left)),
            left_it,
        ),
        History(
            "outcome: carried out, nobody says when",
            _make_sessions(rents, leaves, Statement(140, left, "leaves", "Lisbon")),
            (Truth(rents.text, "superseded", 100), Truth(leaves.text, "superseded", 140), Truth(left)),
            left_it,
        ),
        History(
            "outcome: what happened once on the day of a plan was the plan, as a rule",
            _make_sessions(trip, Statement(160, went, "visits", "Vigo", fields={"valid_from": 100, "valid_to": 104})),
            (Truth(trip.text, "superseded", 100), Truth(went, until=104)),
        ),
        History(
            "outcome: what happened on another day was not the plan, as a rule",
            _make_sessions(trip, Statement(160, went, "visits", "Vigo", fields={"valid_from": 20, "valid_to": 24})),
            (Truth(trip.text), Truth(went, until=24)),
        ),
    ]


def _make_repeats() -> list[History]:
    plays, sundays = "The user plays the cello.", "The user plays the cello on Sundays."
    vet, works = "The user is a vet.", "The user works as a veterinarian."
    bees = "The user keeps bees."
    return [
        History(
            "repeated: word by word",
            _make_sessions(_state(1, bees, "keeps"), _state(9, bees, "keeps"), _state(30, bees, "keeps")),
            (Truth(bees, support=3),),
        ),
        History(
            "repeated: in other words",
            _make_sessions(_state(1, vet, "works_as"), _state(50, works, "works_as")),
            (Truth(vet, support=2),),
            {(works, vet): "REINFORCE"},
        ),
        History(
            "repeated: more exactly",
            _make_sessions(_state(1, plays, "plays"), _state(50, sundays, "plays")),
            (Truth(sundays, support=2),),
            {(sundays, plays): "REFINE"},
        ),
        History(
            "repeated: less exactly",
            _make_sessions(_state(1, sundays, "plays"), _state(50, plays, "plays")),
            (Truth(sundays, support=2),),
            {(sundays, plays): "REFINE"},
        ),
        History(
            "repeated: other numbers are other facts",
            _make_sessions(_state(1, "The user ran 5 km.", "ran"), _state(9, "The user ran 8 km.", "ran")),
            (Truth("The user ran 5 km."), Truth("The user ran 8 km.")),
        ),
        History(
            "repeated: by another wording that is known already",
            _make_sessions(_state(1, vet, "works_as"), _state(50, works, "works_as"), _state(90, works, "works_as")),
            (Truth(vet, support=3),),
            {(works, vet): "REINFORCE"},
        ),
    ]


def _make_people() -> list[History]:
    brother = "Anton, the user's brother, lives in Graz."
    colleague = "Anton, the user's colleague, lives in Linz."
    return [
        History(
            "namesakes: two who live in two towns",
            (
                (
                    Statement(1, brother, HOME, "Graz", "Anton", "brother"),
                    Statement(1, colleague, HOME, "Linz", "Anton", "colleague"),
                ),
            ),
            (Truth(brother, subject="Anton"), Truth(colleague, subject="Anton")),
            functional_predicates=(HOME,),
        ),
        History(
            "two people, one street",
            _make_sessions(Statement(1, "Inés lives in Porto.", HOME, "Porto", "Inés"), _state_home(30, "Braga")),
            (Truth("Inés lives in Porto.", subject="Inés"), Truth(_state_home(0, "Braga").text)),
            functional_predicates=(HOME,),
        ),
        History(
            "another's move moves only them",
            _make_sessions(
                _state_home(1, "Porto"),
                Statement(5, "Inés lives in Porto.", HOME, "Porto", "Inés"),
                Statement(50, "Inés lives in Faro.", HOME, "Faro", "Inés"),
            ),
            (
                Truth(_state_home(0, "Porto").text),
                Truth("Inés lives in Porto.", "superseded", 50, subject="Inés"),
                Truth("Inés lives in Faro.", subject="Inés"),
            ),
            functional_predicates=(HOME,),
        ),
    ]


def _make_dependencies() -> list[History]:
    commute, train = "The user's commute to Acme takes 40 minutes.", "The user takes the train to Bolt."
    acme, bolt = _state_job(0, "Acme").text, _state_job(0, "Bolt").text
    way = Statement(20, commute, "commute", "Acme")
    pay = Statement(20, "The user will earn 5,000 a month at Bolt.", "earns_at", "Bolt", fields={"modality": "planned"})
    return [
        History(
            "rests: stale once what it rests on has ended",
            ((_state_job(10, "Acme"), way), (_state_job(100, "Bolt"),)),
            (Truth(acme, "superseded", 100), Truth(bolt), Truth(commute, stale=True)),
            rests={commute: (acme,)},
            functional_predicates=(JOB,),
        ),
        History(
            "rests: not while it holds",
            ((_state_job(10, "Acme"), way),),
            (Truth(acme), Truth(commute)),
            rests={commute: (acme,)},
            functional_predicates=(JOB,),
        ),
        History(
            "rests: heard again after the end, it holds",
            ((_state_job(10, "Acme"), way), (_state_job(100, "Bolt"),), (Statement(120, commute, "commute", "Acme"),)),
            (Truth(acme, "superseded", 100), Truth(bolt), Truth(commute, support=2)),
            rests={commute: (acme,)},
            functional_predicates=(JOB,),
        ),
        History(
            "rests: what has ended ended no later than what it rested on",
            ((_state_job(10, "Acme", valid_to=60), way), (_state(100, train, "commute"),)),
            (Truth(acme, until=60), Truth(commute, "superseded", 60), Truth(train)),
            {(train, commute): "SUPERSEDE"},
            {commute: (acme,)},
        ),
        History(
            "rests: heard again after the end of what it rested on, it ended later",
            (
                (_state_job(10, "Acme", valid_to=60), way),
                (Statement(70, commute, "commute", "Acme"), _state(100, train, "commute")),
            ),
            (Truth(acme, until=60), Truth(commute, "superseded", 100, support=2), Truth(train)),
            {(train, commute): "SUPERSEDE"},
            {commute: (acme,)},
        ),
        History(
            "rests: on a plan that came true",
            ((_state_job(10, "Bolt", modality="planned"), pay), (_state_job(100, "Bolt"),)),
            (Truth(bolt, "superseded", 100), Truth(bolt), Truth(pay.text)),
            rests={pay.text: (bolt,)},
            functional_predicates=(JOB,),
        ),
        History(
            "rests: on a plan that was given up",
            ((_state_job(10, "Bolt", modality="planned"), pay), (_state_job(100, "Bolt", modality="negated"),)),
            (Truth(bolt, "superseded", 100), Truth(bolt), Truth(pay.text, stale=True)),
            rests={pay.text: (bolt,)},
            functional_predicates=(JOB,),
        ),
    ]


def _make_rest() -> list[History]:
    return [
        History(
            "nothing: sarcasm and small talk leave nothing", _make_sessions(Statement(1, ""), Statement(2, "")), ()
        ),
        History(
            "nothing: small talk between facts changes nothing",
            ((_state_home(1, "Lisbon"), Statement(1, "")), (Statement(2, ""), _state_home(100, "Porto"))),
            (Truth(_state_home(0, "Lisbon").text, "superseded", 100), Truth(_state_home(0, "Porto").text)),
            functional_predicates=(HOME,),
        ),
    ]
