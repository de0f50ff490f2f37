"""The command ``prune``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

import adk_graph_memory
from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
    AppFilterOption,
    UserFilterOption,
    YesOption,
    check_owner,
    command,
)
from adk_graph_memory.cli.output import Output, announce, confirm
from adk_graph_memory.language.wording import format_count

if TYPE_CHECKING:
    from adk_graph_memory.records import PruneReport

NOUNS = {
    "sessions": ("session", "sessions"),
    "events": ("event", "events"),
    "memory": ("memory", "memories"),
    "revisions": ("revision", "revisions"),
    "artifacts": ("version of artifacts", "versions of artifacts"),
    "user_state": ("user's state", "users' states"),
}
"""What one and several of each kind are called."""


@command(MEMORY_PANEL)
async def prune(
    app_name: AppFilterOption = None,
    user_id: UserFilterOption = None,
    older_than: Annotated[
        str | None, typer.Option(help="Also what is older, whatever its own expiry: 90d, 12h, 3600s.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Of these kinds only: sessions, events, memory, revisions, artifacts, user_state."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only.")] = False,
    yes: YesOption = False,
) -> Output:
    """Delete what has expired for good: by its own expiry, or by the settings for how long a kind is kept.

    Agents go on meanwhile. It may be interrupted at any time, and run again.
    """
    kinds: Any = [kind.strip() for kind in (only or "").split(",") if kind.strip()]
    async with adk_graph_memory.GraphMemory() as memory:
        announce("Counting what has expired")
        chosen = {"app_name": app_name, "user_id": user_id, "older_than": older_than, "only": kinds}
        expired = await memory.prune(**chosen, dry_run=True)
        if not expired.total:
            await check_owner(app_name, user_id)
            return Output(expired, "Nothing has expired.")
        if dry_run:
            return Output(expired, f"Expired: {_format_counts(expired)}.")
        confirm(f"Delete {_format_counts(expired)} for good?", yes=yes)
        announce("Pruning")
        report = await memory.prune(**chosen)
    return Output(report, f"Pruned: {_format_counts(report)}." if report.total else "Nothing was left to prune.")


def _format_counts(report: PruneReport) -> str:
    *counts, last = (format_count(count, *NOUNS[kind]) for kind, count in asdict(report).items() if count)
    return f"{', '.join(counts)} and {last}" if counts else last
