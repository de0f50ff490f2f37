"""What each signal adds to a memory's score, and that nothing else does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory import errors
from adk_graph_memory.graph.lucene import extract_terms
from adk_graph_memory.retrieval.candidates import Nearness, ScoreBaseline, SearchCandidate, measure_nearness
from adk_graph_memory.retrieval.coverage import (
    combine_evidence,
    estimate_answer_likelihood,
    measure_coverage,
    measure_word_trust,
)
from adk_graph_memory.retrieval.question import DateRange, ParsedQuestion, parse_question
from adk_graph_memory.retrieval.ranking import Ranking
from adk_graph_memory.retrieval.scoring import ScoredMemory, deduplicate_memories, score_candidates
from adk_graph_memory.retrieval.weights import Weights

NOW = 2_000_000_000.0
NOTHING = Weights(**dict.fromkeys((field.name for field in fields(Weights)), 0.0))
QUESTION = ParsedQuestion("bees", "bees")
BASELINE = ScoreBaseline(0.5, 0.1)


def turn(id: str, **more: Any) -> SearchCandidate:
    return SearchCandidate(
        id, "event", **{"role": "user", "author": "ana", "timestamp": 1.0, "session_id": "s", **more}
    )


def fact(id: str, *sources: str, **more: Any) -> SearchCandidate:
    return SearchCandidate(id, "fact", turn_ids=sources, **{"state": "current", **more})


def by_id(*candidates: SearchCandidate) -> dict[str, SearchCandidate]:
    return {candidate.id: candidate for candidate in candidates}


def order(memories: list[ScoredMemory]) -> list[str]:
    return [memory.id for memory in memories]


def result(
    *candidates: SearchCandidate, parsed_question: ParsedQuestion = QUESTION, word_trust: float = 1.0, **weights: float
) -> list[ScoredMemory]:
    chosen_weights = replace(NOTHING, **weights)
    return score_candidates(
        candidates,
        parsed_question,
        chosen_weights,
        nearness=measure_nearness(candidates, BASELINE, None),
        word_trust=word_trust,
        now=NOW,
    )


@pytest.mark.parametrize(("nearness", "first"), [(0.7, "f"), (0.9, "e")])
def test_a_fact_and_the_turn_it_rests_on_count_once(nearness: float, first: str) -> None:
    rows = turn("e", vector_score=nearness), fact("f", "e", vector_score=0.8), turn("other")
    assert order(deduplicate_memories(result(*rows, vector=1.0), by_id(*rows))) == [first, "other"]


@pytest.mark.parametrize(
    ("size", "nearness", "first"), [(50, 0.8, "f"), (50, 0.7, "e"), (90, 0.8, "e"), (200, 0.8, "e"), (200, 0.9, "e")]
)
def test_a_fact_that_says_it_in_fewer_words_takes_its_turns_place(size: int, nearness: float, first: str) -> None:
    """As far behind as brevity allows: 1.5 deviations for half the words, next to none for nine in ten."""
    rows = (
        turn("e", vector_score=0.9, text_length=100),
        fact("f", "e", vector_score=nearness, text_length=size),
        turn("other", vector_score=0.88),
    )
    memories = deduplicate_memories(result(*rows, vector=1.0), by_id(*rows), brief=3.0)
    assert order(memories) == [first, "other"]
    assert memories[0].score == pytest.approx(4.0)  # the place is the turn's


def test_a_fact_of_two_turns_that_takes_a_place_stands_for_both() -> None:
    rows = (
        turn("a", vector_score=0.9),
        fact("f", "a", "b", vector_score=0.85, text_length=20),
        turn("b", vector_score=0.7),
        turn("c", vector_score=0.6),
    )
    assert order(deduplicate_memories(result(*rows, vector=1.0), by_id(*rows), brief=3.0)) == ["f", "c"]


def test_two_facts_of_one_turn_are_two() -> None:
    rows = (
        fact("f1", "e", vector_score=0.9),
        turn("e", vector_score=0.8),
        fact("f2", "e", vector_score=0.7),
        turn("other"),
    )
    assert order(deduplicate_memories(result(*rows, vector=1.0), by_id(*rows))) == ["f1", "f2", "other"]


def test_more_words_and_nearer_vectors_come_first() -> None:
    assert order(result(turn("a", text_score=1.0), turn("b", text_score=2.0), text=1.0)) == ["b", "a"]
    assert order(result(turn("a", vector_score=0.6), turn("b", vector_score=0.7), vector=1.0)) == ["b", "a"]


def test_a_vector_counts_in_deviations_from_what_is_usual() -> None:
    [memory] = result(turn("a", vector_score=0.8), vector=1.0)
    assert memory.score == pytest.approx(3.0)


def test_an_answer_gets_a_share_of_its_question() -> None:
    question = turn("a", vector_score=0.9, has_question=True, next_turn_id="b")
    [_, answer] = result(question, turn("b", text_length=40), vector=1.0, answer=0.5)
    assert (answer.id, answer.score) == ("b", pytest.approx(2.0))
    assert [(share.signal, share.through) for share in answer.shares] == [("answer", "a")]


def test_a_long_turn_lends_nothing() -> None:
    memories = result(
        turn("a", vector_score=0.9, has_question=True, next_turn_id="b", text_length=4_000),
        turn("b"),
        vector=1.0,
        answer=0.5,
    )
    assert {memory.id: memory.score for memory in memories}["b"] == 0


def test_a_turn_gets_a_share_of_the_one_it_leads_to() -> None:
    rows = (turn("a", next_turn_id="b"), turn("b", vector_score=0.9), turn("c"))
    assert order(result(*rows, vector=1.0, before=0.2)) == ["b", "a", "c"]


def test_what_the_one_asked_about_said_themselves_comes_first() -> None:
    rows = (turn("a", author="ben"), turn("b", author="ana"))
    assert order(result(*rows, parsed_question=ParsedQuestion("x", "x", "ana"), author=1.0)) == ["b", "a"]
    assert order(result(*rows, author=1.0)) == ["a", "b"]


def test_an_agent_stands_behind_the_people_it_serves_unless_it_is_asked() -> None:
    rows = (turn("a", role="model"), turn("b"))
    assert order(result(*rows, agent=-1.0)) == ["b", "a"]
    assert order(result(*rows, parsed_question=ParsedQuestion("x", "x", is_to_agent=True), agent=-1.0)) == ["a", "b"]
    assert order(result(*rows, parsed_question=ParsedQuestion("x", "x", is_about_third_party=True), agent=-1.0)) == [
        "a",
        "b",
    ]


def test_a_session_that_fits_lifts_its_turns() -> None:
    rows = (turn("a", vector_score=0.9, session_id="s"), turn("b", session_id="s"), turn("c", session_id="t"))
    assert order(result(*rows, vector=1.0, session=0.3)) == ["a", "b", "c"]


def test_a_short_question_says_less_than_what_it_asks() -> None:
    assert order(
        result(turn("a", has_final_question=True, text_length=40), turn("b", text_length=40), question=-1.0)
    ) == [
        "b",
        "a",
    ]


def test_a_turn_gets_a_share_of_its_facts_and_a_fact_stands_where_its_turn_does() -> None:
    memories = result(turn("a"), fact("f", "a", vector_score=0.8), turn("b"), vector=1.0, fact=0.5)
    assert [(memory.id, round(memory.score, 6)) for memory in memories] == [("f", 3.0), ("a", 1.5), ("b", 0.0)]


def test_a_fact_takes_over_what_speaks_for_its_turn() -> None:
    question = ParsedQuestion("x", "x", "ana")
    [best, *_] = result(turn("a"), fact("f", "a", vector_score=0.6), parsed_question=question, vector=1.0, author=2.0)
    assert (best.id, best.score) == ("f", pytest.approx(3.0))


def test_of_what_fits_alike_the_later_is_so_now() -> None:
    rows = (turn("a", vector_score=0.9, timestamp=1.0), turn("b", vector_score=0.9, timestamp=2.0))
    assert order(result(*rows, parsed_question=ParsedQuestion("x", "x", is_present=True), vector=1.0, recent=1.0)) == [
        "b",
        "a",
    ]
    assert order(result(*rows, vector=1.0, recent=1.0)) == ["a", "b"]


OLD = (
    turn("then", vector_score=0.9),
    fact("old", "then", vector_score=0.95, state="superseded", valid_to=NOW - 10, successor_ids=("new",)),
    turn("now"),
    fact("new", "now", vector_score=0.55),
)


def test_what_is_so_takes_the_place_of_what_was() -> None:
    assert order(result(*OLD, vector=1.0, ending=-2.0)) == ["new", "then", "now"]


def test_what_took_the_place_of_a_turn_is_later_than_it() -> None:
    rows = (*OLD, turn("sister", vector_score=0.85, timestamp=5.0))
    question = ParsedQuestion("x", "x", is_present=True)
    assert order(result(*rows, parsed_question=question, vector=1.0, ending=-2.0, recent=2.0))[0] == "new"


@pytest.mark.parametrize(
    ("then", "later", "first"),
    [(b"1", b"1", "later"), (b"1", b"2", "then"), (None, b"2", "later"), (b"1", None, "later")],
)
def test_the_later_of_two_turns_comes_first_if_they_are_similar(then: Any, later: Any, first: str) -> None:
    """A turn without tokens may be about the same."""
    rows = (
        turn("then", vector_score=0.9, packed_tokens=then),
        turn("later", vector_score=0.85, packed_tokens=later, timestamp=5.0),
    )
    memories = score_candidates(
        rows,
        ParsedQuestion("x", "x", is_present=True),
        replace(NOTHING, vector=1.0, recent=2.0),
        nearness=measure_nearness(rows, BASELINE, None),
        now=NOW,
        tokens=Words(),  # type: ignore[arg-type]
    )
    assert order(memories)[0] == first


def test_what_took_the_place_of_the_latest_turn_is_no_later_than_that() -> None:
    rows = (
        turn("then", vector_score=0.9, timestamp=9.0),
        fact("old", "then", vector_score=0.85, state="superseded", valid_to=NOW - 10, successor_ids=("new",)),
        fact("new", vector_score=0.55),
        turn("sister", vector_score=0.85, timestamp=5.0),
    )
    question = ParsedQuestion("x", "x", is_present=True)
    [best, *_] = result(*rows, parsed_question=question, vector=1.0, ending=-2.0, recent=2.0)
    assert (best.id, best.score) == ("new", pytest.approx(4.0 + 2.0))  # that of the turn, which was the latest


def test_what_replaced_a_fact_earns_by_its_turn_only_as_far_as_the_fact_matches() -> None:
    """A question of the trombone: the turn names it beside a van that was sold, and so does the turn after it."""
    rows = (
        turn("then", vector_score=0.95, has_question=True, next_turn_id="after", fact_count=1),
        fact("van", "then", vector_score=0.55, state="superseded", valid_to=NOW - 10, successor_ids=("new van",)),
        turn("after", vector_score=0.9, text_length=40),
        turn("other", vector_score=0.6, session_id="other"),
        fact("new van"),
    )
    memories = result(*rows, vector=1.0, before=0.15, answer=0.45, session=0.4)
    [new_van] = [memory for memory in memories if memory.id == "new van"]
    match, turn_score = 0.5 / (0.75 * 4.5), 5.5
    assert new_van.score == pytest.approx(0.5 + match * (turn_score - 0.5))
    assert [(share.signal, share.through) for share in new_van.shares] == [("successor", "van")]
    assert order(memories)[:2] == ["after", "then"]


def test_of_what_took_equal_places_the_nearer_to_the_question_comes_first() -> None:
    rows = (
        *OLD,
        turn("before", vector_score=0.91, fact_count=1),
        turn("after"),
        fact("other", "after", vector_score=0.5),
    )
    gone = fact("gone", "before", vector_score=0.96, state="superseded", valid_to=NOW - 10, successor_ids=("other",))
    assert order(result(*rows, gone, vector=1.0, ending=-2.0))[0] == "other"
    assert order(result(*rows, gone, vector=1.0, ending=-2.0, successor=0.5))[0] == "new"


@pytest.mark.parametrize("theirs", ["My sister's wedding is in May.", "Ana told me of her wedding."])
def test_what_is_somebody_elses_stands_behind_where_the_asker_means_their_own(theirs: str) -> None:
    rows = (
        turn("theirs", vector_score=0.9, short_text=theirs),
        turn("mine", vector_score=0.7, short_text="We marry in June."),
    )
    own, sisters = ("When is my wedding?", "When is my sister's wedding?")
    assert order(result(*rows, parsed_question=ParsedQuestion(own, own), vector=1.0, others=-3.0)) == ["mine", "theirs"]
    assert order(result(*rows, parsed_question=ParsedQuestion(sisters, sisters), vector=1.0, others=-3.0)) == [
        "theirs",
        "mine",
    ]


@pytest.mark.parametrize(
    "said", ["My wedding is before my sister's wedding.", "My sister's dog is old.", "It's wedding day."]
)
def test_what_is_the_speakers_own_is_nobody_elses(said: str) -> None:
    assert not ParsedQuestion("wedding", "When is my wedding?").is_about_others(said)


def test_a_question_about_the_past_finds_what_was() -> None:
    assert order(result(*OLD, parsed_question=ParsedQuestion("x", "x", is_past=True), vector=1.0, ending=-2.0))[:2] == [
        "old",
        "then",
    ]


@pytest.mark.parametrize(("since", "until", "is_boosted"), [(None, 150, True), (120, 150, True), (0, 90, False)])
def test_what_was_so_at_the_time_that_is_asked_about_comes_first(
    since: float | None, until: float, *, is_boosted: bool
) -> None:
    span = DateRange(datetime.fromtimestamp(100, UTC), datetime.fromtimestamp(200, UTC))
    old = fact("old", state="superseded", valid_from=since, valid_to=until)
    [first, second] = result(
        old, fact("new"), parsed_question=ParsedQuestion("x", "x", time_spans=(span,), is_past=True), date=2.0
    )
    assert (first.score, second.score) == ((2.0, 0.0) if is_boosted else (0.0, 0.0))


def test_a_fact_that_began_then_counts_as_much_as_what_was_said_then() -> None:
    span = DateRange(datetime(2026, 6, 6, tzinfo=UTC), datetime(2026, 6, 7, tzinfo=UTC))
    noon = datetime(2026, 6, 6, 12, tzinfo=UTC).timestamp()
    day = 86_400.0
    rows = (
        turn("milk", timestamp=noon),
        turn("soon after", timestamp=noon + day),
        fact("bicycle", "soon after", valid_from=noon - day / 2, valid_from_precision="day"),
        turn("sooner", timestamp=noon),
        fact("tram", "sooner", valid_from=noon - 3.5 * day, valid_from_precision="day"),
    )
    memories = result(*rows, parsed_question=ParsedQuestion("x", "x", time_spans=(span,)), date=2.0)
    scores = {memory.id: memory.score for memory in memories}
    assert scores == {"bicycle": 2.0, "milk": 2.0, "sooner": 2.0, "tram": 2.0, "soon after": 1.0}


TAKEN_BACK = (
    turn("then", vector_score=0.9, fact_count=1),
    fact("old", "then", vector_score=0.95, state="retracted", successor_ids=("new",)),
    turn("now", fact_count=1),
    fact("new", "now", vector_score=0.55),
)


@pytest.mark.parametrize("is_past", [False, True])
def test_what_was_taken_back_gives_its_place_whatever_is_asked(*, is_past: bool) -> None:
    memories = result(*TAKEN_BACK, parsed_question=ParsedQuestion("x", "x", is_past=is_past), vector=1.0, ending=-2.0)
    assert order(memories) == ["new", "then", "now"]


SEVERAL = (
    turn("then", vector_score=0.9, fact_count=2),
    fact("job", "then", state="superseded", valid_to=NOW - 10, successor_ids=("new",)),
    fact("age", "then"),
    turn("now", fact_count=1),
    fact("new", "now", vector_score=0.55),
)


@pytest.mark.parametrize(
    ("job", "age", "first"),
    [(0.95, 0.55, ["new", "then"]), (0.55, 0.95, ["age", "then", "new"]), (0.9, 0.95, ["age", "new", "then"])],
)
def test_of_a_turn_that_says_several_things_what_is_asked_counts(job: float, age: float, first: list[str]) -> None:
    rows = [
        candidate._replace(vector_score={"job": job, "age": age}.get(candidate.id, candidate.vector_score))
        for candidate in SEVERAL
    ]
    assert [id for id in order(result(*rows, vector=1.0, ending=-2.0)) if id in first] == first


def test_of_two_things_that_ended_the_one_that_is_asked_gives_the_place() -> None:
    rows = (
        turn("then", vector_score=0.9, fact_count=2),
        fact("home", "then", vector_score=0.7, state="superseded", valid_to=NOW - 10, successor_ids=("new home",)),
        fact("job", "then", vector_score=0.8, state="superseded", valid_to=NOW - 10, successor_ids=("new job",)),
        fact("new home", vector_score=0.55),
        fact("new job", vector_score=0.55),
    )
    assert order(result(*rows, vector=1.0, ending=-2.0))[0] == "new job"
    swapped = [
        candidate._replace(vector_score={"home": 0.8, "job": 0.7}.get(candidate.id, candidate.vector_score))
        for candidate in rows
    ]
    assert order(result(*swapped, vector=1.0, ending=-2.0))[0] == "new home"


def test_a_turn_that_only_asks_is_no_answer_and_leads_to_one() -> None:
    rows = (
        turn("asks", vector_score=0.95, has_question=True, next_turn_id="b"),
        turn("b", text_length=40),
        turn("c", vector_score=0.55),
    )
    memories = score_candidates(
        rows,
        QUESTION,
        replace(NOTHING, vector=1.0, answer=0.5),
        nearness=measure_nearness(rows, BASELINE, None),
        now=NOW,
        empty_ids={"asks"},
    )
    assert order(memories) == ["b", "c"]


def test_what_is_not_plainly_ones_own_word_counts_less() -> None:
    rows = (turn("joke", vector_score=0.9, manner="joking"), turn("plain", vector_score=0.85))
    assert order(result(*rows, vector=1.0, manner=-1.5)) == ["plain", "joke"]
    assert order(result(*rows, vector=1.0)) == ["joke", "plain"]


@pytest.mark.parametrize(("nearness", "named"), [(0.8, "f"), (0.5, None)])
def test_a_turn_names_the_fact_that_it_stands_for(nearness: float, named: str | None) -> None:
    rows = turn("e", vector_score=0.9), fact("f", "e", vector_score=nearness)
    [memory] = deduplicate_memories(result(*rows, vector=1.0), by_id(*rows))
    assert (memory.id, memory.fact_id) == ("e", named)


def test_what_ended_after_the_asking_still_holds() -> None:
    rows = (fact("old", vector_score=0.9, state="superseded", valid_to=NOW + 10), turn("b"))
    assert order(result(*rows, vector=1.0)) == ["old", "b"]


def test_what_was_never_true_is_not_found() -> None:
    assert order(result(fact("f", vector_score=0.9, state="retracted"), turn("b"), vector=1.0)) == ["b"]


def test_where_words_are_not_trusted_meaning_alone_decides() -> None:
    rows = (
        turn("a", text_score=9.0, vector_score=0.5),
        turn("b", vector_score=0.6, has_question=True, next_turn_id="a"),
    )
    assert order(result(*rows, word_trust=0.0, text=1.0, vector=1.0, answer=0.5)) == ["b", "a"]


TURNS, FACTS = ("a", "b", "c", "d"), ("f", "g", "h", "i")
SCORES = {"text_score": st.none() | st.floats(0.01, 30), "vector_score": st.none() | st.floats(0, 1)}
CANDIDATES = st.lists(
    st.builds(
        turn,
        st.sampled_from(TURNS),
        **SCORES,
        role=st.sampled_from(["user", "model", None]),
        author=st.sampled_from(["ana", None]),
        timestamp=st.floats(0, 2e9),
        session_id=st.sampled_from(["s", "t", None]),
        text_length=st.integers(0, 9_000),
        has_question=st.booleans(),
        has_final_question=st.booleans(),
        next_turn_id=st.none() | st.sampled_from(TURNS),
        fact_count=st.integers(0, 3),
        manner=st.sampled_from(["pasted", None]),
    )
    | st.builds(
        lambda id, sources, **more: fact(id, *sources, **more),
        st.sampled_from(FACTS),
        st.lists(st.sampled_from(TURNS), max_size=2),
        **SCORES,
        state=st.sampled_from(["current", "superseded", "retracted", None]),
        valid_to=st.none() | st.floats(0, 4e9),
        successor_ids=st.lists(st.sampled_from(FACTS), max_size=2),
    ),
    max_size=10,
)


@given(CANDIDATES, st.randoms())
def test_whatever_was_found_the_shares_add_up_and_the_order_it_came_in_is_nothing(candidates: Any, chance: Any) -> None:
    unique = list({candidate.id: candidate for candidate in candidates}.values())
    question = ParsedQuestion("x", "x", "ana", is_present=True)
    once = score_candidates(unique, question, Weights(), nearness=measure_nearness(unique, BASELINE, None), now=NOW)
    chance.shuffle(unique)
    again = {
        memory.id: memory.score
        for memory in score_candidates(
            unique, question, Weights(), nearness=measure_nearness(unique, BASELINE, None), now=NOW
        )
    }
    assert {memory.id: memory.score for memory in once} == pytest.approx(again)
    for memory in once:
        assert memory.score == pytest.approx(sum(share.amount for share in memory.shares))


# -- token by token -------------------------------------------------------------------------------------------------


class Words:
    """Tokens that are as near to the question as they say themselves, and similar if they say the same."""

    spread = 0.1

    def compare_texts(self, packed: Mapping[str, bytes], id: str) -> dict[str, float]:
        return {other: float(data == packed[id]) for other, data in packed.items()} if id in packed else {}

    def compute_maxsim(self, packed: Mapping[str, bytes]) -> tuple[list[str], np.ndarray]:
        known = {id: float(data) for id, data in packed.items() if data != b"foreign"}
        return list(known), np.array([[score, score] for score in known.values()], np.float32).reshape(len(known), 2)


def near(*candidates: SearchCandidate) -> dict[str, Nearness]:
    return measure_nearness(candidates, BASELINE, Words())  # type: ignore[arg-type]


def test_tokens_are_told_on_the_scale_of_the_vectors() -> None:
    """As far above the usual as it is in spreads, from where vectors see the usual."""
    nearness = near(
        turn("a", vector_score=0.8, packed_tokens=b"0.5"), turn("b", vector_score=0.6, packed_tokens=b"0.3")
    )
    assert nearness["a"] == (pytest.approx(3.0), pytest.approx(3.0))  # the mean of 3 and 1, and one spread more
    assert nearness["b"] == (pytest.approx(1.0), pytest.approx(1.0))
    assert nearness["a"].combine_scores(0.7) == pytest.approx(3.0)


def test_what_words_found_has_tokens_though_no_vectors_score() -> None:
    nearness = near(turn("a", vector_score=0.8, packed_tokens=b"0.5"), turn("b", text_score=3.0, packed_tokens=b"0.7"))
    assert nearness["b"].vector is None
    assert nearness["b"].combine_scores(0.7) == nearness["b"].tokens > nearness["a"].combine_scores(0.7)


@pytest.mark.parametrize("tokens", [None, b"foreign"])
def test_a_memory_without_tokens_is_told_by_its_vector_alone(tokens: bytes | None) -> None:
    nearness = near(
        turn("a", vector_score=0.8, packed_tokens=b"0.5"), turn("old", vector_score=0.7, packed_tokens=tokens)
    )
    assert nearness["old"] == (pytest.approx(2.0), None)
    assert nearness["old"].combine_scores(0.7) == pytest.approx(2.0)


def test_without_any_tokens_vectors_alone_decide() -> None:
    rows = turn("a", vector_score=0.8), turn("b", vector_score=0.6), turn("c")
    assert near(*rows) == measure_nearness(rows, BASELINE, None)
    assert "c" not in near(*rows)


def test_the_share_of_tokens_is_told() -> None:
    rows = (
        turn("a", vector_score=0.8, packed_tokens=b"0.5"),
        turn("b", vector_score=0.6, packed_tokens=b"0.5"),
        turn("c", text_score=1.0, packed_tokens=b"0.4"),
    )
    memories = score_candidates(
        rows, QUESTION, replace(NOTHING, vector=1.0, tokens=0.75), nearness=near(*rows), now=NOW
    )
    shares = {memory.id: {share.signal: share.amount for share in memory.shares} for memory in memories}
    assert shares["a"]["vector"] == pytest.approx(0.25 * 3.0)
    assert shares["a"]["tokens"] == shares["b"]["tokens"] > 0
    assert set(shares["c"]) == {"tokens"}


SPAN = DateRange(datetime.fromtimestamp(100, UTC), datetime.fromtimestamp(200, UTC))
MANY = (
    *(one._replace(text_length=100 if one.kind == "event" else 40) for one in OLD),
    turn("asks", vector_score=0.8, has_question=True, has_final_question=True, next_turn_id="says", text_length=40),
    turn("says", vector_score=0.6, packed_tokens=b"0.5", role="model", author="bot", timestamp=150.0),
    turn("joke", text_score=3.0, entity_score=2.0, packed_tokens=b"0.3", manner="joking", session_id="t"),
    turn("long", vector_score=0.7, packed_tokens=b"0.4", text_length=400),
    fact("short", "long", vector_score=0.7, text_length=40),
    fact("was", state="superseded", valid_from=90, valid_to=150, vector_score=0.6),
    turn("hers", vector_score=0.7, short_text="My sister's bees are old.", session_id="t", timestamp=3.0),
)
"""Memories of which each signal says something."""


def score_many(weights: Weights, author: str | None = None, word_trust: float = 1.0, **more: Any) -> list[ScoredMemory]:
    asked = ParsedQuestion("bees", "Where are my bees?", author, time_spans=(SPAN,), **more)
    return score_candidates(MANY, asked, weights, nearness=near(*MANY), word_trust=word_trust, now=NOW)


def test_no_weight_is_nothing_by_default() -> None:
    """Without it a score changes, or what stands for what."""

    def rank(weights: Weights) -> list[tuple[str, float, str | None]]:
        ranked = score_many(weights, is_present=True), score_many(weights, "ana")
        kept = [one for found in ranked for one in deduplicate_memories(found, by_id(*MANY), weights.brief)]
        return [(one.id, one.score, one.fact_id) for one in kept]

    default = rank(Weights())
    same = [field.name for field in fields(Weights) if rank(replace(Weights(), **{field.name: 0.0})) == default]
    assert same == []


def test_without_trust_in_words_nothing_counts_that_goes_by_them() -> None:
    by_words = {"text", "entity", "answer", "before", "session", "date", "others", "question"}
    trusted, untrusted = (
        {share.signal for memory in score_many(Weights(), word_trust=trust, is_past=True) for share in memory.shares}
        for trust in (1.0, 0.0)
    )
    assert trusted >= by_words
    assert untrusted == trusted - by_words


# -- how far to trust it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "texts", "share"),
    [
        (["painted", "Rex"], ["I paint a dog, Rex"], 1.0),
        (["painted", "Rex"], ["Rex barked"], 0.5),
        (["when", "did", "paint"], ["paintings"], 1.0),
        (["party"], ["art"], 0.0),
        (["art"], ["party"], 0.0),
        (["东京", "京塔"], ["我去过东京"], 0.5),
        (["bees"], [], 0.0),
        ([], ["bees"], 0.0),
    ],
)
def test_how_much_of_a_question_texts_cover(terms: list[str], texts: list[str], share: float) -> None:
    assert measure_coverage(terms, texts, "en") == pytest.approx(share)


def test_trust_and_support_grow_with_what_is_found() -> None:
    assert measure_word_trust(["painted", "Rex"], [], "en") == 0
    assert measure_word_trust(["painted", "Rex"], ["Rex"], "en") == 1


def test_the_words_of_a_date_make_an_answer_likelier() -> None:
    terms = extract_terms("What did I buy on 6 June?")
    likelihoods = [
        estimate_answer_likelihood(0.3, terms, texts, "en", 1.0, date_words)
        for texts in ([], ["I bought a bicycle."])
        for date_words in ([], ["on 6 June"])
    ]
    assert likelihoods[0] == likelihoods[2] < likelihoods[1] == likelihoods[3]
    assert 0 < combine_evidence(None, 0.0, 0.0) < combine_evidence(None, 1.0, 1.0) < 1
    assert 0 < combine_evidence(0.1, 0.5, 0.5) < combine_evidence(0.6, 0.5, 0.5) < 1


def test_where_vectors_do_not_know_the_language_one_text_has_to_have_the_words() -> None:
    assert combine_evidence(0.9, 0.7, 0.2, fluency=0.0) == combine_evidence(0.0, 0.0, 0.2, fluency=0.0) < 0.2
    assert (
        combine_evidence(0.9, 0.7, 0.2, fluency=0.0)
        < combine_evidence(0.9, 0.7, 0.2, fluency=0.5)
        < combine_evidence(0.9, 0.7, 0.2)
    )


def likely(terms: list[str], texts: list[str]) -> float:
    return estimate_answer_likelihood(None, terms, texts, "ar", 0.0)


def test_words_that_several_texts_share_between_them_are_no_answer() -> None:
    scattered, together = ["أختي في تونس", "كلبي زيتون", "لون البيت"], ["ما لون كلبي؟ أختي تعرف"]
    terms = ["لون", "كلبي", "أختي"]
    assert measure_coverage(terms, scattered, "ar") == measure_coverage(terms, together, "ar") == 1.0
    assert likely(terms, scattered) < 0.23 < likely(terms, together)
    assert likely(["كلبي"], ["كلبي"]) < likely(terms, together)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("ماذا تربي جدتي في القرية؟", "جدتي في قرية وتربي النحل"),
        ("أي لغة أدرس؟", "أدرس اللغة اليابانية"),
        ("في أي طابق شقتي؟", "شقتي بالطابق الخامس"),
        ("أين المكتبة؟", "مكتبه للأطفال"),
    ],
)
def test_an_arabic_word_is_found_with_and_without_its_article_and_what_asks_tells_nothing(
    question: str, said: str
) -> None:
    assert measure_coverage(extract_terms(question, "ar"), [said], "ar") == 1.0


def test_an_arabic_word_that_only_begins_like_an_article_stays_whole() -> None:
    assert measure_coverage(["ألم"], ["وله"], "ar") == measure_coverage(["القط"], ["الباب"], "ar") == 0.0


# --- what hardly ever answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "fluency", "min_score"), [(64, 1.0, 0.06), (16, 0.9, 0.06), (64, 0.5, 0.03), (15, 1.0, 0.0)]
)
def test_the_least_score_is_known_once_there_are_memories_enough(sample: int, fluency: float, min_score: float) -> None:
    row = {"candidates": [], "texts": [], "usual": [(False, 0.5)] * sample}
    assert Ranking.from_row(row, "bees?", QUESTION, None, fluency).min_score == min_score


@pytest.mark.parametrize(
    ("question", "heard"),
    [
        ("When does my niece Ada's band play?", True),
        ("When does my niece Eda's band play?", False),
        ("Who is Ben?", True),
        ("Who is Zoë?", False),
        ("Did I see Cara in May?", True),
        ("What's IKEA's number? I'm lost", False),
        ("Zoë plays what?", True),
    ],
)
def test_a_name_that_nobody_mentioned_makes_any_answer_doubtful(question: str, heard: bool) -> None:
    near = turn("t1", short_text="Ada plays in a band", author="Ben", vector_score=0.95)
    row = {"candidates": [list(near)], "texts": ["I met Cara last year"], "usual": [(False, 0.5)] * 16}
    parsed_question = parse_question(question, (), datetime(2026, 6, 1, tzinfo=UTC))
    assert Ranking.from_row(row, question, parsed_question, None, 1.0).is_doubtful is not heard


def test_a_long_message_with_new_names_is_not_doubted() -> None:
    near = turn("t1", short_text="Ada plays in a band", author="Ben", vector_score=0.95)
    row = {"candidates": [list(near)], "texts": [], "usual": [(False, 0.5)] * 16}
    message = " ".join(f"Today we met Zoë{n} and Eda{n} at harbour{n}." for n in range(80))
    parsed_question = parse_question(message, (), datetime(2026, 6, 1, tzinfo=UTC))
    assert parsed_question.is_message
    assert not Ranking.from_row(row, message, parsed_question, None, 1.0).is_doubtful


# --- what is usual ------------------------------------------------------------------------------------------


def test_a_few_memories_do_not_tell_what_is_usual() -> None:
    few, many = ScoreBaseline.from_scores([0.9]), ScoreBaseline.from_scores([0.9] * 64)
    assert few is not None
    assert many is not None
    assert few.normalize_score(0.9) > 0.5
    assert many.normalize_score(0.9) == pytest.approx(0.0)


@pytest.mark.parametrize(("vector_score", "nearness"), [(0.3, -0.4), (0.5, 0.0), (0.75, 0.5), (1.0, 1.0)])
def test_nearness_is_told_between_what_is_usual_and_the_question_itself(vector_score: float, nearness: float) -> None:
    assert BASELINE.normalize_score(vector_score) == pytest.approx(nearness)


def test_no_memory_counts_for_more_than_a_tenth_of_the_characters() -> None:
    turns = [turn(f"t{number}", text_length=500 + number) for number in range(20)]
    ranking = Ranking(
        QUESTION,
        turns,
        {},
        frozenset(),
        word_trust=1.0,
        fluency=0.0,
        answer_likelihood=1.0,
        min_score=0.0,
        is_doubtful=False,
    )
    memories = ranking.rank_candidates(NOTHING, NOW)
    assert ranking.limit_characters(memories, 900) == memories[:10]


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "1"])
def test_a_weight_is_a_number(weight: Any) -> None:
    with pytest.raises(errors.ConfigurationError, match="author"):
        Weights(author=weight)


def test_a_possessive_is_covered_by_its_word() -> None:
    texts = ["My dog is Rex, that is his name"]
    assert measure_coverage(extract_terms("What is my dog's name?"), texts, "en") == 1.0
