"""ADK's events become turns."""

from __future__ import annotations

from google.adk.events import Event, EventActions
from google.adk.events._rewind_events import _apply_rewinds  # what ADK itself goes by
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory.adk import entries


def event(number: int, invocation: int, rewound: int | None) -> Event:
    return Event(
        id=str(number),
        author="user",
        invocation_id=f"i{invocation}",
        content=types.Content(role="user", parts=[types.Part(text=f"words {number}")]),
        actions=EventActions(rewind_before_invocation_id=None if rewound is None else f"i{rewound}"),
    )


@given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.none() | st.integers(0, 6)), max_size=12))
def test_what_was_told_is_what_adk_still_shows_to_a_model(given: list[tuple[int, int | None]]) -> None:
    events = [event(number, *one) for number, one in enumerate(given)]
    turns, undone = entries.told(events)
    assert [turn.id for turn in turns] == [one.id for one in _apply_rewinds(events)]
    assert {turn.id for turn in turns} | {turn.id for turn in undone} == {one.id for one in events}


def test_only_what_is_new_is_told_unless_it_takes_something_back() -> None:
    events = [event(0, 0, None), event(1, 1, None), event(2, 2, None)]
    assert [turn.id for turn in entries.told(events, 2)[0]] == ["2"]
    assert entries.told(events, 2)[1] == []
    turns, undone = entries.told([*events, event(3, 3, 1), event(4, 4, None)], 3)
    assert [turn.id for turn in turns] == ["4"]
    assert [turn.id for turn in undone] == ["1", "2", "3"]
