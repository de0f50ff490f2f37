"""Commands over what memory knows of a user: facts, and whom and what they speak of."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from adk_graph_memory import graph
from adk_graph_memory.cli.application import (
    MEMORY,
    After,
    AppName,
    AsJson,
    Limit,
    UserId,
    app,
    check_user,
    console,
    failing_well,
    hint,
    show_json,
)
from adk_graph_memory.cli.layout import day, listed, plain, with_details
from adk_graph_memory.records import Scope, StoredEntity, StoredFact
from adk_graph_memory.records.dates import brief
from adk_graph_memory.records.phrases import Status

_PARTS: dict[str, tuple[Status, ...]] = {
    "": ("holds", "planned"),
    "Planned, and nothing was heard of it since:": ("lapsed",),
    "Happened:": ("happened",),
    "No longer so, or in doubt:": ("over",),
}
"""Headings under which facts are listed, by what of them is so now."""


@app.command(rich_help_panel=MEMORY)
def facts(
    app_name: AppName,
    user_id: UserId,
    about: Annotated[str | None, typer.Option(help="Only about whom or what is called so.")] = None,
    past: Annotated[bool, typer.Option("--all", help="Also what ended, was retracted or is stale.")] = False,
    limit: Limit = 50,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List what is known of a user, the newest first: what is so, what was planned, and what happened once."""

    async def found() -> list[StoredFact]:
        async with graph.Connection() as connection:
            now, scope = datetime.now(UTC), Scope(app_name, user_id)
            return await graph.knowledge.facts(
                await graph.prepared(connection), scope, now=now, about=about, past=past, limit=limit, after=after
            )

    with failing_well(as_json):
        known = asyncio.run(found())
        if not known:
            asyncio.run(check_user(app_name, user_id))
    if as_json:
        show_json(known)
        return
    for heading, statuses in _PARTS.items():
        rows = [_fact_row(fact) for fact in known if fact.status in statuses]
        if rows:
            console.print(*[heading] * bool(heading), listed(rows), sep="\n")
    if not known:
        console.print("No facts.")
    if about and not known:
        hint("`adk-graph-memory entities` lists whom and what facts speak of.")
    if len(known) == limit:
        hint(f"There may be more: --after {known[-1].id}")


def _fact_row(fact: StoredFact) -> tuple[str, Text]:
    return day(fact.at), with_details(fact.text, " · ".join([fact.id, *_standing(fact)]))


def _standing(fact: StoredFact) -> list[str]:
    """Since and until when it holds, as exactly as that was said, and what became of it."""
    begins = "for" if fact.modality == "planned" else "from"
    ends = "ended" if fact.status == "over" else "until"
    since = brief(fact.valid_from, fact.valid_from_precision)
    until = brief(fact.valid_to, fact.valid_to_precision, is_end=True)
    told = [f"{word} {when}" for word, when in ((begins, since), (ends, until)) if when]
    return told + ["retracted"] * (fact.state == "retracted") + ["stale"] * fact.is_stale


@app.command(rich_help_panel=MEMORY)
def entities(
    app_name: AppName,
    user_id: UserId,
    type: Annotated[str | None, typer.Option(help="Only of this type: person, place …")] = None,
    limit: Limit = 50,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List whom and what a user's facts speak of, that of most facts first."""

    async def found() -> list[StoredEntity]:
        async with graph.Connection() as connection:
            now, scope = datetime.now(UTC), Scope(app_name, user_id)
            return await graph.knowledge.entities(
                await graph.prepared(connection), scope, now=now, type=type, limit=limit, after=after
            )

    with failing_well(as_json):
        known = asyncio.run(found())
        if not known:
            asyncio.run(check_user(app_name, user_id))
    if as_json:
        show_json(known)
        return
    console.print(listed(map(_row, known)) if known else "No entities.")
    if len(known) == limit:
        hint(f"There may be more: --after {known[-1].key}")


def _row(entity: StoredEntity) -> tuple[str, str, Text]:
    also = f"also {', '.join(entity.aliases)}" if entity.aliases else ""
    count = "1 fact" if entity.facts == 1 else f"{entity.facts} facts"
    return count, plain(entity.type), with_details(entity.name, entity.about, also)
