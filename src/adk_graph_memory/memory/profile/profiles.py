"""Make a user's profile: what is always worth knowing, read from the facts that hold now in two statements."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pydantic import BaseModel

from adk_graph_memory import errors
from adk_graph_memory.graph import listings
from adk_graph_memory.graph.connection import UserGraph
from adk_graph_memory.memory.profile.form import FormDraft, draft_form
from adk_graph_memory.memory.profile.selection import MODALITY_WEIGHTS, select_items
from adk_graph_memory.records.results import Profile, ProfileForm, ProfileItem
from adk_graph_memory.records.scopes import check_count, check_items
from adk_graph_memory.runtime import telemetry

PROFILE_TOKENS = 400
"""Tokens of a profile's text, at most."""


@telemetry.trace_operation("search_memory")
async def build_profile(
    graph: UserGraph, schema: type[BaseModel] | None = None, token_budget: int = PROFILE_TOKENS
) -> Profile:
    """Build a user's profile, and its form if there is a schema; the errors are those of :func:`fill_forms`."""
    profile, forms = await fill_forms(graph, [] if schema is None else [schema], token_budget=token_budget)
    return replace(profile, form=forms[0]) if forms else profile


async def fill_forms(
    graph: UserGraph, schemas: Sequence[type[BaseModel]], *, token_budget: int = PROFILE_TOKENS
) -> tuple[Profile, list[ProfileForm]]:
    """Make a user's profile and a form for each schema, from the same two statements.

    Raises:
        errors.InvalidArgument: a schema is no pydantic model, or the budget is no number.
        errors.DatabaseError: the graph could not be read.
    """
    schemas = check_items("schemas", schemas, object)
    for schema in schemas:
        if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
            raise errors.InvalidArgument(reason=f"the schema {schema!r} is no pydantic model")
    check_count("token_budget", token_budget)
    facts = await listings.fetch_profile_facts(graph, now=datetime.now(UTC), modalities=MODALITY_WEIGHTS)
    items, drafts = await asyncio.to_thread(_choose_facts, facts, schemas, token_budget)
    ids = {item.fact.id for item in items}.union(*(draft.fact_ids for draft in drafts))
    sources = await listings.fetch_sources(graph, ids)
    forms = [draft.complete(sources) for draft in drafts]
    items = tuple(replace(item, fact=replace(item.fact, sources=sources.get(item.fact.id, ()))) for item in items)
    return Profile(items), forms


def _choose_facts(
    facts: listings.ProfileFacts, schemas: Sequence[type[BaseModel]], token_budget: int
) -> tuple[tuple[ProfileItem, ...], list[FormDraft]]:
    items = select_items(facts.candidates, speakers=facts.speakers, token_budget=token_budget)
    return items, [draft_form(schema, facts.candidates, speakers=facts.speakers) for schema in schemas]
