"""Compare two graphs of one conversation: what of the one is lost, misplaced or ended in the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from adk_graph_memory import GraphMemory
from adk_graph_memory.records.scopes import Scope
from benchmarks.quality.perturbations import Reply

FACTS = """
MATCH (f:@Fact {scope: $scope})
RETURN f.id AS id, f.text AS text, f.modality AS modality, f.state AS state, f.valid_to.epochSeconds AS until,
       coalesce(f.stale, false) AS stale, coalesce(f.correction, false) AS correction,
       COLLECT { MATCH (f)-[:HAS_REVISION]->(r) RETURN r.text } AS former,
       COLLECT { MATCH (f)-[:SUPPORTED_BY]->(e) RETURN e.session_id } AS sessions,
       COLLECT { MATCH (f)-[s:SUPPORTED_BY]->() RETURN s.quote } AS quotes,
       COLLECT { MATCH (f)-[:SUPPORTED_BY]->(e) RETURN e.timestamp } AS said,
       COLLECT { MATCH (f)-[:SUBJECT]->(n) RETURN n.key } AS subjects,
       COLLECT { MATCH (by)-[:SUPERSEDES]->(f) RETURN by.id } AS enders
ORDER BY text, id
"""
ENTITIES = """
MATCH (n:@Entity {scope: $scope}) WHERE NOT (n)-[:MERGED_INTO]->()
RETURN n.key AS key, n.name AS name, n.aliases AS aliases
"""

Fact = Mapping[str, Any]


@dataclass(frozen=True)
class Graph:
    """What is held after a conversation; names without regard to case."""

    facts: Sequence[Fact]
    name: Mapping[str, str]
    """of each entity, by its key"""
    names: Mapping[str, frozenset[str]]
    """with the aliases"""

    @classmethod
    async def fetch(cls, memory: GraphMemory, app_name: str, user_id: str) -> Graph:
        """All that memory holds of a user."""
        driver, held = await memory.connection.get_driver(), []
        for query in (FACTS, ENTITIES):
            text = query.replace("@", memory.connection.settings.label_prefix)
            records, _, _ = await driver.execute_query(text, scope=Scope(app_name, user_id).key)
            held.append([dict(record) for record in records])
        facts, entities = held
        names = {
            entity["key"]: frozenset(map(str.casefold, (entity["name"], *entity["aliases"]))) for entity in entities
        }
        return cls(facts, {entity["key"]: entity["name"].casefold() for entity in entities}, names)

    @cached_property
    def endings(self) -> set[tuple[str, str]]:
        """What is over: its text, in each wording it has had, and its state."""
        over = [fact for fact in self.facts if fact["state"] != "current"]
        return {(text, fact["state"]) for fact in over for text in (fact["text"], *fact["former"])}

    @cached_property
    def bearers(self) -> dict[str, set[str]]:
        """The names of those whom each text is about."""
        bearers: dict[str, set[str]] = {}
        for fact in self.facts:
            bearers.setdefault(fact["text"], set()).update(*(self.names[key] for key in fact["subjects"]))
        return bearers


@dataclass(frozen=True, slots=True)
class Harm:
    """What became worse, in facts (``aliases`` in names), and ``facts``, of how many."""

    facts: int = 0
    lost: int = 0
    subjects: int = 0
    aliases: int = 0
    endings: int = 0
    believed: int = 0
    """endings that the reply gives the words of both facts for, and that no rule can know to be wrong"""

    def __add__(self, other: Harm) -> Harm:
        return Harm(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Harm)))


def measure_harm(
    right: Graph, other: Graph, readings: Sequence[Reply], at_stake: Collection[str], *, is_quoted: bool = False
) -> Harm:
    """Compares a graph with the one that came of the same replies unperturbed.

    A subject is wrong where its entity bears the name of nobody whom the text is about. An alias is wrong where nobody
    bears it beside the entity's other names. What is over is wrong where it is not over in the right graph and no
    reading itself says what replaced it, unless the reply quotes both facts, and what ended the other was said no
    earlier and, where it took it back, as a correction.

    Args:
        right: what to compare with.
        other: what to compare.
        readings: the replies; a text that the right graph holds in other words is about whom they say.
        at_stake: texts of the facts that may be lost.
        is_quoted: whether the reply quotes both facts of an ending.
    """
    texts = right.bearers.keys() & at_stake
    subjects = _list_subjects(readings)
    misplaced = [
        fact
        for fact in other.facts
        if not {other.name[key] for key in fact["subjects"]} <= _list_meant_names(fact["text"], right, subjects)
    ]
    with_aliases = (names for names in other.names.values() if len(names) > 1)
    aliases = sum(min(len(names - others) for others in right.names.values()) for names in with_aliases)
    replaced = _list_replaced_texts(readings)
    over = [fact for fact in other.facts if fact["state"] != "current" and fact["text"] not in replaced]
    new = [fact for fact in over if (fact["text"], fact["state"]) not in right.endings]
    by_id = {fact["id"]: fact for fact in other.facts}
    believed = sum(is_quoted and any(_fits(by_id[id], fact) for id in fact["enders"]) for fact in new)
    return Harm(len(texts), len(texts - other.bearers.keys()), len(misplaced), aliases, len(new) - believed, believed)


def _list_subjects(readings: Sequence[Reply]) -> dict[str, set[str]]:
    """The names that the replies give to the subject of each text."""
    names: dict[str, set[str]] = {}
    for reply in readings:
        entities = {entity["ref"]: entity for entity in reply["entities"]}
        for fact in reply["facts"]:
            subject = entities[fact["subject"]]
            subject_names = (subject["name"], *subject["aliases"], subject.get("known_id"))
            names.setdefault(fact["text"], set()).update(name.casefold() for name in subject_names if name)
    return names


def _list_replaced_texts(readings: Sequence[Reply]) -> set[str]:
    """Texts that a reading itself says another of its facts has ended, with the words of both."""
    refs = ((reply, ref) for reply in readings for fact in reply["facts"] for ref in fact.get("replaces", ()))
    return {fact["text"] for reply, ref in refs for fact in reply["facts"] if fact["ref"] == ref}


def _list_meant_names(text: str, right: Graph, subjects: Mapping[str, set[str]]) -> set[str]:
    """Every name of the one whom the text is about."""
    names = subjects.get(text, set())
    bearers = right.bearers.get(text) or {name for held in right.names.values() if names & held for name in held}
    return bearers | names


def _fits(ender: Fact, fact: Fact) -> bool:
    is_later = max(ender["said"], default=0) >= min(fact["said"], default=0)
    return is_later and (fact["state"] != "retracted" or ender["correction"])
