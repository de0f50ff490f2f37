"""``python -m benchmarks.quality``: conversations are told to memory through ADK's interface, and questions asked.

Those of this repository always; LoCoMo (``--locomo PATH``), also with its authors reduced to roles and with other
names, and XQuAD (``--xquad FOLDER``) where their files lie. ``--ablate`` asks LoCoMo again without each signal.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from rich.table import Table

from adk_graph_memory import (
    CrossEncoderReranker,
    Filters,
    GraphMemory,
    LightEmbedder,
    Neo4jMemoryService,
    Neo4jSessionService,
    Weights,
)
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.records.turns import MemoryKind
from adk_graph_memory.runtime.settings import Settings, load_settings
from benchmarks import machine, server
from benchmarks.quality import (
    arabic,
    changes,
    chats,
    echoes,
    few_words,
    ingest,
    locomo,
    unanswerable,
    updates,
    variants,
    xquad,
)
from benchmarks.quality.answers import (
    Answer,
    Search,
    ask_questions,
    count_fallen,
    format_cells,
    group_by_kind,
    list_misled,
    measure_first,
    measure_order,
    measure_recognition,
)
from benchmarks.quality.dialogue import Conversation

PREFIX = "Quality"
NOTHING = Weights(**dict.fromkeys((field.name for field in fields(Weights)), 0.0))
ALONE = {"full text alone": replace(NOTHING, text=1.0), "vectors alone": replace(NOTHING, vector=1.0)}
NO_GRAPH = replace(NOTHING, text=Weights().text, vector=Weights().vector)
FALSE_ALARMS = 0.05
MOST_CHANGES = 300
"""In all conversations."""
PATIENCE = 600.0
"""Seconds that a reranker may take: it is measured how well it orders, whatever the machine."""
CROWD = 10
"""Users who ask in the first person, in one store and in one each."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Conversations that memory was told, and how deep their answers may stand."""

    name: str
    conversations: Sequence[Conversation]
    first: int = 10
    model: str | BaseLlm = "rules"

    @property
    def app_name(self) -> str:
        """Apps are apart, so the same user's id may come in several."""
        return f"{PREFIX}-{RUN}-{self.name}"


RUN = uuid.uuid4().hex[:8]


def load_data_sets(arguments: argparse.Namespace) -> Iterator[DataSet]:
    """All that is to be told."""
    yield DataSet("chats", chats.load())
    changing = updates.load()
    yield DataSet("updates", changing)
    yield DataSet("updates, ends known", changing, model=changes.make_reader(changing))
    yield DataSet("unanswerable", unanswerable.load())
    yield DataSet("unanswerable, Arabic", [arabic.load()])
    yield DataSet("few words", few_words.load(), first=5)
    if arguments.locomo:
        conversations = locomo.load(arguments.locomo)
        yield DataSet("locomo", conversations)
        yield DataSet("locomo, roles only", [variants.reduce_authors(conversation) for conversation in conversations])
        yield DataSet(
            "locomo, other names",
            [variants.rename_speakers(conversation, n) for n, conversation in enumerate(conversations)],
        )
    if arguments.xquad:
        for path in sorted(arguments.xquad.glob("xquad.*.json")):
            yield DataSet(path.stem, [xquad.load(path)], first=5)
            yield DataSet(f"{path.stem}, half left out", [xquad.load(path, left_out=2)], first=5)


class Bench:
    """A memory that was told the conversations, and others that see the same graph otherwise.

    Args:
        settings: of the server.
        reranker: name or path of a cross-encoder that orders the best anew.
        embedder: in place of the one that the settings name.
    """

    def __init__(self, settings: Settings, reranker: str | None = None, embedder: LightEmbedder | None = None) -> None:
        self._embedder = embedder
        self._reranker = CrossEncoderReranker(reranker) if reranker else None
        single = tuple(map(changes.name_predicate, range(MOST_CHANGES)))
        self._settings = settings.model_copy(update={"functional_predicates": single})
        self.table = Table(title="Evidence found by search_memory, percent")
        for i, column in enumerate(
            ("told", "searched", "questions", "n", "R", "nDCG", "R in 1,024", "p50 ms", "p95 ms")
        ):
            self.table.add_column(column, justify="right" if i > 2 else "left", no_wrap=True)
        self.lines: list[str] = []

    async def tell(self, data_set: DataSet) -> InMemoryMemoryService:
        """Ingests through ADK's interface; ADK's own memory hears the same."""
        in_memory = InMemoryMemoryService()
        memory = GraphMemory(settings=self._settings, model=data_set.model, embedder=self._embedder)
        async with Neo4jSessionService(settings=self._settings) as sessions, memory:
            service = Neo4jMemoryService(memory=memory)
            for conversation in data_set.conversations:
                for session in await ingest.remember(conversation, sessions, service, app_name=data_set.app_name):
                    await in_memory.add_session_to_memory(session)
        return in_memory

    async def ask_weighted(
        self,
        data_set: DataSet,
        what: str,
        weights: Weights | None = None,
        filters: Filters | None = None,
        *,
        kinds: bool = False,
    ) -> list[Answer]:
        """Asks our search, as ADK's interface hands it on."""
        options = {"weights": weights, "reranker": self._reranker, "embedder": self._embedder}
        async with GraphMemory(settings=self._settings, model="rules", **options) as memory:

            async def search(user_id: str, query: str) -> list[MemoryEntry]:
                memories = await memory.recall(query, app_name=data_set.app_name, user_id=user_id, filters=filters)
                return [memory_codec.make_memory_entry(memory) for memory in memories]

            await memory.prepare()
            return await self.ask(data_set, what, search, kinds=kinds)

    async def ask_in_language(self, data_set: DataSet) -> None:
        """Asks each user's questions as if it were known in which language they are asked."""
        async with GraphMemory(settings=self._settings, model="rules", embedder=self._embedder) as memory:

            async def search(user_id: str, query: str) -> list[MemoryEntry]:
                user, language = memory.user(data_set.app_name, user_id), few_words.get_language(user_id)
                memories = await user.recall(query, language=language)
                return [memory_codec.make_memory_entry(memory) for memory in memories]

            await memory.prepare()
            await self.ask(data_set, "with the language given", search, kinds=True)

    async def ask_in_crowd(self, data_set: DataSet) -> None:
        """What users ask of themselves, in the store of all and in a store each: others must not be in their way."""
        conversations = [_select_first_person(conversation) for conversation in data_set.conversations[:CROWD]]
        await self.ask_weighted(replace(data_set, conversations=conversations), f"first person, {CROWD} users")
        alone: list[Answer] = []
        for number, conversation in enumerate(conversations):
            settings = self._settings.model_copy(update={"label_prefix": f"{PREFIX}{number}"})
            apart, one = Bench(settings, embedder=self._embedder), replace(data_set, conversations=[conversation])
            await apart.tell(one)
            alone += await apart.ask_weighted(one, "")
        self.table.add_row(data_set.name, "the same, each in a store alone", "all", *format_cells(alone))

    async def ask(self, data_set: DataSet, what: str, search: Search, *, kinds: bool = False) -> list[Answer]:
        """Asks all questions and adds a line (or one for each kind) to the table."""
        given = await ask_questions(search, data_set.conversations, first=data_set.first)
        answerable = [answer for answer in given if answer.kind != "unanswerable"]
        for kind, some in group_by_kind(answerable).items() if kinds else [("all", answerable)]:
            self.table.add_row(data_set.name, what, kind, *format_cells(some))
        return given

    async def ask_again(self, data_set: DataSet, given: Sequence[Answer]) -> None:
        """Asks once more in a store that heard each question, and "I do not know"."""
        await self.tell(
            replace(
                data_set, conversations=[echoes.echo_questions(conversation) for conversation in data_set.conversations]
            )
        )
        fell = count_fallen(given, await self.ask_weighted(data_set, "every question asked before"))
        self.lines.append(
            f"{data_set.name}: answers that fall by more than one place once asked: {fell} of {len(given)}"
        )

    async def compare(self, data_set: DataSet, *, ablate: bool) -> None:
        """Everything that is measured of one set."""
        in_memory = await self.tell(data_set)
        given = await self.ask_weighted(data_set, "all signals", kinds=True)
        if data_set.name.startswith("updates"):
            self.lines.append(f"{data_set.name}: current before outdated: {100 * measure_order(given):.1f} %")
            wrong = list_misled(given)
            self.lines.append(
                f"{data_set.name}: outdated turn unmarked or before its successor: {sum(wrong)} of {len(wrong)}"
            )
            self.lines.append(f"{data_set.name}: the right answer first: {100 * measure_first(given):.1f} %")
        if data_set.name == "updates, ends known":
            await self.ask_again(data_set, given)
        if data_set.name == "few words":
            await self.ask_in_language(data_set)
        if any(answer.kind == "unanswerable" for answer in given):
            share = measure_recognition(given, unanswerable="unanswerable", false_alarms=FALSE_ALARMS)
            self.lines.append(f"{data_set.name}: unanswerable recognised at 5 % false alarms: {100 * share:.1f} %")
        unknown = [answer.is_doubted for answer in given if answer.kind == "unanswerable"]
        known = [answer.is_doubted for answer in given if answer.kind != "unanswerable"]
        shares = ((some, what) for some, what in ((known, "with an answer"), (unknown, "without")) if some)
        doubted = ", ".join(f"{100 * statistics.fmean(some):.1f} % of {len(some)} {what}" for some, what in shares)
        self.lines.append(f"{data_set.name}: answers doubted: {doubted}")
        if data_set.name in ("chats", "locomo"):
            for what, weights in {**ALONE, "both, no graph": NO_GRAPH}.items():
                await self.ask_weighted(data_set, what, weights)
            kinds: tuple[MemoryKind, ...] = ("event", "fact")
            for kind in kinds:
                await self.ask_weighted(data_set, f"{kind}s only", filters=Filters(kind=kind))

            async def adk(user_id: str, query: str) -> list[MemoryEntry]:
                response = await in_memory.search_memory(app_name=data_set.app_name, user_id=user_id, query=query)
                return response.memories

            await self.ask(data_set, "ADK's InMemoryMemoryService", adk)
        if data_set.name == "chats":
            await self.ask_in_crowd(data_set)
        if ablate and data_set.name == "locomo":
            for field in fields(Weights):
                await self.ask_weighted(data_set, f"without {field.name}", replace(Weights(), **{field.name: 0.0}))
        self.table.add_section()


def _select_first_person(conversation: Conversation) -> Conversation:
    questions = (question for question in conversation.questions if question.kind == "first-person")
    return replace(conversation, questions=tuple(questions))


async def main(arguments: argparse.Namespace) -> None:
    before = machine.read_load()
    async with server.serve(PREFIX) as (settings, which):
        chosen = {"embedder": arguments.embedder} if arguments.embedder else {}
        light = LightEmbedder(folder=arguments.light) if arguments.light else None
        bench = Bench(
            load_settings(**settings.model_dump() | chosen, rerank_timeout=PATIENCE), arguments.reranker, light
        )
        for data_set in load_data_sets(arguments):
            if not arguments.only or data_set.name in arguments.only:
                print(f"{data_set.name} …", file=sys.stderr, flush=True)
                await bench.compare(data_set, ablate=arguments.ablate)
    console = machine.make_console()
    console.print(bench.table)
    for line in bench.lines:
        console.print(line, highlight=False, soft_wrap=True)
    machine.print_about(console, {"load before": before, "load after": machine.read_load(), "server": which})


parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
parser.add_argument("--locomo", type=Path, metavar="PATH", help="a file in LoCoMo's JSON format")
parser.add_argument("--xquad", type=Path, metavar="FOLDER", help="a folder with xquad.*.json")
parser.add_argument("--embedder", metavar="MODEL", help="name or path of another model of sentence-transformers")
parser.add_argument("--light", type=Path, metavar="FOLDER", help="an export of the default model, without PyTorch")
parser.add_argument("--reranker", metavar="MODEL", help="name or path of a cross-encoder that orders the best anew")
parser.add_argument("--ablate", action="store_true", help="ask LoCoMo again without each signal")
parser.add_argument("--only", action="append", metavar="NAME", help="only this set; may be given again")
asyncio.run(main(parser.parse_args()))
