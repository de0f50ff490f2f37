"""The commands ``remember-document`` and ``documents``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
    AfterOption,
    LimitOption,
    Owner,
    collect_page,
    command,
    make_page,
)
from adk_graph_memory.cli.lazy_modules import import_records, listings
from adk_graph_memory.cli.output import Output, add_details, format_day, make_grid
from adk_graph_memory.language.text import format_count


@command(MEMORY_PANEL, name="remember-document")
async def remember_document(
    owner: Owner,
    path: Annotated[Path, typer.Argument(help="The file: PDF, Markdown or plain text.")],
    title: Annotated[str | None, typer.Option(help="By default, the file's name without its suffix.")] = None,
    author: Annotated[
        str | None, typer.Option(help="Who wrote it; by default, it is cited by its title alone.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="Since when it says this, in ISO 8601; now by default.")] = None,
) -> Output:
    """Remember a document, as evidence: its passages are found and cited, and end nothing that a person said.

    A new version under the same title replaces the former one. `forget --session` forgets a document by its session.
    """
    async with owner.open_memory("Reading the document") as user:
        zone = await user.engine.speakers.find_zone(user.scope)
        moment = import_records.parse_moment(at, zone, "--at")
        report = await user.remember_document(path, title=title, author=author, at=moment)
    facts = format_count(report.ingest.facts.get("ADD", 0), "fact")
    removed = f" {format_count(report.removed, 'passage')} of its former version went." if report.removed else ""
    kept = f" {format_count(report.forgotten, 'passage')} stayed forgotten." if report.forgotten else ""
    text = (
        f"{format_count(report.passages, 'passage')}, {report.ingest.turns} of them new: {facts} added.{removed}{kept}"
    )
    return Output(report, text, [f"`adk-graph-memory forget --session {report.session_id!r}` forgets it."])


@command(MEMORY_PANEL)
async def documents(owner: Owner, limit: LimitOption = 50, after: AfterOption = None) -> Output:
    """List the documents that are remembered, by title; `forget --session` forgets one by its session."""
    async with owner.open_graph() as graph:
        listing = listings.iterate_documents(graph, limit=limit, after=after)
        page = await collect_page(listing, owner.app_name, owner.user_id)
    rows = []
    for document in page:
        details = (document.session_id, document.author, format_count(document.passages, "passage"))
        rows.append((format_day(document.at), add_details(document.title, " · ".join(filter(None, details)))))
    text = make_grid(rows) if rows else "No documents."
    return make_page(page, text, limit=limit, after=lambda document: document.session_id)
