"""The conversation that ships with the package, as `make demo` plays it: recorded replies, the light embedder."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from google.adk.sessions import Session
from neo4j import AsyncGraphDatabase
from rich.console import Console
from tests.support.documents import ROOT

from adk_graph_memory import GraphMemory, LightEmbedder, Neo4jMemoryService, Neo4jSessionService
from adk_graph_memory.adk.importing.chats.conversation import Conversation
from adk_graph_memory.cli.demo.conversation import load_conversation
from adk_graph_memory.cli.demo.playback import DemoResult, play_conversation
from adk_graph_memory.cli.demo.recorded_replies import choose_model
from adk_graph_memory.language.text import count_tokens
from adk_graph_memory.records.scopes import Scope

pytestmark = [pytest.mark.xdist_group("demo")]  # one worker plays the conversation for all
PREFIX = "TestDemo"
RANKS = {
    "What is Franzi's current phone number?": 2,
    "Which phone number did Franzi use in May 2025?": 1,
    "What was the very first phone number Franzi gave?": 2,
    "Where does Franzi live and work now?": 1,
    "Who was Franzi's employer before Velasorda, and when was her last day there?": 2,
    "Which medicine is Franzi allergic to?": 1,
    "On what date was the wedding of Franzi's brother?": 1,
    "Did Franzi and Łukasz go to Istanbul in spring 2025?": 1,
    "Which Anton was going to visit Franzi in Valencia at the end of October, and from what date?": 1,
    "What does Franzi's brother Anton do for a living?": 8,
    "When is Franzi's birthday?": 17,
    "What should I offer Franzi to drink instead of coffee?": 1,
    "Which popular local drink does Franzi secretly dislike?": None,
    "What does the person who looked after Krümel during the brother's wedding do for a living?": 3,
    "Is the harbour pool going to close after Christmas?": 1,
}
"""The place of the first memory that holds a question's evidence; None: not among the first thirty."""
SIGNALS = {
    "answer",
    "author",
    "before",
    "date",
    "entity",
    "fact",
    "question",
    "recent",
    "session",
    "text",
    "tokens",
    "vector",
}
"""Signals that speak for or against a memory in these searches."""


@dataclass
class Played:
    """The conversation as it was stored, what the demo counted, and what it printed."""

    told: Conversation
    result: DemoResult
    printed: str
    memory: Neo4jMemoryService
    stored: list[Session]
    driver: Any

    @property
    def owner(self) -> dict[str, str]:
        return {"app_name": self.result.app_name, "user_id": self.told.user_id}

    async def rows(self, query: str) -> list[list[Any]]:
        scope = Scope(**self.owner).key
        records, _, _ = await self.driver.execute_query(query.replace("@", PREFIX), scope=scope)
        return [record.values() for record in records]

    async def fingerprint(self) -> list[list[Any]]:
        nodes = await self.rows("MATCH (n {scope: $scope}) RETURN labels(n), properties(n) ORDER BY elementId(n)")
        edges = await self.rows(
            "MATCH (n {scope: $scope})-[r]->(m) RETURN type(r), properties(r), elementId(n), elementId(m) "
            "ORDER BY elementId(n), elementId(m), type(r), r.key"
        )
        return nodes + edges


@pytest.fixture(scope="module")
def played_app() -> dict[str, Any]:
    """What the module's tests share: the conversation is played once."""
    return {}


@pytest.fixture
async def played(neo4j_server: Any, app_name: str, played_app: dict[str, Any]) -> AsyncIterator[Played]:
    settings = neo4j_server.settings(label_prefix=PREFIX, embed_timeout=60)
    told, model = load_conversation(), choose_model(None, has_key=False, is_own=True)
    told.app_name = played_app.setdefault("app_name", app_name)
    async with (
        Neo4jSessionService(settings=settings) as sessions,
        GraphMemory(settings=settings, model=model, embedder=LightEmbedder()) as memory,
        AsyncGraphDatabase.driver(neo4j_server.uri, auth=neo4j_server.auth) as driver,
    ):
        if "result" not in played_app:
            console = Console(file=io.StringIO(), width=120)
            result = await play_conversation(told, sessions=sessions, memory=memory, console=console)
            played_app |= {"result": result, "printed": console.file.getvalue()}
        result = played_app["result"]
        owner = {"app_name": result.app_name, "user_id": told.user_id}
        stored = [await sessions.get_session(session_id=sitting.id, **owner) for sitting in told.sessions]
        service = Neo4jMemoryService(memory=memory)
        yield Played(told, result, played_app["printed"], service, [one for one in stored if one], driver)


async def test_each_kind_of_change_is_counted_once(played: Played) -> None:
    totals, _, changes = played.printed.partition("How facts changed")
    assert re.search(r"facts +│ +\d+ │ \d+ *$", totals, re.MULTILINE)
    assert len(re.findall(r"refined: said more exactly \(\d+\)", changes)) == 1


async def test_every_session_and_turn_is_stored(played: Played) -> None:
    turns = sum(len(sitting.turns) for sitting in played.told.sessions)
    assert len(played.stored) == len(played.told.sessions)
    assert await played.rows("MATCH (e:@Event:@Memory {scope: $scope}) RETURN count(e)") == [[turns]]


async def test_most_of_what_the_user_states_is_a_fact(played: Played) -> None:
    [[facts]] = await played.rows("MATCH (f:@Fact {scope: $scope}) RETURN count(f)")
    turns = sum(turn.author == "user" for sitting in played.told.sessions for turn in sitting.turns)
    assert turns <= facts <= 5 * turns


async def test_the_people_of_the_story_are_entities(played: Played) -> None:
    rows = await played.rows("MATCH (n:@Entity {scope: $scope}) UNWIND n.name + n.aliases AS name RETURN name")
    names = {name for [name] in rows}
    assert {"Łukasz", "Zoë", "Anton", "Krümel", "Marta", "Valencia"} <= names


async def test_every_fact_rests_on_words_of_its_event(played: Played) -> None:
    rows = await played.rows(
        "MATCH (f:@Fact {scope: $scope}) OPTIONAL MATCH (f)-[s:SUPPORTED_BY]->(e) "
        "RETURN s.start, s.end, s.quote, e.text"
    )
    assert all(text[start:end] == quote for start, end, quote, text in rows)


async def test_every_memory_has_a_vector(played: Played) -> None:
    rows = await played.rows("MATCH (n:@Memory {scope: $scope}) WHERE n.embedding_a IS NULL RETURN count(n)")
    assert rows == [[0]]


async def test_adding_all_sessions_again_changes_nothing(played: Played) -> None:
    before = await played.fingerprint()
    for session in played.stored:
        await played.memory.add_session_to_memory(session)
    assert await played.fingerprint() == before


async def test_the_evidence_of_each_question_stands_where_it_stood(played: Played) -> None:
    answerable = [question for question in played.told.questions if question.evidence]
    ranks, signals = dict[str, int | None](), set[str]()
    for question in answerable:
        found = await played.memory.memory.recall(
            question.question, **played.owner, limit=30, token_budget=10_000, explain=True
        )
        places = [n for n, one in enumerate(found, 1) if not set(question.evidence).isdisjoint(one.source_event_ids)]
        ranks[question.question] = min(places, default=None)
        signals |= {share.signal for one in found for share in one.shares}
    assert ranks.keys() == RANKS.keys()
    # How rare a word is goes by all that the tests have stored under this prefix: a rank may move by a place or two.
    moved = {question: rank for question, rank in ranks.items() if (rank or 99) > (RANKS[question] or 99) + 2}
    assert moved == {}
    assert signals >= SIGNALS


async def test_what_replaced_a_fact_ranks_no_better_than_that_fact_fits(played: Played) -> None:
    """The turn that names the trombone names an upstairs neighbour too, and that she is one ended with the move."""
    found = await played.memory.memory.recall(
        "Who plays the trombone?", **played.owner, limit=30, token_budget=10_000, explain=True
    )
    assert "trombone" in found[0].text
    scores = {memory.text: sum(share.amount for share in memory.shares) for memory in found}
    assert [score for text, score in scores.items() if text.startswith("The van for Franzi's move") and score > 1] == []


@pytest.mark.parametrize("question", ["asdfghjkl", "qwzx vbnm"])
async def test_an_agent_gets_nothing_where_nothing_answers(played: Played, question: str) -> None:
    """Whoever asks in Python sees the nearest all the same, unless they ask as an agent does."""
    user = played.memory.memory.user(**played.owner)
    assert (await played.memory.search_memory(**played.owner, query=question)).memories == []
    assert await user.recall(question, first_wait=60.0) == []
    nearest = await user.recall(question)
    assert nearest and nearest[0].score < 0.06
    assert await user.recall(question, first_wait=60.0, min_score=0.0) == nearest


async def test_an_agent_gets_what_answers(played: Played) -> None:
    """For each of the demo's questions the first ten that Python finds, and of the others those nearly as good."""
    user = played.memory.memory.user(**played.owner)
    for question in played.told.questions:
        found = await user.recall(question.question, first_wait=60.0)
        nearest = await user.recall(question.question)
        assert found == [*nearest[:10], *(one for one in nearest[10:] if one.score >= 0.65 * nearest[0].score)]


async def test_what_a_search_returns_is_small(played: Played) -> None:
    for question in played.told.questions[:5]:
        found = await played.memory.search_memory(**played.owner, query=question.question)
        assert 1 <= len(found.memories) <= 50
        assert sum(count_tokens(entry.content.parts[0].text) for entry in found.memories) <= 1_024


NUMBERS = tuple(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()  # noqa: SIM905
)
NUMBER = re.compile(rf"\b(?:\d+|{'|'.join(NUMBERS)})\b", re.IGNORECASE)
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


def read_number(text: str) -> int:
    return int(text) if text.isdigit() else NUMBERS.index(text.lower()) + 1


def find_figures() -> dict[str, set[int]]:
    """The numbers in each sentence of our pages that counts questions answered among the first three memories."""
    sentences = [
        sentence
        for page in PAGES
        for sentence in re.split(r"(?<=[.:;|])\s", " ".join(page.read_text("utf-8").split()))
        if "question" in sentence and re.search(r"\bfirst (three|3)\b", sentence)
    ]
    return {
        sentence: {read_number(number) for number in NUMBER.findall(re.sub(r"\bfirst \w+", "", sentence))}
        for sentence in sentences
    }


async def test_the_pages_say_what_the_demo_comes_to(played: Played) -> None:
    result, printed = played.result, played.printed
    figures, missed = find_figures(), result.answerable_questions - result.hits_in_three
    assert figures
    for sentence, numbers in figures.items():
        assert numbers >= {result.answerable_questions, result.hits_in_three}, sentence
        assert numbers <= {result.answerable_questions, result.hits_in_three, result.hits_in_ten, missed}, sentence
    assert printed.count("✗ not found") == missed
    assert f"Of {result.answerable_questions} questions that have an answer, {result.hits_in_three} show it" in printed
    assert "“Now I live in Valencia”" in printed  # a Spanish fact, of which she also spoke English
    assert "Vivo en Valencia" not in printed
    assert "plugins=[GraphMemoryPlugin()]" in printed
    assert " inspect --app " in printed.rstrip().splitlines()[-1]
