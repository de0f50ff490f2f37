"""Show a memory in a notebook, or put it into one file to send."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime

from adk_graph_memory import errors, graph
from adk_graph_memory.html_pages import FILE_BASE, Answer, MemoryView, PageRenderer, make_document
from adk_graph_memory.listings import Listings
from adk_graph_memory.profiles import Profiles
from adk_graph_memory.records import Recollection, Scope, StoredFact

FACTS_PER_STATEMENT, TURNS_PER_STATEMENT = 100, 500
ENTITIES_AT_ONCE = 4
"""Entities that are read side by side."""
_LARGEST = 1_000_000

Progress = Callable[[int, int], None]
"""Is told how many pages are rendered, of how many facts and entities."""


class Showing(Profiles, Listings):
    """What shows a memory; :class:`adk_graph_memory.GraphMemory` does."""

    connection: graph.Connection

    async def recall(self, query: str, *, app_name: str, user_id: str, explain: bool = False) -> list[Recollection]:
        """Return the memories that fit the question."""
        raise NotImplementedError

    async def show(
        self,
        *,
        app_name: str,
        user_id: str,
        question: str = "",
        about: str | None = None,
        limit: int | None = 100,
        progress: Progress | None = None,
    ) -> MemoryView:
        """Show what memory holds of a user, as the inspector does, in a document that needs neither server nor network.

        A notebook shows the result; ``save`` writes it to a file. It holds no vectors, and nothing of another user.

        Args:
            app_name, user_id: whose memory it is.
            question: show first which memories answer it, and why.
            about: only facts about the person or thing with this name, alias or key.
            limit: the maximum number of facts, the newest first; None for all.
            progress: is told how many pages are rendered.

        Raises:
            errors.ExtraMissing: Jinja2 is not installed (the extra ``inspect``).
            errors.NotFound: this user's memory knows nobody and nothing of the name ``about``.
            errors.DatabaseError: the graph could not be read.
        """
        connection, scope = await graph.prepare_connection(self.connection), Scope(app_name, user_id)
        renderer = PageRenderer(scope, FILE_BASE)
        listing = self.facts(app_name=app_name, user_id=user_id, about=about, past=True, limit=limit)
        facts = [fact async for fact in listing]
        if about is not None and not facts:
            raise errors.NotFound(what=f"fact about {about!r} of this user", where="`adk-graph-memory entities`")
        collection = _Collection(connection, scope, renderer, facts, progress)
        pages = [page async for page in collection.render_pages()]
        profile = await self.profile(app_name=app_name, user_id=user_id)
        pages.append(((), await asyncio.to_thread(renderer.render_profile, profile)))
        start: tuple[str, ...] = ()
        if question:
            began, start = time.perf_counter(), ("answer",)
            memories = await self.recall(question, app_name=app_name, user_id=user_id, explain=True)
            milliseconds = 1000 * (time.perf_counter() - began)
            paths = await graph.inspection.fetch_paths(connection, scope, memories)
            pages.append((start, renderer.render_answer(Answer(question, memories, paths, milliseconds))))
        note = f"as of {datetime.now(UTC):%Y-%m-%d %H:%M} UTC" + (
            f" · the newest {limit:,} facts" if limit is not None and len(facts) == limit else ""
        )
        addresses = {renderer.make_url(*path): html for path, html in pages}
        return await asyncio.to_thread(make_document, scope, addresses, renderer.make_url(*start), note)


class _Collection:
    """Renders the pages of some facts, and of the entities and sessions that these name."""

    def __init__(
        self,
        connection: graph.Connection,
        scope: Scope,
        renderer: PageRenderer,
        facts: Sequence[StoredFact],
        progress: Progress | None,
    ) -> None:
        self._connection, self._scope, self._renderer = connection, scope, renderer
        self._facts, self._progress = facts, progress or (lambda done, total: None)
        keys = (key for fact in facts for key in (fact.subject_key, fact.object_key) if key)
        self._keys = [*dict.fromkeys(keys)]
        self._done = 0

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
            for details in await graph.inspection.fetch_facts(self._connection, self._scope, ids):
                yield ("facts", details.fact.id), self._renderer.render_fact(details)
            self._report(len(ids))
        yield ("facts",), self._renderer.render_facts(self._facts)

    async def _render_entities(self) -> AsyncIterator[tuple[tuple[str, ...], str]]:
        entities = []
        for start in range(0, len(self._keys), ENTITIES_AT_ONCE):
            keys = self._keys[start : start + ENTITIES_AT_ONCE]
            fetches = (graph.inspection.fetch_entity(self._connection, self._scope, key) for key in keys)
            for details in await asyncio.gather(*fetches):
                entities.append(details.entity)
                yield ("entities", details.entity.key), self._renderer.render_entity(details)
            self._report(len(keys))
        entities.sort(key=lambda entity: (-entity.facts, entity.name))
        yield ("entities",), self._renderer.render_entities(entities)

    async def _render_sessions(self) -> AsyncIterator[tuple[tuple[str, ...], str]]:
        named = {source.session_id for fact in self._facts for source in fact.sources}
        listed = await graph.inspection.fetch_sessions(self._connection, self._scope, limit=_LARGEST)
        sessions = [session for session in listed if session.id in named]
        for session in sessions:
            turns = await graph.inspection.fetch_session_turns(
                self._connection, self._scope, session.id, limit=_LARGEST
            )
            yield ("sessions", session.id), self._renderer.render_session(session.id, turns)
        yield ("sessions",), self._renderer.render_sessions(sessions)

    def _report(self, count: int) -> None:
        self._done += count
        self._progress(self._done, len(self._facts) + len(self._keys))
