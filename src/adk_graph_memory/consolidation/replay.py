"""Replay readings into the memory that follows from them: its entities, facts and links.

A replay repeats what the readings did to the graph, one after another, by the same rules and without a database, a
model or an embedder. So a memory from which words are taken away becomes the memory that never heard them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from adk_graph_memory.consolidation import entity_groups, entity_resolution, owner_words
from adk_graph_memory.consolidation.comparison import GraphLookup, compare_extraction
from adk_graph_memory.consolidation.entity_groups import EntityGroup
from adk_graph_memory.consolidation.fact_rules import is_machine_said
from adk_graph_memory.consolidation.readings import adopt_entity_keys, recall_decisions
from adk_graph_memory.consolidation.reconciliation import reconcile_claims
from adk_graph_memory.consolidation.restriction import withhold_facts
from adk_graph_memory.language.text import fold_text
from adk_graph_memory.records.extractions import ExtractedEntity, Extraction
from adk_graph_memory.records.facts import (
    FAMILIAR_FACTS,
    RECOGNIZING_FACTS,
    STATES_PREDICATE,
    Candidates,
    Delta,
    EntityResolution,
    EntityWrite,
    Fact,
    FactLink,
    FactPair,
    FactWrite,
    KnownEntity,
    Proposition,
    Revision,
)
from adk_graph_memory.records.memory import DerivedEntity, DerivedMemory
from adk_graph_memory.records.readings import OWNER, OwnerRuling, Reading


def find_root_key(entities: Mapping[str, DerivedEntity], key: str) -> str:
    """Return the key of the entity that this one was merged into in the end, or its own."""
    while (entity := entities.get(key)) and entity.merged_into:
        key = entity.merged_into
    return key


def list_known_entities(memory: DerivedMemory, limit: int) -> tuple[KnownEntity, ...]:
    """List the entities of most facts, as an extractor is offered them."""
    weights: Counter[str | None] = Counter()
    texts: defaultdict[str | None, list[str]] = defaultdict(list)
    for fact in sorted(memory.facts.values(), key=lambda fact: (fact.proposition.at, fact.id)):
        keys = {fact.proposition.subject, fact.proposition.object}
        weights.update(keys)
        for key in keys if fact.standing.state == "current" else ():
            texts[key].append(fact.proposition.text)
    merged_keys: dict[str, list[str]] = defaultdict(list)
    for key in memory.entities:
        if (root_key := find_root_key(memory.entities, key)) != key:
            merged_keys[root_key].append(key)
    entities = [entity for entity in memory.entities.values() if not entity.merged_into]
    entities.sort(key=lambda entity: (-weights[entity.key], entity.key))
    return tuple(
        replace(
            _convert_to_known_entity(entity, merged_keys[entity.key]),
            facts=tuple(texts[entity.key][:RECOGNIZING_FACTS]) if weights[entity.key] < FAMILIAR_FACTS else (),
        )
        for entity in entities[:limit]
    )


def _convert_to_known_entity(entity: DerivedEntity, merged_keys: Iterable[str]) -> KnownEntity:
    names = entity.own_names, entity.foreign_names
    return KnownEntity(entity.key, entity.name, entity.type, entity.aliases, entity.about, tuple(merged_keys), *names)


class EntityLedger:
    """All entities of a replay by key, merged ones too.

    Args:
        foreign_names: name of an entity → names that are somebody else's on the owner's word, all folded.
    """

    def __init__(self, foreign_names: Mapping[str, tuple[str, ...]]) -> None:
        self._foreign_names = foreign_names
        self.entities: dict[str, DerivedEntity] = {}
        self._keys_by_block: dict[str, set[str]] = defaultdict(set)
        self._merged_keys: dict[str, list[str]] = defaultdict(list)
        self.new_keys: dict[str, str] = {}
        """key that an entity had when a reading was written → its key in this replay"""

    def list_merged_keys(self, key: str) -> list[str]:
        """List the keys of all entities merged into this one, directly or not."""
        direct = self._merged_keys.get(key, ())
        return [*direct, *(other for merged in direct for other in self.list_merged_keys(merged))]

    def find_root_keys(self, keys: Iterable[str]) -> set[str]:
        """Find the keys of the entities that these were merged into in the end, or their own, if there are any."""
        return {find_root_key(self.entities, key) for key in keys if key in self.entities}

    def find_known_keys(self, extraction: Extraction) -> set[str]:
        """Find the keys of the entities that those of an extraction may be."""
        lookup_keys = GraphLookup(extraction).entity_keys
        keys = self.find_root_keys(lookup_keys)
        authors = (ExtractedEntity(0, name) for name, _ in extraction.authors)  # whose name may be another's alias
        for entity in (*extraction.entities, *authors):
            for block in EntityGroup.from_extracted([entity]).blocking_keys:
                keys |= self._keys_by_block.get(block, set())
        return keys

    def describe_entities(self, keys: Iterable[str]) -> tuple[KnownEntity, ...]:
        """Describe the entities of these keys to whoever compares with them."""
        return tuple(_convert_to_known_entity(self.entities[key], self.list_merged_keys(key)) for key in sorted(keys))

    def write_entity(self, write: EntityWrite) -> None:
        """Write an entity that a reading names as the graph does: new names become aliases, a context is kept."""
        known = self.entities.get(write.key)
        if known is None:
            entity = DerivedEntity(
                write.key,
                write.name,
                write.type,
                write.aliases,
                write.about,
                foreign_names=self._foreign_names.get(fold_text(write.name), ()),
            )
        else:
            names = (known.name, *known.aliases)
            aliases = (*known.aliases, *(alias for alias in write.aliases if alias not in names))
            entity = replace(known, aliases=aliases, about=known.about or write.about)
        if entity != known:
            self._store_entity(entity)
        for key in write.merged_keys:
            if key in self.entities:
                gone = replace(self.entities[key], merged_into=write.key, merged_by=write.merged_by)
                self._store_entity(replace(gone, merge_reason=write.merge_reason))
                self._merged_keys[write.key].append(key)

    def part_names(self, extraction: Extraction) -> Extraction:
        """Take from extracted entities the aliases that are somebody else's on the owner's word."""
        if not self._foreign_names:
            return extraction
        entities = []
        for entity in extraction.entities:
            foreign_names = self._foreign_names.get(fold_text(entity.name), ())
            aliases = tuple(alias for alias in entity.aliases if fold_text(alias) not in foreign_names)
            entities.append(replace(entity, aliases=aliases))
        return replace(extraction, entities=tuple(entities))

    def unite_entities(self, ruling: OwnerRuling) -> tuple[str, str] | None:
        """Merge two entities on the owner's word; return the keys of the one that stays and of the one that goes."""
        key, gone_key = (find_root_key(self.entities, self.new_keys.get(old, old)) for old in ruling.names[:2])
        entity, gone = self.entities.get(key), self.entities.get(gone_key)
        if entity is None or gone is None or entity is gone:
            return None
        aliases = tuple(name for name in (gone.name, *gone.aliases) if name != entity.name)
        write = EntityWrite(key, entity.name, entity.type, aliases, False, gone.about, (gone_key,))
        self.write_entity(replace(write, merge_reason=ruling.reason, merged_by=OWNER))
        own_names = dict.fromkeys((*entity.own_names, *gone.own_names, *map(fold_text, (gone.name, *gone.aliases))))
        self._store_entity(replace(self.entities[key], own_names=tuple(own_names)))
        return key, gone_key

    def part_entities(self, ruling: OwnerRuling) -> list[tuple[str, str, list[str]]]:
        """Part, on the owner's word, the entities of the second name that were merged into that of the first.

        Returns:
            For each, the key of the one that stays, its own key, and the keys that leave with it.
        """
        name, alias = map(fold_text, ruling.names)
        parted = []
        for key, entity in list(self.entities.items()):
            root_key = find_root_key(self.entities, key)
            root_name = fold_text(self.entities[root_key].name)
            if entity.merged_into and root_name == name and alias == fold_text(entity.name):
                _, keys = self.split_entity(key) or ("", [])
                root = self.entities[root_key]
                gone = {alias, *map(fold_text, entity.aliases)}
                own_names = tuple(own for own in root.own_names if own not in gone)
                foreign_names = tuple(dict.fromkeys((*root.foreign_names, alias)))
                self._store_entity(replace(root, own_names=own_names, foreign_names=foreign_names))
                parted.append((root_key, key, keys))
        return parted

    def split_entity(self, key: str) -> tuple[str, list[str]] | None:
        """Part an entity from the one it was merged into; return that one's key and the keys that leave it."""
        entity = self.entities[key]
        if entity.merged_into is None:
            return None
        root_key = find_root_key(self.entities, key)
        self._merged_keys[entity.merged_into].remove(key)
        self._store_entity(replace(entity, merged_into=None, merged_by="", merge_reason=""))
        root = self.entities[root_key]
        own_names = (entity.name, *entity.aliases)
        aliases = tuple(alias for alias in root.aliases if alias not in own_names)
        self._store_entity(replace(root, aliases=aliases))
        return root_key, [key, *self.list_merged_keys(key)]

    def note_keys(self, reading: Reading, keys_by_ref: Mapping[int, str]) -> None:
        """Note which keys of the reading mean which entities of this replay; those of its authors mean themselves."""
        self.new_keys |= {old: keys_by_ref[ref] for ref, old in reading.entity_keys.items() if ref in keys_by_ref}
        for author, _ in reading.extraction.authors:
            if (key := entity_resolution.digest_entity_name(author)) in self.entities:
                self.new_keys.setdefault(key, key)

    def _store_entity(self, entity: DerivedEntity) -> None:
        """Store an entity, and index it by its names unless it is merged."""
        for block in self._list_blocks(self.entities.get(entity.key)):
            self._keys_by_block[block].discard(entity.key)
        self.entities[entity.key] = entity
        for block in self._list_blocks(entity):
            self._keys_by_block[block].add(entity.key)

    @staticmethod
    def _list_blocks(entity: DerivedEntity | None) -> Collection[str]:
        if entity is None or entity.merged_into is not None:
            return ()
        known = KnownEntity(entity.key, entity.name, entity.type, entity.aliases, entity.about)
        return entity_groups.EntityGroup.from_known_entity(known).blocking_keys


EntityPlace = tuple[str | None, str | None]
"""The key of an entity that a fact or a turn speaks of, and its key before it was merged."""


def replay_readings(readings: Iterable[Reading]) -> DerivedMemory:
    """Derive a user's memory from their readings, in the order in which these were written."""
    readings = list(readings)
    replay = _Replay(owner_words.list_foreign_names(readings))
    for reading in readings:
        replay.add_reading(reading)
    return replay.collect_memory()


def select_candidates(
    readings: Iterable[Reading],
    extraction: Extraction,
    functional_predicates: Collection[str],
    choose_ids: Callable[[DerivedMemory], Iterable[str]],
) -> Candidates:
    """Select what the extraction may be about in the memory that these readings make.

    Args:
        readings: in the order in which they were written.
        extraction: what was extracted.
        functional_predicates: predicates with a single value per subject at a time.
        choose_ids: chooses further facts of the memory by their ids.
    """
    readings = list(readings)
    replay = _Replay(owner_words.list_foreign_names(readings))
    for reading in readings:
        replay.add_reading(reading)
    reading = Reading("", "", extraction, functional_predicates=tuple(functional_predicates))
    return replay.find_candidates(reading, extraction, choose_ids(replay.collect_memory()), is_judged=True)[0]


class _Replay:
    """The memory so far, indexed by what a reading looks up."""

    def __init__(self, foreign_names: Mapping[str, tuple[str, ...]]) -> None:
        self._ledger = EntityLedger(foreign_names)
        self._facts: dict[str, Fact] = {}
        self._links: dict[FactPair, FactLink] = {}
        self._dependencies: set[FactPair] = set()
        self._mentions: dict[tuple[str, str], str | None] = {}
        self._entity_keys: dict[tuple[str, int], str] = {}
        self._name_rulings: list[OwnerRuling] = []
        self._ids_by_place: dict[object, set[str]] = defaultdict(set)
        """signature, (subject, predicate) with or without the value, source key or entity key → ids of facts"""
        self._places: dict[str, tuple[object, ...]] = {}
        """a fact's id → where it is looked up"""
        self._neighbours: dict[str, set[str]] = defaultdict(set)
        self._changed_slots = set[_Slot]()
        """subject and predicate of facts that changed since all of that subject and predicate were compared"""

    def collect_memory(self) -> DerivedMemory:
        """Return the memory as it is now."""
        return DerivedMemory(
            self._ledger.entities, self._facts, self._links, self._dependencies, self._mentions, self._entity_keys
        )

    def add_reading(self, reading: Reading) -> None:
        """Do what the reading did to the graph."""
        if reading.ruling is not None and reading.at is not None:
            self._apply_ruling(reading.ruling, reading.ruling.at or reading.at)
        extraction = withhold_facts(reading.extraction, {fact.ref for fact in reading.held})
        extraction = adopt_entity_keys(extraction, self._ledger.new_keys)
        extraction = self._ledger.part_names(extraction)
        candidates, resolution = self.find_candidates(reading, extraction)
        answers = {
            ref: self._ledger.new_keys.get(key) if key else None
            for ref, key in reading.doubt_answers.items()
            if key is None or key in self._ledger.new_keys
        }
        comparison = compare_extraction(
            extraction,
            candidates,
            functional_predicates=reading.functional_predicates,
            doubt_answers=answers,
            resolution=resolution,
        )
        self._apply_delta(reconcile_claims(comparison, recall_decisions(reading, comparison), reading))
        keys_by_ref = comparison.resolution.keys_by_ref
        self._entity_keys |= {(reading.id, ref): key for ref, key in keys_by_ref.items()}
        self._ledger.note_keys(reading, keys_by_ref)
        if reading.is_rereading:  # the owner knew whom it names before
            for ruling in self._name_rulings:
                self._apply_name_ruling(ruling)

    def _apply_ruling(self, ruling: OwnerRuling, at: datetime) -> None:
        """Note what the owner decided; the standing of the facts follows when their claims are reconciled."""
        if ruling.names:
            self._name_rulings.append(ruling)
            self._apply_name_ruling(ruling)
        if claim := ruling.claim:
            ids = {id for key in claim.source_keys for id in self._ids_by_place.get(key, ())}
            if fact := owner_words.find_ruled_fact((self._facts[id] for id in sorted(ids)), claim):
                self._store_fact(owner_words.rule_fact(fact, ruling, at))

    def _apply_name_ruling(self, ruling: OwnerRuling) -> None:
        if ruling.op == "merge" and (keys := self._ledger.unite_entities(ruling)):
            self._move_words(keys[1], keys[0])
        if ruling.op == "split":
            for root_key, key, keys_apart in self._ledger.part_entities(ruling):
                self._return_words(root_key, key, keys_apart)

    def find_candidates(
        self, reading: Reading, extraction: Extraction, fact_ids: Iterable[str] = (), *, is_judged: bool = False
    ) -> tuple[Candidates, EntityResolution | None]:
        """Find the facts that the extraction may be about, and these, with all that ended them or rests on them.

        A judge is shown all facts of the same subject and predicate. What one has decided is recorded with the words
        that it is about, so a replay needs only those that rules may compare.

        Returns:
            The candidates, and who the entities of the extraction are, unless these facts name further ones.
        """
        known_keys = self._ledger.find_known_keys(extraction)
        lookup = GraphLookup(extraction, reading.functional_predicates)
        entities = self._ledger.describe_entities(known_keys)
        resolution = lookup.resolve_entities(entities)
        machine_texts = {fact.text for fact in extraction.facts if is_machine_said(fact.sources)}
        is_settled = resolution.is_settled and not is_judged
        propositions = lookup.list_propositions(resolution)
        places, slots = set[object](), set[_Slot]()
        for proposition in propositions:
            slot = _get_slot(proposition)
            is_narrow = is_settled and proposition.text not in machine_texts and slot not in self._changed_slots
            places.update(_list_places(proposition, is_narrow=is_narrow))
            if is_narrow and slot[1] != STATES_PREDICATE:
                slots.add(slot)
        self._changed_slots.difference_update(map(_get_slot, propositions))
        refs = [ref for decision in reading.claim_decisions for ref in (decision.claim, *decision.targets)]
        refs += [ref for pair in reading.dependencies for ref in pair]
        refs += [reading.ruling.claim] if reading.ruling and reading.ruling.claim else []
        places |= {key for ref in refs for key in ref.source_keys}
        ids = {id for place in places for id in self._ids_by_place.get(place, ())}
        ids = self._collect_component(ids | self._facts.keys() & set(fact_ids), slots)
        facts = [self._facts[id] for id in sorted(ids)]
        keys = {key for fact in facts for key in (fact.proposition.subject, fact.proposition.object) if key}
        further_keys = self._ledger.find_root_keys(keys) - known_keys
        if further_keys:
            entities = self._ledger.describe_entities(known_keys | further_keys)
        pairs = sorted((id, other) for id in ids for other in self._neighbours.get(id, ()))  # all of them lie in ids
        links = tuple(self._links[pair] for pair in pairs if pair in self._links)
        dependencies = tuple(pair for pair in pairs if pair in self._dependencies)
        candidates = Candidates(entities, tuple(facts), links, dependencies=dependencies)
        return candidates, None if further_keys else resolution

    def _collect_component(self, ids: Iterable[str], slots: Collection[_Slot]) -> set[str]:
        """Collect the facts that are linked to any of these, however far away.

        In these slots, also collect those of the same value: what ends or holds again is compared with them.
        """
        component, pending = set[str](), list(ids)
        while pending:
            id = pending.pop()
            if id in component:
                continue
            component.add(id)
            pending += self._neighbours.get(id, ())
            fact = self._facts[id]
            if _get_slot(fact.proposition) in slots:
                for place in (*_list_places(fact.proposition, is_narrow=True), *fact.equivalent_signatures):
                    others = self._ids_by_place.get(place, ())
                    pending += [other for other in others if _get_slot(self._facts[other].proposition) in slots]
        return component

    def _apply_delta(self, delta: Delta) -> None:
        """Do what :func:`.writing.write_delta` does to the graph."""
        for entity in delta.entities:
            self._ledger.write_entity(entity)
            for key in entity.merged_keys:
                self._move_words(key, entity.key)
            if entity.split_from and (parting := self._ledger.split_entity(entity.key)):
                root_key, keys = parting
                self._return_words(root_key, entity.key, keys)
        for mention, was in delta.mentions.items():
            self._mentions.setdefault(mention, was)
        for write in delta.facts:
            self._write_fact(write)
        for link in delta.links:
            self._write_link(link)
        for pair in delta.dependencies:
            if self._facts.keys() >= set(pair):
                self._dependencies.add(pair)
                self._connect(*pair)
        for revision in delta.revisions:
            self._write_revision(revision)

    def _write_fact(self, write: FactWrite) -> None:
        if write.fact.sources:
            self._store_fact(write.fact)
        else:
            self._delete_fact(write.fact.id)

    def _store_fact(self, fact: Fact) -> None:
        id, before = fact.id, self._facts.get(fact.id)
        if before is not None and (before.proposition, before.standing) != (fact.proposition, fact.standing):
            self._changed_slots |= {_get_slot(before.proposition), _get_slot(fact.proposition)}
        self._unindex_fact(id)
        self._facts[id] = fact
        self._places[id] = tuple(_list_fact_places(fact))
        for place in self._places[id]:
            self._ids_by_place[place].add(id)

    def _unindex_fact(self, id: str) -> None:
        for place in self._places.pop(id, ()):
            self._ids_by_place[place].discard(id)

    def _delete_fact(self, id: str) -> None:
        fact = self._facts.pop(id, None)
        if fact is None:
            return
        self._unindex_fact(id)
        self._changed_slots.add(_get_slot(fact.proposition))
        self._links = {pair: link for pair, link in self._links.items() if id not in pair}
        self._dependencies = {pair for pair in self._dependencies if id not in pair}
        for other in self._neighbours.pop(id, ()):
            self._neighbours[other].discard(id)

    def _write_link(self, link: FactLink) -> None:
        pair = link.later, link.earlier
        if not self._facts.keys() >= set(pair):
            return
        before = self._links.get(pair)
        if before:
            link = replace(link, reason=link.reason or before.reason, recorded_at=before.recorded_at)
        self._links[pair] = link
        self._connect(*pair)

    def _connect(self, id: str, other: str) -> None:
        if other not in self._neighbours[id]:
            self._changed_slots |= {_get_slot(self._facts[one].proposition) for one in (id, other)}
        self._neighbours[id].add(other)
        self._neighbours[other].add(id)

    def _write_revision(self, revision: Revision) -> None:
        fact = self._facts.get(revision.fact_id)
        if fact is None or revision.key in {other.key for other in fact.revisions}:
            return
        signatures = fact.equivalent_signatures
        if revision.op in ("REFINE", "REINFORCE"):
            signatures = (*signatures, revision.signature)
        self._store_fact(replace(fact, equivalent_signatures=signatures, revisions=(*fact.revisions, revision)))

    def _move_words(self, key: str, target: str) -> None:
        """Let what was said of an entity be said of the target; whose words they were is kept."""
        self._rename_entity(key, lambda now, former: (target, former or key) if now == key else (now, former))

    def _return_words(self, root_key: str, key: str, keys: Collection[str]) -> None:
        """Give back to an entity what was said of it, and of those merged into it, before it was merged."""

        def give_back(now: str | None, former: str | None) -> EntityPlace:
            is_own = now == root_key and former in keys
            return (key, None if former == key else former) if is_own else (now, former)

        self._rename_entity(root_key, give_back)

    def _rename_entity(self, key: str, rename: Callable[[str | None, str | None], EntityPlace]) -> None:
        """Rename an entity in the facts and turns that speak of it, given its key and its former key in each."""
        for id in sorted(self._ids_by_place.get(("entity", key), ())):
            fact = self._facts[id]
            keys = fact.proposition.subject, fact.proposition.object
            (subject, former_subject), (object, former_object) = map(rename, keys, fact.former_entity_keys)
            proposition = replace(fact.proposition, subject=subject, object=object)
            former_keys = former_subject, former_object
            self._store_fact(replace(fact, proposition=proposition, former_entity_keys=former_keys))
        for (turn_id, now), former in list(self._mentions.items()):
            new_key, new_former = rename(now, former)
            if new_key is not None and new_key != now:
                del self._mentions[turn_id, now]
                self._mentions.setdefault((turn_id, new_key), new_former)


_Slot: TypeAlias = tuple[str | None, str]
"""The subject and the predicate of facts."""


def _get_slot(proposition: Proposition) -> _Slot:
    return proposition.subject, proposition.predicate


def _list_places(proposition: Proposition, *, is_narrow: bool) -> Iterator[object]:
    """List where the facts are looked up that a proposition may repeat, end or be ended by.

    Where a subject has several values for a predicate, rules compare only facts of the same value (``is_narrow``),
    unless an agent says it, who may repeat any of them in part. What was not compared with them yet, because its
    entities or its wording changed, or may turn out to be others, needs all of the subject and predicate.
    """
    yield proposition.signature
    if proposition.predicate != STATES_PREDICATE:
        slot = _get_slot(proposition)
        yield (*slot, proposition.value) if is_narrow and not proposition.is_functional else slot


def _list_fact_places(fact: Fact) -> Iterator[object]:
    slot = _get_slot(fact.proposition)
    yield fact.proposition.signature
    if fact.proposition.predicate != STATES_PREDICATE:
        yield from (slot, (*slot, fact.proposition.value))
    yield fact.id
    yield from fact.equivalent_signatures
    yield from (source.key for source in fact.sources)
    yield from (("entity", key) for key in (fact.proposition.subject, fact.proposition.object) if key)
