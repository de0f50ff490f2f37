"""Word what templates show: dates, states, names of signals, and texts cut or split at the words that count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from adk_graph_memory.language.wording import join_lines, shorten_text
from adk_graph_memory.records import StoredFact
from adk_graph_memory.records.dates import compute_date_end, format_english_date
from adk_graph_memory.records.inspection import FactQuote, FactReference, InspectedTurn
from adk_graph_memory.records.results import ENDING_NOTES
from adk_graph_memory.records.turns import NO_SESSION, OWNER_SESSION, PROMOTED_SESSION, STATEMENT_SESSION

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TYPES = frozenset(("person", "place", "organization", "animal", "event"))
"""Types of entities with a color of their own."""
STATUS_TEXTS: Mapping[str, str] = {
    "holds": "so now",
    "planned": "planned",
    "lapsed": "was planned; nothing heard of it since",
    "happened": "happened",
    "over": "no longer so",
    "never": ENDING_NOTES["retracted"],
}
SIGNAL_NAMES: Mapping[str, str] = {
    "text": "words in common",
    "vector": "near in meaning",
    "tokens": "near in meaning, word by word",
    "fact": "a fact from it is near",
    "entity": "about somebody the question names",
    "author": "said by the person asked about",
    "agent": "said by an agent",
    "answer": "follows a turn that fits",
    "before": "precedes a turn that fits",
    "session": "the rest of the conversation fits",
    "date": "of the time that the question names",
    "question": "itself a question",
    "recent": "the latest of several alike",
    "ending": "no longer holds",
    "others": "about somebody else’s",
    "successor": "replaced what was found",
    "turn": "stands for its turn",
    "manner": "not plainly the speaker’s own words",
}
OPERATION_NAMES: Mapping[str, str] = {
    "REFINE": "reworded",
    "REINFORCE": "confirmed",
    "SUPERSEDE": "ended",
    "RETRACT": "taken back",
    "REOPEN": "open again",
}
_SESSION_NAMES: Mapping[str, str] = {
    NO_SESSION: "Said in no conversation",
    OWNER_SESSION: "What you said about this memory",
    STATEMENT_SESSION: "Added directly",
}
_SHORT_CHARACTERS = 90


def classify_status(fact: StoredFact) -> str:
    """The class that a fact is drawn with: its status, or ``never`` if it was never true."""
    return "never" if fact.state == "retracted" else fact.status


def describe_status(fact: StoredFact) -> str:
    """Say in words whether a fact is so now."""
    return STATUS_TEXTS[classify_status(fact)]


def describe_period(fact: StoredFact) -> str:
    """Say from when until when a fact holds, as far as is known; empty if neither is, or if it never held."""
    if fact.state == "retracted":
        return ""
    start = fact.valid_from and format_english_date(fact.valid_from, fact.valid_from_precision)
    end = fact.valid_to and format_english_date(fact.valid_to, fact.valid_to_precision, is_end=True)
    if start and start == end:
        return start
    if fact.modality == "planned" and start:
        return f"for {start}"
    return " ".join([f"since {start}"] * bool(start) + [f"until {end}"] * bool(end))


def get_first_day(fact: StoredFact) -> str:
    """The first day of a fact, for a form; empty if it is unknown."""
    return fact.valid_from.date().isoformat() if fact.valid_from else ""


def get_last_day(fact: StoredFact) -> str:
    """The last day of a fact, for a form; empty if it is open."""
    return (fact.valid_to - timedelta(microseconds=1)).date().isoformat() if fact.valid_to else ""


def format_day(moment: datetime) -> str:
    """Format the day of a moment, in the moment's own zone."""
    return format_english_date(moment, "day")


def format_ordinal_day(day: int) -> str:
    """Format a day that is counted from 1970."""
    return format_day(EPOCH + timedelta(days=day))


def count_days(moment: datetime) -> int:
    """The days from 1970 to a moment's day, in its own zone."""
    return moment.date().toordinal() - EPOCH.date().toordinal()


def get_days(fact: StoredFact) -> tuple[float, float]:
    """From when until when a fact held, in days from 1970; without a first day it began when it was said.

    A plan stands until its day is over; of what is over without a day, nothing more is known than its beginning.
    """
    start = count_days(fact.valid_from or fact.at)
    end = fact.valid_to
    if end is None and fact.modality == "planned" and fact.valid_from is not None:
        end = compute_date_end(fact.valid_from, fact.valid_from_precision)
    if end is not None and fact.state != "retracted":
        last = end - timedelta(microseconds=1)  # what holds until a day begins held on the day before
        return start, max(count_days(last) + 1, start)
    return start, float("inf") if fact.status in ("holds", "planned") else start


def shorten(text: str) -> str:
    """Cut a text to one line."""
    return shorten_text(join_lines(text), _SHORT_CHARACTERS)


def shorten_around(text: str, name: str) -> str:
    """Cut a text to what stands around a name."""
    line = join_lines(text)
    at = max(line.casefold().find(name.casefold()), 0)
    start, end = max(at - _SHORT_CHARACTERS // 2, 0), at + len(name) + _SHORT_CHARACTERS // 2
    before, after = line[start:at], line[at:end]
    before = f"… {before.partition(' ')[2]}" if start else before
    return before + (f"{after.rpartition(' ')[0] or after} …" if end < len(line) else after)


def separate_words(predicate: str) -> str:
    """Word a predicate: ``lives_in`` becomes "lives in"."""
    return predicate.replace("_", " ")


def name_session(id: str) -> str:
    """Name a session: by its id, or by what memory itself uses the id for."""
    return "Promoted facts" if id.startswith(PROMOTED_SESSION) else _SESSION_NAMES.get(id, id)


def make_anchor(turn_id: str) -> str:
    """Make the anchor of a turn on its session's page, whatever characters the id has."""
    return f"turn-{blake2b(turn_id.encode(), digest_size=8).hexdigest()}"


def classify_type(type: str) -> str:
    """The class that an entity is drawn with."""
    return type.lower() if type and type.lower() in TYPES else "other"


def split_at_quotes(turn: InspectedTurn, fact: StoredFact | None = None) -> list[tuple[str, FactQuote | None]]:
    """Split a turn's text into pieces, each with the quote that it is, if any: of its own facts, or of one fact."""
    quotes = turn.quotes if fact is None else _list_quotes(turn, fact)
    pieces, place = list[tuple[str, FactQuote | None]](), 0
    for start, end, quote in sorted(filter(None, (_find_quote(turn.text, quote) for quote in quotes)), key=_get_start):
        if start >= place:
            pieces += [(turn.text[place:start], None), (turn.text[start:end], quote)]
            place = end
    pieces.append((turn.text[place:], None))
    return [(text, quote) for text, quote in pieces if text]


def _list_quotes(turn: InspectedTurn, fact: StoredFact) -> list[FactQuote]:
    reference = FactReference(fact.id, fact.text, fact.state)
    return [
        FactQuote(reference, source.quote, source.start, source.end)
        for source in fact.sources
        if (source.turn_id, source.session_id) == (turn.id, turn.session_id) and source.is_verified
    ]


def _find_quote(text: str, quote: FactQuote) -> tuple[int, int, FactQuote] | None:
    """Find a quote where it is said to stand or, if the turn was edited, anywhere."""
    if not quote.quote:
        return None
    start = quote.start if text[quote.start : quote.end] == quote.quote else text.find(quote.quote)
    return None if start < 0 else (start, start + len(quote.quote), quote)


def _get_start(piece: tuple[int, int, FactQuote]) -> int:
    return piece[0]


def list_ingests(turns: Iterable[InspectedTurn], fact: StoredFact) -> list[str]:
    """List the requests in which the words were read that a fact rests on."""
    sources = {(source.turn_id, source.session_id) for source in fact.sources}
    ids = (turn.ingest_id for turn in turns if (turn.id, turn.session_id) in sources)
    return [*dict.fromkeys(id for id in ids if id)]


def group_by_session(turns: Iterable[InspectedTurn]) -> list[tuple[str, list[InspectedTurn]]]:
    """Group turns by their sessions, in the order in which these come."""
    groups: dict[str, list[InspectedTurn]] = {}
    for turn in turns:
        groups.setdefault(turn.session_id, []).append(turn)
    return list(groups.items())


FILTERS: Mapping[str, Callable[..., Any]] = {
    "anchor": make_anchor,
    "day": format_day,
    "days": get_days,
    "first_day": get_first_day,
    "group_by_session": group_by_session,
    "ingests_of": list_ingests,
    "last_day": get_last_day,
    "ordinal_day": format_ordinal_day,
    "period": describe_period,
    "session_name": name_session,
    "shorten": shorten,
    "shorten_around": shorten_around,
    "split_at_quotes": split_at_quotes,
    "status_class": classify_status,
    "status_text": describe_status,
    "type_class": classify_type,
    "words": separate_words,
}
