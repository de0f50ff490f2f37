"""``python -m benchmarks.quality.aliases``: names in ten scripts, session by session; who was taken for whom?

``aliases.json`` has what an extractor would give of a year of one person's sessions, and who is meant. Each session
is resolved against what the ones before it left. Doubts are answered in two ways: always "somebody new", which is
what happens without a model, and as the gold says, which is the best that a model could do.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from pathlib import Path

from rich.table import Table

from adk_graph_memory.consolidation import entity_resolution
from adk_graph_memory.records.extractions import ExtractedEntity
from adk_graph_memory.records.facts import EntityResolution, KnownEntity
from benchmarks import machine

PATH = Path(__file__).with_suffix(".json")


@dataclass(frozen=True, slots=True)
class Mention:
    """One entity as a session's extraction has it, and who it is; those of one ``trap`` are easily confused."""

    entity: ExtractedEntity
    session: int
    who: str
    script: str
    trap: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whom each mention was taken for, in the order of the mentions, and how many doubts there were."""

    mentions: tuple[Mention, ...]
    keys: tuple[str, ...]
    doubts: int

    def compute_b_cubed(self, script: str | None = None) -> tuple[float, float, float]:
        """Precision, recall and F1 averaged over mentions (Bagga and Baldwin 1998), of one script or all."""
        chosen = [i for i, mention in enumerate(self.mentions) if script in (None, mention.script)]
        whose, found = self._group_mentions(mention.who for mention in self.mentions), self._group_mentions(self.keys)
        shared = [len(whose[self.mentions[i].who] & found[self.keys[i]]) for i in chosen]
        precision = statistics.fmean(both / len(found[self.keys[i]]) for i, both in zip(chosen, shared, strict=True))
        recall = statistics.fmean(
            both / len(whose[self.mentions[i].who]) for i, both in zip(chosen, shared, strict=True)
        )
        return precision, recall, 2 * precision * recall / (precision + recall)

    def list_false_merges(self) -> list[tuple[Mention, Mention]]:
        """Pairs of mentions that were taken for one and are two."""
        together = combinations(zip(self.mentions, self.keys, strict=True), 2)
        return [(one, other) for (one, key), (other, its) in together if key == its and one.who != other.who]

    def list_splits(self) -> dict[str, list[str]]:
        """Who was taken for several, with the first name each of them was met by."""
        parts: dict[str, dict[str, str]] = defaultdict(dict)
        for mention, key in zip(self.mentions, self.keys, strict=True):
            parts[mention.who].setdefault(key, mention.entity.name)
        return {who: list(names.values()) for who, names in parts.items() if len(names) > 1}

    @staticmethod
    def _group_mentions(labels: Iterable[str]) -> Mapping[str, set[int]]:
        clusters: dict[str, set[int]] = defaultdict(set)
        for i, label in enumerate(labels):
            clusters[label].add(i)
        return clusters


def load(path: Path = PATH) -> list[Mention]:
    """The mentions, each with a reference of its own."""
    return [
        Mention(
            ExtractedEntity(
                ref, given["name"], given["type"], tuple(given.get("aliases", ())), about=given.get("about", "")
            ),
            given["session"],
            given["who"],
            given["script"],
            given.get("trap", ""),
        )
        for ref, given in enumerate(json.loads(path.read_text("utf-8")))
    ]


def resolve_mentions(mentions: Sequence[Mention], *, ask_gold: bool) -> Outcome:
    """Resolves the mentions session by session, with every doubt answered "somebody new" or as the gold says."""
    known: dict[str, KnownEntity] = {}
    keys: dict[int, str] = {}
    who = {mention.entity.ref: mention.who for mention in mentions}
    doubts = 0
    for _, session in groupby(sorted(mentions, key=lambda mention: mention.session), lambda mention: mention.session):
        now = list(known.values())
        resolution = entity_resolution.resolve_entities([mention.entity for mention in session], now)
        doubts += len(resolution.doubts)
        answers = {doubt.ref: None for doubt in resolution.doubts}
        if ask_gold:
            answers = {
                doubt.ref: _choose_gold_key(doubt.ref, doubt.candidate_keys, keys, who) for doubt in resolution.doubts
            }
        resolution = entity_resolution.answer_doubts(resolution, answers, now)
        keys.update(resolution.keys_by_ref)
        known.update(_write_entities(resolution, known))
    ordered = tuple(mentions)
    return Outcome(ordered, tuple(keys[mention.entity.ref] for mention in ordered), doubts)


def _choose_gold_key(ref: int, offered: Sequence[str], keys: Mapping[int, str], who: Mapping[int, str]) -> str | None:
    """The offered key that the most mentions of the same have, if any."""
    own = [key for other, key in keys.items() if who[other] == who[ref] and key in offered]
    return statistics.mode(own) if own else None


def _write_entities(resolution: EntityResolution, known: Mapping[str, KnownEntity]) -> dict[str, KnownEntity]:
    """The entities as the graph would hold them after the plan: aliases are added, name and context stay."""
    written = {}
    for planned in resolution.planned_entities:
        before = known.get(planned.key)
        aliases = (*(before.aliases if before else ()), *planned.aliases)
        written[planned.key] = KnownEntity(
            planned.key, planned.name, planned.type, tuple(dict.fromkeys(aliases)), planned.about
        )
    return written


def make_table(outcomes: Mapping[str, Outcome]) -> Table:
    """A line a way of answering and script; and all of them together."""
    shown = Table(title="Entity resolution, B-cubed, percent")
    for i, column in enumerate(("doubts answered", "script", "mentions", "entities", "precision", "recall", "F1")):
        shown.add_column(column, justify="right" if i > 1 else "left", no_wrap=True)
    for name, outcome in outcomes.items():
        for script in (*dict.fromkeys(mention.script for mention in outcome.mentions), None):
            chosen = [mention for mention in outcome.mentions if script in (None, mention.script)]
            numbers = (f"{100 * share:.1f}" for share in outcome.compute_b_cubed(script))
            shown.add_row(
                name, script or "all", str(len(chosen)), str(len({mention.who for mention in chosen})), *numbers
            )
        shown.add_section()
    return shown


def main() -> None:
    mentions = load()
    outcomes = {
        "somebody new": resolve_mentions(mentions, ask_gold=False),
        "by the gold": resolve_mentions(mentions, ask_gold=True),
    }
    console = machine.make_console()
    console.print(make_table(outcomes))
    traps = {mention.trap for mention in mentions if mention.trap}
    for name, outcome in outcomes.items():
        merged = outcome.list_false_merges()
        console.print(
            f"{name}: {outcome.doubts} doubts, {len(merged)} false merges "
            f"({len(traps)} traps with {len({mention.who for mention in mentions if mention.trap})} namesakes)",
            highlight=False,
        )
        for one, other in merged:
            console.print(f"  merged: {one.entity.name} ({one.who}) and {other.entity.name} ({other.who})")
        for who, names in outcome.list_splits().items():
            console.print(f"  split: {who}: {', '.join(names)}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
