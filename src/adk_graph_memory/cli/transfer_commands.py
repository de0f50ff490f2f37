"""The commands ``export``, ``export-html`` and ``import``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import adk_graph_memory
from adk_graph_memory import errors
from adk_graph_memory.cli.application import (
    MEMORY_PANEL,
    OWNER,
    AppFilterOption,
    Owner,
    UsageError,
    UserFilterOption,
    command,
)
from adk_graph_memory.cli.lazy_modules import chat_forms, chat_messages, chat_tables, import_records, importer, settings
from adk_graph_memory.cli.memory_commands import RecordedOption, resolve_as_of
from adk_graph_memory.cli.output import Output, announce, error_console, make_grid, print_error, wants_json
from adk_graph_memory.language.dates import parse_timezone
from adk_graph_memory.language.text import format_count
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.runtime.private_files import check_file_path

if TYPE_CHECKING:
    from adk_graph_memory.adk.importing.chats.messages import ChatOptions
    from adk_graph_memory.adk.importing.importer import ImportOptions
    from adk_graph_memory.records.portable import ExportReport
    from adk_graph_memory.records.reports import ImportReceipt


@command(MEMORY_PANEL)
async def export(
    app_name: AppFilterOption = None,
    user_id: UserFilterOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; without it, the lines go to standard output.")
    ] = None,
    recorded_at: RecordedOption = None,
) -> Output | None:
    """Write sessions, memory and artifacts of a user, an app or everybody into a file that another graph can import.

    `import --from export` reads it. Artifact content in a store, and secrets, are not exported. With `--recorded-at`,
    the file holds what had been said and read by then, without anything forgotten since; the import derives the facts.
    """
    if output is None and wants_json.get():
        raise UsageError("--json describes a file: name it with --output.")
    async with adk_graph_memory.GraphMemory() as memory:
        scope = Scope(app_name, user_id) if app_name is not None and user_id is not None else None
        as_of = await resolve_as_of(memory.connection, scope, None, recorded_at)
        announce("Exporting")
        if output is not None:
            report = await memory.export(output, app_name=app_name, user_id=user_id, as_of=as_of)
            return Output(report, make_grid([("file", str(output)), *describe_report(report)]), list(_warn(report)))
        report = await memory.export(sys.stdout, app_name=app_name, user_id=user_id, as_of=as_of)
    for warning in _warn(report):
        error_console.print(warning, style="dim", soft_wrap=True)
    return None


def describe_report(report: ExportReport) -> Iterator[tuple[str, str]]:
    """Describe what an export wrote, kind by kind."""
    if report.apps:
        yield "apps", f"{report.apps:,}"
    yield "users", f"{report.users:,}"
    yield "nodes", ", ".join(f"{count:,} {label}" for label, count in report.nodes.items()) or "none"
    yield "relationships", f"{sum(report.relationships.values()):,}"
    yield "size", f"{report.bytes:,} bytes"


def _warn(report: ExportReport) -> Iterator[str]:
    for store, count in report.outside_contents.items():
        yield f"The content of {format_count(count, 'artifact version')} is not in the file: it is in {store}."
    if report.changed_users:
        app_name, user_id = report.changed_users[0]
        more = f" and {len(report.changed_users) - 1} more" if len(report.changed_users) > 1 else ""
        yield f"Somebody wrote to user {user_id!r} of app {app_name!r}{more} meanwhile: export again for an exact copy."


@command(MEMORY_PANEL, name="export-html")
async def export_html(
    owner: Owner,
    output: Annotated[Path, typer.Option("--output", help="The file; an existing file is replaced.")],
    question: Annotated[str, typer.Option(help="First show the memories that answer this question.")] = "",
    about: Annotated[str | None, typer.Option(help="Only facts about the person or thing with this name.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only this many of the newest facts; all by default.")
    ] = None,
) -> Output:
    """Write a user's memory, with the words behind it, into one file that any browser opens offline."""
    check_file_path(output)
    async with owner.open_memory() as user:
        await owner.check()
        view = await user.show(
            question=question,
            about=about,
            limit=limit,
            progress=lambda done, total: announce(f"Drawing: {done:,} of {format_count(total, 'page')}"),
        )
    view.save(output)
    size = output.stat().st_size
    return Output({"file": str(output), "bytes": size}, f"Written: {output} ({size / 1e6:.1f} MB).")


CHAT_PANEL = "Chats"


class SourceKind(StrEnum):
    """What can be imported, by the names of :mod:`adk_graph_memory.adk.importing.sources`."""

    ADK_SQLITE = "adk-sqlite"
    ADK_DATABASE = "adk-database"
    ADK_SQLITE_MEMORY = "adk-sqlite-memory"
    MEM0 = "mem0"
    MEMORY_BANK = "memory-bank"
    EXPORT = "export"
    WHATSAPP = "whatsapp"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    OPENAI = "openai"
    SLACK = "slack"
    CSV = "csv"
    CONVERSATION = "conversation"


SESSION_KINDS = (SourceKind.ADK_SQLITE, SourceKind.ADK_DATABASE)


class DateOrder(StrEnum):
    """How a chat writes days."""

    DMY = "dmy"
    MDY = "mdy"
    YMD = "ymd"


@command(MEMORY_PANEL, name="import")
async def import_from(
    location: Annotated[
        str, typer.Argument(metavar="PATH_OR_URL", help="The file, or the URL of ADK's database in ADK's form.")
    ],
    kind: Annotated[SourceKind, typer.Option("--from", help="The kind of source.")],
    app_name: Annotated[
        str | None,
        typer.Option(
            "--app", help="Only this app, and data that names none, like chats. For an export: the app's new name."
        ),
    ] = None,
    user_id: Annotated[
        str | None,
        typer.Option(
            "--user",
            **OWNER,
            help="Only this user, and data that names none, like chats. For an export: the user's new id.",
        ),
    ] = None,
    remember: Annotated[
        bool, typer.Option("--remember", help="Also queue the turns of the sessions to be remembered.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only read the source and say what is in it; needs no database.")
    ] = False,
    me: Annotated[
        str | None, typer.Option(help="Of a chat: which of its speakers is the user.", rich_help_panel=CHAT_PANEL)
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="Of a chat: the zone of its times.", rich_help_panel=CHAT_PANEL)
    ] = None,
    date_order: Annotated[
        DateOrder | None,
        typer.Option(help="Of a chat: how it writes days, if its days do not tell.", rich_help_panel=CHAT_PANEL),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=NAME",
            help="Of a CSV file: the column with the text, author, time or session.",
            rich_help_panel=CHAT_PANEL,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="Of a chat: the time of messages that have none, in ISO 8601.", rich_help_panel=CHAT_PANEL),
    ] = None,
) -> Output:
    """Import an export of another graph, data that another service stored, or exported chats, with ids and times.

    Whatever the graph already has stays as it is: an import can be repeated, and continues where it was interrupted.
    """
    is_chat = kind.value in chat_forms.FORMS
    if remember and not is_chat and kind not in SESSION_KINDS:
        raise UsageError(
            "--remember is for other services' sessions; everything else can be found as soon as it is imported."
        )
    chat_options = (me, timezone, date_order, column, at)
    names = ("--me", "--timezone", "--date-order", "--column", "--at")
    useful = chat_forms.FORMS[kind.value].options if is_chat else ()
    for name, value in zip(names, chat_options, strict=True):
        if value is not None and name not in useful:
            others = f", which takes {', '.join(useful)}" if is_chat else ", but for chats"
            raise UsageError(f"{name} is not for --from {kind}{others}.")
    options = importer.ImportOptions(kind.value, app_name, user_id, remembers=remember)
    options = replace(options, chat=_make_chat_options(*chat_options)) if is_chat else options

    def show_progress(text: str) -> None:
        announce(f"{'Reading' if dry_run else 'Importing'}: {text}")

    announce("Reading the source" if dry_run else "Waiting for Neo4j")
    if dry_run:
        return _report(await importer.import_source(None, location, options, show_progress), options)
    async with adk_graph_memory.GraphMemory() as memory:
        return _report(await importer.import_source(memory, location, options, show_progress), options)


def _make_chat_options(
    me: str | None, timezone: str | None, date_order: DateOrder | None, column: list[str] | None, at: str | None
) -> ChatOptions:
    zone = parse_timezone(timezone) if timezone else settings.load_settings().timezone
    columns = dict(one.partition("=")[::2] for one in column or ())
    if unknown := sorted(columns.keys() - chat_tables.COLUMNS.keys()):
        raise UsageError(f"--column takes text, author, time or session, not {unknown[0]!r}: --column text=NAME")
    moment = import_records.parse_moment(at, zone, "--at")
    order = date_order.value if date_order else None
    return chat_messages.ChatOptions(zone, order, columns, moment, me, sets_zone=timezone is not None)


def _report(receipt: ImportReceipt, options: ImportOptions) -> Output:
    print_problems(receipt)
    rows = list(describe_counts(receipt))
    is_unremembered = bool(receipt.sessions.get("new")) and not options.remembers
    return Output(
        value=receipt,
        text=make_grid(rows) if rows else "The source is empty.",
        hints=[
            "Their turns are not in memory yet: the same command with --remember queues them."
            if is_unremembered
            else None,
            "`adk-graph-memory ingest --pending` reads the queue." if receipt.waiting_turns else None,
            *_explain_export(receipt),
        ],
        exit_code=1 if receipt.has_problems else 0,
    )


def print_problems(receipt: ImportReceipt) -> None:
    """Print what an import left out that somebody has to mend, with its place."""
    for row in receipt.problems:
        print_error(errors.UnreadableTranscript(f"{row.place}: {row.reason}", place=row.place, reason=row.reason))


def describe_counts(receipt: ImportReceipt) -> Iterator[tuple[str, str]]:
    """Describe what an import read, and what was new of it, kind by kind."""
    for what in ("sessions", "events", "memories", "apps", "users", "nodes", "relationships"):
        counts = getattr(receipt, what)
        outcomes = ", ".join(f"{number:,} {how}" for how, number in counts.items() if how != "read")
        if counts:
            yield what, f"{counts.get('read', 0):,} read" + (f": {outcomes}" if outcomes else "")
    if receipt.speakers:
        yield "people", ", ".join(f"{name} ({count:,})" for name, count in receipt.speakers.items())
    if receipt.period:
        yield "days", " to ".join(dict.fromkeys(moment.date().isoformat() for moment in receipt.period))
    if receipt.state_keys:
        yield "state", f"{format_count(receipt.state_keys, 'key')} added"
    if receipt.waiting_turns:
        yield "queued", f"{format_count(receipt.waiting_turns, 'turn')} for memory"
    if receipt.skipped:
        yield "left out", ", ".join(f"{number:,} {kind}" for kind, number in receipt.skipped.items())


def _explain_export(receipt: ImportReceipt) -> Iterator[str]:
    """Say what of an export is not here, or not as it was."""
    if receipt.dropped_vectors:
        count = format_count(receipt.dropped_vectors, "memory", "memories")
        yield f"{count} came without vectors, because this graph has another embedder: the next ingests make them."
    if receipt.outside_contents:
        yield (
            f"The content of {format_count(receipt.outside_contents, 'artifact version')} is not in the file: it "
            "is in the store of the graph that was exported."
        )
    if receipt.refused_turns:
        yield f"{format_count(receipt.refused_turns, 'turn')} stayed forgotten, as somebody asked here."
    if receipt.foreign_tombstones:
        yield (
            f"{format_count(receipt.foreign_tombstones, 'tombstone')} of turns that are not in the file have no effect "
            "here: do not add sessions that were deleted in the graph that was exported."
        )
