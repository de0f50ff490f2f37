"""List what memory holds: apps, users, and a user's facts and entities."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from adk_graph_memory import errors
from adk_graph_memory.graph import listings
from adk_graph_memory.graph.connection import Connection
from adk_graph_memory.records.scopes import Scope

if TYPE_CHECKING:
    from adk_graph_memory.records.facts import AsOf
    from adk_graph_memory.records.results import AppSummary, StoredEntity, StoredFact, UserSummary


class Listings:
    """Async iterators over memory; a base class of :class:`adk_graph_memory.GraphMemory`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def facts(
        self,
        *,
        app_name: str,
        user_id: str,
        about: str | None = None,
        past: bool = False,
        limit: int | None = None,
        after: str | None = None,
        as_of: AsOf | None = None,
    ) -> AsyncIterator[StoredFact]:
        """Yield the facts about a user, newest first.

        Args:
            app_name, user_id: whose memory it is.
            about: only facts about the entity with this name, alias or key.
            past: also facts that have ended, were retracted or are stale.
            limit: the maximum number of facts.
            after: the id of the fact to continue after.
            as_of: list what was true then, according to what was on record then. The facts are re-derived for this.

        Raises:
            errors.NotFound: this user has no fact with the id ``after``.
        """
        graph = self.connection.user(Scope(app_name, user_id))
        if as_of is not None:
            from adk_graph_memory.memory.past import (
                derive_past_memory,  # a list of what holds now needs nothing that derives
            )

            memory = await derive_past_memory(graph, as_of)
            for fact in _cut_page(memory.list_facts(about=about, past=past), limit, after):
                yield fact
            return
        keys = None if about is None else await listings.find_named_keys(graph, about)
        fetch_page = partial(listings.fetch_facts, graph, now=datetime.now(UTC), about=keys, past=past)
        async for fact in listings.iterate_pages(fetch_page, lambda fact: fact.id, limit, after):
            yield fact

    async def entities(
        self,
        *,
        app_name: str,
        user_id: str,
        type: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> AsyncIterator[StoredEntity]:
        """Yield the entities that a user's facts are about, those with the most facts first.

        Args:
            app_name, user_id: whose memory it is.
            type: only entities of this type: ``person``, ``place`` …
            limit: the maximum number of entities.
            after: the key of the entity to continue after.

        Raises:
            errors.NotFound: this user has no entity with the key ``after``.
        """
        graph = self.connection.user(Scope(app_name, user_id))
        fetch_page = partial(listings.fetch_entities, graph, now=datetime.now(UTC), type=type)
        async for entity in listings.iterate_pages(fetch_page, lambda entity: entity.key, limit, after):
            yield entity

    async def users(
        self, *, app_name: str, limit: int | None = None, after: str | None = None
    ) -> AsyncIterator[UserSummary]:
        """Yield an app's users in the order of their ids, with counts of what is stored for each.

        Args:
            app_name: the app.
            limit: the maximum number of users.
            after: the id of the user to continue after.
        """
        fetch_page = partial(listings.fetch_users, self.connection, app_name)
        async for user in listings.iterate_pages(fetch_page, lambda user: user.user_id, limit, after):
            yield user

    async def apps(self, *, limit: int | None = None, after: str | None = None) -> AsyncIterator[AppSummary]:
        """Yield the apps of this database in the order of their names, with counts of what is stored for each.

        Args:
            limit: the maximum number of apps.
            after: the name of the app to continue after.
        """
        fetch_page = partial(listings.fetch_apps, self.connection)
        async for app in listings.iterate_pages(fetch_page, lambda app: app.app_name, limit, after):
            yield app


def _cut_page(facts: list[StoredFact], limit: int | None, after: str | None) -> list[StoredFact]:
    ids = [fact.id for fact in facts]
    if after is not None and after not in ids:
        raise errors.NotFound(what=f"place {after!r} in this list", where="the last id of the page before")
    start = 0 if after is None else ids.index(after) + 1
    return facts[start:] if limit is None else facts[start : start + limit]
