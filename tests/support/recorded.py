"""Conversations with recorded replies, and what the replies would be if some words had never been said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.quality import careful, replies
from benchmarks.quality.truth import Portion
from tests.support import paper

from adk_graph_memory import Limits, Turn
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.cli.demo.recorded_replies import RecordedLlm, Recording
from adk_graph_memory.consolidation.restriction import collect_words
from adk_graph_memory.extraction.extractor import ModelExtractor, select_known_entities
from adk_graph_memory.extraction.grounding import QuoteLocator
from adk_graph_memory.language.dates import format_weekday_time
from adk_graph_memory.language.text import digest, fold_text
from adk_graph_memory.records.extractions import Extraction, select_said_aliases
from adk_graph_memory.records.facts import KnownEntity
from adk_graph_memory.records.memory import DerivedMemory
from adk_graph_memory.records.readings import Reading
from adk_graph_memory.testing import ScriptedLlm

Item = Mapping[str, Any]
"""An object of a reply."""
DIALOGUES = tuple(dialogue.name for dialogue in careful.select_dialogues())
NAMES = (*replies.NAMES, *DIALOGUES)


def load_conversation(name: str) -> paper.Conversation:
    """The sessions of this name, a portion each, and who replies to them as recorded."""
    if name in DIALOGUES:
        [dialogue] = (dialogue for dialogue in careful.select_dialogues() if dialogue.name == name)
        turns = {session_id: dialogue.make_turns(session_id) for session_id in dialogue.sessions}
        recording = careful.load_recordings()[name]
    else:
        talk, recording = replies.load_conversation(name), replies.load_recording(name)
        turns = {one.id: memory_codec.make_turns(one.make_events(), zone=talk.zone) for one in talk.sessions}
    portions = [Portion(session_id, tuple(said)) for session_id, said in turns.items()]
    return paper.Conversation(
        portions,
        lambda: paper.Reader(RecordedLlm.from_recording(recording)),
        partial(Rereader, portions, recording),
    )


class Rereader(paper.Rereader):
    """Reads what is left of portions, with the recorded replies as far as that supports them.

    A fact goes with its last quote, and one that tells a lost word goes too; with it goes what only it names. What
    tells an entity from another of its name stays if all words about the entity do.
    """

    def __init__(
        self,
        portions: Sequence[Portion],
        recording: Recording,
        readings: Sequence[Reading],
        lost_words: frozenset[str],
    ) -> None:
        self._portions, self._recording, self._lost_words = portions, recording, lost_words
        super().__init__(RecordedLlm.from_recording(recording), list(map(self._blank_reasons, readings)))

    def _blank_reasons(self, reading: Reading) -> Reading:
        """A model that does not know a word decides the same about the same two facts, and gives no such reason."""
        decisions = (
            replace(decision, reason="" if self._tells_lost_word(decision.reason) else decision.reason)
            for decision in reading.claim_decisions
        )
        return replace(reading, claim_decisions=tuple(decisions))

    async def extract(self, number: int, turns: Sequence[Turn], memory: DerivedMemory) -> Extraction:
        """What the model's reply to the whole portion says of these turns of it."""
        portion = self._portions[number]
        reply = self._recording.extractions[_digest_turns(portion.turns)]
        places = {turn.id: place for place, turn in enumerate(turns)}
        places_by_number = {n: places[turn.id] for n, turn in enumerate(portion.turns) if turn.id in places}
        known = select_known_entities(paper.list_known_entities(memory), [turn.text for turn in turns])
        known_ids = self._number_known_entities(number, memory, known)
        rest = self._restrict_reply(reply, portion.turns, places_by_number)
        entities = [{**entity, "known_id": known_ids.get(entity["ref"])} for entity in rest["entities"]]
        answer = json.dumps({**rest, "entities": entities})
        return await ModelExtractor(ScriptedLlm.from_replies(answer), limits=Limits()).extract(turns, known)

    def _number_known_entities(
        self, number: int, memory: DerivedMemory, known: Sequence[KnownEntity]
    ) -> dict[int, int]:
        """Map the references of a reply to the known entities that they mean, as these are numbered now."""
        keys = self.map_entity_keys(memory)
        numbers = {key: n for n, entity in enumerate(known) for key in (*entity.merged_keys, entity.key)}
        entities = self.readings[number].extraction.entities
        known_keys = {entity.ref: keys.get(entity.known_key or "") for entity in entities}
        return {ref: numbers[key] for ref, key in known_keys.items() if key in numbers}

    def _restrict_reply(self, reply: Item, turns: Sequence[Turn], places: Mapping[int, int]) -> dict[str, Any]:
        """What of the reply to all turns the turns with these numbers support, given their new numbers."""
        told, kept_turns = _locate_facts(reply, turns), [turns[number] for number in places]
        restricted = (self._restrict_entity(entity, told, turns, places.keys()) for entity in reply["entities"])
        entities = {entity["ref"]: entity for entity in restricted if entity}
        facts = [
            {**fact, "turns": [places[number] for number in numbers if number in places]}
            for fact, numbers in told
            if not places.keys().isdisjoint(numbers)
            and entities.keys() >= _list_refs([fact])
            and not self._tells_lost_word(fact["text"])
        ]
        told_refs, kept_refs = _list_refs(fact for fact, _ in told), _list_refs(facts)
        return {
            "entities": [
                entity
                for ref, entity in entities.items()
                if ref in kept_refs
                or (ref not in told_refs and (kept_turns == list(turns) or _is_named(entity, kept_turns)))
            ],
            "facts": facts,
            "turns": [{**one, "turn": places[one["turn"]]} for one in reply.get("turns", ()) if one["turn"] in places],
            "forget": [
                {"request": places[one["request"]], "turns": [places[n] for n in one["turns"] if n in places]}
                for one in reply.get("forget", ())
                if one["request"] in places
            ],
        }

    def _restrict_entity(
        self, entity: Item, told: Iterable[tuple[Item, list[int]]], turns: Sequence[Turn], kept: Iterable[int]
    ) -> Item | None:
        authors, texts = [turn.author for turn in turns], [turn.text for turn in turns]
        aliases = select_said_aliases(entity["name"], entity.get("aliases") or (), authors, texts)
        names = [name for name in (entity["name"], *aliases) if not self._tells_lost_word(name)]
        if not names:
            return None
        numbers = {number for fact, numbers in told if entity["ref"] in _list_refs([fact]) for number in numbers}
        about, is_sure = entity.get("about") or "", (numbers or set(range(len(turns)))) <= set(kept)
        about = about if is_sure and not self._tells_lost_word(about) else ""
        return {**entity, "name": names[0], "aliases": names[1:], "about": about}

    def _tells_lost_word(self, text: str) -> bool:
        return not self._lost_words.isdisjoint(collect_words([text]))


def _digest_turns(turns: Iterable[Turn]) -> str:
    """The key of the reply to these turns."""
    return digest(*(f"{format_weekday_time(turn.at)} {turn.text}" for turn in turns))


def _locate_facts(reply: Item, turns: Sequence[Turn]) -> list[tuple[Item, list[int]]]:
    """Each fact of a reply whose quote stands in a turn, with the numbers of these turns."""
    locator, numbers = QuoteLocator(turns), {turn.id: number for number, turn in enumerate(turns)}
    located = []
    for fact in reply["facts"]:
        sources = locator.locate_in_turns(fact["quote"], fact["turns"]) or locator.locate_unique_quote(fact["quote"])
        if sources:
            located.append((fact, [numbers[source.turn_id] for source in sources]))
    return located


def _is_named(entity: Item, turns: Iterable[Turn]) -> bool:
    """Whether a turn is by somebody of this name, or says it."""
    words = [fold_text(text) for turn in turns for text in (turn.author, turn.text)]
    return any(fold_text(name) in text for name in (entity["name"], *entity["aliases"]) for text in words)


def _list_refs(facts: Iterable[Item]) -> set[int]:
    """The entities that facts name."""
    return {ref for fact in facts for ref in (fact["subject"], fact.get("object")) if ref is not None}
