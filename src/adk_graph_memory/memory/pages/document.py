"""Show a memory in a notebook, or write it to one HTML file that opens without a server."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import html
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from adk_graph_memory import errors
from adk_graph_memory.consolidation.entity_resolution import OWNER_KEY
from adk_graph_memory.graph import inspection
from adk_graph_memory.graph.connection import UserGraph
from adk_graph_memory.language.text import format_count
from adk_graph_memory.memory.engine import UserContext
from adk_graph_memory.memory.listings import iterate_facts
from adk_graph_memory.memory.pages.renderer import FILE_BASE, STATIC_FOLDER, Answer, PageRenderer, load_templates
from adk_graph_memory.memory.profile.profiles import build_profile
from adk_graph_memory.memory.recall import FIRST_WAIT, recall_memories
from adk_graph_memory.records.facts import AsOf
from adk_graph_memory.records.inspection import InspectedEntity, InspectedTurn
from adk_graph_memory.records.results import StoredFact
from adk_graph_memory.records.scopes import Scope, check_count, check_text
from adk_graph_memory.runtime.private_files import open_private_file

_SHARED_TEXT = re.compile(r"""(>|=")([^<>"]{24,})(?=[<"])""")
"""A text or the value of an attribute that is long enough to be worth a number."""
_SCRIPT_END = re.compile(r"</(?=script)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MemoryView:
    """A user's memory as one HTML document; a notebook shows it in a frame."""

    html: str

    def save(self, path: str | Path) -> Path:
        """Write the document to a file that opens in any browser; only the file's owner can read it.

        Raises:
            errors.InvalidArgument: the file cannot be written.
        """
        file = Path(path)
        with open_private_file(file) as output:
            output.write(self.html)
        return file

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 42rem; border: 1px solid #d4dae0; border-radius: 6px"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(self.html)}"></iframe>'


def assemble_document(owner: Scope, pages: Mapping[str, str], start: str, note: str) -> MemoryView:
    """Assemble a document from rendered pages.

    Args:
        owner: whose memory it is.
        pages: the HTML of each page, by its address (``#/facts/…``).
        start: the address of the page that is shown first.
        note: stands at the top: of when the document is, and what it leaves out.
    """
    packed = base64.b64encode(gzip.compress(_pack_pages(pages).encode(), mtime=0)).decode()
    style = _read_static("inspector.css")
    scripts = [_read_static(name) for name in ("cytoscape.min.js", "inspector.js", "document.js")]
    scripts = [_SCRIPT_END.sub(r"<\\/", script) for script in scripts]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    template = load_templates().get_template("document.html")
    contents: dict[str, Any] = {"packed": packed, "style": style, "scripts": scripts, "policy": policy}
    contents |= {"has_answer": f"{FILE_BASE}/answer" in pages, "has_profile": f"{FILE_BASE}/" in pages}
    return MemoryView(template.render(contents, owner=owner, start=start, note=note, base=FILE_BASE))


def _pack_pages(pages: Mapping[str, str]) -> str:
    """Write pages as JSON, with texts and addresses that may stand in several once, and ``<n>`` in their place.

    Nothing from memory can look like that: in a page, its ``<`` is escaped.
    """
    numbers: dict[str, int] = {}

    def number_text(match: re.Match[str]) -> str:
        return f"{match[1]}<{numbers.setdefault(match[2], len(numbers))}>"

    shared = {address: _SHARED_TEXT.sub(number_text, page) for address, page in pages.items()}
    return json.dumps({"pages": shared, "texts": list(numbers)}, ensure_ascii=False)


def _read_static(name: str) -> str:
    return (STATIC_FOLDER / name).read_text("utf-8")


def _hash(text: str) -> str:
    """Hash a script or style as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


FACTS_PER_STATEMENT = 100
ENTITIES_AT_ONCE = 4
"""Entities that are read side by side."""
_LARGEST = 1_000_000

Progress = Callable[[int, int], None]
"""Is told how many pages are rendered, of how many facts and entities."""


async def show_memory(
    user: UserContext,
    *,
    question: str = "",
    about: str | None = None,
    limit: int | None = 100,
    progress: Progress | None = None,
) -> MemoryView:
    """Show a memory as the inspector does, in a document that needs neither server nor network.

    Raises:
        errors.ExtraMissing: Jinja2 is not installed (the extra ``inspect``).
        errors.NotFound: this user has no entity with the name ``about``.
        errors.InvalidArgument: the question or the name is not a string, or the limit is not a number.
    """
    _check_options(question, about, limit, progress)
    scope, graph = user.scope, user.graph
    renderer, pages = PageRenderer(scope, FILE_BASE), dict[str, str]()
    renderer.owner_name = await inspection.find_owner_name(graph, OWNER_KEY)
    if question:
        pages[renderer.format_url("answer")] = renderer.render_answer(await find_answer(user, question))
    more = None if limit is None else limit + 1  # tells whether the limit leaves any out
    listing = iterate_facts(graph, about=about, past=True, limit=more)
    facts = [fact async for fact in listing]
    if about is not None and not facts:
        raise errors.NotFound(what=f"fact about {about!r} of this user", where="`adk-graph-memory entities`")
    is_part, facts = about is not None or len(facts) == more, facts[:limit]
    if not is_part:
        profile = await build_profile(graph)
        pages[renderer.format_url()] = await asyncio.to_thread(renderer.render_profile, profile)
    collection = _Collection(graph, renderer, facts, is_part=is_part, progress=progress)
    async for path, page in collection.render_pages():
        pages[renderer.format_url(*path)] = page
    start = next(iter(pages)) if question or not is_part else renderer.format_url("facts")
    part = f" · a part of it, {format_count(len(facts), 'fact')}" if is_part else ""
    note = f"as of {datetime.now(UTC):%Y-%m-%d %H:%M} UTC{part}"
    return await asyncio.to_thread(assemble_document, scope, pages, start, note)


async def find_answer(user: UserContext, question: str, as_of: AsOf | None = None, *, day: str = "") -> Answer:
    """Search memory for a question, and for how each memory was found; ``day`` says in ISO 8601 as of when."""
    start = time.perf_counter()
    memories = await recall_memories(user, question, {"explain": True, "first_wait": FIRST_WAIT, "as_of": as_of})
    milliseconds = 1000 * (time.perf_counter() - start)
    paths = await inspection.fetch_paths(user.graph, memories)
    return Answer(question, memories, paths, milliseconds, day)


def _check_options(question: object, about: object, limit: object, progress: object) -> None:
    check_text("the question", question)
    if about is not None:
        check_text("the name", about)
    if limit is not None:
        check_count("limit", limit)
    if not (progress is None or callable(progress)):
        raise errors.InvalidArgument(reason=f"progress={progress!r} is no function of two numbers")


class _Collection:
    """Renders the pages of some facts, and of the entities and sessions that these name.

    Of a part of memory, these hold only the chosen facts, and the turns that stand on the facts' pages.
    """

    def __init__(
        self,
        graph: UserGraph,
        renderer: PageRenderer,
        facts: Sequence[StoredFact],
        *,
        is_part: bool,
        progress: Progress | None,
    ) -> None:
        self._graph, self._renderer = graph, renderer
        self._facts, self._is_part, self._progress = facts, is_part, progress or (lambda done, total: None)
        keys = (key for fact in facts for key in (fact.subject_key, fact.object_key) if key)
        self._keys, self._ids = [*dict.fromkeys(keys)], {fact.id for fact in facts}
        self._turns, self._done = set[tuple[str, str]](), 0

    async def render_pages(self) -> AsyncIterator[tuple[tuple[str, ...], str]]:
        """Yield each page with the parts of its address."""
        async for page in self._render_facts():
            yield page
        async for page in self._render_entities():
            yield page
        async for page in self._render_sessions():
            yield page

    async def _render_facts(self) -> AsyncIterator[tuple[tuple[str, ...], str]]:
        for start in range(0, len(self._facts), FACTS_PER_STATEMENT):
            ids = [fact.id for fact in self._facts[start : start + FACTS_PER_STATEMENT]]
            for details in await inspection.fetch_facts(self._graph, ids):
                self._turns.update((turn.session_id, turn.id) for turn in details.turns)
                yield ("facts", details.fact.id), await asyncio.to_thread(self._renderer.render_fact, details)
            self._report(len(ids))
        yield ("facts",), await asyncio.to_thread(self._renderer.render_facts, self._facts)

    async def _render_entities(self) -> AsyncIterator[tuple[tuple[str, ...], str]]:
        entities = []
        for start in range(0, len(self._keys), ENTITIES_AT_ONCE):
            keys = self._keys[start : start + ENTITIES_AT_ONCE]
            for details in await asyncio.gather(*map(self._fetch_entity, keys)):
                if details is not None:
                    entities.append(details.entity)
                    yield (
                        ("entities", details.entity.key),
                        await asyncio.to_thread(self._renderer.render_entity, details),
                    )
            self._report(len(keys))
        entities.sort(key=lambda entity: (-entity.facts, entity.name.lower(), entity.key))
        yield ("entities",), await asyncio.to_thread(self._renderer.render_entities, entities)

    async def _fetch_entity(self, key: str) -> InspectedEntity | None:
        """Fetch an entity, unless it went since its facts were listed."""
        try:
            details = await inspection.fetch_entity(self._graph, key, limit=_LARGEST)
        except errors.NotFound:
            return None
        if not self._is_part:
            return details
        links = tuple(fact for fact in details.links if fact.id in self._ids)
        named = {key for fact in links for key in (fact.subject_key, fact.object_key)}
        return replace(
            details,
            names=tuple(name if self._holds(name.turn) else replace(name, turn=None) for name in details.names),
            facts=tuple(fact for fact in details.facts if fact.id in self._ids),
            neighbours=tuple(entity for entity in details.neighbours if entity.key in named),
            links=links,
        )

    async def _render_sessions(self) -> AsyncIterator[tuple[tuple[str, ...], str]]:
        named = {session_id for session_id, _ in self._turns}
        listed = await inspection.fetch_sessions(self._graph, limit=_LARGEST)
        sessions = [session for session in listed if session.id in named]
        for session in sessions:
            turns = await inspection.fetch_session_turns(self._graph, session.id, limit=_LARGEST, uids=session.uids)
            if self._is_part:  # without the facts that were not chosen
                turns = [
                    replace(turn, quotes=tuple(quote for quote in turn.quotes if quote.fact.id in self._ids))
                    for turn in turns
                    if self._holds(turn)
                ]
            yield ("sessions", session.id), await asyncio.to_thread(self._renderer.render_session, session.id, turns)
        yield ("sessions",), self._renderer.render_sessions(sessions)

    def _holds(self, turn: InspectedTurn | None) -> bool:
        """Whether a turn stands on the page of a chosen fact."""
        return turn is not None and (turn.session_id, turn.id) in self._turns

    def _report(self, count: int) -> None:
        self._done += count
        self._progress(self._done, len(self._facts) + len(self._keys))
