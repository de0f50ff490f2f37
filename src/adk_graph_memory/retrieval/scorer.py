"""Candidates go in; what each signal adds to each of them comes out, whoever else was found.

All is counted in deviations: how much nearer to the question a memory is than this user's memories are as a rule.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Mapping, Set

from adk_graph_memory.records import Share
from adk_graph_memory.retrieval.nearness import Nearness
from adk_graph_memory.retrieval.question import ParsedQuestion
from adk_graph_memory.retrieval.search_candidates import SearchCandidate
from adk_graph_memory.retrieval.weights import Weights

_BEST_TEXT_DEVIATIONS = 3.0
_BEST_TEXT_COUNT = 20
"""Deviations that the mean of so many best scores by text counts as: Lucene's have no scale of their own."""
_MAX_TEXT_DEVIATIONS = 8.0
"""Deviations that the best match by text may count as: a single rare word does not decide alone."""
_SHORT_CHARACTERS, _VERY_SHORT_CHARACTERS = 480, 170
"""Characters (about 80 and 30 words) up to which a turn lends to its neighbours, and a question says little."""
_HALF_NAME_SCORE = 4.0
"""Lucene's score of a name that counts as one half."""
_MAX_SIMILAR_TURNS, _SIMILAR_SHARE = 6, 0.5
"""How many of the best turns may be about the same thing, and the share of the best one's own score that tells so."""
_TIE_BREAK = 0.01
"""What puts a fact before the turn that it stands for."""
_NEAR_SHARE = 0.75
"""Share of the best fact's own score from which what ended of a turn may be what is asked."""


class Scorer:
    """The shares of every candidate so far."""

    def __init__(
        self, found: Mapping[str, SearchCandidate], weights: Weights, gate: float, empty: Set[str] = frozenset()
    ) -> None:
        self._candidates, self._weights, self._word_trust, self._empty_ids = found, weights, gate, empty
        self._nonempty_candidates = {id: one for id, one in found.items() if id not in empty}
        self._shares: dict[str, dict[str, float]] = {id: {} for id in found}
        self._through_ids: dict[str, dict[str, str]] = defaultdict(dict)
        self._totals = dict.fromkeys(found, 0.0)
        self._own_scores: dict[str, float] = {}
        self._similar_turns: frozenset[str] = frozenset()
        self._ended_ids: set[str] = set()
        self._facts_by_turn: dict[str, list[str]] = defaultdict(list)
        for one in found.values():
            for source in one.turn_ids:
                self._facts_by_turn[source].append(one.id)

    def _add_share(self, id: str, signal: str, amount: float, through: str | None = None) -> None:
        if amount and (shares := self._shares.get(id)) is not None:
            shares[signal] = shares.get(signal, 0.0) + amount
            self._totals[id] += amount
            if through is not None:
                self._through_ids[signal].setdefault(id, through)

    def score_matches(self, nearness: Mapping[str, Nearness]) -> None:
        """What a memory's own words, vector and tokens say, and of a turn what its facts' do."""
        weights, found = self._weights, self._candidates
        by_text = sorted(
            (one.text_score for one in self._nonempty_candidates.values() if one.text_score is not None), reverse=True
        )
        scale = (
            sum(by_text[:_BEST_TEXT_COUNT]) / max(1, min(_BEST_TEXT_COUNT, len(by_text))) / _BEST_TEXT_DEVIATIONS or 1.0
        )
        near = {id: one.combine_scores(weights.tokens) for id, one in nearness.items()}
        for id, one in found.items():
            shares = self._shares[id]
            if one.text_score is not None:
                shares["text"] = (
                    self._word_trust
                    * weights.text
                    * _MAX_TEXT_DEVIATIONS
                    * math.tanh(one.text_score / scale / _MAX_TEXT_DEVIATIONS)
                )
            if id in near:
                by_tokens = (
                    weights.tokens * (nearness[id].tokens or 0.0) if nearness[id].vector is not None else near[id]
                )
                shares["tokens"] = weights.vector * by_tokens
                shares["vector"] = weights.vector * (near[id] - by_tokens)
            if one.entity_score is not None:
                shares["named"] = (
                    self._word_trust * weights.named * one.entity_score / (one.entity_score + _HALF_NAME_SCORE)
                )
            if facts := [fact for fact in self._facts_by_turn.get(id, ()) if fact in near]:
                best = max(facts, key=lambda fact: (near[fact], fact))
                shares["fact"] = weights.fact * near[best]
                self._through_ids["fact"][id] = best
            self._totals[id] = sum(shares.values())
        self._own_scores = {id: max(0.0, total) for id, total in self._totals.items()}

    def score_neighbours(self) -> None:
        """What a turn lends to its neighbours; in long ones too much else is said."""
        weights, found, own = self._weights, self._candidates, self._own_scores
        for id, one in found.items():
            later = found.get(one.next_turn_id or "")
            if later is None or one.text_length > _SHORT_CHARACTERS or later.text_length > _SHORT_CHARACTERS:
                continue
            if one.has_question:
                self._add_share(later.id, "answer", self._word_trust * weights.answer * own[id], id)
            third = found.get(later.next_turn_id or "")
            for after, share in ((later, 1.0), (third, 1 / 3)):
                if after is not None and after.text_length <= _SHORT_CHARACTERS and after.id not in self._empty_ids:
                    self._add_share(id, "before", self._word_trust * weights.before * share * own[after.id], after.id)

    def score_turn(self, one: SearchCandidate, asked: ParsedQuestion) -> None:
        """What a turn's author, time and form say."""
        weights, gate = self._weights, self._word_trust
        if asked.author is not None:
            self._add_share(one.id, "author", weights.author * (one.author == asked.author))
        elif one.role == "model" and not (asked.is_to_agent or asked.is_about_third_party):
            self._add_share(one.id, "agent", weights.agent)
        if asked.time_spans:
            self._add_share(one.id, "date", gate * weights.date * asked.score_timestamp(one.timestamp))
        if one.short_text is not None and asked.is_about_others(one.short_text):
            self._add_share(one.id, "others", gate * weights.others)
        if one.manner is not None:
            self._add_share(one.id, "manner", weights.manner)
        if one.has_final_question and one.text_length <= _VERY_SHORT_CHARACTERS:
            self._add_share(one.id, "asks", gate * weights.asks)

    def score_fact_date(self, fact: SearchCandidate, asked: ParsedQuestion) -> None:
        """What is no longer so answers a question about the time when it was."""
        if fact.state == "superseded" and asked.has_overlapping_time(fact.valid_from, fact.valid_to):
            self._add_share(fact.id, "date", self._word_trust * self._weights.date)

    def score_sessions(self) -> None:
        """How well a turn's session fits: its best turn, beside those of all sessions that were found."""
        best: dict[str, float] = defaultdict(float)
        for id, one in self._nonempty_candidates.items():
            if one.kind == "event" and one.session_id is not None:
                best[one.session_id] = max(best[one.session_id], self._own_scores[id])
        if len(best) < 2:
            return
        mean = sum(best.values()) / len(best)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in best.values()) / len(best)) or 1.0
        for id, one in self._nonempty_candidates.items():
            if one.kind == "event" and one.session_id is not None and one.text_length <= _SHORT_CHARACTERS:
                fit = (best[one.session_id] - mean) / deviation
                self._add_share(id, "session", self._word_trust * self._weights.session * fit)

    def prefer_recent(self) -> None:
        """Of the few turns that fit about as well as the best, the later one is likelier to hold still."""
        turns = [id for id, one in self._nonempty_candidates.items() if one.kind == "event"]
        best = heapq.nlargest(
            _MAX_SIMILAR_TURNS, turns, key=lambda id: (self._own_scores[id], self._candidates[id].timestamp, id)
        )
        alike = [id for id in best if self._own_scores[id] >= _SIMILAR_SHARE * self._own_scores[best[0]]]
        self._similar_turns = frozenset(alike)
        times = sorted(self._candidates[id].timestamp for id in alike)
        for id in alike if len(alike) > 1 else ():
            later_than = times.index(self._candidates[id].timestamp) / (len(times) - 1)
            self._add_share(id, "recent", self._weights.recent * later_than)

    def inherit_turn_scores(self) -> None:
        """A fact stands where its best turn does, nearer or farther by its own words."""
        by_words = {"text", "vector", "tokens", "fact"}
        for id, one in self._candidates.items():
            turns = [source for source in one.turn_ids if source in self._candidates]
            if one.kind == "fact" and turns:
                best = max(turns, key=lambda turn: (self._totals[turn], turn)) if len(turns) > 1 else turns[0]
                for signal, amount in self._shares[best].items():
                    if signal not in by_words:
                        self._add_share(id, signal, amount, best)

    def replace_ended(self, now: float, *, is_past: bool, is_present: bool = False) -> None:
        """What is no longer so gives its place to what is; the words that said it stand behind, unless that is asked.

        What took the place of a turn is later than it, which counts where the latest is asked for.
        Of a turn that says several things, what is nearest to the question counts. If that holds, it stands for the
        turn. What was never true is over whatever is asked.
        """
        retracted = {id for id, one in self._candidates.items() if one.state == "retracted"}
        over = retracted if is_past else {id for id, one in self._candidates.items() if _has_ended(one, now)}
        turns = {source for id in over for source in self._candidates[id].turn_ids if source in self._totals}
        nearest = {turn: max(self._facts_by_turn[turn], key=lambda id: (self._own_scores[id], id)) for turn in turns}
        ended = {turn for turn in turns if self._is_turn_outdated(turn, over)}
        for id in sorted(over):
            told = [
                turn
                for turn in ended.intersection(self._candidates[id].turn_ids)
                if self._is_nearest_fact(id, turn, over)
            ]
            place = max(
                [
                    self._totals[id],
                    *(self._totals[turn] + is_present * self._compute_recency_gain(turn) for turn in told),
                ]
            )
            for later in (set(self._candidates[id].successor_ids or ()) & self._totals.keys()) - over:
                with_own = place + self._weights.successor * self._own_scores[later]
                self._add_share(later, "replaces", max(0.0, with_own - self._totals[later]), id)
        for turn in sorted(turns):
            fact = nearest[turn]
            if turn in ended:
                self._add_share(turn, "ended", self._weights.ended, fact)
            elif fact not in over:
                self._add_share(fact, "holds", max(0.0, self._totals[turn] + _TIE_BREAK - self._totals[fact]), turn)
        self._ended_ids.update(over)

    def _is_nearest_fact(self, fact: str, turn: str, over: Set[str]) -> bool:
        """Whether of what ended of a turn nothing is nearer to the question: its successor takes the turn's place."""
        return self._own_scores[fact] >= max(
            self._own_scores[other] for other in self._facts_by_turn[turn] if other in over
        )

    def _compute_recency_gain(self, turn: str) -> float:
        """What a turn that fits about as well as the best would have beyond its own score if it were the latest."""
        return (turn in self._similar_turns) * max(0.0, self._weights.recent - self._shares[turn].get("recent", 0.0))

    def _is_turn_outdated(self, turn: str, over: Set[str]) -> bool:
        """Whether nothing holds of what a turn says, or not of what it says to the question."""
        facts = self._facts_by_turn[turn]
        ended = [fact for fact in facts if fact in over]
        nearest = max(self._own_scores[fact] for fact in ended)
        is_asked = nearest >= _NEAR_SHARE * max(self._own_scores[fact] for fact in facts) and nearest > 0.0
        return is_asked or len(ended) >= self._candidates[turn].fact_count

    def rank_scores(self) -> list[tuple[str, float]]:
        """Ids and scores of what still holds, best first."""
        return sorted(
            (
                (id, score)
                for id, score in self._totals.items()
                if id not in self._ended_ids and id not in self._empty_ids
            ),
            key=lambda one: (-one[1], one[0]),
        )

    def list_shares(self, id: str) -> tuple[Share, ...]:
        """What a candidate's score is made of, the greatest first."""
        shares = [
            Share(signal, amount, self._through_ids[signal].get(id))
            for signal, amount in self._shares[id].items()
            if amount
        ]
        return tuple(sorted(shares, key=lambda share: -abs(share.amount)))


def _has_ended(one: SearchCandidate, now: float) -> bool:
    """Whether it was taken back, or another took its place; one that ended at its own time still tells what was."""
    return one.state == "retracted" or (one.state == "superseded" and (one.valid_to is None or one.valid_to <= now))
