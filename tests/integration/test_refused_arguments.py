"""Each method of a user's memory names an argument that it cannot use, and writes nothing."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.exported_graphs import digest_users

from adk_graph_memory import AsOf, Filters, GraphMemory, SharedMemory, Statement, Turn, errors
from adk_graph_memory.memory.user_memory import UserMemory
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.testing import HashEmbedder

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
NAIVE = datetime(2026, 3, 2, 12)
LONG, HALF = "x" * 9_000, "\ud800"
TURN, STATEMENT = Turn("t9", "user", "I keep bees", NOON), Statement("I keep bees", NOON)
Call = Callable[[UserMemory, Any], Any]

NO_TEXTS = (None, 7, b"x", ["x"], {"x": 1}, object())
NO_COUNTS = (-1, "5", 1.5, float("nan"), float("inf"), True)
NO_MOMENTS = (NAIVE, "2026-03-02", 5, datetime(1, 1, 1, tzinfo=UTC))
NO_FLAGS = ("no", 0, None)
NO_NAMES = ("", " \n", "\u200b")
UNKNOWN = ("", " \n", "nobody-has-this", "a\x00b", LONG)

FOUND_BY: Mapping[str, Call] = {
    "promote": lambda user, id: user.promote(id, to=SharedMemory("team")),
    "history": lambda user, id: user.history(id),
    "entity": lambda user, id: user.entity(id),
    "undo": lambda user, id: user.undo(id),
    "preview_undo": lambda user, id: user.preview_undo(id),
    "correct": lambda user, id: user.correct(id, text="It is so"),
    "pin": lambda user, id: user.pin(id),
    "pin, previewed": lambda user, id: user.pin(id, preview=True),
    "unpin": lambda user, id: user.unpin(id),
    "retract": lambda user, id: user.retract(id),
    "rollback": lambda user, id: user.rollback(id, "a revision"),
    "merge": lambda user, id: user.merge(id, "Faro"),
    "merge with": lambda user, id: user.merge("Faro", id),
    "split": lambda user, id: user.split(id),
    "release": lambda user, id: user.release(id),
    "reject": lambda user, id: user.reject(id),
    "propose_correction": lambda user, id: user.propose_correction(id, text="It is so"),
    "propose_forgetting": lambda user, id: user.propose_forgetting(id),
    "accept_proposal": lambda user, id: user.accept_proposal(id),
    "accept_proposal, previewed": lambda user, id: user.accept_proposal(id, preview=True),
    "decline_proposal": lambda user, id: user.decline_proposal(id),
}
"""What needs something that the user has: whatever else is given as its id or name is not found."""
CHOSEN_BY: Mapping[str, Call] = {
    "forget": lambda user, id: user.forget([id]),
    "preview_forget": lambda user, id: user.preview_forget([id]),
    "forget_event": lambda user, id: user.forget_event(id, session_id="s"),
    "forget_event of": lambda user, id: user.forget_event("t1", session_id=id),
    "forget_session": lambda user, id: user.forget_session(id),
}
"""What ignores an id that the user does not have."""
LISTED_BY: Mapping[str, Call] = {
    "facts about": lambda user, name: user.facts(about=name),
    "facts about then": lambda user, name: user.facts(about=name, as_of=AsOf()),
    "entities of": lambda user, name: user.entities(type=name),
}
"""What lists nothing then."""
CONTINUED_BY: Mapping[str, Call] = {
    "facts": lambda user, id: user.facts(after=id),
    "facts then": lambda user, id: user.facts(after=id, as_of=AsOf()),
    "entities": lambda user, id: user.entities(after=id),
    "documents": lambda user, id: user.documents(after=id),
    "show": lambda user, id: user.show(about=id),
}
"""What is not found then, and may be left out."""
WORDED_BY: Mapping[str, Call] = {
    "rollback": lambda user, text: user.rollback(user.fact_id, text),
    "correct": lambda user, text: user.correct(user.fact_id, text="It is so", reason=text),
    "pin": lambda user, text: user.pin(user.fact_id, reason=text),
    "merge": lambda user, text: user.merge("user", "Faro", reason=text),
    "split": lambda user, text: user.split("Faro", reason=text),
    "propose_correction": lambda user, text: user.propose_correction(user.fact_id, text=text),
    "propose_correction for": lambda user, text: user.propose_correction(user.fact_id, text="So", reason=text),
    "propose_correction by": lambda user, text: user.propose_correction(user.fact_id, text="So", by=text),
    "propose_forgetting": lambda user, text: user.propose_forgetting(user.fact_id, reason=text),
    "show": lambda user, text: user.show(question=text),
    "remember": lambda user, text: user.remember([TURN], session_id=text),
    "enqueue": lambda user, text: user.enqueue([TURN], session_id=text),
    "document": lambda user, text: user.remember_document("So it is.", title=text),
}
"""What takes a text."""
WORDED_IF_GIVEN: Mapping[str, Call] = {
    "correct": lambda user, text: user.correct(user.fact_id, text=text),
    "promote": lambda user, text: user.promote(user.fact_id, to=SharedMemory("team"), author=text),
    "recall in": lambda user, text: user.recall("Faro", language=text),
    "document by": lambda user, text: user.remember_document("So it is.", title="Rules", author=text),
    "statement by": lambda user, text: user.add_statements([Statement("So", NOON, author=text)]),
    "statement of": lambda user, text: user.add_statements([Statement("So", NOON, topic=text)]),
    "statement with": lambda user, text: user.add_statements([Statement("So", NOON, id=text)]),
}
"""What takes a text or None."""
COUNTED_BY: Mapping[str, Call] = {
    "recall": lambda user, count: user.recall("Faro", limit=count),
    "recall within": lambda user, count: user.recall("Faro", token_budget=count),
    "facts": lambda user, count: user.facts(limit=count),
    "facts then": lambda user, count: user.facts(limit=count, as_of=AsOf()),
    "entities": lambda user, count: user.entities(limit=count),
    "documents": lambda user, count: user.documents(limit=count),
    "show": lambda user, count: user.show(limit=count),
    "profile": lambda user, count: user.profile(token_budget=count),
    "fill_forms": lambda user, count: user.fill_forms([], token_budget=count),
}
DATED_BY: Mapping[str, Call] = {
    "recall": lambda user, moment: user.recall("Faro", now=moment),
    "forget_before": lambda user, moment: user.forget_before(moment),
    "correct from": lambda user, moment: user.correct(user.fact_id, valid_from=moment),
    "correct to": lambda user, moment: user.correct(user.fact_id, valid_to=moment),
    "document": lambda user, moment: user.remember_document("So it is.", title="Rules", at=moment),
    "as of": lambda user, moment: user.facts(as_of=AsOf(recorded=moment)),
}
MADE_OF: Mapping[str, tuple[Call, tuple[Any, ...]]] = {
    "turns": (lambda user, turns: user.remember(turns, session_id="t"), (TURN, [STATEMENT], [TURN, None])),
    "queued turns": (lambda user, turns: user.enqueue(turns, session_id="t"), (TURN, [STATEMENT], [TURN, None])),
    "statements": (lambda user, told: user.add_statements(told), (STATEMENT, [TURN], [STATEMENT, None])),
    "read statements": (lambda user, told: user.add_statements(told, consolidate=True), (STATEMENT, [TURN])),
    "topics": (lambda user, topics: user.remember([TURN], session_id="t", allowed_topics=topics), ("pets", 5, [1])),
    "schemas": (lambda user, schemas: user.fill_forms(schemas), (Filters, [None])),
    "shared": (lambda user, shared: user.recall("Faro", shared=shared), (5, [None], ":group:team")),
    "ids": (lambda user, ids: user.forget(ids), (iter("a"), {"a"}, [None])),
    "previewed ids": (lambda user, ids: user.preview_forget(ids), (iter("a"), {"a"}, [None])),
}
"""What takes a list, and what is no list of that."""
OTHERS: Mapping[str, tuple[Call, tuple[Any, ...]]] = {
    "metadata": (lambda user, map: user.remember([TURN], session_id="t", metadata=map), ("abc", 5, [1])),
    "of statement": (lambda user, map: user.add_statements([Statement("So", NOON, metadata=map)]), (None, "abc", 5)),
    "to": (lambda user, to: user.promote(user.fact_id, to=to), (None, ":group:team", 5)),
    "query": (lambda user, query: user.recall(query), NO_TEXTS),
    "min_score": (lambda user, score: user.recall("Faro", min_score=score), (-1, 2, "high", float("nan"))),
    "first_wait": (lambda user, seconds: user.recall("Faro", first_wait=seconds), (-1, "1", float("nan"))),
    "embed_timeout": (lambda user, seconds: user.recall("Faro", embed_timeout=seconds), (-1, "1", float("nan"))),
    "filters": (lambda user, filters: user.recall("Faro", filters=filters), ("fact", {"kind": "fact"})),
    "as_of": (lambda user, as_of: user.recall("Faro", as_of=as_of), ("x", NOON)),
    "facts as_of": (lambda user, as_of: user.facts(as_of=as_of), ("x", NOON)),
    "document": (lambda user, source: user.remember_document(source, title="T"), (None, 7, b"x", ["x"], object())),
    "schema": (lambda user, schema: user.profile(schema=schema), (5, "x", [Filters])),
    "author": (lambda user, name: user.promote(user.fact_id, to=SharedMemory("team"), author=name), NO_NAMES),
    "of turn": (lambda user, name: user.remember([Turn("t8", name, "So", NOON)], session_id="t"), NO_NAMES),
    "of a statement": (lambda user, name: user.add_statements([Statement("So", NOON, name)]), NO_NAMES),
    "by": (lambda user, name: user.propose_forgetting(user.fact_id, by=name), NO_NAMES),
    "sessions": (lambda user, flag: user.forget_user(sessions=flag), NO_FLAGS),
    "artifacts": (lambda user, flag: user.forget_user(artifacts=flag), NO_FLAGS),
    "with_turns": (lambda user, flag: user.forget(user.fact_id, with_turns=flag), NO_FLAGS),
    "preview": (lambda user, flag: user.retract(user.fact_id, preview=flag), NO_FLAGS),
    "consolidate": (lambda user, flag: user.add_statements([STATEMENT], consolidate=flag), NO_FLAGS),
    "replace_metadata": (lambda user, flag: user.remember([TURN], session_id="t", replace_metadata=flag), NO_FLAGS),
    "progress": (lambda user, progress: user.show(progress=progress), (5,)),
}


class FilledMemory(UserMemory):
    """A user's memory, with the id of a fact of it."""

    fact_id: str = ""


@pytest.fixture
async def user(neo4j_server: Any, app_name: str) -> AsyncIterator[FilledMemory]:
    settings = neo4j_server.settings(label_prefix="TestHash")
    async with GraphMemory(settings=settings, model="rules", embedder=HashEmbedder()) as memory:
        user = FilledMemory(memory.engine, Scope(app_name, "ann"))
        await user.remember([Turn("t1", "user", "I live in Faro", NOON)], session_id="s")
        [fact] = [fact async for fact in user.facts()]
        object.__setattr__(user, "fact_id", fact.id)
        yield user


async def ask(call: Call, user: UserMemory, value: Any) -> Any:
    """What a call returns, or the error of this package that it raises; any other is the test's."""
    try:
        outcome = call(user, value)
        return await outcome if inspect.isawaitable(outcome) else [item async for item in outcome]
    except errors.GraphMemoryError as error:
        return error


async def check_refusals(
    user: UserMemory, calls: Iterator[tuple[str, Call, Any]], *kinds: type[errors.GraphMemoryError], says: str = ""
) -> None:
    """Each call is refused by an error of one of these kinds that names the value, and nothing is written."""
    shared = Scope(user.scope.app_name, SharedMemory("team"))
    graph, wrong = await digest_users(user, user.scope, shared), list[str]()
    for name, call, value in calls:
        outcome = await ask(call, user, value)
        is_named = isinstance(outcome, errors.InvalidUnicode) or re.search(
            says or re.escape(repr(value)[:50]), str(outcome)
        )
        if not isinstance(outcome, kinds) or not is_named or len(str(outcome)) > 1_000:
            wrong.append(f"{name}({value!r:.40}) -> {outcome!r:.200}")
    assert not wrong, "\n".join(wrong)
    assert await digest_users(user, user.scope, shared) == graph


def pair(calls: Mapping[str, Call], values: tuple[Any, ...]) -> Iterator[tuple[str, Call, Any]]:
    return ((name, call, value) for name, call in calls.items() for value in values)


def test_each_method_with_arguments_is_asked() -> None:
    tables = FOUND_BY, CHOSEN_BY, LISTED_BY, CONTINUED_BY, WORDED_BY, WORDED_IF_GIVEN, COUNTED_BY, DATED_BY
    calls = [call for table in tables for call in table.values()]
    calls += [call for table in (MADE_OF, OTHERS) for call, _ in table.values()]
    asked = {name for call in calls for name in call.__code__.co_names}
    methods = {name: method for name, method in vars(UserMemory).items() if not name.startswith("_")}
    taking = {name for name, method in methods.items() if len(inspect.signature(method).parameters) > 1}
    assert not taking - asked


@pytest.mark.parametrize("calls", [FOUND_BY, CHOSEN_BY, WORDED_BY], ids=["found", "chosen", "worded"])
async def test_what_is_no_text_is_refused(user: FilledMemory, calls: Mapping[str, Call]) -> None:
    await check_refusals(user, pair(calls, NO_TEXTS), errors.InvalidArgument, says="not a text|are no ids")


@pytest.mark.slow
@pytest.mark.parametrize("calls", [LISTED_BY, CONTINUED_BY, WORDED_IF_GIVEN], ids=["listed", "continued", "worded"])
async def test_what_is_no_text_is_refused_where_it_may_be_left_out(
    user: FilledMemory, calls: Mapping[str, Call]
) -> None:
    await check_refusals(user, pair(calls, NO_TEXTS[1:]), errors.InvalidArgument, says="not a text")


@pytest.mark.slow
@pytest.mark.parametrize("calls", [FOUND_BY, CONTINUED_BY], ids=["found", "continued"])
async def test_what_the_user_does_not_have_is_not_found(user: FilledMemory, calls: Mapping[str, Call]) -> None:
    other = UserMemory(user.engine, Scope(user.scope.app_name, "bob"))
    await other.remember([Turn("t1", "user", "I keep bees in Braga", NOON)], session_id="s")
    [theirs] = [fact.id async for fact in other.facts()]
    await check_refusals(user, pair(calls, (*UNKNOWN, theirs)), errors.NotFound)
    await check_refusals(user, pair(calls, (HALF,)), errors.NotFound, errors.InvalidUnicode)
    assert [fact.id async for fact in other.facts()] == [theirs]


@pytest.mark.slow
async def test_unknown_ids_choose_nothing(user: FilledMemory) -> None:
    graph = await digest_users(user, user.scope)
    for name, call, value in pair(CHOSEN_BY, UNKNOWN):
        change = await ask(call, user, value)
        assert (change.facts or (), change.entities or ()) == ((), ()), (name, value)
    for name, call, value in pair(LISTED_BY, UNKNOWN):
        assert await ask(call, user, value) == [], (name, value)
    assert await digest_users(user, user.scope) == graph


@pytest.mark.slow
async def test_half_a_character_is_refused_wherever_it_would_be_written(user: FilledMemory) -> None:
    calls = {name: call for name, call in WORDED_BY.items() if name not in ("rollback", "split", "show")}
    given = {name: call for name, call in WORDED_IF_GIVEN.items() if name != "recall in"}
    await check_refusals(user, pair(calls, (HALF,)), errors.InvalidUnicode)
    await check_refusals(user, pair(given, (HALF,)), errors.InvalidUnicode)


@pytest.mark.slow
async def test_an_id_that_is_too_long_to_be_stored_is_refused(user: FilledMemory) -> None:
    calls = {name: WORDED_BY[name] for name in ("remember", "enqueue")}
    calls |= {"statement": WORDED_IF_GIVEN["statement with"]}
    await check_refusals(user, pair(calls, (LONG,)), errors.InvalidArgument, says="9,000 bytes.*shorten it")


@pytest.mark.slow
async def test_counts_and_moments_are_refused_by_their_value(user: FilledMemory) -> None:
    await check_refusals(user, pair(COUNTED_BY, NO_COUNTS), errors.InvalidArgument)
    says = "has no time zone; use|is no datetime|is not between"
    await check_refusals(user, pair(DATED_BY, NO_MOMENTS), errors.InvalidArgument, says=says)


@pytest.mark.parametrize("calls", [MADE_OF, OTHERS], ids=["lists", "others"])
async def test_what_is_of_another_kind_is_refused(
    user: FilledMemory, calls: Mapping[str, tuple[Call, tuple[Any, ...]]]
) -> None:
    given = ((name, call, value) for name, (call, values) in calls.items() for value in values)
    says = "give|which is no|is no|is neither|names nobody|is not|keys have to be text|are no ids"
    await check_refusals(user, given, errors.InvalidArgument, says=says)
    lists = ((name, call, value) for name, (call, _) in calls.items() for value in (None, 5) if calls is MADE_OF)
    allowed = ("topics", "shared")  # None leaves them out
    await check_refusals(
        user, (row for row in lists if row[2] or row[0] not in allowed), errors.InvalidArgument, says="give a"
    )


@pytest.mark.slow
async def test_what_says_nothing_is_no_statement_and_a_generator_is_a_list(user: FilledMemory) -> None:
    graph = await digest_users(user, user.scope)
    for consolidate in (False, True):
        report = await user.add_statements([Statement(" \n", NOON)], consolidate=consolidate)
        assert (report.turns, sum(report.facts.values())) == (0, 0)
    assert await digest_users(user, user.scope) == graph
    assert (await user.remember((turn for turn in (TURN,)), session_id="s")).turns == 1  # type: ignore[arg-type]
    assert await user.enqueue((turn for turn in (TURN,)), session_id="s2") == 1  # type: ignore[arg-type]
    told = await user.add_statements(Statement(text, NOON) for text in ("One", "Two"))  # type: ignore[arg-type]
    assert told.facts == {"ADD": 2}


@pytest.mark.slow
async def test_half_a_character_in_metadata_or_a_question_leaves_the_memory_to_be_shown(user: FilledMemory) -> None:
    await user.remember([TURN], session_id="s", metadata={"sent from": f"a {HALF} phone"})
    for question in ("bees", HALF):
        assert (await user.show(question=question)).html
