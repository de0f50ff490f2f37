"""Render the pages of one user's memory from templates; whatever comes from memory is escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib import parse

from adk_graph_memory import errors
from adk_graph_memory.language.dates import compute_date_end, format_english_date
from adk_graph_memory.language.text import join_lines, shorten_text
from adk_graph_memory.records.history import HeldFact, Proposal
from adk_graph_memory.records.inspection import (
    FactQuote,
    FactReference,
    InspectedEntity,
    InspectedFact,
    InspectedTurn,
    MemoryPath,
    SessionSummary,
)
from adk_graph_memory.records.results import (
    ENDING_NOTES,
    SECTION_TITLES,
    Profile,
    Recollection,
    StoredEntity,
    StoredFact,
)
from adk_graph_memory.records.scopes import OWNER_NAME, Scope
from adk_graph_memory.records.turns import NO_SESSION, OWNER_SESSION, PROMOTED_SESSION, STATEMENT_SESSION

if TYPE_CHECKING:
    from jinja2 import Environment


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


def compute_anchor(turn_id: str) -> str:
    """Compute the anchor of a turn on its session's page, whatever characters the id has."""
    return f"turn-{blake2b(turn_id.encode(), digest_size=8).hexdigest()}"


def classify_type(type: str) -> str:
    """The class that an entity is drawn with."""
    return type.lower() if type and type.lower() in TYPES else "other"


def split_at_quotes(turn: InspectedTurn, fact: StoredFact | None = None) -> list[tuple[str, FactQuote | None]]:
    """Split a turn's text into pieces, each with the quote that it is, if any: of its own facts, or of one fact."""
    quotes = turn.quotes if fact is None else _list_quotes(turn, fact)
    pieces, place = list[tuple[str, FactQuote | None]](), 0
    found = filter(None, (_find_quote(turn.text, quote) for quote in quotes))
    for start, end, quote in sorted(found, key=itemgetter(0)):
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
    "anchor": compute_anchor,
    "count": lambda number: "–" if number is None else f"{number:,}",
    "day": format_day,
    "days": get_days,
    "first_day": get_first_day,
    "group_by_session": group_by_session,
    "ingests_of": list_ingests,
    "last_day": get_last_day,
    "ordinal_day": lambda day: format_day(EPOCH + timedelta(days=day)),
    "period": describe_period,
    "session_name": name_session,
    "shorten": lambda text: shorten_text(join_lines(text), _SHORT_CHARACTERS),
    "shorten_around": shorten_around,
    "split_at_quotes": split_at_quotes,
    "status_class": classify_status,
    "status_text": lambda fact: STATUS_TEXTS[classify_status(fact)],
    "type_class": classify_type,
    "words": separate_words,
}
_RINGS = ((11, 270, 130), (20, 480, 230), (28, 690, 330))
"""For each ring how many boxes it holds, and half its width and height; a box is at most 150 wide and 50 high."""
_LAST_DAY = 9_999_999
"""The day that stands for infinity, which JSON does not know."""
_LINK_PREFIXES: Mapping[str, str] = {
    "negated": "not ",
    "planned": "planned: ",
    "hypothetical": "maybe ",
    "reported": "hearsay: ",
}


@dataclass(frozen=True, slots=True)
class TimeScale:
    """An axis of days, counted from 1970, from the first day of some facts to today or the last day that is planned."""

    first: int
    last: int
    today: int

    @classmethod
    def from_facts(cls, facts: Iterable[StoredFact]) -> TimeScale:
        """Make the axis on which all of these facts have a place."""
        today = count_days(datetime.now(UTC))
        periods = [get_days(fact) for fact in facts]
        first = min((int(start) for start, _ in periods), default=today)
        starts = max((int(start) for start, _ in periods), default=today)
        return cls(min(first, today), max(starts, today), today)

    @property
    def has_width(self) -> bool:
        """Whether there is more than one day to choose from."""
        return self.last > self.first

    def place(self, fact: StoredFact) -> tuple[float, float]:
        """Place a fact on the axis: from where to where, in percent."""
        width = max(self.last - self.first, 1)
        start, end = (100 * (min(day, self.last) - self.first) / width for day in get_days(fact))
        return min(start, 99.0), end


def group_facts(facts: Sequence[StoredFact]) -> list[tuple[str, list[StoredFact]]]:
    """Group facts by whether they are so now; in a group, those of one subject and predicate stand in order of time."""
    groups = []
    for status, title in STATUS_TEXTS.items():
        group = [fact for fact in facts if classify_status(fact) == status]
        latest: dict[tuple[str, str], float] = {}
        for fact in group:
            slot = fact.subject_key or "", fact.predicate
            latest[slot] = max(latest.get(slot, float("-inf")), get_days(fact)[0])
        group.sort(key=lambda fact: _rank_fact(fact, latest))
        if group:
            groups.append((f"{title[:1].upper()}{title[1:]}", group))
    return groups


def _rank_fact(fact: StoredFact, latest: dict[tuple[str, str], float]) -> tuple[float, str, str, float]:
    slot = fact.subject_key or "", fact.predicate
    return -latest[slot], *slot, -get_days(fact)[0]


def build_graph_elements(details: InspectedEntity, format_url: Callable[..., str]) -> list[dict[str, Any]]:
    """Build what Cytoscape draws: a node for each entity, and an arrow for all facts from one of them to another."""
    center = details.entity.key
    places = _place_in_rings(details.neighbours)
    nodes = [
        {
            "data": {
                "id": entity.key,
                "name": entity.display_name,
                "type": classify_type(entity.type),
                "path": format_url("entities", entity.key) if entity.key != center else None,
            },
            "classes": "center" if entity.key == center else "",
            "position": {"x": x, "y": y},
        }
        for entity, (x, y) in ((details.entity, (0.0, 0.0)), *places)
    ]
    known = {center, *(entity.key for entity in details.neighbours)}
    arrows: dict[tuple[str, str], list[StoredFact]] = {}
    for fact in details.links:
        source, target = fact.subject_key, fact.object_key
        if source in known and target in known and source and target and source != target:
            arrows.setdefault((source, target), []).append(fact)
    return nodes + [_describe_arrow(*ends, facts, format_url) for ends, facts in arrows.items()]


def _place_in_rings(entities: Sequence[StoredEntity]) -> list[tuple[StoredEntity, tuple[float, float]]]:
    """Place entities on ellipses around a center, so wide that no two boxes touch, those of one type side by side."""
    places, rest = list[tuple[StoredEntity, tuple[float, float]]](), list(entities)
    for number, (size, width, height) in enumerate(_RINGS):
        ring, rest = rest[:size], rest[size:]
        ring.sort(key=lambda entity: (classify_type(entity.type), entity.name))
        for place, entity in enumerate(ring):
            angle = 2 * math.pi * (place + number / 2) / len(ring)
            places.append((entity, (round(width * math.sin(angle), 1), round(-height * math.cos(angle), 1))))
    return places


def _describe_arrow(
    source: str, target: str, facts: Sequence[StoredFact], format_url: Callable[..., str]
) -> dict[str, Any]:
    """Describe an arrow that says what its facts say, each from one day until another; not solid if none is so."""
    periods = [
        (word_link(fact), *(min(day, _LAST_DAY) for day in get_days(fact)), fact.modality == "asserted")
        for fact in facts
    ]
    modalities = {fact.modality for fact in facts if fact.holds}
    return {
        "data": {
            "id": f"{source} {target}",
            "source": source,
            "target": target,
            "periods": periods,
            "label": ", ".join(dict.fromkeys(word_link(fact) for fact in facts if fact.holds)),
            "path": format_url("facts", facts[0].id) if len(facts) == 1 else None,
        },
        "classes": "over" if not modalities else "" if "asserted" in modalities else "unreal",
    }


def word_link(fact: StoredFact) -> str:
    """Word what a fact says of its subject and object, such as "not allergic to": a drawing shows no sentence."""
    return f"{_LINK_PREFIXES.get(fact.modality, '')}{separate_words(fact.predicate)}"


STATIC_FOLDER = Path(__file__).parent / "static"
"""Style, script, and the libraries that these use, with their licences."""


@cache
def load_templates() -> Environment:
    """Load the templates.

    Raises:
        errors.ExtraMissing: Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise errors.ExtraMissing(what="A page of memory", extra="inspect", reason=error) from error
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    environment.globals.update(
        ending_notes=ENDING_NOTES,
        infinity=float("inf"),
        operations=OPERATION_NAMES,
        signals=SIGNAL_NAMES,
    )
    return environment


FILE_BASE = "#"
"""What the address of a page begins with in a file of many pages."""
FOLDED_AFTER = 10
"""Memories that an answer shows at once; a prompt gets all of them."""


class Page(NamedTuple):
    """A page of a list, whether another one follows, and what else its address says (``name=Rex&``)."""

    number: int
    has_next: bool
    query: str = ""


ONLY_PAGE = Page(1, has_next=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search returned, and how long it took; ``as_of`` is a day in ISO 8601, or empty."""

    question: str
    memories: Sequence[Recollection]
    paths: Mapping[tuple[str, str], MemoryPath]
    milliseconds: float
    as_of: str = ""


class PageRenderer:
    """Renders the pages of one user's memory.

    Args:
        owner: whose memory it is.
        base: what each address begins with: the path under which a server has the pages, or :data:`FILE_BASE`.
        write_token: lets the page change memory; None for a page that only shows it.
    """

    def __init__(self, owner: Scope, base: str, write_token: str | None = None) -> None:
        is_file = base == FILE_BASE
        self._context = {
            "is_file": is_file,
            "layout": "main.html" if is_file else "page.html",
            "display_name": self.display_name,
            "owner": owner,
            "turn_url": self.format_turn_url,
            "url": self.format_url,
            "view": "",
            "write_token": write_token,
        }
        self._base = base
        self.owner_name = OWNER_NAME
        """what the pages call the owner, whom memory calls ``user``"""

    def display_name(self, name: str) -> str:
        """What to call an author or an entity on a page."""
        return self.owner_name if name == OWNER_NAME else name

    def format_url(self, *parts: str) -> str:
        """Format the address of a page: its parts are escaped, whatever they hold."""
        return f"{self._base}/{'/'.join(parse.quote(part, safe='') for part in parts)}"

    def format_turn_url(self, session_id: str, turn_id: str) -> str:
        """Format the address of a turn on its session's page; a server finds out which of several pages."""
        query = "" if self._base == FILE_BASE else f"?turn={parse.quote(turn_id, safe='')}"
        return f"{self.format_url('sessions', session_id)}{query}#{compute_anchor(turn_id)}"

    def render_answer(self, answer: Answer) -> str:
        """Render the memories that answer a question, and why each was found."""
        shares = [share for memory in answer.memories for share in memory.shares]
        return self.render(
            "ask.html",
            view="ask",
            question=answer.question,
            as_of=answer.as_of,
            memories=answer.memories,
            paths=answer.paths,
            milliseconds=answer.milliseconds,
            folded_after=FOLDED_AFTER,
            degraded=next((memory.degraded for memory in answer.memories if memory.degraded), None),
            largest_share=max((abs(share.amount) for share in shares), default=0.0),
        )

    def render_profile(self, profile: Profile) -> str:
        """Render what memory always keeps in mind."""
        groups = groupby(profile.items, lambda item: item.section)
        sections = [(SECTION_TITLES[section], list(items)) for section, items in groups]
        return self.render("ask.html", view="ask", question="", as_of="", sections=sections)

    def render_fact(self, details: InspectedFact, page: Page = ONLY_PAGE, shown: float = math.inf) -> str:
        """Render a fact: its words in their conversation, its history, and the facts next to it.

        Args:
            details: the fact with a page of what lies around it.
            page: which page.
            shown: how many of each kind stand on this page and those before it.
        """
        return self.render("fact.html", details=details, page=page, shown=shown)

    def render_facts(self, facts: Sequence[StoredFact], *, has_more: bool = False) -> str:
        """Render a list of facts, or a page of one that has more."""
        return self.render("facts.html", view="facts", facts=facts, has_more=has_more)

    def render_entities(self, entities: Sequence[StoredEntity], name: str = "", page: Page = ONLY_PAGE) -> str:
        """Render a list of people and things."""
        return self.render("entities.html", view="entities", entities=entities, name=name, page=page)

    def render_entity(self, details: InspectedEntity, page: Page = ONLY_PAGE) -> str:
        """Render an entity: its names, what is known of it and since when, and whom it is connected with."""
        return self.render(
            "entity.html",
            view="entities",
            details=details,
            groups=group_facts(details.facts),
            scale=TimeScale.from_facts(details.facts),
            elements=build_graph_elements(details, self.format_url),
            types=sorted({classify_type(entity.type) for entity in (details.entity, *details.neighbours)}),
            page=page,
        )

    def render_sessions(
        self,
        sessions: Sequence[SessionSummary],
        pending: Sequence[Any] = (),
        costs: Sequence[Any] = (),
        page: Page = ONLY_PAGE,
    ) -> str:
        """Render a list of conversations, with what waits to be read and what reading cost."""
        return self.render("sessions.html", view="sessions", sessions=sessions, pending=pending, costs=costs, page=page)

    def render_session(self, session_id: str, turns: Sequence[InspectedTurn], page: Page = ONLY_PAGE) -> str:
        """Render a conversation with what was read from each turn."""
        return self.render("session.html", view="sessions", session_id=session_id, turns=turns, page=page)

    def render_review(self, proposals: Sequence[Proposal], held_facts: Sequence[HeldFact]) -> str:
        """Render what waits for the owner to decide."""
        return self.render("review.html", view="review", proposals=proposals, held_facts=held_facts)

    def render(self, template: str, **context: Any) -> str:
        """Render a template with what it shows; half a character, as metadata may hold, becomes a question mark.

        Raises:
            errors.ExtraMissing: Jinja2 is not installed.
        """
        page = load_templates().get_template(template).render(self._context | context)
        return page.encode(errors="replace").decode()
