"""Time how the session services append, read and list."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from functools import partial

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session

from benchmarks.latency.clock import Call, Contenders, time_in_turn
from benchmarks.latency.result import Result
from benchmarks.latency.scale import Scale
from benchmarks.latency.services import DATABASE, GRAPH, SQLITE, USER, Services
from benchmarks.latency.speech import Speaker, copy_events


async def append(services: Services, scale: Scale) -> AsyncIterator[Result]:
    """append_event at the end of a short and of a long session."""
    short, long = Speaker(1).make_events(scale.small), Speaker(2).make_events(scale.large)
    await asyncio.gather(*(services.fill_once(name, long) for name in (GRAPH, DATABASE)))

    async def enter() -> Contenders:
        contenders, events = {}, Speaker(3).make_events(scale.calls)
        for size, session_of in (
            (scale.small, partial(services.fill, events=short)),
            (scale.large, partial(services.fill_once, events=long)),
        ):
            for name in (GRAPH, DATABASE):
                session, service = await session_of(name), services[name]
                contenders[f"{name} {size}"] = [
                    partial(service.append_event, session, event) for event in _copy_as_new(events)
                ]
        return contenders

    times = await time_in_turn(scale.rounds, scale.warm_up, enter)
    for size in (scale.small, scale.large):
        ours, theirs = times[f"{GRAPH} {size}"], times[f"{DATABASE} {size}"]
        what = f"append_event, session of {size:,} events"
        yield Result(what, "ms", ours, 0.8, DATABASE, theirs, stretch=0.6)
    ours, theirs = times[f"{GRAPH} {scale.large}"], times[f"{GRAPH} {scale.small}"]
    yield Result(f"append_event, {scale.large:,} events against {scale.small}", "ms", ours, 1.3, "itself", theirs)


async def get(services: Services, scale: Scale) -> AsyncIterator[Result]:
    """get_session with all its events."""
    events = Speaker(4).make_events(scale.medium)
    times = await _measure_reading(services, scale, events, None)
    yield Result(f"get_session, {scale.medium:,} events", "ms", times[GRAPH], 1.1, SQLITE, times[SQLITE])


async def get_recent(services: Services, scale: Scale) -> AsyncIterator[Result]:
    """get_session with the last ten events of a long session."""
    times = await _measure_reading(
        services, scale, Speaker(2).make_events(scale.large), GetSessionConfig(num_recent_events=10)
    )
    what = f"get_session, last 10 of {scale.large:,} events"
    yield Result(what, "ms", times[GRAPH], 1.0, SQLITE, times[SQLITE])


async def _measure_reading(
    services: Services, scale: Scale, events: list[Event], config: GetSessionConfig | None
) -> dict[str, tuple[float, ...]]:
    names = (GRAPH, SQLITE)
    sessions = dict(
        zip(names, await asyncio.gather(*(services.fill_once(name, events) for name in names)), strict=True)
    )

    async def enter() -> Contenders:
        def call(name: str) -> Call:
            arguments = {"app_name": services.app_name, "user_id": USER, "session_id": sessions[name].id}
            return partial(services[name].get_session, **arguments, config=config)

        return {name: [call(name)] * scale.calls for name in names}

    return await time_in_turn(scale.rounds, scale.warm_up, enter)


async def list_sessions(services: Services, scale: Scale) -> AsyncIterator[Result]:
    """list_sessions of a user with many, each with some state."""
    names, user = (GRAPH, SQLITE, DATABASE), "user-of-many-sessions"

    async def fill(name: str) -> None:
        for number in range(scale.sessions):
            state = {"topic": f"topic {number}", "turn": number, "open": number % 2 == 0}
            await services.create_session(name, user, state=state)

    await asyncio.gather(*map(fill, names))

    async def enter() -> Contenders:
        arguments = {"app_name": services.app_name, "user_id": user}
        return {name: [partial(services[name].list_sessions, **arguments)] * scale.calls for name in names}

    times = await time_in_turn(scale.rounds, scale.warm_up, enter)
    for peer, bar in ((SQLITE, 1.2), (DATABASE, 0.5)):
        yield Result(f"list_sessions, {scale.sessions:,} sessions", "ms", times[GRAPH], bar, peer, times[peer])


async def append_concurrently(services: Services, scale: Scale) -> AsyncIterator[Result]:
    """Many sessions that are appended to at once."""
    events, refused = Speaker(5).make_events(scale.appends), [0]

    async def enter() -> Contenders:
        return {
            name: [partial(_append_at_once, services[name], await make_writers(name), refused)]
            for name in (GRAPH, SQLITE)
        }

    async def make_writers(name: str) -> list[tuple[Session, list[Event]]]:
        users = [f"writer-{number}" for number in range(scale.writers)]
        return [(await services.create_session(name, user), _copy_as_new(events)) for user in users]

    times = await time_in_turn(scale.rounds, scale.warm_up, enter)
    count = scale.writers * scale.appends
    rates = {name: tuple(1_000 * count / value for value in values) for name, values in times.items()}
    what = f"{scale.writers} sessions × {scale.appends} appends at once"
    note = f"{SQLITE} was refused {refused[0]} times ('database is locked') and tried again" if refused[0] else ""
    yield Result(
        what, "appends/s", rates[GRAPH], 1.5, SQLITE, rates[SQLITE], stretch=2.0, more_is_better=True, note=note
    )


async def _append_at_once(
    service: BaseSessionService, writers: list[tuple[Session, list[Event]]], refused: list[int]
) -> None:
    async def write(session: Session, events: list[Event]) -> None:
        for event in events:
            while True:
                try:
                    await service.append_event(session, event)
                    break
                except sqlite3.OperationalError:  # what SQLite says after waiting 5 s for its lock
                    refused[0] += 1

    await asyncio.gather(*(write(session, events) for session, events in writers))


def _copy_as_new(events: list[Event]) -> list[Event]:
    """Copies under new ids: the same words said again."""
    return [event.model_copy(update={"id": Event.new_id()}) for event in copy_events(events)]
