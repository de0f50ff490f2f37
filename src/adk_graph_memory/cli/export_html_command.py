"""The command ``export-html``: what memory holds of a user, as one file that opens in any browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import adk_graph_memory
from adk_graph_memory.cli.application import MEMORY_PANEL, AppOption, UserOption, check_owner, command
from adk_graph_memory.cli.output import Output, announce
from adk_graph_memory.language.wording import format_count
from adk_graph_memory.private_files import check_file_path


@command(MEMORY_PANEL, name="export-html")
async def export_html(
    app_name: AppOption,
    user_id: UserOption,
    output: Annotated[Path, typer.Option("--output", help="The file; an existing one is replaced.")],
    question: Annotated[str, typer.Option(help="Show first which memories answer this question.")] = "",
    about: Annotated[str | None, typer.Option(help="Only facts about the person or thing with this name.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The newest facts alone; all by default.")] = None,
) -> Output:
    """Write what memory holds of a user, with the words behind it, into one file that any browser opens offline."""
    check_file_path(output)
    announce("Waiting for Neo4j")
    async with adk_graph_memory.GraphMemory() as memory:
        await check_owner(app_name, user_id)
        view = await memory.show(
            app_name=app_name,
            user_id=user_id,
            question=question,
            about=about,
            limit=limit,
            progress=lambda done, total: announce(f"Drawing: {done:,} of {format_count(total, 'page')}"),
        )
    view.save(output)
    size = output.stat().st_size
    return Output({"file": str(output), "bytes": size}, f"Written: {output} ({size / 1e6:.1f} MB).")
