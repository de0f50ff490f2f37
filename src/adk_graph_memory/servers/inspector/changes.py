"""Correct, pin, merge, forget, undo and all else that an owner may decide: each shows first what it would change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, tzinfo
from typing import NamedTuple, Protocol

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from adk_graph_memory.language.dates import format_english_date
from adk_graph_memory.language.text import format_count
from adk_graph_memory.memory import owner
from adk_graph_memory.memory.ingestion import resume_ingests
from adk_graph_memory.memory.user_memory import UserMemory
from adk_graph_memory.records.history import FactVersion, HeldFact, MemoryChange, Proposal
from adk_graph_memory.records.results import ENDING_NOTES, Receipt
from adk_graph_memory.servers.inspector.visits import OwnVisit, Visit

router = APIRouter()
Fields = Mapping[str, str]
Outcome = MemoryChange | Receipt | str
CANNOT_BE_UNDONE = "This cannot be undone."


class Change(Protocol):
    """Makes a change with the fields of a form, or only tells what it would change; in a sentence if no fact does."""

    def __call__(self, visit: Visit, fields: Fields, *, preview: bool) -> Awaitable[Outcome]: ...


class Action(NamedTuple):
    """A change with its title, the verb on its button, the fields that it takes and what its owner has to know."""

    title: str
    verb: str
    change: Change
    fields: tuple[str, ...]
    note: str = ""


@router.post("/changes/retry")
async def retry(visit: OwnVisit) -> HTMLResponse:
    """Read what waits to be read."""
    scope = visit.user.scope
    reports = await resume_ingests(visit.user.engine, app_name=scope.app_name, user_id=scope.user_id)
    turns = sum(report.turns for report in reports)
    return _show_receipt(visit, f"Read: {format_count(turns, 'turn')}.")


@router.post("/changes/{name}")
async def change(visit: OwnVisit, request: Request, name: str) -> HTMLResponse:
    """Preview a change or, if it is confirmed, make it and say what it changed."""
    action = ACTIONS.get(name)
    if action is None:
        raise HTTPException(404, f"There is no change {name!r}.")
    form = {key: value for key, value in (await request.form()).items() if isinstance(value, str)}
    fields = {key: form[key] for key in action.fields if key in form}
    is_confirmed = form.get("confirmed") == "yes"
    outcome = await action.change(visit, fields, preview=not is_confirmed)
    if is_confirmed or isinstance(outcome, Receipt):
        return _show_outcome(visit, outcome, next=visit.renderer.format_url() if name == "forget" else "")
    return _show_preview(visit, name, fields, outcome)


def _show_preview(visit: Visit, name: str, fields: Fields, outcome: MemoryChange | str) -> HTMLResponse:
    """Show what would change, with the button that changes it."""
    action = ACTIONS[name]
    rows, notes = list[tuple[str, str]](), [outcome] if isinstance(outcome, str) else [action.note]
    changes = bool(outcome)
    if isinstance(outcome, MemoryChange):
        rows, changes = _list_rows(outcome), bool(outcome.facts or outcome.entities or outcome.turns)
        notes += [f"{format_count(outcome.turns, 'turn')} will leave memory."] * bool(outcome.turns)
        notes += [f"Shared memories keep {format_count(outcome.copies, 'copy', 'copies')} of it."] * bool(
            outcome.copies
        )
        notes += [CANNOT_BE_UNDONE] * (name == "accept" and not outcome.ingest_id)
    return visit.show(
        "change.html",
        title=action.title,
        verb=action.verb,
        action=name,
        message=" ".join(filter(None, notes)) if changes else "Nothing would change.",
        rows=rows,
        confirm={**fields, "confirmed": "yes"} if changes else None,
        fields={key: value for key, value in fields.items() if key != "with_turns"},
        staying=outcome.staying_turns if name == "forget" and isinstance(outcome, MemoryChange) else {},
        with_turns="with_turns" in fields,
        undo=None,
        next="",
    )


def _show_outcome(visit: Visit, outcome: Outcome, *, next: str) -> HTMLResponse:
    """Say what was done; ``next`` is the page to go to afterwards, by default the same."""
    if isinstance(outcome, str):
        return _show_receipt(visit, outcome, next=next)
    if isinstance(outcome, Receipt):
        counts = ((outcome.facts, "fact"), (outcome.events, "turn"), (outcome.entities, "name"))
        message = f"Gone: {', '.join(format_count(count, noun) for count, noun in counts)}."
        return _show_receipt(visit, message, next=next)
    undo = {"ingest": outcome.ingest_id} if outcome.ingest_id else None
    message = f"Gone: {format_count(outcome.turns, 'turn')}." if outcome.turns else ""
    return _show_receipt(visit, message, _list_rows(outcome), undo, next)


def _show_receipt(
    visit: Visit,
    message: str,
    rows: Sequence[tuple[str, str]] = (),
    undo: Mapping[str, str] | None = None,
    next: str = "",
) -> HTMLResponse:
    return visit.show(
        "change.html", title="Done", message=message, rows=rows, confirm=None, undo=undo, next=next, staying={}
    )


def _list_rows(change: MemoryChange) -> list[tuple[str, str]]:
    """List what was and what is in its place."""
    rows = [(_describe_version(fact.before), _describe_version(fact.after)) for fact in change.facts]
    return rows + [(", ".join(entity.before), ", ".join(entity.after)) for entity in change.entities]


def _describe_version(fact: FactVersion | None) -> str:
    if fact is None:
        return ""
    held = fact.state != "retracted"
    notes = (
        "" if fact.state == "current" else ENDING_NOTES["replaced" if held else "retracted"],
        "pinned" if fact.is_pinned else "",
        f"since {format_english_date(fact.valid_from, 'day')}" if fact.valid_from and held else "",
        f"until {format_english_date(fact.valid_to, 'day', is_end=True)}" if fact.valid_to and held else "",
    )
    note = ", ".join(filter(None, notes))
    return f"{fact.text} ({note})" if note else fact.text


_Find = Callable[[UserMemory, str], Awaitable[Proposal | HeldFact]]


# -- the changes ------------------------------------------------------------------------------------------------


def _rule(method: Callable[..., Awaitable[MemoryChange]], *names: str) -> Change:
    """Make the change that a method of the memory makes, with these fields and the reason, if there is one."""

    async def rule(visit: Visit, fields: Fields, *, preview: bool) -> MemoryChange:
        arguments = [_get_field(fields, name) for name in names]
        return await method(visit.user, *arguments, reason=fields.get("reason", ""), preview=preview)

    return rule


async def _correct(visit: Visit, fields: Fields, *, preview: bool) -> MemoryChange:
    zone = await visit.user.engine.speakers.find_zone(visit.user.scope)
    dates: dict[str, datetime | None] = {}
    for name, days in (("valid_from", 0), ("valid_to", 1)):  # what held until a day ends when the next one begins
        if (day := fields.get(name, "")) != fields.get(f"{name}_was", ""):
            dates[name] = _parse_day(day, zone, days)
    return await visit.user.correct(
        _get_field(fields, "id"),
        text=fields.get("text") or None,
        reason=fields.get("reason", ""),
        preview=preview,
        **dates,
    )


async def _forget(visit: Visit, fields: Fields, *, preview: bool) -> Outcome:
    forget = visit.user.preview_forget if preview else visit.user.forget
    return await forget(_get_field(fields, "id"), with_turns=fields.get("with_turns") == "yes")


async def _undo(visit: Visit, fields: Fields, *, preview: bool) -> Outcome:
    undo = visit.user.preview_undo if preview else visit.user.undo
    return await undo(_get_field(fields, "ingest"))


async def _accept(visit: Visit, fields: Fields, *, preview: bool) -> Outcome:
    return await visit.user.accept_proposal(_get_field(fields, "id"), preview=preview)


def _decide(find: _Find, method: _Find, before: str, after: str) -> Change:
    """Make the change that a method of the memory makes of what waits for its owner, and say so before and after.

    Without a change, the other function only makes sure that it still waits.
    """

    async def decide(visit: Visit, fields: Fields, *, preview: bool) -> Outcome:
        await (find if preview else method)(visit.user, _get_field(fields, "id"))
        return before if preview else after

    return decide


def _get_field(fields: Fields, name: str) -> str:
    if not (value := fields.get(name, "").strip()):
        raise HTTPException(422, f"The field {name!r} is missing.")
    return value


def _parse_day(day: str, zone: tzinfo, days: int) -> datetime | None:
    """Parse a day of a form, as its first moment in a zone, some days later; None if it was cleared."""
    if not day:
        return None
    try:
        return datetime.combine(date.fromisoformat(day) + timedelta(days), time.min, zone)
    except (ValueError, OverflowError) as error:
        raise HTTPException(422, f"{day!r} is no day such as 2026-05-29.") from error


_DATES = ("valid_from", "valid_from_was", "valid_to", "valid_to_was")
ACTIONS: Mapping[str, Action] = {
    "correct": Action("Correct it?", "Correct", _correct, ("id", "text", *_DATES, "reason")),
    "pin": Action(
        "Pin it?", "Pin", _rule(UserMemory.pin, "id"), ("id", "reason"), "Nothing that is said will end or reword it."
    ),
    "unpin": Action(
        "Unpin it?",
        "Unpin",
        _rule(UserMemory.unpin, "id"),
        ("id", "reason"),
        "Whatever was said while it was pinned counts again.",
    ),
    "retract": Action(
        "Was it never true?",
        "It was never true",
        _rule(UserMemory.retract, "id"),
        ("id", "reason"),
        "Its words stay; nothing that was said until now brings it back.",
    ),
    "rollback": Action(
        "Return to what it said?",
        "Return to it",
        _rule(UserMemory.rollback, "id", "revision"),
        ("id", "revision", "reason"),
    ),
    "merge": Action(
        "Are they one?", "They are one", _rule(UserMemory.merge, "name", "other"), ("name", "other", "reason")
    ),
    "split": Action(
        "Is it somebody else’s name?", "It is somebody else’s", _rule(UserMemory.split, "alias"), ("alias", "reason")
    ),
    "forget": Action(
        "Forget it for good?",
        "Forget it",
        _forget,
        ("id", "with_turns"),
        f"Memory will be what it would be if it had never heard it; the conversation itself stays. {CANNOT_BE_UNDONE}",
    ),
    "accept": Action("Accept this proposal?", "Accept", _accept, ("id",)),
    "decline": Action(
        "Decline it?",
        "Decline",
        _decide(
            owner.find_proposal, UserMemory.decline_proposal, "Memory stays as it is.", "Declined. Memory is as it was."
        ),
        ("id",),
    ),
    "release": Action(
        "Remember it?",
        "Remember",
        _decide(
            owner.find_held_fact,
            UserMemory.release,
            "It becomes part of memory, as if no guard had held it.",
            "It is remembered.",
        ),
        ("id",),
    ),
    "reject": Action(
        "Delete it for good?",
        "Delete",
        _decide(
            owner.find_held_fact,
            UserMemory.reject,
            f"The turn that it was read from stays. {CANNOT_BE_UNDONE}",
            "It is deleted.",
        ),
        ("id",),
    ),
    "undo": Action(
        "Take it back?",
        "Take it back",
        _undo,
        ("ingest",),
        "Everything that memory learned in that step goes; the rest stays.",
    ),
}
