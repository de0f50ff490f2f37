"""Render one page of a user's memory from its template; whatever comes from memory is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib import parse

from adk_graph_memory import errors
from adk_graph_memory.html_pages import entity_view, filters
from adk_graph_memory.records import Profile, Recollection, Scope, StoredEntity, StoredFact
from adk_graph_memory.records.guard import HeldFact
from adk_graph_memory.records.inspection import (
    InspectedEntity,
    InspectedFact,
    InspectedTurn,
    MemoryPath,
    SessionSummary,
)
from adk_graph_memory.records.profile import SECTION_TITLES
from adk_graph_memory.records.proposals import Proposal
from adk_graph_memory.records.results import ENDING_NOTES
from adk_graph_memory.records.scopes import OWNER_NAME

if TYPE_CHECKING:
    from jinja2 import Environment

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
    environment.filters.update(filters.FILTERS)
    environment.globals.update(
        ending_notes=ENDING_NOTES,
        infinity=float("inf"),
        operations=filters.OPERATION_NAMES,
        signals=filters.SIGNAL_NAMES,
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
            "turn_url": self.make_turn_url,
            "url": self.make_url,
            "view": "",
            "write_token": write_token,
        }
        self._base = base
        self.owner_name = OWNER_NAME
        """what the pages call the owner, whom memory calls ``user``"""

    def display_name(self, name: str) -> str:
        """What to call an author or an entity on a page."""
        return self.owner_name if name == OWNER_NAME else name

    def make_url(self, *parts: str) -> str:
        """Make the address of a page: its parts are escaped, whatever they hold."""
        return f"{self._base}/{'/'.join(parse.quote(part, safe='') for part in parts)}"

    def make_turn_url(self, session_id: str, turn_id: str) -> str:
        """Make the address of a turn on its session's page; a server finds out which of several pages."""
        query = "" if self._base == FILE_BASE else f"?turn={parse.quote(turn_id, safe='')}"
        return f"{self.make_url('sessions', session_id)}{query}#{filters.make_anchor(turn_id)}"

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

    def render_fact(self, details: InspectedFact) -> str:
        """Render a fact: its words in their conversation, its history, and the facts next to it."""
        return self.render("fact.html", details=details)

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
            groups=entity_view.group_facts(details.facts),
            scale=entity_view.TimeScale.from_facts(details.facts),
            elements=entity_view.make_graph_elements(details, self.make_url),
            types=entity_view.list_types(details),
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
        """Render a template with what it shows.

        Raises:
            errors.ExtraMissing: Jinja2 is not installed.
        """
        return load_templates().get_template(template).render(self._context | context)
