"""What was so and what memory knew, whatever is said, corrected, undone and forgotten, beside a plain model.

The model knows nothing of claims, plans and links. It computes from scratch, for every pair of times, what of the words
and rulings that stand had been recorded, and which values they make hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from adk_graph_memory.consolidation.entity_resolution import digest_entity_name
from adk_graph_memory.consolidation.owner_words import make_correction_reading, make_ruling_reading, refer_to_fact
from adk_graph_memory.consolidation.replay import replay_readings
from adk_graph_memory.consolidation.restriction import Removal, restrict_readings
from adk_graph_memory.memory.past import list_past_facts
from adk_graph_memory.records.extractions import ExtractedEntity, ExtractedFact, Extraction, Source
from adk_graph_memory.records.facts import Fact
from adk_graph_memory.records.readings import OwnerRuling, Reading, RulingOperation
from adk_graph_memory.records.turns import OWNER_SESSION

pytestmark = pytest.mark.slow

START = datetime(2026, 1, 1, tzinfo=UTC)
SLOTS = ("lives_in", "works_as", "phone_of")
VALUES = ("Faro", "Porto", "Braga")
Step = int
"""Days since the start; each operation takes one."""


@dataclass(frozen=True)
class Word:
    """A value that somebody said of a slot; the owner's own corrects the fact of the words that it replaces."""

    id: int
    slot: str
    value: str
    at: Step
    recorded: Step
    replaces: frozenset[int] = frozenset()

    @property
    def is_owner(self) -> bool:
        return bool(self.replaces)


@dataclass(frozen=True)
class Ruling:
    """What the owner decided about the fact that these words supported."""

    op: Literal["pin", "unpin", "retract", "rollback"]
    word_ids: frozenset[int]
    recorded: Step


@dataclass
class Period:
    """A stretch in which a value held."""

    words: list[Word]
    end: Step | None = None
    is_retracted: bool = False
    began: Step = 0


@dataclass
class Model:
    """All that was said and ruled, in the order of recording, without what was forgotten or undone."""

    words: list[Word] = field(default_factory=list)
    rulings: list[Ruling] = field(default_factory=list)

    def list_periods(self, slot: str, recorded: Step) -> list[Period]:
        words = [word for word in self.words if word.slot == slot and word.recorded <= recorded]
        rulings = [ruling for ruling in self.rulings if ruling.recorded <= recorded]
        corrections = [Ruling("retract", word.replaces, word.recorded) for word in words if word.is_owner]
        rulings = sorted([*rulings, *corrections], key=lambda ruling: ruling.recorded)
        periods = [period for value in VALUES for period in self._list_value_periods(value, words, rulings)]
        for period in periods:
            period.began = min([period.words[0].at, *self._find_replaced(period, periods, rulings)])
        return periods

    def _list_value_periods(self, value: str, words: list[Word], rulings: list[Ruling]) -> Iterator[Period]:
        mine = sorted((word for word in words if word.value == value), key=lambda word: (word.at, word.id))
        others = sorted((word for word in words if word.value != value), key=lambda word: (word.at, word.id))
        ends = [other for other in others if not self._is_withstood(other, mine, rulings)]
        retractions = [
            ruling for ruling in rulings if self._list_covered(ruling, mine, rulings) and ruling.op == "retract"
        ]
        breaks = [(end.at, end.id) for end in ends] + [(ruling.recorded, 10**6) for ruling in retractions]
        periods: list[Period] = []
        for word in mine:
            before = periods[-1].words[-1] if periods else None
            if before and not any((before.at, before.id) < point < (word.at, word.id) for point in breaks):
                periods[-1].words.append(word)
            else:
                periods.append(Period([word]))
        for period in periods:
            last = period.words[-1]
            later = [end for end in ends if (end.at, end.id) > (last.at, last.id)]
            period.end = later[0].at if later else None
            covered = {word.id for ruling in retractions for word in self._list_covered(ruling, mine, rulings)}
            period.is_retracted = any(word.id in covered for word in period.words)
        yield from periods

    @staticmethod
    def _list_covered(ruling: Ruling, mine: Iterable[Word], rulings: list[Ruling]) -> list[Word]:
        """The words of which this is the last ruling."""
        later = frozenset().union(*(other.word_ids for other in rulings[rulings.index(ruling) + 1 :]))
        return [word for word in mine if word.id in ruling.word_ids - later]

    def _is_withstood(self, word: Word, mine: list[Word], rulings: list[Ruling]) -> bool:
        for ruling in rulings:
            covered = self._list_covered(ruling, mine, rulings)
            if covered and ruling.op in ("pin", "rollback") and word.at >= min(one.at for one in covered):
                is_pinned = ruling.op == "pin" or self._was_pinned(ruling, rulings)
                if word.at <= ruling.recorded or (is_pinned and not word.is_owner):
                    return True
        return False

    @staticmethod
    def _was_pinned(ruling: Ruling, rulings: list[Ruling]) -> bool:
        before = [other for other in rulings[: rulings.index(ruling)] if other.word_ids & ruling.word_ids]
        while before and before[-1].op == "rollback":
            before.pop()
        return bool(before) and before[-1].op == "pin"

    def _find_replaced(self, period: Period, periods: list[Period], rulings: list[Ruling]) -> Iterator[Step]:
        """When the facts began that the owner's words in the period stand for."""
        for word in (word for word in period.words if word.is_owner):
            retraction = Ruling("retract", word.replaces, word.recorded)
            for other in periods:
                if self._list_covered(retraction, other.words, rulings):
                    yield other.words[0].at

    def list_held(self, valid: Step, recorded: Step) -> list[tuple[str, str]]:
        """Slots and values that held, by what was recorded."""
        return sorted(
            (slot, period.words[0].value)
            for slot in SLOTS
            for period in self.list_periods(slot, recorded)
            if period.began <= valid and not period.is_retracted and (period.end is None or period.end > valid)
        )


def make_moment(step: Step) -> datetime:
    return START + timedelta(days=step)


def make_reading(word: Word) -> Reading:
    text = f"{word.slot} {word.value}"
    source = Source(f"event:{word.id:03}", text, 0, len(text), make_moment(word.at), session_id=f"s{word.id}")
    subject = ExtractedEntity(0, "user", "person")
    value = ExtractedEntity(1, word.value, "place")
    fact = ExtractedFact(
        subject=0, predicate=word.slot, object=1, text=text, sources=(source,), speaker="user", at=source.at
    )
    return Reading(
        f"reading-{word.id}",
        source.session_id,
        Extraction((subject, value), (fact,), authors=(("user", "user"),)),
        entity_keys={0: digest_entity_name("user"), 1: digest_entity_name(word.value)},
        functional_predicates=(word.slot,),
        heard_turn_ids=(source.turn_id,),
        at=make_moment(word.recorded),
    )


def get_word_ids(fact: Fact) -> frozenset[int]:
    return frozenset(int(source.turn_id.removeprefix("event:")) for source in fact.sources)


class TwoAxes(RuleBasedStateMachine):
    """Says, corrects, pins, retracts, rolls back, undoes and forgets in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.model = 0, Model()
        self.readings: dict[str, Reading] = {}
        self.ruling_ids: dict[str, Ruling] = {}
        self.late_slots: set[str] = set()
        self.ruled_slots: set[str] = set()

    @property
    def facts(self) -> list[Fact]:
        memory = replay_readings(self.readings.values())
        return [memory.facts[id] for id in sorted(memory.facts)]

    def list_last_facts(self) -> list[Fact]:
        """The facts that rulings are made about: of each slot without late words and each value the last."""
        latest = {
            (fact.proposition.predicate, fact.proposition.text): fact
            for fact in sorted(self.facts, key=lambda fact: max(source.at for source in fact.sources))
        }
        return [fact for (slot, _), fact in sorted(latest.items()) if slot not in self.late_slots]

    def list_correctable_facts(self) -> list[Fact]:
        return [fact for fact in self.list_last_facts() if fact.standing.state != "retracted"]

    @rule(slot=st.sampled_from(SLOTS), value=st.sampled_from(VALUES), days=st.integers(0, 6))
    def say(self, slot: str, value: str, days: int) -> None:
        """Say something, perhaps of days ago: such words are read late."""
        self.step += 1
        at = self.step if slot in self.ruled_slots else max(0, self.step - days)
        if at < self.step:
            self.late_slots.add(slot)
        self.add_word(Word(self.step, slot, value, at, self.step))

    def add_word(self, word: Word) -> None:
        self.model.words.append(word)
        reading = make_reading(word)
        self.readings[reading.id] = reading

    @precondition(lambda self: self.list_correctable_facts())
    @rule(data=st.data(), value=st.sampled_from(VALUES))
    def correct(self, data: st.DataObject, value: str) -> None:
        self.step += 1
        fact = data.draw(st.sampled_from(self.list_correctable_facts()))
        slot, text = fact.proposition.predicate, f"{fact.proposition.predicate} {value}"
        if fact.proposition.text == text:
            return
        self.ruled_slots.add(slot)
        memory = replay_readings(self.readings.values())
        source = Source(f"event:{self.step:03}", text, 0, len(text), make_moment(self.step), session_id=OWNER_SESSION)
        key = digest_entity_name(value)
        known = {**memory.entities}
        known.setdefault(key, replace(next(iter(known.values())), key=key, name=value, type="place", aliases=()))
        correction = replace(fact.proposition, text=text, object=key, at=source.at)
        reading = make_correction_reading(fact, correction, source, known, "")
        self.readings[reading.id] = reading
        self.model.words.append(Word(self.step, slot, value, self.step, self.step, replaces=get_word_ids(fact)))

    @precondition(lambda self: self.list_last_facts())
    @rule(data=st.data(), op=st.sampled_from(["pin", "unpin", "retract", "rollback"]))
    def decide(self, data: st.DataObject, op: RulingOperation) -> None:
        self.step += 1
        fact = data.draw(st.sampled_from(self.list_last_facts()))
        if op == "unpin" and not fact.ruling.is_pinned:
            return
        self.ruled_slots.add(fact.proposition.predicate)
        reading = make_ruling_reading(OwnerRuling(op, refer_to_fact(fact)), make_moment(self.step))
        self.readings[reading.id] = reading
        assert op in ("pin", "unpin", "retract", "rollback")
        self.ruling_ids[reading.id] = Ruling(op, get_word_ids(fact), self.step)
        self.model.rulings.append(self.ruling_ids[reading.id])

    @precondition(lambda self: self.ruling_ids)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        """Take a ruling back; only the last one, for later ones were made of what it had changed."""
        id = list(self.ruling_ids)[-1]
        if id == list(self.readings)[-1]:
            del self.readings[id]
            self.model.rulings.remove(self.ruling_ids.pop(id))

    @precondition(lambda self: any(word.slot not in self.ruled_slots for word in self.model.words))
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        word = data.draw(st.sampled_from([word for word in self.model.words if word.slot not in self.ruled_slots]))
        removal = Removal(frozenset([f"event:{word.id:03}"]), {}, {}, takes_words=True)
        self.readings = {reading.id: reading for reading in restrict_readings(self.readings.values(), removal)}
        self.model.words.remove(word)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        for recorded in range(max(0, self.step - 3), self.step + 1):
            known = [
                reading for reading in self.readings.values() if reading.at and reading.at <= make_moment(recorded)
            ]
            memory = replay_readings(known)
            for valid in range(0, self.step + 1, 2):
                facts = list_past_facts(memory, make_moment(valid))
                held = sorted((fact.predicate, fact.object or "") for fact in facts if fact.holds)
                assert held == self.model.list_held(valid, recorded), (valid, recorded)


TestTwoAxes = TwoAxes.TestCase
TestTwoAxes.settings = settings(
    max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
