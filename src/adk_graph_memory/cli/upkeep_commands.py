"""The commands ``doctor`` and ``prune``: check and mend memory, and delete what has expired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import adk_graph_memory
from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
    AppFilterOption,
    UserFilterOption,
    YesOption,
    check_owner,
    command,
)
from adk_graph_memory.cli.output import Output, announce, confirm, make_table, number_column, text_column
from adk_graph_memory.language.text import format_count

if TYPE_CHECKING:
    from adk_graph_memory.records.reports import Finding
    from adk_graph_memory.records.results import Checkup, PruneReport


MAX_USERS_SHOWN = 1_000
"""Users with something to say that are kept and shown; the others are counted."""


@dataclass(slots=True)
class CheckupTally:
    """What was found of all users: counts, and the checkups of the first who have something to say."""

    users: int = 0
    ill: int = 0
    mended: int = 0
    unlisted: int = 0
    checkups: list[Checkup] = field(default_factory=list)

    def add_checkup(self, checkup: Checkup) -> None:
        """Count a user, and keep the checkup if there is anything to say and room for it."""
        has_changed = bool(checkup.differences or checkup.findings)
        self.users += 1
        self.ill += checkup.is_ill
        self.mended += has_changed and not checkup.is_ill
        if not has_changed and not (checkup.waiting or checkup.unembedded or checkup.unread):
            return
        if len(self.checkups) < MAX_USERS_SHOWN:
            self.checkups.append(checkup)
        else:
            self.unlisted += 1

    @property
    def summary(self) -> str:
        """The result in one line."""
        if self.ill:
            verdict = f"{format_count(self.ill, 'memory', 'memories')} not as derived or with a broken invariant."
        else:
            verdict = f"{format_count(self.mended, 'memory', 'memories')} mended." if self.mended else "all as derived."
        return f"{format_count(self.users, 'user')} checked: {verdict}"


@command(MEMORY_PANEL)
async def doctor(
    app_name: Annotated[str | None, typer.Option("--app", help="Only this app.")] = None,
    user_id: UserFilterOption = None,
    mend: Annotated[bool, typer.Option("--mend", help="Also mend whatever can be mended.")] = False,
) -> Output:
    """Check that every memory follows from what was said, and that no invariant is broken.

    Exit code 1 if anything is wrong and was not mended. What waits to be read, has no vector yet, or could not be
    read is listed too, and is not wrong.
    """
    announce("Waiting for Neo4j")
    tally = CheckupTally()
    async with adk_graph_memory.GraphMemory() as memory:
        store = await memory.check_store(mend=mend, owners=app_name is None and user_id is None)
        async for checkup in memory.check_memories(app_name=app_name, user_id=user_id, mend=mend):
            tally.add_checkup(checkup)
            announce(f"Checked {format_count(tally.users, 'user')}")
    if not tally.users:
        await check_owner(app_name, user_id)
    is_ill = bool(tally.ill) or any(not finding.is_mended for finding in store)
    counts = {"users": tally.users, "ill": tally.ill, "mended": tally.mended, "unlisted": tally.unlisted}
    value = counts | {"store": store, "checkups": tally.checkups}
    return Output(value, _format_checkups(tally, store), list_hints(tally, store, mend=mend), int(is_ill))


def _format_checkups(tally: CheckupTally, store: list[Finding]) -> RenderableType:
    columns = [
        *map(text_column, ("app", "user")),
        *map(number_column, ("facts", "differences", "waiting", "no vector", "unread")),
    ]
    rows = [
        (one.app_name, one.user_id, *map(str, (one.facts, one.differences, one.waiting, one.unembedded, one.unread)))
        for one in tally.checkups
    ]
    lines = [_describe_finding("the database", finding) for finding in store]
    lines += [
        _describe_finding(f"{one.user_id!r} in {one.app_name!r}", finding)
        for one in tally.checkups
        for finding in one.findings
    ]
    more = [f"… and {format_count(tally.unlisted, 'user')} more."] if tally.unlisted else []
    texts = (Text(line) for line in (*lines, *more, tally.summary))
    return Group(*([make_table(columns, rows)] if rows else []), *texts)


def _describe_finding(whose: str, finding: Finding) -> str:
    details = f" ({', '.join(finding.details)})" if finding.details else ""
    return f"{whose}: {finding.count:,} {finding.text}{details}{' – mended' if finding.is_mended else ''}"


def list_hints(tally: CheckupTally, store: list[Finding], *, mend: bool) -> list[str]:
    """List what the user can do about it, each way once."""
    findings: Iterable[Finding] = (*store, *(finding for one in tally.checkups for finding in one.findings))
    ways = Counter(finding.way_out for finding in findings if finding.way_out)
    has_difference = any(one.differences and not one.is_mended for one in tally.checkups)
    if has_difference:
        ways["`adk-graph-memory doctor --mend` corrects the differences."] += 1
    if any(one.unembedded and not mend for one in tally.checkups):
        ways["`adk-graph-memory doctor --mend` embeds what has no vector, if there is an embedder."] += 1
    if any(one.unread for one in tally.checkups):
        ways["`adk-graph-memory reextract` rereads turns that no model could read."] += 1
    return list(ways)


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
        str | None, typer.Option(help="Also anything older, whatever its own expiry: 90d, 12h, 3600s.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Only these kinds: sessions, events, memory, revisions, artifacts, user_state."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    yes: YesOption = False,
) -> Output:
    """Delete expired data for good: by its own expiry, or by the settings for how long each kind is kept.

    Agents can keep working. You can interrupt it at any time, and run it again.
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
