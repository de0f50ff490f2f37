"""``python -m benchmarks.quality.perturbed``: what a less careful model costs, in facts lost, misplaced or ended.

Every recorded conversation is remembered once as it was recorded and once with each perturbation of the replies; the
first graph is what the others are compared with. Then come new names of somebody known, true and false.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from adk_graph_memory import GraphMemory
from adk_graph_memory.runtime.settings import Settings
from adk_graph_memory.testing import HashEmbedder
from benchmarks import machine, server
from benchmarks.quality import careless, links, replies
from benchmarks.quality.careless import CarelessLlm, Case
from benchmarks.quality.harm import Graph, Harm, measure_harm
from benchmarks.quality.perturbations import PERTURBATIONS, Perturbation

RECORDED = Perturbation("recorded", "as they were recorded")
LOST = {"decisions": 0.02, "turns": 0.01, "quotes": 0.01, "form": 0.01}
"""Share of facts that a kind of perturbation may cost."""
GOLD = {"recall": 0.95, "precision": 0.93, "missed": 0.05, "wrong": 0}
"""Asked of the replies as they were recorded, against the gold."""
KEPT = 0.9
"""Share of true links."""
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """A conversation's graph, and what of the replies was dropped."""

    graph: Graph
    dropped: Mapping[str, int]


class Bench:
    """A server that conversations are remembered on, over and over.

    Args:
        settings: of the server.
        cases: the conversations.
    """

    def __init__(self, settings: Settings, cases: Sequence[Case]) -> None:
        self.cases = cases
        self._settings, self._gate = settings, asyncio.Semaphore(AT_ONCE)

    async def remember(self, perturbation: Perturbation) -> list[Outcome]:
        """All conversations, each session by session."""
        return list(await asyncio.gather(*(self._remember(case, perturbation) for case in self.cases)))

    async def _remember(self, case: Case, perturbation: Perturbation) -> Outcome:
        owner, dropped = {"app_name": f"perturbed-{uuid.uuid4().hex[:12]}", "user_id": "ada"}, Counter[str]()
        model = CarelessLlm.perturb_case(case, perturbation)
        async with self._gate, GraphMemory(settings=self._settings, model=model, embedder=HashEmbedder()) as memory:
            for id, turns in case.sessions.items():
                report = await memory.remember(turns, session_id=id, **owner)
                dropped.update(report.dropped)
            return Outcome(await Graph.fetch(memory, **owner), dropped)

    def compare(self, perturbation: Perturbation, right: Iterable[Outcome], other: Iterable[Outcome]) -> Harm:
        """What the perturbation did to all conversations; only facts that it changes are at stake."""
        total = Harm()
        for case, before, after in zip(self.cases, right, other, strict=True):
            is_local = perturbation.kind in ("turns", "quotes")
            at_stake = {
                fact["text"] for fact, read in case.perturb_readings(perturbation) if not is_local or fact != read
            }
            total += measure_harm(before.graph, after.graph, case.readings, at_stake, is_quoted=perturbation.is_quoted)
        return total


def is_harmless(perturbation: Perturbation, harm: Harm) -> bool:
    """Whether the bars hold."""
    is_kept = harm.lost <= LOST.get(perturbation.kind, 1) * harm.facts
    return is_kept and not (harm.subjects or harm.aliases or harm.endings)


def _make_row(perturbation: Perturbation, harm: Harm) -> list[str]:
    counts = (harm.facts, harm.lost, harm.subjects, harm.aliases, harm.endings, harm.believed)
    bar = f"lost ≤ {LOST[perturbation.kind]:.0%}, else 0" if perturbation.kind in LOST else "0 wrong"
    return [
        perturbation.kind,
        perturbation.name,
        *map(str, counts),
        bar,
        "" if is_harmless(perturbation, harm) else "✗",
    ]


def _score_gold(bench: Bench, recorded: Sequence[Outcome]) -> str:
    """How the graphs of the recorded replies agree with the gold facts."""
    pairs = [
        (case.name, result) for case, result in zip(bench.cases, recorded, strict=True) if case.name in replies.NAMES
    ]
    scores = [replies.score_facts(name, result.graph.facts, result.dropped) for name, result in pairs]
    total = sum(scores[1:], scores[0])
    figures = {
        "recall": total.recall,
        "precision": total.precision,
        "missed": len(total.missed_changes) / total.changes,
        "wrong": len(total.wrong_changes),
    }
    signs = {"recall": "≥", "precision": "≥"}
    parts = (f"{name} {share:.3g} (asked {signs.get(name, '≤')} {GOLD[name]})" for name, share in figures.items())
    return f"As they were recorded: {', '.join(parts)}"


async def _check_links(settings: Settings) -> list[str]:
    cases = links.load()
    taken = await links.check_links(settings, cases)
    kept = [is_one for case, is_one in zip(cases, taken, strict=True) if case["same"]]
    traps = [is_one for case, is_one in zip(cases, taken, strict=True) if not case["same"]]
    wrong = (case for case, is_one in zip(cases, taken, strict=True) if case["same"] != is_one)
    share = f"{sum(kept)} of {len(kept)} (asked ≥ {KEPT:.0%})"
    return [
        f"True links kept: {share}; false links taken for true: {sum(traps)} of {len(traps)} (asked 0)",
        *(f"  {case['link']}: {case['mention']['name']} for {case['known'][0]['name']}" for case in wrong),
    ]


async def main(arguments: argparse.Namespace) -> None:
    cases = [*map(careless.load_case, replies.NAMES), careless.make_script_case()]
    table = Table(title="Recorded replies with one perturbation each, compared with the same replies without")
    for column in ("kind", "perturbation", "facts", "lost", "subjects", "aliases", "endings", "believed", "asked", ""):
        table.add_column(column, justify="left" if column in ("kind", "perturbation", "asked") else "right")
    async with server.serve("Perturbed") as (settings, which):
        bench = Bench(settings, [case for case in cases if not arguments.only or case.name in arguments.only])
        recorded = await bench.remember(RECORDED)
        for perturbation in (
            perturbation_type
            for perturbation_type in PERTURBATIONS
            if not arguments.kind or perturbation_type.kind in arguments.kind
        ):
            damage = bench.compare(perturbation, recorded, await bench.remember(perturbation))
            print(f"{perturbation.name}: {damage}", file=sys.stderr, flush=True)
            table.add_row(*_make_row(perturbation, damage))
        notes = [_score_gold(bench, recorded), *await _check_links(settings)]
    console = machine.make_console()
    console.print(table)
    for note in (*notes, f"server: {which}; load {machine.read_load()}"):
        console.print(note, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.perturbed", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="only this conversation; may be given again")
    parser.add_argument("--kind", action="append", metavar="KIND", help="only perturbations of it; may be given again")
    asyncio.run(main(parser.parse_args()))
