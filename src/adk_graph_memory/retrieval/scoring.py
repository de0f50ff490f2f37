"""Score the candidates by adding up signals, and keep what is said once, as a turn or as a fact.

All amounts are in deviations: how much nearer to the question a memory is than this user's memories usually are.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from adk_graph_memory.models.projection import QuestionTokens
from adk_graph_memory.records.results import Share
from adk_graph_memory.retrieval.candidates import Nearness, SearchCandidate
from adk_graph_memory.retrieval.question import ParsedQuestion
from adk_graph_memory.retrieval.weights import Weights

_BEST_TEXT_DEVIATIONS = 3.0
_BEST_TEXT_COUNT = 20
"""The mean of this many best text scores counts as this many deviations: Lucene's scores have no scale of their own."""
_MAX_TEXT_DEVIATIONS = 8.0
"""The most deviations that a text score counts as, so that a single rare word does not decide alone."""
_SHORT_CHARACTERS, _VERY_SHORT_CHARACTERS = 480, 170
"""Characters (about 80 and 30 words) up to which a turn lends to its neighbours, and a question says little."""
_HALF_NAME_SCORE = 4.0
"""Lucene's score of a name that counts as one half."""
_MAX_SIMILAR_TURNS, _SIMILAR_SHARE = 6, 0.5
"""How many of the best turns may be about the same thing, and the share of the best one's own score that they need."""
_MIN_SIMILARITY = 0.25
"""Similarity of their mean token vectors from which two turns may be about the same thing. With all of the best as
before, chats lose 1.1 points of nDCG, updates that rules read .6, recorded conversations .9; with .4, 3 of a hundred
answers rank behind what they replaced."""
_TIE_BREAK = 0.01
"""Ranks a fact above the turn that it stands for."""
_LENT_SIGNALS = ("answer", "before", "session")
"""What a turn, and so a fact, earns by the turns around it alone."""
_NEAR_SHARE = 0.75
"""An ended fact with this share of the own score of its turn's best fact may be what the question asks for."""


class Scorer:
    """The shares of every candidate, added up signal by signal.

    Args:
        candidates: by id.
        weights: the weight of each signal.
        word_trust: 0 to 1, how far the question's words, and all signals of the graph, are trusted.
        empty_ids: turns that only ask or acknowledge: they lend to their neighbours but are no answers.
        tokens: the question's, which compare turns; without them, turns that fit about equally well count as similar.
    """

    def __init__(
        self,
        candidates: Mapping[str, SearchCandidate],
        weights: Weights,
        word_trust: float,
        empty_ids: Set[str] = frozenset(),
        tokens: QuestionTokens | None = None,
    ) -> None:
        self._tokens = tokens
        self._candidates, self._weights, self._word_trust, self._empty_ids = candidates, weights, word_trust, empty_ids
        self._nonempty_candidates = {id: candidate for id, candidate in candidates.items() if id not in empty_ids}
        self._shares: dict[str, dict[str, float]] = {id: {} for id in candidates}
        self._through_ids: dict[str, dict[str, str]] = defaultdict(dict)
        self._totals = dict.fromkeys(candidates, 0.0)
        self._own_scores: dict[str, float] = {}
        self._similar_turns: frozenset[str] = frozenset()
        self._ended_ids: set[str] = set()
        self._facts_by_turn: dict[str, list[str]] = defaultdict(list)
        for candidate in candidates.values():
            for turn_id in candidate.turn_ids:
                self._facts_by_turn[turn_id].append(candidate.id)

    def _add_share(self, id: str, signal: str, amount: float, through: str | None = None) -> None:
        if amount and (shares := self._shares.get(id)) is not None:
            shares[signal] = shares.get(signal, 0.0) + amount
            self._totals[id] += amount
            if through is not None:
                self._through_ids[signal].setdefault(id, through)

    def score_matches(self, nearness: Mapping[str, Nearness]) -> None:
        """Score each memory's own words, vector, tokens and entities, and for a turn those of its facts."""
        weights = self._weights
        text_scale = self._measure_text_scale()
        meaning = {id: near.combine_scores(weights.tokens) for id, near in nearness.items()}
        for id, candidate in self._candidates.items():
            shares = self._shares[id]
            if candidate.text_score is not None:
                shares["text"] = (
                    self._word_trust
                    * weights.text
                    * _MAX_TEXT_DEVIATIONS
                    * math.tanh(candidate.text_score / text_scale / _MAX_TEXT_DEVIATIONS)
                )
            if id in meaning:
                token_part = (
                    weights.tokens * (nearness[id].tokens or 0.0) if nearness[id].vector is not None else meaning[id]
                )
                shares["tokens"] = weights.vector * token_part
                shares["vector"] = weights.vector * (meaning[id] - token_part)
            if candidate.entity_score is not None:
                score = candidate.entity_score
                shares["entity"] = self._word_trust * weights.entity * score / (score + _HALF_NAME_SCORE)
            if facts := [fact for fact in self._facts_by_turn.get(id, ()) if fact in meaning]:
                nearest = max(facts, key=lambda fact: (meaning[fact], fact))
                shares["fact"] = weights.fact * meaning[nearest]
                self._through_ids["fact"][id] = nearest
            self._totals[id] = sum(shares.values())
        self._own_scores = {id: max(0.0, total) for id, total in self._totals.items()}

    def _measure_text_scale(self) -> float:
        """Return the text score that counts as one deviation."""
        scores = sorted(
            (
                candidate.text_score
                for candidate in self._nonempty_candidates.values()
                if candidate.text_score is not None
            ),
            reverse=True,
        )
        mean = sum(scores[:_BEST_TEXT_COUNT]) / max(1, min(_BEST_TEXT_COUNT, len(scores)))
        return mean / _BEST_TEXT_DEVIATIONS or 1.0

    def score_neighbours(self) -> None:
        """Lend part of a turn's score to its neighbours, unless they are long, since a long turn says much else too."""
        weights, candidates, own_scores = self._weights, self._candidates, self._own_scores
        for id, turn in candidates.items():
            next_turn = candidates.get(turn.next_turn_id or "")
            if next_turn is None or turn.text_length > _SHORT_CHARACTERS or next_turn.text_length > _SHORT_CHARACTERS:
                continue
            if turn.has_question:
                self._add_share(next_turn.id, "answer", self._word_trust * weights.answer * own_scores[id], id)
            third_turn = candidates.get(next_turn.next_turn_id or "")
            for later, share in ((next_turn, 1.0), (third_turn, 1 / 3)):
                if later is not None and later.text_length <= _SHORT_CHARACTERS and later.id not in self._empty_ids:
                    amount = self._word_trust * weights.before * share * own_scores[later.id]
                    self._add_share(id, "before", amount, later.id)

    def score_turn(self, turn: SearchCandidate, question: ParsedQuestion) -> None:
        """Score a turn's author, time and form."""
        weights, word_trust = self._weights, self._word_trust
        if question.author is not None:
            self._add_share(turn.id, "author", weights.author * (turn.author == question.author))
        elif turn.role == "model" and not (question.is_to_agent or question.is_about_third_party):
            self._add_share(turn.id, "agent", weights.agent)
        if question.time_spans:
            self._add_share(turn.id, "date", word_trust * weights.date * question.score_timestamp(turn.timestamp))
        if turn.short_text is not None and question.is_about_others(turn.short_text):
            self._add_share(turn.id, "others", word_trust * weights.others)
        if turn.manner is not None:
            self._add_share(turn.id, "manner", weights.manner)
        if turn.has_final_question and turn.text_length <= _VERY_SHORT_CHARACTERS:
            self._add_share(turn.id, "question", word_trust * weights.question)

    def score_fact_date(self, fact: SearchCandidate, question: ParsedQuestion) -> None:
        """Score a fact that began, or held until it ended, at the time the question names."""
        if question.is_valid_then(fact):
            self._add_share(fact.id, "date", self._word_trust * self._weights.date)

    def score_sessions(self) -> None:
        """Score how well a turn's session fits: its best turn, compared with those of the other sessions."""
        best_scores: dict[str, float] = defaultdict(float)
        for id, candidate in self._nonempty_candidates.items():
            if candidate.kind == "event" and candidate.session_id is not None:
                session_id = candidate.session_id
                best_scores[session_id] = max(best_scores[session_id], self._own_scores[id])
        if len(best_scores) < 2:
            return
        mean = sum(best_scores.values()) / len(best_scores)
        variance = sum((score - mean) ** 2 for score in best_scores.values()) / len(best_scores)
        deviation = math.sqrt(variance) or 1.0
        for id, candidate in self._nonempty_candidates.items():
            is_short = candidate.text_length <= _SHORT_CHARACTERS
            if candidate.kind == "event" and candidate.session_id is not None and is_short:
                fit = (best_scores[candidate.session_id] - mean) / deviation
                self._add_share(id, "session", self._word_trust * self._weights.session * fit)

    def prefer_recent(self) -> None:
        """Favour the later of the few turns that fit about as well as the best: it is likelier to hold still."""
        turns = [id for id, candidate in self._nonempty_candidates.items() if candidate.kind == "event"]
        best_turns = heapq.nlargest(
            _MAX_SIMILAR_TURNS, turns, key=lambda id: (self._own_scores[id], self._candidates[id].timestamp, id)
        )
        packed_tokens = {id: tokens for id in best_turns if (tokens := self._candidates[id].packed_tokens)}
        similarities = self._tokens.compare_texts(packed_tokens, best_turns[0]) if self._tokens and best_turns else {}
        similar_turns = [
            id
            for id in best_turns
            if self._own_scores[id] >= _SIMILAR_SHARE * self._own_scores[best_turns[0]]
            and similarities.get(id, 1.0) >= _MIN_SIMILARITY
        ]
        self._similar_turns = frozenset(similar_turns)
        times = sorted(self._candidates[id].timestamp for id in similar_turns)
        for id in similar_turns if len(similar_turns) > 1 else ():
            earlier_share = times.index(self._candidates[id].timestamp) / (len(times) - 1)
            self._add_share(id, "recent", self._weights.recent * earlier_share)

    def inherit_turn_scores(self) -> None:
        """Give a fact the shares of its best turn, except those of the turn's words, and a date's if it has its own."""
        for id, candidate in self._candidates.items():
            turns = [turn_id for turn_id in candidate.turn_ids if turn_id in self._candidates]
            if candidate.kind == "fact" and turns:
                own_signals = {"text", "vector", "tokens", "fact"} | self._shares[id].keys() & {"date"}
                best_turn = max(turns, key=lambda turn: (self._totals[turn], turn)) if len(turns) > 1 else turns[0]
                for signal, amount in self._shares[best_turn].items():
                    if signal not in own_signals:
                        self._add_share(id, signal, amount, best_turn)

    def replace_ended(self, now: float, *, is_past: bool, is_present: bool = False) -> None:
        """Rank what holds now in place of what ended, and lower the words that said it, unless the past is asked for.

        The successor of a turn is later than the turn, which counts if the question asks for the latest. If a turn says
        several things, the fact nearest to the question decides; if that fact holds, it stands for the turn. What was
        never true counts as ended for any question.
        """
        ended_facts = {id for id, candidate in self._candidates.items() if candidate.state == "retracted"}
        if not is_past:  # a fact that ended at its own time still tells what was
            ended_facts |= {
                id
                for id, fact in self._candidates.items()
                if fact.state == "superseded" and (fact.valid_to is None or fact.valid_to <= now)
            }
        turns = {turn for id in ended_facts for turn in self._candidates[id].turn_ids if turn in self._totals}
        outdated_turns = {turn for turn in turns if self._is_turn_outdated(turn, ended_facts)}
        for id in sorted(ended_facts):
            self._promote_successors(id, ended_facts, outdated_turns, is_present=is_present)
        nearest_facts = {
            turn: max(self._facts_by_turn[turn], key=lambda id: (self._own_scores[id], id)) for turn in turns
        }
        for turn in sorted(turns):
            fact = nearest_facts[turn]
            if turn in outdated_turns:
                self._add_share(turn, "ending", self._weights.ending, fact)
            elif fact not in ended_facts:
                self._add_share(fact, "turn", max(0.0, self._totals[turn] + _TIE_BREAK - self._totals[fact]), turn)
        self._ended_ids.update(ended_facts)

    def _promote_successors(
        self, fact: str, ended_facts: Set[str], outdated_turns: set[str], *, is_present: bool
    ) -> None:
        """Raise an ended fact's successors towards its place, or that of the turns for which it is the nearest fact.

        What a turn's other words, and the turns around it, add to its place counts as far as the fact matches what the
        turn was found for.
        """
        place = own_place = self._totals[fact] - sum(self._shares[fact].get(signal, 0.0) for signal in _LENT_SIGNALS)
        for turn in self._totals.keys() & set(self._candidates[fact].turn_ids):
            turn_place, own_score = self._totals[fact], self._own_scores[fact]
            nearest = max(self._own_scores[other] for other in self._facts_by_turn[turn] if other in ended_facts)
            # If another of the turn's facts is nearer, that one's successor takes the turn's rank.
            if turn in outdated_turns and own_score == nearest:
                turn_score = self._totals[turn]
                if is_present and turn in self._similar_turns:  # as high as if it were the latest of them
                    turn_score += max(0.0, self._weights.recent - self._shares[turn].get("recent", 0.0))
                turn_place = max(turn_place, turn_score)
            sought = _NEAR_SHARE * (self._own_scores[turn] - self._shares[turn].get("fact", 0.0))
            match = min(1.0, own_score / sought) if sought > 0.0 else 1.0
            place = max(place, own_place + match * (turn_place - own_place))
        for successor in (set(self._candidates[fact].successor_ids or ()) & self._totals.keys()) - ended_facts:
            score = place + self._weights.successor * self._own_scores[successor]
            self._add_share(successor, "successor", max(0.0, score - self._totals[successor]), fact)

    def _is_turn_outdated(self, turn: str, ended_facts: Set[str]) -> bool:
        """Whether nothing that a turn says holds any more, or nothing of what it says to the question."""
        facts = self._facts_by_turn[turn]
        ended_facts_of_turn = [fact for fact in facts if fact in ended_facts]
        nearest = max(self._own_scores[fact] for fact in ended_facts_of_turn)
        is_relevant = nearest >= _NEAR_SHARE * max(self._own_scores[fact] for fact in facts) and nearest > 0.0
        return is_relevant or len(ended_facts_of_turn) >= self._candidates[turn].fact_count

    def rank_scores(self) -> list[tuple[str, float]]:
        """Return ids and scores of the memories that still hold, best first."""
        return sorted(
            (
                (id, score)
                for id, score in self._totals.items()
                if id not in self._ended_ids and id not in self._empty_ids
            ),
            key=lambda row: (-row[1], row[0]),
        )

    def list_shares(self, id: str) -> tuple[Share, ...]:
        """List the shares of a candidate's score, the largest first."""
        shares = [
            Share(signal, amount, self._through_ids[signal].get(id))
            for signal, amount in self._shares[id].items()
            if amount
        ]
        return tuple(sorted(shares, key=lambda share: -abs(share.amount)))


MAX_FACT_DISTANCE = 2.0
"""A fact at most this many deviations below its turn is what the turn was found for."""


class ScoredMemory(NamedTuple):
    """A memory with its score; ``fact_id`` is the best of the facts that a turn stands for."""

    id: str
    score: float
    scorer: Scorer
    fact_id: str | None = None

    @property
    def shares(self) -> tuple[Share, ...]:
        """What each signal adds to the score, the largest first."""
        return self.scorer.list_shares(self.id)


def score_candidates(
    candidates: Iterable[SearchCandidate],
    question: ParsedQuestion,
    weights: Weights,
    *,
    nearness: Mapping[str, Nearness],
    word_trust: float = 1.0,
    now: float,
    empty_ids: Set[str] = frozenset(),
    tokens: QuestionTokens | None = None,
) -> list[ScoredMemory]:
    """Score the candidates; best first.

    Args:
        candidates: what all retrieval sources found, each once.
        question: what the question asks.
        weights: the weight of each signal.
        nearness: how near in meaning each candidate is; see
            :func:`~adk_graph_memory.retrieval.candidates.measure_nearness`.
        word_trust: 0 to 1, how far the question's words, and all signals of the graph, are trusted.
        now: a fact that ends at this time or later still holds.
        empty_ids: turns that only ask or acknowledge: they lend to their neighbours but are no answers.
        tokens: the question's, if there are any.
    """
    by_id = {candidate.id: candidate for candidate in candidates}
    scorer = Scorer(by_id, weights, word_trust, empty_ids, tokens)
    scorer.score_matches(nearness)
    scorer.score_neighbours()
    for candidate in by_id.values():
        if candidate.kind == "event":
            scorer.score_turn(candidate, question)
        else:
            scorer.score_fact_date(candidate, question)
    scorer.score_sessions()
    if question.is_present:
        scorer.prefer_recent()
    scorer.inherit_turn_scores()
    scorer.replace_ended(now, is_past=question.is_past, is_present=question.is_present)
    return [ScoredMemory(id, score, scorer) for id, score in scorer.rank_scores()]


def deduplicate_memories(
    memories: Iterable[ScoredMemory], candidates: Mapping[str, SearchCandidate], brief: float = 0.0
) -> list[ScoredMemory]:
    """Keep the higher ranked of a fact and the turns it rests on; two facts of one turn are both kept.

    A turn gives its rank to a fact that says it about as well in fewer words. Otherwise the turn keeps the id of the
    best fact that it displaced, if that is near: the fact may say more than the turn does.

    Args:
        memories: best first.
        candidates: by id.
        brief: deviations below a turn up to which a fact of no words at all would take its rank; a fact of half as many
            words takes it up to half of that.
    """
    results: dict[str, ScoredMemory] = {}
    covered_ids: set[str] = set()
    for memory in memories:
        turn_ids = candidates[memory.id].turn_ids
        turns = [turn for turn in turn_ids if turn in results and results[turn].id == turn]
        if turns:
            best_turn = results[turns[0]]
            brevity = 1.0 - candidates[memory.id].text_length / max(1, candidates[best_turn.id].text_length)
            if best_turn.score - memory.score <= brief * brevity:
                results[turns[0]] = memory._replace(score=best_turn.score)
                covered_ids.update(turn_ids)
                continue
            for turn in turns:
                if results[turn].fact_id is None and results[turn].score - memory.score <= MAX_FACT_DISTANCE:
                    results[turn] = results[turn]._replace(fact_id=memory.id)
        elif memory.id not in covered_ids:
            results[memory.id] = memory
            covered_ids.update(turn_ids)
    return list(results.values())
