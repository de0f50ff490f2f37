"""The commands ``facts`` and ``entities``: list what memory knows about a user."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from adk_graph_memory import graph
from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
    AfterOption,
    AppOption,
    JsonOption,
    LimitOption,
    UserOption,
    app,
    check_user,
    console,
    print_hint,
    print_json,
    report_errors,
)
from adk_graph_memory.cli.layout import add_details, format_day, make_grid, replace_controls
from adk_graph_memory.records import Scope, StoredEntity, StoredFact
from adk_graph_memory.records.dates import format_short_date
from adk_graph_memory.records.fact_validity import FactStatus

_STATUS_HEADINGS: dict[str, tuple[FactStatus, ...]] = {
    "": ("holds", "planned"),
    "Planned, and nothing was heard of it since:": ("lapsed",),
    "Happened:": ("happened",),
    "No longer so, or in doubt:": ("over",),
}
"""Headings of the list of facts, with the statuses that belong under each."""


@app.command(rich_help_panel=MEMORY_PANEL)
def facts(
    app_name: AppOption,
    user_id: UserOption,
    about: Annotated[str | None, typer.Option(help="Only about whom or what is called so.")] = None,
    past: Annotated[bool, typer.Option("--all", help="Also what ended, was retracted or is stale.")] = False,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what is known of a user, the newest first: what is so, what was planned, and what happened once."""

    async def fetch_facts() -> list[StoredFact]:
        async with graph.Connection() as connection:
            return await graph.knowledge.fetch_facts(
                await graph.prepare_connection(connection),
                Scope(app_name, user_id),
                now=datetime.now(UTC),
                about=about,
                past=past,
                limit=limit,
                after=after,
            )

    with report_errors(as_json):
        page = asyncio.run(fetch_facts())
        if not page:
            asyncio.run(check_user(app_name, user_id))
    if as_json:
        print_json(page)
        return
    for heading, statuses in _STATUS_HEADINGS.items():
        rows = [_make_fact_row(fact) for fact in page if fact.status in statuses]
        if rows:
            console.print(*[heading] * bool(heading), make_grid(rows), sep="\n")
    if not page:
        console.print("No facts.")
    if about and not page:
        print_hint("`adk-graph-memory entities` lists whom and what facts speak of.")
    if len(page) == limit:
        print_hint(f"There may be more: --after {page[-1].id}")


def _make_fact_row(fact: StoredFact) -> tuple[str, Text]:
    return format_day(fact.at), add_details(fact.text, " · ".join([fact.id, *_describe_validity(fact)]))


def _describe_validity(fact: StoredFact) -> list[str]:
    start_word = "for" if fact.modality == "planned" else "from"
    end_word = "ended" if fact.status == "over" else "until"
    start = format_short_date(fact.valid_from, fact.valid_from_precision)
    end = format_short_date(fact.valid_to, fact.valid_to_precision, is_end=True)
    period = [f"{word} {date}" for word, date in ((start_word, start), (end_word, end)) if date]
    return period + ["retracted"] * (fact.state == "retracted") + ["stale"] * fact.is_stale


@app.command(rich_help_panel=MEMORY_PANEL)
def entities(
    app_name: AppOption,
    user_id: UserOption,
    type: Annotated[str | None, typer.Option(help="Only of this type: person, place …")] = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JsonOption = False,
) -> None:
    """List whom and what a user's facts speak of, that of most facts first."""

    async def fetch_entities() -> list[StoredEntity]:
        async with graph.Connection() as connection:
            now, scope = datetime.now(UTC), Scope(app_name, user_id)
            return await graph.knowledge.fetch_entities(
                await graph.prepare_connection(connection), scope, now=now, type=type, limit=limit, after=after
            )

    with report_errors(as_json):
        page = asyncio.run(fetch_entities())
        if not page:
            asyncio.run(check_user(app_name, user_id))
    if as_json:
        print_json(page)
        return
    console.print(make_grid(map(_make_entity_row, page)) if page else "No entities.")
    if len(page) == limit:
        print_hint(f"There may be more: --after {page[-1].key}")


def _make_entity_row(entity: StoredEntity) -> tuple[str, str, Text]:
    aliases = f"also {', '.join(entity.aliases)}" if entity.aliases else ""
    count = "1 fact" if entity.facts == 1 else f"{entity.facts} facts"
    return count, replace_controls(entity.type), add_details(entity.name, entity.about, aliases)
